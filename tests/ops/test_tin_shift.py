"""mlusim.ops.tin_shift_*: rules and messages, inputs of any layout, the two backward rules, timing-only runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlusim
from mlusim.errors import AllocationError, BoardError, InputError, OperationLimitError, PlanError
from mlusim.hardware import board
from mlusim.ops import tin_shift_backward, tin_shift_forward
from mlusim.planning.tin_shift import STRATEGIES

INT_MIN = -(2**31)
X = np.arange(36, dtype=np.float32).reshape(1, 6, 6, 1)
SHIFTS = np.array([[-1, 0, 2]], np.int32)


def by_slices(x: np.ndarray[Any, Any], shifts: np.ndarray[Any, Any], sign: int = 1) -> np.ndarray[Any, Any]:
    out = np.zeros(x.shape, x.dtype)
    batch, time, channels, _ = x.shape
    width = channels // shifts.shape[1]
    for n in range(batch):
        for group in range(shifts.shape[1]):
            k, of_group = sign * int(shifts[n, group]), np.s_[group * width : (group + 1) * width]
            if 0 <= k < time:
                out[n, k:, of_group] = x[n, : time - k, of_group]
            elif -time < k < 0:
                out[n, :k, of_group] = x[n, -k:, of_group]
    return out


class TestResults:
    def test_the_documents_example(self) -> None:
        result = tin_shift_forward(X, SHIFTS)
        assert result.output is not None
        assert result.output.dtype == np.float32
        assert result.output[0, :, :, 0].tolist() == [
            [6, 7, 2, 3, 0, 0],
            [12, 13, 8, 9, 0, 0],
            [18, 19, 14, 15, 4, 5],
            [24, 25, 20, 21, 10, 11],
            [30, 31, 26, 27, 16, 17],
            [0, 0, 32, 33, 22, 23],
        ]

    @given(
        st.tuples(st.integers(1, 3), st.integers(0, 6), st.integers(1, 2), st.integers(1, 9)),
        st.integers(1, 3),
        st.sampled_from(["float16", "float32"]),
        st.sampled_from(list(STRATEGIES)),
        st.data(),
    )
    def test_forward_and_both_backwards(
        self, extents: tuple[int, ...], groups: int, dtype: str, strategy: str, data: st.DataObject
    ) -> None:
        batch, time, width, hw = extents
        x = np.random.default_rng(0).standard_normal((batch, time, groups * width, hw)).astype(dtype)
        shift = st.one_of(st.integers(-7, 7), st.sampled_from([INT_MIN, -INT_MIN - 1]))
        count = batch * groups
        shifts = np.array(data.draw(st.lists(shift, min_size=count, max_size=count)), np.int32).reshape(batch, groups)
        forward = tin_shift_forward(x, shifts, strategy=strategy)
        same = tin_shift_backward(x, shifts, strategy=strategy)
        adjoint = tin_shift_backward(x, shifts, "adjoint", strategy=strategy)
        assert np.array_equal(forward.output, by_slices(x, shifts))
        assert np.array_equal(same.output, by_slices(x, shifts))
        assert np.array_equal(adjoint.output, by_slices(x, shifts, -1))

    def test_the_adjoint_is_the_gradient(self) -> None:
        # <shift(x), g> == <x, adjoint(g)>, in small integers, where float32 is exact.
        x, g = (np.random.default_rng(seed).integers(-9, 9, (2, 5, 6, 3)).astype(np.float32) for seed in (1, 2))
        shifts = np.array([[1, -2, 0], [4, -5, 3]], np.int32)
        forward = tin_shift_forward(x, shifts).output
        assert (forward * g).sum() == (x * tin_shift_backward(g, shifts, rule="adjoint").output).sum()
        assert (forward * g).sum() != (x * tin_shift_backward(g, shifts).output).sum()

    @pytest.mark.parametrize(
        "view",
        [
            lambda a: a[:, ::-1],
            lambda a: a.transpose(0, 1, 3, 2),
            lambda a: a[:, :, ::3, 1:5],
            lambda a: np.broadcast_to(a[:, :1, :, :1], (2, 5, 6, 4)),
            np.asfortranarray,
        ],
        ids=["negative", "transposed", "strided", "broadcast", "fortran"],
    )
    def test_any_layout(self, view: Any) -> None:
        x = view(np.random.default_rng(0).standard_normal((2, 5, 6, 6)).astype(np.float32))
        before = x.copy()
        shifts = np.array([[1, 9], [-2, 9]], np.int32)[:, ::-1][:, 1:]
        assert np.array_equal(tin_shift_forward(x, shifts).output, by_slices(x, shifts))
        assert np.array_equal(x, before)

    def test_bits_are_preserved(self) -> None:
        bits = np.random.default_rng(0).integers(0, 2**16, (1, 3, 2, 50), np.uint16)
        bits[0, 0, 0, :4] = 0x7C01, 0xFE55, 0x8000, 0x0001  # signalling NaN, payload, -0.0, subnormal
        output = tin_shift_forward(bits.view(np.float16), np.array([[1]], np.int32)).output
        assert output is not None
        assert np.array_equal(output.view(np.uint16)[0, 1:], bits[0, :2])

    def test_a_result_has_plan_bytes_and_log(self) -> None:
        result = tin_shift_forward(X, SHIFTS, device="mlu590-h8", strategy="tight")
        assert (result.operator, result.board.name, result.plan.strategy) == (
            "tin_shift_forward", "mlu590-h8", "tight",
        )  # fmt: skip
        # Per group of two channels 5, 6 and 4 of 6 rows of 4 B are kept.
        assert result.bytes_requested["GDRAM2NRAM"] == 2 * 4 * (5 + 6 + 4)
        assert result.bytes_requested["NRAM2GDRAM"] == X.nbytes
        assert result.metrics.theory_io_bytes == 2 * X.nbytes + SHIFTS.nbytes
        assert result.time_us > 0
        assert [record.name for record in result.log.allocations[:3]] == ["x", "shifts", "output"]
        assert tin_shift_backward(X, SHIFTS).operator == "tin_shift_backward"

    def test_a_whole_channel_is_faster_than_a_cut_one(self) -> None:
        x = np.zeros((1, 16, 32, 784), np.float32)  # a channel for each core
        shifts = np.array([[1, -2]], np.int32)
        small = board("mlu370-x4").replace(nram_bytes=160 * 1024)
        cut_up = tin_shift_forward(x, shifts, strategy="tight", device=small)
        whole = tin_shift_forward(x, shifts, strategy="tight")
        assert (cut_up.plan.tier, whole.plan.tier) == (2, 1)
        assert whole.time_ps < cut_up.time_ps
        assert whole.time_ps < tin_shift_forward(x, shifts, strategy="shipped").time_ps


class TestWithoutTime:
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_an_empty_result_and_no_launch(self, strategy: str) -> None:
        result = tin_shift_forward(X[:, :0], SHIFTS, strategy=strategy)
        assert result.output is not None
        assert (result.output.shape, result.output.dtype) == ((1, 0, 6, 1), np.float32)
        assert (len(result.log), result.log.launches, result.time_ps) == (0, [], 0)
        assert result.plan.tier == 0


class TestTimingOnly:
    def test_same_time_and_bytes_without_output(self) -> None:
        x = np.random.default_rng(0).standard_normal((2, 8, 64, 49)).astype(np.float16)
        shifts = np.array([[1, -3], [9, 0]], np.int32)
        for strategy in STRATEGIES:
            full = tin_shift_forward(x, shifts, strategy=strategy)
            bare = tin_shift_forward(x, shifts, strategy=strategy, data=False)
            assert bare.output is None
            assert np.array_equal(full.log.table(), bare.log.table())

    def test_an_output_larger_than_memory_can_be_timed(self) -> None:
        x = np.broadcast_to(np.float32(1), (16, 64, 1024, 1024))  # 4.3 GB, and as much again
        result = tin_shift_forward(x, np.ones((16, 1), np.int32), strategy="batched", data=False)
        assert result.bytes_requested["NRAM2GDRAM"] == x.size * 4


class TestOptions:
    def test_late_copies_change_nothing(self) -> None:
        for strategy in STRATEGIES:
            output = tin_shift_forward(X, SHIFTS, strategy=strategy, dma="late").output
            assert np.array_equal(output, by_slices(X, SHIFTS))

    def test_operations_are_bounded(self) -> None:
        with pytest.raises(OperationLimitError, match="3 operations issued without an end"):
            tin_shift_forward(X, SHIFTS, max_operations=3)

    def test_an_unknown_option(self) -> None:
        with pytest.raises(TypeError, match="dta"):
            tin_shift_forward(X, SHIFTS, dta=False)


class TestPlan:
    def test_is_the_plan_that_runs(self) -> None:
        for strategy in STRATEGIES:
            plan = mlusim.plan("tin_shift_forward", X.shape, (X.shape[0], 3), strategy=strategy)
            assert plan.explain() == tin_shift_forward(X, SHIFTS, strategy=strategy).plan.explain()

    def test_by_strings(self) -> None:
        plan = mlusim.plan("tin_shift_forward", [2, 8, 256, 196], (2, 4), input_dtype="half", device="mlu270-s4")
        assert (plan.itemsize, plan.board.name, plan.tier) == (2, "mlu270-s4", 1)

    def test_plan_checks_arguments_like_the_operator(self) -> None:
        with pytest.raises(InputError, match="C = 256 channels do not divide into G = 3 groups"):
            mlusim.plan("tin_shift_forward", (2, 8, 256, 196), (2, 3))
        # The remedy does not try every number below G.
        with pytest.raises(InputError, match=r"G = 1000000000000000000000 groups: .*; G = 256 would do"):
            mlusim.plan("tin_shift_forward", (2, 8, 256, 196), (2, 10**21))
        with pytest.raises(InputError, match=r"; G = 1 would do"):
            mlusim.plan("tin_shift_forward", (2, 8, 10**18 + 9, 196), (2, 10**17))
        with pytest.raises(PlanError, match="no element of 4 B fits"):
            mlusim.plan(
                "tin_shift_forward",
                (1, 1, 1, 1),
                (1, 1),
                device=board("mlu370-x4").replace(nram_bytes=64, nram_reserved_bytes=0),
            )


class TestErrors:
    @pytest.mark.parametrize(
        ("x", "shifts", "message"),
        [
            (X[0], SHIFTS, r"x has shape \[6, 6, 1\], rank 3: tin_shift takes \[N, T, C, HW\]; reshape it"),
            (X, SHIFTS[0], r"shifts has shape \[3\], rank 1: it must be \[N, G\]"),
            (
                X.astype(np.float64),
                SHIFTS,
                r"x is float64: tin_shift takes float16 or float32; pass x.astype\('float32'\)",
            ),
            (X, SHIFTS.astype(np.int64), r"shifts is int64: it must be int32; pass shifts.astype\('int32'\)"),
            (X, SHIFTS[[0, 0]], "x has N = 1 batch entries and shifts has 2: the first dimensions must be equal"),
            (X, SHIFTS[:, [0, 0, 1, 1]], "C = 6 channels do not divide into G = 4 groups: .*; G = 3 would do"),
            (X[:0], SHIFTS[:0], r"x has shape \[0, 6, 6, 1\] and shifts \[0, 3\]: N, C, G and HW must be at least 1"),
            (X[:, :, :0], SHIFTS, r"x has shape \[1, 6, 0, 1\] .* only T may be 0"),
            (X[..., :0], SHIFTS, r"x has shape \[1, 6, 6, 0\] .* only T may be 0"),
            (X, SHIFTS[:, :0], r"shifts \[1, 0\]: N, C, G and HW must be at least 1"),
            (X[:, :0, :, :0], SHIFTS, "N, C, G and HW must be at least 1"),
        ],
        ids=[
            "rank",
            "shifts rank",
            "dtype",
            "shifts dtype",
            "batch",
            "groups",
            "N",
            "C",
            "HW",
            "G",
            "T and HW",
        ],
    )
    def test_inputs(self, x: np.ndarray[Any, Any], shifts: np.ndarray[Any, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            tin_shift_forward(x, shifts)

    def test_backward_names_its_own_tensor(self) -> None:
        with pytest.raises(InputError, match=r"^grad has shape \[6, 6, 1\]"):
            tin_shift_backward(X[0], SHIFTS)

    def test_choices(self) -> None:
        with pytest.raises(
            InputError, match=r"strategy='pingpon': did you mean pingpong\? choose one of auto, documented, "
        ):
            tin_shift_forward(X, SHIFTS, strategy="pingpon")
        with pytest.raises(InputError, match=r"rule='none': choose one of mluop, adjoint"):
            tin_shift_backward(X, SHIFTS, "none")
        with pytest.raises(BoardError, match="mlu370-x4"):
            tin_shift_forward(X, SHIFTS, device="mlu370-x44")

    def test_a_tensor_larger_than_the_gdram(self) -> None:
        x = np.broadcast_to(np.float32(1), (1024, 64, 1024, 1024))
        with pytest.raises(
            AllocationError, match=r"^tin_shift_forward: x takes .* can never fit in the GDRAM of mlu370-x4"
        ):
            tin_shift_forward(x, np.ones((1024, 1), np.int32), data=False)
