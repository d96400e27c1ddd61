"""What a call raises whose worker was ended or has died."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from mojoview.safety.workers.arena import PAGE, Layout, Region
from mojoview.safety.workers.crash_report import Autopsy
from mojoview.memory.errors import KernelCrashed, KernelMemoryError, KernelTimeout, MojoSafetyError

__all__ = ["death", "lateness"]


def lateness(name: str, timeout: float | None, record: Autopsy, output: str) -> KernelTimeout:
    stack = record.stack()
    where = f"; it was in {record.place()}" if stack else ""
    error = KernelTimeout(
        f"safe_call({name}): the kernel did not finish within {timeout} s and was ended{where}", kernel=name
    )
    error.stack, error.output = stack, output
    return error


def death(
    name: str, status: int, record: Autopsy, output: str, regions: Sequence[Region], layout: Layout, limit: int | None
) -> MojoSafetyError:
    """The exception for a worker that died in a call."""
    number = record.signal or max(0, -status)
    stack = record.stack()
    where = f" in {record.place()}" if stack else ""
    if record.refused and number:
        allowed = "" if limit is None else f" (limit: {limit} bytes)"
        error = KernelMemoryError(
            f"safe_call({name}): the kernel died of {_signal(number)}{where} after it was refused "
            f"{record.refused} bytes{allowed}",
            kernel=name,
        )
        error.refused = record.refused
        return error
    argument, beside = _argument_at(record, regions, layout)
    if number == 0:
        what = f"exited with status {status}"
    else:
        what = f"died of {_signal(number)}{where}"
        if beside:
            what += f", {record.access or 'touching memory'} {beside}"
        elif record.address is not None and number in (signal.SIGSEGV, signal.SIGBUS):
            what += f", {record.access or 'touching memory'} at {record.address:#x}"
        if number == signal.SIGKILL and record.signal == 0:
            what += " (sent from outside: by the system where memory ran out, or by another process)"
    crash = KernelCrashed(
        f"safe_call({name}): the kernel {what}" + (f"\n{output.rstrip()}" if output.strip() else ""), kernel=name
    )
    crash.signal, crash.address, crash.argument, crash.stack, crash.output = (
        number,
        record.address,
        argument,
        stack,
        output,
    )
    return crash


def _argument_at(record: Autopsy, regions: Sequence[Region], layout: Layout) -> tuple[str | None, str]:
    """Beside or in which argument's guarded memory the fault lies."""
    if record.address is None or not layout.pages:
        return None, ""
    offset = record.address - record.arena
    for place, region in zip(layout.places, regions, strict=True):
        if place.low - PAGE <= offset < place.high + PAGE:
            if place.low <= offset < place.high:
                return region.name, f"in argument '{region.name}', which is an input"
            side = "before" if offset < place.low else "beyond"
            return region.name, f"{side} the memory of argument '{region.name}'"
    return None, ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
