"""Replies of a worker: from any bytes the parent makes values and exceptions of mojoview, and executes nothing."""

import contextlib
import json
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mojoview import kernels
from mojoview.memory import errors
from mojoview.safety.kernel_reference import KernelStatus
from mojoview.safety.workers.reply import LENGTH, MalformedReply, decode_reply, encode_reply

VALUES = [
    None,
    True,
    5,
    -(2**63),
    2**80,
    1.5,
    float("inf"),
    "text \udcff"[:5],
    1 + 2j,
    (1, (2.0, None)),
    [1, 2],
    np.float32(1.25),
    np.bool_(True),
    np.datetime64("NaT", "s"),
    np.datetime64("2020-01-01", "ns"),
    np.arange(6.0).reshape(2, 3),
    np.empty((0, 3), "i2"),
    np.array([True, False]),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__} {value}"[:30])
def test_values_come_back_equal_and_of_their_type(value):
    done, same = decode_reply(encode_reply(True, value)[LENGTH.size :])
    assert done is True
    assert type(same) is type(value)
    np.testing.assert_equal(same, value)
    if isinstance(value, np.ndarray | np.generic):
        assert same.dtype == value.dtype


def test_nan_and_descriptions_come_back():
    assert np.isnan(decode_reply(encode_reply(True, float("nan"))[8:])[1])
    description = kernels.describe(np.array([1.0, 2.0, 4.0]))
    assert repr(decode_reply(encode_reply(True, description)[8:])[1]) == repr(description)


def test_failures_come_back_as_exceptions_of_the_tree():
    error = errors.KernelTimeout("too long", kernel="f")
    error.stack = ("a", "b")
    done, same = decode_reply(encode_reply(False, error)[8:])
    assert (done, type(same), same.args, vars(same)) == (False, errors.KernelTimeout, error.args, vars(error))
    assert decode_reply(encode_reply(False, KernelStatus(64, 3))[8:])[1].args == (64, 3)
    full = errors.ShmFullError("full", 10, 5)
    same = decode_reply(encode_reply(False, full)[8:])[1]
    assert (str(same), vars(same)) == (str(full), vars(full))


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, np.array([object()]), print], ids=["object", "dict", "objects", "function"]
)
def test_what_a_reply_cannot_carry_is_refused_at_its_sender(value):
    with pytest.raises(TypeError):
        encode_reply(True, value)


HOSTILE = [
    b"",
    b"\x80\x05.",
    pickle.dumps(print),
    b"null",
    b"[]",
    b"[true]",
    b"[1, 2]",
    b"[true, [1]]",
    b'[true, {"error": ["print", [], {}]}]',
    b'[true, {"error": ["Any", [], {}]}]',
    b'[true, {"error": ["annotations", [], {}]}]',
    b'[true, {"error": ["KernelError", 5, {}]}]',
    b'[true, {"error": ["KernelError", [], 5]}]',
    b'[true, {"error": [{}, [], {}]}]',
    b'[true, {"array": ["O", [1], "AAAAAAAAAAA="]}]',
    b'[true, {"array": ["f8", [2], "AAAAAAAAAAA="]}]',
    b'[true, {"array": ["f8", [-5, 4611686018427387904, 4], "AAAAAAAAAAA="]}]',
    b'[true, {"array": ["no dtype", [1], ""]}]',
    b'[true, {"array": [5, 5, 5]}]',
    b'[true, {"array": "abc"}]',
    b'[true, {"status": [1]}]',
    b'[true, {"status": ["a", null]}]',
    b'[true, {"tuple": 5}]',
    b'[true, {"complex": ["a"]}]',
    b'[true, {"description": [1]}]',
    b"[true, {}]",
    b'[true, {"a": 1, "b": 2}]',
    b"[true, " + b"1" * 10_000 + b"]",
    b"[" * 100_000,
    b'[true, {"tuple": [' * 50_000,
    b'[true, "\\ud800"]',
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:40]))
def test_malformed_replies_are_one_error(text):
    try:
        decode_reply(text)
    except MalformedReply:
        return
    assert text == b'[true, "\\ud800"]'  # a text, if an odd one


@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["error", "array", "scalar", "tuple", "list", "status", "complex", "description", "x"]),
                inner,
                max_size=2,
            )
        ),
    ).map(lambda value: json.dumps([True, value]).encode())
)
def test_any_bytes_are_a_value_or_one_error(text):
    with contextlib.suppress(MalformedReply):
        decode_reply(text)


def test_the_length_of_a_reply_is_bounded():
    assert LENGTH.size == struct.calcsize("<Q")
    with pytest.raises(ValueError, match="longer"):
        encode_reply(True, "x" * ((1 << 30) + 1))
