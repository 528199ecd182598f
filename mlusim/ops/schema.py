"""The parts of a schema: tensors and attributes.

All code that lists, reads or checks the arguments of an operator uses these classes: the functions of `mlusim.ops`,
`mlusim.plan`, NetBuilder, sweeps, and the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from mlusim.dtypes import Dtype, dtype_of
from mlusim.inputs import as_count, as_plain, as_shape, as_tuple

Options = Mapping[str, Any]
Kind = Literal["integer", "integers", "dtype", "choice", "flag", "shape", "count"]


class Tensor(NamedTuple):
    """A tensor without data: its name in messages, its shape and its element type."""

    name: str
    shape: tuple[int, ...]
    dtype: Dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSchema:
    """An input tensor of an operator.

    Attributes:
        name: name of the function's parameter.
        help: one-line description of its shape and element type.
        option: the command-line option for its file; by default `name`.
        values_matter: the operator's checks or scalar code read its values, so that it needs its bytes even in a
            timing-only run. Otherwise, only shape and element type matter there.
        dtype: element type used if a caller specifies only shapes; empty: that of the operator's data.
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
    """An argument of an operator other than a tensor.

    Attributes:
        name: name of the function's parameter.
        kind: `integer`: one integer; `integers`: one or several, as a tuple; `dtype`: an element type; `choice`: one of
            `choices`; `flag`: true or false; `shape`: extents; `count`: an integer of at least 1.
        help: one-line description.
        default: its default value.
        required: there is no default.
        choices: valid values of a `choice`.
        example: an example value as text, for messages and help.
        quiet: omit it from the text of a call if it has its default.
    """

    name: str
    kind: Kind
    help: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    example: str = ""
    quiet: bool = False

    def normalise(self, value: Any) -> Any:
        """Normalise a value: iterables to tuples, element types to dtypes, scalars of NumPy to numbers of Python.

        Raises `InputError` if the value of an attribute of these kinds is not an element type, a shape or a count.
        Values of other kinds are returned unchanged, as are sets, which have no order: the operator's own check
        reports them.
        """
        if value is None and not self.required:
            return None
        if self.kind == "dtype":
            return dtype_of(value)
        if self.kind == "shape":
            return as_shape(self.name, value)
        if self.kind == "count":
            return as_count(self.name, value)
        if self.kind == "integers" and isinstance(value, set | frozenset):
            return frozenset(value)
        python_value = as_plain(value)
        return as_tuple(python_value) if self.kind == "integers" else python_value
