"""The kernels of tin_shift: correct in every tier, strategy and case, and consistent with the plan."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mlusim.hardware import Board, board
from mlusim.host.device import Device
from mlusim.kernels.tin_shift import kernel_of, rows_to_load
from mlusim.log import Log
from mlusim.memory.kinds import DIRECTION_CODES, Direction
from mlusim.planning.plan import Plan
from mlusim.planning.tin_shift import STRATEGIES, plan_tin_shift

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
BITS = {2: np.uint16, 4: np.uint32}


def small(nram_bytes: int, name: str = "mlu370-x4") -> Board:
    return board(name).replace(nram_bytes=nram_bytes, nram_reserved_bytes=0)


def one_core(on: Board) -> Board:
    return on.replace(clusters=1, cores_per_cluster=1, max_union=1)


def random_bits(shape: tuple[int, ...], itemsize: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Every kind of float: NaNs of any payload, signalling ones too, infinities, -0.0, subnormals."""
    bits = np.random.default_rng(seed).integers(0, 1 << 8 * itemsize, shape, BITS[itemsize])
    return bits.view({2: np.float16, 4: np.float32}[itemsize])


def reference(x: np.ndarray[Any, Any], shifts: np.ndarray[Any, Any], sign: int = 1) -> np.ndarray[Any, Any]:
    """Element by element from the definition, on bits."""
    bits = x.view(BITS[x.itemsize])
    out = np.zeros_like(bits)
    batch, time, channels, _ = x.shape
    for n in range(batch):
        for c in range(channels):
            k = sign * int(shifts[n, c // (channels // shifts.shape[1])])
            for t in range(time):
                if 0 <= t - k < time:
                    out[n, t, c] = bits[n, t - k, c]
    return out


def run(
    plan: Plan, x: np.ndarray[Any, Any], shifts: np.ndarray[Any, Any], sign: int = 1, dma: str = "complete"
) -> tuple[np.ndarray[Any, Any], Log]:
    device = Device(plan.board, dma=dma)
    out = device.alloc(x.shape, x.dtype, "out")
    arguments = (device.upload(x), device.upload(shifts), out, plan, sign)
    device.launch(kernel_of(plan), *arguments, dim=plan.dim, kind=plan.kind)
    device.synchronize()
    return device.download(out).view(BITS[x.itemsize]), device.log


def shift_once(on: Board, strategy: str, x: np.ndarray[Any, Any], shift: int) -> tuple[np.ndarray[Any, Any], Log]:
    shifts = np.array([[shift]], np.int32)
    return run(plan_tin_shift(on, x.shape, 1, x.dtype, strategy), x, shifts)


def time_ps(log: Log) -> int:
    return log.launches[0].end_ps - log.launches[0].start_ps


def stores(log: Log, itemsize: int) -> dict[int, list[np.ndarray[Any, Any]]]:
    """The flat output elements of each store to GDRAM, by task, in order."""
    columns = log.columns()
    found: dict[int, list[np.ndarray[Any, Any]]] = defaultdict(list)
    for record in np.flatnonzero(columns["direction"] == DIRECTION_CODES[Direction.NRAM2GDRAM]).tolist():
        box = log.boxes[int(columns["dst_box"][record])]
        flat = np.array([int(columns["dst_offset"][record]) // itemsize])
        for extent, stride in zip(box.shape, box.strides, strict=True):
            flat = (flat[:, None] + np.arange(extent) * (stride // itemsize)).reshape(-1)
        found[log.tasks[int(columns["task"][record])].task_id].append(flat)
    return found


def planned_stores(plan: Plan) -> dict[int, list[np.ndarray[Any, Any]]]:
    flat = np.arange(int(np.prod(plan.output_shape))).reshape(plan.output_shape)
    found: dict[int, list[np.ndarray[Any, Any]]] = defaultdict(list)
    for tile in plan.tiles:
        box = tuple(slice(low, high) for low, high in zip(tile.start, tile.stop, strict=True))
        found[tile.task].append(flat[box].reshape(-1))
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[Plan, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    groups = draw(st.integers(1, 3))
    batch, time = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    channels, hw = groups * draw(st.integers(1, 4)), draw(st.integers(1, 90))
    itemsize = draw(st.sampled_from([2, 4]))
    on = small(
        draw(st.sampled_from([256, 384, 512, 1100, 8192])),
        draw(st.sampled_from(["mlu370-x4", "mlu270-s4", "mlu590-h8", "mlu220-m2"])),
    )
    if draw(st.booleans()):
        # Clearing outlasts any copy: what a sync does not order comes out wrong.
        on = on.replace(vector_startup_cycles=100_000)
    near = st.integers(-time - 1, time + 1)
    shift = st.one_of(near, st.sampled_from([0, INT_MIN, INT_MIN + 1, INT_MAX]))
    shifts = draw(st.lists(shift, min_size=batch * groups, max_size=batch * groups))
    x = random_bits((batch, time, channels, hw), itemsize, draw(st.integers(0, 99)))
    plan = plan_tin_shift(on, x.shape, groups, x.dtype, draw(st.sampled_from(list(STRATEGIES))))
    return plan, x, np.array(shifts, np.int32).reshape(batch, groups)


class TestAnyShape:
    @given(cases(), st.sampled_from([1, -1]), st.sampled_from(["complete", "late"]))
    @settings(deadline=None)
    def test_equals_the_definition_and_writes_what_the_plan_says(
        self, case: tuple[Plan, np.ndarray[Any, Any], np.ndarray[Any, Any]], sign: int, dma: str
    ) -> None:
        plan, x, shifts = case
        output, log = run(plan, x, shifts, sign, dma)
        assert np.array_equal(output, reference(x, shifts, sign))
        ran, planned = stores(log, x.itemsize), planned_stores(plan)
        assert ran.keys() == planned.keys()
        for task, boxes in planned.items():
            assert len(ran[task]) == len(boxes)
            assert all(map(np.array_equal, ran[task], boxes))

    @given(cases())
    @settings(deadline=None, max_examples=25)
    def test_time_and_bytes_do_not_depend_on_the_data(
        self, case: tuple[Plan, np.ndarray[Any, Any], np.ndarray[Any, Any]]
    ) -> None:
        plan, x, shifts = case
        _, log = run(plan, x, shifts)
        _, other = run(plan, np.zeros_like(x), shifts)
        assert np.array_equal(log.table(), other.table())


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "auto"])
class TestEveryStrategy:
    # 10 rows of 64 B and 256 B for a buffer: segments of at most 4 rows. One core has them all: it uses its buffers
    # again. With a slow vector pipe, clearing outlasts any copy, so that a missing sync shows.
    @pytest.mark.parametrize("vector_startup_cycles", [64, 100_000])
    @pytest.mark.parametrize("name", ["mlu370-x4", "mlu270-s4"])
    def test_time_split_at_every_border(self, strategy: str, name: str, vector_startup_cycles: int) -> None:
        on = one_core(small(256 * STRATEGIES[strategy].buffers, name))
        on = on.replace(vector_startup_cycles=vector_startup_cycles)
        x = random_bits((1, 10, 1, 16), 4)
        tiles = plan_tin_shift(on, x.shape, 1, x.dtype, strategy).tiles
        assert max(tiles.stop[:, 1] - tiles.start[:, 1]) <= 4
        assert tiles.stop[-1, 1] == 10
        for shift in range(-12, 13):
            output, _ = shift_once(on, strategy, x, shift)
            assert np.array_equal(output, reference(x, np.array([[shift]]))), shift

    @pytest.mark.parametrize("vector_startup_cycles", [64, 100_000])
    def test_row_split_at_every_border(self, strategy: str, vector_startup_cycles: int) -> None:
        on = small(256 * STRATEGIES[strategy].buffers).replace(vector_startup_cycles=vector_startup_cycles)
        x = random_bits((1, 3, 2, 150), 4)
        assert plan_tin_shift(on, x.shape, 1, x.dtype, strategy).tier == 3
        for shift in range(-4, 5):
            output, _ = shift_once(on, strategy, x, shift)
            assert np.array_equal(output, reference(x, np.array([[shift]]))), shift

    def test_a_float16_row_larger_than_nram(self, strategy: str) -> None:
        x = random_bits((1, 2, 1, 400_000), 2)
        output, log = shift_once(board("mlu370-x4"), strategy, x, 1)
        assert np.array_equal(output[0, 1], x.view(np.uint16)[0, 0])
        assert not output[0, 0].any()
        assert set(log.ops) >= {"load", "memcpy", "write_zero"}

    @pytest.mark.parametrize("name", ["mlu370-x4", "mlu270-s4"])
    def test_more_rows_than_segnum_counts(self, strategy: str, name: str) -> None:
        x = random_bits((1, 70_000, 2, 1), 2)
        for shift in (65_536, -3):
            output, _ = shift_once(board(name), strategy, x, shift)
            kept = output[:, shift:] if shift > 0 else output[:, :shift]
            source = x[:, : 70_000 - shift] if shift > 0 else x[:, -shift:]
            assert np.array_equal(kept, source.view(np.uint16))
            assert not (output[:, :shift] if shift > 0 else output[:, shift:]).any()

    def test_each_group_and_batch_entry_has_its_own_shift(self, strategy: str) -> None:
        # The document's example, and a second entry with other shifts.
        x = np.arange(1, 73, dtype=np.float32).reshape(2, 6, 6, 1)
        shifts = np.array([[-1, 0, 2], [1, -6, INT_MIN]], np.int32)
        plan = plan_tin_shift(board("mlu370-x4"), x.shape, 3, x.dtype, strategy)
        output, _ = run(plan, x, shifts)
        values = output.view(np.float32)[..., 0]
        assert values[0].tolist() == [
            [7, 8, 3, 4, 0, 0],
            [13, 14, 9, 10, 0, 0],
            [19, 20, 15, 16, 5, 6],
            [25, 26, 21, 22, 11, 12],
            [31, 32, 27, 28, 17, 18],
            [0, 0, 33, 34, 23, 24],
        ]
        assert values[1].tolist() == [[0] * 6, *([37 + 6 * t, 38 + 6 * t, 0, 0, 0, 0] for t in range(5))]

    def test_zeros_are_positive(self, strategy: str) -> None:
        x = np.full((1, 3, 1, 2), -0.0, np.float32)
        output, _ = shift_once(board("mlu370-x4"), strategy, x, 1)
        assert output[0, :, 0].tolist() == [[0, 0], [1 << 31] * 2, [1 << 31] * 2]

    def test_requests_only_rows_that_remain(self, strategy: str) -> None:
        x = random_bits((1, 8, 4, 25), 4)
        plan = plan_tin_shift(board("mlu370-x4"), x.shape, 2, x.dtype, strategy)
        _, log = run(plan, x, np.array([[3, -8]], np.int32))
        columns = log.columns()
        requested = {
            direction: int(columns["bytes_requested"][columns["direction"] == DIRECTION_CODES[direction]].sum())
            for direction in (Direction.GDRAM2NRAM, Direction.NRAM2GDRAM)
        }
        # Two channels keep 5 of 8 rows of 100 B, two keep none; all rows are stored.
        assert requested == {Direction.GDRAM2NRAM: 2 * 5 * 100, Direction.NRAM2GDRAM: 4 * 8 * 100}


@given(st.integers(-15, 15), st.integers(1, 8), st.integers(1, 10))
@example(-4, 4, 10)  # the border on that of the segment
@example(-3, 4, 10)  # inside it
@example(8, 2, 9)  # inside the short last one
def test_rows_that_stay_in_range(source: int, rows: int, time: int) -> None:
    first, last = rows_to_load(source, rows, time)
    assert 0 <= first <= rows
    assert 0 <= last <= rows
    assert list(range(first, last)) == [row for row in range(rows) if 0 <= source + row < time]


class TestWhatEachStrategyBuys:
    def test_shipped_clears_all_of_nram_for_every_item(self) -> None:
        # One item on one core: the only difference is the fill, 655 360 B instead of 2 560 B at 128 B a cycle.
        on = board("mlu370-x4")
        x = random_bits((1, 8, 1, 80), 4)
        assert plan_tin_shift(on, x.shape, 1, x.dtype, "documented").nram_bytes == 2560
        times = {name: time_ps(shift_once(on, name, x, 2)[1]) for name in ("documented", "shipped")}
        assert times["shipped"] - times["documented"] == on.cycles_ps(655_360 // 128) - on.cycles_ps(2560 // 128)

    def test_tight_has_nothing_to_clear_without_a_shift(self) -> None:
        on = board("mlu370-x4")
        x = random_bits((1, 8, 32, 80), 4)
        cleared = {}
        for strategy in STRATEGIES:
            _, log = shift_once(on, strategy, x, 0)
            columns = log.columns()
            fills = columns["op"] == log.op("write_zero")
            cleared[strategy] = int(columns["bytes_requested"][fills].sum())
        assert cleared == {
            "auto": 0, "documented": 32 * 2560, "shipped": 32 * 655_360, "tight": 0, "batched": 0, "pingpong": 0,
        }  # fmt: skip

    def test_tight_clears_the_vacated_rows(self) -> None:
        for name, expected in (("mlu370-x4", 2 * 100), ("mlu270-s4", 256)):  # rounded out to 128 B on 2xx
            x = random_bits((1, 8, 1, 25), 4)
            _, log = shift_once(board(name), "tight", x, 2)
            columns = log.columns()
            assert columns["bytes_requested"][columns["op"] == log.op("write_zero")].tolist() == [expected]

    def test_strategies_rank_as_expected(self) -> None:
        on = board("mlu370-x4")
        x = random_bits((2, 8, 128, 196), 2)
        shifts = np.random.default_rng(1).integers(-3, 4, (2, 4)).astype(np.int32)
        times = {name: time_ps(run(plan_tin_shift(on, x.shape, 4, x.dtype, name), x, shifts)[1]) for name in STRATEGIES}
        assert times["shipped"] > times["documented"] > times["tight"] > times["pingpong"] > times["batched"]
        assert times["auto"] == times["batched"]

    def test_pingpong_hides_latency_and_fill(self) -> None:
        # Two items on one core, far from any limit that is shared. By steps: the second load starts up while the
        # first store moves its bytes, and its clearing is over before it.
        on = board("mlu370-x4").replace(clusters=1, cores_per_cluster=1, nram_bytes=2**20)
        x = random_bits((1, 8, 2, 8000), 4)
        times = {name: time_ps(shift_once(on, name, x, 2)[1]) for name in ("documented", "pingpong")}
        fill_ps = on.cycles_ps(on.vector_startup_cycles + 8 * 8000 * 4 // 128)
        assert times["documented"] - times["pingpong"] > on.dma_read_latency_ps + fill_ps

    def test_batched_makes_fewer_copies(self) -> None:
        # One core has nothing to share out: all channels of the group are one tile.
        on = one_core(board("mlu370-x4"))
        x = random_bits((1, 4, 64, 30), 4)
        copies = {}
        for strategy in ("tight", "batched"):
            _, log = shift_once(on, strategy, x, 1)
            copies[strategy] = int((log.columns()["op"] == log.op("memcpy")).sum())
        assert copies == {"tight": 2 * 64, "batched": 2}


def test_a_run_repeats_bit_for_bit() -> None:
    x = random_bits((2, 8, 64, 49), 4)
    shifts = np.array([[1, -2], [0, 7]], np.int32)
    plan = plan_tin_shift(board("mlu590-h8"), x.shape, 2, x.dtype, "pingpong")
    tables = [run(plan, x, shifts)[1].table() for _ in range(2)]
    assert np.array_equal(*tables)
