"""The limits of the hardware on copies: sizes, strides, segments, overlap, WRAM, and the bounds of allocations."""

from __future__ import annotations

import numpy as np

from mlusim.errors import AccessError, CopyError
from mlusim.memory.bus import Loops
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.memory.view import Pointer, View, byte_span
from mlusim.units import group_digits

MAX_SEGNUM = 65535
# Sizes and strides are `int` in the public header (B).
_MAX_INT = (1 << 31) - 1
_FIRST_3D_ARCH = 300
MAX_LOOPS = 2
# Python 3.11 finds a member of an enumeration slowly.
_WITHIN_NRAM = Direction.NRAM2NRAM
_WITHIN_LDRAM = Direction.LDRAM2LDRAM
_WITH_RULES = frozenset(each for each in Direction if MemoryKind.WRAM in each.value or each is _WITHIN_LDRAM)


def check_inside(pointer: Pointer, segment_bytes: int, loops: Loops, verb: str) -> None:
    """Raise `AccessError` if a strided access leaves the pointer's allocation."""
    low = pointer.offset
    high = low + segment_bytes
    for count, stride in loops:
        if stride < 0:
            low += (count - 1) * stride
        else:
            high += (count - 1) * stride
    segment = f"{group_digits(segment_bytes)} B"
    if segment_bytes and (low < 0 or high > pointer.allocation.nbytes):
        segments = " x ".join(str(count) for count, _ in loops)
        raise AccessError(
            f"memcpy {verb} bytes {group_digits(low)}..{group_digits(high)} of {pointer.allocation.name}, which has "
            f"{group_digits(pointer.allocation.nbytes)} B: "
            + (
                f"{segments} segments of {segment} do not fit there; segnum is the number of segments minus one"
                if loops
                else f"{segment} do not fit there; check the address, and the size, which is in bytes"
            )
        )


def check_apart(dst: View, src: View) -> None:
    """Raise `CopyError` if a copy within one allocation reads bytes that it writes elsewhere.

    The header does not specify the order in which a copy moves its bytes, so the result of such a copy is undefined
    (B). Bytes copied onto themselves stay the same. Within NRAM and within GDRAM a copy to lower addresses is allowed
    if ascending order reads every byte before it is overwritten: mlu-ops spreads rows that way in NRAM
    (`__mluop_load_str_2D`), and removes the first row of a tensor in GDRAM (`dynamic_point_to_voxel_forward`).
    """
    if dst.offset == src.offset and dst.strides == src.strides:
        return
    (low, high), (first, last) = byte_span(dst), byte_span(src)
    if (
        low < last
        and first < high
        and np.shares_memory(_Bytes(dst).array(), _Bytes(src).array())
        and not (src.memory in (MemoryKind.NRAM, MemoryKind.GDRAM) and _ascends(dst, src))
    ):
        raise CopyError(
            f"memcpy from bytes {group_digits(first)}..{group_digits(last)} of {src.allocation.name} to bytes "
            f"{group_digits(low)}..{group_digits(high)} of it: they overlap, and no rule says in which order a copy "
            "moves its bytes; copy through another buffer"
        )


def _ascends(dst: View, src: View) -> bool:
    """Return whether elements in order read ascending addresses, each at or after the address it is written to."""
    if dst.shape != src.shape:
        return False
    lead = src.offset - dst.offset
    reach = src.itemsize
    for count, to, origin in reversed([*zip(src.shape, dst.strides, src.strides, strict=True)]):
        if count > 1 and origin < reach:
            return False
        reach += (count - 1) * origin
        lead += min(0, (count - 1) * (origin - to))
    return lead >= 0


class _Bytes:
    """The addresses of a view within its allocation, as an array without contents; only for comparisons."""

    def __init__(self, view: View) -> None:
        self.__array_interface__ = {
            "shape": view.shape,
            "strides": view.strides,
            "typestr": f"|V{view.itemsize}",
            # The address must not be 0: NumPy would allocate an array.
            "data": (view.offset + (1 << 40), True),
            "version": 3,
        }

    def array(self) -> np.ndarray[tuple[int, ...], np.dtype[np.void]]:
        """Return an array for `np.shares_memory`, which reads no element."""
        return np.asarray(self)


def check_limits(segment: int, dst_loops: Loops, src_loops: Loops, arch: int) -> None:
    """Raise `CopyError` for sizes, strides and segment counts that the instruction cannot express, and for overlap."""
    if max(len(dst_loops), len(src_loops)) == MAX_LOOPS and arch < _FIRST_3D_ARCH:
        raise CopyError(
            f"3-D __memcpy needs arch {_FIRST_3D_ARCH} or later and this board is arch {arch}: "
            "loop over the outer axis in the kernel"
        )
    if segment > _MAX_INT:
        raise CopyError(
            f"memcpy of segments of {group_digits(segment)} B: the size is a 32-bit int, at most "
            f"{group_digits(_MAX_INT)}; split the copy"
        )
    for count, stride in (*dst_loops, *src_loops):
        if count > 1 and abs(stride) > _MAX_INT:
            raise CopyError(
                f"memcpy with a stride of {group_digits(stride)} B: a stride is a 32-bit int, at most "
                f"{group_digits(_MAX_INT)}; copy segment by segment"
            )
        if count - 1 > MAX_SEGNUM:
            raise CopyError(
                f"memcpy of {group_digits(count)} segments of {segment} B: segnum is at most {MAX_SEGNUM}, "
                f"so at most {group_digits(MAX_SEGNUM + 1)} segments in one loop; split the copy"
            )
    for count, stride in dst_loops:
        if count > 1 and stride < segment:
            raise CopyError(
                f"memcpy with a destination stride of {stride} B over {segment} B: segments would overlap; the "
                "destination stride must be at least the size, and not negative"
            )
    if len(dst_loops) == MAX_LOOPS and _overlap(segment, *dst_loops):
        (outer, outer_stride), (inner, inner_stride) = dst_loops
        raise CopyError(
            f"memcpy to {outer} x {inner} segments of {segment} B with destination strides of {outer_stride} B and "
            f"{inner_stride} B: segments would overlap; choose strides that keep them apart"
        )


