"""gather and scatter of 4 M elements with their data, by each strategy and board, against NumPy.

    python benchmarks/bench_gather_scatter.py

NumPy's take_along_axis and put_along_axis alternate with the simulated run in one process. The shapes differ in the
slab that a lookup can address: it fits in NRAM, has to be cut, or does not fit, as one row or as the only axis, which
NumPy indexes faster. Gather runs on two boards, scatter on five.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

import numpy as np

from mlusim import ops
from mlusim.errors import PlanError

SHAPES = {"slab fits": (65_536, 64), "slab is cut": (2_048, 2_048), "one row": (1, 4_194_304), "one axis": (4_194_304,)}
BOARDS = {
    "gather": ("mlu370-x4", "mlu590-h8"),
    "scatter": ("mlu270-s4", "mlu290", "mlu370-x4", "mlu370-x8", "mlu590-h8"),
}
STRATEGIES = {"gather": ("slab", "rows"), "scatter": ("slab", "rows", "bins")}
ROUNDS, BOUND = 3, 20.0


def main() -> None:
    rng = np.random.default_rng(0)
    print(
        f"{'operator':8} {'shape':18} {'board':10} {'strategy':9} {'tier':>4} {'numpy':>9} {'mlusim':>9} ratio "
        f"{'simulated':>10}"
    )
    worst = chosen_worst = 0.0
    for words, shape in SHAPES.items():
        x = rng.standard_normal(shape, np.float32)
        axis = len(shape) - 1
        index = rng.integers(0, shape[axis], shape).astype(np.int32)
        wide = index.astype(np.int64)
        for name in ("gather", "scatter"):
            for board in BOARDS[name]:
                plan_of = ops.plan_gather if name == "gather" else ops.plan_scatter
                chosen = plan_of(shape, shape, axis, index_dtype="int32", device=board).parameters.strategy
                for strategy in STRATEGIES[name]:
                    try:
                        plan_of(shape, shape, axis, index_dtype="int32", device=board, strategy=strategy)
                    except PlanError:
                        continue  # a slab does not fit
                    ratios, numpy_s, ours_s = [], [], []
                    for _ in range(ROUNDS):
                        begin = perf_counter()
                        if name == "gather":
                            expected = np.take_along_axis(x, wide, axis)
                        else:
                            expected = x.copy()
                            np.put_along_axis(expected, wide, x, axis)
                        numpy_s.append(perf_counter() - begin)
                        begin = perf_counter()
                        if name == "gather":
                            result = ops.gather(x, index, axis, device=board, strategy=strategy)
                        else:
                            result = ops.scatter(x, index, x, axis, device=board, strategy=strategy)
                        ours_s.append(perf_counter() - begin)
                        assert result.output is not None
                        assert np.array_equal(result.output, expected)
                        ratios.append(ours_s[-1] / numpy_s[-1])
                    assert result.plan is not None
                    worst = max(worst, median(ratios))
                    if strategy == chosen:
                        chosen_worst = max(chosen_worst, median(ratios))
                    marked = strategy + "*" * (strategy == chosen)
                    print(
                        f"{name:8} {words:18} {board:10} {marked:9} {result.plan.tier:4} "
                        f"{1e3 * median(numpy_s):6.0f} ms {1e3 * median(ours_s):6.0f} ms {median(ratios):5.1f} "
                        f"{result.time_us:7.0f} us"
                    )
    print(f"worst ratio {worst:.1f}, of what auto takes (*) {chosen_worst:.1f}, bound {BOUND:.0f}")


if __name__ == "__main__":
    main()
