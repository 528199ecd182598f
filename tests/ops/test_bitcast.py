"""mlusim.ops.bitcast_convert: the document's matrix, views and copies, the shape rule, ONNX's node tests."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim import dtypes
from mlusim.errors import InputError
from mlusim.hardware import board
from mlusim.ops import bitcast_convert
from operator_runs import any_bits

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
STRATEGIES = ("view", "copy")
REAL = [dtype for dtype in dtypes.ALL if not dtypes.is_complex(dtype)]


def check(x: Array, target: Any, shape: tuple[int, ...], **options: Any) -> None:
    for strategy in STRATEGIES:
        result = bitcast_convert(x, target, strategy=strategy, **options)
        assert result.output.shape == shape
        assert result.output.dtype == target
        assert result.output.tobytes() == x.tobytes()


class TestTheDocument:
    def test_its_example(self):
        x = RNG.standard_normal(10).astype(np.float32)
        result = bitcast_convert(x, "float16")
        assert result.output.shape == (10, 2)
        # The low-order part comes first.
        words = x.view(np.uint32)
        assert np.array_equal(result.output[:, 0].view(np.uint16), words & 0xFFFF)
        assert np.array_equal(result.output[:, 1].view(np.uint16), words >> 16)

    # Shapes of 1, 1024 and 2048 elements, of 1, 2 and 4 axes.
    @pytest.mark.parametrize(
        "shape", [(1,), (1024,), (2048,), (1, 1), (32, 32), (64, 32), (1, 1, 1, 1), (4, 8, 8, 4), (2, 8, 16, 8)]
    )
    @pytest.mark.parametrize(
        ("source", "target"),
        [
            ("float32", "float32"),
            ("float32", "int32"),
            ("float32", "float64"),
            ("float64", "float32"),
            ("int64", "bool"),
            ("bool", "int64"),
        ],
    )
    def test_its_matrix(self, source, target, shape):
        origin, end = np.dtype(source), np.dtype(target)
        if end.itemsize > origin.itemsize:
            ratio = end.itemsize // origin.itemsize
            if shape[-1] == ratio:
                check(any_bits(RNG, shape, origin), end, shape[:-1])
                return
            with pytest.raises(InputError, match=rf"so the last dimension must be {ratio}, and its last dimension is"):
                bitcast_convert(any_bits(RNG, shape, origin), target)
            check(any_bits(RNG, (*shape, ratio), origin), end, shape)
        else:
            ratio = origin.itemsize // end.itemsize
            check(any_bits(RNG, shape, origin), end, shape if ratio == 1 else (*shape, ratio))


class TestResults:
    @given(st.lists(st.integers(0, 5), max_size=5), st.sampled_from(dtypes.ALL), st.sampled_from(dtypes.ALL), st.data())
    @settings(deadline=None, max_examples=50)
    def test_any_pair_and_shape(self, extents, source, target, data):
        if dtypes.is_complex(source) != dtypes.is_complex(target):
            return
        if source.itemsize < target.itemsize:
            extents = [*extents, target.itemsize // source.itemsize]
            expected = tuple(extents[:-1])
        else:
            ratio = source.itemsize // target.itemsize
            expected = (*extents, ratio) if ratio > 1 else tuple(extents)
        x = any_bits(RNG, tuple(extents), source)
        axes = data.draw(st.permutations(range(x.ndim)))
        inverse = np.argsort(axes)
        # The same elements, laid out in another order: bytes count in C order all the same.
        x = x.transpose(axes).copy(order="C").transpose(inverse)
        check(x, target, expected)

    def test_there_and_back(self):
        x = any_bits(RNG, (3, 5), np.float64)
        for target in ("float32", "uint8", "bfloat16", "int64"):
            there = bitcast_convert(x, target).output
            assert bitcast_convert(there, "float64").output.tobytes() == x.tobytes()

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_rank_0(self, strategy):
        x = np.float32(1.0)
        assert bitcast_convert(x, "int32", strategy=strategy).output == 0x3F800000
        assert bitcast_convert(x, "uint8", strategy=strategy).output.tolist() == [0, 0, 0x80, 0x3F]
        assert bitcast_convert(np.array([0, 0x3F80], np.uint16), "float32", strategy=strategy).output == 1.0

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_bool_bytes_and_nan_payloads_are_preserved(self, strategy):
        flags = np.array([0, 1, 2, 255], np.uint8).view(bool)
        assert bitcast_convert(flags, "int8", strategy=strategy).output.tolist() == [0, 1, 2, -1]
        signalling = np.array([0x7F800001, 0xFFC12345, 0x80000000], np.uint32)
        there = bitcast_convert(signalling, "float32", strategy=strategy).output
        assert there.view(np.uint32).tolist() == signalling.tolist()

    @pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
    def test_zero_extents(self, shape):
        check(np.zeros(shape, np.float32), np.dtype("int32"), shape)
        check(np.zeros(shape, np.float32), np.dtype("int8"), (*shape, 4))
        check(np.zeros((*shape, 2), np.float32), np.dtype("float64"), shape)

    def test_complex(self):
        x = any_bits(RNG, (4,), np.complex128)
        check(x, np.dtype("complex64"), (4, 2))
        check(any_bits(RNG, (4, 2), np.complex64), np.dtype("complex128"), (4,))


class TestViewAndCopy:
    def test_a_view_moves_nothing(self):
        x = RNG.standard_normal((64, 64)).astype(np.float32)
        result = bitcast_convert(x, "int32")
        assert len(result.log) == 0
        assert dict(result.bytes_requested) == {}
        assert (result.time_ps, result.plan.tier, result.plan.strategy) == (0, 0, "view")
        assert np.shares_memory(result.output, x)
        result.plan.check()
        assert "a view of the input's memory: no bytes are moved" in result.plan.explain()

    def test_a_view_of_the_callers_array_cannot_be_written(self):
        x = np.zeros(4, np.float32)
        output = bitcast_convert(x, "int32").output
        with pytest.raises(ValueError, match="read-only"):
            output[0] = 1

    def test_a_copy_moves_every_byte_through_nram(self):
        x = RNG.standard_normal((100, 50)).astype(np.float32)
        result = bitcast_convert(x, "float16", strategy="copy")
        assert dict(result.bytes_requested) == {"GDRAM2NRAM": x.nbytes, "NRAM2GDRAM": x.nbytes}
        assert not np.shares_memory(result.output, x)
        result.output[...] = 0
        assert x.any()

    @pytest.mark.parametrize("name", ["mlu270-s4", "mlu370-x4", "mlu590-h8"])
    def test_copies_in_many_tiles(self, name):
        on = board(name).replace(nram_bytes=1024, nram_reserved_bytes=0)
        x = any_bits(RNG, (70, 1001), np.int16)
        result = bitcast_convert(x, "uint8", strategy="copy", device=on, dma="late")
        assert len(result.plan.tiles) > result.plan.tasks
        assert result.output.tobytes() == x.tobytes()

    @pytest.mark.parametrize("name", ["mlu370-x4", "mlu590-h8"])
    def test_a_large_copy_is_bound_by_the_dram(self, name):
        x = np.broadcast_to(np.float32(0), (1 << 24,))
        result = bitcast_convert(x, "int32", strategy="copy", device=name, data=False)
        assert 0.75 < result.io_efficiency < 0.93
        assert result.theory_ops == 0

    def test_timing_only(self):
        assert bitcast_convert(np.zeros(4, np.float32), "int32", data=False).output is None


class TestErrors:
    @pytest.mark.parametrize(
        ("shape", "source", "target", "message"),
        [
            (
                (10,),
                "float32",
                "float64",
                (
                    "bitcast_convert: x is float32 [10] and cannot become float64: 2 elements of 4 B make one of 8 B, "
                    "so the last dimension must be 2, and its last dimension is 10; reshape it to [.., 2]"
                ),
            ),
            (
                (4, 2),
                "bool",
                "int64",
                "bool [4, 2] and cannot become int64: 8 elements of 1 B make one of 8 B, so the last ",
            ),
            ((), "int8", "int16", "so the last dimension must be 2, and it has rank 0, no last dimension; the number"),
            ((3, 3), "int8", "int16", "its last dimension is 3; the number of elements, 9, is not a multiple of 2"),
            ((2, 0), "int8", "int16", "must be 2, and its last dimension is 0"),
            (
                (2,),
                "complex64",
                "float32",
                "x is complex64 [2] and cannot become float32: complex and real types do not mix",
            ),
            (
                (2,),
                "float64",
                "complex64",
                "float64 [2] and cannot become complex64: complex and real types do not mix",
            ),
        ],
    )
    def test_shapes_and_types(self, shape, source, target, message):
        for strategy in STRATEGIES:
            with pytest.raises(InputError, match=re.escape(message)):
                bitcast_convert(np.zeros(shape, source), target, strategy=strategy)
        with pytest.raises(InputError, match=re.escape(message)):
            mlusim.plan("bitcast_convert", shape, dtype=target, input_dtype=source)

    def test_names(self):
        with pytest.raises(InputError, match=r"^dtype 'float33' is not an element type"):
            bitcast_convert(np.zeros(2), "float33")
        with pytest.raises(InputError, match=r"^strategy='move': choose one of view, copy"):
            bitcast_convert(np.zeros(2), "int64", strategy="move")


def test_plans():
    view, copy = (
        mlusim.plan("bitcast_convert", (10,), dtype="float16", input_dtype="float32", strategy=strategy)
        for strategy in STRATEGIES
    )
    assert (view.strategy, view.output_shape, view.tier) == ("view", (10, 2), 0)
    assert (copy.strategy, copy.output_shape, copy.tier) == ("copy", (20,), 1)
    copy.check()


def test_onnx_bitcast(onnx_cases):
    cases = onnx_cases("bitcast")
    from onnx import helper

    assert len(cases) >= 5
    for name, attributes, (x,), (expected,) in cases:
        target = helper.tensor_dtype_to_np_dtype(attributes["to"])
        for strategy in STRATEGIES:
            output = bitcast_convert(x, target, strategy=strategy).output
            assert output.shape == np.shape(expected), name
            assert output.tobytes() == np.asarray(expected).tobytes(), name
