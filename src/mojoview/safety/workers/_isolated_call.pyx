"""Calls in a worker process: arrays copied into shared memory, and back only when the kernel has done its work."""

from mojoview.safety._arguments cimport Argument, Call
from mojoview.safety.workers._channel cimport Post

import sys
import time

from mojoview.safety.workers.arena import FILLER as _FILLER, is_fortran, place_arrays
from mojoview.safety.workers.worker_pool import CREW
from mojoview.safety.workers.errors import death, lateness
from mojoview.safety.strict import check_finite, guard_error
from mojoview.safety.workers.kernel_reference import Reported, passport_of
from mojoview.calls._prepared import error_of
from mojoview.calls.arguments import with_kernel_message
from mojoview.memory.errors import MojoSafetyError

cdef enum:
    MOST_ROUTES = 64
    ATTEMPTS = 3  # at handing a call to a worker that turns out to be dead before it begins


cdef class _Route:
    """What a worker and its memory keep for calls of one kernel on arrays of the same shapes."""
    cdef int number         # the worker's name for it
    cdef bint known         # whether the worker has made such a call
    cdef object layout      # where the copies lie
    cdef tuple places       # what the worker is told of the arrays
    cdef list copies        # ndarrays in shared memory
    cdef list slacks        # with safety="strict" what lies before the copies


def run_isolated(Call call not None, timeout, limit, bint strict, bint finite):
    """run_isolated(call, timeout, limit, strict, finite)

    A call in a worker process. The caller's arrays change only where everything was in order.

    Parameters
    ----------
    call : Call
    timeout : float or None
        Seconds.
    limit : int or None
        Bytes that the kernel may allocate.
    strict : bool
        Whether the copies lie between pages that nobody may touch.
    finite : bool
        Whether NaN and infinities are an error.

    Returns
    -------
    object
        What the caller gets.

    Raises
    ------
    MojoViewError
        See `safe_call`.

    Notes
    -----
    Thread safety: any thread.
    """
    cdef int attempt
    for attempt in range(1, ATTEMPTS + 1):
        worker = CREW.take(None if timeout is None else time.monotonic() + timeout, call.kernel.name)
        try:
            reply = ask(worker, call, timeout, limit, strict, finite, attempt < ATTEMPTS)
        except BaseException:
            CREW.discard(worker)
            raise
        if reply is not None:
            CREW.give_back(worker)
            break
        CREW.discard(worker)
    done, value = reply
    if done:
        return call.result(value)
    raise with_kernel_message(error_of(call.kernel, *value.args) if type(value) is Reported else value, call.message)


cdef tuple ask(object worker, Call call, object timeout, object limit, bint strict, bint finite, bint again):
    """Whether the worker's call was good, and its result or exception; None if it died before it began, with `again`."""
    cdef Argument region
    cdef _Route route
    cdef Post post = worker.post
    cdef list regions = call.arguments if not call.masked else with_masks(call)
    cdef Py_ssize_t k
    passport = passport_of(call.kernel)
    route = route_for(worker, passport.key, call, regions, strict)
    for k in range(len(regions)):
        route.copies[k][...] = (<Argument>regions[k]).array
    for slack in route.slacks:
        slack[:] = _FILLER
    post.post.crash.refused = 0
    begun = post.post.crash.begun
    try:
        if not (route.known and limit is None and not call.options and post.send(route.number, call.scalars)):
            news = None if passport.key in worker.kernels else passport
            details = passport.key, news, route.places, len(call.values), call.prepared, route.layout.pages
            worker.ask(timeout, (route.number, details, list(call.scalars), call.options, limit))
        done, value = worker.answer(timeout)
    except TimeoutError:
        raise lateness(call.kernel.name, timeout, worker.stop_and_look(), worker.output()) from None
    except (EOFError, ConnectionError):
        status, record = worker.reap(), worker.autopsy()
        if again and record.begun == begun and record.signal == 0:  # killed before it began: the call is as good as new
            return None
        raise death(call.kernel.name, status, record, worker.output(), regions, route.layout, limit) from None
    printed = worker.output()
    if printed:
        print(printed, end="", file=sys.stdout)
    for k, slack in enumerate(route.slacks):
        region = regions[k]
        if region.writes and (slack != _FILLER).any():
            raise guard_error(call.kernel.name, f"it wrote before the memory of argument '{region.name}'", region.name)
    if not done:
        for k, region in enumerate(regions):
            if region.array is call.message:
                region.array[...] = route.copies[k]
        return False, value
    if not route.known:  # what it was told it has understood
        route.known, worker.new_arena = True, False
        worker.kernels.add(passport.key)
    if finite:
        written = [(region.name, route.copies[k]) for k, region in enumerate(regions) if region.writes]
        try:
            check_finite(call.kernel.name, value, written)
        except MojoSafetyError as error:
            return False, error
    for k in range(len(regions)):
        region = regions[k]
        if region.writes:
            region.array[...] = route.copies[k]
    return True, value


cdef list with_masks(Call call):
    """The arrays of a call, each mask after the array that it belongs to."""
    cdef Argument argument
    regions = []
    for argument in call.arguments:
        regions.append(argument)
        if argument.mask is not None:
            regions.append(Argument(argument.at, argument.name, False, argument.mask))
    return regions


cdef _Route route_for(object worker, object kernel, Call call, list regions, bint strict):
    """Where the copies lie. Remembered for calls of the same shapes."""
    cdef Argument argument
    cdef _Route route
    cdef Py_ssize_t k
    parts = [kernel, strict]
    for argument in call.arguments:
        array = argument.array
        parts.append(argument.at)
        if argument.mask is not None:
            parts.append(argument.mask.strides)
        parts.append(array.shape)
        parts.append(array.dtype)
        parts.append(array.strides)
    key = tuple(parts)
    route = (<dict>worker.routes).get(key)
    if route is not None:
        return route
    route = _Route.__new__(_Route)
    route.layout = place_arrays(regions, strict)
    places, k = [], 0
    for argument in call.arguments:
        array, place = argument.array, route.layout.places[k]
        mask = -1 if argument.mask is None else route.layout.places[k + 1].start
        places.append((argument.at, place.start, array.shape, array.dtype.str, is_fortran(array), argument.writes, mask))
        k += 1 if argument.mask is None else 2
    route.places = tuple(places)
    arena = worker.require_arena(route.layout.nbytes)  # another arena forgets the routes on the last
    route.copies = [arena.window(place, (<Argument>regions[k]).array) for k, place in enumerate(route.layout.places)]
    route.slacks = [arena.slack(place) for place in route.layout.places] if strict else []
    if len(worker.routes) >= MOST_ROUTES:
        worker.forget_routes()
    route.number = len(worker.routes)
    worker.routes[key] = route
    return route
