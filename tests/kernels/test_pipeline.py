"""run_stages: the stages between two syncs, for any number of tiles."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from mlusim import ops
from mlusim.hardware import board
from mlusim.kernels.pipeline import run_stages
from mlusim.log import IO, NONE, SYNC, Log
from mlusim.planning import reverse, reverse_sequence
from mlusim.planning.prediction import predict_ps
from mlusim.planning.tiles import Tiles


class Recorder:
    """A core that only knows loops and syncs; stages write down what they do between two syncs."""

    def __init__(self) -> None:
        self.periods: list[list[tuple[str, int]]] = [[]]

    def loop(self, items: Any, *, along: Any) -> Any:
        assert len(along) <= len(items)
        return iter(items)

    async def sync(self) -> None:
        self.periods.append([])

    def stage(self, name: str, *, waits: bool) -> Any:
        def issue(position: int, tile: Any) -> None:
            assert tile.start == (position,)
            self.periods[-1].append((name, position))

        async def wait_and_issue(position: int, tile: Any) -> None:
            await asyncio.sleep(0)
            issue(position, tile)

        return wait_and_issue if waits else issue


def run(count: int, *, overlapped: bool, computes: bool = True, waits: bool = False) -> list[list[tuple[str, int]]]:
    starts = np.arange(count)[:, None]
    tiles = [*Tiles(np.zeros(count), starts, starts + 1, 0)]
    core: Any = Recorder()
    compute = core.stage("compute", waits=waits) if computes else None
    load, store = core.stage("load", waits=waits), core.stage("store", waits=False)
    asyncio.run(run_stages(core, tiles, load, compute, store, overlapped=overlapped))
    assert not core.periods.pop(), "something is issued after the last sync"
    return core.periods


def test_three_stages_overlap():
    assert run(4, overlapped=True) == [
        [("load", 0)],
        [("load", 1), ("compute", 0)],
        [("store", 0), ("load", 2), ("compute", 1)],
        [("store", 1), ("load", 3), ("compute", 2)],
        [("store", 2), ("compute", 3)],
        [("store", 3)],
    ]


def test_two_stages_overlap():
    assert run(3, overlapped=True, computes=False) == [
        [("load", 0)],
        [("store", 0), ("load", 1)],
        [("store", 1), ("load", 2)],
        [("store", 2)],
    ]


def test_without_overlap_stages_run_one_after_the_other():
    assert run(2, overlapped=False) == [[(name, i)] for i in range(2) for name in ("load", "compute", "store")]
    # Without anything to compute the IO pipe alone keeps the order.
    assert run(2, overlapped=False, computes=False) == [[("load", 0), ("store", 0), ("load", 1), ("store", 1)]]


@pytest.mark.parametrize(("overlapped", "computes"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_awaitable_stages_are_awaited(count, computes, overlapped):
    plain = run(count, overlapped=overlapped, computes=computes)
    assert run(count, overlapped=overlapped, computes=computes, waits=True) == plain


@pytest.mark.parametrize(("overlapped", "computes"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_every_tile_passes_every_stage_once_and_a_sync_lies_between(count, computes, overlapped):
    periods = run(count, overlapped=overlapped, computes=computes)
    when = {event: number for number, period in enumerate(periods) for event in period}
    names = ["load", "compute", "store"] if computes else ["load", "store"]
    assert sum(map(len, periods)) == len(when) == count * len(names)
    for position in range(count):
        times = [when[name, position] for name in names]
        assert times == sorted(set(times))


def test_alternating_buffers_are_free_when_reused():
    # Two buffers a side: what is loaded is what tile i - 2 had, whose store was ordered by a sync before.
    periods = run(6, overlapped=True)
    when = {event: number for number, period in enumerate(periods) for event in period}
    for position in range(2, 6):
        assert when["load", position] > when["compute", position - 2]
        assert when["compute", position] > when["store", position - 2]


def shared_buffers(log: Log) -> list[tuple[int, int]]:
    """Records of a task between the same two syncs, one a copy to or from GDRAM, of which one writes what one reads."""
    found = []
    held: dict[int, list[tuple[int, int, int, int]]] = {}
    columns = log.columns()
    rows = zip(*(columns[name].tolist() for name in ("task", "pipe", "dst_alloc", "a_alloc")), strict=True)
    for record, (task, pipe, written, read) in enumerate(rows):
        if pipe == SYNC:
            held[task] = []
            continue
        for other, other_pipe, other_written, other_read in held.setdefault(task, []):
            shared = {written, read} & {other_written, other_read} - {NONE}
            both_loads = pipe == other_pipe == IO and written == other_written
            if IO in {pipe, other_pipe} and shared and read != other_read and not both_loads:
                found.append((other, record))
        held[task].append((record, pipe, written, read))
    return found


X = np.random.default_rng(1).standard_normal((6, 50, 40)).astype(np.float32)
CALLS = {
    "cast": lambda on: ops.cast(X, "float16", device=on, strategy="pingpong"),
    "copy": lambda on: ops.cast(X, "float32", device=on, strategy="pingpong"),
    "no mirror": lambda on: ops.flip(X, 1, device=on, strategy="strided"),
    "one mirror": lambda on: ops.flip(X, 2, device=on, strategy="mirror"),
    "two mirrors": lambda on: ops.flip(X, 1, device=on, strategy="mirror"),
    "three mirrors": lambda on: ops.flip(X, [0, 2], device=on, strategy="mirror"),
    "sequence, strided": lambda on: ops.reverse_sequence(X, np.full(6, 33), device=on, strategy="strided"),
    "sequence, staged": lambda on: ops.reverse_sequence(X, np.full(6, 33), device=on, strategy="staged"),
}


@pytest.mark.parametrize("name", ["mlu270-s4", "mlu370-x4"])
@pytest.mark.parametrize("call", CALLS)
def test_no_buffer_is_copied_and_used_between_the_same_syncs(call, name, monkeypatch):
    # The planners of flip and reverse_sequence choose whether to overlap; here they do, whatever would be faster.
    def predict_overlapped(*arguments: Any, overlapped: bool, **options: Any) -> int:
        return predict_ps(*arguments, overlapped=True, **options) if overlapped else 1 << 62

    for planner in (reverse, reverse_sequence):
        monkeypatch.setattr(planner, "predict_ps", predict_overlapped)
    # One core of little NRAM, so that it has several tiles, and copies for which more tiles cost nothing.
    on = board(name).replace(nram_bytes=1 << 14, nram_reserved_bytes=0, clusters=1, cores_per_cluster=1, max_union=1)
    result = CALLS[call](on.replace(dma_read_latency_ps=0, dma_write_latency_ps=0, dma_segment_ps=0))
    assert len(result.plan.tiles) > 2
    assert result.plan.parameters.overlapped
    assert not shared_buffers(result.log)
