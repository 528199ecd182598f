"""Provenance of a run: everything that determines its figures, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mlusim.hardware import Board, presets
from mlusim.version import __version__

if TYPE_CHECKING:
    from mlusim.results.result import Result


MODEL = "simulated by mlusim, not measured"
# Prefixes of the sources of user-defined values: in Python, and in a TOML file.
_EDITED = ("ASSUMED: set by the user", "user: ")


def provenance(result: Result) -> dict[str, Any]:
    """Return version, command, date and seed if known, the tensors, and the board record with its edited fields.

    Command and date are set by the command line only, so that equal runs from Python give equal bytes.
    """
    tensors = [
        {"name": tensor.name, "shape": list(tensor.shape), "dtype": tensor.dtype, "role": role}
        for identity, role in result.log.roles().items()
        if role != "workspace"
        for tensor in [result.log.allocations[identity]]
    ]
    return {
        "mlusim": __version__,
        "command": None,
        "date": None,
        "seed": None,
        **result.made_by,
        "tensors": tensors,
        "board": board_record(result.board),
    }


def provenance_of_runs(boards: Iterable[Board], made_by: Mapping[str, Any]) -> dict[str, Any]:
    """Return version, command, date and seed if known, and each board's record by name: of a table of several runs."""
    records = {board.name: board_record(board) for board in boards}
    return {"mlusim": __version__, "command": None, "date": None, "seed": None, **made_by, "boards": records}


def board_record(board: Board) -> dict[str, Any]:
    """Return all values of a board, the preset that it was edited from, and the fields that differ."""
    values = board.parameters()
    base = next((preset for preset in presets() if preset.name == board.name), None)
    if base is not None:
        edited = board.differing(base)
        return {**values, "edited_from": base.name if edited else None, "edited": edited}
    edited_fields = {name for name, source in board.sources.items() if source.startswith(_EDITED)} - {"name"}
    # A preset that provides all values not set by the user; if several do, the nearest.
    bases = [preset for preset in presets() if edited_fields.issuperset(board.differing(preset))]
    base = min(bases, key=lambda preset: len(board.differing(preset)), default=None)
    return {**values, "edited_from": None if base is None else base.name, "edited": sorted(edited_fields)}
