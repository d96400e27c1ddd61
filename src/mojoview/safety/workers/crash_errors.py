"""Exceptions for calls whose worker crashed, exited or was killed."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from mojoview.memory.errors import KernelCrashed, KernelMemoryError, KernelTimeout, MojoSafetyError
from mojoview.safety.workers.arena import PAGE, ArrayCopy, Layout
from mojoview.safety.workers.crash_report import CrashReport

__all__ = ["crash_error", "timeout_error"]


def timeout_error(name: str, timeout: float | None, report: CrashReport, output: str) -> KernelTimeout:
    """Return the exception for a worker that was killed because the kernel did not finish in time."""
    stack = report.stack()
    where = f"; it was in {report.location()}" if stack else ""
    error = KernelTimeout(
        f"safe_call({name}): the kernel did not finish within {timeout} s and was killed{where}", kernel=name
    )
    error.stack, error.output = stack, output
    return error


def crash_error(
    name: str,
    status: int,
    report: CrashReport,
    output: str,
    copies: Sequence[ArrayCopy],
    layout: Layout,
    limit: int | None,
) -> MojoSafetyError:
    """Return the exception for a worker that ended in a call, with the argument beside which it accessed memory."""
    if report.signal and report.signal != -status:  # the kernel has overwritten the record
        report = CrashReport(0, report.arena, 0, None, "", ())
    number = max(0, -status)
    stack = report.stack()
    where = f" in {report.location()}" if stack else ""
    if report.failed_alloc and number:
        allowed = "" if limit is None else f" (limit: {limit} bytes)"
        error = KernelMemoryError(
            f"safe_call({name}): the kernel was killed by {_signal_name(number)}{where} after it was refused "
            f"{report.failed_alloc} bytes{allowed}",
            kernel=name,
        )
        error.refused = report.failed_alloc
        return error
    argument, location = _argument_at(report, copies, layout)
    if number == 0:
        what = f"exited with status {status}"
    else:
        what = f"was killed by {_signal_name(number)}{where}"
        if location:
            what += f", {report.access or 'accessing memory'} {location}"
        elif report.address is not None and number in (signal.SIGSEGV, signal.SIGBUS):
            what += f", {report.access or 'accessing memory'} at {report.address:#x}"
        if number == signal.SIGKILL and report.signal == 0:
            what += " (sent from outside: by the system if memory ran out, or by another process)"
    printed = f"\n{output.rstrip()}" if output.strip() else ""
    crash = KernelCrashed(f"safe_call({name}): the kernel {what}{printed}", kernel=name)
    crash.signal, crash.address, crash.argument = number, report.address, argument
    crash.stack, crash.output = stack, output
    return crash


def _argument_at(report: CrashReport, copies: Sequence[ArrayCopy], layout: Layout) -> tuple[str | None, str]:
    """Return the argument in or beside whose guarded memory the access was, and on which side."""
    if report.address is None or not layout.pages:
        return None, ""
    offset = report.address - report.arena
    for place, copy in zip(layout.placements, copies, strict=True):
        if place.reserved_start - PAGE <= offset < place.reserved_end + PAGE:
            if place.reserved_start <= offset < place.reserved_end:
                return copy.name, f"in argument '{copy.name}', which is an input"
            side = "before" if offset < place.reserved_start else "beyond"
            return copy.name, f"{side} the memory of argument '{copy.name}'"
    return None, ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
