"""What all operations of a core share: counting, the issue cost, records, reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlusim.errors import CopyError
from mlusim.log import NO_OPERAND, NONE, RECORD_BYTES, Log, pack_record
from mlusim.memory.allocation import Memory
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip
    from mlusim.cores.copies import CopyForm
    from mlusim.cores.task import Task
    from mlusim.cores.unit import Unit
    from mlusim.hardware.board import Board


class Operations:
    """The part of a core that its groups of operations stand on."""

    board: Board

    def __init__(self, task: Task) -> None:
        unit, chip = task.unit, task.chip
        self._task: Task = task
        self._unit: Unit = unit
        self._chip: Chip = chip
        self._log: Log = chip.log
        self._environment = chip.environment
        self._has_data = chip.data
        self._max_operations = chip.max_operations
        self._issue_ps = chip.board.cycles_ps(chip.board.issue_cycles)
        self._unit_bytes = chip.board.dram_unit_bytes
        self._copy_forms: dict[Any, CopyForm] = unit.copy_forms
        self._aligned_vectors = chip.board.needs_aligned_vectors
        self._vector_forms: dict[Any, Any] = chip.vector_forms
        self.board = chip.board

    def _begin(self) -> None:
        """Count an operation and charge its issue."""
        task = self._task
        task.operations += 1
        if task.operations > self._max_operations or task.unawaited >= 0:
            raise task.refusal()
        task.now_ps += self._issue_ps

    def _record(  # noqa: PLR0913, PLR0917
        self,
        op: str,
        pipe: int,
        frame: Any,
        issue_ps: int,
        start_ps: int,
        end_ps: int,
        count: int = 1,
        nbytes: int = 0,
        detail: int = 0,
        dst: tuple[int, int, int] = NO_OPERAND,
        a: tuple[int, int, int] = NO_OPERAND,
        b: tuple[int, int, int] = NO_OPERAND,
        waited_for: int = NONE,
        alone_ps: int = NONE,
        bus_read: int = 0,
        bus_write: int = 0,
        direction: int = NONE,
    ) -> int:
        """Append a record; gives its number."""
        log = self._log
        record = log.count
        if record == log.room:
            log.grow()
        pack_record(
            log.data,
            record * RECORD_BYTES,
            log.op(op),
            self._task.index,
            pipe,
            log.line(frame),
            issue_ps,
            start_ps,
            end_ps,
            0,
            end_ps - start_ps if alone_ps < 0 else alone_ps,
            count,
            nbytes,
            bus_read,
            bus_write,
            direction,
            waited_for,
            detail,
            *dst,
            *a,
            *b,
        )
        log.count = record + 1
        return record

    def _operand(self, view: View) -> tuple[int, int, int]:
        return view.allocation.identity, view.offset, self._log.box(view.shape, view.strides, view.itemsize)

    def _check_reach(self, memory: Memory) -> None:
        """Only its own on-chip memories, the cluster's SRAM and the GDRAM are within a core's reach."""
        unit = self._unit
        if memory in (self._chip.gdram, unit.nram, unit.wram, unit.ldram, unit.cluster.sram):
            return
        raise CopyError(f"this core cannot reach {memory.name}: stage the bytes through SRAM or GDRAM of one device")
