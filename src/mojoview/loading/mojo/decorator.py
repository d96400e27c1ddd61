"""`native`: a typed Python function bound to an export of a Mojo file, with its body as the reference."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType, ModuleType, NoneType
from typing import TYPE_CHECKING, Annotated, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from mojoview.calls._kernel import Kernel
from mojoview.calls._overloads import KernelFamily
from mojoview.calls.signature import Param, Signature
from mojoview.loading.module import KernelModule
from mojoview.loading.mojo.hook import MODULE
from mojoview.loading.mojo.loader import load
from mojoview.memory.errors import ArgumentError
from mojoview.views import View

if TYPE_CHECKING:
    from mojoview.safety.canary import Canary

__all__ = ["BoundKernel", "disagreements", "native"]

P = ParamSpec("P")
R = TypeVar("R")
KINDS: dict[Any, str] = {float: "f", int: "iu", bool: "b"}  # annotation: kinds of dtypes that it allows


class BoundKernel(functools.partial[R], Generic[P, R]):
    """A kernel with a Python function as its reference; made by the decorator `native`.

    Calls run the kernel and take about 0.1 µs longer than calls of the kernel itself. It has all attributes of the
    kernel.

    Attributes
    ----------
    kernel : Kernel or KernelFamily
    reference : callable
        The decorated function.

    Notes
    -----
    Thread safety: immutable; any thread.
    """

    reference: Callable[P, R]
    __signature__: inspect.Signature

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **keywords: P.kwargs) -> R: ...

    @property
    def kernel(self) -> Kernel | KernelFamily:
        return typing.cast(Kernel | KernelFamily, self.func)

    def canary(self, reference: Callable[..., Any] | None = None, **options: Any) -> Canary | Kernel | KernelFamily:
        """canary(reference=None, **options)

        Return `Kernel.canary`, by default with the decorated function as the reference.
        """
        return self.kernel.canary(self.reference if reference is None else reference, **options)

    def __get__(self, instance: object, owner: type | None = None) -> BoundKernel[P, R]:
        return self  # a kernel in a class does not take self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.func, name)

    def __repr__(self) -> str:
        return f"<mojoview kernel {self.__qualname__}{inspect.signature(self.reference)}>"

    def __reduce__(self) -> str:
        return str(self.__qualname__)  # pickled by name, as functions are


@overload
def native(  # type: ignore[overload-overlap]  # nothing is both a function and one of these
    where: str | os.PathLike[str] | KernelModule | ModuleType | Kernel | KernelFamily | None = ...,
    /,
    *,
    name: str | None = ...,
    source: str | None = ...,
    flags: Sequence[str] = ...,
    progress: Callable[[str], None] | None = ...,
    timeout: float = ...,
) -> Callable[[Callable[P, R]], BoundKernel[P, R]]: ...
@overload
def native(where: Callable[P, R], /) -> BoundKernel[P, R]: ...


def native(
    where: Any = None,
    /,
    *,
    name: str | None = None,
    source: str | None = None,
    flags: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
    timeout: float = 600.0,
) -> Any:
    """native(where=None, /, *, name=None, source=None, flags=(), progress=None, timeout=600.0)

    Bind a typed Python function to the export of a Mojo file; its body remains as the reference.

    The signatures of function and export must agree: names, order and defaults of the parameters, kinds of scalars,
    dtypes and dimensions of arrays, and the result. Annotations are only checked; they convert nothing.

    Parameters
    ----------
    where : path-like, KernelModule, module, Kernel or KernelFamily
        A .mojo file, relative to the file of the function; the result of `load`; a module of the import hook; or the
        kernel itself. By default, without `source`, the file of the function with .mojo in place of .py.
    name : str, optional
        Name of the export or of a family of exports; by default that of the function.
    source : str, optional
        Mojo text instead of a file.
    flags, progress, timeout
        As for `load`.

    Returns
    -------
    BoundKernel
        Calls run the kernel. `.reference` is the function, `.kernel` the kernel, `.canary(...)` runs both.

    Raises
    ------
    ArgumentError
        The signatures do not agree (each difference is named), an annotation is missing or unsupported, or an argument
        has the wrong type.
    KernelCompileError, CompilerNotFound
        As for `load`, when the decorator runs.

    Notes
    -----
    Annotations: `float`, `int`, `bool` for a scalar of that kind, a NumPy scalar type for exactly that type;
    `NDArray[np.float64]` for an array of that dtype, `np.ndarray` or `View` for any; `Annotated[..., "in"]`, "inout" or
    "out" for its role; `Any` for everything; `None` for the result of a kernel that returns nothing or a status. A
    family is bound if the annotations agree with at least one of its kernels; `name` selects one by its own name, such
    as "scale_f32". Thread safety: any thread.

    Examples
    --------
    >>> from mojoview import kernels, native
    >>> from numpy.typing import NDArray
    >>> @native(kernels.axpy)
    ... def add_scaled(a: float, x: np.ndarray, y: np.ndarray) -> None:
    ...     y += a * x
    >>> x, y, z = np.ones(2), np.zeros(2), np.zeros(2)
    >>> add_scaled(2.0, x, y)
    >>> add_scaled.reference(2.0, x, z)
    >>> y, z
    (array([2., 2.]), array([2., 2.]))
    """
    if isinstance(where, FunctionType):
        return native()(where)
    if where is not None and source is not None:
        raise ArgumentError("native(): expected either where or source=, got both")
    if name is not None and not isinstance(name, str):
        raise ArgumentError(f"native(): name: expected a str, got {type(name).__name__}")
    known = isinstance(where, str | os.PathLike | KernelModule | Kernel | KernelFamily | None)
    if not known and not hasattr(where, MODULE):
        raise ArgumentError(
            "native(): where: expected a path, a KernelModule, an imported Mojo module, a Kernel or a"
            f" KernelFamily, got {type(where).__name__}"
        )

    def bind(function: Callable[P, R]) -> BoundKernel[P, R]:
        if not isinstance(function, FunctionType):
            raise ArgumentError(f"native(): expected a Python function, got {type(function).__name__}")
        if (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        ):
            raise ArgumentError(
                f"native(): {function.__name__}: expected a plain function; await"
                f" {function.__name__}.aio(...) calls a kernel from a coroutine"
            )
        found = _export(
            where,
            name or function.__name__,
            source,
            function,
            {"flags": flags, "progress": progress, "timeout": timeout},
        )
        members = found.kernels if isinstance(found, KernelFamily) else (found,)
        if wrong := min((disagreements(function, member.signature) for member in members), key=len):
            raise ArgumentError(
                f"native(): the function {function.__name__}{inspect.signature(function)} and the"
                f" export {found.signature} do not agree: {'; '.join(wrong)}"
            )
        bound = BoundKernel[P, R](found)
        functools.update_wrapper(bound, function)
        bound.reference, bound.__signature__ = function, inspect.signature(function)
        return bound

    return bind


def _export(
    where: Any, name: str, source: str | None, function: FunctionType, options: dict[str, Any]
) -> Kernel | KernelFamily:
    if isinstance(where, Kernel | KernelFamily):
        return where
    if source is not None:
        return _of(load(source=source, **options), name)
    if isinstance(where, KernelModule):
        return _of(where, name)
    if (imported := getattr(where, MODULE, None)) is not None:
        return _of(imported, name)
    home = getattr(sys.modules.get(function.__module__), "__file__", None)  # a notebook has none
    if where is None and home is None:
        raise ArgumentError("native(): the function is not in a file; give the path of the export")
    path = Path(home or "x").parent / where if where is not None else Path(home or "x").with_suffix(".mojo")
    return _of(load(path, **options), name)


def _of(module: KernelModule, name: str) -> Kernel | KernelFamily:
    return typing.cast(Kernel | KernelFamily, module[name])


def disagreements(function: Callable[..., Any], signature: Signature) -> list[str]:
    """Return the differences between the annotations of a Python function and the signature of a kernel."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # string annotations are evaluated
        raise ArgumentError(
            f"native(): an annotation of {getattr(function, '__name__', function)} cannot be read: {error}"
        ) from error
    given = list(inspect.signature(function).parameters.values())
    names, wanted = [p.name for p in given], [p.name for p in signature.params]
    if names != wanted:
        return [f"its parameters are {', '.join(names) or 'none'}, those of the export {', '.join(wanted) or 'none'}"]
    wrong = []
    for own, param in zip(given, signature.params, strict=True):
        if own.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            wrong.append(f"{own.name}: expected a parameter that can be passed by position and by name")
        if not _equal(own.default, param.default):
            defaults = [_shown(own.default), _shown(param.default)]
            wrong.append(f"{own.name}: its default is {defaults[0]}, that of the export {defaults[1]}")
        if own.name not in hints:
            wrong.append(f"{own.name}: it has no annotation")
        elif problem := (_scalar if param.role == "value" else _array)(hints[own.name], param):
            wrong.append(f"{own.name}: {problem}")
    nothing = signature.result in ("none", "status", "status_index")
    if "return" not in hints:
        wrong.append("its result has no annotation")
    elif nothing and hints["return"] not in (NoneType, Any):
        wrong.append("the export returns nothing")
    elif not nothing and (
        problem := _scalar(hints["return"], Param("return", "value", signature.result, None, "value"))
    ):
        wrong.append(f"its result: {problem}")
    return wrong


