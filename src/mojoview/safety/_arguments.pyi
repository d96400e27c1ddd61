from types import TracebackType
from typing import Any, final

from mojoview.safety.workers.arena import Array
from mojoview.calls import Kernel

@final
class Argument:
    at: int
    name: str
    writes: bool
    array: Array
    mask: Array | None
    def __init__(self, at: int, name: str, writes: bool, array: Array, mask: Array | None = None) -> None: ...

@final
class Call:
    kernel: Kernel
    arguments: list[Argument]
    values: tuple[Any, ...]
    scalars: tuple[Any, ...]
    options: dict[str, Any]
    prepared: bool
    masked: bool
    back: list[Array] | None
    message: Array | None
    def __enter__(self) -> Call: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def result(self, value: Any) -> Any: ...

def take_apart(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any], borrowed: bool) -> Call: ...
def kernel_of(kernel: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any: ...
