"""CINN's names of element types: Float(32), Int(32), UInt(8), Bool(), BFloat16(), Float16().

Each is an object with a NumPy dtype, accepted by `mlusim.dtypes.dtype_of` and thus wherever a dtype is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from mlusim.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Dtype,
)
from mlusim.errors import InputError, shown

_FLOATS = {16: FLOAT16, 32: FLOAT32, 64: FLOAT64}
_INTS = {8: INT8, 16: INT16, 32: INT32, 64: INT64}
_UINTS = {8: UINT8, 16: UINT16, 32: UINT32, 64: UINT64}


@dataclass(frozen=True, slots=True)
class Type:
    """An element type. Two are equal if their dtypes are: Float(16) is Float16().

    Attributes:
        numpy_dtype: the NumPy or ml_dtypes dtype.
        name: as CINN writes it.
    """

    numpy_dtype: Dtype
    name: str = field(compare=False)

    def __repr__(self) -> str:
        return self.name


def Float(bits: int) -> Type:
    """A float of 16, 32 or 64 bits. Raises `InputError` for any other width."""
    return _type_of_width("Float", bits, _FLOATS)


def Int(bits: int) -> Type:
    """A signed integer of 8, 16, 32 or 64 bits. Raises `InputError` for any other width."""
    return _type_of_width("Int", bits, _INTS)


def UInt(bits: int) -> Type:
    """An unsigned integer of 8, 16, 32 or 64 bits. Raises `InputError` for any other width."""
    return _type_of_width("UInt", bits, _UINTS)


def Bool() -> Type:
    """Booleans, one byte each."""
    return Type(BOOL, "Bool()")


def BFloat16() -> Type:
    """Brain float: 8 bits of exponent, 7 of fraction."""
    return Type(BFLOAT16, "BFloat16()")


def Float16() -> Type:
    """IEEE half precision."""
    return Type(FLOAT16, "Float16()")


def _type_of_width(kind: str, bits: Any, known: Mapping[int, Dtype]) -> Type:
    if not isinstance(bits, Integral) or bits not in known:
        widths = ", ".join(map(str, known))
        raise InputError(f"{kind}({shown(bits)}): there are {kind} types of {widths} bits")
    return Type(known[int(bits)], f"{kind}({bits})")
