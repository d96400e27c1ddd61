from typing import Any

from mojoview.calls._kernel import Kernel
from mojoview.calls.signature import Signature

def builtin_kernel(signature: Signature) -> Kernel: ...
def describe_arrays(
    signature: Signature, arrays: list[Any], names: list[str], threads: int | None
) -> list[tuple[Any, ...]]: ...
