"""The planner of reverse_sequence, which works on batch entries (`mlusim.planning.entry_layout`).

Tier 1: whole entries fit in NRAM. Tier 2: an entry is cut along the sequence. Tier 3: a row is cut into chunks. The
plan does not depend on the lengths, which the kernel reads on the board; times are predicted for evenly distributed
lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlusim.arrays import Integers
from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.planning.cost import Cost, load_cost, move_ps, store_cost, vector_ps
from mlusim.planning.entry_layout import EntryLayout, entry_layout
from mlusim.planning.pivot import Cut, pivot_cuts, tiles_text
from mlusim.planning.plan import Plan, empty_plan
from mlusim.planning.prediction import Grid, TileCost, predict_ps
from mlusim.planning.search import Candidate, best_by_strategy, predicted_text, strategies_to_try
from mlusim.planning.split import MAX_SEGMENTS, MORE_NRAM, boxes, buffer_bytes, cut_evenly, in_runs
from mlusim.planning.tiles import Tiles
from mlusim.units import ceil_div, group_digits, round_up

# Its entries, rows of each, and elements of each row.
_Tile = tuple[int, int, int]

STRATEGIES: dict[str, str] = {
    "auto": "the strategy with the shorter predicted time",
    "strided": "each entry is loaded with a negative source stride over its first L rows",
    "staged": "entries are loaded unchanged, and their first L rows reversed within NRAM: rows of a single element by "
    "a mirror instruction where operands may have any size, else by a move with a negative source stride",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceParameters:
    """Parameters of the reverse_sequence kernel besides the tiles.

    Attributes:
        layout: the tensor as entries.
        staged: whether entries are reversed within NRAM, instead of by loads with a negative stride.
        mirrored: whether mirror instructions reverse them, instead of moves with a negative stride.
        overlapped: whether successive tiles are in different stages at the same time.
        elements: elements of the largest tile.
    """

    layout: EntryLayout
    staged: bool
    mirrored: bool
    overlapped: bool
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    overlapped: bool
    cut: Cut


def plan_reverse_sequence(
    board: Board, shape: Sequence[int], sequence_axis: int, batch_axis: int, itemsize: int, strategy: str
) -> Plan:
    """Plan a reverse_sequence.

    Args:
        shape: extents; rank 2 or more, any extent may be 0.
        sequence_axis, batch_axis: in [0, rank), different.
        itemsize: bytes per element.
        strategy: a key of `STRATEGIES`.

    The plan covers the output as `EntryLayout.shape`. Raises `PlanError` if one element per buffer does not fit in
    NRAM.
    """
    layout = entry_layout(shape, sequence_axis, batch_axis)
    text = (
        f"{list(shape)}, sequence axis {sequence_axis}, batch axis {batch_axis}: "
        f"{group_digits(layout.outer * layout.entries)} entries of {group_digits(layout.rows)} rows, each of "
        f"{group_digits(layout.row_elements)} elements"
    )
    if 0 in shape:
        return empty_plan(
            operator="reverse_sequence",
            strategy=strategy,
            board=board,
            shape=layout.shape,
            itemsize=itemsize,
            arithmetic=(text,),
            unit="an entry",
        )
    fastest = _fastest(board, layout, itemsize, strategy)
    candidate = next(iter(fastest.values()))
    split, cut = candidate.split, candidate.split.cut
    start, stop = _boxes(layout, cut)
    buffers = _buffers(candidate.strategy, overlapped=split.overlapped)
    nram_bytes = buffers * round_up(cut.elements * itemsize, board.vector_alignment_bytes)
    return Plan(
        operator="reverse_sequence",
        strategy=candidate.strategy,
        board=board,
        tier=cut.pivot,
        reason=f"{_reason(layout, cut, itemsize)}; {predicted_text(fastest)}",
        arithmetic=(text, tiles_text(board, cut, buffers)),
        unit=(
            f"an entry of {group_digits(layout.rows)} rows of {group_digits(layout.row_elements)} elements of "
            f"{itemsize} B"
        ),
        unit_bytes=layout.rows * layout.row_elements * itemsize,
        kind="BLOCK",
        dim=(cut.tasks, 1, 1),
        output_shape=layout.shape,
        itemsize=itemsize,
        tiles=Tiles(in_runs(cut.tiles, cut.tasks), start, stop, nram_bytes),
        nram_bytes=nram_bytes,
        parameters=SequenceParameters(
            layout=layout,
            staged=candidate.strategy == "staged",
            mirrored=_is_mirrored(board, layout),
            overlapped=split.overlapped,
            elements=cut.elements,
        ),
        predicted_ps=candidate.predicted_ps,
    )


def _is_mirrored(board: Board, layout: EntryLayout) -> bool:
    """Return whether mirror instructions reverse staged entries.

    The rows of an entry are adjacent single elements, and vector operands of any size are allowed.
    """
    return layout.row_elements == 1 and not layout.sequence_first and not board.needs_aligned_vectors


def _fastest(board: Board, layout: EntryLayout, itemsize: int, strategy: str) -> dict[str, Candidate[_Split]]:
    """Return the fastest candidate of each strategy, the fastest first; raises `PlanError` if there is none."""
    choices = [
        candidate
        for name in strategies_to_try(STRATEGIES, strategy)
        for overlapped in (True, False)
        for candidate in _candidates(board, layout, itemsize, name, overlapped=overlapped)
    ]
    if not choices:
        raise PlanError(
            f"{board.name} has {group_digits(board.nram_usable_bytes)} B of usable NRAM, and reverse_sequence needs "
            f"up to 4 buffers of an element, each rounded up to {board.vector_alignment_bytes} B; {MORE_NRAM}"
        )
    return best_by_strategy(choices)


def _reason(layout: EntryLayout, cut: Cut, itemsize: int) -> str:
    """Return why the split has its tier."""
    entry_bytes = layout.rows * layout.row_elements * itemsize
    parts = f"{group_digits(cut.parts)} parts of up to {group_digits(cut.size)}"
    return (
        f"entries of {group_digits(entry_bytes)} B fit in NRAM, up to {group_digits(cut.size)} per tile",
        f"an entry of {group_digits(entry_bytes)} B is cut along the sequence into {parts} rows",
        f"a row of {group_digits(layout.row_elements * itemsize)} B is cut into {parts} elements",
    )[cut.pivot - 1]


def _buffers(name: str, *, overlapped: bool) -> int:
    """Return the number of buffers: twice as many if entries are moved within NRAM, as load and store differ there."""
    return (2 if name == "staged" else 1) * (1 + overlapped)


def _candidates(
    board: Board, layout: EntryLayout, itemsize: int, name: str, *, overlapped: bool
) -> list[Candidate[_Split]]:
    capacity = buffer_bytes(board, _buffers(name, overlapped=overlapped))
    candidates = []
    for inner_cut in pivot_cuts(
        board,
        layout.extents,
        itemsize,
        capacity,
        whole_bytes=board.dram_unit_bytes,
        limits=(1, layout.entries, MAX_SEGMENTS, layout.row_elements),
        outermost=1,
    ):
        cut = _on_outer_axis(inner_cut, layout.extents)
        queued = not overlapped and name == "strided"
        grid = Grid(board=board, tiles=cut.tiles, tasks=cut.tasks)
        sizes = {cut.size}
        if layout.sequence_first:
            # A smaller tile may take longer: its rows are segments, and segments below a bus unit cost more.
            starts, stops = cut.bounds()
            sizes.add(int((stops - starts).min()))
        predicted = max(
            predict_ps(
                grid,
                _tile_cost(board, layout, replace(cut, size=size), itemsize, staged=name == "staged"),
                overlapped=overlapped,
                queued=queued,
            )
            for size in sizes
        )
        split = _Split(overlapped=overlapped, cut=cut)
        candidates.append(
            Candidate(strategy=name, predicted_ps=predicted, tasks=cut.tasks, operations=cut.tiles, split=split)
        )
    return candidates


def _on_outer_axis(cut: Cut, extents: Sequence[int]) -> Cut:
    """Return the same tiles as a cut along an outer axis: tiles that span the pivot are rows of the axis before."""
    while cut.parts == 1 and cut.pivot > 1:
        axis = cut.pivot - 1
        extent = extents[axis]
        cut = replace(
            cut,
            pivot=axis,
            outer=cut.outer // extent,
            extent=extent,
            inner=cut.inner * cut.extent,
            parts=extent,
            multiple=1,
            size=1,
        )
    return cut


def _tile_cost(board: Board, layout: EntryLayout, cut: Cut, itemsize: int, *, staged: bool) -> TileCost:
    """Return the cost of one tile.

    Lengths are assumed evenly distributed over 0 to S: on average, half of the rows are reversed. The task with the
    most of them ends last, so its share counts, except for the DRAM.
    """
    sizes = (cut.size, layout.rows, layout.row_elements), (1, cut.size, layout.row_elements), (1, 1, cut.size)
    tile = sizes[cut.pivot - 1]
    entries = tile[0]
    # Tasks handle runs of tiles, and load a length shared by several of their entries or tiles only once.
    tiles_per_task = ceil_div(cut.tiles, cut.tasks)
    tiles_per_entry = 1 if cut.pivot == 1 else cut.tiles // (layout.outer * layout.entries)
    run = entries * tiles_per_task if cut.pivot == 1 else ceil_div(tiles_per_task, tiles_per_entry)
    lengths = min(ceil_div(run, layout.repeat), layout.batch)
    # Once a task has loaded all lengths, its later tiles load none.
    loading_tiles = min(ceil_div(lengths, ceil_div(entries, layout.repeat)), tiles_per_task)
    tasks_per_entry = max(tiles_per_entry / tiles_per_task, 1.0) if cut.pivot == 2 else 1.0
    max_share = _largest_reversed_share(lengths, min(layout.batch // lengths, cut.tasks), tasks_per_entry)
    cost_of = _staged_cost if staged else _strided_cost
    return replace(
        cost_of(board, layout, tile, itemsize, max_share),
        scalar_ps=lengths * board.scalar_gdram_latency_ps // loading_tiles,
        scalar_tiles=loading_tiles,
    )


def _staged_cost(board: Board, layout: EntryLayout, tile: _Tile, itemsize: int, max_share: float) -> TileCost:
    """Return the cost of a staged tile without that of its lengths.

    A tile of whole entries is one load and one move; each entry with more than one row to reverse adds a move or a
    mirror.
    """
    entries, rows, row = tile
    nbytes = math.prod(tile) * itemsize
    reversals = ceil_div(entries * (layout.rows + rows - 2), 2 * (layout.rows + 1))
    moving_ps = move_ps(board, nbytes)
    mirroring_ps = 0
    if layout.rows > 1 and _is_mirrored(board, layout):
        mirroring_ps = reversals * vector_ps(board, round(nbytes * max_share) // reversals)
    elif layout.rows > 1:
        moving_ps += move_ps(board, row * itemsize, round(entries * rows * max_share), moves=reversals)
    # A part of an entry is loaded from its mirrored and from its own position.
    copies = 1 if rows == layout.rows else _loads(layout, tile)
    return TileCost(
        load=load_cost(board, *_copy_loops(layout, (entries, math.ceil(rows / copies), row), itemsize), copies=copies),
        store=store_cost(board, *_copy_loops(layout, tile, itemsize)),
        compute_ps=mirroring_ps,
        move_ps=moving_ps,
    )


def _strided_cost(board: Board, layout: EntryLayout, tile: _Tile, itemsize: int, max_share: float) -> TileCost:
    """Return the cost of a strided tile without that of its lengths: a load, or two, for the part of each entry."""
    entries, rows, row = tile
    loads = _loads(layout, tile)
    # All loads have equally many rows, reversed or others; rounded up, they transfer what fewer loads do.
    part_rows = math.ceil(rows * entries / loads)
    transfers = rows * entries / part_rows
    segment, loops = _copy_loops(layout, (1, part_rows, row), itemsize)
    stride = layout.row_elements * itemsize * (layout.entries if layout.sequence_first else 1)
    backwards = ((part_rows, -stride),) if part_rows > 1 else ()

    def load_of(share: float) -> Cost:
        """Return the cost of the loads of a tile, of which a share is reversed."""
        reversed_rows = load_cost(board, row * itemsize, backwards, copies=transfers * share)
        others = load_cost(board, segment, loops, copies=transfers * (1 - share), hides_start_up=True)
        return reversed_rows + others + Cost((loads - transfers) * board.cycles_ps(board.issue_cycles))

    return TileCost(
        load=load_of(max_share).with_dram_of(load_of(0.5)),
        store=store_cost(board, *_copy_loops(layout, tile, itemsize)),
    )


def _loads(layout: EntryLayout, tile: _Tile) -> float:
    """Return the expected loads of a tile: one for the part of each entry, or two if the reversed rows end within."""
    entries, rows, _ = tile
    return entries * (1 + (rows - 1) / (layout.rows + 1))


def _largest_reversed_share(lengths: int, tasks: int, tasks_per_entry: float) -> float:
    """Return the expected share of reversed rows in the task with the largest.

    The longest of n evenly distributed lengths is n / (n + 1) of S on average. The first of several tasks of an entry
    has only its first rows. The mean of several lengths varies less, by the root of their number.

    Args:
        lengths: lengths that a task reads.
        tasks: tasks that read different lengths.
        tasks_per_entry: tasks among which the rows of an entry are divided.
    """
    largest = 1 - tasks_per_entry**-tasks / (tasks + 1)
    return 0.5 + (largest - 0.5) / math.sqrt(lengths)


def _copy_loops(layout: EntryLayout, tile: _Tile, itemsize: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Return segment and loops of a tile in GDRAM."""
    entries, rows, row = tile
    if not layout.sequence_first or rows == 1 or entries == layout.entries:
        return entries * rows * row * itemsize, ()
    return entries * row * itemsize, ((rows, layout.entries * layout.row_elements * itemsize),)


def _boxes(layout: EntryLayout, cut: Cut) -> tuple[Integers, Integers]:
    """Return the tiles as boxes of `EntryLayout.shape`."""
    cuts = [cut_evenly(extent, extent if axis < cut.pivot else 1) for axis, extent in enumerate(layout.extents)]
    cuts[cut.pivot] = cut.bounds()
    start, stop = boxes(cuts, order=(0, 1, 2, 3))
    axes = [0, 2, 1, 3] if layout.sequence_first else [0, 1, 2, 3]
    return start[:, axes], stop[:, axes]
