"""Pointer tables as arguments: Mojo kernels that sum any number of a frame's columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.memory import errors

pytestmark = pytest.mark.mojo


@pytest.mark.parametrize("count", [1, 3, 200])
def test_a_mojo_kernel_sums_many_columns_of_a_frame(compiled, count):
    frame = pd.DataFrame(np.random.default_rng(0).random((1000, count)), columns=[f"c{k}" for k in range(count)])
    frame = frame.copy()  # pandas' own order: each column dense
    sums = np.zeros(count)
    with frame.mojo.view() as view, mv.PointerTable([view[name] for name in frame.columns]) as table:
        assert np.asarray(table).tolist() == [frame[name].to_numpy().ctypes.data for name in frame.columns]
        assert compiled("columns").sum_columns(table, table.rows, sums) is None
    np.testing.assert_allclose(sums, frame.sum(), rtol=1e-12)


def test_descriptors_carry_the_strides(compiled):
    rows = np.random.default_rng(1).random((50, 4))
    sums = np.zeros(5)
    with mv.PointerTable([*rows.T, rows[::-7, 2]], to="descriptors") as table:
        compiled("columns").sum_described(table, sums)
    np.testing.assert_allclose(sums, [*rows.sum(axis=0), rows[::-7, 2].sum()], rtol=1e-12)
    with mv.PointerTable([rows[0], np.arange(3)], to="descriptors") as table, pytest.raises(errors.DTypeError):
        compiled("columns").sum_described(table, np.zeros(2))


def test_a_released_table_is_refused(compiled):
    table = mv.PointerTable([np.arange(3.0)])
    table.release()
    with pytest.raises(errors.ReleasedError):
        compiled("columns").sum_columns(table, 3, np.zeros(1))
