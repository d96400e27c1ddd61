"""The kernels of one Mojo file, as attributes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from mojoview.calls.errors import ErrorTable, SourceLocation
from mojoview.loading.mojo.source import outline_of
from mojoview.memory.errors import ArgumentError, KernelAttributeError, MojoViewError

if TYPE_CHECKING:
    from mojoview.calls._kernel import Kernel
    from mojoview.calls._overloads import KernelFamily
    from mojoview.loading.mojo.exports import Exports

__all__ = ["KernelModule", "Places"]


@dataclass(frozen=True, slots=True)
class Places:
    """What the source says beside the kernels' signatures.

    Attributes
    ----------
    exports : mapping of str to (Path, int)
        The file and the line in which the `def` of each export stands.
    statuses : mapping of str to (int, str)
        Codes and docstrings of the statuses that the files declare; the first file to name one counts.
    """

    exports: Mapping[str, tuple[Path, int]]
    statuses: Mapping[str, tuple[int, str]]

    @classmethod
    def of(cls, sources: Sequence[Path]) -> Places:
        exports, statuses = dict[str, tuple[Path, int]](), dict[str, tuple[int, str]]()
        for file in sources:
            try:
                found = outline_of(file)
            except OSError:
                continue  # gone since it was compiled; its failures then have no line
            for export in found.exports:
                exports.setdefault(export.symbol, (file, export.defined))
            for name, declared in found.statuses.items():
                statuses.setdefault(name, declared)
        return cls(exports, statuses)


class KernelModule:
    """The kernels of Mojo source: `module.saxpy`, or `module["saxpy"]` for names that clash with the attributes below.

    An export that cannot be called safely stays visible in `refused`; touching it raises KernelAttributeError, which
    says why.

    Attributes
    ----------
    path : Path
        The source file, or the directory of the package.
    name : str
    library : Path or None
        The shared object in the cache; None where no cache could be written.
    kernels : mapping of str to Kernel
    families : mapping of str to KernelFamily
        Kernels that are one for several dtypes: exports `scale_f32` and `scale_f64` are also `scale`, which takes the
        one that its arguments ask for.
    refused : mapping of str to str
        Exports that are no kernels, and why.
    errors : ErrorTable
        The exceptions that the kernels' own status codes stand for; `errors[65] = MyError` adds one.

    Notes
    -----
    Thread safety: immutable but for `errors`; may be used from any thread.

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

    def __init__(self, path: Path, library: Path | None, handle: ctypes.CDLL, exports: Exports, *,
                 name: str | None = None, places: Places | None = None):
        from mojoview.calls._kernel import Kernel
        from mojoview.calls.overloads import families_of

        places = places or Places({}, {})
        self.errors = ErrorTable(places.statuses)
        kernels, refused = dict[str, Kernel](), dict(exports.refused)
        for symbol, signature in exports.kernels.items():
            address = ctypes.cast(handle[symbol], ctypes.c_void_p).value or 0
            try:
                origin = SourceLocation(self.errors, *places.exports.get(symbol, ()))
                kernels[symbol] = Kernel.from_address(signature, address, owner=handle, origin=origin)
            except (MojoViewError, ValueError) as error:
                refused[symbol] = str(error)
        self.path, self.library, self.__doc__ = path, library, exports.doc or None
        self.name = name or path.stem
        self.families = MappingProxyType(families_of(kernels, refused))
        self.kernels, self.refused = MappingProxyType(kernels), MappingProxyType(refused)
        self._files = {symbol: place[0].name for symbol, place in places.exports.items()}
        # found without a call of __getattr__, which takes longer than the kernel's checks
        own, kind = vars(self), type(self)
        own.update({name: found for name, found in {**self.families, **kernels}.items()
                    if name not in own and not hasattr(kind, name)})

    def __getattr__(self, name: str) -> Any:
        # only what is no attribute comes here; before __init__ has run (copy, pickle) there are no kernels yet
        return self._kernel(name, **{k: vars(self).get(k, {}) for k in ("kernels", "families", "refused")})

    def __getitem__(self, name: str) -> Any:
        return self._kernel(name, self.kernels, self.families, self.refused)

    def _kernel(self, name: str, kernels: Mapping[str, Kernel], families: Mapping[str, KernelFamily],
                refused: Mapping[str, str]) -> Kernel | KernelFamily:
        if name in kernels:
            return kernels[name]
        if name in families:
            return families[name]
        file = vars(self)["path"].name if "path" in vars(self) else "the file"
        if name in refused:
            file = vars(self).get("_files", {}).get(name, file)
            raise KernelAttributeError(f"{file}: the export {name} is no kernel: {refused[name]}", kernel=name)
        raise KernelAttributeError(f"{file} exports no {name!r}; its kernels are: {', '.join(kernels) or 'none'}")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ArgumentError("a KernelModule cannot be pickled or copied: it stands for code loaded into this process")

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
