"""`mlusim devices`: the boards, and where each number of one comes from."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import show
from mlusim.cli.options import DEVICE
from mlusim.errors import InputError

if TYPE_CHECKING:
    from mlusim.hardware import Board

_HEADS = ("board", "arch", "clusters", "cores", "clock", "DRAM bandwidth", "NRAM a core", "SRAM a cluster", "max UNION")
_NUMBERS = (1, 2, 3, 4, 5, 6, 7, 8)


_HELP = """\
List the boards, or show one: every parameter with its source.

A parameter whose source says ASSUMED has no public source: it is an estimate, with its reasoning.

\b
Examples:
  mlusim devices
  mlusim devices mlu590-h8
  mlusim devices mlu370-x4 --toml > mine.toml
  mlusim run tin_shift --shape 2,8,256,196 --device mine.toml
"""


@click.command(help=_HELP)
@click.argument("device", type=DEVICE, required=False, metavar="[NAME|FILE]")
@click.option("--toml", "as_toml", is_flag=True, help="Print the board as a TOML file, to start one of your own from.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
def devices(device: Any, *, as_toml: bool, as_json: bool) -> None:
    """List the boards, or show one: every parameter with its source."""
    if device is None:
        if as_toml:
            raise InputError("--toml shows one board: name it, as in `mlusim devices mlu370-x4 --toml`")
        _list(as_json=as_json)
    elif as_toml:
        from mlusim.hardware.toml_board import to_toml

        click.echo(to_toml(device), nl=False)
    else:
        _show(device, as_json=as_json)


def _list(*, as_json: bool) -> None:
    from mlusim.hardware import presets
    from mlusim.hardware.describe import overview_rows

    if as_json:
        show.print_json([_record(board) for board in presets()])
        return
    show.print_columns(
        _HEADS,
        [
            (
                row["name"],
                str(row["arch"]),
                str(row["clusters"]),
                str(row["cores"]),
                row["clock"],
                row["bandwidth"],
                _short(row["nram_usable"]),
                _short(row["sram_usable"]),
                str(row["max_union"]),
            )
            for row in overview_rows()
        ],
        right=_NUMBERS,
    )
    show.print_text("\nNRAM and SRAM: what a kernel may allocate. One board with its sources: mlusim devices NAME")


def _show(board: Board, *, as_json: bool) -> None:
    from mlusim.hardware.describe import assumed_fields, board_rows

    if as_json:
        show.print_json(_record(board))
        return
    group = ""
    rows = []
    for row_group, name, value, source in board_rows(board):
        if row_group != group:
            rows += [("", "", "")] * bool(group) + [(row_group, "", "")]
            group = row_group
        rows.append((f"  {name}", value, source))
    show.print_columns(("parameter", "value", "source"), rows, right=(1,))
    assumed = len(assumed_fields(board))
    show.print_text(f"\n{assumed} of {len(fields(board)) - 2} parameters are ASSUMED. {_SOURCES_NOTE}")
    from mlusim.hardware import SOURCES

    show.print_columns(("", "source"), [(key, text) for key, text in SOURCES.items() if key != "ASSUMED"])


_SOURCES_NOTE = "Letters stand for:"


def _record(board: Board) -> dict[str, Any]:
    values: dict[str, Any] = {item.name: getattr(board, item.name) for item in fields(board)}
    return values | {"sources": dict(board.sources)}


def _short(size: str) -> str:
    """`655 360 B (640 KiB)` without its first half."""
    return size.partition("(")[2].rstrip(")") or size
