"""Checks of instructions: architecture, element types, shapes, alignment, overlap. Each error names a remedy.

The rules are those of the public headers; a rule that differs by generation is an attribute of the instruction's record
or a constant here. A board reports none of these errors and computes a wrong result.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from mlusim.cores.foreign_names import argument_advice
from mlusim.cores.instructions.record import Extent, Instruction, Match, Overlap, Types
from mlusim.dtypes import dtype_name
from mlusim.errors import OperandError, shown
from mlusim.hardware.checks import ALIGNED_SIZE_BYTES
from mlusim.memory.view import View
from mlusim.units import group_digits, round_up

if TYPE_CHECKING:
    from mlusim.hardware.board_record import Board

Number: TypeAlias = bool | int | float | complex
Value: TypeAlias = View | Number

# Attributes that are names, and those that are element values; all others are integers.
_ATTRIBUTES_BY_NAME = frozenset({"operation", "mode", "rounding", "overlap", "index"})
_ATTRIBUTES_OF_VALUES = frozenset({"value", "pad_value", "nvalue"})
ALIGNED_ADDRESS_BYTES: Final = 64


def bind(
    instruction: Instruction, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[tuple[Value, ...], dict[str, Any]]:
    """Sort the arguments of a call into operands and attributes.

    Raises `OperandError` for excess, missing or unknown arguments, or a view in place of a number.
    """
    names = [operand.name for operand in instruction.operands] + list(instruction.attributes)
    if len(arguments) > len(names):
        raise OperandError(f"{instruction.signature} takes {len(names)} arguments, not {len(arguments)}")
    values = dict(zip(names, arguments, strict=False))
    for name, value in keywords.items():
        if name not in names or name in values:
            if name in values:
                raise OperandError(f"{instruction.signature} got {name!r} twice: call it as shown")
            raise OperandError(f"{instruction.signature} has no argument {name!r}: {argument_advice(name)}")
        values[name] = value
    attributes = dict(instruction.defaults)
    for name in instruction.attributes:
        if name in values:
            attributes[name] = values[name]
            _check_attribute(instruction, name, values[name])
    missing = [name for name in names if name not in values and name not in attributes]
    if missing:
        raise OperandError(
            f"{instruction.signature}: missing {', '.join(missing)}{_number_advice(instruction, missing)}"
        )
    operands = tuple(values[operand.name] for operand in instruction.operands)
    for operand, value in zip(instruction.operands, operands, strict=True):
        if not isinstance(value, View) and not operand.number:
            raise OperandError(f"{instruction.signature}: {operand.name} is a view, not {shown(value)}")
        if isinstance(value, View):
            continue
        if isinstance(value, np.ndarray) and value.ndim:
            raise OperandError(
                f"{instruction.signature}: {operand.name} is an array of the host; upload it, memcpy it to the core's "
                "NRAM, and pass that view"
            )
        if not isinstance(value, bool | int | float | np.generic | np.ndarray) or np.iscomplexobj(value):
            raise OperandError(f"{instruction.signature}: {operand.name} is a view or a number, not {shown(value)}")
    return operands, attributes


def _number_advice(instruction: Instruction, missing: Sequence[str]) -> str:
    """Return the remedy for a call without its last operand: a result in a register, or in the place of a source."""
    if missing != [instruction.operands[-1].name]:
        return ""
    if instruction.name == "reduce_sum":
        return "; it sums each 128 B of src by itself; `await core.sum(src)` returns the sum of all elements"
    if instruction.group == "Reductions":
        # As `await core.sum(src)`, which a board can do for few instructions.
        return "; its result is stored in dst, in NRAM: pass both, then read it with `await core.load(dst[0])`"
    if instruction.overlap is Overlap.SAME:
        names = ["dst", "dst", *(operand.name for operand in instruction.operands[2:])]
        return f"; to compute in place, pass the view twice: core.{instruction.name}({', '.join(names)})"
    return ""


def _check_attribute(instruction: Instruction, name: str, value: Any) -> None:
    """Raise `OperandError` for an attribute that is not a number, or not an integer where it counts or steps."""
    if name in instruction.defaults and value is instruction.defaults[name]:
        return
    if name in _ATTRIBUTES_BY_NAME:
        if not isinstance(value, str | int | np.integer):
            raise OperandError(f"{instruction.signature}: {name} must be a name or a number, not {shown(value)}")
    elif name in _ATTRIBUTES_OF_VALUES:
        if not isinstance(value, bool | int | float | np.generic) or isinstance(value, complex | np.complexfloating):
            raise OperandError(f"{instruction.signature}: {name} is a real number, not {shown(value)}")
    elif not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise OperandError(f"{instruction.signature}: {name} is an integer, not {shown(value)}")


def takes_number(instruction: Instruction) -> bool:
    """Return whether the last argument may be a number of the elements' type, as in `add` and `fill`."""
    last = instruction.operands[-1]
    return (
        last.number and last.match is Match.SAME if not instruction.attributes else _last_name(instruction) == "value"
    )


