"""Cost and checks of an instruction for operands of certain layouts, computed once.

A kernel issues the same instruction on the same layouts many times. Types, shapes, attributes, cost and the part of the
record that depends on them are checked and computed for the first of these calls, and cached by key: the name, the
layouts, and attributes by value. The addresses of operands differ between calls and are checked each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.cost import Cost, Work
from mlusim.cores.instructions.limits import (
    ALIGNED_ADDRESS_BYTES,
    Value,
    check_all_aligned,
    check_geometry,
    check_overlap,
    check_types,
    main_type,
)
from mlusim.cores.instructions.record import Instruction, Overlap
from mlusim.cores.instructions.wram_layout import check_filters
from mlusim.errors import OperandError
from mlusim.log import NONE, ON_INTEGERS, VECTOR
from mlusim.memory.allocation import check_usable
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.hardware.board_record import Board

Geometry = tuple[int, int, int, int]
# Number of operands that fit in a record.
RECORDED: Final = 3


class Number:
    """A number among the operands of a call: like a view, it has `elements`, in the instruction's element type."""

    __slots__ = ("elements",)

    def __init__(self, elements: Array) -> None:
        self.elements = elements


class VectorCall:
    """An instruction on operands of certain layouts, with certain attributes.

    Attributes:
        instruction, attributes: the call.
        compute: the computation with these attributes, on the arrays of the operands.
        ufunc: a NumPy function that computes the same from the sources into the result, or None.
        duration_ps: time on the compute pipe.
        code: number of its instruction in the log.
        has_more: whether it has views beyond the first three, which are stored outside the records.
        operand_layouts: the layouts of its operands; for a number, its type.
        is_positional: whether the log needs its attributes (`Instruction.marks`).
        has_numbers: whether an operand is a number.
        is_plain: whether its operands are only views in NRAM, up to three, and Python numbers, its attributes cannot
            change, and nothing is noted.
        aligned: whether addresses must be aligned.
        apart: whether no source may begin where the result begins.
        element_type: the type to which numbers among its operands are converted.
    """

    def __init__(
        self, issuer: Issuer, instruction: Instruction, operands: Sequence[Value], attributes: Mapping[str, Any]
    ) -> None:
        views = [value for value in operands if isinstance(value, View)]
        check_types(instruction, issuer.board, operands)
        check_layouts(issuer.board, instruction, operands)
        check_geometry(instruction, operands, attributes)
        self.instruction = instruction
        self.attributes = attributes
        self.compute: Callable[..., Any] = (
            partial(instruction.compute, **attributes) if attributes else instruction.compute
        )
        self.ufunc = _ufunc_for(instruction, views)
        count = instruction.count([view.dtype for view in views], attributes)
        integers = instruction.tensor and all(view.dtype.kind in "iu" for view in views[1:3])
        geometry = geometry_of(issuer, instruction.cost, views, count, integers=integers)
        self.duration_ps, widest, elements, count = geometry
        boxes = [issuer.operand(view)[2] for view in views]
        dst_box, a_box, b_box = (*boxes, NONE, NONE)[:RECORDED]
        self.code = issuer.log.instruction(
            instruction.name,
            VECTOR,
            count=count,
            nbytes=widest,
            alone_ps=self.duration_ps,
            detail=elements,
            dst_box=dst_box,
            a_box=a_box,
            b_box=b_box,
        )
        self.has_more = len(views) > RECORDED
        self.operand_layouts = tuple(value.layout if isinstance(value, View) else type(value) for value in operands)
        self.has_numbers = len(views) < len(operands)
        required = len(instruction.attributes) > len(instruction.defaults)
        self.is_positional = required and instruction.marks is not None
        self.element_type = main_type(instruction, operands)
        self._multiple = instruction.multiple_2xx if issuer.board.needs_aligned_vectors else 0
        # Otherwise `check_plainly` runs for every call.
        self._fast = all(operand.memory == "nram" for operand in instruction.operands) and not (
            self._multiple and (instruction.sides_2xx or any(view.nbytes % self._multiple for view in views))
        )
        self.must_not_overlap = instruction.overlap is not Overlap.SAME
        self.aligned = self._multiple > 0
        usual = all(isinstance(value, View) or type(value) in (int, float) for value in operands)
        noted = instruction.looks_up or instruction.counts or instruction.selects
        constant = all(type(value) in (bool, int, float, str, type(None)) for value in attributes.values())
        self.is_plain = self._fast and usual and constant and not (self.has_more or noted)

    def check(self, issuer: Issuer, operands: Sequence[Value], views: Sequence[View]) -> None:
        """Raise `OperandError` or `AllocationError` if the addresses of operands are not allowed.

        Optimised: most operands pass a fast check. Otherwise `check_plainly` decides.
        """
        nram, aligned = issuer.unit.nram, self._multiple
        first, start = views[0].allocation, views[0].offset
        valid = self._fast and first.memory is nram and not first.freed
        if aligned and (first.address + start) % ALIGNED_ADDRESS_BYTES:
            valid = False
        stop = start + views[0].nbytes
        for view in views[1:]:
            allocation, offset = view.allocation, view.offset
            if allocation is first and offset == start:
                # An operand that begins at the result is aligned like the result.
                if self.must_not_overlap:
                    valid = False
            elif (
                allocation.memory is not nram
                or allocation.freed
                or (aligned and (allocation.address + offset) % ALIGNED_ADDRESS_BYTES)
                or (allocation is first and offset < stop and start < offset + view.nbytes)
            ):
                valid = False
        if not valid:
            self.check_plainly(issuer, operands, views)

    def check_plainly(self, issuer: Issuer, operands: Sequence[Value], views: Sequence[View]) -> None:
        """Perform all checks."""
        check_memories(issuer, self.instruction, operands)
        check_overlap(self.instruction, operands)
        if self._multiple:
            check_all_aligned(self.instruction, self.instruction.name, issuer.board, views)


