"""Runs the C++ of one task from one call of the simulator to the next.

This is the hottest path of compiled kernels, and is itself compiled when the package is installed. It awaits nothing:
what the task has to wait for is returned to the coroutine in `mlusim.bangc.execution.kernel`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mlusim.bangc.calls.call_record import HEAD
from mlusim.bangc.execution.accesses import drain
from mlusim.bangc.execution.compiled_task import CompiledTask
from mlusim.bangc.execution.faults import exit_on_memory_core, fault_of, print_text, raise_fault
from mlusim.bangc.execution.file_variables import UNSET_FLOAT
from mlusim.bangc.execution.repetition import Repetition
from mlusim.bangc.lines import raise_at
from mlusim.bangc.runtime_layout import (
    DRAIN,
    FINISHED,
    FIRST_KNOWN,
    LEFT,
    PLACED,
    PRINT,
    RUN_COUNT_WORD,
    SETTLE,
    SIGNAL,
    SKIPPED,
    WILD,
)
from mlusim.errors import MlusimError

# The ways in which `FibreRunner.advance` continues.
_CALL, _COUNTED, _CHECKED = range(3)
_NO_LINE = -1


class FibreRunner:
    """One task of a compiled kernel, as a sequence of waits.

    Args:
        task: the task.
        name: the entry, for error messages.
        meet, settle: return awaitables: until the board's time reaches the task's; the same after the effects of issued
            vector instructions.
    """

    def __init__(
        self, task: CompiledTask, name: str, meet: Callable[[], Awaitable[Any]], settle: Callable[[], Awaitable[Any]]
    ) -> None:
        self._task = task
        self._name = name
        self._meet = meet
        self._settle = settle
        self._resume: Any = task.module.runtime.resume
        self._address: int = task.image.address
        self._words: Any = task.image.words
        self._call_bytes: Any = task.image.call_bytes
        self._sites: dict[bytes, Any] = task.sites
        self._known = task.known
        self._drops: bool = task.issuer.unit.is_memory_core
        self._repetition = Repetition(task)
        self._calls = 0
        self._next_check = self._repetition.at
        self._stage = _CALL
        self._why = 0
        self._fault: tuple[str, int, str, MlusimError] | None = None
        # The line of the call whose wait `advance` has returned.
        self._line = _NO_LINE

    def advance(self) -> Awaitable[Any] | None:
        """Continue until the task has to wait, and return what for; None when the kernel has returned."""
        task, words, call_bytes = self._task, self._words, self._call_bytes
        sites, known = self._sites, self._known
        stage, why = self._stage, self._why
        # Any, although it is what the caller waits for: mypyc would check another type at every call.
        waits: Any = None
        self._line = _NO_LINE
        while True:
            if stage == _CALL:
                why = self._resume(self._address)
                if words[RUN_COUNT_WORD]:
                    if why in (WILD, SIGNAL):
                        # While the accesses before it are recorded, other tasks may have faults.
                        self._fault = fault_of(task, why, self._name)
                    waits = drain(task, self._name)
                    if waits is not None:
                        self._stage, self._why = _COUNTED, why
                        return waits  # type: ignore[no-any-return]  # see above
            if stage != _CHECKED:
                self._calls += 1
                if self._calls >= self._next_check and self._repeats(why):
                    self._stage, self._why = _CHECKED, why
                    return self._meet()
            stage = _CALL
            if why < 0:
                if why == FINISHED or (why == LEFT and self._drops and exit_on_memory_core(task, self._name)):
                    return None
                waits = self._other(why)
                if waits is not None:
                    self._stage = _CALL
                    return waits  # type: ignore[no-any-return]  # see above
                continue
            line = _NO_LINE
            try:
                if why >= FIRST_KNOWN:
                    execute, line = known[why - FIRST_KNOWN]
                    waits = execute()
                else:
                    site = sites.get(call_bytes[HEAD].tobytes())
                    if site is None:
                        site = task.site(self._name)
                    line = site.line
                    waits = self._issue(site)
            except MlusimError as error:
                self._raise(line, error)
            if waits is not None:
                self._stage, self._line = _CALL, line
                return waits  # type: ignore[no-any-return]  # see above

    def failed(self, error: MlusimError) -> None:
        """Raise an error of a wait at the line of its call."""
        if self._line == _NO_LINE:
            raise error
        self._raise(self._line, error)

    def _raise(self, line: int, error: MlusimError) -> None:
        task = self._task
        file, number, function = task.issuer.log.lines[line]
        raise_at(file, number, function, task.explained(error))

    def _issue(self, site: Any) -> Any:
        """Execute a call that is not prepared."""
        values = site.values(self._call_bytes)
        if self._task.change is not None:
            values = self._task.change(self._task, site.line, values)
        if self._drops and self._task.is_dropped(site, values):
            self._task.set_result(0)
            self._task.issuer.skip()
            return None
        if UNSET_FLOAT in values:
            self._task.note_unset(site.name, site.line)
        return site.issue(self._task, site.line, site.codes, values)

    def _repeats(self, why: int) -> bool:
        """Check for an endless loop; returns true if other tasks should run first."""
        if why < 0 and why != DRAIN:
            return False
        repeats = self._repetition.check(self._calls, self._name)
        self._next_check = self._repetition.at
        return repeats

    def _other(self, why: int) -> Awaitable[Any] | None:
        """Process what is not the call of an intrinsic."""
        task = self._task
        if why == SETTLE:
            return self._settle()
        if why == DRAIN:
            # Time has advanced: the task's own loads may have ended, and it continues to read memory.
            task.issuer.unit.flush()
        elif why == SKIPPED:
            # All but the last, which follows, and checks the limit.
            task.issuer.task.operations += task.image.record.skipped - 1
            task.issuer.chip.skipped += task.image.record.skipped - 1
        elif why == PLACED:
            task.arrays.place_new()
        elif why == PRINT:
            print_text(task.image)
        elif self._fault is not None:
            raise_at(*self._fault)
        else:
            raise_fault(task, why, self._name)
        return None
