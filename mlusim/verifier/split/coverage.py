"""The split proof: every output byte is written exactly once, by the right task; and reads per input byte."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES
from mlusim.log import NONE
from mlusim.log_tables import AllocationRecord
from mlusim.memory.view import View
from mlusim.planning.plan import Plan
from mlusim.units import format_bytes, group_digits
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.condensed import accesses_from, condense, join, repeats_of
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import Geometry, geometry_of
from mlusim.verifier.accesses.outputs import is_output
from mlusim.verifier.accesses.table import COLLECT, FILTERS, Accesses
from mlusim.verifier.columns import ops_among
from mlusim.verifier.findings import Finding, Site
from mlusim.verifier.run import Run
from mlusim.verifier.split.never_written import swapped_arguments, too_few_tasks
from mlusim.verifier.split.overwrites import Overwrites
from mlusim.verifier.split.plan_comparison import (
    describe_tile,
    misplaced,
    planned_output,
    same_tiles,
    tile_text,
    tiles_as_accesses,
)
from mlusim.verifier.split.tensor_use import TensorUse, untouched

# Names of outputs, or True for all.
OutputNames = bool | tuple[str, ...]
# Kinds of accesses in the cells of a tensor.
_RUN, _TILE, _WINDOW, _REPEAT = range(4)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Checks the coverage of the host tensors in one log.

    Attributes:
        run: the run.
        plan: the split that it should follow, or None.
        rewrites: names of outputs that the kernel may write more than once, or True for all.
        partial: names of outputs of which a part may stay unwritten, or True for all.
        planned: name of the output that the plan splits, if ambiguous.
    """

    run: Run
    plan: Plan | None = None
    rewrites: OutputNames = ()
    partial: OutputNames = ()
    planned: str = ""

    def measure(self) -> tuple[list[TensorUse], list[Finding]]:
        """Return the use of each tensor, and the findings."""
        output, findings = planned_output(self.run.log, self.plan, self.planned)
        roles = self.run.log.roles()
        uses = []
        for identity, allocation in enumerate(self.run.log.allocations):
            if allocation.task != NONE or not allocation.nbytes or not self.run.log.launches:
                continue
            rows = np.flatnonzero(self.run.accesses.alloc == identity)
            passed = (
                identity in self.run.log.windows and is_output(allocation)
            ) or identity in self.run.log.host_read_parts
            passed &= identity not in self.run.log.host_writes
            if not len(rows) and identity != output and not passed:
                use = untouched(allocation, is_input=roles.get(identity) == "input")
            elif roles.get(identity) == "input" and (allocation.read_only or identity in self.run.log.host_writes):
                # What kernels only read, and nobody has written, is an output that is never written.
                own = self.run.accesses.where(rows)
                use = _use_of_input(allocation, own, known=identity not in self.run.accesses.unknown)
            else:
                use, more = self._tensor(identity, allocation, rows, self.plan if identity == output else None)
                findings += more
            uses.append(use)
        return uses, findings

    def _tensor(
        self, identity: int, allocation: AllocationRecord, rows: Integers, plan: Plan | None
    ) -> tuple[TensorUse, list[Finding]]:
        own = self.run.accesses.where(rows)
        joined, kind, repeated = self._join(identity, allocation, own, plan)
        cells = Cells(joined, allocation.nbytes)
        is_run = kind == _RUN
        reads = cells.count(is_run & ~joined.write)
        once = cells.count(is_run & joined.write)
        more: Any = cells.count(repeated) if repeated.any() else 0
        writes = once + more
        rewrites = self._most_in_a_launch(cells, joined, is_run, once) + more
        allowed = _is_named(allocation, self.rewrites)
        several = rewrites > 1
        if several.any() and not (allowed or allocation.workspace):
            overwrites = Overwrites(self.run)
            rewrites = 1 + overwrites.count(cells, joined, np.flatnonzero(is_run), several) + more
        # Launches are not expected to write parts that were not passed to them.
        windowed = (kind == _WINDOW).any()
        expected = cells.count(kind == _WINDOW) > 0 if windowed else np.ones(len(cells), bool)
        use = TensorUse(
            name=allocation.name,
            shape=allocation.shape,
            dtype=allocation.dtype,
            nbytes=allocation.nbytes,
            is_input=False,
            bytes_read=cells.total(reads),
            bytes_written=cells.total(writes),
            least_reads=int(reads.min()),
            most_reads=int(reads.max()),
            unread_bytes=cells.total(reads == 0),
            unwritten_bytes=cells.total((writes == 0) & expected),
            rewritten_bytes=cells.total(rewrites > 1),
            updated_bytes=cells.total(several & (rewrites <= 1)),
            expected_bytes=cells.total(expected),
            known=identity not in self.run.accesses.unknown,
        )
        findings: list[Finding] = []
        is_workspace = allocation.workspace and identity not in self.run.log.host_read_parts
        if is_workspace or identity in self.run.accesses.unknown:
            return use, findings
        is_partial = _is_named(allocation, self.partial) and use.bytes_written > 0
        if use.unwritten_bytes and identity not in self.run.log.host_writes and not is_partial:
            beside = cells.runs((writes > 0) & ~expected)
            findings.append(self._never_written(identity, cells, (writes == 0) & expected, rows, plan, beside))
        if use.rewritten_bytes and not (allowed or allocation.workspace):
            findings.append(self._written_again(allocation, cells, rewrites, rows, plan))
        if plan is not None and (kind == _TILE).any():
            findings += self._against_plan(allocation, cells, joined, kind, plan)
        return use, findings

    def _join(
        self, identity: int, allocation: AllocationRecord, own: Accesses, plan: Plan | None
    ) -> tuple[Accesses, Integers, Integers]:
        """Join the accesses of a run with the tiles of its plan, the windows of its launches, and repeated writes.

        Returns all of these, their kinds, and for repeated writes the number of writes after the first (else 0). Tiles
        that the run follows exactly are left out.
        """
        tiles = accesses_from(identity, np.empty(0, np.int64), [])
        if plan is not None and len(plan.tiles):
            planned = tiles_as_accesses(plan, self.run.log, identity)
            if not self._as_planned(own, planned):
                tiles = planned
        windows = self._windows(identity)
        if not (len(tiles) or len(windows)):
            own = condense(own, allocation.nbytes)
        # Atomics accumulate: their repeated writes are intended.
        repeats, extra = repeats_of(own.where(np.flatnonzero(~self._atomic(own))))
        parts = {_RUN: own, _TILE: tiles, _WINDOW: windows, _REPEAT: repeats}
        kind = np.repeat([*parts], [len(part) for part in parts.values()])
        repeated = np.zeros(len(kind), np.int64)
        repeated[kind == _REPEAT] = extra
        return reduce(join, [part for part in parts.values() if len(part)] or [own]), kind, repeated

    def _as_planned(self, own: Accesses, planned: Accesses) -> bool:
        """Return whether writes and plan tiles correspond one to one, by core: then no comparison is needed."""
        writes = own.where(np.flatnonzero(own.write))
        task = self.run.order.task_of[writes.record]
        if np.array([record.is_memory_core for record in self.run.log.tasks], bool)[task].any():
            return False
        task_ids = np.array([record.task_id for record in self.run.log.tasks], np.int64)[task]
        return same_tiles(writes, task_ids, planned, planned.record)

    def _atomic(self, own: Accesses) -> Flags:
        """Return a mask of the accesses by atomics."""
        return np.asarray(ops_among(self.run.log, ATOMIC_NAMES)[self.run.order.op_of[own.record]], bool)

    def _windows(self, identity: int) -> Accesses:
        """Return the parts of a tensor that launches get, or that a program copies back, unless it is all of it."""
        parts = self.run.log.host_read_parts.get(identity)
        if parts is not None:
            spans = [] if (0, self.run.log.allocations[identity].nbytes) in parts else sorted(parts)
            lengths = [Geometry(0, end - first, ()) for first, end in spans]
            return accesses_from(identity, np.array([first for first, _ in spans], np.int64), lengths)
        geometries, offsets = [], []
        windows = self.run.log.windows.get(identity, set())
        nbytes = self.run.log.allocations[identity].nbytes
        whole = any(
            math.prod(self.run.log.boxes[code].shape) * self.run.log.boxes[code].itemsize >= nbytes
            for _, code in windows
        )
        for offset, code in () if whole else sorted(windows):
            geometry = geometry_of(self.run.log.boxes[code])
            if geometry is not None:
                geometries.append(geometry)
                offsets.append(offset)
        return accesses_from(identity, np.array(offsets, np.int64), geometries)

    def _most_in_a_launch(self, cells: Cells, joined: Accesses, is_run: Flags, writes: Integers) -> Integers:
        """By cell, return the largest number of writes in one launch: later launches may reuse a tensor."""
        chosen = np.flatnonzero(is_run & joined.write)
        launch = np.full(len(joined), NONE, np.int64)
        launch[chosen] = self.run.order.launch[self.run.order.task_of[joined.record[chosen]]]
        launches = np.unique(launch[chosen]).tolist()
        if len(launches) < 2 or writes.max() < 2:
            return writes
        largest = np.zeros_like(writes)
        for index in launches:
            np.maximum(largest, cells.count(launch == index), out=largest)
        return largest

    def _site(self, row: int, role: str, plan: Plan | None, byte: int) -> Site:
        return replace(self.run.site(int(self.run.accesses.record[row]), role), tile=tile_text(plan, byte))

    def _never_written(
        self,
        identity: int,
        cells: Cells,
        bad: Flags,
        rows: Integers,
        plan: Plan | None,
        beside: tuple[Integers, Integers],
    ) -> Finding:
        """`beside`: bytes that are written in parts of the allocation that no launch got, such as padding of rows."""
        allocation = self.run.log.allocations[identity]
        starts, stops = cells.runs(bad)
        nbytes = int((stops - starts).sum())
        nearest = self._writer_beside(cells, bad, rows)
        sites: tuple[Site, ...] = ()
        if nearest is not None:
            sites = (self._site(nearest, "nearby", plan, int(self.run.accesses.low[nearest])),)
        whole = nbytes == allocation.nbytes
        beside_bytes = int((beside[1] - beside[0]).sum())
        remedies = ["look for a bound that is too small, or a tile that is skipped"]
        if not len(rows) and identity not in self.run.log.windows:
            # The host copies it back. Launches of BANG C programs have no windows: theirs may have got it.
            remedies.insert(0, f"pass {allocation.name} to the launch that should write it, or do not copy it back")
        elif not len(self.run.log):
            remedies = ["look for the condition under which the kernel returns: no task does anything"]
        elif whole and (swapped := swapped_arguments(self.run, identity, rows)):
            remedies.insert(0, swapped)
        elif len(starts) == 1 and (few := too_few_tasks(self.run, rows, int(starts[0]), int(stops[0]))):
            remedies.insert(0, few)
        if beside_bytes and sites:
            remedies.insert(
                0,
                f"correct the address or the stride at {sites[0].location}: {format_bytes(beside_bytes)} beside the "
                f"elements of {allocation.name}, such as the padding of its rows, are written",
            )
        by_plan = f"\nthe plan assigns {describe_tile(plan, int(starts[0]))}" if plan is not None else ""
        if plan is None and len(rows) and not {COLLECT, *FILTERS}.isdisjoint(self.run.log.ops):
            # Launches of BANG C programs have no windows.
            declared = (
                f"pass partial=({allocation.name!r},)"
                if identity in self.run.log.windows
                else f"copy back only the part of {allocation.name} that is written"
            )
            remedies.append(f"if only a part holds selected elements, {declared}")
        return Finding(
            kind="never-written",
            title=f"{allocation.name} is never written"
            if whole
            else f"{format_bytes(nbytes)} of {allocation.name} are never written"
            + (f", in {group_digits(len(starts))} ranges" if len(starts) > 1 else ""),
            region=describe(allocation, starts, stops)
            + ("" if len(starts) == 1 else f"; the first is {describe(allocation, starts[:1], stops[:1])}"),
            nbytes=nbytes,
            sites=sites,
            rule="every byte of an output must be written exactly once; these keep the previous contents of memory"
            + by_plan,
            remedies=tuple(remedies),
            fields={
                "tensor": allocation.name,
                "first_byte": int(starts[0]),
                "end_byte": int(stops[-1]),
                "of_bytes": allocation.nbytes,
                "beside_bytes": beside_bytes,
            },
        )

    def _writer_beside(self, cells: Cells, bad: Flags, rows: Integers) -> int | None:
        """Return the row of a write to the byte before the first gap, or behind it; else of the nearest write."""
        first = int(np.flatnonzero(bad)[0])
        behind = first + int(np.argmin(np.append(bad[first:], False)))
        for cell in (first - 1, behind):
            if 0 <= cell < len(cells):
                touching = cells.rows_at(cell)
                beside = rows[touching[touching < len(rows)]]
                beside = beside[self.run.accesses.write[beside]]
                if len(beside):
                    return int(beside[0])
        written = rows[self.run.accesses.write[rows]]
        if not len(written):
            return None
        return int(written[np.argmin(np.abs(self.run.accesses.high[written] - cells.runs(bad)[0][0]))])

    def _written_again(
        self, allocation: AllocationRecord, cells: Cells, writes: Integers, rows: Integers, plan: Plan | None
    ) -> Finding:
        bad = writes > 1
        starts, stops = cells.runs(bad)
        cell = int(np.flatnonzero(bad)[0])
        touching = cells.rows_at(cell)
        writers = [row for row in rows[touching[touching < len(rows)]] if self.run.accesses.write[row]]
        byte = int(starts[0])
        sites = tuple(self._site(int(row), "writes", plan, byte) for row in writers[:2])
        names = sorted({site.task for site in sites})
        locks = self.run.order.locks_held[self.run.order.position[self.run.accesses.record[writers[:2]]]]
        remedies = ["look for a bound that is too large, or a tile that is done twice"]
        if len(writers) > 1 and "lock" in self.run.log.ops and np.bitwise_and.reduce(locks):
            remedies.insert(
                0,
                f"load {allocation.name} while the lock is held, and store a value computed from it: each store "
                "replaces that of the task before",
            )
        by = f"one {sites[0].operation} of {names[0]}" if len(writers) == 1 else " and ".join(names)
        return Finding(
            kind="written-again",
            title=f"{format_bytes(int((stops - starts).sum()))} of {allocation.name} are written "
            f"{'twice' if writes.max() == 2 else f'up to {int(writes.max())} times'}, first by "
            f"{by}{' both times' if len(names) == 1 and len(writers) > 1 else ''}",
            region=describe(allocation, starts, stops),
            nbytes=int((stops - starts).sum()),
            sites=sites,
            rule="every byte of an output must be written exactly once",
            remedies=(*remedies, f"if it is meant, pass rewrites=({allocation.name!r},)"),
            fields={"tensor": allocation.name},
        )

    def _against_plan(
        self, allocation: AllocationRecord, cells: Cells, joined: Accesses, kind: Integers, plan: Plan
    ) -> list[Finding]:
        task = joined.record.copy()
        is_run = kind == _RUN
        task[is_run] = self.run.order.task_of[joined.record[is_run]]
        writes = is_run & joined.write
        bad, planned, actual = misplaced(cells, self.run.log, task, kind == _TILE, writes)
        if not bad.any():
            return []
        starts, stops = cells.runs(bad)
        cell = int(np.flatnonzero(bad)[0])
        row = next(row for row in cells.rows_at(cell).tolist() if writes[row])
        original = int(np.flatnonzero(self.run.accesses.record == joined.record[row])[0])
        site = self._site(original, "writes", plan, int(starts[0]))
        writer = f"the memory core of cluster {site.cluster}" if site.task == "memory core" else site.task
        return [
            Finding(
                kind="not-planned",
                title=f"{writer} writes bytes that the plan assigns to task {int(planned[cell])}",
                region=describe(allocation, starts, stops),
                nbytes=int((stops - starts).sum()),
                sites=(site,),
                rule=f"the plan of {plan.operator} assigns {describe_tile(plan, int(starts[0]))}",
                remedies=("iterate over plan.tiles_of(core.task_id), or verify without a plan",),
                fields={"task": self.run.log.tasks[int(actual[cell])].task_id, "planned_task": int(planned[cell])},
            )
        ]


