"""Valid and invalid copies of `__memcpy`: segment counts, directions, WRAM, alignment, bounds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copy_views import GDRAM, LDRAM, NRAM, SRAM, UNIT, WRAM, addresses, buffer, by_views
from mlusim.errors import AccessError, CopyError
from mlusim.memory.copy_limits import MAX_SEGNUM
from mlusim.memory.copy_shape import CopyShape, pointer_copy_shape
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.memory.view import Pointer


def by_bytes(
    size: int, *strides: int, direction: Direction = Direction.GDRAM2NRAM, arch: int = 372, room: int = 1 << 32
) -> CopyShape:
    dst, src = (buffer(kind, (room,)).pointer for kind in (direction.destination, direction.source))
    return pointer_copy_shape(dst, src, size, direction, strides, arch, UNIT)


def test_segnum_is_the_number_of_segments_minus_one() -> None:
    copy = by_bytes(100, 128, 256, 6)
    assert (copy.segments, copy.nbytes) == (7, 700)
    assert (copy.dst_loops, copy.src_loops) == (((7, 128),), ((7, 256),))
    assert by_bytes(100).segments == by_bytes(100, 0, 0, 0).segments == 1


def test_3d_counts_are_minus_one_and_the_sides_are_independent() -> None:
    copy = by_bytes(16, 16, 3, 1000, 2, 64, 1, 4096, 5)
    assert copy.dst_loops == ((3, 1000), (4, 16))  # outermost first
    assert copy.src_loops == ((6, 4096), (2, 64))
    assert (copy.segments, copy.nbytes) == (12, 192)


@pytest.mark.parametrize("segnum", [-1, 65536])
def test_segnum_has_16_bits(segnum: int) -> None:
    message = rf"^memcpy with segnum {segnum}: it is the number of segments minus one, 0 to 65535; "
    with pytest.raises(CopyError, match=message):
        by_bytes(1, 1, 1, segnum)
    for place in (1, 3, 5, 7):
        strides = [1] * 8
        strides[place] = segnum
        with pytest.raises(CopyError, match=message):
            by_bytes(1, *strides)


def test_segnum_of_65535_is_allowed() -> None:
    assert MAX_SEGNUM == 65535
    assert by_bytes(4, 4, 8, 65535).segments == 65536
    rows = buffer(GDRAM, (65536, 2))
    assert by_views(buffer(NRAM, (65536, 1)), rows[:, :1]).segments == 65536
    with pytest.raises(
        CopyError, match=r"^memcpy of 65 537 segments of 1 B: segnum is at most 65535, so at most 65 536 "
    ):
        by_views(buffer(NRAM, (65537, 1)), buffer(GDRAM, (65537, 2))[:, :1])


@pytest.mark.parametrize(
    ("size", "strides", "message"),
    [
        (0, (), "memcpy of 0 B: the size of a segment must be positive; guard an empty copy with `if`"),
        (-4, (), "memcpy of -4 B: the size of a segment must be positive"),
        (4, (4,), "memcpy takes 0, 3 (dst_stride, src_stride, segnum) or 8 stride arguments, not 1"),
        (4, (4, 4), "memcpy takes 0, 3 (dst_stride, src_stride, segnum) or 8 stride arguments, not 2"),
        (4, (4,) * 7, "memcpy takes 0, 3 (dst_stride, src_stride, segnum) or 8 stride arguments, not 7"),
        (8, (7, 8, 1), "memcpy with a destination stride of 7 B over 8 B: segments would overlap; the destination "),
        (8, (0, 8, 1), "memcpy with a destination stride of 0 B over 8 B"),
        (8, (-8, 8, 1), "memcpy with a destination stride of -8 B over 8 B"),
        (8, (8, 1, 7, 1, 8, 3, 64, 0), "memcpy with a destination stride of 7 B over 8 B"),
        (
            8,
            (8, 3, 16, 1, 8, 7, 64, 0),
            "memcpy to 2 x 4 segments of 8 B with destination strides of 16 B and 8 B: segme",
        ),
        (
            8,
            (8, 1, 16, 1, 8, 1, 64, 2),
            "3-D memcpy writes 4 segments and reads 6: (dst_segnum1 + 1)(dst_segnum2 + 1) mu",
        ),
    ],
)
def test_copies_beyond_the_limits_are_rejected(size: int, strides: tuple[int, ...], message: str) -> None:
    with pytest.raises(CopyError, match="^" + re.escape(message)):
        by_bytes(size, *strides)


@pytest.mark.parametrize(
    ("size", "strides"),
    [
        (8, (8, 0, 1)),  # source stride 0 broadcasts
        (8, (8, -8, 0)),
        (8, (8, 3, 1, 3)),  # source segments may overlap
        (8, (0, -1, 0)),  # one segment: no stride is used
        (8, (32, 3, 8, 3, 8, 3, 32, 3)),  # a transposition: the outer destination stride is the smaller one
        (8, (20, 3, 8, 1, 8, 7, 8, 0)),
        (8, (10, 2, 28, 1, 8, 5, 8, 0)),  # the second row begins where the first one ends, before a fourth segment
    ],
)
def test_copies_within_the_limits_are_accepted(size: int, strides: tuple[int, ...]) -> None:
    if len(strides) == 4:
        strides = (8, strides[1], strides[3])
    assert by_bytes(size, *strides).segment_bytes == size


@given(
    size=st.integers(1, 6),
    outer=st.tuples(st.integers(1, 6), st.integers(1, 40)),
    inner=st.tuples(st.integers(1, 6), st.integers(1, 40)),
)
@settings(max_examples=300)
def test_destination_segments_never_overlap(size: int, outer: tuple[int, int], inner: tuple[int, int]) -> None:
    written = addresses(size, (outer, inner))
    strides = (inner[1], inner[0] - 1, outer[1], outer[0] - 1)
    if len(set(written)) < len(written) or any(n > 1 and s < size for n, s in (outer, inner)):
        with pytest.raises(CopyError, match="segments would overlap"):
            by_bytes(size, *strides, size, inner[0] * outer[0] - 1, 0, 0)
    else:
        assert by_bytes(size, *strides, size, inner[0] * outer[0] - 1, 0, 0).nbytes == len(written)


@pytest.mark.parametrize("arch", [220, 270, 290])
def test_3d_needs_arch_300(arch: int) -> None:
    strides = (8, 1, 64, 1, 8, 1, 64, 1)
    with pytest.raises(
        CopyError, match=rf"^3-D __memcpy needs arch 300 or later and this board is arch {arch}: loop over"
    ):
        by_bytes(8, *strides, arch=arch)
    with pytest.raises(CopyError, match=r"^3-D __memcpy needs arch 300"):
        by_views(buffer(NRAM, (2, 3, 16))[..., :8], buffer(GDRAM, (2, 4, 16))[:, :3, :8], arch)
    assert by_bytes(8, *strides, arch=372).nbytes == 32
    assert by_bytes(8, 8, 64, 1, arch=arch).segments == 2


@pytest.mark.parametrize("source", list(MemoryKind))
@pytest.mark.parametrize("destination", list(MemoryKind))
def test_every_pair_of_memories(source: MemoryKind, destination: MemoryKind) -> None:
    """No direction is named for WRAM to WRAM (B), and LDRAM to LDRAM has only strided copies."""
    dst, src = (buffer(kind, (2, 128))[:, :112] for kind in (destination, source))
    if source is not WRAM and (source, destination) != (LDRAM, WRAM):
        assert by_views(dst, src).direction.name == f"{source.name}2{destination.name}"
    dst, src = dst[0], src[0]
    if source is destination is WRAM:
        with pytest.raises(
            CopyError, match=rf"^__memcpy has no direction {source.value} to {destination.value}; stage the bytes"
        ):
            by_views(dst, src)
    elif source is not LDRAM or destination is not LDRAM:
        assert by_views(dst, src).direction.name == f"{source.name}2{destination.name}"


@pytest.mark.parametrize("direction", list(Direction))
def test_the_direction_must_be_that_of_the_pointers(direction: Direction) -> None:
    for other in Direction:
        dst, src = buffer(other.destination, (128,)).pointer, buffer(other.source, (128,)).pointer
        if other is direction:
            strides = (128, 128, 0) if direction is Direction.LDRAM2LDRAM else ()
            assert pointer_copy_shape(dst, src, 128, direction, strides, 372, UNIT).direction is direction
        else:
            with pytest.raises(
                CopyError,
                match=rf"^memcpy says {direction.name} but copies from <.*> to <.*>: the direction of these pointers "
                rf"is {other.name}; write that, or correct the pointers$",
            ):
                pointer_copy_shape(dst, src, 128, direction, (), 372, UNIT)


def test_asynchronous_directions() -> None:
    listed = """GDRAM2GDRAM GDRAM2LDRAM GDRAM2SRAM GDRAM2NRAM GDRAM2WRAM SRAM2GDRAM SRAM2NRAM SRAM2WRAM NRAM2GDRAM
        NRAM2SRAM NRAM2NRAM NRAM2WRAM WRAM2SRAM WRAM2NRAM"""
    assert {direction.name for direction in Direction if direction.asynchronous} == set(listed.split())


def test_directions_are_those_of_the_headers() -> None:
    listed = """GDRAM2NRAM NRAM2GDRAM LDRAM2NRAM NRAM2LDRAM GDRAM2WRAM WRAM2GDRAM LDRAM2WRAM WRAM2LDRAM NRAM2NRAM
        NRAM2WRAM WRAM2NRAM GDRAM2SRAM SRAM2GDRAM LDRAM2SRAM SRAM2LDRAM SRAM2NRAM NRAM2SRAM SRAM2WRAM WRAM2SRAM
        GDRAM2GDRAM GDRAM2LDRAM LDRAM2GDRAM SRAM2SRAM LDRAM2LDRAM"""
    assert {direction.name for direction in Direction} == set(listed.split())
    for direction in Direction:
        assert direction.off_chip == ("DRAM" in direction.name)


@pytest.mark.parametrize(("arch", "multiple"), [(270, 64), (290, 64), (372, 16), (592, 16)])
@pytest.mark.parametrize("source", [GDRAM, NRAM, SRAM])
def test_sizes_to_wram(arch: int, multiple: int, source: MemoryKind) -> None:
    wram, other = buffer(WRAM, (4096,)), buffer(source, (4096,))
    for nbytes in (multiple, 5 * multiple):
        assert by_views(wram[:nbytes], other[:nbytes], arch).nbytes == nbytes
    for nbytes in (multiple - 1, multiple + 1, multiple // 2):
        with pytest.raises(
            CopyError,
            match=rf"^{source.name}2WRAM of {nbytes} B: sizes to WRAM must be a multiple of {multiple} B; pad it$",
        ):
            by_views(wram[:nbytes], other[:nbytes], arch)
        # The header's table has the same sizes for copies from WRAM.
        with pytest.raises(
            CopyError, match=rf"^WRAM2{source.name} of {nbytes} B: sizes from WRAM must be a multiple of"
        ):
            by_views(other[:nbytes], wram[:nbytes], arch)


def test_sizes_and_strides_are_32_bit_integers() -> None:
    far = buffer(GDRAM, (3, (1 << 31) + 64))
    for rows in (2, 3):
        with pytest.raises(
            CopyError, match=r"a stride of 2 147 483 712 B: a stride is a 32-bit int, at most 2 147 483 647"
        ):
            by_views(buffer(NRAM, (rows, 64)), far[0:rows, 0:64], 372)
    with pytest.raises(
        CopyError, match=r"segments of 2 147 483 712 B: the size is a 32-bit int, at most 2 147 483 647"
    ):
        by_views(far[1], far[0], 372)
    assert by_views(buffer(NRAM, (1, 64)), far[2:3, 0:64], 372).nbytes == 64


@pytest.mark.parametrize("offset", [1, 4, 7])
def test_addresses_of_wram(offset: int) -> None:
    wram, nram = buffer(WRAM, (4096,)), buffer(NRAM, (4096,))
    for dst, src in ((wram, nram), (nram, wram)):
        with pytest.raises(CopyError, match=rf"WRAM addresses must be aligned to 8 B, and this one is {offset} B off$"):
            by_views(
                dst[offset : offset + 16] if dst is wram else dst[:16], src[offset:][:16] if src is wram else src[:16]
            )
    assert by_views(wram[8:24], nram[offset : offset + 16]).nbytes == 16


def test_strides_to_wram() -> None:
    nram = buffer(NRAM, (4, 16))
    assert by_views(buffer(WRAM, (4, 24))[:, :16], nram).segments == 4
    with pytest.raises(CopyError, match=r"^NRAM2WRAM with a destination stride of 20 B: a multiple of 8 B to WRAM$"):
        by_views(buffer(WRAM, (4, 20))[:, :16], nram)


def test_wram_is_never_a_strided_source() -> None:
    message = r"^WRAM2NRAM: WRAM is never the source of a strided copy; copy segment by segment$"
    with pytest.raises(CopyError, match=message):
        by_views(buffer(NRAM, (4, 16)), buffer(WRAM, (4, 24))[:, :16])
    with pytest.raises(CopyError, match=message):
        by_views(buffer(NRAM, (4, 24))[:, :16], buffer(WRAM, (4, 16)))
    with pytest.raises(CopyError, match=message):
        by_bytes(16, 16, 16, 3, direction=Direction.WRAM2NRAM)


def test_ldram_to_wram_is_never_strided() -> None:
    assert by_bytes(64, direction=Direction.LDRAM2WRAM).nbytes == 64
    with pytest.raises(CopyError, match=r"^LDRAM2WRAM is never strided; copy segment by segment, or stage"):
        by_bytes(64, 64, 64, 3, direction=Direction.LDRAM2WRAM)


def test_a_copy_within_ldram_has_strides() -> None:
    assert by_bytes(48, 64, 96, 2, direction=Direction.LDRAM2LDRAM).segments == 3
    assert by_bytes(48, 64, 96, 0, direction=Direction.LDRAM2LDRAM).nbytes == 48
    with pytest.raises(CopyError, match=r"^LDRAM2LDRAM needs strides: the hardware has no contiguous copy; stage the"):
        by_bytes(48, direction=Direction.LDRAM2LDRAM)


@pytest.mark.parametrize("arch", [270, 290])
def test_contiguous_moves_on_2xx(arch: int) -> None:
    one, two = buffer(NRAM, (4096,)), buffer(NRAM, (4096,))
    assert by_views(one[64:192], two[128:256], arch).nbytes == 128
    padded, shifted = "pad the buffer", "load the bytes to their place, or move them by a scalar loop"
    for dst, src, remedy in (
        (one[:64], two[:64], padded),
        (one[:130], two[:130], padded),
        (one[32:160], two[:128], shifted),
        (one[:128], two[1:129], shifted),
    ):
        with pytest.raises(
            CopyError,
            match=rf"^NRAM2NRAM of \d+ B at \d+ and \d+ modulo 64: on arch {arch} a contiguous move .*; {remedy}$",
        ):
            by_views(dst, src, arch)
        assert by_views(dst, src, 372).nbytes == dst.nbytes
    assert by_views(one.reshape(64, 64)[:3, :5], two.reshape(64, 64)[:3, :5], arch).nbytes == 15  # strided: any


@pytest.mark.parametrize("kind", [GDRAM, LDRAM, SRAM, NRAM])
@pytest.mark.parametrize("arch", [270, 372])
def test_other_memories_are_byte_aligned(kind: MemoryKind, arch: int) -> None:
    other = GDRAM if kind is NRAM else NRAM
    assert by_views(buffer(kind, (64,))[3:10], buffer(other, (64,))[1:8], arch).nbytes == 7
    assert by_views(buffer(other, (64,))[1:8], buffer(kind, (64,))[3:10], arch).nbytes == 7


def in_bytes(dst: Pointer, src: Pointer, size: int, *strides: int) -> CopyShape:
    return pointer_copy_shape(dst, src, size, Direction.GDRAM2NRAM, strides, 372, UNIT)


@pytest.mark.parametrize(
    ("dst_at", "src_at", "size", "strides", "message"),
    [
        (
            0,
            0,
            101,
            (),
            "memcpy writes bytes 0..101 of the nram buffer, which has 100 B: 101 B do not fit there; check the",
        ),
        (1, 0, 100, (), "memcpy writes bytes 1..101 of the nram buffer"),
        (-1, 0, 10, (), "memcpy writes bytes -1..9 of the nram buffer"),
        (0, -1, 10, (), "memcpy reads bytes -1..9 of the gdram buffer, which has 200 B"),
        (0, 195, 10, (), "memcpy reads bytes 195..205 of the gdram buffer"),
        (0, 0, 10, (10, 20, 10), "memcpy writes bytes 0..110 of the nram buffer, which has 100 B: 11 segments of 10 B"),
        (0, 0, 10, (10, 22, 9), "memcpy reads bytes 0..208 of the gdram buffer"),
        (0, 50, 10, (10, -10, 6), "memcpy reads bytes -10..60 of the gdram buffer"),
        (
            0,
            0,
            10,
            (10, 1, 50, 1, 10, 1, 181, 1),
            "memcpy reads bytes 0..201 of the gdram buffer, which has 200 B: 2 x 2 seg",
        ),
        (0, 0, 10, (10, 1, 81, 1, 10, 1, 50, 1), "memcpy writes bytes 0..101 of the nram buffer"),
    ],
)
def test_outside_the_allocation(dst_at: int, src_at: int, size: int, strides: tuple[int, ...], message: str) -> None:
    dst, src = buffer(NRAM, (100,)).pointer + dst_at, buffer(GDRAM, (200,)).pointer + src_at
    with pytest.raises(AccessError, match="^" + re.escape(message)) as caught:
        in_bytes(dst, src, size, *strides)
    segments = "segnum is the number of segments minus one"
    assert (segments if strides else "check the address, and the size, which is in bytes") in str(caught.value)


def test_up_to_the_last_byte() -> None:
    dst, src = buffer(NRAM, (100,)).pointer, buffer(GDRAM, (200,)).pointer
    assert in_bytes(dst, src + 100, 100).nbytes == 100
    assert in_bytes(dst, src + 190, 10, 10, -10, 9).nbytes == 100
    assert in_bytes(dst, src + 190, 10, 10, 0, 9).nbytes == 100
    assert in_bytes(dst, src, 10, 10, 1, 80, 1, 10, 1, 180, 1).nbytes == 40
