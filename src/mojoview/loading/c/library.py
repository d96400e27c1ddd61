"""`load_library`: functions of a shared library as kernels, by C declarations or by its signature file."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from mojoview.calls.signature import Signature
from mojoview.loading.c.declaration import read_declaration, read_header
from mojoview.loading.c.declared import Header
from mojoview.loading.c.prototypes import Sizes, check_sizes, to_signature
from mojoview.loading.description import read_description
from mojoview.loading.dlopen import is_function, open_library
from mojoview.loading.exports import Exports
from mojoview.loading.module import KernelModule
from mojoview.memory.errors import ArgumentError, DeclarationError, KernelAttributeError, KernelError

__all__ = ["Declarations", "load_library"]

# Text of one or more declarations, a header file, or {name: declaration, signature or (result, argument, …)}.
Declarations = str | os.PathLike[str] | Mapping[str, str | Signature | Sequence[str]]
MAX_HEADER = 1 << 20  # bytes


def load_library(
    path: str | os.PathLike[str], declarations: Declarations | None = None, *, sizes: Sizes | None = None
) -> KernelModule:
    """load_library(path, declarations=None, *, sizes=None)

    Load functions of a shared library as kernels: calls check their arguments.

    Parameters
    ----------
    path : path-like
        The library. The system searches for a bare name such as ``"libm.so.6"`` unless it is a file here.
    declarations : str, path-like or mapping, optional
        C declarations as text, separated by semicolons; a header file, as a `Path`; or a table
        ``{"dot": "double dot(size_t n, const double *x, const double *y)"}``, whose values may also be
        ``("double", "size_t n", "const double *x", "const double *y")`` or a `Signature`. Directives of the
        preprocessor need a C compiler. By default, the signature
        file that ``python -m mojoview compile`` has written beside the library.
    sizes : mapping of str, optional
        Arguments that are sizes of arrays: ``{"count": "x"}``, ``{"rows": "image.shape[0]", "n": ("x", "y")}``; None
        for one that looks like a size but is not. Applies to every function that has an argument of that name.

    Returns
    -------
    KernelModule
        Owned by the caller. The library stays loaded for the life of the process.

    Raises
    ------
    DeclarationError
        A declaration cannot be parsed, has a type other than numbers and arrays of numbers, or has more arguments than
        a call can pass. Such functions of a header *file* are listed in ``.refused`` with the reason.
    KernelAttributeError
        The library does not define a declared function.
    KernelError
        The library cannot be loaded here, or its signature file describes another one.
    ArgumentError
        An argument has the wrong type, or other users may write to the file.

    Notes
    -----
    Numbers are the types of C, ``<stdint.h>`` and NumPy (``double``, ``size_t``, ``int32_t``, ``float64``). A ``const``
    pointer is an input array, any other pointer an array that is read and written; both must be contiguous. The result
    type ``mv_status`` is an int32 whose nonzero values become exceptions.

    The caller does not pass sizes; they are filled in. A size is an integer argument in the brackets of an array
    (``const double x[n]``, ``double a[rows][cols]``) or one that `sizes` names. If a function has neither, an integer
    argument called ``n`` is the number of elements of *all* its arrays. Arrays that share a size must agree in it.
    ``double out[3]`` takes exactly 3 elements. The length of an array without a size is not checked.

    The declarations cannot be verified: a wrong one is a crash or wrong numbers. The functions must not need Python's
    GIL. Thread safety: may be called from any thread.

    Examples
    --------
    >>> import mojoview as mv
    >>> libm = mv.load_library("libm.so.6", "double hypot(double x, double y); double ldexp(double x, int exponent)")
    >>> libm.hypot(3.0, 4.0), libm.ldexp(0.75, 4)
    (5.0, 12.0)
    """
    library = _library_path(path)
    if declarations is None:
        if sizes is not None:
            raise ArgumentError(
                "load_library(): sizes: expected None without declarations; a signature file has no sizes"
            )
        exports = read_description(library)
        return KernelModule(library, library, _open(library), exports)
    signatures, refused = _signatures(declarations, sizes)
    handle = _open(library)
    missing = [name for name in signatures if not is_function(handle, name)]
    if missing and not _is_header_file(declarations):
        raise KernelAttributeError(f"load_library(): {library.name} has no function {missing[0]!r}", kernel=missing[0])
    refused |= dict.fromkeys(missing, f"{library.name} has no such function")
    kernels = {name: signature for name, signature in signatures.items() if name not in missing}
    module = KernelModule(library, library if library.is_absolute() else None, handle, Exports(kernels, refused))
    if not _is_header_file(declarations):
        for name, why in module.refused.items():  # an explicit declaration is meant to be called
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
                raise ArgumentError(f"load_library(): expected the name of a function, got {name!r}")
            if isinstance(given, Signature):
                ready[name] = given
                continue
            text = given if isinstance(given, str) else _table_row(name, given)
            declared = read_declaration(text)
            if declared.name not in (name, "function"):
                raise DeclarationError(f"load_library(): the declaration of {name} declares {declared.name}")
            functions[name] = type(declared)(name, declared.result, declared.arguments)
        header = Header(functions, {})
    elif isinstance(declarations, str):
        header = read_header(declarations)
    elif isinstance(declarations, os.PathLike):
        path = _path(declarations, "declarations")
        header = read_header(_header_text(path), tolerant=True, directory=os.path.dirname(os.path.abspath(path)))
    else:
        raise ArgumentError(
            "load_library(): declarations: expected C declarations, a header file or a mapping,"
            f" got {type(declarations).__name__}"
        )
    if not header.functions and not ready:
        raise DeclarationError(
            "load_library(): no callable function is declared"
            + "".join(f"\n{name}: {why}" for name, why in header.refused.items())
        )
    check_sizes(sizes, list(header.functions.values()))
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
    """Return ("double", "size_t n", "const double *x") as a declaration."""
    if not isinstance(given, Sequence) or not given or not all(isinstance(part, str) for part in given):
        raise ArgumentError(
            f"load_library(): {name}: expected a declaration, a Signature or a sequence of types, got {given!r}"
        )
    if any(set(part) & set("();") for part in given):
        raise DeclarationError(f"load_library(): {name}: expected one type per item, got {given!r}")
    return f"{given[0]} {name}({', '.join(given[1:]) or 'void'})"


def _header_text(path: Path) -> str:
    try:
        # Non-blocking: opening a pipe would wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ArgumentError(f"load_library(): expected a regular file of declarations, got {path}")
            data = file.read(MAX_HEADER + 1)
    except OSError as error:
        raise ArgumentError(f"load_library(): cannot read {path}: {error.strerror}") from error
    if len(data) > MAX_HEADER:
        raise DeclarationError(f"load_library(): {path.name} is longer than {MAX_HEADER} bytes")
    return data.decode("utf-8", "replace")


def _library_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of the library, checked; or a bare name that the system searches for."""
    named = _path(path, "path")
    if not named.name:
        raise ArgumentError(f"load_library(): path: expected the name of a library, got {str(named)!r}")
    try:
        if len(named.parts) == 1 and not named.exists():
            return named
        real = named.resolve(strict=True)
        info = real.stat()
    except (OSError, RuntimeError) as error:  # RuntimeError: a symlink loop, before Python 3.13
        raise ArgumentError(f"load_library(): cannot read {named}: {getattr(error, 'strerror', error)}") from error
    if not stat.S_ISREG(info.st_mode):
        raise ArgumentError(f"load_library(): expected a regular file, got {named}")
    if real.is_relative_to("/dev") or real.is_relative_to("/proc"):
        raise ArgumentError(f"load_library(): {named} is in a file system without executable files")
    if info.st_mode & stat.S_IWOTH:
        raise ArgumentError(
            f"load_library(): other users may write to {named}, so its code is not executed; chmod o-w it"
        )
    return real


def _path(path: object, what: str) -> Path:
    """Return a path that the system accepts."""
    try:
        named = os.fsdecode(path)  # type: ignore[arg-type]
        os.fsencode(named)
    except TypeError:
        raise ArgumentError(f"load_library(): {what}: expected a str or path-like, got {type(path).__name__}") from None
    except UnicodeError:
        named = "\0"
    if "\0" in named:
        raise ArgumentError(f"load_library(): {what}: expected the name of a file, got {path!r}")
    return Path(named)


def _open(library: Path) -> ctypes.CDLL:
    try:
        return open_library(library)
    except OSError as error:
        raise KernelError(f"load_library(): {library.name} cannot be loaded: {error}") from error
