"""`Result`: the output of a run, its log, and everything computed from the log."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from mlusim.analysis.by_line import LineTime, time_by_line
from mlusim.analysis.extrapolation import Extrapolation, extrapolation_of
from mlusim.analysis.known_error import ErrorEstimate, known_error_of
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.lower_bound import LowerBound, lower_bound_of
from mlusim.analysis.metrics import Metrics, measure
from mlusim.arrays import Array
from mlusim.errors import InputError, shown
from mlusim.hardware import Board
from mlusim.inputs import as_count, as_plain, check_flags
from mlusim.log import Log
from mlusim.results.figures import RunFigures
from mlusim.results.memory_state import MemoryState, Repeat, memory_state_of
from mlusim.spelling import nearest
from mlusim.units import PS_PER_NS

if TYPE_CHECKING:
    from pathlib import Path

    from mlusim.planning.plan import Plan
    from mlusim.planning.request import Request
    from mlusim.verifier.report import Report

# What other profilers have, and where it is here.
_REPORT = "result.write_report(DIRECTORY) writes the timeline, and trace.json for Perfetto"
_ADVICE = {
    **dict.fromkeys(("html", "perfetto", "plot", "profile", "show", "timeline", "trace", "to_trace"), _REPORT),
    **dict.fromkeys(
        ("energy", "power"),
        "energy is not modelled; result.bytes_requested and result.bus_bytes have the bytes it takes",
    ),
    **dict.fromkeys(
        ("bandwidth", "utilization", "utilisation"),
        "result.io_efficiency is the share of the peak bandwidth, result.compute_efficiency that of the vector rate",
    ),
}


class Result(RunFigures):
    """The run of an operator on a simulated board, or everything that ran on a device (`Device.result`).

    Attributes:
        operator: its name; for a device, the names of its kernels.
        board: the board.
        plan: the split that ran; None for the user's own kernels.
        outputs: the result arrays of a user's kernel, by name; empty for an operator.
        log: all records of the run.
        theory_ops: operations of the operator itself, for compute_efficiency; 0 for pure data movement; None if not
            declared.
        request: the operator's arguments, for planning it again on another board; None without an operator.
        stopped: the error that ended the run early, as text; empty if there was none.
        report: the verification report, if verified.
        made_by: the origin of the run, if known: `command`, `date`, `seed`.
    """

    def __init__(
        self,
        *,
        operator: str,
        output: Array | None,
        board: Board,
        plan: Plan | None,
        log: Log,
        theory_ops: int | None = None,
        request: Request | None = None,
        stopped: str = "",
        sources: Mapping[str, str] | None = None,
    ) -> None:
        self.operator = operator
        self._output = output
        self.board = board
        self.plan = plan
        self.log = log
        self.theory_ops = theory_ops
        self.request = request
        self.stopped = stopped
        self._sources = sources
        self.report: Report | None = None
        # Returns the contents of a core's buffers at a time, if the run can be repeated (`mlusim.verify`).
        self.repeat: Repeat | None = None
        self.made_by: dict[str, Any] = {}
        self.outputs: Mapping[str, Array] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A run can be repeated only in its own process: the kernel may be a local function.
        return self.__dict__ | {"repeat": None}

    if not TYPE_CHECKING:  # with `__getattr__`, a type checker would accept any name

        def __getattr__(self, name: str) -> NoReturn:
            if hasattr(type(self), name):  # a property, whose own error this is
                object.__getattribute__(self, name)
            known = [known for known in (*vars(self), *dir(type(self))) if not known.startswith("_")]
            suggestion = f"{_ADVICE[name]}; " if name in _ADVICE else nearest(name, known, count=2, cutoff=0.5)
            raise AttributeError(
                f"a result has no {name!r}: {suggestion}help(mlusim.Result) lists all", name=name, obj=self
            )

    # `| Any` is `| None` without a test for it at each use, as typeshed has it for `re.Match.group`.
    @property
    def output(self) -> Array | Any:
        """The result array, bit-exact.

        None after a timing-only run, for a device, and for a loaded run that was saved without it. Raises `InputError`
        for a run with several outputs, which `outputs` has by name.
        """
        if len(self.outputs) > 1:
            names = [*self.outputs]
            raise InputError(f"the run has {len(names)} outputs, {', '.join(names)}: take result.outputs[{names[0]!r}]")
        return next(iter(self.outputs.values()), self._output)

    def memory_at(self, time_ns: float, core: int = 0) -> MemoryState:
        """Return the state of a core's memories at a time: buffers, their last writers, operations in flight.

        Args:
            time_ns: simulated time in nanoseconds, as in reports.
            core: index of the core on the board.

        Values are available if the run can be repeated, as after `mlusim.verify`: the kernel then runs again up to that
        time. A copy of the result, or one from another process, has no values.
        Raises `InputError` for a core or a time outside the run.
        """
        time = as_plain(time_ns)
        if isinstance(time, bool) or not isinstance(time, int | float) or not abs(time) < math.inf:
            raise InputError(f"time_ns={shown(time_ns)}: pass a number of nanoseconds of simulated time")
        core = as_count("core", core, minimum=0)
        return memory_state_of(self.log, self.board, round(time * PS_PER_NS), core, self.repeat)

    @cached_property
    def metrics(self) -> Metrics:
        """All figures of the run, computed from the log on first use."""
        return measure(self.log, self.board, theory_ops=self.theory_ops)

    @property
    def steady(self) -> Extrapolation:
        """The extrapolated part of the time, if steady-state timing was requested (`steady=True`, `--steady`)."""
        return extrapolation_of(self.log)

    @cached_property
    def lower_bound(self) -> LowerBound:
        """The lower bound of the time, and the causes of the time above it."""
        return lower_bound_of(LogColumns(self.log, self.board), self.metrics)

    @cached_property
    def known(self) -> ErrorEstimate:
        """The known error of the model for this run, from measurements of real boards."""
        return known_error_of(LogColumns(self.log, self.board), self.metrics, self.lower_bound)

    @cached_property
    def lines(self) -> list[LineTime]:
        """The source lines of the kernel by their time, longest first."""
        return time_by_line(LogColumns(self.log, self.board))

    @property
    def sources(self) -> Mapping[str, str]:
        """Text of every source file named in the log, by name: current, or as saved if the run was loaded."""
        if self._sources is not None:
            return self._sources
        from mlusim.results.saved import source_texts

        return source_texts(self.log)

    def save(self, path: str | os.PathLike[str], *, output: bool = False) -> Path:
        """Write the run to a file for `mlusim.load`; return its path.

        Args:
            path: any name; an existing file is replaced atomically.
            output: include the bytes of the output.

        The file contains log, board, plan and the source of the kernels, but no input data (except index values that
        loops read, which are in the log) and no code. Equal runs write equal bytes. Raises `InputError` if it cannot be
        written.
        """
        from mlusim.results.saved import write

        check_flags(output=output)
        if output and len(self.outputs) > 1:
            raise InputError(
                f"a saved run holds one output, and this one has {len(self.outputs)}: save them with "
                "np.savez('outputs.npz', **result.outputs)"
            )
        return write(self, path, output=output)

    def write_report(self, directory: str | os.PathLike[str]) -> list[Path]:
        """Write the report of the run, as `mlusim run --report` does; return the files, the most important ones first.

        They are report.html, the pictures, summary.json, and trace.json for Perfetto.

        Args:
            directory: created if missing. Existing files of the same names are replaced, others are left alone.

        Raises `InputError` if the directory cannot be written, or plotly is not installed.
        """
        from mlusim.analysis.report_files import write_report

        return write_report(self, directory)

    @property
    def strategy(self) -> str:
        """The strategy of the plan; empty without a plan."""
        return self.plan.strategy if self.plan else ""

    @cached_property
    def time_ps(self) -> int:
        """Simulated time from the start of the first launch to the end of the last, in picoseconds."""
        # Computed from the log alone: most callers need none of the other figures.
        return LogColumns(self.log, self.board).time_ps

    @property
    def vendor_io_efficiency(self) -> float | None:
        """The vendor's definition: all tensors once / (time x peak bandwidth) (P). May exceed 1 on partly used tensors.

        None if nothing moved on the DRAM bus.
        """
        return self.metrics.vendor_io_efficiency

    @property
    def compute_efficiency(self) -> float | None:
        """theory_ops / (time x peak vector rate) (P, T); None if no operations were declared."""
        return self.metrics.compute_efficiency

    def __repr__(self) -> str:
        return f"<result of {self.operator} on {self.board.name}: {self.metrics.headline}>"

    def _repr_html_(self) -> str:
        from mlusim.analysis.notebook import result_html

        return result_html(self)
