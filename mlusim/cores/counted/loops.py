"""Counted loops: `scalar_copy`, elements by scalar code, and `memcpy_rows`, rows by copies; one record for each loop.

An element gather by scalar code, or a loop of row copies by index, is recorded as one operation: N instructions, their
addresses as an array, their total cost; NumPy computes the result in one step, so a kernel needs no Python loop over
elements. Row numbers are an array in registers, a list in NRAM, or `Addresses`, which each iteration of the loop
computes from index tuples in NRAM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mlusim.arrays import Array, Integers
from mlusim.cores.counted.row_copies import check_index, copied_rows, copy_loop, log_addresses
from mlusim.cores.counted.row_loop import (
    RowLoop,
    Rows,
    check_apart,
    check_rows,
    iterations_of,
    loop_of_runs,
    row_bytes_of,
    row_numbers,
    rows_apart,
)
from mlusim.cores.operands import Passed, check_view
from mlusim.cores.tasks.waiting import Waiting
from mlusim.errors import OperandError
from mlusim.log import NO_OPERAND, NONE, SCALAR
from mlusim.memory.addresses import Addresses
from mlusim.memory.allocation import check_usable
from mlusim.memory.loop_costs import NO_ADDRESS, AddressInstructions, scalar_copy_cycles
from mlusim.memory.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlusim.cores.issuer import Issuer

# Each iteration loads its row number from a list in NRAM.
_ONE_LOAD = AddressInstructions(loads=1)


def scalar_copy(
    issuer: Issuer,
    line: int,
    dst: Passed,
    src: Passed,
    dst_rows: Rows = None,
    src_rows: Rows = None,
    extra_cycles: int = 0,
) -> Waiting:
    """A scalar loop within NRAM, as `Core.scalar_copy`. Iterations outside a window of the addresses copy nothing.

    For a repeated destination the last value remains. Cost: `mlusim.memory.loop_costs.scalar_copy_cycles`. Raises
    `OperandError` or `AccessError` for operands or rows outside, or sides that overlap.
    """
    for view, write in ((dst, True), (src, False)):
        check_view("scalar_copy", view)
        if view.allocation.memory is not issuer.unit.nram or not view.is_contiguous:
            raise OperandError(f"scalar_copy of {view!r}: both sides must be contiguous views in this core's NRAM")
        check_usable(view.allocation, write=write)
    if dst.itemsize != src.itemsize or row_bytes_of("scalar_copy", dst) != row_bytes_of("scalar_copy", src):
        raise OperandError(f"scalar_copy of {src!r} to {dst!r}: elements and rows must have the same size")
    loop = loop_of(issuer, "scalar_copy", dst, src, dst_rows, src_rows)

    def finish() -> None:
        issuer.unit.apply_effects(issuer.task.now_ps)
        if issuer.has_data and loop.selected:
            issuer.unit.copy_rows(loop.effect(dst, src))

    return scalar_loop(issuer, line, dst, src, loop, extra_cycles, finish)


def scalar_loop(
    issuer: Issuer,
    line: int,
    dst: View,
    src: View,
    loop: RowLoop,
    extra_cycles: int,
    finish: Callable[[], Any] | None = None,
    name: str = "scalar_copy",
) -> Waiting:
    """Issue a scalar loop within NRAM whose rows are known: its time and record. `finish` moves the rows at its end."""
    issuer.begin()
    board, task = issuer.board, issuer.task
    row_elements = row_bytes_of(name, dst) // dst.itemsize
    per_iteration = loop.address.cycles(board) + extra_cycles
    cycles = scalar_copy_cycles(board, loop.iterations, loop.selected, row_elements, per_iteration)
    issue_ps = task.now_ps
    # In order with earlier vector instructions (`mlusim.cores.synchronisation.ordering`).
    start_ps = max(issue_ps, issuer.unit.vector_free_ps)
    end_ps = start_ps + board.cycles_ps(cycles)
    record = issuer.record(
        name,
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
    log_addresses(issuer, record, dst, src, loop)
    issuer.log.loops[record] = loop.record("scalar", extra_cycles)
    task.unawaited = record
    if task.pending_io or task.pending_move:
        return Waiting(task, suspends=task.until(end_ps), finish=finish)
    task.now_ps = end_ps
    return Waiting(task, suspends=False, finish=finish)


def memcpy_rows(
    issuer: Issuer,
    line: int,
    dst: Passed,
    src: Passed,
    dst_rows: Rows = None,
    src_rows: Rows = None,
    *,
    lengths: Rows = None,
    blocking: bool = True,
) -> Waiting:
    """A loop of row copies, as `Core.memcpy_rows`. Iterations outside a window of the addresses copy nothing.

    The rows are copied in order, so for a repeated destination row the last value remains. The bus units of each row
    are charged separately; time: `mlusim.memory.loop_costs.rows_cost`. Raises `CopyError`, `OperandError` or
    `AccessError`.
    """
    for view in (dst, src):
        check_view("memcpy_rows", view)
    if lengths is not None:
        if dst_rows is not None or blocking:
            raise OperandError("memcpy_rows with lengths: omit dst_rows and pass blocking=False")
        loop = loop_of_runs("memcpy_rows", dst, src, src_rows, lengths)
        return wait_for_loop(issuer, copy_loop(issuer, line, "memcpy_rows", dst, src, loop, method="runs"))
    loop = loop_of(issuer, "memcpy_rows", dst, src, dst_rows, src_rows)
    if not loop.selected:
        return empty_loop(issuer, line, loop)
    method = "blocking" if blocking else "queued"
    return wait_for_loop(issuer, copy_loop(issuer, line, "memcpy_rows", dst, src, loop, method=method))


def wait_for_loop(issuer: Issuer, record: int) -> Waiting:
    """Wait for the last copy of a loop."""
    issuer.task.unawaited = record
    return issuer.suspending


def empty_loop(issuer: Issuer, line: int, loop: RowLoop) -> Waiting:
    """Issue a loop of row copies in which no iteration has a row to copy."""
    issuer.begin()
    task = issuer.task
    start_ps = task.now_ps
    cycles = loop.iterations * (loop.address.cycles(issuer.board) + issuer.board.scalar_loop_cycles)
    task.now_ps += issuer.board.cycles_ps(cycles)
    record = issuer.record("scalar", SCALAR, line, start_ps, start_ps, task.now_ps, count=loop.iterations)
    issuer.log.loops[record] = loop.record("empty")
    task.unawaited = record
    return issuer.passing


def loop_of(issuer: Issuer, name: str, dst: View, src: View, dst_rows: Rows, src_rows: Rows) -> RowLoop:
    """Compute and check the addresses of a loop from the current contents of NRAM."""
    row_choices = (row_numbers(name, dst_rows), row_numbers(name, src_rows))
    if not rows_apart(dst, src, *row_choices):
        check_apart(name, dst, src)
    iterations = iterations_of(name, dst, src, *row_choices)
    issuer.unit.prepare(issuer.task.now_ps, [rows for rows in row_choices if isinstance(rows, View)])
    to, origin = (
        _side(issuer, name, view, choice, iterations) for view, choice in zip((dst, src), row_choices, strict=True)
    )
    address = to.address.plus(origin.address)
    indices = tuple([side.source for side in (to, origin) if side.source is not None])
    unread = any(isinstance(choice, View) for choice in row_choices)
    inside = origin.inside if to.inside is None else to.inside
    if inside is None:
        return RowLoop(iterations, iterations, to.rows, origin.rows, address, indices, unread=unread)
    if isinstance(row_choices[0], Addresses) and isinstance(row_choices[1], Addresses):
        raise OperandError(f"{name} by two addresses, one of them within a window: give row numbers for the other")
    return RowLoop(iterations, len(inside), to.within(inside), origin.within(inside), address, indices, unread=unread)


class _Side(NamedTuple):
    """The rows of one side of a loop.

    Attributes:
        rows: row numbers; None for 0, 1, 2, ..., or if a timing-only run does not know them.
        address: scalar instructions that compute the row of an iteration.
        source: the NRAM view that the rows are computed from, if any.
        inside: the iterations within the window of its addresses, whose rows these are; None without a window.
    """

    rows: Integers | None
    address: AddressInstructions = NO_ADDRESS
    source: View | None = None
    inside: Integers | None = None

    def within(self, inside: Integers) -> Integers | None:
        """Return the rows of the iterations within a window, which is its own or that of the other side."""
        if self.inside is not None:
            return self.rows
        return inside if self.rows is None else self.rows[inside]


def _side(issuer: Issuer, name: str, view: View, choice: Rows, iterations: int) -> _Side:
    """Compute and check the rows of one side from the current contents of NRAM."""
    if isinstance(choice, Addresses):
        elements: Array | None = None
        if choice.index is not None:
            check_index(issuer, name, choice.index)
            elements = issuer.unit.source_of(choice.index)
        choice.check(name, view.shape[0], view)
        rows, inside = choice.resolve(name, elements)
        return _Side(rows, choice.instructions, choice.index, inside)
    if isinstance(choice, View):
        check_index(issuer, name, choice)
        if not issuer.has_data:
            return _Side(None, _ONE_LOAD, choice)
        listed = copied_rows(choice, view.shape[0])
        check_rows(name, view, listed, iterations)
        return _Side(listed, _ONE_LOAD, choice)
    check_rows(name, view, choice, iterations)
    return _Side(choice)