def _overlap(segment: int, outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    """Return whether any two of the segments that two loops write share a byte; each stride is at least `segment`."""
    fine, coarse = sorted((outer, inner))
    if min(fine[0], coarse[0]) == 1:
        return False
    steps = np.arange(1, fine[0], dtype=object if fine[0] * fine[1] >= 1 << 62 else np.int64) * fine[1]
    # A step along one loop falls between two iterations of the other; the nearer of them decides.
    index = steps // coarse[1]
    meets_lower = (index < coarse[0]) & (steps - index * coarse[1] < segment)
    meets_higher = (index + 1 < coarse[0]) & ((index + 1) * coarse[1] - steps < segment)
    return bool(meets_lower.any() or meets_higher.any())


def check_row(direction: Direction, row_bytes: int, dst: View, src: View, arch: int, unit_bytes: int) -> None:
    """Raise `CopyError` if a 1-D copy of single rows of `src` to rows of `dst` is forbidden.

    Args:
        direction: direction of the copy.
        row_bytes: bytes of a row.
        dst, src: views whose first axis is the rows.
        arch: architecture of the board.
        unit_bytes: size of a bus unit, a multiple of all alignments.
    """
    # Within NRAM, only the 2xx series has rules.
    if direction not in _WITH_RULES and (direction is not _WITHIN_NRAM or arch >= _FIRST_3D_ARCH):
        return
    for row in range(2):
        to, origin = (
            (side.allocation.address + side.offset + row * side.strides[0]) % unit_bytes for side in (dst, src)
        )
        check_wram(direction, row_bytes, (), to, origin, arch)


def check_wram(direction: Direction, segment: int, dst_loops: Loops, dst_phase: int, src_phase: int, arch: int) -> None:
    """Check the rules of WRAM, 8 B addresses and strides, sizes of 64 B (2xx) or 16 B (3xx), and of LDRAM (B).

    Args:
        direction: direction of the copy.
        segment: bytes of a segment.
        dst_loops: (count, stride in bytes) of the loops over segments of the destination.
        dst_phase, src_phase: addresses modulo a multiple of all alignments.
        arch: architecture of the board.

    Raises `CopyError`. The sizes apply in both directions, to copies without strides. Not modelled: on arch 322 and
    372, the bytes of a segment after the last multiple of 8 B are uncertain.
    """
    strided = any(count > 1 for count, _ in dst_loops)
    if direction.source is MemoryKind.WRAM and strided:
        raise CopyError(f"{direction.name}: WRAM is never the source of a strided copy; copy segment by segment")
    if direction is Direction.LDRAM2WRAM and strided:
        raise CopyError(f"{direction.name} is never strided; copy segment by segment, or stage the bytes through NRAM")
    if direction is _WITHIN_LDRAM and not dst_loops:
        raise CopyError(
            f"{direction.name} needs strides: the hardware has no contiguous copy; stage the bytes through NRAM"
        )
    multiple = 16 if arch >= _FIRST_3D_ARCH else 64
    if MemoryKind.WRAM in direction.value and segment % multiple and not dst_loops:
        to = "to" if direction.destination is MemoryKind.WRAM else "from"
        raise CopyError(f"{direction.name} of {segment} B: sizes {to} WRAM must be a multiple of {multiple} B; pad it")
    if direction.destination is MemoryKind.WRAM:
        for count, stride in dst_loops:
            if count > 1 and stride % 8:
                raise CopyError(f"{direction.name} with a destination stride of {stride} B: a multiple of 8 B to WRAM")
    phase = dst_phase if direction.destination is MemoryKind.WRAM else src_phase
    if MemoryKind.WRAM in direction.value and phase % 8:
        raise CopyError(f"{direction.name}: WRAM addresses must be aligned to 8 B, and this one is {phase % 8} B off")
    contiguous_2xx = direction is Direction.NRAM2NRAM and arch < _FIRST_3D_ARCH and not strided
    if contiguous_2xx and (segment % 128 or dst_phase % 64 or src_phase % 64):
        is_misaligned = dst_phase % 64 or src_phase % 64
        remedy = "load the bytes to their place, or move them by a scalar loop" if is_misaligned else "pad the buffer"
        raise CopyError(
            f"NRAM2NRAM of {segment} B at {dst_phase % 64} and {src_phase % 64} modulo 64: on arch {arch} a contiguous "
            f"move needs 64 B aligned addresses and a multiple of 128 B; {remedy}"
        )
