"""mlusim.ops.cast: every pair of types, every bit pattern of the 16-bit types, layouts, errors, ONNX.

The conversions themselves are tested in tests/cores/compute/test_convert.py, with the same exact arithmetic.
"""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from exact_conversions import PARTS, assert_same, bits_of, expected_bits, patterns
from mlusim import dtypes
from mlusim.errors import InputError
from mlusim.hardware import Board, board
from mlusim.ops import cast
from mlusim.planning.elementwise import STRATEGIES
from operator_runs import BOARDS

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
REAL = [dtype for dtype in dtypes.ALL if not dtypes.is_complex(dtype)]
WIDE_16 = [dtypes.INT16, dtypes.UINT16, dtypes.FLOAT16, dtypes.BFLOAT16]


def small(name: str) -> Board:
    """A board whose NRAM takes many tiles of even a small tensor."""
    return board(name).replace(nram_bytes=1 << 14, nram_reserved_bytes=0)


def few(dtype: Any) -> Array:
    """Some of the critical patterns; of 8-bit types, all."""
    whole = patterns(dtype)
    return whole if dtype.itemsize == 1 else np.concatenate([whole[:40], whole[-20:], whole[40::97]])


class TestEveryPair:
    @pytest.mark.grid(8)
    @pytest.mark.parametrize("target", REAL, ids=str)
    @pytest.mark.parametrize("source", REAL, ids=str)
    def test_real_types_against_exact_arithmetic(self, source, target):
        x = few(source)
        output = cast(x, target, device=BOARDS[(source.num + target.num) % 3]).output
        assert output.dtype == target
        if source == target:
            assert output.tobytes() == x.tobytes()
        else:
            assert_same(output, expected_bits(x, target), x)

    @pytest.mark.parametrize("target", dtypes.COMPLEX, ids=str)
    @pytest.mark.parametrize("source", REAL, ids=str)
    def test_real_to_complex(self, source, target):
        x = few(source)
        part = PARTS[target]
        output = cast(x, target).output
        real = np.ascontiguousarray(output.real)
        assert_same(real, bits_of(x) if source == part else expected_bits(x, part), x)
        assert not output.imag.any()

    def test_complex_to_complex(self):
        x = np.array([1 + 2j, complex(np.inf, -0.0), complex(1e300, -1e-300), complex(0.1, np.nan)])
        narrow = cast(x, "complex64").output
        with np.errstate(over="ignore"):
            assert narrow.tobytes() == x.astype(np.complex64).tobytes()
        assert cast(narrow, "complex128").output.tobytes() == narrow.astype(np.complex128).tobytes()
        assert cast(x, "complex128").output.tobytes() == x.tobytes()

    @pytest.mark.parametrize("source", dtypes.COMPLEX, ids=str)
    @pytest.mark.parametrize("target", REAL, ids=str)
    def test_complex_to_real_is_refused(self, source, target):
        message = rf"^cast: x is {source} and cannot become {target}: complex to real would drop the imaginary part"
        with pytest.raises(InputError, match=message):
            cast(np.zeros(3, source), target)
        with pytest.raises(InputError, match=message):
            mlusim.plan("cast", (3,), dtype=target, input_dtype=source)


def of_16_bits(x: Array, target: Any) -> Array:
    """What a 16-bit type becomes: by NumPy and ml_dtypes where these are right, to integers by way of exact doubles."""
    with np.errstate(all="ignore"):
        if target == dtypes.BOOL:
            return x.astype(np.float64) != 0
        if not (dtypes.is_float(x.dtype) and dtypes.is_integer(target)):
            return x.astype(target)
        limits = np.iinfo(target)
        whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        # As doubles the limits of 64 bits are powers of two, which are out of range at the upper end.
        inside = (whole >= float(limits.min)) & (whole < float(limits.max) + (limits.max < 2**53))
        out = np.where(whole < 0, *(np.array(limit, target) for limit in (limits.min, limits.max)))
        out[inside] = whole[inside].astype(target)
        return out


