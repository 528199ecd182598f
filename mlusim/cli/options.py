"""Options shared by several commands, and their types: shapes, axes, element types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.formatting import wrap_text

from mlusim.cli.paths import check_target, force_option, note
from mlusim.errors import InputError

if TYPE_CHECKING:
    from mlusim.hardware import Board

    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # not subscriptable in every version

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_DEVICE = "mlu370-x4"
_AXES = 3  # of a grid
_FULL = "All columns; a table that is wider than the terminal comes in parts."
SAVE_RUN = "Write the whole run to FILE, for `mlusim report`, `mlusim retime` and mlusim.load."


class Integers(ParamType):
    """Integers separated by commas: `0,2` or `-1`."""

    name = "integers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return a tuple of the integers."""
        if not isinstance(value, str):
            return tuple(value)
        try:
            return tuple(int(part) for part in value.split(",")) if value.strip() else ()
        except ValueError:
            self.fail(f"{value!r} is not a list of integers such as 0,2", param, ctx)


class Grid(Integers):
    """The grid of a launch: `4,8,1` or `4`."""

    name = "grid"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return one to three extents; whether a board can launch them is for the launch to say."""
        from mlusim.cores.launch import MAX_GRID

        grid = super().convert(value, param, ctx)
        if not 1 <= len(grid) <= _AXES or min(grid) < 1 or max(grid) > MAX_GRID:
            self.fail(f"{value!r} is not a grid: one to three extents from 1 to {MAX_GRID}, such as 4,8,1", param, ctx)
        return grid


class Kinds(ParamType):
    """Task types, separated by commas, or only one."""

    name = "kind"

    def __init__(self, *, several: bool) -> None:
        self.several = several

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the task type, or a list of several."""
        from mlusim.cores.launch import UNIONS

        if not isinstance(value, str):
            return value
        known = ("BLOCK", *UNIONS)
        kinds = [part.strip().upper() for part in value.split(",")] if self.several else [value.strip().upper()]
        for kind in kinds:
            if kind not in known:
                self.fail(f"{kind!r} is not a task type; there are {', '.join(known)}", param, ctx)
        return kinds if self.several else kinds[0]


class Shape(ParamType):
    """A shape: `2,8,256,196` or `2x8x256x196`."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return a tuple of the extents."""
        if not isinstance(value, str):
            return tuple(value)
        text = value.strip().strip("[]()").lower().replace("x", ",").replace(" ", "")
        try:
            extents = tuple(int(part) for part in text.split(",")) if text else ()
        except ValueError:
            extents = (-1,)
        if min(extents, default=0) < 0:
            self.fail(f"{value!r} is not a shape such as 2,8,256,196 or 2x8x256x196", param, ctx)
        return extents


class DeviceName(ParamType):
    """A board: the name of a preset, or a TOML file."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Board:
        """Return the board."""
        from mlusim.hardware import board

        if isinstance(value, str) and "," in value and not Path(value).exists():
            self.fail(f"{value!r} names several boards; `mlusim compare` and `mlusim sweep` take several", param, ctx)
        record: Board = board(value)
        if isinstance(value, str) and Path(value).is_file():
            note(ctx, param, value, writes=False)
        return record

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Complete names of presets, then files."""
        from click.shell_completion import CompletionItem

        del ctx, param
        items = [CompletionItem(name) for name in board_names() if name.startswith(incomplete.lower())]
        return items or [CompletionItem(incomplete, type="file")]


class ElementType(ParamType):
    """An element type by name: float16, bfloat16, int32, ..."""

    name = "dtype"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the dtype."""
        from mlusim.dtypes import dtype_of

        try:
            return dtype_of(value)
        except InputError as error:
            # What else it may be given as is for Python.
            self.fail(str(error).partition(", given as")[0], param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Complete names of the element types."""
        from click.shell_completion import CompletionItem

        from mlusim.dtypes import ALL, dtype_name

        del ctx, param
        return [CompletionItem(name) for name in map(dtype_name, ALL) if name.startswith(incomplete)]


class Size(ParamType):
    """Bytes: `65536` or `64KiB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        from mlusim.explore.axis_values import numbers

        if not isinstance(value, str):
            return int(value)
        if value.strip().startswith("-"):
            self.fail(f"{value} is negative: a size is 0 or more, such as 64KiB", param, ctx)
        sizes = numbers("bytes", value)
        if len(sizes) != 1:
            self.fail(f"{value!r} is not a single size such as 64KiB", param, ctx)
        return int(sizes[0])


class Operations(ParamType):
    """A number of operations: `2000000` or `2e6`."""

    name = "operations"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the integer."""
        try:
            count = int(value) if not isinstance(value, str) or value.isdecimal() else float(value)
        except ValueError:
            count = -1
        if not 0 <= count < float("inf") or count != int(count):
            self.fail(
                f"{value!r} is not a number of operations: it is whole and at least 0, such as 2000000 or 2e6",
                param,
                ctx,
            )
        return int(count)


