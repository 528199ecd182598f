"""Time attribution: every picosecond of every MLU core has exactly one cause.

Causes are layers. A layer counts the time of a core that it covers and no earlier layer does; the last layer covers
everything, so that the sum is exactly the number of cores times the run's time. Work precedes waiting:

1. `transfer`: DMA transfers, for the duration they would have on an otherwise idle board;
2. `bandwidth_wait`: the rest of their transfer time: the cost of sharing ports and DRAM;
3. `on_chip_copy`: the Move pipe is busy (copies among NRAM, WRAM and SRAM);
4. `vector`: the vector pipe computes, not hidden behind any copy;
5. `scalar`: scalar loads, stores and arithmetic, not hidden either;
6. `dma_latency`: a DMA starts up, and none of the above happens;
7. `scalar` again: scalar stores in flight to off-chip memory, which a sync or the task's end waits for;
8. `sync`: the task waits for others at a barrier;
9. `bandwidth_wait` again: a blocking copy waits for its turn in the memory core's engine;
10. `issue`: the rest of a task: instructions being issued;
11. `launch`: no task on this core, because the launch has not started it yet, or no task anywhere on the board;
12. `idle`: no task on this core while others run: imbalance, tail, unused cores.

A loop of copies logged as one record (`memcpy_rows`) counts as transfer, including the latency and issue of its rows.
Within a transfer, the part without sharing precedes the part added by sharing, as the log contains only totals. Memory
cores are not MLU cores and are left out; a copy to SRAM counts for the core that issued it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlusim.analysis.intervals import clip, gaps, intervals, lengths, no_intervals, union
from mlusim.analysis.log_columns import LogColumns
from mlusim.arrays import Flags, Integers
from mlusim.log import IO, MOVE, NONE, SCALAR, SYNC, TENSOR, VECTOR

CAUSES: dict[str, str] = {
    "transfer": "data transfer",
    "bandwidth_wait": "bandwidth contention",
    "on_chip_copy": "on-chip copies",
    "vector": "exposed vector/tensor time",
    "scalar": "exposed scalar time",
    "dma_latency": "exposed DMA latency",
    "sync": "syncs and barriers",
    "issue": "instruction issue",
    "launch": "launch overhead",
    "idle": "load imbalance and tail",
}


def where_time_went(records: LogColumns) -> Integers:
    """(cores, causes) picoseconds of each MLU core by cause, in the order of `CAUSES`.

    Every row sums to `records.time_ps`.
    """
    cores = records.board.cores
    low, high = records.start_of_run_ps, records.end_of_run_ps
    spent = np.zeros((cores, len(CAUSES)), np.int64)
    causes = list(CAUSES)
    covered, covered_ps = no_intervals(), np.zeros(cores, np.int64)
    for layer in layers(records):
        spans = intervals(layer.track, layer.start_ps, layer.stop_ps)
        spans = clip(spans[spans[:, 0] < cores], low, high)
        if len(spans):
            covered = union(covered, spans)
            new_covered_ps = lengths(covered, cores)
            spent[:, causes.index(layer.cause)] += new_covered_ps - covered_ps
            covered_ps = new_covered_ps
    spent[:, causes.index("idle")] += records.time_ps - covered_ps
    return spent


class Layer(NamedTuple):
    """Intervals covered by one cause: unit, start, stop and source line; line -1 for time outside operations."""

    cause: str
    track: Integers
    start_ps: Integers
    stop_ps: Integers
    line: Integers


def layers(records: LogColumns) -> list[Layer]:
    """Return the layers of a core's time; at any moment, the first layer that covers it counts."""
    unit, pipe = records.unit, records.pipe
    issue, start, end = records.issue_ps, records.start_ps, records.end_ps
    moving, alone_end = records.moving_ps, records.moving_ps + records.moving_alone_ps
    is_io, is_move = pipe == IO, pipe == MOVE
    shares_link = records.is_copy & (records.moving_alone_ps > 0)
    computes = (pipe == VECTOR) | (pipe == TENSOR)
    queued = records.is_blocking

    def layer(cause: str, selected: Flags, from_ps: Integers, to_ps: Integers) -> Layer:
        return Layer(cause, unit[selected], from_ps[selected], to_ps[selected], records.line[selected])

    def without_line(cause: str, spans: Integers) -> Layer:
        return Layer(cause, spans[:, 0], spans[:, 1], spans[:, 2], np.full(len(spans), NONE))

    tasks = intervals(records.task_unit, records.task_start_ps, records.task_end_ps)
    return [
        layer("transfer", is_io & shares_link, moving, alone_end),
        layer("bandwidth_wait", shares_link, alone_end, end),
        layer("on_chip_copy", is_move, start, end),
        layer("vector", computes, start, end),
        layer("scalar", pipe == SCALAR, start, records.free_ps),
        layer("dma_latency", is_io, start, moving),
        layer("scalar", records.is_posted, start, end),
        layer("sync", pipe == SYNC, start, end),
        layer("bandwidth_wait", queued, issue, start),
        without_line("issue", tasks),
        without_line("launch", _launch_overhead(records, tasks)),
    ]


def _launch_overhead(records: LogColumns, tasks: Integers) -> Integers:
    """Return the launch overhead on MLU cores: no task runs anywhere, or the core's task has not been started yet."""
    board, log = records.board, records.log
    low, high = records.start_of_run_ps, records.end_of_run_ps
    anywhere = union(np.column_stack([np.zeros(len(tasks), np.int64), tasks[:, 1:]]))
    nobody = gaps(anywhere, 1, low, high)
    everywhere = intervals(np.arange(board.cores)[:, None], nobody[:, 1], nobody[:, 2])
    if not log.tasks:
        return everywhere
    # Before its first task of a launch, a core waits from the start of the launch; before later ones, for a new wave.
    launch = np.array([task.launch for task in log.tasks], np.int64)
    launched_ps = np.array([record.start_ps for record in log.launches], np.int64)
    order = np.lexsort((records.task_start_ps, records.task_unit, launch))
    unit, start = records.task_unit[order], records.task_start_ps[order]
    first = np.diff(launch[order] * records.units + unit, prepend=NONE) != 0
    since = np.where(first, launched_ps[launch[order]], start - board.wave_ps)
    return np.concatenate([everywhere, intervals(unit, since, start)])
