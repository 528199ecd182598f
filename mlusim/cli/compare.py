"""`mlusim compare OPERATOR`: its strategies side by side, on one input, their results checked equal."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import show
from mlusim.cli.options import complete_from, device_option, output_options
from mlusim.cli.run import (
    OperatorCommand,
    OperatorGroup,
    help_if_alone,
    input_options,
    input_sections,
    read_inputs,
)
from mlusim.errors import PlanError

if TYPE_CHECKING:
    from mlusim.explore.compare import Row
    from mlusim.ops.commands import Command
    from mlusim.results.result import Result

_CAUSES_SHOWN = 3
_SECTIONS = {"Board and split": ("device", "strategies"), "Output": ("no_data", "as_json", "quiet")}


def _make_compare(command: Command) -> click.Command:
    made = OperatorCommand(
        command.name,
        command=command,
        params=input_options(command),
        sections=input_sections(command) | _SECTIONS,
        callback=partial(_compare, command),
        help=f"Strategies of {command.name} side by side. {command.summary}\n\n\b\nExample:\n"
        f"  mlusim compare {command.name} {_example(command)}",
        short_help=command.summary,
    )
    options = (
        click.option(
            "--strategy",
            "strategies",
            multiple=True,
            metavar="NAMES",
            shell_complete=complete_from(lambda: command.strategies),
            help="Only these, separated by commas; may be repeated. [default: all]",
        ),
        click.option("--no-data", is_flag=True, help="Timing only: results are not compared."),
        output_options,
    )
    target: Any = made
    for option in (device_option, *options):
        option(target)
    return made


_HELP = """\
Compare the strategies of an operator on one input.

Runs each, checks that the results are equal bit for bit, and prints time, bytes and where the time went.

\b
Examples:
  mlusim compare tin_shift --shape 2,8,256,196 --dtype float16 --device mlu370-x4
  mlusim compare tin_shift --input clip.npy --shifts shifts.npy --strategy documented,pingpong
"""


def _example(command: Command) -> str:
    """The first tensors of its example for `mlusim run`, without what is written."""
    return command.usage.partition(" --out")[0].partition(" --explain")[0]


@click.group(cls=OperatorGroup, help=_HELP, make=_make_compare)
@click.pass_context
def compare(context: click.Context) -> None:
    """Compare the strategies of an operator on one input."""
    help_if_alone(context)


def _compare(
    command: Command, *, device: Any, strategies: tuple[str, ...], no_data: bool, as_json: bool, quiet: bool, **own: Any
) -> None:
    from mlusim.explore.compare import compare as run_all
    from mlusim.ops.common import run

    record, _ = command.choose(own)
    arrays = read_inputs(command, own, data=not no_data)

    def operation(strategy: str) -> Result:
        return run(command.prepare(own, arrays, device, strategy), data=not no_data, progress=not quiet)

    listed = (name.strip() for one in strategies for name in one.split(","))
    named = tuple(dict.fromkeys(listed))
    names, refused = [], {}
    for name in named or record.strategies:
        try:
            command.prepare(own, arrays, device, name)  # what is wrong is said before the first one runs
        except PlanError as error:
            if named:
                raise
            refused[name] = str(error)
        else:
            names.append(name)
    if not names:
        raise PlanError(f"no strategy of {record.name} has a plan for this: {refused[next(iter(record.strategies))]}")
    rows = run_all(operation, names)
    if as_json:
        show.print_json(
            {
                "operator": record.name,
                "board": device.name,
                "inputs": [{"shape": list(array.shape), "dtype": str(array.dtype)} for array in arrays],
                "results_equal": None if no_data else True,
                "strategies": [_record(name, row) for name, row in zip(names, rows, strict=True)],
                "refused": [{"strategy": name, "reason": reason} for name, reason in refused.items()],
            }
        )
        return
    if quiet:
        return
    shapes = ", ".join(f"{array.dtype} {list(array.shape)}" for array in arrays)
    show.print_text(f"{record.name} on {device.name}: {shapes}\n")
    first = rows[0]
    show.print_columns(
        ("strategy", "tier", "time", f"speed vs {names[0]}", "DRAM bus", "io_eff.", "NRAM", "where the time went"),
        [_line(name, row, first) for name, row in zip(names, rows, strict=True)],
        right=(1, 2, 3, 4, 5, 6),
    )
    for reason in refused.values():
        show.print_text(f"\nNot possible here: {reason}")
    if no_data:
        show.print_text("\nTiming only: results were not compared.")
    elif len(rows) > 1:
        show.print_text(f"\nResults of all {len(rows)} strategies are equal, bit for bit.")


def _line(name: str, row: Row, first: Row) -> tuple[str, ...]:
    from mlusim.analysis.breakdown import CAUSES
    from mlusim.analysis.table import percent, us_text
    from mlusim.units import MIB

    shares = sorted(row.where_time_went.items(), key=lambda item: -item[1])[:_CAUSES_SHOWN]
    went = "; ".join(f"{percent(spent / row.core_time_ps)} {CAUSES[cause]}" for cause, spent in shares if spent)
    speed = f"{first.time_ps / row.time_ps:.2f} x" if first.time_ps and row.time_ps else ""
    # A strategy such as auto chooses another one, whose name its plan bears.
    chosen = name if name == row.strategy else f"{name}: {row.strategy}"
    bus = sum(row.bus_bytes.values())
    return (
        chosen,
        str(row.tier),
        us_text(row.time_ps),
        speed,
        f"{bus / MIB:.2f} MiB",
        percent(row.io_efficiency),
        _kib(row.peak_nram_bytes),
        went,
    )


def _kib(nbytes: int) -> str:
    return f"{nbytes / 1024:.0f} KiB"


def _record(name: str, row: Row) -> dict[str, Any]:
    return {
        "strategy": name,
        "plan_strategy": row.strategy,
        "tier": row.tier,
        "time_ps": row.time_ps,
        "time_us": row.time_us,
        "bytes_requested": dict(row.bytes_requested),
        "bus_bytes": dict(row.bus_bytes),
        "io_efficiency": row.io_efficiency,
        "peak_nram_bytes": row.peak_nram_bytes,
        "core_time_ps": row.core_time_ps,
        "where_time_went_core_ps": dict(row.where_time_went),
    }
