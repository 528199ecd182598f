"""What verification costs: tin_shift [8, 16, 512, 784] float32 with everything on, over the same run without.

    python benchmarks/bench_verify.py [STRATEGY ...]

Prints both times (the best of several runs) and their ratio, and fails where it is above 2.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from mlusim import ops
from mlusim.planning.tin_shift import STRATEGIES

SHAPE, GROUPS = (8, 16, 512, 784), 4
RUNS = 5
MOST = 2.0


def measure(strategy: str) -> tuple[float, float]:
    """Seconds without and with verification, runs of both in turn."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(SHAPE).astype(np.float32)
    shifts = rng.integers(-3, 4, (SHAPE[0], GROUPS)).astype(np.int32)
    best = {False: float("inf"), True: float("inf")}
    for _ in range(RUNS):
        for check in (False, True):
            begin = time.perf_counter()
            ops.tin_shift_forward(x, shifts, strategy=strategy, check=check)
            best[check] = min(best[check], time.perf_counter() - begin)
    return best[False], best[True]


def main() -> int:
    worst = 0.0
    for strategy in sys.argv[1:] or STRATEGIES:
        off, on = measure(strategy)
        worst = max(worst, on / off)
        print(f"{strategy:<12} {off:.3f} s without, {on:.3f} s verified: {on / off:.2f} x")
    print(f"worst {worst:.2f} x, at most {MOST:g} x wanted")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
