from mojoview.memory.errors import MojoViewError

STATUS: dict[int, tuple[type[MojoViewError], str]]

def error_for_status(code: int, operation: str, index: int | None = None) -> MojoViewError: ...
