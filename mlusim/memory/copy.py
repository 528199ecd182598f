"""The geometry of one `__memcpy`: segments, loops, bus bytes, and the limits of the hardware.

For views, the common shape of both sides is coalesced into contiguous segments and at most two loops over them: the
1-D, 2-D and 3-D forms of the instruction. In the byte form the caller specifies sizes and strides, and the two sides
may have different loops.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mlusim.errors import AccessError, CopyError
from mlusim.memory.bus import Loops, read_bus_bytes, write_bus_bytes
from mlusim.memory.kinds import DIRECTIONS, Direction, MemoryKind
from mlusim.memory.view import Pointer, View, byte_span
from mlusim.units import group_digits

MAX_SEGNUM = 65535
# Sizes and strides are `int` in the public header (B).
MAX_INT = (1 << 31) - 1
_FIRST_3D_ARCH = 300
_MAX_LOOPS = 2


class CopyShape(NamedTuple):
    """The geometry of one copy. It depends on the addresses only through their offset within a bus unit.

    Attributes:
        direction: source and destination memory.
        nbytes: bytes requested.
        segment_bytes: bytes of each contiguous segment.
        segments: number of segments.
        dst_loops, src_loops: (count, stride in bytes), outermost first; counts are N, not the instruction's N - 1.
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
        raise CopyError(
            f"memcpy of {list(src_shape)} elements of {src_itemsize} B to {list(shape)} of {itemsize} B: both views "
            "need the same shape and element size; slice, reshape() or view() one of them"
        )
    loops, dst_phase, src_phase = _coalesce(shape, dst_strides, src_strides, dst_phase, src_phase)
    segment = itemsize
    if loops and loops[-1][1] == itemsize == loops[-1][2]:
        segment = loops.pop()[0] * itemsize
    if len(loops) > _MAX_LOOPS:
        inner = "; ".join(f"{count} x (dst {dst}, src {src})" for count, dst, src in loops)
        raise CopyError(
            f"memcpy of {list(shape)} needs {len(loops)} nested strides over segments of {segment} B ({inner}) and "
            f"__memcpy has at most 2 (3-D): loop over the outermost axis in the kernel"
        )
    return _finish(
        DIRECTIONS.get((src_memory, dst_memory)),
        segment,
        tuple((count, stride) for count, stride, _ in loops),
        tuple((count, stride) for count, _, stride in loops),
        dst_phase,
        src_phase,
        arch,
        unit_bytes,
        f"{src_memory.value} to {dst_memory.value}",
    )


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
    actual = DIRECTIONS.get((src.memory, dst.memory))
    if actual is not direction:
        raise CopyError(
            f"memcpy says {direction.name} but copies from {src!r} to {dst!r}: "
            f"the direction of these pointers is {actual.name if actual else 'not one that __memcpy has'}"
        )
    if size <= 0:
        raise CopyError(f"memcpy of {size} B: the size of a segment is positive; guard an empty copy with `if`")
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
    copy = _finish(direction, size, dst_loops, src_loops, dst_phase, src_phase, arch, unit_bytes, direction.name)
    check_inside(dst, size, dst_loops, "writes")
    check_inside(src, size, src_loops, "reads")
    return copy


def check_inside(pointer: Pointer, segment_bytes: int, loops: Loops, verb: str) -> None:
    """Raise `AccessError` if a strided access leaves the pointer's allocation."""
    low = pointer.offset
    high = low + segment_bytes
    for count, stride in loops:
        if stride < 0:
            low += (count - 1) * stride
        else:
            high += (count - 1) * stride
    if segment_bytes and (low < 0 or high > pointer.allocation.nbytes):
        segments = "-".join(str(count) for count, _ in loops)
        raise AccessError(
            f"memcpy {verb} bytes {group_digits(low)}..{group_digits(high)} of {pointer.allocation.name}, which has "
            f"{group_digits(pointer.allocation.nbytes)} B: "
            + (
                f"{segments} segments of {segment_bytes} B do not fit there; segnum is the number of segments minus one"
                if loops
                else f"{segment_bytes} B do not fit there; look at the address, and at the size, which is in bytes"
            )
        )


