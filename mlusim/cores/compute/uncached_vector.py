"""Instructions on the compute pipe whose calls are not cached: register results, those outside the table, and moves.

`mlusim.cores.compute.vector` issues all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.compute.vector_call import Geometry, check_contiguous, check_memories, check_operand, geometry_of
from mlusim.cores.instructions.cost import LOOPS, stream
from mlusim.cores.instructions.limits import check_all_aligned, check_since, check_types, main_type
from mlusim.cores.instructions.record import Instruction
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.cores.operands import Passed
from mlusim.cores.synchronisation.ordering import COMPUTE_PIPES
from mlusim.cores.synchronisation.syncs import sync
from mlusim.cores.tasks.waiting import Waiting
from mlusim.errors import MissingDataError, OperandError, shown
from mlusim.log import NONE, VECTOR
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer

# Name in the log, where "memcpy" is a copy by a DMA engine.
BANG_MOVE = "bang_move"


def issue_to_register(issuer: Issuer, line: int, instruction: Instruction, source: Passed) -> Waiting:
    """Issue a reduction whose result is a number in a register, which is the result of the wait.

    The task waits for the compute pipe. Raises as `issue`, and `MissingDataError` in a timing-only run, where the
    number is not known.
    """
    name = instruction.name
    operands = source, source
    if not isinstance(source, View):
        raise OperandError(f"{instruction.signature}: {instruction.operands[1].name} is a view, not {shown(source)}")
    if not issuer.has_data:
        raise MissingDataError(f"{name} to a register in a timing-only run, which has no numbers: run with data")
    views = (source,)
    check_memories(issuer, instruction, operands)
    check_contiguous(name, views)
    result_types = instruction.operands[0].types
    dtype = main_type(instruction, operands) if result_types is None else next(iter(result_types))
    if source.dtype not in instruction.types:
        check_types(instruction, issuer.board, operands)
    geometry = geometry_of(issuer, instruction.cost, views, 1)
    register = np.zeros(1, dtype)
    effect = partial(instruction.compute, register, source.typed())
    record = _enqueue(issuer, line, name, views, geometry, effect, result=False)
    return wait_for_register(issuer, line, record, register.item)


def wait_for_register(issuer: Issuer, line: int, record: int, value: Callable[[], Any]) -> Waiting:
    """`sync_compute` of an instruction whose result goes to a register; the result of the wait is `value()`."""

    def finish() -> Any:
        issuer.unit.update_memory(issuer.task.now_ps)
        return value()

    task = issuer.task
    suspends = sync(issuer, line, "sync_compute", COMPUTE_PIPES).suspends
    if not suspends and (task.pending_io or task.pending_move):
        # Copies that end before the instruction come first.
        suspends = task.until(task.now_ps)
    # The kernel has to await the instruction, not the sync.
    task.unawaited = record
    return Waiting(task, suspends=suspends, finish=finish)


def issue_counted(
    issuer: Issuer,
    line: int,
    name: str,
    views: Sequence[View],
    effect: Callable[[], None] | None,
    count: int,
    *,
    result: bool = True,
    integers: bool = False,
) -> int:
    """Issue an instruction outside the table, or one from a log: `count` passes, or an instruction by its name.

    Args:
        name: name of the instruction; its cost is that of the table's entry or of `LOOPS`, or of `count` passes.
        views: the result, then the sources.
        effect: its effect on memory at its end; None if nothing is computed.
        count: as in the log: passes, elements of a window, depth of a convolution.
        result: False if the result goes to a register, and `views` are the sources.
        integers: whether it is a tensor instruction that multiplies integers.
    """
    in_nram = [view for view in views if view.allocation.memory is not issuer.unit.wram]
    for view in in_nram:
        check_operand(issuer, name, view, write=result and view is views[0])
    if name != BANG_MOVE:
        check_contiguous(name, in_nram)
    instruction = INSTRUCTIONS.get(name)
    if instruction is not None:
        check_since(instruction, issuer.board)
    if issuer.board.needs_aligned_vectors and name != BANG_MOVE:
        check_all_aligned(instruction, name, issuer.board, views)
    cost = LOOPS.get(name, stream) if instruction is None else instruction.cost
    geometry = geometry_of(issuer, cost, views, count, integers=integers)
    return _enqueue(issuer, line, name, views, geometry, effect, result=result)


def bang_move(issuer: Issuer, line: int, dst: View, src: View) -> int:
    """A copy within NRAM by the vector unit: `__bang_move`, in order with vector instructions; segments may have gaps.

    Raises `OperandError` for other memories or sizes.
    """
    for view in (dst, src):
        check_operand(issuer, BANG_MOVE, view, write=view is dst)
    if dst.nbytes != src.nbytes or not dst.size:
        raise OperandError(
            f"{BANG_MOVE} of {src!r} to {dst!r}: both sides must have the same number of bytes, at least one"
        )
    effect = partial(_move, dst, src) if issuer.has_data else None
    return _enqueue(issuer, line, BANG_MOVE, (dst, src), geometry_of(issuer, stream, (dst, src), 1), effect)


def _move(dst: View, src: View) -> None:
    dst.raw()[...] = src.raw().reshape(dst.shape).copy()


def _enqueue(
    issuer: Issuer,
    line: int,
    name: str,
    views: Sequence[View],
    geometry: Geometry,
    effect: Callable[[], None] | None,
    *,
    result: bool = True,
) -> int:
    """Append an instruction to the compute pipe; returns its record."""
    duration_ps, widest, elements, count = geometry
    issuer.begin()
    unit = issuer.unit
    issue_ps = start_ps = issuer.task.now_ps
    waited_for = NONE
    if unit.vector_free_ps > start_ps:
        start_ps = unit.vector_free_ps
        waited_for = unit.vector_record
    end_ps = start_ps + duration_ps
    record = issuer.record(
        name,
        VECTOR,
        line,
        issue_ps,
        start_ps,
        end_ps,
        tuple(views) if result else (None, *views),
        count=count,
        nbytes=widest,
        detail=elements,
        waited_for=waited_for,
    )
    unit.vector_free_ps = end_ps
    unit.vector_record = record
    if effect is not None and issuer.has_data:
        unit.add_effect(end_ps, effect)
    return record
