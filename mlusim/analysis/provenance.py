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


# Sources of values that a user set: in Python, and in a TOML file.
_EDITED = ("ASSUMED: set by the user", "user: ")


def provenance(result: Result) -> dict[str, Any]:
    """Version, command, date and seed where they are known; tensors; the whole board record and its edited fields.

    The command and the date are those of the command line; a run from Python has none, so that the same run has the
    same bytes whenever and wherever it is made.
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
    """All values of a board, with the preset that it was edited from and the fields that differ."""
    values = {item.name: getattr(board, item.name) for item in fields(board) if item.name != "sources"}
    base = next((one for one in presets() if one.name == board.name), None)
    if base is not None:
        edited = _differences(board, base)
        return {**values, "edited_from": base.name if edited else None, "edited": edited}
    marked = {name for name, source in board.sources.items() if source.startswith(_EDITED)} - {"name"}
    # A preset from which all that the user did not set comes; of several the nearest.
    bases = [one for one in presets() if marked.issuperset(_differences(board, one))]
    base = min(bases, key=lambda one: len(_differences(board, one)), default=None)
    return {**values, "edited_from": None if base is None else base.name, "edited": sorted(marked)}


def _differences(board: Board, base: Board) -> list[str]:
    """The parameters of a board that differ from those of another, its name left out."""
    names = [item.name for item in fields(board) if item.name not in ("sources", "name")]
    return [name for name in names if getattr(board, name) != getattr(base, name)]


def without_folders(words: list[str]) -> list[str]:
    """The words of a command with absolute paths cut to the file's own name."""

    def cut(word: str) -> str:
        name, equals, value = word.partition("=")
        if equals and PurePath(value).is_absolute():
            return f"{name}={PurePath(value).name}"
        return PurePath(word).name if PurePath(word).is_absolute() else word

    return [cut(word) for word in words]
