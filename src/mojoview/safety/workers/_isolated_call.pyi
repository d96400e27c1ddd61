from typing import Any

from mojoview.safety._bound_call import BoundCall

def run_isolated(call: BoundCall, timeout: float | None, limit: int | None, strict: bool, finite: bool) -> Any: ...
