"""`View.first_number` equals NumPy's number for every element type and address."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim.dtypes import ALL, Dtype


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_first_number_is_the_number_that_numpy_returns(dtype: Dtype) -> None:
    device = mlusim.Device("mlu370-x4")
    # All patterns of a byte, and NaN and infinity for floats.
    content = np.random.default_rng(0).integers(0, 256, 64 * dtype.itemsize, np.uint8)
    content[: 2 * dtype.itemsize] = 0xFF
    if dtype == np.bool_:
        content &= 1
    values = content.view(dtype)
    view = device.upload(values)
    for position in range(len(values)):
        ours, theirs = view[position].first_number(), values[position].item()
        assert type(ours) is type(theirs)
        assert repr(ours) == repr(theirs)
