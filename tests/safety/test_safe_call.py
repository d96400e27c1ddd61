"""safe_call on valid kernels: every level returns what the plain call returns, and changes nothing else."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from safety.hostile import kernel, safe

import mojoview as mv
from mojoview import kernels
from mojoview.memory import errors
from mojoview.safety.workers.worker_pool import POOL

LEVELS = [
    {},
    {"safety": "strict"},
    {"isolate": True},
    {"isolate": True, "safety": "strict"},
    {"timeout": 60, "memory_limit": 1 << 28},
]
CAREFUL = LEVELS[1:]
level = pytest.mark.parametrize("options", LEVELS, ids=lambda options: "-".join(map(str, options)) or "plain")
careful = pytest.mark.parametrize("options", CAREFUL, ids=lambda options: "-".join(map(str, options)))


@level
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0),
        np.arange(12.0)[::3],
        np.arange(12.0)[::-1],
        np.arange(24, dtype="i2").reshape(4, 6),
        np.arange(24, dtype="f4").reshape(4, 6).T,
        np.array(3.0),
        np.array([True, False]),
        np.arange(5).astype("M8[s]"),
        np.arange(5, dtype="f2"),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_inputs_of_every_kind(array, options):
    array.flags.writeable = False
    before = array.copy()
    if array.dtype.kind == "M":
        expected = array.max()
        found = mv.safe_call(kernels.max, array, **options)
        assert type(found) is np.datetime64
    else:
        expected, found = kernels.sum(array), mv.safe_call(kernels.sum, array, **options)
        assert type(found) is type(expected)
    assert found == expected
    np.testing.assert_array_equal(array, before)


@level
@pytest.mark.parametrize("order", ["C", "F", "strided", "view"])
def test_outputs_of_every_order(order, options):
    x = np.arange(12.0).reshape(3, 4)
    whole = np.full((6, 8), -1.0, order="F" if order == "F" else "C")
    out = whole[::2, ::2] if order != "F" else whole[:3, :4]
    kwargs = {"view": lambda: mv.view(out, writable=True)}.get(order, lambda: out)
    mv.safe_call(kernels.multiply, x, x, kwargs(), **options)
    np.testing.assert_array_equal(out, x * x)
    assert (whole == -1).sum() == 48 - 12


@level
def test_output_and_input_may_be_the_same(options, x):
    expected = x * 2
    mv.safe_call(kernels.add, x, x.copy(), x, **options)
    np.testing.assert_array_equal(x, expected)


@level
def test_missing_values_columns_and_scalars(options):
    masked = np.ma.array([1.0, 50.0, 3.0], mask=[False, True, False])
    assert mv.safe_call(kernels.sum, masked, **options) == 4
    column = pd.DataFrame({"n": pd.array([1, None, 5], dtype="Int64")})["n"]
    assert mv.safe_call(kernels.mean, column, **options) == 3
    out = np.empty(3)
    mv.safe_call(kernels.add, np.arange(3.0), np.float64(2.5), out, **options)
    assert out.tolist() == [2.5, 3.5, 4.5]
    assert mv.safe_call(kernels.sum, np.ones((2, 3)), axis=0, **options).tolist() == [2, 2, 2]
    assert mv.safe_call(kernels.var, np.arange(4.0), ddof=1, **options) == np.var(np.arange(4.0), ddof=1)
    assert mv.safe_call(kernels.describe, np.arange(4.0), **options).mean == 1.5


@level
def test_the_arena_grows_for_large_arrays(options):
    for n in (10, 3_000_000, 100):
        x, out = np.arange(float(n)), np.zeros(n)
        safe("doubled", x, out, **options)
        np.testing.assert_array_equal(out, 2 * x)


@level
@pytest.mark.parametrize(
    ("args", "error"),
    [
        (lambda: (np.ones(3), np.ones(4)), mv.ShapeError),
        (lambda: (np.ones(3, "f4"), np.ones(3)), mv.DTypeError),
        (lambda: (np.ones(3), np.frombuffer(b"x" * 24)), mv.ReadOnlyError),
        (lambda: (np.ones(3),), errors.ArgumentError),
        (lambda: (np.ones((3, 1)), np.ones((3, 1))), mv.ShapeError),
        (lambda: (np.frombuffer(b"x" * 25, "u1")[1:].view("f8"), np.ones(3)), errors.AlignmentError),
        (lambda: (np.ma.array([1.0], mask=[True]), np.ones(1)), mv.MaskError),
        (lambda: (a := np.ones(3), a), mv.OverlapError),
        (lambda: (object(), np.ones(3)), mv.MojoViewError),
    ],
)
def test_invalid_arguments_raise_what_the_call_raises(args, error, options):
    given = args()
    with pytest.raises(error) as plain:
        kernel("doubled")(*given)
    with pytest.raises(error) as caught:
        safe("doubled", *given, **options)
    # the messages differ only in addresses
    assert re.sub("0x[0-9a-f]+", "", str(caught.value)) == re.sub("0x[0-9a-f]+", "", str(plain.value))


@careful
def test_a_reported_failure_leaves_the_arrays_alone(options, y):
    with pytest.raises(mv.KernelError) as caught:
        safe("fails_midway", y, **options)
    assert caught.value.code == 64
    assert y.tolist() == [0, 1, 2, 3]


def test_a_plain_call_keeps_what_the_kernel_wrote(y):
    with pytest.raises(mv.KernelError):
        safe("fails_midway", y)
    assert y[0] == -1


@pytest.mark.parametrize("isolate", [False, True])
def test_non_finite_results_raise(isolate, y):
    strict = {"safety": "strict", "isolate": isolate}
    with pytest.raises(errors.NonFiniteError, match=r"argument 'y' is nan at \[0\]") as caught:
        safe("divides", y, 0.0, finite="raise", **strict)
    assert isinstance(caught.value, ValueError | mv.MojoSafetyError)
    assert y.tolist() == [0, 1, 2, 3]
    with pytest.raises(errors.NonFiniteError, match="the result is inf"):
        mv.safe_call(kernels.sum, np.array([np.inf]), finite="raise", **strict)
    safe("divides", y, 2.0, finite="raise", **strict)
    safe("divides", y, 0.0, **strict)
    assert np.isnan(y[0])


@pytest.mark.parametrize("isolate", [False, True])
def test_strict_calls_respect_borrows(isolate, x, y):
    strict = {"safety": "strict", "isolate": isolate}
    with mv.borrow_check(True):
        writer, reader = mv.view(y, writable=True), mv.view(x)
    for output, error in ((y, mv.BorrowError), (np.zeros(4), None), (writer, None)):
        for source in (x, reader):
            if error is None:
                safe("doubled", source, output, **strict)
            else:
                with pytest.raises(error):
                    safe("doubled", source, output, **strict)
    with pytest.raises(mv.BorrowError):
        safe("naps", x, 0, **strict)
    writer.release()
    safe("doubled", x, y, **strict)
    assert y.tolist() == [2, 4, 6, 8]


def test_the_borrow_ends_with_a_failed_call(x, y):
    for _ in range(2):
        with pytest.raises(errors.GuardError) as caught:
            safe("writes_input", x, y, safety="strict")
        kept = caught.value  # an exception that is kept holds no borrow
    assert kept.argument == "x"
    assert (x.tolist(), y.tolist()) == ([1, 2, 3, 4], [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("index", "where"), [(4, "beyond"), (-1, "before"), (4 + 31, "beyond"), (-32, "before")], ids=str
)
def test_writes_into_guard_bytes_raise(index, where, x, y):
    with pytest.raises(errors.GuardError, match=f"wrote {where} the memory of argument 'y'") as caught:
        safe("writes_at", x, y, index, safety="strict")
    assert isinstance(caught.value, mv.MojoSafetyError | BufferError)
    assert y.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": float("nan")},
        {"memory_limit": -1},
        {"memory_limit": 1.5},
        {"memory_limit": True},
        {"memory_limit": np.True_},
        {"memory_limit": "1"},
        {"memory_limit": np.ones(2)},
        {"memory_limit": 2**62},
        {"memory_limit": float("nan")},
        {"safety": "lax"},
        {"finite": "raise"},
        {"finite": "maybe", "safety": "strict"},
        {"isolate": False, "timeout": 1},
        {"isolate": "yes"},
        {"isolate": 1},
        {"isolate": np.ones(2)},
        {"safety": np.ones(2)},
        {"finite": np.ones(2), "safety": "strict"},
        {"no_such_option": 1, "isolate": True},
    ],
    ids=str,
)
def test_unusable_options_raise(options, x, y):
    with pytest.raises(errors.ArgumentError):
        safe("doubled", x, y, **options)


@pytest.mark.parametrize("thing", [len, None, kernels, mv.kernels.Kernel, 1, "sum"], ids=str)
def test_objects_that_are_not_kernels_raise(thing, x):
    for options in ({}, {"isolate": True}):
        with pytest.raises(errors.ArgumentError, match="expected a Kernel"):
            mv.safe_call(thing, x, **options)


def test_an_uninitialised_kernel_raises(x):
    unmade = mv.kernels.Kernel.__new__(mv.kernels.Kernel)
    for call in (mv.safe_call, lambda k, x: mv.safe_call(k, x, isolate=True), lambda k, x: k.submit(x).result(60)):
        with pytest.raises(errors.ArgumentError):
            call(unmade, x)


@pytest.mark.parametrize(
    ("scalar", "dtype"),
    [(2.5, "f8"), (-0.0, "f8"), (float("inf"), "f4"), (-7, "i8"), (2**64 - 1, "u8"), (2**63, "u8"), (True, "?")],
    ids=str,
)
def test_scalars_round_trip(scalar, dtype):
    """The first call sends the scalars out of line, the others in the message."""
    out = np.zeros(3, dtype)
    for _ in range(3):
        mv.safe_call(kernels.clip, np.full(3, scalar, dtype), scalar, scalar, out, isolate=True)
        np.testing.assert_array_equal(out, np.full(3, scalar, dtype))
        found = mv.safe_call(kernels.max, out, isolate=True)
        assert (type(found), str(found)) == (type(kernels.max(out)), str(kernels.max(out)))


def test_kernels_without_a_library_file_are_rejected(x, tmp_path):
    import ctypes

    from mojoview.kernels import Kernel, Param, Signature

    callback = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)(lambda d: 1.0)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    bare = Kernel.from_address(
        Signature("bare", (Param("x", "in", "float64"),), result="float64"), address, owner=callback
    )
    with pytest.raises(errors.ArgumentError, match="bare address"):
        mv.safe_call(bare, x, isolate=True)
    from safety import hostile

    library = ctypes.CDLL(str(hostile.build(tmp_path)))
    address = ctypes.cast(library.reads_at, ctypes.c_void_p).value
    params, result = hostile.SIGNATURES["reads_at"]
    gone = Kernel.from_address(Signature("gone", params, result=result), address, owner=library)
    (tmp_path / "hostile.so").unlink()
    with pytest.raises(errors.ArgumentError, match="removed or replaced"):
        mv.safe_call(gone, x, 0, isolate=True)
    hostile.build(tmp_path)
    with pytest.raises(errors.ArgumentError, match="removed or replaced"):
        mv.safe_call(gone, x, 0, isolate=True)


def test_a_worker_is_kept_and_output_is_forwarded(y, capsys):
    pids = [safe("process", 0, isolate=True) for _ in range(3)]
    assert set(pids) <= set(POOL.pids)
    assert len(set(pids)) == 1
    safe("talks", y, isolate=True)
    assert capsys.readouterr().out == "a word from the kernel\n"
    assert y[0] == 1


@pytest.mark.parametrize(
    "timeout", [1e300, 10**400, float("inf"), Fraction(10**400), np.float32(1e9)], ids=lambda v: repr(v)[:12]
)
def test_very_long_timeouts_are_accepted(timeout, x, y):
    safe("doubled", x, y, timeout=timeout)
    np.testing.assert_array_equal(y, 2 * x)
