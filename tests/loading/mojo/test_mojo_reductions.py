"""Reductions, chunks, lines, tails and atomics of the Mojo library, against NumPy and exact sums."""

import ctypes
import math
import threading

import numpy as np
import pytest

from mojoview.loading.elf import read_elf

pytestmark = pytest.mark.mojo
nan, inf = np.nan, np.inf
SLICES = [slice(None), slice(None, None, -1), slice(1, None, 3), slice(5, 5), slice(5, 6)]


@pytest.fixture(scope="session")
def reduced(compiled):
    return compiled("reduced")


@pytest.fixture
def reduce(native, describe):
    """The nine numbers that the kernel reports: sum, mean, variances, count, smallest, largest with their places."""

    def run(name, x, mask=None, bits_offset=None):
        y = np.full(9, 77.0)
        assert native("reduced")(f"reduce_{name}", describe(x, mask, bits_offset), describe(y)) == 0
        return y

    return run


def expected(x):
    """The same in NumPy, without missing elements; sums exact."""
    if not x.size:
        return [0, nan, nan, nan, 0, 0, -1, 0, -1]
    wide, n = x.astype("f8"), x.size
    with np.errstate(all="ignore"):
        total = math.fsum(wide) if np.isfinite(wide).all() else wide.sum()
        deviations = wide.astype(np.longdouble) - wide.astype(np.longdouble).mean()
        squares = float((deviations**2).sum())
        return [
            total,
            total / n,
            squares / (n - 1) if n > 1 else nan,
            squares / n,
            n,
            x.min(),
            x.argmin(),
            x.max(),
            x.argmax(),
        ]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
@pytest.mark.parametrize("take", SLICES)
@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 9, 1000])
def test_reductions_of_every_length_and_stride(reduce, rng, dtype, take, length):
    x = (rng.normal(1000, 100, length)).astype(dtype)[take]
    np.testing.assert_allclose(reduce(dtype, x), expected(x), rtol=3e-15)


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_variance_far_from_zero(reduce, reduced, rng, offset):
    """Where the mean of the squares less the square of the mean has no digit left."""
    x = rng.normal(size=10_001) + offset
    assert reduce("float64", x)[2] == pytest.approx(expected(x)[2], rel=1e-14)
    y = np.empty(4)
    reduced.running(x, 100, y)
    assert y[2] == pytest.approx(expected(x)[2], rel=1e-14 * offset)


def test_sums_keep_what_additions_lose(reduce, reduced, rng):
    y = np.empty(4)
    x = np.concatenate([np.full(1000, 1e16), rng.uniform(-1, 1, 1000), np.full(1000, -1e16)])
    assert abs(np.add.accumulate(x)[-1] - math.fsum(x)) > 1
    assert reduce("float64", x)[0] == pytest.approx(math.fsum(x), abs=1e-9)
    reduced.running(x, 7, y)
    assert y[3] == pytest.approx(math.fsum(x), abs=1e-9)


def test_one_by_one_and_merged(reduced, rng):
    for x in (rng.normal(5, 2, 1003), rng.normal(size=1), np.full(50, 0.1)):
        for chunk in (1, 7, 100, 5000):
            y = np.empty(4)
            reduced.running(x, chunk, y)
            np.testing.assert_allclose(y[:2], [x.size, x.mean()], rtol=1e-14)
            np.testing.assert_allclose(y[2], x.var(ddof=1) if x.size > 1 else nan, rtol=1e-13, atol=1e-30)
            assert y[3] == pytest.approx(math.fsum(x), rel=2e-16)


