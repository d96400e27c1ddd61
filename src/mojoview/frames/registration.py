"""Puts the accessors on pandas' classes."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mojoview.frames.accessors import ArrayAccessor, FrameAccessor, IndexAccessor, SeriesAccessor
from mojoview.frames.shared.records import install as install_records
from mojoview.memory.errors import AccessorError
from mojoview.memory.extension_points import ATTACHERS, CONVERTERS

__all__ = ["AccessorDescriptor", "register"]


new = object.__new__


class AccessorDescriptor:
    """What stands at `DataFrame.mojo`: a fresh accessor each time, which cannot be overwritten.

    pandas' own descriptor caches the accessor in the frame (pandas 2), which makes a reference cycle, and lets
    ``df.mojo = 5`` hide it.
    """

    of_mojoview = True  # says so across a reload, which makes this class anew

    def __init__(self, accessor: type) -> None:
        self.accessor = accessor
        self.__doc__ = accessor.__doc__

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        if obj is None:
            return self.accessor
        made: Any = new(self.accessor)
        made._obj = obj  # what __init__ does, which a call would take twice the time to reach
        return made

    def __set__(self, obj: Any, value: Any) -> None:
        raise AccessorError(
            "'mojo' is the mojoview accessor and cannot be replaced; use df['mojo'] for a column of that name"
        )


def register() -> None:
    """Puts the accessors on DataFrame, Series, Index and arrays. Doing it again changes nothing and does not warn."""
    install_records()
    ATTACHERS["frame"] = "mojoview.frames.shared.shared_frame:attach_frame"
    CONVERTERS["to_series"] = "mojoview.frames.exports.to_pandas:to_series"
    api = pd.api.extensions
    for owner, accessor, announce in (
        (pd.DataFrame, FrameAccessor, api.register_dataframe_accessor),
        (pd.Series, SeriesAccessor, api.register_series_accessor),
        (pd.Index, IndexAccessor, api.register_index_accessor),
    ):
        if not getattr(vars(owner).get("mojo"), "of_mojoview", False):
            announce("mojo")(accessor)  # lists it among pandas' accessors; warns when somebody else's 'mojo' is there
        setattr(owner, "mojo", AccessorDescriptor(accessor))  # noqa: B010  pandas' stubs know no such attribute
    # pandas has no function that registers accessors of its arrays
    setattr(api.ExtensionArray, "mojo", AccessorDescriptor(ArrayAccessor))  # noqa: B010
