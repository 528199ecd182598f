"""tin_shift [8, 16, 512, 784] float32 with its data, default strategy, against NumPy computing the same shift.

    python benchmarks/bench_tin_shift.py

There are two ratios, because they differ considerably. "First" is the first call in a fresh process, in which the
system has to supply memory for the result. "Again" alternates both in one process, in memory that has been used before,
so that NumPy little more than copies. The figures of the run are included. Times are processor times, user and system,
which other processes disturb less than wall-clock time. Another process measures the peak memory of a run beyond input
and output.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any

import numpy as np

SHAPE, GROUPS, ROUNDS, FRESH = (8, 16, 512, 784), 8, 7, 3
Array = np.ndarray[Any, Any]


def inputs() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(SHAPE, np.float32)
    return x, rng.integers(-6, 7, (SHAPE[0], GROUPS), np.int32)


def by_numpy(x: Array, shifts: Array) -> Array:
    """Shift the whole array with NumPy, one group of channels at a time."""
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
    """Run the same on the simulated board, with all figures of its summary."""
    from mlusim.ops import tin_shift_forward

    result = tin_shift_forward(x, shifts)
    assert result.metrics.time_ps > 0
    assert result.output is not None
    return result.output


def measure_first(function: Callable[[Array, Array], Array]) -> dict[str, float]:
    x, shifts = inputs()
    function(x[:1, :2, :8].copy(), shifts[:1])  # modules and tables are loaded
    begin = process_time()
    function(x, shifts)
    return {"first": process_time() - begin}


def measure_again() -> dict[str, float]:
    x, shifts = inputs()
    assert by_mlusim(x, shifts).tobytes() == by_numpy(x, shifts).tobytes()
    taken: dict[str, list[float]] = {"numpy": [], "mlusim": []}
    for _ in range(ROUNDS):
        for name, function in (("numpy", by_numpy), ("mlusim", by_mlusim)):
            begin = process_time()
            result = function(x, shifts)
            taken[name].append(process_time() - begin)
            del result
    return {name: median(times) for name, times in taken.items()}


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


PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "numpy": lambda: measure_first(by_numpy),
    "mlusim": lambda: measure_first(by_mlusim),
    "again": measure_again,
    "memory": measure_memory,
}


def fresh(part: str) -> dict[str, float]:
    """Run a part in a separate process."""
    command = [sys.executable, __file__, part]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, float] = json.loads(text)
    return figures


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(PARTS[sys.argv[1]]()))
        return
    first = {name: [fresh(name)["first"] for _ in range(FRESH)] for name in ("numpy", "mlusim")}
    again = fresh("again")
    megabytes = np.prod(SHAPE) * 4 / 1e6
    print(f"tin_shift {list(SHAPE)} float32, {megabytes:.0f} MB; medians")
    for name, taken in (("first", {key: median(times) for key, times in first.items()}), ("again", again)):
        ratio = taken["mlusim"] / taken["numpy"]
        print(
            f"{name}: NumPy {1e3 * taken['numpy']:6.1f} ms, mlusim {1e3 * taken['mlusim']:6.1f} ms, {ratio:.2f} x NumPy"
        )
    print(f"peak memory beyond input and output: {fresh('memory')['beyond_bytes'] / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
