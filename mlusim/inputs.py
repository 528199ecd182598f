"""Checks and conversion of user input: shapes, arrays, counts, paths.

The first parameter, `what`, is the name of the argument in messages. Every function raises `InputError` with the value,
the rule and the remedy.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from operator import index as as_index
from pathlib import Path
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2
from mlusim.errors import InputError, shown
from mlusim.files import cannot_read
from mlusim.spelling import choose_one
from mlusim.units import plural

MAX_RANK = 64
# By a torch dtype that NumPy lacks: that of ml_dtypes, and a torch dtype of the same size that NumPy has.
_TORCH_ONLY = {
    "torch.bfloat16": (BFLOAT16, "int16"),
    "torch.float8_e4m3fn": (FLOAT8_E4M3FN, "uint8"),
    "torch.float8_e5m2": (FLOAT8_E5M2, "uint8"),
}


def as_tuple(value: Any) -> Any:
    """Convert a sequence or iterator to a tuple, safe from later changes; return other values as they are.

    Scalars of NumPy in it become values of Python.
    """
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        try:
            return tuple(map(as_plain, value))
        except TypeError:  # an array of rank 0 has __iter__ and cannot be iterated over
            return value
    return value


def as_plain(value: Any) -> Any:
    """Convert a scalar of NumPy, or an array of rank 0, to a value of Python; return other values as they are."""
    return value.item() if isinstance(value, np.generic | np.ndarray) and not value.ndim else value


def shape_parts(text: str) -> list[str]:
    """Split a shape as text, `2,8,64` or `2x8x64`, into its extents; none of an empty text.

    Raises `InputError` for both separators in one text, which is most likely meant as several shapes.
    """
    compact = text.strip().strip("[]()").lower().replace(" ", "")
    if "," in compact and re.search(r"\dx\d", compact):
        one = compact.replace(",", "x")
        raise InputError(f"{shown(text)} mixes 'x' and ',': a shape has one separator, such as {one}")
    return compact.replace("x", ",").split(",") if compact else []


def parse_shape(text: str) -> tuple[int, ...]:
    """Parse a shape such as `2,8,64` or `2x8x64`; an empty text is rank 0. Raises `InputError`."""
    parts = shape_parts(text)
    # `1,000` is meant as one number, and would be [1, 0].
    has_digit_groups = any(part.startswith("0") and part != "0" for part in parts)
    try:
        extents = tuple(int(part) for part in parts)
    except ValueError:
        extents = (-1,)
    if has_digit_groups or min(extents, default=0) < 0:
        raise InputError(f"{shown(text)} is not a shape such as 2,8,256,196 or 2x8x256x196")
    return extents


def as_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Return the extents of a shape."""
    if type(shape) is int and shape >= 0:
        return (shape,)
    # Kernels pass such shapes for each tile.
    if type(shape) is tuple and len(shape) <= MAX_RANK and all(type(size) is int and size >= 0 for size in shape):
        return shape
    if isinstance(shape, set | frozenset):
        raise InputError(f"{name} {shown(shape)}: a set has no order; pass a tuple, such as (2, 8, 256, 196)")
    values = as_tuple(shape)
    extents = values if isinstance(values, tuple) else (values,)
    try:
        integers = tuple(as_index(extent) for extent in extents)
    except TypeError:
        rule = "a shape is an integer or a tuple of integers, such as (2, 8, 256, 196)"
        of_array = "; pass its .shape" if isinstance(shape, np.ndarray) else ""
        raise InputError(f"{name} {shown(shape)}: {rule}{of_array}") from None
    if any(isinstance(extent, bool) for extent in extents):
        raise InputError(f"{name} {shown(shape)}: the extents of a shape are integers, not booleans")
    if min(integers, default=0) < 0:
        raise InputError(f"{name} {list(integers)}: an extent cannot be negative")
    if len(integers) > MAX_RANK:
        raise InputError(f"{name} has rank {len(integers)}: NumPy arrays have at most {MAX_RANK} dimensions")
    return integers


def as_array(name: str, value: Any) -> Array:
    """Convert an argument to a NumPy array in native byte order. Arrays with masked elements are refused."""
    if type(value) is np.ndarray:
        return native(value)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        masked = int(np.ma.getmaskarray(value).sum())
        raise InputError(
            f"{name} is an array with {plural(masked, 'masked element')}, and a tensor has no mask: give "
            "array.filled(VALUE), or array.data for the values below the mask"
        )
    if isinstance(value, str | os.PathLike):
        raise InputError(f"{name}={shown(value)} is not an array: load the file, np.load({shown(os.fspath(value))})")
    # A torch tensor that requires gradients cannot be converted until it is detached.
    if getattr(value, "requires_grad", False):
        value = value.detach()
    try:
        array = np.asarray(value) if (from_torch := _bits_in_torch(value)) is None else from_torch
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise InputError(
            f"{name} is not an array: {_reason(error)}; pass an array or nested lists of equal lengths"
        ) from error
    if array.dtype == object:
        raise InputError(
            f"{name} is not an array of numbers: {type(value).__name__} becomes an array of Python objects; pass an "
            "array with an element type, or nested lists of numbers"
        )
    return native(array)


