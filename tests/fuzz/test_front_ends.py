"""Random arguments of mluOp, CNRT and NetBuilder: a status with its reason, or an error of mlusim."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim import mluop
from mlusim.cinn import Float, Int, NetBuilder

EXAMPLES = int(os.environ.get("MLUSIM_FUZZ", "20"))
HOSTILE = st.sampled_from(
    [None, 0, -1, 1.5, 2**70, float("nan"), True, "x", b"x", [], [1, [2]], {}, object, (4, -1), "a\0"]
)
DEVICE = mlusim.Device("mlu370-x4")
ARRAY = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3)
SHIFTS = np.array([[1, -1]], np.int32)


def program(draw):
    """A host program of tin_shift with some arguments replaced."""
    wrong = draw(st.sets(st.integers(0, 24), max_size=2))
    number = iter(range(100))

    def arg(value):
        return draw(HOSTILE) if next(number) in wrong else value

    def made(found, place=1):
        return found[place] if isinstance(found, tuple) and len(found) > place else found

    handle = made(mluop.mluOpCreate(arg(DEVICE)))
    pointers, descriptors = [], []
    for array, dtype in (
        (ARRAY, mluop.MLUOP_DTYPE_FLOAT),
        (SHIFTS, mluop.MLUOP_DTYPE_INT32),
        (ARRAY, mluop.MLUOP_DTYPE_FLOAT),
    ):
        pointer = made(mluop.cnrtMalloc(DEVICE, arg(array.nbytes)))
        mluop.cnrtMemcpy(arg(pointer), arg(array), arg(array.nbytes), arg(mluop.cnrtMemcpyHostToDev))
        descriptor = made(mluop.mluOpCreateTensorDescriptor())
        mluop.mluOpSetTensorDescriptor(
            arg(descriptor), arg(mluop.MLUOP_LAYOUT_ARRAY), arg(dtype), arg(array.ndim), arg(array.shape)
        )
        pointers.append(pointer)
        descriptors.append(descriptor)
    pairs = [argument for pair in zip(descriptors, pointers, strict=True) for argument in pair]
    status = mluop.mluOpTinShiftForward(arg(handle), *(arg(argument) for argument in pairs))
    for pointer in pointers:
        mluop.cnrtFree(pointer)
    return status, not wrong


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_mluop_functions_never_raise(data):
    status, right = program(data.draw)
    assert isinstance(status, mluop.mluOpStatus_t)
    if right:
        assert status == mluop.MLUOP_STATUS_SUCCESS


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_random_net_is_right_or_refused_by_name(data):
    draw = data.draw
    wrong = draw(st.sets(st.integers(0, 12), max_size=2))
    number = iter(range(100))

    def arg(value):
        return draw(HOSTILE) if next(number) in wrong else value

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    index = np.array([[0, 1, 2, 0]], np.int32)
    try:
        builder = NetBuilder(arg("net"))
        a = builder.create_input(arg(Float(32)), arg((3, 4)), arg("a"))
        i = builder.create_input(arg(Int(32)), arg((1, 4)), arg("i"))
        flipped = builder.flip(arg(a), arg([0]))
        out = builder.gather(arg(flipped), arg(i), arg(0))
        result = builder.build(arg("mlu370-x4")).execute(arg({"a": x, "i": index}))
        values = result[out]
    except mlusim.MlusimError as error:
        assert wrong
        assert len(str(error)) > 10
        return
    if not wrong:
        assert np.array_equal(values, np.take_along_axis(x[::-1], index.astype(np.int64), 0))
