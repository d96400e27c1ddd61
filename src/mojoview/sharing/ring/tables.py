"""How records become tables and tables records: put here by frames/, which knows pandas, as this room does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["install", "make_frame", "make_records"]

_makers: dict[str, Callable[..., Any]] = {}


def install(frame_of_records: Callable[[Any], Any], records_of_frame: Callable[[Any, Any], Any]) -> None:
    """What `make_frame` and `make_records` call."""
    _makers.update(frame=frame_of_records, records=records_of_frame)


def make_frame(records: Any) -> Any:
    """A DataFrame of an array of records."""
    return _makers["frame"](records)


def make_records(table: Any, dtype: Any) -> Any:
    """An array of records of a DataFrame's rows."""
    return _makers["records"](table, dtype)
