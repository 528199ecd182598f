"""The log: one record per operation, in columns of integers. All reports are computed from it.

A record is appended when an operation is issued and completed when it ends, so records of one task stand in program
order. Operands are boxes: an allocation, a byte offset in it, and an interned geometry (shape, strides, item size).
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from mlusim import records
from mlusim.errors import InputError
from mlusim.files import atomic_write
from mlusim.inputs import as_path
from mlusim.records import Integers, Records

NONE = records.NONE
_CSV_PIECE = 100_000

NO_OPERAND = (NONE, NONE, NONE)

# Pipes of a core. SYNC is not a pipe: it holds what the task itself waits for.
PIPES = ("scalar", "vector", "tensor", "io", "move", "sync")
SCALAR, VECTOR, TENSOR, IO, MOVE, SYNC = range(6)

# `detail` of a copy: how it was issued. `detail` of a sync: one bit per pipe. `detail` of a barrier: its number.
# `detail` of scalar arithmetic: cycles of each operation, NONE for the board's ordinary one.
ASYNCHRONOUS, BLOCKING = 0, 1


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task: its core, and its times. `end_ps` is -1 while it runs."""

    launch: int
    task_id: int
    cluster: int
    core: int
    is_memory_core: bool
    start_ps: int
    end_ps: int = -1


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One kernel launch. Times in picoseconds of simulated time; -1 while not reached."""

    kernel: str
    kind: str
    dim: tuple[int, int, int]
    queue: int
    start_ps: int
    end_ps: int = -1


@dataclass(frozen=True, slots=True)
class AllocationRecord:
    """One allocation: where, how large, by which task (-1: the host), from when to when (-1: to the end).

    `workspace`: memory of the host that is neither input nor output: what launches leave there for later ones.
    """

    memory: str
    memory_name: str
    name: str
    address: int
    nbytes: int
    task: int
    start_ps: int
    dtype: str
    shape: tuple[int, ...]
    read_only: bool
    end_ps: int = -1
    workspace: bool = False


@dataclass(frozen=True, slots=True)
class LoopRecord:
    """The settings of a counted loop apart from its operands: enough to time it again on another board.

    `method` is `blocking`, `queued` or `instruction` (of `mlusim.memory.loops.rows_cost`), `scalar` for a loop element
    by element, `empty` for one that found no row to copy. `loads`, `operations` and `additions` are the scalar
    instructions that work out the addresses of an iteration, `extra_cycles` others; `iterations`, `selected` and
    `unread` as in `mlusim.cores.rows.Loop`.
    """

    method: str
    iterations: int
    selected: int
    loads: int
    operations: int
    additions: int
    extra_cycles: int
    unread: bool


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A stretch of a run that repeats what was simulated before it, and was not simulated itself: `mlusim.host.steady`.

    The times of its operations are extrapolated; `bound_ps` is by how much its length may be off.
    """

    start_ps: int
    end_ps: int
    operations: int
    bound_ps: int


