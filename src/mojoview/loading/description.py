"""Signatures as JSON: what stands beside a compiled library, and what is believed of it."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mojoview.loading.mojo.exports import ELEMENTS, ROLES, SCALARS
from mojoview.calls.signature import Param, Signature
from mojoview.memory.errors import KernelValueError

__all__ = ["plain_signature", "read_signature", "seal"]

DTYPES = {*ELEMENTS.values(), *(dtype for dtype, _ in SCALARS.values())}
RESULTS = {"none", "status", "status_index", *DTYPES}
PASSINGS = {"descriptor", "pointer", "value"}


def seal(body: Mapping[str, Any]) -> str:
    """The checksum that a description carries of itself."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def plain_signature(signature: Signature) -> dict[str, Any]:
    """A signature as what JSON can hold."""
    plain = asdict(signature)
    for param in plain["params"]:
        if param["default"] is inspect.Parameter.empty:
            del param["default"]
    return plain


def read_signature(plain: Mapping[str, Any]) -> Signature:
    """The signature that JSON held.

    Raises
    ------
    KernelValueError, KeyError, TypeError, AttributeError
        It is none. Whoever reads a file expects all of these.
    """
    fields = dict(plain)
    if fields.pop("sizes", []):  # only declarations of C functions have them, and those are not kept
        raise KernelValueError("a compiled kernel has no sizes that are filled in")
    params = tuple(_param(**p) for p in fields.pop("params"))
    signature = Signature(params=params, **fields)
    strings = (signature.name, signature.doc, signature.text, signature.result)
    valid = (all(type(s) is str for s in strings) and signature.result in RESULTS and type(signature.masks) is bool
             and signature.shapes == "free")
    if not valid:
        raise KernelValueError(f"no signature: {plain}")
    return signature


def _param(**fields: Any) -> Param:
    p = Param(**fields)
    valid = (type(p.name) is str and p.role in {*ROLES.values(), "value"}
             and p.dtype in DTYPES and p.passing in PASSINGS and (p.role == "value") == (p.passing == "value")
             and (p.ndim is None or (type(p.ndim) is int and 0 <= p.ndim <= 8))
             and (p.default is inspect.Parameter.empty or type(p.default) in (bool, int, float)))
    if not valid:
        raise KernelValueError(f"no parameter: {fields}")
    return p
