"""`load_library`: the functions of a compiled library as kernels, by their C declarations or by a signature file."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from mojoview.loading.c.declaration import Header, read_declaration, read_header
from mojoview.loading.mojo.exports import Exports
from mojoview.loading.module import KernelModule
from mojoview.loading.c.prototypes import Sizes, sizes_given, to_signature
from mojoview.calls.signature import Signature
from mojoview.memory.errors import ArgumentError, DeclarationError, KernelAttributeError, KernelError

__all__ = ["Declarations", "load_library"]

# One declaration, a text of several, a header file, or {name: declaration, signature or (result, argument, …)}.
Declarations = str | os.PathLike[str] | Mapping[str, str | Signature | Sequence[str]]
LONGEST_HEADER = 1 << 20  # bytes


def load_library(path: str | os.PathLike[str], declarations: Declarations | None = None, *,
                 sizes: Sizes | None = None) -> KernelModule:
    """load_library(path, declarations=None, *, sizes=None)

    The functions of a shared library as kernels: checked arguments, and no compiler.

    Parameters
    ----------
    path : path-like
        The library. A bare name such as ``"libm.so.6"`` that is no file here is found by the system's own search.
    declarations : str, path-like or mapping, optional
        What the functions look like: C declarations, ended by semicolons, as text; a header file, as a `Path`; or a
        table ``{"dot": "double dot(size_t n, const double *x, const double *y)"}``, whose values may also be
        ``("double", "size_t n", "const double *x", "const double *y")`` or a `Signature`. Without any, the file that
        ``python -m mojoview compile`` has put beside the library.
    sizes : mapping of str, optional
        Which arguments are sizes: ``{"count": "x"}``, ``{"rows": "image.shape[0]", "n": ("x", "y")}``; None for one
        that is no size though it looks like one. Holds for every function that has an argument of that name.

    Returns
    -------
    KernelModule
        Owned by the caller. The library stays loaded for the life of the process.

    Raises
    ------
    DeclarationError
        A declaration cannot be read, or has something that is no number and no array of numbers, or more arguments than
        a call can pass. From a header *file*, such functions go to ``.refused`` with the reason.
    KernelAttributeError
        The library has no function of a declared name.
    KernelError
        The library does not load here, or is not the one that its signature file describes.
    ArgumentError
        An argument is of the wrong kind, or the file is one that other users may write to.

    Notes
    -----
    Numbers are the types of C, ``<stdint.h>`` and NumPy (``double``, ``size_t``, ``int32_t``, ``float64``). A ``const``
    pointer is an array that is read, any other pointer one that is read and written; both must be contiguous. The
    result type ``mv_status`` is an int32 whose values other than 0 become exceptions.

    Sizes are not passed, they are filled in: an integer argument that stands in the brackets of an array
    (``const double x[n]``, ``double a[rows][cols]``), or that `sizes` names; and where a function has neither, an
    integer argument called ``n``, which is the number of elements that *all* its arrays have. Arrays that share a size
    must agree in it. ``double out[3]`` takes exactly 3 elements. The length of an array without any size is not
    checked.

    The declarations are believed: a wrong one is a crash or wrong numbers. The functions must not need Python's GIL.
    Thread safety: may be called from any thread.

    Examples
    --------
    >>> import mojoview as mv
    >>> libm = mv.load_library("libm.so.6", "double hypot(double x, double y); double ldexp(double x, int exponent)")
    >>> libm.hypot(3.0, 4.0), libm.ldexp(0.75, 4)
    (5.0, 12.0)
    """
    named = _named(path)
    if declarations is None:
        from mojoview.loading.mojo.aot import read_description

        if sizes is not None:
            raise ArgumentError("load_library(): sizes: the signature file of a library knows its sizes")
        exports = read_description(named)
        return KernelModule(named, named, _open(named), exports)
    signatures, refused = _signatures(declarations, sizes)
    handle = _open(named)
    missing = [name for name in signatures if not _is_function(handle, name)]
    if missing and not _is_header_file(declarations):
        raise KernelAttributeError(f"load_library(): {named.name} has no function {missing[0]!r}", kernel=missing[0])
    refused |= dict.fromkeys(missing, f"{named.name} has no such function")
    kernels = {name: signature for name, signature in signatures.items() if name not in missing}
    module = KernelModule(named, named if named.is_absolute() else None, handle, Exports(kernels, refused))
    if not _is_header_file(declarations):
        for name, why in module.refused.items():  # what was written for this call is meant to be called
            raise DeclarationError(f"load_library(): {name} cannot be called: {why}")
    return module


def _is_header_file(declarations: Declarations) -> bool:
    return isinstance(declarations, os.PathLike)


def _signatures(declarations: Declarations, sizes: Sizes | None) -> tuple[dict[str, Signature], dict[str, str]]:
    ready = dict[str, Signature]()
    if isinstance(declarations, Mapping):
        functions = {}
        for name, given in declarations.items():
            if not isinstance(name, str) or not name.isidentifier():
                raise ArgumentError(f"load_library(): expected names of functions, got {name!r}")
            if isinstance(given, Signature):
                ready[name] = given
                continue
            text = given if isinstance(given, str) else _table_row(name, given)
            declared = read_declaration(text)
            if declared.name not in (name, "function"):
                raise DeclarationError(f"load_library(): the declaration of {name} is one of {declared.name}")
            functions[name] = type(declared)(name, declared.result, declared.arguments)
        header = Header(functions, {})
    elif isinstance(declarations, str):
        header = read_header(declarations)
    elif isinstance(declarations, os.PathLike):
        header = read_header(_header_text(_path(declarations, "declarations")), tolerant=True)
    else:
        raise ArgumentError("load_library(): declarations: expected C declarations, a header file or a mapping,"
                            f" got {type(declarations).__name__}")
    if not header.functions and not ready:
        raise DeclarationError("load_library(): no function that can be called is declared"
                               + "".join(f"\n{name}: {why}" for name, why in header.refused.items()))
    sizes_given(sizes, list(header.functions.values()))
    signatures, refused = dict[str, Signature](), dict(header.refused)
    for name, declared in header.functions.items():
        try:
            signatures[name] = to_signature(declared, sizes)
        except DeclarationError as error:
            if not _is_header_file(declarations):
                raise
            refused[name] = str(error)
    return signatures | ready, refused


def _table_row(name: str, given: Sequence[str]) -> str:
    """("double", "size_t n", "const double *x") as a declaration."""
    if not isinstance(given, Sequence) or not given or not all(isinstance(part, str) for part in given):
        raise ArgumentError(f"load_library(): {name}: expected a declaration, a Signature or a sequence of types,"
                            f" got {given!r}")
    if any(set(part) & set("();") for part in given):
        raise DeclarationError(f"load_library(): {name}: expected one type in each place, got {given!r}")
    return f"{given[0]} {name}({', '.join(given[1:]) or 'void'})"


def _header_text(path: Path) -> str:
    try:
        # opening a pipe would wait for somebody who writes to it
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ArgumentError(f"load_library(): expected a regular file of declarations, got {path}")
            data = file.read(LONGEST_HEADER + 1)
    except OSError as error:
        raise ArgumentError(f"load_library(): cannot read {path}: {error.strerror}") from error
    if len(data) > LONGEST_HEADER:
        raise DeclarationError(f"load_library(): {path.name} is longer than {LONGEST_HEADER} bytes")
    return data.decode("utf-8", "replace")


def _named(path: str | os.PathLike[str]) -> Path:
    """The library's absolute path, checked; or a bare name for the system to find."""
    named = _path(path, "path")
    if not named.name:
        raise ArgumentError(f"load_library(): path: expected the name of a library, got {str(named)!r}")
    try:
        if len(named.parts) == 1 and not named.exists():
            return named
        real = named.resolve(strict=True)
        info = real.stat()
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
        raise ArgumentError(f"load_library(): cannot read {named}: {getattr(error, 'strerror', error)}") from error
    if not stat.S_ISREG(info.st_mode):
        raise ArgumentError(f"load_library(): expected a regular file, got {named}")
    if real.is_relative_to("/dev") or real.is_relative_to("/proc"):
        raise ArgumentError(f"load_library(): {named} lies in memory, from which no code is run")
    if info.st_mode & stat.S_IWOTH:
        raise ArgumentError(f"load_library(): other users may write to {named}, so its code is not run; chmod o-w it")
    return real


def _path(path: object, what: str) -> Path:
    """A path that the system can be asked for."""
    try:
        named = os.fsdecode(path)  # type: ignore[arg-type]
        os.fsencode(named)
    except TypeError:
        raise ArgumentError(f"load_library(): {what}: expected a str or path-like, got {type(path).__name__}") from None
    except UnicodeError:
        named = "\0"
    if "\0" in named:
        raise ArgumentError(f"load_library(): {what}: no file can have the name {path!r}")
    return Path(named)


def _open(named: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(named))
    except OSError as error:
        raise KernelError(f"load_library(): {named.name} does not load: {error}") from error


def _is_function(handle: ctypes.CDLL, name: str) -> bool:
    """Whether a symbol is there and leads to code: variables have symbols too."""
    try:
        # by item: a CDLL has attributes of its own, such as _name
        address = ctypes.cast(handle[name], ctypes.c_void_p).value or 0
    except AttributeError:
        return False
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            span, rights = line.split(maxsplit=2)[:2]
            low, _, high = span.partition("-")
            if int(low, 16) <= address < int(high, 16):
                return "x" in rights
    return False
