"""The overhead of a sweep beyond its simulations: points per second in this process, with one worker, and on all cores.

    python benchmarks/bench_sweep.py [POINTS]

Sweeps tin_shift [2, 8, 64, 196] over NRAM sizes and bandwidths, timing only. The bare loop plans and runs the same
calls and measures them, without keys, rows and a file; the additional time of a sweep per point is its overhead. Fails
if that is more than 2 ms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from loky import cpu_count

from mlusim.explore import sweep
from mlusim.explore.axis_arguments import axes_of
from mlusim.explore.point import Point, prepare_point
from mlusim.ops.call import run

SHAPE = (2, 8, 64, 196)
MOST_MS = 2.0


def axes(points: int) -> dict[str, Any]:
    rates = [100_000_000_000 + number for number in range(max(points // 10, 1))]
    return {"shape": SHAPE, "dtype": "float16", "strategy": ["tight", "batched"], "nram_bytes": "8KiB..128KiB*2"} | {
        "vary": {"dram_bandwidth_bytes_per_s": rates}
    }


def bare(points: int) -> float:
    """Return the seconds of the same calls in a loop."""
    every = axes_of("tin_shift", device="mlu370-x4", options={}, **axes(points))
    grid = [point for point in every.points() if isinstance(point, Point)]
    begin = time.perf_counter()
    for point in grid:
        result = run(prepare_point(point), data=False, check=False)
        assert result.metrics.time_ps
        assert result.lower_bound.time_ps
    return time.perf_counter() - begin


def swept(points: int, workers: int, folder: Path) -> tuple[float, int]:
    """Return the seconds of a sweep with a file, and its points."""
    db = folder / f"{workers}.sqlite"
    begin = time.perf_counter()
    first = sweep("tin_shift", workers=workers, db=db, **axes(points))
    seconds = time.perf_counter() - begin
    assert first.counts["done"] == len(first)
    begin = time.perf_counter()
    again = sweep("tin_shift", workers=workers, db=db, **axes(points))
    assert again.found == len(first)
    print(f"  finding all of them in the file again: {1e3 * (time.perf_counter() - begin) / len(first):.2f} ms a point")
    return seconds, len(first)


def main() -> int:
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    bare(10)
    alone = min(bare(points) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        overhead_ms = 0.0
        for workers in sorted({0, 1, cpu_count()}):
            seconds, count = swept(points, workers, Path(folder))
            where = f"{workers} worker{'s'[: workers != 1]}" if workers else "in this process"
            print(f"{where}: {count} points in {seconds:.2f} s, {count / seconds:.1f} a second")
            if not workers:
                overhead_ms = 1e3 * (seconds - alone) / count
                print(f"  bare loop {alone:.2f} s: {overhead_ms:+.2f} ms a point beyond it, at most {MOST_MS:g} wanted")
    return int(overhead_ms > MOST_MS)


if __name__ == "__main__":
    sys.exit(main())
