"""The log: one record per operation, in columns of integers. Everything that is reported is computed from it.

A record is appended when an operation is issued and completed when it ends, so records of one task stand in program
order. Operands are boxes: an allocation, a byte offset in it, and an interned geometry (shape, strides, item size).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import numpy as np

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
WIDTH = len(COLUMNS)
OP, LINE, ISSUE, START, END, LATENCY, WAITED_FOR = 0, 3, 4, 5, 6, 7, 14
RECORD_BYTES = 8 * WIDTH
NONE = -1
NO_OPERAND = (NONE, NONE, NONE)

# Pipes of a core. SYNC is no pipe: it holds what the task itself waits for.
PIPES = ("scalar", "vector", "tensor", "io", "move", "sync")
SCALAR, VECTOR, TENSOR, IO, MOVE, SYNC = range(6)

# `detail` of a copy: how it was issued. `detail` of a sync: one bit per pipe. `detail` of a barrier: its number.
# `detail` of scalar arithmetic: cycles of each operation, NONE for the board's ordinary one.
ASYNCHRONOUS, BLOCKING = 0, 1


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """Where and when one task ran. `end_ps` is -1 while it runs."""

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
    """What the time of a counted loop hangs on besides its operands: enough to time it again on another board.

    `how` is `blocking`, `queued` or `instruction` (of `mlusim.memory.loops.rows_cost`), `scalar` for a loop element by
    element, `empty` for one that found no row to copy. `loads`, `operations` and `additions` are the scalar
    instructions of a turn that work its addresses out, `extra_cycles` others; `turns`, `kept` and `unread` as in
    `mlusim.cores.rows.Loop`.
    """

    how: str
    turns: int
    kept: int
    loads: int
    operations: int
    additions: int
    extra_cycles: int
    unread: bool


@dataclass(frozen=True, slots=True)
class Box:
    """Shape, strides in bytes and item size of an operand."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int


# Memory is found as it is written to, so room for a few thousand records costs a small run nothing.
_FIRST_ROOM = 16384
pack_record = struct.Struct(f"{WIDTH}q").pack_into


class Log:
    """Records of one device, in issue order, and the tables that their numbers refer to.

    `ops` are operation names; `lines` (file, line, function); `addresses` holds, for counted operations, the array of
    element or row offsets by record (and `unknown` where a timing-only run does not know them); `host_waits` how many
    launches there were each time the host waited for them all; `host_writes` allocations, other than inputs, whose
    bytes the host wrote; `windows` by allocation the parts of it (offset, box) that launches were given; `released` by
    allocation how many records there were when it was given back; `loops` the counted loops by record; `byte_copies`
    the records of copies in the byte form, whose segments are those that the kernel named; `swallowed` the errors that
    kernels caught: message and place; `joined` calls that take part in a copy of another core
    (`mlusim.cores.shared_copy`), by record, with the record of that copy.
    """

    def __init__(self, board: str) -> None:
        self.board = board
        self.count = 0
        self.room = _FIRST_ROOM
        # A memoryview: setting one of its items is three times as fast as setting one of an array's.
        self.data: memoryview[int] = memoryview(np.empty(self.room * WIDTH, np.int64))  # type: ignore[arg-type]
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
        self._op_codes: dict[str, int] = {}
        self._frame_lines: dict[tuple[int, int], int] = {}
        self._line_codes: dict[tuple[str, int, str], int] = {}
        self._code_objects: list[CodeType] = []
        self._box_codes: dict[tuple[tuple[int, ...], tuple[int, ...], int], int] = {}

    def __len__(self) -> int:
        return self.count

    def append(self, *values: int) -> None:
        """Add a record: all of `COLUMNS`, in order."""
        count = self.count
        if count == self.room:
            self.grow()
        pack_record(self.data, count * RECORD_BYTES, *values)
        self.count = count + 1

    def grow(self) -> None:
        """Make room for as many records again."""
        grown = np.empty(2 * self.room * WIDTH, np.int64)
        grown[: self.room * WIDTH] = self.data
        self.room *= 2
        self.data = memoryview(grown)  # type: ignore[arg-type]

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

    def end(self, record: int, now: int) -> None:
        """Write down when an operation ended."""
        self.data[record * WIDTH + END] = now

    def join(self, record: int, copy: int, now: int, end_ps: int) -> None:
        """Write down that a call takes part in a copy of another core: its bytes count there, and only there."""
        self.joined[record] = copy
        mine, its = record * WIDTH, copy * WIDTH
        self.data[mine + START] = now if end_ps == NONE else max(now, end_ps)
        self.data[mine + WAITED_FOR] = copy
        for name in ("alone_ps", "count", "bytes_requested", "bus_read_bytes", "bus_write_bytes"):
            self.data[mine + COLUMNS.index(name)] = 0
        self.data[mine + COLUMNS.index("alone_ps")] = self.data[its + COLUMNS.index("alone_ps")]
        for column in range(COLUMNS.index("dst_alloc"), WIDTH):
            self.data[mine + column] = NONE

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

    def table(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """All records as an int64 array of (records, columns), a copy."""
        return np.array(self.data[: self.count * WIDTH]).reshape(-1, WIDTH)

    def columns(self) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """All records by column name."""
        return dict(zip(COLUMNS, np.ascontiguousarray(self.table().T), strict=True))
