"""`Issuer`: the common entry of all instructions. It counts them, charges the issue, and writes the record.

The functions of `memcpy`, `vector`, `scalar`, `row_copies`, `scalar_copy` and `syncs` issue one instruction each. Their
arguments are the `issuer` of a task, the number of a source `line` in the log, and those of a method of `Core`, which
documents them. `Core` passes the line of the kernel that called it, retiming the line in the saved log, and a front end
for another language a line from `log.source_line(file, line, function)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlusim.cores.frame_lines import FrameLines
from mlusim.cores.tasks.endless import check_end, first_check
from mlusim.cores.tasks.kernel_errors import foreign_core
from mlusim.cores.tasks.waiting import Waiting
from mlusim.errors import CopyError
from mlusim.log import NO_OPERAND, NONE, Log
from mlusim.memory.allocation import Memory
from mlusim.memory.view import View
from mlusim.records import Records

if TYPE_CHECKING:
    from mlusim.cores.compute.vector_call import VectorCall
    from mlusim.cores.tasks.task import Task

Operand = tuple[int, int, int]
Views = tuple[View | None, ...]


class Issuer:
    """Issues the instructions of one task.

    Attributes:
        task, unit, chip: the task, its core and its chip.
        board: the board.
        log, records: the log, and its records.
        frame_lines, line_numbers: the lines of frames, and those numbered so far (`FrameLines.numbers`).
        layout_boxes: geometries of layouts that the log has numbered (`Log.layout_boxes`).
        copy_geometries: cached copies of the core (`Unit.copy_geometries`).
        issue_ps, dram_unit_bytes: the board's time to issue an instruction, and the size of a bus unit.
        has_data: whether memories have bytes.
        dry: instructions are recorded but take no time, and nothing is waited for (`mlusim.host.steady`).
        suspending, passing, loaded: awaitables for a wait, for none, and for the value of a scalar load without one. An
            operation is awaited before the next, so a task needs one of each.
        blocked: the awaitable that a blocking copy returns.
        next_check, at_check: number of operations of the task beyond which it is checked, before the next operation is
            issued (`mlusim.cores.tasks.endless`); what to call instead, if anything.
        sync_codes: numbers in the log of the syncs issued so far, by name and pipes.
        repeated: the plain vector instructions that a source line has issued, with the attributes that were passed
            (`mlusim.cores.compute.vector`).
    """

    def __init__(self, task: Task) -> None:
        unit, chip = task.unit, task.chip
        self.task = task
        self.unit = unit
        self.chip = chip
        self.board = chip.board
        self.log: Log = chip.log
        self.records: Records = chip.log.records
        self.frame_lines: FrameLines = chip.frame_lines
        self.line_numbers: dict[int, dict[int, int]] = chip.frame_lines.numbers
        self.layout_boxes: dict[object, int] = chip.log.layout_boxes
        self.has_data = chip.data
        self.suspending = Waiting(task, suspends=True)
        self.passing = Waiting(task, suspends=False)
        self.loaded = Waiting(task, suspends=False)
        self.set_dry(dry=chip.dry)
        self.next_check = first_check(chip.max_operations)
        self.at_check: Callable[[], None] | None = None
        self.issue_ps = chip.board.cycles_ps(chip.board.issue_cycles)
        self.dram_unit_bytes = chip.board.dram_unit_bytes
        self.copy_geometries = unit.copy_geometries
        self.sync_codes: dict[tuple[str, int], int] = {}
        self.repeated: dict[int, list[tuple[VectorCall, tuple[Any, ...]]]] = {}

    def set_dry(self, *, dry: bool) -> None:
        """Set whether instructions take time."""
        self.dry = dry
        self.blocked = self.passing if dry else self.suspending

    def line(self, frame: Any) -> int:
        """Return the number in the log of the line that a Python frame executes."""
        numbers = self.line_numbers.get(id(frame.f_code))
        if numbers is not None:
            number = numbers.get(frame.f_lasti, NONE)
            if number >= 0:
                return number
        return self.frame_lines.number(frame)

    def begin(self) -> None:
        """Count an instruction and charge its issue."""
        task = self.task
        task.operations += 1
        if task.operations > self.next_check or task.unawaited >= 0:
            check_end(self)
        task.now_ps += self.issue_ps

    def skip(self) -> None:
        """Count an instruction without an effect, which takes no time and is not recorded."""
        task, chip = self.task, self.chip
        task.operations += 1
        chip.skipped += 1
        if task.operations > chip.max_operations:
            check_end(self)

    def record(
        self,
        op: str,
        pipe: int,
        line: int,
        issue_ps: int,
        start_ps: int,
        end_ps: int,
        views: Views = (),
        *,
        count: int = 1,
        nbytes: int = 0,
        detail: int = 0,
        waited_for: int = NONE,
        alone_ps: int = NONE,
        bus_read: int = 0,
        bus_write: int = 0,
        direction: int = NONE,
    ) -> int:
        """Append a record; returns its number.

        views: the result and the sources; None for one that is not in memory. `Log.more_operands` has those beyond the
            three of a record.
        """
        log = self.log
        dst = self.operand(views[0]) if views else NO_OPERAND
        a = self.operand(views[1]) if len(views) > 1 else NO_OPERAND
        b = self.operand(views[2]) if len(views) > 2 else NO_OPERAND
        # As `Log.instruction`, without a call in Python.
        instruction = log.records.instruction(
            log.op(op),
            pipe,
            direction,
            count,
            nbytes,
            bus_read,
            bus_write,
            end_ps - start_ps if alone_ps < 0 else alone_ps,
            detail,
            dst[2],
            a[2],
            b[2],
        )
        # Not by a shorter call with tuples, which would create an object for each number.
        record = self.records.add(
            instruction,
            self.task.index,
            line,
            issue_ps,
            start_ps,
            end_ps,
            0,
            waited_for,
            dst[0],
            dst[1],
            a[0],
            a[1],
            b[0],
            b[1],
        )
        if len(views) > 3:
            log.more_operands[record] = [self.operand(view) for view in views[3:]]
        return record

    def operand(self, view: View | None) -> Operand:
        """Return a view as recorded in the log: allocation, offset, box."""
        if view is None:
            return NO_OPERAND
        layout = view.layout
        box = self.layout_boxes.get(layout, NONE)
        if box < 0:
            box = self.layout_boxes[layout] = self.log.box(layout.shape, layout.strides, layout.itemsize)
        return view.allocation.identity, view.offset, box

    def check_reach(self, memory: Memory) -> None:
        """Raise `CopyError` for a memory other than the core's own, its cluster's SRAM and the GDRAM."""
        unit = self.unit
        if memory in (self.chip.gdram, unit.nram, unit.wram, unit.ldram, unit.cluster.sram):
            return
        if self.chip.running is not self.task:
            raise foreign_core(self.task)
        raise CopyError(f"this core cannot reach {memory.name}: stage the bytes through SRAM or GDRAM of one device")
