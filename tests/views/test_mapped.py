"""Mapped files: windows on them, files that are too short or were cut, and mappings that stay open."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from support.arrays import assert_same
from support.process import run_code

import mojoview as mv
from mojoview.memory.errors import (
    AlignmentError,
    ArgumentError,
    DTypeError,
    InterfaceError,
    MappingError,
    ReadOnlyError,
    ShapeError,
)
from mojoview.views.mapped import check_mapping

PAGE = mmap.ALLOCATIONGRANULARITY


@pytest.fixture
def numbers(tmp_path):
    path = tmp_path / "numbers"
    np.arange(3 * PAGE // 8, dtype="f8").tofile(path)
    return path


@pytest.mark.parametrize("offset", [0, 8, PAGE - 8, PAGE, PAGE + 16, 3 * PAGE - 24])
def test_windows_are_the_files_bytes(numbers, offset):
    there = np.fromfile(numbers, "f8", 3, offset=offset)
    with mv.map_file(numbers, "f8", 3, offset) as view:
        assert np.asarray(view).tolist() == there.tolist()
        assert view.readonly
        assert view.aligned
    with mv.map_file(str(numbers), np.dtype("f8"), offset=offset) as rest:
        assert rest.shape == ((3 * PAGE - offset) // 8,)
        assert rest[0] == there[0]


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("i2", (2, 3, 4)), ([("a", "i4"), ("b", "f8")], 5), (("u1", (3,)), (4,)), (">M8[s]", (7,)), ("i1", ())],
)
def test_shapes_records_and_subarrays(numbers, dtype, shape):
    expected = np.memmap(numbers, dtype, "r", shape=shape) if shape else np.fromfile(numbers, dtype, 1).reshape(())
    with mv.map_file(numbers, dtype, shape) as view:
        assert (view.shape, view.dtype) == (expected.shape, expected.dtype)
        assert np.asarray(view).tobytes() == expected.tobytes()


def test_writing_reaches_the_file(numbers):
    with mv.map_file(numbers, "f8", 2, offset=PAGE + 8, writable=True) as view:
        view[1] = -7.0
        view.owner.flush()
    assert np.fromfile(numbers, "f8")[PAGE // 8 + 2] == -7.0
    with pytest.raises(ReadOnlyError):
        mv.map_file(numbers, "f8", 2)[0] = 1


def test_nothing_is_mapped_for_no_elements(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    assert mv.map_file(path, "f8").shape == (0,)
    assert mv.map_file(path, "f8", (3, 0), writable=True).size == 0


def test_the_mapping_cannot_be_closed_under_a_view(numbers):
    view = mv.map_file(numbers, "f8")
    mapping = view.owner
    part = view[::7]
    view.release()
    with pytest.raises(BufferError):
        mapping.close()
    assert part[1] == 7.0
    part.release()
    mapping.close()


def test_the_mapping_ends_with_the_last_view(numbers):
    def mapped():
        return Path("/proc/self/maps").read_text().count(str(numbers))

    views = [mv.map_file(numbers, "f8")]
    views += [views[0][3:], views[0].cast("i8")]
    assert mapped() == 1
    while views:
        views.pop()
        gc.collect()
        assert mapped() == bool(views)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("f8", 3 * PAGE), InterfaceError, "the file holds"),
        (("f8", 1, 3 * PAGE), InterfaceError, "the file holds"),
        (("f8", None, 4 * PAGE), InterfaceError, "do not divide"),
        (("V7", None), InterfaceError, "do not divide"),
        (("f8", (2**40, 2**40)), InterfaceError, "the file holds"),
        (("f8", 10**40), InterfaceError, "the file holds"),
        (("f8", 1, 8 * 10**40), InterfaceError, "the file holds"),
        (("f8", -1), InterfaceError, "at least 0"),
        (("f8", 1, -8), InterfaceError, "at least 0"),
        (("f8", 1, 4), AlignmentError, "multiple of 8"),
        (("i2", 1, 1), AlignmentError, "multiple of 2"),
        (("f8", (1,) * 9), ShapeError, "9 dimensions"),
        (("O", 1), DTypeError, "references"),
        (("V0", 1), DTypeError, "with a size"),
        ((None, 1), DTypeError, "expected a dtype"),
        (("f8", 1.0), ArgumentError, "expected an int"),
        (("f8", True), ArgumentError, "expected an int"),
        (("f8", "3"), ArgumentError, "expected an int"),
        (("f8", 1, None), ArgumentError, "expected an int"),
        (("f8", 1, 0, 1), ArgumentError, "expected a bool"),
    ],
)
def test_refusals(numbers, arguments, error, words):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(error, match=words):
        mv.map_file(numbers, *arguments)
    assert len(os.listdir("/proc/self/fd")) == before


def test_files_that_are_none(tmp_path):
    with pytest.raises(MappingError, match="No such file") as caught:
        mv.map_file(tmp_path / "missing", "f8")
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(MappingError) as caught:
        mv.map_file(tmp_path, "f8", writable=True)
    assert caught.value.errno == errno.EISDIR
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ArgumentError, match="regular file"):
            mv.map_file(path, "f8")
    for path in (None, 3, object(), "a\0b"):
        with pytest.raises(ArgumentError, match="expected a path"):
            mv.map_file(path, "f8")


def test_a_file_that_was_truncated_before_is_found(numbers):
    memmap = np.memmap(numbers, "f8", "r", offset=PAGE + 8, shape=(4,))
    with open(numbers, "rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    part = memmap[1:]
    assert_same(mv.view(part), np.asarray(part))
    assert mv.view(mapping).nbytes == 3 * PAGE
    os.truncate(numbers, PAGE + 40)  # all of the memmap's four elements are still there
    assert mv.view(memmap).shape == (4,)
    with pytest.raises(InterfaceError, match="truncated to"):
        mv.view(mapping)
    os.truncate(numbers, PAGE)
    for obj in (memmap, part, mapping):
        with pytest.raises(InterfaceError, match="truncated to"):
            mv.view(obj)
    with pytest.raises(InterfaceError, match="the file holds"):
        mv.map_file(numbers, "f8", 1, PAGE)


def test_mappings_without_a_file_are_not_checked():
    anonymous = mmap.mmap(-1, PAGE)
    view = mv.view(anonymous, writable=True)
    view[3] = 9
    assert anonymous[3] == 9
    view.release()
    anonymous.close()
    check_mapping(anonymous)
    with pytest.raises(ValueError, match="closed"):
        mv.view(anonymous)


def test_memmaps_and_their_copies(numbers):
    memmap = np.memmap(numbers, "f8", "r+", shape=(2, 3))
    assert_same(mv.view(memmap, writable=True), np.asarray(memmap), readonly=False)
    assert mv.view(memmap.T[1:]).ptr == memmap.T[1:].ctypes.data
    assert mv.view(memmap + 1)[0, 0] == 1.0
    assert mv.view(memmap, copy="always").ptr != memmap.ctypes.data


@pytest.mark.unsanitized
def test_truncation_under_a_view_is_a_bus_error_as_documented(numbers):
    """If it ever is not, the documentation has to change."""
    code = (
        "import mojoview as mv, os, sys, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0));"
        f"v = mv.map_file({str(numbers)!r}, 'f8'); os.truncate({str(numbers)!r}, 0); print(float(v[0]))"
    )
    with pytest.raises(AssertionError, match="status -7"):
        run_code("-c", code)
    assert sys.platform == "linux"