def _ufunc_for(instruction: Instruction, views: Sequence[View]) -> np.ufunc | None:
    """Return the NumPy function of an instruction if it can write to the result, without an intermediate array."""
    ufunc, shapes = instruction.ufunc, {view.shape for view in views}
    if ufunc is None or len(shapes) > 1:
        return None
    result, *sources = (np.empty(0, view.dtype) for view in (*views, views[-1])[:3])
    try:
        ufunc(*sources, out=result)
    except TypeError:
        return None
    return ufunc


def call_key(instruction: Instruction, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the key of a call: layouts of views, types of numbers, values of attributes.

    `arguments` contains every operand, then attributes.
    """
    operands = len(instruction.operands)
    # Include the shape of a host array: arrays of rank 0 are numbers.
    key: list[Any] = [
        value.layout if type(value) is View else (type(value), getattr(value, "shape", ()))
        for value in arguments[:operands]
    ]
    key += [_attribute_key(value) for value in arguments[operands:]]
    return (instruction.name, *key)


def _attribute_key(value: Any) -> tuple[Any, ...]:
    try:
        hash(value)
    except TypeError:
        # A unique key: the call is never found in the cache.
        return type(value), object()
    # 0.0 and -0.0 are equal, but different values.
    is_zero = isinstance(value, (float, np.generic)) and not value
    return type(value), str(value) if is_zero else value


def geometry_of(issuer: Issuer, cost: Cost, views: Sequence[View], count: int, *, integers: bool = False) -> Geometry:
    """Return the values that depend only on layouts: duration, widest operand, elements, count."""
    key = (cost, count, integers, *[view.layout for view in views])
    cached: Geometry | None = issuer.chip.vector_geometries.get(key)
    if cached is None:
        cached = issuer.chip.vector_geometries[key] = _geometry_of(issuer, cost, views, count, integers)
    return cached


def _geometry_of(issuer: Issuer, cost: Cost, views: Sequence[View], count: int, integers: bool) -> Geometry:  # noqa: FBT001 - as `geometry_of`
    widest = max(view.nbytes for view in views)
    work = Work(widest, tuple(view.size for view in views), tuple(view.itemsize for view in views), count, integers)
    elements = ON_INTEGERS if integers else views[0].size
    return issuer.board.cycles_ps(cost(issuer.board, work)), widest, elements, count


def check_memories(issuer: Issuer, instruction: Instruction, operands: Sequence[Value]) -> None:
    """Raise `OperandError` for an operand outside the core's NRAM, or WRAM for an operand of the tensor pipe."""
    unit = issuer.unit
    for operand, value in zip(instruction.operands, operands, strict=True):
        if not isinstance(value, View):
            continue
        allocation = value.allocation
        if operand.memory == "wram":
            if allocation.memory is not unit.wram:
                raise _wrong_memory(instruction, operand.name, value, operands)
            if allocation.freed:
                check_usable(allocation, write=False)
        elif allocation.memory is unit.wram and any(declared.memory == "wram" for declared in instruction.operands):
            raise _wrong_memory(instruction, operand.name, value, operands)
        elif allocation.freed or allocation.memory is not unit.nram:
            check_operand(issuer, instruction.name, value, write=value is operands[0])


def _wrong_memory(instruction: Instruction, name: str, view: View, values: Sequence[Value]) -> OperandError:
    """Return the error for an operand of the tensor pipe in the wrong memory of the core; others may be swapped."""
    pairs = list(zip(instruction.operands, values, strict=True))
    memory_of = {operand.name: operand.memory.upper() for operand, _ in pairs}
    swapped = {
        operand.memory
        for operand, value in pairs
        if isinstance(value, View) and value.memory.name != memory_of[operand.name]
    }
    remedy = "memcpy it there first" if name != pairs[0][0].name else "write to a buffer there, then memcpy the result"
    if len(swapped) > 1:
        order = ", ".join(memory_of)
        remedy = f"are operands swapped? the order is {instruction.name}({order})"
    return OperandError(f"{instruction.name} of {view!r}: {name} must be in this core's {memory_of[name]}; {remedy}")


def check_operand(issuer: Issuer, name: str, view: View, *, write: bool) -> None:
    """Raise `OperandError` for a view outside the core's NRAM, `AllocationError` if it was freed."""
    allocation = view.allocation
    if allocation.memory is not issuer.unit.nram:
        remedy = "write to a buffer there, then memcpy the result" if write else "memcpy it there first"
        if issuer.unit.is_memory_core:
            remedy = "the memory core has none: begin the kernel with `if core.is_memory_core: return`"
        raise OperandError(
            f"{name} of {view!r}: vector operands must be in this core's NRAM; {remedy}"
            if view.memory is not MemoryKind.NRAM
            else f"{name} of {view!r}: it is in {allocation.memory.name}, not in this core's NRAM"
        )
    if allocation.freed:
        check_usable(allocation, write=write)


def check_layouts(board: Board, instruction: Instruction, operands: Sequence[Value]) -> None:
    """Raise `OperandError` for a view with gaps, except between lanes of WRAM, or without elements."""
    for operand, value in zip(instruction.operands, operands, strict=True):
        if isinstance(value, View):
            if operand.memory == "wram" and value.size:
                check_filters(instruction.name, board, value)
            else:
                check_contiguous(instruction.name, (value,))


def check_contiguous(name: str, views: Sequence[View]) -> None:
    """Raise `OperandError` for a view with gaps or without elements."""
    for view in views:
        if not view.is_contiguous:
            raise OperandError(
                f"{name} of {view!r} with strides {list(view.strides)}: vector operands must be contiguous; "
                "use a contiguous slice, or memcpy to a buffer"
            )
        if not view.size:
            raise OperandError(
                f"{name} of {view!r}, which has no elements: a count must be positive; guard it with `if`"
            )
