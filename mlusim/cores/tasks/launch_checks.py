"""The checks of a launch against its board: the kernel, its arguments, the grid and the task type."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.core import Kernel
from mlusim.errors import LaunchError, MlusimError, shown
from mlusim.inputs import as_tuple
from mlusim.memory.view import View
from mlusim.units import plural, round_up

if TYPE_CHECKING:
    from mlusim.cores.machine.chip import Chip
    from mlusim.hardware import Board

MAX_GRID = 65535
UNIONS = {f"UNION{clusters}": clusters for clusters in (1, 2, 4, 8, 16)}
# By their names elsewhere, as in CNRT, CUDA and NumPy, the settings of a launch and of `verify`.
LAUNCH_SETTINGS = {
    "grid": "dim",
    "grid_dim": "dim",
    "k_dim": "dim",
    "task_dim": "dim",
    "tasks": "dim",
    "func_type": "kind",
    "k_type": "kind",
    "task_type": "kind",
    "union": "kind",
    "board": "device",
    "rtol": "tolerance",
    "atol": "absolute_tolerance",
}
_AXES = 3
_GRID = "a grid is three integers (x, y, z), or fewer"


def kernel_name(kernel: object) -> str:
    """Return the name of a kernel, also of a `functools.partial` of one; of an object without a name, its repr."""
    while isinstance(kernel, partial) and not hasattr(kernel, "__name__"):
        kernel = kernel.func
    name = getattr(kernel, "__name__", None)
    return name if isinstance(name, str) else shown(kernel)


def parameter_names(kernel: Callable[..., Any], count: int) -> list[str]:
    """Return the names of a kernel's parameters after `core`."""
    try:
        parameters = list(inspect.signature(kernel).parameters.values())[1:] if callable(kernel) else []
    except (TypeError, ValueError):
        parameters = []
    names = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return [*names[:count], *(f"argument {number}" for number in range(len(names), count))]


def keyword_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's keyword-only parameters."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


def as_grid(dim: Any) -> tuple[Any, ...]:
    """Return a grid of three axes from an integer, or from a sequence, whose missing axes have the extent 1.

    Other values are wrapped in a tuple for `check_launch` to reject.
    """
    if isinstance(dim, int | np.integer) and not isinstance(dim, bool):
        return (int(dim), 1, 1)
    extents = as_tuple(dim)
    if not isinstance(extents, tuple):
        return (dim,)
    grid = tuple(int(extent) if isinstance(extent, np.integer) else extent for extent in extents)
    return grid + (1,) * (_AXES - len(grid)) if grid else grid


def check_launch(
    chip: Chip,
    kernel: Kernel,
    arguments: tuple[Any, ...],
    settings: dict[str, Any],
    dim: tuple[int, int, int],
    kind: str,
) -> int:
    """Check a launch against the board; returns n of UNIONn, or 0 for BLOCK. Raises `LaunchError`."""
    name = kernel_name(kernel)
    _check_kernel(kernel, name)
    signature = inspect.signature(kernel)
    try:
        signature.bind(None, *arguments, **settings)
    except TypeError as error:
        wrong_name = next((setting for setting in settings if setting not in signature.parameters), "")
        right_name = LAUNCH_SETTINGS.get(wrong_name.lower(), "")
        advice = f"; did you mean {right_name}?" if right_name in ("dim", "kind") else ""
        if not advice and str(error).startswith("missing"):
            advice = (
                "; each parameter needs an argument, including outputs: mlusim.Output(shape, dtype), or Device.alloc"
            )
        raise LaunchError(
            f"{name}{signature} was launched with {plural(len(arguments), 'argument')} after `core`: {error}{advice}"
        ) from None
    for argument in (*arguments, *settings.values()):
        if isinstance(argument, View):
            if argument.allocation.memory is not chip.gdram:
                raise LaunchError(f"{name}: {argument!r} is not in this device's GDRAM: upload or allocate it there")
            if argument.allocation.freed:
                raise LaunchError(f"{name}: {argument!r} was freed; upload or allocate it again")
    check_grid(dim, name)
    union = clusters_of(kind, name)
    if union:
        _check_union(chip.board, name, dim, union)
    return union


