"""The log: one record per operation, in columns of integers. All reports are computed from it.

A record is appended when an operation is issued and completed when it ends, so the records of a task are in program
order. Operands are boxes: an allocation, a byte offset in it, and an interned geometry (shape, strides, item size).
`mlusim.records` has the records, `mlusim.log_tables` the entries of the tables that they index.
"""

from __future__ import annotations

import csv
import os
import weakref
from collections.abc import Mapping
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlusim.arrays import Array, Integers
from mlusim.errors import InputError
from mlusim.files import atomic_write, writing
from mlusim.inputs import as_count, as_path, as_text
from mlusim.log_tables import (
    AllocationRecord,
    Box,
    HostRecord,
    LaunchRecord,
    LoopRecord,
    Remark,
    SkippedRecord,
    TaskRecord,
)
from mlusim.records import NONE as NONE  # noqa: PLC0414 - exported
from mlusim.records import Records
from mlusim.source_code import source_name
from mlusim.units import plural

# Records read at once, to save memory on long logs.
_PIECE = 100_000

NO_OPERAND = (NONE, NONE, NONE)

# Pipes of a core. SYNC is not a pipe: its records are the waits of the task itself.
PIPES = ("scalar", "vector", "tensor", "io", "move", "sync")
SCALAR: Final = 0
VECTOR: Final = 1
TENSOR: Final = 2
IO: Final = 3
MOVE: Final = 4
SYNC: Final = 5

# The column `detail` has what only one kind of operation needs:
#   copies, sets, atomics   ASYNCHRONOUS or BLOCKING
#   syncs                   the pipes that it waits for, as bits
#   barriers                the number of the round
#   locks                   the number of the lock, above the bits of all pipes (`locks.lock_number`)
#   compute pipe            elements of the first operand, or ON_INTEGERS: a tensor instruction that multiplies integers
#   scalar arithmetic       cycles of each operation, or NONE: the board's ordinary one, or COUNTERS: those of bins
ASYNCHRONOUS: Final = 0
BLOCKING: Final = 1
ON_INTEGERS: Final = 0
COUNTERS: Final = -2


