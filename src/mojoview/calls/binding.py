"""Binding of Python arguments to a kernel's parameters, and the signature that `inspect` shows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from mojoview.calls.signature import Signature
from mojoview.memory.errors import ArgumentError

__all__ = ["COMPARISONS", "bind", "call_signature"]

COMPARISONS = ("lt", "le", "eq", "ne", "ge", "gt")

_Parameter = inspect.Parameter


def call_signature(
    signature: Signature,
    options: tuple[tuple[str, Any], ...],
    keyword_only: bool,
    defaults: Mapping[str, Any] = {},
) -> inspect.Signature:
    """Return the signature of a call: the kernel's own parameters, then the options with their defaults.

    `defaults` gives values for parameters that may be omitted. A last parameter for messages is never shown.
    """
    kind = _Parameter.KEYWORD_ONLY if keyword_only else _Parameter.POSITIONAL_OR_KEYWORD
    try:
        shown = [p for p in signature.params if not (p is signature.params[-1] and p.is_message)]
        parameters = [
            _Parameter(p.name, _Parameter.POSITIONAL_OR_KEYWORD, default=defaults.get(p.name, p.default)) for p in shown
        ]
        return inspect.Signature(parameters + [_Parameter(name, kind, default=default) for name, default in options])
    except ValueError as error:  # an invalid or repeated name, one of an option, or a default before a required one
        raise ArgumentError(f"{signature.name}: {error}") from None


def bind(
    signature: Signature, form: inspect.Signature, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments in the kernel's order, and the options."""
    try:
        bound = form.bind(*args, **keywords)
    except TypeError as error:
        raise ArgumentError(f"{signature.name}{form}: {error}") from None
    bound.apply_defaults()
    own = tuple(bound.arguments.pop(p.name, None) for p in signature.params)
    return own, bound.arguments
