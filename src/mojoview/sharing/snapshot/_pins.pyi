from typing import final

@final
class Row: ...

@final
class Pin:
    time_ns: int
    nbytes: int
    @property
    def version(self) -> int: ...
