"""The Mojo library for kernel authors: descriptor, elements, masks, status codes."""

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

from mojoview.loading.elf import read_elf
from mojoview.loading.mojo.include_path import get_mojo_include

LIBRARY = get_mojo_include() / "mojoview"
ABI_H = (Path(__file__).parents[3] / "src/mojoview/memory/abi.h").read_text()
INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
DTYPES = ["bool", *INTEGERS, "float16", "float32", "float64"]
SLICES = [slice(*s) for s in ((None,), (None, None, -1), (1, None, 2), (-1, 0, -3), (3, 3), (2, 3), (1, None))]


def values(dtype, count, rng):
    """Every kind of bit pattern, NaN payloads and negative zeros among them; booleans are 0 and 1."""
    if dtype == "bool":
        return rng.integers(0, 2, count).astype("?")
    return np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), dtype).copy()


def bits(array):
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


# ---- what needs no compiler: the text of the library against abi.h
def test_status_codes_are_those_of_the_header():
    codes = re.findall(r"^    MV_(OK|E_\w+) = (\d+)", ABI_H, re.M)
    mojo = dict(re.findall(r"^comptime (OK|E_\w+) = (?:Status\()?(\d+)", (LIBRARY / "status.mojo").read_text(), re.M))
    assert len(codes) == 20
    assert mojo == dict(codes)


def test_flags_are_those_of_the_header():
    flags = dict(re.findall(r"^#define MV_(\w+) \(UINT64_C\(1\) << (\d+)\)", ABI_H, re.M))
    mojo = dict(re.findall(r"^comptime (\w+) = UInt64\(1\) << (\d+)", (LIBRARY / "desc.mojo").read_text(), re.M))
    assert len(flags) == 8
    assert mojo == flags


def test_layout_assertions_are_those_of_the_header():
    claims = re.findall(r"offsetof\(mv_desc, (\w+)\) == (\d+)", ABI_H)
    mojo = re.findall(r'field_offset\[name="(\w+)"\]\(\) == (\d+)', (LIBRARY / "desc.mojo").read_text())
    assert len(claims) == 20
    assert mojo == claims


def test_everything_public_is_exported():
    imports = (LIBRARY / "__init__.mojo").read_text().partition("from .")[2]
    exported = set(re.findall(r"\b(In|InOut|Out|Desc|Status|OK|E_\w+)\b", imports))
    assert exported >= {"In", "InOut", "Out", "Desc", "Status", "OK"}
    assert {f"E_{name}" for name in re.findall(r"^    MV_E_(\w+) =", ABI_H, re.M)} <= exported


# ---- what the compiler makes of it
@pytest.mark.mojo
def test_layout_in_mojo_is_that_of_c(native, describe, desc_type):
    y = np.zeros(len(desc_type._fields_) + 2, "i8")
    assert native("typed")("offsets", describe(y)) == 0
    assert y.tolist() == [*(getattr(desc_type, name).offset for name, _ in desc_type._fields_), 256, 64]


@pytest.mark.mojo
def test_every_field_is_where_c_looks_for_it(native, describe):
    d = describe(np.zeros(1, "u1"))
    assert native("typed")("fill", d) == 0
    assert (d.data, d.size, d.ndim, d.dtype_code, d.dtype_bits, d.dtype_lanes) == (1, -2, -3, 4, 5, 6)
    assert (d.flags, d.generation, d.itemsize, d.struct_bytes, d.abi_version) == (7, 8, 9, 10, 11)
    assert (d.mask, d.mask_offset, d.device_id, d.logical) == (12, -13, -14, 15)
    assert [list(x) for x in (d.stride, d.mask_stride, d.reserved)] == [[-10, -11], [-400, -401], [300, 301, 302]]
    assert list(d.shape) == list(range(100, 108))
    assert list(d.strides) == list(range(-200, -208, -1))


@pytest.mark.mojo
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", ["copy", "lanes"])
def test_elements_of_every_dtype_and_stride(native, describe, rng, dtype, way):
    call = native("typed")
    for take in SLICES:
        for put in SLICES[:4]:
            x = values(dtype, 103, rng)[take]
            target = values(dtype, 103 * 3 + 2, rng)
            y, before = target[put][: x.size], target.copy()
            assert call(f"{way}_{dtype}", describe(x), describe(y)) == 0
            np.testing.assert_array_equal(bits(y), bits(x))
            y[...] = before[put][: x.size]  # nothing beside y was written
            np.testing.assert_array_equal(bits(target), bits(before))


