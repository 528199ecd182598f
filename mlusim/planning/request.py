"""`Request`: the arguments of an operator, to plan it again on another board, and to save it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import index as as_index
from typing import Any, SupportsIndex

from mlusim.dtypes import Dtype, dtype_name, dtype_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A call of an operator without its data: a plan depends on nothing else but the board.

    Attributes:
        operator: its name, as in `mlusim.ops`.
        strategy: what was requested; the plan has what came of it.
        tensors: name, shape and element type of each input.
        attributes: axes, modes, element types by name: integers, texts, None, and tuples of them.
        nram_limit_bytes: the most NRAM of a core that the plan may use; None: all that is usable.
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
        """From what an operator was called with."""
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
