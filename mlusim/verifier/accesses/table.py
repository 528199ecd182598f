"""The access table: the bytes that each operand of the log reads or writes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.atomics import ATOMIC_NAMES, BLIND_ATOMICS, FETCHING
from mlusim.cores.memory_sets import SET_NAMES
from mlusim.log import NONE, Log
from mlusim.verifier.accesses.geometry import Geometries, Geometry, geometry_of, group_rows
from mlusim.verifier.accesses.partial_results import BY_DATA, BY_SHAPE, WITH_SCRATCH, by_element, written_box
from mlusim.verifier.accesses.row_geometry import first_rows, geometry_of_rows, runs_geometry
from mlusim.verifier.columns import narrow, ops_among

# Operations that stand for many row copies: only the rows moved count as accessed.
BY_ROWS = ("memcpy_rows", "scalar_copy", "gather", "scatter", "load_rows", "store_rows")
# Writes as many elements as its mask selects.
COLLECT = "collect"
# Write their additional operands.
SORTING = ("collect_bins", "scalar_bins")
# The same as instructions of the vector pipe.
FILTERS = ("filter", "filter_bitindex")
# Fill memory with one value.
FILLS = frozenset({*SET_NAMES, "write_zero", "write_value", "fill"})
# Records whose accesses are listed at once.
_PART = 1 << 16
# In place of the geometry of a box that no operand had so far.
_NOT_MADE = -2


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """The access table, by column, in log order.

    Attributes:
        record: index of the record in the log.
        alloc: index of the allocation.
        offset: first byte of the operand within the allocation.
        geometry: index into `geometries`.
        low, high: byte range [low, high) of the allocation that encloses the operand.
        write: True for writes.
        geometries: the distinct geometries.
        unknown: allocations for which a timing-only run does not know the bytes accessed; their accesses are left out.
    """

    record: Integers
    alloc: Integers
    offset: Integers
    geometry: Integers
    low: Integers
    high: Integers
    write: Flags
    geometries: Geometries
    unknown: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.record)

    @property
    def single_run(self) -> Flags:
        """By geometry, whether it is a single run of bytes."""
        return self.geometries.single

    def where(self, rows: Any) -> Accesses:
        """Return the table restricted to the chosen rows."""
        return Accesses(
            self.record[rows],
            self.alloc[rows],
            self.offset[rows],
            self.geometry[rows],
            self.low[rows],
            self.high[rows],
            self.write[rows],
            self.geometries,
            self.unknown,
        )

    def of(self, row: int) -> tuple[Geometry, int]:
        """Return the geometry and the offset of one row."""
        return self.geometries[int(self.geometry[row])], int(self.offset[row])

    def meeting(self, row: int) -> Flags:
        """By access, whether its first to last byte meet those of one access."""
        overlaps = (self.alloc == self.alloc[row]) & (self.low < self.high[row]) & (self.high > self.low[row])
        return np.asarray(overlaps)


def accesses_of(log: Log, columns: dict[str, Integers]) -> Accesses:
    """Return all accesses of a log."""
    maker, count = _TableMaker(log, columns), len(columns["op"])
    # A part at a time, to save memory on long logs.
    parts = [maker.part(first, min(first + _PART, count)) for first in range(0, max(count, 1), _PART)]
    record, alloc, offset, geometry, write = (np.concatenate([part.pop(0) for part in parts]) for _ in range(5))
    starts, stops = (narrow(edges) for edges in maker.geometries.edges)
    low, high = (narrow(offset + edges[geometry]) if len(edges) else offset for edges in (starts, stops))
    return Accesses(record, alloc, offset, geometry, low, high, write, maker.geometries, frozenset(maker.unknown))


def scratch_rows(log: Log, columns: dict[str, Integers], accesses: Accesses) -> Flags:
    """By access, whether it leaves undefined bytes in an instruction's scratch: a write, but not of its result."""
    record = accesses.record
    if WITH_SCRATCH.isdisjoint(log.ops):
        return np.zeros(len(record), bool)
    result = (columns["dst_alloc"][record] == accesses.alloc) & (columns["dst_offset"][record] == accesses.offset)
    has_scratch = ops_among(log, WITH_SCRATCH)[columns["op"]][record]
    return np.asarray(has_scratch & accesses.write & ~result, bool)


