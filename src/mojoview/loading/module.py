"""`KernelModule`: the kernels of Mojo source or of a C library, as attributes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from mojoview.calls.errors import ErrorTable, SourceLocation
from mojoview.loading.dlopen import address_of
from mojoview.memory.errors import ArgumentError, KernelAttributeError, MojoViewError

if TYPE_CHECKING:
    from mojoview.calls._kernel import Kernel
    from mojoview.calls._overloads import KernelFamily
    from mojoview.loading.exports import Exports

__all__ = ["KernelModule", "SourceIndex"]


@dataclass(frozen=True, slots=True)
class SourceIndex:
    """Source locations and status names of kernels.

    Attributes
    ----------
    exports : mapping of str to (Path, int)
        File and line of the `def` of each export.
    statuses : mapping of str to (int, str)
        Codes and docstrings of the statuses that the files declare; the first declaration of a name counts.
    """

    exports: Mapping[str, tuple[Path, int]]
    statuses: Mapping[str, tuple[int, str]]


class KernelModule:
    """The kernels of Mojo source: `module.saxpy`, or `module["saxpy"]` for names that clash with the attributes below.

    An export that cannot be called safely is listed in `refused`; accessing it raises KernelAttributeError with the
    reason.

    Attributes
    ----------
    path : Path
        The source file, or the directory of the package.
    name : str
    library : Path or None
        The shared object in the cache; None if the cache could not be written.
    kernels : mapping of str to Kernel
    families : mapping of str to KernelFamily
        Overloads by dtype: exports `scale_f32` and `scale_f64` are also `scale`, which selects one of them by the
        dtypes of its arguments.
    refused : mapping of str to str
        Exports that cannot be kernels, and the reason.
    errors : ErrorTable
        Exceptions for the kernels' own status codes; `errors[65] = MyError` adds one.

    Notes
    -----
    Thread safety: immutable except for `errors`; may be used from any thread.

    Examples
    --------
    >>> import mojoview as mv
    >>> module = mv.load("saxpy.mojo")  # doctest: +SKIP
    >>> module.saxpy(2.0, x, y)  # doctest: +SKIP
    """

    path: Path
    name: str
    library: Path | None
    kernels: Mapping[str, Kernel]
    families: Mapping[str, KernelFamily]
    refused: Mapping[str, str]
    errors: ErrorTable

    def __init__(
        self,
        path: Path,
        library: Path | None,
        handle: ctypes.CDLL,
        exports: Exports,
        *,
        name: str | None = None,
        index: SourceIndex | None = None,
    ):
        from mojoview.calls._kernel import Kernel
        from mojoview.calls.overloads import families_of

        index = index or SourceIndex({}, {})
        self.errors = ErrorTable(index.statuses)
        kernels, refused = dict[str, Kernel](), dict(exports.refused)
        for symbol, signature in exports.kernels.items():
            address = address_of(handle, symbol)
            try:
                origin = SourceLocation(self.errors, *index.exports.get(symbol, ()))
                kernels[symbol] = Kernel.from_address(signature, address, owner=handle, origin=origin)
            except (MojoViewError, ValueError) as error:
                refused[symbol] = str(error)
        self.path, self.library, self.__doc__ = path, library, exports.doc or None
        self.name = name or path.stem
        self.families = MappingProxyType(families_of(kernels, refused))
        self.kernels, self.refused = MappingProxyType(kernels), MappingProxyType(refused)
        self._files = {symbol: file.name for symbol, (file, _) in index.exports.items()}
        # Instance attributes: a call of __getattr__ takes longer than the checks of a call.
        own, kind = vars(self), type(self)
        own.update(
            {
                name: found
                for name, found in {**self.families, **kernels}.items()
                if name not in own and not hasattr(kind, name)
            }
        )

    def __getattr__(self, name: str) -> Any:
        # copy and pickle look up attributes before __init__ has run.
        return self._kernel(name, **{k: vars(self).get(k, {}) for k in ("kernels", "families", "refused")})

    def __getitem__(self, name: str) -> Any:
        return self._kernel(name, self.kernels, self.families, self.refused)

    def _kernel(
        self, name: str, kernels: Mapping[str, Kernel], families: Mapping[str, KernelFamily], refused: Mapping[str, str]
    ) -> Kernel | KernelFamily:
        if name in kernels:
            return kernels[name]
        if name in families:
            return families[name]
        file = vars(self)["path"].name if "path" in vars(self) else "the file"
        if name in refused:
            file = vars(self).get("_files", {}).get(name, file)
            raise KernelAttributeError(f"{file}: the export {name} is not a kernel: {refused[name]}", kernel=name)
        raise KernelAttributeError(f"{file} has no kernel {name!r}; its kernels are: {', '.join(kernels) or 'none'}")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ArgumentError("a KernelModule cannot be pickled or copied: its code is loaded into this process only")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.kernels, *self.families})

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __contains__(self, name: object) -> bool:
        return name in self.kernels or name in self.families

    def __repr__(self) -> str:
        lines = [f"  {kernel.signature}" for kernel in self.kernels.values()]
        lines += [f"  {name}: {', '.join(k.name for k in family.kernels)}" for name, family in self.families.items()]
        lines += [f"  {symbol}: refused, {reason}" for symbol, reason in self.refused.items()]
        return "\n".join([f"<KernelModule of {self.path.name}, {len(self)} kernels>", *lines])