class FileName(ParamType):
    """A file, completed by the shell; `writes`: the command writes it."""

    def __init__(self, kind: str = "file", *, writes: bool = False) -> None:
        self.name = kind
        self._writes = writes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name unchanged; it is checked when it is read or written."""
        note(ctx, param, str(value), writes=self._writes)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Leave completion of files or directories to the shell."""
        from click.shell_completion import CompletionItem

        del ctx, param
        return [CompletionItem(incomplete, type="dir" if self.name == "directory" else "file")]


SHAPE, INTEGERS, DEVICE, ELEMENT_TYPE, SIZE = Shape(), Integers(), DeviceName(), ElementType(), Size()
GRID = Grid()
OPERATIONS = Operations()
FILE, DIRECTORY = FileName(), FileName("directory", writes=True)
NEW_FILE = FileName(writes=True)


def complete_from(names: Callable[[], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a `shell_complete` for an option with these values, also after a comma."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        del ctx, param
        before, comma, word = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(word)]

    return complete


def complete_assignment(
    names: Callable[[], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a `shell_complete` for an option with values NAME=VALUE: the names, each with its `=`."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        del ctx, param
        return [f"{name}=" for name in names() if name.startswith(incomplete)]

    return complete


def board_parameters() -> list[str]:
    """Return the names of a board's numeric parameters."""
    from dataclasses import fields

    from mlusim.hardware import Board

    return [item.name for item in fields(Board) if str(item.type) in {"int", "float"}]


def board_names() -> Iterable[str]:
    """Return the names of all presets."""
    from mlusim.hardware.presets import preset_names

    return preset_names()


_WORD = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^\s\"'])+")  # a shell word, quotes included


class HelpFormatter(click.HelpFormatter):
    """click's formatter, but an example wider than the terminal continues on the next line, in shell syntax."""

    def write_text(self, text: str) -> None:
        """Write a text with its paragraphs wrapped."""
        indent = " " * self.current_indent
        lines = wrap_text(text, self.width, indent, indent, preserve_paragraphs=True)
        for line in lines.split("\n"):
            for part in _continued(line, self.width):
                self.write(f"{part}\n")


def _continued(line: str, width: int) -> list[str]:
    """Break a command of `mlusim` into shell lines of at most `width`, where there is an option to break at."""
    if len(line) <= width or not line.lstrip().startswith("mlusim "):
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    # Keep an option and its values together.
    options: list[str] = []
    for word in _WORD.findall(line):
        if not options or word.startswith(("--", "-o", '"', "&&")):
            options.append(word)
        else:
            options[-1] += f" {word}"
    parts = [indent + options[0]]
    for option in options[1:]:
        if len(parts[-1]) + len(option) + len(" " + " \\") > width:
            parts.append(f"{indent}    {option}")
        else:
            parts[-1] += f" {option}"
    return [*(f"{part} \\" for part in parts[:-1]), parts[-1]]


class HelpContext(click.Context):
    """A context with our help formatter."""

    formatter_class = HelpFormatter


class SectionedCommand(click.Command):
    """A command whose help groups its options under headings.

    Args:
        sections: names of parameters, or of options, under each heading; all others come last.
    """

    context_class = HelpContext

    def __init__(self, *args: Any, sections: Mapping[str, Iterable[str]] | None = None, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._sections = {head: tuple(names) for head, names in (sections or {}).items()}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        records = {}
        for parameter in self.get_params(ctx):
            # Arguments are shown in the usage line.
            record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if record is not None:
                records[parameter.name or ""] = record
        for head, names in self._sections.items():
            rows = [records.pop(name) for name in names if name in records]
            if rows:
                with formatter.section(head):
                    formatter.write_dl(rows)
        if records:
            with formatter.section("Other" if self._sections else "Options"):
                formatter.write_dl(list(records.values()))


def device_option(function: Function) -> Function:
    """--device."""
    return click.option(
        "--device",
        "-d",
        type=DEVICE,
        default=DEFAULT_DEVICE,
        show_default=True,
        metavar="NAME|FILE",
        help="Board: a preset (see `mlusim devices`), or a TOML file of your own.",
    )(function)


def device_name_option(function: Function) -> Function:
    """--device as a name, for commands that print a command again."""
    return click.option(
        "--device",
        "-d",
        default=DEFAULT_DEVICE,
        show_default=True,
        metavar="NAME|FILE",
        shell_complete=complete_from(board_names),
        help="Board: a preset (see `mlusim devices`), or a TOML file of your own.",
    )(function)


def devices_option(function: Function) -> Function:
    """--device of a command for several boards."""
    return click.option(
        "--device",
        "-d",
        default=DEFAULT_DEVICE,
        show_default=True,
        metavar="NAMES",
        shell_complete=complete_from(board_names),
        help="Boards, separated by commas: presets (see `mlusim devices`), TOML files.",
    )(function)


def make_seed_option() -> click.Option:
    """--seed, for a list of parameters."""
    return click.Option(
        ["--seed"], type=click.IntRange(min=0), default=0, metavar="NUMBER", help="Seed of random inputs. [default: 0]"
    )


def make_full_option() -> click.Option:
    """--full, for a list of parameters."""
    return click.Option(["--full"], is_flag=True, help=_FULL)


def full_option(function: Function) -> Function:
    """--full."""
    return click.option("--full", is_flag=True, help=_FULL)(function)


def report_option(function: Function) -> Function:
    """--report."""
    return click.option(
        "--report",
        type=DIRECTORY,
        metavar="DIR",
        help="Write to DIR: report.html, pictures (timeline, tile map, traffic, bandwidth), summary.json, trace.json.",
    )(function)


def save_run_option(function: Function) -> Function:
    """--save-run."""
    return click.option("--save-run", type=NEW_FILE, metavar="FILE", help=SAVE_RUN)(function)


def sensitivity_option(function: Function) -> Function:
    """--sensitivity."""
    text = "Show how the time moves with each uncertain parameter, 20 % each way."
    return click.option("--sensitivity", is_flag=True, help=text)(function)


def csv_option(function: Function) -> Function:
    """--csv."""
    return click.option(
        "--csv",
        "operations",
        type=NEW_FILE,
        metavar="FILE",
        help="Write a line for each operation to FILE, with its times.",
    )(function)


STEADY: Mapping[str, Any] = {
    "is_flag": True,
    "help": "Timing only: simulate until the tasks repeat themselves, and extrapolate the rest, with a bound.",
}


def steady_option(function: Function) -> Function:
    """--steady."""
    return click.option("--steady", **STEADY)(function)


def dma_option(function: Function) -> Function:
    """--dma."""
    return click.option(
        "--dma",
        type=click.Choice(["complete", "late"]),
        default="complete",
        show_default=True,
        help="When an asynchronous copy acts: as it completes, or only when a sync orders it.",
    )(function)


def output_options(function: Function) -> Function:
    """--json, --quiet and --force."""
    function = force_option(function)
    function = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")(function)
    return click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")(function)


def check_directory(option: str, text: str | None, names: Iterable[str] | None = None) -> None:
    """Raise `InputError`, before anything runs, if a directory cannot be created or written to.

    `names` are the files to write, by default a report's: none may be an input, or a file that mlusim did not write.
    """
    if text is None:
        return
    target = Path(text).resolve()
    if target.exists() and not target.is_dir():
        raise InputError(f"{option} {text} is a file: name a directory")
    existing = next(folder for folder in (target, *target.parents) if folder.exists())
    if not existing.is_dir():
        raise InputError(f"{option} {text}: {existing} is a file, so no directory can be made in it")
    check_writable(f"{option} {text}", existing)
    if names is None:
        from mlusim.analysis.pictures import report_names

        names = report_names()
    for name in names:
        check_target(option, str(Path(text) / name))


def check_writable(where: str, directory: Path) -> None:
    """Raise `InputError` if no file can be created in a directory; access rights are not conclusive on every system."""
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".mlusim-"):
            pass
    except OSError as error:
        raise InputError(f"{where}: the directory {directory} cannot be written: {error.strerror or error}") from error


COMPILE_OPTIONS = ("include", "define", "std", "compiler")


def compile_options(function: Function) -> Function:
    """Options for compiling a BANG C file."""
    for option in (
        click.option("--compiler", metavar="COMMAND", help="C++ compiler. [default: g++, clang++, or the wheel's]"),
        click.option("--std", default="gnu++17", show_default=True, metavar="STANDARD", help="C++ standard."),
        click.option("--define", "-D", multiple=True, metavar="NAME[=VALUE]", help="A macro. May be repeated."),
        click.option("--include", "-I", multiple=True, metavar="DIR", help="A folder of headers. May be repeated."),
    ):
        function = option(function)
    return function
