"""The provenance of a command's figures, for its JSON and its saved runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import console
from mlusim.cli.local_paths import with_file_names, without_folders
from mlusim.errors import InputError

if TYPE_CHECKING:
    from mlusim.hardware import Board
    from mlusim.results.result import Result
    from mlusim.verifier.report import Report

# The convention of reproducible builds: https://reproducible-builds.org/specs/source-date-epoch
_EPOCH = "SOURCE_DATE_EPOCH"


def made_by() -> dict[str, Any]:
    """Return the contents of `Result.made_by`: the command without local folders, the date, the seed."""
    from shlex import join

    context = click.get_current_context()
    words = context.find_root().obj
    command = join(["mlusim", *without_folders(list(words))]) if words else None
    return {"command": command, "date": _date(), "seed": context.params.get("seed") or 0}


def _date() -> str:
    """Return the date in UTC: that of `SOURCE_DATE_EPOCH`, with which another day gives the same bytes, or today."""
    from datetime import UTC, datetime

    text = os.environ.get(_EPOCH)
    try:
        time = datetime.now(UTC) if text is None else datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{_EPOCH}={text}: it must be seconds since 1970, as `date +%s` prints them") from None
    return time.date().isoformat()


def print_with_provenance(kind: str, value: Mapping[str, Any], provenance: Mapping[str, Any]) -> None:
    """Print the JSON of a command: its format, `mlusim-KIND/1`, its content, and where it comes from."""
    console.print_json({"format": f"mlusim-{kind}/1", **value, "provenance": provenance})


def provenance(boards: Iterable[Board]) -> dict[str, Any]:
    """Return the provenance of several runs for JSON: version, command, date, seed and all parameters of each board."""
    from mlusim.analysis.provenance import provenance_of_runs

    return provenance_of_runs(boards, made_by())


def provenance_without_runs(boards: Iterable[Board] = ()) -> dict[str, Any]:
    """Return the provenance of the JSON of a command that runs nothing: there is no seed, and maybe no board."""
    content = provenance(boards)
    return {key: value for key, value in content.items() if key != "seed" and (key != "boards" or value)}


def provenance_of(result: Result) -> dict[str, Any]:
    """Return the provenance of one run for JSON; the command of a run that was just made is this one."""
    from mlusim.analysis.provenance import provenance

    result.made_by = result.made_by or made_by()
    return provenance(result)


def print_findings(report: Report) -> None:
    """Print the JSON of a verification: the findings, and where they come from."""
    print_with_provenance("verification", verification_json(report), provenance_of(report.result))


def verification_json(report: Report) -> dict[str, Any]:
    """Return a report of the checker as JSON, with nothing of this machine: see `with_file_names`."""
    content: dict[str, Any] = with_file_names(report.to_json())
    return content
