"""The self-test detects an unknown pandas, and views then use public calls only."""

import numpy as np
import pandas as pd
import pytest

from mojoview.frames import blocks, self_test
from mojoview.memory.errors import FrameError, MaskError

PANDAS_MAJOR = int(pd.__version__.split(".")[0])


def without_a_pin(self, obj, positions=None):
    self.owner, self.blocks, self.nonplain, self._where, self._placements = lambda: obj, obj._mgr.blocks, [], None, []


def blind_to_change(self):
    return False


def raising(self, obj, positions=None):
    raise AttributeError("no such thing in this pandas")


@pytest.mark.parametrize(
    ("name", "planted", "words"),
    [
        ("__init__", without_a_pin, "does not count"),
        ("stale", property(blind_to_change), "pinned"),
        ("__init__", raising, "no such thing"),
    ],
)
def test_the_self_test_can_fail(name, planted, words, monkeypatch, cow_on):
    assert blocks._test_internals() is None
    monkeypatch.setattr(blocks.BlockPins, name, planted)
    assert words in blocks._test_internals()


def test_a_failed_self_test_is_reported(monkeypatch):
    monkeypatch.setattr(blocks, "INTERNALS", False)
    monkeypatch.setattr(blocks, "INTERNALS_ERROR", "the blocks are gone")
    result = self_test()
    assert not result["ok"]
    assert result["block_manager"] == "the blocks are gone"


def test_masked_arrays_of_an_unknown_layout_are_copied(monkeypatch):
    monkeypatch.setattr(blocks, "MASKED", False)
    df = pd.DataFrame({"m": pd.array([1, None, 3], dtype="Int64")})
    assert not self_test()["ok"]
    with pytest.raises(BufferError, match=r"'m'.*if_needed"):
        df.mojo.view("m", na="mask")
    v = df.mojo.view("m", copy="if_needed", na="mask")
    assert np.asarray(v.mask).tolist() == [False, True, False]
    assert np.asarray(v.data)[[0, 2]].tolist() == [1, 3]
    with pytest.raises(MaskError):
        df.mojo.view("m", copy="if_needed")


@pytest.mark.skipif(PANDAS_MAJOR >= 3, reason="pandas 3 has one manager")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_frame_without_blocks_takes_the_public_route():
    before = pd.get_option("mode.data_manager")
    pd.set_option("mode.data_manager", "array")
    try:
        df = pd.DataFrame({"x": [1.0, 2.0], "n": [3, 4]})
        assert not hasattr(df._mgr, "blocks")
        frame = df.mojo.view()
        assert np.asarray(frame["n"]).tolist() == [3, 4]
        assert np.asarray(df.mojo.view("x")).tolist() == [1.0, 2.0]
        assert df.mojo.explain()["zero_copy"].all()
        assert df.mojo.explain()["block"].isna().all()
        assert np.shares_memory(np.asarray(df.mojo.view("x")), df["x"].to_numpy())
    finally:
        pd.set_option("mode.data_manager", before)


def test_a_to_numpy_that_copies_is_noticed_by_its_address(monkeypatch):
    monkeypatch.setattr(blocks, "INTERNALS", False)
    original = pd.Series.to_numpy
    monkeypatch.setattr(pd.Series, "to_numpy", lambda self, *args, **kwargs: original(self, *args, **kwargs).copy())
    with pytest.raises(FrameError, match="copies a column"):
        pd.DataFrame({"x": [1.0, 2.0]}).mojo.view("x")