class Log:
    """Records of one device, in issue order, and the tables that they index.

    Attributes:
        ops: operation names.
        lines: source lines: (file, line, function).
        calls: by line of a helper function, the lines that called it: (file, line) each. A call in another helper has
            an entry of its own.
        lambdas: the lines, as in `calls`, that issued operations in a lambda.
        sources: of a saved run that was loaded, the text of each source file.
        boxes: geometries of operands.
        tasks, launches, allocations: one record each.
        addresses: for counted operations, by record, the arrays of element or row offsets, of any integer type;
            `lengths` if `src` has the first rows of runs; `unknown` if a timing-only run does not know them. By
            record of a lookup, `dst` has the elements whose index lies beyond the table.
        selected: by record of an instruction that selects elements by data, a bit for each element of its result: of
            element i, bit i % 8 of byte i // 8; 0 beyond the last byte. Moves that write everything are not in it. By
            record of a lookup, a bit for each element of its table, unless all are looked up.
        attributes: by record of an instruction whose result depends on them by position, its attributes by name.
        more_operands: operands beyond the three of a record, by record.
        host: what the host did with the device's memory, and when it waited.
        windows: by allocation, the parts (offset, box) that were passed to launches.
        released: by allocation, the number of records when it was freed.
        loops: the counted loops, by record.
        byte_copies: records of copies in the byte form; the kernel chose their segments.
        swallowed: errors that kernels caught: message, location, and file and line of the location; line 0 if unknown.
        remarks: observations that records do not show, by kind and line.
        of_file: arrays at file scope, which other kernels of the C++ file may use.
        seen: records of scalar loads that returned no value of fresh memory. A loop has one record for all loads of a
            line and one for all its stores, which do not tell their order within the loop.
        joined: by record, the copy of another core that a call takes part in (`mlusim.cores.copies.shared_copy`).
        skipped: parts of the run with extrapolated times.
        unsteady: why nothing was skipped, if steady-state timing was requested.
    """

    def __init__(self, board: str, folder: str | Path | None = None) -> None:
        self.board = board
        self.records = Records(folder)
        if folder is not None:
            weakref.finalize(self, self.records.close)
        self.ops: list[str] = []
        self.lines: list[tuple[str, int, str]] = []
        self.calls: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self.lambdas: set[tuple[str, int]] = set()
        self.sources: dict[str, str] = {}
        self.boxes: list[Box] = []
        self.tasks: list[TaskRecord] = []
        self.launches: list[LaunchRecord] = []
        self.allocations: list[AllocationRecord] = []
        self.addresses: dict[int, dict[str, Any]] = {}
        self.selected: dict[int, bytes] = {}
        # The distinct values of `selected`: loops use the same masks again and again.
        self._masks: dict[bytes, bytes] = {}
        self.attributes: dict[int, Mapping[str, Any]] = {}
        self.more_operands: dict[int, list[tuple[int, int, int]]] = {}
        self.host = HostRecord()
        self.released: dict[int, int] = {}
        self.windows: dict[int, set[tuple[int, int]]] = {}
        self.swallowed: list[tuple[str, str, str, int]] = []
        self.remarks: dict[tuple[str, int], Remark] = {}
        self.of_file: set[int] = set()
        # 0, 1, 2, ..., of which `addresses` has parts.
        self._positions = np.arange(0)
        self.seen: set[int] = set()
        self.loops: dict[int, LoopRecord] = {}
        self.byte_copies: list[int] = []
        self.joined: dict[int, int] = {}
        self.skipped: list[SkippedRecord] = []
        self.unsteady = ""
        self._op_codes: dict[str, int] = {}
        self._line_codes: dict[tuple[str, int, str], int] = {}
        self._box_codes: dict[tuple[tuple[int, ...], tuple[int, ...], int], int] = {}
        # By layout of a view, the index of its geometry in `boxes`.
        self.layout_boxes: dict[object, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Layouts belong to the process that ran the kernels.
        return {**vars(self), "layout_boxes": {}}

    def __len__(self) -> int:
        return self.records.count

    def __repr__(self) -> str:
        return f"<log of {self.board}: {plural(len(self), 'record')} of {plural(len(self.tasks), 'task')}>"

    @property
    def count(self) -> int:
        """The number of records."""
        return self.records.count

    @property
    def tensors(self) -> list[AllocationRecord]:
        """The tensors of the host: inputs and outputs, without workspace."""
        return [self.allocations[identity] for identity, role in self.roles().items() if role != "workspace"]

    def roles(self) -> dict[int, str]:
        """Return what each allocation of the host is to the launches: `input`, `output` or `workspace`.

        An input is memory that the host has written and no kernel writes; or that kernels only read and the host does
        not copy back, as in a run without data, whose inputs need no contents. Memory of a program that allocates by
        CNRT does not say what it is for: what the program copies back is an output, all else that kernels write is
        workspace.
        """
        kernel_outputs = self._named_in("dst_alloc")
        only_read = self._named_in("a_alloc", "b_alloc") - self.host.reads - self.host.read_parts.keys()
        host_inputs = self.host.writes | only_read
        roles = {}
        for identity, record in enumerate(self.allocations):
            if record.task != NONE or record.memory != "gdram":
                continue
            if record.read_only or (identity in host_inputs and identity not in kernel_outputs):
                roles[identity] = "input"
            elif record.workspace and identity not in self.host.reads:
                roles[identity] = "workspace"
            else:
                roles[identity] = "output"
        return roles

    def _named_in(self, *operands: str) -> set[int]:
        """Return the allocations in columns of operands, read in parts to save memory on long logs."""
        is_named = np.zeros(len(self.allocations) - NONE, bool)  # the last one is NONE
        for first in range(0, len(self), _PIECE):
            part = slice(first, min(first + _PIECE, len(self)))
            for operand in operands:
                is_named[self.records.column(operand, part)] = True
        return set(np.flatnonzero(is_named[:NONE]).tolist())

    def op(self, name: str) -> int:
        """Return the index of an operation name in `ops`."""
        code = self._op_codes.get(name)
        if code is None:
            code = self._op_codes[name] = len(self.ops)
            self.ops.append(name)
        return code

    def instruction(
        self,
        op: str,
        pipe: int,
        *,
        direction: int = NONE,
        count: int = 1,
        nbytes: int = 0,
        bus_read: int = 0,
        bus_write: int = 0,
        alone_ps: int = 0,
        detail: int = 0,
        dst_box: int = NONE,
        a_box: int = NONE,
        b_box: int = NONE,
    ) -> int:
        """Return the index of an instruction for `records.add`: what `mlusim.records.INSTRUCTION` lists."""
        boxes = dst_box, a_box, b_box
        return self.records.instruction(
            self.op(op), pipe, direction, count, nbytes, bus_read, bus_write, alone_ps, detail, *boxes
        )

    def source_line(self, file: str, line: int, function: str) -> int:
        """Return the index in `lines` of a source line, in any language."""
        key = (as_text("file", file), as_count("line", line, minimum=0), as_text("function", function))
        number = self._line_codes.get(key)
        if number is None:
            number = self._line_codes[key] = len(self.lines)
            self.lines.append(key)
        return number

    def box(self, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
        """Return the index of a geometry in `boxes`."""
        key = (shape, strides, itemsize)
        number = self._box_codes.get(key)
        if number is None:
            number = self._box_codes[key] = len(self.boxes)
            self.boxes.append(Box(shape, strides, itemsize))
        return number

    def join(self, record: int, copy: int, start_ps: int) -> None:
        """Record that a call takes part in a copy of another core; bytes are counted for that copy only."""
        self.joined[record] = copy
        self.records.join(record, copy, start_ps)

    def copy_back(self, identity: int, first: int, end: int) -> None:
        """Record that the host copies bytes of an allocation back."""
        self.host.read_parts.setdefault(identity, set()).add((first, end))
        self.host.copied_back.append((len(self.launches), identity, first, end))

    def remark(self, remark: Remark) -> None:
        """Add an observation; those of one kind and line are counted, and the first one is kept."""
        key = remark.kind, remark.line
        first = self.remarks.get(key)
        self.remarks[key] = remark if first is None else replace(first, times=first.times + 1)

    def positions(self, count: int) -> Integers:
        """Return 0 to `count` for `addresses`, as a part of an array that all records share."""
        if count > len(self._positions):
            self._positions = np.arange(max(count, 2 * len(self._positions)))
        return self._positions[:count]

    def select(self, record: int, mask: bytes) -> None:
        """Record which elements an instruction selects, as in `selected`."""
        self.selected[record] = self._masks.setdefault(mask, mask)

    def selection(self, record: int, size: int) -> Any:
        """Return whether each of `size` elements of a result is selected, from `selected`."""
        mask = self.selected.get(as_count("record", record, minimum=0))
        if mask is None:
            raise InputError(f"record {record} has no selection: `selected` has the records that do")
        bytes_of_mask = np.frombuffer(mask, np.uint8)
        return np.unpackbits(bytes_of_mask, count=size, bitorder="little").view(bool)

    def table(self) -> Integers:
        """Return a copy of all records as an int64 array of shape (records, columns)."""
        return self.records.table()

    def columns(self) -> dict[str, Integers]:
        """Return all records by column name."""
        return self.records.columns()

    def to_pandas(self) -> Any:
        """Return all records as a `pandas.DataFrame`, with names for indices; requires the extra `mlusim[explore]`."""
        import pandas as pd

        return pd.DataFrame(self._with_names(self.columns()))

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write one CSV line per record, with the columns of `to_pandas`, and return the path.

        Times are in picoseconds, sizes in bytes. The file is written in pieces, so a log of any length takes little
        memory. Raises `InputError` if the file cannot be written.
        """
        target = as_path(path)
        with writing(target), atomic_write(target) as stream:
            text = TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
            writer = csv.writer(text, lineterminator="\n")
            for first in range(0, max(self.count, 1), _PIECE):
                columns = self._with_names(self.records.columns(first, min(first + _PIECE, self.count)))
                if not first:
                    writer.writerow(columns)
                writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
            text.detach()  # flushes, and leaves the stream open
        return target

    def _with_names(self, columns: dict[str, Integers]) -> dict[str, Array]:
        """Replace indices in columns of records by names."""
        kinds = [*(record.memory for record in self.allocations), ""]
        lines = [*(f"{source_name(file)}:{line}" for file, line, _ in self.lines), ""]
        names = [*(record.name for record in self.allocations), ""]
        worded = {
            "op": np.array([*self.ops, ""], object)[columns["op"]],
            "pipe": np.array(PIPES, object)[columns["pipe"]],
            "line": np.array(lines, object)[columns["line"]],
            **{side: np.array(names, object)[columns[f"{side}_alloc"]] for side in ("dst", "a", "b")},
            **{f"{side}_memory": np.array(kinds, object)[columns[f"{side}_alloc"]] for side in ("dst", "a")},
        }
        numeric = {
            name: column for name, column in columns.items() if not name.endswith(("_alloc", "_box", "direction"))
        }
        return numeric | worded
