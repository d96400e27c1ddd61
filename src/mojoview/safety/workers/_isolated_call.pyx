"""Calls in a worker process: arrays are copied into shared memory, and outputs back only after the call succeeded."""

from mojoview.safety._bound_call cimport Argument, BoundCall
from mojoview.safety.workers._channel cimport Channel

import sys
import time

from mojoview.calls._kernel import error_of
from mojoview.calls.arguments import with_kernel_message
from mojoview.memory.errors import KernelError, MojoSafetyError
from mojoview.safety.strict import check_finite, guard_error
from mojoview.safety.workers.arena import GUARD_PATTERN as _GUARD_PATTERN, is_fortran, place_arrays
from mojoview.safety.workers.crash_errors import crash_error, timeout_error
from mojoview.safety.kernel_reference import KernelStatus, reference_to
from mojoview.safety.workers.reply import MalformedReply
from mojoview.safety.workers.worker_pool import POOL

cdef enum:
    MAX_PLANS = 64   # per worker
    MAX_ATTEMPTS = 3  # to make a call, if workers die before it starts


cdef class _CallPlan:
    """Calls of one kernel on arrays of the same shapes, by one worker."""
    cdef int number         # names the plan in messages to the worker
    cdef bint registered    # whether the worker has it
    cdef object layout
    cdef tuple arrays       # description of the arrays for the worker
    cdef list windows       # ndarrays in shared memory, one for each copy
    cdef list guards        # with safety="strict" the guard bytes before each copy


def run_isolated(BoundCall call not None, timeout, limit, bint strict, bint finite):
    """run_isolated(call, timeout, limit, strict, finite)

    Make a call in a worker process. The caller's arrays change only if it succeeds.

    Parameters
    ----------
    call : BoundCall
    timeout : float or None
        Seconds.
    limit : int or None
        Bytes that the kernel may allocate.
    strict : bool
        Whether to place the copies between inaccessible pages.
    finite : bool
        Whether NaN and infinities are an error.

    Returns
    -------
    object
        Result for the caller.

    Raises
    ------
    MojoViewError
        See `safe_call`.

    Notes
    -----
    Thread safety: any thread.
    """
    cdef int attempt
    deadline = None if timeout is None else time.monotonic() + timeout
    for attempt in range(1, MAX_ATTEMPTS + 1):
        worker, deadline = POOL.acquire(deadline, call.kernel.name)
        try:
            reply = call_worker(worker, call, timeout, deadline, limit, strict, finite, attempt < MAX_ATTEMPTS)
        except BaseException:
            POOL.discard(worker)
            raise
        if reply is not None:
            if worker.channel.has_stray_bytes():  # its kernel wrote to the connection: not for another call
                POOL.discard(worker)
            else:
                POOL.release(worker)
            break
        POOL.discard(worker)
    done, value = reply
    if done:
        return call.result(value)
    error = error_of(call.kernel, *value.args) if type(value) is KernelStatus else value
    raise with_kernel_message(error, call.message)


cdef tuple call_worker(
    object worker, BoundCall call, object timeout, object deadline, object limit, bint strict, bint finite, bint retry
):
    """Return whether the call succeeded, and its result or exception.

    With `retry`, return None if the worker died before it started the call.
    """
    cdef Argument copy
    cdef Py_ssize_t k
    cdef list copies = call.arguments if not call.masked else with_masks(call)
    reference = reference_to(call.kernel)
    cdef _CallPlan plan = plan_for(worker, reference.key, call, copies, strict)
    for k in range(len(copies)):
        plan.windows[k][...] = (<Argument>copies[k]).array
    for guard in plan.guards:
        guard[:] = _GUARD_PATTERN
    reply = exchange(worker, call, plan, reference, copies, timeout, deadline, limit, retry)
    if reply is None:
        return None
    done, value = reply
    printed = worker.output()
    if printed:
        print(printed, end="", file=sys.stdout)
    for k, guard in enumerate(plan.guards):
        copy = copies[k]
        if copy.writes and (guard != _GUARD_PATTERN).any():
            raise guard_error(call.kernel.name, f"it wrote before the memory of argument '{copy.name}'", copy.name)
    if not done:
        for k, copy in enumerate(copies):
            if copy.array is call.message:
                copy.array[...] = plan.windows[k]
        return False, value
    if not plan.registered:
        plan.registered, worker.new_arena = True, False
        worker.kernels.add(reference.key)
    if finite:
        written = [(copy.name, plan.windows[k]) for k, copy in enumerate(copies) if copy.writes]
        try:
            check_finite(call.kernel.name, value, written)
        except MojoSafetyError as error:
            return False, error
    for k in range(len(copies)):
        copy = copies[k]
        if copy.writes:
            copy.array[...] = plan.windows[k]
    return True, value


