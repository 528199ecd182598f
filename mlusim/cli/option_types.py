"""Types of options: shapes, grids, boards, element types, sizes, files; and their completion by the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli.command_files import register
from mlusim.errors import InputError

if TYPE_CHECKING:
    from mlusim.hardware import Board

    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # not subscriptable in every version


_AXES = 3  # of a grid


class Parsed(ParamType):
    """The values that a function returns for a text; it raises `InputError` for a wrong one."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text; other values, such as defaults, unchanged."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except InputError as error:
            self.fail(error.message, param, ctx)


def _integers(text: str) -> tuple[int, ...]:
    """Parse integers separated by commas: `0,2` or `-1`."""
    try:
        return tuple(int(part) for part in text.split(",")) if text.strip() else ()
    except ValueError:
        raise InputError(f"{text!r} is not a list of integers such as 0,2") from None


def _grid(text: str) -> tuple[int, ...]:
    """Parse the grid of a launch: `4,8,1` or `4`; whether a board can launch it is for the launch to say."""
    from mlusim.cores.tasks.launch_checks import MAX_GRID

    grid = _integers(text)
    if not 1 <= len(grid) <= _AXES or min(grid) < 1 or max(grid) > MAX_GRID:
        raise InputError(f"{text!r} is not a grid: one to three extents from 1 to {MAX_GRID}, such as 4,8,1")
    return grid


def _kind(text: str) -> str:
    """Parse a task type."""
    from mlusim.cores.tasks.launch_checks import UNIONS

    kind, kinds = text.strip().upper(), ("BLOCK", *UNIONS)
    if kind not in kinds:
        raise InputError(f"{kind!r} is not a task type; choose one of {', '.join(kinds)}")
    return kind


def _shape(text: str) -> tuple[int, ...]:
    """Parse a shape: `2,8,256,196` or `2x8x256x196`."""
    from mlusim.inputs import parse_shape

    return parse_shape(text)


def _kernel_shape(text: str) -> tuple[int, ...]:
    """Parse the shape of a kernel's tensors; one tensor's own shape is an argument of `--arg`."""
    name, equals, shape = text.partition("=")
    if equals and name:
        raise InputError(
            f"{text!r} names a tensor, but --shape is that of all tensors without --arg; for an output pass --arg "
            f"{name}=float32:{shape}, for a random input --arg {name}=random:float32:{shape}"
        )
    return _shape(text)


def _size(text: str) -> int:
    """Parse bytes: `65536` or `64KiB`."""
    from mlusim.quantities import quantity

    if text.strip().startswith("-"):
        raise InputError(f"{text} is negative: a size is 0 or more, such as 64KiB")
    try:
        return int(quantity("bytes", text))
    except InputError:
        raise InputError(f"{text!r} is not a size such as 65536 or 64KiB") from None


def _operations(text: str) -> int:
    """Parse a number of operations: `2000000` or `2e6`."""
    try:
        count = int(text) if text.isdecimal() else float(text)
    except ValueError:
        count = -1
    if not 0 <= count < float("inf") or count != int(count):
        raise InputError(
            f"{text!r} is not a number of operations: it must be an integer of at least 0, such as 2000000"
        )
    return int(count)


INTEGERS, GRID, SHAPE = Parsed("integers", _integers), Parsed("grid", _grid), Parsed("shape", _shape)
KERNEL_SHAPE = Parsed("shape", _kernel_shape)
KIND, KINDS = Parsed("kind", _kind), Parsed("kind", lambda text: [_kind(part) for part in text.split(",")])
SIZE, OPERATIONS = Parsed("size", _size), Parsed("operations", _operations)


class DeviceName(ParamType):
    """A board: the name of a preset, or a TOML file."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Board:
        """Return the board."""
        from mlusim.hardware import board

        if isinstance(value, str) and "," in value and not Path(value).exists():
            self.fail(f"{value!r} names several boards; `mlusim compare` and `mlusim sweep` take several", param, ctx)
        device: Board = board(value)
        if isinstance(value, str) and Path(value).is_file():
            register(ctx, param, value, writes=False)
        return device

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
            # The other forms are for Python.
            self.fail(str(error).partition(", given as")[0], param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Complete names of the element types."""
        from click.shell_completion import CompletionItem

        from mlusim.dtypes import ALL, dtype_name

        del ctx, param
        return [CompletionItem(name) for name in map(dtype_name, ALL) if name.startswith(incomplete)]


class FileName(ParamType):
    """A file, completed by the shell; `writes`: the command writes it."""

    def __init__(self, kind: str = "file", *, writes: bool = False) -> None:
        self.name = kind
        self._writes = writes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name unchanged; it is checked when it is read or written."""
        register(ctx, param, str(value), writes=self._writes)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Leave completion of files or directories to the shell."""
        from click.shell_completion import CompletionItem

        del ctx, param
        return [CompletionItem(incomplete, type="dir" if self.name == "directory" else "file")]


DEVICE, ELEMENT_TYPE = DeviceName(), ElementType()
FILE, DIRECTORY, NEW_FILE = FileName(), FileName("directory", writes=True), FileName(writes=True)


def complete_from(names: Callable[[], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a `shell_complete` for an option with these values, also after a comma."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        del ctx, param
        earlier, comma, word = incomplete.rpartition(",")
        return [f"{earlier}{comma}{name}" for name in names() if name.startswith(word)]

    return complete


def complete_assignment(
    names: Callable[[], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a `shell_complete` for an option with values NAME=VALUE: the names, each with its `=`."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        del ctx, param
        return [f"{name}=" for name in names() if name.startswith(incomplete)]

    return complete


def assignments(option: str, texts: Iterable[str], form: str) -> dict[str, str]:
    """Return the values of an option written as NAME=VALUE by name; `form` is how to write it, for the message."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise InputError(f"{option} {text}: write {form}")
        name = name.replace("-", "_")
        if name in values:
            raise InputError(f"{option} {text}: {name} has a value already; several values are one list, {name}=4,8")
        values[name] = value
    return values


def board_parameters() -> list[str]:
    """Return the names of a board's numeric parameters."""
    from dataclasses import fields

    from mlusim.hardware import Board

    return [item.name for item in fields(Board) if str(item.type) in {"int", "float"}]


def board_names() -> Iterable[str]:
    """Return the names of all presets."""
    from mlusim.hardware.presets import preset_names

    return preset_names()
