"""The codes of C types that compiled code passes with the values of a call, as in the headers.

A code is the size of the type in bytes, above it 8 bits of its kind, and above these a bit for a pointer to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlusim.dtypes import BFLOAT16

POINTER = 1 << 16
# Of a pointer parameter: its target is constant.
ONLY_READ = 1 << 17
SIGNED, UNSIGNED, FLOAT, BFLOAT, BOOL = range(1, 6)
_DTYPE_KINDS = {SIGNED: "i", UNSIGNED: "u", FLOAT: "f"}
_UINT8 = np.dtype(np.uint8)


def type_code(kind: int, nbytes: int) -> int:
    """Return the code of a type."""
    return kind << 8 | nbytes


def kind_of(code: int) -> int:
    """Return the kind of a type; 0 for a record."""
    return code >> 8 & 0xFF


def nbytes_of(code: int) -> int:
    """Return the size of a type in bytes; of a pointer, that of its target."""
    return code & 0xFF


def dtype_of_code(code: int) -> np.dtype[Any]:
    """Return the element type of a code; bytes for other codes."""
    kind, nbytes = kind_of(code), nbytes_of(code)
    if kind == BFLOAT:
        return BFLOAT16
    if kind == BOOL:
        return np.dtype(np.bool_)
    if kind in _DTYPE_KINDS and nbytes in (1, 2, 4, 8):
        return np.dtype(f"{_DTYPE_KINDS[kind]}{nbytes}")
    return _UINT8


def code_of_dtype(dtype: np.dtype[Any]) -> int:
    """Return the code of an element type."""
    if dtype == BFLOAT16:
        return type_code(BFLOAT, dtype.itemsize)
    return type_code({kind: number for number, kind in _DTYPE_KINDS.items()}[dtype.kind], dtype.itemsize)


def on_board(code: int) -> int:
    """Return the code of a number's type on the board, which has no double: a literal such as 0.5 is a float."""
    return type_code(FLOAT, 4) if code == type_code(FLOAT, 8) else code
