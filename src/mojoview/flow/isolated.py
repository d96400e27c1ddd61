"""Calls in a worker process: arrays copied into shared memory, and back only when the kernel has done its work."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mojoview.flow.arena import FILLER, PAGE, Array, Layout, Region, is_fortran, place_arrays
from mojoview.flow.arguments import Argument, Call
from mojoview.flow.autopsy import Autopsy
from mojoview.flow.crew import CREW
from mojoview.flow.guarded import check_finite, guard_error
from mojoview.flow.passport import passport_of
from mojoview.flow.worker_process import WorkerProcess
from mojoview.memory.errors import (
    KernelCrashed,
    KernelMemoryError,
    KernelTimeout,
    MojoSafetyError,
    MojoViewError,
)

__all__ = ["run_isolated"]

ATTEMPTS = 3  # at handing a call to a worker that turns out to be dead before it begins


def run_isolated(call: Call, timeout: float | None, limit: int | None, strict: bool, finite: bool) -> Any:
    """The call's result. The caller's arrays change only where everything was in order."""
    name, passport = call.kernel.name, passport_of(call.kernel)
    regions, masks = _regions(call)
    for attempt in range(ATTEMPTS):
        with CREW.lend(None if timeout is None else time.monotonic() + timeout, name) as worker:
            layout, arrays, copies, slacks = _layout(worker, call, regions, masks, strict)
            for copy, region in zip(copies, regions, strict=True):
                np.copyto(copy, region.array)
            for slack in slacks:
                slack[:] = FILLER
            begun = worker.begin()
            try:
                worker.ask(timeout, passport, arrays, call.values, call.options, layout.pages, limit)
                done, value = worker.answer()
            except TimeoutError:
                raise _late(name, timeout, worker.stop_and_look(), worker.output()) from None
            except (EOFError, ConnectionError):
                status, record = worker.reap(), worker.autopsy()
                if record.begun == begun and record.signal == 0 and attempt + 1 < ATTEMPTS:
                    # it was killed before it began: the call is as good as new
                    CREW.discard(worker)
                    continue
                raise _dead(name, status, record, worker.output(), regions, layout, limit) from None
            printed = worker.output()
            if printed:
                print(printed, end="", file=sys.stdout)
            for slack, region in zip(slacks, regions, strict=strict):
                if region.writes and (slack != FILLER).any():
                    raise guard_error(name, f"it wrote before the memory of argument '{region.name}'", region.name)
            written = [(copy, region) for copy, region in zip(copies, regions, strict=True) if done and region.writes]
            if finite and done:
                failure = _not_finite(name, value, written)
                if failure is not None:
                    done, value, written = False, failure, []
            for copy, region in written:
                np.copyto(region.array, copy)
        break
    if not done:
        try:
            raise value
        finally:
            del value  # the exception holds this frame: it must not hold the exception
    return value


def _regions(call: Call) -> tuple[Sequence[Region], dict[int, int]]:
    """What is copied, and for each masked parameter which of it is its mask."""
    if all([argument.mask is None for argument in call.arguments]):
        return call.arguments, {}
    regions, masks = list[Region](), dict[int, int]()
    for argument in call.arguments:
        regions.append(argument)
        if argument.mask is not None:
            masks[argument.at] = len(regions)
            regions.append(Argument(argument.at, argument.name, False, argument.mask))
    return regions, masks


def _layout(
    worker: WorkerProcess, call: Call, regions: Sequence[Region], masks: dict[int, int], strict: bool
) -> tuple[Layout, Any, list[Array], list[Array]]:
    """Where the copies lie, what the worker is told of the arrays, the copies, and with `strict` what lies before them.

    Remembered for calls of the same shapes.
    """
    key = (
        strict,
        tuple([(r.array.shape, r.array.dtype, r.array.strides, r.writes) for r in regions]),
        tuple([argument.at for argument in call.arguments]),
        tuple(masks.items()),
    )
    found = worker.layouts.get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]
    layout = place_arrays(regions, strict)
    told, k = [], 0
    for argument in call.arguments:
        array, mask = argument.array, masks.get(argument.at, -1)
        place = (argument.at, layout.places[k].start, array.shape, array.dtype.str, is_fortran(array), argument.writes)
        told.append((*place, -1 if mask < 0 else layout.places[mask].start))
        k += 1 if mask < 0 else 2
    arena = worker.require_arena(layout.nbytes)  # another arena forgets the layouts of the last
    copies = [arena.window(place, region.array) for place, region in zip(layout.places, regions, strict=True)]
    slacks = [arena.slack(place) for place in layout.places] if strict else []
    if len(worker.layouts) >= 64:
        worker.layouts.clear()
    worker.layouts[key] = (layout, tuple(told), copies, slacks)
    return layout, tuple(told), copies, slacks


def _not_finite(name: str, value: Any, written: list[tuple[np.ndarray[Any, Any], Region]]) -> MojoViewError | None:
    try:
        check_finite(name, value, [(region.name, copy) for copy, region in written])
    except MojoSafetyError as error:
        return error
    return None


def _late(name: str, timeout: float | None, record: Autopsy, output: str) -> KernelTimeout:
    stack = record.stack()
    where = f"; it was in {record.place()}" if stack else ""
    error = KernelTimeout(
        f"safe_call({name}): the kernel did not finish within {timeout} s and was ended{where}", kernel=name
    )
    error.stack, error.output = stack, output
    return error


def _dead(
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
