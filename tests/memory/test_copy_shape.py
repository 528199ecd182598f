"""The geometry of copies: coalesced axes, bus bytes, equal views."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copy_views import GDRAM, LDRAM, NRAM, SRAM, addresses, buffer, by_views
from mlusim.errors import CopyError
from mlusim.memory.kinds import DIRECTIONS, Direction, MemoryKind
from mlusim.memory.view import View


@pytest.mark.parametrize(
    ("shape", "dst_key", "src_key", "segment", "dst_loops", "src_loops"),
    [
        ((8, 16), ..., ..., 512, (), ()),
        ((8, 16), slice(2, 5), slice(1, 4), 192, (), ()),
        ((8, 16), np.s_[:, :8], np.s_[:, 8:], 32, ((8, 64),), ((8, 64),)),
        ((4, 8, 16), np.s_[:, 2:4], np.s_[:, 0:2], 128, ((4, 512),), ((4, 512),)),
        ((4, 8, 16), np.s_[:, 2:4, :4], np.s_[:, 0:2, 4:8], 16, ((4, 512), (2, 64)), ((4, 512), (2, 64))),
        ((8, 16), ..., np.s_[::-1], 64, ((8, 64),), ((8, -64),)),
        ((8, 16), np.s_[::-1], ..., 64, ((8, 64),), ((8, -64),)),
        ((8, 16), np.s_[0], np.s_[0, ::-1], 4, ((16, 4),), ((16, -4),)),
        ((8, 16), np.s_[:, 0], np.s_[0, :8], 4, ((8, 64),), ((8, 4),)),
        ((8, 16), np.s_[3:4, 5:6], np.s_[0:1, 0:1], 4, (), ()),
    ],
)
def test_axes_are_coalesced(
    shape: tuple[int, ...], dst_key: Any, src_key: Any, segment: int, dst_loops: Any, src_loops: Any
) -> None:
    copy = by_views(buffer(NRAM, shape, np.int32)[dst_key], buffer(GDRAM, shape, np.int32)[src_key])
    assert (copy.segment_bytes, copy.dst_loops, copy.src_loops) == (segment, dst_loops, src_loops)
    assert copy.direction is Direction.GDRAM2NRAM


def test_a_broadcast_source_has_a_stride_of_0() -> None:
    row = buffer(GDRAM, (16,), np.int32)
    copy = by_views(buffer(NRAM, (8, 16), np.int32), row.broadcast_to(8, 16))
    assert (copy.segment_bytes, copy.dst_loops, copy.src_loops) == (64, ((8, 64),), ((8, 0),))
    assert (copy.nbytes, copy.bus_read_bytes, copy.strided) == (512, 512, True)
    one = by_views(buffer(NRAM, (3, 5), np.int32), row[0:1].broadcast_to(3, 5))
    assert (one.segment_bytes, one.dst_loops, one.src_loops) == (4, ((15, 4),), ((15, 0),))


@given(st.data())
@settings(max_examples=200)
def test_copied_bytes_match_numpy(data: st.DataObject) -> None:
    """Segments and loops, walked byte by byte, move the bytes that NumPy's copy moves."""
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    kinds = [data.draw(st.sampled_from([GDRAM, NRAM])) for _ in range(2)]
    dst, src = (strided_view(data, kind, shape, source=side == 1) for side, kind in enumerate(kinds))
    if DIRECTIONS.get((kinds[1], kinds[0])) is None:
        return
    if loops_needed(dst, src) > 2:
        with pytest.raises(CopyError, match="needs 3 nested strides"):
            by_views(dst, src)
        return
    copy = by_views(dst, src)
    lowest = [
        view.offset + sum(min(0, (n - 1) * s) for n, s in zip(shape, view.strides, strict=True)) for view in (dst, src)
    ]
    # Where the instruction begins is where the destination begins: its strides are positive.
    moved = dict(
        zip(
            (lowest[0] + byte for byte in addresses(copy.segment_bytes, copy.dst_loops)),
            addresses(copy.segment_bytes, copy.src_loops),
            strict=True,
        )
    )
    expected = {}
    for index in np.ndindex(shape):
        to, origin = (view.offset + sum(i * s for i, s in zip(index, view.strides, strict=True)) for view in (dst, src))
        expected |= {to + byte: origin + byte for byte in range(2)}
    first = expected[min(expected)]
    assert {to: origin + first for to, origin in moved.items()} == expected
    assert copy.nbytes == 2 * int(np.prod(shape)) == copy.segments * copy.segment_bytes


def loops_needed(dst: View, src: View) -> int:
    """Axes that neither follow the one within them on both sides, nor are the segment itself."""
    axes = [(n, d, s) for n, d, s in zip(dst.shape, dst.strides, src.strides, strict=True) if n > 1]
    count, inner = 0, (dst.itemsize, src.itemsize)
    for extent, to, origin in reversed(axes):
        to, origin = (to, origin) if to > 0 else (-to, -origin)  # noqa: PLW2901 - the destination runs forwards
        count += (to, origin) != inner
        inner = (extent * to, extent * origin)
    return count


