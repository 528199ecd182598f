"""cast of 64 M float32 to float16 with its data, default strategy, against NumPy's own cast.

    python benchmarks/bench_cast.py

NumPy and the simulated run alternate in one process; the figures of the run are included.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

import numpy as np

from mlusim import ops

COUNT, ROUNDS = 64 << 20, 7


def main() -> None:
    x = np.random.default_rng(0).standard_normal(COUNT, np.float32)
    numpy_s, ours_s = [], []
    for _ in range(ROUNDS):
        begin = perf_counter()
        expected = x.astype(np.float16)
        numpy_s.append(perf_counter() - begin)
        begin = perf_counter()
        result = ops.cast(x, "float16")
        simulated_us, records = result.time_us, len(result.log)
        ours_s.append(perf_counter() - begin)
        assert result.output is not None
        assert result.output.tobytes() == expected.tobytes()
        del result, expected
    ratio = median(ours / theirs for ours, theirs in zip(ours_s, numpy_s, strict=True))
    print(f"cast of {COUNT} float32 to float16 on mlu370-x4, median of {ROUNDS} rounds")
    print(f"numpy   {1e3 * median(numpy_s):8.1f} ms")
    print(f"mlusim  {1e3 * median(ours_s):8.1f} ms   {records} operations, {simulated_us:.1f} us simulated")
    print(f"ratio   {ratio:8.2f}")


if __name__ == "__main__":
    main()