@pytest.mark.parametrize(
    "values",
    [
        [nan, 1, 2],
        [1, nan, 2],
        [1, 2, nan],
        [nan] * 3,
        [inf, 1, nan],
        [-inf, 1],
        [inf, -inf],
        [0.0, -0.0],
        [-0.0, 0.0],
        [2, 1, 1, 3, 3],
    ],
)
@pytest.mark.parametrize("padding", [0, 9, 50])
def test_nan_and_infinities_are_those_of_numpy(reduce, values, padding):
    x = np.array(values + [1.5] * padding, "f8")
    with np.errstate(all="ignore"):
        y = reduce("float64", x)
        want = [x.sum(), x.size, x.min(), x.argmin(), x.max(), x.argmax()]
        np.testing.assert_array_equal(y[[0, 4, 5, 6, 7, 8]], want)
        np.testing.assert_allclose(y[1:4], [x.mean(), x.var(ddof=1), x.var()], rtol=1e-15)
        kept = x[~np.isnan(x)]
        y = reduce("skipping_float64", x)
        want = expected(kept)
        places = [np.nanargmin(x), np.nanargmax(x)] if kept.size else [-1, -1]
        np.testing.assert_array_equal(y[4:], [kept.size, want[5], places[0], want[7], places[1]])
        np.testing.assert_allclose(y[1], kept.mean() if kept.size else nan, rtol=1e-15)
        np.testing.assert_allclose(y[2:4], [kept.var(ddof=d) if kept.size > d else nan for d in (1, 0)], rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_extremes_wherever_they_stand(reduce, dtype):
    for place in range(0, 70, 3):
        x = np.full(70, 5, dtype)
        x[place : place + 2], x[69 - place :] = -7, 9
        y = reduce(dtype, x)
        assert y[5:].tolist() == [x.min(), x.argmin(), x.max(), x.argmax()]
        if dtype == "float64":
            x[place] = nan
            y = reduce("skipping_float64", x)
            assert y[5:].tolist() == [np.nanmin(x), np.nanargmin(x), np.nanmax(x), np.nanargmax(x)]
            assert reduce("float64", x)[[6, 8]].tolist() == [place, place]


def test_a_sum_that_overflows_is_infinite(reduce):
    assert reduce("float64", np.array([1e308, 1e308, 1]))[:2].tolist() == [inf, inf]
    assert reduce("float64", np.array([-1e308, -1e308, 1]))[:2].tolist() == [-inf, -inf]


@pytest.mark.parametrize("dtype", ["float64", "int16"])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("take", [slice(None), slice(3, None, -2)])
def test_missing_elements_do_not_count(reduce, rng, dtype, share, take):
    x = (rng.normal(0, 100, 103)).astype(dtype)[take]
    missing = (rng.random(103) < share)[take]
    places = np.flatnonzero(~missing)
    want = expected(x[places])
    for k in (6, 8):
        want[k] = places[want[k]] if places.size else -1
    np.testing.assert_allclose(reduce(f"masked_{dtype}", x, missing), want, rtol=1e-13, atol=1e-13)
    packed = np.packbits(np.concatenate([np.zeros(5, "?"), ~missing]), bitorder="little")
    np.testing.assert_allclose(reduce(f"masked_{dtype}", x, packed, 5), want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("dtype", "result"), [("int64", "i8"), ("uint64", "u8"), ("bool", "u8")])
def test_integers_add_up_in_64_bits(reduced, rng, dtype, result):
    x = np.frombuffer(rng.bytes(8 * 333), "u8")
    x = x % 2 == 1 if dtype == "bool" else x.view(dtype)
    for take in SLICES:
        y = np.zeros(1, result)
        getattr(reduced, f"sum_{dtype}")(x[take], y)
        assert y[0] == x[take].sum(dtype=result)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 200, 4097, 100_000])
def test_pairwise_sums(reduced, length):
    x = np.full(length, 0.1)
    bound = 1e-16 * (32 + math.log2(length + 1)) * max(math.fsum(x), 1e-300)
    assert abs(reduced.pairwise(x) - math.fsum(x)) <= bound
    assert reduced.pairwise(x[::-2]) == pytest.approx(math.fsum(x[::-2]), rel=1e-14)
    assert reduced.pairwise32(x.astype("f4")) == pytest.approx(math.fsum(x.astype("f4")), rel=1e-14)


def test_dot_keeps_what_products_lose(reduced, rng):
    x, y = rng.normal(size=1001), rng.normal(size=1001)
    x, y = np.concatenate([x, -x, [1.0]]), np.concatenate([y, y * (1 + 2.0**-50), [2.0**-60]])
    exact = math.fsum(float(v) for v in np.concatenate(two_products(x, y)))
    assert abs(float(x @ y) - exact) > 1e-3 * abs(exact)
    assert reduced.dot(x, y) == pytest.approx(exact, rel=1e-12)
    assert reduced.dot(x[::-1], y[::-1]) == pytest.approx(exact, rel=1e-12)


def two_products(x, y):
    """Products and what they lose, exactly."""
    split = [(v * 134217729.0) - ((v * 134217729.0) - v) for v in (x, y)]
    p = x * y
    low = [v - h for v, h in zip((x, y), split, strict=True)]
    return p, ((split[0] * split[1] - p) + split[0] * low[1] + low[0] * split[1]) + low[0] * low[1]


# ---- chunks
@pytest.mark.parametrize(
    ("count", "size"), [(0, 5), (1, 5), (5, 5), (6, 5), (23, 1), (7, 100), (-3, 4), (3, 0), (3, -1)]
)
def test_chunks_cover_everything_once(reduced, count, size):
    y = np.full(60, -1)
    n = reduced.chunk_list(count, size, y)
    bounds = y[: 2 * n].reshape(-1, 2)
    step = max(size, 1)
    assert bounds.tolist() == [[a, min(a + step, count)] for a in range(0, count, step)]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 64, 1000])
