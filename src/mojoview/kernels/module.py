"""The kernels of one Mojo file, as attributes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mojoview.memory.errors import KernelAttributeError, MojoViewError

if TYPE_CHECKING:
    from mojoview.kernels._call import Kernel
    from mojoview.kernels.exports import Exports

__all__ = ["KernelModule"]


class KernelModule:
    """The kernels of a Mojo file: `module.saxpy`, or `module["saxpy"]` for names that clash with the attributes below.

    An export that cannot be called safely stays visible in `refused`; touching it raises KernelAttributeError, which
    says why.

    Attributes
    ----------
    path : Path
        The source file.
    library : Path or None
        The shared object in the cache; None where no cache could be written.
    kernels : mapping of str to Kernel
    refused : mapping of str to str
        Exports that are no kernels, and why.

    Notes
    -----
    Thread safety: immutable; may be used from any thread.

    Examples
    --------
    >>> import mojoview as mv
    >>> module = mv.load("saxpy.mojo")  # doctest: +SKIP
    >>> module.saxpy(2.0, x, y)  # doctest: +SKIP
    """

    path: Path
    library: Path | None
    kernels: Mapping[str, Kernel]
    refused: Mapping[str, str]

    def __init__(self, path: Path, library: Path | None, handle: ctypes.CDLL, exports: Exports):
        from mojoview.kernels._call import Kernel

        kernels, refused = dict[str, Kernel](), dict(exports.refused)
        for symbol, signature in exports.kernels.items():
            address = ctypes.cast(getattr(handle, symbol), ctypes.c_void_p).value or 0
            try:
                kernels[symbol] = Kernel.from_address(signature, address, owner=handle)
            except (MojoViewError, ValueError) as error:
                refused[symbol] = str(error)
        self.path, self.library, self.__doc__ = path, library, exports.doc or None
        self.kernels, self.refused = MappingProxyType(kernels), MappingProxyType(refused)

    def __getattr__(self, name: str) -> Kernel:
        # only what is no attribute comes here; before __init__ has run (copy, pickle) there are no kernels yet
        return self._kernel(name, vars(self).get("kernels", {}), vars(self).get("refused", {}))

    def __getitem__(self, name: str) -> Kernel:
        return self._kernel(name, self.kernels, self.refused)

    def _kernel(self, name: str, kernels: Mapping[str, Kernel], refused: Mapping[str, str]) -> Kernel:
        if name in kernels:
            return kernels[name]
        file = vars(self)["path"].name if "path" in vars(self) else "the file"
        if name in refused:
            raise KernelAttributeError(f"{file}: the export {name} is no kernel: {refused[name]}", kernel=name)
        raise KernelAttributeError(f"{file} exports no {name!r}; its kernels are: {', '.join(kernels) or 'none'}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.kernels})

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __contains__(self, name: object) -> bool:
        return name in self.kernels

    def __repr__(self) -> str:
        lines = [f"  {kernel.signature}" for kernel in self.kernels.values()]
        lines += [f"  {symbol}: refused, {reason}" for symbol, reason in self.refused.items()]
        return "\n".join([f"<KernelModule of {self.path.name}, {len(self)} kernels>", *lines])
