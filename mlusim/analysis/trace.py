"""A run as a Chrome trace, for Perfetto (ui.perfetto.dev) and chrome://tracing.

Processes are clusters, and threads are the pipes of their cores; a process for the board contains the launches, and the
DRAM bandwidth as a counter. Times are exact: microseconds with six decimals, that is, picoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TextIO

import numpy as np

from mlusim.analysis.bandwidth import bandwidth_of
from mlusim.analysis.log_columns import DIRECTION_NAMES, LogColumns
from mlusim.analysis.log_parts import parts_of
from mlusim.analysis.provenance import MODEL
from mlusim.log import IO, MOVE, PIPES, SCALAR, SYNC, TENSOR, VECTOR
from mlusim.source_code import source_name
from mlusim.units import PS_PER_NS, PS_PER_US

# Process and thread ids start above 0, which Perfetto reserves for the idle process of Linux.
_BOARD_PROCESS = 1
_TASK_THREAD = 0
# Threads of a core from top to bottom: its task, then its pipes.
_PIPE_THREADS = {IO: 1, MOVE: 2, VECTOR: 3, TENSOR: 4, SCALAR: 5, SYNC: 6}
_THREADS_PER_CORE = 8
_COUNTER_BINS = 500
_BATCH_EVENTS = 20_000
# The columns that the event of an operation shows.
_TRACED = (
    *("op", "engine", "pipe", "task", "line", "start_ps", "free_ps", "count", "bytes_requested", "direction"),
    *("latency_ps", "moving_alone_ps"),
)


def stream_trace(records: LogColumns, stream: TextIO, provenance: Mapping[str, Any] | None = None) -> None:
    """Write the trace as one JSON object to an open text stream; `provenance` is the provenance of the run."""
    about: dict[str, Any] = {"board": records.board.name, "model": MODEL}
    if provenance is not None:
        about["provenance"] = provenance
    stream.write(f'{{"displayTimeUnit":"ns","otherData":{json.dumps(about)},"traceEvents":[\n')
    separator = ""
    for text in _batches(trace_events(records)):
        stream.write(separator + text)
        separator = ",\n"
    stream.write("\n]}\n")


def _batches(events: Iterable[str]) -> Iterator[str]:
    batch: list[str] = []
    for event in events:
        batch.append(event)
        if len(batch) == _BATCH_EVENTS:
            yield ",\n".join(batch)
            batch.clear()
    if batch:
        yield ",\n".join(batch)


def trace_events(records: LogColumns) -> Iterator[str]:
    """Yield every event as JSON text: names first, then launches and bandwidth, tasks, operations."""
    yield from _names(records)
    yield from _launches(records)
    yield from _counters(records)
    yield from _tasks(records)
    yield from _operations(records)


def _process_and_thread(records: LogColumns, unit: int) -> tuple[int, int]:
    """Return the process of a unit, and the id of its first thread."""
    board = records.board
    cluster = unit - board.cores if unit >= board.cores else unit // board.cores_per_cluster
    return _BOARD_PROCESS + 1 + cluster, _first_thread(records, unit)


def _first_thread(records: LogColumns, unit: int) -> int:
    """Return a thread id that is unique across processes, and none of theirs, which would denote main threads."""
    return (records.board.clusters + 1 + unit) * _THREADS_PER_CORE


def _queue_thread(records: LogColumns, queue: int) -> int:
    return _first_thread(records, records.units) + queue


def _names(records: LogColumns) -> Iterator[str]:
    lanes = [np.unique(np.stack([part.engine, part.pipe]), axis=1) for part in parts_of(records)]
    lanes_used = {(unit, pipe) for unit, pipe in np.concatenate(lanes, axis=1).T.tolist()}
    units = sorted({unit for unit, _ in lanes_used} | set(records.task_unit.tolist()))
    yield from _process(_BOARD_PROCESS, f"board {records.board.name}", -1)
    for queue in sorted({launch.queue for launch in records.log.launches}):
        yield from _thread(_BOARD_PROCESS, _queue_thread(records, queue), f"launches of queue {queue}")
    for process in sorted({_process_and_thread(records, unit)[0] for unit in units}):
        yield from _process(process, f"cluster {process - _BOARD_PROCESS - 1}", process)
    for unit in units:
        process, first = _process_and_thread(records, unit)
        core_name = records.unit_name(unit).split(" ", 2)[2]
        yield from _thread(process, first + _TASK_THREAD, f"{core_name} task")
        for pipe, thread in _PIPE_THREADS.items():
            if (unit, pipe) in lanes_used:
                yield from _thread(process, first + thread, f"{core_name} {PIPES[pipe]}")


def _process(process: int, name: str, position: int) -> Iterator[str]:
    yield _metadata("process_name", process, None, {"name": name})
    yield _metadata("process_sort_index", process, None, {"sort_index": position})


def _thread(process: int, thread: int, name: str) -> Iterator[str]:
    yield _metadata("thread_name", process, thread, {"name": name})
    yield _metadata("thread_sort_index", process, thread, {"sort_index": thread})


def _metadata(name: str, process: int, thread: int | None, arguments: dict[str, object]) -> str:
    owner = {"pid": process} if thread is None else {"pid": process, "tid": thread}
    return json.dumps({"ph": "M", "name": name} | owner | {"args": arguments})


def _us(time_ps: int) -> str:
    return f"{time_ps // PS_PER_US}.{time_ps % PS_PER_US:06d}"


def _slice(name: str, track: tuple[int, int], start_ps: int, end_ps: int, arguments: str) -> str:
    """Format one complete event; `name` and `arguments` are JSON already."""
    process, thread = track
    return (
        f'{{"ph":"X","name":{name},"pid":{process},"tid":{thread},"ts":{_us(start_ps)},'
        f'"dur":{_us(end_ps - start_ps)},"args":{{{arguments}}}}}'
    )


def _launches(records: LogColumns) -> Iterator[str]:
    for launch in records.log.launches:
        if launch.start_ps < 0:
            continue
        end_ps = launch.end_ps if launch.end_ps >= 0 else records.end_of_run_ps
        about = json.dumps({"kind": launch.kind, "dim": list(launch.dim)})[1:-1]
        track = (_BOARD_PROCESS, _queue_thread(records, launch.queue))
        yield _slice(json.dumps(launch.kernel), track, launch.start_ps, end_ps, about)


def _counters(records: LogColumns) -> Iterator[str]:
    """Yield achieved DRAM bandwidth in GB/s."""
    if not records.time_ps:
        return
    series = bandwidth_of(records, _COUNTER_BINS)
    columns = (series.edges_ps[:-1].tolist(), series.read.tolist(), series.write.tolist())
    for time_ps, reads, writes in zip(*columns, strict=True):
        yield (
            f'{{"ph":"C","name":"DRAM GB/s","pid":{_BOARD_PROCESS},"ts":{_us(time_ps)},'
            f'"args":{{"read":{reads:.3f},"write":{writes:.3f}}}}}'
        )
    yield (
        f'{{"ph":"C","name":"DRAM GB/s","pid":{_BOARD_PROCESS},"ts":{_us(records.end_of_run_ps)},'
        '"args":{"read":0,"write":0}}'
    )


def _tasks(records: LogColumns) -> Iterator[str]:
    kernels = [launch.kernel for launch in records.log.launches]
    columns = (records.task_unit.tolist(), records.task_start_ps.tolist(), records.task_end_ps.tolist())
    for task, unit, start, end in zip(records.log.tasks, *columns, strict=True):
        process, first = _process_and_thread(records, unit)
        name = json.dumps(f"{kernels[task.launch]} task {task.task_id}")
        yield _slice(name, (process, first + _TASK_THREAD), start, end, f'"launch":{task.launch}')


def _operations(records: LogColumns) -> Iterator[str]:
    """Yield every record, track by track; for a long log, track by track within each part."""
    log = records.log
    names = [json.dumps(name) for name in log.ops]
    lines = [json.dumps(f"{source_name(file)}:{number} {function}") for file, number, function in log.lines]
    directions = [json.dumps(name) for name in DIRECTION_NAMES]
    threads = [_process_and_thread(records, unit) for unit in range(records.units)]
    task_ids = [task.task_id for task in log.tasks]
    rows = chain.from_iterable(map(_rows, parts_of(records)))
    for op, engine, pipe, task, line, start, end, count, nbytes, direction, latency, moving_alone in rows:
        process, thread = threads[engine]
        about = f'"task":{task_ids[task]},"line":{lines[line]}'
        if nbytes:
            about += f',"bytes":{nbytes}'
        if count > 1:
            about += f',"count":{count}'
        name = names[op]
        if direction >= 0:
            name = directions[direction]
            about += f',"start_up_ns":{latency / PS_PER_NS:g}'
            if moving_alone:
                about += f',"alone_ns":{moving_alone / PS_PER_NS:g}'
        yield _slice(name, (process, thread + _PIPE_THREADS[pipe]), start, end, about)


def _rows(part: LogColumns) -> Iterator[tuple[Any, ...]]:
    """Yield the columns `_TRACED` of each record, track by track, without a list of all of them."""
    order = np.lexsort((part.start_ps, part.pipe, part.engine))
    columns = [getattr(part, name)[order] for name in _TRACED]
    for first in range(0, len(order), _BATCH_EVENTS):
        yield from zip(*(column[first : first + _BATCH_EVENTS].tolist() for column in columns), strict=True)
