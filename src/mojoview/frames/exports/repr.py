"""How views of pandas data look: lines of text, and in notebooks a picture of the frame's blocks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from mojoview.frames.exports.explain import Fact, facts_of_object, facts_of_view
from mojoview.views import repr as views

if TYPE_CHECKING:
    from mojoview.frames.column_view import PandasView
    from mojoview.frames.frame_view import FrameView

__all__ = ["accessor_html", "accessor_text", "frame_html", "frame_text", "view_html", "view_text"]

MOST_COLUMNS = 24  # a picture of more columns, and a text of more lines, helps nobody


# -- text --------------------------------------------------------------------------------------------------------------


def view_text(view: PandasView) -> str:
    text = views.text(view)
    return text if view.closed else f"{text[:-1]}, {'; '.join(pandas_facts(view))}>"


def pandas_facts(view: PandasView) -> list[str]:
    facts = [f"pandas dtype {view.logical_dtype}"] if view.logical_dtype != view.dtype else []
    return [*facts, "frozen" if view.frozen else "live (pandas can write to it)", *(["stale"] if view.stale else [])]


def frame_text(frame: FrameView) -> str:
    if frame.closed:
        return "<FrameView released>"
    state = ", ".join(
        ["frozen" if frame.frozen else "live (pandas can write to it)", *(["stale"] if frame.stale else [])]
    )
    return _text(f"FrameView {frame.shape[0]:,} rows × {frame.shape[1]} columns, {state}", facts_of_view(frame))


def accessor_text(obj: Any) -> str:
    return _text(f"mojo accessor of {type(obj).__name__}, {_shape(obj)}", facts_of_object(obj))


def _text(title: str, facts: Sequence[Fact]) -> str:
    rows = [
        (repr(f.column), f.dtype, "-" if f.block is None else f"block {f.block}", _strides(f), _verdict(f))
        for f in facts[:MOST_COLUMNS]
    ]
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]).rstrip()
        for row in rows
    ]
    if len(facts) > MOST_COLUMNS:
        lines.append(f"… and {len(facts) - MOST_COLUMNS} more columns")
    return "\n  ".join([f"<{title}>", *lines])


def _shape(obj: Any) -> str:
    return f"{len(obj.index):,} rows" + (f" × {obj.shape[1]} columns" if obj.ndim == 2 else "")


def _strides(fact: Fact) -> str:
    return _without_strides(fact) if fact.strides is None else f"strides ({', '.join(map(str, fact.strides))})"


def _without_strides(fact: Fact) -> str:
    return fact.kind if fact.zero_copy and fact.kind else "no numbers"


def _verdict(fact: Fact) -> str:
    if fact.copied:
        return fact.reason
    if fact.zero_copy:
        return "zero-copy" + (f" ({fact.reason})" if fact.reason else "")
    return fact.reason


# -- pictures ----------------------------------------------------------------------------------------------------------

# One hue a block. Chosen to differ also for colour-blind eyes, and drawn half transparent so that dark themes keep
# their ground.
_HUES = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#eeca3b", "#72b7b2", "#e45756", "#9d755d")
_GREY = "#888888"
_FONT = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"


class _Slab(NamedTuple):
    """What lies together in memory: a block, or a copy."""

    title: str
    hue: str
    facts: list[Fact]


def view_html(view: PandasView) -> str:
    html = views.html(view)
    return (
        html
        if view.closed
        else html.replace("</table>", f"</table><div style='opacity:.7'>{escape('; '.join(pandas_facts(view)))}</div>")
    )


def frame_html(frame: FrameView) -> str:
    if frame.closed:
        return "<div class='mojoview'><b>FrameView</b> released</div>"
    state = " · ".join(
        ["frozen" if frame.frozen else "live: pandas can write to it", *(["stale"] if frame.stale else [])]
    )
    return _picture(
        f"FrameView · {frame.shape[0]:,} rows × {frame.shape[1]} columns · {state}",
        facts_of_view(frame),
        frame.shape[0],
    )


def accessor_html(obj: Any) -> str:
    return _picture(f"{type(obj).__name__} · {_shape(obj)}", facts_of_object(obj), len(obj.index))


def _picture(title: str, facts: Sequence[Fact], rows: int) -> str:
    shown = facts[:MOST_COLUMNS]
    slabs = _slabs(shown, rows, len(facts) > len(shown))
    hue_of = {id(fact): slab.hue for slab in slabs for fact in slab.facts}
    more = (
        f"<div style='opacity:.7'>… and {len(facts) - len(shown)} more columns</div>" if len(facts) > len(shown) else ""
    )
    frame = "".join(_frame_column(fact, hue_of[id(fact)]) for fact in shown)
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
        f"<td style='{cell}'><div style='{caption}'>where they lie in memory</div>{memory}</td></tr></table></div>"
    )


def _slabs(facts: Sequence[Fact], rows: int, clipped: bool) -> list[_Slab]:
    """Columns by block, each block's in the order of their addresses; copies and what has no block after them."""
    blocks: dict[int, list[Fact]] = {}
    loose: list[Fact] = []
    for fact in facts:
        if fact.copied or fact.block is None:
            loose.append(fact)
        else:
            blocks.setdefault(fact.block, []).append(fact)
    slabs = []
    for number, members in sorted(blocks.items()):
        members = sorted(members, key=lambda fact: int(fact.address or "0", 16))
        shared = " · shared" if any(fact.shared for fact in members) else ""
        readonly = " · read-only" if any(fact.readonly for fact in members) else ""
        usable = any(fact.zero_copy for fact in members)
        slabs.append(
            _Slab(
                f"block {number} · {members[0].dtype} · {'at least ' * clipped}{len(members)} × {rows:,} · "
                f"{_order(members)}{shared}{readonly}",
                _HUES[number % len(_HUES)] if usable else _GREY,
                members,
            )
        )
    for fact in loose:
        slabs.append(
            _Slab(
                f"{'copy' if fact.copied else 'column'} · {fact.dtype} · 1 × {rows:,} · {_order([fact])}", _GREY, [fact]
            )
        )
    return slabs


