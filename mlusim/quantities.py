"""Numbers with a unit as text: `64KiB`, `900 MHz`, `1.78us`; a number without one has the unit of its parameter."""

from __future__ import annotations

import re
from decimal import Decimal, Overflow
from math import isinf

from mlusim.errors import InputError, shown

_BINARY = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZES = {**_BINARY, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
# By the ending of a parameter's name.
_UNITS: dict[str, dict[str, int]] = {
    "bytes_per_s": {f"{name}/s": size for name, size in _SIZES.items()},
    "bytes_per_core": _SIZES,
    "bytes": _SIZES,
    "hz": {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9},
    "ps": {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12},
}
# A number and its unit, as two named groups of a regular expression.
NUMBER = r"(?P<{0}>-?(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(?P<{0}_unit>[A-Za-z/%]*)"
_QUANTITY = re.compile(NUMBER.format("number"))
_BEYOND_64_BITS = 1 << 63


def quantity(name: str, text: str, *, integer: bool = True) -> int | float:
    """Return the number in a text, in the unit of the parameter `name`, which ends with that unit: `nram_bytes`.

    Raises `InputError` for anything but a number, a unit of another kind, and a fraction if it must be `integer`.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        unit = list(units_of(name))[1:2]
        raise InputError(f"{name}: {shown(text)} is not a number{f' such as 64{unit[0]}' if unit else ''}")
    return as_number(name, text, in_unit(name, text, match["number"], match["number_unit"]), integer=integer)


def in_unit(name: str, text: str, number: str, unit: str) -> Decimal:
    """Return a number with a unit, in the unit of a parameter; `text` is for messages. Raises `InputError`."""
    units = units_of(name)
    if unit and unit not in units:
        takes = f"takes {', '.join(units)}" if units else "has no unit: write a bare number"
        raise InputError(f"{name}: {shown(text)}: no unit {unit!r}: it {takes}")
    try:
        return Decimal(number.replace("_", "")) * units.get(unit, 1)
    except Overflow:
        raise InputError(f"{name}: {shown(text)} is too large for a number of 64 bits") from None


def as_number(name: str, text: str, value: Decimal, *, integer: bool) -> int | float:
    """Return a value as an integer if it must be `integer`, else as a float.

    Raises `InputError` for a fraction, and for a number that 64 bits do not hold.
    """
    if abs(value) >= _BEYOND_64_BITS if integer else isinf(float(value)):
        raise InputError(f"{name}: {shown(text)} is too large for a number of 64 bits")
    if not integer:
        return float(value)
    if value != value.to_integral_value():
        raise InputError(f"{name}: {shown(text)} is {value.normalize():f}, and {name} takes whole numbers")
    return int(value)


def units_of(name: str) -> dict[str, int]:
    """Return the units accepted for a parameter's values, as multiples of its own unit."""
    return next((units for ending, units in _UNITS.items() if name == ending or name.endswith(f"_{ending}")), {})


def text_of(name: str, value: object, *, space: str = "") -> str:
    """Format a value with the largest unit that gives a short number, after a `space`; `quantity` can parse it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "x".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    units = [(unit, size) for unit, size in units_of(name).items() if unit != "KB"]
    for unit, size in sorted(units, key=lambda item: -item[1]):
        number = f"{value / size:.6g}"
        if abs(value) >= size > 1 and float(number) * size == value and len(number) <= 6:
            return f"{number}{space}{unit}"
    number = str(value) if isinstance(value, int) else f"{value:.6g}"
    return next((f"{number}{space}{unit}" for unit, size in units if size == 1), number)
