from collections.abc import Iterator
from typing import final

from mojoview.sharing.ring._batch import Frame

REASONS: tuple[str, ...]

@final
class Consumer:
    def frames(self) -> Iterator[Frame]: ...
