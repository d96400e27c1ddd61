"""The accessor `mojo` of pandas' classes: registered, never cached, never overwritten, collected with its frame."""

import copy
import gc
import importlib
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pandas as pd
import pytest

import mojoview as mv
from mojoview.frames import ColumnView, FrameView, register, registration, self_test
from mojoview.memory.errors import AccessorError, ArgumentError, MojoViewError

OBJECTS = [pd.DataFrame({"x": [1.0, 2.0]}), pd.Series([1.0, 2.0]), pd.Index([1.0, 2.0])]


@pytest.fixture(params=OBJECTS, ids=lambda obj: type(obj).__name__)
def obj(request):
    return request.param.copy()


def test_the_accessor_is_registered_like_those_of_pandas(obj):
    assert "mojo" in dir(obj)
    assert "mojo" in type(obj)._accessors
    assert isinstance(type(obj).mojo, type)
    assert isinstance(obj.mojo, type(obj).mojo)
    assert type(obj).mojo.__doc__
    assert type(obj).mojo.view.__doc__


def test_registering_again_is_silent_and_columns_named_mojo_work():
    importlib.reload(mv)
    importlib.reload(registration).register()
    register()
    df = pd.DataFrame({"mojo": [1.0, 2.0], "x": [3.0, 4.0]})
    assert df["mojo"].tolist() == [1.0, 2.0]
    assert np.asarray(df.mojo.view("mojo")).tolist() == [1.0, 2.0]
    df["mojo"] = [5.0, 6.0]
    assert np.asarray(df.mojo.view("mojo")).tolist() == [5.0, 6.0]
    odd = pd.DataFrame({"o": [object()]})
    assert hasattr(odd, "mojo")
    with pytest.raises((TypeError, ValueError)) as caught:
        odd.mojo.view()
    assert not isinstance(caught.value, AttributeError)


