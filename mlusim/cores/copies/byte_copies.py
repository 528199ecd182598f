"""The documented byte form of `__memcpy`: two pointers, a size, a direction, and strides in bytes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.copies.effect import Place, copy_effect, large_copy_effect
from mlusim.cores.copies.geometry import CopyGeometry, copy_geometry
from mlusim.cores.operands import Passed
from mlusim.errors import CopyError, shown
from mlusim.memory.copy_limits import check_apart, check_inside
from mlusim.memory.copy_shape import pointer_copy_shape
from mlusim.memory.kinds import Direction, direction_of
from mlusim.memory.view import Pointer, View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.memory.allocation import Allocation
    from mlusim.memory.bus import Loops

_UINT8 = np.dtype(np.uint8)
# Bytes of the widest unsigned integer.
_WIDEST = 8


def byte_form(issuer: Issuer, size: Any, direction: Direction | str | None, strides: tuple[Any, ...]) -> ByteForm:
    """Return the cached form of copies with one size, direction and strides.

    Args:
        size: bytes of a segment.
        direction: the `mluMemcpyDirection_t`, or its name.
        strides: as in `mlusim.memory.copy_shape.pointer_copy_shape`.

    Raises `CopyError` for numbers that are not integers, and without a direction.
    """
    if direction is None:
        raise CopyError(
            "memcpy between pointers, or of a size, needs its direction: "
            "memcpy(dst, src, size, Direction.GDRAM2NRAM); between views, the size follows from their shape"
        )
    if type(direction) is not Direction:
        direction = direction_of(direction)
    for number in (size, *strides):
        if type(number) is not int and (not isinstance(number, int | np.integer) or isinstance(number, bool)):
            raise CopyError(f"memcpy with {shown(number)}: sizes and strides are integers, in bytes")
    key = (direction, size, strides)
    form: ByteForm | None = issuer.copy_geometries.get(key)
    if form is None:
        form = issuer.copy_geometries[key] = ByteForm(direction, int(size), tuple(int(stride) for stride in strides))
    return form


def as_pointers(dst: Passed, src: Passed) -> tuple[Pointer, Pointer]:
    """Return pointers as they are, and views as pointers to their first byte. Raises `CopyError` for other objects."""
    if type(dst) is not Pointer or type(src) is not Pointer:
        return _as_pointer(dst), _as_pointer(src)
    return dst, src


def _as_pointer(operand: Any) -> Pointer:
    if isinstance(operand, View):
        return operand.pointer
    if isinstance(operand, Pointer):
        return operand
    raise CopyError(
        f"memcpy copies between views or pointers of the device, and {shown(operand)} is neither; an array is "
        "uploaded only by Device.upload, or as an argument of its own of mlusim.run, not in a list"
    )


class ByteForm:
    """Copies with one size, direction and strides; what depends on their memories and phases is cached here."""

    def __init__(self, direction: Direction, size: int, strides: tuple[int, ...]) -> None:
        self.direction = direction
        self.size = size
        self.strides = strides
        self._cached: dict[Any, tuple[CopyGeometry, _Side, _Side]] = {}

    def copy(
        self, issuer: Issuer, dst: Place, src: Place, pointers: tuple[Pointer, Pointer] | None = None
    ) -> tuple[CopyGeometry, Any]:
        """Check a copy between two places; returns its geometry, and its effect (None without data).

        `pointers` are the same places, for error messages.

        Raises `CopyError` and `AccessError` as `mlusim.cores.copies.memcpy.copy_and_wait`.
        """
        to, to_offset = dst
        origin, from_offset = src
        unit_bytes = issuer.dram_unit_bytes
        phases = (to.address + to_offset) % unit_bytes * unit_bytes + (origin.address + from_offset) % unit_bytes
        key = (phases, to.memory, origin.memory)
        cached = self._cached.get(key)
        if cached is None:
            pointers = pointers or (Pointer(to, to_offset, _UINT8), Pointer(origin, from_offset, _UINT8))
            cached = self._cached_for(issuer, *pointers)
            if self.direction is not Direction.SRAM2SRAM:
                self._cached[key] = cached
        geometry, dst_side, src_side = cached
        # Bounds and overlap are checked for each copy.
        if not 0 <= to_offset + dst_side.low <= to_offset + dst_side.high <= to.nbytes:
            check_inside(Pointer(to, to_offset, _UINT8), self.size, dst_side.loops, "writes")
        if not 0 <= from_offset + src_side.low <= from_offset + src_side.high <= origin.nbytes:
            check_inside(Pointer(origin, from_offset, _UINT8), self.size, src_side.loops, "reads")
        if to is origin:
            check_apart(
                View.strided(to, to_offset, dst_side.extents, dst_side.steps, _UINT8),
                View.strided(origin, from_offset, src_side.extents, src_side.steps, _UINT8),
            )
        log = issuer.log
        log.byte_copies.append(log.records.count)
        if not issuer.has_data:
            return geometry, None
        if geometry.is_large:
            return geometry, large_copy_effect(
                issuer, dst, src, dst_side.array(to, to_offset), src_side.array(origin, from_offset)
            )
        return geometry, copy_effect(dst_side.array(to, to_offset), src_side.array(origin, from_offset))

    def _cached_for(self, issuer: Issuer, dst: Pointer, src: Pointer) -> tuple[CopyGeometry, _Side, _Side]:
        size, strides = self.size, self.strides
        shape = pointer_copy_shape(dst, src, size, self.direction, strides, issuer.board.arch, issuer.dram_unit_bytes)
        # The board copies bytes; on the host, elements as wide as phases and strides allow copy faster.
        addresses = [pointer.allocation.address + pointer.offset for pointer in (dst, src)]
        width = math.gcd(_WIDEST, size, *strides, *addresses)
        dst_side, src_side = (_Side(size, width, loops) for loops in (shape.dst_loops, shape.src_loops))
        boxes = (issuer.log.box(side.extents, side.steps, 1) for side in (dst_side, src_side))
        return copy_geometry(issuer, dst, src, shape, *boxes), dst_side, src_side


class _Side:
    """One side of a copy in the byte form.

    Attributes:
        loops: (count, byte stride) of the segments, outermost first.
        extents, steps: shape and strides as a view of bytes.
        shape: the shape as an array of wider elements.
        low, high: the copy covers bytes [low, high), relative to the pointer.
    """

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

    def array(self, allocation: Allocation, offset: int) -> Array:
        """Return the array that the copy accesses at a place."""
        if 0 in self.shape:
            return np.empty(self.shape, self._dtype)
        if allocation.buffer is None:
            allocation.bytes()
        # Successive copies often share one side.
        if allocation is not self._last[0] or offset != self._last[1]:
            buffer: Any = allocation.buffer
            self._last = allocation, offset, np.ndarray(self.shape, self._dtype, buffer, offset, self._strides)
        array: Array = self._last[2]
        return array
