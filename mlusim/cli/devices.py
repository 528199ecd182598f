"""`mlusim devices`: the boards, and the source of each of their numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import click

from mlusim.cli import console
from mlusim.cli.command_files import check_file, write_bytes
from mlusim.cli.option_types import DEVICE, NEW_FILE
from mlusim.cli.options import full_option, output_options
from mlusim.errors import InputError

if TYPE_CHECKING:
    from mlusim.hardware import Board

# Columns after the board's name, arch and cores: header and parameter; then the additional ones of `--full`.
_COLUMNS = (
    ("clock", "clock_hz"),
    ("DRAM", "dram_bandwidth_bytes_per_s"),
    ("NRAM", "nram_usable_bytes"),
    ("SRAM", "sram_usable_bytes"),
    ("UNION", "max_union"),
)
_MORE = (
    ("GDRAM", "gdram_bytes"),
    ("WRAM", "wram_bytes"),
    ("read port", "core_read_bandwidth_bytes_per_s"),
    ("cluster port", "cluster_read_bandwidth_bytes_per_s"),
    ("DMA read", "dma_read_latency_ps"),
    ("DMA write", "dma_write_latency_ps"),
    ("vector", "vector_bytes_per_cycle"),
    ("int8 tensor", "tensor_ops_per_cycle_int8"),
    ("fp16 tensor", "tensor_ops_per_cycle_fp16"),
    ("launch", "kernel_start_ps"),
)

_HELP = """\
List the boards, or show one: every parameter with its source.

A parameter whose source says ASSUMED has no public source: its value is an estimate, with a reason.

\b
Examples:
  mlusim devices
  mlusim devices --full
  mlusim devices mlu590-h8
  mlusim devices mlu370-x4 --toml -o mine.toml
  mlusim devices mine.toml --quiet     # prints only the errors of a file
  mlusim run tin_shift --shape 2,8,256,196 --device mine.toml
"""


@click.command(help=_HELP)
@click.argument("device", type=DEVICE, required=False, metavar="[NAME|FILE]")
@click.option("--toml", "as_toml", is_flag=True, help="Print the board as a TOML file, as a start for one of your own.")
@click.option("--out", "--output", "-o", type=NEW_FILE, metavar="FILE", help="With --toml: write it to FILE.")
@full_option
@output_options
def devices(device: Board | None, *, as_toml: bool, out: str | None, full: bool, as_json: bool, quiet: bool) -> None:
    """List the boards, or show one: every parameter with its source."""
    if out is not None and not as_toml:
        raise InputError(f"--out {out}: it goes with --toml, which makes a board file")
    if as_toml and as_json:
        raise InputError("--toml and --json are two ways to print a board: choose one")
    if as_toml:
        if device is None:
            raise InputError("--toml shows one board: name it, as in `mlusim devices mlu370-x4 --toml`")
        _print_toml(device, out, quiet=quiet)
    elif as_json:
        _print_json(device)
    elif quiet:
        return
    elif device is None:
        _list(full=full)
    else:
        _show(device)


def _print_toml(board: Board, out: str | None, *, quiet: bool) -> None:
    from mlusim.hardware.toml_board import to_toml

    if out is not None:
        write_bytes("--out", check_file("--out", out), to_toml(board).encode())
    elif not quiet:
        click.echo(to_toml(board), nl=False)


def _list(*, full: bool) -> None:
    from mlusim.hardware import presets
    from mlusim.hardware.describe import assumed_fields, value_text

    columns = [*_COLUMNS, *(_MORE if full else ())]
    heads = ["board", "arch", "cores", *(head for head, _ in columns), *(["ASSUMED"] if full else [])]
    lines = []
    for board in presets():
        cells = [board.name, str(board.arch), f"{board.clusters} x {board.cores_per_cluster}"]
        cells += [_short_size(value_text(name, getattr(board, name))) for _, name in columns]
        lines.append([*cells, *([str(len(assumed_fields(board)))] if full else [])])
    console.print_columns(heads, lines, right=range(1, len(heads)))
    console.print_text(
        "\nCores: clusters x cores per cluster. DRAM: nominal bandwidth. NRAM (per core)\n"
        "and SRAM (per cluster): what a kernel may allocate. UNION: the largest number of\n"
        "clusters in a union. For the sources of a board's numbers: mlusim devices NAME"
    )
    if full:
        console.print_text(
            "GDRAM is per chip; WRAM, read port, vector and tensor are per core. Cluster\n"
            "port: reads. DMA: start-up of a copy. ASSUMED: the number of parameters without\n"
            "a public source."
        )


def _show(board: Board) -> None:
    from mlusim.hardware import SOURCES
    from mlusim.hardware.describe import assumed_fields, board_rows

    group = ""
    rows = []
    for row_group, name, value, source in board_rows(board):
        if row_group != group:
            rows += [("", "", "")] * bool(group) + [(row_group, "", "")]
            group = row_group
        rows.append((f"  {name}", value, source))
    console.print_columns(("parameter", "value", "source"), rows, right=(1,))
    assumed = len(assumed_fields(board))
    console.print_text(f"\n{assumed} of {len(fields(board)) - 2} parameters are ASSUMED. Letters stand for:")
    console.print_columns(("", "source"), [(key, text) for key, text in SOURCES.items() if key != "ASSUMED"])


def _print_json(device: Board | None) -> None:
    from mlusim.analysis.provenance import board_record
    from mlusim.cli.provenance import print_with_provenance, provenance_without_runs
    from mlusim.hardware import presets

    boards = presets() if device is None else [device]
    records = [board_record(board) | {"sources": dict(board.sources)} for board in boards]
    print_with_provenance("devices", {"boards": records}, provenance_without_runs())


def _short_size(size: str) -> str:
    """Return `655 360 B (640 KiB)` without its first half."""
    return size.partition("(")[2].rstrip(")") or size
