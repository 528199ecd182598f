"""Chains of conversions, and rejected conversions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from exact_conversions import PAIRS, PARTS, Array, boundaries, name, patterns
from mlusim import dtypes
from mlusim.cores.convert import convert, steps
from mlusim.errors import InputError


@pytest.mark.grid(3)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_conversion_steps_compose_to_convert(source: dtypes.Dtype, target: dtypes.Dtype) -> None:
    if source in PARTS and target not in PARTS:
        with pytest.raises(InputError, match="complex to real"):
            steps(source, target)
        return
    chain = steps(source, target)
    assert chain[-1:] == (() if source == target else (target,))
    x = boundaries(source) if source not in PARTS else patterns(source)
    walked = x
    for dtype in chain:
        walked = convert(walked, dtype)
    assert walked.tobytes() == convert(x, target).tobytes()


@pytest.mark.parametrize(
    ("source", "target", "chain"),
    [
        ("int64", "float16", ["float32", "float16"]),
        ("uint32", "bfloat16", ["float32", "bfloat16"]),
        ("float64", "float8_e5m2", ["float32", "float8_e5m2"]),
        ("float64", "float32", ["float32"]),
        ("float32", "float16", ["float16"]),
        ("int16", "float16", ["float16"]),
        ("bool", "float8_e4m3fn", ["float8_e4m3fn"]),
        ("float16", "bfloat16", ["bfloat16"]),
        ("float16", "int64", ["int64"]),
        ("int64", "int8", ["int8"]),
        ("float64", "complex64", ["complex64"]),
        ("float16", "half", []),
    ],
)
def test_steps_by_hand(source: str, target: str, chain: list[str]) -> None:
    assert [name(dtype) for dtype in steps(source, target)] == chain


def read_only() -> Array:
    array = np.zeros(3, np.float16)
    array.flags.writeable = False
    return array


X = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (X, "float16", "tz"),
            "rounding 'tz' does not apply to float32 to float16: the modes are for a float to an int",
        ),
        ((X.astype(int), "int8", "up"), "rounding 'up' does not apply to int64 to int8: the modes are for a float to"),
        ((X, "float32", "oz"), "rounding 'oz' does not apply to float32 to float32"),
        ((X, "bool", "dn"), "rounding 'dn' does not apply to float32 to bool"),
        ((X, "int8", "nearest"), "rounding 'nearest' is unknown: the modes are None, tz, rn, rd, dn, up, oz"),
        ((X.astype("c8"), "float32"), "complex64 to float32: complex to real would drop the imaginary part; convert"),
        ((X.astype("c8"), "bool"), "complex64 to bool: complex to real"),
        ((X, "str"), "dtype 'str' is not an element type; accepted are bool, int8"),
        ((X.astype(">f4"), "int8"), "dtype '>f4' is float32 in the other byte order"),
        ((np.array(["a"]), "int8"), "dtype <U1 is not an element type"),
        ((X, "int8", None, np.zeros(4, np.int8)), "out is int8 [4], the result int8 [3]: they must be the same"),
        ((X, "int8", None, np.zeros(3, np.uint8)), "out is uint8 [3], the result int8 [3]: they must be the same"),
        ((X, "float16", None, read_only()), "out is read-only"),
        ((X, "float16", None, X.view(np.float16)[:3]), "out shares bytes with the source, which is never written"),
        ((X, "int32", None, X.view(np.int32)), "out shares bytes with the source"),
    ],
)
def test_errors(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        convert(*arguments)


def test_out_may_lie_between_the_elements_of_source() -> None:
    memory = np.arange(12, dtype=np.float32)
    out = convert(memory[::2], np.int32, out=memory.view(np.int32)[1::2])
    assert out.tolist() == [0, 2, 4, 6, 8, 10]
    assert memory[::2].tolist() == [0, 2, 4, 6, 8, 10]