def test_importing_twice_does_not_warn():
    program = (
        "import warnings; warnings.simplefilter('error', UserWarning); import importlib, mojoview; "
        "importlib.reload(mojoview); "
        "import mojoview.frames; importlib.reload(mojoview.frames); import pandas as pd; print(pd.DataFrame({'x': "
        "[1]}).mojo.view()['x'][0])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr


def test_the_accessor_of_another_package_is_warned_about():
    program = (
        "import pandas as pd, warnings\n@pd.api.extensions.register_dataframe_accessor('mojo')\nclass Other:\n"
        "    def __init__(self, df): pass\nwith warnings.catch_warnings(record=True) as seen:\n    "
        "warnings.simplefilter('always')\n"
        "    import mojoview\nprint(sum('overriding' in str(w.message) for w in seen), pd.DataFrame.mojo.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["1", "mojoview.frames.accessors"], done.stderr


def test_it_cannot_be_overwritten(obj):
    with pytest.raises(AccessorError, match=r"df\['mojo'\]") as caught:
        obj.mojo = 5
    assert isinstance(caught.value, AttributeError)
    assert isinstance(caught.value, MojoViewError)
    assert obj.mojo.view() is not None


def test_each_access_makes_a_new_accessor_without_a_cycle(obj):
    assert obj.mojo is not obj.mojo
    obj.mojo.view()
    assert "mojo" not in vars(obj)


def test_frames_are_freed_at_once_after_use(obj):
    gc.collect()
    gc.disable()
    try:
        obj = obj.copy()
        alive = weakref.ref(obj)
        view = obj.mojo.view()
        _ = obj.mojo.explain() if hasattr(obj.mojo, "explain") else None
        repr(obj.mojo)
        repr(view)
        view._repr_html_()
        with pytest.raises(MojoViewError):
            obj.mojo.view(copy="wrong")
        view.release()
        del view, obj, _
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "fail",
    [
        lambda df: df.mojo.view(),
        lambda df: df.mojo.view("o"),
        lambda df: df.mojo.view("none"),
        lambda df: df.mojo.block(),
        lambda df: df.mojo.blocks(),
        lambda df: df.mojo.view(["o", "i"]),
    ],
)
def test_frames_are_freed_at_once_after_a_refusal(fail):
    gc.collect()
    gc.disable()
    try:
        df = pd.DataFrame({"x": [1.0, 2.0], "o": [object(), 1], "i": pd.array([1, None], dtype="Int64")})
        alive, block = weakref.ref(df), df._mgr.blocks[0]
        try:
            fail(df)
        except MojoViewError:
            pass
        else:
            pytest.fail("no refusal: the test shows nothing")
        assert not block.refs.has_reference(), "a refused call has left a pin"
        del df
        assert alive() is None
    finally:
        gc.enable()


def test_pickle_and_copies_do_not_carry_it(obj):
    obj.mojo.view()
    for other in (pickle.loads(pickle.dumps(obj)), copy.deepcopy(obj), copy.copy(obj)):
        assert "mojo" not in vars(other)
        assert other.mojo.view() is not None
        assert other.equals(obj)


def test_views_refuse_to_be_pickled_or_copied():
    df = pd.DataFrame({"x": [1.0]})
    for view in (df.mojo.view(), df.mojo.view("x"), df.mojo.block()):
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(ArgumentError):
                attempt(view)
    with pytest.raises(ArgumentError):
        FrameView()
    with pytest.raises(ArgumentError):
        ColumnView()


def test_temporaries_work():
    view = pd.DataFrame({"x": np.arange(1000.0)}).mojo.view()
    column = pd.DataFrame({"x": np.arange(1000.0)}).mojo.view("x")
    gc.collect()
    assert np.asarray(view["x"]).sum() == np.asarray(column).sum() == 499500.0


def test_subclasses_inherit_the_accessor():
    class Frame(pd.DataFrame):
        @property
        def _constructor(self):
            return Frame

    df = Frame({"x": [1.0, 2.0]})
    assert df.mojo.view("x")[1] == 2.0
    assert df.iloc[:1].mojo.view().shape == (1, 1)


def test_view_function_takes_series_and_index_but_no_frame(obj):
    if isinstance(obj, pd.DataFrame):
        with pytest.raises(ArgumentError, match=r"\.mojo\.view"):
            mv.view(obj)
    else:
        assert isinstance(mv.view(obj), ColumnView)


def test_the_self_test_passes_on_this_pandas():
    result = self_test()
    assert result["ok"], result
    assert result["version"] == pd.__version__


@pytest.mark.parametrize("option", ["copy", "na", "layout"])
@pytest.mark.parametrize("value", [None, 1, "sometimes", ["never"], np.array(["never", "any"]), np.array("never")])
def test_wrong_options_raise_argument_error(option, value):
    df = pd.DataFrame({"x": [1.0, 2.0]})
    for take in (df.mojo.view, df["x"].mojo.view, df["x"].array.mojo.view, pd.Index(df["x"]).mojo.view):
        with pytest.raises(ArgumentError, match=rf"view\({option}="):
            take(**{option: value})


@pytest.mark.parametrize("dtype", ["nonsense", 1, ("a",), object(), "f8,zz"])
def test_a_wrong_dtype_selects_no_block(dtype):
    df = pd.DataFrame({"x": [1.0, 2.0]})
    with pytest.raises(TypeError, match="block: expected a dtype") as caught:
        df.mojo.block(dtype)
    assert isinstance(caught.value, MojoViewError)


ARRAYS = {
    "masked": pd.array([1, None, 3], dtype="Int64"),
    "numpy": pd.array(np.arange(3.0)),
    "categories": pd.Categorical(["a", None, "b"]),
    "zone": pd.date_range("2024-01-01", periods=3, tz="US/Eastern").array,
    "spans": pd.to_timedelta([1, None, 2], unit="s").array,
    "periods": pd.period_range("2020", "2022", freq="Y").array,
    "flags": pd.array([True, None, False]),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_extension_arrays_are_viewed_as_their_series_are(array):
    column = pd.Series(array, copy=False)
    mine, series = mv.view(array), mv.view(column)
    assert (mine.ptr, mine.dtype, mine.shape, mine.masked) == (series.ptr, series.dtype, series.shape, series.masked)
    assert mine.readonly
    assert mine.logical_dtype == series.logical_dtype
    assert mv.kernels.count(array) == mv.kernels.count(column)
    with pytest.raises(MojoViewError):
        mv.view(array, writable=True)
    assert "array" in repr(array.mojo).lower() or "Categorical" in repr(array.mojo)


def test_an_array_lives_as_long_as_its_view():
    array = pd.array([1, 2, 3], dtype="Int64")
    gone = weakref.ref(array)
    view = mv.view(array)
    del array
    gc.collect()
    assert np.asarray(view).tolist() == [1, 2, 3]
    view.release()
    del view
    gc.collect()
    assert gone() is None
