"""The axes of a sweep: lookup of names, parsing of texts, normalisation to lists, and validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeGuard

import numpy as np

from mlusim.cores.tasks.launch_checks import as_grid, check_grid, clusters_of
from mlusim.dtypes import FLOAT32
from mlusim.errors import InputError, shown
from mlusim.explore.axes import CORES, Axes
from mlusim.explore.axis_values import board_parameter, boards_of, dtypes_of, listed, numbers, several, shapes
from mlusim.explore.kernel_call import refused_as_input
from mlusim.explore.point import USABLE_NRAM
from mlusim.explore.setting_values import with_texts_parsed
from mlusim.explore.user_kernels import UserKernel, kernel_of
from mlusim.host.arguments import assign, parse_argument
from mlusim.host.steady.steady import check_steady
from mlusim.inputs import as_count, as_mapping, as_shape, as_text, as_texts, as_tuple, check_choice, check_operations
from mlusim.ops.commands import Command, command_of
from mlusim.source_code import is_kernel_name
from mlusim.spelling import it_has, nearest

# Parameters of both `sweep` and `tune`.
_OF_ALL = ("shape", "dtype", "device", "strategy", "arguments", "seed", "db", "workers", "progress", "settings")
_LAUNCH = ("dim", "kind", "theory_ops")
# Parameters of a board that parameters of `sweep` decide.
_DECIDED_BY = {"clusters": "cores", "cores_per_cluster": "cores", "nram_bytes": "nram_bytes"}


def axes_of(
    operation: str | Callable[..., Any],
    *,
    device: Any,
    options: Mapping[str, Any],
    shape: Any = None,
    arguments: Sequence[str] = (),
    dtype: Any = None,
    strategy: Any = None,
    nram_bytes: Any = None,
    nram_limit_bytes: Any = None,
    cores: Any = None,
    vary: Mapping[str, Any] | None = None,
    data: bool = False,
    seed: int = 0,
    steady: bool = False,
    kernel_version: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Axes:
    """Return the validated axes for these arguments of `sweep`. Raises `InputError` and `BoardError`."""
    swept = {name: several(value) for name, value in options.items()}
    named_settings = {name: several(value) for name, value in as_mapping("settings", settings).items()}
    seed = as_count("seed", seed, minimum=0)
    # One text is a list of one. Elements that are not texts are reported with the forms that an argument may have.
    texts = as_tuple(arguments)
    arguments = texts if isinstance(texts, tuple) else as_texts("arguments", arguments)
    check_steady(steady=steady, data=data)
    kernel_version = as_text("kernel_version", kernel_version)
    operation = operator_by_name(operation)
    if is_operator(operation):
        _check_no_kernel_options(operation, arguments=arguments, settings=named_settings)
        axes = _operator_axes(operation, swept, shape=shape, dtype=dtype, strategy=strategy)
    else:
        kernel = kernel_of(operation, kernel_version)
        _check_arguments(kernel, arguments, shape)
        axes = _kernel_axes(
            kernel, swept, named_settings, dtype=dtype, strategy=strategy, nram_limit_bytes=nram_limit_bytes
        )
    varied = {parameter: _board_values(parameter, values) for parameter, values in as_mapping("vary", vary).items()}
    for parameter in varied:
        decided_by = _DECIDED_BY.get(parameter, "")
        if {"cores": cores, "nram_bytes": nram_bytes}.get(decided_by) is not None:
            raise InputError(f"vary: {decided_by} decides the board's {parameter}: pass only one of the two")
    return replace(
        axes,
        arguments=tuple(arguments),
        data=data,
        seed=seed,
        steady=steady,
        shapes=[None] if shape is None else _shapes(shape),
        boards=boards_of(device),
        board_changes={
            USABLE_NRAM: _positive_integers("nram_bytes", nram_bytes),
            CORES: _positive_integers("cores", cores),
            **varied,
        },
        nram_limits=_positive_integers("nram_limit_bytes", nram_limit_bytes),
    )


def _check_no_kernel_options(operation: str, *, arguments: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raise `InputError` for what only kernels have."""
    if arguments:
        raise InputError(f"{operation} is an operator: arguments are for kernels of your own; pass shape and options")
    if settings:
        raise InputError(f"{operation} is an operator: settings are for kernels of your own; pass options by name")


def _operator_axes(operation: str, options: dict[str, list[Any]], *, shape: Any, dtype: Any, strategy: Any) -> Axes:
    """Return the axes that an operator has: its element types, strategies and options."""
    command = command_of(operation)
    attribute_names = [attribute.name for attribute in command.all_attributes]
    for name in options:
        if name not in (*attribute_names, command.operator.data_option):
            raise InputError(
                f"{name}: {operation} has no such option; {_suggest_option(name, attribute_names)}"
                f"{it_has(attribute_names)}"
            )
    if shape is None:
        raise InputError(f"{operation}: its inputs need a shape, such as shape=(64, 64)")
    if command.operator.data_option != "dtype":
        # The operator's own dtype is that of its output.
        if dtype is not None:
            options["dtype"] = dtypes_of(dtype)
        dtype = options.pop(command.operator.data_option, None)
    options = {name: options.get(name, [default]) for name, default in command.options(options).items()}
    return Axes(
        operator=command.name,
        dtype_name=command.operator.data_option,
        dtypes=_dtypes(dtype),
        strategies=_strategies(command, options, strategy),
        options=options,
    )


def _suggest_option(name: str, names: Iterable[str]) -> str:
    """Suggest an option for an unknown one: of the operator or kernel, or a parameter of every sweep and tuning."""
    return nearest(name, names) or nearest(name, _OF_ALL, cutoff=0.75)


