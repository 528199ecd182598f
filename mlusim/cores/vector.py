"""The compute pipe: issues one vector or tensor instruction of the table.

`issue` is the one door: it checks the limits (`mlusim.cores.instructions.limits`), works out the cost, logs the record
and remembers what the instruction does to memory at its end. Operands are contiguous views in the core's NRAM, filters
of the tensor pipe in its WRAM. On arch below 300 they are 64 B aligned and a multiple of 128 B long. Instructions are
issued and never waited for; `sync` or `sync_compute` does that. Not modelled: the wait between back-to-back dependent
instructions beyond the start-up, and vector and tensor instructions side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.endless import check_end
from mlusim.cores.instructions.limits import (
    Value,
    bind,
    check_all_aligned,
    check_since,
    check_types,
    main_type,
)
from mlusim.cores.instructions.record import Instruction, Match
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.cores.ordering import COMPUTE_PIPES
from mlusim.cores.syncs import sync
from mlusim.cores.vector_call import (
    Geometry,
    VectorCall,
    call_key,
    check_contiguous,
    check_memories,
    check_operand,
    geometry_of,
)
from mlusim.cores.waiting import Waiting
from mlusim.errors import MissingDataError, OperandError
from mlusim.log import NO_OPERAND, NONE, VECTOR
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer

# In the log, where "memcpy" is a copy by a DMA engine.
STREAM_MOVE = "bang_move"
# Integers that a call remembers: loops over tiles use a few.
_NUMBERS = 64


def call(
    issuer: Issuer, line: int, instruction: Instruction, arguments: Sequence[Any], named: Mapping[str, Any]
) -> Waiting | None:
    """Issue an instruction as a kernel calls it: operands and attributes in order, or by name.

    Without its result an instruction that may answer to a register does so, and gives what to await.
    """
    if not (named or instruction.counts):
        # What was called like this before is bound and checked, where the operands lie excepted.
        known = issuer.chip.vector_calls.get(call_key(instruction, arguments))
        if known is not None:
            _issue(issuer, line, known, arguments[: len(instruction.operands)])
            return None
    if instruction.to_register and len(arguments) == len(instruction.operands) - 1 and not named:
        return issue_to_register(issuer, line, instruction, arguments)
    operands, attributes = bind(instruction, arguments, named)
    if instruction.counts:
        return issue_and_count(issuer, line, instruction, operands, attributes)
    known = _known(issuer, instruction, operands, attributes)
    if not named:
        issuer.chip.vector_calls[call_key(instruction, arguments)] = known
    _issue(issuer, line, known, operands)
    return None


def prepared(
    issuer: Issuer, line: int, instruction: Instruction, arguments: Sequence[Any]
) -> Callable[[], None] | None:
    """A call to make again and again; None for one whose number goes to a register. Raises as `issue`."""
    if instruction.counts or (instruction.to_register and len(arguments) == len(instruction.operands) - 1):
        return None
    operands, attributes = bind(instruction, arguments, {})
    known = _known(issuer, instruction, operands, attributes)

    def again() -> None:
        _issue(issuer, line, known, operands)

    return again


def issue_and_count(
    issuer: Issuer, line: int, instruction: Instruction, operands: Sequence[Value], attributes: Mapping[str, Any]
) -> Waiting:
    """Issue an instruction that also counts; the wait gives the number. Raises as `issue_to_register`."""
    if not issuer.has_data:
        raise MissingDataError(f"{instruction.name} in a timing-only run, which has no numbers: run with data")
    found: list[int] = []
    record = issue(issuer, line, instruction, operands, attributes, found)

    def value() -> int:
        # The checker compares what was written, not the room for it.
        if instruction.operands[0].match is not Match.FREE:
            issuer.log.addresses[record] = {"dst": np.arange(found[0])}
        return found[0]

    return wait_for_register(issuer, line, record, value)


def issue(
    issuer: Issuer,
    line: int,
    instruction: Instruction,
    operands: Sequence[Value],
    attributes: Mapping[str, Any],
    found: list[int] | None = None,
) -> int:
    """Issue one instruction; returns its record.

    Args:
        issuer: of the task that issues it.
        line: source line in the log.
        instruction: its entry in the table.
        operands: the result, then the sources: views, and numbers where the entry allows them.
        attributes: every attribute of the entry.
        found: gets the number that the instruction counts, once it is done.

    Raises `OperandError` for a limit that does not hold, `AllocationError` for memory that was freed.
    """
    return _issue(issuer, line, _known(issuer, instruction, operands, attributes), operands, found)


def _known(
    issuer: Issuer, instruction: Instruction, operands: Sequence[Value], attributes: Mapping[str, Any]
) -> VectorCall:
    """What the layouts and attributes decide. Raises as `issue`."""
    check_memories(issuer, instruction, operands)
    key = call_key(instruction, (*operands, *attributes.items()))
    known: VectorCall | None = issuer.chip.vector_calls.get(key)
    if known is None:
        known = issuer.chip.vector_calls[key] = VectorCall(issuer, instruction, operands, attributes)
    return known


def _issue(
    issuer: Issuer, line: int, known: VectorCall, operands: Sequence[Value], found: list[int] | None = None
) -> int:
    """Issue what has been checked but for where its operands lie; returns its record."""
    views: Any = [value for value in operands if isinstance(value, View)] if known.has_numbers else operands
    known.check(issuer, operands, views)
    effect = None
    if issuer.has_data:
        # Views that were checked have their bytes: an array that has been made is up to date.
        if known.has_numbers:
            arrays = [
                value.typed() if value.__class__ is View else _number(issuer, known, operands, value)
                for value in operands
            ]
        else:
            arrays = [view.typed() if view.elements is None else view.elements for view in views]
        effect = partial(known.instruction.compute, *arrays)
        if known.attributes:
            effect = partial(effect, **known.attributes)
        if found is not None:
            effect = partial(_count, found, effect)
    log, unit, task = issuer.log, issuer.unit, issuer.task
    # As `Issuer.begin`, inlined for performance.
    task.operations += 1
    if task.operations > issuer.next_look or task.unawaited >= 0:
        check_end(issuer)
    issue_ps = start_ps = task.now_ps = task.now_ps + issuer.issue_ps
    waited_for = NONE
    if unit.vector_free_ps > start_ps:
        start_ps = unit.vector_free_ps
        waited_for = unit.vector_record
    end_ps = start_ps + known.duration_ps
    places: list[int] = []
    for view in views[:3]:
        places += (view.allocation.identity, view.offset)
    record = log.records.add(known.code, task.index, line, issue_ps, start_ps, end_ps, 0, waited_for, *places)
    if known.more_boxes:
        log.more_operands[record] = [
            (view.allocation.identity, view.offset, box) for view, box in zip(views[3:], known.more_boxes, strict=True)
        ]
    unit.vector_free_ps = end_ps
    unit.vector_record = record
    if effect is not None:
        unit.effects.append((end_ps, effect, known.instruction, operands))
    return record


def issue_to_register(issuer: Issuer, line: int, instruction: Instruction, sources: Sequence[Any]) -> Waiting:
    """Issue an instruction whose one number goes to a register; the wait gives it.

    The task waits for the compute pipe. Raises as `issue`, and `MissingDataError` in a timing-only run, where nobody
    knows the number.
    """
    name = instruction.name
    operands, attributes = bind(instruction, (sources[0], *sources), {})
    if not issuer.has_data:
        raise MissingDataError(f"{name} to a register in a timing-only run, which has no numbers: run with data")
    views = [value for value in operands[1:] if isinstance(value, View)]
    check_memories(issuer, instruction, operands)
    check_contiguous(name, views)
    result_types = instruction.operands[0].types
    dtype = main_type(instruction, operands) if result_types is None else next(iter(result_types))
    if views[0].dtype not in instruction.types:
        check_types(instruction, issuer.board, (views[0], *views))
    geometry = geometry_of(issuer, instruction, views, 1)
    register = np.zeros(1, dtype)
    arrays = [view.typed() for view in views]
    record = _enqueue(
        issuer, line, name, views, geometry, partial(instruction.compute, register, *arrays, **attributes), result=False
    )
    return wait_for_register(issuer, line, record, register.item)


def wait_for_register(issuer: Issuer, line: int, record: int, value: Callable[[], Any]) -> Waiting:
    """The `sync_compute` of an instruction whose result goes to a register; the wait gives `value()`."""

    def finish() -> Any:
        issuer.unit.apply_until(issuer.task.now_ps)
        return value()

    stops = sync(issuer, line, "sync_compute", COMPUTE_PIPES).stops
    # What the kernel has to await is the instruction.
    issuer.task.unawaited = record
    return Waiting(issuer.task, stops=stops, finish=finish)


def issue_counted(
    issuer: Issuer,
    line: int,
    name: str,
    views: Sequence[View],
    effect: Callable[[], None] | None,
    count: int,
) -> int:
    """Issue what the table does not have, or what a log has: `count` passes, or an instruction by its name.

    Args:
        issuer: of the task that issues it.
        line: source line in the log.
        name: of the instruction; its cost is that of the table's entry, or of `count` passes where there is none.
        views: the result, then the sources.
        effect: what it does to memory at its end; None where nothing is computed.
        count: as in the log: passes, elements of a window, depth of a convolution.
    """
    for view in views:
        if view.allocation.memory is not issuer.unit.wram:
            check_operand(issuer, name, view, write=view is views[0])
    if name != STREAM_MOVE:
        check_contiguous(name, views)
    instruction = INSTRUCTIONS.get(name)
    if instruction is not None:
        check_since(instruction, issuer.board)
    if issuer.board.needs_aligned_vectors and name != STREAM_MOVE:
        check_all_aligned(instruction, name, issuer.board, views)
    return _enqueue(issuer, line, name, views, geometry_of(issuer, instruction, views, count), effect)


def stream_move(issuer: Issuer, line: int, dst: View, src: View) -> int:
    """A copy within NRAM by the vector unit: `__bang_move`, in order with vector instructions; segments may have gaps.

    Raises `OperandError` for other memories or sizes.
    """
    for view in (dst, src):
        check_operand(issuer, STREAM_MOVE, view, write=view is dst)
    if dst.nbytes != src.nbytes or not dst.size:
        raise OperandError(f"{STREAM_MOVE} of {src!r} to {dst!r}: as many bytes on both sides, one or more")
    effect = partial(_move, dst, src) if issuer.has_data else None
    return _enqueue(issuer, line, STREAM_MOVE, (dst, src), geometry_of(issuer, None, (dst, src), 1), effect)


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
    """Put an instruction into the compute pipe, behind what is there; returns its record."""
    duration_ps, widest, size, boxes, count = geometry
    issuer.begin()
    unit = issuer.unit
    issue_ps = start_ps = issuer.task.now_ps
    waited_for = NONE
    if unit.vector_free_ps > start_ps:
        start_ps = unit.vector_free_ps
        waited_for = unit.vector_record
    end_ps = start_ps + duration_ps
    operands = [(view.allocation.identity, view.offset, box) for view, box in zip(views, boxes, strict=True)]
    if not result:
        operands.insert(0, NO_OPERAND)
    record = issuer.record(
        name,
        VECTOR,
        line,
        issue_ps,
        start_ps,
        end_ps,
        count=count,
        nbytes=widest,
        detail=size,
        dst=operands[0],
        a=operands[1] if len(operands) > 1 else NO_OPERAND,
        b=operands[2] if len(operands) > 2 else NO_OPERAND,
        waited_for=waited_for,
    )
    if len(operands) > 3:
        issuer.log.more_operands[record] = operands[3:]
    unit.vector_free_ps = end_ps
    unit.vector_record = record
    if effect is not None and issuer.has_data:
        unit.later(end_ps, effect)
    return record


def _number(issuer: Issuer, known: VectorCall, operands: Sequence[Value], value: Any) -> Any:
    """A number in the instruction's element type, which the layouts of its views decide."""
    number = known.numbers.get(value) if value.__class__ is int else None
    if number is None:
        number = issuer.chip.quiet.run(_as_type, value, main_type(known.instruction, operands))
        if value.__class__ is int and len(known.numbers) < _NUMBERS:
            known.numbers[value] = number
    return number


def _as_type(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.asarray(value).astype(dtype)


def _count(found: list[int], effect: Callable[[], int]) -> None:
    found.append(effect())
