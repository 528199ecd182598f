"""The planner of elementwise work: cast, and copies of bits.

The tensor is one row of elements in C order. Its unit is what one core has to do. Tier 1: that fits in NRAM at once;
tier 2: it is cut into tiles of as many elements as fit. There is no third tier, because a row of single elements can be
cut anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.planning.cost import load_cost, store_cost, vector_ps
from mlusim.planning.plan import Plan, empty_plan
from mlusim.planning.prediction import Grid, TileCost, predict_ps
from mlusim.planning.search import Candidate, best_by_strategy, task_counts
from mlusim.planning.split import MORE_NRAM, cut_evenly, in_runs
from mlusim.planning.tiles import Tiles
from mlusim.units import PS_PER_US, ceil_div, group_digits

# Whole vectors (G 5.3: 128 B in a cycle, and on arch below 300 no other length) and whole units of the DRAM bus.
BLOCK_BYTES = 128

STRATEGIES: dict[str, str] = {
    "auto": "whichever of the others the board's cost functions say is faster",
    "pingpong": "two buffers a side: tile i + 1 is loaded and tile i - 1 stored while tile i is computed",
    "serial": "one buffer a side, twice as large: load, compute, store, one after the other",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatParameters:
    """What the kernels of elementwise operators need in addition to the tiles.

    Attributes:
        overlapped: whether successive tiles are in different stages at once.
        elements: of the largest tile.
        block: tiles begin at multiples of as many elements.
    """

    overlapped: bool
    elements: int
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    overlapped: bool
    tasks: int
    tiles: int


def plan_flat(
    board: Board, count: int, read_bytes: int, written_bytes: int, passes: int, strategy: str, operator: str
) -> Plan:
    """Split an elementwise operator.

    Args:
        board: the board's record.
        count: elements; may be 0.
        read_bytes, written_bytes: bytes of an element of the input and of the output.
        passes: passes of the vector unit over a tile; 0: bits are copied, and one buffer is both input and output.
        strategy: a name of `STRATEGIES`.
        operator: what the plan calls itself.

    The plan covers the output as one axis of `count` elements. Raises `PlanError` where the NRAM of the board does not
    hold the buffers of one block of 128 B.
    """
    unit = f"the share of one core, {read_bytes} B read and {written_bytes} B written for each element"
    if not count:
        return empty_plan(
            operator=operator, strategy=strategy, board=board, shape=(0,), itemsize=written_bytes, unit=unit
        )
    block = max(BLOCK_BYTES, board.vector_alignment_bytes) // min(read_bytes, written_bytes)
    tile_bytes = read_bytes + written_bytes if passes else read_bytes
    blocks = ceil_div(count, block)
    fitting_blocks = {
        overlapped: board.nram_usable_bytes // ((1 + overlapped) * tile_bytes * block) for overlapped in (False, True)
    }
    if not fitting_blocks[True]:
        raise PlanError(
            f"{board.name} has {_n(board.nram_usable_bytes)} B of usable NRAM, and {operator} needs two buffers a side "
            f"for a block of {_n(block)} elements, {_n(2 * tile_bytes * block)} B; {MORE_NRAM}"
        )
    costs = _Costs(board, block, blocks, read_bytes, written_bytes, passes)
    choices = [
        candidate
        for name, overlapped in (("pingpong", True), ("serial", False))
        if strategy in ("auto", name)
        for candidate in costs.candidates(name, fitting_blocks[overlapped], overlapped=overlapped)
    ]
    fastest = best_by_strategy(choices)
    candidate = next(iter(fastest.values()))
    chosen = candidate.split
    starts, stops = (bounds * block for bounds in cut_evenly(blocks, chosen.tiles))
    stops[-1] = count
    largest = ceil_div(blocks, chosen.tiles) * block
    nram_bytes = (1 + chosen.overlapped) * tile_bytes * largest
    each = ceil_div(chosen.tiles, chosen.tasks)
    usable = _n(board.nram_usable_bytes)
    share = ceil_div(count, chosen.tasks)
    fitting = fitting_blocks[chosen.overlapped] * block
    return Plan(
        operator=operator,
        strategy=candidate.strategy,
        board=board,
        tier=1 if each == 1 else 2,
        reason=(
            f"the {_n(share)} elements of a core {'fit' if each == 1 else 'are cut'} in {each} tile{'s'[: each > 1]}; "
            f"{', '.join(f'{name} {one.predicted_ps / PS_PER_US:.2f} us' for name, one in fastest.items())} predicted"
        ),
        arithmetic=(
            f"{usable} B of NRAM // ({1 + chosen.overlapped} x {tile_bytes} B) = {_n(fitting)} elements",
            f"{_n(count)} elements = {_n(blocks)} blocks = {_n(chosen.tiles)} tiles of up to {_n(largest)} elements",
        ),
        unit=unit,
        unit_bytes=share * (read_bytes + written_bytes),
        kind="BLOCK",
        dim=(chosen.tasks, 1, 1),
        output_shape=(count,),
        itemsize=written_bytes,
        tiles=Tiles(in_runs(chosen.tiles, chosen.tasks), starts[:, None], stops[:, None], nram_bytes),
        nram_bytes=nram_bytes,
        parameters=FlatParameters(overlapped=chosen.overlapped, elements=largest, block=block),
        predicted_ps=candidate.predicted_ps,
    )


@dataclass(frozen=True, slots=True)
class _Costs:
    """Predicts splits of one operator on one board."""

    board: Board
    block: int
    blocks: int
    read_bytes: int
    written_bytes: int
    passes: int

    def candidates(self, name: str, fitting_blocks: int, *, overlapped: bool) -> list[Candidate[_Split]]:
        """A few numbers of tasks, and for each a few numbers of tiles: fewer are larger, more overlap better."""
        found: list[Candidate[_Split]] = []
        for tasks in task_counts(self.board, self.blocks):
            share = ceil_div(self.blocks, tasks)
            least = ceil_div(share, fitting_blocks)
            found += [
                self._predict(name, tasks, min(tasks * each, self.blocks), overlapped=overlapped)
                for each in (*range(least, least + 5), 2 * least, 3 * least, 4 * least)
                if each <= share
            ]
        return found

    def _predict(self, name: str, tasks: int, tiles: int, *, overlapped: bool) -> Candidate[_Split]:
        board = self.board
        elements = ceil_div(self.blocks, tiles) * self.block
        cost = TileCost(
            load=load_cost(board, elements * self.read_bytes),
            store=store_cost(board, elements * self.written_bytes),
            compute_ps=vector_ps(board, elements * max(self.read_bytes, self.written_bytes), self.passes),
        )
        queued = not (overlapped or self.passes)
        return Candidate(
            strategy=name,
            predicted_ps=predict_ps(
                Grid(board=board, tiles=tiles, tasks=tasks), cost, overlapped=overlapped, queued=queued
            ),
            tasks=tasks,
            tiles=tiles,
            split=_Split(overlapped=overlapped, tasks=tasks, tiles=tiles),
        )


_n = group_digits
