"""Options that commands share, and what they take: shapes, lists of axes, element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mlusim.errors import InputError

if TYPE_CHECKING:
    from mlusim.hardware import Board

    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # not subscriptable in every version

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_DEVICE = "mlu370-x4"


class Integers(ParamType):
    """Integers separated by commas: `0,2` or `-1`."""

    name = "integers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """A tuple of the integers."""
        if not isinstance(value, str):
            return tuple(value)
        try:
            return tuple(int(part) for part in value.split(",")) if value.strip() else ()
        except ValueError:
            self.fail(f"{value!r} is no list of integers such as 0,2", param, ctx)


class Shape(ParamType):
    """A shape: `2,8,256,196` or `2x8x256x196`."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """A tuple of the extents."""
        if not isinstance(value, str):
            return tuple(value)
        text = value.strip().strip("[]()").lower().replace("x", ",").replace(" ", "")
        try:
            extents = tuple(int(part) for part in text.split(",")) if text else ()
        except ValueError:
            extents = (-1,)
        if min(extents, default=0) < 0:
            self.fail(f"{value!r} is no shape such as 2,8,256,196 or 2x8x256x196", param, ctx)
        return extents


class DeviceName(ParamType):
    """A board: the name of a preset, or a TOML file."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Board:
        """The board's record."""
        from mlusim.hardware import board

        del param, ctx
        found: Board = board(value)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Names of presets, then files."""
        from click.shell_completion import CompletionItem

        from mlusim.hardware.presets import preset_names

        del ctx, param
        found = [CompletionItem(name) for name in preset_names() if name.startswith(incomplete.lower())]
        return found or [CompletionItem(incomplete, type="file")]


class ElementType(ParamType):
    """An element type by name: float16, bfloat16, int32, ..."""

    name = "dtype"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The dtype."""
        from mlusim.dtypes import dtype_of

        try:
            return dtype_of(value)
        except InputError as error:
            self.fail(str(error), param, ctx)


class Size(ParamType):
    """Bytes: `65536` or `64KiB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        from mlusim.explore.values import numbers

        if not isinstance(value, str):
            return int(value)
        found = numbers("bytes", value)
        if len(found) != 1:
            self.fail(f"{value!r} is no single size such as 64KiB", param, ctx)
        return int(found[0])


SHAPE, INTEGERS, DEVICE, ELEMENT_TYPE, SIZE = Shape(), Integers(), DeviceName(), ElementType(), Size()


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


def report_option(function: Function) -> Function:
    """--report."""
    return click.option(
        "--report",
        metavar="DIR",
        help="Write report.html there, pictures (timeline, tile map, traffic, bandwidth), summary.json and trace.json.",
    )(function)


def save_run_option(function: Function) -> Function:
    """--save-run."""
    return click.option(
        "--save-run", metavar="FILE", help="Write the whole run there: for `mlusim retime`, and mlusim.load."
    )(function)


def output_options(function: Function) -> Function:
    """--json and --quiet."""
    function = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")(function)
    return click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")(function)


def check_directory(option: str, text: str | None) -> None:
    """Raise `InputError`, before anything runs, where a directory for output cannot be one."""
    from pathlib import Path

    if text is not None and Path(text).exists() and not Path(text).is_dir():
        raise InputError(f"{option} {text} is a file: name a directory")
