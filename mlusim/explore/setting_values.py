"""Values of a kernel's settings as text, of the types of their defaults."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping
from typing import Any

from mlusim.errors import InputError
from mlusim.explore.axis_values import numbers

_WORDS = {"true": True, "false": False, "1": True, "0": False}


def setting_values(name: str, text: str, default: Any) -> list[Any] | None:
    """Return the values listed in a text, of the default's type: booleans, numbers with ranges, or tuples.

    None for a default of another type, such as a text. Raises `InputError` for other values.
    """
    if isinstance(default, bool):
        parts = [part.strip().lower() for part in text.split(",")]
        if not all(part in _WORDS for part in parts):
            raise InputError(f"{name}={text}: choose true or false")
        return [_WORDS[part] for part in parts]
    if isinstance(default, int | float):
        return numbers(name, text, integers=isinstance(default, int))
    return _tuples(name, text) if isinstance(default, tuple | list) else None


def with_texts_parsed(values: Mapping[str, list[Any]], defaults: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the values of settings, with a text for a setting of another type replaced by the values that it lists."""
    parsed: dict[str, list[Any]] = {}
    for name, several in values.items():
        parsed[name] = []
        for value in several:
            listed = setting_values(name, value, defaults[name]) if isinstance(value, str) else None
            parsed[name] += [value] if listed is None else listed
    return parsed


def _tuples(name: str, text: str) -> list[Any]:
    """Parse values of a setting whose default is a tuple."""
    try:
        values = literal_eval(f"[{text}]")
    except (ValueError, SyntaxError):
        values = [text]
    if not all(isinstance(value, tuple | list) for value in values):
        raise InputError(f"{name}={text}: write a tuple in parentheses, such as {name}=(4,8)")
    return [tuple(value) for value in values]