def _dtypes(dtype: Any) -> list[Any]:
    return dtypes_of(FLOAT32 if dtype is None else dtype)


def _kernel_axes(
    kernel: UserKernel,
    options: dict[str, list[Any]],
    named_settings: dict[str, list[Any]],
    *,
    dtype: Any,
    strategy: Any,
    nram_limit_bytes: Any,
) -> Axes:
    """Return the axes of a kernel: `options` are its launch and its settings; `named_settings` are only settings."""
    name = kernel.name
    if "strategy" in kernel.settings and strategy is not None:
        named_settings = {"strategy": several(strategy), **named_settings}
        strategy = None
    if strategy is not None or nram_limit_bytes is not None:
        parameter = "strategy" if strategy is not None else "nram_limit_bytes"
        raise InputError(f"{parameter}: {name} is a function of your own, which no planner splits: omit it")
    launch = {key: options.pop(key) for key in _LAUNCH if key in options}
    if "dim" in launch:
        launch["dim"] = [dim if dim is None else as_grid(dim) for dim in launch["dim"]]
    with refused_as_input():
        for dim in launch.get("dim", ()):
            if dim is not None:
                check_grid(dim, name)
        for kind in launch.get("kind", ()):
            if kind is not None:
                clusters_of(kind, name)
    for operations in launch.get("theory_ops", ()):
        check_operations(operations)
    grid = [key for key in launch if key != "theory_ops"]
    if grid and kernel.launches:
        parameter = " and ".join(grid)
        raise InputError(f"{parameter}: {name} launches its kernels itself: make it a setting of {name}")
    settings = {**options, **named_settings}
    unknown_settings = [key for key in settings if key not in kernel.settings]
    if unknown_settings:
        raise InputError(
            f"{unknown_settings[0]}: {name} has no such parameter with a default, which is a setting; "
            f"{_suggest_option(unknown_settings[0], kernel.settings)}{it_has(kernel.settings)}"
        )
    settings = with_texts_parsed(settings, kernel.settings)
    return Axes(operator=name, kernel=kernel, dtypes=_dtypes(dtype), options=settings, launch=launch)


def is_operator(operation: str | Callable[..., Any]) -> TypeGuard[str]:
    """Return whether the operation is an operator's name, not a user's function or the name of one in a file."""
    return isinstance(operation, str) and not is_kernel_name(operation)


def _check_arguments(kernel: UserKernel, arguments: Sequence[str], shape: Any) -> None:
    """Raise `InputError` for arguments that do not match the kernel, before anything runs."""
    if kernel.launches:
        if arguments or shape is None:
            raise InputError(
                f"{kernel.name} is a plain function (device, shape, dtype, **settings): it takes a shape, no arguments"
            )
        return
    first = None if shape is None else ()
    assign(
        kernel.name,
        kernel.tensors,
        [parse_argument(text) for text in arguments],
        shape=first,
        optional=tuple(kernel.settings),
        types=kernel.types,
    )


def operator_by_name(operation: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Replace a function of `mlusim.ops` by the name of its operator."""
    if isinstance(operation, str) or not (getattr(operation, "__module__", "") or "").startswith("mlusim.ops"):
        return operation
    if operation.__name__ == "tin_shift_backward":
        raise InputError("tin_shift_backward is an option of tin_shift: sweep('tin_shift', backward=True, ...)")
    return operation.__name__.removesuffix("_forward")


def _strategies(command: Command, options: Mapping[str, list[Any]], strategy: Any) -> list[str | None]:
    known = tuple(command.operator.strategies)
    for values in product(*options.values()):
        # Raises for incompatible options, before anything runs.
        operator, _ = command.choose(dict(zip(options, values, strict=True)))
        known = tuple(operator.strategies)
    if strategy is None:
        return [known[0]]
    names = [*map(str, listed(strategy))]
    if "all" in names:
        return list(known)
    for name in names:
        check_choice("strategy", name, known)
    return [*dict.fromkeys(names)]


def _shapes(shape: Any) -> list[tuple[int, ...] | None]:
    extents: list[tuple[int, ...]] = []
    if isinstance(shape, np.ndarray) and shape.ndim == 1 and shape.size > 1:
        raise InputError(
            f"shape={shown(shape)} may be one shape or several: pass tuple(...) for one shape, list(...) for several"
        )
    for value in several(shape):
        if isinstance(value, str):
            extents += shapes(value)
            continue
        extents.append(as_shape("shape", value))
    return list(dict.fromkeys(extents))


def _numbers(name: str, values: Any, *, integers: bool = True) -> Iterator[Any]:
    """Return the values of a list, with each text replaced by its numbers; with `integers`, 307.2e9 is an integer."""
    for value in several(values):
        if isinstance(value, str):
            yield from numbers(name, value, integers=integers)
        else:
            yield int(value) if integers and isinstance(value, float) and value.is_integer() else value


def _positive_integers(name: str, values: Any) -> list[int | None]:
    parsed: dict[int | None, None] = {}
    for number in _numbers(name, values):
        try:
            parsed[None if number is None else as_count(name, number)] = None
        except InputError:
            raise InputError(f"{name}: {shown(number)} is not a whole number above 0") from None
    return [*parsed]


def _board_values(parameter: str, values: Any) -> list[Any]:
    is_integer = board_parameter(parameter) is int
    parsed = [*_numbers(parameter, values, integers=is_integer)]
    for number in parsed:
        if isinstance(number, bool) or not isinstance(number, int if is_integer else int | float):
            raise InputError(f"{parameter}: {shown(number)} is not a {'whole number' if is_integer else 'number'}")
    return [*dict.fromkeys(parsed)]
