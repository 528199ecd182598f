"""The split proof: every byte of an output is written exactly once, by whom, and how often each input byte is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlusim.log import NONE, AllocationRecord, Box, Log
from mlusim.memory.view import contiguous_strides
from mlusim.planning.plan import Plan
from mlusim.units import format_bytes, group_digits
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Geometry, Integers, geometry_of
from mlusim.verifier.cells import Cells, Flags
from mlusim.verifier.coordinates import describe
from mlusim.verifier.findings import Finding, Site, site_of
from mlusim.verifier.order import LANES, Order


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorUse:
    """What a run did with one tensor of the host.

    Attributes:
        name, shape, dtype, nbytes: the tensor.
        is_input: the host gave its bytes, and no kernel may write them.
        bytes_read, bytes_written: by all operations together.
        least_reads, most_reads: of any byte.
        unread_bytes, unwritten_bytes, rewritten_bytes: never read, never written, written more than once.
        known: False where a timing-only run does not know which rows were touched: these are left out.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    is_input: bool
    bytes_read: int
    bytes_written: int
    least_reads: int
    most_reads: int
    unread_bytes: int
    unwritten_bytes: int
    rewritten_bytes: int
    known: bool = True

    @property
    def times_read(self) -> float:
        """Bytes read over the size: 1 is the compulsory minimum of an input."""
        return self.bytes_read / self.nbytes if self.nbytes else 0.0

    @property
    def times_written(self) -> float:
        """Bytes written over the size: 1 is the compulsory minimum of an output."""
        return self.bytes_written / self.nbytes if self.nbytes else 0.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """Looks at the tensors of the host in one log.

    Attributes:
        log, accesses, order: of the run.
        plan: the split that it should follow, or None.
        rewrites: names of outputs that the kernel may write more than once, or True for all.
        outputs: names of tensors that the kernel is to write.
    """

    log: Log
    accesses: Accesses
    order: Order
    plan: Plan | None = None
    rewrites: bool | tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def look(self) -> tuple[list[TensorUse], list[Finding]]:
        """What happened to each tensor, and what is wrong with it."""
        uses, found = [], []
        output = self._planned_output()
        for identity, allocation in enumerate(self.log.allocations):
            if allocation.task != NONE or not allocation.nbytes or not self.log.launches:
                continue
            some = np.flatnonzero(self.accesses.alloc == identity)
            if not len(some) and identity != output and allocation.name not in self.outputs:
                use = _untouched(allocation)
            else:
                use, more = self._tensor(identity, allocation, some, self.plan if identity == output else None)
                found += more
            uses.append(use)
        return uses, found

    def _planned_output(self) -> int:
        """The tensor that the plan covers; NONE without a plan."""
        plan = self.plan
        if plan is None:
            return NONE
        nbytes = int(np.prod(plan.output_shape, dtype=np.int64)) * plan.itemsize
        fitting = [
            identity
            for identity, record in enumerate(self.log.allocations)
            if record.task == NONE and not (record.read_only or record.workspace) and record.nbytes == nbytes
        ]
        return fitting[-1] if fitting else NONE

    def _tensor(
        self, identity: int, allocation: AllocationRecord, some: Integers, plan: Plan | None
    ) -> tuple[TensorUse, list[Finding]]:
        run = self.accesses.where(some)
        tiles = _tiles_as_accesses(plan, identity) if plan is not None and len(plan.tiles) else None
        joined = _join(run, tiles) if tiles is not None else run
        cells = Cells(joined, allocation.nbytes)
        is_run = np.arange(len(joined)) < len(run)
        writes, reads = cells.count(is_run & joined.write), cells.count(is_run & ~joined.write)
        nbytes = cells.nbytes
        again = self._most_in_a_launch(cells, joined, is_run, writes)
        use = TensorUse(
            name=allocation.name,
            shape=allocation.shape,
            dtype=allocation.dtype,
            nbytes=allocation.nbytes,
            is_input=allocation.read_only,
            bytes_read=int(reads @ nbytes),
            bytes_written=int(writes @ nbytes),
            least_reads=int(reads.min()),
            most_reads=int(reads.max()),
            unread_bytes=int(nbytes[reads == 0].sum()),
            unwritten_bytes=int(nbytes[writes == 0].sum()),
            rewritten_bytes=int(nbytes[again > 1].sum()),
            known=identity not in self.accesses.vague,
        )
        found: list[Finding] = []
        if allocation.read_only or allocation.workspace or identity in self.accesses.vague:
            return use, found
        if use.unwritten_bytes and identity not in self.log.host_writes:
            found.append(self._never(allocation, cells, writes == 0, some, plan))
        allowed = self.rewrites is True or (self.rewrites is not False and allocation.name in self.rewrites)
        if use.rewritten_bytes and not allowed:
            found.append(self._again(allocation, cells, again, some, plan))
        if tiles is not None and plan is not None:
            found += self._against_plan(allocation, cells, joined, is_run, plan)
        return use, found

    def _most_in_a_launch(self, cells: Cells, joined: Accesses, is_run: Flags, writes: Integers) -> Integers:
        """By cell, the most writes of any one launch: later launches may use a tensor again."""
        chosen = np.flatnonzero(is_run & joined.write)
        launch = np.full(len(joined), NONE, np.int64)
        launch[chosen] = self.order.launch[self.order.task[self.order.place[joined.record[chosen]]]]
        launches = np.unique(launch[chosen]).tolist()
        if len(launches) < 2 or writes.max() < 2:  # noqa: PLR2004
            return writes
        most = np.zeros_like(writes)
        for one in launches:
            np.maximum(most, cells.count(launch == one), out=most)
        return most

    def _site(self, row: int, role: str, plan: Plan | None, byte: int) -> Site:
        record = int(self.accesses.record[row])
        site = site_of(self.log, record, role, LANES[int(self.order.lane[self.order.place[record]])])
        return replace(site, tile=tile_text(plan, byte))

    def _never(
        self, allocation: AllocationRecord, cells: Cells, bad: Flags, some: Integers, plan: Plan | None
    ) -> Finding:
        starts, stops = cells.runs(bad)
        nbytes = int((stops - starts).sum())
        written = some[self.accesses.write[some]]
        sites: tuple[Site, ...] = ()
        if len(written):
            # Whoever wrote what lies just before the gap, or else just behind it.
            behind = self.accesses.high[written] - int(starts[0])
            nearest = int(np.argmin(np.abs(behind)))
            sites = (self._site(int(written[nearest]), "nearby", plan, int(self.accesses.low[written[nearest]])),)
        whole = nbytes == allocation.nbytes
        by_plan = f"\nthe plan gives {describe_tile(plan, int(starts[0]))}." if plan is not None else ""
        return Finding(
            kind="never-written",
            title=f"{allocation.name} is never written"
            if whole
            else f"{format_bytes(nbytes)} of {allocation.name} are never written"
            + (f", in {group_digits(len(starts))} ranges" if len(starts) > 1 else ""),
            where=describe(allocation, starts, stops)
            + ("" if len(starts) == 1 else f"; the first is {describe(allocation, starts[:1], stops[:1])}"),
            nbytes=nbytes,
            sites=sites,
            rule="every byte of an output is written exactly once; these keep what was in memory",
            remedy=f"look for a bound that is too small, or a tile that is skipped{by_plan}",
        )

    def _again(
        self, allocation: AllocationRecord, cells: Cells, writes: Integers, some: Integers, plan: Plan | None
    ) -> Finding:
        bad = writes > 1
        starts, stops = cells.runs(bad)
        cell = int(np.flatnonzero(bad)[0])
        runs = np.flatnonzero((cells.first <= cell) & (cell < cells.last))
        who = [row for row in some[np.sort(cells.row[runs[cells.row[runs] < len(some)]])] if self.accesses.write[row]]
        byte = int(starts[0])
        sites = tuple(self._site(int(row), "writes", plan, byte) for row in who[:2])
        names = sorted({site.task for site in sites})
        return Finding(
            kind="written-again",
            title=f"{format_bytes(int((stops - starts).sum()))} of {allocation.name} are written "
            f"{'twice' if writes.max() == 2 else f'up to {int(writes.max())} times'}, first by "  # noqa: PLR2004
            f"{' and '.join(names)}{' both times' if len(names) == 1 else ''}",
            where=describe(allocation, starts, stops),
            nbytes=int((stops - starts).sum()),
            sites=sites,
            rule="every byte of an output is written exactly once",
            remedy="look for a bound that is too large, or a tile that is done twice\n"
            f"where it is meant, say so: rewrites=({allocation.name!r},)",
        )

    def _against_plan(
        self, allocation: AllocationRecord, cells: Cells, joined: Accesses, is_run: Flags, plan: Plan
    ) -> list[Finding]:
        planned_times, run_times = cells.count(~is_run), cells.count(is_run & joined.write)
        label = joined.record.copy()
        tasks = self.order.task[self.order.place[joined.record[is_run]]]
        task_ids = np.array([record.task_id for record in self.log.tasks], np.int64)
        by_core = np.array([not record.is_memory_core for record in self.log.tasks], bool)
        label[is_run] = task_ids[tasks]
        core_writes = is_run & joined.write
        core_writes[is_run] &= by_core[tasks]
        core_times = cells.count(core_writes)
        both = (planned_times == 1) & (run_times == 1) & (core_times == 1)
        planned, actual = cells.count(np.where(~is_run, label, 0)), cells.count(np.where(core_writes, label, 0))
        bad = both & (planned != actual)
        if not bad.any():
            return []
        starts, stops = cells.runs(bad)
        cell = int(np.flatnonzero(bad)[0])
        row = next(int(row) for row in cells.row[(cells.first <= cell) & (cell < cells.last)] if core_writes[row])
        original = int(np.flatnonzero(self.accesses.record == joined.record[row])[0])
        return [
            Finding(
                kind="not-planned",
                title=f"task {int(actual[cell])} writes what the plan gives to task {int(planned[cell])}",
                where=describe(allocation, starts, stops),
                nbytes=int((stops - starts).sum()),
                sites=(self._site(original, "writes", plan, int(starts[0])),),
                rule=f"plan {plan.operator}, strategy {plan.strategy}: {describe_tile(plan, int(starts[0]))}",
                remedy="follow plan.tiles_of(core.task_id), or verify without a plan",
            )
        ]


