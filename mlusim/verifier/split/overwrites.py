"""Lost writes: bytes overwritten within a launch before anything reads them.

A second write is not an error if it is an update, which reads what it replaces (an atomic, or a load, an addition and a
store; a part is enough, such as the largest value so far of a row that holds it), or if it overwrites an initial fill
with a constant. Nor is an exchange without the old value after another atomic: it releases a lock, or resets a counter.
Nor is a store that goes with an update under a lock, in a branch below its load, such as that of the index of the
largest value so far. Tasks may also set a flag to a number by such exchanges, one after the other. In a tensor through
which tasks exchange values, a task may write its own slot again, unless others are never written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.atomics import ATOMIC_NAMES, BLIND_ATOMICS
from mlusim.log import NONE, SCALAR
from mlusim.log_tables import AllocationRecord
from mlusim.planning.plan import Plan
from mlusim.units import format_bytes
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import expand
from mlusim.verifier.accesses.overlaps import Pairs, chunks
from mlusim.verifier.accesses.table import FILLS, Accesses
from mlusim.verifier.columns import joint, ops_among
from mlusim.verifier.findings import Finding
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import source_file
from mlusim.verifier.split.plan_comparison import site_in_tile

# Writes among which the one that filled a buffer is searched first.
_FIRST_STEP = 4
# Longer runs of cells are cut, to bound the memory of a batch.
_MAX_CELLS = 1 << 18


def written_again(
    run: Run, allocation: AllocationRecord, cells: Cells, writes: Integers, rows: Integers, plan: Plan | None
) -> Finding:
    """Return the finding on bytes of an output that are written again.

    Args:
        run: the run.
        allocation, cells: the output.
        writes: by cell, the number of writes that count; of some, more than one.
        rows: the accesses to the output.
        plan: the plan of the output, if any.
    """
    is_written_again = writes > 1
    starts, stops = cells.runs(is_written_again)
    nbytes = int((stops - starts).sum())
    access_rows = cells.rows_at(int(np.flatnonzero(is_written_again)[0]))
    writers = [row for row in rows[access_rows[access_rows < len(rows)]] if run.accesses.write[row]]
    records = run.accesses.record[writers[:2]]
    sites = tuple(site_in_tile(run, record, "writes", plan, int(starts[0])) for record in records.tolist())
    names = sorted({site.task for site in sites})
    remedies = ["look for a bound that is too large, or a tile that is processed twice"]
    if len(records) > 1 and "lock" in run.log.ops and run.order.locks_of(*run.order.position[records].tolist()):
        remedies.insert(
            0,
            f"load {allocation.name} while the lock is held, and store a value computed from it: each store "
            "replaces that of the task before",
        )
    first_writers = f"one {sites[0].operation} of {names[0]}" if len(writers) == 1 else " and ".join(names)
    return Finding(
        kind="written-again",
        title=f"{format_bytes(nbytes)} of {allocation.name} are written "
        f"{'twice' if writes.max() == 2 else f'up to {int(writes.max())} times'}, first by "
        f"{first_writers}{' both times' if len(names) == 1 and len(writers) > 1 else ''}",
        region=describe(allocation, starts, stops),
        nbytes=nbytes,
        sites=sites,
        rule="every byte of an output must be written exactly once",
        remedies=(*remedies, f"if this is intended, pass rewrites=({allocation.name!r},)"),
        fields={"tensor": allocation.name},
        clues={"is_read": not bool(run.accesses.write[rows].all())},
    )


@dataclass(frozen=True, eq=False)
class Overwrites:
    """Counts lost writes in one run."""

    run: Run

    def count(
        self, cells: Cells, accesses: Accesses, rows: Integers, chosen: Flags, *, has_gaps: bool = False
    ) -> Integers:
        """By cell, count the writes to bytes whose earlier write in the same launch was never read.

        Args:
            cells: the cells of a tensor.
            accesses: the accesses that the cells are made of.
            rows: the rows of `accesses` that are accesses of the run, in log order.
            chosen: cells of interest.
            has_gaps: whether other bytes of the tensor are never written.
        """
        # By cell of interest: one of each set that the same accesses touch.
        representatives, of_set = cells.sets(chosen)
        counts_of_set = np.zeros(int(representatives.sum()), np.int64)
        # An atomic reads what it replaces, so reads sort before writes of the same record.
        rows = rows[np.lexsort((accesses.write[rows], accesses.record[rows]))]
        launch_of = self.run.order.launch[self.run.order.task_of[accesses.record[rows]]]
        for launch in np.unique(launch_of).tolist():
            # By cell of interest, the record of its last access if that is a write.
            pending = np.full(len(counts_of_set), NONE, np.int64)
            in_launch = rows[launch_of == launch]
            counts_here = has_gaps | ~self._is_private_slot(cells, accesses, in_launch, chosen)[representatives]
            for cell, row in _by_cell(cells, in_launch, representatives):
                written_by = np.where(accesses.write[row], accesses.record[row], NONE)
                is_first = np.concatenate(([True], cell[1:] != cell[:-1]))
                earlier = np.concatenate(([NONE], written_by[:-1]))
                earlier[is_first] = pending[cell[is_first]]
                is_last = np.append(is_first[1:], True)
                pending[cell[is_last]] = written_by[is_last]
                overwrites = np.flatnonzero((earlier != NONE) & (written_by != NONE))
                overwrites = overwrites[~self._may_replace(earlier[overwrites], written_by[overwrites])]
                overwrites = overwrites[~self._decides(accesses, rows, earlier[overwrites], written_by[overwrites])]
                overwrites = overwrites[~self._decides_under_lock(earlier[overwrites], written_by[overwrites])]
                counts_of_set += counts_here * np.bincount(cell[overwrites], minlength=len(counts_of_set))
        lost_writes = np.zeros(len(cells), np.int64)
        lost_writes[chosen] = counts_of_set[of_set]
        return lost_writes

    def _is_private_slot(self, cells: Cells, accesses: Accesses, rows: Integers, chosen: Flags) -> Flags:
        """By wanted cell, whether one task alone writes it, of a tensor through which tasks exchange values.

        A task may renew its slot there before anybody has read it, such as the halo that a task at the edge offers.

        Args:
            cells: the cells of a tensor.
            accesses: the accesses that the cells are made of.
            rows: the rows of `accesses` that a launch has, in log order.
            chosen: the cells of interest.
        """
        task = np.zeros(len(accesses), np.int64)
        task[rows] = self.run.order.task_of[accesses.record[rows]]
        writes = np.zeros(len(accesses), bool)
        writes[rows[accesses.write[rows]]] = True
        # With the reads after the first write.
        exchanges = writes.copy()
        exchanges[rows[np.argmax(accesses.write[rows]) :]] = True
        is_written = cells.count(writes) > 0
        by_one_task = is_written & ~cells.mixed(task, is_written, writes)
        if not cells.mixed(task, by_one_task, exchanges).any():
            return np.zeros(len(cells), bool)
        return by_one_task & chosen

    def _may_replace(self, earlier: Integers, later: Integers) -> Flags:
        """By pair of records, whether the first only initialises what the second writes, or the second releases it.

        Instructions of `FILLS` initialise, and copies of a fill too, unless the second is a fill itself.
        """
        may_replace = self._is_fill_instruction(earlier)
        may_replace |= self._are(BLIND_ATOMICS, later) & self._are(ATOMIC_NAMES - BLIND_ATOMICS, earlier)
        may_replace |= self._sets_a_flag(earlier) & self._sets_a_flag(later)
        undecided = np.flatnonzero(~may_replace)
        undecided = undecided[self._is_fill(earlier[undecided])]
        may_replace[undecided] = ~self._is_fill(later[undecided])
        return may_replace

    def _decides(self, accesses: Accesses, rows: Integers, earlier: Integers, later: Integers) -> Flags:
        """By pair of records, whether a scalar load of a part of what the second replaces comes between them.

        The task of the second has then decided to replace it.
        """
        lane = self.run.order.lane[self.run.order.position[accesses.record[rows]]]
        loads = rows[(lane == SCALAR) & ~accesses.write[rows]]
        if not (len(loads) and len(later)):
            return np.zeros(len(later), bool)
        task, record = self.run.order.task_of, accesses.record
        writes = rows[accesses.write[rows]]
        pairs, of_pair = np.unique(np.stack([earlier, later], axis=1), axis=0, return_inverse=True)
        writer = writes[np.searchsorted(record[writes], pairs[:, 1])]
        first, last = np.searchsorted(record[loads], pairs[:, 0]), np.searchsorted(record[loads], pairs[:, 1])
        decided = np.zeros(len(pairs), bool)
        for pair, index in chunks(first, last):
            write, load = writer[pair], loads[index]
            overlap = (accesses.low[load] < accesses.high[write]) & (accesses.high[load] > accesses.low[write])
            decided[pair[overlap & (task[record[load]] == task[record[write]])]] = True
        return np.asarray(decided[of_pair.reshape(-1)], bool)

    def _decides_under_lock(self, earlier: Integers, later: Integers) -> Flags:
        """By pair of records, whether a scalar load of what tasks update under the lock of both decides the second.

        It goes with the update, as the index of the largest value so far does.
        """
        run, order, accesses = self.run, self.run.order, self.run.accesses
        locks = order.locks_held
        if not len(later) or not locks.any():
            return np.zeros(len(later), bool)
        position_of = order.position[accesses.record]
        updated = np.isin(accesses.alloc, accesses.alloc[accesses.write & (locks[position_of] != 0)])
        loads = np.flatnonzero(
            ~accesses.write & updated & (order.lane[position_of] == SCALAR) & (locks[position_of] != 0)
        )
        pairs, of_pair = np.unique(np.stack([earlier, later], axis=1), axis=0, return_inverse=True)
        begin, end = (np.searchsorted(accesses.record[loads], pairs[:, side]) for side in (0, 1))
        decided = np.zeros(len(pairs), bool)
        for number in np.flatnonzero(order.have_a_common_lock(*order.position[pairs].T)).tolist():
            positions = order.position[pairs[number]].tolist()
            loads_of_pair = loads[begin[number] : end[number]]
            loads_of_pair = loads_of_pair[order.task[position_of[loads_of_pair]] == order.task[positions[1]]]
            loads_of_pair = loads_of_pair[
                [bool(order.locks_of(*positions, load)) for load in position_of[loads_of_pair].tolist()]
            ]
            file, line, _ = run.log.lines[int(order.line_of[pairs[number, 1]])]
            sources = {run.source(load)[:2] for load in loads_of_pair.tolist()}
            decided[number] = any(
                name == file and source_file(file).decides(load_line, line) for name, load_line in sources
            )
        return np.asarray(decided[of_pair.reshape(-1)], bool)

    def _is_fill(self, records: Integers) -> Flags:
        """By record, whether it writes a single value: a fill, or a copy of a buffer that a fill wrote."""
        if not len(records) or FILLS.isdisjoint(self.run.log.ops):
            return np.zeros(len(records), bool)
        # A table by record: the same few appear once for each cell.
        is_fill = np.zeros(len(self.run.log), bool)
        is_fill[records] = True
        unique = np.flatnonzero(is_fill)
        is_fill[unique] = self._is_fill_instruction(unique) | self._copies_a_fill(unique)
        return is_fill[records]

    def _is_fill_instruction(self, records: Integers) -> Flags:
        """By record, whether it is an instruction of `FILLS`."""
        return self._are(FILLS, records)

    def _sets_a_flag(self, records: Integers) -> Flags:
        """By record, whether it is an exchange for a number, without the old value."""
        without_view: Flags = self.run.columns["a_alloc"][records] == NONE
        return self._are(BLIND_ATOMICS, records) & without_view

    def _are(self, names: frozenset[str], records: Integers) -> Flags:
        """By record, whether its operation is one of `names`."""
        return np.asarray(ops_among(self.run.log, names)[self.run.order.op_of[records]], bool)

    def _copies_a_fill(self, records: Integers) -> Flags:
        """By record, whether it reads one operand, and the last write there was an instruction of `FILLS`."""
        accesses, result = self.run.accesses, np.zeros(len(records), bool)
        reads = np.flatnonzero(~accesses.write)
        first, last = (np.searchsorted(accesses.record[reads], records + end) for end in (0, 1))
        single = np.flatnonzero(last - first == 1)
        source = reads[first[single]]
        writes = self._last_writes(source)
        has_writer = np.flatnonzero(writes != NONE)
        source, writes = source[has_writer], writes[has_writer]
        covers = (accesses.low[writes] <= accesses.low[source]) & (accesses.high[writes] >= accesses.high[source])
        result[single[has_writer]] = covers & self._is_fill_instruction(accesses.record[writes])
        return result

    def _last_writes(self, reads: Integers) -> Integers:
        """By access, the last write of an earlier record to some of the same bytes, or NONE."""
        accesses, (writes, keys) = self.run.accesses, self._writes
        alloc = accesses.alloc[reads]
        begin = np.searchsorted(keys, joint(alloc, 0, len(accesses)))
        stop = np.searchsorted(
            keys, joint(alloc, np.searchsorted(accesses.record, accesses.record[reads]), len(accesses))
        )
        last_writes, step = np.full(len(reads), NONE, np.int64), _FIRST_STEP
        undecided = np.flatnonzero(stop > begin)
        while len(undecided):
            # Search backwards in growing steps: the last write is usually near, but there may be a million.
            start = np.maximum(stop[undecided] - step, begin[undecided])
            for row, index in chunks(start, stop[undecided]):
                read, write = reads[undecided[row]], writes[index]
                overlap = (accesses.low[write] < accesses.high[read]) & (accesses.high[write] > accesses.low[read])
                np.maximum.at(last_writes, undecided[row[overlap]], write[overlap])
            stop[undecided] = start
            undecided = undecided[(last_writes[undecided] == NONE) & (start > begin[undecided])]
            step *= 2
        return last_writes

    @cached_property
    def _writes(self) -> Pairs:
        """The accesses that write, by allocation and in log order, and an ascending key of both."""
        writes = np.flatnonzero(self.run.accesses.write)
        keys = joint(self.run.accesses.alloc[writes], writes, len(self.run.accesses))
        order = np.argsort(keys)
        return writes[order], keys[order]


def _by_cell(cells: Cells, rows: Integers, numbered: Flags) -> Iterator[Pairs]:
    """Yield cells and the accesses that touch them, in batches: sorted by cell, then in the order of `rows`.

    Cells are numbered within `numbered`; others are left out.
    """
    number = np.concatenate(([0], np.cumsum(numbered)))
    # The runs of cells of each distinct access, then those of each access.
    runs = np.flatnonzero(number[cells.last] > number[cells.first])
    runs = runs[np.argsort(cells.of_run[runs], kind="stable")]
    first, last = number[cells.first[runs]], number[cells.last[runs]]
    bounds = (np.searchsorted(cells.of_run[runs], cells.kind[rows], side) for side in ("left", "right"))
    for of_row, run in chunks(*bounds):
        run_part, begin, end = _cut_runs(first[run], last[run])
        for piece, cell in chunks(begin, end):
            # Numbers of two bytes take a tenth of the time to sort.
            sort_key = cell.astype(np.uint16) if number[-1] <= np.iinfo(np.uint16).max else cell
            by_cell = np.argsort(sort_key, kind="stable")
            yield cell[by_cell], rows[of_row[run_part[piece[by_cell]]]]


def _cut_runs(begin: Integers, end: Integers) -> tuple[Integers, Integers, Integers]:
    """Cut runs of cells into parts of bounded size: the run of each part, its first cell and its end."""
    run, index = expand(np.zeros(len(begin), np.int64), -(-(end - begin) // _MAX_CELLS))
    begin = begin[run] + index * _MAX_CELLS
    return run, begin, np.minimum(begin + _MAX_CELLS, end[run])
