"""Checks of what a kernel passes to an instruction: views of memory, and numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import dtype_name
from mlusim.errors import OperandError, shown
from mlusim.memory.view import View

# An unchecked argument that should be a view. With the type `View`, compiled code would raise its own error before
# `check_view` can name the operation and the remedy.
Passed: TypeAlias = Any


def check_view(name: str, value: object) -> View:
    """Return a view of memory. Raises `OperandError` if the value is something else."""
    if isinstance(value, View):
        return value
    raise OperandError(f"{name} of {shown(value)}: it takes a view of memory, such as x[0], not {type(value).__name__}")


def number(name: str, value: Any, dtype: np.dtype[Any]) -> Array:
    """Return a number in an element type. Raises `OperandError` if the value is not a number."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if not isinstance(value, bool | int | float | complex | np.generic) or isinstance(value, str | bytes):
        raise OperandError(f"{name} with {shown(value)}: the value must be a number, not {type(value).__name__}")
    try:
        with np.errstate(all="ignore"):
            if dtype.kind == "c" or not np.iscomplexobj(value):
                return np.asarray(value).astype(dtype)
    except (OverflowError, TypeError, ValueError):
        pass
    raise OperandError(f"{name} with {shown(value)}: {dtype_name(dtype)} cannot represent it")
