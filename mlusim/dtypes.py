"""The element types of mlusim: one registry of names, widths and kinds.

The names are NumPy's, plus two of BANG C: `half` is float16 and `float` is float32, as on the board. (NumPy's string
"float" would be float64; the Python type `float` remains float64, as in NumPy.) Elements are in
native byte order. Not modelled: 4-bit integers, tf32, the board's fixed-point formats.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from mlusim.errors import InputError, shown
from mlusim.spelling import nearest

Dtype: TypeAlias = np.dtype[Any]

BOOL: Dtype = np.dtype(np.bool_)
INT8: Dtype = np.dtype(np.int8)
INT16: Dtype = np.dtype(np.int16)
INT32: Dtype = np.dtype(np.int32)
INT64: Dtype = np.dtype(np.int64)
UINT8: Dtype = np.dtype(np.uint8)
UINT16: Dtype = np.dtype(np.uint16)
UINT32: Dtype = np.dtype(np.uint32)
UINT64: Dtype = np.dtype(np.uint64)
FLOAT16: Dtype = np.dtype(np.float16)
BFLOAT16: Dtype = np.dtype(ml_dtypes.bfloat16)
FLOAT32: Dtype = np.dtype(np.float32)
FLOAT64: Dtype = np.dtype(np.float64)
FLOAT8_E4M3FN: Dtype = np.dtype(ml_dtypes.float8_e4m3fn)
FLOAT8_E5M2: Dtype = np.dtype(ml_dtypes.float8_e5m2)
COMPLEX64: Dtype = np.dtype(np.complex64)
COMPLEX128: Dtype = np.dtype(np.complex128)

SIGNED: tuple[Dtype, ...] = (INT8, INT16, INT32, INT64)
UNSIGNED: tuple[Dtype, ...] = (UINT8, UINT16, UINT32, UINT64)
INTEGERS: tuple[Dtype, ...] = SIGNED + UNSIGNED
FLOATS: tuple[Dtype, ...] = (FLOAT16, BFLOAT16, FLOAT32, FLOAT64, FLOAT8_E4M3FN, FLOAT8_E5M2)
COMPLEX: tuple[Dtype, ...] = (COMPLEX64, COMPLEX128)
ALL: tuple[Dtype, ...] = (BOOL, *INTEGERS, *FLOATS, *COMPLEX)

# Sets in addition to the tuples: the predicates run once per simulated instruction, and a set needs one hash.
_INTEGERS = frozenset(INTEGERS)
_FLOATS = frozenset(FLOATS)
_COMPLEX = frozenset(COMPLEX)

_NAMES: dict[Dtype, str] = {dtype: dtype.name for dtype in ALL}
_BY_DTYPE: dict[Dtype, Dtype] = {dtype: dtype for dtype in ALL}
_BY_NAME: dict[str, Dtype] = {name: dtype for dtype, name in _NAMES.items()}
_BY_NAME |= {"half": FLOAT16, "float": FLOAT32, "double": FLOAT64}
_BY_TYPE: dict[type[Any], Dtype] = {dtype.type: dtype for dtype in ALL}
_BY_TYPE |= {bool: BOOL, int: INT64, float: FLOAT64, complex: COMPLEX128}
# NumPy's type codes, for its own types only: the codes of ml_dtypes (V2, V1, f1) mean nothing to a reader.
_CODES: dict[str, Dtype] = {code: t for t in ALL if t.isbuiltin == 1 for code in (t.char, t.str[1:])}
for _code in "bBhHiIlLqQ":  # C's integers overlap (long is int or long long), and each has a type of its own
    _CODES[_code] = _BY_TYPE[np.dtype(_code).type] = _BY_DTYPE[np.dtype(_code)]
_BY_NAME |= _CODES

# Words that mean 32 bits on the board and 64 in NumPy.
_AMBIGUOUS = frozenset({"int", "uint", "long", "ulong", "unsigned"})
# Short names of other libraries, for the message about an unknown name.
_ELSEWHERE = {
    "fp16": FLOAT16,
    "fp32": FLOAT32,
    "fp64": FLOAT64,
    "single": FLOAT32,
    "bf16": BFLOAT16,
    "fp8": FLOAT8_E4M3FN,
    "fp8e4nv": FLOAT8_E4M3FN,
    "e4m3": FLOAT8_E4M3FN,
    "e5m2": FLOAT8_E5M2,
    "fp8e5": FLOAT8_E5M2,
}
_NATIVE = np.dtype("=i2").str[0]

# The types for bitwise copies, by bytes of an element. There is no 16-byte unsigned integer; a void of that width is
# copied, reversed and gathered as fast as complex128.
RAW: dict[int, Dtype] = {1: UINT8, 2: UINT16, 4: UINT32, 8: UINT64, 16: np.dtype("V16")}


def dtype_of(name_or_dtype: object, what: str = "") -> Dtype:
    """Return the element type for a name, a dtype or a type; `what` is the name of a tensor in messages.

    Accepted: a NumPy or ml_dtypes dtype or scalar type; a torch dtype; Python's bool, int, float and complex (64 bits a
    number, as in NumPy); a name ("float16", "bfloat16", and "half", "float", "double" with the board's widths); NumPy's
    codes ("f4", "<i8"); any object whose attribute `numpy_dtype` is one of these. Returns one of `ALL`,
    without metadata.

    Raises `InputError` for anything else and for a byte order that is not this machine's.
    """
    prefix = f"{what}: " if what else ""
    dtype = _lookup(name_or_dtype, prefix)
    if dtype is None:
        dtype = _lookup(getattr(name_or_dtype, "numpy_dtype", None), prefix)
    if dtype is None:
        suggestion = nearest_dtype(name_or_dtype) if isinstance(name_or_dtype, str) else ""
        if inspect.isfunction(name_or_dtype):
            suggestion = f"call it, as in {name_or_dtype.__name__}(32); "
        text = str(name_or_dtype)[:200] if isinstance(name_or_dtype, np.dtype) else shown(name_or_dtype)
        raise InputError(
            f"{prefix}dtype {text} is not an element type; {suggestion}accepted are {', '.join(_NAMES.values())}, "
            "given as a dtype or type of NumPy, ml_dtypes or torch, as a name ('half' and 'float' too), or as an "
            "object with an attribute numpy_dtype"
        )
    return dtype


def nearest_dtype(name: str) -> str:
    """Return "did you mean X? " for a message about an unknown name of an element type, or "" if none is near."""
    elsewhere = _ELSEWHERE.get(name.lower())
    return nearest(name, _NAMES.values()) if elsewhere is None else f"did you mean {_NAMES[elsewhere]}? "


def dtype_name(dtype: object) -> str:
    """Return the canonical name of an element type: "float16", never "half". Arguments and errors as `dtype_of`."""
    return _NAMES[dtype_of(dtype)]


def raw_dtype(dtype: object) -> Dtype:
    """Return the type for bitwise copies: an unsigned integer of equal width, or a 16-byte void for complex128.

    Copies through this type keep NaN payloads, -0.0, and bool bytes other than 0 and 1. `array.view(raw_dtype(...))`
    works with any strides. Arguments and errors as `dtype_of`.
    """
    return RAW[dtype_of(dtype).itemsize]


def is_integer(dtype: Dtype) -> bool:
    """Return whether elements are signed or unsigned integers; false for bool."""
    return dtype in _INTEGERS


def is_float(dtype: Dtype) -> bool:
    """Return whether elements are real floating-point numbers, of 8 to 64 bits."""
    return dtype in _FLOATS


def is_complex(dtype: Dtype) -> bool:
    """Return whether elements are complex numbers."""
    return dtype in _COMPLEX


def bounds(dtype: Dtype) -> tuple[float, float]:
    """Return the smallest and the largest finite number of an integer or float type, as floats."""
    info: Any = ml_dtypes.iinfo(dtype) if is_integer(dtype) else ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # no types in ml_dtypes
    return float(info.min), float(info.max)


def _lookup(value: object, prefix: str) -> Dtype | None:
    """Return the element type of a dtype, name or type; None if there is none. `prefix` begins messages."""
    if isinstance(value, np.dtype):
        dtype = _BY_DTYPE.get(value)
        if dtype is None and not value.isnative and value.newbyteorder("=") in _BY_DTYPE:
            raise _byte_order_error(value, prefix)
        return dtype
    if isinstance(value, str):
        return _by_name(value, prefix)
    if type(value).__module__ == "torch":
        return _BY_NAME.get(str(value).removeprefix("torch."))
    return _BY_TYPE.get(value) if isinstance(value, type) else None


def _by_name(name: str, prefix: str) -> Dtype | None:
    """Return the element type of a name or a code; None if there is none."""
    dtype = _BY_NAME.get(name)
    if dtype is not None:
        return dtype
    if name in _AMBIGUOUS:
        raise InputError(
            f"{prefix}dtype {name!r} is 32 bits wide on the board and 64 in NumPy: name the width, such as 'int32' or "
            "'int64'"
        )
    order, code = name[:1], name[1:]
    if order not in {"<", ">", "=", "|"} or code not in _CODES:
        return None
    dtype = _CODES[code]
    if order in {"<", ">"} and order != _NATIVE and dtype.itemsize > 1:
        raise _byte_order_error(np.dtype(name), prefix)
    return dtype


def _byte_order_error(dtype: Dtype, prefix: str) -> InputError:
    native = dtype.newbyteorder("=").name
    return InputError(
        f"{prefix}dtype {dtype.str!r} is {native} in the other byte order, and elements are in this machine's "
        f"({_NATIVE!r}): write {native!r}, and convert an array by x.astype({native!r})",
    )
