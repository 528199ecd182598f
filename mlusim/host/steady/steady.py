"""Steady-state timing of a launch: a dry run, a replay that skips repeats, or a full run if nothing repeats."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from mlusim.cores.locks import LOCK_NAMES
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES, SET_NAMES
from mlusim.errors import InputError
from mlusim.host.device import Device
from mlusim.host.steady.expand import expand
from mlusim.host.steady.periods import codes_of, repeated
from mlusim.host.steady.skips import LEFT, MEASURED, WARM, CuttingReplay, UnsteadyError
from mlusim.log import NONE, SCALAR, Log
from mlusim.memory.kinds import Direction

_NO_LIMIT = 1 << 62
_BY_MEMORY_CORE = [code for code, direction in enumerate(Direction) if direction.by_memory_core]
# Minimum fraction of the operations to skip; below that, a full run is no slower.
_MIN_SKIPPED = 0.5


def timed(run: Callable[[bool], Device], why: str = "") -> tuple[Device, Log]:
    """Run kernels without data, and time them by steady-state extrapolation or in full.

    Args:
        run: returns a device on which everything has run, dry if its argument is True. The kernels have to issue the
            same operations each time.
        why: reason to run in full, if the caller knows one.

    Returns the device and the log. `log.skipped` lists the extrapolated stretches with their error bounds; if it is
    empty, `log.unsteady` contains the reason, and every time is simulated. Raises the errors of the run.
    """
    if not why:
        device = run(True)
        log = device.log
        why = _unfit(log) or _without_loops(log)
    if not why:
        replay = CuttingReplay(log, device.board, Device(device.board, data=False, max_operations=_NO_LIMIT))
        try:
            expanded = expand(log, replay, replay.run())
        except UnsteadyError as error:
            why = error.message
        else:
            expanded.unsteady = "" if expanded.skipped else "its tasks end before they settle at one pace"
            return device, expanded
    device = run(False)
    device.log.unsteady = why
    return device, device.log


def too_few(repeats: int) -> str:
    """Return why a loop with that many repeats is too short for extrapolation; empty if it may be long enough."""
    minimum = WARM + MEASURED + LEFT
    return (
        "" if repeats > minimum else f"its tasks have {repeats} tiles each at most, and {minimum} are simulated anyway"
    )


def _unfit(log: Log) -> str:
    """Return why operations of a run cannot be skipped; empty if they can."""
    ops = set(log.ops)
    columns = {name: log.records.column(name, slice(0, len(log))) for name in ("direction", "pipe", "dst_alloc")}
    if log.loops or log.addresses:
        return "what its loops of rows or elements do depends on data"
    if ops & {*LOCK_NAMES, *ATOMIC_NAMES, *SET_NAMES}:
        return "it has locks or atomics, whose order is decided by time"
    if np.isin(columns["direction"], _BY_MEMORY_CORE).any():
        return "it copies by memory cores, whose copies several calls share"
    if ((columns["pipe"] == SCALAR) & (columns["dst_alloc"] != NONE)).any():
        return "it has scalar stores, and loads may depend on them"
    return ""


def _without_loops(log: Log) -> str:
    """Return why skipping repeats does not pay off; empty if it does."""
    codes = codes_of(log)
    tasks = log.records.column("task", slice(0, len(log)))
    order = np.argsort(tasks, kind="stable")
    bounds = np.searchsorted(tasks[order], np.arange(len(log.tasks) + 1)).tolist()
    repeats: dict[bytes, int] = {}
    total = 0
    for low, high in pairwise(bounds):
        course = codes[order[low:high]]
        key = course.tobytes()
        if key not in repeats:
            repeats[key] = repeated(course, WARM + MEASURED + LEFT)
        total += repeats[key]
    if total >= _MIN_SKIPPED * len(log):
        return ""
    loads = log.ops.index("load") if "load" in log.ops else NONE
    if (log.records.column("op", slice(0, len(log))) == loads).any():
        return "its tasks load values, and what they issue changes with them or repeats too few times"
    return f"its tasks repeat no loop more than {WARM + MEASURED + LEFT} times"


def check_steady(*, steady: bool, data: bool, check: bool = False) -> None:
    """Raise `InputError` for options that are incompatible with steady-state timing."""
    if steady and data:
        raise InputError(
            "steady=True (--steady) with data: it leaves operations out, so nothing is computed; add data=False "
            "(--no-data)"
        )
    if steady and check:
        raise InputError(
            "steady=True (--steady) with check=True (--check): what is checked is simulated in full; leave one of them "
            "off"
        )
