"""dtype codes: every dtype that NumPy has, there and back, and what is refused."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.arrays import DTYPES, PLAIN, RECORDS

from mojoview.memory import _dtype
from mojoview.memory._dtype import as_dtype, dtype_info, dtype_of_code, dtype_of_format
from mojoview.memory.errors import DTypeError

CODES = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}  # DLPack's numbering


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_info_says_what_numpy_says(dtype):
    info = dtype_info(dtype)
    assert info.itemsize == dtype.itemsize
    assert info.alignment == dtype.alignment
    assert info.swapped == (not dtype.isnative)
    if dtype.kind in CODES and dtype.char not in "gG":
        assert (info.code, info.bits) == (CODES[dtype.kind], dtype.itemsize * 8)
    elif dtype.kind in "Mm":
        assert (info.code, info.bits) == (0, 64)
    else:
        assert (info.code, info.bits) == (3, 0)
    if info.format is not None:
        assert np.asarray(memoryview(np.zeros(1, dtype))).dtype == dtype
    if info.descr is not None:
        assert np.dtype(info.descr if dtype.names else info.descr[0][1]) == dtype


@pytest.mark.parametrize("dtype", [d for d in PLAIN if d.char not in "gG"], ids=str)
def test_plain_codes_round_trip(dtype):
    info = dtype_info(dtype)
    assert dtype_of_code(info.code, info.bits, info.logical) == dtype
    assert dtype_of_code(info.code, info.bits).isnative


@given(st.sampled_from("Mm"), st.sampled_from([u for u in _dtype.UNITS if u != "generic"]), st.integers(1, 65535))
def test_units_and_multiples_round_trip(kind, unit, count):
    dtype = np.dtype(f"{kind}8[{count}{unit}]")
    info = dtype_info(dtype)
    assert dtype_of_code(info.code, info.bits, info.logical) == dtype
    assert info.format is None


def test_generic_units_and_the_numbers_of_abi_h():
    for kind in "Mm":
        info = dtype_info(np.dtype(f"{kind}8"))
        assert dtype_of_code(info.code, info.bits, info.logical) == np.dtype(f"{kind}8")
    assert dtype_info(np.dtype("M8[ns]")).logical == 1 | 10 << 8 | 1 << 16
    assert dtype_info(np.dtype("m8[25us]")).logical == 2 | 9 << 8 | 25 << 16
    assert [dtype_info(np.dtype(d)).logical for d in ("S3", "U3", "V3", "i4,i4")] == [3, 4, 5, 6]


def test_the_header_and_the_module_agree_on_every_number():
    import re
    from pathlib import Path

    import mojoview

    text = (Path(mojoview.memory.__file__).parent / "abi.h").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"\bMV_([A-Z]+) = (\d+)", text)}
    for name in (
        "INT",
        "UINT",
        "FLOAT",
        "OPAQUE",
        "BFLOAT",
        "COMPLEX",
        "BOOL",
        "PLAIN",
        "DATETIME",
        "TIMEDELTA",
        "BYTES",
        "TEXT",
        "VOID",
        "RECORD",
    ):
        assert getattr(_dtype, name) == numbers[name], name
    units = re.findall(r"MV_UNIT_([A-Z]+)", text)
    assert [u.lower().replace("generic", "").replace("min", "m") for u in units][1:6] == ["y", "m", "w", "d", "h"]
    assert len(units) == len(_dtype.UNITS)


@pytest.mark.parametrize("dtype", ["O", [("a", "O")], [("a", "i4"), ("b", [("c", "O")])], ("O", (2,))], ids=str)
def test_references_have_no_code(dtype):
    with pytest.raises(DTypeError, match="Python objects"):
        dtype_info(np.dtype(dtype))


def test_ticks_of_more_than_65535_units_are_refused():
    assert dtype_info(np.dtype("m8[65535ns]")).logical >> 16 == 65535
    with pytest.raises(DTypeError, match="65536"):
        dtype_info(np.dtype("m8[65536ns]"))


@pytest.mark.parametrize(
    ("code", "bits", "logical"),
    [
        (3, 0, 0),
        (3, 64, 0),
        (4, 16, 0),
        (0, 12, 0),
        (0, 0, 0),
        (0, -8, 0),
        (2, 8, 0),
        (2, 128, 0),
        (5, 32, 0),
        (5, 256, 0),
        (6, 16, 0),
        (6, 1, 0),
        (9, 8, 0),
        (0, 64, 1 | 99 << 8),
        (0, 32, 1),
        (2, 64, 2),
        (0, 64, 3),
        (-1, 8, 0),
    ],
)
def test_codes_that_numpy_has_no_dtype_for(code, bits, logical):
    with pytest.raises(DTypeError, match="NumPy has no such dtype"):
        dtype_of_code(code, bits, logical)


def test_equal_records_keep_their_own_alignment():
    packed = np.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 4], "itemsize": 8})
    aligned = np.dtype([("a", "i4"), ("b", "i4")], align=True)
    assert packed == aligned
    assert (dtype_info(packed).alignment, dtype_info(aligned).alignment) == (packed.alignment, aligned.alignment)


def test_long_and_long_long_answer_the_same_whoever_came_first():
    assert dtype_info(np.dtype("q")).format == dtype_info(np.dtype("l")).format == b"l"
    assert dtype_info(np.dtype("Q")).format == dtype_info(np.dtype("L")).format == b"L"


def test_the_cache_does_not_grow_without_bound():
    size = len(_dtype.KNOWN)
    try:
        for k in range(4200):
            dtype_info(np.dtype([(f"cache{k}", "i4")]))
        assert len(_dtype.KNOWN) <= 4096
        assert dtype_info(np.dtype([("one more", "i4")])).itemsize == 4
    finally:
        for known in list(_dtype.KNOWN)[size:]:
            del _dtype.KNOWN[known]


def test_as_dtype_takes_what_numpy_takes_and_nothing_else():
    assert as_dtype("f4", "x") == np.dtype("f4")
    assert as_dtype(np.float32, "x") == np.dtype("f4")
    assert as_dtype(RECORDS[0], "x") is RECORDS[0]
    for bad in (None, "nonsense", 3, object(), 10**5000, float("nan"), [1], {"names": 5}):
        with pytest.raises(DTypeError, match=r"^x: expected a dtype"):
            as_dtype(bad, "x")


def test_formats_that_contradict_their_size_are_refused():
    with pytest.raises(DTypeError, match="measure 8 bytes, the exporter says 4"):
        dtype_of_format("d", 4, b"", b"")
    with pytest.raises(DTypeError, match="NumPy has no dtype for it"):
        dtype_of_format("&d", 8, object(), object())
    assert dtype_of_format("B", 8, b"", (ctypes.c_int64 * 2)()) == np.dtype("i8")
