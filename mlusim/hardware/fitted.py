"""What a fitted parameter is."""

from __future__ import annotations

from typing import NamedTuple


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
