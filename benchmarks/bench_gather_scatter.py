"""gather and scatter of 4 M elements with their data, by each strategy and board, against NumPy.

    python benchmarks/bench_gather_scatter.py

NumPy's take_along_axis and put_along_axis alternate with the simulated run in one process. NumPy gets the index as
int64, its own type, and for a second ratio as the int32 that mlusim gets. The shapes differ in the slab that a lookup
can address: it fits in NRAM, has to be cut, or does not fit, as one row or as the only axis, which NumPy indexes
faster. Gather runs on two boards, scatter on five.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import truediv
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import mlusim
from mlusim import ops
from mlusim.errors import PlanError

Array = np.ndarray[Any, Any]
SHAPES = {"slab fits": (65_536, 64), "slab is cut": (2_048, 2_048), "one row": (1, 4_194_304), "one axis": (4_194_304,)}
BOARDS = {
    "gather": ("mlu370-x4", "mlu590-h8"),
    "scatter": ("mlu270-s4", "mlu290", "mlu370-x4", "mlu370-x8", "mlu590-h8"),
}
STRATEGIES = {"gather": ("slab", "rows"), "scatter": ("slab", "rows", "bins")}
ROUNDS = 5


@dataclass(frozen=True)
class Case:
    """A gather or scatter: the operator, and its arguments."""

    operator: str
    x: Array
    index: Array
    axis: int

    def strategies(self, device: str) -> tuple[str, list[str]]:
        """Return the strategy that "auto" takes on a board, and all that fit there."""
        shapes = [self.x.shape] * (2 if self.operator == "gather" else 3)
        plan = partial(mlusim.plan, self.operator, *shapes, axis=self.axis, index_dtype="int32", device=device)
        fitting = []
        for strategy in STRATEGIES[self.operator]:
            with suppress(PlanError):
                plan(strategy=strategy)
                fitting.append(strategy)
        return plan().parameters.strategy, fitting

    def by_numpy(self, index: Array) -> Array:
        """Compute it with NumPy."""
        if self.operator == "gather":
            return np.take_along_axis(self.x, index, self.axis)
        out = self.x.copy()
        np.put_along_axis(out, index, self.x, self.axis)
        return out

    def by_mlusim(self, device: str, strategy: str) -> Any:
        """Run it on a board."""
        if self.operator == "gather":
            return ops.gather(self.x, self.index, self.axis, device=device, strategy=strategy)
        return ops.scatter(self.x, self.index, self.x, self.axis, device=device, strategy=strategy)


def timed(call: Callable[[], Any], seconds: list[float]) -> Any:
    """Return the result of a call, and add its time to a list."""
    begin = perf_counter()
    result = call()
    seconds.append(perf_counter() - begin)
    return result


def measure(case: Case, device: str, strategy: str) -> tuple[float, float, float, float, Any]:
    """Return the median seconds of NumPy and of mlusim, their ratio, that by an index of int32, and a result."""
    wide = case.index.astype(np.int64)
    numpy_s: list[float] = []
    same_index_s: list[float] = []
    ours_s: list[float] = []
    for _ in range(ROUNDS):
        expected = timed(partial(case.by_numpy, wide), numpy_s)
        timed(partial(case.by_numpy, case.index), same_index_s)
        result = timed(partial(case.by_mlusim, device, strategy), ours_s)
        assert np.array_equal(result.output, expected)
    ratio, same_index = (median(map(truediv, ours_s, seconds)) for seconds in (numpy_s, same_index_s))
    return median(numpy_s), median(ours_s), ratio, same_index, result


def main() -> None:
    """Print a row for each case, board and strategy that fits."""
    rng = np.random.default_rng(0)
    print(
        f"{'operator':8} {'shape':18} {'board':10} {'strategy':9} {'tier':>4} {'numpy':>9} {'mlusim':>9} ratio "
        f"int32 {'simulated':>10}"
    )
    ratios, same_index_ratios, of_auto = [], [], []
    for (words, shape), operator in product(SHAPES.items(), BOARDS):
        axis = len(shape) - 1
        index = rng.integers(0, shape[axis], shape).astype(np.int32)
        case = Case(operator, rng.standard_normal(shape, np.float32), index, axis)
        for device in BOARDS[operator]:
            chosen, fitting = case.strategies(device)
            for strategy in fitting:
                numpy_s, ours_s, ratio, same_index, result = measure(case, device, strategy)
                ratios.append(ratio)
                same_index_ratios.append(same_index)
                if strategy == chosen:
                    of_auto.append(ratio)
                marked = strategy + "*" * (strategy == chosen)
                print(
                    f"{operator:8} {words:18} {device:10} {marked:9} {result.plan.tier:4} {1e3 * numpy_s:6.0f} ms "
                    f"{1e3 * ours_s:6.0f} ms {ratio:5.1f} {same_index:5.1f} {result.time_us:7.0f} us"
                )
    print(
        f"worst ratio {max(ratios):.1f}, of what auto takes (*) {max(of_auto):.1f}, "
        f"against NumPy by int32 {max(same_index_ratios):.1f}"
    )


if __name__ == "__main__":
    main()
