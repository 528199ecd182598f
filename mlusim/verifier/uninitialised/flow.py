"""The flow of uninitialised bytes: a read of them counts if they reach an output, a register or an address.

Vector code often computes on a rounded-up length and stores only the valid part: the extra lanes read whatever is in
the buffer, to no effect. Therefore each uninitialised byte that is read gets a mark. Copies and instructions propagate
marks (`marks.py`): element by element if they work elementwise, from a filter to its channel, else from any input to
the whole result. Writes of unmarked data clear them. Only operations that access marked buffers are examined, in log
order (`agenda.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.log import NONE
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.columns import narrow
from mlusim.verifier.run import Run
from mlusim.verifier.uninitialised.agenda import Agenda
from mlusim.verifier.uninitialised.allocation_flow import AllocationFlow
from mlusim.verifier.uninitialised.mark_store import MarkStore
from mlusim.verifier.uninitialised.propagation import Propagation
from mlusim.verifier.uninitialised.reads import UninitialisedRead


class Flow:
    """The marks of one log.

    Args:
        run, flow: the run.
        reads: the reads of uninitialised bytes. A mark is the number of reads from its read on: of several, the
            largest is that of the first read.
    """

    def __init__(self, run: Run, flow: AllocationFlow, reads: Sequence[UninitialisedRead]) -> None:
        log, accesses = run.log, run.accesses
        self._log = log
        self._columns = run.columns
        self._reads = reads
        start = np.zeros(len(log.allocations), bool)
        start[[read.alloc for read in reads]] = True
        marked = flow.reached_from(start)
        self._records, self._first = _records_by_allocation(accesses, marked)
        self._call_of = self._calls(marked)
        self._seeds: dict[int, list[int]] = {}
        for number, read in enumerate(reads):
            self._seeds.setdefault(read.record, []).append(number)
        self._agenda = Agenda(self._seeds, self._operations)
        self._store = MarkStore(run, marked, self._agenda)
        self._propagation = Propagation(run, self._store)
        # By call, how often the marks of its operands had changed when it last changed nothing.
        self._no_ops: dict[int, list[int]] = {}

    @property
    def padding(self) -> set[int]:
        """The records of lookups whose indices beyond the table are all uninitialised."""
        return self._propagation.padding

    def _operations(self, alloc: int) -> tuple[Integers, Integers]:
        records = self._records[self._first[alloc] : self._first[alloc + 1]]
        return records, self._call_of[records]

    def _calls(self, marked: Flags) -> Integers:
        """By record, return a number that operations with the same effect on the same marks share.

        Which bytes of a source are read does not matter if it is never `marked`; operations without a marked operand
        are never examined.
        """
        marked = np.append(marked, False)
        allocs = [self._columns[f"{side}_alloc"] for side in ("dst", "a", "b")]
        is_marked = np.logical_or.reduce([marked[alloc] for alloc in allocs])
        more_operands = self._log.more_operands
        is_marked[
            [record for record, operands in more_operands.items() if any(marked[alloc] for alloc, _, _ in operands)]
        ] = True
        records = narrow(np.flatnonzero(is_marked))
        columns = [narrow(self._log.records.instructions()[1][records])]
        for side in ("dst", "a", "b"):
            may_be_marked = marked[self._columns[f"{side}_alloc"][records]]
            columns += [
                np.where(may_be_marked, self._columns[f"{side}_{part}"][records], NONE) for part in ("alloc", "offset")
            ]
        if more_operands:
            numbers: dict[tuple[tuple[int, int, int], ...], int] = {}
            further = np.full(len(self._log), NONE)
            for record, operands in more_operands.items():
                further[record] = numbers.setdefault(tuple(operands), len(numbers))
            columns.append(further[records])
        numbered = narrow(group_rows(*columns)[1])
        calls = np.full(len(self._log), NONE, numbered.dtype)
        calls[records] = numbered
        return calls

    def follow(self) -> dict[int, int]:
        """By index of the read, return the record through which its bytes have an effect; omits harmless reads."""
        for _ in self._steps():
            pass
        return {len(self._reads) - mark: record for mark, record in self._store.effects.items()}

    def stays_in(self, allocations: Flags) -> bool:
        """Return whether no read has an effect and no mark leaves some allocations. Stops at the first that does."""
        for _ in self._steps():
            if self._store.effects or not all(allocations[alloc] for alloc in self._store.changes):
                return False
        return not (self._store.effects or self.padding)

    def _steps(self) -> Iterator[None]:
        """Propagate all marks, one operation at a time."""
        waits = self._host_waits()
        while (record := self._agenda.next()) is not None:
            while waits and waits[0] <= record:
                waits.pop(0)
                self._store.count_outputs()
            for number in self._seeds.get(record, ()):
                read = self._reads[number]
                # Nothing has written these bytes, so their only marks are those of earlier reads.
                self._store.set_bytes(read.alloc, read.starts, read.stops, len(self._reads) - number)
            self._agenda.examined(settled=self._propagate(record))
            yield
        self._store.count_outputs()

    def _host_waits(self) -> list[int]:
        """Return the records before which the host may have read the outputs."""
        launch = np.array([task.launch for task in self._log.tasks], np.int64)[self._columns["task"]]
        later = [np.flatnonzero(launch >= count) for count in self._log.host.waits]
        return [int(uses[0]) for uses in later if len(uses)]

    def _propagate(self, record: int) -> bool:
        """Propagate the marks of one operation; returns whether it and other calls like it change nothing from then on.

        Loops repeat the same calls on the same buffers. A call that changed nothing still changes nothing while the
        marks of its operands are unchanged.
        """
        propagation = self._propagation
        is_special = record in self._log.addresses or record in self._log.selected
        run = None if is_special else propagation.short_run(record)
        if run is None:
            is_uniform = propagation.apply_uniform(record)
            if is_uniform is not None:
                return is_uniform
        if is_special:
            propagation.apply(record)
            return False
        call = int(self._call_of[record])
        changes = self._store.changes.get
        allocs = propagation.allocations(record)
        changes_before = [changes(alloc, 0) for alloc in allocs]
        if self._no_ops.get(call) == changes_before:
            return True
        if run is None:
            propagation.apply(record)
        else:
            propagation.apply_short(record, *run)
        if [changes(alloc, 0) for alloc in allocs] != changes_before:
            return False
        self._no_ops[call] = changes_before
        return True


def _records_by_allocation(accesses: Accesses, marked: Flags) -> tuple[Integers, Integers]:
    """Return the records that access each of the `marked` allocations, and the first of each allocation among them."""
    rows = narrow(np.flatnonzero(marked[accesses.alloc]))
    rows = rows[np.argsort(accesses.alloc[rows], kind="stable")]
    alloc, record = accesses.alloc[rows], accesses.record[rows]
    new = np.ones(len(rows), bool)
    new[1:] = (alloc[1:] != alloc[:-1]) | (record[1:] != record[:-1])
    return record[new], np.searchsorted(alloc[new], np.arange(len(marked) + 1))
