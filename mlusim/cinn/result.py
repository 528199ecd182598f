"""The result of a net: outputs by name, and bytes and time per operator and in total."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlusim.analysis.metrics import Metrics
from mlusim.arrays import Array
from mlusim.cinn.net import Instruction, Variable
from mlusim.errors import InputError
from mlusim.hardware import Board
from mlusim.log import Log
from mlusim.results.figures import RunFigures
from mlusim.results.result import Result
from mlusim.units import format_us, group_digits, plural


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One operator's run in a net.

    Attributes:
        instruction: the operator.
        result: its plan, log and figures, as in a separate run, without output. A view runs nothing: all are 0.
    """

    instruction: Instruction
    result: Result

    @property
    def name(self) -> str:
        """Name of the output."""
        return self.instruction.output.name


class NetResult(RunFigures):
    """The run of a net. `result["b"]` or `result[b]` is the array of an output; `print(result)` prints a table.

    Attributes:
        name: name of the net.
        board: the board.
        log: every record of the run, all operators.
        steps: the operators, in order.
        outputs: arrays by name; none after a timing-only run.
    """

    def __init__(
        self,
        name: str,
        board: Board,
        log: Log,
        steps: tuple[Step, ...],
        outputs: Mapping[str, Array],
    ) -> None:
        self.name = name
        self.board = board
        self.log = log
        self.steps = steps
        self.outputs = outputs

    def __getitem__(self, output: str | Variable) -> Array:
        name = output.name if isinstance(output, Variable) else output
        if name not in self.outputs:
            outputs_text = f"it has {', '.join(self.outputs)}" if self.outputs else "the run was timing-only"
            raise InputError(f"net {self.name!r} has no output {name!r}: {outputs_text}; build(outputs=[...]) chooses")
        return self.outputs[name]

    @cached_property
    def metrics(self) -> Metrics:
        """All figures of the whole run; compulsory bytes are those of the net's inputs and outputs."""
        return self.as_result().metrics

    def as_result(self) -> Result:
        """Return the whole run as one result, without plan and output: its lower bound, source lines and causes."""
        operations = sum(step.result.theory_ops or 0 for step in self.steps)
        return Result(operator=self.name, output=None, board=self.board, plan=None, log=self.log, theory_ops=operations)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the whole run to a file for `mlusim.load`; see `Result.save`. Outputs are not included."""
        return self.as_result().save(path)

    def _rows(self) -> list[tuple[str, ...]]:
        """Return the header, one row per operator and the total."""
        rows: list[tuple[str, ...]] = [("output", "operator", "time us", "cycles", "bus read B", "bus write B")]
        rows += [(f"{step.instruction.output!r}", step.instruction.call, *_figures(step.result)) for step in self.steps]
        rows.append(("total", "", *_figures(self)))
        return rows

    def _repr_html_(self) -> str:
        from mlusim.analysis.notebook import table_html

        heads, *rows = self._rows()
        return table_html(f"net {self.name!r} on {self.board.name}", heads, rows)

    def __str__(self) -> str:
        """Return one line per operator and the total."""
        rows = self._rows()
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [f"net {self.name!r} on {self.board.name}"]
        for row in rows:
            cells = zip("<<>>>>", widths, row, strict=True)
            lines.append("  " + "  ".join(f"{cell:{align}{width}}" for align, width, cell in cells).rstrip())
        return "\n".join(lines)

    def __repr__(self) -> str:
        operators = plural(len(self.steps), "operator")
        return f"<result of net {self.name!r} on {self.board.name}: {format_us(self.time_ps)}, {operators}>"


def _figures(run: Result | NetResult) -> tuple[str, str, str, str]:
    read, write = run.bus_bytes["read"], run.bus_bytes["write"]
    return f"{run.time_us:.2f}", group_digits(run.cycles), group_digits(read), group_digits(write)