def check_grid(dim: tuple[Any, ...], name: str) -> None:
    """Raise `LaunchError`, naming the kernel, for a result of `as_grid` that is not a grid on any board."""
    if len(dim) != _AXES or not all(isinstance(extent, int) and not isinstance(extent, bool) for extent in dim):
        # A value that is neither an integer nor a sequence is a tuple of itself.
        is_single = len(dim) == 1 and type(dim[0]) is not int
        raise LaunchError(f"{name}: dim {shown(dim[0] if is_single else dim)}: {_GRID}")
    if min(dim) < 1 or max(dim) > MAX_GRID:
        remedy = "loop inside the kernel" if max(dim) > MAX_GRID else "guard an empty launch with `if`"
        raise LaunchError(f"{name}: dim {dim}: each axis of a grid must be 1 to {MAX_GRID}; {remedy}")


def clusters_of(kind: object, name: str = "") -> int:
    """Return n of the task type UNIONn, or 0 for BLOCK. Raises `LaunchError` for another; `name` is the kernel's."""
    kinds = {"BLOCK": 0} | UNIONS
    word = kind if isinstance(kind, str) else ""
    if word not in kinds:
        prefix = f"{name}: " if name else ""
        # As CNRT spells it, or in lower case.
        kind_name = word.upper().replace("_", "").removeprefix("CNRTFUNCTYPE")
        advice = f"did you mean {kind_name}? " if kind_name in kinds else ""
        raise LaunchError(f"{prefix}task type {shown(kind)}: {advice}choose one of {', '.join(kinds)}")
    return kinds[word]


def check_not_called(kernel: object, error: type[MlusimError]) -> None:
    """Raise an error for a coroutine object, the result of calling a kernel."""
    if inspect.iscoroutine(kernel):
        kernel.close()
        raise error(
            f"the kernel is a coroutine object instead of a function: pass `{kernel.__name__}` itself instead of "
            "calling it"
        )


def _check_kernel(kernel: Kernel, name: str) -> None:
    """Raise `LaunchError` for anything but a coroutine function."""
    check_not_called(kernel, LaunchError)
    function: Any = kernel
    if isinstance(function, str):  # possible without a type checker
        raise LaunchError(
            f"the kernel is a name, {shown(function)}: pass the function itself, imported from its file (a name is for "
            "commands, mlusim.sweep and mlusim.tune); operators are functions of mlusim.ops"
        )
    if not inspect.iscoroutinefunction(kernel):
        if inspect.iscoroutinefunction(getattr(kernel, "__call__", None)):  # noqa: B004 - a method, not whether it can
            raise LaunchError(f"{shown(kernel)} is an object whose `__call__` is a kernel: pass that method itself")
        function_name = name if callable(kernel) and name.isidentifier() else "kernel"
        kernel_text = name if callable(kernel) else shown(kernel)
        raise LaunchError(
            f"{kernel_text} is not a kernel: write it as `async def {function_name}(core, ...)`, without `yield`"
        )


def _check_union(board: Board, name: str, dim: tuple[int, int, int], union: int) -> None:
    """Raise `LaunchError` if the board, or the grid, does not allow a union of `union` clusters."""
    if union > min(board.max_union, board.clusters):
        raise LaunchError(
            f"{name}: UNION{union} needs {plural(union, 'cluster')} at once; {board.name} takes at most "
            f"UNION{board.max_union} and has {plural(board.clusters, 'cluster')}"
        )
    cores = board.cores_per_cluster
    width = union * cores
    if dim[0] % width:
        suggested = min(round_up(dim[0], width), MAX_GRID // width * width)
        raise LaunchError(
            f"{name}: dim.x = {dim[0]} for UNION{union}: it must be a multiple of {width} ({plural(cores, 'core')} x "
            f"{plural(union, 'cluster')}); try {suggested}"
        )
