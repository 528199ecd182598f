"""The planner of elementwise operations: casts and bitwise copies.

The tensor is one row of elements in C order. The unit is the share of one core. Tier 1: the share fits in NRAM at once;
tier 2: it is cut into tiles of as many elements as fit. There is no tier 3, because a row of single elements can be cut
anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.planning.cost import load_cost, store_cost, vector_ps
from mlusim.planning.plan import Plan, empty_plan
from mlusim.planning.prediction import Grid, TileCost, predict_ps
from mlusim.planning.search import Candidate, best_by_strategy, predicted_text, strategies_to_try, task_counts
from mlusim.planning.split import MORE_NRAM, cut_evenly, in_runs
from mlusim.planning.tiles import Tiles
from mlusim.units import ceil_div, group_digits, plural

# Whole vectors (G 5.3: 128 B per cycle, and the only length on arch below 300) and whole units of the DRAM bus.
BLOCK_BYTES = 128

_PINGPONG = "pingpong"
STRATEGIES: dict[str, str] = {
    "auto": "the strategy with the shorter predicted time",
    _PINGPONG: "two buffers per side: tile i + 1 is loaded and tile i - 1 stored while tile i is computed",
    "serial": "one buffer per side, twice as large: load, compute, store, one after the other",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementwiseParameters:
    """Parameters of the elementwise kernels besides the tiles.

    Attributes:
        overlapped: whether successive tiles are in different stages at the same time.
        elements: elements of the largest tile.
        block: tiles begin at multiples of this many elements.
    """

    overlapped: bool
    elements: int
    block: int


# Its split is whether successive tiles overlap.
_Candidate = Candidate[bool]


def plan_elementwise(
    board: Board, count: int, read_bytes: int, written_bytes: int, passes: int, strategy: str, operator: str
) -> Plan:
    """Plan an elementwise operator.

    Args:
        board: the board.
        count: number of elements; may be 0.
        read_bytes, written_bytes: bytes per element of the input and of the output.
        passes: passes of the vector unit over a tile; 0 for bitwise copies, whose input and output share a buffer.
        strategy: a key of `STRATEGIES`.
        operator: name of the operator in the plan.

    The plan covers the output as one axis of `count` elements. Raises `PlanError` if the buffers of one block of 128 B
    do not fit in NRAM.
    """
    unit = f"the share of one core, {read_bytes} B read and {written_bytes} B written per element"
    if not count:
        return empty_plan(
            operator=operator, strategy=strategy, board=board, shape=(0,), itemsize=written_bytes, unit=unit
        )
    block = max(BLOCK_BYTES, board.vector_alignment_bytes) // min(read_bytes, written_bytes)
    tile_bytes = read_bytes + written_bytes if passes else read_bytes
    blocks = ceil_div(count, block)
    fitting_blocks = _fitting_blocks(board, tile_bytes, block, strategy, operator)
    costs = _Costs(board, block, blocks, read_bytes, written_bytes, passes)
    fastest = best_by_strategy(
        candidate
        for overlapped, fitting in fitting_blocks.items()
        for candidate in costs.candidates(fitting, overlapped=overlapped)
    )
    candidate = next(iter(fastest.values()))
    overlapped = candidate.split
    starts, stops = (bounds * block for bounds in cut_evenly(blocks, candidate.tiles))
    stops[-1] = count
    largest = ceil_div(blocks, candidate.tiles) * block
    nram_bytes = (1 + overlapped) * tile_bytes * largest
    tiles_per_task = ceil_div(candidate.tiles, candidate.tasks)
    share = ceil_div(count, candidate.tasks)
    times = predicted_text({name: fast.predicted_ps for name, fast in fastest.items()})
    return Plan(
        operator=operator,
        strategy=candidate.strategy,
        board=board,
        tier=1 if tiles_per_task == 1 else 2,
        reason=(
            f"the {group_digits(share)} elements of a core {'fit' if tiles_per_task == 1 else 'are cut'} in "
            f"{plural(tiles_per_task, 'tile')}; {times}"
        ),
        arithmetic=(
            (
                f"{group_digits(board.nram_usable_bytes)} B of NRAM // ({1 + overlapped} x {tile_bytes} B) = "
                f"{group_digits(fitting_blocks[overlapped] * block)} elements"
            ),
            (
                f"{group_digits(count)} elements = {group_digits(blocks)} blocks = {group_digits(candidate.tiles)} "
                f"tiles of up to {group_digits(largest)} elements"
            ),
        ),
        unit=unit,
        unit_bytes=share * (read_bytes + written_bytes),
        kind="BLOCK",
        dim=(candidate.tasks, 1, 1),
        output_shape=(count,),
        itemsize=written_bytes,
        tiles=Tiles(in_runs(candidate.tiles, candidate.tasks), starts[:, None], stops[:, None], nram_bytes),
        nram_bytes=nram_bytes,
        parameters=ElementwiseParameters(overlapped=overlapped, elements=largest, block=block),
        predicted_ps=candidate.predicted_ps,
    )


def _fitting_blocks(board: Board, tile_bytes: int, block: int, strategy: str, operator: str) -> dict[bool, int]:
    """By whether tiles overlap, return the blocks of the largest tile, for the selected strategies that fit.

    Raises `PlanError` if not one block fits.
    """
    selected = [name == _PINGPONG for name in strategies_to_try(STRATEGIES, strategy)]
    usable = board.nram_usable_bytes
    needed = {overlapped: (1 + overlapped) * tile_bytes * block for overlapped in selected}
    fitting = {overlapped: usable // size for overlapped, size in needed.items() if size <= usable}
    if not fitting:
        least = selected[-1]
        buffers = "two buffers" if least else "one buffer"
        serial = "choose strategy 'serial', or " if least and needed[True] // 2 <= usable else ""
        raise PlanError(
            f"{board.name} has {group_digits(usable)} B of usable NRAM, and {operator}, strategy "
            f"{_name(overlapped=least)}, needs {buffers} per side for a block of {group_digits(block)} elements, "
            f"{group_digits(needed[least])} B; {serial}{MORE_NRAM}"
        )
    return fitting


def _name(*, overlapped: bool) -> str:
    return _PINGPONG if overlapped else "serial"


@dataclass(frozen=True, slots=True)
class _Costs:
    """Predicted times of splits of one operator on one board."""

    board: Board
    block: int
    blocks: int
    read_bytes: int
    written_bytes: int
    passes: int

    def candidates(self, fitting_blocks: int, *, overlapped: bool) -> list[_Candidate]:
        """Return candidates with a few task and tile counts: fewer tiles are larger, more tiles overlap better."""
        candidates: list[_Candidate] = []
        for tasks in task_counts(self.board, self.blocks):
            share = ceil_div(self.blocks, tasks)
            fewest = ceil_div(share, fitting_blocks)
            candidates += [
                self._predict(tasks, min(tasks * per_task, self.blocks), overlapped=overlapped)
                for per_task in (*range(fewest, fewest + 5), 2 * fewest, 3 * fewest, 4 * fewest)
                if per_task <= share
            ]
        return candidates

    def _predict(self, tasks: int, tiles: int, *, overlapped: bool) -> _Candidate:
        board = self.board
        elements = ceil_div(self.blocks, tiles) * self.block
        cost = TileCost(
            load=load_cost(board, elements * self.read_bytes),
            store=store_cost(board, elements * self.written_bytes),
            compute_ps=vector_ps(board, elements * max(self.read_bytes, self.written_bytes), self.passes),
        )
        queued = not (overlapped or self.passes)
        return Candidate(
            strategy=_name(overlapped=overlapped),
            predicted_ps=predict_ps(
                Grid(board=board, tiles=tiles, tasks=tasks), cost, overlapped=overlapped, queued=queued
            ),
            tasks=tasks,
            tiles=tiles,
            split=overlapped,
        )
