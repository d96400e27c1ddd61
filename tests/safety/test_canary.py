"""Canaries: what is compared, what follows a disagreement, the saved input, and what the kernel gets to see."""

import array
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from support import foreign

import mojoview as mv
from mojoview import kernels
from mojoview.calls._kernel import handled_kernel
from mojoview.calls.compare import difference
from mojoview.memory import errors
from mojoview.safety import canary as canary_module

SCALE = mv.Signature(
    "scale",
    (
        mv.Param("a", "value", "float64", passing="value"),
        mv.Param("x", "in", "float64"),
        mv.Param("y", "out", "float64"),
    ),
)
TOTAL = mv.Signature("total", (mv.Param("x", "in", "float64"),), result="float64")


def reference(a, x, y):
    y[:] = a * x


def right(a, x, y, threads):
    y[:] = a * x


def wrong(a, x, y, threads):
    """Right but for elements from 700 on that are above 0.5."""
    y[:] = a * x
    y[700:][x[700:] > 0.5] += 1


def data(n=1000):
    return np.linspace(0, 1, n), np.full(n, -1.0)


def watched(handler=wrong, signature=SCALE, against=reference, **options):
    return handled_kernel(signature, handler).canary(against, **{"sample": 1, **options})


# ---- agreement
def test_clean_calls_are_counted_and_promote():
    canary = watched(right, promote_after=3)
    x, y = data()
    for _ in range(3):
        assert canary.state == "watching"
        assert canary(2.0, x, y) is None
        np.testing.assert_array_equal(y, 2 * x)
    assert repr(canary) == "<canary of scale, promoted: 3 calls, 3 checked, 0 mismatches>"
    canary.reference = None  # never called again
    canary(2.0, x, y)
    assert (canary.calls, canary.report, canary.signature.name) == (3, None, "scale")


def test_a_sample_of_the_calls_is_checked():
    canary = watched(right, sample=0.25, seed=1)
    x, y = data(5)
    for _ in range(400):
        canary(1.0, x, y)
    assert canary.calls == 400
    assert 60 < canary.checked < 140


def test_a_canary_that_is_off_is_the_kernel():
    assert kernels.dot.canary(reference, sample=0) is kernels.dot


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        lambda a: np.ascontiguousarray(a)[::1],
        lambda a: np.repeat(a, 2)[::2],
        mv.view,
        pd.Series,
        lambda a: array.array("d", a),
        memoryview,
    ],
    ids=["ndarray", "dense", "strided", "view", "Series", "array", "memoryview"],
)
def test_every_kind_of_argument(make):
    x, y = data(50)
    canary = kernels.dot.canary(lambda a, b: float((a * b).sum()), sample=1, on_mismatch="raise")
    assert canary(make(x), y=make(y)) == pytest.approx(x @ y)
    assert (canary.checked, canary.unchecked) == (1, 0)


def test_outputs_that_are_views():
    x, y = data(50)
    out = mv.view(np.zeros(50), writable=True)
    canary = kernels.add.canary(lambda a, b, c: np.multiply(a, b, c), sample=1)
    with pytest.warns(RuntimeWarning, match="add\\(\\): call 1: argument 'out'"):
        canary(x, y, out)
    np.testing.assert_array_equal(np.asarray(out), x * y)


def test_missing_elements_reach_the_reference_as_such():
    column = pd.Series([1, None, 4], dtype="Int64")
    seen = []
    canary = kernels.sum.canary(lambda x: seen.append(x) or int(x.sum()), sample=1, on_mismatch="raise")
    assert canary(column) == 5
    assert isinstance(seen[0], np.ma.MaskedArray)
    assert seen[0].tolist() == [1, None, 4]
    assert canary.checked == 1


def test_options_reach_the_reference_but_for_threads():
    x = np.arange(6.0).reshape(2, 3)
    canary = kernels.std.canary(lambda x, **options: np.std(x, **options), sample=1, on_mismatch="raise")
    np.testing.assert_allclose(canary(x, axis=1, ddof=1, threads=2), x.std(axis=1, ddof=1))
    assert canary.checked == 1


def test_numbers_in_place_of_arrays():
    x, out = np.arange(3.0), np.empty(3)
    canary = kernels.add.canary(lambda x, y, out: np.add(x, y, out=out), sample=1, on_mismatch="raise")
    canary(x, 2.0, out)
    assert (out.tolist(), canary.checked) == ([2, 3, 4], 1)