class TestEveryPatternOf16Bits:
    @pytest.mark.grid(5)
    @pytest.mark.parametrize("target", REAL, ids=str)
    @pytest.mark.parametrize("source", WIDE_16, ids=str)
    def test_through_the_operator(self, source, target):
        x = np.arange(1 << 16, dtype=np.uint16).view(source).reshape(64, 1024)
        output = cast(x, target, device=small("mlu370-x4")).output
        if source == target:
            assert output.tobytes() == x.tobytes()
            return
        expected = of_16_bits(x, target)
        same = output.view(f"u{target.itemsize}") == expected.view(f"u{target.itemsize}")
        if dtypes.is_float(target):
            with np.errstate(all="ignore"):  # signalling NaNs
                same |= np.isnan(output.astype(np.float64)) & np.isnan(expected.astype(np.float64))
        assert same.all(), (x[~same][:4], output[~same][:4], expected[~same][:4])

    def test_the_reference_saturates(self):
        x = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 127.9, -128.9], np.float32).astype(ml_dtypes.bfloat16)
        assert of_16_bits(x, np.dtype(np.int8)).tolist() == [127, -128, 0, 127, -128, 127, -128]
        assert of_16_bits(x[:5], np.dtype(np.uint64)).tolist() == [2**64 - 1, 0, 0, 2**64 - 1, 0]
        assert of_16_bits(x[:5], np.dtype(np.int32)).tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]


class TestTheDocument:
    def test_its_examples(self):
        x = np.array([1, 1, 1])
        assert cast(x, "float32").output.tolist() == [1.0, 1.0, 1.0]
        truth = cast(x, bool).output
        assert truth.tolist() == [True, True, True]
        assert truth.dtype == bool

    def test_its_shape(self):
        x = RNG.integers(-(2**31), 2**31, (8, 24, 124)).astype(np.int32)
        result = cast(x, "float32")
        assert result.output.dtype == np.float32
        assert np.array_equal(result.output, x.astype(np.float32))


class TestByHand:
    @pytest.mark.parametrize("strategy", [*STRATEGIES])
    @pytest.mark.parametrize("name", BOARDS)
    def test_values_that_other_libraries_convert_wrongly(self, name, strategy):
        options = {"device": name, "strategy": strategy}
        x = np.array([np.nan, np.inf, -np.inf, 1e20, -1e20, 2.9, -2.9, -0.0])
        assert cast(x, "int32", **options).output.tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2, -2, 0]
        assert cast(x, "uint8", **options).output.tolist() == [0, 255, 0, 255, 0, 2, 0, 0]
        assert cast(x, "bool", **options).output.tolist() == [True] * 7 + [False]
        assert cast(np.array([1e-45, 2**-149], np.float32), "bool", **options).output.all()
        flags = np.array([0, 1, 2, 255], np.uint8).view(bool)
        assert cast(flags, "bfloat16", **options).output.astype(float).tolist() == [0, 1, 1, 1]
        assert cast(np.array([448, 464, 465, 1e9], np.float32), "float8_e4m3fn", **options).output.astype(float)[
            :2
        ].tolist() == [448, 448]
        assert np.isnan(cast(np.float32([465, 1e9]), "float8_e4m3fn", **options).output.astype(float)).all()

    def test_double_rounding_of_wide_sources(self):
        # 1 + 2**-11 + 2**-40 is above the tie of float16; float32 drops the last part, and the tie goes to even.
        assert cast(np.array([1 + 2**-11 + 2**-40]), "float16").output.tolist() == [1.0]
        assert np.array([1 + 2**-11 + 2**-40]).astype(np.float16).tolist() != [1.0]

    def test_a_cast_to_the_same_type_keeps_the_bits(self):
        signalling = np.array([0x7F800001, 0xFFC12345, 0x80000000], np.uint32).view(np.float32)
        assert cast(signalling, "float").output.tobytes() == signalling.tobytes()
        flags = np.array([0, 1, 2, 255], np.uint8).view(bool)
        result = cast(flags, bool)
        assert result.output.view(np.uint8).tolist() == [0, 1, 2, 255]
        assert not np.shares_memory(result.output, flags)


