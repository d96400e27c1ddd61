"""`from_function`: a kernel from a function pointer of ctypes, cffi, Numba, Cython or SciPy."""

from __future__ import annotations

import ctypes
import inspect
import sys
from typing import Any

from mojoview.calls._kernel import Kernel
from mojoview.loading.c.declaration import read_declaration
from mojoview.loading.c.declared import Argument, Declaration
from mojoview.loading.c.prototypes import Sizes, check_sizes, to_signature
from mojoview.memory.errors import ArgumentError, DeclarationError

__all__ = ["from_function"]

PYTHONAPI = 4  # FUNCFLAG_PYTHONAPI of CPython's ctypes
FUNCTION: type = ctypes.CFUNCTYPE(None).__mro__[1]  # base class of all function pointers of ctypes
_api = ctypes.pythonapi
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetContext.restype = ctypes.c_void_p
_api.PyCapsule_GetContext.argtypes = [ctypes.py_object]


class Pointer:
    """Address of a function, its declaration if the object has one, and its user data."""

    __slots__ = ("address", "declared", "name", "user_data")

    def __init__(self, address: int, declared: str | Declaration | None, name: str = "", user_data: int | None = None):
        self.address, self.declared, self.name, self.user_data = address, declared, name, user_data


def from_function(
    function: Any, declaration: str | None = None, *, name: str | None = None, sizes: Sizes | None = None
) -> Kernel:
    """from_function(function, declaration=None, *, name=None, sizes=None)

    Make a kernel from a function pointer of another tool.

    Parameters
    ----------
    function : object
        A ctypes function, a cffi function pointer (``ffi.addressof(lib, "f")``), a Numba ``cfunc``, a capsule from a
        Cython module's ``__pyx_capi__``, or a SciPy ``LowLevelCallable`` (its user data is passed to the ``void *``
        argument).
    declaration : str, optional
        The C declaration, as for `load_library`; by default the types that the object has itself. Then all pointers
        are arrays that are read and written, since few tools keep ``const``. If both are known, they must agree.
    name : str, optional
        Name of the kernel.
    sizes : mapping of str, optional
        Arguments that are sizes, as for `load_library`.

    Returns
    -------
    Kernel
        Owns a reference to `function`, which keeps the code alive.

    Raises
    ------
    ArgumentError
        `function` is not one of these, or it has no types and no declaration was given.
    DeclarationError
        The declaration cannot be parsed, has a type other than numbers and arrays, or contradicts the object.

    Notes
    -----
    The function may run without the GIL, so it must not need it: a Cython function must be ``noexcept nogil``.
    Thread safety: may be called from any thread.

    Examples
    --------
    >>> import ctypes, mojoview as mv
    >>> hypot = mv.from_function(ctypes.CDLL("libm.so.6").hypot, "double hypot(double x, double y)")
    >>> hypot(3.0, 4.0)
    5.0
    """
    if declaration is not None and not isinstance(declaration, str):
        raise ArgumentError(f"from_function(): declaration: expected a str, got {type(declaration).__name__}")
    if name is not None and (not isinstance(name, str) or not name.isidentifier()):
        raise ArgumentError(f"from_function(): name: expected an identifier, got {name!r}")
    pointer = _pointer(function)
    own = read_declaration(pointer.declared) if isinstance(pointer.declared, str) else pointer.declared
    chosen = own if declaration is None else read_declaration(declaration)
    if chosen is None:
        raise ArgumentError(
            "from_function(): this pointer has no types; give a declaration such as"
            " 'double f(size_t n, const double *x)'"
        )
    if own is not None and not _agree(chosen, own):
        raise DeclarationError(f"from_function(): declared as {chosen}, but the object is {own}")
    own_name = chosen.name if chosen.name != "function" else pointer.name or chosen.name
    chosen = Declaration(name or own_name, chosen.result, chosen.arguments)
    check_sizes(sizes, [chosen])
    return Kernel.from_address(to_signature(chosen, sizes, pointer.user_data), pointer.address, owner=function)


def _pointer(function: Any) -> Pointer:
    if _is_capsule(function):
        return _capsule(function, None)
    if isinstance(function, FUNCTION):
        return _ctypes(function)
    kind = type(function)
    module = kind.__module__.partition(".")[0]
    if module == "numba" and hasattr(function, "native_name"):
        return _numba(function)
    if module == "_cffi_backend":
        return _cffi(function)
    # SciPy's LowLevelCallable is a tuple around a capsule; the context of the capsule is the user data.
    if isinstance(function, tuple) and len(function) == 3 and _is_capsule(tuple.__getitem__(function, 0)):
        capsule = tuple.__getitem__(function, 0)
        return _capsule(capsule, int(_api.PyCapsule_GetContext(capsule) or 0))
    raise ArgumentError(
        "from_function(): expected a function pointer of ctypes, cffi, Numba or SciPy, or a capsule of"
        f" Cython, got {kind.__name__}"
    )


