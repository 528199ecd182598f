"""The run that is checked: its log, what its operations access, and what orders them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.log import Log
from mlusim.verifier.accesses.space import Space
from mlusim.verifier.accesses.table import Accesses, accesses_of
from mlusim.verifier.call_sites import recorded_calls
from mlusim.verifier.columns import Columns
from mlusim.verifier.findings import Site, site_of
from mlusim.verifier.order.handshakes import Handshakes
from mlusim.verifier.order.happens_before import Order
from mlusim.verifier.order.lanes import LANES
from mlusim.verifier.source_file import RecordedCalls, SourceLine, source_file


class Run:
    """The run that is checked: its log, and tables derived from it on first use.

    A *record* is an index into the columns of the log, a *row* one into the access table, and a *position* one into the
    order, which sorts the records by task.

    Args:
        log: the log of one device.

    Attributes:
        log: that log.
        columns: its records, by column.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.columns = Columns(log.records)
        self._calls: dict[str, RecordedCalls] = {}

    @cached_property
    def accesses(self) -> Accesses:
        """The bytes that each operand reads or writes."""
        return accesses_of(self.log, self.columns)

    @cached_property
    def order(self) -> Order:
        """The order of its operations."""
        return Order(self.log, self.columns)

    @cached_property
    def handshakes(self) -> Handshakes:
        """The order between tasks that atomics establish."""
        return Handshakes(self)

    @cached_property
    def space(self) -> Space:
        """The allocations that share addresses, and those that tasks share."""
        return Space(self.log)

    def calls(self, file: str) -> RecordedCalls:
        """Return the calls of the helper functions of a file."""
        if file not in self._calls:
            self._calls[file] = recorded_calls(self.log, file)
        return self._calls[file]

    def but(self, **parts: Any) -> Run:
        """Return the run with another part: an order without some syncs, or some of the accesses."""
        other = copy(self)
        vars(other).pop("handshakes", None)
        vars(other).update(parts)
        return other

    def position(self, row: int) -> int:
        """Return the position of an access."""
        return int(self.order.position[self.accesses.record[row]])

    def task(self, row: int) -> int:
        """Return the task of an access."""
        return int(self.order.task_of[self.accesses.record[row]])

    def source(self, row: int) -> tuple[str, int, str]:
        """Return file, line and function of an access."""
        return self.log.lines[int(self.order.line_of[self.accesses.record[row]])]

    def lines_of(self, rows: Integers | Flags) -> set[SourceLine]:
        """Return the lines of some accesses."""
        return self.lines_at(self.accesses.record[rows])

    def lines_at(self, records: Integers | Sequence[int]) -> set[SourceLine]:
        """Return the lines of some records, as far as they are known."""
        codes = np.unique(self.columns["line"][np.asarray(records, np.int64)]).tolist()
        return {SourceLine(*self.log.lines[code][:2]) for code in codes if self.log.lines[code][1]}

    def line_at(self, position: int) -> SourceLine:
        """Return the line of an operation."""
        file, line, _ = self.log.lines[int(self.order.line[position])]
        return SourceLine(file, line)

    def may_use(self, name: str) -> bool:
        """Return whether a call that no task reached, in a function that one has entered, names a buffer or tensor."""
        pattern = re.compile(rf"\b{re.escape(name)}\b(?!\.)")
        functions = {(file, source_file(file).function(line)[0]) for file, line, _ in self.log.lines}
        reached_lines = {line[:2] for line in self.log.lines}.union(*self.log.calls.values())
        return any(
            first <= line <= last
            and (file, line) not in reached_lines
            and (callee.startswith(("__", ".")) and callee != ".alloc")
            and pattern.search(SourceLine(file, line).source) is not None
            for file, (first, last) in functions
            for line, callee in source_file(file).calls
        )

    def site(self, record: int, role: str) -> Site:
        """Return an operation as a site of a finding, with the lane on which it runs."""
        return site_of(self.log, record, role, LANES[int(self.order.lane[self.order.position[record]])])
