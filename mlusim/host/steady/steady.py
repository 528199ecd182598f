"""Steady-state timing of a launch: dry run, replay with repeats left out, or the full run where nothing repeats."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from mlusim.cores.global_memory import ATOMIC_NAMES, SET_NAMES
from mlusim.cores.locks import LOCK_NAMES
from mlusim.errors import InputError
from mlusim.host.device import Device
from mlusim.host.steady.cuts import LEFT, MEASURED, WARM, CuttingReplay, UnsteadyError
from mlusim.host.steady.expand import expand
from mlusim.host.steady.periods import codes_of, repeated
from mlusim.log import NONE, SCALAR, Log
from mlusim.memory.kinds import Direction

_NO_LIMIT = 1 << 62
_BY_MEMORY_CORE = [code for code, direction in enumerate(Direction) if direction.by_memory_core]
# The part of its operations that a launch may leave out, at least; below that the full run costs no more.
_WORTH = 0.5


def timed(run: Callable[[bool], Device], why: str = "") -> tuple[Device, Log]:
    """Run kernels without data and time them by their steady state, or in full.

    Args:
        run: gives a device on which everything has run; with True as its argument, it ran dry. The kernels issue the
            same operations each time.
        why: a reason to run in full, where the caller knows one.

    Returns the device and the log. `log.skipped` has the stretches whose times are extrapolated, with their bounds;
    where there are none, `log.unsteady` says why, and every time is simulated. Raises what the run raises.
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
    """Why a loop of that many repeats cannot be timed by its steady state; empty where it may be."""
    least = WARM + MEASURED + LEFT
    return "" if repeats > least else f"its tasks have {repeats} tiles each at most, and {least} are simulated anyway"


def _unfit(log: Log) -> str:
    """Why operations of a run cannot be left out; empty where they can."""
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
    """Why leaving repeats out is not worth it; empty where it is."""
    codes = codes_of(log)
    tasks = log.records.column("task", slice(0, len(log)))
    order = np.argsort(tasks, kind="stable")
    bounds = np.searchsorted(tasks[order], np.arange(len(log.tasks) + 1)).tolist()
    known: dict[bytes, int] = {}
    total = 0
    for low, high in pairwise(bounds):
        course = codes[order[low:high]]
        key = course.tobytes()
        if key not in known:
            known[key] = repeated(course, WARM + MEASURED + LEFT)
        total += known[key]
    if total >= _WORTH * len(log):
        return ""
    loads = log.ops.index("load") if "load" in log.ops else NONE
    if (log.records.column("op", slice(0, len(log))) == loads).any():
        return "its tasks load values, and what they issue changes with them or repeats too few times"
    return f"its tasks repeat no loop more than {WARM + MEASURED + LEFT} times"


def check_steady(*, steady: bool, data: bool, check: bool = False) -> None:
    """Raise `InputError` where a run is to be timed by its steady state and cannot be."""
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