def check_apart(dst: View, src: View) -> None:
    """Raise `CopyError` if a copy within one allocation reads bytes that it writes elsewhere.

    The header does not specify the order in which a copy moves its bytes, so the result of such a copy is undefined
    (B). Bytes copied onto themselves stay the same. Within NRAM a copy to lower addresses is allowed if ascending order
    reads every byte before it is overwritten: the helpers of mlu-ops spread rows that way (`__mluop_load_str_2D`).
    """
    if dst.offset == src.offset and dst.strides == src.strides:
        return
    (low, high), (first, last) = byte_span(dst), byte_span(src)
    if (
        low < last
        and first < high
        and np.shares_memory(_Bytes(dst).array(), _Bytes(src).array())
        and not (src.memory is MemoryKind.NRAM and _ascends(dst, src))
    ):
        raise CopyError(
            f"memcpy from bytes {group_digits(first)}..{group_digits(last)} of {src.allocation.name} to bytes "
            f"{group_digits(low)}..{group_digits(high)} of it: they overlap, and no rule says in which order a copy "
            "moves its bytes; copy through another buffer"
        )


def _ascends(dst: View, src: View) -> bool:
    """Whether elements in order read ascending addresses, each at or after the address it is written to."""
    if dst.shape != src.shape:
        return False
    ahead = src.offset - dst.offset
    reach = src.itemsize
    for count, to, origin in reversed([*zip(src.shape, dst.strides, src.strides, strict=True)]):
        if count > 1 and origin < reach:
            return False
        reach += (count - 1) * origin
        ahead += min(0, (count - 1) * (origin - to))
    return ahead >= 0


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


def _loops(*pairs: tuple[int, int]) -> Loops:
    """Convert (stride, N - 1) pairs, innermost first as in the instruction, to loops, outermost first."""
    for _, segnum in pairs:
        if not 0 <= segnum <= MAX_SEGNUM:
            raise CopyError(
                f"memcpy with segnum {segnum}: it is the number of segments minus one, 0 to {MAX_SEGNUM}; "
                "for no segment at all skip the copy, for more split it"
            )
    return tuple((segnum + 1, stride) for stride, segnum in reversed(pairs))


def _coalesce(
    shape: tuple[int, ...],
    dst_strides: tuple[int, ...],
    src_strides: tuple[int, ...],
    dst_phase: int,
    src_phase: int,
) -> tuple[list[tuple[int, int, int]], int, int]:
    """Drop axes of extent 1, make destination strides positive, and merge adjacent axes."""
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
def _finish(  # noqa: PLR0917 - by value and position, for the cache
    direction: Direction | None,
    segment: int,
    dst_loops: Loops,
    src_loops: Loops,
    dst_phase: int,
    src_phase: int,
    arch: int,
    unit_bytes: int,
    words: str,
) -> CopyShape:
    if direction is None:
        raise CopyError(f"__memcpy has no direction {words}; stage the bytes through NRAM")
    dst_count = src_count = 1
    for count, _ in dst_loops:
        dst_count *= count
    for count, _ in src_loops:
        src_count *= count
    if dst_count != src_count:
        raise CopyError(
            f"3-D memcpy writes {dst_count} segments and reads {src_count}: "
            "(dst_segnum1 + 1)(dst_segnum2 + 1) must equal (src_segnum1 + 1)(src_segnum2 + 1)"
        )
    _check_limits(segment, dst_loops, src_loops, arch)
    _check_wram(direction, segment, dst_loops, dst_phase, src_phase, arch)
    nbytes = segment * dst_count
    bus_read = bus_write = 0
    strided = False
    if direction.source.off_chip:
        bus_read += read_bus_bytes(src_phase, segment, src_loops, unit_bytes)
        strided |= _has_gaps(segment, src_loops)
    if direction.destination.off_chip:
        extra, bus_write = write_bus_bytes(dst_phase, segment, dst_loops, unit_bytes)
        bus_read += extra
        strided |= _has_gaps(segment, dst_loops)
    return CopyShape(direction, nbytes, segment, dst_count, dst_loops, src_loops, bus_read, bus_write, strided)


def _check_limits(segment: int, dst_loops: Loops, src_loops: Loops, arch: int) -> None:
    if max(len(dst_loops), len(src_loops)) == _MAX_LOOPS and arch < _FIRST_3D_ARCH:
        raise CopyError(
            f"3-D __memcpy needs arch {_FIRST_3D_ARCH} or later and this board is arch {arch}: "
            "loop over the outer axis in the kernel"
        )
    if segment > MAX_INT:
        raise CopyError(
            f"memcpy of segments of {group_digits(segment)} B: the size is a 32-bit int, at most "
            f"{group_digits(MAX_INT)}; split the copy"
        )
    for count, stride in (*dst_loops, *src_loops):
        if count > 1 and abs(stride) > MAX_INT:
            raise CopyError(
                f"memcpy with a stride of {group_digits(stride)} B: a stride is a 32-bit int, at most "
                f"{group_digits(MAX_INT)}; copy segment by segment"
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
                "destination stride is at least the size and never negative"
            )
    if len(dst_loops) == _MAX_LOOPS and _overlap(segment, *dst_loops):
        (outer, outer_stride), (inner, inner_stride) = dst_loops
        raise CopyError(
            f"memcpy to {outer} x {inner} segments of {segment} B with destination strides of {outer_stride} B and "
            f"{inner_stride} B: segments would overlap; choose strides that keep them apart"
        )


