"""`mlusim compare OPERATOR`: compare its strategies on one input; the results must be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli.comparison import print_comparison
from mlusim.cli.kernel_search import make_compare
from mlusim.cli.option_types import complete_from
from mlusim.cli.options import devices_option, full_option, output_options, parameters, steady_option
from mlusim.cli.run import (
    OperatorCommand,
    OperatorGroup,
    help_if_alone,
    input_options,
    input_sections,
    inputs_json,
    read_inputs,
)
from mlusim.errors import PlanError

if TYPE_CHECKING:
    from mlusim.hardware import Board
    from mlusim.ops.commands import Command
    from mlusim.results.result import Result

_SECTIONS = {"Board and split": ("device", "strategies"), "Output": ("no_data", "steady", "full", "as_json", "quiet")}


def _make_compare(command: Command) -> click.Command:
    options = parameters(
        devices_option,
        click.option(
            "--strategy",
            "strategies",
            multiple=True,
            metavar="NAMES",
            shell_complete=complete_from(lambda: [*command.strategies, "all"]),
            help="Strategies, separated by commas, or all; may be repeated. [default: all]",
        ),
        click.option("--no-data", is_flag=True, help="Timing only: results are not compared."),
        steady_option,
        full_option,
        output_options,
    )
    return OperatorCommand(
        command.name,
        command=command,
        params=[*input_options(command), *options],
        sections=input_sections(command) | _SECTIONS,
        callback=partial(_compare, command),
        help=f"Strategies of {command.name} side by side. {command.summary}\n\n\b\nExample:\n"
        f"  mlusim compare {command.name} {_example(command)}",
        short_help=command.summary,
    )


_HELP = """\
Compare the strategies of an operator on one input, or kernels of your own.

Runs each, checks that the results are equal bit for bit, and prints time, bytes and where the time went.

\b
Examples:
  mlusim compare tin_shift --shape 2,8,256,196 --dtype float16 --device mlu370-x4
  mlusim compare tin_shift --input clip.npy --shifts shifts.npy --strategy documented,pingpong
  mlusim compare add.py:simple add.py:buffered --shape 1000000
"""


def _example(command: Command) -> str:
    """Return the first tensors of its example for `mlusim run`, without files to write."""
    return command.usage.partition(" --out")[0].partition(" --explain")[0]


@click.group(cls=OperatorGroup, help=_HELP, make=_make_compare, kernel=make_compare)
@click.pass_context
def compare(context: click.Context) -> None:
    """Compare the strategies of an operator on one input."""
    help_if_alone(context)


def _compare(
    command: Command,
    *,
    device: str,
    strategies: tuple[str, ...],
    no_data: bool,
    steady: bool,
    full: bool,
    as_json: bool,
    quiet: bool,
    **own: Any,
) -> None:
    from mlusim.explore.axis_values import boards_of
    from mlusim.explore.compare import compare as run_all
    from mlusim.ops.call import run

    boards = boards_of(device)
    record, _ = command.choose(own)
    arrays = read_inputs(command, own, boards, data=not no_data)
    listed = [name.strip() for text in strategies for name in text.split(",")]
    named = () if "all" in listed else tuple(dict.fromkeys(listed))
    # Errors are reported before the first run.
    planned, refused = _planned(
        product(boards, named or record.strategies), partial(command.prepare, own, arrays), labelled=len(boards) > 1
    )
    if refused and (named or not planned):
        first = next(iter(refused.values()))
        raise first if named else PlanError(f"no strategy of {record.name} has a plan for this: {first}")

    def operation(strategy: str) -> Result:
        call = command.prepare(own, arrays, *planned[strategy])
        return run(call, data=not no_data, progress=not quiet, steady=steady)

    rows = run_all(operation, planned)
    shapes = ", ".join(f"{array.dtype} {list(array.shape)}" for array in arrays)
    facts = {
        "operator": record.name,
        "board": boards[0].name,
        "boards": [board.name for board in boards],
        "inputs": inputs_json(arrays),
    }
    title = f"{record.name} on {', '.join(board.name for board in boards)}: {shapes}"
    print_comparison(
        title,
        "strategy",
        rows,
        facts,
        boards=boards,
        refused={label: str(error) for label, error in refused.items()},
        data=not no_data,
        full=full,
        as_json=as_json,
        quiet=quiet,
    )


def _planned(
    combinations: Iterable[tuple[Board, str]], prepare: Callable[[Board, str], Any], *, labelled: bool
) -> tuple[dict[str, tuple[Board, str]], dict[str, PlanError]]:
    """Return boards and strategies that have a plan, and the errors of the others, both by label.

    labelled: labels contain the board, as there are several.
    """
    planned: dict[str, tuple[Board, str]] = {}
    refused: dict[str, PlanError] = {}
    for board, name in combinations:
        label = f"{board.name}, {name}" if labelled else name
        try:
            prepare(board, name)
        except PlanError as error:
            refused[label] = error
        else:
            planned[label] = board, name
    return planned, refused
