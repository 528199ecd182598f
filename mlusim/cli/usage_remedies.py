"""Remedies for wrong words on the command line, where click reports only that they are wrong."""

from __future__ import annotations

import re
from contextlib import suppress

import click

from mlusim.errors import InputError
from mlusim.source_code import is_kernel_name

_TABLE = "-o FILE.csv writes the table"
_ROWS = "--json prints all rows"
# By command and option: the option that does what a user expects of it.
_INSTEAD = {
    ("sweep", "--csv"): _TABLE,
    ("sweep", "--kernel"): "a kernel is the argument of this command: mlusim sweep FILE.py:KERNEL",
    ("devices", "--device"): "a board is the argument of this command: mlusim devices mlu370-x4",
} | {(command, "--csv"): _ROWS for command in ("tune", "compare", "validate")}
# By option, for every command with the other option that stands first.
_INSTEAD_WITH = {"--trace": ("--report", "--report DIR writes DIR/trace.json")}
_TAKE_RUNS = ("diff", "explain")
# Options of compilers that mlusim sets itself, and that of the vendor's compiler which names an architecture.
_OF_COMPILERS = re.compile(r"-[OgfmWwclLo][\w=-]*")
_ARCHITECTURE = re.compile(r"--bang(?:-mlu)?-arch[= ](?:\w*?_)?(\d+)")
# Words that users try as commands: what does that here.
_COMMANDS = {
    "boards": "mlusim devices",
    "help": "mlusim --help",
    "lint": "mlusim verify",
    "list": "mlusim devices",
    "plot": "mlusim report",
    "profile": "mlusim explain",
    "test": "mlusim verify",
    "version": "mlusim --version",
}


def likely_command(word: str) -> str:
    """Return "did you mean `mlusim ...`? " for a word in the place of a command; empty if nothing is known."""
    from mlusim.cli.operators import SUMMARIES

    command = f"mlusim run {word}" if is_kernel_name(word) or word in SUMMARIES else _COMMANDS.get(word.lower(), "")
    return f"did you mean `{command}`? " if command else ""


def with_likely_option(error: click.UsageError) -> click.UsageError:
    """Return the error, for an option by its name in other libraries with its name here, such as --dim for --grid."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    from mlusim.cores.tasks.launch_checks import LAUNCH_SETTINGS
    from mlusim.ops.argument_errors import SYNONYMS

    name = error.option_name.lstrip("-").replace("-", "_").lower()
    likely_option = f"--{LAUNCH_SETTINGS.get(name) or SYNONYMS.get(name)}".replace("_", "-")
    if not any(likely_option in parameter.opts for parameter in error.ctx.command.params):
        return error
    return click.UsageError(f"No such option '{error.option_name}'. Did you mean '{likely_option}'?", error.ctx)


def remedy(error: click.UsageError) -> str:
    """Return what to write instead, after a semicolon; empty if nothing is known."""
    if error.ctx is None:
        return ""
    if isinstance(error, click.NoSuchOption):
        return _other_option(error.ctx, error.option_name)
    return _remedy_of_shape(error, error.ctx) or _remedy_of_board(error, error.ctx)


def _other_option(context: click.Context, option: str) -> str:
    from mlusim.cli.kernel_completion import setting_names
    from mlusim.cli.operators import SUMMARIES

    words = context.find_root().obj or ()
    if option in _INSTEAD_WITH and _has(context, _INSTEAD_WITH[option][0]):
        return f"; {_INSTEAD_WITH[option][1]}"
    if "bangc" in context.command_path.split():
        return _of_compiler(option, words)
    # `mlusim sweep tin_shift` is a command of its own, below `sweep`.
    command = (*context.command_path.split(), "")[1]
    what_runs = next((word for word in words if is_kernel_name(word) or word in SUMMARIES), "")
    if command in _TAKE_RUNS:
        return f'; a run is one argument, in quotes: mlusim {command} "{what_runs} {option} ..."' if what_runs else ""
    kernel, name = context.command.name or "", option.lstrip("-").replace("-", "_")
    if is_kernel_name(kernel) and name in setting_names(kernel):
        return f"; {name} is a parameter of the kernel: --set {name}=VALUE"
    if option == "--set" and kernel in SUMMARIES:
        return f"; --set is for the parameters of a kernel, and {kernel} is an operator: its parameters are options"
    if instead := _INSTEAD.get((command, option)):
        return f"; {instead}"
    if what_runs and isinstance(context.command, click.Group):
        return f"; options follow {what_runs}: mlusim {command} {what_runs} {option} ..."
    return ""


def _of_compiler(option: str, words: tuple[str, ...]) -> str:
    """Return the remedy for an option of a compiler; click passes only the first letter of `-O3`."""
    word = next((word for word in words if word.startswith(option)), option)
    if word.startswith("-std="):
        return f"; the standard is given by --std {word.removeprefix('-std=')}"
    if word.startswith(("--bang-arch", "--bang-mlu-arch")):
        from mlusim.hardware import presets

        arch = _ARCHITECTURE.search(" ".join(words))
        names = [board.name for board in presets() if arch and board.arch == int(arch[1])]
        return f"; the board is given by --device: {', '.join(names or ['mlusim devices lists the boards'])}"
    if _OF_COMPILERS.fullmatch(word):
        return f"; {word} is an option of compilers, and mlusim sets its own: leave it out"
    return ""


def _extra_words(error: click.UsageError, context: click.Context, option: str) -> list[str]:
    """Return the words of a command line that belong to no option, if the command has this option."""
    extra = re.search(r"unexpected extra arguments? \((.*)\)", error.format_message())
    return extra[1].split() if extra and _has(context, option) else []


def _has(context: click.Context, option: str) -> bool:
    return any(option in parameter.opts for parameter in context.command.params)


def _remedy_of_shape(error: click.UsageError, context: click.Context) -> str:
    """Return the remedy for a shape that is given without its option."""
    from mlusim.inputs import parse_shape

    shapes = []
    for word in _extra_words(error, context, "--shape"):
        with suppress(InputError):
            shapes += [word] * bool(parse_shape(word))
    return f"; a shape is given by an option: --shape {shapes[0]}" if shapes else ""


def _remedy_of_board(error: click.UsageError, context: click.Context) -> str:
    """Return the remedy for a board that is named without its option."""
    from mlusim.cli.option_types import board_names

    words = _extra_words(error, context, "--device")
    boards = [word for word in words if word.lower() in board_names() or word.endswith(".toml")]
    return f"; a board is named by an option: --device {boards[0]}" if boards else ""
