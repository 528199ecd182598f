"""The documented byte form of `__memcpy`: two pointers, a size, a direction, and strides in bytes."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.copy_effect import Array, copy_effect, large_copy_effect
from mlusim.cores.copy_geometry import CopyGeometry, copy_geometry
from mlusim.errors import CopyError
from mlusim.memory.copy import check_apart, check_inside, pointer_copy_shape
from mlusim.memory.kinds import Direction, direction_of
from mlusim.memory.view import Pointer, View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.memory.bus import Loops

_UINT8 = np.dtype(np.uint8)
# Bytes of the widest unsigned integer.
_WIDEST = 8


def byte_copy(
    issuer: Issuer,
    dst: View | Pointer,
    src: View | Pointer,
    size: int,
    direction: Direction | str | None,
    strides: tuple[int, ...],
) -> tuple[Pointer, Pointer, CopyGeometry, Any]:
    """Check a copy in the byte form; returns its pointers, its geometry, and its effect (None without data).

    Args:
        issuer: issuer of the copying task.
        dst, src: pointers, or views that stand for the address of their first byte.
        size: bytes of a segment.
        direction: the `mluMemcpyDirection_t`, or its name.
        strides: as in `mlusim.memory.copy.pointer_copy_shape`.

    Raises `CopyError` and `AccessError` as `mlusim.cores.copies.copy_and_wait`.
    """
    if dst.__class__ is not Pointer or src.__class__ is not Pointer:
        dst = dst.pointer if isinstance(dst, View) else dst
        src = src.pointer if isinstance(src, View) else src
        if not isinstance(dst, Pointer) or not isinstance(src, Pointer):
            raise CopyError(f"memcpy copies between views or pointers of the device, not {dst!r} and {src!r}")
    if direction is None:
        raise CopyError(
            "memcpy between pointers, or of a size, needs its direction: "
            "memcpy(dst, src, size, Direction.GDRAM2NRAM); between views their shape says the size"
        )
    if direction.__class__ is not Direction:
        direction = direction_of(direction)
    if size.__class__ is not int or strides:
        for number in (size, *strides):
            if number.__class__ is not int and not isinstance(number, int | np.integer):
                raise CopyError(f"memcpy with {number!r:.60}: sizes and strides are integers, in bytes")
    # Everything that depends on sizes, memories and phases is cached. Bounds and overlap are checked for each copy.
    to, origin = dst.allocation, src.allocation
    key = (
        direction,
        size,
        strides,
        to.memory,
        origin.memory,
        (to.address + dst.offset) % issuer.dram_unit_bytes,
        (origin.address + src.offset) % issuer.dram_unit_bytes,
    )
    cached = None if direction is Direction.SRAM2SRAM else issuer.copy_geometries.get(key)
    if cached is None:
        shape = pointer_copy_shape(dst, src, size, direction, strides, issuer.board.arch, issuer.dram_unit_bytes)
        # The board copies bytes; on the host, elements as wide as phases and strides allow copy faster.
        width = math.gcd(_WIDEST, size, *strides, to.address + dst.offset, origin.address + src.offset)
        sides = [_Side(size, width, loops) for loops in (shape.dst_loops, shape.src_loops)]
        boxes = (issuer.log.box(side.extents, side.steps, 1) for side in sides)
        cached = issuer.copy_geometries[key] = (copy_geometry(issuer, dst, src, shape, *boxes), *sides)
    geometry, written, read = cached
    if not 0 <= dst.offset + written.low <= dst.offset + written.high <= to.nbytes:
        check_inside(dst, size, written.loops, "writes")
    if not 0 <= src.offset + read.low <= src.offset + read.high <= origin.nbytes:
        check_inside(src, size, read.loops, "reads")
    if to is origin:
        check_apart(
            View(to, dst.offset, written.extents, written.steps, _UINT8),
            View(origin, src.offset, read.extents, read.steps, _UINT8),
        )
    issuer.log.byte_copies.append(issuer.log.count)
    effect: Any = None
    if issuer.has_data:
        effect_of = partial(large_copy_effect, issuer, dst, src) if geometry.is_large else copy_effect
        effect = effect_of(written.array(dst), read.array(src))
    return dst, src, geometry, effect


class _Side:
    """One side of a copy in the byte form.

    Attributes:
        loops: (count, byte stride) of the segments, outermost first.
        extents, steps: shape and strides as a view of bytes.
        shape: the shape as an array of wider elements.
        low, high: the copy covers bytes [low, high), relative to the pointer.
    """

    __slots__ = ("_dtype", "_last", "_strides", "extents", "high", "loops", "low", "shape", "steps")

    def __init__(self, size: int, width: int, loops: Loops) -> None:
        self.loops = loops
        self.extents = (*(count for count, _ in loops), size)
        self.steps = (*(stride for _, stride in loops), 1)
        self._dtype = np.dtype(f"u{width}")
        self.shape = (*self.extents[:-1], size // width)
        self._strides = (*self.steps[:-1], width)
        self._last: tuple[Any, int, Any] = None, 0, None
        self.low = sum(min((count - 1) * stride, 0) for count, stride in loops)
        self.high = size + sum(max((count - 1) * stride, 0) for count, stride in loops)

    def array(self, pointer: Pointer) -> Array:
        """Return the array that the copy accesses at a pointer."""
        if 0 in self.shape:
            return np.empty(self.shape, self._dtype)
        allocation, offset = pointer.allocation, pointer.offset
        if allocation.buffer is None:
            allocation.bytes()
        # Successive copies often share one side.
        if allocation is not self._last[0] or offset != self._last[1]:
            buffer: Any = allocation.buffer
            self._last = allocation, offset, np.ndarray(self.shape, self._dtype, buffer, offset, self._strides)
        array: Array = self._last[2]
        return array
