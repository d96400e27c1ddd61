"""The size of a view of Arrow data, by the arithmetic of its layout."""

import pandas as pd
import pytest

import mojoview as mv

pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("array", "nbytes"),
    [
        (pa.array(["a", None, "bc"]), 4 * 4 + 3),
        (pa.array(["a", None, "bc"])[1:], 3 * 4 + 2),
        (pa.array(["a"], pa.large_string()), 2 * 8 + 1),
        (pa.array(["short", "longer than twelve bytes"], pa.string_view()), 2 * 16 + 24),
        (pa.array([True] * 9), 2),
        (pa.nulls(4), 0),
        (pa.array([[1, 2], None, [3]]), 4 * 4 + 3 * 8),
        (pa.array([[1, 2], None, [3]])[2:], 2 * 4 + 8),
        (pa.array([[1], [2, 3]], pa.list_view(pa.int8())), 2 * 4 + 2 * 4 + 3),
        (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), 4 * 4),
        (pa.array([{"a": 1, "b": "x"}]), 8 + 2 * 4 + 1),
        (pa.array(["x", "y", "x"]).dictionary_encode(), 3 * 4 + 3 * 4 + 2),
        (pa.array([], pa.string()), 0),
        (pa.array([], pa.list_(pa.int8())), 0),
    ],
)
def test_the_size_of_a_view_is_that_of_its_parts(array, nbytes):
    assert mv.view(array).nbytes == nbytes
    assert mv.view(pa.chunked_array([array, array])).nbytes == 2 * nbytes


def test_the_size_of_a_frame_view_is_that_of_its_columns():
    columns = {"n": pa.array([1, 2]), "text": pa.array(["a", "bc"]), "inline": pa.array(["a", "bc"], pa.string_view())}
    frame = pd.DataFrame({name: pd.Series(pd.arrays.ArrowExtensionArray(array)) for name, array in columns.items()})
    view = frame.mojo.view()
    assert [column.nbytes for column in view.values()] == [16, 3 * 4 + 3, 2 * 16]
    assert view.nbytes == 16 + 15 + 32