@pytest.mark.parametrize(
    ("got", "expected", "options", "index"),
    [
        (1.0, 1.0 + 1e-9, {}, None),
        (1.0, 1.0 + 1e-6, {}, ()),
        (np.float32([1]), np.array([1 + 1e-4]), {}, None),
        (np.array([1.0, 2.0]), np.array([1.0, 2.1]), {"rtol": 0.1}, None),
        (np.array([0.0]), np.array([1e-12]), {}, (0,)),
        (np.array([0.0]), np.array([1e-12]), {"atol": 1e-10}, None),
        (np.array([np.nan, np.inf, -0.0]), np.array([np.nan, np.inf, 0.0]), {}, None),
        (np.array([np.inf]), np.array([-np.inf]), {}, (0,)),
        (np.array([np.nan]), np.array([0.0]), {}, (0,)),
        (np.array([2**62]), np.array([2**62 + 1]), {"rtol": 0.5}, (0,)),
        (np.array([[True, False]]), np.array([[True, True]]), {}, (0, 1)),
        (np.array(["NaT", 5], "M8[s]"), np.array(["NaT", 5], "M8[s]"), {}, None),
        (np.array(["NaT"], "M8[s]"), np.array([5], "M8[s]"), {}, (0,)),
        (np.array([1.0]), np.array(["x"]), {}, ()),
        (np.zeros(2), np.zeros(3), {}, ()),
        (np.zeros(0), np.zeros(0), {}, None),
        (None, None, {}, None),
        (None, 1.0, {}, ()),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 9], mask=[0, 1]), {}, None),
        (np.ma.array([1, 2], mask=[0, 1]), np.array([1, 2]), {}, (1,)),
        ((1, 2), (1, 3), {}, (1,)),
    ],
)
def test_what_counts_as_a_difference(got, expected, options, index):
    found = difference(got, expected, **{"rtol": None, "atol": 0.0, **options})
    assert (found and found.index) == index
    assert index is None or "the reference" in str(found)


# ---- disagreement
def test_fallback():
    canary, (x, y) = watched(), data()
    with pytest.warns(
        RuntimeWarning,
        match=r"scale\(\): call 1: argument 'y': got .* at element 700; 300 of 1000 "
        r"differ, at most by 1; from now on the reference is called instead",
    ):
        canary(2.0, x, y)
    np.testing.assert_array_equal(y, 2 * x)
    canary(3.0, x, y=y)
    np.testing.assert_array_equal(y, 3 * x)
    assert (canary.state, canary.calls, canary.mismatches) == ("fallback", 1, 1)
    report = canary.report
    assert (report.call, report.where, report.difference.index, report.path) == (1, "argument 'y'", (700,), None)
    assert report.difference.got == report.difference.expected + 1
    with pytest.raises(errors.ArgumentError):
        canary(3.0, x)


def test_raising():
    canary, (x, y) = watched(on_mismatch="raise"), data()
    with pytest.raises(errors.CanaryError, match="argument 'y'") as caught:
        canary(2.0, x, y)
    assert caught.value.report is canary.report
    assert caught.value.kernel == "scale"
    assert (y == -1).all()  # what it held before
    assert canary.state == "watching"


def test_warning_and_a_clean_streak_that_begins_again():
    canary, (x, y) = watched(on_mismatch="warn", promote_after=2), data()
    canary(2.0, x[:100], y[:100])
    with pytest.warns(RuntimeWarning, match="call 2"):
        canary(2.0, x, y)
    assert y[700] == 2 * x[700] + 1  # the kernel's own
    canary(2.0, x[:100], y[:100])
    assert canary.state == "watching"
    canary(2.0, x[:100], y[:100])
    assert (canary.state, canary.checked, canary.mismatches) == ("promoted", 4, 1)


def test_results():
    canary = watched(lambda x, threads: float(x.sum()) + 1, TOTAL, lambda x: float(x.sum()))
    with pytest.warns(RuntimeWarning, match="the result: got 3.0, the reference 2.0"):
        assert canary(np.ones(2)) == 2.0
    assert canary(np.ones(3)) == 3.0


def test_a_kernel_that_writes_to_its_input():
    def writes(a, x, y, threads):
        y[:] = a * x
        x[3] = 9

    canary, (x, y) = watched(writes), data(10)
    before = x.copy()
    with pytest.warns(RuntimeWarning, match=r"the input 'x': got 9.0, the reference 0.33.* at element 3"):
        canary(1.0, x, y)
    np.testing.assert_array_equal(x, before)


