"""How views of pandas data look: a line of text, and in notebooks a picture of the frame's blocks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from mojoview.frames._explain import Fact, facts_of_object, facts_of_view
from mojoview.views import _repr as views

if TYPE_CHECKING:
    from mojoview.frames._column import PandasView
    from mojoview.frames._frame import FrameView

__all__ = ["accessor_html", "accessor_text", "frame_html", "frame_text", "view_html", "view_text"]