def _is_capsule(obj: Any) -> bool:
    return type(obj).__name__ == "PyCapsule" and type(obj).__module__ == "builtins"


def _capsule(capsule: Any, user_data: int | None) -> Pointer:
    raw = _api.PyCapsule_GetName(capsule)
    address = _api.PyCapsule_GetPointer(capsule, raw)
    text = (raw or b"").decode("ascii", "replace")
    if "(" not in text:
        raise ArgumentError(f"from_function(): a capsule called {text!r} does not hold a function with known types")
    declared = read_declaration(text)
    takes = any(a.dtype == "void" for a in declared.arguments)
    return Pointer(int(address or 0), declared, user_data=user_data if takes else None)


def _ctypes(function: Any) -> Pointer:
    if function._flags_ & PYTHONAPI:
        raise ArgumentError("from_function(): functions of ctypes.PyDLL need the GIL and cannot be kernels")
    address = ctypes.cast(function, ctypes.c_void_p).value
    if not address:
        raise ArgumentError("from_function(): the ctypes function is a NULL pointer")
    name = getattr(function, "__name__", "")
    if function.argtypes is None:
        return Pointer(address, None, name)
    arguments = [_ctypes_argument(kind) for kind in function.argtypes]
    result = "void" if function.restype is None else _ctypes_number(function.restype)
    if result is None or None in arguments:
        raise DeclarationError(
            f"from_function(): {name or 'the function'} has ctypes types other than numbers and pointers to numbers"
        )
    return Pointer(address, Declaration("function", result, tuple(a for a in arguments if a is not None)), name)


def _ctypes_number(kind: Any) -> str | None:
    if not isinstance(kind, type) or not issubclass(kind, ctypes._SimpleCData):
        return None
    code = getattr(kind, "_type_", "")
    if code == "?":
        return "bool"
    if code in ("f", "d"):
        return f"float{8 * ctypes.sizeof(kind)}"
    if code in ("b", "h", "i", "l", "q"):
        return f"int{8 * ctypes.sizeof(kind)}"
    return f"uint{8 * ctypes.sizeof(kind)}" if code in ("B", "H", "I", "L", "Q") else None


def _ctypes_argument(kind: Any) -> Argument | None:
    if kind is ctypes.c_void_p:
        return Argument("", "void", True)
    if isinstance(kind, type) and issubclass(kind, ctypes._Pointer):
        dtype = _ctypes_number(getattr(kind, "_type_", None))  # an incomplete POINTER("name") has no type yet
        return (dtype and Argument("", dtype, True)) or None
    dtype = _ctypes_number(kind)
    return Argument("", dtype) if dtype else None


def _numba(function: Any) -> Pointer:
    signature = function._sig
    types = [str(signature.return_type), *map(str, signature.args)]
    try:
        names = list(inspect.signature(function._pyfunc).parameters)
    except (TypeError, ValueError):
        names = [""] * len(signature.args)
    in_c = {"none": "void", "boolean": "bool", "none*": "void *", "void*": "void *"}
    result, *arguments = [in_c.get(kind, kind) for kind in types]
    text = ", ".join(f"{kind} {name}" for kind, name in zip(arguments, names, strict=True))
    return Pointer(int(function.address), f"{result} {function.__name__}({text or 'void'})")


def _cffi(function: Any) -> Pointer:
    backend: Any = sys.modules["_cffi_backend"]
    if not isinstance(function, backend._CDataBase):
        raise ArgumentError(
            "from_function(): pass the pointer to a function of a compiled cffi module: ffi.addressof(lib, 'name')"
        )
    kind = backend.typeof(function)
    if kind.kind != "function":
        raise ArgumentError(f"from_function(): expected a cffi function pointer, got a {kind.cname}")
    address = int(backend.cast(backend.new_primitive_type("uintptr_t"), function))
    return Pointer(address, str(kind.cname))


def _agree(declared: Declaration, own: Declaration) -> bool:
    """Return whether two declarations mean the same call; `const` is ignored, since few tools keep it."""
    if len(declared.arguments) != len(own.arguments) or not _same(declared.result, own.result):
        return False
    return all(
        a.pointer == b.pointer and (_same(a.dtype, b.dtype) or (a.pointer and "void" in (a.dtype, b.dtype)))
        for a, b in zip(declared.arguments, own.arguments, strict=True)
    )


def _same(a: str, b: str) -> bool:
    return a == b or {a, b} == {"status", "int32"}
