"""Representations of views: one line of text, a small table in notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

__all__ = ["facts", "html", "text"]


def facts(view: Any) -> dict[str, str]:
    """Collect the properties that representations show, in order."""
    order = "C" if view.contiguous else "F" if view.f_contiguous else "strided"
    owner = view.owner
    return {
        "shape": "×".join(map(str, view.shape)) or "0-d",
        "dtype": str(view.dtype),
        "strides": ", ".join(map(str, view.strides)) or "none",
        "order": order + ("" if view.aligned else ", unaligned"),
        "address": f"{view.ptr:#x}",
        "bytes": f"{view.nbytes:,}",
        "access": "read-only" if view.readonly else "writable",
        "mask": "none" if not view.masked else "bits" if view.validity is not None else "bytes",
        "owner": f"{type(owner).__name__} at {id(owner):#x}",
    }


def text(view: Any) -> str:
    name = type(view).__name__
    if view.closed:
        return f"<{name} released>"
    f = facts(view)
    mask = ", masked" if view.masked else ""
    return (
        f"<{name} {f['shape']} {f['dtype']} at {f['address']}, strides ({f['strides']}), {f['order']}, "
        f"{f['access']}{mask}, owner {f['owner']}>"
    )


def html(view: Any) -> str:
    name = type(view).__name__
    if view.closed:
        return f"<div class='mojoview'><b>{escape(name)}</b> released</div>"
    cell = "padding:1px 12px 1px 0;text-align:left;border:none;background:none;font-size:12px"
    rows = "".join(
        f"<tr><th style='{cell};font-weight:500;opacity:.7'>{escape(key)}</th>"
        f"<td style='{cell};font-family:monospace'>{escape(value)}</td></tr>"
        for key, value in facts(view).items()
    )
    frame = "display:inline-block;border-left:3px solid #e4572e;padding:2px 0 2px 10px;font-size:12px;line-height:1.35"
    return (
        f"<div class='mojoview' style='{frame}'><b>{escape(name)}</b>"
        f"<table style='border:none;border-collapse:collapse;margin:2px 0'>{rows}</table></div>"
    )
