"""The planner of elementwise operations: casts and bitwise copies.

The tensor is one row of elements in C order. The unit is the share of one core. Tier 1: the share fits in NRAM at once;
tier 2: it is cut into tiles of as many elements as fit. There is no tier 3, because a row of single elements can be cut
anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
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

STRATEGIES: dict[str, str] = {
    "auto": "the strategy with the shorter predicted time",
    "pingpong": "two buffers per side: tile i + 1 is loaded and tile i - 1 stored while tile i is computed",
    "serial": "one buffer per side, twice as large: load, compute, store, one after the other",
}
# By strategy, the buffers per side; with two, successive tiles overlap.
_BUFFERS = {"pingpong": 2, "serial": 1}


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


def plan_elementwise(
    board: Board, count: int, read_bytes: int, written_bytes: int, passes: int, strategy: str, operator: str
) -> Plan:
    """Plan an elementwise operator.

    Args:
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
    work = _Work(board, count, read_bytes, written_bytes, passes)
    largest_tiles = _largest_tiles(work, strategy, operator)
    fastest = best_by_strategy(
        candidate for name, blocks in largest_tiles.items() for candidate in _candidates(work, name, blocks)
    )
    fastest_candidate = next(iter(fastest.values()))
    tiles = fastest_candidate.split
    buffers, elements = _BUFFERS[fastest_candidate.strategy], work.elements(tiles)
    starts, stops = (bounds * work.block for bounds in cut_evenly(work.blocks, tiles))
    stops[-1] = count
    nram_bytes = buffers * work.tile_bytes * elements
    tiles_per_task = ceil_div(tiles, fastest_candidate.tasks)
    share = ceil_div(count, fastest_candidate.tasks)
    return Plan(
        operator=operator,
        strategy=fastest_candidate.strategy,
        board=board,
        tier=1 if tiles_per_task == 1 else 2,
        reason=(
            f"the {group_digits(share)} elements of a core {'fit in' if tiles_per_task == 1 else 'are cut into'} "
            f"{plural(tiles_per_task, 'tile')}; {predicted_text(fastest)}"
        ),
        arithmetic=(
            (
                f"{group_digits(board.nram_usable_bytes)} B of NRAM // ({buffers} x {work.tile_bytes} B) = "
                f"{group_digits(largest_tiles[fastest_candidate.strategy] * work.block)} elements"
            ),
            (
                f"{group_digits(count)} elements = {group_digits(work.blocks)} blocks = {group_digits(tiles)} "
                f"tiles of up to {group_digits(elements)} elements"
            ),
        ),
        unit=unit,
        unit_bytes=share * (read_bytes + written_bytes),
        kind="BLOCK",
        dim=(fastest_candidate.tasks, 1, 1),
        output_shape=(count,),
        itemsize=written_bytes,
        tiles=Tiles(in_runs(tiles, fastest_candidate.tasks), starts[:, None], stops[:, None], nram_bytes),
        nram_bytes=nram_bytes,
        parameters=ElementwiseParameters(overlapped=buffers == 2, elements=elements, block=work.block),
        predicted_ps=fastest_candidate.predicted_ps,
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """An elementwise operation to plan; attributes as the arguments of `plan_elementwise`."""

    board: Board
    count: int
    read_bytes: int
    written_bytes: int
    passes: int

    @property
    def block(self) -> int:
        """Elements of a block; tiles are whole blocks."""
        return max(BLOCK_BYTES, self.board.vector_alignment_bytes) // min(self.read_bytes, self.written_bytes)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return ceil_div(self.count, self.block)

    @property
    def tile_bytes(self) -> int:
        """Bytes per element in one buffer of each side."""
        return self.read_bytes + self.written_bytes if self.passes else self.read_bytes

    def elements(self, tiles: int) -> int:
        """Return the elements of the largest tile, if there are `tiles` of them."""
        return ceil_div(self.blocks, tiles) * self.block


def _largest_tiles(work: _Work, strategy: str, operator: str) -> dict[str, int]:
    """Return the blocks of the largest tile of each strategy to try that fits.

    Raises `PlanError` if not one block fits.
    """
    usable = work.board.nram_usable_bytes
    bytes_per_block = {
        name: _BUFFERS[name] * work.tile_bytes * work.block for name in strategies_to_try(STRATEGIES, strategy)
    }
    fitting = {name: usable // size for name, size in bytes_per_block.items() if size <= usable}
    if not fitting:
        name, size = list(bytes_per_block.items())[-1]
        buffers = "two buffers" if _BUFFERS[name] == 2 else "one buffer"
        serial = "choose strategy 'serial', or " if name != "serial" and size // 2 <= usable else ""
        raise PlanError(
            f"{work.board.name} has {group_digits(usable)} B of usable NRAM, and {operator}, strategy "
            f"{name}, needs {buffers} per side for a block of {group_digits(work.block)} elements, "
            f"{group_digits(size)} B; {serial}{MORE_NRAM}"
        )
    return fitting


# ASSUMED: tile counts of a task to try above the fewest: one by one where tiles are few, and multiples where they are
# many. Times change little between them.
_MORE_TILES, _FACTORS = 4, (2, 3, 4)


def _candidates(work: _Work, strategy: str, largest_tile: int) -> Iterator[Candidate[int]]:
    """Yield candidates of some task counts and, as splits, tile counts: fewer tiles are larger, more overlap better."""
    for tasks in task_counts(work.board, work.blocks):
        share = ceil_div(work.blocks, tasks)
        fewest = ceil_div(share, largest_tile)
        few_more, multiples = range(fewest, fewest + _MORE_TILES + 1), (factor * fewest for factor in _FACTORS)
        for per_task in (*few_more, *multiples):
            if per_task <= share:
                tiles = min(tasks * per_task, work.blocks)
                predicted = _predicted_ps(work, strategy, tasks, tiles)
                yield Candidate(strategy=strategy, predicted_ps=predicted, tasks=tasks, operations=tiles, split=tiles)


def _predicted_ps(work: _Work, strategy: str, tasks: int, tiles: int) -> int:
    board, elements = work.board, work.elements(tiles)
    tile = TileCost(
        load=load_cost(board, elements * work.read_bytes),
        store=store_cost(board, elements * work.written_bytes),
        compute_ps=vector_ps(board, elements * max(work.read_bytes, work.written_bytes), work.passes),
    )
    overlapped = _BUFFERS[strategy] == 2
    queued = not (overlapped or work.passes)
    return predict_ps(Grid(board=board, tiles=tiles, tasks=tasks), tile, overlapped=overlapped, queued=queued)
