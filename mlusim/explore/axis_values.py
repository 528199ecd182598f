"""The values of an axis: lists, ranges, and numbers with units, as text or as Python objects.

  64KiB,256KiB,1MiB      several values
  16KiB..1MiB*2          16, 32, ... 1024 KiB: each twice the previous one, up to the limit
  4..32+4                4, 8, ... 32: each 4 more
  2,8,256,49..784*2      a shape with a range as an extent is several shapes

A number without a unit has the unit of the parameter. Of Python objects, a list (or a range) is several values, and
anything else, including a tuple, is a single one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import fields
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mlusim.dtypes import dtype_of
from mlusim.errors import BoardError, InputError, for_caller, shown
from mlusim.hardware import Board, board
from mlusim.hardware.parameter_names import unknown_parameter
from mlusim.inputs import as_plain, shape_parts
from mlusim.quantities import NUMBER, as_number, in_unit, units_of

# More values are most likely a typing error.
MAX_VALUES = 10_000

_STEP = rf"(?P<sign>[*+]){NUMBER.format('step')}"
_ITEM = re.compile(rf"{NUMBER.format('low')}(?:\.\.{NUMBER.format('high')}(?:{_STEP})?)?")


def numbers(name: str, text: str, *, integers: bool = True) -> list[int | float]:
    """Return the values listed in a text.

    Args:
        name: name of the parameter, which ends with its unit: `nram_bytes`, `clock_hz`, `clusters`.
        text: values and ranges, separated by commas.
        integers: whether they must be integers.

    Raises `InputError` for anything but a number, a unit of another kind, a fraction where an integer is required, and
    a range that is empty or endless.
    """
    values = [value for item in text.split(",") for value in _item_values(name, item.strip(), integers=integers)]
    _check_count(name, text, len(values))
    return values


def shapes(text: str) -> list[tuple[int, ...]]:
    """Return the shapes listed in a text of extents separated by commas or x, or ranges. Raises `InputError`."""
    try:
        parts = shape_parts(text)
    except InputError as error:
        several_shapes = f"for several shapes, {for_caller('repeat --shape', 'pass a list')}"
        raise InputError(f"shape: {error.message}; {several_shapes}") from None
    extents = [_item_values("shape", part, integers=True) for part in parts]
    count = math.prod(map(len, extents))
    _check_count("shape", text, count)
    return [tuple(int(extent) for extent in shape) for shape in product(*extents)]


def _check_count(name: str, text: str, count: int) -> None:
    if count > MAX_VALUES:
        raise InputError(
            f"{name}: {shown(text)} are {count} values: an axis has at most {MAX_VALUES}; use a larger step"
        )


def _item_values(name: str, item: str, *, integers: bool) -> list[int | float]:
    match = _ITEM.fullmatch(item)
    if not match:
        raise InputError(
            f"{name}: {shown(item)} is neither a number nor a range such as {_example(name)}: from, to, and the step"
        )

    def value(part: str) -> Decimal:
        return in_unit(name, item, match[part], match[f"{part}_unit"])

    low = value("low")
    if match["high"] is None:
        return [as_number(name, item, low, integer=integers)]
    high = value("high")
    if high < low:
        raise InputError(f"{name}: {shown(item)} goes down: write the smaller value first")
    if not match["sign"]:
        raise InputError(
            f"{name}: {shown(item)} has no step: write {item}*2, where each value is twice the last, or {item}+1"
        )
    if match["sign"] == "*":
        if match["step_unit"]:
            raise InputError(f"{name}: {shown(item)}: a factor has no unit: omit {match['step_unit']}")
        step = Decimal(match["step"])
    else:
        step = value("step")
    values = _range_values(name, item, low, high, match["sign"], step)
    return [as_number(name, item, value, integer=integers) for value in values]


def _range_values(name: str, item: str, low: Decimal, high: Decimal, sign: str, step: Decimal) -> Iterator[Decimal]:
    if (sign == "*" and (step <= 1 or low <= 0)) or (sign == "+" and step <= 0):
        rule = "a factor above 1 and a start above 0" if sign == "*" else "a step above 0"
        raise InputError(f"{name}: {shown(item)} never ends: it needs {rule}")
    steps = (high / low).ln() / step.ln() if sign == "*" else (high - low) / step
    _check_count(name, item, int(steps) + 1)
    while low <= high:
        yield low
        low = low * step if sign == "*" else low + step


def _example(name: str) -> str:
    if name == "shape":
        return "49..784*2 or 64..256+64"
    units = list(units_of(name))
    unit = units[min(1, len(units) - 1)] if units else ""
    return f"16{unit}..64{unit}*2 or 16{unit}..64{unit}+16{unit}"


def several(value: Any) -> list[Any]:
    """Return the distinct values of a list, 1-D array, set, range or iterator; or a single value as a list.

    1, 1.0 and True are distinct. Scalars of NumPy are as those of Python, and an array as an item is a tuple. Those of
    a set, whose order may differ between processes, are sorted: numbers by value, anything else by its text.
    """
    if isinstance(value, set | frozenset):
        by_value = all(isinstance(item, int | float) for item in value)
        value = sorted(value, key=None if by_value else repr)
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    values = value if isinstance(value, list | range | Iterator) else [value]
    distinct: dict[Any, Any] = {}
    for item in map(as_plain, values):
        plain_value = tuple(item.tolist()) if isinstance(item, np.ndarray) else item
        key = (
            repr(plain_value)
            if isinstance(plain_value, Collection) or type(plain_value).__hash__ is None
            else plain_value
        )
        distinct.setdefault((type(plain_value), key), plain_value)
    return [*distinct.values()]


def listed(value: Any) -> list[Any]:
    """Return the values of an axis; a text may list several, separated by commas."""
    items = [part for item in several(value) for part in (item.split(",") if isinstance(item, str) else [item])]
    return [item.strip() if isinstance(item, str) else item for item in items]


def boards_of(value: Any) -> list[Board]:
    """Return boards by name, by file or as objects."""
    boards: list[Board] = []
    for item in listed(value):
        if not isinstance(item, str | Path | Board):
            raise BoardError(f"{shown(item)} is not a board: name a preset or a TOML file, or pass a Board")
        item_board = board(item)
        if item_board in boards:
            continue
        if any(item_board.name == other.name for other in boards):
            raise InputError(
                f"two different boards are called {item_board.name}: give one another name in its TOML file, name = ..."
            )
        boards.append(item_board)
    return boards


def board_parameter(name: str) -> type:
    """Return the type, int or float, of a board's parameter. Raises `InputError` for an unknown name."""
    kinds = {item.name: int if item.type == "int" else float for item in fields(Board) if item.type in ("int", "float")}
    if name not in kinds:
        raise InputError(f"vary: {unknown_parameter(name, kinds)}")
    return kinds[name]


def dtypes_of(value: Any) -> list[Any]:
    """Return the element types of an axis."""
    return several([dtype_of(item) for item in listed(value)])