def _shown(default: Any) -> str:
    return "missing" if default is inspect.Parameter.empty else repr(default)


def _scalar(hint: Any, param: Param) -> str | None:
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if hint is Any or hint is object:
        return None
    if param.dtype == "T":  # a parameter of a built-in kernel: any dtype
        fits = hint in KINDS or (isinstance(hint, type) and issubclass(hint, np.number | np.bool_))
    elif hint in KINDS:
        fits = np.dtype(param.dtype).kind in KINDS[hint]
    else:
        fits = isinstance(hint, type) and issubclass(hint, np.generic) and np.issubdtype(np.dtype(param.dtype), hint)
    return None if fits else f"annotated {_name(hint)}, the export has a {param.dtype}"


def _resolve(hint: Any) -> Any:
    """Resolve aliases of `type` statements (NDArray is one since NumPy 2.5); return other annotations unchanged."""
    while (value := getattr(typing.get_origin(hint) or hint, "__value__", None)) is not None:
        hint = value[typing.get_args(hint)] if typing.get_args(hint) else value
    return hint


def _array(hint: Any, param: Param) -> str | None:
    role = None
    if typing.get_origin(hint) is Annotated:
        hint, *notes = typing.get_args(hint)
        role = next((note for note in notes if note in ("in", "inout", "out")), None)
    hint = _resolve(hint)
    if role not in (None, param.role):
        return f"annotated {role!r}, the export has {param.role!r}"
    wants = f"{param.dtype}{'' if param.ndim is None else f' in {param.ndim} dimension(s)'}"
    if typing.get_origin(hint) is np.ndarray:
        shape, dtype = typing.get_args(hint)
        kinds, extents = typing.get_args(dtype) or (Any,), typing.get_args(_resolve(shape))
        of = kinds[0]
        if isinstance(of, type) and param.dtype != "T" and not np.issubdtype(np.dtype(param.dtype), of):
            return f"annotated {_name(of)}, the export has {wants}"
        if extents and Ellipsis not in extents and param.ndim not in (None, len(extents)):
            return f"annotated with {len(extents)} dimension(s), the export has {wants}"
        return None
    if hint in (Any, object, np.ndarray, View) or (isinstance(hint, type) and hasattr(hint, "mojo")):  # a Series
        return None
    return f"annotated {_name(hint)}, the export has an array, {wants}"


def _equal(own: object, default: object) -> bool:
    try:
        return own is default or bool(own == default)
    except Exception:  # __eq__ may raise, or return an array
        return False


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)
