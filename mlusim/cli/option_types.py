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
        from mlusim.cores.tasks.launch_checks import MAX_GRID

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
        from mlusim.cores.tasks.launch_checks import UNIONS

        if not isinstance(value, str):
            return value
        known = ("BLOCK", *UNIONS)
        kinds = [part.strip().upper() for part in value.split(",")] if self.several else [value.strip().upper()]
        for kind in kinds:
            if kind not in known:
                self.fail(f"{kind!r} is not a task type; choose one of {', '.join(known)}", param, ctx)
        return kinds if self.several else kinds[0]


class Shape(ParamType):
    """A shape: `2,8,256,196` or `2x8x256x196`."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return a tuple of the extents."""
        from mlusim.inputs import extents_of

        if not isinstance(value, str):
            return tuple(value)
        extents = extents_of(value)
        if extents is None:
            self.fail(f"{value!r} is not a shape such as 2,8,256,196 or 2x8x256x196", param, ctx)
        return extents


class KernelShape(Shape):
    """The shape of a kernel's tensors; one tensor's own shape is an argument of `--arg`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return a tuple of the extents."""
        name, equals, shape = value.partition("=") if isinstance(value, str) else ("", "", "")
        if equals and name:
            self.fail(
                f"{value!r} names a tensor, but --shape is that of all tensors without --arg; for an output pass --arg "
                f"{name}=float32:{shape}, for a random input --arg {name}=random:float32:{shape}",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


class DeviceName(ParamType):
    """A board: the name of a preset, or a TOML file."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Board:
        """Return the board."""
        from mlusim.hardware import board

        if isinstance(value, str) and "," in value and not Path(value).exists():
            self.fail(f"{value!r} names several boards; `mlusim compare` and `mlusim sweep` take several", param, ctx)
        chosen: Board = board(value)
        if isinstance(value, str) and Path(value).is_file():
            register(ctx, param, value, writes=False)
        return chosen

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


class Size(ParamType):
    """Bytes: `65536` or `64KiB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        from mlusim.quantities import quantity

        if not isinstance(value, str):
            return int(value)
        if value.strip().startswith("-"):
            self.fail(f"{value} is negative: a size is 0 or more, such as 64KiB", param, ctx)
        try:
            return int(quantity("bytes", value))
        except InputError:
            self.fail(f"{value!r} is not a size such as 65536 or 64KiB", param, ctx)


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
                f"{value!r} is not a number of operations: it must be an integer of at least 0, such as 2000000",
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
        register(ctx, param, str(value), writes=self._writes)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Leave completion of files or directories to the shell."""
        from click.shell_completion import CompletionItem

        del ctx, param
        return [CompletionItem(incomplete, type="dir" if self.name == "directory" else "file")]


SHAPE, INTEGERS, DEVICE, ELEMENT_TYPE, SIZE = Shape(), Integers(), DeviceName(), ElementType(), Size()
KERNEL_SHAPE = KernelShape()
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


def assignment(option: str, text: str, form: str) -> tuple[str, str]:
    """Return name and value of an option written as NAME=VALUE; `form` is how to write it, for the message."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise InputError(f"{option} {text}: write {form}")
    return name.replace("-", "_"), value


def board_parameters() -> list[str]:
    """Return the names of a board's numeric parameters."""
    from dataclasses import fields

    from mlusim.hardware import Board

    return [item.name for item in fields(Board) if str(item.type) in {"int", "float"}]


def board_names() -> Iterable[str]:
    """Return the names of all presets."""
    from mlusim.hardware.presets import preset_names

    return preset_names()