class _TableMaker:
    """Makes the access table of a log, some records at a time.

    The *side* of an operand is 0 for `dst`, 1 for the first source, and 2 for all others.

    Args:
        log, columns: the log, and its records by column.

    Attributes:
        geometries: those of all parts so far.
        unknown: as `Accesses.unknown`.
    """

    def __init__(self, log: Log, columns: dict[str, Integers]) -> None:
        self._log = log
        self._columns = columns
        self.geometries = Geometries()
        self.unknown: set[int] = set()
        # The last entry stands for an empty operand.
        self._of_box = np.full(len(log.boxes) + 1, _NOT_MADE, np.int64)
        self._of_box[-1] = NONE
        self._made: dict[tuple[Any, ...], int] = {}
        self._scratch = ops_among(log, WITH_SCRATCH)
        # An atomic also reads its destination.
        self._combines = ops_among(log, ATOMIC_NAMES - BLIND_ATOMICS)
        self._further = self._beyond_three(ops_among(log, {*SORTING, *FETCHING, *WITH_SCRATCH})[columns["op"]])
        self._unread = [record for record, addresses in log.addresses.items() if "unknown" in addresses]

    def _beyond_three(self, writes: Flags) -> Integers:
        """Return the operands beyond the three of a record: [columns of a part, operands], by record."""
        further = [
            (record, *operand, int(writes[record]), 2)
            for record, operands in sorted(self._log.more_operands.items())
            for operand in operands
        ]
        return np.array(further, np.int64).reshape(-1, 6).T

    def part(self, first: int, last: int) -> list[Any]:
        """Return record, allocation, offset, geometry and write of the accesses of records [first, last)."""
        op = self._columns["op"][first:last]
        tables = []
        for side, name in enumerate(("dst", "a", "b")):
            rows = np.flatnonzero(self._columns[f"{name}_alloc"][first:last] != NONE)
            writes = self._scratch[op[rows]] if side == 2 else np.full(len(rows), side == 0)
            tables.append(self._operands(rows + first, name, writes, side))
        rows = np.flatnonzero(self._combines[op])
        tables.append(self._operands(rows + first, "dst", np.zeros(len(rows), bool), 0))
        begin, end = np.searchsorted(self._further[0], (first, last))
        tables.append(self._further[:, begin:end])
        table = np.concatenate(tables, axis=1)
        in_log_order = np.argsort(table[0], kind="stable")
        # Faster than an index.
        record, alloc, offset, box, write, side = np.take(table, in_log_order, axis=1)
        geometry = self._geometries(record, box, side)
        if self._unread:
            dropped = np.isin(record, self._unread) & (side < 2)
            geometry[dropped] = NONE
            self.unknown.update(alloc[dropped].tolist())
        present = geometry != NONE
        return [*(narrow(column[present]) for column in (record, alloc, offset, geometry)), write[present].astype(bool)]

    def _operands(self, records: Integers, name: str, writes: Flags, side: int) -> Integers:
        """Return one operand of some records: [columns of a part, operands]."""
        operand = (self._columns[f"{name}_{part}"][records] for part in ("alloc", "offset", "box"))
        return np.stack([records, *operand, writes, np.full(len(records), side)])

    def _geometries(self, record: Integers, box: Integers, side: Integers) -> Integers:
        """Return the geometry of each operand, NONE for an empty one."""
        log = self._log
        for code in np.flatnonzero(np.bincount(box[self._of_box[box] == _NOT_MADE])).tolist():
            self._of_box[code] = self.geometries.add(geometry_of(log.boxes[code]))
        geometry = self._of_box[box]
        op = self._columns["op"][record]
        self._narrow_to_rows(geometry, record, op, box, side)
        if log.selected:
            self._narrow_to_selected(geometry, record, op, box, side)
        self._narrow_to_shapes(geometry, record, op, box, side)
        return geometry

    def _geometry(self, key: tuple[Any, ...], make: Callable[[], Geometry | None]) -> int:
        """Return the geometry of a key, made at its first use."""
        if key not in self._made:
            self._made[key] = self.geometries.add(make())
        return self._made[key]

    def _narrow_to_rows(
        self, geometry: Integers, record: Integers, op: Integers, box: Integers, side: Integers
    ) -> None:
        """Restrict counted operations to the rows that they moved: by number if recorded, else the leading rows."""
        log = self._log
        # These select elements, and read their whole source whatever they select.
        by_elements = ops_among(log, FILTERS)
        selecting = by_elements | ops_among(log, (COLLECT,))
        narrowed = np.flatnonzero(ops_among(log, (*BY_ROWS, COLLECT, *FILTERS))[op])
        narrowed = narrowed[side[narrowed] < np.where(by_elements[op[narrowed]], 1, 2)]
        columns_of_rows = (part[narrowed].tolist() for part in (op, record, box, side))
        for row, code, number, of_box, is_source in zip(narrowed.tolist(), *columns_of_rows, strict=True):
            result_box = log.boxes[of_box]
            rows = by_element(result_box) if by_elements[code] else result_box
            row_bytes = rows.itemsize * math.prod(rows.shape[1:])
            if not row_bytes:
                continue
            addresses = log.addresses.get(number, {})
            row_numbers = addresses.get("src" if is_source else "dst")
            if row_numbers is None and selecting[code]:
                continue
            if row_numbers is None:
                row_count = int(self._columns["bytes_requested"][number]) // row_bytes
                geometry[row] = self._geometry(
                    ("rows", of_box, row_count), partial(first_rows, row_count, rows.strides[0], row_bytes)
                )
                continue
            lengths = addresses.get("lengths")
            geometry[row] = self.geometries.add(
                geometry_of_rows(row_numbers, rows.strides[0], row_bytes)
                if lengths is None
                else runs_geometry(row_numbers.astype(np.int64) * row_bytes, lengths * row_bytes)
            )

    def _narrow_to_selected(
        self, geometry: Integers, record: Integers, op: Integers, box: Integers, side: Integers
    ) -> None:
        """Restrict the results of instructions that write the elements that they select."""
        log = self._log

        def selected(number: int, box: int) -> Geometry | None:
            elements = by_element(log.boxes[box])
            positions = np.flatnonzero(log.selection(number, elements.shape[0]))
            return geometry_of_rows(positions, elements.itemsize, elements.itemsize)

        for row in np.flatnonzero(ops_among(log, BY_DATA)[op] & (side == 0)).tolist():
            number, of_box = int(record[row]), int(box[row])
            if number in log.selected:
                key = "selected", of_box, log.selected[number]
                geometry[row] = self._geometry(key, partial(selected, number, of_box))

    def _narrow_to_shapes(
        self, geometry: Integers, record: Integers, op: Integers, box: Integers, side: Integers
    ) -> None:
        """Restrict the results of instructions that write a part of known shape."""
        log = self._log
        rows = np.flatnonzero(ops_among(log, BY_SHAPE)[op] & (side == 0))
        if not len(rows):
            return
        source = self._columns["a_box"][record[rows]]
        first, kind, _ = group_rows(op[rows], box[rows], source)
        numbers = np.empty(len(first), np.int64)
        for number, at in enumerate(first.tolist()):
            name, of_box, of_source = log.ops[int(op[rows[at]])], int(box[rows[at]]), int(source[at])
            part = written_box(name, log.boxes[of_box], log.boxes[of_source])
            numbers[number] = self._geometry((name, of_box, of_source), partial(geometry_of, part))
        geometry[rows] = numbers[kind]
