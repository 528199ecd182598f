"""flip of 205 MB with its data along each axis, default strategy, against NumPy's copy of the flipped view.

    python benchmarks/bench_flip.py

NumPy and the simulated run alternate in one process; the figures of the run are included. Each releases its result
before the other runs, so that both reuse memory: supplying fresh memory would take the system longer than everything
else.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

import numpy as np

from mlusim import ops

SHAPE, ROUNDS = (8, 16, 512, 784), 7


def measure(x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], axis: int) -> str:
    flipped = np.flip(x, axis)
    result = ops.flip(x, axis)
    assert result.output is not None
    assert np.array_equal(result.output, flipped)
    simulated_us, strategy = result.time_us, result.strategy
    del result
    numpy_s, ours_s = [], []
    for _ in range(ROUNDS):
        begin = perf_counter()
        copied = flipped.copy()
        numpy_s.append(perf_counter() - begin)
        del copied
        begin = perf_counter()
        result = ops.flip(x, axis)
        assert result.time_us == simulated_us
        ours_s.append(perf_counter() - begin)
        del result
    ratio = median(ours / theirs for ours, theirs in zip(ours_s, numpy_s, strict=True))
    return (
        f"{axis:4}  {strategy:8} {1e3 * median(numpy_s):8.1f} {1e3 * median(ours_s):8.1f} {ratio:7.2f} "
        f"{simulated_us:12.1f}"
    )


def main() -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    print(f"flip of {list(SHAPE)} float32, {x.nbytes / 1e6:.0f} MB, on mlu370-x4, median of {ROUNDS} rounds")
    print("axis  strategy numpy ms    ours   ratio simulated us")
    for axis in range(x.ndim):
        print(measure(x, axis))


if __name__ == "__main__":
    main()
