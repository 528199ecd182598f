"""User-defined boards from TOML files, and any board as TOML.

The file is flat: its keys are the fields of `Board`, whose names end with the unit. A value is a number in that unit,
or a string with a unit, such as "153.6 GB/s". There are two additional keys and a table:

  base = "mlu370-x4"          # a preset that provides all omitted values; without it, every field is required
  name = "half-x4"            # the board's name in reports; by default the file's name without .toml
  clusters = 4
  dram_bandwidth_bytes_per_s = 153_600_000_000

  [sources]                   # optional; defaults to "user: <file>" for values that the file sets
  clusters = "the data sheet, page 3"

Dependent values of the base are not recomputed, except for `dram_mixing_ps`: a file that changes `clock_hz` has to set
port bandwidths, too, if they are to scale with it.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlusim.errors import BoardError, InputError
from mlusim.files import cannot_read, read_text
from mlusim.hardware.board_record import Board
from mlusim.hardware.parameter_names import unknown_parameter
from mlusim.hardware.presets import find_preset, mixing_ps
from mlusim.inputs import as_path, check_is
from mlusim.quantities import quantity, units_of

if TYPE_CHECKING:
    from os import PathLike

_KINDS = {item.name: str(item.type) for item in fields(Board) if item.name != "sources"}
_MAX_LISTED = 4  # keys listed in a message before the rest is counted


def board_from_toml(path: str | PathLike[str]) -> Board:
    """Return the board described by a TOML file.

    Raises `BoardError`, with the file and the key, for a file that cannot be read or is not TOML, an unknown key or one
    without its unit, a value of the wrong type, a missing key without a base, and a value that breaks a rule of
    `Board`.
    """
    try:
        file = as_path(path)
    except InputError as error:
        raise BoardError(error.message) from None
    table = _read(file)
    sources = _sources(file, table.pop("sources", {}))
    base = _base(file, table.pop("base", None))
    for key, value in table.items():
        if key not in _KINDS and isinstance(value, dict):
            raise BoardError(f"{file}: [{key}]: a board file is flat; only [sources] is a table")
        if key not in _KINDS:
            raise BoardError(f"{file}: {unknown_parameter(key, _KINDS)}")
        table[key] = _value(file, key, value)
    table.setdefault("name", file.stem)
    inherited: dict[str, Any] = {} if base is None else {key: getattr(base, key) for key in _KINDS}
    missing_keys = [key for key in _KINDS if key not in inherited and key not in table]
    if missing_keys:
        others = f" and {len(missing_keys) - _MAX_LISTED} more" if len(missing_keys) > _MAX_LISTED else ""
        raise BoardError(
            f"{file}: missing {', '.join(missing_keys[:_MAX_LISTED])}{others}; give every parameter, or a preset as "
            "base"
        )
    origins: dict[str, str] = {} if base is None else dict(base.sources)
    origins |= dict.fromkeys(table, f"user: {_printable(file.name)}") | sources
    try:
        board = Board(sources=origins, **(inherited | table))
        if "dram_mixing_ps" in table:
            return board
        return Board(sources=origins, **(inherited | table | {"dram_mixing_ps": mixing_ps(board.parameters())}))
    except BoardError as error:
        message = error.message.removeprefix(f"{table['name']}: ")
        raise BoardError(f"{file}: {message}") from None


def to_toml(board: Board) -> str:
    """Format a board as TOML that `board_from_toml` reads to the same values.

    Sources become comments because the text is meant to be edited: when read back, the source of a value is the file.
    """
    check_is("board", board, Board, "pass mlusim.board(NAME)")
    lines = ["# A board of mlusim: every parameter, without a base."]
    for key, kind in _KINDS.items():
        source = board.sources.get(key)
        comment = f"  # {_printable(source)}" if source else ""
        lines.append(f"{key} = {_literal(getattr(board, key), kind)}{comment}")
    return "\n".join(lines) + "\n"


def _read(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        text = read_text(file, "utf-8-sig")
    except OSError as error:
        raise BoardError(cannot_read(file, error)) from None
    except UnicodeDecodeError as error:
        raise BoardError(f"{file}: not UTF-8 text: byte {error.start} cannot be decoded") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BoardError(f"{file}: {_why_not_toml(text, str(error))}") from None
    except RecursionError:
        raise BoardError(f"{file}: not valid TOML: nested too deeply") from None


def _why_not_toml(text: str, message: str) -> str:
    line_match = re.search(r"line (\d+)", message)
    if line_match and message.startswith("Cannot overwrite a value"):
        line = int(line_match[1])
        key, equals, _ = text.split("\n")[line - 1].partition("=")
        return f"line {line}: {key.strip() if equals else 'a key'} is given twice"
    return f"not valid TOML: {message[:1].lower()}{message[1:]}"


def _sources(file: Path, table: object) -> dict[str, str]:
    if not isinstance(table, dict):
        raise BoardError(f"{file}: sources must be a table of strings, not {type(table).__name__}")
    for key, source in table.items():
        if key not in _KINDS:
            raise BoardError(f"{file}: sources.{key}: {unknown_parameter(key, _KINDS)}")
        if not (isinstance(source, str) and source.strip()):
            raise BoardError(f"{file}: sources.{key} = {source!r} must be a string that says where the value is from")
    return table


def _base(file: Path, name: object) -> Board | None:
    if name is None:
        return None
    if not isinstance(name, str):
        raise BoardError(f"{file}: base = {name!r} must be the name of a preset, not {type(name).__name__}")
    try:
        return find_preset(name)
    except BoardError as error:
        raise BoardError(f"{file}: base: {error.message}") from None


def _value(file: Path, key: str, value: Any) -> Any:
    """Return the value of a key as its field has it: a number also from a string with a unit; 614.4e9 is whole."""
    is_integer = _KINDS[key] == "int"
    if is_integer and isinstance(value, float) and value.is_integer():
        return int(value)
    if not (isinstance(value, str) and units_of(key)):
        return value
    try:
        return quantity(key, value, integer=is_integer)
    except InputError as error:
        raise BoardError(f"{file}: {error.message}") from None


def _literal(value: str | float, kind: str) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(float(value)) if kind == "float" else f"{value:_}"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
