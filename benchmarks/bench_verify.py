"""The cost of verification: time and peak memory of a run with the checker, relative to the run alone.

    python benchmarks/bench_verify.py [NAME ...]

tin_shift [8, 16, 512, 784] by each of its strategies, gathers and scatters of 4 M elements, one column of [400 000, 32]
for each task, and 24 000 operations without a sync, each of which should cost as much as one of 6 000. Prints both
ratios, and the memory of the checker for each operation (NAME `memory`). Times are processor times, the best of a few
runs; memory is that allocated by Python and NumPy. Fails if a ratio is above 2.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import mlusim
from mlusim import Device, ops
from mlusim.memory import reused
from mlusim.planning.tin_shift import STRATEGIES
from mlusim.verifier.check import check_log

RUNS = 3
MOST = 2.0
Run = Callable[[], tuple[Any, Any, Any]]


def of_operator(call: Callable[[], Any]) -> Run:
    """Run an operator; return its log, board and plan."""

    def run() -> tuple[Any, Any, Any]:
        result = call()
        return result.log, result.board, result.plan

    return run


def of_kernel(kernel: Any, *shapes: tuple[int, ...], **launch: Any) -> Run:
    """Run a kernel of one input and one output."""

    def run() -> tuple[Any, Any, Any]:
        device = Device()
        x = device.upload(np.zeros(shapes[0], np.float32), "x")
        device.launch(kernel, x, device.alloc(shapes[1], np.float32, "out"), **launch)
        device.synchronize()
        return device.log, device.board, None

    return run


async def columns(core: Any, x: Any, out: Any) -> None:
    """Each task copies one column."""
    if core.is_memory_core:
        return
    held = core.nram.alloc(50_000, x.dtype, "held")
    for first in range(0, x.shape[0], 50_000):
        await core.memcpy(held, x[first : first + 50_000, core.task_id])
        await core.memcpy(out[first : first + 50_000, core.task_id], held)


def without_sync(count: int) -> Any:
    """Return a kernel with a number of operations on two pipes, without a sync."""

    async def kernel(core: Any, x: Any, out: Any) -> None:
        held, total = (core.nram.alloc((2, 64), x.dtype, name) for name in ("held", "total"))
        core.write_zero(total)
        for step in range(count // 2):
            core.memcpy_async(held[step % 2], x[step % 8])
            core.add(total[step % 2], total[step % 2], 1.0)
        await core.memcpy(out, total)

    return kernel


def cases() -> dict[str, Run]:
    """Return all runs by name."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 16, 512, 784)).astype(np.float32)
    shifts = rng.integers(-3, 4, (8, 4)).astype(np.int32)
    y = rng.standard_normal((1 << 20, 4)).astype(np.float32)
    index = rng.integers(0, 1 << 20, (1 << 20, 4))
    found: dict[str, Run] = {}
    for strategy in STRATEGIES:
        found[f"tin_shift {strategy}"] = of_operator(
            partial(ops.tin_shift_forward, x, shifts, strategy=strategy, check=False)
        )
    for device in ("mlu370-x4", "mlu590-h8"):
        found[f"gather {device}"] = of_operator(partial(ops.gather, y, index, 0, device=device, check=False))
        found[f"scatter {device}"] = of_operator(partial(ops.scatter, y, index, y, 0, device=device, check=False))
    found["columns"] = of_kernel(columns, (400_000, 32), (400_000, 32))
    for count in (6_000, 24_000):
        found[f"{count} without a sync"] = of_kernel(without_sync(count), (8, 64), (2, 64), kind="BLOCK", dim=1)
    return found


def measure(run: Run) -> tuple[float, float, int, int, int]:
    """Return the seconds of the run and of its check, the peak bytes of both cases, and the number of operations."""
    best = [float("inf")] * 2
    for _ in range(RUNS):
        begin = time.process_time()
        log, board, plan = run()
        best[0] = min(best[0], time.process_time() - begin)
        begin = time.process_time()
        check_log(log, board, plan=plan, rewrites=True)
        best[1] = min(best[1], time.process_time() - begin)
    del log
    # Outputs are allocated again, not in the memory of the last run.
    reused._free_results.clear()  # noqa: SLF001 - no one else needs this
    tracemalloc.start()
    log, board, plan = run()
    alone = tracemalloc.get_traced_memory()[1]
    check_log(log, board, plan=plan, rewrites=True)
    both = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return best[0], best[1], alone, both, len(log)


async def vectors(core: Any, x: Any, out: Any) -> None:
    """Each task adds over and over, without a sync."""
    if core.is_memory_core:
        return
    total = core.nram.alloc(x.shape, x.dtype, "total")
    await core.memcpy(total, x)
    for _ in range(400_000 // core.task_dim):
        core.add(total, total, total)
    await core.sync()
    await core.memcpy(out[core.task_id], total)


async def tiles(core: Any, x: Any, out: Any) -> None:
    """Each task copies and doubles rows of its own."""
    if core.is_memory_core:
        return
    held = core.nram.alloc((2, *x.shape), x.dtype, "held")
    for row in range(core.task_id, out.shape[0], core.task_dim):
        await core.memcpy(held[row % 2], x)
        core.add(held[row % 2], held[row % 2], held[row % 2])
        await core.sync()
        await core.memcpy(out[row], held[row % 2])


def print_memory() -> None:
    """Print the memory of the checker itself, for each operation."""
    for kernel, rows in ((vectors, 32), (tiles, 100_000)):
        for tasks in (32, 1):
            device = Device(data=False)
            x = device.upload(np.zeros(64, np.float32), "x")
            device.launch(kernel, x, device.alloc((rows, 64), np.float32, "out"), kind="BLOCK", dim=tasks)
            device.synchronize()
            tracemalloc.start()
            check_log(device.log, device.board, rewrites=True)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            count = len(device.log)
            print(f"{kernel.__name__}, {tasks} tasks: {peak / count:.0f} B for each of {count} operations", flush=True)


def main() -> int:
    worst = 0.0
    if not sys.argv[1:] or "memory" in sys.argv[1:]:
        print_memory()
    for name, run in cases().items():
        if sys.argv[1:] and name.split()[0] not in sys.argv[1:] and name not in sys.argv[1:]:
            continue
        alone, check, bytes_alone, bytes_both, records = measure(run)
        ratio, memory = (alone + check) / alone, bytes_both / bytes_alone
        worst = max(worst, ratio, memory)
        print(
            f"{name:<24} {alone:.3f} s, check {check:.3f} s: {ratio:.2f} x; {bytes_alone / 1e6:.0f} MB, with the check "
            f"{bytes_both / 1e6:.0f} MB: {memory:.2f} x; {records} operations",
            flush=True,
        )
    print(f"mlusim {mlusim.__version__}: worst {worst:.2f} x, at most {MOST:g} x wanted")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
