"""Time attribution: every picosecond of every MLU core has one cause, without remainder.

The causes are layers. A layer gets what of a core's time it covers and no layer before it does; the last one covers
everything, so the sum is the number of cores times the run's time, exactly. Work comes before waiting:

1. `transfer`: bytes of a DMA move, for as long as they would with nobody else on the board;
2. `bandwidth_wait`: the rest of the time in which they move: what sharing ports and DRAM costs;
3. `on_chip_copy`: the Move pipe works (NRAM, WRAM and SRAM among themselves);
4. `vector`: the vector pipe computes, not hidden behind any copy;
5. `scalar`: scalar loads, stores and arithmetic, not hidden either;
6. `dma_latency`: a DMA starts up and nothing above happens;
7. `scalar` again: scalar stores on their way to off-chip memory, which a sync or the task's end waits for;
8. `sync`: the task waits at a barrier for others;
9. `bandwidth_wait` again: a blocking copy waits for its turn in the memory core's engine, which others use;
10. `issue`: the rest of a task: instructions being issued;
11. `launch`: no task on this core: the launch has not started it yet, or none runs anywhere on the board;
12. `idle`: no task on this core while others run: imbalance, tail, unused cores.

A loop of copies that is one record (`memcpy_rows`) is all transfer, the latencies and issues of its rows included.
Within one transfer the part alone comes first, then the part that sharing added: the log has totals, not the share
at each moment. Memory cores are not MLU cores and are left out; a copy to SRAM counts for the core that issued it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlusim.analysis.intervals import Integers, clip, gaps, intervals, lengths, no_intervals, union
from mlusim.analysis.records import Flags, Records
from mlusim.log import BLOCKING, IO, MOVE, NONE, SCALAR, SYNC, TENSOR, VECTOR

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
    "idle": "idle (imbalance, tail)",
}


def where_time_went(records: Records) -> Integers:
    """(cores, causes) picoseconds of each MLU core by cause, in the order of `CAUSES`.

    Every row sums to `records.time_ps`.
    """
    cores = records.board.cores
    low, high = records.start_of_run_ps, records.end_of_run_ps
    spent = np.zeros((cores, len(CAUSES)), np.int64)
    causes = list(CAUSES)
    covered, before = no_intervals(), np.zeros(cores, np.int64)
    for layer in layers(records):
        some = intervals(layer.track, layer.start_ps, layer.stop_ps)
        cause, covered = layer.cause, union(covered, clip(some[some[:, 0] < cores], low, high))
        after = lengths(covered, cores)
        spent[:, causes.index(cause)] += after - before
        before = after
    spent[:, causes.index("idle")] += records.time_ps - before
    return spent


class Layer(NamedTuple):
    """Times on units that one cause covers, each with the number of its source line; -1: no operation's."""

    cause: str
    track: Integers
    start_ps: Integers
    stop_ps: Integers
    line: Integers


def layers(records: Records) -> list[Layer]:
    """The layers that cover a core's time; the first that covers a moment counts."""
    unit, pipe = records.unit, records.pipe
    issue, start, end = records.issue_ps, records.start_ps, records.end_ps
    moving, alone_end = records.moving_ps, records.moving_ps + records.moving_alone_ps
    is_io, is_move = pipe == IO, pipe == MOVE
    shared = records.is_copy & (records.moving_alone_ps > 0)
    computes = (pipe == VECTOR) | (pipe == TENSOR)
    queued = records.is_copy & (records.detail == BLOCKING)

    def layer(cause: str, chosen: Flags, from_ps: Integers, to_ps: Integers) -> Layer:
        return Layer(cause, unit[chosen], from_ps[chosen], to_ps[chosen], records.line[chosen])

    def without_line(cause: str, some: Integers) -> Layer:
        return Layer(cause, some[:, 0], some[:, 1], some[:, 2], np.full(len(some), NONE))

    tasks = intervals(records.task_unit, records.task_start_ps, records.task_end_ps)
    return [
        layer("transfer", is_io & shared, moving, alone_end),
        layer("bandwidth_wait", shared, alone_end, end),
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


def _launch_overhead(records: Records, tasks: Integers) -> Integers:
    """Time on MLU cores that launches take: nobody runs, or this core's task has not been started yet."""
    board, log = records.board, records.log
    low, high = records.start_of_run_ps, records.end_of_run_ps
    anywhere = union(np.column_stack([np.zeros(len(tasks), np.int64), tasks[:, 1:]]))
    nobody = gaps(anywhere, 1, low, high)
    everywhere = intervals(np.arange(board.cores)[:, None], nobody[:, 1], nobody[:, 2])
    if not log.tasks:
        return everywhere
    # Before its first task of a launch a core waits since the launch began; before a further one, for a new wave.
    launch = np.array([task.launch for task in log.tasks], np.int64)
    launched_ps = np.array([record.start_ps for record in log.launches], np.int64)
    order = np.lexsort((records.task_start_ps, records.task_unit, launch))
    unit, start = records.task_unit[order], records.task_start_ps[order]
    first = np.diff(launch[order] * records.units + unit, prepend=NONE) != 0
    since = np.where(first, launched_ps[launch[order]], start - board.wave_ps)
    return np.concatenate([everywhere, intervals(unit, since, start)])