class TestShapesAndLayouts:
    @given(
        st.lists(st.tuples(st.integers(0, 6), st.sampled_from([1, 2, -1, -2])), max_size=6),
        st.sampled_from(REAL),
        st.sampled_from(REAL),
        st.sampled_from(BOARDS),
        st.sampled_from([*STRATEGIES]),
        st.data(),
    )
    @settings(deadline=None, max_examples=50)
    def test_any_layout(self, axes, source, target, name, strategy, data):
        large = tuple(extent * abs(step) for extent, step in axes)
        x = np.arange(np.prod(large, dtype=int)).astype(np.uint8).astype(source).reshape(large)
        order = data.draw(st.permutations(range(len(axes))))
        x = x[tuple(slice(None, None, step) for _, step in axes)].transpose(order)
        result = cast(
            x, target, device=small(name), strategy=strategy, dma=data.draw(st.sampled_from(["complete", "late"]))
        )
        # Numbers of one byte, which every type takes alike but for the saturation that NumPy does not do.
        wanted = x.astype(np.float64)
        if dtypes.is_integer(target) and dtypes.is_float(source):
            limits = np.iinfo(target)
            wanted = np.clip(np.nan_to_num(wanted), limits.min, limits.max)
        with np.errstate(all="ignore"):
            expected = wanted.astype(target)
        assert result.output.shape == x.shape
        assert result.output.flags.c_contiguous
        assert np.array_equal(result.output.astype(np.float64), expected.astype(np.float64), equal_nan=True)

    @pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2, 2)])
    def test_zero_extents(self, shape):
        result = cast(np.zeros(shape, np.float32), "int8")
        assert (result.output.shape, result.output.dtype) == (shape, np.int8)
        assert (len(result.log), result.time_ps) == (0, 0)

    def test_rank_0_and_ranks_beyond_6(self):
        assert cast(np.float64(2.5), "int8").output.shape == ()
        assert cast(3, "float16").output.item() == 3.0
        x = np.arange(2**10).reshape((2,) * 10)
        assert np.array_equal(cast(x, "float32").output, x.astype(np.float32))

    def test_broadcast_inputs(self):
        x = np.broadcast_to(np.float32([[1.5], [2.5]]), (2, 5000))
        assert np.array_equal(cast(x, "float16").output, x.astype(np.float16))

    @pytest.mark.parametrize("name", BOARDS)
    @pytest.mark.parametrize("count", [1, 63, 64, 65, 2047, 100_003])
    def test_tails(self, count, name):
        x = RNG.standard_normal(count).astype(np.float32)
        assert np.array_equal(cast(x, "float16", device=small(name)).output, x.astype(np.float16))

    def test_timing_only(self):
        x = np.broadcast_to(np.float32(0), (1 << 22,))
        timed = cast(x, "float16", data=False)
        assert timed.output is None
        assert timed.time_ps == cast(x, "float16").time_ps


class TestErrors:
    def test_types(self):
        with pytest.raises(InputError, match=r"^dtype 'float33' is not an element type"):
            cast(np.zeros(2), "float33")
        with pytest.raises(InputError, match=r"^dtype 'int' is 32 bits wide on the board and 64 in NumPy"):
            cast(np.zeros(2), "int")
        with pytest.raises(InputError, match="is not an element type"):
            cast(np.array(["a"]), "int8")
        with pytest.raises(InputError, match="in the other byte order"):
            cast(np.zeros(2), ">f4")

    def test_strategy(self):
        with pytest.raises(
            InputError, match=r"^strategy='ping': did you mean pingpong\? choose one of auto, pingpong,"
        ):
            cast(np.zeros(2), "int8", strategy="ping")


# What ONNX casts and docs/semantics.md does not, and why.
EXCLUDED = {
    "FNUZ": "float8 without negative zero is not a type of mlusim",
    "INT4": "4-bit integers are not types of mlusim",
    "INT2": "2-bit integers are not types of mlusim",
    "FLOAT4": "4-bit floats are not types of mlusim",
    "E8M0": "a float8 of exponents only is not a type of mlusim",
}
# In ONNX these saturate by default: in mlusim e4m3fn overflows to NaN and e5m2 to infinity, as with saturate=0.
SATURATING = ("FLOAT8E4M3FN", "FLOAT8E5M2")


def test_onnx_cast(onnx_cases):
    cases = onnx_cases("cast")
    from onnx import numpy_helper

    def array_of(tensor: Any) -> Array:
        return np.asarray(tensor) if isinstance(tensor, np.ndarray) else numpy_helper.to_array(tensor)

    tested = 0
    for name, attributes, (given_x,), (wanted,) in cases:
        if any(word in name for word in EXCLUDED):
            continue
        x, expected = array_of(given_x), array_of(wanted)
        saturates = bool(attributes.get("saturate", 1)) and name.endswith(SATURATING)
        output = cast(x, expected.dtype, saturate=saturates).output
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NaN of small floats on their way to float64
            same = output.view(f"u{output.itemsize}") == expected.view(f"u{expected.itemsize}")
            same |= np.isnan(output.astype(np.float64)) & np.isnan(expected.astype(np.float64))
        assert same.all(), name
        tested += 1
    assert tested >= 12
