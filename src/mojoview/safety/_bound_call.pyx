"""Bound calls: checked arguments, split into arrays that can be copied and scalars that can be sent."""

cimport cython

from mojoview.memory._lease cimport Lease, lease_owner
from mojoview.memory.abi cimport mv_desc
from mojoview.views._borrowing cimport enter_borrow
from mojoview.views._view cimport View, view_enter, view_leave

from weakref import WeakKeyDictionary

import numpy as np

from mojoview.calls._kernel import validate
from mojoview.calls.arguments import CONTAINERS as _CONTAINERS, ArgumentPlan, pack_results
from mojoview.calls.binding import bind
from mojoview.memory.errors import ArgumentError, DTypeError
from mojoview.views import view
from mojoview.views._construct import has_accessor


@cython.final
cdef class Argument:
    """Argument(index, name, writes, array, mask=None)

    An array argument.

    Attributes
    ----------
    index : int
        Position of its parameter.
    name : str
    writes : bool
    array : ndarray
        The caller's own memory.
    mask : ndarray or None
        True where an element is missing.
    """

    def __init__(self, int index, str name, bint writes, array, mask=None):
        self.index, self.name, self.writes, self.array, self.mask = index, name, writes, array, mask


@cython.final
cdef class BoundCall:
    """A checked call, made by `bind_call()`. As a context manager it ends its borrows.

    Attributes
    ----------
    kernel : Kernel
    arguments : list of Argument
    values : tuple
        One for each parameter: a scalar, or None for an array.
    scalars : tuple
        The same, or empty if all are arrays.
    options : dict
        Those that differ from their defaults.
    prepared : bool
        Whether the arguments are already converted, so that the kernel must be called by `invoke_bound()`.
    masked : bool
        Whether an argument has a mask.
    allocated : list of ndarray
        Outputs that the caller left out and gets with the result.
    message : ndarray or None
        The buffer into which the kernel writes an error message.
    """

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.borrow = None  # an exception may keep this object alive

    def result(self, value):
        """result(value)

        Return what the caller gets, once the arrays hold what the kernel wrote.
        """
        return pack_results(value, self.allocated) if self.allocated else value


cdef class _Parameters:
    """Parameters of a kernel, in the form that binding a call needs."""
    cdef list params            # of (name, whether it is a scalar, whether it is written to)
    cdef dict defaults          # of the options
    cdef object plan
    cdef bint direct            # whether the caller passes every parameter, in the form in which the kernel takes it
    cdef bint masks


cdef object PARAMETERS = WeakKeyDictionary()
cdef dict NO_OPTIONS = {}
cdef object NDARRAY = np.ndarray
cdef tuple NUMBERS = (float, int, np.generic)


cdef _Parameters parameters_of(object kernel):
    cdef _Parameters found = PARAMETERS.get(kernel)
    if found is None:
        found = _Parameters.__new__(_Parameters)
        signature = kernel.signature
        found.params = [(p.name, p.role == "value", p.writes) for p in signature.params]
        own = {p.name for p in signature.params}
        found.defaults = {n: p.default for n, p in kernel.__signature__.parameters.items() if n not in own}
        found.plan = None if kernel.owner is None else ArgumentPlan(signature)
        found.direct = found.plan is None or not found.plan.needs_conversion
        found.masks = signature.masks
        PARAMETERS[kernel] = found
    return found


cdef bint has_container(tuple own):
    """Return whether an argument is a list, a tuple or a dict, or an output that is left out."""
    for obj in own:
        if obj is None or type(obj) in _CONTAINERS:
            return True
    return False


