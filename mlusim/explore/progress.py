"""The progress bar of a sweep: on standard error, on a terminal only."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

# Points differ in size: a speed over the last few says little about those to come.
_SPEED_OVER_S = 300.0


class Bar:
    """Use it as a context manager.

    Args:
        what: beside the bar.
        total: points to run.
        shown: False: no bar, wherever this runs.
    """

    def __init__(self, what: str, total: int, *, shown: bool) -> None:
        self._what = what
        self._total = total
        self._shown = shown and total > 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            console = Console(stderr=True)
            if console.is_terminal:
                self._bar = Progress(
                    TextColumn("{task.description}"),
                    BarColumn(),
                    MofNCompleteColumn(),
                    TimeRemainingColumn(),
                    TextColumn("left  {task.fields[state]}"),
                    console=console,
                    transient=True,
                    speed_estimate_period=_SPEED_OVER_S,
                )
                self._task = self._bar.add_task(self._what, total=self._total, state="")
                self._bar.start()
        return self

    def step(self, state: str = "") -> None:
        """One point more."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, state=state)

    def more(self, points: int) -> None:
        """So many more points to run than thought."""
        self._total += points
        if self._bar is not None:
            self._bar.update(self._task, total=self._total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
