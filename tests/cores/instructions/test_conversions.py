"""Conversions by instruction, in every rounding mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from instruction_oracle import c_signature, rng, run
from mlusim.cores.instructions.conversion import ROUNDINGS, TYPE_WORDS
from mlusim.cores.instructions.record import Extent
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.dtypes import BFLOAT16, FLOAT16, is_float, is_integer


@pytest.mark.parametrize("target", [FLOAT16, BFLOAT16], ids=str)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_narrow_floats_round_in_every_mode(rounding: str, target: Any) -> None:
    """Against a search among all values of the narrower type."""
    with np.errstate(invalid="ignore"):
        finite = np.arange(1 << 16, dtype=np.uint16).view(target).astype(np.float64)
    finite = np.unique(finite[np.isfinite(finite)])
    source = np.concatenate(
        [
            (rng.standard_normal(200) * 10.0 ** rng.integers(-6, 4, 200)).astype(np.float32),
            ((finite[20000:20040] + finite[20001:20041]) / 2).astype(np.float32),
            np.array([0.0, -0.0, 1.0], np.float32),
        ]
    )
    got = run("convert", np.empty(source.size, target), source, rounding=rounding).astype(np.float64)
    for x, y in zip(source.astype(np.float64), got, strict=True):
        low, high = finite[finite <= x].max(), finite[finite >= x].min()
        near = low if x - low < high - x else high
        tie = low != high and x - low == high - x
        expected = {
            "tz": low if x > 0 else high,
            "dn": low,
            "up": high,
            "oz": high if x > 0 else low,
            "rd": near if not tie else (high if x > 0 else low),
            "rm": near if not tie else high,
            "rn": float(np.float64(np.float32(x).astype(target))),
        }[rounding]
        assert y == expected, (x, rounding)


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        (None, [1, -1, 2, -2, 0]),
        ("tz", [1, -1, 2, -2, 0]),
        ("rn", [2, -2, 2, -2, 0]),
        ("rd", [2, -2, 3, -3, 1]),
        ("dn", [1, -2, 2, -3, 0]),
        ("up", [2, -1, 3, -2, 1]),
        ("oz", [2, -2, 3, -3, 1]),
        ("rm", [2, -1, 3, -2, 1]),
    ],
)
def test_floats_to_integers(rounding: str | None, expected: list[int]) -> None:
    source = np.array([1.5, -1.5, 2.5, -2.5, 0.5], np.float32)
    assert run("convert", np.empty(5, np.int32), source, rounding=rounding).tolist() == expected


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [("rn", 2**24), ("tz", 2**24), ("up", 2**24 + 2), ("oz", 2**24 + 2), ("rd", 2**24 + 2), ("dn", 2**24)],
)
def test_integers_to_floats_round(rounding: str, expected: int) -> None:
    source = np.array([2**24 + 1], np.int32)
    assert run("convert", np.empty(1, np.float32), source, rounding=rounding)[0] == expected


def test_positions_scale_by_powers_of_two() -> None:
    assert run(
        "convert", np.empty(2, np.int8), np.array([40, -24], np.float32), rounding="rn", position=3
    ).tolist() == [
        5,
        -3,
    ]
    assert run("convert", np.empty(2, np.float32), np.array([5, -3], np.int16), position=3).tolist() == [40, -24]


def test_positions_of_integer_conversions_belong_to_each_operand() -> None:
    found = c_signature("__bang_short2int", 5)
    _, attributes = found.bind([0, 0, 2, 3, 5], {"dst": 4, "src": 2})
    source = np.array([1, -3], np.int16)
    # 1 * 2^5 is 4 * 2^3.
    assert run("convert", np.empty(2, np.int32), source, **attributes).tolist() == [4, -12]
    assert run("convert", np.empty(2, np.int8), np.array([5, -700], np.int16), position=1, rounding="dn").tolist() == [
        2,
        -128,
    ]


@pytest.mark.parametrize("rounding", [None, *ROUNDINGS])
def test_int4(rounding: str | None) -> None:
    source = np.array([1.5, -2.5, 0.25, 99, -99, -0.75, 7, np.nan], np.float32)
    expected = {
        None: [2, -2, 0, 7, -8, -1, 7, 0],
        "rn": [2, -2, 0, 7, -8, -1, 7, 0],
        "tz": [1, -2, 0, 7, -8, 0, 7, 0],
        "dn": [1, -3, 0, 7, -8, -1, 7, 0],
        "up": [2, -2, 1, 7, -8, 0, 7, 0],
        "rd": [2, -3, 0, 7, -8, -1, 7, 0],
        "oz": [2, -3, 1, 7, -8, -1, 7, 0],
        "rm": [2, -2, 0, 7, -8, -1, 7, 0],
    }[rounding]
    packed = run("to_int4", np.empty(4, np.uint8), source, rounding=rounding)
    assert [byte & 15 for byte in packed.tolist()] == [number % 16 for number in expected[::2]]
    assert [byte >> 4 for byte in packed.tolist()] == [number % 16 for number in expected[1::2]]
    assert run("from_int4", np.empty(8, np.float16), packed).tolist() == expected
    assert run("from_int4", np.empty(8, np.int8), packed).tolist() == expected
    assert run("from_int4", np.empty(8, np.float32), packed, position=-1).tolist() == [x / 2 for x in expected]
    assert run("to_int4", np.empty(4, np.uint8), source * 2, rounding=rounding, position=1).tolist() == packed.tolist()


@pytest.mark.parametrize(
    ("name", "dst", "src", "message"),
    [
        ("to_int4", np.empty(16, np.uint8), np.ones(8, np.float32), "dst has 1 B for 2 elements of src, which has 8"),
        (
            "from_int4",
            np.empty(8, np.float32),
            np.ones(16, np.uint8),
            "dst has 2 elements for 1 B of src, which has 16 B",
        ),
    ],
)
def test_a_packed_operand_on_the_wrong_side_of_an_int4_conversion_is_refused(
    name: str, dst: Any, src: Any, message: str
) -> None:
    operands = [Extent(view.shape, view.itemsize) for view in (dst, src)]
    assert message in INSTRUCTIONS[name].geometry(operands, {"rounding": None, "position": 0})


@pytest.mark.parametrize("source", sorted(set(TYPE_WORDS)))
def test_conversions_by_name(source: str) -> None:
    for target in TYPE_WORDS:
        if source == target:
            continue
        for ending in ("", *(f"_{mode}" for mode in ROUNDINGS)):
            found = c_signature(f"__bang_{source}2{target}{ending}", 3)
            assert found.instruction is INSTRUCTIONS["convert"]
            whole, wide = is_integer(TYPE_WORDS[source]), TYPE_WORDS[source].itemsize == 8
            plain = "tz" if whole and not wide and is_float(TYPE_WORDS[target]) else None
            assert found.fixed == {"rounding": ending[1:] or plain}
