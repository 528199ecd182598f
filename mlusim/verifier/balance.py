"""Balance of the split, and its traffic over the compulsory bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlusim.hardware import Board
from mlusim.log import IO, MOVE, SCALAR, Log
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Integers, alike
from mlusim.verifier.order import Order


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The work of the cores.

    Attributes:
        tasks: tasks that ran, without memory cores.
        idle_tasks: those that touched no tensor of the host.
        cores, idle_cores: of the board, and those without a task.
        busiest_bytes, mean_bytes: bytes of outputs that a task wrote.
        tile_bytes, tiles: the most common size of a store to an output, and the stores.
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
        """Mean over busiest, 0 to 1."""
        return self.mean_bytes / self.busiest_bytes if self.busiest_bytes else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTraffic:
    """The bytes that one source line moved.

    Attributes:
        file, line, operation: the line.
        operations: how often.
        bytes_requested: what it requested.
        bus_bytes: what went over the DRAM bus for it.
    """

    file: str
    line: int
    operation: str
    operations: int
    bytes_requested: int
    bus_bytes: int

    @property
    def efficiency(self) -> float:
        """Useful over bus bytes: 1 for whole, aligned bus units; 0 where nothing went over the bus."""
        return self.bytes_requested / self.bus_bytes if self.bus_bytes else 0.0

    @property
    def place(self) -> str:
        """`kernel.py:41`."""
        return f"{Path(self.file).name}:{self.line}"


def balance_of(log: Log, accesses: Accesses, order: Order, board: Board) -> Balance:
    """The work of the cores in a log."""
    records = log.tasks
    cores = [index for index, record in enumerate(records) if not record.is_memory_core]
    host = np.array([record.task < 0 for record in log.allocations], bool)
    output = np.array(
        [record.task < 0 and not (record.read_only or record.workspace) for record in log.allocations], bool
    )
    task = order.task[order.place[accesses.record]]
    touched = np.zeros(len(records), bool)
    touched[task[host[accesses.alloc]]] = True
    stores = np.flatnonzero(output[accesses.alloc] & accesses.write) if len(accesses) else np.empty(0, np.int64)
    sizes = _sizes(accesses, stores)
    written = np.bincount(task[stores], sizes, len(records)) if len(stores) else np.zeros(len(records))
    per_core = written[cores] if cores else np.zeros(1)
    kinds, times = np.unique(sizes, return_counts=True)
    common = int(kinds[np.argmax(times)]) if len(kinds) else 0
    used = {(records[index].cluster, records[index].core) for index in cores}
    return Balance(
        tasks=len(cores),
        idle_tasks=int((~touched[cores]).sum()) if cores else 0,
        cores=board.cores,
        idle_cores=board.cores - len(used),
        busiest_bytes=int(per_core.max()),
        mean_bytes=float(per_core.mean()),
        tile_bytes=common,
        tiles=len(stores),
        tail_tiles=int((sizes < common).sum()),
    )


def _sizes(accesses: Accesses, rows: Integers) -> Integers:
    each = np.zeros(len(accesses.geometries), np.int64)
    for number in np.unique(accesses.geometry[rows]).tolist():
        each[number] = accesses.geometries[number].moved_bytes
    return each[accesses.geometry[rows]]


def memory_traffic(log: Log, accesses: Accesses) -> dict[str, tuple[int, int]]:
    """Bytes that operations read and wrote, by memory."""
    sizes = _sizes(accesses, np.arange(len(accesses)))
    found: dict[str, tuple[int, int]] = {}
    kind = np.array([record.memory for record in log.allocations])[accesses.alloc] if len(accesses) else np.empty(0)
    for memory in dict.fromkeys(record.memory for record in log.allocations):
        mine = kind == memory
        found[memory] = (int(sizes[mine & ~accesses.write].sum()), int(sizes[mine & accesses.write].sum()))
    return found


def traffic_of(log: Log, columns: dict[str, Integers]) -> list[LineTraffic]:
    """The bytes that each source line moved, the most bus bytes first."""
    moved = np.flatnonzero(np.isin(columns["pipe"], (IO, MOVE, SCALAR)) & (columns["bytes_requested"] > 0))
    if not len(moved):
        return []
    by_line, by_op = columns["line"][moved], columns["op"][moved]
    first, inverse, times = alike(by_line, by_op)
    bus = columns["bus_read_bytes"] + columns["bus_write_bytes"]

    def total(values: Any) -> list[int]:
        return [int(value) for value in np.bincount(inverse, values[moved], len(times))]

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
    return sorted(lines, key=lambda one: (-one.bus_bytes, -one.bytes_requested))
