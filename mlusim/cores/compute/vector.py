"""The compute pipe: issues one vector or tensor instruction of the table.

`issue` is the common entry: it checks the limits (`mlusim.cores.instructions.limits`), computes the cost, logs the
record and schedules the effect on memory. Operands are contiguous views in the core's NRAM, filters of the tensor pipe
in its WRAM. On arch below 300 they are 64 B aligned and a multiple of 128 B long. Instructions are asynchronous; `sync`
or `sync_compute` waits for them. Not modelled: the wait between back-to-back dependent instructions beyond the
start-up, and vector and tensor instructions in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Integers, as_element
from mlusim.cores.compute.uncached_vector import issue_to_register, wait_for_register
from mlusim.cores.compute.vector_call import (
    RECORDED,
    Number,
    VectorCall,
    call_key,
    check_contiguous,
    check_memories,
)
from mlusim.cores.instructions.limits import (
    ALIGNED_ADDRESS_BYTES,
    Value,
    bind,
)
from mlusim.cores.instructions.record import Instruction
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.cores.operands import Passed, check_view
from mlusim.cores.tasks.waiting import Waiting
from mlusim.errors import MissingDataError, OperandError
from mlusim.log import NONE
from mlusim.log_tables import Remark
from mlusim.memory.allocation import Allocation
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.log import Log

_ALL_BITS = 0xFF
# From this number on, effects of instructions that have ended are applied, even if no access to memory needs them: a
# long loop of vector instructions would keep them all.
MAX_EFFECTS = 1024
# Limit on the calls that a line of a kernel repeats: a helper may issue several instructions in turn.
_CALLS_OF_LINE = 4
_NO_CALLS: list[tuple[VectorCall, tuple[Any, ...]]] = []


def call(
    issuer: Issuer, line: int, instruction: Instruction, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Waiting | None:
    """Issue an instruction with the arguments of a kernel: operands and attributes in order, or by name.

    If the result is left out and the instruction supports a register result, returns an awaitable for it.
    """
    if instruction.to_register and len(arguments) == len(instruction.operands) - 1 and not keywords:
        return issue_to_register(issuer, line, instruction, arguments[0])
    if not (keywords or instruction.counts):
        for repeated, attributes_passed in issuer.repeated.get(line, _NO_CALLS):
            if repeated.instruction is instruction and _issue_again(
                issuer, line, repeated, attributes_passed, arguments
            ):
                return None
        # Calls with the same key are already bound and checked, except for the addresses of operands.
        cached = issuer.chip.vector_calls.get(call_key(instruction, arguments))
        if cached is not None:
            count = len(instruction.operands)
            _issue(issuer, line, cached, arguments[:count])
            if cached.is_plain:
                _remember(issuer, line, cached, arguments[count:])
            return None
    operands, attributes = bind(instruction, arguments, keywords)
    if instruction.counts:
        return issue_and_count(issuer, line, instruction, operands, attributes)
    cached = _cached_call(issuer, instruction, operands, attributes)
    if not keywords:
        issuer.chip.vector_calls[call_key(instruction, arguments)] = cached
    _issue(issuer, line, cached, operands)
    return None


def pool_rows(issuer: Issuer, line: int, name: str, dst: Passed, src: Passed) -> None:
    """Pool over the first axis of src (rows, ...) to dst (...): `sum_rows` by `sumpool`, and so on."""
    check_view(name, dst)
    check_view(name, src)
    row_shape = src.shape[1:] if src.ndim > 1 else (1,)
    if dst.shape != row_shape or not src.shape:
        raise OperandError(
            f"{name} of {src!r} to {dst!r}: dst needs shape {list(row_shape)}, src without its first axis"
        )
    rows = src.shape[0]
    check_contiguous(name, (dst, src))
    pool = INSTRUCTIONS[f"{name.removesuffix('_rows')}pool"]
    call(issuer, line, pool, (dst.reshape(1, 1, -1), src.reshape(rows, 1, -1), rows, 1), {})


def _remember(issuer: Issuer, line: int, cached: VectorCall, attributes: tuple[Any, ...]) -> None:
    """Make a plain call one of those that its line repeats; `attributes` are the objects that were passed."""
    calls = issuer.repeated.setdefault(line, [])
    others = [call for call in calls if call[0] is not cached]
    calls[:] = [*others[-_CALLS_OF_LINE + 1 :], (cached, attributes)]


def prepare_call(
    issuer: Issuer, line: int, instruction: Instruction, arguments: Sequence[Any]
) -> Callable[[], None] | None:
    """Return a function that repeats a call on memory that is not freed meanwhile. Raises as `issue`.

    Returns None if the result goes to a register.
    """
    if instruction.counts or (instruction.to_register and len(arguments) == len(instruction.operands) - 1):
        return None
    operands, attributes = bind(instruction, arguments, {})
    cached = _cached_call(issuer, instruction, operands, attributes)
    if instruction.looks_up or instruction.selects or cached.has_more:
        return partial(_repeat, issuer, line, cached, operands)
    views: list[Any] = [value for value in operands if isinstance(value, View)]
    cached.check(issuer, operands, views)
    addresses = _addresses(views)
    elements = _with_elements(cached, operands, views) if issuer.has_data else operands

    def repeat() -> None:
        _add(issuer, line, cached, addresses, None, elements)

    return repeat


def _repeat(issuer: Issuer, line: int, cached: VectorCall, operands: Sequence[Any]) -> None:
    _issue(issuer, line, cached, operands)


def issue_and_count(
    issuer: Issuer, line: int, instruction: Instruction, operands: Sequence[Value], attributes: Mapping[str, Any]
) -> Waiting:
    """Issue an instruction that also counts; the result of the wait is the number. Raises as `issue_to_register`."""
    if not issuer.has_data:
        raise MissingDataError(f"{instruction.name} in a timing-only run, which has no numbers: run with data")
    selected: list[Integers] = []
    record = issue(issuer, line, instruction, operands, attributes, selected)

    def value() -> int:
        (positions,) = selected
        # The checker compares only the elements written, and follows them from where they were.
        issuer.log.addresses[record] = {"dst": issuer.log.positions(len(positions)), "src": positions}
        return len(positions)

    return wait_for_register(issuer, line, record, value)


def issue(
    issuer: Issuer,
    line: int,
    instruction: Instruction,
    operands: Sequence[Value],
    attributes: Mapping[str, Any],
    selected: list[Integers] | None = None,
) -> int:
    """Issue one instruction; returns its record.

    Args:
        instruction: its entry in the table.
        operands: the result, then the sources: views, or numbers where the entry allows them.
        attributes: every attribute of the entry.
        selected: receives the positions that the instruction selects, once it is complete.

    Raises `OperandError` for a violated limit, `AllocationError` for memory that was freed.
    """
    return _issue(issuer, line, _cached_call(issuer, instruction, operands, attributes), operands, selected)


def _cached_call(
    issuer: Issuer, instruction: Instruction, operands: Sequence[Value], attributes: Mapping[str, Any]
) -> VectorCall:
    """Return the cached properties of a call that depend on layouts and attributes. Raises as `issue`."""
    check_memories(issuer, instruction, operands)
    key = call_key(instruction, (*operands, *[attributes[name] for name in instruction.attributes]))
    cached: VectorCall | None = issuer.chip.vector_calls.get(key)
    if cached is None:
        cached = issuer.chip.vector_calls[key] = VectorCall(issuer, instruction, operands, attributes)
    return cached


def _issue(
    issuer: Issuer, line: int, cached: VectorCall, operands: Sequence[Any], selected: list[Integers] | None = None
) -> int:
    """Issue a call that is checked except for the addresses of its operands; returns its record."""
    views: Any = [value for value in operands if isinstance(value, View)] if cached.has_numbers else operands
    cached.check(issuer, operands, views)
    effect = None
    if issuer.has_data:
        operands = _with_elements(cached, operands, views)
        instruction = cached.instruction
        if instruction.looks_up or instruction.selects or selected is not None:
            effect = _effect(issuer, line, cached, operands, selected)
    record = _add(issuer, line, cached, _addresses(views), effect, operands)
    if cached.has_more:
        issuer.log.more_operands[record] = [issuer.operand(view) for view in views[RECORDED:]]
    return record


def _addresses(views: Any) -> list[int]:
    """Return allocation and offset of the views that fit in a record."""
    addresses: list[int] = []
    for view in views[:RECORDED]:
        addresses += (view.allocation.identity, view.offset)
    return addresses


def _with_elements(cached: VectorCall, operands: Sequence[Any], views: Any) -> Sequence[Any]:
    """Return checked operands with their arrays and numbers, for an effect on data."""
    # The views are checked and have bytes, so a cached array is up to date.
    for view in views:
        if view.elements is None:
            view.typed()
    if not cached.has_numbers:
        return operands
    return [value if isinstance(value, View) else Number(as_element(value, cached.element_type)) for value in operands]


def _issue_again(
    issuer: Issuer, line: int, cached: VectorCall, attributes: tuple[Any, ...], arguments: tuple[Any, ...]
) -> bool:
    """Issue a plain call that its line has issued before; returns false, without effect, if anything is different.

    Optimised: most instructions of a loop pass here, with one pass over their operands and without a lookup by layouts.
    `call` does the same in general.
    """
    operands, count = arguments, len(cached.operand_layouts)
    if len(arguments) != count + len(attributes):
        return False
    if attributes:
        # The same objects have to be passed as before.
        for position in range(len(attributes)):
            if arguments[count + position] is not attributes[position]:
                return False
        operands = arguments[:count]
    nram, has_data, aligned, must_not_overlap = (
        issuer.unit.nram,
        issuer.has_data,
        cached.aligned,
        cached.must_not_overlap,
    )
    result, layouts = operands[0], cached.operand_layouts
    first, start, stop = None, 0, 0
    addresses: list[int] = []
    for view, layout in zip(operands, layouts):  # noqa: B905 - equal lengths, checked above
        if view is result and first is not None and layout is layouts[0] and not must_not_overlap:
            # In place.
            addresses.append(addresses[0])
            addresses.append(addresses[1])
            continue
        if type(view) is not View:
            if type(view) is layout:
                continue
            return False
        if view.layout is not layout:
            return False
        # The annotation makes compiled code read its attributes directly.
        allocation: Allocation = view.allocation
        offset = view.offset
        if allocation is first and offset == start:
            # An operand that begins at the first one is aligned like it.
            different = must_not_overlap
        else:
            different = allocation.memory is not nram or allocation.freed
            if aligned and (allocation.address + offset) % ALIGNED_ADDRESS_BYTES:
                different = True
            if first is None:
                first, start, stop = allocation, offset, offset + view.layout.nbytes
            elif allocation is first and offset < stop and start < offset + view.layout.nbytes:
                different = True
        if different:
            return False
        if has_data and view.elements is None:
            view.typed()
        addresses.append(allocation.identity)
        addresses.append(offset)
    if has_data and cached.has_numbers:
        operands = tuple(
            [value if type(value) is View else Number(as_element(value, cached.element_type)) for value in operands]
        )
    _add(issuer, line, cached, addresses, None, operands)
    return True


def _add(
    issuer: Issuer,
    line: int,
    cached: VectorCall,
    addresses: list[int],
    effect: Callable[[], Any] | None,
    operands: Sequence[Any],
) -> int:
    """Append a call to the compute pipe; returns its record.

    Args:
        issuer, line, cached: the call.
        addresses: allocation and offset of its views, which are completed to those of a record.
        effect, operands: as in `Unit.effects`.
    """
    unit, task = issuer.unit, issuer.task
    issuer.begin()
    issue_ps = start_ps = task.now_ps
    waited_for = NONE
    if unit.vector_free_ps > start_ps:
        start_ps = unit.vector_free_ps
        waited_for = unit.vector_record
    unit.vector_free_ps = end_ps = start_ps + cached.duration_ps
    if len(addresses) < 2 * RECORDED:
        addresses += [NONE] * (2 * RECORDED - len(addresses))
    dst, dst_offset, a, a_offset, b, b_offset = addresses
    unit.vector_record = record = issuer.records.add(
        cached.code,
        task.index,
        line,
        issue_ps,
        start_ps,
        end_ps,
        0,
        waited_for,
        dst,
        dst_offset,
        a,
        a_offset,
        b,
        b_offset,
    )
    if cached.is_positional:
        issuer.log.attributes[record] = cached.attributes
    if issuer.has_data:
        unit.effects.append((end_ps, effect, cached, operands))
        if len(unit.effects) > MAX_EFFECTS and not (task.pending_io or task.pending_move):
            # Without a copy in flight, nothing accesses the memory before the task goes on.
            unit.apply_effects(issue_ps)
    return record


def _effect(
    issuer: Issuer, line: int, cached: VectorCall, operands: Sequence[Any], selected: list[Integers] | None
) -> Callable[[], Any]:
    """Return the effect of a call that does more than compute on the elements of its operands."""
    effect = partial(cached.compute, *[operand.elements for operand in operands])
    if selected is not None:
        return partial(_select, selected, effect)
    if cached.instruction.selects:
        result_size = operands[0].size if cached.instruction.writes_some else NONE
        return partial(_log_selected, issuer.log, len(issuer.log), result_size, effect)
    return partial(_look_up, issuer, line, cached.instruction.name, issuer.task.now_ps, len(issuer.log), effect)


def _look_up(issuer: Issuer, line: int, name: str, now_ps: int, record: int, effect: Callable[[], Any]) -> None:
    used_entries, remark = effect()
    if not used_entries.all():
        issuer.log.select(record, np.packbits(used_entries, bitorder="little").tobytes())
    if remark is not None:
        kind, title, unchanged = remark
        if kind == "lookup":
            issuer.log.addresses[record] = {"dst": unchanged}
        issuer.log.remark(Remark(kind, title, name, issuer.task.index, line, now_ps))


def _log_selected(log: Log, record: int, result_size: int, effect: Callable[[], Any]) -> None:
    selected = effect()
    if isinstance(selected, tuple):
        selected, log.addresses[record] = selected[0], {"src": selected[1]}
    selected_bits = np.packbits(selected, bitorder="little").tobytes()
    # A result that is written whole is that of any instruction, and common.
    if selected_bits.count(_ALL_BITS) * 8 != result_size:
        log.select(record, selected_bits)


def _select(selected: list[Integers], effect: Callable[[], Integers]) -> None:
    selected.append(effect())
