"""Errors of calls whose arguments do not fit a function: a misspelt keyword, a missing argument, one too many."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

from mlusim.errors import ArgumentsError, it_has
from mlusim.ops.call import RunOptions

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
    meant = SYNONYMS.get(word, "")
    if meant == "axes" and meant not in names:
        meant = "axis"
    has = f"did you mean {meant}? {it_has(names)}" if meant in names else it_has(names, word)
    return ArgumentsError(f"{function} has no argument {word!r}: {has}")


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
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    by_position = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    names = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    if len(names) < len(parameters):
        names += RunOptions.__annotations__
    positional = len(args) - (function.__qualname__ != name)
    for word in kwargs:
        if word not in names:
            return unknown_argument(name, word, names)
        if word in by_position[:positional]:
            return ArgumentsError(f"{name}: {word} is passed twice, by position and by name: pass it once")
    if positional > len(by_position):
        others = ", ".join(each for each in names if each not in by_position) or "none"
        return ArgumentsError(
            f"{name} takes {', '.join(by_position)} by position, and {positional} values were passed; by name: {others}"
        )
    required = [each.name for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    missing = [each for each in required if each not in by_position[:positional] and each not in kwargs]
    lacks = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    return ArgumentsError(f"{name}: {lacks}: it takes {', '.join(by_position)}")
