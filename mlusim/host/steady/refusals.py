"""Why a run is simulated in full: what makes its operations unpredictable, or its loops too short."""

from __future__ import annotations

import numpy as np

from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.cores.memory_sets import SET_NAMES
from mlusim.cores.synchronisation.locks import LOCK_NAMES
from mlusim.host.steady.task_loops import LEFT, MEASURED, WARM
from mlusim.log import NONE, SCALAR, Log
from mlusim.memory.kinds import Direction
from mlusim.units import plural

_FEWEST = WARM + MEASURED + LEFT
_BY_MEMORY_CORE = [code for code, direction in enumerate(Direction) if direction.by_memory_core]


def unfit(log: Log) -> str:
    """Return why operations of a run cannot be skipped; empty if they can."""
    ops = set(log.ops)
    table, rows = log.records.instructions()
    if log.loops or log.addresses:
        return "what its loops of rows or elements do depends on data"
    if ops & {*LOCK_NAMES, *ATOMIC_NAMES, *SET_NAMES}:
        return "it has locks or atomics, whose order is decided by time"
    if np.isin(table["direction"], _BY_MEMORY_CORE).any():
        return "it copies through memory cores, where calls of several cores share one copy"
    scalar = np.flatnonzero((table["pipe"] == SCALAR)[rows])
    if (log.records.column("dst_alloc", scalar) != NONE).any():
        return "it has scalar stores, and loads may depend on them"
    return ""


def too_few(repeats: int) -> str:
    """Return why a loop with that many repeats is too short for extrapolation; empty if it may be long enough."""
    if repeats > _FEWEST:
        return ""
    return f"no task has more than {plural(repeats, 'tile')}, and {_FEWEST} are always simulated"


def without_loops(log: Log) -> str:
    """Return why nothing was skipped of a run whose tasks were never found in loops."""
    if "load" in log.ops:
        return "its tasks load values, and what they issue changes with them or repeats too few times"
    return f"its tasks repeat no loop more than {_FEWEST} times"
