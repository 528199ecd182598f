"""CINN's names of element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mlusim.cinn import BFloat16, Bool, Float, Float16, Int, UInt
from mlusim.dtypes import dtype_of
from mlusim.errors import InputError

TYPES = [
    (Float(16), "Float(16)", np.float16),
    (Float(32), "Float(32)", np.float32),
    (Float(64), "Float(64)", np.float64),
    (Int(8), "Int(8)", np.int8),
    (Int(16), "Int(16)", np.int16),
    (Int(32), "Int(32)", np.int32),
    (Int(64), "Int(64)", np.int64),
    (UInt(8), "UInt(8)", np.uint8),
    (UInt(16), "UInt(16)", np.uint16),
    (UInt(32), "UInt(32)", np.uint32),
    (UInt(64), "UInt(64)", np.uint64),
    (Bool(), "Bool()", np.bool_),
    (BFloat16(), "BFloat16()", ml_dtypes.bfloat16),
    (Float16(), "Float16()", np.float16),
]


@pytest.mark.parametrize(("kind", "name", "expected"), TYPES, ids=[name for _, name, _ in TYPES])
def test_types_correspond_to_dtypes(kind, name, expected):
    assert kind.numpy_dtype == np.dtype(expected)
    assert dtype_of(kind) == np.dtype(expected)
    assert repr(kind) == name


def test_types_are_values():
    assert Float(16) == Float16() == Float(np.int64(16))
    assert Float(16) != BFloat16()
    assert len({Int(32), Int(32), UInt(32), Float(32)}) == 3


@pytest.mark.parametrize(
    ("make", "bits", "message"),
    [
        (Float, 8, r"^Float\(8\): there are Float types of 16, 32, 64 bits$"),
        *((Float, bits, r"^Float\(.*\): there are Float types of 16, 32, 64 bits$") for bits in ([], None, 24, 32.0)),
        (Int, 1, r"^Int\(1\): there are Int types of 8, 16, 32, 64 bits$"),
        (UInt, "8", r"^UInt\('8'\): there are UInt types of 8, 16, 32, 64 bits$"),
    ],
)
def test_nonexistent_widths_are_rejected(make, bits, message):
    with pytest.raises(InputError, match=message):
        make(bits)
