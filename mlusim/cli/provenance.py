"""The provenance of a command's figures, for its JSON and its saved runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mlusim.hardware import Board
    from mlusim.results.result import Result
    from mlusim.verifier.report import Report


def made_by() -> dict[str, Any]:
    """Return the contents of `Result.made_by`: the command without local folders, today's date, the seed."""
    from datetime import UTC, datetime
    from shlex import join

    from mlusim.analysis.provenance import without_folders

    context = click.get_current_context()
    words = context.find_root().obj
    date = datetime.now(UTC).date().isoformat()
    command = join(["mlusim", *without_folders(list(words))]) if words else None
    return {"command": command, "date": date, "seed": context.params.get("seed") or 0}


def provenance(boards: Iterable[Board]) -> dict[str, Any]:
    """Return the provenance of several runs for JSON: version, command, date, seed and each board's complete record."""
    from mlusim import __version__
    from mlusim.analysis.provenance import board_record

    return {"mlusim": __version__, **made_by(), "boards": {board.name: board_record(board) for board in boards}}


def provenance_of(result: Result) -> dict[str, Any]:
    """Of the figures of one run, for JSON; of a run that was just made the command is this one."""
    from mlusim.analysis.provenance import provenance

    result.made_by = result.made_by or made_by()
    return provenance(result)


def verification_json(report: Report) -> dict[str, Any]:
    """A report of the checker as JSON, files by their names: nothing of this machine."""
    found: dict[str, Any] = _without_folders(report.to_json())
    return found


def _without_folders(value: Any) -> Any:
    """The same JSON, files by their names: nothing of this machine."""
    from pathlib import PurePath

    if isinstance(value, dict):
        return {
            key: PurePath(item).name if key == "file" and isinstance(item, str) else _without_folders(item)
            for key, item in value.items()
        }
    return [_without_folders(item) for item in value] if isinstance(value, list) else value
