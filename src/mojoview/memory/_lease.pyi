from typing import final

@final
class Lease:
    def __init__(self) -> None: ...

def live_leases() -> int: ...
