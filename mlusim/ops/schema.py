"""The parts of a schema: tensors, attributes, and example inputs.

Everything that has to list, read or check the arguments of an operator uses these records: the functions of
`mlusim.ops`, `mlusim.plan`, NetBuilder, sweeps, and the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index as as_index
from typing import Any, Literal, NamedTuple

import numpy as np

from mlusim.dtypes import Dtype, dtype_of
from mlusim.errors import InputError, nearest
from mlusim.host.draw import Draw

Array = np.ndarray[Any, Any]
Options = Mapping[str, Any]
Kind = Literal["integer", "integers", "dtype", "choice", "flag", "shape", "count"]
MAX_RANK = 64


class Tensor(NamedTuple):
    """A tensor before anything runs: its name in messages, its shape and its element type."""

    name: str
    shape: tuple[int, ...]
    dtype: Dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSchema:
    """An input tensor of an operator.

    Attributes:
        name: as the parameter of the function is called.
        help: its shape and element type, in a line.
        option: the option of the command line that names its file; by default the name.
        values_matter: the planner's checks or scalar code look at its values, so that it has its bytes also in a
            timing-only run. Of the others only shape and element type count there.
        dtype: element type where a caller names shapes alone; empty: the one of the operator's data.
    """

    name: str
    help: str
    option: str = ""
    values_matter: bool = False
    dtype: str = ""

    @property
    def flag_name(self) -> str:
        """Name of its option."""
        return self.option or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """An argument of an operator that is no tensor.

    Attributes:
        name: as the parameter of the function is called.
        kind: `integer`: one; `integers`: one or several, kept as a tuple; `dtype`: an element type; `choice`: one of
            `choices`; `flag`: true or false; `shape`: extents; `count`: an integer of at least 1.
        help: what it means, in a line.
        default: its value where none is given.
        required: there is no default.
        choices: what a `choice` may be.
        example: its value in text, for messages and help.
        quiet: it is left out of the text of a call where it has its default.
    """

    name: str
    kind: Kind
    help: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    example: str = ""
    quiet: bool = False

    def taken(self, value: Any) -> Any:
        """The value as an operator keeps it: iterables as tuples, read once; element types as dtypes.

        What is none of its kind stays as it is: the operator's own check names the rule.
        """
        if self.kind == "dtype":
            return dtype_of(value)
        if self.kind in {"integers", "shape"}:
            return as_tuple(value)
        return value


def as_tuple(value: Any) -> Any:
    """A sequence or iterator as a tuple, so that nothing that changes or is used up later is kept; others as given."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        try:
            return tuple(value)
        except TypeError:  # an array of rank 0 has __iter__ and cannot be iterated over
            return value
    return value


def as_shape(what: str, shape: Any) -> tuple[int, ...]:
    """The extents of a shape. Raises `InputError` for what is none, with `what` as its name."""
    given = as_tuple(shape)
    extents = given if isinstance(given, tuple) else (given,)
    try:
        found = tuple(as_index(extent) for extent in extents)
    except TypeError:
        raise InputError(f"{what} {shape!r:.200} is not a shape: give integers, such as (2, 8, 256, 196)") from None
    if any(isinstance(extent, bool) for extent in extents):
        raise InputError(f"{what} {shape!r:.200} is not a shape: its extents are integers, not truth values")
    if min(found, default=0) < 0:
        raise InputError(f"{what} {list(found)}: an extent is not negative")
    if len(found) > MAX_RANK:
        raise InputError(f"{what} has rank {len(found)}: NumPy arrays have at most {MAX_RANK} dimensions")
    return found


def as_array(what: str, value: Any) -> Array:
    """An argument as a NumPy array. Raises `InputError` for what is none, such as lists of different lengths."""
    if isinstance(value, np.ndarray):
        return value
    # A tensor of torch that records gradients refuses to become an array, and says so at length.
    if getattr(value, "requires_grad", False):
        value = value.detach()
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise InputError(f"{what} is no array: {_reason(error)}; give an array or nested lists of equal lengths") from (
            error
        )
    if array.dtype == object:
        raise InputError(
            f"{what} is no array of numbers: {type(value).__name__} becomes an array of Python objects; give an array "
            "with an element type, or nested lists of numbers"
        )
    return array


def _reason(error: Exception) -> str:
    return str(error).split(". The detected")[0].rstrip(".") or type(error).__name__


def complete(operator: str, attributes: Iterable[Attribute], given: Options) -> dict[str, Any]:
    """The attributes of a call: those given, each taken, and the defaults of the others.

    Raises `InputError` for an attribute that the operator does not have, and for one that is missing.
    """
    known = {attribute.name: attribute for attribute in attributes}
    for name in given:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{operator} has no attribute {name!r}: {nearest(name, known)}{has}")
    found = {}
    for name, attribute in known.items():
        if name in given:
            found[name] = attribute.taken(given[name])
        elif attribute.required:
            raise InputError(f"{operator}: {name} is missing: {attribute.help}")
        else:
            found[name] = attribute.default
    return found


def extent(shape: tuple[int, ...], axis: Any) -> int:
    """Of an axis of a shape; 1 for an axis that is none: the operator's own message about it says more."""
    return shape[axis] if isinstance(axis, int) and -len(shape) <= axis < len(shape) else 1


def one_tensor(draw: Draw, shape: tuple[int, ...], dtype: Dtype, options: Options) -> list[Array]:
    """Example inputs of an operator of one tensor."""
    del options
    return [draw.elements(shape, dtype)]
