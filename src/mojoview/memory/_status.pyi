from mojoview.memory.errors import MojoViewError

E_NDIM: int
E_DTYPE: int
E_SHAPE: int
E_STRIDE: int
E_ALIGN: int
E_READONLY: int
E_MASK: int
E_DEVICE: int
E_OVERLAP: int
E_EMPTY: int
E_USER: int
MAX_NDIM: int
STATUS: dict[int, tuple[type[MojoViewError], str]]

def error_for_status(code: int, operation: str, index: int | None = None) -> MojoViewError: ...
