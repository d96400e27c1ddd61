"""KernelFamily: one name for kernels that differ in the dtypes of their arguments."""

cimport cython
from cpython.object cimport PyObject

from mojoview.calls.call_args cimport MV_MAX_PARAMS
from mojoview.calls.vectorcall cimport (
    PyObject_Vectorcall, PySequence_Fast_ITEMS, PyVectorcall_Call, PyVectorcall_NARGS, enable_vectorcall,
    keyword_arguments, positional_arguments,
)

from types import MappingProxyType

import numpy as np

from mojoview.calls._kernel import Kernel
from mojoview.calls.arguments import ArgumentPlan
from mojoview.calls.binding import call_signature
from mojoview.calls.signature import Param, Signature
from mojoview.memory.errors import ArgumentError, DTypeError
from mojoview.memory.extension_points import AWAIT_CALL, CANARY, SUBMIT_CALL, resolve
from mojoview.views import View, view
from mojoview.views._construct import has_accessor


ctypedef object (*vectorcallfunc)(object callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)

cdef object NDARRAY = np.ndarray


@cython.final
cdef class KernelFamily:
    """KernelFamily()

    Kernels for several dtypes under one name: a call goes to the one that takes the dtypes of the arguments.

    `mojoview.load()` makes one for exports whose names differ only in the dtypes at their end, such as `scale_f32` and
    `scale_f64` of one generic function `scale[dt: DType]`, if their parameters have the same names and roles. The
    dtypes of array arguments select the kernel; without arrays, the dtypes that NumPy gives to lists; never numbers.
    Nothing is converted to fit a kernel.

    Attributes
    ----------
    name : str
    kernels : tuple of Kernel
    loops : mapping of tuple of str to Kernel
        By the dtypes of the selecting arguments.
    signature : Signature
        With the dtype "T" for parameters in which the kernels differ.
    signatures : tuple of Signature

    Raises
    ------
    DTypeError
        No kernel takes these dtypes; the message lists those that exist.

    Notes
    -----
    Thread safety: immutable; calls may run in many threads at once.

    Examples
    --------
    >>> import mojoview as mv
    >>> module = mv.load("scale.mojo")  # doctest: +SKIP
    >>> module.scale(2.0, x)  # doctest: +SKIP
    """
    cdef vectorcallfunc vectorcall
    cdef int selectors               # arguments that select the kernel
    cdef int at[MV_MAX_PARAMS]       # their positions
    cdef int members
    cdef object dtypes               # of the first kernel's selectors, then of the second's, …
    cdef PyObject **dtype            # the items of that tuple
    cdef readonly str name
    cdef readonly tuple kernels
    cdef readonly object signature
    cdef readonly object loops
    cdef object call_signature
    cdef object __weakref__

    def __cinit__(self):
        self.vectorcall = call_family

    def __init__(self, str name, tuple kernels):
        if self.kernels is not None:
            raise ArgumentError(f"{self.name}: a KernelFamily cannot be initialised twice")
        if not kernels or not all([type(k) is Kernel for k in kernels]):
            raise ArgumentError(f"{name}: expected a tuple of kernels, got {kernels!r}")
        if len({tuple([(p.name, p.role) for p in k.signature.params]) for k in kernels}) > 1:
            raise ArgumentError(f"{name}: expected kernels whose parameters have the same names and roles")
        first = kernels[0].signature.params
        columns = list(zip(*[[p.dtype for p in k.signature.params] for k in kernels], strict=True))
        positions = [k for k, p in enumerate(first) if p.role != "value" and len(set(columns[k])) > 1]
        if not positions or len(positions) > MV_MAX_PARAMS:
            raise ArgumentError(f"{name}: expected kernels that differ in the dtypes of their arrays")
        loops = [tuple([k.signature.params[at].dtype for at in positions]) for k in kernels]
        params = tuple([p if len(set(column)) == 1 else Param(p.name, p.role, "T", p.ndim, p.passing, p.default)
                        for p, column in zip(first, columns, strict=True)])
        results = {k.signature.result for k in kernels}
        doc = next((k.signature.doc for k in kernels if k.signature.doc), "")
        signature = Signature(name, params, results.pop() if len(results) == 1 else "T", doc, shapes="free")
        form = call_signature(signature, (("threads", None),), True, ArgumentPlan(kernels[0].signature).defaults)
        try:
            dtypes = tuple([np.dtype(n) for loop in loops for n in loop])
        except TypeError:
            raise ArgumentError(f"{name}: expected kernels for dtypes of NumPy, got {loops!r}") from None
        # set last and together: a call reads `members` rows of `dtype`
        self.name, self.kernels, self.signature, self.call_signature = name, kernels, signature, form
        self.loops = MappingProxyType(dict(zip(loops, kernels, strict=True)))
        self.dtypes, self.dtype = dtypes, PySequence_Fast_ITEMS(dtypes)
        self.selectors, self.members = len(positions), len(kernels)
        for k, at in enumerate(positions):
            self.at[k] = at

    @property
    def signatures(self):
        return tuple([k.signature for k in self.kernels or ()])

    @property
    def __name__(self):
        return self.name

    @property
    def __doc__(self):
        if self.kernels is None:
            return None
        return "\n\n".join(filter(None, [self.signature.doc, "Kernels: " + ", ".join(map(str, self.signatures))]))

    @property
    def __signature__(self):
        return self.call_signature

    def __call__(self, *args, **kwargs):
        return PyVectorcall_Call(self, args, kwargs)

    def __repr__(self):
        return f"<mojoview kernels {self.name}{self.call_signature}: {', '.join([k.name for k in self.kernels or ()])}>"

    def __reduce_ex__(self, protocol):
        raise ArgumentError("a KernelFamily cannot be pickled or copied: it refers to code loaded into this process")

    def kernel_for(self, *args, **kwargs):
        """kernel_for(*args, **kwargs)

        Return the kernel that a call with these arguments goes to.

        Returns
        -------
        Kernel
            Borrowed from the module.

        Raises
        ------
        DTypeError, ArgumentError

        Notes
        -----
        Thread safety: any thread.
        """
        if self.kernels is None:
            raise ArgumentError("KernelFamily() is not called by hand: use mojoview.load(path)")
        try:
            given = self.call_signature.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise ArgumentError(f"{self.name}{self.call_signature}: {error}") from None
        selectors = [self.signature.params[self.at[k]] for k in range(self.selectors)]
        found = {p.name: given[p.name] for p in selectors if given.get(p.name) is not None}
        if not found:
            names = ", ".join([p.name for p in selectors])
            raise ArgumentError(f"{self.name}{self.call_signature}: the dtype of {names} selects the kernel; "
                                "pass one of them")
        known = {n: dtype_of(v) for n, v in found.items() if type(v) not in (list, tuple, dict)}
        if not known:
            known = {n: dtype_of_list(v, f"{self.name}(): argument '{n}'")
                     for n, v in found.items() if type(v) is not dict}
        for loop, kernel in self.loops.items():
            if all([known.get(p.name, dtype) == dtype for p, dtype in zip(selectors, loop, strict=True)]):
                return kernel
        got = ", ".join([f"{name}: {dtype}" for name, dtype in known.items()])
        raise DTypeError(f"{self.name}(): no kernel for {got}; there are: {'; '.join(map(str, self.signatures))}")

    def canary(self, reference, **options):
        """canary(reference, *, sample=0.01, rtol=None, atol=0.0, on_mismatch="fallback", promote_after=None, ...)

        Return the family with a Python reference that also runs on a sample of the calls, for all dtypes: see
        `mojoview.safety.canary.watch`.
        """
        return resolve(CANARY)(self, reference, **options)

    def submit(self, *args, **options):
        """submit(*args, **options)

        Start the call as `Kernel.submit` does; if no kernel takes the arguments, the future raises DTypeError.
        """
        return resolve(SUBMIT_CALL)(self, args, options)

    def aio(self, *args, **options):
        """aio(*args, **options)

        Return a coroutine as `Kernel.aio` does.
        """
        return resolve(AWAIT_CALL)(self, args, options)


