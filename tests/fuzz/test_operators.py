"""Random calls of every operator: the result of an oracle, bit for bit, or an error of mlusim."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim

EXAMPLES = int(os.environ.get("MLUSIM_FUZZ", "20"))
BOARDS = [board.name for board in mlusim.presets()]
DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
HOSTILE = st.sampled_from(
    [None, -1, 0, 1, 7, 2**31, 2**70, 1.5, float("nan"), True, "x", "", b"x", [], [[1], [1, 2]], {}, (), (0, 0), object]
)


def elements(random, shape, dtype):
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return random.integers(0, 100, shape).astype(dtype)
    if kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    return random.standard_normal(shape).astype(dtype)


def reverse_case(draw, random, x):
    axes = draw(st.lists(st.integers(-x.ndim, x.ndim - 1), unique_by=lambda axis: axis % x.ndim, max_size=x.ndim))
    return mlusim.ops.reverse, (x, axes), {}, np.flip(x, tuple(axes))


def reverse_sequence_case(draw, random, x):
    batch_axis = draw(st.integers(0, x.ndim - 1))
    seq_axis = draw(st.integers(0, x.ndim - 1).filter(lambda axis: axis != batch_axis))
    lengths = random.integers(0, x.shape[seq_axis] + 1, x.shape[batch_axis])
    out = x.copy()
    for entry, length in enumerate(lengths):
        place = [slice(None)] * x.ndim
        place[batch_axis], place[seq_axis] = slice(entry, entry + 1), slice(0, length)
        out[tuple(place)] = np.flip(x[tuple(place)], seq_axis)
    return mlusim.ops.reverse_sequence, (x, lengths), {"seq_axis": seq_axis, "batch_axis": batch_axis}, out


def gather_case(draw, random, x):
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    shape = [*x.shape]
    shape[axis] = draw(st.integers(0, 9)) if x.shape[axis] else 0
    index = random.integers(0, max(x.shape[axis], 1), shape).astype(draw(st.sampled_from(["int32", "int64"])))
    return mlusim.ops.gather, (x, index, axis), {}, np.take_along_axis(x, index.astype(np.int64), axis)


def scatter_case(draw, random, x):
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    shape = [*x.shape]
    shape[axis] = draw(st.integers(0, 9)) if x.shape[axis] else 0
    index = random.integers(0, max(x.shape[axis], 1), shape)
    source = elements(random, shape, x.dtype)
    out = x.copy()
    for place in np.ndindex(*shape):
        target = [*place]
        target[axis] = index[place]
        out[tuple(target)] = source[place]
    return mlusim.ops.scatter, (x, index, source, axis), {}, out


def index_select_case(draw, random, x):
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    index = random.integers(0, max(x.shape[axis], 1), draw(st.integers(0, 9)) if x.shape[axis] else 0)
    return mlusim.ops.index_select, (x, index), {"axis": axis}, np.take(x, index, axis)


def cast_case(draw, random, x):
    target = draw(st.sampled_from(["int32", "int64", "float64"]))
    x = random.integers(0, 100, x.shape).astype("int8")
    return mlusim.ops.cast, (x, target), {}, x.astype(target)


def bitcast_case(draw, random, x):
    if np.iscomplexobj(x):  # complex and real types do not mix
        expected = x.view("complex64")
        if x.dtype == np.complex128:
            expected = expected.reshape(*x.shape, 2)
        return mlusim.ops.bitcast_convert, (x, "complex64"), {}, expected
    target = {1: "uint8", 2: "float16", 4: "int32", 8: "int64"}[x.dtype.itemsize]
    return mlusim.ops.bitcast_convert, (x, target), {}, x.view(target)


def tin_shift_case(draw, random, x):
    batch, time, groups, each, inner = (draw(st.integers(1, most)) for most in (3, 5, 3, 3, 17))
    x = elements(random, (batch, time, groups * each, inner), draw(st.sampled_from(["float16", "float32"])))
    shifts = random.integers(-time - 1, time + 2, (batch, groups)).astype(np.int32)
    out = np.zeros_like(x)
    for n, t, c in np.ndindex(batch, time, groups * each):
        source = t - int(shifts[n, c // each])
        if 0 <= source < time:
            out[n, t, c] = x[n, source, c]
    return mlusim.ops.tin_shift_forward, (x, shifts), {}, out


CASES = [
    reverse_case,
    reverse_sequence_case,
    gather_case,
    scatter_case,
    index_select_case,
    cast_case,
    bitcast_case,
    tin_shift_case,
]


def draw_case(draw, make, *, least_rank):
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 33]), min_size=least_rank, max_size=4))
    return make(draw, random, elements(random, shape, draw(st.sampled_from(DTYPES))))


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__[:-5])
@settings(max_examples=max(EXAMPLES // 4, 5))
@given(data=st.data())
def test_a_valid_call_matches_the_oracle_bitwise(make, data):
    draw = data.draw
    call, arguments, options, expected = draw_case(draw, make, least_rank=2 if make is reverse_sequence_case else 1)
    options["device"] = draw(st.sampled_from(BOARDS))
    limit = draw(st.sampled_from([None, None, 512, 1024, 4096, 65536]))
    try:
        result = call(*arguments, nram_limit_bytes=limit, **options)
    except mlusim.PlanError:
        assert limit is not None
        return
    assert result.output.dtype == expected.dtype
    assert result.output.shape == expected.shape
    assert result.output.tobytes() == np.ascontiguousarray(expected).tobytes()
    timed = call(*arguments, nram_limit_bytes=limit, data=False, **options)
    assert timed.time_ps == result.time_ps


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__[:-5])
@settings(max_examples=max(EXAMPLES // 4, 5))
@given(data=st.data())
def test_a_wrong_argument_is_an_error_by_name(make, data):
    draw = data.draw
    call, arguments, options, _ = draw_case(draw, make, least_rank=2 if make is reverse_sequence_case else 1)
    values = dict(enumerate(arguments)) | options
    place = draw(st.sampled_from([*values, "device", "strategy", "nram_limit_bytes"]))
    values[place] = draw(HOSTILE)
    given_arguments = [values.pop(number) for number in range(len(arguments))]
    try:
        call(*given_arguments, **values)
    except mlusim.MlusimError as error:
        assert len(str(error)) > 10
