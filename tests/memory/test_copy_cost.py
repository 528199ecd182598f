"""The cost of a copy: equal for equal bytes in any form, and by lines on chip."""

from __future__ import annotations

import pytest

from copy_views import GDRAM, NRAM, SRAM, UNIT, buffer, by_views
from mlusim.hardware import board, presets
from mlusim.memory.copy_cost import copy_cost
from mlusim.memory.copy_shape import pointer_copy_shape
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.units import PS_PER_S

ARCH = 372
ON_CHIP = [(NRAM, NRAM), (NRAM, SRAM), (SRAM, NRAM)]


def cost_ps(name: str, shape) -> int:
    return copy_cost(board(name), shape, memory_core=False).alone_ps


def in_bytes(direction: Direction, size: int, *strides: int):
    dst, src = (buffer(kind, (1 << 20,)).pointer for kind in (direction.destination, direction.source))
    return pointer_copy_shape(dst, src, size, direction, strides, ARCH, UNIT)


@pytest.mark.parametrize("name", [each.name for each in presets()])
@pytest.mark.parametrize("direction", [Direction.GDRAM2NRAM, Direction.NRAM2GDRAM, Direction.NRAM2SRAM])
def test_a_form_with_strides_over_contiguous_bytes_costs_what_the_plain_copy_does(name: str, direction: Direction):
    plain = cost_ps(name, in_bytes(direction, 3840))
    for size in (60, 96, 1920):
        rows = 3840 // size
        assert cost_ps(name, in_bytes(direction, size, size, size, rows - 1)) == plain
        # 3-D, with sides that divide the rows differently.
        assert (
            cost_ps(name, in_bytes(direction, size, size, 1, 2 * size, rows // 2 - 1, size, rows - 1, 3840, 0)) == plain
        )


def test_contiguous_rows_of_a_strided_form_are_one_segment():
    pairs = in_bytes(Direction.GDRAM2NRAM, 60, 60, 1, 240, 7, 60, 1, 480, 7)
    longer = in_bytes(Direction.GDRAM2NRAM, 120, 240, 480, 7)
    assert (pairs.segment_bytes, pairs.segments) == (longer.segment_bytes, longer.segments) == (120, 8)
    assert pairs.bus_read_bytes == longer.bus_read_bytes
    assert cost_ps("mlu370-x4", pairs) == cost_ps("mlu370-x4", longer)


def test_rows_with_a_gap_on_one_side_stay_segments():
    loaded = in_bytes(Direction.GDRAM2NRAM, 512, 1024, 512, 63)
    on = board("mlu270-s4")
    assert (loaded.segments, loaded.strided) == (64, False)
    assert cost_ps("mlu270-s4", loaded) == on.dma_read_latency_ps + 64 * on.dma_segment_ps


@pytest.mark.parametrize(("size", "field"), [(UNIT - 1, "dma_element_ps"), (UNIT, "dma_segment_ps")])
def test_a_segment_that_fills_a_bus_unit_is_no_single_element(size: int, field: str):
    on = board("mlu370-x4")
    loaded = in_bytes(Direction.GDRAM2NRAM, size, size, 2 * UNIT, 63)
    assert cost_ps(on.name, loaded) == on.dma_read_latency_ps + 64 * getattr(on, field)


@pytest.mark.parametrize("name", ["mlu270-s4", "mlu370-x4", "mlu590-m9"])
@pytest.mark.parametrize(("dst", "src"), ON_CHIP)
@pytest.mark.parametrize("segment", [4, 64, 128, 192, 1000])
def test_a_segment_on_chip_takes_the_cycles_of_its_lines(name: str, dst: MemoryKind, src: MemoryKind, segment: int):
    """A line is 128 B. Nothing of the DRAM's cost of segments applies, which is 200 ns on MLU270."""
    on, segments = board(name), 64
    shape = by_views(buffer(dst, (segments, 2048))[:, :segment], buffer(src, (segments, segment)))
    lines_ps = on.cycles_ps(segments * -(-segment // 128))
    if SRAM in {dst, src}:
        port_ps = segments * segment * PS_PER_S / on.core_sram_bandwidth_bytes_per_s
        expected = on.sram_latency_ps + max(lines_ps, port_ps)
    else:
        expected = on.cycles_ps(on.move_startup_cycles) + lines_ps
    assert cost_ps(name, shape) == pytest.approx(expected, abs=100)


@pytest.mark.parametrize(("dst", "src"), [*ON_CHIP, (NRAM, GDRAM), (GDRAM, NRAM)])
def test_gaps_are_never_faster(dst: MemoryKind, src: MemoryKind):
    for segment in (4, 60, 64, 128, 512, 4096):
        wide = buffer(dst, (16, 8192))[:, :segment]
        dense = by_views(buffer(dst, (16, segment)), buffer(src, (16, segment)))
        gapped = by_views(wide, buffer(src, (16, segment)))
        for name in ("mlu220-m2", "mlu290-m5", "mlu370-x4", "mlu590-h8"):
            assert cost_ps(name, gapped) >= cost_ps(name, dense)


@pytest.mark.parametrize("name", [each.name for each in presets()])
@pytest.mark.parametrize("nbytes", [128, 4096, 64 * 1024, 512 * 1024])
def test_accesses_have_the_order_of_the_guide(name: str, nbytes: int):
    """G 5.3: contiguous reads are the fastest, then contiguous writes, strided reads and strided writes."""
    contiguous, strided = buffer(GDRAM, (nbytes // 64, 64)), buffer(GDRAM, (nbytes // 64, 128))[:, :64]
    held = buffer(NRAM, (nbytes // 64, 64))
    shapes = [by_views(held, contiguous), by_views(contiguous, held), by_views(held, strided), by_views(strided, held)]
    costs = [cost_ps(name, shape) for shape in shapes]
    assert costs == sorted(costs)
