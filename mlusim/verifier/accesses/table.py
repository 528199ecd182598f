"""The access table: the bytes that each operand of the log reads or writes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES, BLIND_ATOMICS, FETCHING, SET_NAMES
from mlusim.log import NONE, Log
from mlusim.verifier.accesses.geometry import Geometries, Geometry, geometry_of, group_rows
from mlusim.verifier.accesses.partial_results import BY_DATA, BY_SHAPE, WITH_SCRATCH, by_element, written_box
from mlusim.verifier.accesses.row_geometry import first_rows, geometry_of_rows, runs_geometry

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

    def where(self, chosen: Any) -> Accesses:
        """Return the table restricted to the chosen rows."""
        return Accesses(
            self.record[chosen],
            self.alloc[chosen],
            self.offset[chosen],
            self.geometry[chosen],
            self.low[chosen],
            self.high[chosen],
            self.write[chosen],
            self.geometries,
            self.unknown,
        )

    def of(self, row: int) -> tuple[Geometry, int]:
        """Return the geometry and the offset of one row."""
        return self.geometries[int(self.geometry[row])], int(self.offset[row])

    def meeting(self, row: int) -> Flags:
        """By access, whether its first to last byte meet those of one access."""
        meets = (self.alloc == self.alloc[row]) & (self.low < self.high[row]) & (self.high > self.low[row])
        return np.asarray(meets)


def accesses_of(log: Log, columns: dict[str, Integers]) -> Accesses:
    """Return all accesses of a log."""
    tables = []
    for name, writing in (("dst", 1), ("a", 0), ("b", 0)):
        rows = np.flatnonzero(columns[f"{name}_alloc"] != NONE)
        operand = (columns[f"{name}_{part}"][rows] for part in ("alloc", "offset", "box"))
        tables.append(np.stack([rows, *operand, np.full(len(rows), writing), np.full(len(rows), "dab".index(name[0]))]))
    if not WITH_SCRATCH.isdisjoint(log.ops):
        # The table of the second source, whose fifth row says whether it writes.
        tables[-1][4] = _are(log, columns, WITH_SCRATCH)[tables[-1][0]]
    # An atomic also reads its destination.
    combining = [code for code, name in enumerate(log.ops) if name in ATOMIC_NAMES - BLIND_ATOMICS]
    if combining:
        rows = np.flatnonzero(np.isin(columns["op"], combining))
        operand = (columns[f"dst_{part}"][rows] for part in ("alloc", "offset", "box"))
        tables.append(np.stack([rows, *operand, np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)]))
    # All others read them.
    writes = _are(log, columns, {*SORTING, *FETCHING, *WITH_SCRATCH})
    further = [
        (record, *operand, int(writes[record]), 2)
        for record, operands in log.more_operands.items()
        for operand in operands
    ]
    if further:
        tables.append(np.array(further, np.int64).T)
    record, alloc, offset, box, write, side = _in_log_order(tables)
    del tables
    geometry, geometries = _Operands(log, columns, record, box, side).geometries()
    unknown = _leave_out_unknown(log, (record, alloc, side), geometry)
    present = geometry != NONE
    if not present.all():
        record, alloc, offset, geometry, write = (part[present] for part in (record, alloc, offset, geometry, write))
    starts = np.array([one.start for one in geometries], np.int64)
    stops = np.array([one.stop for one in geometries], np.int64)
    low, high = (offset + starts[geometry], offset + stops[geometry]) if geometries else (offset, offset)
    return Accesses(record, alloc, offset, geometry, low, high, write.astype(bool), geometries, unknown=unknown)


def scratch_rows(log: Log, columns: dict[str, Integers], accesses: Accesses) -> Flags:
    """By access, whether it leaves undefined bytes in an instruction's scratch: a write, but not of its result."""
    record = accesses.record
    if WITH_SCRATCH.isdisjoint(log.ops):
        return np.zeros(len(record), bool)
    result = (columns["dst_alloc"][record] == accesses.alloc) & (columns["dst_offset"][record] == accesses.offset)
    has_scratch = _are(log, columns, WITH_SCRATCH)[record]
    return np.asarray(has_scratch & accesses.write & ~result, bool)


def _are(log: Log, columns: dict[str, Integers], names: Collection[str]) -> Flags:
    """By record, whether its operation is one of `names`."""
    return np.isin(columns["op"], [code for code, name in enumerate(log.ops) if name in names])


def _in_log_order(tables: list[Integers]) -> Iterator[Integers]:
    """Concatenate tables and sort by their first row, yielding one row at a time to save memory on long logs."""
    order = np.argsort(np.concatenate([table[0] for table in tables]), kind="stable")
    for number in range(len(tables[0])):
        yield np.concatenate([table[number] for table in tables])[order]


