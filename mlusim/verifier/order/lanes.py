"""Lanes: operations that are in order among themselves. One per pipe, posted stores, the memory core's engine."""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.synchronisation.ordering import (
    ALL_PIPES,
    IO_PIPE,
    MOVE_PIPE,
    TENSOR_PIPE,
    VECTOR_PIPE,
    Ordering,
    recorded_ordering,
)
from mlusim.log import BLOCKING, IO, MOVE, PIPES, SCALAR, TENSOR, VECTOR, Log
from mlusim.memory.kinds import DIRECTION_CODES, Direction
from mlusim.verifier.accesses.geometry import group_rows

# The pipes of a core, and two lanes outside them.
POSTED, MEMORY_CORE_IO = len(PIPES), len(PIPES) + 1
LANES = (*PIPES, "posted store", "memory core's io")
# Lanes that run asynchronously to the task, and the pipes that a sync must name to wait for them.
ASYNCHRONOUS_LANES = {
    VECTOR: VECTOR_PIPE,
    TENSOR: TENSOR_PIPE,
    IO: IO_PIPE,
    MOVE: MOVE_PIPE,
    POSTED: ALL_PIPES,
    MEMORY_CORE_IO: IO_PIPE,
}


def in_order(first: int, second: int) -> bool:
    """Return whether both lanes are the same, or both belong to the scalar pipe."""
    return first == second or {first, second} == {SCALAR, POSTED}


def ordering_classes(log: Log, columns: dict[str, Integers]) -> tuple[list[Ordering], Integers]:
    """Return the distinct ordering classes, and the class of each record as an index."""
    pipe = columns["pipe"]
    blocking = np.isin(pipe, (IO, MOVE)) & (columns["detail"] == BLOCKING)
    off_chip = np.array([record.memory in ("gdram", "ldram") for record in log.allocations] + [False])
    writes_off_chip = off_chip[columns["dst_alloc"]]
    nram = np.array([record.memory == "nram" for record in log.allocations] + [False])
    on_nram = nram[columns["dst_alloc"]] | nram[columns["a_alloc"]]
    queued = np.zeros(len(pipe), bool)
    queued[[record for record, loop in log.loops.items() if loop.method in ("queued", "runs")]] = True
    first, kind, _ = group_rows(pipe, blocking, writes_off_chip, on_nram, queued)
    classes = [
        recorded_ordering(
            int(pipe[index]),
            blocking=bool(blocking[index]),
            writes_off_chip=bool(writes_off_chip[index]),
            on_nram=bool(on_nram[index]),
            queued=bool(queued[index]),
        )
        for index in first.tolist()
    ]
    return classes, kind


def lanes_of(log: Log, columns: dict[str, Integers], posted: Flags) -> Integers:
    """Return the lane of each record; `posted` marks posted stores."""
    lane = np.where(posted, POSTED, columns["pipe"])
    by_memory_core = [DIRECTION_CODES[direction] for direction in Direction if direction.by_memory_core]
    staged = np.isin(columns["direction"], by_memory_core)
    if staged.any():
        memory_core = np.array([record.is_memory_core for record in log.tasks], bool)
        lane[staged & ~memory_core[columns["task"]]] = MEMORY_CORE_IO
    return lane
