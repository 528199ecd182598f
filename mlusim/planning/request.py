"""`Request`: the arguments of an operator, for planning it again on another board, and for saving it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import index as as_index
from typing import Any, SupportsIndex

from mlusim.dtypes import Dtype, dtype_name, dtype_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A call of an operator without its data: together with the board it determines the plan.

    Attributes:
        operator: its name, as in `mlusim.ops`.
        strategy: the strategy requested; the plan contains the one chosen.
        tensors: name, shape and element type of each input.
        attributes: axes, modes, element types by name: integers, strings, None, and tuples of them.
        nram_limit_bytes: NRAM per core that the plan may use; None for all usable NRAM.
    """

    operator: str
    strategy: str
    tensors: tuple[tuple[str, tuple[int, ...], str], ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    nram_limit_bytes: int | None = None

    @classmethod
    def of(
        cls,
        operator: str,
        strategy: str,
        tensors: Iterable[tuple[str, tuple[int, ...], Dtype]],
        attributes: Mapping[str, Any],
    ) -> Request:
        """Create a request from the arguments of an operator."""
        return cls(
            operator=operator,
            strategy=strategy,
            tensors=tuple((name, tuple(map(int, shape)), dtype_name(dtype)) for name, shape, dtype in tensors),
            attributes={name: _plain(name, value) for name, value in attributes.items()},
        )


def _plain(name: str, value: Any) -> Any:
    if name == "dtype":
        return dtype_name(dtype_of(value))
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, SupportsIndex) and not getattr(value, "ndim", 0):
        return as_index(value)
    return tuple(_plain("", item) for item in value)
