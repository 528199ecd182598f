"""Counted operations: one record for a loop of many equal small instructions.

An element gather by scalar code, or a loop of row copies by index, is one operation here: N instructions, their
addresses as an array, their total cost; NumPy does the numerics at once. A kernel has no Python loop over elements.
Rows come from the kernel as an array of registers, as a list in NRAM, or as `Addresses`: worked out, turn by turn of
the loop, from index tuples in NRAM.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from mlusim.cores.offsets import OffsetOperations
from mlusim.cores.rows import Loop, Rows, check_apart, check_rows, move_rows, row_bytes_of, row_numbers, turns_of
from mlusim.cores.task import SUSPEND
from mlusim.errors import MissingDataError, OperandError
from mlusim.log import NO_OPERAND, SCALAR, VECTOR
from mlusim.memory.addresses import Addresses, Indices
from mlusim.memory.allocation import check_usable
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.loops import Turn, address_turn, scalar_copy_cycles
from mlusim.memory.view import View


class CountedOperations(OffsetOperations):
    """Loops of a core that stand for many instructions each."""

    async def load_array(self, source: View) -> np.ndarray[Any, Any]:
        """Load every element to registers, one scalar load each; gives them as a NumPy array of `source`'s shape.

        Costs `source.size` scalar loads of the memory's latency. Raises as `Core.load`.
        """
        end_ps, waits = self._scalar_access("load_array", source, source.size, sys._getframe(1), write=False)
        if waits:
            await SUSPEND
        if source.memory is MemoryKind.NRAM:
            self._unit.apply_until(end_ps)
        return source.typed().copy()

    def store_array(self, target: View, values: np.ndarray[Any, Any]) -> None:
        """Store an array from registers, one scalar store each; the task goes on.

        Args:
            target: a view in GDRAM, LDRAM, SRAM or NRAM; one that keeps its bytes has them in a timing-only run too.
            values: numbers of target's shape; converted to the element type.

        Costs `target.size` scalar stores. Raises as `Core.store`, `OperandError` for another shape.
        """
        array = np.asarray(values)
        if array.shape != target.shape:
            raise OperandError(f"store_array of shape {list(array.shape)} to {target!r}: both have one shape")
        end_ps, _ = self._scalar_access("store_array", target, target.size, sys._getframe(1), write=True)
        if target.allocation.buffer is None:
            return
        effect = partial(np.copyto, target.typed(), array.astype(target.dtype))
        if target.memory is MemoryKind.NRAM:
            self._unit.later_scalar(end_ps, effect)
        else:
            self._chip.environment.after(end_ps - self._chip.environment.now, lambda _: effect())

    async def scalar_copy(
        self, dst: View, src: View, dst_rows: Rows = None, src_rows: Rows = None, *, extra_cycles: int = 0
    ) -> None:
        """A scalar loop within NRAM: dst[dst_rows[i]] = src[src_rows[i]] for i in order, element by element.

        Args:
            dst, src: contiguous views (rows, ...) in this core's NRAM, rows equally large; rank 1 copies elements.
            dst_rows, src_rows: row numbers, all of equal count: in registers, `Addresses`, or a list of integers in
                NRAM; None stands for 0, 1, 2, ... Turns that a window of the addresses leaves out copy nothing.
            extra_cycles: scalar cycles per turn beyond addresses, loads, stores and the loop.

        A repeated destination keeps its last value. Cost: `mlusim.memory.loops.scalar_copy_cycles`. Raises
        `OperandError` or `AccessError` for operands or rows outside, or sides that overlap.
        """
        for view, write in ((dst, True), (src, False)):
            if view.allocation.memory is not self._unit.nram or not view.is_contiguous:
                raise OperandError(f"scalar_copy of {view!r}: both sides are contiguous views in this core's NRAM")
            check_usable(view.allocation, write=write)
        if dst.itemsize != src.itemsize or row_bytes_of("scalar_copy", dst) != row_bytes_of("scalar_copy", src):
            raise OperandError(f"scalar_copy of {src!r} to {dst!r}: elements and rows must be equally large")
        loop = self._loop("scalar_copy", dst, src, dst_rows, src_rows)
        if self._scalar_loop(dst, src, loop, extra_cycles, sys._getframe(1)):
            await SUSPEND
        self._unit.apply_until(self._task.now_ps)
        if self._chip.data and loop.kept:
            move_rows(dst, src, loop.dst_rows, loop.src_rows, loop.kept)

    def _scalar_loop(self, dst: View, src: View, loop: Loop, extra_cycles: int, frame: Any) -> bool:
        """Log a scalar loop within NRAM and move the task's time on; gives whether the kernel must suspend for it."""
        self._begin()
        board, task = self.board, self._task
        row_elements = row_bytes_of("scalar_copy", dst) // dst.itemsize
        each = loop.address.cycles(board) + extra_cycles
        cycles = scalar_copy_cycles(board, loop.turns, loop.kept, row_elements, each)
        start_ps = task.now_ps
        end_ps = start_ps + board.cycles_ps(cycles)
        record = self._record(
            "scalar_copy",
            SCALAR,
            frame,
            start_ps,
            start_ps,
            end_ps,
            loop.turns,
            loop.kept * row_elements * dst.itemsize,
            0,
            self._operand(dst),
            self._operand(src),
            self._operand(loop.indices[0]) if loop.indices else NO_OPERAND,
        )
        if loop.indices[1:]:
            self._log.more_operands[record] = [self._operand(view) for view in loop.indices[1:]]
        self._keep_addresses(record, loop)
        self._log.loops[record] = loop.record("scalar", extra_cycles)
        if task.pending_io or task.pending_move:
            return task.until(end_ps)
        task.now_ps = end_ps
        return False

    async def memcpy_rows(
        self, dst: View, src: View, dst_rows: Rows = None, src_rows: Rows = None, *, blocking: bool = True
    ) -> None:
        """A loop of row copies: `__memcpy(dst[dst_rows[i]], src[src_rows[i]])` for i in order, and wait for the last.

        Args:
            dst, src: views (rows, ...) whose rows are contiguous and equally large; rank 1 copies elements.
            dst_rows, src_rows: row numbers, all of equal count: in registers, `Addresses`, or a list of integers in
                NRAM; None stands for 0, 1, 2, ... Turns that a window of the addresses leaves out copy nothing.
            blocking: each copy is waited for before the next is issued, as a loop of plain `__memcpy` does; otherwise
                they are issued back to back (`__memcpy_async`) and only the last is waited for.

        The rows move in order, so a repeated destination row keeps its last value. Each row is charged its own bus
        units; time: `mlusim.memory.loops.rows_cost`. Raises `CopyError`, `OperandError` or `AccessError`.
        """
        frame = sys._getframe(1)
        loop = self._loop("memcpy_rows", dst, src, dst_rows, src_rows)
        if not loop.kept:
            self._empty_loop(loop, frame)
            return
        self._rows(dst, src, loop, "memcpy_rows", frame, how="blocking" if blocking else "queued")
        await SUSPEND

    def _empty_loop(self, loop: Loop, frame: Any) -> None:
        """No turn of the loop found a row to copy."""
        self._begin()
        start_ps = self._task.now_ps
        cycles = loop.turns * (loop.address.cycles(self.board) + self.board.scalar_loop_cycles)
        self._task.now_ps += self.board.cycles_ps(cycles)
        record = self._record("scalar", SCALAR, frame, start_ps, start_ps, self._task.now_ps, loop.turns)
        self._log.loops[record] = loop.record("empty")

    async def collect(self, dst: View, src: View, mask: View, *, known: Addresses | None = None) -> int:
        """dst[:n] = the elements of src where mask is not 0, in order; gives n: `__bang_collect`, `__bang_count` (B).

        Args:
            dst: in NRAM; room for all elements of `src`; what lies behind the n kept ones is not written.
            src, mask: in NRAM, as many elements each; mask may have any element type.
            known: what a timing-only run counts instead: the lookups within the windows of these addresses, which
                stand for the elements of `src`.

        Two vector instructions, and a wait for the vector pipe: the count goes to a register. Raises `OperandError` for
        operands that do not fit, `MissingDataError` where a timing-only run knows neither mask nor addresses.
        """
        frame = sys._getframe(1)
        if mask.size != src.size or dst.size < src.size or dst.dtype != src.dtype:
            raise OperandError(f"collect of {src!r} by {mask!r} to {dst!r}: one type, a mask for each, room for all")
        check_apart("collect", dst, src)
        check_apart("collect", dst, mask)
        if not self._chip.data and known is None:
            raise MissingDataError("collect in a timing-only run, which has no mask: name the addresses as `known`")
        counts: list[int] = []
        core: Any = self
        core._vector(
            "collect",
            frame,
            dst.reshape(-1)[: src.size],
            (src, mask),
            partial(_collect, dst, src, mask, counts),
            passes=2,
            same_size=False,
        )
        record = self._unit.vector_record
        await core._sync("sync_compute", 1 << VECTOR, frame)
        self._unit.apply_until(self._task.now_ps)
        if counts:
            self._log.addresses[record] = {"dst": np.arange(counts[0])}
        if not counts and known is not None:
            _, kept = known.resolve("collect")
            return known.count if kept is None else len(kept)
        return counts[0]

    def _loop(self, name: str, dst: View, src: View, dst_rows: Rows, src_rows: Rows) -> Loop:
        """Work out and check the addresses of a loop, from what is in NRAM now."""
        check_apart(name, dst, src)
        given = (row_numbers(name, dst_rows), row_numbers(name, src_rows))
        turns = turns_of(name, dst, src, *given)
        self._unit.apply_until(self._task.now_ps)
        rows: list[Indices | None] = []
        kept: Indices | None = None
        address = Turn()
        indices: list[View] = []
        for view, wanted in zip((dst, src), given, strict=True):
            if isinstance(wanted, Addresses):
                if wanted.index is not None:
                    self._check_index(name, wanted.index)
                    indices.append(wanted.index)
                wanted.check(name, view.shape[0], view)
                moves = wanted.positional or wanted.base > 0
                address = address.and_also(address_turn(len(wanted.axes), wanted.narrowed, positional=moves))
                numbers, left = wanted.resolve(name)
                rows.append(numbers)
                kept = left if kept is None else kept
                continue
            numbers_or_none: Indices | None = None
            if isinstance(wanted, View):
                self._check_index(name, wanted)
                indices.append(wanted)
                address = address.and_also(Turn(loads=1))
                if self._chip.data:
                    numbers_or_none = wanted.typed().reshape(-1).astype(np.int64)
            else:
                numbers_or_none = wanted
            if wanted is None or numbers_or_none is not None:
                check_rows(name, view, numbers_or_none, turns)
            rows.append(numbers_or_none)
        unread = any(isinstance(side, View) for side in given)
        if kept is None:
            return Loop(turns, turns, rows[0], rows[1], address, tuple(indices), unread)
        if isinstance(given[0], Addresses) and isinstance(given[1], Addresses):
            raise OperandError(f"{name} by two addresses, one of them within a window: give row numbers for the other")
        other = 1 if isinstance(given[0], Addresses) else 0
        numbers_of_other = rows[other]
        rows[other] = kept if numbers_of_other is None else numbers_of_other[kept]
        return Loop(turns, len(kept), rows[0], rows[1], address, tuple(indices), unread)


def _collect(dst: View, src: View, mask: View, counts: list[int]) -> None:
    kept = src.raw().reshape(-1)[mask.typed().reshape(-1) != 0]
    dst.raw().reshape(-1)[: len(kept)] = kept
    counts.append(len(kept))
