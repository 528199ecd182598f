"""tin_shift [8, 16, 512, 784] float32 with its data, default strategy, against NumPy computing the same shift.

    python benchmarks/bench_tin_shift.py

NumPy and the simulated run take turns in one process, the figures of the run included; a second process, which runs
once, says how much memory it took at most beyond input and output.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

SHAPE, GROUPS, ROUNDS = (8, 16, 512, 784), 8, 7
Array = np.ndarray[Any, Any]


def inputs() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(SHAPE, np.float32)
    return x, rng.integers(-6, 7, (SHAPE[0], GROUPS), np.int32)


def by_numpy(x: Array, shifts: Array) -> Array:
    """The shift on the whole array, one group of channels at a time."""
    out = np.zeros_like(x)
    time, width = x.shape[1], x.shape[2] // shifts.shape[1]
    for n, row in enumerate(shifts.tolist()):
        for group, shift in enumerate(row):
            channels = slice(group * width, (group + 1) * width)
            kept = max(time - abs(shift), 0)
            source, target = max(-shift, 0), max(shift, 0)
            out[n, target : target + kept, channels] = x[n, source : source + kept, channels]
    return out


def by_mlusim(x: Array, shifts: Array) -> Array:
    """The same on the simulated board, with everything that its table shows."""
    from mlusim.ops import tin_shift_forward

    result = tin_shift_forward(x, shifts)
    assert result.metrics.time_ps > 0
    assert result.output is not None
    return result.output


def measure_time() -> dict[str, float]:
    x, shifts = inputs()
    assert by_mlusim(x, shifts).tobytes() == by_numpy(x, shifts).tobytes()
    taken: dict[str, list[float]] = {"numpy": [], "mlusim": []}
    for _ in range(ROUNDS):
        for name, function in (("numpy", by_numpy), ("mlusim", by_mlusim)):
            begin = perf_counter()
            function(x, shifts)
            taken[name].append(perf_counter() - begin)
    ratios = [ours / theirs for ours, theirs in zip(taken["mlusim"], taken["numpy"], strict=True)]
    return {name: median(times) for name, times in taken.items()} | {"ratio": median(ratios)}


def measure_memory() -> dict[str, float]:
    from mlusim.ops import tin_shift_forward

    x, shifts = inputs()
    tin_shift_forward(x[:1, :2, :8].copy(), shifts[:1])  # modules and tables are loaded
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = by_mlusim(x, shifts)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes, but bytes on a Mac.
    unit = 1 if sys.platform == "darwin" else 1024
    return {"beyond_bytes": (after - before) * unit - output.nbytes}


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps({"time": measure_time, "memory": measure_memory}[sys.argv[1]]()))
        return
    found: dict[str, float] = {}
    for part in ("time", "memory"):
        command = [sys.executable, __file__, part]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
        found |= json.loads(text)
    megabytes = np.prod(SHAPE) * 4 / 1e6
    print(f"tin_shift {list(SHAPE)} float32, {megabytes:.0f} MB; medians of {ROUNDS} rounds")
    print(f"NumPy        {1e3 * found['numpy']:8.1f} ms")
    print(f"mlusim       {1e3 * found['mlusim']:8.1f} ms   {found['ratio']:.2f} x NumPy")
    print(f"peak memory beyond input and output  {found['beyond_bytes'] / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