@pytest.mark.parametrize("parts", [1, 2, 3, 16])
@pytest.mark.parametrize("multiple", [1, 8])
def test_shares_are_even_and_end_at_multiples(reduced, count, parts, multiple):
    y = np.full((parts, 2), -1)
    reduced.share_list(count, parts, multiple, y)
    assert y[0, 0] == 0
    assert y[-1, 1] == count
    assert (y[1:, 0] == y[:-1, 1]).all()
    sizes = y[:, 1] - y[:, 0]
    assert (sizes >= 0).all()
    assert ((y[:-1, 1] % multiple == 0) | (y[:-1, 1] == count)).all()
    assert sizes.max() - sizes.min() <= 2 * multiple - 1


# ---- lines and tails
@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (8, 8), (2, 0), (5, 33)])
@pytest.mark.parametrize("lay", ["C", "F", "step"])
def test_rows_and_columns(reduced, rng, shape, lay):
    x = rng.normal(size=shape)
    x = {"C": x, "F": np.asfortranarray(x), "step": rng.normal(size=(shape[0], 2 * shape[1]))[::-1, ::-2]}[lay]
    y = np.zeros(x.shape[::-1])
    reduced.transposed_by_lines(x, y)
    np.testing.assert_array_equal(y, x.T)
    z = x.astype("f4").copy(order="F" if lay == "F" else "C")
    reduced.doubled_in_place(z)
    np.testing.assert_array_equal(z, 2 * x.astype("f4"))


@pytest.mark.parametrize("shape", [(1, 1), (33, 3), (7, 40)])
def test_lines_go_wherever_arrays_go(reduced, rng, shape):
    x = rng.normal(size=(shape[0], 2 * shape[1]))[:, ::2]
    y = np.zeros((4 + shape[0], shape[1]))
    reduced.columns_reduced(x, y)
    variance = x.var(axis=0, ddof=1) if len(x) > 1 else np.full(shape[1], nan)
    np.testing.assert_allclose(y[:4], [x.mean(axis=0), variance, x.min(axis=0), x.sum(axis=0)], rtol=1e-13)
    np.testing.assert_allclose(y[4:], np.exp(x), rtol=3e-16)
    assert reduced.dot_line(x[:, 0]) == pytest.approx(x[1:, 0] @ x[1:, 0])


@pytest.mark.parametrize("count", [0, 1, 3, 7, 8])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_a_part_of_a_vector_touches_nothing_else(reduced, count, step):
    x = np.arange(10, 10 + count, dtype="i4")
    room = np.full(64, 5, "i4")
    y = room[::step][:16]
    reduced.parts(x, count, y)
    assert y.tolist() == [*x, *[-1] * (8 - count), *(-x), *[5] * (8 - count)]
    assert (room == 5).sum() >= 64 - 8 - count


@pytest.mark.parametrize("kind", ["bytes", "bits", "none"])
def test_masks_in_lanes(native, describe, rng, kind):
    x, missing = np.zeros(31), rng.integers(0, 2, 31).astype("?")
    mask = {"bytes": (missing,), "bits": (np.packbits(~missing, bitorder="little"), 0), "none": ()}[kind]
    y = np.zeros(31, "?")
    missing = missing & (kind != "none")
    assert native("reduced")("missing_lanes", describe(x, *mask), describe(y)) == missing.sum()
    np.testing.assert_array_equal(y, missing)


# ---- atomics
def in_two_threads(*calls):
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize(
    ("name", "dtype", "total"),
    [("count_up", "i8", 400_000), ("count_up_float", "f8", 200_000.0), ("count_up_exchanging", "u1", 400_000 % 256)],
)
def test_no_addition_is_lost(native, describe, name, dtype, total):
    x = np.zeros(1, dtype)
    call = native("reduced")
    count = lambda: call(name, describe(x), ctypes.c_int64(200_000))  # noqa: E731
    in_two_threads(count, count)
    assert x[0] == total


def test_each_operation_on_strided_elements(reduced):
    x, y, z = np.zeros(9, "i4"), np.arange(8, dtype="i4"), np.zeros(6, "i4")
    reduced.atomic_values(x[::3], y[::-2], z)
    assert z.tolist() == [5, 7, 2147483647, 0, 4, 1]
    assert x.tolist() == [0, 0, 0, 100, 0, 0, -2147483648, 0, 0]


def test_a_release_is_seen_by_an_acquire(native, describe):
    data, flag, wrong = np.zeros(1, "i8"), np.zeros(1, "i4"), []
    call, rounds = native("reduced"), ctypes.c_int64(300)
    in_two_threads(
        lambda: wrong.append(call("publish", describe(data), describe(flag), rounds)),
        lambda: wrong.append(call("receive", describe(data), describe(flag), rounds)),
    )
    assert wrong == [0, 0]
    assert data[0] == 300


def test_no_library_is_needed(reduced):
    elf = read_elf(reduced.library)
    assert elf.needed == []
    assert elf.imports == set()
