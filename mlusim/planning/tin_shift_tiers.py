"""The tiers of tin_shift: what of a unit fits in an NRAM buffer, with an explanation.

A *unit* is the amount of data that one core would ideally process at once; it consists of rows, and rows of elements.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.memory.copy_limits import MAX_SEGNUM
from mlusim.planning.split import MAX_SEGMENTS, MORE_NRAM, buffer_bytes
from mlusim.units import ceil_div, group_digits, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The contents of one NRAM buffer.

    Attributes:
        tier: 1 whole units, 2 a unit cut into segments of rows, 3 a row cut into chunks of elements.
        rows: most rows of a unit in one tile; 1 in tier 3.
        elements: most elements of a row in one tile.
        reason: why this tier.
        arithmetic: the calculation, as lines of text.
    """

    tier: int
    rows: int
    elements: int
    reason: str
    arithmetic: tuple[str, ...]


def choose_tier(
    board: Board,
    *,
    rows: int,
    row_elements: int,
    itemsize: int,
    buffers: int = 1,
) -> Fit:
    """Return the first tier whose tile fits in one of `buffers` NRAM buffers.

    Args:
        rows: rows per unit.
        row_elements: elements per row.
        itemsize: bytes per element.
        buffers: equal parts that the usable NRAM is divided into.

    A unit of more than `MAX_SEGMENTS` rows is cut as if it did not fit: one copy takes no more. Raises `PlanError` if
    not one element fits in a buffer.
    """
    capacity = buffer_bytes(board, buffers)
    row_bytes = row_elements * itemsize
    unit_bytes = rows * row_bytes
    usable = f"usable NRAM {group_digits(board.nram_usable_bytes)} B"
    nram_text = usable if buffers == 1 else f"{usable} / {buffers} buffers = {group_digits(capacity)} B each"
    if capacity < itemsize:
        raise PlanError(
            f"{board.name} has {nram_text}, and allocations are rounded up to {board.vector_alignment_bytes} B: no "
            f"element of {itemsize} B fits; {MORE_NRAM}"
        )
    units = capacity // unit_bytes
    division = (
        f"{nram_text}; {group_digits(capacity)} B // {group_digits(unit_bytes)} B per unit = {plural(units, 'unit')}"
    )
    if units and rows <= MAX_SEGMENTS:
        return Fit(
            tier=1,
            rows=rows,
            elements=row_elements,
            reason=f"a unit of {group_digits(unit_bytes)} B fits in a buffer of {group_digits(capacity)} B",
            arithmetic=(division,),
        )
    if row_bytes > capacity:
        return _cut_rows(row_elements, itemsize, capacity, division)
    reason = (
        f"a unit of {group_digits(unit_bytes)} B does not fit in a buffer of {group_digits(capacity)} B, but a row of "
        f"{group_digits(row_bytes)} B does"
        if not units
        else f"a unit has {group_digits(rows)} rows, and one copy takes at most {group_digits(MAX_SEGMENTS)} (segnum "
        f"{group_digits(MAX_SEGNUM)})"
    )
    fitting = capacity // row_bytes
    tile_rows = min(fitting, MAX_SEGMENTS, rows)
    return Fit(
        tier=2,
        rows=tile_rows,
        elements=row_elements,
        reason=reason,
        arithmetic=(
            division,
            f"{group_digits(capacity)} B // {group_digits(row_bytes)} B per row = {group_digits(fitting)} rows",
            _parts_text(rows, "rows", "segments", tile_rows),
        ),
    )


def _cut_rows(row_elements: int, itemsize: int, capacity: int, division: str) -> Fit:
    """Return the tier of rows that exceed the capacity: chunks of a row."""
    row_bytes = row_elements * itemsize
    elements = capacity // itemsize
    return Fit(
        tier=3,
        rows=1,
        elements=elements,
        reason=f"not even a row of {group_digits(row_bytes)} B fits in a buffer of {group_digits(capacity)} B",
        arithmetic=(
            division,
            f"{group_digits(capacity)} B // {group_digits(row_bytes)} B per row = 0 rows",
            _parts_text(row_elements, "elements per row", "chunks", elements),
        ),
    )


def _parts_text(total: int, unit_name: str, parts: str, size: int) -> str:
    count = ceil_div(total, size)
    last = total - (count - 1) * size
    cut_into = f"{group_digits(count)} {parts} of up to {group_digits(size)}, the last of {group_digits(last)}"
    return f"{group_digits(total)} {unit_name} = {cut_into}"
