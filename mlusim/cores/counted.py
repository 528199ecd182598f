"""Counted operations: one record for a loop of many equal small instructions.

An element gather by scalar code, or a loop of row copies by index, is one operation here: N instructions, their
addresses as an array, their total cost; NumPy does the numerics at once. A kernel has no Python loop over elements.
Rows come from the kernel as an array of registers, as a list in NRAM, or as `Addresses`: worked out, turn by turn of
the loop, from index tuples in NRAM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlusim.cores.row_copies import check_index, copy_loop, keep_addresses
from mlusim.cores.rows import (
    Loop,
    Rows,
    check_apart,
    check_rows,
    iterations_of,
    move_rows,
    row_bytes_of,
    row_numbers,
    rows_apart,
)
from mlusim.cores.scalar import check_view
from mlusim.cores.waiting import Waiting
from mlusim.errors import OperandError
from mlusim.log import NO_OPERAND, NONE, SCALAR
from mlusim.memory.addresses import Addresses, Indices
from mlusim.memory.allocation import check_usable
from mlusim.memory.loops import AddressInstructions, address_instructions, scalar_copy_cycles
from mlusim.memory.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlusim.cores.issuer import Issuer


def scalar_copy(
    issuer: Issuer,
    line: int,
    dst: View,
    src: View,
    dst_rows: Rows = None,
    src_rows: Rows = None,
    extra_cycles: int = 0,
) -> Waiting:
    """A scalar loop within NRAM: dst[dst_rows[i]] = src[src_rows[i]] for i in order, element by element.

    Args:
        issuer: of the task that copies.
        line: source line in the log.
        dst, src: contiguous views (rows, ...) in this core's NRAM, rows equally large; rank 1 copies elements.
        dst_rows, src_rows: row numbers, all of equal count: in registers, `Addresses`, or a list of integers in NRAM;
            None stands for 0, 1, 2, ... Iterations that a window of the addresses leaves out copy nothing.
        extra_cycles: scalar cycles per iteration beyond addresses, loads, stores and the loop.

    A repeated destination keeps its last value. Cost: `mlusim.memory.loops.scalar_copy_cycles`. Raises `OperandError`
    or `AccessError` for operands or rows outside, or sides that overlap.
    """
    for view, write in ((dst, True), (src, False)):
        check_view("scalar_copy", view)
        if view.allocation.memory is not issuer.unit.nram or not view.is_contiguous:
            raise OperandError(f"scalar_copy of {view!r}: both sides are contiguous views in this core's NRAM")
        check_usable(view.allocation, write=write)
    if dst.itemsize != src.itemsize or row_bytes_of("scalar_copy", dst) != row_bytes_of("scalar_copy", src):
        raise OperandError(f"scalar_copy of {src!r} to {dst!r}: elements and rows must be equally large")
    loop = loop_of(issuer, "scalar_copy", dst, src, dst_rows, src_rows)

    def finish() -> None:
        issuer.unit.apply_until(issuer.task.now_ps)
        if issuer.has_data and loop.selected:
            move_rows(dst, src, loop.dst_rows, loop.src_rows, loop.selected)

    return scalar_loop(issuer, line, dst, src, loop, extra_cycles, finish)


def scalar_loop(
    issuer: Issuer,
    line: int,
    dst: View,
    src: View,
    loop: Loop,
    extra_cycles: int = 0,
    finish: Callable[[], None] | None = None,
) -> Waiting:
    """A scalar loop within NRAM, its rows worked out: its time and its record. `finish` moves the rows at its end."""
    issuer.begin()
    board, task = issuer.board, issuer.task
    row_elements = row_bytes_of("scalar_copy", dst) // dst.itemsize
    each = loop.address.cycles(board) + extra_cycles
    cycles = scalar_copy_cycles(board, loop.iterations, loop.selected, row_elements, each)
    issue_ps = task.now_ps
    # In order with the vector instructions before it (`mlusim.cores.ordering`).
    start_ps = max(issue_ps, issuer.unit.vector_free_ps)
    end_ps = start_ps + board.cycles_ps(cycles)
    record = issuer.record(
        "scalar_copy",
        SCALAR,
        line,
        issue_ps,
        start_ps,
        end_ps,
        count=loop.iterations,
        nbytes=loop.selected * row_elements * dst.itemsize,
        dst=issuer.operand(dst),
        a=issuer.operand(src),
        b=issuer.operand(loop.indices[0]) if loop.indices else NO_OPERAND,
        waited_for=issuer.unit.vector_record if start_ps > issue_ps else NONE,
    )
    if loop.indices[1:]:
        issuer.log.more_operands[record] = [issuer.operand(view) for view in loop.indices[1:]]
    keep_addresses(issuer, record, loop)
    issuer.log.loops[record] = loop.record("scalar", extra_cycles)
    task.unawaited = record
    if task.pending_io or task.pending_move:
        return Waiting(task, stops=task.until(end_ps), finish=finish)
    task.now_ps = end_ps
    return Waiting(task, stops=False, finish=finish)


def copy_rows(
    issuer: Issuer,
    line: int,
    dst: View,
    src: View,
    dst_rows: Rows = None,
    src_rows: Rows = None,
    *,
    blocking: bool = True,
) -> Waiting:
    """A loop of row copies: `__memcpy(dst[dst_rows[i]], src[src_rows[i]])` for i in order, and wait for the last.

    Args:
        issuer: of the task that copies.
        line: source line in the log.
        dst, src: views (rows, ...) whose rows are contiguous and equally large; rank 1 copies elements.
        dst_rows, src_rows: row numbers, all of equal count: in registers, `Addresses`, or a list of integers in NRAM;
            None stands for 0, 1, 2, ... Iterations that a window of the addresses leaves out copy nothing.
        blocking: each copy is waited for before the next is issued, as a loop of plain `__memcpy` does; otherwise they
            are issued back to back (`__memcpy_async`) and only the last is waited for.

    The rows move in order, so a repeated destination row keeps its last value. Each row is charged its own bus units;
    time: `mlusim.memory.loops.rows_cost`. Raises `CopyError`, `OperandError` or `AccessError`.
    """
    loop = loop_of(issuer, "memcpy_rows", dst, src, dst_rows, src_rows)
    if not loop.selected:
        return empty_loop(issuer, line, loop)
    method = "blocking" if blocking else "queued"
    return wait_for_loop(issuer, copy_loop(issuer, line, "memcpy_rows", dst, src, loop, method=method))


def wait_for_loop(issuer: Issuer, record: int) -> Waiting:
    """Wait for the last copy of a loop."""
    issuer.task.unawaited = record
    return issuer.task.suspending


def empty_loop(issuer: Issuer, line: int, loop: Loop) -> Waiting:
    """A loop of row copies of which no turn found a row to copy."""
    issuer.begin()
    task = issuer.task
    start_ps = task.now_ps
    cycles = loop.iterations * (loop.address.cycles(issuer.board) + issuer.board.scalar_loop_cycles)
    task.now_ps += issuer.board.cycles_ps(cycles)
    record = issuer.record("scalar", SCALAR, line, start_ps, start_ps, task.now_ps, count=loop.iterations)
    issuer.log.loops[record] = loop.record("empty")
    task.unawaited = record
    return task.passing


def loop_of(issuer: Issuer, name: str, dst: View, src: View, dst_rows: Rows, src_rows: Rows) -> Loop:
    """Work out and check the addresses of a loop, from what is in NRAM now."""
    for view in (dst, src):
        check_view(name, view)
    row_choices = (row_numbers(name, dst_rows), row_numbers(name, src_rows))
    if not rows_apart(dst, src, *row_choices):
        check_apart(name, dst, src)
    iterations = iterations_of(name, dst, src, *row_choices)
    issuer.unit.apply_until(issuer.task.now_ps)
    rows: list[Indices | None] = []
    selected: Indices | None = None
    address = AddressInstructions()
    indices: list[View] = []
    for view, wanted in zip((dst, src), row_choices, strict=True):
        if isinstance(wanted, Addresses):
            if wanted.index is not None:
                check_index(issuer, name, wanted.index)
                indices.append(wanted.index)
            wanted.check(name, view.shape[0], view)
            moves = wanted.positional or wanted.base > 0
            address = address.and_also(address_instructions(len(wanted.axes), wanted.narrowed, positional=moves))
            numbers, left = wanted.resolve(name)
            rows.append(numbers)
            selected = left if selected is None else selected
            continue
        numbers_or_none: Indices | None = None
        if isinstance(wanted, View):
            check_index(issuer, name, wanted)
            indices.append(wanted)
            address = address.and_also(AddressInstructions(loads=1))
            if issuer.has_data:
                numbers_or_none = wanted.typed().reshape(-1).astype(np.int64)
        else:
            numbers_or_none = wanted
        if wanted is None or numbers_or_none is not None:
            check_rows(name, view, numbers_or_none, iterations)
        rows.append(numbers_or_none)
    unread = any(isinstance(side, View) for side in row_choices)
    if selected is None:
        return Loop(iterations, iterations, rows[0], rows[1], address, tuple(indices), unread)
    if isinstance(row_choices[0], Addresses) and isinstance(row_choices[1], Addresses):
        raise OperandError(f"{name} by two addresses, one of them within a window: give row numbers for the other")
    other = 1 if isinstance(row_choices[0], Addresses) else 0
    numbers_of_other = rows[other]
    rows[other] = selected if numbers_of_other is None else numbers_of_other[selected]
    return Loop(iterations, len(selected), rows[0], rows[1], address, tuple(indices), unread)
