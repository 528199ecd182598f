"""Bytes of an output that are never written: the write next to them, and the faults that may have left them out."""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.log import NONE
from mlusim.planning.plan import Plan
from mlusim.units import format_bytes, group_digits
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.table import COLLECT, FILTERS
from mlusim.verifier.findings import Finding, Site, outermost_loop, wrong_part
from mlusim.verifier.producer import Element, last_writer
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, location_of, source_file
from mlusim.verifier.split.plan_comparison import describe_tile, site_in_tile


@dataclass(frozen=True, slots=True)
class Gaps:
    """The bytes of one output that are never written.

    Attributes:
        run: the run.
        identity: the allocation.
        rows: the accesses to it.
        cells, gap_cells: its cells, and which of them are never written.
        plan: its plan, if any.
    """

    run: Run
    identity: int
    rows: Integers
    cells: Cells
    gap_cells: Flags
    plan: Plan | None

    def finding(self, beside_bytes: int) -> Finding:
        """Return the finding.

        `beside_bytes`: the bytes that are written in parts of the allocation that no launch got, such as padding of
        rows.
        """
        allocation = self.run.log.allocations[self.identity]
        name = allocation.name
        starts, stops = self.cells.runs(self.gap_cells)
        first, nbytes = int(starts[0]), int((stops - starts).sum())
        nearest = self._nearest_write(first)
        record = None if nearest is None else int(self.run.accesses.record[nearest])
        byte = 0 if nearest is None else int(self.run.accesses.low[nearest])
        sites = () if record is None else (site_in_tile(self.run, record, "nearby", self.plan, byte),)
        rule = "every byte of an output must be written exactly once; these keep the previous contents of memory"
        if self.plan is not None:
            rule += f"\nthe plan assigns {describe_tile(self.plan, first)}"
        is_read = nearest is None and len(self.rows) > 0 and self.identity in self.run.log.windows
        is_only_read = is_read and not self._swapped_arguments()
        remedies = [self._as_input()] if is_only_read else self._remedies(starts, stops, sites, nearest)
        if beside_bytes and sites:
            remedies.insert(
                0,
                f"correct the address or the stride at {sites[0].location}: {format_bytes(beside_bytes)} outside the "
                f"elements of {name}, such as in the padding of its rows, are written",
            )
        several = f", in {group_digits(len(starts))} ranges" if len(starts) > 1 else ""
        region = describe(allocation, starts, stops)
        return Finding(
            kind="never-written",
            title=f"{name} is an output, but only read"
            if is_only_read
            else f"{name} is never written"
            if nbytes == allocation.nbytes
            else f"{format_bytes(nbytes)} of {name} are never written{several}",
            region=f"{region}; the first is {describe(allocation, starts[:1], stops[:1])}" if several else region,
            nbytes=nbytes,
            sites=sites,
            rule=rule,
            remedies=tuple(remedies),
            fields={
                "tensor": name,
                "first_byte": first,
                "end_byte": int(stops[-1]),
                "of_bytes": allocation.nbytes,
                "beside_bytes": beside_bytes,
            },
            clues={
                "repeats": nearest is not None and self._is_repeated(nearest),
                "only_read": is_only_read,
            },
        )

    def _as_input(self) -> str:
        """Return the remedy for an output that a kernel only reads."""
        allocation = self.run.log.allocations[self.identity]
        form = f"{allocation.dtype}:{','.join(map(str, allocation.shape))}"
        return (
            f"if {allocation.name} is an input, pass an array, on the command line "
            f"--arg {allocation.name}=random:{form} or a file; else let the kernel store to it"
        )

    def _is_repeated(self, row: int) -> bool:
        """Return whether the line of an access is executed more than once."""
        line_of = self.run.order.line_of
        return int(np.count_nonzero(line_of == line_of[self.run.accesses.record[row]])) > 1

    def _writes_of_line(self, row: int) -> Integers:
        """Return the writes to the output by the line of a write."""
        accesses, line_of = self.run.accesses, self.run.order.line_of
        same_line = line_of[accesses.record[self.rows]] == line_of[accesses.record[row]]
        return np.asarray(self.rows[same_line & accesses.write[self.rows]])

    def _rewrites_one_part(self, row: int) -> bool:
        """Return whether the task of a write often writes the same bytes by its line in one launch."""
        writes = self._writes_of_line(row)
        writes = writes[self.run.order.task_of[self.run.accesses.record[writes]] == self.run.task(row)]
        return len(writes) > 1 and len(np.unique(self.run.accesses.low[writes])) == 1

    def _is_too_short(self, row: int, starts: Integers, loop: str) -> bool:
        """Return whether a gap follows each write of a line, and each gap follows one.

        In a loop, the gap may be a tile that is skipped, unless a copy leaves the rest of what its task has made.
        """
        accesses, writes = self.run.accesses, self._writes_of_line(row)
        if (
            not np.array_equal(np.unique(accesses.high[writes]), starts)
            or not accesses.single_run[accesses.geometry[writes]].all()
        ):
            return False
        record = int(accesses.record[writes[0]])
        reads = np.flatnonzero((accesses.record == record) & ~accesses.write)
        following = (Element(int(accesses.alloc[source]), int(accesses.high[source]), 1) for source in reads)
        return not loop or any(last_writer(self.run, element, record) != NONE for element in following)

    def _nearest_write(self, first_byte: int) -> int | None:
        """Return the row of a write to the byte before the first gap, or behind it; else of the nearest write."""
        accesses, rows = self.run.accesses, self.rows
        first = int(np.flatnonzero(self.gap_cells)[0])
        after = first + int(np.argmin(np.append(self.gap_cells[first:], False)))
        for cell in (first - 1, after):
            if 0 <= cell < len(self.cells):
                touching = self.cells.rows_at(cell)
                writers = rows[touching[touching < len(rows)]]
                writers = writers[accesses.write[writers]]
                if len(writers):
                    return int(writers[0])
        writes = rows[accesses.write[rows]]
        return int(writes[np.argmin(np.abs(accesses.high[writes] - first_byte))]) if len(writes) else None

    def _remedies(self, starts: Integers, stops: Integers, sites: tuple[Site, ...], nearest: int | None) -> list[str]:
        log = self.run.log
        name = log.allocations[self.identity].name
        # Launches of BANG C programs have no windows: theirs may have got the tensor.
        in_windows = self.identity in log.windows
        loop = outermost_loop(sites[0]) if sites else ""
        loop_text = f", in the loop at {loop}" if loop else ""
        remedies = [f"look for a bound that is too small, or a tile that is skipped{loop_text}"]
        if not len(self.rows) and not in_windows:
            # The host copies it back.
            remedies.insert(0, f"pass {name} to the launch that should write it, or do not copy it back")
        elif not len(log):
            return ["look for the condition under which the kernel returns: no task does anything"]
        elif likely := self._likely_remedy(starts, stops, sites, nearest, loop):
            remedies.insert(0, likely)
        if nearest is not None and (skipped := self._skipped_branch(sites[0])):
            is_tail = int(stops[0] - starts[0]) < int(self.run.accesses.high[nearest] - self.run.accesses.low[nearest])
            remedies.insert(0 if is_tail else 1, skipped)
        if self.plan is None and len(self.rows) and not {COLLECT, *FILTERS}.isdisjoint(log.ops):
            declared = (
                f"pass partial=({name!r},)" if in_windows else f"copy back only the part of {name} that is written"
            )
            remedies.append(f"if only a part holds selected elements, {declared}")
        return remedies

    def _likely_remedy(
        self, starts: Integers, stops: Integers, sites: tuple[Site, ...], nearest: int | None, loop: str
    ) -> str:
        """Return the remedy that the pattern of the gaps suggests; "" if it suggests none."""
        allocation = self.run.log.allocations[self.identity]
        if int((stops - starts).sum()) == allocation.nbytes and (swapped := self._swapped_arguments()):
            return swapped
        if nearest is not None and self._is_too_short(nearest, starts, loop):
            written_bytes = int(self.run.accesses.high[nearest] - self.run.accesses.low[nearest])
            tile = written_bytes + int(stops[0] - starts[0])
            reason = "a gap follows what it writes"
            if sites[0].is_compiled and tile == written_bytes * np.dtype(allocation.dtype).itemsize:
                reason = f"it is in bytes, and {group_digits(written_bytes)} of {group_digits(tile)} are written"
            return f"look for a size that is too small at {sites[0].location}: {reason}"
        if nearest is not None and self._rewrites_one_part(nearest):
            return wrong_part(allocation.name, sites, "it writes the same bytes again, and others never")
        return self._too_few_tasks(int(starts[0]), int(stops[0])) if len(starts) == 1 else ""

    def _skipped_branch(self, write: Site) -> str:
        """Return the remedy for an `if` of the function of a write that no task enters, and that names the output."""
        source, lines_passed = source_file(write.file), self.run.lines_of(np.arange(len(self.run.accesses)))
        name = self.run.log.allocations[self.identity].name
        pattern = re.compile(rf"\b{re.escape(name)}\b")
        for begin, end in source.conditional:
            lines = [SourceLine(write.file, line) for line in range(begin, end + 1)]
            is_skipped = source.function(begin) == source.function(write.line) and not lines_passed & {*lines}
            if is_skipped and any(pattern.search(linecache.getline(line.file, line.line)) for line in lines):
                condition = max(part[0] for part in source.ifs if part[0] <= begin <= part[1])
                at = location_of(write.file, condition)
                return f"correct the condition at {at}: no task enters its branch, which uses {name}"
        return ""

    def _too_few_tasks(self, first: int, end: int) -> str:
        """Return the remedy for a single gap that further tasks would fill; empty if there is none.

        There is one if each task writes an equal part of the output, in the order of the tasks, and nobody the rest.
        """
        accesses, order = self.run.accesses, self.run.order
        writes = self.rows[accesses.write[self.rows]]
        task = order.task_of[accesses.record[writes]]
        written_by = np.unique(task).tolist()
        records = [self.run.log.tasks[number] for number in written_by]
        if len({record.launch for record in records}) != 1 or any(record.is_memory_core for record in records):
            return ""
        parts = sorted(
            (record.task_id, int(accesses.low[writes[is_of_task]].min()), int(accesses.high[writes[is_of_task]].max()))
            for number, record in zip(written_by, records, strict=True)
            for is_of_task in (task == number,)
        )
        nbytes = parts[0][2] - parts[0][1]
        begin = first - len(parts) * nbytes
        regular = [(number, begin + number * nbytes, begin + (number + 1) * nbytes) for number in range(len(parts))]
        missing, remainder = divmod(end - first, nbytes)
        if len(parts) < 2 or parts != regular or remainder:
            return ""
        return (
            f"launch {len(parts) + missing} tasks, or let each task write more: the {len(parts)} tasks write "
            f"{format_bytes(nbytes)} each, one after the other, and no task writes the rest"
        )

    def _swapped_arguments(self) -> str:
        """Return the remedy for an output that a launch reads, while it writes what the host or a launch has filled."""
        log, accesses, order = self.run.log, self.run.accesses, self.run.order
        launch = order.launch[order.task_of[accesses.record]]
        places = [(record.kernel, record.launched_at) for record in log.launches]
        for number in np.unique(launch[self.rows]).tolist():
            in_launch = launch == number
            written_allocs, read_allocs = (
                set(accesses.alloc[in_launch & side].tolist()) for side in (accesses.write, ~accesses.write)
            )
            # Not by the same launch in an earlier iteration of the host's loop.
            earlier = [other for other in range(number) if places[other] != places[number]]
            written_before = set(accesses.alloc[accesses.write & np.isin(launch, earlier)].tolist())
            filled = sorted((written_allocs - read_allocs) & (log.host.writes | written_before))
            if filled:
                filled_name, at = log.allocations[filled[0]].name, log.launches[number].launched_at
                name = log.allocations[self.identity].name
                filler = "the host" if filled[0] in log.host.writes else "an earlier launch"
                return f"swap {filled_name} and {name} in the launch at {at}: it writes the one, which {filler} filled"
        return ""
