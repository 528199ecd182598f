"""The scalar pipe: loads, stores and arithmetic, one element at a time."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from mlusim.cores.operations import Operations
from mlusim.cores.task import SUSPEND
from mlusim.errors import MissingDataError, OperandError
from mlusim.log import NO_OPERAND, NONE, SCALAR
from mlusim.memory.allocation import check_usable
from mlusim.memory.bus import read_bus_bytes, write_bus_bytes
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.view import View


class ScalarOperations(Operations):
    """Scalar instructions of a core."""

    async def load(self, source: View) -> Any:
        """Load one element to a register and wait for it: a scalar load.

        Args:
            source: a view of one element in GDRAM, LDRAM, SRAM or NRAM.

        Returns the element as a Python number. Costs the board's scalar latency for that memory; from GDRAM one bus
        unit. Raises `OperandError` for more than one element or WRAM, `CopyError` for a memory out of the core's reach,
        `AllocationError` for freed memory, and `MissingDataError` in a timing-only run where the bytes are not there.
        """
        if source.size != 1:
            raise OperandError(f"load takes one element, not {source!r}: index it fully, or use load_array")
        end_ps, waits = self._scalar_access("load", source, 1, sys._getframe(1), write=False)
        if waits:
            await SUSPEND
        if source.memory is MemoryKind.NRAM:
            self._unit.apply_until(end_ps)
        return source.typed().item()

    def store(self, target: View, value: Any) -> None:
        """Store one element from a register; the task goes on.

        Args:
            target: a view of one element in GDRAM, LDRAM, SRAM or NRAM.
            value: a number; converted to the element type.

        A store of less than a bus unit to GDRAM is a read-modify-write (G 5.3). Raises as `load`.
        """
        if target.size != 1:
            raise OperandError(f"store takes one element, not {target!r}: index it fully, or use a vector operation")
        end_ps, _ = self._scalar_access("store", target, 1, sys._getframe(1), write=True)
        if not self._chip.data:
            return
        cell = target.typed().reshape(())
        with np.errstate(all="ignore"):
            element = np.asarray(value).astype(target.dtype)
        if target.memory is MemoryKind.NRAM:
            self._unit.later_scalar(end_ps, partial(np.copyto, cell, element))
        else:
            self._chip.environment.after(end_ps - self._chip.environment.now, lambda _: np.copyto(cell, element))

    def scalar(self, cycles: int | None = None, *, count: int = 1) -> None:
        """Charge scalar arithmetic: `count` operations of `cycles` each (default: the board's ordinary operation).

        Raises `OperandError` for numbers that are negative or no integers.
        """
        each = self.board.scalar_op_cycles if cycles is None else cycles
        if not (isinstance(each, int | np.integer) and isinstance(count, int | np.integer) and min(each, count) >= 0):
            raise OperandError(f"scalar of {count} operations of {cycles} cycles: both are integers and not negative")
        self._begin()
        task = self._task
        start_ps = task.now_ps
        task.now_ps += self.board.cycles_ps(int(each) * int(count))
        detail = NONE if cycles is None else int(cycles)
        self._record("scalar", SCALAR, sys._getframe(1), start_ps, start_ps, task.now_ps, count, detail=detail)

    def _scalar_access(self, op: str, view: View, count: int, frame: Any, *, write: bool) -> tuple[int, bool]:
        """Log a scalar access of `count` elements; gives its end and whether the kernel must suspend for it."""
        memory = view.memory
        self._check_reach(view.allocation.memory)
        check_usable(view.allocation, write=write)
        if memory is MemoryKind.WRAM:
            raise OperandError(f"scalar {op} of {view!r}: scalar code cannot reach WRAM (B); move it to NRAM first")
        if not write and view.allocation.buffer is None:
            raise MissingDataError(
                f"scalar load of {view!r}, which has a size but no bytes in a timing-only run: upload it with its "
                "bytes (keep_data=True), or run with data"
            )
        self._begin()
        board, task = self.board, self._task
        start_ps = task.now_ps
        bus_read = bus_write = 0
        if memory.off_chip:
            cost_ps = count * board.scalar_gdram_latency_ps
            phase = (view.allocation.address + view.offset) % self._unit_bytes
            loops = tuple(zip(view.shape, view.strides, strict=True)) if view.shape else ()
            if write:
                # A store is posted: the task pays the issue, the DRAM the read-modify-write.
                bus_read, bus_write = write_bus_bytes(phase, view.itemsize, loops, self._unit_bytes)
            else:
                bus_read = read_bus_bytes(phase, view.itemsize, loops, self._unit_bytes)
        else:
            cycles = board.scalar_sram_cycles if memory is MemoryKind.SRAM else board.scalar_nram_cycles
            cost_ps = board.cycles_ps(count * cycles)
        end_ps = start_ps + cost_ps
        operand = self._operand(view)
        dst, a = (operand, NO_OPERAND) if write else (NO_OPERAND, operand)
        nbytes = count * view.itemsize
        self._record(
            op,
            SCALAR,
            frame,
            start_ps,
            start_ps,
            end_ps,
            count,
            nbytes,
            0,
            dst,
            a,
            bus_read=bus_read,
            bus_write=bus_write,
        )
        if write:
            if memory.off_chip:
                self._unit.stored_ps = end_ps
            else:
                task.now_ps = end_ps
            return end_ps, False
        private = view.allocation.read_only or (memory is MemoryKind.NRAM and not task.pending_io + task.pending_move)
        if private:
            # Nobody else can change these bytes on the way: no need to meet the board's time.
            task.now_ps = end_ps
            return end_ps, False
        return end_ps, task.until(end_ps)
