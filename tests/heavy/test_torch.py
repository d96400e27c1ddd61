"""PyTorch on the CPU: both directions, the same address at each hop."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import BorrowError, ExportedError, ReadOnlyError, ZeroCopyError

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
LAYOUTS = {
    "dense": lambda a: a,
    "steps": lambda a: a[::2, 1:],
    "transposed": lambda a: a.T,
    "0-d": lambda a: a[1, 2, ...],
    "empty": lambda a: a[:0],
}


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_there_and_back(torch, dtype, layout):
    array = LAYOUTS[layout](np.arange(20).reshape(4, 5).astype(dtype))
    view = mv.view(array, writable=True)
    tensor = torch.from_dlpack(view)
    assert tuple(tensor.shape) == array.shape
    assert str(tensor.dtype) == f"torch.{dtype}"
    back = mv.view(tensor)
    np.testing.assert_array_equal(np.asarray(back), array)
    if array.size:
        assert tensor.data_ptr() == view.ptr == back.ptr == array.ctypes.data
        steps = [s // array.itemsize for s in array.strides]
        assert [s for n, s in zip(array.shape, tensor.stride(), strict=True) if n > 1] == [
            s for n, s in zip(array.shape, steps, strict=True) if n > 1
        ]


def test_writing_is_seen_on_both_sides(torch):
    array = np.zeros(4)
    tensor = torch.from_dlpack(mv.view(array, writable=True))
    tensor[1] = 5
    mv.view(tensor, writable=True)[2] = 7
    assert array.tolist() == tensor.tolist() == [0, 5, 7, 0]


def test_read_only_memory_stays_marked_after_pytorch(torch):
    """PyTorch takes any versioned capsule and has no read-only tensors; who asks the old way is refused."""
    array = np.arange(3.0)
    view = mv.view(array)
    assert torch.from_dlpack(view).data_ptr() == view.ptr
    with pytest.raises(ReadOnlyError):
        torch.from_dlpack(view.__dlpack__())


def test_the_tensor_keeps_the_memory(torch):
    before = live_leases()
    view = mv.view(np.arange(1000.0), writable=True)
    tensor = torch.from_dlpack(view)
    with pytest.raises(ExportedError):
        view.release()
    del view
    gc.collect()
    assert tensor[999] == 999.0
    assert live_leases() == before + 1
    del tensor
    gc.collect()
    assert live_leases() == before


def test_bfloat16_keeps_its_code(torch):
    tensor = torch.tensor([1.0, 2.5], dtype=torch.bfloat16)
    view = mv.view(tensor, writable=True)
    assert view.ptr == tensor.data_ptr()
    assert view.itemsize == 2
    again = torch.from_dlpack(view)
    assert again.dtype == torch.bfloat16
    assert again.tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda torch: torch.zeros(3, requires_grad=True), "detach"),
        (lambda torch: torch.eye(3).to_sparse(), "refuses"),
        (lambda torch: torch.tensor([1j]).conj(), "resolve_conj"),
        (lambda torch: torch.tensor([1j]).conj().imag, "resolve_neg"),
        (lambda torch: torch.zeros(3, device="meta"), "refuses"),
    ],
)
def test_what_is_more_than_its_memory_is_refused(torch, make, words):
    with pytest.raises(ZeroCopyError, match=words):
        mv.view(make(torch))


def test_negative_strides_do_with_ours_what_they_do_with_numpys(torch):
    """PyTorch 2.13 ends the process. In processes of their own, therefore."""
    code = "import numpy as np, mojoview as mv, torch; a = np.arange(4.0)[::-1]; print(torch.from_dlpack({}).tolist())"
    ours, theirs = (
        subprocess.run([sys.executable, "-c", code.format(what)], capture_output=True, check=False)
        for what in ("mv.view(a, writable=True)", "a")
    )
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)


def test_kernels_take_tensors(torch):
    x, y = torch.arange(8, dtype=torch.float64), torch.ones(8, dtype=torch.float64)
    assert mv.kernels.dot(x, y) == 28.0
    with mv.PointerTable([x, y]) as table:
        assert np.asarray(table).tolist() == [x.data_ptr(), y.data_ptr()]


def test_borrows_see_through_tensors(torch):
    array = np.zeros(4)
    with mv.borrow_check(True):
        writer = mv.view(array, writable=True)
        tensor = torch.from_dlpack(writer)
        with pytest.raises(BorrowError):
            mv.view(tensor)
        del tensor
        writer.release()
