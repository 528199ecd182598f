"""`Result`: the output of a run, its log, and everything that is computed from the log."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.by_line import LineTime, time_by_line
from mlusim.analysis.extrapolation import Extrapolation, extrapolation_of
from mlusim.analysis.floor import Floor, floor_of
from mlusim.analysis.known import Known, known_of
from mlusim.analysis.metrics import Metrics, measure
from mlusim.analysis.records import Records
from mlusim.errors import InputError
from mlusim.hardware import Board
from mlusim.log import Log
from mlusim.results.figures import RunFigures
from mlusim.results.moment import Moment, Repeat, moment_of
from mlusim.units import PS_PER_NS

if TYPE_CHECKING:
    from pathlib import Path

    from mlusim.planning.plan import Plan
    from mlusim.planning.request import Request
    from mlusim.verifier.report import Report


class Result(RunFigures):
    """One operator's run on a simulated board, or all that ran on a device (`Device.result`).

    Attributes:
        operator: its name; of a device, the names of its kernels.
        output: the result array, bit-exact; None after a timing-only run, of a device, and in a loaded run that was
            saved without it.
        board: the board's record.
        plan: the split that ran; None where the kernels are the user's own.
        outputs: the result arrays of a kernel of the user's own, by name; empty for an operator.
        log: every record of the run.
        theory_ops: operations of the operator itself, for compute_efficiency; 0 for pure data movement; None where
            nobody declared any.
        request: the operator's arguments, to plan it again on another board; None where no operator ran.
        stopped: the error that ended the run early, as text; empty where it ended well.
        report: of its verification, where it was checked.
        made_by: what made the run, where that is known: `command`, `date`, `seed`.
    """

    def __init__(  # noqa: PLR0913 - most are keywords
        self,
        *,
        operator: str,
        output: np.ndarray[Any, Any] | None,
        board: Board,
        plan: Plan | None,
        log: Log,
        theory_ops: int | None = None,
        request: Request | None = None,
        stopped: str = "",
        sources: Mapping[str, str] | None = None,
    ) -> None:
        self.operator = operator
        self.output = output
        self.board = board
        self.plan = plan
        self.log = log
        self.theory_ops = theory_ops
        self.request = request
        self.stopped = stopped
        self._sources = sources
        self.report: Report | None = None
        # Gives the bytes of a core's buffers at a time, where the run can be repeated (`mlusim.verify`).
        self.repeat: Repeat | None = None
        self.made_by: dict[str, Any] = {}
        self.outputs: Mapping[str, np.ndarray[Any, Any]] = {}

    def memory_at(self, time_ns: float, core: int = 0) -> Moment:
        """The memories of a core at a moment: buffers, their last writers, operations in flight.

        Args:
            time_ns: the moment, in nanoseconds of simulated time, as reports show it.
            core: number of the core on the board.

        Values are there where the run can be repeated: after `mlusim.verify`, whose kernel then runs once more up to
        that moment. Raises `InputError` for another core or time than the run has.
        """
        if isinstance(time_ns, bool) or not isinstance(time_ns, int | float) or not abs(time_ns) < math.inf:
            raise InputError(f"time_ns={time_ns!r}: give nanoseconds of simulated time, a number")
        return moment_of(self.log, self.board, round(time_ns * PS_PER_NS), core, self.repeat)

    @cached_property
    def metrics(self) -> Metrics:
        """All figures of the run, computed from the log at first use."""
        return measure(self.log, self.board, theory_ops=self.theory_ops)

    @property
    def steady(self) -> Extrapolation:
        """What of the time is extrapolated, where steady-state timing was requested (`steady=True`, `--steady`)."""
        return extrapolation_of(self.log)

    @cached_property
    def floor(self) -> Floor:
        """The lower bound of the time, and what the time above it was spent on."""
        return floor_of(Records(self.log, self.board), self.metrics)

    @cached_property
    def known(self) -> Known:
        """The known error of the model for this run, from measurements of real boards."""
        return known_of(Records(self.log, self.board), self.metrics, self.floor)

    @cached_property
    def lines(self) -> list[LineTime]:
        """The source lines of the kernel by the time they took, longest first."""
        return time_by_line(Records(self.log, self.board))

    @property
    def sources(self) -> Mapping[str, str]:
        """Text of every source file that the log names, by name: as it is now, of a loaded run as it was when saved."""
        if self._sources is not None:
            return self._sources
        from mlusim.results.saved import source_texts

        return source_texts(self.log)

    def save(self, path: str | os.PathLike[str], *, output: bool = False) -> Path:
        """Write the run to one file, which `mlusim.load` reads; gives its path.

        Args:
            path: any name; a file there is replaced, at once and only when the new one is complete.
            output: the output's bytes too.

        The file holds log, board, plan and the source of the kernels, no data of inputs (index values that a loop
        looked at are in the log) and no code. The same run gives the same bytes. Raises `InputError` where it cannot
        be written.
        """
        from mlusim.results.saved import Saved, write

        return write(
            Saved(
                operator=self.operator,
                board=self.board,
                plan=self.plan,
                request=self.request,
                log=self.log,
                theory_ops=self.theory_ops,
                stopped=self.stopped,
                sources=self.sources,
                output=self.output if output else None,
                made_by=self.made_by,
            ),
            path,
        )

    @property
    def strategy(self) -> str:
        """The strategy of the plan; empty where there is no plan."""
        return self.plan.strategy if self.plan else ""

    @cached_property
    def time_ps(self) -> int:
        """Simulated time from the start of the first launch to the end of the last, in picoseconds."""
        # The log alone gives it: most callers need none of the other figures.
        return Records(self.log, self.board).time_ps

    @property
    def vendor_io_efficiency(self) -> float:
        """The vendor's: all tensors once / (time x peak bandwidth) (P). Above 1 where a call needs less of them."""
        return self.metrics.vendor_io_efficiency

    @property
    def compute_efficiency(self) -> float | None:
        """theory_ops / (time x peak vector rate) (P, T); None where no operations were declared."""
        return self.metrics.compute_efficiency

    def __repr__(self) -> str:
        return (
            f"<result of {self.operator} on {self.board.name}: {self.time_us:.2f} us, "
            f"io_efficiency {self.io_efficiency:.1%}>"
        )

    def _repr_html_(self) -> str:
        from mlusim.analysis.notebook import result_html

        return result_html(self)


def load(path: str | os.PathLike[str]) -> Result:
    """The run in a file that `Result.save` or `Device.save` wrote: all that is computed from its log, on any machine.

    Raises `InputError` for a file that is missing, no saved run, damaged, or of a newer format.
    """
    from mlusim.results.saved import read

    run = read(path)
    result = Result(
        operator=run.operator,
        output=run.output,
        board=run.board,
        plan=run.plan,
        log=run.log,
        theory_ops=run.theory_ops,
        request=run.request,
        stopped=run.stopped,
        sources=run.sources,
    )
    result.made_by = dict(run.made_by)
    return result
