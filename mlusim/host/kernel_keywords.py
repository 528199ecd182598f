"""The keywords of a call that launches a kernel: those of the function called, and those of the kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mlusim.cores.core import Kernel
from mlusim.cores.tasks.launch_checks import LAUNCH_SETTINGS, kernel_name, keyword_names, parameter_names
from mlusim.errors import ArgumentsError, InputError, shown
from mlusim.spelling import nearest


def check_own_names(
    kernel: Kernel, positional: int, keyword_values: Mapping[str, Any], caller: Callable[..., Any]
) -> None:
    """Raise `InputError` for a keyword that the kernel has, too, as a parameter not among the first `positional`.

    `keyword_values` are those of `caller`, which takes such a keyword itself, so that the kernel would not get it.
    """
    if not inspect.iscoroutinefunction(kernel):
        return
    bound_keywords = kernel.keywords if isinstance(kernel, partial) else {}
    for parameter in [*inspect.signature(kernel).parameters.values()][1 + positional :]:
        name = parameter.name
        if (
            name in bound_keywords
            or name not in keyword_values
            or parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
        ):
            continue
        of_caller = inspect.signature(caller).parameters[name]
        # The default may have been given, too; without one of its own, the kernel cannot run in any case.
        is_given = keyword_values[name] is not of_caller.default or parameter.default is parameter.empty
        if of_caller.kind is of_caller.KEYWORD_ONLY and is_given:
            raise InputError(
                f"{name}={shown(keyword_values[name])} is an argument of mlusim.{caller.__qualname__} itself, and "
                f"{kernel_name(kernel)} has a parameter of that name, which would not get it: rename the kernel's, or "
                "pass its value by position"
            )


def by_name(
    kernel: Kernel, arguments: Sequence[Any], settings: Mapping[str, Any], caller: Callable[..., Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of a call by parameter: the positional ones, and the keyword-only ones.

    `caller` is the function that was called, for the message of the `ArgumentsError` about an unknown setting.
    """
    names = parameter_names(kernel, len(arguments))
    if not settings or not inspect.iscoroutinefunction(kernel):  # the launch refuses what is not a kernel
        return dict(zip(names, arguments, strict=True)), {}
    _check_settings(kernel, names, settings, caller)
    arguments_bound = inspect.signature(kernel).bind_partial(None, *arguments, **settings)
    arguments_bound.apply_defaults()
    positional = arguments_bound.args[1:]
    keywords = {name: value for name, value in arguments_bound.kwargs.items() if name in settings}
    return dict(zip(parameter_names(kernel, len(positional)), positional, strict=True)), keywords


def _check_settings(
    kernel: Kernel, names: Sequence[str], settings: Mapping[str, Any], caller: Callable[..., Any]
) -> None:
    """Raise `ArgumentsError` for a parameter that the kernel does not have."""
    parameters = [*inspect.signature(kernel).parameters.values()][1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    own_names = [
        parameter.name
        for parameter in parameters
        if parameter.name not in names and parameter.kind is not parameter.POSITIONAL_ONLY
    ]
    name = kernel_name(kernel)
    for setting in settings:
        if setting in names:
            raise ArgumentsError(f"{name}: {setting} is given twice, by position and by name")
        if setting not in own_names:
            keywords = keyword_names(caller)
            has = f"{name} has {', '.join(own_names)}" if own_names else f"{name} has no parameter left"
            right_name = LAUNCH_SETTINGS.get(setting.lower())
            suggestion = (
                f"did you mean {right_name}? " if right_name in keywords else nearest(setting, [*own_names, *keywords])
            )
            raise ArgumentsError(
                f"{name} has no parameter {setting!r}: {suggestion}{has}; mlusim.{caller.__name__} has "
                f"{', '.join(keywords)}"
            )
