"""The registry of element types, compared with NumPy and ml_dtypes."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mlusim import dtypes
from mlusim.dtypes import dtype_name, dtype_of, raw_dtype
from mlusim.errors import InputError

pytestmark = pytest.mark.filterwarnings("error")

ROWS = [
    ("bool", np.bool_, 1, "bool"),
    ("int8", np.int8, 1, "signed"),
    ("int16", np.int16, 2, "signed"),
    ("int32", np.int32, 4, "signed"),
    ("int64", np.int64, 8, "signed"),
    ("uint8", np.uint8, 1, "unsigned"),
    ("uint16", np.uint16, 2, "unsigned"),
    ("uint32", np.uint32, 4, "unsigned"),
    ("uint64", np.uint64, 8, "unsigned"),
    ("float16", np.float16, 2, "float"),
    ("bfloat16", ml_dtypes.bfloat16, 2, "float"),
    ("float32", np.float32, 4, "float"),
    ("float64", np.float64, 8, "float"),
    ("float8_e4m3fn", ml_dtypes.float8_e4m3fn, 1, "float"),
    ("float8_e5m2", ml_dtypes.float8_e5m2, 1, "float"),
    ("complex64", np.complex64, 8, "complex"),
    ("complex128", np.complex128, 16, "complex"),
]


@pytest.mark.parametrize(("name", "scalar", "width", "kind"), ROWS)
def test_every_type(name: str, scalar: type[Any], width: int, kind: str) -> None:
    dtype = np.dtype(scalar)
    assert dtype in dtypes.ALL
    assert dtype.itemsize == width
    for spelling in (name, scalar, dtype, SimpleNamespace(numpy_dtype=dtype), SimpleNamespace(numpy_dtype=name)):
        assert dtype_of(spelling) is dtype_of(dtype)
        assert dtype_of(spelling) == dtype
        assert dtype_name(spelling) == name
        assert raw_dtype(spelling).itemsize == width
    assert (dtype == dtypes.BOOL) == (kind == "bool")
    assert dtypes.is_integer(dtype) == (dtype in dtypes.INTEGERS) == (kind in {"signed", "unsigned"})
    assert (dtype in dtypes.SIGNED) == (kind == "signed")
    assert (dtype in dtypes.UNSIGNED) == (kind == "unsigned")
    assert dtypes.is_float(dtype) == (dtype in dtypes.FLOATS) == (kind == "float")
    assert dtypes.is_complex(dtype) == (dtype in dtypes.COMPLEX) == (kind == "complex")


def test_the_registry_is_the_table_above() -> None:
    assert [dtype_name(dtype) for dtype in dtypes.ALL] == [row[0] for row in ROWS]


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("half", "float16"),
        ("float", "float32"),
        ("double", "float64"),
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        (complex, "complex128"),
        ("f4", "float32"),
        ("=f2", "float16"),
        ("|u1", "uint8"),
        ("?", "bool"),
        ("b", "int8"),
        (np.str_("int8"), "int8"),
        (np.longlong, "int64"),
        (np.dtype("q"), "int64"),
        (np.dtype("f4", metadata={"unit": "s"}), "float32"),
        (np.dtype("f4").newbyteorder("="), "float32"),
        (np.dtype(">u1"), "uint8"),
    ],
)
def test_other_spellings(spelling: object, name: str) -> None:
    assert dtype_name(spelling) == name
    assert dtype_of(spelling).metadata is None


@pytest.mark.parametrize("code", [char for dtype in dtypes.ALL if dtype.isbuiltin == 1 for char in dtype.char + "lLqQ"])
def test_type_codes_match_numpy(code: str) -> None:
    assert dtype_of(code) == np.dtype(code)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("float128x", "'float128x'"),
        ("Float32", "'Float32'"),
        ("", "''"),
        ("V2", "'V2'"),
        (">bfloat16", "'>bfloat16'"),
        (None, "None"),
        (3, "3"),
        ([1, 2], "[1, 2]"),
        (str, "<class 'str'>"),
        (object, "<class 'object'>"),
        (np.dtype("M8[s]"), "datetime64[s]"),
        (np.dtype("V16"), "|V16"),
        (np.dtype("f4,f4"), "[('f0', '<f4'), ('f1', '<f4')]"),
        (np.dtype(("f4", 2)), "('<f4', (2,))"),
        (np.dtype(ml_dtypes.float8_e4m3b11fnuz), "float8_e4m3b11fnuz"),
        (np.dtype(ml_dtypes.int4), "int4"),
        (np.float32(1), "np.float32(1.0)"),
        (SimpleNamespace(numpy_dtype="int3"), "namespace(numpy_dtype='int3')"),
        (SimpleNamespace(numpy_dtype=SimpleNamespace(numpy_dtype="int8")), "namespace(numpy_dtype=namespace("),
    ],
)
def test_unknown(value: object, shown: str) -> None:
    with pytest.raises(InputError) as caught:
        dtype_of(value)
    message = str(caught.value)
    assert message.startswith(f"dtype {shown}")
    assert re.search(r" is not an element type; (did you mean \w+\? )?accepted are bool, int8, ", message)
    for row in ROWS:
        assert f" {row[0]}," in message


def test_a_long_value_is_cut() -> None:
    with pytest.raises(InputError, match=r"^dtype .{200}\.\.\. is not an element type"):
        dtype_of(["float32"] * 1000)


@pytest.mark.parametrize("name", ["int", "uint", "long", "ulong", "unsigned"])
def test_ambiguous_width(name: str) -> None:
    with pytest.raises(
        InputError,
        match=rf"^dtype '{name}' is 32 bits wide on the board and 64 in NumPy: name the width",
    ):
        dtype_of(name)


@pytest.mark.parametrize("value", ["f4", "i2", "c16", np.dtype("f4"), np.dtype("i2"), np.dtype("c16")])
def test_other_byte_order(value: str | np.dtype[Any]) -> None:
    swapped = np.dtype(value).newbyteorder("S")
    given = swapped.str if isinstance(value, str) else swapped
    name = np.dtype(value).name
    message = f"dtype {swapped.str!r} is {name} in the other byte order, and elements are in this"
    with pytest.raises(InputError, match=f"^{re.escape(message)}") as caught:
        dtype_of(given)
    x = np.zeros(3, swapped)
    assert str(caught.value).endswith(f"write {name!r}, and convert an array by x.astype({name!r})")
    assert dtype_of(x.astype(name).dtype) == np.dtype(value)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=dtype_name)
def test_raw_keeps_every_bit(dtype: np.dtype[Any]) -> None:
    """Signalling NaN, -0.0 and odd bool bytes, through a reversal, a gather and a transposed copy."""
    data = np.random.default_rng(5).integers(0, 256, 6 * 4 * dtype.itemsize, np.uint8)
    data[: dtype.itemsize] = np.frombuffer(b"\x01\0\0\0\0\0\xf0\x7f" * 2, np.uint8)[-dtype.itemsize :]
    x = data.view(dtype).reshape(6, 4)
    raw = x.view(raw_dtype(dtype))
    rows = data.reshape(6, 4, dtype.itemsize)
    assert raw[::-1].tobytes() == rows[::-1].tobytes()
    assert raw[[3, 0, 3]].tobytes() == rows[[3, 0, 3]].tobytes()
    assert np.take(raw, [2, 1], axis=1).tobytes() == rows[:, [2, 1]].tobytes()
    assert x[::-1, ::2].T.view(raw_dtype(dtype)).copy().tobytes() == rows[::-1, ::2].transpose(1, 0, 2).tobytes()
