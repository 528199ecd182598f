"""The progress bar of runs, sweeps and searches: on standard error, on a terminal only."""

from __future__ import annotations

from typing import Any, Self

# Points of a sweep differ in size, so the speed is averaged over a long time.
_SPEED_OVER_S = 300.0


class Bar:
    """A progress bar. `rich` is imported when the bar is first shown.

    As a context manager the bar is shown at once, and removed at the end.

    Args:
        what: the text next to the bar.
        total: number of steps; None if unknown.
        shown: False disables the bar.
        threaded: redraw the bar in a thread. Otherwise only `show` and `update` draw it, and output of the run is not
            redirected.
        counted: show steps as "3/20" rather than as a percentage.
    """

    def __init__(
        self, what: str, total: float | None, *, shown: bool = True, threaded: bool = True, counted: bool = True
    ) -> None:
        self._label, self._total = what, total
        self._is_shown, self._threaded, self._has_count = shown, threaded, counted
        self._bar: Any = None
        self._task: Any = None

    def show(self) -> None:
        """Draw the bar, if standard error is a terminal."""
        if not self._is_shown or self._bar is not None:
            return
        from rich.console import Console

        console = Console(stderr=True)
        if not console.is_terminal:
            self._is_shown = False
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn() if self._has_count else TaskProgressColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[state]}"),
            console=console,
            auto_refresh=self._threaded,
            redirect_stdout=self._threaded,
            redirect_stderr=self._threaded,
            transient=True,
            speed_estimate_period=_SPEED_OVER_S,
        )
        self._task = self._bar.add_task(self._label, total=self._total, state="")
        self._bar.start()

    def update(self, completed: float, state: str = "") -> None:
        """Set the number of completed steps; `state` is shown after it."""
        if self._bar is not None:
            self._bar.update(self._task, completed=completed, state=state, refresh=not self._threaded)

    def step(self, state: str = "") -> None:
        """Complete one more step."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, state=state)

    def extend(self, steps: int) -> None:
        """Add steps to the total."""
        self._total = (self._total or 0) + steps
        if self._bar is not None:
            self._bar.update(self._task, total=self._total)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def __enter__(self) -> Self:
        if self._total:
            self.show()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
