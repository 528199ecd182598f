"""Errors of calls whose arguments do not fit a function: a misspelt keyword, a missing argument, one too many."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

from mlusim.errors import ArgumentsError
from mlusim.ops.call import RunOptions
from mlusim.spelling import it_has

# The names of other libraries for arguments of operators: TensorFlow, PyTorch, ONNX, CINN.
SYNONYMS = {
    "board": "device",
    "dim": "axis",
    "dims": "axes",
    "indices": "index",
    "input": "x",
    "input_tensor": "x",
    "index_tensor": "index",
    "to": "dtype",
    "updates": "src",
}

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def unknown_argument(function: str, word: str, names: Iterable[str]) -> ArgumentsError:
    """Return the error for a keyword that a function does not have."""
    names = list(names)
    synonym = SYNONYMS.get(word, "")
    if synonym == "axes" and synonym not in names:
        synonym = "axis"
    has = f"did you mean {synonym}? {it_has(names)}" if synonym in names else it_has(names, word)
    return ArgumentsError(f"{function} has no argument {word!r}: {has}")


def converted(name: str, dtype: str) -> str:
    """Return the remedy for a tensor of another type, an array or a variable of a net."""
    return f"pass {name}.astype({dtype!r}), or in a net builder.cast({name}, {dtype!r})"


def explained(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Let calls with wrong arguments raise `ArgumentsError`, which is a `TypeError` too, with the names it has."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # Only an error of the call itself; one from within the function has a further frame.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            raise mismatch(function, args, kwargs) from None

    return call


def mismatch(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> ArgumentsError:
    """Return the error for arguments that do not fit the signature of a function or a method."""
    name = function.__name__
    parameters = [
        parameter for parameter in inspect.signature(function).parameters.values() if parameter.name != "self"
    ]
    by_position = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    names = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    if len(names) < len(parameters):
        names += RunOptions.__annotations__
    positional = len(args) - (function.__qualname__ != name)
    for word in kwargs:
        if word not in names:
            return unknown_argument(name, word, names)
        if word in by_position[:positional]:
            return ArgumentsError(f"{name}: {word} is passed twice, by position and by name: pass it once")
    if positional > len(by_position):
        others = ", ".join(parameter for parameter in names if parameter not in by_position) or "none"
        return ArgumentsError(
            f"{name} takes {', '.join(by_position)} by position, and {positional} values were passed; by name: {others}"
        )
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    missing_names = [
        parameter for parameter in required if parameter not in by_position[:positional] and parameter not in kwargs
    ]
    lacks = f"{' and '.join(missing_names)} {'is' if len(missing_names) == 1 else 'are'} missing"
    return ArgumentsError(f"{name}: {lacks}: it takes {', '.join(by_position)}")