def _overlap(segment: int, outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    """Whether any two of the segments that two loops write share a byte; each stride is at least `segment`."""
    small, large = sorted((outer, inner))
    if min(small[0], large[0]) == 1:
        return False
    steps = np.arange(1, small[0], dtype=object if small[0] * small[1] >= 1 << 62 else np.int64) * small[1]
    # A step along one loop falls between two iterations of the other; the nearer of them decides.
    nearest = steps // large[1]
    below = (nearest < large[0]) & (steps - nearest * large[1] < segment)
    above = (nearest + 1 < large[0]) & ((nearest + 1) * large[1] - steps < segment)
    return bool(below.any() or above.any())


def check_row(direction: Direction, row_bytes: int, dst: View, src: View, arch: int, unit_bytes: int) -> None:
    """Raise `CopyError` if a 1-D copy of single rows of `src` to rows of `dst` is forbidden."""
    to_or_from_wram = direction.destination is MemoryKind.WRAM or direction.source is MemoryKind.WRAM
    # Within NRAM, only the 2xx series has rules.
    if not to_or_from_wram and (direction is not Direction.NRAM2NRAM or arch >= _FIRST_3D_ARCH):
        return
    for row in range(2):
        to, origin = (
            (side.allocation.address + side.offset + row * side.strides[0]) % unit_bytes for side in (dst, src)
        )
        _check_wram(direction, row_bytes, (), to, origin, arch)


def _check_wram(
    direction: Direction, segment: int, dst_loops: Loops, dst_phase: int, src_phase: int, arch: int
) -> None:
    """Check the rules of WRAM: 8 B addresses and strides, sizes of 64 B (2xx) or 16 B (3xx), no strided source (B).

    The sizes apply in both directions, to copies without strides. Not modelled: on arch 322 and 372, the bytes of a
    segment after the last multiple of 8 B are uncertain.
    """
    strided = any(count > 1 for count, _ in dst_loops)
    if direction.source is MemoryKind.WRAM and strided:
        raise CopyError(f"{direction.name}: WRAM is never the source of a strided copy; copy segment by segment")
    if direction is Direction.LDRAM2WRAM and strided:
        raise CopyError(f"{direction.name} is never strided; copy segment by segment, or stage the bytes through NRAM")
    multiple = 16 if arch >= _FIRST_3D_ARCH else 64
    if MemoryKind.WRAM in direction.value and segment % multiple and not dst_loops:
        to = "to" if direction.destination is MemoryKind.WRAM else "from"
        raise CopyError(f"{direction.name} of {segment} B: sizes {to} WRAM are a multiple of {multiple} B; pad it")
    if direction.destination is MemoryKind.WRAM:
        for count, stride in dst_loops:
            if count > 1 and stride % 8:
                raise CopyError(f"{direction.name} with a destination stride of {stride} B: a multiple of 8 B to WRAM")
    phase = dst_phase if direction.destination is MemoryKind.WRAM else src_phase
    if MemoryKind.WRAM in direction.value and phase % 8:
        raise CopyError(f"{direction.name}: WRAM addresses are 8 B aligned, this one is {phase % 8} B off")
    contiguous_2xx = direction is Direction.NRAM2NRAM and arch < _FIRST_3D_ARCH and not strided
    if contiguous_2xx and (segment % 128 or dst_phase % 64 or src_phase % 64):
        raise CopyError(
            f"NRAM2NRAM of {segment} B at {dst_phase % 64} and {src_phase % 64} modulo 64: on arch {arch} a contiguous "
            "move needs 64 B aligned addresses and a multiple of 128 B; pad the buffer"
        )


def _has_gaps(segment: int, loops: Loops) -> bool:
    reach = segment
    for count, stride in reversed(loops):
        if count > 1 and stride != reach:
            return True
        reach *= count
    return False
