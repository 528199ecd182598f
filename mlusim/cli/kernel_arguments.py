"""User kernels on the command line: their arguments, settings and launch as options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli.help_format import Option, SectionedCommand, Sections
from mlusim.cli.kernel_completion import setting_names
from mlusim.cli.option_types import (
    ELEMENT_TYPE,
    GRID,
    KERNEL_SHAPE,
    KIND,
    KINDS,
    OPERATIONS,
    assignments,
    complete_assignment,
)
from mlusim.cli.options import COMPILE_OPTIONS, compile_options, seed_option
from mlusim.errors import InputError
from mlusim.spelling import it_has

if TYPE_CHECKING:
    from mlusim.explore.kernel_call import KernelCall

METAVAR = "FILE:KERNEL"


shape_option = click.option(
    "--shape",
    type=KERNEL_SHAPE,
    metavar="SHAPE",
    help="Shape of the tensors without --arg. Inputs are random. Tensors that the kernel only stores to are "
    "outputs, or else the last one; in a .mlu file, pointers to const are inputs, and other pointers are outputs.",
)
dtype_option = click.option(
    "--dtype",
    type=ELEMENT_TYPE,
    metavar="DTYPE",
    help="Element type of the tensors of --shape. [default: float32]",
)
arg_option = click.option(
    "--arg",
    multiple=True,
    metavar="[NAME=]VALUE",
    help="An argument, by name or in order: x=x.npy; out=float32:2,8,64, a tensor to write; "
    "x=inout:x.npy, values that the kernel may write; x=random:float32:1000; a number. May be repeated.",
)
theory_ops_option = click.option(
    "--theory-ops",
    type=OPERATIONS,
    metavar="NUMBER",
    help="Operations that the computation requires, for compute_efficiency; 0: pure data movement. [default: unknown]",
)


def set_option(kernel_name: str, *, several: bool) -> Callable[..., Any]:
    """--set; the settings of the kernel are completed. `several`: a setting may have several values."""
    repetition = (
        "; may be repeated, and VALUES may be a list or range: tile=1024..8192*2" if several else "; may be repeated"
    )
    return click.option(
        "--set",
        "settings",
        multiple=True,
        shell_complete=complete_assignment(partial(setting_names, kernel_name)),
        metavar="NAME=VALUES" if several else "NAME=VALUE",
        help=f"A parameter with a default value: tile=4096{repetition}.",
    )


def launch_options(*, several: bool) -> Callable[..., Any]:
    """--dim and --kind; `several`: one or several of each."""
    dim = click.option(
        "--dim",
        multiple=several,
        type=GRID,
        metavar="GRID",
        help="Grid of the launch: 4,8,1. [default: one task per core]",
    )
    kind = click.option(
        "--kind",
        type=KINDS if several else KIND,
        metavar="KINDS" if several else "KIND",
        help=f"BLOCK, UNION1, UNION2, ...{', separated by commas' if several else ''} [default: UNION1]",
    )
    return lambda function: dim(kind(function))


def call_of(kernel_given: str | Callable[..., Any], options: dict[str, Any]) -> KernelCall:
    """Return a kernel, named as `FILE.py:KERNEL` or itself, with its arguments. Raises `InputError`.

    The options of the arguments and of the launch are taken out of the options of a command.
    """
    from mlusim.explore.kernel_call import KernelCall
    from mlusim.explore.user_kernels import kernel_of

    kernel = kernel_of(kernel_given)
    values = settings_of(kernel, options.pop("settings", ()))
    ambiguous = [name for name, listed in values.items() if len(listed) != 1]
    if ambiguous:
        raise InputError(f"--set {ambiguous[0]}: one value for one run; `mlusim compare`, tune and sweep take several")
    return KernelCall(
        kernel=kernel,
        arguments=tuple(options.pop("arg")),
        shape=options.pop("shape"),
        dtype=options.pop("dtype") or "float32",
        settings={name: choices[0] for name, choices in values.items()},
        launch=given_options(dim=options.pop("dim"), kind=options.pop("kind")),
        seed=options.pop("seed"),
        theory_ops=options.pop("theory_ops"),
    )


def given_options(**options: Any) -> dict[str, Any]:
    """Return the options that were given: neither None nor an empty list."""
    return {name: value for name, value in options.items() if value not in (None, [], ())}


def settings_of(kernel: Any, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Parse `--set NAME=VALUES` to values of the defaults' types. Raises `InputError`."""
    by_name: dict[str, list[Any]] = {}
    for name, values in assignments("--set", texts, "NAME=VALUE").items():
        if name not in kernel.settings:
            if name in kernel.tensors:
                raise InputError(f"--set {name}: it has no default, so it is an argument: write --arg {name}=...")
            has = it_has(kernel.settings, name)
            raise InputError(f"--set {name}: {kernel.name} has no such parameter with a default; {has}")
        by_name[name] = _setting(name, values, kernel.settings[name])
    return by_name


def _setting(name: str, text: str, default: Any) -> list[Any]:
    """Parse values of a setting, of its default's type."""
    from mlusim.explore.axis_values import numbers
    from mlusim.explore.setting_values import setting_values

    try:
        values = setting_values(name, text, default)
    except InputError as error:
        raise InputError(f"--set {error.message}") from None
    if values is not None:
        return values
    for integers in (True, False) if default is None else ():
        with suppress(InputError):
            return numbers(name, text, integers=integers)
    return text.split(",")


def bind_compile_options(kernel_name: str, options: dict[str, Any]) -> str:
    """Return a kernel's name that carries its compile options, which are taken out of the options of the command."""
    option_values = {name: options.pop(name) for name in COMPILE_OPTIONS if name in options}
    if not option_values:
        return kernel_name
    from mlusim.bangc.kernel_files import KernelName

    return KernelName(kernel_name, option_values)


def compile_section(kernel_name: str) -> Sections:
    """Return the section of compile options, if the kernel is BANG C."""
    return {"Compilation": (compile_options,)} if ".mlu" in kernel_name else {}


def kernel_command(
    kernel_name: str,
    callback: Callable[..., Any],
    *,
    about: str,
    example: str,
    device: Option,
    sections: Sections,
    several: bool = False,
) -> click.Command:
    """Create a command for FILE.py:KERNEL, with the options for its arguments.

    Args:
        kernel_name: FILE.py:KERNEL.
        callback: called with it, and with the options by name.
        about, example: the first and the last lines of the help.
        device: the option of the board.
        sections: the other options of the command, besides the arguments of the kernel, by heading.
        several: settings and launches may have several values.
    """

    def call(**values: Any) -> Any:
        return callback(bind_compile_options(kernel_name, values), **values)

    settings = set_option(kernel_name, several=several)
    return SectionedCommand(
        kernel_name,
        sections={
            "Arguments": (shape_option, dtype_option, arg_option, settings, seed_option, theory_ops_option),
            "Board and launch": (device, launch_options(several=several)),
            **compile_section(kernel_name),
            **sections,
        },
        callback=call,
        help=f"{about}\n\n\b\nExample:\n  {example}",
        short_help=about,
    )
