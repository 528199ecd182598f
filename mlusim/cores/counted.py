"""Counted operations: one record for a loop of many equal small instructions.

An element gather by scalar code, or a loop of row copies by index, is one operation here: N instructions, their
addresses as an array, their total cost; NumPy does the numerics at once. A kernel has no Python loop over elements.
Addresses come from the kernel as an array of registers, or as `Addresses`: worked out, turn by turn of the loop, from
index tuples in NRAM.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from mlusim.cores.pipe import Transfer
from mlusim.cores.rows import Loop, Rows, check_apart, check_rows, move_rows, row_bytes_of, row_numbers, turns_of
from mlusim.cores.scalar import ScalarOperations
from mlusim.cores.task import SUSPEND
from mlusim.dtypes import is_integer
from mlusim.errors import CopyError, OperandError
from mlusim.log import IO, MOVE, NO_OPERAND, NONE, SCALAR
from mlusim.memory.addresses import Addresses, Indices
from mlusim.memory.allocation import check_usable
from mlusim.memory.copy import CopyShape, check_row
from mlusim.memory.kinds import DIRECTION_CODES, DIRECTIONS, Direction, MemoryKind
from mlusim.memory.loops import address_cycles, most_row_units, row_units, rows_cost, scalar_copy_cycles
from mlusim.memory.view import View

_REACHED_BY_OFFSETS = (MemoryKind.GDRAM, MemoryKind.LDRAM, MemoryKind.NRAM)


class CountedOperations(ScalarOperations):
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

    async def scalar_copy(
        self, dst: View, src: View, dst_rows: Rows = None, src_rows: Rows = None, *, extra_cycles: int = 0
    ) -> None:
        """A scalar loop within NRAM: dst[dst_rows[i]] = src[src_rows[i]] for i in order, element by element.

        Args:
            dst, src: contiguous views (rows, ...) in this core's NRAM, rows equally large; rank 1 copies elements.
            dst_rows, src_rows: row numbers, all of equal count: int64 in registers, or `Addresses`; None stands for
                0, 1, 2, ... Turns that a window of the addresses leaves out copy nothing.
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
        self._begin()
        board, task = self.board, self._task
        row_elements = row_bytes_of("scalar_copy", dst) // dst.itemsize
        cycles = scalar_copy_cycles(board, loop.turns, loop.kept, row_elements, loop.address + extra_cycles)
        start_ps = task.now_ps
        end_ps = start_ps + board.cycles_ps(cycles)
        record = self._record(
            "scalar_copy",
            SCALAR,
            sys._getframe(1),
            start_ps,
            start_ps,
            end_ps,
            loop.turns,
            loop.kept * row_elements * dst.itemsize,
            0,
            self._operand(dst),
            self._operand(src),
            self._operand(loop.index) if loop.index is not None else NO_OPERAND,
        )
        self._keep_addresses(record, loop.dst_rows, loop.src_rows)
        if task.pending_io or task.pending_move:
            if task.until(end_ps):
                await SUSPEND
        else:
            task.now_ps = end_ps
        self._unit.apply_until(end_ps)
        if self._chip.data and loop.kept:
            move_rows(dst, src, loop.dst_rows, loop.src_rows, loop.kept)

    async def memcpy_rows(
        self, dst: View, src: View, dst_rows: Rows = None, src_rows: Rows = None, *, blocking: bool = True
    ) -> None:
        """A loop of row copies: `__memcpy(dst[dst_rows[i]], src[src_rows[i]])` for i in order, and wait for the last.

        Args:
            dst, src: views (rows, ...) whose rows are contiguous and equally large; rank 1 copies elements.
            dst_rows, src_rows: row numbers, all of equal count: int64 in registers, or `Addresses`; None stands for
                0, 1, 2, ... Turns that a window of the addresses leaves out copy nothing.
            blocking: each copy is waited for before the next is issued, as a loop of plain `__memcpy` does; otherwise
                they are issued back to back (`__memcpy_async`) and only the last is waited for.

        The rows move in order, so a repeated destination row keeps its last value. Each row is charged its own bus
        units; time: `mlusim.memory.loops.rows_cost`. Raises `CopyError`, `OperandError` or `AccessError`.
        """
        frame = sys._getframe(1)
        loop = self._loop("memcpy_rows", dst, src, dst_rows, src_rows)
        if not loop.kept:
            # No turn of the loop found a row to copy.
            self._begin()
            start_ps = self._task.now_ps
            cycles = loop.turns * (loop.address + self.board.scalar_loop_cycles)
            self._task.now_ps += self.board.cycles_ps(cycles)
            self._record("scalar", SCALAR, frame, start_ps, start_ps, self._task.now_ps, loop.turns)
            return
        self._rows(dst, src, loop, "memcpy_rows", frame, how="blocking" if blocking else "queued")
        await SUSPEND

    def gather(self, dst: View, src: View, offsets: View, mask: View | None = None) -> None:
        """dst[i] = src[offsets[i]] by one `__gather`, from arch 592 on: asynchronous.

        Args:
            dst: (count, ...) in NRAM; rows contiguous.
            src: (rows, ...) in GDRAM, LDRAM or this core's NRAM; rows of the same size.
            offsets: count integers in NRAM, row numbers of `src` (the instruction's byte offsets over the row size).
            mask: count elements in NRAM; where one is 0, the row of `dst` stays as it is.

        On the IO pipe, or the Move pipe within NRAM. Time: `mlusim.memory.loops.rows_cost`, whatever offsets and mask
        hold. Raises `OperandError` before arch 592, `AccessError` for a row outside `src`.
        """
        self._by_offsets("gather", dst, src, offsets, mask, sys._getframe(1))

    def scatter(self, dst: View, src: View, offsets: View, mask: View | None = None) -> None:
        """dst[offsets[i]] = src[i] by one `__scatter`, from arch 592 on, from NRAM. In order; else as `gather`."""
        self._by_offsets("scatter", dst, src, offsets, mask, sys._getframe(1))

    def _loop(self, name: str, dst: View, src: View, dst_rows: Rows, src_rows: Rows) -> Loop:
        """Work out and check the addresses of a loop, from what is in NRAM now."""
        check_apart(name, dst, src)
        given = (row_numbers(name, dst_rows), row_numbers(name, src_rows))
        turns = turns_of(name, dst, src, *given)
        self._unit.apply_until(self._task.now_ps)
        rows: list[Indices | None] = []
        kept: Indices | None = None
        address, index = 0, None
        for view, wanted in zip((dst, src), given, strict=True):
            if not isinstance(wanted, Addresses):
                check_rows(name, view, wanted, turns)
                rows.append(wanted)
                continue
            index = index if wanted.index is None else wanted.index
            self._check_index(name, wanted.index)
            wanted.check(name, view.shape[0], view)
            moves = wanted.positional or wanted.base > 0
            address += address_cycles(self.board, len(wanted.axes), wanted.narrowed, positional=moves)
            numbers, left = wanted.resolve(name)
            rows.append(numbers)
            kept = left if kept is None else kept
        if kept is None:
            return Loop(turns, turns, rows[0], rows[1], address, index)
        if isinstance(given[0], Addresses) and isinstance(given[1], Addresses):
            raise OperandError(f"{name} by two addresses, one of them within a window: give row numbers for the other")
        other = 1 if isinstance(given[0], Addresses) else 0
        numbers_of_other = rows[other]
        rows[other] = kept if numbers_of_other is None else numbers_of_other[kept]
        return Loop(turns, len(kept), rows[0], rows[1], address, index)

    def _check_index(self, name: str, index: View | None) -> None:
        if index is None:
            return
        if index.allocation.memory is not self._unit.nram or not index.is_contiguous:
            raise OperandError(f"{name} with {index!r}: indices, offsets and masks are contiguous in this core's NRAM")
        check_usable(index.allocation, write=False)

    def _by_offsets(self, name: str, dst: View, src: View, offsets: View, mask: View | None, frame: Any) -> None:
        if not self.board.has_gather:
            raise OperandError(
                f"__{name} exists from arch 592 on and {self.board.name} is arch {self.board.arch}: load the offsets "
                "with load_array and use memcpy_rows or scalar_copy"
            )
        if not is_integer(offsets.dtype) or not offsets.size:
            raise OperandError(f"{name} with offsets {offsets!r}: they are integers, one or more")
        if mask is not None and mask.size != offsets.size:
            raise OperandError(f"{name} with mask {mask!r} for {offsets.size} offsets: it has one element for each")
        for view in (offsets, mask):
            self._check_index(name, view)
        far, near = (dst, src) if name == "scatter" else (src, dst)
        if far.memory not in _REACHED_BY_OFFSETS or near.memory is not MemoryKind.NRAM:
            raise CopyError(f"{name} from {src!r} to {dst!r}: it goes from NRAM to NRAM, GDRAM or LDRAM or back")
        check_apart(name, dst, src)
        self._unit.apply_until(self._task.now_ps)
        check_rows(name, near, None, offsets.size)
        rows: Indices | None = None
        kept: Indices | None = None
        if self._chip.data:
            rows = offsets.typed().reshape(-1).astype(np.int64)
            if mask is not None:
                kept = np.flatnonzero(mask.typed())
                rows = rows[kept]
            check_rows(name, far, rows, len(rows))
        count = offsets.size if rows is None else len(rows)
        dst_rows, src_rows = (rows, kept) if name == "scatter" else (kept, rows)
        loop = Loop(offsets.size, count, dst_rows, src_rows, 0, offsets)
        self._rows(dst, src, loop, name, frame, how="instruction", mask=mask)

    def _rows(
        self, dst: View, src: View, loop: Loop, name: str, frame: Any, *, how: str, mask: View | None = None
    ) -> None:
        """One transfer that stands for the row copies of a loop."""
        row_bytes = row_bytes_of(name, dst)
        if row_bytes != row_bytes_of(name, src) or dst.itemsize != src.itemsize:
            raise CopyError(f"{name} of rows of {src!r} to rows of {dst!r}: rows must be equally large")
        for view, write in ((dst, True), (src, False)):
            self._check_reach(view.allocation.memory)
            check_usable(view.allocation, write=write)
        direction = DIRECTIONS.get((src.memory, dst.memory))
        if direction is None:
            raise CopyError(f"no __memcpy goes {src.memory.value} to {dst.memory.value}; stage the bytes through NRAM")
        if how == "queued" and not direction.asynchronous:
            raise CopyError(f"memcpy_async has no {direction.name}: use memcpy_rows(..., blocking=True)")
        check_row(direction, row_bytes, dst, src, self.board.arch, self.board.dram_unit_bytes)
        by_engine = how == "instruction"
        # The instruction takes its time for every offset, masked or not.
        count = loop.turns if by_engine else loop.kept
        shape = self._rows_shape(dst, src, loop, direction, row_bytes, count, by_engine=by_engine)
        self._begin()
        unit, task = self._unit, self._task
        cost = rows_cost(
            self.board, shape, how, turns=loop.turns, address=loop.address, memory_core=unit.is_memory_core
        )
        off_chip = direction.off_chip
        record = self._record(
            name,
            IO if off_chip else MOVE,
            frame,
            task.now_ps,
            task.now_ps,
            NONE,
            count,
            shape.nbytes,
            int(not by_engine),
            self._operand(dst),
            self._operand(src),
            self._operand(loop.index) if loop.index is not None else NO_OPERAND,
            alone_ps=cost.alone_ps,
            bus_read=shape.bus_read_bytes,
            bus_write=shape.bus_write_bytes,
            direction=DIRECTION_CODES[direction],
        )
        if mask is not None:
            self._log.more_operands[record] = [self._operand(mask)]
        self._keep_addresses(record, loop.dst_rows, loop.src_rows)
        effect = None
        if self._chip.data and loop.kept:
            effect = partial(move_rows, dst, src, loop.dst_rows, loop.src_rows, loop.kept)
        if off_chip:
            task.pending_io += 1
        else:
            task.pending_move += 1
        if direction is Direction.GDRAM2SRAM:
            unit = unit.cluster.memory_core
        pipe = unit.io if off_chip else unit.move
        pipe.submit(Transfer(pipe, task, record, task.now_ps, cost, effect, not by_engine))

    def _rows_shape(
        self, dst: View, src: View, loop: Loop, direction: Direction, row_bytes: int, count: int, *, by_engine: bool
    ) -> CopyShape:
        """What the rows of a loop move, and on which bus units."""
        unit_bytes = self.board.dram_unit_bytes

        def on_bus(view: View, rows: Indices | None) -> tuple[int, int]:
            if not view.memory.off_chip:
                return 0, 0
            if by_engine:
                return most_row_units(view, count, row_bytes, unit_bytes)
            return row_units(view, rows, count, row_bytes, unit_bytes)

        bus_read, _ = on_bus(src, loop.src_rows)
        bus_write, partly = on_bus(dst, loop.dst_rows)
        return CopyShape(
            direction, row_bytes * count, row_bytes, count, (), (), bus_read + partly, bus_write, count > 1
        )

    def _keep_addresses(self, record: int, dst_rows: Indices | None, src_rows: Indices | None) -> None:
        kept = {key: rows for key, rows in (("dst", dst_rows), ("src", src_rows)) if rows is not None}
        if kept:
            self._log.addresses[record] = kept
