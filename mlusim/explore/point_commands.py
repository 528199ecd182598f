"""The best point of a tuning as a command line, and as a call in Python."""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlusim.bangc.kernel_files import compile_words
from mlusim.dtypes import dtype_name
from mlusim.errors import flag_of
from mlusim.explore.axis_values import several
from mlusim.explore.kernel_call import OF_A_RUN
from mlusim.explore.point import Point, option_json
from mlusim.hardware import Board
from mlusim.hardware.presets import preset, preset_names
from mlusim.ops.commands import command_of


def operator_command_line(point: Point, device: Any) -> str:
    """Return the equivalent `mlusim run ...` command."""
    command = command_of(point.axes.operator)
    arguments = ["mlusim", "run", command.name, "--shape", ",".join(map(str, point.shape or ()))]
    arguments += [flag_of(command.operator.data_option), str(point.columns[point.axes.dtype_name])]
    for attribute in command.all_attributes:
        value = point.options.get(attribute.name)
        if value is True:
            arguments.append(flag_of(attribute.name))
        elif value is not None and value is not False and not (attribute.quiet and value == attribute.default):
            arguments += [flag_of(attribute.name), str(point.columns[attribute.name])]
    if point.axes.seed:
        arguments += ["--seed", str(point.axes.seed)]
    arguments += ["--device", _device_name(device, point.board), "--strategy", str(point.strategy)]
    if point.nram_limit_bytes is not None:
        arguments += ["--nram-limit", str(point.nram_limit_bytes)]
    return shlex.join(arguments)


def operator_python(point: Point, device: Any) -> str:
    """Return the equivalent call of `mlusim.ops`, for arrays of that shape."""
    record, attributes = command_of(point.axes.operator).choose(point.options)
    quiet = {
        attribute.name
        for attribute in record.attributes
        if attribute.quiet and attributes[attribute.name] == attribute.default
    }
    arguments = [
        *record.tensors,
        *(f"{name}={option_json(value)!r}" for name, value in attributes.items() if name not in quiet),
    ]
    arguments.append(f"device={_device_name(device, point.board)!r}")
    arguments.append(f"strategy={point.strategy!r}")
    if point.nram_limit_bytes is not None:
        arguments.append(f"nram_limit_bytes={point.nram_limit_bytes}")
    return f"mlusim.ops.{record.name}({', '.join(arguments)})"


def kernel_command_line(point: Point, name: str, device: Any) -> str:
    """Return the `mlusim run ...` command of a kernel, which `name` says how to find."""
    kernel = point.axes.kernel
    arguments = ["mlusim", "run", name, *(compile_words(kernel.function) if kernel else ())]
    for argument in point.axes.arguments:
        arguments += ["--arg", argument]
    if point.shape is not None:
        arguments += ["--shape", ",".join(map(str, point.shape)), "--dtype", dtype_name(point.dtype)]
    for setting, value in point.options.items():
        arguments += ["--set", f"{setting}={value}"]
    for option, value in point.launch.items():
        arguments += [
            f"--{option.replace('_', '-')}",
            ",".join(map(str, value)) if isinstance(value, tuple) else str(value),
        ]
    if point.axes.seed:
        arguments += ["--seed", str(point.axes.seed)]
    return shlex.join([*arguments, "--device", _device_name(device, point.board)])


def kernel_name(kernel: str | Callable[..., Any]) -> str:
    """Return how a command names a kernel: `file.py:function` where another process finds it, else its name."""
    if isinstance(kernel, str):
        return kernel
    name = str(getattr(kernel, "__qualname__", type(kernel).__name__))
    code = getattr(inspect.unwrap(kernel), "__code__", None)
    if code is None or not name.isidentifier() or not Path(code.co_filename).is_file():
        return name.rpartition(".")[2]
    return f"{os.path.relpath(code.co_filename)}:{name}"


def kernel_python(point: Point, device: Any) -> str:
    """Return the call of `mlusim.run`, for arrays of these shapes; of a launching function the lines that call it."""
    kernel, name = point.axes.kernel, point.axes.operator
    if kernel and kernel.launches:
        settings = [f"{name}={value!r}" for name, value in point.options.items()]
        arguments = ["device", repr(point.shape), repr(dtype_name(point.dtype)), *settings]
        device_call = f"device = mlusim.Device({_device_name(device, point.board)!r}, data=False)"
        return f"{device_call}; {name}({', '.join(arguments)}); device.synchronize()"
    tensors = kernel.tensors if kernel else ()
    # A setting called as a parameter of `run` is bound before.
    bound_settings = [f"{name}={value!r}" for name, value in point.options.items() if name in OF_A_RUN]
    arguments = [
        f"functools.partial({', '.join([name, *bound_settings])})" if bound_settings else name,
        *tensors,
        f"device={_device_name(device, point.board)!r}",
    ]
    arguments += [f"{name}={value!r}" for name, value in point.options.items() if name not in OF_A_RUN]
    arguments += [f"{name}={value!r}" for name, value in point.launch.items()]
    return f"mlusim.run({', '.join(arguments)})"


def _device_name(device: Any, board: Board) -> str:
    """Return a board as the user named it, by name or file; a preset's name; else a file, which `to_toml` makes."""
    (device_given,) = several(device)
    if isinstance(device_given, str | Path):
        return str(device_given)
    return board.name if board.name in preset_names() and board == preset(board.name) else f"{board.name}.toml"
