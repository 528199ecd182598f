"""Errors for names that no parameter of a board has, with the names that are meant."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

_MAX_LISTED = 4
_ALMOST_EQUAL = 0.9  # similarity of names that differ in one letter or so

# Units of the fields, and common alternatives. The longest are tried first.
_UNIT_NAMES = {
    "bytes_per_s": "bytes per second",
    "bytes_per_cycle": "bytes per cycle",
    "bytes_per_core": "bytes per core",
    "bytes": "bytes",
    "bits": "bits",
    "hz": "hertz",
    "ps": "picoseconds",
    "cycles": "cycles",
    "efficiency": "a fraction of 1",
}
_OTHER_UNITS = (
    *("gb_per_s", "gib_per_s", "mb_per_s", "gb_s", "gbps", "mbps"),
    *("b", "byte", "kb", "kib", "mb", "mib", "gb", "gib", "tb", "tib", "kbytes", "mbytes", "gbytes"),
    *("khz", "mhz", "ghz", "s", "sec", "seconds", "ms", "us", "ns", "cycle", "bit", "percent"),
)
_UNIT = re.compile(rf"_({'|'.join(sorted([*_UNIT_NAMES, *_OTHER_UNITS], key=len, reverse=True))})$")


def unknown_parameter(name: str, names: Collection[str]) -> str:
    """Return the error for a name that is not among the names of parameters, which end with their units."""
    stems = {known: _UNIT.sub("", known) for known in names}
    stem = _UNIT.sub("", name)
    with_unit = [known for known in names if stems[known] == stem]
    if with_unit and stem != name:
        return f"no parameter {name!r}; the unit is part of the name: {_with_units(with_unit)}"
    if with_unit:
        return f"{name!r} lacks its unit; did you mean {_with_units(with_unit)}?"
    word, parts = name.lower(), set(stem.lower().split("_"))
    likely = (
        get_close_matches(word, names, n=1, cutoff=_ALMOST_EQUAL)
        # A part of a name, such as "bandwidth" of several.
        or [known for known in names if parts <= set(stems[known].split("_"))]
        or get_close_matches(word, names, n=1)
        or [known for known in names if stems[known] in get_close_matches(stem.lower(), stems.values(), n=1)]
    )
    remedy = f"did you mean {_with_units(likely)}?" if likely else "`mlusim devices mlu370-x4` lists them"
    return f"no parameter {name!r}; {remedy}"


def _with_units(names: list[str]) -> str:
    units = [(name, _UNIT.search(name)) for name in names[:_MAX_LISTED]]
    return " or ".join(f"{name} ({_UNIT_NAMES[unit[1]]})" if unit else name for name, unit in units)
