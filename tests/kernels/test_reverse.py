"""The reverse kernels: their operations, bytes and time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim import ops
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.kernels.boxes import copies, copy_box
from mlusim.results.result import Result
from mlusim.units import PS_PER_S
from operator_runs import small

RNG = np.random.default_rng(7)


def count(result: Result, name: str) -> int:
    return int((result.log.columns()["op"] == result.log.op(name)).sum())


class TestCopies:
    @given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.sampled_from(["mlu270-s4", "mlu370-x4"]), st.data())
    @settings(deadline=None, max_examples=80)
    def test_pieces_move_the_whole_within_what_one_memcpy_has(self, shape, name, data):
        steps = tuple(slice(None, None, data.draw(st.sampled_from([1, -1]))) for _ in shape[:-1])

        async def kernel(core, x, out):
            tile = core.nram.alloc(out.shape, out.dtype)
            await copy_box(core, tile, x[steps])
            await core.memcpy(out, tile)

        x = np.arange(math.prod(shape), dtype=np.int16).reshape(shape)
        result = mlusim.run(kernel, x, mlusim.Output(shape, "int16"), device=name, dim=1, kind="BLOCK")
        assert np.array_equal(result.output, x[steps])

    def test_more_segments_than_a_loop_has(self):
        device = Device("mlu370-x4", data=False)
        x = device.alloc((2, 150_000, 1), np.int8)
        pieces = [*copies(x, x[:, ::-1], device.board)]
        assert [dst.shape for dst, _ in pieces] == [(2, 65536, 1), (2, 65536, 1), (2, 18928, 1)]
        assert [dst.offset for dst, _ in pieces] == [0, 65536, 131072]


class TestWhatIsIssued:
    def test_every_byte_goes_to_nram_and_back_once(self):
        x = RNG.integers(0, 255, (7, 11, 13)).astype(np.int16)
        for strategy in ("auto", "strided", "mirror", "mixed"):
            result = ops.reverse(x, [0, 2], strategy=strategy)
            assert dict(result.bytes_requested) == {"GDRAM2NRAM": x.nbytes, "NRAM2GDRAM": x.nbytes}

    @pytest.mark.parametrize(
        ("shape", "axes", "mirrors"),
        [((64, 32), (1,), 1), ((64, 32), (0,), 2), ((64, 32), (0, 1), 1), ((8, 8, 32), (0, 2), 3), ((64, 32), (), 0)],
    )
    def test_mirrors(self, shape, axes, mirrors):
        # A slow issue makes few instructions the fastest, whatever the calibration says.
        on = small("mlu370-x4", 1 << 16).replace(clusters=1, cores_per_cluster=1, max_union=1, issue_cycles=40)
        result = ops.reverse(np.zeros(shape, np.float32), axes, strategy="mirror", device=on)
        assert result.plan.tier == 1
        assert count(result, "mirror") == mirrors * len(result.plan.tiles)
        assert count(result, "memcpy") == 2 * len(result.plan.tiles)

    def test_strided_loads_of_three_axes_are_loops_on_boards_without_3d_copies(self):
        x = np.zeros((2, 4, 3, 32), np.float32)
        loads = {}
        for name in ("mlu270-s4", "mlu370-x4"):
            on = board(name).replace(clusters=1, cores_per_cluster=1, max_union=1)
            result = ops.reverse(x, [0, 2], strategy="strided", device=on)
            loads[name] = count(result, "memcpy") - len(result.plan.tiles)
        assert loads["mlu270-s4"] >= loads["mlu370-x4"] > 0

    def test_more_than_65536_elements_backward(self):
        x = RNG.integers(0, 255, 300_000).astype(np.uint8)
        on = board("mlu370-x4").replace(clusters=1, cores_per_cluster=1, max_union=1)
        result = ops.reverse(x, 0, strategy="strided", device=on)
        assert np.array_equal(result.output, x[::-1])
        assert count(result, "memcpy") - len(result.plan.tiles) >= 5

    @pytest.mark.parametrize("shape", [(1,), (3, 5), (37,), (5, 77), (1000,), (9, 1001)])
    @pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.complex128])
    def test_tiles_that_are_not_whole_vectors_on_2xx(self, shape, dtype):
        x = RNG.integers(0, 255, shape).astype(dtype)
        result = ops.reverse(x, [*range(x.ndim)], strategy="mirror", device=small("mlu270-s4", 2048))
        assert np.array_equal(result.output, np.flip(x))


class TestTime:
    def test_one_tile_by_hand(self):
        on = board("mlu370-x4").replace(
            clusters=1,
            cores_per_cluster=1,
            max_union=1,
            core_start_skew_ps=0,
            cluster_start_ps=0,
            dram_share_spread=0.0,
        )
        nbytes = 64 * 1024
        result = ops.reverse(np.zeros(nbytes // 4, np.float32), 0, strategy="mirror", device=on, data=False)
        assert len(result.plan.tiles) == 1
        read_ps = nbytes * PS_PER_S / on.core_read_bandwidth_bytes_per_s
        write_ps = nbytes * PS_PER_S / on.core_write_bandwidth_bytes_per_s
        mirror_ps = on.cycles_ps(on.vector_startup_cycles + nbytes // on.vector_bytes_per_cycle)
        expected = on.kernel_start_ps + on.dma_read_latency_ps + read_ps + mirror_ps
        expected += on.dma_write_latency_ps + write_ps + on.kernel_end_ps
        issued = 6 * on.cycles_ps(on.issue_cycles)
        assert expected <= result.time_ps <= expected + issued + 1000

    @pytest.mark.parametrize("name", ["mlu270-s4", "mlu370-x4", "mlu590-h8"])
    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_large_tensors_are_bound_by_the_dram(self, name, axis):
        x = np.broadcast_to(np.float32(0), (16, 1024, 1024))
        result = ops.flip(x, axis, device=name, data=False)
        roofline_ps = 2 * x.nbytes * PS_PER_S / result.board.dram_bandwidth_bytes_per_s
        assert roofline_ps / result.time_ps == pytest.approx(result.io_efficiency, rel=1e-6)
        assert 0.7 < result.io_efficiency < result.board.dram_read_efficiency

    @pytest.mark.parametrize("name", ["mlu270-s4", "mlu370-x4", "mlu590-h8"])
    @pytest.mark.parametrize("strategy", ["strided", "mirror", "mixed"])
    @pytest.mark.parametrize(
        ("shape", "axis"), [((64, 2048), 1), ((3000, 100), 0), ((4, 50, 60, 70), (1, 3)), ((1000,), 0)]
    )
    def test_predictions_are_near(self, name, strategy, shape, axis):
        result = ops.flip(np.zeros(shape, np.int16), axis, device=name, strategy=strategy, data=False)
        assert result.plan.predicted_ps == pytest.approx(result.time_ps, rel=0.15)

    def test_strided_pays_a_segment_per_element_on_the_last_axis(self):
        shape = (32, 4096)
        strided, mirror = (
            ops.flip(np.zeros(shape, np.float32), 1, strategy=strategy, data=False)
            for strategy in ("strided", "mirror")
        )
        segments_ps = math.prod(shape) * strided.board.dma_element_ps / strided.board.cores
        assert segments_ps < strided.time_ps < 1.2 * segments_ps
        assert mirror.time_ps < strided.time_ps / 10


class TestReverseSequence:
    @pytest.mark.parametrize("strategy", ["strided", "staged"])
    @pytest.mark.parametrize("axes", [(1, 0), (0, 1)])
    def test_every_byte_goes_to_nram_and_back_once(self, axes, strategy):
        x = RNG.integers(0, 255, (6, 6, 13)).astype(np.int16)
        lengths = np.array([0, 1, 2, 5, 6, 9], np.int32)
        moved = dict(ops.reverse_sequence(x, lengths, *axes, strategy=strategy).bytes_requested)
        assert moved["GDRAM2NRAM"] == moved["NRAM2GDRAM"] == x.nbytes
        assert 4 * 6 <= moved["scalar GDRAM load"] <= 4 * 6 * 6
        assert ("NRAM2NRAM" in moved) is (strategy == "staged")

    def test_lengths_are_read_by_the_kernel(self):
        x = np.zeros((64, 8), np.float32)
        lengths = np.arange(64, dtype=np.int64)
        result = ops.reverse_sequence(x, lengths, strategy="staged", data=False)
        assert result.output is None
        assert result.bytes_requested["scalar GDRAM load"] == 8 * 64

    def test_each_task_loads_a_length_once(self):
        on = small("mlu370-x4", 2048).replace(clusters=1, cores_per_cluster=1, max_union=1)
        x = np.zeros((3, 500), np.float32)
        result = ops.reverse_sequence(x, np.array([1, 500, 7]), strategy="staged", device=on, data=False)
        assert len(result.plan.tiles) > 3
        assert result.bytes_requested["scalar GDRAM load"] == 8 * 3

    @pytest.mark.parametrize("strategy", ["strided", "staged"])
    @pytest.mark.grid(2)
    def test_a_task_loads_the_lengths_of_its_entries_alone(self, strategy):
        """The tiles of 40 cores end in the middle of a batch, whose lengths then have two runs for a tile."""
        x, lengths = np.zeros((8, 16, 512), np.float16), np.arange(512) % 9
        result = ops.reverse_sequence(x, lengths, 0, 2, device="mlu585", strategy=strategy, data=False)
        coordinates = [set() for _ in range(result.plan.tasks)]
        for tile in result.plan.tiles:
            coordinates[tile.task] |= {entry % 512 for entry in range(tile.start[2], tile.stop[2])}
        assert result.bytes_requested["scalar GDRAM load"] == 8 * sum(map(len, coordinates))

    @pytest.mark.parametrize(
        ("shape", "axes", "tier"), [((64, 4, 4), (1, 0), 1), ((2, 500, 8), (1, 0), 2), ((2, 3, 2000), (1, 0), 3)]
    )
    def test_tiers(self, shape, axes, tier):
        sequence, batch = axes
        on = small("mlu370-x4", 1024)
        plan = mlusim.plan("reverse_sequence", shape, shape[batch], seq_axis=sequence, batch_axis=batch, device=on)
        plan.check()
        assert plan.tier == tier
        assert plan.reason in plan.explain()
        assert "; predicted: " in plan.reason

    @pytest.mark.parametrize("name", ["mlu370-x4", "mlu590-h8"])
    @pytest.mark.parametrize(("shape", "axes"), [((64, 100_000), (1, 0)), ((512, 64, 768), (0, 1))])
    def test_large_tensors_are_bound_by_the_dram(self, name, shape, axes):
        lengths = np.full(64, shape[axes[0]], np.int32)
        x = np.broadcast_to(np.float32(0), shape)
        result = ops.reverse_sequence(x, lengths, *axes, device=name, data=False)
        assert 0.7 < result.io_efficiency < 0.93
        assert result.plan.predicted_ps == pytest.approx(result.time_ps, rel=0.15)
