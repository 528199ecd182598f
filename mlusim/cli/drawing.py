"""The process that draws pictures of a command's report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mlusim.analysis.drawing_process import DrawingProcess

_PROCESS = "mlusim.cli.drawing"


def start_drawing(report: str | None) -> None:
    """If there will be a report, start a process that draws some of its pictures; it ends with the command."""
    if report is not None:
        from mlusim.analysis.drawing_process import DrawingProcess

        context = click.get_current_context()
        context.meta[_PROCESS] = context.with_resource(DrawingProcess())


def drawing_process() -> DrawingProcess | None:
    """Return the process of this command, if it was started."""
    process: DrawingProcess | None = click.get_current_context().meta.get(_PROCESS)
    return process