def fails(*args, **options):
    raise errors.KernelValueError("kernel scale(): no", code=4)


def refuses(*args, **options):
    raise errors.DTypeError("scale(): expected another dtype")


def test_exceptions_of_the_kernel_alone():
    canary, (x, y) = watched(fails), data()
    with pytest.warns(RuntimeWarning, match="an exception: the kernel raised KernelValueError"):
        canary(2.0, x, y)
    np.testing.assert_array_equal(y, 2 * x)
    canary = watched(fails, on_mismatch="raise")
    with pytest.raises(errors.CanaryError) as caught:
        canary(2.0, x, y)
    assert isinstance(caught.value.__cause__, errors.KernelValueError)
    with pytest.warns(RuntimeWarning), pytest.raises(errors.KernelValueError):
        watched(fails, on_mismatch="warn")(2.0, x, y)


def test_exceptions_of_both_and_of_the_reference():
    x, y = data()
    canary = watched(fails, against=lambda *_: 1 / 0)
    with pytest.raises(errors.KernelValueError):
        canary(2.0, x, y)
    assert (canary.mismatches, canary.state) == (0, "watching")
    canary = watched(right, against=lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        canary(2.0, x, y)
    assert (y == -1).all()
    assert (canary.state, canary.mismatches) == ("fallback", 1)
    with pytest.raises(ZeroDivisionError):
        canary(2.0, x, y)


def test_refusals_are_the_callers_affair():
    x, y = data()
    canary = watched(refuses)
    with pytest.raises(errors.DTypeError):
        canary(2.0, x, y)
    real = kernels.axpy.canary(lambda a, x, y: np.add(y, a * x, out=y), sample=1)
    for bad in [(1.0, x, y[:5]), (1.0, x.astype("f4"), y), (1.0, [1.0], y), ("a", x, y), (1.0, x)]:
        with pytest.raises(mv.MojoViewError):
            real(*bad)
    assert (canary.mismatches, real.mismatches, real.state, real.unchecked) == (0, 0, "watching", 0)


def test_a_reference_cannot_write_to_inputs():
    def careless(a, x, y):
        x *= a
        y[:] = x

    canary, (x, y) = watched(right, against=careless, on_mismatch="raise"), data()
    with pytest.raises(errors.CanaryError, match="read-only"):
        canary(2.0, x, y)


def test_arguments_that_cannot_be_copied_are_reported_unchecked():
    frame = pd.DataFrame({"a": [1.0, 2.0]}).mojo.view()
    canary = kernels.describe.canary(lambda x: None, sample=1)
    with pytest.warns(RuntimeWarning, match=r"describe\(\): the canary cannot copy these arguments"):
        canary(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        canary(frame)
    assert (canary.unchecked, canary.checked) == (2, 0)


def test_threads_lose_no_call():
    canary = watched(right, sample=0.5)

    def work():
        x, y = data(10)
        for _ in range(200):
            canary(1.0, x, y)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert canary.calls == 800
    assert (canary.mismatches, canary.state) == (0, "watching")


# ---- the saved input
def test_the_first_failing_input_is_saved(tmp_path):
    canary, (x, y) = watched(on_mismatch="warn", directory=tmp_path / "new" / "folder"), data()
    x[:] = 0
    x[801] = 1.0
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="the input is in|argument 'y'"):
            canary(2.0, x, y)
    (path,) = (tmp_path / "new" / "folder").iterdir()
    assert canary.report.path == path
    assert path.name.startswith("scale-")
    with np.load(path) as saved:
        assert set(saved) == {"a", "x", "y", "kernel.y", "reference.y"}
        assert len(saved["x"]) == 1000  # this kernel errs from element 700 on, and no half has one
        assert saved["x"].max() == 1.0
        assert saved["a"] == 2.0
        assert (saved["y"] == -1).all()
        assert (saved["kernel.y"] != saved["reference.y"]).sum() == 1


def test_an_input_that_fails_anywhere_shrinks_to_one_row(tmp_path):
    canary = watched(
        lambda x, threads: float(x.sum()) + (x == 7).any(), TOTAL, lambda x: float(x.sum()), directory=tmp_path
    )
    x = np.arange(100.0)
    with pytest.warns(RuntimeWarning, match="the input is in"):
        assert canary(x) == x.sum()
    with np.load(canary.report.path) as saved:
        assert (saved["x"].tolist(), saved["kernel.result"], saved["reference.result"]) == ([7.0], 8.0, 7.0)


def test_what_stays_too_large_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(canary_module, "MAX_SAVED_BYTES", 100)
    canary, (x, y) = watched(fails, directory=tmp_path), data()
    with pytest.warns(RuntimeWarning):
        canary(2.0, x, y)
    assert list(tmp_path.iterdir()) == []
    assert canary.report.path is None


def test_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    canary, (x, y) = watched(directory=tmp_path / "file"), data()
    with pytest.warns(RuntimeWarning) as caught:
        canary(2.0, x, y)
    assert any("cannot be saved in" in str(w.message) for w in caught)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("against", "options", "words"),
    [
        (5, {}, "reference"),
        (reference, {"sample": 2}, "sample"),
        (reference, {"sample": True}, "sample"),
        (reference, {"sample": float("nan")}, "sample"),
        (reference, {"rtol": -1}, "rtol"),
        (reference, {"atol": None}, "atol"),
        (reference, {"on_mismatch": "explode"}, "on_mismatch"),
        (reference, {"promote_after": 0}, "promote_after"),
        (reference, {"promote_after": 1.5}, "promote_after"),
    ],
)
def test_bad_options(against, options, words):
    with pytest.raises(errors.ArgumentError, match=rf"dot.canary\(\): {words}: expected"):
        kernels.dot.canary(against, **options)


