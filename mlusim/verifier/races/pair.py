"""Two accesses to the same bytes that nothing orders."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import shared
from mlusim.verifier.findings import Site, site_of
from mlusim.verifier.order.lanes import LANES
from mlusim.verifier.run import Run


class Pair:
    """Two accesses of a run, the first one first; what is said of both is in this order.

    Attributes:
        run: the run.
        rows: the accesses.
        positions, tasks: the positions of their operations in the order of the run, and their tasks.
        segments: the number of barriers that their tasks have passed before.
        sources: file, line and function of both.
        writes: whether each of them writes.
        allocations: they differ if the second access reuses the memory of the first one.
    """

    def __init__(self, run: Run, rows: tuple[int, int]) -> None:
        first, second = self.rows = rows
        self.run = run
        self.positions = run.position(first), run.position(second)
        self.tasks = run.task(first), run.task(second)
        self.segments = int(run.order.segment[self.positions[0]]), int(run.order.segment[self.positions[1]])
        self.sources = run.source(first), run.source(second)
        self.writes = bool(run.accesses.write[first]), bool(run.accesses.write[second])
        self.allocations = int(run.accesses.alloc[first]), int(run.accesses.alloc[second])

    @property
    def swapped(self) -> Pair:
        """The accesses in the other order."""
        return Pair(self.run, self.rows[::-1])

    @property
    def lines(self) -> frozenset[int]:
        """The numbers of their lines in the log."""
        return frozenset(self.run.order.line[[*self.positions]].tolist())

    @property
    def buffer(self) -> str:
        """The name of the first one's allocation."""
        return self.run.log.allocations[self.allocations[0]].name

    @cached_property
    def sites(self) -> tuple[Site, Site]:
        """Their operations as sites of a finding."""
        accesses = self.run.accesses.where([*self.rows])
        first, second = (
            site_of(self.run.log, record, "writes" if write else "reads", LANES[lane])
            for record, lane, write in zip(
                accesses.record.tolist(), self.run.order.lanes_of(accesses).tolist(), self.writes, strict=True
            )
        )
        return first, second

    def region(self) -> tuple[str, int]:
        """Return the shared bytes in coordinates of each buffer, and their number."""
        one, other = (self.run.log.allocations[number] for number in self.allocations)
        first, second = (self.run.accesses.of(row) for row in self.rows)
        address = self.run.space.address[[*self.allocations]].tolist()
        delta = address[0] - address[1]
        starts, stops = shared(*first, second[0], second[1] - delta)
        text = f"{describe(one, starts, stops)} in {one.memory.upper()}"
        if one is not other:
            text += f"; the same bytes are {describe(other, starts + delta, stops + delta)}"
        return text, int((stops - starts).sum())

    def shares_an_end(self) -> bool:
        """Return whether the accesses overlap partially, like halves of a buffer that is too small."""
        address = self.run.space.address[[*self.allocations]].astype(np.int64)
        low, high = (edge[[*self.rows]] + address for edge in (self.run.accesses.low, self.run.accesses.high))
        return bool((low[0] - low[1]) * (high[0] - high[1]) > 0)
