"""CINN's names of element types: Float(32), Int(32), UInt(8), Bool(), BFloat16(), Float16().

Each is an object with a NumPy dtype, accepted by `mlusim.dtypes.dtype_of` and thus wherever a dtype is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from mlusim.dtypes import BFLOAT16, BOOL, FLOAT16, Dtype, dtype_of
from mlusim.errors import InputError, shown

_WIDTHS = {"Float": (16, 32, 64), "Int": (8, 16, 32, 64), "UInt": (8, 16, 32, 64)}


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
    return _type_of_width("Float", bits)


def Int(bits: int) -> Type:
    """A signed integer of 8, 16, 32 or 64 bits. Raises `InputError` for any other width."""
    return _type_of_width("Int", bits)


def UInt(bits: int) -> Type:
    """An unsigned integer of 8, 16, 32 or 64 bits. Raises `InputError` for any other width."""
    return _type_of_width("UInt", bits)


def Bool() -> Type:
    """Booleans, one byte each."""
    return Type(BOOL, "Bool()")


def BFloat16() -> Type:
    """Brain float: 8 bits of exponent, 7 of fraction."""
    return Type(BFLOAT16, "BFloat16()")


def Float16() -> Type:
    """IEEE half precision."""
    return Type(FLOAT16, "Float16()")


def _type_of_width(kind: str, bits: Any) -> Type:
    if not isinstance(bits, Integral) or bits not in _WIDTHS[kind]:
        widths = ", ".join(map(str, _WIDTHS[kind]))
        raise InputError(f"{kind}({shown(bits)}): there are {kind} types of {widths} bits")
    return Type(dtype_of(f"{kind.lower()}{bits}"), f"{kind}({bits})")
