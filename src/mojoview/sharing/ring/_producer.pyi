from types import TracebackType
from typing import final

from mojoview.views import View

FULL: dict[str, int]

@final
class Producer: ...

@final
class Claim:
    @property
    def seq(self) -> int | None: ...
    def __init__(self) -> None: ...
    def __enter__(self) -> View: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...
