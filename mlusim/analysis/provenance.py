"""Provenance of a run: everything that determines its figures, as JSON, without local paths."""

from __future__ import annotations

from dataclasses import fields
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from mlusim.hardware import Board, presets
from mlusim.log import NONE
from mlusim.version import __version__

if TYPE_CHECKING:
    from mlusim.results.result import Result


# Prefixes of the sources of user-defined values: in Python, and in a TOML file.
_EDITED = ("ASSUMED: set by the user", "user: ")


def provenance(result: Result) -> dict[str, Any]:
    """Return version, command, date and seed if known, the tensors, and the board record with its edited fields.

    Command and date are set by the command line only, so that equal runs from Python give equal bytes.
    """
    tensors = [
        {"name": one.name, "shape": list(one.shape), "dtype": one.dtype, "role": "input" if one.read_only else "output"}
        for one in result.log.allocations
        if one.task == NONE and one.memory == "gdram" and not one.workspace
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


def board_record(board: Board) -> dict[str, Any]:
    """Return all values of a board, the preset that it was edited from, and the fields that differ."""
    values = {item.name: getattr(board, item.name) for item in fields(board) if item.name != "sources"}
    base = next((one for one in presets() if one.name == board.name), None)
    if base is not None:
        edited = _differences(board, base)
        return {**values, "edited_from": base.name if edited else None, "edited": edited}
    marked = {name for name, source in board.sources.items() if source.startswith(_EDITED)} - {"name"}
    # A preset that provides all values not set by the user; if several do, the nearest.
    bases = [one for one in presets() if marked.issuperset(_differences(board, one))]
    base = min(bases, key=lambda one: len(_differences(board, one)), default=None)
    return {**values, "edited_from": None if base is None else base.name, "edited": sorted(marked)}


def _differences(board: Board, base: Board) -> list[str]:
    """Return the parameters of two boards that differ, except the name."""
    names = [item.name for item in fields(board) if item.name not in ("sources", "name")]
    return [name for name in names if getattr(board, name) != getattr(base, name)]


def without_folders(words: list[str]) -> list[str]:
    """Return the words of a command with absolute paths reduced to file names."""

    def cut(word: str) -> str:
        name, equals, value = word.partition("=")
        if equals and PurePath(value).is_absolute():
            return f"{name}={PurePath(value).name}"
        return PurePath(word).name if PurePath(word).is_absolute() else word

    return [cut(word) for word in words]