def _order(members: Sequence[Fact]) -> str:
    if members[0].strides is None:
        return _without_strides(members[0])
    if all(fact.contiguous for fact in members):
        return "columns in one piece"
    return f"stride {members[0].strides[-1]} bytes"


def _frame_column(fact: Fact, hue: str) -> str:
    cell = (
        f"border:none;background:none;padding:1px 10px 1px 0;text-align:left;white-space:nowrap;font-size:12px;{_FONT}"
    )
    mark, colour = (
        ("✓ zero-copy", "#3a9d4f")
        if fact.zero_copy
        else ("• copied", "#b7791f")
        if fact.copied
        else ("✕ refused", "#e0523f")
    )
    note = (
        "<div style='white-space:normal;min-width:22em;max-width:30em;opacity:.75;font-family:sans-serif'>"
        f"{escape(fact.reason)}</div>"
        if fact.reason and not (fact.copied and fact.reason == "copied as asked")
        else ""
    )
    return (
        "<tr style='background:none'>"
        f"<td style='{cell};vertical-align:top'>{_bar(hue, 12, 12, not fact.zero_copy)}</td>"
        f"<td style='{cell};vertical-align:top'><b>{escape(str(fact.column))}</b></td>"
        f"<td style='{cell};vertical-align:top;opacity:.75'>{escape(fact.dtype)}</td>"
        f"<td style='{cell};vertical-align:top'><span style='color:{colour}'>{mark}</span>{note}</td></tr>"
    )


def _memory_slab(slab: _Slab) -> str:
    """One strip a column, since pandas keeps a column together; dashes where its values lie apart."""
    height, width = 17, 250
    strips = []
    for k, fact in enumerate(slab.facts):
        apart = fact.strides is not None and not fact.contiguous
        fill = "url(#mojoview-none)" if fact.strides is None and not fact.zero_copy else slab.hue
        dash = f"stroke-dasharray='5 4' stroke='{slab.hue}' stroke-width='{height - 4}' fill='none'"
        shape = (
            f"<path d='M0 {k * height + height / 2 - 1} H{width}' {dash} opacity='.3'/>"
            if apart
            else f"<rect x='0' y='{k * height}' width='{width}' height='{height - 2}' rx='2' fill='{fill}' "
            "opacity='.55'/>"
        )
        where = fact.address or "elsewhere"
        strips.append(
            f"{shape}<text x='6' y='{k * height + 11.5}' font-size='10.5' fill='currentColor' style='{_FONT}'>"
            f"{escape(_clip(str(fact.column), 18))}</text><text x='{width - 6}' y='{k * height + 11.5}' "
            f"font-size='9.5' text-anchor='end' fill='currentColor' opacity='.7' style='{_FONT}'>{where}</text>"
        )
    drawing = (
        f"<svg width='{width}' height='{len(slab.facts) * height}' style='display:block;overflow:visible' role='img' "
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
