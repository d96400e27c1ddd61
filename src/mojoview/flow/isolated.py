"""Calls in a worker process: arrays copied into shared memory, and back only when the kernel has done its work."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mojoview.flow.arena import FILLER, PAGE, Array, Layout, Region, is_fortran, place_arrays
from mojoview.flow.arguments import Argument, Call
from mojoview.flow.autopsy import Autopsy
from mojoview.flow.crew import CREW
from mojoview.flow.guarded import check_finite, guard_error
from mojoview.flow.passport import Reported, passport_of
from mojoview.flow.worker_process import WorkerProcess
from mojoview.kernels._prepared import failure_of
from mojoview.kernels.arguments import told
from mojoview.memory.errors import (
    KernelCrashed,
    KernelMemoryError,
    KernelTimeout,
    MojoSafetyError,
    MojoViewError,
)

__all__ = ["run_isolated"]

MOST_ROUTES = 64
ATTEMPTS = 3  # at handing a call to a worker that turns out to be dead before it begins


class _Route(NamedTuple):
    """What a worker and its memory keep for calls of one kernel on arrays of the same shapes.

    Attributes
    ----------
    number : int
        The worker's name for it, once it has made such a call.
    layout : Layout
    told : tuple
        What the worker is told of the arrays.
    copies : list of ndarray
    slacks : list of ndarray
        With safety="strict" what lies before the copies.
    """

    number: int
    layout: Layout
    told: Any
    copies: list[Array]
    slacks: list[Array]


def run_isolated(call: Call, timeout: float | None, limit: int | None, strict: bool, finite: bool) -> Any:
    """The call's result. The caller's arrays change only where everything was in order."""
    kernel = call.kernel
    name, passport = kernel.name, passport_of(kernel)
    regions, masks = _regions(call)
    for attempt in range(ATTEMPTS):
        with CREW.lend(None if timeout is None else time.monotonic() + timeout, name) as worker:
            route = _route(worker, passport.key, call, regions, masks, strict)
            copies, slacks = route.copies, route.slacks
            for copy, region in zip(copies, regions, strict=True):
                np.copyto(copy, region.array)
            for slack in slacks:
                slack[:] = FILLER
            begun = worker.begin()
            try:
                if route.number in worker.routes and limit is None and not call.options:
                    worker.repeat(timeout, route.number, call.values)
                else:
                    details = (route.number, route.told, call.values, call.prepared, call.options, route.layout.pages)
                    worker.ask(timeout, passport, *details, limit)
                done, value = worker.answer()
            except TimeoutError:
                raise _late(name, timeout, worker.stop_and_look(), worker.output()) from None
            except (EOFError, ConnectionError):
                status, record = worker.reap(), worker.autopsy()
                if record.begun == begun and record.signal == 0 and attempt + 1 < ATTEMPTS:
                    # it was killed before it began: the call is as good as new
                    CREW.discard(worker)
                    continue
                raise _dead(name, status, record, worker.output(), regions, route.layout, limit) from None
            printed = worker.output()
            if printed:
                print(printed, end="", file=sys.stdout)
            for slack, region in zip(slacks, regions, strict=strict):
                if region.writes and (slack != FILLER).any():
                    raise guard_error(name, f"it wrote before the memory of argument '{region.name}'", region.name)
            if not done:
                for copy, region in zip(copies, regions, strict=True):
                    if region.array is call.message:
                        np.copyto(region.array, copy)
            elif finite:
                written = [(copy, region) for copy, region in zip(copies, regions, strict=True) if region.writes]
                failure = _not_finite(name, value, written)
                if failure is not None:
                    done, value = False, failure
            if done:
                for copy, region in zip(copies, regions, strict=True):
                    if region.writes:
                        np.copyto(region.array, copy)
        break
    if not done:
        try:
            raise told(failure_of(kernel, *value.args) if type(value) is Reported else value, call.message)
        finally:
            del value  # the exception holds this frame: it must not hold the exception
    return call.result(value)


def _regions(call: Call) -> tuple[Sequence[Region], dict[int, int]]:
    """What is copied, and for each masked parameter which of it is its mask."""
    for argument in call.arguments:
        if argument.mask is not None:
            break
    else:
        return call.arguments, {}
    regions: list[Region] = []
    masks: dict[int, int] = {}
    for argument in call.arguments:
        regions.append(argument)
        if argument.mask is not None:
            masks[argument.at] = len(regions)
            regions.append(Argument(argument.at, argument.name, False, argument.mask))
    return regions, masks


def _route(
    worker: WorkerProcess, kernel: int, call: Call, regions: Sequence[Region], masks: dict[int, int], strict: bool
) -> _Route:
    """Where the copies lie. Remembered for calls of the same shapes."""
    parts: list[Any] = [kernel, strict]
    for argument in call.arguments:
        array = argument.array
        parts += (argument.at, argument.mask is None, array.shape, array.dtype, array.strides)
    if masks:
        parts += [argument.mask.strides for argument in call.arguments if argument.mask is not None]
    key = tuple(parts)
    found: _Route | None = worker.layouts.get(key)
    if found is not None:
        return found
    layout = place_arrays(regions, strict)
    places, k = [], 0
    for argument in call.arguments:
        array, mask = argument.array, masks.get(argument.at, -1)
        place = (argument.at, layout.places[k].start, array.shape, array.dtype.str, is_fortran(array), argument.writes)
        places.append((*place, -1 if mask < 0 else layout.places[mask].start))
        k += 1 if mask < 0 else 2
    arena = worker.require_arena(layout.nbytes)  # another arena forgets the routes on the last
    copies = [arena.window(place, region.array) for place, region in zip(layout.places, regions, strict=True)]
    slacks = [arena.slack(place) for place in layout.places] if strict else []
    if len(worker.layouts) >= MOST_ROUTES:
        worker.forget_routes()
    route = _Route(len(worker.layouts), layout, tuple(places), copies, slacks)
    worker.layouts[key] = route
    return route


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
