"""The geometry of one `__memcpy`: segments, loops and bus bytes, within the limits of the hardware.

For views, the common shape of both sides is coalesced into contiguous segments and at most two loops over them: the
1-D, 2-D and 3-D forms of the instruction. In the byte form the caller specifies sizes and strides, and the two sides
may have different loops.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from mlusim.errors import CopyError
from mlusim.memory.bus import Loops, read_bus_bytes, write_bus_bytes
from mlusim.memory.copy_limits import MAX_LOOPS, MAX_SEGNUM, check_inside, check_limits, check_wram
from mlusim.memory.kinds import DIRECTIONS, Direction, MemoryKind
from mlusim.memory.view import Pointer, View


class CopyShape(NamedTuple):
    """The geometry of one copy. It depends on the addresses only through their offset within a bus unit.

    Attributes:
        direction: source and destination memory.
        nbytes: bytes requested.
        segment_bytes: bytes of each segment; contiguous segments of the byte form count as one.
        segments: number of these segments.
        dst_loops, src_loops: (count, stride in bytes) as in the form, outermost first; counts are N, not the
            instruction's N - 1.
        bus_read_bytes, bus_write_bytes: bytes on the DRAM bus, read-modify-write included.
        strided: whether the off-chip side has gaps.
    """

    direction: Direction
    nbytes: int
    segment_bytes: int
    segments: int
    dst_loops: Loops
    src_loops: Loops
    bus_read_bytes: int
    bus_write_bytes: int
    strided: bool


def view_copy_shape(dst: View, src: View, arch: int, unit_bytes: int) -> CopyShape:
    """Return the geometry of a copy between two views of equal shape.

    Raises `CopyError` if shapes or element sizes differ, or the hardware does not support the copy.
    """
    to, origin = dst.allocation.memory.kind, src.allocation.memory.kind
    return _view_copy_shape(
        to,
        origin,
        dst.shape,
        src.shape,
        dst.strides,
        src.strides,
        dst.itemsize,
        src.itemsize,
        # Between NRAM and GDRAM the address in NRAM does not matter: copies that differ only in it share one shape.
        0 if to is MemoryKind.NRAM and origin.off_chip else (dst.allocation.address + dst.offset) % unit_bytes,
        0 if origin is MemoryKind.NRAM and to.off_chip else (src.allocation.address + src.offset) % unit_bytes,
        arch,
        unit_bytes,
    )


@lru_cache(maxsize=65536)
def _view_copy_shape(  # noqa: PLR0917 - a flat key is what makes the cache cheap
    dst_memory: MemoryKind,
    src_memory: MemoryKind,
    shape: tuple[int, ...],
    src_shape: tuple[int, ...],
    dst_strides: tuple[int, ...],
    src_strides: tuple[int, ...],
    itemsize: int,
    src_itemsize: int,
    dst_phase: int,
    src_phase: int,
    arch: int,
    unit_bytes: int,
) -> CopyShape:
    if shape != src_shape or itemsize != src_itemsize:
        rule = "both views need the same shape; slice or reshape() one of them"
        if itemsize != src_itemsize:
            rule = (
                "a copy does not convert elements; copy to a buffer of the source's type and call core.convert there, "
                "or view() one of them as the other's type"
            )
        raise CopyError(
            f"memcpy of {list(src_shape)} elements of {src_itemsize} B to {list(shape)} of {itemsize} B: {rule}"
        )
    loops, dst_phase, src_phase = _coalesce(shape, dst_strides, src_strides, dst_phase, src_phase)
    segment = itemsize
    if loops and loops[-1][1] == itemsize == loops[-1][2]:
        segment = loops.pop()[0] * itemsize
    if len(loops) > MAX_LOOPS:
        inner = "; ".join(f"{count} x (dst {dst}, src {src})" for count, dst, src in loops)
        raise CopyError(
            f"memcpy of {list(shape)} needs {len(loops)} nested strides over segments of {segment} B ({inner}) and "
            f"__memcpy has at most 2 (3-D): loop over the outermost axis in the kernel"
        )
    direction = DIRECTIONS.get((src_memory, dst_memory))
    if direction is None:
        raise CopyError(
            f"__memcpy has no direction {src_memory.value} to {dst_memory.value}; stage the bytes through NRAM"
        )
    dst_loops = tuple((count, stride) for count, stride, _ in loops)
    src_loops = tuple((count, stride) for count, _, stride in loops)
    return _copy_shape(direction, segment, dst_loops, src_loops, dst_phase, src_phase, arch, unit_bytes)


def pointer_copy_shape(
    dst: Pointer,
    src: Pointer,
    size: int,
    direction: Direction,
    strides: tuple[int, ...],
    arch: int,
    unit_bytes: int,
) -> CopyShape:
    """Return the geometry of a copy in the documented byte form.

    Args:
        dst, src: addresses; their memories must be those of `direction`.
        size: bytes of a segment.
        direction: the `mluMemcpyDirection_t`.
        strides: empty (1-D); (dst_stride, src_stride, segnum) (2-D); or (dst_stride0, dst_segnum1, dst_stride1,
            dst_segnum2, src_stride0, src_segnum1, src_stride1, src_segnum2) (3-D). Bytes; segment counts minus one.
        arch: the board's architecture.
        unit_bytes: size of a DRAM bus unit.

    Raises `CopyError` for a copy that the hardware forbids and `AccessError` for bytes outside an allocation.
    """
    pointers_direction = DIRECTIONS.get((src.memory, dst.memory))
    if pointers_direction is not direction:
        remedy = "write that, or correct the pointers" if pointers_direction else "no copy has it; correct the pointers"
        raise CopyError(
            f"memcpy says {direction.name} but copies from {src!r} to {dst!r}: "
            f"the direction of these pointers is {src.memory.name}2{dst.memory.name}; {remedy}"
        )
    if size <= 0:
        raise CopyError(f"memcpy of {size} B: the size of a segment must be positive; guard an empty copy with `if`")
    match strides:
        case ():
            dst_loops, src_loops = _loops(), _loops()
        case (dst_stride, src_stride, segnum):
            dst_loops, src_loops = _loops((dst_stride, segnum)), _loops((src_stride, segnum))
        case (d0, dn1, d1, dn2, s0, sn1, s1, sn2):
            dst_loops, src_loops = _loops((d0, dn1), (d1, dn2)), _loops((s0, sn1), (s1, sn2))
        case _:
            raise CopyError(
                f"memcpy takes 0, 3 (dst_stride, src_stride, segnum) or 8 stride arguments, not {len(strides)}"
            )
    dst_phase = (dst.allocation.address + dst.offset) % unit_bytes
    src_phase = (src.allocation.address + src.offset) % unit_bytes
    copy = _copy_shape(direction, size, dst_loops, src_loops, dst_phase, src_phase, arch, unit_bytes)
    check_inside(dst, size, dst_loops, "writes")
    check_inside(src, size, src_loops, "reads")
    return copy


def _loops(*pairs: tuple[int, int]) -> Loops:
    """Convert (stride, N - 1) pairs, innermost first as in the instruction, to loops, outermost first."""
    for _, segnum in pairs:
        if not 0 <= segnum <= MAX_SEGNUM:
            raise CopyError(
                f"memcpy with segnum {segnum}: it is the number of segments minus one, 0 to {MAX_SEGNUM}; "
                "to copy no segment, skip the copy; for more, split it"
            )
    return tuple((segnum + 1, stride) for stride, segnum in reversed(pairs))


def _coalesce(
    shape: tuple[int, ...],
    dst_strides: tuple[int, ...],
    src_strides: tuple[int, ...],
    dst_phase: int,
    src_phase: int,
) -> tuple[list[tuple[int, int, int]], int, int]:
    """Drop axes of extent 1, make destination strides positive, and merge adjacent axes.

    Returns (count, destination stride, source stride) of each remaining axis, and the phases of the first segment.
    """
    if 0 in shape:
        raise CopyError(
            f"memcpy of {list(shape)}, which has no bytes: guard it with `if`; segnum cannot express zero segments"
        )
    loops: list[tuple[int, int, int]] = []
    for count, dst, src in zip(shape, dst_strides, src_strides, strict=True):
        if count == 1:
            continue
        if dst < 0:
            dst_phase += (count - 1) * dst
            src_phase += (count - 1) * src
            dst, src = -dst, -src  # noqa: PLW2901 - the loop's own copies
        if loops and loops[-1][1] == count * dst and loops[-1][2] == count * src:
            loops[-1] = (loops[-1][0] * count, dst, src)
        else:
            loops.append((count, dst, src))
    return loops, dst_phase, src_phase


@lru_cache(maxsize=65536)
def _copy_shape(
    direction: Direction,
    segment: int,
    dst_loops: Loops,
    src_loops: Loops,
    dst_phase: int,
    src_phase: int,
    arch: int,
    unit_bytes: int,
) -> CopyShape:
    """Check the limits of the hardware, and count the bytes on the bus."""
    dst_count, src_count = (math.prod([count for count, _ in loops]) for loops in (dst_loops, src_loops))
    if dst_count != src_count:
        raise CopyError(
            f"3-D memcpy writes {dst_count} segments and reads {src_count}: "
            "(dst_segnum1 + 1)(dst_segnum2 + 1) must equal (src_segnum1 + 1)(src_segnum2 + 1)"
        )
    check_limits(segment, dst_loops, src_loops, arch)
    check_wram(direction, segment, dst_loops, dst_phase, src_phase, arch)
    nbytes = segment * dst_count
    segment, dst_merged, src_merged = _merge_segments(segment, dst_loops, src_loops)
    bus_read = bus_write = 0
    strided = False
    if direction.source.off_chip:
        bus_read += read_bus_bytes(src_phase, segment, src_merged, unit_bytes)
        strided |= has_gaps(segment, src_merged)
    if direction.destination.off_chip:
        extra, bus_write = write_bus_bytes(dst_phase, segment, dst_merged, unit_bytes)
        bus_read += extra
        strided |= has_gaps(segment, dst_merged)
    segments = nbytes // segment
    return CopyShape(direction, nbytes, segment, segments, dst_loops, src_loops, bus_read, bus_write, strided)


def _merge_segments(segment: int, dst_loops: Loops, src_loops: Loops) -> tuple[int, Loops, Loops]:
    """Merge segments that follow one another without gaps on both sides; return their size, and the loops that remain.

    A copy takes the same time however its form divides contiguous bytes.
    """
    if not (has_gaps(segment, dst_loops) or has_gaps(segment, src_loops)):
        for count, _ in dst_loops:
            segment *= count
        return segment, (), ()
    dst_remaining, src_remaining = ([loop for loop in loops if loop[0] > 1] for loops in (dst_loops, src_loops))
    while dst_remaining and src_remaining and dst_remaining[-1] == src_remaining[-1] == (dst_remaining[-1][0], segment):
        segment *= dst_remaining.pop()[0]
        src_remaining.pop()
    return segment, tuple(dst_remaining), tuple(src_remaining)


def has_gaps(segment: int, loops: Loops) -> bool:
    """Return whether segments of that many bytes, at the strides of loops, do not follow one another."""
    reach = segment
    for count, stride in reversed(loops):
        if count > 1 and stride != reach:
            return True
        reach *= count
    return False
