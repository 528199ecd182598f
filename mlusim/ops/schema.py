"""The parts of a schema: tensors, attributes, and example inputs.

Everything that has to list, read or check the arguments of an operator uses these records: the functions of
`mlusim.ops`, `mlusim.plan`, NetBuilder, sweeps, and the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from mlusim.dtypes import Dtype, dtype_of
from mlusim.errors import InputError, nearest
from mlusim.host.draw import Draw
from mlusim.inputs import as_tuple

Array = np.ndarray[Any, Any]
Options = Mapping[str, Any]
Kind = Literal["integer", "integers", "dtype", "choice", "flag", "shape", "count"]


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
    """An argument of an operator that is not a tensor.

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


def complete(operator: str, attributes: Iterable[Attribute], values: Options) -> dict[str, Any]:
    """The attributes of a call: those given, each taken, and the defaults of the others.

    Raises `InputError` for an attribute that the operator does not have, and for one that is missing.
    """
    known = {attribute.name: attribute for attribute in attributes}
    for name in values:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{operator} has no attribute {name!r}: {nearest(name, known)}{has}")
    found = {}
    for name, attribute in known.items():
        if name in values:
            found[name] = attribute.taken(values[name])
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
