"""The time that `--steady` saves on long timing-only runs, and its error relative to full runs.

    python benchmarks/bench_steady.py

Processor seconds of the best of three alternating runs each. Fails if a time is off by more than 0.5 % or its bound, or
if bytes differ.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mlusim
from mlusim import ops

_ROUNDS = 3
_MAX_ERROR = 0.005


async def copy_rows(core: Any, x: Any, out: Any, *, declared: bool = False) -> None:
    """Blocking copies of rows, in a declared loop or not."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    rows = range(core.task_id, x.shape[0], core.task_dim)
    for row in core.loop(rows) if declared else rows:
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


def tensor(*shape: int) -> np.ndarray[Any, Any]:
    """Return a tensor that takes no memory on the host."""
    return np.broadcast_to(np.zeros((), np.float32), shape)


def cases() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Names and runs."""
    for gigabytes, boards in (
        (3, ("mlu270", "mlu370-x4", "mlu370-x8", "mlu590-h8", "mlu590-m9", "mlu290")),
        (6, ("mlu370-x4", "mlu590-h8", "mlu590-m9", "mlu290")),
        (12, ("mlu370-x4",)),
    ):
        x = tensor(235 * gigabytes, 1024, 1024)
        for board in boards:
            yield (
                f"cast of {gigabytes} GB, {board}",
                lambda x=x, board=board, **how: ops.cast(x, "float16", device=board, data=False, **how),
            )
    x = tensor(705, 1024, 1024)
    for axis, board in ((0, "mlu370-x4"), (2, "mlu370-x4"), (2, "mlu590-h8"), (2, "mlu590-m9"), (2, "mlu290")):
        yield (
            f"reverse of axis {axis}, {board}",
            lambda axis=axis, board=board, **how: ops.reverse(x, axis, device=board, data=False, **how),
        )
    rows = tensor(16 * 1152, 4096)
    out = mlusim.Output(rows.shape, "float32")
    for declared in (False, True):
        yield (
            f"copies of rows, {'declared, ' * declared}mlu370-x4",
            lambda declared=declared, **how: mlusim.run(
                copy_rows, rows, out, declared=declared, device="mlu370-x4", data=False, **how
            ),
        )


def main() -> None:
    """Print a table."""
    for name, run in cases():
        seconds: dict[bool, list[float]] = {False: [], True: []}
        results: dict[bool, Any] = {}
        for _ in range(_ROUNDS):
            for steady, how in ((False, {}), (True, {"steady": True})):
                gc.collect()
                begin = time.process_time()
                results[steady] = run(**how)
                seconds[steady].append(time.process_time() - begin)
        full, quick = results[False], results[True]
        error = quick.time_ps / full.time_ps - 1
        assert abs(error) <= _MAX_ERROR
        assert abs(quick.time_ps - full.time_ps) <= quick.steady.bound_ps
        assert dict(quick.bus_bytes) == dict(full.bus_bytes)
        part = f"{quick.steady.operations / len(full.log):.0%}" if quick.steady.operations else "refused"
        print(
            f"| {name}, {len(full.log):,} | {min(seconds[False]):.2f} s | {min(seconds[True]):.2f} s | {part} | "
            f"{error:+.2%} | {quick.steady.bound_ps / quick.time_ps:.2%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
