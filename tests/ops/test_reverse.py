"""mlusim.ops.reverse, flip and reverse_sequence: against NumPy and ONNX; inputs of any layout; rules and messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import mlusim
from mlusim import dtypes
from mlusim.errors import BoardError, InputError, PlanError
from mlusim.ops import flip, reverse, reverse_sequence
from mlusim.planning.reverse import STRATEGIES
from mlusim.planning.reverse_sequence import STRATEGIES as SEQUENCE_STRATEGIES
from operator_runs import BOARDS, any_bits, on, same_bits

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
NRAM_BYTES = st.sampled_from([1024, 4096, 1 << 16, None])


@st.composite
def arrays(draw: st.DrawFn, *, least_rank: int = 0, least_extent: int = 0) -> Array:
    """Any rank to 6, any element type, and any layout: steps, negative strides, axes in another order."""
    rank = draw(st.integers(least_rank, 6))
    most = (40, 30, 12, 7, 5, 4, 3)[rank]
    shape = tuple(draw(st.integers(least_extent, most)) for _ in range(rank))
    steps = tuple(draw(st.sampled_from([1, 1, 2, -1, -3])) for _ in range(rank))
    order = draw(st.permutations(range(rank)))
    large = [0] * rank
    for axis, (extent, step) in enumerate(zip(shape, steps, strict=True)):
        large[order[axis]] = extent * abs(step)
    x = any_bits(RNG, tuple(large), draw(st.sampled_from(dtypes.ALL))).transpose(order)
    return x[tuple(slice(None, None, step) for step in steps)]


class TestReverse:
    @pytest.mark.parametrize(
        ("axis", "expected"),
        [
            (0, [[9, 10, 11, 12], [5, 6, 7, 8], [1, 2, 3, 4]]),
            (1, [[4, 3, 2, 1], [8, 7, 6, 5], [12, 11, 10, 9]]),
            ([0, 1], [[12, 11, 10, 9], [8, 7, 6, 5], [4, 3, 2, 1]]),
        ],
    )
    @pytest.mark.parametrize("operator", [flip, reverse])
    def test_the_documents_examples(self, operator, axis, expected):
        x = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], np.int32)
        result = operator(x, axis)
        assert result.output.tolist() == expected
        assert result.operator == operator.__name__

    def test_the_documents_vector(self):
        assert flip([1, 2, 3], 0).output.tolist() == [3, 2, 1]

    @given(arrays(), st.data())
    @settings(deadline=None, max_examples=50)
    def test_against_numpy(self, x, data):
        axes = [axis for axis in range(x.ndim) if data.draw(st.booleans())]
        given_axes = [axis - x.ndim * data.draw(st.booleans()) for axis in axes]
        result = reverse(
            x,
            data.draw(st.permutations(given_axes)),
            device=on(data.draw(st.sampled_from(BOARDS)), data.draw(NRAM_BYTES)),
            strategy=data.draw(st.sampled_from([*STRATEGIES])),
            dma=data.draw(st.sampled_from(["complete", "late"])),
        )
        assert same_bits(result, np.flip(x, axes))

    @pytest.mark.grid(6)
    @pytest.mark.parametrize("strategy", [*STRATEGIES])
    @pytest.mark.parametrize("name", BOARDS)
    @pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
    def test_every_type_keeps_its_bits(self, dtype, name, strategy):
        x = any_bits(RNG, (3, 8, 37), dtype)
        assert same_bits(reverse(x, [0, 2], device=on(name, 4096), strategy=strategy), np.flip(x, (0, 2)))

    @pytest.mark.grid(16)
    @pytest.mark.parametrize("strategy", [*STRATEGIES])
    @pytest.mark.parametrize(
        ("nram_bytes", "shape"), [(1 << 16, (64, 9, 16)), (4096, (3, 64, 128)), (1024, (2, 3, 3000))]
    )
    @pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2)])
    def test_all_tiers(self, axes, nram_bytes, shape, strategy):
        x = RNG.integers(-(2**31), 2**31, shape).astype(np.int32)
        result = reverse(x, axes, device=on("mlu370-x4", nram_bytes), strategy=strategy)
        assert same_bits(result, np.flip(x, axes))

    @pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 5)])
    def test_zero_extents(self, shape):
        result = flip(np.zeros(shape, np.float16), [0])
        assert same_bits(result, np.zeros(shape, np.float16))
        assert (len(result.log), result.time_ps) == (0, 0)

    def test_rank_0_and_no_axes(self):
        assert same_bits(reverse(np.float32(-0.0), []), np.array(-0.0, np.float32))
        x = any_bits(RNG, (5, 7), np.float64)
        result = reverse(x, ())
        assert same_bits(result, x)
        assert not np.shares_memory(result.output, x)

    @pytest.mark.parametrize("rank", [7, 12, 20])
    def test_ranks_beyond_6(self, rank):
        x = np.arange(2 ** min(rank, 12), dtype=np.int16).reshape(*(2,) * min(rank, 12), *(1,) * (rank - min(rank, 12)))
        axes = tuple(range(0, rank, 2))
        for strategy in STRATEGIES:
            assert same_bits(reverse(x, axes, strategy=strategy), np.flip(x, axes))

    def test_overlapping_and_broadcast_inputs(self):
        row = np.arange(10, dtype=np.int32)
        windows = as_strided(row, (6, 5), (4, 4))
        assert same_bits(flip(windows, 1), np.flip(windows, 1))
        wide = np.broadcast_to(row[:, None], (10, 300))
        assert same_bits(flip(wide, 0), np.flip(wide, 0))

    def test_the_input_is_not_written_and_the_output_is_its_own(self):
        x = np.arange(12).reshape(3, 4)
        before = x.copy()
        result = flip(x, 0)
        result.output[...] = -1
        assert np.array_equal(x, before)

    def test_timing_only(self):
        x = np.broadcast_to(np.float32(0), (1 << 12, 1 << 12))
        timed, run = flip(x, 1, data=False), flip(x, 1)
        assert timed.output is None
        assert timed.time_ps == run.time_ps

    @pytest.mark.parametrize(
        ("shape", "axis", "message"),
        [
            (
                (2, 3),
                2,
                r"^reverse: axis=2 of a tensor of rank 2: an axis must be in \[-2, 2\); the last one is 1 or -1$",
            ),
            ((2, 3), [0, -3], r"^reverse: axis=-3 of a tensor of rank 2"),
            (
                (2, 3),
                [1, -1],
                r"^reverse: axis=\[1, -1\] of a tensor of rank 2 names axis 1 more than once, as 1 and -1: name ",
            ),
            ((2, 3), [0, 1, 0], r"of a tensor of rank 2 names axis 0 more than once, as 0 and 0: name each axis once$"),
            ((), 0, r"^reverse: axis=0 of a tensor of rank 0, which has no axes$"),
            ((2, 3), 1.0, r"^reverse: axis=1\.0 is not an integer"),
            ((2, 3), "01", r"^reverse: axis='01' is not an integer"),
            ((2, 3), [None], r"^reverse: axis=None is not an integer"),
            ((2, 3), True, r"^reverse: axis=True is a boolean"),
            ((0, 3), 2, r"^reverse: axis=2 of a tensor of rank 2"),
        ],
    )
    def test_axis_errors(self, shape, axis, message):
        with pytest.raises(InputError, match=message):
            reverse(np.zeros(shape), axis)
        with pytest.raises(InputError, match=message.replace("reverse", "flip")):
            flip(np.zeros(shape), axis)
        with pytest.raises(InputError, match=message):
            mlusim.plan("reverse", shape, axis=axis)

    def test_other_errors(self):
        x = np.zeros((2, 3))
        with pytest.raises(InputError, match=r"^strategy='mirrors': did you mean mirror\?"):
            reverse(x, 0, strategy="mirrors")
        with pytest.raises(InputError, match=r"is not an element type"):
            reverse(np.array(["a"]), 0)
        with pytest.raises(BoardError, match=r"^no board 'mlu371'"):
            reverse(x, 0, device="mlu371")
        with pytest.raises(PlanError, match=r"give the board more nram_bytes or fewer nram_reserved_bytes$"):
            reverse(x, 0, device=on("mlu370-x4", 64))

    def test_numpy_integers_are_axes(self):
        x = np.arange(6).reshape(2, 3)
        assert same_bits(flip(x, np.int64(-1)), np.flip(x, -1))
        assert same_bits(flip(x, np.array([0, 1])), np.flip(x))


def by_entries(x: Array, lengths: Any, seq_axis: int, batch_axis: int) -> Array:
    out = np.moveaxis(x.copy(), (batch_axis, seq_axis), (0, 1))
    source = np.moveaxis(x, (batch_axis, seq_axis), (0, 1))
    for entry, length in enumerate(np.asarray(lengths).tolist()):
        count = min(max(length, 0), source.shape[1])
        out[entry, :count] = source[entry, :count][::-1]
    return np.ascontiguousarray(np.moveaxis(out, (0, 1), (batch_axis, seq_axis)))


class TestReverseSequence:
    def test_by_hand(self):
        x = np.arange(12).reshape(3, 4)
        result = reverse_sequence(x, np.array([0, 2, 4]))
        assert result.output.tolist() == [[0, 1, 2, 3], [5, 4, 6, 7], [11, 10, 9, 8]]
        turned = reverse_sequence(x, np.array([1, 2, 3, 2]), seq_axis=0, batch_axis=1)
        assert turned.output.tolist() == [[0, 5, 10, 7], [4, 1, 6, 3], [8, 9, 2, 11]]

    @pytest.mark.parametrize("strategy", [*SEQUENCE_STRATEGIES])
    def test_lengths_are_clamped(self, strategy):
        x = np.arange(15).reshape(3, 5)
        lengths = np.array([-(2**63), 2**63 - 1, -1])
        result = reverse_sequence(x, lengths, strategy=strategy)
        assert result.output.tolist() == [x[0].tolist(), x[1, ::-1].tolist(), x[2].tolist()]

    @given(arrays(least_rank=2), st.data())
    @settings(deadline=None, max_examples=50)
    def test_against_numpy(self, x, data):
        seq_axis, batch_axis = data.draw(st.permutations(range(x.ndim)))[:2]
        rows, batch = x.shape[seq_axis], x.shape[batch_axis]
        kind = data.draw(st.sampled_from([np.int32, np.int64]))
        lengths = np.array([data.draw(st.integers(-2, rows + 2)) for _ in range(batch)], kind)
        result = reverse_sequence(
            x,
            lengths,
            seq_axis - x.ndim * data.draw(st.booleans()),
            batch_axis - x.ndim * data.draw(st.booleans()),
            device=on(data.draw(st.sampled_from(BOARDS)), data.draw(NRAM_BYTES)),
            strategy=data.draw(st.sampled_from([*SEQUENCE_STRATEGIES])),
            dma=data.draw(st.sampled_from(["complete", "late"])),
        )
        assert same_bits(result, by_entries(x, lengths, seq_axis, batch_axis))

    @pytest.mark.grid(4)
    @pytest.mark.parametrize("strategy", [*SEQUENCE_STRATEGIES])
    @pytest.mark.parametrize("name", BOARDS)
    @pytest.mark.parametrize(
        ("nram_bytes", "shape"), [(1 << 16, (70, 6, 4)), (2048, (5, 200, 4)), (1024, (3, 4, 1500))]
    )
    @pytest.mark.parametrize("axes", [(1, 0), (0, 1), (2, 0), (0, 2), (1, 2)])
    def test_all_tiers(self, axes, nram_bytes, shape, name, strategy):
        x = any_bits(RNG, shape, np.int16)
        lengths = RNG.integers(0, shape[axes[0]] + 1, shape[axes[1]]).astype(np.int32)
        result = reverse_sequence(x, lengths, *axes, device=on(name, nram_bytes), strategy=strategy)
        assert same_bits(result, by_entries(x, lengths, *axes))

    def test_full_lengths_are_a_flip_and_zero_lengths_a_copy(self):
        x = any_bits(RNG, (4, 9, 5), np.float32)
        assert same_bits(reverse_sequence(x, np.full(4, 9)), np.flip(x, 1))
        assert same_bits(reverse_sequence(x, np.zeros(4, np.int32)), x)

    @pytest.mark.parametrize("shape", [(0, 4), (4, 0), (3, 4, 0)])
    def test_zero_extents(self, shape):
        result = reverse_sequence(np.zeros(shape), np.zeros(shape[0], np.int32))
        assert same_bits(result, np.zeros(shape))
        assert len(result.log) == 0

    def test_timing_only(self):
        x, lengths = np.zeros((8, 100, 3), np.float32), np.arange(0, 80, 10)
        assert reverse_sequence(x, lengths, data=False).time_ps == reverse_sequence(x, lengths).time_ps

    @pytest.mark.parametrize(
        ("shape", "lengths", "axes", "message"),
        [
            (
                (4,),
                np.zeros(4, np.int32),
                (1, 0),
                r"^reverse_sequence: x has shape \[4\], rank 1: it needs .* rank 2 or more",
            ),
            ((4, 5), np.zeros(4, np.int32), (2, 0), r"^reverse_sequence: seq_axis=2 of a tensor of rank 2"),
            ((4, 5), np.zeros(4, np.int32), (1, -3), r"^reverse_sequence: batch_axis=-3 of a tensor of rank 2"),
            (
                (4, 5),
                np.zeros(4, np.int32),
                (1, -1),
                r"seq_axis=1 and batch_axis=-1 are one axis of x, of rank 2: they",
            ),
            (
                (4, 5),
                np.zeros(5, np.int32),
                (1, 0),
                r"seq_lengths has shape \[5\] and x, of shape \[4, 5\], has 4 batch",
            ),
            ((4, 5), np.zeros((4, 1), np.int32), (1, 0), r"seq_lengths is \[4\], one length for each$"),
            ((4, 5), np.zeros(4, np.int16), (1, 0), r"seq_lengths is int16: lengths must be int32 or int64"),
            (
                (4, 5),
                np.zeros(4),
                (1, 0),
                r"seq_lengths is float64: .*seq_lengths\.astype\('int32'\), or in a net builder\.cast\(.*'int32'\)$",
            ),
        ],
    )
    def test_errors(self, shape, lengths, axes, message):
        with pytest.raises(InputError, match=message):
            reverse_sequence(np.zeros(shape), lengths, *axes)

    def test_plan_errors(self):
        with pytest.raises(InputError, match="are one axis of x"):
            mlusim.plan("reverse_sequence", (4, 5), (4,), seq_axis=0, batch_axis=-2)
        with pytest.raises(PlanError, match=r"reverse_sequence needs up to 4 buffers of an element"):
            mlusim.plan("reverse_sequence", (4, 5), (4,), device=on("mlu370-x4", 64))


def test_onnx_reverse_sequence(onnx_cases):
    cases = onnx_cases("reversesequence")
    assert len(cases) >= 2
    for name, attributes, (x, lengths), (expected,) in cases:
        result = reverse_sequence(x, lengths, attributes["time_axis"], attributes["batch_axis"])
        assert same_bits(result, expected), name
