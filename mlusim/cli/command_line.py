"""The command line: its commands, and the conversion of every error to one line and an exit code.

0    done
1    the run failed: a kernel, a plan, the machine
2    usage or input: an option, a file, an array, a board
130  interrupted
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from errno import ENOSPC
from importlib import import_module
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, NoReturn

import click

from mlusim import __version__
from mlusim.cli.console import wrap_line
from mlusim.cli.help_format import HelpContext
from mlusim.cli.standard_output import reserved_for_json
from mlusim.errors import (
    IN_COMMAND,
    BoardError,
    CompileError,
    InputError,
    KernelError,
    MlusimError,
    VerificationError,
)
from mlusim.spelling import nearest
from mlusim.version import build

FAILED, USAGE, INTERRUPTED = 1, 2, 130
_ALIASES = {"check": "verify"}
# The modules of `mlusim.cli` with a command of that name, and its summary: the help imports none of them.
SUMMARIES = {
    "run": "Run an operator, or a kernel of your own, on a simulated board.",
    "verify": "Verify a kernel or an operator: races, uninitialised reads, wrong results.",
    "compare": "Compare the strategies of an operator on one input, or kernels of your own.",
    "tune": "Find the fastest strategy and tiles, or settings of a kernel.",
    "sweep": "Simulate every combination of the values given.",
    "explain": "Explain where the time of a run went, and what to try.",
    "diff": "Compare two runs side by side.",
    "report": "Show saved runs as HTML pages.",
    "inspect": "Show one core of a saved run at one moment.",
    "retime": "Time a saved run on another board.",
    "devices": "List the boards, or show one: every parameter with its source.",
    "validate": "Compare the model with measurements of real boards.",
    "demo": "Shift the colours of a photograph in time.",
    "bangc": "Run BANG C, unmodified, on a simulated board.",
    "compile": "Compile or load kernels; show their parameters and errors.",
    "mcp": "Serve tools through the Model Context Protocol (MCP).",
    "completion": "Print a script for shell completion.",
}


class Commands(Mapping[str, click.Command]):
    """The commands by name, each imported when it is first used."""

    def __iter__(self) -> Iterator[str]:
        return iter(SUMMARIES)

    def __len__(self) -> int:
        return len(SUMMARIES)

    def __getitem__(self, name: str) -> click.Command:
        if name not in SUMMARIES:
            raise KeyError(name)
        module = import_module(f"mlusim.cli.{name}")
        # `compile` is a function of Python.
        command: click.Command = getattr(module, f"{name}_", None) or getattr(module, name)
        command.short_help = SUMMARIES[name]
        _use_help_context(command)
        return command


class Program(click.Group):
    """A group of commands that shows every error as one line, `error: ...`, without a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's own signature
        **extra: Any,
    ) -> NoReturn:
        """Parse, run, and exit with a code. click's own error handling is disabled."""
        del prog_name, standalone_mode
        words = sys.argv[1:] if args is None else list(args)
        _open_closed_output()
        _replace_unencodable()
        if "_MLUSIM_COMPLETE" in os.environ:
            from click.shell_completion import add_completion_class

            from mlusim.cli.shells import SHELLS

            for name, shell in SHELLS.items():
                add_completion_class(shell, name)
        outside = IN_COMMAND.set(True)
        try:
            status = super().main(words, "mlusim", complete_var, standalone_mode=False, obj=tuple(words), **extra)
            sys.stdout.flush()
        except (BrokenPipeError, _ReaderLeftError):
            # The reader of the output, such as `head`, has closed it: not an error.
            _drop_output()
            sys.exit(0)
        except (_InterruptedError, click.Abort, KeyboardInterrupt) as interrupt:
            if sys.stderr.isatty():
                click.echo(err=True)  # after the ^C that the terminal shows
            _print_error(str(interrupt) or "interrupted")
            sys.exit(INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - the one place where an error is shown to the user
            if "--traceback" in takewhile(lambda word: word.startswith("-"), words):
                from traceback import format_exc

                click.echo(format_exc(), err=True)
            text, code = line_and_exit_code(error, self._path(words))
            _print_error(text)
            _drop_output()
            sys.exit(code)
        finally:
            IN_COMMAND.reset(outside)
        sys.exit(status if isinstance(status, int) else 0)

    def _path(self, words: Sequence[str]) -> str:
        """Return the command that some words refer to, which click does not always report."""
        path = ["mlusim"]
        command: click.Command = self
        context = click.Context(self)
        for word in words:
            subcommand = command.get_command(context, word) if isinstance(command, click.Group) else None
            if subcommand is not None:
                path, command = [*path, word], subcommand
        return " ".join(path)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with that name or alias."""
        return super().get_command(ctx, _ALIASES.get(cmd_name, cmd_name))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, the most used first."""
        del ctx
        return list(SUMMARIES)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As in click, with a message that lists the commands."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from mlusim.cli.usage_remedies import likely_command

            suggestion = likely_command(args[0]) or nearest(args[0], self.commands)
            raise click.UsageError(f"no command {args[0]!r}; {suggestion}choose one of {', '.join(self.commands)}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """As in click, which would exit with 1 for a closed output, here of `--help` or `--version`."""
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError as error:
            raise _ReaderLeftError from error

    def invoke(self, ctx: click.Context) -> Any:
        """As in click, which would exit with 1 for a closed output, and print an empty line for an interrupt."""
        try:
            # Other commands show what the user's code prints where it prints it.
            with reserved_for_json() if _asks_for_json(ctx.obj) else nullcontext():
                return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderLeftError from error
        except KernelError as error:
            if isinstance(error.__cause__, BrokenPipeError):  # a kernel that prints
                raise _ReaderLeftError from error
            raise
        except KeyboardInterrupt as interrupt:
            # The notes of an interrupt in a kernel are its locations.
            locations = (f"interrupted: {location}" for location in getattr(interrupt, "__notes__", ()))
            raise _InterruptedError(*(interrupt.args or locations)) from interrupt


def _asks_for_json(words: Iterable[str]) -> bool:
    """Return whether `--json` is an option of the command; words after `--` are those of a host program."""
    return "--json" in takewhile(lambda word: word != "--", words)


class _InterruptedError(Exception):
    """Ctrl-C."""


class _ReaderLeftError(Exception):
    """The reader of the output has closed it."""


def line_and_exit_code(error: Exception, command: str = "mlusim") -> tuple[str, int]:
    """Return an error of a command as one line, and its exit code. Verification and compiler reports have several."""
    match error:
        case click.UsageError():
            from mlusim.cli.usage_remedies import remedy, with_likely_option

            path = error.ctx.command_path if error.ctx else command
            error = with_likely_option(error)
            remedy_text = remedy(error)
            # click calls a number with limits a range, and guesses options by their spelling.
            message = re.sub(r"is not a valid (integer|float) range", r"is not a valid \1", error.format_message())
            if remedy_text and isinstance(error, click.NoSuchOption):
                message = f"No such option {error.option_name!r}"
            text = f"{_one_line(message).rstrip('.')}{remedy_text}"
            message_and_code = f"{text}; see `{path} --help`", USAGE
        case click.ClickException():
            message_and_code = _one_line(error.format_message()), error.exit_code
        case VerificationError() | CompileError():
            message_and_code = str(error), FAILED
        case MlusimError():
            message_and_code = _one_line(str(error)), USAGE if isinstance(error, InputError | BoardError) else FAILED
        case MemoryError():
            message_and_code = (
                f"not enough memory on this machine: {error or 'none left'}; --no-data keeps no tensors",
                FAILED,
            )
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] != "mlusim":
            message_and_code = f"the package {name} is missing: install mlusim again with its dependencies", FAILED
        case OSError():
            subject = f"{error.filename}: " if error.filename else ""
            if error.errno == ENOSPC and not subject:
                subject = "the output cannot be written: "
            message_and_code = f"{subject}{error.strerror or error}", USAGE
        case _ if type(error).__name__ == "BdbQuit":
            message_and_code = "the debugger was quit", INTERRUPTED
        case _:
            text = f"internal error: {type(error).__name__}: {_one_line(str(error))}. This is a bug in mlusim: "
            message_and_code = f"{text}please report it with what `mlusim --traceback ...` prints", FAILED
    return message_and_code


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print_error(text: str) -> None:
    is_plain = "NO_COLOR" in os.environ or not sys.stderr.isatty()
    label = "error:" if is_plain else click.style("error:", fg="red", bold=True)
    if sys.stderr.isatty():
        width = get_terminal_size().columns
        first, *lines = (wrap_line(line, width) for line in f"error: {text}".split("\n"))
        text = "\n".join([first.removeprefix("error: "), *lines])
    click.echo(f"{label} {text}", err=True)


def _open_closed_output() -> None:
    """Open missing standard streams (`>&-`) on the null device, so that no file gets their numbers."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process


def _replace_unencodable() -> None:
    """Let the standard streams show a name that their encoding does not have, by `?`, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """Leave nothing for the interpreter to flush on exit, which would fail."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), sys.__stdout__.fileno())  # type: ignore[union-attr]  # None only under pythonw


_HELP = """\
Simulate Cambricon MLU boards: exact results, the bytes on every link, and a modelled time, broken down by cause.

\b
Start here:
  mlusim demo                                 # shift a photograph in time
  mlusim run add.py:add --shape 1000000       # run a kernel of your own
  mlusim verify add.py:add --shape 1000000    # find its races
  mlusim run tin_shift --help                 # run an operator
  mlusim compare tin_shift --shape 2,8,256,196

All times come from a model; they are not measurements. `mlusim devices NAME` shows the source of each number, and
`mlusim validate` the error against real measurements.
"""

_EPILOG = """\b
Exit codes:
  0    done
  1    the run failed: a kernel, a plan, the machine; or a check found errors
  2    usage or input: an option, a file, an array, a board
  130  interrupted by Ctrl-C
"""


@click.group(
    cls=Program,
    commands=Commands(),
    help=_HELP,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, message=f"mlusim %(version)s, {build()}")
@click.option("--traceback", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def program(context: click.Context, *, traceback: bool) -> None:
    """Simulate Cambricon MLU boards: exact results, bytes on every link, and a modelled time, broken down by cause."""
    del traceback
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _use_help_context(command: click.Command) -> None:
    """Use our help formatter for a command and its subcommands."""
    command.context_class = HelpContext
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        _use_help_context(subcommand)


program.context_class = HelpContext
