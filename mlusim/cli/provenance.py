"""The provenance of a command's figures, for its JSON and its saved runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mlusim.hardware import Board


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
