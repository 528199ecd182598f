"""The split proof: every output byte is written exactly once, by the right task; and reads per input byte."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.log import NONE
from mlusim.log_tables import AllocationRecord
from mlusim.memory.view import View
from mlusim.planning.plan import Plan
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.condensed import accesses_from, condense, join, repeats_of
from mlusim.verifier.accesses.geometry import Geometry, geometry_of
from mlusim.verifier.accesses.outputs import is_output
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.columns import ops_among
from mlusim.verifier.findings import Finding
from mlusim.verifier.run import Run
from mlusim.verifier.split.never_written import Gaps
from mlusim.verifier.split.overwrites import Overwrites, written_again
from mlusim.verifier.split.plan_comparison import follows, misplaced, planned_output, tiles_as_accesses
from mlusim.verifier.split.tensor_use import TensorUse

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
            is_copied_back = identity in self.run.log.host.read_parts
            if allocation.task != NONE or not allocation.nbytes or not (self.run.log.launches or is_copied_back):
                continue
            rows = np.flatnonzero(self.run.accesses.alloc == identity)
            may_be_written = (identity in self.run.log.windows and is_output(allocation)) or is_copied_back
            may_be_written &= identity not in self.run.log.host.writes
            if not len(rows) and identity != output and not may_be_written:
                use = TensorUse.untouched(allocation, is_input=roles.get(identity) == "input")
            elif roles.get(identity) == "input" and (allocation.read_only or identity in self.run.log.host.writes):
                # What kernels only read, and nobody has written, is an output that is never written.
                use = self._input(identity, allocation, rows)
            else:
                use, new_findings = self._tensor(identity, allocation, rows, self.plan if identity == output else None)
                findings += new_findings
            uses.append(use)
        return uses, findings

    def _tensor(
        self, identity: int, allocation: AllocationRecord, rows: Integers, plan: Plan | None
    ) -> tuple[TensorUse, list[Finding]]:
        """Return the use of a tensor that is no input, and the findings on it; `rows`: the accesses to it."""
        accesses = self.run.accesses.where(rows)
        all_rows, kind, repeated = self._join(identity, allocation, accesses, plan)
        cells = Cells(all_rows, allocation.nbytes)
        is_run = kind == _RUN
        reads = cells.count(is_run & ~all_rows.write)
        first_writes = cells.count(is_run & all_rows.write)
        repeated_writes: Any = cells.count(repeated) if repeated.any() else 0
        writes = first_writes + repeated_writes
        rewrites = self._max_writes_in_a_launch(cells, all_rows, is_run, first_writes) + repeated_writes
        allowed = _is_named(allocation, self.rewrites)
        is_rewritten = rewrites > 1
        # Launches are not expected to write parts that were not passed to them.
        windowed = (kind == _WINDOW).any()
        expected = cells.count(kind == _WINDOW) > 0 if windowed else np.ones(len(cells), bool)
        gaps = (writes == 0) & expected
        is_partial = _is_named(allocation, self.partial) and bool(writes.any())
        if is_rewritten.any() and not (allowed or allocation.workspace):
            has_gaps = not is_partial and bool(gaps.any())
            lost_writes = Overwrites(self.run).count(
                cells, all_rows, np.flatnonzero(is_run), is_rewritten, has_gaps=has_gaps
            )
            rewrites = 1 + lost_writes + repeated_writes
        use = replace(
            self._reads(identity, allocation, cells, reads, is_input=False),
            bytes_written=cells.total(writes),
            unwritten_bytes=cells.total(gaps),
            rewritten_bytes=cells.total(rewrites > 1),
            updated_bytes=cells.total(is_rewritten & (rewrites <= 1)),
            expected_bytes=cells.total(expected),
        )
        findings: list[Finding] = []
        is_workspace = allocation.workspace and identity not in self.run.log.host.read_parts
        if is_workspace or identity in self.run.accesses.unknown:
            return use, findings
        if use.unwritten_bytes and identity not in self.run.log.host.writes and not is_partial:
            beside_bytes = cells.total((writes > 0) & ~expected)
            findings.append(Gaps(self.run, identity, rows, cells, gaps, plan).finding(beside_bytes))
        if use.rewritten_bytes and not (allowed or allocation.workspace):
            finding = written_again(self.run, allocation, cells, rewrites, rows, plan)
            findings.append(replace(finding, clues=finding.clues | {"is_partial": is_partial}))
        if plan is not None and (kind == _TILE).any():
            findings += misplaced(self.run, allocation, cells, all_rows, is_run, kind == _TILE, plan)
        return use, findings

    def _input(self, identity: int, allocation: AllocationRecord, rows: Integers) -> TensorUse:
        """Return the use of an input: only its reads are counted."""
        accesses = condense(self.run.accesses.where(rows), allocation.nbytes)
        cells = Cells(accesses, allocation.nbytes)
        return self._reads(identity, allocation, cells, cells.count(~accesses.write), is_input=True)

    def _reads(
        self, identity: int, allocation: AllocationRecord, cells: Cells, reads: Integers, *, is_input: bool
    ) -> TensorUse:
        """Return the use of a tensor as far as it is read; `reads`: by cell, how often."""
        return TensorUse.of(
            allocation,
            is_input=is_input,
            bytes_read=cells.total(reads),
            least_reads=int(reads.min()),
            most_reads=int(reads.max()),
            unread_bytes=cells.total(reads == 0),
            known=identity not in self.run.accesses.unknown,
        )

    def _join(
        self, identity: int, allocation: AllocationRecord, accesses: Accesses, plan: Plan | None
    ) -> tuple[Accesses, Integers, Integers]:
        """Join the accesses of a run with the tiles of its plan, the windows of its launches, and repeated writes.

        Returns all of these, their kinds, and for repeated writes the number of writes after the first (else 0). Tiles
        that the run follows exactly are left out.
        """
        tiles = accesses_from(identity, np.empty(0, np.int64), [])
        if plan is not None and len(plan.tiles):
            planned = tiles_as_accesses(plan, self.run.log, identity)
            if not follows(self.run, accesses, planned):
                tiles = planned
        windows = self._windows(identity)
        if not (len(tiles) or len(windows)):
            accesses = condense(accesses, allocation.nbytes)
        # Atomics accumulate: their repeated writes are intended.
        atomic = ops_among(self.run.log, ATOMIC_NAMES)[self.run.order.op_of[accesses.record]]
        repeats, extra = repeats_of(accesses.where(np.flatnonzero(~atomic)))
        rows_by_kind = {_RUN: accesses, _TILE: tiles, _WINDOW: windows, _REPEAT: repeats}
        kind = np.repeat([*rows_by_kind], [len(part) for part in rows_by_kind.values()])
        repeated = np.zeros(len(kind), np.int64)
        repeated[kind == _REPEAT] = extra
        return reduce(join, [part for part in rows_by_kind.values() if len(part)] or [accesses]), kind, repeated

    def _windows(self, identity: int) -> Accesses:
        """Return the parts of a tensor that launches get, or that a program copies back, unless it is all of it."""
        log, nbytes = self.run.log, self.run.log.allocations[identity].nbytes
        windows = [(offset, log.boxes[code]) for offset, code in sorted(log.windows.get(identity, set()))]
        parts = [(offset, geometry) for offset, box in windows if (geometry := geometry_of(box)) is not None]
        covers_all = any(math.prod(box.shape) * box.itemsize >= nbytes for _, box in windows)
        if identity in log.host.read_parts:
            spans = sorted(log.host.read_parts[identity])
            parts, covers_all = [(first, Geometry(0, end - first, ())) for first, end in spans], (0, nbytes) in spans
        offsets, geometries = ([], []) if covers_all or not parts else zip(*parts, strict=True)
        return accesses_from(identity, np.array(offsets, np.int64), list(geometries))

    def _max_writes_in_a_launch(self, cells: Cells, accesses: Accesses, is_run: Flags, writes: Integers) -> Integers:
        """By cell, return the largest number of writes in one launch: later launches may reuse a tensor."""
        writers = np.flatnonzero(is_run & accesses.write)
        launch = np.full(len(accesses), NONE, np.int64)
        launch[writers] = self.run.order.launch[self.run.order.task_of[accesses.record[writers]]]
        launches = np.unique(launch[writers]).tolist()
        if len(launches) < 2 or writes.max() < 2:
            return writes
        largest = np.zeros_like(writes)
        for index in launches:
            np.maximum(largest, cells.count(launch == index), out=largest)
        return largest


def written_elements(run: Run, output: View) -> Flags:
    """Return by element of an output whether an operation has written all of its bytes."""
    accesses = run.accesses.where(np.flatnonzero(run.accesses.alloc == output.allocation.identity))
    cells = Cells(accesses, output.allocation.nbytes)
    # By cell, the unwritten bytes before it.
    unwritten = np.concatenate([[0], np.cumsum((cells.count(accesses.write) == 0) * np.diff(cells.cuts))])
    positions = np.indices(output.shape).reshape(output.ndim, -1)
    first_bytes = output.offset + np.array(output.strides, np.int64) @ positions
    unwritten_before, unwritten_after = (
        np.interp(bounds, cells.cuts, unwritten) for bounds in (first_bytes, first_bytes + output.itemsize)
    )
    return np.asarray(unwritten_before == unwritten_after).reshape(output.shape)


def _is_named(allocation: AllocationRecord, names: OutputNames) -> bool:
    return names is True or (names is not False and allocation.name in names)