@dataclass(frozen=True, slots=True)
class Box:
    """Shape, strides in bytes and item size of an operand."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int


class Log:
    """Records of one device, in issue order, and the tables that their numbers refer to.

    `ops` are operation names; `lines` (file, line, function); `addresses` holds, for counted operations, the array of
    element or row offsets by record (and `unknown` where a timing-only run does not know them); `host_waits` how many
    launches there were each time the host waited for them all; `host_writes` allocations, other than inputs, whose
    bytes the host wrote; `windows` by allocation the parts of it (offset, box) that launches were given; `released` by
    allocation how many records there were when it was given back; `loops` the counted loops by record; `byte_copies`
    the records of copies in the byte form, whose segments are those that the kernel named; `swallowed` the errors that
    kernels caught: message and place; `joined` calls that take part in a copy of another core
    (`mlusim.cores.shared_copy`), by record, with the record of that copy; `skipped` the stretches whose times are
    extrapolated; `unsteady` why there are none, where steady-state timing was requested.
    """

    def __init__(self, board: str, folder: str | Path | None = None) -> None:
        self.board = board
        self.records = Records(folder)
        self.ops: list[str] = []
        self.lines: list[tuple[str, int, str]] = []
        self.boxes: list[Box] = []
        self.tasks: list[TaskRecord] = []
        self.launches: list[LaunchRecord] = []
        self.allocations: list[AllocationRecord] = []
        self.addresses: dict[int, dict[str, Any]] = {}
        self.more_operands: dict[int, list[tuple[int, int, int]]] = {}
        self.host_waits: list[int] = []
        self.host_writes: set[int] = set()
        self.released: dict[int, int] = {}
        self.windows: dict[int, set[tuple[int, int]]] = {}
        self.swallowed: list[tuple[str, str]] = []
        self.loops: dict[int, LoopRecord] = {}
        self.byte_copies: list[int] = []
        self.joined: dict[int, int] = {}
        self.skipped: list[SkippedRecord] = []
        self.unsteady = ""
        self._op_codes: dict[str, int] = {}
        self._frame_lines: dict[tuple[int, int], int] = {}
        self._line_codes: dict[tuple[str, int, str], int] = {}
        self._code_objects: list[CodeType] = []
        self._box_codes: dict[tuple[tuple[int, ...], tuple[int, ...], int], int] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Frames and code objects are of the process that ran the kernels.
        return {**vars(self), "_frame_lines": {}, "_code_objects": []}

    def __len__(self) -> int:
        return self.records.count

    def __repr__(self) -> str:
        return f"<log of {self.board}: {len(self)} records of {len(self.tasks)} tasks>"

    @property
    def count(self) -> int:
        """The number of records."""
        return self.records.count

    def op(self, name: str) -> int:
        """Number of an operation name."""
        code = self._op_codes.get(name)
        if code is None:
            code = self._op_codes[name] = len(self.ops)
            self.ops.append(name)
        return code

    def frame_line(self, frame: Any) -> int:
        """Number of the source line that a Python frame is at."""
        # id() and not the code object: hashing one walks its constants. The list keeps it from being reused.
        key = (id(frame.f_code), frame.f_lasti)
        number = self._frame_lines.get(key)
        if number is None:
            code = frame.f_code
            self._code_objects.append(code)
            number = self._frame_lines[key] = self.source_line(code.co_filename, frame.f_lineno, code.co_name)
        return number

    def source_line(self, file: str, line: int, function: str) -> int:
        """Number of a source line, of any language, in `lines`."""
        key = (file, line, function)
        number = self._line_codes.get(key)
        if number is None:
            number = self._line_codes[key] = len(self.lines)
            self.lines.append(key)
        return number

    def box(self, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
        """Number of a geometry."""
        key = (shape, strides, itemsize)
        number = self._box_codes.get(key)
        if number is None:
            number = self._box_codes[key] = len(self.boxes)
            self.boxes.append(Box(shape, strides, itemsize))
        return number

    def join(self, record: int, copy: int, start_ps: int) -> None:
        """Write down that a call takes part in a copy of another core: its bytes count there, and only there."""
        self.joined[record] = copy
        self.records.joined(record, copy, start_ps)

    def close_allocation(self, identity: int, now: int) -> None:
        """Write down when an allocation was freed."""
        self.released[identity] = self.count
        self.allocations[identity] = replace(self.allocations[identity], end_ps=now)

    def close_task(self, index: int, now: int) -> None:
        """Write down when a task ended."""
        self.tasks[index] = replace(self.tasks[index], end_ps=now)

    def open_launch(self, index: int, now: int) -> None:
        """Write down when a launch began."""
        self.launches[index] = replace(self.launches[index], start_ps=now)

    def close_launch(self, index: int, now: int) -> None:
        """Write down when a launch ended."""
        self.launches[index] = replace(self.launches[index], end_ps=now)

    def table(self) -> Integers:
        """All records as an int64 array of (records, columns), a copy."""
        return self.records.table()

    def columns(self) -> dict[str, Integers]:
        """All records by column name."""
        return self.records.columns()

    def to_pandas(self) -> Any:
        """All records as a `pandas.DataFrame`, names instead of numbers; needs the extra `mlusim[explore]`."""
        import pandas as pd

        return pd.DataFrame(self._worded(self.columns()))

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write a line for each record, with the columns of `to_pandas`, times in ps, sizes in bytes; gives the path.

        It is written in pieces: a log of any length takes little memory. Raises `InputError` where the file cannot be
        written.
        """
        target = as_path(path)
        try:
            with atomic_write(target) as stream:
                text = TextIOWrapper(stream, encoding="utf-8", newline="")
                writer = csv.writer(text, lineterminator="\n")
                for first in range(0, max(self.count, 1), _CSV_PIECE):
                    piece = self._worded(self.records.columns(first, min(first + _CSV_PIECE, self.count)))
                    if not first:
                        writer.writerow(piece)
                    writer.writerows(zip(*(column.tolist() for column in piece.values()), strict=True))
                text.detach()  # flushed, and the stream stays open
        except OSError as error:
            raise InputError(f"{target}: the operations cannot be written there: {error.strerror or error}") from error
        return target

    def _worded(self, columns: dict[str, Integers]) -> dict[str, np.ndarray[Any, Any]]:
        """Columns of records with names in place of numbers."""
        kinds = [*(record.memory for record in self.allocations), ""]
        lines = [*(f"{Path(file).name}:{line}" for file, line, _ in self.lines), ""]
        names = [*(record.name for record in self.allocations), ""]
        worded = {
            "op": np.array([*self.ops, ""], object)[columns["op"]],
            "pipe": np.array(PIPES, object)[columns["pipe"]],
            "line": np.array(lines, object)[columns["line"]],
            **{side: np.array(names, object)[columns[f"{side}_alloc"]] for side in ("dst", "a", "b")},
            **{f"{side}_memory": np.array(kinds, object)[columns[f"{side}_alloc"]] for side in ("dst", "a")},
        }
        plain = {name: column for name, column in columns.items() if not name.endswith(("_alloc", "_box", "direction"))}
        return plain | worded
