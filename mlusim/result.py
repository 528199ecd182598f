"""What a run gives: the result, the log, and everything that is computed from the log."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.by_line import LineTime, time_by_line
from mlusim.analysis.floor import Floor, floor_of
from mlusim.analysis.metrics import Metrics, measure
from mlusim.analysis.records import Records
from mlusim.hardware import Board
from mlusim.log import Log
from mlusim.units import PS_PER_US

if TYPE_CHECKING:
    from mlusim.kernels.plan import Plan
    from mlusim.verifier.report import Report


class Result:
    """One operator's run on a simulated board.

    Attributes:
        operator: its name.
        output: the result array, bit-exact; None after a timing-only run.
        board: the board's record.
        plan: the split that ran.
        log: every record of the run.
        theory_ops: operations of the operator itself, for compute_efficiency; 0 for pure data movement.
        report: of its verification, where it was checked.
    """

    def __init__(
        self,
        *,
        operator: str,
        output: np.ndarray[Any, Any] | None,
        board: Board,
        plan: Plan,
        log: Log,
        theory_ops: int = 0,
    ) -> None:
        self.operator = operator
        self.output = output
        self.board = board
        self.plan = plan
        self.log = log
        self.theory_ops = theory_ops
        self.report: Report | None = None

    @cached_property
    def metrics(self) -> Metrics:
        """All figures of the run, computed from the log when first asked for."""
        return measure(self.log, self.board, theory_ops=self.theory_ops)

    @cached_property
    def floor(self) -> Floor:
        """The time that no split could beat, and where the time above it went."""
        return floor_of(Records(self.log, self.board), self.metrics)

    @cached_property
    def lines(self) -> list[LineTime]:
        """The source lines of the kernel by the time that they took, most first."""
        return time_by_line(Records(self.log, self.board))

    @property
    def time_ps(self) -> int:
        """Simulated time from the start of the first launch to the end of the last, in picoseconds."""
        return self.metrics.time_ps

    @property
    def time_us(self) -> float:
        """The same in microseconds."""
        return self.metrics.time_ps / PS_PER_US

    @property
    def cycles(self) -> int:
        """The same in cycles of the core clock, rounded up."""
        return self.metrics.cycles

    @property
    def bytes_requested(self) -> Mapping[str, int]:
        """Bytes that the kernel asked for, by direction of copy (`GDRAM2NRAM`, ...)."""
        return self.metrics.bytes_requested

    @property
    def bus_bytes(self) -> Mapping[str, int]:
        """Bytes on the DRAM bus: `read` and `write`, read-modify-write included."""
        return self.metrics.bus_bytes

    @property
    def io_efficiency(self) -> float:
        """theory_io_bytes / (time x peak bandwidth) (P)."""
        return self.metrics.io_efficiency

    @property
    def compute_efficiency(self) -> float:
        """theory_ops / (time x peak vector rate) (P, T)."""
        return self.metrics.compute_efficiency

    def __repr__(self) -> str:
        return (
            f"<result of {self.operator} on {self.board.name}: {self.time_us:.2f} us, "
            f"io_efficiency {self.io_efficiency:.1%}>"
        )