def strided_view(data: st.DataObject, kind: MemoryKind, shape: tuple[int, ...], *, source: bool) -> View:
    """A view of that shape with gaps, a permutation of axes and negative strides; a source may broadcast."""
    steps = [data.draw(st.integers(1, 3)) for _ in shape]
    order = data.draw(st.permutations(range(len(shape))))
    view = buffer(kind, tuple(shape[axis] * steps[axis] for axis in order), np.int16)
    view = view[tuple(slice(None, None, steps[axis]) for axis in order)]
    view = view.transpose(*(order.index(axis) for axis in range(len(shape))))
    view = view[tuple(slice(None, None, data.draw(st.sampled_from([1, -1]))) for _ in shape)]
    if source:
        for axis, extent in enumerate(shape):
            if data.draw(st.integers(0, 5)) == 0:
                view = view[(slice(None),) * axis + (slice(0, 1),)].broadcast_to(
                    *view.shape[:axis], extent, *view.shape[axis + 1 :]
                )
    assert view.shape == shape
    return view


def test_bus_bytes_count_the_off_chip_sides() -> None:
    rows = buffer(GDRAM, (8, 10), np.int32)[:, :5]
    read = by_views(buffer(NRAM, (8, 5), np.int32), rows)
    assert (read.bus_read_bytes, read.bus_write_bytes) == (
        sum(64 * (((40 * r) % 64 + 19) // 64 + 1) for r in range(8)),
        0,
    )
    write = by_views(rows, buffer(NRAM, (8, 5), np.int32))
    assert write.bus_write_bytes == read.bus_read_bytes
    assert write.bus_read_bytes == read.bus_read_bytes  # every unit is written in part, so read first
    inside = by_views(buffer(SRAM, (8, 5), np.int32), buffer(NRAM, (8, 5), np.int32))
    assert (inside.bus_read_bytes, inside.bus_write_bytes, inside.strided) == (0, 0, False)
    through = by_views(buffer(LDRAM, (64,)), buffer(GDRAM, (64,)))
    assert (through.bus_read_bytes, through.bus_write_bytes) == (64, 64)


@given(data=st.data())
@settings(max_examples=150)
def test_bus_bytes_of_any_views(data: st.DataObject) -> None:
    """Each contiguous run of the destination is a segment, wherever it begins and ends."""
    rows, row = data.draw(st.integers(2, 9)), data.draw(st.integers(1, 150))
    gaps = [data.draw(st.integers(1, 90)) for _ in range(2)]
    backwards = [data.draw(st.booleans()) for _ in range(2)]
    wholes = [buffer(GDRAM, (rows, row + gap)) for gap in gaps]
    dst, src = (
        whole[:: -1 if back else 1, data.draw(st.integers(0, gap)) :][:, :row]
        for whole, gap, back in zip(wholes, gaps, backwards, strict=True)
    )
    copy = by_views(dst, src)

    def units(view: View) -> tuple[int, int]:
        touched = partial = 0
        for number in range(rows):
            start = view.offset + number * view.strides[0]
            covered = Counter(byte // 64 for byte in range(start, start + row))
            touched += len(covered)
            partial += sum(count < 64 for count in covered.values())
        return 64 * touched, 64 * partial

    written, read_first = units(dst)
    assert copy.bus_write_bytes == written
    assert copy.bus_read_bytes == units(src)[0] + read_first


def test_strided_describes_the_off_chip_side() -> None:
    whole, part = buffer(GDRAM, (8, 16)), buffer(GDRAM, (8, 32))[:, :16]
    nram = buffer(NRAM, (8, 32))
    assert not by_views(nram[:, :16], whole).strided  # gaps in NRAM cost the DRAM nothing
    assert by_views(nram[:, :16], part).strided
    assert by_views(part, nram[:, :16]).strided
    assert not by_views(whole, nram[:, 16:]).strided


@pytest.mark.parametrize(
    ("dst", "src", "message"),
    [
        (
            ((4, 5), "int32"),
            ((5, 4), "int32"),
            "memcpy of [5, 4] elements of 4 B to [4, 5] of 4 B: both views need the ",
        ),
        (
            ((4, 5), "int32"),
            ((4, 5), "int16"),
            "memcpy of [4, 5] elements of 2 B to [4, 5] of 4 B: a copy does not convert",
        ),
        (((20,), "int32"), ((4, 5), "int32"), "memcpy of [4, 5] elements"),
        (
            ((0, 5), "int32"),
            ((0, 5), "int32"),
            "memcpy of [0, 5], which has no bytes: guard it with `if`; segnum cannot",
        ),
    ],
)
def test_views_must_agree(dst: Any, src: Any, message: str) -> None:
    with pytest.raises(CopyError, match="^" + re.escape(message)):
        by_views(buffer(NRAM, *dst), buffer(GDRAM, *src))


def test_equal_widths_copy_as_bits() -> None:
    assert by_views(buffer(NRAM, (4,), "float32"), buffer(GDRAM, (4,), "int32")).nbytes == 16


def test_more_than_three_dimensions() -> None:
    with pytest.raises(
        CopyError,
        match=r"^memcpy of \[2, 3, 2, 4\] needs 3 nested strides over segments of 4 B \(2 x \(dst 96, src 384\); "
        r"3 x \(dst 32, src 64\); 2 x \(dst 16, src 16\)\) and __memcpy has at most 2 \(3-D\): loop over the outermost",
    ):
        by_views(buffer(NRAM, (2, 3, 2, 16))[..., :4], buffer(GDRAM, (2, 6, 4, 16))[:, :3, :2, :4])
