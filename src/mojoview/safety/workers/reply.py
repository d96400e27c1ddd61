"""Replies of a worker as bytes: numbers, texts, arrays, tuples, and failures. Nothing of a reply is ever executed.

A worker runs foreign code, which may write anything to its end of the connection, so a reply is not a pickle: it is
JSON of bounded length, and only exceptions of mojoview's own tree are made from it.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import struct
from typing import Any

import numpy as np

from mojoview.compute.descriptions import Description
from mojoview.memory import errors
from mojoview.memory.errors import KernelError, MojoViewError
from mojoview.safety.kernel_reference import KernelStatus

__all__ = ["LENGTH", "MAX_REPLY_BYTES", "MalformedReply", "decode_reply", "encode_reply"]

LENGTH = struct.Struct("<Q")  # before a payload, in either direction
MAX_REPLY_BYTES = 1 << 30
DESCRIBED = tuple(field.name for field in dataclasses.fields(Description))


class MalformedReply(KernelError):
    """A worker's reply is not what `encode_reply` makes: its kernel wrote to the connection."""


def encode_reply(done: bool, value: Any) -> bytes:
    """Return a reply with its length: a result if `done`, otherwise a KernelStatus or a MojoViewError.

    Raises
    ------
    TypeError, ValueError
        The value has a type that replies do not carry, or is too long.
    """
    text = json.dumps([done, _plain(value)]).encode()
    if len(text) > MAX_REPLY_BYTES:
        raise ValueError(f"a result of {len(text)} bytes is longer than {MAX_REPLY_BYTES}")
    return LENGTH.pack(len(text)) + text


def decode_reply(text: bytes) -> tuple[bool, Any]:
    """Return whether the call succeeded, and its result or exception. Any bytes are safe.

    Raises
    ------
    MalformedReply
    """
    try:
        done, value = json.loads(text)
        if not isinstance(done, bool):
            raise ValueError("expected true or false")
        return done, _object(value)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, MemoryError) as error:
        raise MalformedReply(f"a worker process sent a malformed reply: {error}") from None


def _plain(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is complex:
        return {"complex": [value.real, value.imag]}
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        array = np.ascontiguousarray(value)
        text = base64.b64encode(array.tobytes()).decode()
        return {"array" if isinstance(value, np.ndarray) else "scalar": [array.dtype.str, list(np.shape(value)), text]}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_plain(item) for item in value]}
    if type(value) is Description:
        return {"description": [_plain(getattr(value, name)) for name in DESCRIBED]}
    if isinstance(value, KernelStatus):
        return {"status": [_plain(item) for item in value.args]}
    if isinstance(value, MojoViewError):
        attributes = {name: _plain(item) for name, item in vars(value).items()}
        arguments = value.__reduce__()[1]  # of the class
        return {"error": [type(value).__name__, [_plain(item) for item in arguments], attributes]}
    raise TypeError(f"a worker cannot send a {type(value).__name__}")


def _object(value: Any) -> Any:
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise ValueError("a bare list")
        return value
    ((kind, parts),) = value.items()
    if kind == "complex":
        return complex(*parts)
    if kind in ("array", "scalar"):
        dtype, shape, text = parts
        array = np.frombuffer(base64.b64decode(text, validate=True), np.dtype(str(dtype))).reshape(shape).copy()
        return array if kind == "array" else array[()]
    if kind in ("tuple", "list"):
        items = [_object(item) for item in parts]
        return tuple(items) if kind == "tuple" else items
    if kind == "description":
        return Description(*(_object(item) for item in parts))
    if kind == "status":
        code, index = (_object(item) for item in parts)
        if type(code) is not int or type(index) not in (int, type(None)):
            raise ValueError("a status is an integer and an index")
        return KernelStatus(code, index)
    if kind == "error":
        name, arguments, attributes = parts
        known = getattr(errors, name) if name in errors.__all__ else None
        if not (isinstance(known, type) and issubclass(known, MojoViewError)):
            raise ValueError(f"{name!r} is not an exception of mojoview")
        arguments = tuple(_object(item) for item in arguments)
        error = known(*arguments)
        vars(error).update({str(key): _object(item) for key, item in attributes.items()})
        return error
    raise ValueError(f"unknown kind {kind!r}")
