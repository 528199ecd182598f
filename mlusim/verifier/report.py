"""`Report`: all findings and figures of a run, as text, ANSI-coloured text, JSON, or a picture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mlusim.errors import InputError, VerificationError
from mlusim.inputs import as_path, check_flags
from mlusim.log import Log
from mlusim.units import group_digits, plural, short_bytes
from mlusim.verifier.findings import ERROR, HINT, Finding
from mlusim.verifier.split.balance import Balance, LineTraffic
from mlusim.verifier.split.tensor_use import TensorUse

_SHOWN_LINES = 8
_GREEN, _RED, _BOLD, _END = "\x1b[32m", "\x1b[31m", "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """The findings and figures of a verified run.

    Attributes:
        name: the kernel or operator.
        board: the board's name.
        findings: errors first, then hints.
        tensors: the split proof, by host tensor.
        balance: the balance of the work; None if nothing ran.
        traffic: the bytes moved by each source line.
        memories: bytes read and written by all operations, by memory.
        stopped: whether the run ended early.
        records, tasks: number of records and tasks checked.
        outputs: result arrays by name, after `mlusim.verify`; empty in a timing-only run.
        compared: names of the outputs whose values were compared with a reference.
        log: the log of the run.
        result: the run itself, with its time and all its figures, after `mlusim.verify`.
    """

    name: str
    board: str
    findings: tuple[Finding, ...]
    tensors: tuple[TensorUse, ...] = ()
    balance: Balance | None = None
    traffic: tuple[LineTraffic, ...] = ()
    memories: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    stopped: bool = False
    records: int = 0
    tasks: int = 0
    outputs: dict[str, Any] = field(default_factory=dict)
    compared: tuple[str, ...] = ()
    log: Log | None = None
    result: Any = None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that make a kernel incorrect."""
        return tuple(finding for finding in self.findings if finding.severity == ERROR)

    @property
    def hints(self) -> tuple[Finding, ...]:
        """Findings that do not make it incorrect."""
        return tuple(finding for finding in self.findings if finding.severity == HINT)

    @property
    def ok(self) -> bool:
        """True if there are no errors."""
        return not self.errors

    def check(self, result: Any = None) -> Report:
        """Return self if `ok`. Raises `VerificationError` with the report as its text otherwise.

        If `result`, the run, is passed, the report of the error has it as its `result`.
        """
        if self.errors:
            error = VerificationError(self.text())
            error.report = self if result is None else replace(self, result=result)
            raise error
        return self

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<report of {self._headline(colour=False)}>"

    def _repr_html_(self) -> str:
        from mlusim.analysis.notebook import report_html

        return report_html(self)

    def text(self, *, colour: bool = False, hints: bool = True) -> str:
        """Format for the terminal; `colour` adds ANSI codes; without `hints`, only errors and figures."""
        check_flags(colour=colour, hints=hints)
        findings = self.findings if hints else self.errors
        lines = [self._headline(colour=colour)]
        if self.ok and self.outputs and not self.compared:
            lines.append(f"values of {', '.join(self.outputs)} not compared: pass a reference")
        for finding in findings:
            lines += ["", finding.text(colour=colour)]
        if self.tensors:
            lines += ["", *self._proof()]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        traffic = self.memories.items()
        return {
            "name": self.name,
            "board": self.board,
            "ok": self.ok,
            "compared": list(self.compared),
            "records": self.records,
            "tasks": self.tasks,
            "findings": [finding.to_json() for finding in self.findings],
            "tensors": [
                asdict(use)
                | {"shape": list(use.shape), "times_read": use.times_read, "times_written": use.times_written}
                for use in self.tensors
            ],
            "balance": None if self.balance is None else asdict(self.balance) | {"evenness": self.balance.evenness},
            "memories": {memory: {"read": read, "written": written} for memory, (read, written) in traffic},
            "traffic": [asdict(line) | {"efficiency": line.efficiency} for line in self.traffic],
        }

    def draw(self, path: str | os.PathLike[str]) -> Path:
        """Draw each output, coloured by the task that wrote it; red: never written, black: written more than once.

        Args:
            path: a .png or .svg file.

        Returns the path. Raises `InputError` for other suffixes, if the report has no log, or if the file cannot be
        written.
        """
        from mlusim.analysis.proof_picture import draw_proof
        from mlusim.analysis.style import drawing, save
        from mlusim.verifier.split.proof_map import proof_maps

        target = as_path(path)
        if target.suffix not in {".png", ".svg"} or self.log is None:
            raise InputError(f"draw to {target}: it must be a .png or .svg file, of a report that has a log")
        with drawing():
            figure = draw_proof(proof_maps(self.log), self._headline(colour=False))
            save(figure, target)
        return target

    def _headline(self, *, colour: bool) -> str:
        errors, hints = len(self.errors), len(self.hints)
        text = (plural(errors, "error") if errors else "sound") + (f", {plural(hints, 'hint')}" if hints else "")
        if colour:
            text = f"{_BOLD}{_RED if errors else _GREEN}{text}{_END}"
        return (
            f"{self.name} on {self.board}: {text} ({plural(self.records, 'operation')} of {plural(self.tasks, 'task')})"
        )

    def _proof(self) -> Iterator[str]:
        yield "split proof" + (", of what ran until it stopped" if self.stopped else "")
        for use in self.tensors:
            yield f"  {'input' if use.is_input else 'output':<8} {use.name} {use.dtype} {list(use.shape)}: {use.text()}"
        if self.balance is not None and self.balance.tasks:
            yield from _balance(self.balance)
        compulsory = sum(use.nbytes for use in self.tensors)
        on_bus = sum(line.bus_bytes for line in self.traffic)
        if on_bus and compulsory:
            yield (
                f"  dram     {short_bytes(on_bus)} on the bus, {on_bus / compulsory:.2f} x the size of all tensors "
                f"({short_bytes(compulsory)})"
            )
        traffic = [
            f"{memory.upper()} read {short_bytes(read)}, written {short_bytes(written)}"
            for memory, (read, written) in self.memories.items()
            if read + written
        ]
        if traffic:
            yield f"  memory   {'; '.join(traffic)}"
        yield from _traffic(self.traffic[:_SHOWN_LINES])


def _traffic(lines: Sequence[LineTraffic]) -> Iterator[str]:
    """Yield the bytes that each source line moved, in columns."""
    width = max([24, *(len(line.location) for line in lines)])
    name = max([12, *(len(line.operation) for line in lines)])
    for line in lines:
        useful = f"for {short_bytes(line.bus_bytes)} on the bus: {100 * line.efficiency:.1f} % useful"
        yield (
            f"  line     {line.location:<{width}} {line.operation:<{name}} {group_digits(line.operations):>9} times  "
            f"{short_bytes(line.bytes_requested)} {useful if line.bus_bytes else 'on chip'}"
        )


def _balance(balance: Balance) -> Iterator[str]:
    share = (
        f"busiest writes {short_bytes(balance.busiest_bytes)}, mean {short_bytes(round(balance.mean_bytes))}: "
        f"{100 * balance.evenness:.1f} % even"
    )
    yield (
        f"  balance  {plural(balance.tasks, 'task')}, {balance.idle_tasks} idle; "
        f"{balance.cores} cores, {balance.idle_cores} without a task; "
        f"{share if balance.busiest_bytes else 'nothing is written'}"
    )
    if balance.tiles:
        yield (
            f"  stores   {group_digits(balance.tiles)} to outputs, mostly of {short_bytes(balance.tile_bytes)}; "
            f"{group_digits(balance.tail_tiles)} smaller"
        )
