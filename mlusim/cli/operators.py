"""What the command line has to know of an operator: its tensors, its options, how to make inputs up.

One `Entry` makes `mlusim run NAME` and `mlusim compare NAME`; `entries.py` has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    import numpy as np

    from mlusim.ops.common import Call
    from mlusim.ops.operator import Operator

    Array = np.ndarray[Any, Any]

Options = Mapping[str, Any]


class TensorOption(NamedTuple):
    """An input tensor: `--input FILE`."""

    name: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An operator of the command line.

    Attributes:
        name: as in `mlusim run NAME`.
        summary: what it does, in a line.
        tensors: its inputs, in the order of the operator's record.
        options: makes click's parameters for its attributes.
        random_options: makes those that say what random inputs look like, beside shape, element type and seed.
        choose: the operator's record and attributes for the options given.
        random: inputs of a shape and element type, drawn from a `Draw`, for the options given.
        strategies: where its strategies are, a module with a table `STRATEGIES` of names and summaries.
        example: a command line that makes sense.
        random_dtype: name of the option for the element type of random inputs.
    """

    name: str
    summary: str
    tensors: tuple[TensorOption, ...]
    options: Callable[[], list[click.Parameter]] = list
    random_options: Callable[[], list[click.Parameter]] = list
    choose: Callable[[Options], tuple[Operator, dict[str, Any]]]
    random: Callable[[Draw, tuple[int, ...], Any, Options], list[Array]]
    strategies: str
    example: str
    random_dtype: str = "dtype"

    def strategy_rows(self) -> list[tuple[str, str]]:
        """Name and summary of each strategy, the default first."""
        table: Mapping[str, Any] = import_module(self.strategies).STRATEGIES
        return [(name, getattr(about, "summary", about)) for name, about in table.items()]


class Draw:
    """Random numbers; the same seed gives the same.

    Args:
        seed: of the generator.
        data: False: tensors that are only moved need no numbers; they take no memory.
    """

    def __init__(self, seed: int, *, data: bool = True) -> None:
        import numpy as np

        # Two, so that indices and shifts are the same with and without data.
        self._random, self._indices = (np.random.default_rng([seed, stream]) for stream in range(2))
        self._data = data

    def elements(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Normally distributed numbers, or integers over the whole range of their type."""
        import numpy as np

        if not self._data:
            return np.broadcast_to(np.zeros((), dtype), shape)
        if dtype.kind in "iu":
            bounds = np.iinfo(dtype)
            return self._random.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
        if dtype.kind == "b":
            return self._random.integers(0, 2, shape).astype(dtype)
        values = self._random.standard_normal(shape, np.float32)
        if dtype.kind == "c":
            return values.astype(dtype) + 1j * self._random.standard_normal(shape, np.float32).astype(dtype)
        return values.astype(dtype)

    def integers(self, low: int, high: int, shape: tuple[int, ...], dtype: str = "int32") -> Array:
        """Integers from low up to but not high, always drawn: indices, shifts."""
        return self._indices.integers(low, max(high, low + 1), shape, dtype)


def prepare(
    entry: Entry,
    record: Operator,
    attributes: Options,
    arrays: Sequence[Array],
    device: Any,
    strategy: str | None,
    nram_limit_bytes: int | None = None,
) -> Call:
    """Check the arrays, choose the strategy and make the plan: all but the run. Raises as the operator does.

    Messages call the inputs by the names of their options.
    """
    from mlusim.ops.common import Input, check_choice
    from mlusim.ops.operator import tensor_of

    chosen = record.strategies[0] if strategy is None else strategy
    check_choice("strategy", chosen, record.strategies)
    inputs = [
        Input(name=option.name, array=array, keep_data=name in record.reads_values)
        for name, option, array in zip(record.tensors, entry.tensors, arrays, strict=True)
    ]
    record.infer(*map(tensor_of, inputs), **attributes)
    return record.call(device, chosen, *inputs, nram_limit_bytes=nram_limit_bytes, **attributes)
