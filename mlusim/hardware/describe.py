"""Descriptions of boards as rows of text for tables."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

from mlusim.hardware.board_record import Board
from mlusim.units import GIGA, MEGA, format_bytes, format_ns, group_digits


def board_rows(board: Board) -> list[tuple[str, str, str, str]]:
    """Return every parameter of a board as (group, field, value with its unit, source), in the record's order."""
    return [
        (group, name, value_text(name, getattr(board, name)), board.sources.get(name, ""))
        for name, (group, _) in _documented_fields().items()
    ]


def field_meanings() -> dict[str, str]:
    """Return a one-line description of each parameter, from the docstring of `Board`."""
    return {name: meaning for name, (_, meaning) in _documented_fields().items()}


def assumed_fields(board: Board) -> list[str]:
    """Return the parameters of a board without a public source, in the record's order."""
    return [item.name for item in fields(Board) if board.sources.get(item.name, "").startswith("ASSUMED")]


def value_text(name: str, value: str | float) -> str:
    """Format a value with the unit given by the suffix of its field."""
    if isinstance(value, str):
        return value
    if name.startswith("tensor_ops_per_cycle_") and not value:
        return "none"
    if type(value) is float:
        return f"{value:g}"
    if name.endswith("_bytes_per_s"):
        return f"{_with_digit_groups(value / GIGA)} GB/s"
    if name.endswith("_hz"):
        return f"{_with_digit_groups(value / MEGA)} MHz"
    if name.endswith("_ps"):
        return format_ns(int(value))
    for ending, unit in _UNITS.items():
        if ending in name:
            return f"{group_digits(int(value))} {unit}"
    if name.endswith(("_bytes", "_bytes_per_core")):
        return format_bytes(int(value))
    return group_digits(int(value))


_UNITS = {"_bytes_per_cycle": "B/cycle", "_ops_per_cycle": "ops/cycle", "_cycles": "cycles", "_bits": "bits"}


def _with_digit_groups(value: float) -> str:
    integer_part, point, fraction = f"{value:.6f}".rstrip("0").rstrip(".").partition(".")
    return group_digits(int(integer_part)) + point + fraction


@cache
def _documented_fields() -> dict[str, tuple[str, str]]:
    """Return (group, meaning) by field from the docstring of `Board`; empty texts if Python runs without docstrings."""
    documented: dict[str, tuple[str, str]] = {}
    group = "The board"
    _, _, attributes = (Board.__doc__ or "").partition("Attributes:\n")
    for line in attributes.splitlines():
        name, colon, meaning = line.strip().partition(": ")
        if colon:
            documented[name] = (group, meaning)
        elif name:
            group = name
    by_field = {item.name: documented.get(item.name, ("", "")) for item in fields(Board)}
    del by_field["sources"]
    return by_field