def _untouched(allocation: AllocationRecord) -> TensorUse:
    return TensorUse(
        name=allocation.name,
        shape=allocation.shape,
        dtype=allocation.dtype,
        nbytes=allocation.nbytes,
        is_input=allocation.read_only,
        bytes_read=0,
        bytes_written=0,
        least_reads=0,
        most_reads=0,
        unread_bytes=allocation.nbytes,
        unwritten_bytes=allocation.nbytes,
        rewritten_bytes=0,
    )


def _tiles_as_accesses(plan: Plan, identity: int) -> Accesses:
    """The tiles of a plan as writes of its output; `record` holds the task."""
    tiles = plan.tiles
    strides = contiguous_strides(plan.output_shape, plan.itemsize)
    sizes = tiles.stop - tiles.start
    kinds, number = np.unique(sizes, axis=0, return_inverse=True)
    geometries: list[Geometry] = []
    for shape in kinds.tolist():
        geometry = geometry_of(Box(tuple(shape), strides, plan.itemsize))
        assert geometry is not None  # noqa: S101 - tiles are not empty; Plan.check says so
        geometries.append(geometry)
    offset = tiles.start @ np.array(strides, np.int64)
    number = number.reshape(-1)
    stops = np.array([geometry.stop for geometry in geometries], np.int64)
    return Accesses(
        tiles.task,
        np.full(len(tiles), identity),
        offset,
        number,
        offset,
        offset + stops[number],
        np.ones(len(tiles), bool),
        geometries,
    )


