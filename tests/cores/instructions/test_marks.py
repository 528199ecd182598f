"""Dependence of result elements on source elements: `Instruction.marks`, compared with the results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.verifier.uninitialised.marks import compares_to_bits, cyclic, elementwise

RNG = np.random.default_rng(0)
WINDOW = {"kernel_height": 2, "kernel_width": 3, "stride_width": 2, "stride_height": 1}
CONV = {
    "channel_input": 4,
    "kernel_height": 2,
    "kernel_width": 3,
    "stride_width": 2,
    "stride_height": 1,
    "dilation_width": 1,
    "dilation_height": 2,
}
PADS = {"pad_top": 1, "pad_bottom": 0, "pad_left": 2, "pad_right": 1, "pad_value": 7}

# Shapes of the result and of each source, and attributes.
CASES: dict[str, tuple[list[tuple[int, ...]], Mapping[str, Any]]] = {
    "transpose": ([(6, 4), (4, 6)], {}),
    "rotate90": ([(6, 4), (4, 6)], {}),
    "rotate180": ([(4, 6), (4, 6)], {}),
    "rotate270": ([(6, 4), (4, 6)], {}),
    "mirror": ([(4, 6), (4, 6)], {}),
    "pad": ([(5, 8, 3), (4, 5, 3)], PADS),
    "reshape_nhwc2nchw": ([(2, 5, 3, 4), (2, 3, 4, 5)], {}),
    "reshape_nchw2nhwc": ([(2, 3, 4, 5), (2, 5, 3, 4)], {}),
    "reshape_filter": ([(64, 2, 3, 2, 4), (128, 3, 2, 4)], {}),
    "sumpool": ([(5, 3, 4), (6, 8, 4)], WINDOW),
    "avgpool": ([(5, 3, 4), (6, 8, 4)], WINDOW),
    "maxpool": ([(5, 3, 4), (6, 8, 4)], WINDOW),
    "minpool": ([(5, 3, 4), (6, 8, 4)], WINDOW),
    "maxpool_index": ([(5, 3, 4), (6, 8, 4)], WINDOW),
    "minpool_index": ([(5, 3, 4), (6, 8, 4)], WINDOW),
    "avgpool_bp": ([(6, 8, 4), (5, 3, 4)], WINDOW | {"overlap": "ACC"}),
    "maxpool_bp": ([(6, 8, 4), (5, 3, 4), (5, 3, 4)], WINDOW | {"overlap": "ACC"}),
    "unpool": ([(6, 8, 4), (5, 3, 4)], WINDOW | {"index": 1}),
    "integral": ([(64,), (64,), (16, 64)], {"fix_position": 0}),
    "expand_channel_mul": ([(5, 8), (5,), (64,), (5, 8)], {}),
    "expand_channel_mul_add": ([(5, 8), (5,), (64,), (5, 8), (5, 8)], {}),
    "matmul": ([(5, 128), (5, 8), (128, 8)], {}),
    "mlp": ([(64,), (8,), (64, 8), (64,)], {}),
    "conv": ([(4, 3, 64), (6, 8, 4), (64, 2, 3, 4)], CONV),
    "conv_bias": ([(4, 3, 64), (6, 8, 4), (64, 2, 3, 4), (64,)], CONV),
    "conv_partial": ([(4, 3, 64), (6, 8, 4), (64, 2, 3, 4), (4, 3, 64)], CONV),
}
SERIES = {name: ([(40,)] * 4, {}) for name in INSTRUCTIONS if name.startswith("taylor")}
# `marks` sees what these write of the result; below, they are compared by the checker's findings instead.
IN_PART = {"reduce_sum", "maxpool_value_index", "minpool_value_index"}
# Results that need not change with each element that they depend on: only what changes has to be marked.
CHOOSE = {
    "integral",
    "expand_channel_mul",
    "expand_channel_mul_add",
    "maxpool",
    "minpool",
    "maxpool_index",
    "minpool_index",
    "maxpool_bp",
    "unpool",
}


def test_every_instruction_with_marks_is_tested():
    with_marks = {name for name, instruction in INSTRUCTIONS.items() if instruction.marks is not None}
    assert {*CASES, *SERIES, *IN_PART, "lut", "to_int4", "from_int4"} == with_marks


def test_no_other_instruction_spreads_marks_but_reductions():
    """An instruction whose result depends on its sources by position must have `marks`, or it causes false findings."""
    spreading = {"sum", "count", "count_bitindex", "popcnt", "findfirst1", "findlast1", "histogram"}
    spreading |= {"max", "min", "argmax", "argmin", "fabsmax", "fabsmin"}
    by_mask = {"filter", "filter_bitindex", "select", "select_bitindex", "maskmove", "maskmove_bitindex"}
    others = {
        name
        for name, instruction in INSTRUCTIONS.items()
        if instruction.marks is None and not (elementwise(name) or cyclic(name) or compares_to_bits(name))
    }
    assert others == spreading | by_mask


@pytest.mark.parametrize("name", [name for name in INSTRUCTIONS if cyclic(name)])
def test_cyclic_instructions_depend_on_one_element_of_each_source(name):
    instruction = INSTRUCTIONS[name]
    dtype = instruction.types and next((kind for kind in instruction.types if kind.kind == "f"), np.dtype(np.int32))
    attributes = {"operation": "FMA"} if name == "fusion" else {}
    sizes = [24, 8, 4][: len(instruction.operands) - 1]
    sources = [RNG.integers(1, 99, size).astype(dtype) for size in sizes]
    before, after = np.zeros(24, dtype), np.zeros(24, dtype)
    instruction.compute(before, *sources, **attributes)
    for number, size in enumerate(sizes):
        changed = [source.copy() for source in sources]
        changed[number][3] += 1
        instruction.compute(after, *changed, **attributes)
        assert set(np.flatnonzero(before.view(np.uint8) != after.view(np.uint8)) // dtype.itemsize % size) <= {3}, name


def test_a_byte_of_4_bit_integers_depends_on_its_two_elements():
    packed, unpacked = np.zeros(3, np.int32), np.zeros(6, np.int32)
    pack, unpack = INSTRUCTIONS["to_int4"].marks, INSTRUCTIONS["from_int4"].marks
    assert pack is not None
    assert unpack is not None
    pack(packed, np.array([0, 0, 4, 0, 0, 5], np.int32), rounding="rn")
    unpack(unpacked, packed)
    assert packed.tolist() == [0, 4, 5]
    assert unpacked.tolist() == [0, 0, 4, 4, 5, 5]


def test_an_element_of_a_lookup_depends_on_its_index_and_on_the_table():
    lookup = INSTRUCTIONS["lut"].marks
    assert lookup is not None
    for table, expected in ((np.zeros(64, np.int32), [0, 3, 0]), (np.full(64, 2, np.int32), [2, 3, 2])):
        found = np.zeros(3, np.int32)
        lookup(found, np.array([0, 3, 0], np.int32), table)
        assert found.tolist() == expected


@pytest.mark.parametrize("name", SERIES)
def test_a_series_does_not_depend_on_its_scratch(name):
    marks_of = INSTRUCTIONS[name].marks
    assert marks_of is not None
    source = RNG.integers(0, 3, 40).astype(np.int32)
    found = np.zeros(40, np.int32)
    marks_of(found, source, np.full(40, 9, np.int32), np.full(40, 9, np.int32))
    np.testing.assert_array_equal(found, source)


def computed(name: str, sources: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    shapes, attributes = CASES[name]
    if name == "maxpool_bp":
        sources = [sources[0], np.abs(sources[1]).astype(np.int64) % 6]
    result = np.zeros(shapes[0], np.float64)
    INSTRUCTIONS[name].compute(result, *sources, **attributes)
    return result


@pytest.mark.parametrize("name", CASES)
def test_marked_elements_are_those_that_change_with_the_source(name):
    shapes, attributes = CASES[name]
    marks_of = INSTRUCTIONS[name].marks
    assert marks_of is not None
    for which, shape in enumerate(shapes[1:]):
        for _ in range(8):
            sources = [RNG.integers(1, 99, shape).astype(np.float64) for shape in shapes[1:]]
            marks = [np.zeros(shape, np.int32) for shape in shapes[1:]]
            at = tuple(int(RNG.integers(extent)) for extent in shape)
            marks[which][at] = 3
            found = np.zeros(shapes[0], np.int32)
            marks_of(found, *marks, **attributes)
            changed = np.zeros(shapes[0], bool)
            before = computed(name, sources)
            for step in (-200, 1, 2, 200):
                sources[which][at] += step
                changed |= computed(name, sources) != before
            assert set(np.unique(found).tolist()) <= {0, 3}
            assert not (changed & (found == 0)).any()
            if name not in CHOOSE:
                np.testing.assert_array_equal(found == 3, changed)