def _use_of_input(allocation: AllocationRecord, own: Accesses, *, known: bool) -> TensorUse:
    """Return the use of an input: only its reads are counted."""
    own = condense(own, allocation.nbytes)
    cells = Cells(own, allocation.nbytes)
    reads = cells.count(~own.write)
    return TensorUse(
        name=allocation.name,
        shape=allocation.shape,
        dtype=allocation.dtype,
        nbytes=allocation.nbytes,
        is_input=True,
        bytes_read=cells.total(reads),
        bytes_written=0,
        least_reads=int(reads.min()),
        most_reads=int(reads.max()),
        unread_bytes=cells.total(reads == 0),
        unwritten_bytes=0,
        rewritten_bytes=0,
        expected_bytes=0,
        known=known,
    )


def written_elements(run: Run, output: View) -> Flags:
    """Return by element of an output whether an operation has written all of its bytes."""
    own = run.accesses.where(np.flatnonzero(run.accesses.alloc == output.allocation.identity))
    cells = Cells(own, output.allocation.nbytes)
    # By cell, the unwritten bytes before it.
    unwritten = np.concatenate([[0], np.cumsum((cells.count(own.write) == 0) * np.diff(cells.cuts))])
    positions = np.indices(output.shape).reshape(output.ndim, -1)
    first = output.offset + np.array(output.strides, np.int64) @ positions
    before, after = (np.interp(bounds, cells.cuts, unwritten) for bounds in (first, first + output.itemsize))
    return np.asarray(before == after).reshape(output.shape)


def _is_named(allocation: AllocationRecord, names: OutputNames) -> bool:
    return names is True or (names is not False and allocation.name in names)