def _join(one: Accesses, other: Accesses) -> Accesses:
    def both(name: str) -> Any:
        return np.concatenate([getattr(one, name), getattr(other, name)])

    return Accesses(
        both("record"),
        both("alloc"),
        both("offset"),
        np.concatenate([one.geometry, other.geometry + len(one.geometries)]),
        both("low"),
        both("high"),
        both("write"),
        one.geometries + other.geometries,
    )


def _tile_of(plan: Plan | None, byte: int) -> int:
    if plan is None or not len(plan.tiles):
        return NONE
    place = np.array(np.unravel_index(byte // plan.itemsize, plan.output_shape))
    inside = ((plan.tiles.start <= place) & (place < plan.tiles.stop)).all(axis=1)
    return int(np.argmax(inside)) if inside.any() else NONE


def tile_text(plan: Plan | None, byte: int) -> str:
    """The tile of the plan that has a byte: `tile 3 of task 2`."""
    tile = _tile_of(plan, byte)
    if plan is None or tile == NONE:
        return ""
    return f"tile {int(plan.tiles.iteration[tile])} of task {int(plan.tiles.task[tile])}"


def describe_tile(plan: Plan | None, byte: int) -> str:
    """The same with its box."""
    tile = _tile_of(plan, byte)
    if plan is None or tile == NONE:
        return "these bytes to no tile"
    start, stop = plan.tiles.start[tile].tolist(), plan.tiles.stop[tile].tolist()
    return f"them to {tile_text(plan, byte)}, {start} to {stop}"
