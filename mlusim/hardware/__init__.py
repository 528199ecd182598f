"""The boards: presets, user boards from TOML, and the source of each number.

A board:
  board_record, checks     `Board`, with the meaning of each parameter; the rules for their values
  parameter_names          errors for unknown names of parameters
  toml_board               boards of users
  describe                 a board as rows of a table

The presets:
  presets                  what differs between the boards of a family
  board_values             what all boards, a family, or single boards have
  calibrated               the values that `mlusim.validation` has fitted
  host_launch              the host's time for a launch
"""

from __future__ import annotations

from os import PathLike

from mlusim.errors import BoardError, shown
from mlusim.hardware.board_record import Board
from mlusim.hardware.presets import SOURCES, find_preset, preset, preset_names

__all__ = ["DEFAULT_BOARD", "SOURCES", "Board", "board", "presets"]

# The board of runs that name none.
DEFAULT_BOARD = "mlu370-x4"


def board(name_or_path: str | PathLike[str] | Board) -> Board:
    """Return a board: by its name, from a file, or unchanged.

    Args:
        name_or_path: a preset or an alias of one, case-insensitive; a path, or a string that ends in `.toml` or
            contains a separator; or a board, which is returned unchanged.

    Raises `BoardError` for an unknown name, with the nearest ones, and for a file that `board_from_toml` rejects.
    """
    if isinstance(name_or_path, Board):
        return name_or_path
    if isinstance(name_or_path, PathLike) or (isinstance(name_or_path, str) and _is_path(name_or_path)):
        from mlusim.hardware.toml_board import board_from_toml

        return board_from_toml(name_or_path)
    if not isinstance(name_or_path, str):
        raise BoardError(
            f"a board is the name of a preset, the path of a .toml file or a Board, not {shown(name_or_path)}"
        )
    try:
        return find_preset(name_or_path)
    except BoardError as error:
        raise BoardError(f"{error}; a board of your own is the path of its .toml file") from None


def presets() -> tuple[Board, ...]:
    """Return all boards that come with mlusim, oldest architecture first."""
    return tuple(preset(name) for name in preset_names())


def _is_path(text: str) -> bool:
    return text.lower().endswith(".toml") or "/" in text or "\\" in text