def _leave_out_unknown(log: Log, table: tuple[Integers, Integers, Integers], geometry: Integers) -> frozenset[int]:
    """Drop accesses with unknown rows, and return the allocations that they touch."""
    unread = [record for record, addresses in log.addresses.items() if "unknown" in addresses]
    if not unread:
        return frozenset()
    record, alloc, side = table
    dropped = np.isin(record, unread) & (side < 2)
    geometry[dropped] = NONE
    return frozenset(alloc[dropped].tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _Operands:
    """The operands of all operations, by column.

    Attributes:
        log, columns: the run.
        record: index of the record.
        box: index of the operand's box in the log.
        side: 0 for `dst`, 1 for the first source, 2 for all others.
    """

    log: Log
    columns: dict[str, Integers]
    record: Integers
    box: Integers
    side: Integers

    def geometries(self) -> tuple[Integers, Geometries]:
        """Return the geometry of each operand, NONE for an empty one, and the distinct geometries."""
        log, geometries = self.log, Geometries()
        # The last entry stands for an empty operand.
        of_box = np.full(len(log.boxes) + 1, NONE, np.int64)
        for code in np.unique(self.box).tolist():
            of_box[code] = geometries.add(geometry_of(log.boxes[code]))
        geometry = of_box[self.box]
        self._narrow_to_rows(geometry, geometries)
        self._narrow_to_selected(geometry, geometries)
        self._narrow_to_shapes(geometry, geometries)
        return geometry, geometries

    def _narrow_to_rows(self, geometry: Integers, geometries: Geometries) -> None:
        """Restrict counted operations to the rows that they moved: by number if recorded, else the leading rows."""
        log, columns = self.log, self.columns
        codes = [log.ops.index(name) for name in (*BY_ROWS, COLLECT, *FILTERS) if name in log.ops]
        if not codes:
            return
        # These select elements, and read their whole source whatever they select.
        by_elements = {log.ops.index(name) for name in FILTERS if name in log.ops}
        selecting = by_elements | {log.ops.index(name) for name in (COLLECT,) if name in log.ops}
        record, box, side = self.record, self.box, self.side
        cached: dict[tuple[int, int], int] = {}
        op = columns["op"][record]
        narrowed = np.flatnonzero(np.isin(op, codes) & (side < np.where(np.isin(op, [*by_elements]), 1, 2)))
        columns_of_rows = (part[narrowed].tolist() for part in (op, record, box, side))
        for row, code, number, of_box, is_source in zip(narrowed.tolist(), *columns_of_rows, strict=True):
            whole = log.boxes[of_box]
            rows = by_element(whole) if code in by_elements else whole
            row_bytes = rows.itemsize * math.prod(rows.shape[1:])
            if not row_bytes:
                continue
            addresses = log.addresses.get(number, {})
            row_numbers = addresses.get("src" if is_source else "dst")
            if row_numbers is None and code in selecting:
                continue
            if row_numbers is None:
                moved = int(columns["bytes_requested"][number]) // row_bytes
                key = (of_box, moved)
                if key not in cached:
                    cached[key] = geometries.add(first_rows(moved, rows.strides[0], row_bytes))
                geometry[row] = cached[key]
                continue
            lengths = addresses.get("lengths")
            geometry[row] = geometries.add(
                geometry_of_rows(row_numbers, rows.strides[0], row_bytes)
                if lengths is None
                else runs_geometry(row_numbers.astype(np.int64) * row_bytes, lengths * row_bytes)
            )

    def _narrow_to_selected(self, geometry: Integers, geometries: Geometries) -> None:
        """Restrict the results of instructions that write the elements that they select."""
        log, columns = self.log, self.columns
        codes = [code for code, name in enumerate(log.ops) if name in BY_DATA]
        if not codes or not log.selected:
            return
        record, box, side = self.record, self.box, self.side
        cached: dict[tuple[int, bytes], int] = {}
        rows = np.flatnonzero(np.isin(columns["op"][record], codes) & (side == 0))
        for row, number in zip(rows.tolist(), record[rows].tolist(), strict=True):
            bits = log.selected.get(number)
            if bits is None:
                continue
            key = int(box[row]), bits
            if key not in cached:
                elements = by_element(log.boxes[key[0]])
                positions = np.flatnonzero(log.selection(number, elements.shape[0]))
                cached[key] = geometries.add(geometry_of_rows(positions, elements.itemsize, elements.itemsize))
            geometry[row] = cached[key]

    def _narrow_to_shapes(self, geometry: Integers, geometries: Geometries) -> None:
        """Restrict the results of instructions that write a part of known shape."""
        log, columns = self.log, self.columns
        codes = [code for code, name in enumerate(log.ops) if name in BY_SHAPE]
        if not codes:
            return
        record, box, side = self.record, self.box, self.side
        rows = np.flatnonzero(np.isin(columns["op"][record], codes) & (side == 0))
        first, kind, _ = group_rows(columns["op"][record[rows]], box[rows], columns["a_box"][record[rows]])
        numbers = np.empty(len(first), np.int64)
        for number, row in enumerate(rows[first].tolist()):
            name, source = log.ops[int(columns["op"][record[row]])], int(columns["a_box"][record[row]])
            numbers[number] = geometries.add(
                geometry_of(written_box(name, log.boxes[int(box[row])], log.boxes[source]))
            )
        geometry[rows] = numbers[kind]
