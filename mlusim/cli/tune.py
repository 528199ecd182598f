"""`mlusim tune OPERATOR`, `mlusim tune FILE.py:KERNEL`: the fastest plan or settings on a board, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import console
from mlusim.cli.command_files import check_file
from mlusim.cli.kernel_arguments import given_options, kernel_command, settings_of
from mlusim.cli.operator_group import OperatorCommand, OperatorGroup
from mlusim.cli.operator_inputs import data_option, strategies_option
from mlusim.cli.operators import SUMMARIES, options_of
from mlusim.cli.option_types import NEW_FILE, SHAPE
from mlusim.cli.options import (
    device_name_option,
    full_option,
    json_option,
    seed_option,
    steady_option,
    workers_option,
)
from mlusim.cli.tune_table import PLANS_SHOWN, print_tuning

if TYPE_CHECKING:
    from mlusim.explore.tuning import Tuning
    from mlusim.ops.commands import Command


def _make_operator(command: Command) -> click.Command:
    dtype = data_option(command, "Element type of the inputs.")
    shape = click.option(
        "--shape", required=True, type=SHAPE, metavar="SHAPE", help="Shape of the inputs: 2,8,256,196."
    )
    strategies = strategies_option(command, "Strategies, separated by commas. [default: all]")
    attributes = options_of(command.all_attributes)
    return OperatorCommand(
        command,
        _tune_operator,
        about=f"Find the fastest strategy and tiles of {command.name}. {SUMMARIES[command.name]}",
        example=f"mlusim tune {command.name} {command.operator.example_usage}",
        sections={
            "What to tune": (shape, dtype, device_name_option, strategies, *attributes),
            "Execution": (seed_option, *_EXECUTION_OPTIONS),
            "Output": _OUTPUT_OPTIONS,
        },
    )


_EXECUTION_OPTIONS = (
    steady_option,
    click.option(
        "--db",
        type=NEW_FILE,
        metavar="FILE",
        help="SQLite file for finished points, as for `mlusim sweep`. [default: none]",
    ),
    workers_option,
)
_OUTPUT_OPTIONS = (
    click.option("--all", "show_all", is_flag=True, help=f"Print every run, not only the first {PLANS_SHOWN}."),
    full_option,
    json_option,
    click.option("--quiet", "-q", is_flag=True, help="Print the command for the best one, and nothing else."),
)


_HELP = """\
Find the fastest strategy and tiles for a shape on a board, by simulation; for a kernel of your own, the fastest
settings.

Every strategy is tried with all of NRAM, and with limits that make its tiles smaller. The table shows why the slower
plans are slower, and the last lines are commands that repeat the best run.

\b
Examples:
  mlusim tune tin_shift --shape 2,8,256,196 --dtype float16 --device mlu590-h8
  mlusim tune add.py:add --shape 1000000 --set tile=1024..16384*2
"""


def _tune_operator(command: Command, *, element_type: Any, strategy: Sequence[str], **options: Any) -> None:
    if element_type is not None:
        options[command.operator.data_option] = element_type
    _tune(command.name, strategy=list(strategy) or "all", **options)


def _tune(
    operation: str, *, db: str | None, show_all: bool, full: bool, as_json: bool, quiet: bool, **arguments: Any
) -> Tuning:
    """Call `mlusim.tune` with the arguments that are not None, and print the result."""
    from mlusim.explore.tuning import tune

    if db is not None:
        check_file("--db", db)
    given_arguments = {name: value for name, value in arguments.items() if value is not None}
    tuning = tune(operation, db=db, progress=not (quiet or as_json), **given_arguments)
    print_tuning(tuning, show_all=show_all, full=full, as_json=as_json, quiet=quiet)
    return tuning


def _make_kernel(kernel_name: str) -> click.Command:
    """Create `mlusim tune FILE.py:KERNEL`."""
    return kernel_command(
        kernel_name,
        _tune_kernel,
        about="Find the fastest settings of a kernel of your own, by running every combination of the given values.",
        example="mlusim tune add.py:add --shape 1000000 --set tile=1024..16384*2",
        device=device_name_option,
        several=True,
        sections={"Execution": _EXECUTION_OPTIONS, "Output": _OUTPUT_OPTIONS},
    )


def _tune_kernel(
    kernel_name: str,
    *,
    arg: Sequence[str],
    settings: Sequence[str],
    dim: Sequence[tuple[int, ...]],
    kind: list[str] | None,
    **options: Any,
) -> None:
    from mlusim.explore.user_kernels import kernel_of

    tuning = _tune(
        kernel_name,
        arguments=arg,
        settings=settings_of(kernel_of(kernel_name), settings),
        **given_options(dim=list(dim), kind=kind),
        **options,
    )
    if len(tuning.rows) == 1 and not (tuning.refused or options["quiet"] or options["as_json"]):
        console.print_text(
            "\nNothing was varied: give several values, such as --set NAME=4,8,16 or --dim 4,1,1 --dim 4,8,1"
        )


tune = OperatorGroup("tune", help=_HELP, create=_make_operator, make_kernel=_make_kernel)
