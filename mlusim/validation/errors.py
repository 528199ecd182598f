"""Write down how far the model is off on each family: `python -m mlusim.validation.errors`, after a calibration."""

from __future__ import annotations

from pathlib import Path

from mlusim.hardware import board
from mlusim.validation.measurements import BOUND
from mlusim.validation.report import validate

KNOWN_ERRORS = Path(__file__).resolve().parent.parent / "hardware" / "known_errors.py"
_HEAD = '''\
"""Errors of the model by family. Written by `python -m mlusim.validation.errors`: not to be edited by hand."""

# Simulated over measured time, less 1: mean, least and most over the family's measurements, bounds left out.
FAMILY_ERRORS: dict[str, tuple[float, float, float]] = {
'''


def module_text() -> str:
    """`mlusim/hardware/known_errors.py`, by the presets as they are."""
    errors: dict[str, list[float]] = {}
    for outcome in validate():
        if outcome.row.use != BOUND:
            errors.setdefault(board(outcome.row.board).family, []).append(outcome.error)
    lines = [
        f'    "{family}": ({sum(found) / len(found):.4f}, {min(found):.4f}, {max(found):.4f}),\n'
        for family, found in sorted(errors.items())
    ]
    return f"{_HEAD}{''.join(lines)}}}\n"


if __name__ == "__main__":
    KNOWN_ERRORS.write_text(module_text(), encoding="utf-8")
