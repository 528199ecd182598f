"""Fitted parameters and left-out errors, read from `calibrated.json`.

`python -m mlusim.validation.calibrate` writes the file: data, not to be edited by hand.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

PATH = Path(__file__).with_name("calibrated.json")


class Fitted(NamedTuple):
    """A parameter that the calibration has fitted.

    Attributes:
        field: of `Board`.
        value: in the field's unit.
        families: those that it is for; empty: all.
        known_on: the board that was measured; the others inherit the value as an assumption.
        source: the measurements that it rests on.
    """

    field: str
    value: float
    families: tuple[str, ...]
    known_on: str
    source: str


class Row(NamedTuple):
    """A measurement, and its simulated time in microseconds by fits that did not see it.

    Attributes:
        name, kind, family: of the measurement.
        nbytes: useful bytes that it reads and writes; 0 where the source has none.
        time_us: as measured.
        left_out: by a fit without this row.
        kind_in_family: by a fit without any row of its kind of kernel on its family of boards.
        kind_anywhere: by a fit without any row of its kind.
    """

    name: str
    kind: str
    family: str
    nbytes: int
    time_us: float
    left_out: float
    kind_in_family: float
    kind_anywhere: float


@cache
def fitted() -> tuple[Fitted, ...]:
    """All fitted parameters."""
    return tuple(
        Fitted(
            item["field"],
            item["value"],
            tuple(item["families"]),
            item["known_on"],
            f"{', '.join(item['rests_on'])}: {item['why']}",
        )
        for item in _data()["parameters"]
    )


@cache
def rows() -> tuple[Row, ...]:
    """The measurements that the fit rests on, with their predictions."""
    return tuple(Row(**row) for row in _data()["rows"])


@cache
def _data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found
