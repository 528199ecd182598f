"""The operators that the command line knows: their tensors, their options, inputs made up at random.

One entry makes `mlusim run NAME` and `mlusim compare NAME`. What an operator does is in `mlusim.ops`; an entry only
says how to ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mlusim.errors import InputError

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
        options: makes click's parameters for its attributes; they may also say what random inputs look like.
        choose: the operator's record and attributes for the options given.
        random: inputs of a shape and element type, drawn from a `Draw`, for the options given.
        example: a command line that makes sense.
        random_dtype: name of the option for the element type of random inputs.
    """

    name: str
    summary: str
    tensors: tuple[TensorOption, ...]
    options: Callable[[], list[click.Parameter]]
    choose: Callable[[Options], tuple[Operator, dict[str, Any]]]
    random: Callable[[Draw, tuple[int, ...], Any, Options], list[Array]]
    example: str
    random_dtype: str = "dtype"


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
        return self._indices.integers(low, high, shape, dtype)


def prepare(
    entry: Entry, record: Operator, attributes: Options, arrays: Sequence[Array], device: Any, strategy: str | None
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
    return record.prepare(device, chosen, *inputs, **attributes)


_SHIFT_RANK = 4


def _tin_shift_options() -> list[click.Parameter]:
    return [
        click.Option(["--backward"], is_flag=True, help="The backward operator instead of the forward one."),
        click.Option(
            ["--rule"],
            type=click.Choice(["mluop", "adjoint"]),
            help="Backward only. mluop: as the vendor's, which is NOT the gradient; adjoint: the gradient. "
            "[default: mluop]",
        ),
        click.Option(
            ["--groups"],
            type=click.IntRange(min=1),
            metavar="G",
            help="With --shape: groups of channels, each with its shift. [default: 4, or what divides the channels]",
        ),
    ]


def _choose_tin_shift(options: Options) -> tuple[Operator, dict[str, Any]]:
    from mlusim.ops.tin_shift import BACKWARD, FORWARD

    if options["backward"]:
        return BACKWARD, {"sign": -1 if options["rule"] == "adjoint" else 1}
    if options["rule"] is not None:
        raise InputError(f"--rule {options['rule']} without --backward: the forward operator has one rule")
    return FORWARD, {}


def _random_tin_shift(draw: Draw, shape: tuple[int, ...], dtype: Any, options: Options) -> list[Array]:
    if len(shape) != _SHIFT_RANK:
        raise InputError(f"--shape of rank {len(shape)}: tin_shift takes N,T,C,HW, such as 2,8,256,196")
    batch, time, channels, _ = shape
    groups = options["groups"] or next((g for g in (4, 3, 2) if channels % g == 0), 1)
    # Shifts of up to half the time, both ways: what is kept and what is vacated both matter.
    most = max(time // 2, 1)
    return [draw.elements(shape, dtype), draw.integers(-most, most + 1, (batch, groups))]


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="tin_shift",
            summary="Groups of channels move along time, each by its own shift; zeros move in.",
            tensors=(
                TensorOption("input", "[N, T, C, HW], float16 or float32."),
                TensorOption("shifts", "[N, G], int32: one shift for each batch entry and group of C / G channels."),
            ),
            options=_tin_shift_options,
            choose=_choose_tin_shift,
            random=_random_tin_shift,
            example="--input clip.npy --shifts shifts.npy --out shifted.npy --report reports/",
        ),
    )
}
