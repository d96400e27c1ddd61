"""The arguments of a call taken apart: arrays that can be copied, and scalars that can be carried."""

cimport cython

from weakref import WeakKeyDictionary

import numpy as np

from mojoview.safety._tracked_borrows import borrow
from mojoview.calls._prepared import validate
from mojoview.calls.arguments import CONTAINERS as _CONTAINERS, ArgumentPlan, pack_results
from mojoview.calls.binding import bind
from mojoview.memory.errors import ArgumentError, DTypeError
from mojoview.views import View, view
from mojoview.views._protocols import has_accessor


@cython.final
cdef class Argument:
    """Argument(at, name, writes, array, mask=None)

    An array argument.

    Attributes
    ----------
    at : int
        Which parameter.
    name : str
    writes : bool
    array : ndarray
        The caller's own memory.
    mask : ndarray or None
        True where an element is missing.
    """

    def __init__(self, int at, str name, bint writes, array, mask=None):
        self.at, self.name, self.writes, self.array, self.mask = at, name, writes, array, mask


@cython.final
cdef class Call:
    """A checked call, made by `take_apart()`. Its borrows end with the block that it is used in.

    Attributes
    ----------
    kernel : Kernel
    arguments : list of Argument
    values : tuple
        One for each parameter: a number, or None for an array.
    scalars : tuple
        The same, or empty where all are arrays.
    options : dict
        What is not as by default.
    prepared : bool
        Whether the kernel must be called past its own preparation, as some arguments are in the form that it makes.
    masked : bool
        Whether some argument has a mask.
    back : list of ndarray
        Made for the caller, who gets them with the result.
    message : ndarray or None
        Where a failing kernel writes its words.
    """

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.borrowed = None  # also where an exception keeps this object

    def result(self, value):
        """result(value)

        What the caller gets, once the arrays hold what the kernel wrote.
        """
        return pack_results(value, self.back) if self.back else value


cdef class _Form:
    """What a kernel takes, worked out once."""
    cdef list params            # of (name, whether it is a scalar, whether it is written to)
    cdef dict defaults          # of the options
    cdef object plan
    cdef bint simple            # whether every parameter is one that the caller passes, in the form in which it travels
    cdef bint masks


cdef object FORMS = WeakKeyDictionary()
cdef dict NO_OPTIONS = {}
cdef object NDARRAY = np.ndarray
cdef tuple NUMBERS = (float, int, np.generic)


cdef _Form form_of(object kernel):
    cdef _Form form = FORMS.get(kernel)
    if form is None:
        form = _Form.__new__(_Form)
        signature = kernel.signature
        form.params = [(p.name, p.role == "value", p.writes) for p in signature.params]
        own = {p.name for p in signature.params}
        form.defaults = {n: p.default for n, p in kernel.__signature__.parameters.items() if n not in own}
        form.plan = None if kernel.owner is None else ArgumentPlan(signature)
        form.simple = form.plan is None or not form.plan.needs_conversion
        form.masks = signature.masks
        FORMS[kernel] = form
    return form


cdef bint any_of_python(tuple own):
    """Whether an argument is a list, a tuple or a dict, or an output is left to be made."""
    for obj in own:
        if obj is None or type(obj) in _CONTAINERS:
            return True
    return False


def take_apart(kernel, tuple args, dict options, bint borrowed):
    """take_apart(kernel, args, options, borrowed)

    Binds and checks the arguments as a call does.

    Parameters
    ----------
    kernel : Kernel
    args : tuple
    options : dict
        Those of the call.
    borrowed : bool
        Whether to enter their memory into the book of borrows.

    Returns
    -------
    Call
        Borrows the arrays.

    Raises
    ------
    MojoViewError
        What the call would raise for these arguments.

    Notes
    -----
    Thread safety: any thread.
    """
    cdef _Form form = form_of(kernel)
    cdef Call call = Call.__new__(Call)
    cdef Argument argument
    cdef Py_ssize_t at
    cdef bint scalar, writes, some = False
    own, rest = args, NO_OPTIONS
    if options or len(args) != len(form.params) or not form.simple:
        own, rest = bind(kernel.signature, kernel.__signature__, args, options)
        rest = {name: value for name, value in rest.items() if value is not form.defaults[name]}
    if form.plan is not None and (not form.simple or any_of_python(own)):
        own, call.back, call.message = form.plan.prepare(own)
    validate(kernel, own)
    arguments, values, views = [], [], []
    for at in range(len(form.params)):
        name, scalar, writes = form.params[at]
        obj = own[at]
        if type(obj) is NDARRAY and not borrowed:
            argument = Argument.__new__(Argument)
            argument.at, argument.name, argument.writes, argument.array = at, name, writes, obj
        elif scalar or isinstance(obj, NUMBERS):
            values.append(plain(obj))
            some = True
            continue
        else:
            opened = open_array(kernel, obj, writes, form.masks)
            views.append(opened)
            mask = opened.mask if form.masks else None
            array = obj if type(obj) is NDARRAY else np.asarray(opened.data if opened.masked else opened)
            argument = Argument(at, name, writes, array, None if mask is None else np.asarray(mask))
            call.masked = call.masked or mask is not None
        values.append(None)
        arguments.append(argument)
    call.kernel, call.arguments, call.options, call.prepared = kernel, arguments, rest, not form.simple
    call.values = tuple(values)
    call.scalars = call.values if some else ()
    if borrowed:
        call.borrowed = borrow(tuple(views))
    return call


def kernel_of(kernel, tuple args, dict options):
    """kernel_of(kernel, args, options)

    The kernel that a call goes to: of a decorated function its kernel, of a family the one for the arguments; anything
    else as it is.

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
    from mojoview.calls._overloads import KernelFamily  # loaded where there is one
    from mojoview.loading.mojo.decorator import BoundKernel
    if isinstance(kernel, BoundKernel):
        kernel = kernel.kernel
    return kernel.kernel_for(*args, **options) if isinstance(kernel, KernelFamily) else kernel


cdef object plain(object obj):
    """A number of a builtin type; the check has seen that the kernel takes it."""
    if type(obj) is float or type(obj) is int or type(obj) is bool or not isinstance(obj, NUMBERS):
        return obj
    return obj.item() if isinstance(obj, np.generic) else float(obj) if isinstance(obj, float) else int(obj)


cdef object open_array(object kernel, object obj, bint writes, bint masks):
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
