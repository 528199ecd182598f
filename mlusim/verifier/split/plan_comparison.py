"""Comparison of a run with its plan: the planned tensor, the writer of each tile, and the NRAM per task."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.log import NONE, Log
from mlusim.log_tables import AllocationRecord, Box
from mlusim.memory.layout import contiguous_strides
from mlusim.planning.plan import Plan
from mlusim.units import format_bytes
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import Geometries, geometry_of
from mlusim.verifier.accesses.outputs import is_output, window_of
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.findings import Finding, Site
from mlusim.verifier.run import Run

_RULE = "a run must follow its plan"


def planned_output(log: Log, plan: Plan | None, name: str) -> tuple[int, list[Finding]]:
    """Find the tensor that a plan splits; NONE with a finding if ambiguous or mismatched, or without a plan.

    The tensor is the output named `name`; else the only output; else the only output with the shape and size of the
    plan. Size alone never decides.
    """
    outputs = [identity for identity, record in enumerate(log.allocations) if is_output(record)]
    if plan is None or not outputs or not log.launches:
        return NONE, []
    nbytes = math.prod(plan.output_shape) * plan.itemsize
    if name:
        outputs = [identity for identity in outputs if log.allocations[identity].name == name]
    elif len(outputs) > 1:
        same_shape = [
            identity
            for identity in outputs
            if log.allocations[identity].shape == plan.output_shape and log.allocations[identity].nbytes == nbytes
        ]
        if len(same_shape) != 1:
            names = ", ".join(log.allocations[identity].name for identity in same_shape or outputs)
            return NONE, _mismatch(
                f"the plan covers {_describe(plan.output_shape, plan.itemsize)} and "
                f"{'several outputs have this shape' if same_shape else 'no output has this shape'}: {names}",
                "name the tensor that the plan splits: verify(..., planned='NAME')",
            )
        outputs = same_shape
    if not outputs:
        return NONE, _mismatch(
            f"the plan splits {name}, which is not an output", "pass the name of an output as planned="
        )
    record = log.allocations[outputs[0]]
    window = window_of(log, outputs[0])
    covered = nbytes if window is None else math.prod(window[1].shape) * window[1].itemsize
    if covered != nbytes or (window is None and record.nbytes != nbytes):
        itemsize = record.nbytes // max(math.prod(record.shape), 1)
        return NONE, _mismatch(
            f"the plan covers {_describe(plan.output_shape, plan.itemsize)}, and {record.name} is {record.dtype} "
            f"{_describe(record.shape, itemsize)}",
            "make the plan for the shape and element type of this output",
        )
    return outputs[0], []


def _describe(shape: tuple[int, ...], itemsize: int) -> str:
    return f"{list(shape)} elements of {itemsize} B"


def _mismatch(title: str, remedy: str) -> list[Finding]:
    return [Finding(kind="not-planned", title=title, rule=_RULE, remedies=(remedy,))]


def tiles_as_accesses(plan: Plan, log: Log, identity: int) -> Accesses:
    """Return the tiles of a plan as writes to its output; the column `record` contains the task."""
    tiles = plan.tiles
    strides = contiguous_strides(plan.output_shape, plan.itemsize)
    begin = 0
    window = window_of(log, identity)
    if window is not None and window[1].shape == plan.output_shape:
        begin, strides = window[0], window[1].strides
    sizes = tiles.stop - tiles.start
    kinds, number = np.unique(sizes, axis=0, return_inverse=True)
    geometries = Geometries()
    for shape in kinds.tolist():
        geometry = geometry_of(Box(tuple(shape), strides, plan.itemsize))
        assert geometry is not None
        geometries.append(geometry)
    offset = begin + tiles.start @ np.array(strides, np.int64)
    number = number.reshape(-1)
    starts, stops = geometries.edges
    return Accesses(
        tiles.task,
        np.full(len(tiles), identity),
        offset,
        number,
        offset + starts[number],
        offset + stops[number],
        np.ones(len(tiles), bool),
        geometries,
    )


def follows(run: Run, accesses: Accesses, planned: Accesses) -> bool:
    """Return whether the writes of a run and the tiles of its plan correspond one to one, by core.

    Adjacent writes of a task count as one. Then no comparison is needed.

    Args:
        run: the run.
        accesses: its accesses to the output.
        planned: the tiles, as `tiles_as_accesses` returns them.
    """
    writes = accesses.where(np.flatnonzero(accesses.write))
    task = run.order.task_of[writes.record]
    if np.array([record.is_memory_core for record in run.log.tasks], bool)[task].any():
        return False
    task_ids = np.array([record.task_id for record in run.log.tasks], np.int64)[task]
    kinds: dict[tuple[object, ...], int] = {}
    actual, expected = _tile_table(writes, task_ids, kinds), _tile_table(planned, planned.record, kinds)
    return actual is not None and expected is not None and np.array_equal(actual, expected)


def _tile_table(accesses: Accesses, task: Integers, kinds: dict[tuple[object, ...], int]) -> Integers | None:
    """Return task, kind, first and last byte of each access, sorted; None if an access is not strided.

    Args:
        accesses, task: the accesses, and the task of each.
        kinds: indices of geometries that are not single runs; extended in place.
    """
    number = np.full(len(accesses.geometries), NONE, np.int64)
    for geometry in np.unique(accesses.geometry).tolist():
        shape = accesses.geometries[geometry]
        if not shape.strided:
            return None
        if not shape.single:
            number[geometry] = kinds.setdefault((shape.run, shape.loops), len(kinds))
    kind = number[accesses.geometry]
    order = np.lexsort((accesses.low, kind, task))
    task, kind, low, high = task[order], kind[order], accesses.low[order], accesses.high[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (task[1:] != task[:-1]) | (kind[1:] != NONE) | (kind[:-1] != NONE) | (low[1:] != high[:-1])
    is_last = np.append(is_first[1:], True)[: len(order)]
    return np.stack([task[is_first], kind[is_first], low[is_first], high[is_last]])


def misplaced(
    run: Run, allocation: AllocationRecord, cells: Cells, accesses: Accesses, is_run: Flags, is_tile: Flags, plan: Plan
) -> list[Finding]:
    """Find bytes that another task writes than planned. A memory core may write for any core of its cluster.

    Args:
        run: the run.
        allocation, cells: the output.
        accesses, is_run, is_tile: the accesses that the cells are made of; those of the run, and the tiles of the plan.
        plan: the plan.
    """
    log = run.log
    # By access, the index of its task in the log; for a tile, its task in the grid.
    task = accesses.record.copy()
    task[is_run] = run.order.task_of[accesses.record[is_run]]
    writes = is_run & accesses.write
    accessed_once = (cells.count(is_tile) == 1) & (cells.count(writes) == 1)
    planned, actual = (cells.count(np.where(selected, task, 0)) for selected in (is_tile, writes))
    is_misplaced = accessed_once.copy()
    is_misplaced[accessed_once] = ~_may_write_for(log, actual[accessed_once], planned[accessed_once])
    if not is_misplaced.any():
        return []
    starts, stops = cells.runs(is_misplaced)
    cell = int(np.flatnonzero(is_misplaced)[0])
    row = next(row for row in cells.rows_at(cell).tolist() if writes[row])
    site = site_in_tile(run, int(accesses.record[row]), "writes", plan, int(starts[0]))
    name = f"the memory core of cluster {site.cluster}" if site.task == "memory core" else site.task
    return [
        Finding(
            kind="not-planned",
            title=f"{name} writes bytes that the plan assigns to task {int(planned[cell])}",
            region=describe(allocation, starts, stops),
            nbytes=int((stops - starts).sum()),
            sites=(site,),
            rule=f"the plan of {plan.operator} assigns {describe_tile(plan, int(starts[0]))}",
            remedies=("iterate over plan.tiles_of(core.task_id), or verify without a plan",),
            fields={"task": log.tasks[int(actual[cell])].task_id, "planned_task": int(planned[cell])},
        )
    ]


def _may_write_for(log: Log, writer: Integers, planned: Integers) -> Flags:
    """By pair, whether a task of the log is the planned task of the grid, or the memory core of its cluster."""
    cluster = np.array([record.cluster for record in log.tasks], np.int64)
    task_ids = np.array([record.task_id for record in log.tasks], np.int64)
    by_memory_core = np.array([record.is_memory_core for record in log.tasks], bool)
    cluster_of_task = np.full(max(int(planned.max(initial=0)), int(task_ids.max(initial=0))) + 1, NONE, np.int64)
    cluster_of_task[task_ids[~by_memory_core]] = cluster[~by_memory_core]
    same_cluster = cluster_of_task[planned] == cluster[writer]
    return np.asarray(np.where(by_memory_core[writer], same_cluster, planned == task_ids[writer]), bool)


def nram_beyond_plan(log: Log, plan: Plan) -> list[Finding]:
    """Report the task with the highest NRAM use if it exceeds the plan's budget."""
    peaks = nram_peaks(log)
    if not peaks:
        return []
    task = max(peaks, key=lambda number: peaks[number])
    if peaks[task] <= plan.nram_bytes:
        return []
    return _mismatch(
        f"task {log.tasks[task].task_id} allocates {format_bytes(peaks[task])} of NRAM at once, and the plan "
        f"allows {format_bytes(plan.nram_bytes)}",
        "allocate less, or make a plan with the NRAM that the kernel needs",
    )