def _last_name(instruction: Instruction) -> str:
    return (*[operand.name for operand in instruction.operands], *instruction.attributes)[-1]


def check_number(instruction: Instruction, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise `OperandError` for a number as the last argument that the elements' type cannot hold.

    Converted to an integer, a fraction would silently be another number, and so would 300 in 8 bits; a negative number
    may stand for the bits of an unsigned one. BANG C converts both as C does, so only the methods of `Core` call this.
    """
    result = arguments[0] if arguments else keywords.get("dst")
    if type(result) is not View:
        return
    value = arguments[-1] if arguments else None
    if keywords:
        value = keywords.get(_last_name(instruction), value)
    if not isinstance(value, int | float | np.integer | np.floating):
        return
    limit = _limit(result.layout.dtype, value)
    if limit:
        dtype = dtype_name(result.layout.dtype)
        number = f"{value:g}" if isinstance(value, float | np.floating) else shown(value)
        raise OperandError(
            f"{instruction.name} of {dtype} with {_last_name(instruction)} = {number}: {dtype} does not hold that "
            f"number; pass {limit}"
        )


def _limit(dtype: np.dtype[Any], value: float | np.integer | np.floating) -> str:
    """Return what an element type holds, if that is not this number, or the bits of a negative one."""
    if dtype.kind not in "iu":
        # Other numbers round, or become infinities.
        too_large = isinstance(value, int) and abs(value) >= 1 << sys.float_info.max_exp
        return "one below 1.8e308" if too_large else ""
    min_value, max_value = -1 << 8 * dtype.itemsize - 1, (1 << 8 * dtype.itemsize) - 1
    is_integer = not isinstance(value, float | np.floating) or float(value).is_integer()
    if is_integer and min_value <= int(value) <= max_value:
        return ""
    return f"an integer from {min_value} to {max_value}, or convert the elements to a float type first"


def main_type(instruction: Instruction, operands: Sequence[Value]) -> np.dtype[Any]:
    """Return the element type that the others follow: that of the first source, or of the result without sources."""
    for operand, value in zip(instruction.operands[1:], operands[1:], strict=True):
        if operand.match is Match.SAME and isinstance(value, View):
            return value.dtype
    assert isinstance(operands[0], View)
    return operands[0].dtype


def check_since(instruction: Instruction, board: Board) -> None:
    """Raise `OperandError` if the board's architecture does not have the instruction."""
    if board.arch < instruction.since:
        raise OperandError(
            f"{instruction.name} exists from arch {instruction.since} on; {board.name} is arch {board.arch}: compose "
            "it of others, or choose a later board"
        )


def check_types(instruction: Instruction, board: Board, operands: Sequence[Value]) -> None:
    """Raise `OperandError` if the board lacks the instruction, or the instruction an operand's element type."""
    name = instruction.name
    check_since(instruction, board)
    main = main_type(instruction, operands)
    _check_type(name, board, main, instruction.types)
    for operand, value in zip(instruction.operands, operands, strict=True):
        if not isinstance(value, View):
            continue
        if operand.match is Match.SAME and value.dtype != main:
            raise OperandError(
                f"{name} of {dtype_name(main)} with {operand.name} of {dtype_name(value.dtype)}: operands of one "
                "instruction must have one element type; use convert first"
            )
        if operand.match is Match.WIDTH and value.itemsize != main.itemsize:
            raise OperandError(
                f"{name} of {main.itemsize} B elements with {operand.name} of {value.itemsize} B: widths must agree"
            )
        if operand.match is Match.FREE and operand.types is not None:
            _check_type(f"{name}: {operand.name}", board, value.dtype, operand.types)
    views = [value for value in operands if isinstance(value, View)]
    rule = instruction.combination([view.dtype for view in views])
    if rule:
        typed_names = [f"{dtype_name(view.dtype)} {view.allocation.name}" for view in views]
        raise OperandError(f"{name} of {', '.join(typed_names[1:])} to {typed_names[0]}: {rule}")


def _check_type(operands_text: str, board: Board, dtype: np.dtype[Any], types: Types) -> None:
    since = types.get(dtype)
    if since is None or board.arch < since:
        type_names = ", ".join(dtype_name(kind) for kind, first in types.items() if board.arch >= first)
        later = f" before arch {since}" if since is not None else ""
        raise OperandError(
            f"{operands_text} of {dtype_name(dtype)} operands: {board.name} has no such instruction{later}; "
            f"it takes {type_names}; convert them first"
        )


def _extent_of(value: Value, itemsize: int) -> Extent:
    """Return the extent of a value; a number counts as one element of the instruction's type."""
    if isinstance(value, View):
        return Extent(value.shape, value.itemsize)
    return Extent((), itemsize, is_number=True)


def check_geometry(instruction: Instruction, operands: Sequence[Value], attributes: Mapping[str, Any]) -> None:
    """Raise `OperandError` if shapes and attributes violate the instruction's rule."""
    width = main_type(instruction, operands).itemsize
    extents = [_extent_of(value, width) for value in operands]
    complaint = instruction.geometry(extents, attributes)
    if complaint:
        views = [value for value in operands if isinstance(value, View)]
        sources = " and ".join(repr(view) for view in views[1:])
        described = f"{sources} to {views[0]!r}" if sources else repr(views[0])
        raise OperandError(f"{instruction.name} of {described}: {complaint}{_cycle_advice(instruction, extents)}")


def _cycle_advice(instruction: Instruction, extents: Sequence[Extent]) -> str:
    """Return a remedy for operands that NumPy would broadcast: the instruction that repeats the last source."""
    from mlusim.cores.instructions.table import INSTRUCTIONS

    cyclic = f"cycle_{instruction.name.rstrip('_')}"
    sizes = [extent.size for extent in extents]
    if cyclic not in INSTRUCTIONS or sizes[0] != sizes[1] or not sizes[2] or sizes[0] % sizes[2]:
        return ""
    return f"; core.{INSTRUCTIONS[cyclic].signature} repeats seg along src"


def check_overlap(instruction: Instruction, operands: Sequence[Value]) -> None:
    """Raise `OperandError` if the result shares bytes with a source in a way that the instruction does not allow."""
    result = operands[0]
    assert isinstance(result, View)
    for source in operands[1:]:
        if not isinstance(source, View) or source.allocation is not result.allocation:
            continue
        first, last = result.offset, result.offset + result.nbytes
        low, high = source.offset, source.offset + source.nbytes
        if first >= high or low >= last:
            continue
        if instruction.overlap in {Overlap.SAME, Overlap.PIXEL} and first == low:
            continue
        # Every channel of the pixel depends only on the same channel of the source.
        one_pixel = result.shape[:-1] == (1, 1) and result.shape[-1:] == source.shape[-1:]
        if instruction.overlap is Overlap.PIXEL and one_pixel and (first - low) % result.nbytes == 0:
            continue
        if instruction.overlap is Overlap.CONVERT and (
            first == low if result.nbytes <= source.nbytes else last <= high
        ):
            continue
        raise OperandError(
            f"{instruction.name} of {source!r} to {result!r}: they overlap; the result would depend on the order of "
            f"bytes ({instruction.overlap.value}); it reads bytes {group_digits(low)}..{group_digits(high)} of "
            f"{source.allocation.name} and writes {group_digits(first)}..{group_digits(last)}; write to another buffer"
        )


def check_all_aligned(instruction: Instruction | None, name: str, board: Board, views: Sequence[View]) -> None:
    """Call `check_aligned` for the result, which comes first, and its sources."""
    sources = max((view.nbytes for view in views[1:]), default=None)
    for position, view in enumerate(views):
        check_aligned(instruction, name, board, view, source_bytes=None if position else sources)


def check_aligned(
    instruction: Instruction | None, name: str, board: Board, view: View, *, source_bytes: int | None
) -> None:
    """Check alignment on 1xx and 2xx (B): 64 B addresses, sizes a multiple of 128 B unless the record says otherwise.

    Args:
        instruction, name, board: the call and its board.
        view: one of its operands.
        source_bytes: for the result: size of the largest source. If the result is smaller, as in a reduction, its
            length is not an argument of the instruction: its buffer has whole 128 B, or the allocation's padding
            completes them.

    The same exception applies to all operands of pools, which have a channel count as argument, and of `mirror`:
    ASSUMED, because the requirements of 2xx on channels and on mirrored rows are not known, and operators on 2xx mirror
    tiles of any width. The size rule of a comparison to bits is that of its sources.

    Raises `OperandError` for a misaligned operand.
    """
    multiple = ALIGNED_SIZE_BYTES if instruction is None else instruction.multiple_2xx
    address, nbytes = view.allocation.address + view.offset, view.nbytes
    ragged = [extent for extent in view.shape if extent * view.itemsize % multiple]
    if instruction is not None and instruction.sides_2xx and ragged:
        raise OperandError(
            f"{name} of {view!r}: on arch {board.arch} height and width must each be a multiple of {multiple} B, and "
            f"{ragged[0]} elements are {ragged[0] * view.itemsize} B; pad the matrix"
        )
    lengthless = source_bytes is not None and nbytes < source_bytes
    bytes_to_end = view.allocation.nbytes - view.offset
    rounded_fits = lengthless and round_up(nbytes, multiple) <= bytes_to_end
    if instruction is not None and (instruction.group == "Pools" or instruction.name == "mirror"):
        lengthless = True
    of_bits = source_bytes is not None and instruction is not None and instruction.operands[0].bits
    padding_allowed = rounded_fits or of_bits or (lengthless and nbytes == bytes_to_end)
    ragged_end = nbytes % multiple and not padding_allowed
    if address % ALIGNED_ADDRESS_BYTES or ragged_end:
        remedy = f"allocate whole {multiple} B and compute on all of them"
        if not ragged_end:
            remedy = "load the operand to a multiple of 64 B, or move it there by a scalar loop"
        raise OperandError(
            f"{name} of {view!r} at byte {address}, {nbytes} B long: arch {board.arch} needs 64 B alignment and a "
            f"multiple of {multiple} B; {remedy}"
        )
