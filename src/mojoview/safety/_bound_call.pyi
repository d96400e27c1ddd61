from types import TracebackType
from typing import Any, final

from mojoview.calls import Kernel
from mojoview.safety.workers.arena import Array

@final
class Argument:
    index: int
    name: str
    writes: bool
    array: Array
    mask: Array | None
    def __init__(self, index: int, name: str, writes: bool, array: Array, mask: Array | None = None) -> None: ...

@final
class BoundCall:
    kernel: Kernel
    arguments: list[Argument]
    values: tuple[Any, ...]
    scalars: tuple[Any, ...]
    options: dict[str, Any]
    prepared: bool
    masked: bool
    allocated: list[Array] | None
    message: Array | None
    def __enter__(self) -> BoundCall: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def result(self, value: Any) -> Any: ...

def bind_call(kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any], borrow: bool) -> BoundCall: ...
def resolve_kernel(kernel: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any: ...
