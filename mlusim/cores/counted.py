"""Counted operations: one record for a loop of many equal small instructions.

An element gather by scalar code, or a loop of row copies by index, is one operation here: N instructions, their
addresses as an array, their total cost; NumPy does the numerics at once. A kernel has no Python loop over elements.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from mlusim.cores.pipe import Transfer
from mlusim.cores.scalar import ScalarOperations
from mlusim.cores.task import SUSPEND
from mlusim.dtypes import is_integer
from mlusim.errors import AccessError, CopyError, OperandError
from mlusim.log import IO, MOVE, NO_OPERAND, NONE, SCALAR
from mlusim.memory.allocation import check_usable
from mlusim.memory.copy import CopyShape, check_row
from mlusim.memory.kinds import DIRECTION_CODES, DIRECTIONS, Direction, MemoryKind
from mlusim.memory.timing import CopyCost, copy_cost
from mlusim.memory.view import View
from mlusim.units import PS_PER_S, ceil_ps

Indices = np.ndarray[Any, np.dtype[np.int64]]


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
        self,
        dst: View,
        src: View,
        dst_index: Indices | None = None,
        src_index: Indices | None = None,
        *,
        extra_cycles: int = 0,
    ) -> None:
        """A scalar loop on chip: dst[dst_index[i]] = src[src_index[i]] for i in order.

        Args:
            dst, src: contiguous views in this core's NRAM, of one element size; indexed flat.
            dst_index, src_index: int64 element indices, all of equal count; None stands for 0, 1, 2, ...
            extra_cycles: scalar cycles per iteration beyond one load, one store and the loop, such as the load of an
                index or address arithmetic.

        A repeated `dst_index` keeps the last value. Costs per iteration a scalar load, a scalar store and the loop
        overhead. Raises `OperandError` or `AccessError` for operands or indices outside, or sides that overlap.
        """
        dst_index, src_index = _indices("scalar_copy", dst_index), _indices("scalar_copy", src_index)
        _check_apart("scalar_copy", dst, src)
        count = _count(dst, src, dst_index, src_index)
        for view, index, write in ((dst, dst_index, True), (src, src_index, False)):
            if view.allocation.memory is not self._unit.nram or not view.is_contiguous:
                raise OperandError(f"scalar_copy of {view!r}: both sides are contiguous views in this core's NRAM")
            check_usable(view.allocation, write=write)
            _check_indices("scalar_copy", view, index, view.size, count)
        if dst.itemsize != src.itemsize:
            raise OperandError(f"scalar_copy of {src.itemsize} B elements to {dst.itemsize} B ones: sizes must agree")
        self._begin()
        board, task = self.board, self._task
        cycles = count * (2 * board.scalar_nram_cycles + board.scalar_loop_cycles + extra_cycles)
        start_ps = task.now_ps
        end_ps = start_ps + board.cycles_ps(cycles)
        record = self._record(
            "scalar_copy",
            SCALAR,
            sys._getframe(1),
            start_ps,
            start_ps,
            end_ps,
            count,
            count * dst.itemsize,
            0,
            self._operand(dst),
            self._operand(src),
        )
        self._keep_addresses(record, dst_index, src_index)
        if task.pending_io or task.pending_move:
            if task.until(end_ps):
                await SUSPEND
        else:
            task.now_ps = end_ps
        self._unit.apply_until(end_ps)
        if self._chip.data:
            _move_elements(dst.raw().reshape(-1), src.raw().reshape(-1), dst_index, src_index, count)

    async def memcpy_rows(
        self,
        dst: View,
        src: View,
        dst_rows: Indices | None = None,
        src_rows: Indices | None = None,
        *,
        blocking: bool = True,
    ) -> None:
        """A loop of row copies: `__memcpy(dst[dst_rows[i]], src[src_rows[i]])` for i in order, and wait for the last.

        Args:
            dst, src: views (rows, ...) whose rows are contiguous and equally large; rank 1 copies elements.
            dst_rows, src_rows: int64 row numbers, all of equal count; None stands for 0, 1, 2, ...
            blocking: each copy is waited for before the next is issued, as a loop of plain `__memcpy` does; otherwise
                they are issued back to back (`__memcpy_async`) and only the last is waited for.

        The rows move in order, so a repeated destination row keeps its last value. Costs per row: blocking, the
        latency and its transfer; otherwise the transfer, and at least the board's per-segment time. Each row is charged
        its own bus units. Raises `CopyError` or `AccessError`.
        """
        dst_rows, src_rows = _indices("memcpy_rows", dst_rows), _indices("memcpy_rows", src_rows)
        _check_apart("memcpy_rows", dst, src)
        count = _count(dst, src, dst_rows, src_rows, axis=0)
        self._rows(dst, src, dst_rows, src_rows, count, "memcpy_rows", sys._getframe(1), each=_EACH[blocking])
        await SUSPEND

    def gather(self, dst: View, src: View, offsets: View) -> None:
        """dst[i] = src[offsets[i]] by one `__gather`, from arch 592 on: asynchronous, on the IO pipe.

        Args:
            dst: (count, ...) in NRAM; rows contiguous.
            src: (rows, ...) in GDRAM; rows of the same size.
            offsets: count integers in NRAM, row numbers of `src` (the instruction's byte offsets over the row size).

        Costs `gather_element_ps` per row and its bus units, whatever the offsets are. Raises `OperandError` before arch
        592, `AccessError` for a row outside `src`.
        """
        self._by_offsets("gather", dst, src, offsets, sys._getframe(1))

    def scatter(self, dst: View, src: View, offsets: View) -> None:
        """dst[offsets[i]] = src[i] by one `__scatter`, from arch 592 on; NRAM to GDRAM. In order; else as `gather`."""
        self._by_offsets("scatter", dst, src, offsets, sys._getframe(1))

    def _by_offsets(self, name: str, dst: View, src: View, offsets: View, frame: Any) -> None:
        if not self.board.has_gather:
            raise OperandError(
                f"__{name} exists from arch 592 on and {self.board.name} is arch {self.board.arch}: load the offsets "
                "with load_array and use memcpy_rows or scalar_copy"
            )
        if offsets.allocation.memory is not self._unit.nram or not offsets.is_contiguous:
            raise OperandError(f"{name} with offsets {offsets!r}: they are contiguous in this core's NRAM")
        if not is_integer(offsets.dtype) or not offsets.size:
            raise OperandError(f"{name} with offsets {offsets!r}: they are integers, one or more")
        check_usable(offsets.allocation, write=False)
        far, near = (dst, src) if name == "scatter" else (src, dst)
        if not far.memory.off_chip or near.memory is not MemoryKind.NRAM:
            raise CopyError(f"{name} from {src!r} to {dst!r}: it goes between NRAM and GDRAM or LDRAM by row numbers")
        self._unit.apply_until(self._task.now_ps)
        rows = None
        if self._chip.data:
            rows = offsets.typed().reshape(-1).astype(np.int64)
        side: dict[str, Any] = {"dst_rows": rows} if name == "scatter" else {"src_rows": rows}
        self._rows(
            dst,
            src,
            side.get("dst_rows"),
            side.get("src_rows"),
            offsets.size,
            name,
            frame,
            each="instruction",
            offsets=offsets,
        )

    def _rows(  # noqa: PLR0913
        self,
        dst: View,
        src: View,
        dst_rows: Indices | None,
        src_rows: Indices | None,
        count: int,
        name: str,
        frame: Any,
        *,
        each: str,
        offsets: View | None = None,
    ) -> None:
        """One transfer that stands for `count` row copies."""
        row_bytes = _row_bytes(name, dst)
        if row_bytes != _row_bytes(name, src) or dst.itemsize != src.itemsize:
            raise CopyError(f"{name} of rows of {src!r} to rows of {dst!r}: rows must be equally large")
        for view, rows, write in ((dst, dst_rows, True), (src, src_rows, False)):
            self._check_reach(view.allocation.memory)
            check_usable(view.allocation, write=write)
            # A timing-only run does not know the rows that offsets name.
            unknown = offsets is not None and rows is None and write == (name == "scatter")
            _check_indices(name, view, rows, view.shape[0], count, free=unknown)
        direction = DIRECTIONS.get((src.memory, dst.memory))
        if direction is None:
            raise CopyError(f"no __memcpy goes {src.memory.value} to {dst.memory.value}; stage the bytes through NRAM")
        if each == "queued" and not direction.asynchronous:
            raise CopyError(f"memcpy_async has no {direction.name}: use memcpy_rows(..., blocking=True)")
        check_row(direction, row_bytes, dst, src, self.board.arch, self.board.dram_unit_bytes)
        bus_read = bus_write = 0
        unit_bytes = self.board.dram_unit_bytes
        by_engine = each == "instruction"
        if src.memory.off_chip:
            bus_read, _ = _row_units(src, None if by_engine else src_rows, count, row_bytes, unit_bytes, by_engine)
        if dst.memory.off_chip:
            bus_write, partial_units = _row_units(
                dst, None if by_engine else dst_rows, count, row_bytes, unit_bytes, by_engine
            )
            bus_read += partial_units
        shape = CopyShape(direction, row_bytes * count, row_bytes, count, (), (), bus_read, bus_write, count > 1)
        self._begin()
        cost = _rows_cost(self.board, shape, each, memory_core=self._unit.is_memory_core)
        task, unit = self._task, self._unit
        off_chip = src.memory.off_chip or dst.memory.off_chip
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
            self._operand(offsets) if offsets is not None else NO_OPERAND,
            alone_ps=cost.alone_ps,
            bus_read=bus_read,
            bus_write=bus_write,
            direction=DIRECTION_CODES[direction],
        )
        self._keep_addresses(record, dst_rows, src_rows)
        effect = partial(_move_rows, dst, src, dst_rows, src_rows, count) if self._chip.data else None
        if off_chip:
            task.pending_io += 1
        else:
            task.pending_move += 1
        if direction is Direction.GDRAM2SRAM:
            unit = unit.cluster.memory_core
        pipe = unit.io if off_chip else unit.move
        pipe.submit(Transfer(pipe, task, record, task.now_ps, cost, effect, not by_engine))

    def _keep_addresses(self, record: int, dst_index: Indices | None, src_index: Indices | None) -> None:
        kept = {key: index for key, index in (("dst", dst_index), ("src", src_index)) if index is not None}
        if kept:
            self._log.addresses[record] = kept


_EACH = {True: "blocking", False: "queued"}


def _rows_cost(board: Any, shape: CopyShape, each: str, *, memory_core: bool) -> CopyCost:
    """Cost of a loop of row copies: as a strided copy, but no faster than its instructions are."""
    plain = copy_cost(board, shape, memory_core=memory_core)
    if not plain.work:
        # Moves inside a core: each instruction starts up.
        duration = shape.segments * board.cycles_ps(
            board.move_startup_cycles + -(-shape.segment_bytes // board.move_bytes_per_cycle)
        )
        return CopyCost(0.0, 1.0, 1.0, plain.traffic, duration, duration)
    per_row_ps = plain.work / plain.limit / shape.segments
    link = board.dram_bandwidth_bytes_per_s if shape.direction.off_chip else board.sram_bandwidth_bytes_per_s
    issue_ps = board.cycles_ps(board.issue_cycles + board.scalar_loop_cycles)
    if each == "blocking":
        per_row_ps += plain.latency_ps + issue_ps
    elif each == "queued":
        per_row_ps = max(per_row_ps, board.dma_segment_ps, issue_ps)
    else:
        per_row_ps = max(per_row_ps, board.gather_element_ps)
    limit = plain.work / (per_row_ps * shape.segments)
    # Blocking rows hold their latency in the rate; the first needs no other.
    latency_ps = 0 if each == "blocking" else plain.latency_ps
    rate = min(limit, link / PS_PER_S)
    return CopyCost(plain.work, limit, plain.ratio, plain.traffic, latency_ps, latency_ps + ceil_ps(plain.work / rate))


def _row_bytes(name: str, view: View) -> int:
    if not view.shape:
        raise CopyError(f"{name} of {view!r}: it needs an axis of rows")
    row = View(view.allocation, view.offset, view.shape[1:], view.strides[1:], view.dtype)
    if not row.is_contiguous:
        raise CopyError(f"{name} of {view!r} with strides {list(view.strides)}: each row must be contiguous")
    return row.nbytes


def _row_units(
    view: View, rows: Indices | None, count: int, row_bytes: int, unit_bytes: int, by_engine: bool
) -> tuple[int, int]:
    """Bus bytes that rows touch, and those of units touched in part.

    Rows whose offsets no scalar code has read are charged the most that any row of the view touches, so that time
    does not hang on data.
    """
    base = (view.allocation.address + view.offset) % unit_bytes
    stride = view.strides[0]
    if by_engine:
        period = min(view.shape[0], unit_bytes)
        starts = (base + stride * np.arange(max(period, 1), dtype=np.int64)) % unit_bytes
    else:
        chosen = np.arange(count, dtype=np.int64) if rows is None else rows
        starts = (base + stride * chosen) % unit_bytes
    stops = starts + row_bytes
    units = -(-stops // unit_bytes)
    parts = units - np.maximum(0, stops // unit_bytes - (starts > 0))
    if by_engine:
        return int(units.max()) * count * unit_bytes, int(parts.max()) * count * unit_bytes
    return int(units.sum()) * unit_bytes, int(parts.sum()) * unit_bytes


def _count(dst: View, src: View, dst_index: Indices | None, src_index: Indices | None, axis: int | None = None) -> int:
    given = [len(index) for index in (dst_index, src_index) if index is not None]
    if not given:
        if axis is not None and not src.shape:
            raise CopyError(f"memcpy_rows of {src!r}: it needs an axis of rows")
        given = [src.size if axis is None else src.shape[axis]]
    if len(set(given)) > 1:
        raise AccessError(f"{given[0]} destination and {given[1]} source indices: there must be as many of both")
    if not given[0]:
        raise AccessError(f"a loop of no copies from {src!r} to {dst!r}: guard it with `if`")
    return given[0]


def _indices(name: str, index: Any) -> Indices | None:
    """An index array of a kernel, checked: one axis of integers."""
    if index is None:
        return None
    array = np.asarray(index)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise OperandError(f"{name} with indices of {array.dtype} {list(array.shape)}: they are one axis of integers")
    return array.astype(np.int64, copy=False)


def _check_apart(name: str, dst: View, src: View) -> None:
    """Refuse a loop that could read what it has written: NumPy reads everything first."""
    if dst.allocation is src.allocation and 0 not in (*dst.shape, *src.shape):
        (low, high), (first, last) = _span(dst), _span(src)
        if low < last and first < high:
            raise OperandError(f"{name} from {src!r} to {dst!r}: they overlap; copy through another buffer")


def _span(view: View) -> tuple[int, int]:
    """First byte of a view in its allocation, and the one behind its last."""
    reaches = [(extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True)]
    low = view.offset + sum(reach for reach in reaches if reach < 0)
    return low, view.offset + sum(reach for reach in reaches if reach > 0) + view.itemsize


def _check_indices(
    name: str, view: View, index: Indices | None, extent: int, count: int, *, free: bool = False
) -> None:
    if index is None:
        if count > extent and not free:
            raise AccessError(f"{name} of {count} rows of {view!r}, which has {extent}")
        return
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= extent:
        bad = low if low < 0 else high
        raise AccessError(f"{name}: index {bad} is outside {view!r}, which has {extent}")


def _move_rows(dst: View, src: View, dst_rows: Indices | None, src_rows: Indices | None, count: int) -> None:
    _move_elements(dst.raw(), src.raw(), dst_rows, src_rows, count)


def _move_elements(
    to: np.ndarray[Any, Any],
    origin: np.ndarray[Any, Any],
    dst_index: Indices | None,
    src_index: Indices | None,
    count: int,
) -> None:
    """Rows in order; NumPy's assignment through an index array keeps the last of repeated ones."""
    values = origin[:count] if src_index is None else origin[src_index]
    to[slice(count) if dst_index is None else dst_index] = values.reshape(count, *to.shape[1:])
