from typing import Any

from mojoview.safety._arguments import Call

def run_isolated(call: Call, timeout: float | None, limit: int | None, strict: bool, finite: bool) -> Any: ...
