"""The parts of a net: variables, and the instructions that compute them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.dtypes import Dtype, dtype_name
from mlusim.errors import InputError
from mlusim.ops.operator import Operator
from mlusim.ops.schema import Tensor

if TYPE_CHECKING:
    from mlusim.cinn.builder import NetBuilder


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Variable:
    """A tensor of a net: an input, or the output of an instruction. Created and used by one `NetBuilder`.

    Attributes:
        builder: the net that it belongs to.
        name: unique in its net.
        shape: extents.
        dtype: NumPy dtype of its elements.
    """

    builder: NetBuilder
    name: str
    shape: tuple[int, ...]
    dtype: Dtype

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def tensor(self) -> Tensor:
        """Name, shape and dtype, from which an operator infers its output."""
        return Tensor(self.name, self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"{self.name}: {describe(self.shape, self.dtype)}"


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One operator of a net.

    Attributes:
        operator: its schema.
        inputs: one variable for each of the operator's tensors.
        attributes: axes, dtypes and similar arguments.
        output: its result.
        strategy: one of the operator's strategies; None: its default.
    """

    operator: Operator
    inputs: tuple[Variable, ...]
    attributes: Mapping[str, Any]
    output: Variable
    strategy: str | None = None

    @property
    def call(self) -> str:
        """The call in source form: gather(A, index=i, axis=0)."""
        return call_text(self.operator, self.inputs, self.attributes)

    def __repr__(self) -> str:
        return f"{self.output.name} = {self.call}: {describe(self.output.shape, self.output.dtype)}"


def call_text(operator: Operator, inputs: Sequence[Variable], attributes: Mapping[str, Any]) -> str:
    """Return a call in source form, inputs by name."""
    parts = [
        variable.name if position == 0 else f"{role}={variable.name}"
        for position, (role, variable) in enumerate(zip(operator.tensors, inputs, strict=True))
    ]
    defaults = {attribute.name: attribute.default for attribute in operator.attributes if attribute.quiet}
    parts += [
        f"{key}={_value(value)}"
        for key, value in attributes.items()
        if value is not None and (key not in defaults or value != defaults[key])
    ]
    return f"{operator.name}({', '.join(parts)})"


def describe(shape: Sequence[int], dtype: Dtype) -> str:
    """Return element type and shape for messages: float32 [8, 24]."""
    return f"{dtype_name(dtype)} {list(shape)}"


def in_context(error: InputError, net: str, call: str, inputs: Sequence[Variable]) -> InputError:
    """Return the same error with the operator, its net and its inputs."""
    names = " and ".join(map(repr, inputs))
    return type(error)(f"{call} in net {net!r}, with {names}: {error.message}")


def _value(value: Any) -> str:
    if isinstance(value, np.dtype):
        return dtype_name(value)
    return repr(list(value)) if isinstance(value, tuple) else repr(value)
