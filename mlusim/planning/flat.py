"""The planner of elementwise work: cast, and copies of bits.

The tensor is one row of elements in C order. Its unit is what one core has to do. Tier 1: that fits in NRAM at once;
tier 2: it is cut into tiles of as many elements as fit. There is no third tier, because a row of single elements can be
cut anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.planning.plan import Plan, Tiles, empty_plan
from mlusim.planning.prediction import NEAR, TileCost, load_cost, predict_ps, store_cost, vector_ps
from mlusim.planning.split import cut_evenly, in_runs
from mlusim.units import PS_PER_US, ceil_div, group_digits

# Whole vectors (G 5.3: 128 B in a cycle, and on arch below 300 no other length) and whole units of the DRAM bus.
BLOCK_BYTES = 128

STRATEGIES: dict[str, str] = {
    "auto": "whichever of the others the board's cost functions say is faster",
    "pingpong": "two buffers a side: tile i + 1 is loaded and tile i - 1 stored while tile i is computed",
    "serial": "one buffer a side, twice as large: load, compute, store, one after the other",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    overlapped: bool
    tasks: int
    tiles: int
    predicted_ps: int


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
    held = {
        overlapped: board.nram_usable_bytes // ((1 + overlapped) * tile_bytes * block) for overlapped in (False, True)
    }
    if not held[True]:
        raise PlanError(
            f"{board.name} has {_n(board.nram_usable_bytes)} B of usable NRAM, and {operator} needs two buffers a side "
            f"for a block of {_n(block)} elements, {_n(2 * tile_bytes * block)} B: give it more nram_bytes"
        )
    costs = _Costs(board, block, blocks, read_bytes, written_bytes, passes)
    choices = [
        candidate
        for name, overlapped in (("pingpong", True), ("serial", False))
        if strategy in ("auto", name)
        for candidate in costs.candidates(held[overlapped], overlapped=overlapped)
    ]
    chosen = _choose(choices)
    fastest = {
        _name(overlapped): min(each.predicted_ps for each in choices if each.overlapped is overlapped)
        for overlapped in sorted({candidate.overlapped for candidate in choices}, reverse=True)
    }
    starts, stops = (bounds * block for bounds in cut_evenly(blocks, chosen.tiles))
    stops[-1] = count
    largest = ceil_div(blocks, chosen.tiles) * block
    nram_bytes = (1 + chosen.overlapped) * tile_bytes * largest
    each = ceil_div(chosen.tiles, chosen.tasks)
    usable = _n(board.nram_usable_bytes)
    share = ceil_div(count, chosen.tasks)
    fitting = held[chosen.overlapped] * block
    return Plan(
        operator=operator,
        strategy=_name(chosen.overlapped),
        board=board,
        tier=1 if each == 1 else 2,
        reason=(
            f"the {_n(share)} elements of a core {'fit' if each == 1 else 'are cut'} in {each} tile{'s'[: each > 1]}; "
            f"{', '.join(f'{name} {time_ps / PS_PER_US:.2f} us' for name, time_ps in fastest.items())} predicted"
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
        parameters={"overlapped": chosen.overlapped, "elements": largest, "block": block},
        predicted_ps=chosen.predicted_ps,
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

    def candidates(self, held: int, *, overlapped: bool) -> list[_Candidate]:
        """A few numbers of tasks, and for each a few numbers of tiles: fewer are larger, more overlap better."""
        most = min(self.board.cores, self.blocks)
        found: list[_Candidate] = []
        for tasks in sorted({1 << power for power in range(most.bit_length())} | {most}):
            share = ceil_div(self.blocks, tasks)
            least = ceil_div(share, held)
            found += [
                self._predict(tasks, min(tasks * each, self.blocks), overlapped=overlapped)
                for each in range(least, min(least + 4, share) + 1)
            ]
        return found

    def _predict(self, tasks: int, tiles: int, *, overlapped: bool) -> _Candidate:
        board = self.board
        elements = ceil_div(self.blocks, tiles) * self.block
        cost = TileCost(
            load=load_cost(board, elements * self.read_bytes),
            store=store_cost(board, elements * self.written_bytes),
            compute_ps=vector_ps(board, elements * max(self.read_bytes, self.written_bytes), self.passes),
        )
        queued = not (overlapped or self.passes)
        predicted = predict_ps(board, cost, tiles=tiles, tasks=tasks, overlapped=overlapped, queued=queued)
        return _Candidate(overlapped=overlapped, tasks=tasks, tiles=tiles, predicted_ps=predicted)


def _choose(candidates: list[_Candidate]) -> _Candidate:
    """Of all that are as fast as the fastest, as far as a prediction goes: most tasks, then fewest tiles.

    A task with one tile has nothing to overlap; with more, overlapping also keeps tasks from waiting in step.
    """
    limit = min(candidate.predicted_ps for candidate in candidates) * NEAR
    eligible = [candidate for candidate in candidates if candidate.predicted_ps <= limit]

    def merit(candidate: _Candidate) -> tuple[int, bool, int]:
        whole = candidate.tiles == candidate.tasks
        return candidate.tasks, candidate.overlapped is not whole, -candidate.tiles

    return max(eligible, key=merit)


def _name(overlapped: bool) -> str:  # noqa: FBT001
    return "pingpong" if overlapped else "serial"


_n = group_digits