def bind_call(kernel, tuple args, dict options, bint borrow):
    """bind_call(kernel, args, options, borrow)

    Bind and check arguments as a call does.

    Parameters
    ----------
    kernel : Kernel
    args : tuple
    options : dict
        Keyword arguments of the call.
    borrow : bool
        Whether to borrow the memory of the arrays, inputs for reading and outputs for writing.

    Returns
    -------
    BoundCall
        Borrows the arrays.

    Raises
    ------
    MojoViewError
        Whatever the call would raise for these arguments.

    Notes
    -----
    Thread safety: any thread.
    """
    cdef _Parameters parameters = parameters_of(kernel)
    cdef BoundCall call = BoundCall.__new__(BoundCall)
    cdef Argument argument
    cdef Py_ssize_t index
    cdef bint scalar, writes, has_scalars = False
    own, rest = args, NO_OPTIONS
    if options or len(args) != len(parameters.params) or not parameters.direct:
        own, rest = bind(kernel.signature, kernel.__signature__, args, options)
        rest = {name: value for name, value in rest.items() if value is not parameters.defaults[name]}
    if parameters.plan is not None and (not parameters.direct or has_container(own)):
        own, call.allocated, call.message = parameters.plan.prepare(own)
    validate(kernel, own)
    arguments, values, views = [], [], []
    for index in range(len(parameters.params)):
        name, scalar, writes = parameters.params[index]
        obj = own[index]
        if type(obj) is NDARRAY and not borrow:
            argument = Argument.__new__(Argument)
            argument.index, argument.name, argument.writes, argument.array = index, name, writes, obj
        elif scalar or isinstance(obj, NUMBERS):
            values.append(as_python_scalar(obj))
            has_scalars = True
            continue
        else:
            opened = as_view(kernel, obj, writes, parameters.masks)
            views.append(opened)
            mask = opened.mask if parameters.masks else None
            array = obj if type(obj) is NDARRAY else np.asarray(opened.data if opened.masked else opened)
            argument = Argument(index, name, writes, array, None if mask is None else np.asarray(mask))
            call.masked = call.masked or mask is not None
        values.append(None)
        arguments.append(argument)
    call.kernel, call.arguments, call.options, call.prepared = kernel, arguments, rest, not parameters.direct
    call.values = tuple(values)
    call.scalars = call.values if has_scalars else ()
    if borrow:
        call.borrow = borrow_all(tuple(views))
    return call


def resolve_kernel(kernel, tuple args, dict options):
    """resolve_kernel(kernel, args, options)

    Return the kernel that a call goes to: for a decorated function its kernel, for a family the member that takes the
    arguments, and any other object itself.

    Parameters
    ----------
    kernel : object
    args : tuple
    options : dict

    Returns
    -------
    object

    Notes
    -----
    Thread safety: any thread.
    """
    from mojoview.calls._overloads import KernelFamily  # not needed by most programs
    from mojoview.loading.mojo.decorator import BoundKernel
    if isinstance(kernel, BoundKernel):
        kernel = kernel.kernel
    return kernel.kernel_for(*args, **options) if isinstance(kernel, KernelFamily) else kernel


cdef object as_python_scalar(object obj):
    """Convert a scalar, which `validate()` has accepted, to float, int or bool; return anything else as it is."""
    if type(obj) is float or type(obj) is int or type(obj) is bool or not isinstance(obj, NUMBERS):
        return obj
    return obj.item() if isinstance(obj, np.generic) else float(obj) if isinstance(obj, float) else int(obj)


cdef object as_view(object kernel, object obj, bint writes, bint masks):
    if isinstance(obj, View) and not writes:
        opened = obj
    elif has_accessor(obj):
        opened = obj.mojo.view(na="mask") if masks else obj.mojo.view()
    else:
        opened = view(obj, writable=writes)
    if not isinstance(opened, View):
        kind = ArgumentError if has_accessor(obj) else DTypeError
        raise kind(f"safe_call({kernel.name}): expected one array or column, got a {type(obj).__name__}")
    return opened


cdef Lease borrow_all(tuple views):
    """Borrow the memory of all views for the life of the lease, whether or not `borrow_check()` is on.

    They do not conflict with each other. A view that was opened while checking was on keeps its own borrow.
    """
    cdef Lease lease = lease_owner(views)
    cdef View opened
    cdef mv_desc *d
    for opened in views:
        d = view_enter(opened)
        try:
            enter_borrow(opened._lease if opened._lease.borrow is not None else lease, d)
        finally:
            view_leave(opened)
    return lease
