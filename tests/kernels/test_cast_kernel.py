"""The cast kernel: padding, double buffering, passes, and its time calculated by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim import dtypes, ops
from mlusim.errors import PlanError
from mlusim.hardware import Board, board
from mlusim.log import Log
from mlusim.planning.elementwise import STRATEGIES, plan_elementwise
from mlusim.units import PS_PER_S
from operator_runs import small

NAMES = ("mlu270-s4", "mlu370-x4", "mlu590-h8")
SIZES = st.sampled_from([1, 2, 4, 8, 16])


def one_core(name: str) -> Board:
    return board(name).replace(
        clusters=1, cores_per_cluster=1, max_union=1, core_start_skew_ps=0, cluster_start_ps=0, dram_share_spread=0.0
    )


def records(log: Log, name: str) -> dict[str, np.ndarray]:
    columns = log.columns()
    chosen = columns["op"] == log.op(name)
    return {key: column[chosen] for key, column in columns.items()}


class TestPlan:
    @given(
        st.integers(0, 100_000),
        SIZES,
        SIZES,
        st.integers(0, 2),
        st.sampled_from(NAMES),
        st.sampled_from([1 << 13, 1 << 15, 1 << 19]),
        st.sampled_from([*STRATEGIES]),
    )
    @settings(deadline=None, max_examples=120)
    def test_every_plan_covers_its_output_and_fits(self, count, read, written, passes, name, nram_bytes, strategy):
        written = written if passes else read
        plan = plan_elementwise(small(name, nram_bytes), count, read, written, passes, strategy, "cast")
        plan.check()
        assert plan.output_shape == (count,)
        if not count:
            assert (plan.tier, len(plan.tiles)) == (0, 0)
            return
        sizes = plan.tiles.elements()
        block = plan.parameters.block
        assert (plan.tiles.start % block == 0).all()
        assert block * min(read, written) >= 128
        assert sizes.max() <= plan.parameters.elements
        assert sizes.max() - sizes[:-1].min(initial=sizes.max()) <= block
        per_task = np.bincount(plan.tiles.task, minlength=plan.tasks)
        assert per_task.max() - per_task.min() <= 1
        assert plan.tier == (1 if per_task.max() == 1 else 2)
        assert strategy in {plan.strategy, "auto"}

    def test_tiers(self):
        on = small("mlu370-x4", 4096)
        fits, cut = (
            mlusim.plan("cast", (count,), dtype="float16", input_dtype="float32", device=on, strategy="pingpong")
            for count in (64, 1 << 18)
        )
        assert (fits.tier, cut.tier) == (1, 2)
        assert "the 64 elements of a core fit in 1 tile; predicted: pingpong" in fits.reason
        assert "are cut into" in cut.reason
        assert cut.arithmetic[0] == "4 096 B of NRAM // (2 x 6 B) = 320 elements"

    def test_large_tiles_fill_the_nram(self):
        plan = mlusim.plan("cast", (64 << 20,), dtype="float16", input_dtype="float32")
        assert plan.tasks == plan.board.cores
        assert plan.nram_bytes > 0.95 * plan.board.nram_usable_bytes
        assert plan.parameters.elements * 4 > 100_000

    def test_no_room(self):
        with pytest.raises(
            PlanError,
            match=r"^mlu370-x4 has 512 B of usable NRAM, and cast, strategy serial, needs one buffer per side",
        ):
            mlusim.plan("cast", (64,), dtype="int8", input_dtype="float32", device=small("mlu370-x4", 512))

    def test_room_for_one_buffer_per_side(self):
        on = small("mlu370-x4", 1024)
        for strategy in ("auto", "serial"):
            assert (
                mlusim.plan("cast", (64,), dtype="int8", input_dtype="float32", device=on, strategy=strategy).strategy
                == "serial"
            )
        with pytest.raises(PlanError, match=r"two buffers per side .*, 1 280 B; choose strategy 'serial', or give"):
            mlusim.plan("cast", (64,), dtype="int8", input_dtype="float32", device=on, strategy="pingpong")


class TestPadding:
    @pytest.mark.parametrize(("source", "target"), [("float32", "float16"), ("uint8", "float64"), ("int64", "bool")])
    @pytest.mark.parametrize("count", [1, 127, 128, 1000, 1024])
    def test_whole_vectors_on_2xx(self, source, target, count):
        x = np.arange(count).astype(source)
        result = ops.cast(x, target, device="mlu270-s4")
        assert np.array_equal(result.output, x.astype(target))
        block = result.plan.parameters.block
        converted = records(result.log, "convert")
        for side in ("dst_box", "a_box"):
            boxes = [result.log.boxes[box] for box in converted[side]]
            assert all(np.prod(box.shape) * box.itemsize % 128 == 0 for box in boxes)
        # The lanes behind the end are cleared, once, and only where there are any.
        cleared = records(result.log, "write_zero")
        assert len(cleared["op"]) == (1 if count % block else 0)
        assert result.bytes_requested["NRAM2GDRAM"] == count * np.dtype(target).itemsize

    def test_exact_counts_on_3xx(self):
        result = ops.cast(np.zeros(1001, np.float32), "float16")
        assert not len(records(result.log, "write_zero")["op"])
        boxes = {result.log.boxes[box].shape[0] for box in records(result.log, "convert")["a_box"]}
        assert sum(boxes) >= 1
        assert records(result.log, "convert")["detail"].sum() == 1001


class TestDoubleBuffering:
    def test_loads_pass_while_a_tile_is_converted(self):
        x = np.broadcast_to(np.float32(0), (1 << 20,))
        log = ops.cast(x, "float16", device=one_core("mlu370-x4"), strategy="pingpong", data=False).log
        converted, copied = records(log, "convert"), records(log, "memcpy")
        loads = copied["direction"] == copied["direction"][0]
        # Convert i begins after load i is complete, and before load i + 1 is.
        for turn in range(1, len(converted["op"]) - 1):
            assert converted["start_ps"][turn] >= copied["end_ps"][loads][turn]
            assert converted["start_ps"][turn] < copied["end_ps"][loads][turn + 1]

    @pytest.mark.parametrize("name", NAMES)
    def test_ping_pong_hides_the_conversion(self, name):
        x = np.broadcast_to(np.float32(0), (1 << 21,))
        # One core, and so many start-ups that the conversion takes as long as a good part of the copies.
        on = one_core(name).replace(vector_startup_cycles=2000)
        times = {
            strategy: ops.cast(x, "float16", device=on, strategy=strategy, data=False).time_ps
            for strategy in ("pingpong", "serial")
        }
        assert times["pingpong"] < times["serial"]

    @pytest.mark.parametrize("strategy", ["pingpong", "serial"])
    @pytest.mark.parametrize("name", NAMES)
    def test_forgotten_syncs_would_show(self, name, strategy):
        x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
        on = small(name, 1 << 13)
        result = ops.cast(x, "float16", device=on, strategy=strategy, dma="late")
        assert len(result.plan.tiles) > result.plan.tasks
        assert np.array_equal(result.output, x.astype(np.float16))


class TestTime:
    @pytest.mark.parametrize(("source", "target", "passes"), [("float32", "float16", 1), ("int64", "float16", 2)])
    def test_one_tile_by_hand(self, source, target, passes):
        on = one_core("mlu370-x4")
        count = 16_384
        x = np.broadcast_to(np.zeros((), source), (count,))
        result = ops.cast(x, target, device=on, strategy="serial", data=False)
        assert len(result.plan.tiles) == 1
        read, written = (count * np.dtype(dtype).itemsize for dtype in (source, target))
        read_ps = read * PS_PER_S / on.core_read_bandwidth_bytes_per_s
        write_ps = written * PS_PER_S / on.core_write_bandwidth_bytes_per_s
        convert_ps = on.cycles_ps(passes * (on.vector_startup_cycles + max(read, written) // on.vector_bytes_per_cycle))
        expected = on.kernel_start_ps + on.dma_read_latency_ps + read_ps + convert_ps
        expected += on.dma_write_latency_ps + write_ps + on.kernel_end_ps
        assert expected <= result.time_ps <= expected + 6 * on.cycles_ps(on.issue_cycles) + 1000
        assert records(result.log, "convert")["count"].tolist() == [passes]

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize(("source", "target"), [("float32", "float16"), ("uint8", "float32"), ("int16", "int16")])
    def test_large_casts_are_bound_by_the_dram(self, name, source, target):
        x = np.broadcast_to(np.zeros((), source), (16 << 20,))
        result = ops.cast(x, target, device=name, data=False)
        moved = x.size * (np.dtype(source).itemsize + np.dtype(target).itemsize)
        roofline_ps = moved * PS_PER_S / result.board.dram_bandwidth_bytes_per_s
        assert roofline_ps / result.time_ps == pytest.approx(result.io_efficiency, rel=1e-6)
        assert 0.75 < result.io_efficiency < result.board.dram_read_efficiency

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("count", [1, 1000, 100_000, 3_000_000])
    @pytest.mark.parametrize("strategy", ["pingpong", "serial"])
    def test_predictions_are_near(self, name, count, strategy):
        x = np.broadcast_to(np.float32(0), (count,))
        result = ops.cast(x, "float16", device=name, strategy=strategy, data=False)
        assert result.plan.predicted_ps == pytest.approx(result.time_ps, rel=0.15)

    def test_operations_that_the_cast_needs(self):
        x = np.zeros(1000, np.int64)
        assert ops.cast(x, "float16").theory_ops == 2000
        assert ops.cast(x, "float32").theory_ops == 1000
        assert ops.cast(x, "int64").theory_ops == 0


def test_the_same_type_is_a_copy_without_the_vector_unit():
    for dtype in dtypes.ALL:
        result = ops.cast(np.zeros(100, dtype), dtype)
        assert not len(records(result.log, "convert")["op"])
        assert dict(result.bytes_requested) == {"GDRAM2NRAM": 100 * dtype.itemsize, "NRAM2GDRAM": 100 * dtype.itemsize}
