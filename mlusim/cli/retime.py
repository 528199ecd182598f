"""`mlusim retime RUN`: a saved run on another board, or with other parameters, without running its kernels."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli.option_types import DEVICE, FILE, NEW_FILE, assignments, board_parameters, complete_assignment
from mlusim.cli.options import SAVE_RUN, output_options, report_option
from mlusim.cli.outputs import Outputs, write_and_print
from mlusim.errors import InputError
from mlusim.units import signed_percent

if TYPE_CHECKING:
    from mlusim.hardware import Board
    from mlusim.results.result import Result

_HELP = """\
Time a saved run on another board, or with other parameters of its board.

The logged instructions are issued again, through the same model of pipes, links, barriers and launches; the kernels do
not run, and no data is needed. Retiming is refused if the kernels would issue different instructions: buffers do not
fit, the board lacks an instruction, or the planner would split the work differently.

\b
Examples:
  mlusim run tin_shift --shape 2,8,256,196 --save-run shift.zip
  mlusim retime shift.zip --device mlu370-x8
  mlusim retime shift.zip --set dram_bandwidth_bytes_per_s=614.4GB/s --set dma_read_latency_ps=400ns --keep-split
"""


@click.command(help=_HELP)
@click.argument("run", type=FILE, metavar="RUN")
@click.option(
    "--device",
    "-d",
    type=DEVICE,
    metavar="NAME|FILE",
    help="Board: a preset, or a TOML file. [default: the board of the run]",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    shell_complete=complete_assignment(board_parameters),
    metavar="PARAMETER=VALUE",
    help="Change a parameter of the board (see `mlusim devices NAME`); may be repeated.",
)
@click.option(
    "--keep-split", is_flag=True, help="Retime even if the operator would be split differently on the new board."
)
@report_option
@click.option("--save-run", "-o", type=NEW_FILE, metavar="FILE", help=SAVE_RUN)
@output_options
def retime(
    *,
    run: str,
    device: Board | None,
    changes: tuple[str, ...],
    keep_split: bool,
    **options: Any,
) -> None:
    """Time a saved run on another board, or with other parameters."""
    from mlusim.analysis.provenance import provenance
    from mlusim.results.saved import load
    from mlusim.retiming.retime import plan_on
    from mlusim.retiming.retime import retime as again

    outputs = Outputs.of(options)
    texts = assignments("--set", changes, "PARAMETER=VALUE, such as clock_hz=900MHz")
    parameters = {name: _value(name, text) for name, text in texts.items()}
    recorded = load(run)
    result = again(recorded, device, keep_split=keep_split, progress=not outputs.quiet, **parameters)
    split = plan_on(recorded, result.board)[1]
    write_and_print(
        result,
        outputs,
        title=_title(recorded, result, parameters, split),
        entries={
            "retimed": {
                "run": run,
                "recorded_board": recorded.board.name,
                "recorded_time_ps": recorded.time_ps,
                "recorded_provenance": provenance(recorded),
                "parameters": parameters,
                "other_split": split or None,
            }
        },
    )


def _value(name: str, text: str) -> Any:
    """Parse the value of a parameter. Raises `InputError`; the board checks whether the name exists."""
    from mlusim.hardware import Board
    from mlusim.quantities import quantity

    kind = {item.name: item.type for item in fields(Board)}.get(name)
    if kind == "str":
        return text
    if "," in text or ".." in text:
        raise InputError(f"--set {name}={text}: a board has one value of {name}; to try several, see `mlusim sweep`")
    return quantity(name, text, integer=kind != "float")


def _title(recorded: Result, result: Result, parameters: dict[str, Any], split: str) -> str:
    from mlusim.units import format_us

    board = result.board.name
    if parameters:
        board += f" with {', '.join(f'{name} = {value}' for name, value in parameters.items())}"
    change = f" ({signed_percent(result.time_ps / recorded.time_ps - 1)})" if recorded.time_ps else ""
    lines = [
        f"{result.operator}: {format_us(recorded.time_ps)} on {recorded.board.name}, as recorded",
        f"{format_us(result.time_ps)}{change} on {board}",
    ]
    if split:
        lines.append(f"The recorded split was kept; a new run on that board would use another: {split}.")
    elif recorded.plan is None:
        lines.append("The run has no plan to compare: on that board, its kernels may issue different instructions.")
    return "\n".join(lines) + "\n"