@pytest.mark.mojo
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lay", ["C", "F", "step", "backwards", "broadcast", "row", "empty"])
def test_tables_of_every_dtype_and_layout(native, describe, rng, dtype, lay):
    x = values(dtype, 12 * 10, rng).reshape(12, 10)
    x = {
        "C": x,
        "F": np.asfortranarray(x),
        "step": x[::3, 1::2],
        "backwards": x[::-1, ::-2],
        "row": x[5:6],
        "empty": x[:, :0],
        "broadcast": np.broadcast_to(x[:1], (4, 10)),
    }[lay]
    y = np.zeros(x.shape[::-1], dtype).T
    assert native("typed")(f"table_{dtype}", describe(x), describe(y)) == 0
    np.testing.assert_array_equal(bits(y), bits(x))


@pytest.mark.mojo
def test_shape_strides_and_size_of_three_dimensions(native, describe):
    x = np.arange(5 * 6 * 7, dtype="i4").reshape(5, 6, 7)[::-2, 1:, ::3]
    y = np.zeros(10, "i8")
    assert native("typed")("facts", describe(x), describe(y)) == 0
    assert y.tolist() == [x.size, 3, *x.shape, *x.strides, 0, x[0, 0, 0]]
    assert native("typed")("facts", describe(np.zeros((2, 3, 4), "i4")), describe(y)) == 0
    assert y[8] == 1


@pytest.mark.mojo
def test_element_strides(native, describe):
    y = np.zeros(2, "i8")
    assert native("typed")("strides", describe(np.zeros((6, 8), "i4")[::2, ::-3]), describe(y)) == 0
    assert y.tolist() == [16, -3]


@pytest.mark.mojo
@pytest.mark.parametrize("take", SLICES)
def test_byte_masks(native, describe, rng, take):
    x, mask, y = np.zeros(50)[take], rng.integers(0, 2, 50).astype("u1")[take] * 7, np.full(50, 9, "u1")[take]
    assert native("typed")("missing", describe(x, mask), describe(y)) == 0
    np.testing.assert_array_equal(y, mask != 0)


@pytest.mark.mojo
@pytest.mark.parametrize("offset", [0, 1, 7, 8, 13, 64])
def test_bit_masks(native, describe, rng, offset):
    valid, x, y = rng.integers(0, 2, 77).astype("?"), np.zeros(77), np.full(77, 9, "u1")
    packed = np.packbits(np.concatenate([np.zeros(offset, "?"), valid]), bitorder="little")
    assert native("typed")("missing", describe(x, packed, offset), describe(y)) == 0
    np.testing.assert_array_equal(y, ~valid)


@pytest.mark.mojo
def test_masks_of_tables_and_arrays_without_mask(native, describe, rng):
    call = native("typed")
    mask, y = np.asfortranarray(rng.integers(0, 2, (8, 9)).astype("?")), np.full((4, 3), 9, "u1")
    assert call("missing_table", describe(np.zeros((4, 3)), mask[::2, ::-3]), describe(y)) == 0
    np.testing.assert_array_equal(y, mask[::2, ::-3])
    for shape, name in (((4, 3), "missing_table"), ((4,), "missing")):
        y = np.full(shape, 9, "u1")
        assert call(name, describe(np.zeros(shape)), describe(y)) == 0
        assert not y.any()


@pytest.mark.mojo
def test_status_carries_code_and_element(native, describe):
    call, x = native("statuses"), describe(np.array([1.0, 2, -3, -4]))
    y = np.zeros(20, "i8")
    assert call("codes", describe(y)) == 0
    assert y.tolist() == [*range(19), 64]
    for code in (0, 1, 18, 64, 255):
        assert call("fail", x, ctypes.c_int64(code)) == code
        for index in (0, 1, 2**40):
            assert call("fail_at", x, ctypes.c_int64(code), ctypes.c_int64(index)) == code | (index + 1) << 8
    assert call("first_negative", x) == 14 | 3 << 8


@pytest.mark.mojo
@pytest.mark.parametrize("name", ["typed", "statuses"])
def test_kernels_need_no_library_at_all(compiled, name):
    elf = read_elf(compiled(name).library)
    assert elf.needed == []
    assert elf.imports == set()
    assert elf.exports >= set(compiled(name).kernels)