def nram_peaks(log: Log) -> dict[int, int]:
    """By task, return its peak NRAM allocation in bytes."""
    events = []
    for record in log.allocations:
        if record.memory == "nram":
            events.append((record.task, record.start_ps, 1, record.nbytes))
            if record.end_ps >= 0:
                events.append((record.task, record.end_ps, 0, -record.nbytes))
    peaks: dict[int, int] = {}
    allocated: dict[int, int] = {}
    for task, _, _, nbytes in sorted(events):
        allocated[task] = allocated.get(task, 0) + nbytes
        peaks[task] = max(peaks.get(task, 0), allocated[task])
    return peaks


def _tile_of(plan: Plan | None, byte: int) -> int:
    if plan is None or not len(plan.tiles):
        return NONE
    position = np.array(np.unravel_index(byte // plan.itemsize, plan.output_shape))
    contains = ((plan.tiles.start <= position) & (position < plan.tiles.stop)).all(axis=1)
    return int(np.argmax(contains)) if contains.any() else NONE


def _tile_text(plan: Plan, tile: int) -> str:
    return f"tile {int(plan.tiles.iteration[tile])} of task {int(plan.tiles.task[tile])}"


def site_in_tile(run: Run, record: int, role: str, plan: Plan | None, byte: int) -> Site:
    """Return an operation as a site, with the plan's tile that contains a byte of the output, if any."""
    tile = _tile_of(plan, byte)
    return replace(run.site(record, role), tile="" if plan is None or tile == NONE else _tile_text(plan, tile))


def describe_tile(plan: Plan | None, byte: int) -> str:
    """Name the plan's tile that contains a byte, with its box."""
    tile = _tile_of(plan, byte)
    if plan is None or tile == NONE:
        return "these bytes to no tile"
    start, stop = plan.tiles.start[tile].tolist(), plan.tiles.stop[tile].tolist()
    return f"them to {_tile_text(plan, tile)}, {start} to {stop}"
