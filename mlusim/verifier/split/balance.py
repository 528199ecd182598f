"""Balance of the split, and its traffic relative to the compulsory bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlusim.arrays import Flags
from mlusim.hardware import Board
from mlusim.log import IO, MOVE, SCALAR
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The balance of the work over the cores.

    Attributes:
        tasks: tasks that ran, excluding memory cores.
        idle_tasks: tasks that accessed no host tensor.
        cores, idle_cores: cores of the board, and cores without a task.
        busiest_bytes, mean_bytes: output bytes written per task.
        tile_bytes, tiles: the most common size of a store to an output, and the number of stores.
        tail_tiles: stores smaller than that.
    """

    tasks: int
    idle_tasks: int
    cores: int
    idle_cores: int
    busiest_bytes: int
    mean_bytes: float
    tile_bytes: int
    tiles: int
    tail_tiles: int

    @property
    def evenness(self) -> float:
        """Mean over maximum bytes per task, 0 to 1."""
        return self.mean_bytes / self.busiest_bytes if self.busiest_bytes else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTraffic(SourceLine):
    """The bytes that one source line moved.

    Attributes:
        operation: the operation of the line.
        operations: number of executions.
        bytes_requested: bytes requested by the kernel.
        bus_bytes: bytes moved over the DRAM bus.
    """

    operation: str
    operations: int
    bytes_requested: int
    bus_bytes: int

    @property
    def efficiency(self) -> float:
        """Requested over bus bytes: 1 for whole, aligned bus units; 0 without bus traffic."""
        return self.bytes_requested / self.bus_bytes if self.bus_bytes else 0.0


def balance_of(run: Run, board: Board) -> Balance:
    """Return how evenly the work of a log is spread over the cores."""
    log, accesses = run.log, run.accesses
    records = log.tasks
    cores = [index for index, record in enumerate(records) if not record.is_memory_core]
    host = np.array([record.task < 0 for record in log.allocations], bool)
    output = np.zeros(len(log.allocations), bool)
    output[[identity for identity, role in log.roles().items() if role == "output"]] = True
    task = run.order.task_of[accesses.record]
    touched = np.zeros(len(records), bool)
    touched[task[host[accesses.alloc]]] = True
    stores = np.flatnonzero(output[accesses.alloc] & accesses.write) if len(accesses) else np.empty(0, np.int64)
    sizes = accesses.geometries.moved_bytes[accesses.geometry[stores]]
    written_bytes = np.bincount(task[stores], sizes, len(records)) if len(stores) else np.zeros(len(records))
    per_core = written_bytes[cores] if cores else np.zeros(1)
    kinds, times = np.unique(sizes, return_counts=True)
    common = int(kinds[np.argmax(times)]) if len(kinds) else 0
    used_cores = {(records[index].cluster, records[index].core) for index in cores}
    return Balance(
        tasks=len(cores),
        idle_tasks=int((~touched[cores]).sum()) if cores else 0,
        cores=board.cores,
        idle_cores=board.cores - len(used_cores),
        busiest_bytes=int(per_core.max()),
        mean_bytes=float(per_core.mean()),
        tile_bytes=common,
        tiles=len(stores),
        tail_tiles=int((sizes < common).sum()),
    )


def memory_traffic(run: Run) -> dict[str, tuple[int, int]]:
    """Return the bytes that operations read and wrote, by memory."""
    log, accesses = run.log, run.accesses
    memories = list(dict.fromkeys(record.memory for record in log.allocations))
    memory = np.array([memories.index(record.memory) for record in log.allocations], np.int8)[accesses.alloc]
    moved_bytes = accesses.geometries.moved_bytes

    def total(is_counted: Flags) -> int:
        return int(np.bincount(accesses.geometry[is_counted], minlength=len(moved_bytes)) @ moved_bytes)

    return {
        name: (total((memory == number) & ~accesses.write), total((memory == number) & accesses.write))
        for number, name in enumerate(memories)
    }


def traffic_of(run: Run) -> list[LineTraffic]:
    """Return the bytes that each source line moved, by descending bus bytes."""
    log, columns = run.log, run.columns
    copies = np.flatnonzero(np.isin(columns["pipe"], (IO, MOVE, SCALAR)) & (columns["bytes_requested"] > 0))
    if not len(copies):
        return []
    by_line, by_op = columns["line"][copies], columns["op"][copies]
    first, inverse, times = group_rows(by_line, by_op)
    bus = columns["bus_read_bytes"] + columns["bus_write_bytes"]

    def total(values: Any) -> list[int]:
        return [int(value) for value in np.bincount(inverse, values[copies], len(times))]

    lines = [
        LineTraffic(
            file=log.lines[line][0],
            line=log.lines[line][1],
            operation=log.ops[op],
            operations=int(count),
            bytes_requested=requested,
            bus_bytes=on_bus,
        )
        for (line, op), count, requested, on_bus in zip(
            np.stack([by_line, by_op])[:, first].T.tolist(),
            times,
            total(columns["bytes_requested"]),
            total(bus),
            strict=True,
        )
    ]
    return sorted(lines, key=lambda line: (-line.bus_bytes, -line.bytes_requested))
