"""run_stages: which stages stand between two syncs, for any number of tiles."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from mlusim.kernels.pipeline import run_stages
from mlusim.kernels.plan import Tiles


class Recorder:
    """A core that only knows syncs; stages write down what they do between two of them."""

    def __init__(self) -> None:
        self.periods: list[list[tuple[str, int]]] = [[]]

    async def sync(self) -> None:
        self.periods.append([])

    def stage(self, name: str) -> Any:
        async def run(position: int, tile: Any) -> None:
            assert tile.start == (position,)
            self.periods[-1].append((name, position))

        return run


def run(count: int, *, overlapped: bool, computes: bool = True) -> list[list[tuple[str, int]]]:
    starts = np.arange(count)[:, None]
    tiles = [*Tiles(np.zeros(count), starts, starts + 1, 0)]
    core: Any = Recorder()
    compute = core.stage("compute") if computes else None
    asyncio.run(run_stages(core, tiles, core.stage("load"), compute, core.stage("store"), overlapped=overlapped))
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


def test_one_after_the_other():
    assert run(2, overlapped=False) == [[(name, i)] for i in range(2) for name in ("load", "compute", "store")]
    assert run(2, overlapped=False, computes=False) == [[(name, i)] for i in range(2) for name in ("load", "store")]


@pytest.mark.parametrize("overlapped", [True, False])
@pytest.mark.parametrize("computes", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_every_tile_passes_every_stage_once_and_a_sync_lies_between(count, computes, overlapped):
    periods = run(count, overlapped=overlapped, computes=computes)
    when = {event: number for number, period in enumerate(periods) for event in period}
    names = ["load", "compute", "store"] if computes else ["load", "store"]
    assert sum(map(len, periods)) == len(when) == count * len(names)
    for position in range(count):
        times = [when[name, position] for name in names]
        assert times == sorted(set(times))


def test_buffers_that_take_turns_are_free_again():
    # Two buffers a side: what is loaded is what tile i - 2 had, whose store was ordered by a sync before.
    periods = run(6, overlapped=True)
    when = {event: number for number, period in enumerate(periods) for event in period}
    for position in range(2, 6):
        assert when["load", position] > when["compute", position - 2]
        assert when["compute", position] > when["store", position - 2]