cdef object exchange(
    object worker, BoundCall call, _CallPlan plan, object reference, list copies, object timeout, object deadline,
    object limit, bint retry
):
    """Send a call to the worker and return its reply; see `call_worker` for `retry`."""
    cdef Channel channel = worker.channel
    channel.memory.crash.failed_alloc[0] = channel.memory.crash.failed_alloc[1] = 0
    started = channel.memory.crash.calls_started
    try:
        if not (plan.registered and limit is None and not call.options and channel.send(plan.number, call.scalars)):
            new = None if reference.key in worker.kernels else reference
            details = reference.key, new, plan.arrays, len(call.values), call.prepared, plan.layout.pages
            worker.send_request(deadline, (plan.number, details, list(call.scalars), call.options, limit))
        return worker.receive_reply(deadline)
    except TimeoutError:
        raise timeout_error(call.kernel.name, timeout, worker.abort_and_report(), worker.output()) from None
    except (EOFError, ConnectionError, MalformedReply) as error:
        status, report = worker.wait_exit(), worker.crash_report()
        if status is None:
            raise KernelError(f"safe_call({call.kernel.name}): a kernel wrote to the connection of its worker process, "
                              f"which was ended ({error})", kernel=call.kernel.name) from None
        if retry and channel.memory.crash.calls_started == started and report.signal == 0:
            return None  # the worker died before starting: safe to retry
        raise crash_error(call.kernel.name, status, report, worker.output(), copies, plan.layout, limit) from None


cdef list with_masks(BoundCall call):
    """Return the array arguments, each followed by its mask."""
    cdef Argument argument
    copies = []
    for argument in call.arguments:
        copies.append(argument)
        if argument.mask is not None:
            copies.append(Argument(argument.index, argument.name, False, argument.mask))
    return copies


cdef _CallPlan plan_for(object worker, object kernel, BoundCall call, list copies, bint strict):
    """Return the worker's plan for calls of these shapes; if there is none, make it."""
    cdef Argument argument
    cdef _CallPlan plan
    cdef Py_ssize_t k
    parts = [kernel, strict]
    for argument in call.arguments:
        array = argument.array
        parts.append(argument.index)
        if argument.mask is not None:
            parts.append(argument.mask.strides)
        parts.append(array.shape)
        parts.append(array.dtype)
        parts.append(array.strides)
    key = tuple(parts)
    plan = (<dict>worker.plans).get(key)
    if plan is not None:
        return plan
    plan = _CallPlan.__new__(_CallPlan)
    plan.layout = place_arrays(copies, strict)
    placements, arrays, k = plan.layout.placements, [], 0
    for argument in call.arguments:
        array, start = argument.array, placements[k].start
        mask = -1 if argument.mask is None else placements[k + 1].start
        arrays.append((argument.index, start, array.shape, array.dtype.str, is_fortran(array), argument.writes, mask))
        k += 1 if argument.mask is None else 2
    plan.arrays = tuple(arrays)
    arena = worker.require_arena(plan.layout.nbytes)  # a new arena drops the plans for the former one
    plan.windows = [arena.window(place, (<Argument>copies[k]).array) for k, place in enumerate(placements)]
    plan.guards = [arena.guard_bytes(place) for place in placements] if strict else []
    if len(worker.plans) >= MAX_PLANS:
        worker.plans.clear()
    plan.number = len(worker.plans)
    worker.plans[key] = plan
    return plan
