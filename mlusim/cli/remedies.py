"""What to write instead of wrong words on the command line, where click knows only that they are wrong."""

from __future__ import annotations

import re

import click

from mlusim.files import is_kernel_name

_TABLE = "-o FILE.csv writes the table"
_ROWS = "--json prints all rows"
# By command and option: the option that does what a user expects of it.
_INSTEAD = {("sweep", "--csv"): _TABLE} | {(command, "--csv"): _ROWS for command in ("tune", "compare", "validate")}
_TAKE_RUNS = ("diff", "explain")


def with_likely_option(error: click.UsageError) -> click.UsageError:
    """Return the error, for a launch setting by its name elsewhere with the option for it, such as --dim for --grid."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    from mlusim.cores.tasks.launch_checks import LAUNCH_SETTINGS

    name = error.option_name.lstrip("-").replace("-", "_").lower()
    meant = f"--{LAUNCH_SETTINGS.get(name, '')}"
    if not any(meant in parameter.opts for parameter in error.ctx.command.params):
        return error
    return click.UsageError(f"No such option '{error.option_name}'. Did you mean '{meant}'?", error.ctx)


def remedy(error: click.UsageError) -> str:
    """Return what to write instead, after a semicolon; empty if nothing is known."""
    if error.ctx is None:
        return ""
    if isinstance(error, click.NoSuchOption):
        return _other_option(error.ctx, error.option_name)
    return _device(error, error.ctx)


def _other_option(context: click.Context, option: str) -> str:
    from mlusim.cli.kernel_completion import setting_names
    from mlusim.cli.operators import ENTRIES

    # `mlusim sweep tin_shift` is a command of its own, below `sweep`.
    command = (*context.command_path.split(), "")[1]
    if command in _TAKE_RUNS:
        runs = [word for word in context.find_root().obj or () if is_kernel_name(word) or word in ENTRIES]
        return f'; a run is one argument, in quotes: mlusim {command} "{runs[0]} {option} ..."' if runs else ""
    kernel, name = context.command.name or "", option.lstrip("-").replace("-", "_")
    if is_kernel_name(kernel) and name in setting_names(kernel):
        return f"; {name} is a parameter of the kernel: --set {name}=VALUE"
    instead = _INSTEAD.get((command, option))
    return f"; {instead}" if instead else ""


def _device(error: click.UsageError, context: click.Context) -> str:
    """Return the remedy for a board that is named without its option."""
    from mlusim.cli.option_types import board_names

    extra = re.search(r"unexpected extra arguments? \((.*)\)", error.format_message())
    takes = any("--device" in parameter.opts for parameter in context.command.params)
    words = extra[1].split() if extra and takes else []
    boards = [word for word in words if word.lower() in board_names() or word.endswith(".toml")]
    return f"; a board is named by an option: --device {boards[0]}" if boards else ""