# ---- outputs that a call leaves out
def summed(x, out, total):
    out[:] = x + 1
    total[...] += x.sum()


def watched_summed(against=summed, **options):
    made = foreign.kernel(
        "summed",
        foreign.array("x"),
        foreign.array("out", "out"),
        mv.Param("total", "inout", "float64", ndim=0, passing="pointer"),
        shapes="free",
    )
    return made.canary(against, sample=1, **options)


@pytest.mark.parametrize("x", [np.array([0.25, 0.5]), [0.25, 0.5], (0.25, 0.5)], ids=["array", "list", "tuple"])
@pytest.mark.parametrize("keywords", [{}, {"total": 2.0}, {"threads": None}], ids=str)
def test_made_outputs_are_compared(x, keywords):
    canary = watched_summed()
    out, total = canary(x, **keywords)
    assert (out.tolist(), total) == ([1.25, 1.5], 0.75 + keywords.get("total", 0))
    assert (canary.checked, canary.unchecked, canary.mismatches) == (1, 0, 0)
    given = np.zeros(2)
    assert canary(x, given, **keywords) == total  # an output that is passed is filled, and does not come back
    assert (given.tolist(), canary.checked, canary.mismatches) == ([1.25, 1.5], 2, 0)


def test_made_outputs_that_differ(tmp_path):
    x = np.array([0.25, 0.75])
    canary = watched_summed(on_mismatch="raise", directory=tmp_path)
    with pytest.raises(errors.CanaryError, match="argument 'out'"):
        canary(x)
    with np.load(canary.report.path) as saved:
        assert (saved["x"].tolist(), saved["kernel.out"].tolist(), saved["reference.out"].tolist()) == (
            [0.25, 0.75],
            [1.25, 2.75],
            [1.25, 1.75],
        )
    canary = watched_summed(on_mismatch="warn")
    with pytest.warns(RuntimeWarning, match="argument 'out'"):
        assert canary(x)[0].tolist() == [1.25, 2.75]
    canary = watched_summed()
    with pytest.warns(RuntimeWarning, match="the reference is called instead"):
        out, total = canary(x)
    assert (out.tolist(), total, canary.state) == ([1.25, 1.75], 1.0, "fallback")
    out, total = canary([0.75], total=1.0)
    assert (out.tolist(), total) == ([1.75], 1.75)


def test_numbers_that_differ():
    def counts(x, out, total):
        summed(x, out, total)
        total += 1

    canary = watched_summed(counts, on_mismatch="raise")
    with pytest.raises(errors.CanaryError, match="argument 'total'"):
        canary(np.array([0.25]))


def test_a_message_is_no_argument_of_the_reference():
    def add(x, y):
        y += x

    canary = foreign.kernel(
        "add_to",
        foreign.array("x"),
        foreign.array("y", "inout"),
        foreign.array("message", "out", "uint8"),
        shapes="free",
    ).canary(add, sample=1)
    y = np.ones(2)
    assert canary(np.ones(2), y) is None
    assert (y.tolist(), canary.checked, canary.mismatches) == ([2, 2], 1, 0)
