"""The host time of one operation, in units of a bare SimPy time-out in the same process.

    python benchmarks/bench_operations.py

A bare time-out is one of 16 processes (64 for 64 cores) that repeatedly yield `timeout(1)`. Ratios are comparable
between machines, seconds are not. The slicing of the kernel counts as part of its operation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import CLOCK_THREAD_CPUTIME_ID, clock_gettime
from typing import Any

import numpy as np
import simpy

import mlusim
from mlusim.cores.core import Core
from mlusim.memory.view import View

ROUNDS = 5
OPERATIONS = 8_000
ROW = 64


def cpu_s() -> float:
    """Return the processor time of this thread, which other processes disturb little."""
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID)


def bare(processes: int) -> float:
    """Return the seconds per time-out with a number of processes."""
    environment = simpy.Environment()

    def waits() -> Generator[simpy.Event, None, None]:
        for _ in range(OPERATIONS // processes):
            yield environment.timeout(1)

    for _ in range(processes):
        environment.process(waits())
    begin = cpu_s()
    environment.run()
    return (cpu_s() - begin) / OPERATIONS


async def blocking_copy(core: Core, x: View, times: int) -> None:
    """Copies of one row each, with both views sliced."""
    held = core.nram.alloc((4, ROW), x.dtype)
    for step in range(times):
        await core.memcpy(held[step & 3], x[step & 63])


async def asynchronous_copy(core: Core, x: View, times: int) -> None:
    """The same, issued four at a time."""
    held = core.nram.alloc((4, ROW), x.dtype)
    for _ in range(times // 4):
        for slot in range(4):
            core.memcpy_async(held[slot], x[slot])
        await core.sync()


async def vector(core: Core, x: View, times: int) -> None:
    """Additions of a row, views sliced."""
    held = core.nram.alloc((4, ROW), x.dtype)
    for step in range(times):
        row = held[step & 3]
        core.add(row, row, row)


async def vector_of_rows(core: Core, x: View, times: int) -> None:
    """Additions of two rows into a third, all of one buffer."""
    held = core.nram.alloc((4, ROW), x.dtype)
    for step in range(times):
        core.add(held[step & 3], held[step + 1 & 3], held[step + 2 & 3])


async def vector_with_number(core: Core, x: View, times: int) -> None:
    """Products of a row and a number."""
    held = core.nram.alloc((4, ROW), x.dtype)
    for step in range(times):
        row = held[step & 3]
        core.mul(row, row, 0.5)


async def strided_copy(core: Core, x: View, times: int) -> None:
    """Copies of the first half of four rows, with both views sliced."""
    held = core.nram.alloc((4, ROW), x.dtype)
    for step in range(times):
        await core.memcpy(held[:, : ROW // 2], x[step & 31 : (step & 31) + 4, : ROW // 2])


async def sync(core: Core, x: View, times: int) -> None:
    """Syncs of idle pipes."""
    for _ in range(times):
        await core.sync()


async def scalar_load(core: Core, x: View, times: int) -> None:
    """Loads of one element of GDRAM."""
    for step in range(times):
        await core.load(x[step & 63, 0])


KERNELS: dict[str, tuple[Callable[..., Any], float]] = {
    "blocking copy": (blocking_copy, 8),
    "asynchronous copy": (asynchronous_copy, 8),
    "vector instruction": (vector, 4),
    "the same, three rows": (vector_of_rows, 4),
    "a row and a number": (vector_with_number, 4),
    "strided copy": (strided_copy, 8),
    "sync": (sync, 4),
    "scalar load": (scalar_load, 4),
}


def run(kernel: Callable[..., Any], cores: int, *, data: bool, check: bool) -> float:
    """Return the seconds per operation of a kernel on a number of cores."""
    device = mlusim.Device("mlu290-m5", data=data)
    x = device.upload(np.zeros((64, ROW), np.float32), keep_data=True)
    device.launch(kernel, x, OPERATIONS // cores, dim=cores, kind="BLOCK")
    begin = cpu_s()
    device.synchronize()
    if check:
        device.verify()
    return (cpu_s() - begin) / OPERATIONS


def main() -> None:
    """Print the table: the minimum of several rounds, as noise only adds time; time-outs and operations alternate."""
    timeout = 0.0
    print(f"{'operation':20} {'cores':>5} {'bar':>5} {'data':>6} {'no data':>8} {'checked':>8}")
    for cores, extra in ((16, 0), (64, 2)):
        for name, (kernel, bar) in KERNELS.items():
            rounds = [
                (
                    bare(cores),
                    run(kernel, cores, data=True, check=False),
                    run(kernel, cores, data=False, check=False),
                    run(kernel, cores, data=True, check=True),
                )
                for _ in range(ROUNDS)
            ]
            timeout, *seconds = (min(times) for times in zip(*rounds, strict=True))
            ratios = [each / timeout for each in seconds]
            limit = bar + extra if "copy" in name else bar
            print(f"{name:20} {cores:5} {limit:5.0f} " + "{:6.1f} {:8.1f} {:8.1f}".format(*ratios))
    print(f"a bare time-out takes {timeout * 1e9:.0f} ns here")


if __name__ == "__main__":
    main()
