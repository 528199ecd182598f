"""The planner of reverse, and the method by which each axis is reversed.

Axes are merged into groups, alternately reversed and not (`reverse_groups`). A tile is a range of one group, the pivot,
including all groups inside it: contiguous in the output, and contiguous in the input at the mirrored position.

The unit is the slice that starts at the outermost reversed group. Tier 1: whole slices fit in NRAM; tier 2: a slice is
cut along an outer group; tier 3: a row, the innermost group, is cut into chunks, each loaded from its mirrored
position.

Within a tile, a group is reversed either on chip or by the copy. On chip, a mirror instruction reverses everything from
one group inwards at once, so each change of direction between neighbouring groups costs one mirror. In the copy, a
negative source stride costs one segment per element of the group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.hardware.checks import ALIGNED_SIZE_BYTES
from mlusim.planning.cost import load_cost, store_cost, vector_ps
from mlusim.planning.pivot import Cut, pivot_cuts, tiles_text
from mlusim.planning.plan import Plan, empty_plan
from mlusim.planning.prediction import Grid, TileCost, predict_ps
from mlusim.planning.reverse_groups import Group, Method, coalesce, method_of
from mlusim.planning.search import Candidate, best_by_strategy, strategies_to_try
from mlusim.planning.split import MAX_SEGMENTS, MORE_NRAM, boxes, buffer_bytes, in_turn, max_loops
from mlusim.planning.tiles import Tiles
from mlusim.units import ceil_div, format_us, group_digits, plural, round_up

STRATEGIES: dict[str, str] = {
    "auto": "the strategy with the shortest predicted time",
    "strided": "every group is reversed by negative source strides, the last axis element by element",
    "mirror": "contiguous copies; every group is reversed on chip by mirror instructions",
    "mixed": "axes before the last by negative source strides, the last axis by a mirror instruction",
}

# On boards of arch below 300, sizes of vector operands are multiples of this (B).
VECTOR_BYTES = ALIGNED_SIZE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseParameters:
    """Parameters of the reverse kernel besides the tiles.

    Attributes:
        groups: the merged axes of the tensor.
        pivot: the group that is cut into tiles.
        method: the method of reversing the groups inside a tile.
        overlapped: whether successive tiles are in different stages at the same time.
        elements: elements of the largest tile.
    """

    groups: tuple[Group, ...]
    pivot: int
    method: Method
    overlapped: bool
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """The method of reversing tiles, and the cut of the tensor into tiles."""

    method: Method
    overlapped: bool
    cut: Cut


_Candidate = Candidate[_Split]


def plan_reverse(
    board: Board, shape: Sequence[int], axes: Sequence[int], itemsize: int, strategy: str, operator: str = "reverse"
) -> Plan:
    """Plan a reverse.

    Args:
        shape: extents; any rank, any extent may be 0.
        axes: axes to reverse, in [0, rank), distinct; an empty list is a copy.
        itemsize: bytes per element.
        strategy: a key of `STRATEGIES`.
        operator: name of the operator in the plan.

    The plan covers the output as [outer, pivot, inner]: the groups outside the pivot as one axis, the pivot, and the
    groups inside it as one axis. Raises `PlanError` if one element per buffer does not fit in NRAM.
    """
    text = f"{list(shape)} reversed along {list(axes) or 'no axis'}"
    if 0 in shape:
        return empty_plan(
            operator=operator,
            strategy=strategy,
            board=board,
            shape=(0, 0, 0),
            itemsize=itemsize,
            arithmetic=(text,),
            unit="a slice",
        )
    groups = coalesce(shape, axes)
    text += f" is {' x '.join(group_digits(extent) + ' reversed' * flipped for extent, flipped in groups)}"
    names = strategies_to_try(STRATEGIES, strategy)
    choices = [
        candidate
        for name in names
        for overlapped in (True, False)
        for candidate in _candidates(board, groups, itemsize, name, overlapped=overlapped)
    ]
    choices = _without_repeats(choices)
    if not choices:
        fewest = min(_buffers(method_of(groups, 0, name), overlapped=False) for name in names)
        smallest = round_up(itemsize, board.vector_alignment_bytes)
        raise PlanError(
            f"{board.name} has {group_digits(board.nram_usable_bytes)} B of usable NRAM, and {operator}, strategy "
            f"{strategy}, needs {plural(fewest, 'buffer')} of {group_digits(smallest)} B; {MORE_NRAM}"
        )
    return _plan(board, operator, text, itemsize, groups, best_by_strategy(choices))


def _plan(
    board: Board,
    operator: str,
    text: str,
    itemsize: int,
    groups: tuple[Group, ...],
    fastest: dict[str, _Candidate],
) -> Plan:
    """Return the plan of the fastest candidate, which is the first; `text` describes the tensor."""
    candidate = next(iter(fastest.values()))
    split = candidate.split
    cut = split.cut
    first = next((index for index, group in enumerate(groups) if group.flipped), len(groups) - 1)
    unit_elements = math.prod(group.extent for group in groups[first:])
    buffers = _buffers(split.method, overlapped=split.overlapped)
    outer = np.arange(cut.outer)
    start, stop = boxes(((outer, outer + 1), cut.bounds(), (np.array([0]), np.array([cut.inner]))), order=(0, 1, 2))
    sizes = (stop[:, 1] - start[:, 1]) * cut.inner
    # Tiles of equal size are adjacent in a task, so that its buffers change size only once.
    order = np.argsort(-sizes, kind="stable")
    nram_bytes = buffers * round_up(cut.elements * itemsize, board.vector_alignment_bytes)
    tier, tier_reason = _tier(groups, first, cut, unit_elements, itemsize, buffer_bytes(board, buffers))
    return Plan(
        operator=operator,
        strategy=split.method.name,
        board=board,
        tier=tier,
        reason=f"{tier_reason}; {_comparison(fastest, groups)}",
        arithmetic=(
            text,
            tiles_text(board, cut, buffers),
            _method_text(split, groups),
        ),
        unit=f"a slice of {group_digits(unit_elements)} elements of {itemsize} B",
        unit_bytes=unit_elements * itemsize,
        kind="BLOCK",
        dim=(cut.tasks, 1, 1),
        output_shape=(cut.outer, cut.extent, cut.inner),
        itemsize=itemsize,
        tiles=Tiles(in_turn(sizes[order], cut.tasks), start[order], stop[order], nram_bytes),
        nram_bytes=nram_bytes,
        parameters=ReverseParameters(
            groups=groups,
            pivot=cut.pivot,
            method=split.method,
            overlapped=split.overlapped,
            elements=cut.elements,
        ),
        predicted_ps=candidate.predicted_ps,
    )


def _without_repeats(candidates: list[_Candidate]) -> list[_Candidate]:
    """Drop candidates of strategies that are equivalent on this tensor, keeping the first."""
    strategy_of: dict[tuple[object, ...], str] = {}
    unique = []
    for candidate in candidates:
        key = (
            candidate.split.cut,
            candidate.split.overlapped,
            candidate.split.method.segment,
            candidate.split.method.passes,
        )
        if strategy_of.setdefault(key, candidate.strategy) == candidate.strategy:
            unique.append(candidate)
    return unique


def _buffers(method: Method, *, overlapped: bool) -> int:
    """Return the number of NRAM buffers per task: for load and store of two tiles, and for results of mirrors."""
    if not method.passes:
        return 1 + overlapped
    return 4 if overlapped else 2


def _candidates(
    board: Board, groups: tuple[Group, ...], itemsize: int, name: str, *, overlapped: bool
) -> list[_Candidate]:
    # Whole bus units and, for the vector unit of old boards, whole vectors.
    multiple = VECTOR_BYTES if board.needs_aligned_vectors else board.dram_unit_bytes
    extents = [group.extent for group in groups]
    candidates = []
    for pivot in range(len(groups)):
        method = method_of(groups, pivot, name)
        capacity = buffer_bytes(board, _buffers(method, overlapped=overlapped))
        # The pivots outside it decide which cuts are worth trying.
        for cut in pivot_cuts(board, extents, itemsize, capacity, whole_bytes=multiple):
            if cut.pivot == pivot:
                cost = _tile_cost(board, groups, pivot, method, cut.size, itemsize)
                queued = not (overlapped or method.passes)
                grid = Grid(board=board, tiles=cut.tiles, tasks=cut.tasks)
                predicted = predict_ps(grid, cost, overlapped=overlapped, queued=queued)
                split = _Split(method=method, overlapped=overlapped, cut=cut)
                candidates.append(
                    Candidate(strategy=name, predicted_ps=predicted, tasks=cut.tasks, operations=cut.tiles, split=split)
                )
    return candidates


def _tile_cost(
    board: Board, groups: tuple[Group, ...], pivot: int, method: Method, size: int, itemsize: int
) -> TileCost:
    inner = math.prod(group.extent for group in groups[pivot + 1 :])
    nbytes = size * inner * itemsize
    store = store_cost(board, nbytes)
    mirrors = vector_ps(board, nbytes, len(method.passes)) if method.passes else 0
    if method.segment == pivot:
        return TileCost(load=load_cost(board, nbytes), store=store, compute_ps=mirrors)
    segment = math.prod(group.extent for group in groups[method.segment :]) * itemsize
    loops = sorted([size, *(group.extent for group in groups[pivot + 1 : method.segment])])
    # The kernel unrolls the shortest loops.
    loads = math.prod(loops[: -max_loops(board)])
    loads *= math.prod(ceil_div(count, MAX_SEGMENTS) for count in loops[-max_loops(board) :])
    segments = nbytes // segment // loads
    load = load_cost(board, segment, ((max(segments, 1), -segment),), copies=loads)
    return TileCost(load=load, store=store, compute_ps=mirrors)


def _tier(
    groups: tuple[Group, ...], first: int, cut: Cut, unit_elements: int, itemsize: int, capacity: int
) -> tuple[int, str]:
    """Return the tier and its reason: the unit does not fit, or cutting it occupies more cores."""
    unit = f"a slice of {group_digits(unit_elements * itemsize)} B"
    if cut.pivot < first or (cut.pivot == first and cut.parts == 1):
        return 1, f"{unit} fits in NRAM, up to {group_digits(cut.elements // unit_elements)} per tile"
    parts = f"{group_digits(cut.parts)} parts of up to {group_digits(cut.elements * itemsize)} B"
    if unit_elements * itemsize <= capacity:
        parts += f" to occupy {cut.tasks} cores, although it would fit"
    if cut.pivot == len(groups) - 1 and cut.parts > 1:
        row = f"a row of {group_digits(groups[-1].extent * itemsize)} B" if cut.pivot != first else unit
        return 3, f"{row} is cut into {parts}"
    return 2, f"{unit} is cut along its outer axes into {parts}"


def _method_text(split: _Split, groups: tuple[Group, ...]) -> str:
    method = split.method
    if not any(group.flipped for group in groups):
        return "nothing is reversed, so tiles are copied"
    passes = len(method.passes)
    on_chip = f"{plural(passes, 'mirror instruction')} per tile"
    if method.segment == split.cut.pivot:
        return f"contiguous loads, {on_chip}"
    return f"loads of {_segments(method, groups)} by negative source strides, {on_chip}"


def _comparison(fastest: dict[str, _Candidate], groups: tuple[Group, ...]) -> str:
    """Describe the fastest candidate of each strategy."""
    parts = []
    for name, candidate in fastest.items():
        method = candidate.split.method
        passes = len(method.passes)
        loads = "contiguous" if method.segment == candidate.split.cut.pivot else _segments(method, groups)
        parts.append(f"{name} {format_us(candidate.predicted_ps)} ({loads}, {plural(passes, 'mirror')})")
    return f"predicted: {', '.join(parts)}"


def _segments(method: Method, groups: tuple[Group, ...]) -> str:
    elements = math.prod(group.extent for group in groups[method.segment :])
    count = math.prod(group.extent for group in groups[: method.segment])
    return f"{group_digits(count)} segments of {plural(elements, 'element')}"
