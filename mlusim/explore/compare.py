"""Comparison of an operator's strategies on the same input, with bitwise comparison of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mlusim.analysis.metrics import Metrics
from mlusim.arrays import Array
from mlusim.dtypes import raw_dtype
from mlusim.errors import InputError, MlusimError, shown
from mlusim.inputs import as_texts
from mlusim.results.result import Result
from mlusim.units import group_digits


class Row(NamedTuple):
    """The figures of one strategy, or of another variant.

    Attributes:
        name: its name in the comparison.
        strategy, tier: of its plan; empty and 0 for a user's kernel.
        metrics: all figures.
    """

    name: str
    strategy: str
    tier: int
    metrics: Metrics


def compare(operation: Callable[..., Result], strategies: Iterable[str]) -> list[Row]:
    """Run an operation with each strategy, or other variants by name.

    Args:
        operation: called as operation(strategy=name); for instance
            `functools.partial(tin_shift_forward, x, shifts, device="mlu370-x4")`.
        strategies: names, such as those of `mlusim.planning.tin_shift.STRATEGIES`.

    Returns one row per name, in the order given. Only the first output stays in memory. Timing-only runs have no
    outputs to compare.

    Raises `MlusimError` if two outputs differ in any bit, `InputError` without strategies, and the errors of the runs.
    """
    if not callable(operation):
        raise InputError(
            f"operation={shown(operation)} is not a function: pass one that takes a strategy, such as "
            "functools.partial(mlusim.ops.reverse, x, 0)"
        )
    rows: list[Row] = []
    first: tuple[str, Result] | None = None
    for strategy in as_texts("strategies", [*strategies] if isinstance(strategies, Mapping) else strategies):
        try:
            result = operation(strategy=strategy)
        except MlusimError as error:
            if error.location and strategy:
                error.args = (error.message, f"{strategy}: {error.location}")
            raise
        if first is None:
            first = strategy, result
        else:
            _check_equal(*first, strategy, result)
        rows.append(Row(strategy, result.strategy, result.plan.tier if result.plan else 0, result.metrics))
    if not rows:
        raise InputError("no strategy to compare: name at least one")
    return rows


def _check_equal(first: str, result: Result, second: str, other: Result) -> None:
    """Compare the outputs of two runs by name, or in order if they have no name in common."""
    names = f"{result.operator}: {first!r} and {second!r}"
    outputs, others = _outputs(result), _outputs(other)
    pairs = [(array, others[name]) for name, array in outputs.items() if name in others]
    if outputs and not pairs:
        if len(outputs) != len(others):
            raise MlusimError(
                f"{names} have no output in common: {', '.join(outputs)}; {', '.join(others) or 'none'}: give those to "
                "compare the same name"
            )
        pairs = [*zip(outputs.values(), others.values(), strict=True)]
    for array, counterpart in pairs:
        _check_arrays(names, array, counterpart)


def _outputs(result: Result) -> Mapping[str, Array]:
    return result.outputs or ({} if result.output is None else {"output": result.output})


def _check_arrays(names: str, a: Array, b: Array) -> None:
    rule = "ways to run one operation differ in time, never in the result: one of these kernels or plans is wrong"
    if a.shape != b.shape or a.dtype != b.dtype:
        raise MlusimError(f"{names} give {a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}; {rule}")
    differs = _raw(a) != _raw(b)
    if differs.any():
        position: Any = tuple(int(index[0]) for index in np.nonzero(differs))
        raise MlusimError(
            f"{names} differ in {group_digits(int(differs.sum()))} of {group_digits(a.size)} elements, first at "
            f"{list(position)}: {a[position]} and {b[position]}; {rule}"
        )


def _raw(array: Array) -> Array:
    return array.view(raw_dtype(array.dtype))
