"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from mlusim.cli.command_files import force_option
from mlusim.cli.option_types import DEVICE, DIRECTORY, NEW_FILE, board_names, complete_from

Function = TypeVar("Function", bound=Callable[..., Any])

# `mlusim.hardware.DEFAULT_BOARD`: help and completion need no import of the boards.
_DEFAULT_BOARD = "mlu370-x4"
_BOARD = "Board: a preset (see `mlusim devices`), or a TOML file of your own."
SAVE_RUN = "Write the whole run to FILE, for `mlusim report`, `mlusim retime` and mlusim.load."


_device = partial(click.option, "--device", "-d", default=_DEFAULT_BOARD, show_default=True)
device_option = _device(type=DEVICE, metavar="NAME|FILE", help=_BOARD)
# The board as a name, for commands that print a command again.
device_name_option = _device(metavar="NAME|FILE", shell_complete=complete_from(board_names), help=_BOARD)
devices_option = _device(
    metavar="NAMES",
    shell_complete=complete_from(board_names),
    help="Boards, separated by commas: presets (see `mlusim devices`), TOML files.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, metavar="NUMBER", help="Seed of random inputs. [default: 0]"
)
out_option = click.option(
    "--out", "--output", "-o", type=NEW_FILE, metavar="FILE", help="Write the result to FILE, as .npy."
)
explain_option = click.option(
    "--explain",
    is_flag=True,
    help="Print the plan: unit, tier, arithmetic, tiles, balance; with --json all tiles.",
)
full_option = click.option(
    "--full", is_flag=True, help="Print all columns; a table that is wider than the terminal is split."
)
report_option = click.option(
    "--report",
    type=DIRECTORY,
    metavar="DIR",
    help="Write to DIR: report.html, pictures (timeline, tile map, traffic, bandwidth, roofline), summary.json, "
    "trace.json.",
)
save_run_option = click.option("--save-run", type=NEW_FILE, metavar="FILE", help=SAVE_RUN)
check_option = click.option(
    "--check", is_flag=True, help="Verify the run: races, uninitialised reads, the split proof."
)
sensitivity_option = click.option(
    "--sensitivity",
    is_flag=True,
    help="Show how the time changes if each uncertain parameter is 20 % smaller or larger.",
)
no_data_option = click.option("--no-data", is_flag=True, help="Timing only: tensors have sizes but no bytes.")
csv_option = click.option(
    "--csv",
    "operations",
    type=NEW_FILE,
    metavar="FILE",
    help="Write a line for each operation to FILE, with its times.",
)
steady_option = click.option(
    "--steady",
    is_flag=True,
    help="Timing only: simulate until the tasks repeat themselves, and extrapolate the rest, with a bound on the "
    "error.",
)
dma_option = click.option(
    "--dma",
    type=click.Choice(["complete", "late"]),
    default="complete",
    show_default=True,
    help="When an asynchronous copy takes effect: as it completes, or only when a sync orders it.",
)
workers_option = click.option(
    "--workers",
    "-j",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Number of worker processes; 0: run in this process. [default: one per core]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")


def print_options(function: Function) -> Function:
    """--json and --quiet, for commands that write no files."""
    return json_option(quiet_option(function))


def output_options(function: Function) -> Function:
    """--json, --quiet and --force."""
    return print_options(force_option(function))


COMPILE_OPTIONS = ("include", "define", "std", "compiler")


def compile_options(function: Function) -> Function:
    """Options for compiling a BANG C file."""
    for option in (
        click.option("--compiler", metavar="COMMAND", help="C++ compiler. [default: g++, clang++, or the wheel's]"),
        click.option("--std", default="gnu++17", show_default=True, metavar="STANDARD", help="C++ standard."),
        click.option("--define", "-D", multiple=True, metavar="NAME[=VALUE]", help="A macro. May be repeated."),
        click.option("--include", "-I", multiple=True, metavar="DIR", help="A folder of headers. May be repeated."),
    ):
        function = option(function)
    return function
