from typing import Any

from mojoview.kernels._call import Kernel
from mojoview.kernels.signature import Signature

def builtin_kernel(signature: Signature) -> Kernel: ...
def describe_arrays(
    signature: Signature, arrays: list[Any], names: list[str], threads: int | None
) -> list[tuple[Any, ...]]: ...
