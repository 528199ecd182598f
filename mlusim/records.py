"""Records of operations in columns of integers, in 88 B each.

Properties that the geometry of an operation decides (name, pipe, bytes, boxes, ...) repeat from tile to tile. They are
stored once, in a table of instructions, and a record has the index of its instruction. The rest of a record is its
task, source line, times and operands. No other file knows the memory layout of a record.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlusim.arrays import Array, Integers
from mlusim.errors import KernelError
from mlusim.units import format_bytes, group_digits

# Times are 64-bit integers, and figures sum the times of all units of a board, memory cores included.
_MAX_PS = (1 << 63) - 1


def longest_run_ps(units: int) -> int:
    """Return the longest run, in picoseconds, for which sums of times over all units of a board are exact."""
    return _MAX_PS // (units + 1)


# The columns of a record, by name.
COLUMNS = (
    "op",
    "task",
    "pipe",
    "line",
    "issue_ps",
    "start_ps",
    "end_ps",
    "latency_ps",
    "alone_ps",
    "count",
    "bytes_requested",
    "bus_read_bytes",
    "bus_write_bytes",
    "direction",
    "waited_for",
    "detail",
    "dst_alloc",
    "dst_offset",
    "dst_box",
    "a_alloc",
    "a_offset",
    "a_box",
    "b_alloc",
    "b_offset",
    "b_box",
)
# The columns stored in the table of instructions, in order.
INSTRUCTION = (
    "op",
    "pipe",
    "direction",
    "count",
    "bytes_requested",
    "bus_read_bytes",
    "bus_write_bytes",
    "alone_ps",
    "detail",
    "dst_box",
    "a_box",
    "b_box",
)
_NUMBERS = ("instruction", "task", "line", "waited_for", "dst_alloc", "a_alloc", "b_alloc", "spare")
_TIMES = ("issue_ps", "start_ps", "end_ps", "latency_ps", "dst_offset", "a_offset", "b_offset")
_LAYOUT = np.dtype([*((name, np.int32) for name in _NUMBERS), *((name, np.int64) for name in _TIMES)])
# `spare` is padding.
_PACK: Final = struct.Struct(f"={len(_NUMBERS) - 1}i4x{len(_TIMES)}q").pack_into
# The size of a record in 4-byte and in 8-byte numbers, and the positions of numbers that are set later.
_INT32S: Final = _LAYOUT.itemsize // 4
_INT64S: Final = _LAYOUT.itemsize // 8
_WAITED_FOR: Final = _NUMBERS.index("waited_for")
_START: Final = len(_NUMBERS) // 2 + _TIMES.index("start_ps")
_END: Final = len(_NUMBERS) // 2 + _TIMES.index("end_ps")
_LATENCY: Final = len(_NUMBERS) // 2 + _TIMES.index("latency_ps")
_ALLOCATIONS = tuple(_NUMBERS.index(name) for name in ("dst_alloc", "a_alloc", "b_alloc"))
_OFFSETS = tuple(len(_NUMBERS) // 2 + _TIMES.index(name) for name in ("dst_offset", "a_offset", "b_offset"))
# The columns of an operation apart from its times.
_WHAT = ("instruction", "task", "line", "dst_alloc", "a_alloc", "b_alloc", "dst_offset", "a_offset", "b_offset")

_OP = INSTRUCTION.index("op")
# For each column, whether it is in the table of instructions, and its position.
_ROW = tuple(
    (True, INSTRUCTION.index(name)) if name in INSTRUCTION else (False, (*_NUMBERS, *_TIMES).index(name))
    for name in COLUMNS
)

RECORD_BYTES: Final = _LAYOUT.itemsize
NONE: Final = -1
# The system provides memory when it is first written, so a small run does not pay for the unused room.
_FIRST_ROOM = 16384
# When the room is used up, it grows by the first factor: a copy of the records is slow, as the system has to clear its
# memory. The second factor is for a system that refuses more room than it has memory.
_GROWTH = (8, 2)
# A file grows by this many records, 88 MiB; earlier records need not stay in memory.
_FILE_ROOM = 1 << 20


class Records:
    """Records, in the order in which they were added.

    Attributes:
        count: the number of records.

    Args:
        folder: None keeps the records in memory; otherwise they are in a scratch file in this folder, which the system
            removes with the process. Raises `OSError` if it cannot be written.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.count = 0
        self._file: Any = None if folder is None else tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - as long as it
        self._map: mmap.mmap | None = None
        self._capacity = 0
        self._instructions: list[tuple[int, ...]] = []
        self._codes: dict[tuple[int, ...], int] = {}
        self._set_rows(np.empty(_FIRST_ROOM, _LAYOUT) if folder is None else self._map_file(_FILE_ROOM))

    def __len__(self) -> int:
        return self.count

    def close(self) -> None:
        """Close the scratch file, if there is one. The records stay readable."""
        if self._file is not None:
            self._file.close()

    def instruction(self, *values: int) -> int:
        """Return the index of an instruction, given the values of `INSTRUCTION` in order; adds a new one."""
        code = self._codes.get(values)
        if code is None:
            code = self._codes[values] = len(self._instructions)
            self._instructions.append(values)
        return code

    def add(  # noqa: PLR0917 - a call with keywords costs the host more than the record
        self,
        instruction: int,
        task: int,
        line: int,
        issue_ps: int,
        start_ps: int,
        end_ps: int,
        latency_ps: int = 0,
        waited_for: int = NONE,
        dst_alloc: int = NONE,
        dst_offset: int = NONE,
        a_alloc: int = NONE,
        a_offset: int = NONE,
        b_alloc: int = NONE,
        b_offset: int = NONE,
    ) -> int:
        """Append a record and return its index.

        Args:
            instruction: from `instruction`: what records of one source line mostly have in common.
            task, line: indices into `Log.tasks` and `Log.lines`.
            issue_ps, start_ps, end_ps: times; NONE for an end that is not known yet (`set_end`).
            latency_ps: the part of a copy's start-up that was not hidden.
            waited_for: the record that it waited for, or NONE.
            dst_alloc, a_alloc, b_alloc: allocations of its operands, or NONE.
            dst_offset, a_offset, b_offset: first byte of each operand in its allocation.
        """
        record = self.count
        if record == self._capacity:
            self._grow()
        _PACK(
            self._bytes,
            record * RECORD_BYTES,
            instruction,
            task,
            line,
            waited_for,
            dst_alloc,
            a_alloc,
            b_alloc,
            issue_ps,
            start_ps,
            end_ps,
            latency_ps,
            dst_offset,
            a_offset,
            b_offset,
        )
        self.count = record + 1
        return record

    def append(self, *values: int) -> int:
        """Append a record, given all of `COLUMNS` in order, and return its index."""
        row = dict(zip(COLUMNS, values, strict=True))
        code = self.instruction(*(row.pop(name) for name in INSTRUCTION))
        return self.add(code, **row)

    def set_start(self, record: int, start_ps: int, latency_ps: int, waited_for: int) -> None:
        """Set when an operation began, the part of its start-up that was not hidden, and what it waited for."""
        self._int32s[record * _INT32S + _WAITED_FOR] = waited_for
        position = record * _INT64S
        self._int64s[position + _START] = start_ps
        self._int64s[position + _LATENCY] = latency_ps

    def set_end(self, record: int, end_ps: int) -> None:
        """Set when an operation ended."""
        self._int64s[record * _INT64S + _END] = end_ps

    def set_wait(self, record: int, waited_for: int) -> None:
        """Set the record that an operation waited for."""
        self._int32s[record * _INT32S + _WAITED_FOR] = waited_for

    def join(self, record: int, copy: int, start_ps: int) -> None:
        """Make a record part of another copy, whose record has the bytes and operands."""
        instruction = dict(zip(INSTRUCTION, self._instructions[self._int32s[record * _INT32S]], strict=True))
        nothing = dict.fromkeys(("count", "bytes_requested", "bus_read_bytes", "bus_write_bytes"), 0)
        instruction |= nothing | dict.fromkeys(("dst_box", "a_box", "b_box"), NONE)
        self._int32s[record * _INT32S] = self.instruction(*(instruction[name] for name in INSTRUCTION))
        for column in _ALLOCATIONS:
            self._int32s[record * _INT32S + column] = NONE
        for column in _OFFSETS:
            self._int64s[record * _INT64S + column] = NONE
        self._int64s[record * _INT64S + _START] = start_ps
        self.set_wait(record, copy)

    def values(self, record: int) -> dict[str, int]:
        """Return one record by column name."""
        row = self._rows[record]
        instruction = dict(zip(INSTRUCTION, self._instructions[int(row["instruction"])], strict=True))
        return {name: instruction[name] if name in instruction else int(row[name]) for name in COLUMNS}

    def op(self, record: int) -> int:
        """Return the operation of one record."""
        return self._instructions[int(self._rows["instruction"][record])][_OP]

    def instructions(self) -> tuple[dict[str, Integers], Integers]:
        """Return the columns of the table of instructions, by name, and the row of each record in that table."""
        table = np.array(self._instructions, np.int64).reshape(-1, len(INSTRUCTION))
        return dict(zip(INSTRUCTION, table.T, strict=True)), self._rows["instruction"][: self.count].astype(np.int64)

    def set_times(self, numbers: Integers, columns: Mapping[str, Integers]) -> None:
        """Replace the times of some records: `issue_ps`, `start_ps`, ..., `waited_for`."""
        for name, values in columns.items():
            self._rows[name][numbers] = values

    def rows(self, numbers: Integers) -> Array:
        """Return a copy of some records, as a structured array of the shape of their indices."""
        rows: Array = self._rows[numbers]
        return rows

    def extend(self, rows: Array) -> None:
        """Append records."""
        while self.count + len(rows) > self._capacity:
            self._grow()
        self._rows[self.count : self.count + len(rows)] = rows
        self.count += len(rows)

    def equal(self, first: int, rows: Array) -> bool:
        """Return whether the records from `first` on equal `rows`, except for their times."""
        stored = self._rows[first : first + len(rows)]
        return len(stored) == len(rows) and all(np.array_equal(stored[name], rows[name]) for name in _WHAT)

    def replace(self, first: int, rows: Array) -> None:
        """Replace the records from `first` on."""
        self._rows[first : first + len(rows)] = rows

    def row(self, record: int) -> list[int]:
        """Return one record, in the order of `COLUMNS`."""
        row = self._rows[record].item()
        values = self._instructions[row[0]]
        return [(values if by_instruction else row)[index] for by_instruction, index in _ROW]

    def columns(self, first: int = 0, last: int | None = None) -> dict[str, Integers]:
        """Return records [first, last) by column name; by default all of them."""
        # Another thread may read while records are added: read the count before the array.
        last = self.count if last is None else last
        return {name: self.column(name, slice(first, last)) for name in COLUMNS}

    def column(self, name: str, selection: slice | Integers) -> Integers:
        """Return one column of some records, chosen by a slice or by their indices."""
        rows = self._rows
        if name in INSTRUCTION:
            values = np.array(self._instructions, np.int64).reshape(-1, len(INSTRUCTION))
            values_of: Integers = values[:, INSTRUCTION.index(name)][rows["instruction"][selection]]
        else:
            values_of = rows[name][selection].astype(np.int64)
        self._drop_pages()
        return values_of

    def table(self) -> Integers:
        """Return all records as an int64 array of shape (records, columns)."""
        return np.stack(list(self.columns().values()), axis=1)

    def put_table(self, table: Integers) -> None:
        """Replace all records by the rows of an int64 array of shape (records, columns).

        Raises `ValueError` for another shape, and for numbers out of a column's range.
        """
        if table.ndim != 2 or table.shape[1] != len(COLUMNS):
            raise ValueError(f"a log of shape {list(table.shape)}")
        rows = np.zeros(max(len(table), 1), _LAYOUT)
        for name in (*_NUMBERS[1:-1], *_TIMES):
            column = table[:, COLUMNS.index(name)]
            rows[name][: len(table)] = column
            if not np.array_equal(rows[name][: len(table)], column):
                raise ValueError(f"{name} of a record is out of range")
        positions = [COLUMNS.index(name) for name in INSTRUCTION]
        unique, code = np.unique(table[:, positions], axis=0, return_inverse=True)
        rows["instruction"][: len(table)] = code.reshape(-1)
        self._instructions = [tuple(values) for values in unique.tolist()]
        self._codes = {values: number for number, values in enumerate(self._instructions)}
        self._set_rows(rows)
        self.count = len(table)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "rows": self._rows[: max(self.count, 1)].copy(),
            "instructions": self._instructions,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.count = state["count"]
        self._file = self._map = None
        self._instructions = state["instructions"]
        self._codes = {values: number for number, values in enumerate(self._instructions)}
        self._set_rows(state["rows"])

    def _set_rows(self, rows: Array) -> None:
        self._rows = rows
        self._capacity = len(rows)
        # Setting an item of a memoryview is three times as fast as setting one of an array.
        self._bytes = rows.view(np.uint8).data
        self._int32s: memoryview[int] = self._bytes.cast("i")
        self._int64s: memoryview[int] = self._bytes.cast("q")

    def _map_file(self, capacity: int) -> Array:
        """Extend the file to `capacity` records and map it."""
        nbytes = capacity * RECORD_BYTES
        if hasattr(os, "posix_fallocate"):
            # A full disk is an error here; with a sparse file it would be a signal at some later write.
            os.posix_fallocate(self._file.fileno(), 0, nbytes)
        self._file.truncate(nbytes)
        self._map = mmap.mmap(self._file.fileno(), nbytes)
        return np.frombuffer(self._map, _LAYOUT)

    def _drop_pages(self) -> None:
        """Let the system drop pages of the file that were read."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def _grow(self) -> None:
        if self._file is not None:
            try:
                self._set_rows(self._map_file(self._capacity + _FILE_ROOM))
            except OSError as error:
                reason = f"the file in log_folder cannot grow: {error.strerror}; free space there"
                raise self._no_room(reason)  # noqa: B904 - compiled, a cause is dropped
            return
        for factor in _GROWTH:
            try:
                rows = np.empty(factor * self._capacity, _LAYOUT)
            except MemoryError:
                continue
            rows[: self.count] = self._rows[: self.count]
            self._set_rows(rows)
            return
        raise self._no_room("this machine has no memory for more: keep them in a file with Device(log_folder=...)")

    def _no_room(self, reason: str) -> KernelError:
        return KernelError(
            f"the records of {group_digits(self.count)} operations take {format_bytes(self.count * RECORD_BYTES)}, and "
            f"{reason}, or simulate a smaller tensor or fewer tasks"
        )
