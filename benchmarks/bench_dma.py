"""Host time of a DMA operation, without that of moving its bytes, while cores contend for bandwidth.

    python benchmarks/bench_dma.py

Every core of a BLOCK launch repeatedly loads a row and stores it, on a board whose DRAM is slowed down so that all
cores wait for it: an MLU370-X4, and for 64 cores an MLU290. The time of the same number of `np.copyto` calls of the
same size is subtracted. Times are the processor time of the thread, the minimum of several rounds, which other
processes disturb little.
"""

from __future__ import annotations

from time import CLOCK_THREAD_CPUTIME_ID, clock_gettime

import numpy as np

from mlusim import Board, Core, Device, View, board

ROUNDS, OPERATIONS, ELEMENTS = 7, 20_000, 1024


async def copies(core: Core, x: View, out: View, times: int) -> None:
    row = core.nram.alloc(x.shape[1], x.dtype)
    for _ in range(times):
        await core.memcpy(row, x[core.task_id])
        await core.memcpy(out[core.task_id], row)


def cpu_s() -> float:
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID)


def simulate(cores: int, on: Board) -> float:
    """Return the host seconds per operation."""
    device = Device(on)
    x = device.upload(np.zeros((cores, ELEMENTS), np.float32))
    out = device.alloc(x.shape, x.dtype)
    times = OPERATIONS // (2 * cores)
    device.launch(copies, x, out, times, dim=cores, kind="BLOCK")
    begin = cpu_s()
    device.synchronize()
    return (cpu_s() - begin) / (2 * cores * times)


def copy_bytes() -> float:
    """Return the seconds of moving the bytes of one operation."""
    here, there = np.zeros(ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
    begin = cpu_s()
    for _ in range(OPERATIONS):
        np.copyto(there, here)
    return (cpu_s() - begin) / OPERATIONS


def main() -> None:
    slow = 50_000_000_000
    few, many = (board(name).replace(dram_bandwidth_bytes_per_s=slow) for name in ("mlu370-x4", "mlu290-m5"))
    counts = (1, 16, 64)
    best = dict.fromkeys(counts, float("inf"))
    moving = float("inf")
    for _ in range(ROUNDS):
        moving = min(moving, copy_bytes())
        for cores in counts:
            best[cores] = min(best[cores], simulate(cores, many if cores > few.cores else few))
    print(f"copies of {4 * ELEMENTS} B, {OPERATIONS} operations a run, least of {ROUNDS} runs")
    print(f"moving the bytes alone      {1e6 * moving:6.2f} us")
    for cores in counts:
        beyond = best[cores] - moving
        ratio = f"   {beyond / (best[16] - moving):.2f} x 16 cores" if cores > counts[1] else ""
        print(f"{cores:3} busy cores, beyond that  {1e6 * beyond:6.2f} us an operation{ratio}")


if __name__ == "__main__":
    main()
