"""The marks of a result: which elements of a result depend on which elements of the sources.

A mark is an integer per element, 0 for none. Where several marked elements reach one, the largest mark counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.compute.uncached_vector import BANG_MOVE
from mlusim.cores.instructions.record import same_size
from mlusim.cores.instructions.selection import compares_to_bits as has_bits
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.log import IO, MOVE
from mlusim.log_tables import Box

Marks = np.ndarray[Any, np.dtype[np.int32]]
# An operand of the log: allocation, offset in bytes, box.
Operand = tuple[int, int, Box]

_NOT_ELEMENTWISE = frozenset({"reduce_sum"})
_BY_MASK = frozenset({"maskmove", "maskmove_bitindex"})
_ELEMENTWISE_BY_ATTRIBUTE = frozenset({"convert", "fcmpfilter"})


def view_of(operand: Operand, of_bytes: Array) -> Any:
    """Return the items of an operand, [..., itemsize], in an array with one item for each byte of its allocation."""
    _, offset, box = operand
    if 0 in box.shape:
        return np.empty((*box.shape, box.itemsize), of_bytes.dtype)
    width = of_bytes.itemsize
    strides = (*(stride * width for stride in box.strides), width)
    return np.ndarray((*box.shape, box.itemsize), of_bytes.dtype, of_bytes.data, offset * width, strides)


def elementwise(name: str) -> bool:
    """Return whether element i of an instruction's result depends on element i of its sources alone."""
    instruction = INSTRUCTIONS.get(name)
    if instruction is None:
        return False
    by_size = instruction.geometry is same_size or name in _ELEMENTWISE_BY_ATTRIBUTE
    return by_size and name not in _NOT_ELEMENTWISE


def cyclic(name: str) -> bool:
    """Return whether element i of an instruction's result depends on element i of each source, modulo its size."""
    return name == "fusion" or name.startswith("cycle_")


def compares_to_bits(name: str) -> bool:
    """Return whether an instruction is a comparison whose result is a bit mask."""
    instruction = INSTRUCTIONS.get(name)
    return instruction is not None and instruction.geometry is has_bits


def is_copy(name: str, pipe: int) -> bool:
    """Return whether an operation moves bytes in order: on a DMA pipe, or within NRAM on the vector pipe."""
    return pipe in (IO, MOVE) or name in ("memcpy", BANG_MOVE)


def marks_by_position(
    name: str, box: Box, marks: Sequence[Marks | None], boxes: Sequence[Box], attributes: Mapping[str, Any] | None
) -> Marks | None:
    """Return the marks of a result by element, for an instruction that has `Instruction.marks`; else None.

    Args:
        name: name of the operation.
        box: the box of the result.
        marks, boxes: the marks of each source by element, or None if it has none; its box.
        attributes: those of `Log.attributes`, which an instruction without required ones does not need; None if a run
            that an earlier version saved lacks them.
    """
    instruction = INSTRUCTIONS.get(name)
    if instruction is None or instruction.marks is None:
        return None
    if attributes is None and len(instruction.attributes) > len(instruction.defaults):
        return None
    result = np.zeros(box.shape, np.int32)
    sources = [
        np.zeros(source.shape, np.int32) if mark is None else mark for mark, source in zip(marks, boxes, strict=True)
    ]
    instruction.marks(result, *sources, **(attributes or {}))
    return result


def result_marks(name: str, copied: Marks | None, box: Box, marks: list[Marks | None]) -> Any:
    """Return the marks of the result of any other operation: by element of its box, or one for all of them.

    Args:
        name: name of the operation.
        copied: the marks of the source by byte, if the operation copies one.
        box: the box of the result.
        marks: the marks of each source by element, or None if it has none.
    """
    size = int(np.prod(box.shape, dtype=np.int64))
    marked = [mark for mark in marks if mark is not None and mark.any()]
    if not marked:
        return 0
    if (elementwise(name) or copied is not None or name in _BY_MASK) and all(mark.size == size for mark in marked):
        return np.maximum.reduce([mark.reshape(-1) for mark in marked]).reshape(box.shape)
    if copied is not None:
        return _reshaped(copied, box)
    if cyclic(name) and all(size % mark.size == 0 for mark in marked):
        return np.maximum.reduce([np.resize(mark, size) for mark in marked]).reshape(box.shape)
    return max(int(mark.max()) for mark in marked)


def _reshaped(copied: Marks, box: Box) -> Any:
    """Return marks of a copy between element sizes, by destination element: the largest mark of its bytes."""
    flat = copied.reshape(-1)
    size = int(np.prod(box.shape, dtype=np.int64))
    if flat.size == size * box.itemsize:
        return flat.reshape(*box.shape, box.itemsize).max(axis=-1)
    return int(flat.max())
