from typing import Any

from typing_extensions import disjoint_base

@disjoint_base
class Lease:
    def __init__(self) -> None: ...
    @property
    def owner(self) -> Any: ...

def live_leases() -> int: ...
