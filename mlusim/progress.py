"""The progress bar of runs, sweeps and searches: on standard error, on a terminal only."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

# Points of a sweep differ in size: a speed over the last few says little about those to come.
_SPEED_OVER_S = 300.0


class Bar:
    """A progress bar that is drawn when it is first shown. rich is imported then.

    As a context manager it is shown at once, and taken off the screen at the end.

    Args:
        what: the text beside the bar.
        total: steps in all; None where that is not known.
        shown: False: no bar, wherever this runs.
        threaded: a thread of its own draws it while it stands. Else it is drawn by `show` and `update` alone, and what
            the run prints is left as it is.
        counted: it shows steps as "3/20"; else as a percentage.
    """

    def __init__(
        self, what: str, total: float | None, *, shown: bool = True, threaded: bool = True, counted: bool = True
    ) -> None:
        self._what, self._total = what, total
        self._shown, self._threaded, self._counted = shown, threaded, counted
        self._bar: Any = None
        self._task: Any = None

    def show(self) -> None:
        """Draw the bar, where there is a terminal."""
        if not self._shown or self._bar is not None:
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        if not console.is_terminal:
            self._shown = False
            return
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn() if self._counted else TaskProgressColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[state]}"),
            console=console,
            auto_refresh=self._threaded,
            redirect_stdout=self._threaded,
            redirect_stderr=self._threaded,
            transient=True,
            speed_estimate_period=_SPEED_OVER_S,
        )
        self._task = self._bar.add_task(self._what, total=self._total, state="")
        self._bar.start()

    def update(self, completed: float, state: str = "") -> None:
        """As many steps are done, in all; `state` is shown behind them."""
        if self._bar is not None:
            self._bar.update(self._task, completed=completed, state=state, refresh=not self._threaded)

    def step(self, state: str = "") -> None:
        """One step more."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, state=state)

    def more(self, steps: int) -> None:
        """So many more steps to do than thought."""
        self._total = (self._total or 0) + steps
        if self._bar is not None:
            self._bar.update(self._task, total=self._total)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.stop()

    def __enter__(self) -> Self:
        if self._total:
            self.show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
