"""Registration of the accessors on pandas' classes."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mojoview.frames.accessors import ArrayAccessor, FrameAccessor, IndexAccessor, SeriesAccessor
from mojoview.memory.errors import AccessorError

__all__ = ["AccessorDescriptor", "register"]


new = object.__new__


class AccessorDescriptor:
    """The descriptor `DataFrame.mojo`: makes a new accessor at each access, and cannot be overwritten.

    pandas' own descriptor caches the accessor in the frame (pandas 2), which makes a reference cycle, and lets
    ``df.mojo = 5`` hide it.
    """

    of_mojoview = True  # recognises the descriptor after a reload, which defines this class again

    def __init__(self, accessor: type) -> None:
        self.accessor = accessor
        self.__doc__ = accessor.__doc__

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        if obj is None:
            return self.accessor
        made: Any = new(self.accessor)
        made._obj = obj  # as __init__ does; calling the class would take twice the time
        return made

    def __set__(self, obj: Any, value: Any) -> None:
        raise AccessorError(
            "'mojo' is the mojoview accessor and cannot be replaced; use df['mojo'] for a column of that name"
        )


def register() -> None:
    """Register the accessors of DataFrame, Series, Index and arrays; repeating it changes nothing and does not warn."""
    api = pd.api.extensions
    for owner, accessor, announce in (
        (pd.DataFrame, FrameAccessor, api.register_dataframe_accessor),
        (pd.Series, SeriesAccessor, api.register_series_accessor),
        (pd.Index, IndexAccessor, api.register_index_accessor),
    ):
        if not getattr(vars(owner).get("mojo"), "of_mojoview", False):
            announce("mojo")(accessor)  # lists it among pandas' accessors; warns if another package's 'mojo' exists
        setattr(owner, "mojo", AccessorDescriptor(accessor))  # noqa: B010  unknown to pandas' stubs
    # pandas has no function that registers accessors of its arrays
    setattr(api.ExtensionArray, "mojo", AccessorDescriptor(ArrayAccessor))  # noqa: B010
