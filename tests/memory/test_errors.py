"""The error tree: one root, the builtins that callers expect, pickling, plain messages."""

from __future__ import annotations

import pickle

import pytest

from mojoview.memory import errors
from mojoview.memory._status import STATUS, error_for_status

CLASSES = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda k: k.__name__)
def test_every_class_is_of_the_tree_and_of_a_builtin_family(kind):
    assert issubclass(kind, errors.MojoViewError)
    if kind is not errors.MojoViewError:
        families = [
            base
            for base in kind.__mro__
            if base.__module__ == "builtins" and base not in (Exception, BaseException, object)
        ]
        assert families, f"{kind.__name__} is no builtin that a caller would catch"
    assert kind.__doc__


@pytest.mark.parametrize("kind", [k for k in CLASSES if k is not errors.BrokenFrame], ids=lambda k: k.__name__)
def test_messages_and_pickles(kind):
    error = kind("what was expected and what came")
    assert str(error) == "what was expected and what came"
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is kind
    assert str(copied) == str(error)


def test_a_broken_frame_is_made_of_facts_and_pickles_with_them():
    error = errors.BrokenFrame(4096, 7, "header check", "telemetry")
    copied = pickle.loads(pickle.dumps(error))
    assert str(copied) == str(error) == "ring 'telemetry': frame 7 at position 4096 is damaged: header check"
    assert (copied.position, copied.seq, copied.reason) == (4096, 7, "header check")


def test_kernel_errors_carry_their_details_through_a_pickle():
    error = errors.KernelIndexError("at 5", kernel="saxpy", code=15, index=5)
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.kernel, copied.code, copied.index) == ("saxpy", 15, 5)


EXCEPTIONS = {  # by the numbers of abi.h
    1: errors.KernelError,
    2: errors.KernelError,
    3: errors.ShapeError,
    4: errors.DTypeError,
    5: errors.ShapeError,
    6: errors.LayoutError,
    7: errors.AlignmentError,
    8: errors.ReadOnlyError,
    9: errors.MaskError,
    10: errors.DeviceError,
    11: errors.OverlapError,
    12: errors.KernelMemoryError,
    13: errors.KernelOverflowError,
    14: errors.KernelValueError,
    15: errors.KernelIndexError,
    16: errors.KernelDivisionError,
    17: errors.KernelValueError,
}


@pytest.mark.parametrize("code", STATUS)
def test_each_status_is_one_exception(code):
    error = error_for_status(code, "kernel f()", 3)
    assert type(error) is EXCEPTIONS[code]
    assert str(error) == f"kernel f(): {STATUS[code][1]}, at element 3"
    assert str(error_for_status(code, "f()")) == f"f(): {STATUS[code][1]}"
    if isinstance(error, errors.KernelError):
        assert (error.code, error.index) == (code, 3)


def test_codes_of_kernel_authors_are_reported_as_they_are():
    for code in (18, 63, 64, 200, 255, -1):
        error = error_for_status(code, "f()")
        assert type(error) is errors.KernelError
        assert (error.code, str(error)) == (code, f"f(): the kernel returned status {code}")


def test_every_code_of_the_header_has_words():
    import re
    from pathlib import Path

    text = (Path(errors.__file__).parent / "abi.h").read_text()
    codes = {name: int(value) for name, value in re.findall(r"\bMV_E_([A-Z]+) = (\d+)", text)}
    assert set(codes.values()) - {codes["INTERRUPTED"], codes["USER"]} == set(STATUS)
