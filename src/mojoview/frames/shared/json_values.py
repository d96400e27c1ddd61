"""Labels, names and attributes of a DataFrame as JSON, and back: equal and of the same type, or refused."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from mojoview.memory.errors import ZeroCopyError

__all__ = ["decode", "encode", "zone_text"]

MAX_BITS = 4096  # of an integer; far below the length at which Python refuses to read one


def encode(value: Any, what: str) -> Any:
    """Return a value as JSON: text and plain numbers as they are, everything else as a list that begins with its kind.

    Raises
    ------
    ZeroCopyError
        Another process could not make an equal value of the same type; the message begins with `what`.
    """
    kind = type(value)
    if value is None or kind in (bool, float, str) or (kind is int and value.bit_length() <= MAX_BITS):
        return value
    try:
        code = _code(value, kind, what)
        same = code is not None and _same(decode(code), value)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        same = False  # of a kind that is known, but with a time zone, unit or the like that cannot be named
    if not same:
        raise ZeroCopyError(
            f"sharing a frame: {what}: expected text, a number, a date or time, or a tuple of such, "
            f"got {_shown(value)} of type {kind.__name__}, which other processes cannot read; replace it"
        )
    return code


def decode(code: Any) -> Any:
    """Return the value that `encode()` wrote.

    Raises
    ------
    ValueError, TypeError, KeyError, ArithmeticError
        It did not write this.
    """
    if not isinstance(code, list):
        if code is None or type(code) in (bool, int, float, str):
            return code
        raise TypeError(f"a value of type {type(code).__name__}")
    name, *arguments = code
    return _DECODERS[name](*arguments)


def _code(value: Any, kind: type, what: str) -> Any:
    if value is pd.NaT:
        return ["NaT"]
    if value is pd.NA:
        return ["NA"]
    if isinstance(value, np.generic):
        return ["numpy", value.dtype.str, value.tobytes().hex()]
    if kind in (tuple, list):
        return [kind.__name__, [encode(item, what) for item in value]]
    if kind is dict:
        return ["dict", [[encode(key, what), encode(item, f"{what}[{key!r}]")] for key, item in value.items()]]
    if kind is pd.Interval:
        return ["Interval", encode(value.left, what), encode(value.right, what), value.closed]
    how = _ENCODERS.get(kind)
    return None if how is None else [kind.__name__, *how(value)]


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no integers of many thousand digits
        return "a value"


def _same(back: Any, value: Any) -> bool:
    """Return whether a value came back: of its type, equal unless it is a NaN, and alike where equal values differ."""
    if type(back) is not type(value) or repr(back) != repr(value):
        return False
    if isinstance(value, tuple | list | dict) or value is pd.NA:  # of a container every item was compared
        return True
    return bool(back == value or value != value) and getattr(back, "unit", None) == getattr(value, "unit", None)


def zone_text(zone: Any) -> str | None:
    """Return the text from which pandas makes an equal time zone; None if there is none."""
    try:
        return str(zone) if pd.DatetimeTZDtype("ns", str(zone)) == pd.DatetimeTZDtype("ns", zone) else None
    except (ValueError, TypeError, KeyError):  # a zone of no database
        return None


def _named_zone(zone: Any) -> str | None:
    if zone is None:
        return None
    text = zone_text(zone)
    if text is None:
        raise ValueError(f"no name for the time zone {zone!r}")
    return text


def _timestamp(number: int, unit: Any, zone: str | None) -> Any:
    instant = pd.Timestamp(np.datetime64(number, unit))
    return instant if zone is None else instant.tz_localize("UTC").tz_convert(zone)


def _numpy(dtype: str, data: str) -> Any:
    kind = np.dtype(dtype)
    if kind.kind not in "biufcmMSU":
        raise TypeError(f"a scalar of dtype {kind}")
    return np.frombuffer(bytes.fromhex(data), kind, 1)[0]


_ENCODERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    bytes: lambda value: (value.hex(),),
    datetime.date: lambda value: (value.isoformat(),),
    datetime.datetime: lambda value: (value.isoformat(),),
    datetime.time: lambda value: (value.isoformat(),),
    datetime.timedelta: lambda value: (value.days, value.seconds, value.microseconds),
    Decimal: lambda value: (str(value),),
    pd.Timestamp: lambda value: (int(value.asm8.astype("i8")), value.unit, _named_zone(value.tz)),
    pd.Timedelta: lambda value: (int(value.asm8.astype("i8")), value.unit),
    pd.Period: lambda value: (value.ordinal, value.freqstr),
}
_DECODERS: dict[str, Callable[..., Any]] = {
    "NaT": lambda: pd.NaT,
    "NA": lambda: pd.NA,
    "numpy": _numpy,
    "tuple": lambda items: tuple(map(decode, items)),
    "list": lambda items: list(map(decode, items)),
    "dict": lambda items: {decode(key): decode(item) for key, item in items},
    "Interval": lambda left, right, closed: pd.Interval(decode(left), decode(right), closed),
    "bytes": bytes.fromhex,
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": datetime.timedelta,
    "Decimal": Decimal,
    "Timestamp": _timestamp,
    "Timedelta": lambda number, unit: pd.Timedelta(np.timedelta64(number, unit)),
    "Period": lambda ordinal, freq: pd.Period(ordinal=ordinal, freq=freq),
}
