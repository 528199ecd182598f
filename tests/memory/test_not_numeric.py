"""Views are not numbers: Python's operators on them raise errors that name the instruction to use."""

from __future__ import annotations

import copy
import math
import operator
import pickle

import numpy as np
import pytest

import mlusim
from mlusim.errors import OperandError


@pytest.fixture(scope="module")
def view():
    return mlusim.Device("mlu370-x4").upload(np.arange(4, dtype=np.float32), "x")


LOAD, COMPUTE = r"`await core\.load\(view\)` returns the value", r"compute with instructions, such as core\.add"
LOOK, WRITE = r"core\.peek\(view\) returns its values for inspection", r"core\.store\(view, number\) write to it"


@pytest.mark.parametrize(
    ("use", "remedy"),
    [
        (lambda x: x + 1, COMPUTE),
        (lambda x: 2 * x, COMPUTE),
        (lambda x: -x, COMPUTE),
        (lambda x: x & x, COMPUTE),
        (lambda x: np.ones(4) + x, LOOK),
        (np.sum, LOOK),
        (np.asarray, LOOK),
        (lambda x: [1, 2][x[0]], LOAD + ".*--arg NAME=100"),
        (lambda x: x[0] == 0, LOAD),
        (lambda x: x[0] != np.float32(1), LOAD),
        (lambda x: x[0] < 3, LOAD),
        (lambda x: 1 if x[0] else 2, LOAD),
        (lambda x: float(x[0]), LOAD),
        (lambda x: operator.setitem(x, 0, 1.0), WRITE),
        (lambda x: operator.delitem(x, 0), WRITE),
        (lambda x: divmod(x, 2), COMPUTE),
        (round, LOAD),
        (math.floor, LOAD),
        (lambda x: f"{x[0]:.2f}", LOAD),
    ],
)
def test_a_view_is_not_a_number(view, use, remedy):
    with pytest.raises(OperandError, match=r"<view of x .*> is memory, not a number: .*" + remedy):
        use(view)


def test_views_are_hashable_and_comparable(view):
    other = view[:2]
    assert view in [other, view]
    assert {view: 1, other: 2}[other] == 2
    assert view != other
    assert view is not None
    assert view != "x"


@pytest.mark.parametrize("use", [copy.deepcopy, pickle.dumps])
def test_python_does_not_copy_memory_of_a_device(view, use):
    """The copy would have separate bytes, and writes to it would be lost."""
    with pytest.raises(OperandError, match=r"which Python cannot copy: core\.memcpy\(buffer, view\) copies its bytes"):
        use(view)
    assert copy.copy(view).allocation is view.allocation


def test_a_view_in_a_text(view):
    assert f"{view[1:3]}" == f"{view[1:3]!s}"
    assert f"{view[1]:>60}" == str(view[1]).rjust(60)
