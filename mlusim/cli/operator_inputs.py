"""The inputs of an operator on the command line: arrays from files, or random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli.help_format import Option, Sections
from mlusim.cli.operators import options_of
from mlusim.cli.option_types import ELEMENT_TYPE, FILE, SHAPE, complete_from
from mlusim.errors import InputError, flag_of

if TYPE_CHECKING:
    from mlusim.arrays import Array
    from mlusim.hardware import Board
    from mlusim.ops.commands import Command


def input_sections(command: Command) -> Sections:
    """Return the options of an operator's inputs and attributes, by heading of the help."""
    shape = click.option(
        "--shape", type=SHAPE, metavar="SHAPE", help="Random inputs of this shape: 2,8,256,196 or 2x8x256x196."
    )
    dtype = data_option(command, "With --shape: element type.", name="random_dtype")
    seed = click.option(
        "--seed",
        type=click.IntRange(min=0),
        metavar="NUMBER",
        help="With --shape: seed of the random inputs. [default: 0]",
    )
    return {
        "Operator": options_of(command.attributes),
        "Inputs, from .npy or .npz files": [
            click.option(flag_of(tensor.flag_name), type=FILE, metavar="FILE", help=tensor.help)
            for tensor in command.operator.inputs
        ],
        "Inputs, random": [shape, dtype, *options_of(command.operator.example_attributes), seed],
    }


def data_option(command: Command, text: str, *, name: str = "element_type", several: bool = False) -> Option:
    """--dtype or, for operators whose own --dtype is that of their output, --input-dtype."""
    return click.option(
        flag_of(command.operator.data_option),
        name,
        multiple=several,
        type=None if several else ELEMENT_TYPE,
        metavar="DTYPES" if several else "DTYPE",
        help=f"{text} [default: float32]",
    )


def read_operator_inputs(
    command: Command, options: dict[str, Any], boards: Iterable[Board], *, data: bool = True
) -> list[Array]:
    """Return the operator's inputs: all from files, or all random. Raises `InputError`."""
    from mlusim.host.array_files import read_array

    flags = {tensor.flag_name: flag_of(tensor.flag_name) for tensor in command.operator.inputs}
    files = {name: options[name] for name in flags if options[name] is not None}
    if options["shape"] is not None:
        if files:
            raise InputError(
                f"{flags[next(iter(files))]} and --shape: inputs come from files or are random, not both; drop --shape"
            )
        from mlusim.dtypes import FLOAT32
        from mlusim.host.random_tensors import RandomTensors

        draw = RandomTensors(options["seed"] or 0, data=data, boards=boards)
        return command.example(draw, options["shape"], options["random_dtype"] or FLOAT32, options)
    missing = [flags[name] for name in flags if name not in files]
    if missing:
        random = ", or --shape for random inputs" if not files else ""
        context = click.get_current_context(silent=True)
        path = context.command_path if context else f"mlusim run {command.name}"
        raise InputError(f"missing {' and '.join(missing)}{random}; see `{path} --help`")
    random_only = {"random_dtype": flag_of(command.operator.data_option), "seed": "--seed"}
    random_only |= {attribute.name: flag_of(attribute.name) for attribute in command.operator.example_attributes}
    for name, option in random_only.items():
        if options[name] is not None:
            raise InputError(f"{option} is for random inputs: it goes with --shape, not with files")
    return [read_array(flags[name], files[name]) for name in flags]


def strategy_option(name: str, text: str = "Strategy for splitting the work; see below.") -> Callable[..., Any]:
    """--strategy; the first one is the default."""

    def strategies() -> Iterable[str]:
        from mlusim.ops.commands import COMMANDS

        return COMMANDS[name].operator.strategies

    return click.option("--strategy", metavar="NAME", shell_complete=complete_from(strategies), help=text)


def strategies_option(command: Command, text: str, name: str = "strategy") -> Callable[..., Any]:
    """--strategy, for several of them, or all."""
    complete = complete_from(lambda: [*command.operator.strategies, "all"])
    return click.option("--strategy", name, multiple=True, metavar="NAMES", shell_complete=complete, help=text)


def inputs_json(arrays: Iterable[Array]) -> list[dict[str, Any]]:
    """Return shape and element type of each input, in the operator's order."""
    return [{"shape": list(array.shape), "dtype": str(array.dtype)} for array in arrays]