cdef object dtype_of(object obj):
    """Return the dtype of any array; as text if NumPy does not have it."""
    if not isinstance(obj, NDARRAY):
        if has_accessor(obj):
            obj = obj.mojo.view(na="mask")
        elif not isinstance(obj, View):
            obj = view(obj)
    dtype = getattr(obj, "dtype", None)
    if dtype is None:  # a column of several arrays: no kernel of a family takes it
        return type(obj).__name__
    try:
        return np.dtype(dtype)
    except TypeError:
        return str(dtype)


cdef object dtype_of_list(object numbers, str where):
    try:
        return np.asarray(numbers).dtype
    except (ValueError, OverflowError, RecursionError) as error:
        raise ArgumentError(f"{where}: expected numbers in a list of one shape: {error}") from None


cdef object call_family(object callable, PyObject *const *args, size_t nargsf, PyObject *kwnames):
    """Call the kernel that takes the dtypes of the arguments, found by identity; with kernel_for() if that fails."""
    cdef KernelFamily self = <KernelFamily>callable
    cdef Py_ssize_t given = PyVectorcall_NARGS(nargsf)
    cdef PyObject *dtypes[MV_MAX_PARAMS]
    cdef PyObject **row = self.dtype
    cdef int k, member = 0, found = 0
    # NumPy's dtypes of plain numbers in native order are immortal singletons: comparing addresses is enough
    while found < self.selectors and self.at[found] < given:
        dtype = getattr(<object>args[self.at[found]], "dtype", None)
        if dtype is None:
            break
        dtypes[found] = <PyObject *>dtype
        found += 1
    if found == self.selectors:
        for member in range(self.members):
            for k in range(self.selectors):
                if dtypes[k] != row[k]:
                    break
            else:
                return PyObject_Vectorcall(<object>PySequence_Fast_ITEMS(self.kernels)[member], args, nargsf, kwnames)
            row += self.selectors
    positional, keywords = positional_arguments(args, given), keyword_arguments(args, given, kwnames)
    return self.kernel_for(*positional, **keywords)(*positional, **keywords)


cdef KernelFamily _probe = KernelFamily.__new__(KernelFamily)
enable_vectorcall(KernelFamily, <char *>&_probe.vectorcall - <char *><PyObject *>_probe)
_probe = None
