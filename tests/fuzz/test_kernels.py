"""Kernels of random operations, most of them invalid: an error of mlusim at a line, no other error, and no hang.

A timing-only run takes the same time as the run with data, or names the line at which it needs data.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mlusim

EXAMPLES = int(os.environ.get("MLUSIM_FUZZ", "20"))
NUMBERS = st.sampled_from(
    [0, 1, 2, 3, 7, 64, 128, 1000, -1, 2**20, 2**31, 2**63, 2**70, 1.5, None, "x", True, np.ones(3)]
)
BOUND = st.sampled_from([0, 1, 2, 3, 8, 32, 64, 100])
VIEW = st.tuples(st.just("view"), st.integers(0, 6), BOUND, BOUND, st.integers(0, 3))
VALUE = st.one_of(VIEW, VIEW, VIEW, VIEW, NUMBERS)
DTYPE = st.sampled_from(["float32", "float32", "float16", "int32", "int8", "uint8", "float64", "x", None])
NAMES = [name for name in dir(mlusim.Core) if not name.startswith("_") and callable(getattr(mlusim.Core, name))]
NAMES += ["float2half", "half2float", "nothing"]
OPERATION = st.one_of(
    st.tuples(st.just("alloc"), st.sampled_from(["nram", "nram", "wram", "sram", "ldram"]), NUMBERS, DTYPE),
    st.tuples(st.just("call"), st.sampled_from(NAMES), st.lists(VALUE, max_size=4), st.booleans()),
    st.tuples(st.just("loop"), st.integers(0, 3)),
)


def pick(buffers, value):
    """A view or a number among the drawn arguments of an operation."""
    if not isinstance(value, tuple):
        return value
    _, which, start, stop, how = value
    view = buffers[which % len(buffers)]
    if how == 0:
        return view
    flat = view.reshape((view.size,))
    if how == 1:
        return flat[start:stop]
    return flat[start] if how == 2 else flat[: min(flat.size, 64)]


def kernel_of(operations, *, cores):
    async def kernel(core, x, y, out):
        if core.is_memory_core or core.task_id >= cores:
            return
        tile = core.nram.alloc(64, x.dtype)
        buffers = [x, y, out, tile]
        for operation in operations:
            if operation[0] == "alloc":
                buffers.append(getattr(core, operation[1]).alloc(operation[2], operation[3]))
            elif operation[0] == "loop":
                for _ in range(operation[1]):
                    await core.memcpy(tile, x.reshape((x.size,))[:64])
            else:
                _, name, values, awaited = operation
                found = getattr(core, name)(*(pick(buffers, value) for value in values))
                if awaited and found is not None:
                    await found

    return kernel


@settings(max_examples=EXAMPLES * 5)
@given(
    operations=st.lists(OPERATION, max_size=8),
    board=st.sampled_from(["mlu270-s4", "mlu370-x4", "mlu590-h8"]),
    dma=st.sampled_from(["complete", "late"]),
    cores=st.sampled_from([1, 4]),
)
@example(operations=[("call", "scalar", [2**63], False)], board="mlu370-x4", dma="complete", cores=1)
@example(
    operations=[("call", "sum_rows", [("view", 0, 0, 0, 0), None], False)], board="mlu270-s4", dma="complete", cores=1
)
def test_a_random_kernel_succeeds_or_fails_at_its_line(operations, board, dma, cores):
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    kernel = kernel_of(operations, cores=cores)
    out = mlusim.Output(x.shape, x.dtype)
    options = {"device": board, "dma": dma, "stall_s": 5}
    try:
        result = mlusim.run(kernel, x, x.copy(), out, **options)
    except mlusim.MlusimError as error:
        check(error)
        return
    try:
        timed = mlusim.run(kernel, x, x.copy(), out, data=False, **options)
    except (mlusim.MissingDataError, mlusim.AccessError) as error:
        check(error)
        assert "timing-only" in str(error) or "data" in str(error)
    else:
        assert timed.time_ps == result.time_ps
    mlusim.verify(kernel, x, x.copy(), out, **options)


def check(error):
    """Every error names a line of the kernel, and none comes from the simulator's own code."""
    text = str(error)
    assert len(text) > 10
    for raw in ("NoneType' object has no", "ufunc", "broadcast", "memoryview", "argument out of range", "struct.error"):
        assert raw not in text, text


@pytest.mark.parametrize("count", [2**70, "x", None, 1.5, -1])
def test_a_buffer_of_no_size_is_refused(count):
    async def kernel(core):
        core.nram.alloc(count, "float32")

    with pytest.raises(mlusim.MlusimError, match=r"test_kernels\.py:\d+"):
        mlusim.run(kernel)