def native(array: Array) -> Array:
    """Return an array in native byte order, its values unchanged to the last bit."""
    return array if array.dtype.isnative else array.byteswap().view(array.dtype.newbyteorder("="))


def _bits_in_torch(value: Any) -> Array | None:
    """Return a torch tensor of an element type that NumPy lacks as an array of the same bits; None for other values."""
    name = str(getattr(value, "dtype", ""))
    if name not in _TORCH_ONLY:
        return None
    dtype, same_size = _TORCH_ONLY[name]
    return np.asarray(value.view(getattr(sys.modules["torch"], same_size))).view(dtype)


def is_tensor(value: object) -> bool:
    """Return whether a value is an array of another library, which NumPy can convert."""
    return hasattr(value, "__array__") and hasattr(value, "shape") and not isinstance(value, np.ndarray | np.generic)


def as_count(name: str, value: Any, *, minimum: int = 1) -> int:
    """Return an integer of at least `minimum`."""
    try:
        number = as_index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < minimum:
        raise InputError(f"{name}={shown(value)}: pass an integer of at least {minimum}")
    return number


def check_is(name: str, value: object, kind: type, remedy: str) -> None:
    """Raise `InputError` for a value that is not of a class; `remedy` says how to get one that is."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise InputError(f"{name}={shown(value)} is not {article} {kind.__name__}: {remedy}")


def check_operations(theory_ops: Any) -> int | None:
    """Return the declared number of operations, or None."""
    return None if theory_ops is None else as_count("theory_ops", theory_ops, minimum=0)


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Raise `InputError` for an unknown name, suggesting the nearest one."""
    names = list(known)
    if not (isinstance(value, str) and value in names):
        raise InputError(f"{name}={shown(value)}: {choose_one(value, names)}")


def as_mapping(label: str, value: object) -> Mapping[str, Any]:
    """Return a mapping of names to values; {} for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InputError(f"{label}={shown(value)}: pass a dictionary of names and values, such as {{'NAME': [1, 2]}}")
    return value


def check_flags(**flags: object) -> None:
    """Raise `InputError` for an option that is neither True nor False: the text "no" would count as True."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"{name}={shown(value)}: choose True or False")


def check_seconds(name: str, value: Any) -> None:
    """Raise if a time is not a number above 0; infinity is allowed."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value > 0:
        raise InputError(f"{name}={shown(value)}: give seconds, a number above 0")


def as_text(name: str, value: object) -> str:
    """Return a text, which must not contain NUL."""
    if not isinstance(value, str) or "\0" in value:
        raise InputError(f"{name}={shown(value)} is not text")
    return value


def as_texts(name: str, values: object) -> tuple[str, ...]:
    """Return one text or several as a tuple."""
    texts = (values,) if isinstance(values, str) else as_tuple(values)
    if not isinstance(texts, tuple):
        raise InputError(f"{name}={shown(values)}: pass a list of strings")
    return tuple(as_text(name, text) for text in texts)


def as_path(path: object) -> Path:
    """Convert a user's path. None, numbers, bytes, empty text and text with NUL are refused."""
    try:
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    except TypeError:  # an object whose `__fspath__` gives neither text nor bytes
        text = None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"{shown(path)} is not a path: pass a string such as 'run.zip', or a Path")
    return Path(text)


def as_file(path: object) -> Path:
    """Return the path of an existing file."""
    file = as_path(path)
    try:
        is_file = file.is_file()
    except OSError as error:
        raise InputError(f"{shown(str(file))}: {error.strerror or error}") from None
    if not is_file:
        raise InputError(
            f"{file}: is a directory: name a file in it" if file.is_dir() else cannot_read(file, FileNotFoundError())
        )
    return file


def as_paths(paths: object) -> list[Path]:
    """Return one path or several as a list."""
    if isinstance(paths, str | os.PathLike):
        return [as_path(paths)]
    several = as_tuple(paths)
    if not isinstance(several, tuple):
        raise InputError(f"{shown(paths)} is not a list of paths: give strings such as 'run.zip', or Paths")
    return [as_path(path) for path in several]


def _reason(error: Exception) -> str:
    """Return the text of another library's error, its first line."""
    return str(error).partition("\n")[0].split(". The detected")[0].rstrip(".") or type(error).__name__
