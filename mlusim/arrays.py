"""The types of NumPy arrays in annotations, by what they hold."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
