"""flip of 205 MB along each axis, and cast of 64 M float32 to float16, with their data, against NumPy's.

    python benchmarks/bench_flip_cast.py

By default strategy. NumPy and the simulated run alternate in one process; the figures of the run are included. Each
releases its result before the other runs, so that both reuse memory: supplying fresh memory would take the system
longer than everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from mlusim import ops
from mlusim.results.result import Result

SHAPE, COUNT, ROUNDS = (8, 16, 512, 784), 64 << 20, 7


def measure(name: str, by_numpy: Callable[[], np.ndarray[Any, Any]], by_mlusim: Callable[[], Result]) -> None:
    result = by_mlusim()
    assert result.output is not None
    assert result.output.tobytes() == by_numpy().tobytes()
    simulated_us, strategy, records = result.time_us, result.strategy, len(result.log)
    del result
    numpy_s, ours_s = [], []
    for _ in range(ROUNDS):
        begin = perf_counter()
        by_numpy()
        numpy_s.append(perf_counter() - begin)
        begin = perf_counter()
        assert by_mlusim().time_us == simulated_us
        ours_s.append(perf_counter() - begin)
    ratio = median(ours / theirs for ours, theirs in zip(ours_s, numpy_s, strict=True))
    print(
        f"{name:12} {strategy:8} {1e3 * median(numpy_s):8.1f} {1e3 * median(ours_s):8.1f} {ratio:7.2f} {records:10} "
        f"{simulated_us:12.1f}"
    )


def main() -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    print(f"on mlu370-x4, median of {ROUNDS} rounds")
    print("operation    strategy numpy ms    ours   ratio operations simulated us")
    for axis in range(x.ndim):
        measure(f"flip, axis {axis}", np.flip(x, axis).copy, partial(ops.flip, x, axis))
    numbers = np.random.default_rng(0).standard_normal(COUNT, np.float32)
    measure("cast", partial(numbers.astype, np.float16), partial(ops.cast, numbers, "float16"))


if __name__ == "__main__":
    main()
