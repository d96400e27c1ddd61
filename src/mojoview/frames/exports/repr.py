"""Text and HTML of frame views and accessors; the HTML draws the frame's blocks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from mojoview.frames.exports.explain import ColumnInfo, object_info, view_info
from mojoview.frames.frame_columns import FrameColumns

__all__ = ["accessor_html", "accessor_text", "frame_html", "frame_text"]

MAX_COLUMNS = 24  # drawn or listed


# -- text --------------------------------------------------------------------------------------------------------------


def frame_text(frame: FrameColumns) -> str:
    if frame.closed:
        return "<FrameView released>"
    state = ", ".join(
        ["frozen" if frame.frozen else "live (pandas can write to it)", *(["stale"] if frame.stale else [])]
    )
    return _text(f"FrameView {frame.shape[0]:,} rows × {frame.shape[1]} columns, {state}", view_info(frame))


def accessor_text(obj: Any) -> str:
    return _text(f"mojo accessor of {type(obj).__name__}, {_shape(obj)}", object_info(obj))


def _text(title: str, infos: Sequence[ColumnInfo]) -> str:
    rows = [
        (repr(f.column), f.dtype, "-" if f.block is None else f"block {f.block}", _strides(f), _verdict(f))
        for f in infos[:MAX_COLUMNS]
    ]
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]).rstrip()
        for row in rows
    ]
    if len(infos) > MAX_COLUMNS:
        lines.append(f"… and {len(infos) - MAX_COLUMNS} more columns")
    return "\n  ".join([f"<{title}>", *lines])


def _shape(obj: Any) -> str:
    return f"{len(obj.index):,} rows" + (f" × {obj.shape[1]} columns" if obj.ndim == 2 else "")


def _strides(info: ColumnInfo) -> str:
    return _without_strides(info) if info.strides is None else f"strides ({', '.join(map(str, info.strides))})"


def _without_strides(info: ColumnInfo) -> str:
    return info.kind if info.zero_copy and info.kind else "no numbers"


def _verdict(info: ColumnInfo) -> str:
    if info.copied:
        return info.reason
    if info.zero_copy:
        return "zero-copy" + (f" ({info.reason})" if info.reason else "")
    return info.reason


# -- pictures ----------------------------------------------------------------------------------------------------------

# One hue a block: distinct to colour-blind readers, and drawn half transparent to suit light and dark themes.
_HUES = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#eeca3b", "#72b7b2", "#e45756", "#9d755d")
_GREY = "#888888"
_FONT = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"


class _Slab(NamedTuple):
    """A region of memory in the picture: a block, or a copy."""

    title: str
    hue: str
    infos: list[ColumnInfo]


def frame_html(frame: FrameColumns) -> str:
    if frame.closed:
        return "<div class='mojoview'><b>FrameView</b> released</div>"
    state = " · ".join(
        ["frozen" if frame.frozen else "live: pandas can write to it", *(["stale"] if frame.stale else [])]
    )
    return _picture(
        f"FrameView · {frame.shape[0]:,} rows × {frame.shape[1]} columns · {state}",
        view_info(frame),
        frame.shape[0],
    )


def accessor_html(obj: Any) -> str:
    return _picture(f"{type(obj).__name__} · {_shape(obj)}", object_info(obj), len(obj.index))


def _picture(title: str, infos: Sequence[ColumnInfo], rows: int) -> str:
    shown = infos[:MAX_COLUMNS]
    slabs = _slabs(shown, rows, len(infos) > len(shown))
    hue_of = {id(info): slab.hue for slab in slabs for info in slab.infos}
    more = (
        f"<div style='opacity:.7'>… and {len(infos) - len(shown)} more columns</div>" if len(infos) > len(shown) else ""
    )
    frame = "".join(_frame_column(info, hue_of[id(info)]) for info in shown)
    memory = "".join(_memory_slab(slab) for slab in slabs)
    caption = "opacity:.6;font-size:11px;padding:0 0 3px"
    cell = "vertical-align:top;text-align:left;border:none;background:none;padding:0 28px 0 0"
    table = "border:none;border-collapse:collapse;margin:0;color:inherit"
    return (
        "<div class='mojoview' style='border-left:3px solid #e4572e;padding:2px 0 4px 10px;font-size:12px;"
        "line-height:1.35'>"
        f"<div style='padding-bottom:6px'><b>{escape(title)}</b></div>"
        f"<table style='{table}'><tr style='background:none'>"
        f"<td style='{cell}'><div style='{caption}'>the columns</div><table style='{table}'>{frame}</table>{more}</td>"
        f"<td style='{cell}'><div style='{caption}'>positions in memory</div>{memory}</td></tr></table></div>"
    )


def _slabs(infos: Sequence[ColumnInfo], rows: int, clipped: bool) -> list[_Slab]:
    """Group the columns by block, in the order of their addresses; copies and columns without a block come last."""
    blocks: dict[int, list[ColumnInfo]] = {}
    loose: list[ColumnInfo] = []
    for info in infos:
        if info.copied or info.block is None:
            loose.append(info)
        else:
            blocks.setdefault(info.block, []).append(info)
    slabs = []
    for number, members in sorted(blocks.items()):
        members = sorted(members, key=lambda info: int(info.address or "0", 16))
        shared = " · shared" if any(info.shared for info in members) else ""
        readonly = " · read-only" if any(info.readonly for info in members) else ""
        usable = any(info.zero_copy for info in members)
        slabs.append(
            _Slab(
                f"block {number} · {members[0].dtype} · {'at least ' * clipped}{len(members)} × {rows:,} · "
                f"{_order(members)}{shared}{readonly}",
                _HUES[number % len(_HUES)] if usable else _GREY,
                members,
            )
        )
    for info in loose:
        slabs.append(
            _Slab(
                f"{'copy' if info.copied else 'column'} · {info.dtype} · 1 × {rows:,} · {_order([info])}", _GREY, [info]
            )
        )
    return slabs


def _order(members: Sequence[ColumnInfo]) -> str:
    if members[0].strides is None:
        return _without_strides(members[0])
    if all(info.contiguous for info in members):
        return "columns in one piece"
    return f"stride {members[0].strides[-1]} bytes"


def _frame_column(info: ColumnInfo, hue: str) -> str:
    cell = (
        f"border:none;background:none;padding:1px 10px 1px 0;text-align:left;white-space:nowrap;font-size:12px;{_FONT}"
    )
    mark, colour = (
        ("✓ zero-copy", "#3a9d4f")
        if info.zero_copy
        else ("• copied", "#b7791f")
        if info.copied
        else ("✕ refused", "#e0523f")
    )
    note = (
        "<div style='white-space:normal;min-width:22em;max-width:30em;opacity:.75;font-family:sans-serif'>"
        f"{escape(info.reason)}</div>"
        if info.reason and not (info.copied and info.reason == "copied as asked")
        else ""
    )
    return (
        "<tr style='background:none'>"
        f"<td style='{cell};vertical-align:top'>{_bar(hue, 12, 12, not info.zero_copy)}</td>"
        f"<td style='{cell};vertical-align:top'><b>{escape(str(info.column))}</b></td>"
        f"<td style='{cell};vertical-align:top;opacity:.75'>{escape(info.dtype)}</td>"
        f"<td style='{cell};vertical-align:top'><span style='color:{colour}'>{mark}</span>{note}</td></tr>"
    )


def _memory_slab(slab: _Slab) -> str:
    """Draw one strip a column, since pandas stores a column together; dashed if its values are strided."""
    height, width = 17, 250
    strips = []
    for k, info in enumerate(slab.infos):
        apart = info.strides is not None and not info.contiguous
        fill = "url(#mojoview-none)" if info.strides is None and not info.zero_copy else slab.hue
        dash = f"stroke-dasharray='5 4' stroke='{slab.hue}' stroke-width='{height - 4}' fill='none'"
        shape = (
            f"<path d='M0 {k * height + height / 2 - 1} H{width}' {dash} opacity='.3'/>"
            if apart
            else f"<rect x='0' y='{k * height}' width='{width}' height='{height - 2}' rx='2' fill='{fill}' "
            "opacity='.55'/>"
        )
        where = info.address or "elsewhere"
        strips.append(
            f"{shape}<text x='6' y='{k * height + 11.5}' font-size='10.5' fill='currentColor' style='{_FONT}'>"
            f"{escape(_clip(str(info.column), 18))}</text><text x='{width - 6}' y='{k * height + 11.5}' "
            f"font-size='9.5' text-anchor='end' fill='currentColor' opacity='.7' style='{_FONT}'>{where}</text>"
        )
    drawing = (
        f"<svg width='{width}' height='{len(slab.infos) * height}' style='display:block;overflow:visible' role='img' "
        f"aria-label='{escape(slab.title, quote=True)}'><defs><pattern id='mojoview-none' width='6' height='6' "
        f"patternUnits='userSpaceOnUse' patternTransform='rotate(45)'><rect width='1.5' height='6' fill='{_GREY}' "
        "opacity='.45'/></pattern></defs>"
        f"{''.join(strips)}</svg>"
    )
    return (
        "<div style='padding:0 0 8px'><div "
        f"style='{_FONT};font-size:11px;padding-bottom:2px'>{escape(slab.title)}</div>"
        f"{drawing}</div>"
    )


def _bar(hue: str, width: int, height: int, hollow: bool) -> str:
    fill = f"fill='none' stroke='{hue}' stroke-width='2'" if hollow else f"fill='{hue}'"
    return (
        f"<svg width='{width}' height='{height}' style='vertical-align:-1px'><rect x='1' y='1' width='{width - 2}' "
        f"height='{height - 2}' rx='2' {fill}/></svg>"
    )


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
