"""The kernels of a compiled library, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mojoview.calls.signature import Signature

__all__ = ["Exports"]


@dataclass(frozen=True, slots=True)
class Exports:
    """Signatures of the kernels of a library.

    Attributes
    ----------
    kernels : mapping of str to Signature
        By symbol.
    refused : mapping of str to str
        Exported functions that cannot be kernels, and the reason.
    doc : str
        Documentation of the whole.
    """

    kernels: Mapping[str, Signature]
    refused: Mapping[str, str]
    doc: str = ""
