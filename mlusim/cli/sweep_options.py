"""The options of `mlusim sweep`: those of a run with several values each, and its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from mlusim.cli.help_format import Option, Sections
from mlusim.cli.option_types import (
    FILE,
    INTEGERS,
    NEW_FILE,
    SHAPE,
    ParamType,
    Parsed,
    board_parameters,
    complete_assignment,
)
from mlusim.cli.options import (
    full_option,
    output_options,
    seed_option,
    steady_option,
    workers_option,
)
from mlusim.errors import InputError

DEFAULT_DB = "sweep.sqlite"


class Several(ParamType):
    """Several values of an option for a single one: separated by commas, or repeated if they contain commas."""

    def __init__(self, base: click.ParamType[Any]) -> None:
        self.base = base
        self.name = f"{base.name} list"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """As for a single value."""
        return self.base.get_metavar(param, ctx)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a list of values."""
        from mlusim.explore.axis_values import numbers, shapes

        if not isinstance(value, str):
            return value
        name = (param.name if param else None) or self.base.name
        if self.base is SHAPE:
            return shapes(value)
        if isinstance(self.base, click.types.IntParamType | click.IntRange):
            convert: Any = self.base.convert  # also checks the range
            return [convert(number, param, ctx) for number in numbers(name, value)]
        if self.base is INTEGERS:
            return [self.base.convert(value, param, ctx)]
        return [self.base.convert(part.strip(), param, ctx) for part in value.split(",")]


def _values(parameter: str) -> Parsed:
    """Return the type of an axis of whole numbers: lists, ranges, units."""

    def parse(text: str) -> list[int | float]:
        from mlusim.explore.axis_values import numbers

        return numbers(parameter, text)

    return Parsed("values", parse)


def _shard(text: str) -> tuple[int, int]:
    """Parse a part of the points, `3/8`: its number from 1, and the number of parts."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise InputError(f"{text!r} is not a part such as 3/8, the third of eight")
    return int(part), int(parts)


def several_options(parameters: Sequence[click.Parameter]) -> list[click.Parameter]:
    """Return the same options for several values each; flags unchanged."""
    axes: list[click.Parameter] = []
    for parameter in parameters:
        if isinstance(parameter, click.Option) and not parameter.is_flag:
            values: dict[str, Any] = {
                "multiple": True,
                "required": parameter.required,
                "metavar": parameter.metavar,
                "help": parameter.help,
            }
            axes.append(click.Option([*parameter.opts, parameter.name or ""], type=Several(parameter.type), **values))
        else:
            axes.append(parameter)
    return axes


def shapes_option(*, required: bool) -> Option:
    """--shape, for several shapes."""
    return click.option(
        "--shape",
        multiple=True,
        required=required,
        type=Several(SHAPE),
        metavar="SHAPE",
        help="Shape of the inputs: 2,8,256,196; may be repeated; an extent may be a range: 2,8,256,49..784*2.",
    )


nram_limits_option = click.option(
    "--nram-limit",
    "nram_limit_bytes",
    type=_values("nram_limit_bytes"),
    metavar="SIZES",
    help="Limit on the NRAM that a plan uses; makes tiles smaller, and leaves the board unchanged.",
)
_BOARD_OPTIONS = (
    click.option(
        "--nram",
        "nram_bytes",
        type=_values("nram_bytes"),
        metavar="SIZES",
        help="NRAM of a core that a kernel may use: 64KiB,1MiB.",
    ),
    click.option(
        "--cores",
        type=_values("cores"),
        metavar="NUMBERS",
        help="Number of MLU cores in use: whole clusters, or part of one. They share the whole board's DRAM.",
    ),
    click.option(
        "--bandwidth",
        type=_values("dram_bandwidth_bytes_per_s"),
        metavar="RATES",
        help="Nominal DRAM bandwidth: 307.2GB/s,614.4GB/s.",
    ),
    click.option(
        "--vary",
        multiple=True,
        shell_complete=complete_assignment(board_parameters),
        metavar="NAME=VALUES",
        help="Any parameter of the board: dma_read_latency_ps=200ns..800ns*2. May be repeated.",
    ),
)

_EXECUTION_OPTIONS = (
    click.option(
        "--data", is_flag=True, help="Run with data. The default, timing only, is faster, with the same figures."
    ),
    steady_option,
    seed_option,
    click.option(
        "--db",
        type=NEW_FILE,
        default=DEFAULT_DB,
        show_default=True,
        metavar="FILE",
        help="SQLite file for finished points. They are not run again, so a stopped sweep can be resumed.",
    ),
    click.option("--no-db", is_flag=True, help="Do not store points in a file."),
    click.option("--retry", is_flag=True, help="Run the failed points in the file again."),
    workers_option,
    click.option("--dask", metavar="ADDRESS", help="Run on the cluster of a Dask scheduler: tcp://host:8786."),
    click.option(
        "--shard",
        type=Parsed("shard", _shard),
        metavar="I/N",
        help="Run only the I-th of N shards of the points, for jobs of a cluster; give each its own --db.",
    ),
    click.option(
        "--merge",
        multiple=True,
        type=FILE,
        metavar="FILE",
        help="Merge the points of another file, such as a shard's, into --db. May be repeated.",
    ),
)
_OUTPUT_OPTIONS = (
    click.option(
        "--out",
        "--output",
        "-o",
        "output",
        type=NEW_FILE,
        metavar="FILE",
        help="Write the table to FILE: .parquet, .csv or .json.",
    ),
    click.option(
        "--plot",
        metavar="FIGURES",
        help="Draw time, bandwidth, efficiency, traffic, or columns of the table, separated by commas.",
    ),
    click.option(
        "--against",
        metavar="AXIS",
        help="Axis of the picture: nram, cores, bandwidth, shape_3, strategy, ... [default: the one with the most "
        "values]",
    ),
    click.option(
        "--picture",
        type=NEW_FILE,
        metavar="FILE",
        help="File of the picture, .png or .svg. [default: that of -o with the suffix .png, or sweep.png]",
    ),
    full_option,
    output_options,
)
# The options of every sweep, by heading of the help.
SECTIONS: Sections = {
    "Board parameters": _BOARD_OPTIONS,
    "Execution": _EXECUTION_OPTIONS,
    "Output": _OUTPUT_OPTIONS,
}
