"""A run on the command line: a saved one, or the arguments of `mlusim run`, which is then executed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlusim.cli.local_paths import without_folders
from mlusim.errors import InputError
from mlusim.files import scratch_folder
from mlusim.source_code import is_kernel_name

if TYPE_CHECKING:
    from mlusim.results.result import Result


# Options of `mlusim run` that print or write something else than the run, which is only timed and saved.
_OTHER_OUTPUT = ("--json", "--save-run", "--out", "--output", "-o", "--dry-run", "--help", "-h")
_AS_ARGUMENTS = "{!r} is not a saved run; as arguments of `mlusim run`"


def run_of(text: str) -> Result:
    """Return a saved run, or the run of `mlusim run` with these arguments. Raises `InputError`.

    It is timing only, unless a kernel loads values that only a run with data has.
    """
    from mlusim.cli.command_line import line_and_exit_code
    from mlusim.cli.operators import SUMMARIES
    from mlusim.cli.run import run
    from mlusim.explore.kernel_call import with_data_if_needed
    from mlusim.results.saved import load

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{_AS_ARGUMENTS.format(text)}: {error}") from None
    if not words:
        raise InputError(f"{text!r} is not a run: name a saved run, or give the arguments of `mlusim run` in quotes")
    # Text copied from a shell begins with the command.
    for command in ("mlusim", "run"):
        words = words[1:] if words[:1] == [command] and len(words) > 1 else words
    is_run = is_kernel_name(words[0]) or words[0] in SUMMARIES
    if not is_run and (len(words) <= 1 or Path(text).exists()):
        return load(text)
    for word in words:
        if word.partition("=")[0] in _OTHER_OUTPUT:
            raise InputError(f"{text!r}: omit {word}; the run is only timed, and the output is that of this command")
    with scratch_folder() as folder:
        file = folder / "run.zip"

        def execute(*, data: bool) -> None:
            options = ["--quiet", "--save-run", str(file), *([] if data else ["--no-data"])]
            # After the name of the kernel, so that they are not the value of a last option without one.
            run.main([words[0], *options, *words[1:]], prog_name="mlusim run", standalone_mode=False)

        try:
            if {"--no-data", "--steady"} & {*words}:
                execute(data=False)
            else:
                with_data_if_needed(execute)
        except click.UsageError as error:
            message, _ = line_and_exit_code(error)
            raise InputError(f"{_AS_ARGUMENTS.format(text)}: {message[:1].lower()}{message[1:]}") from None
        result = load(file)
        result.made_by["command"] = shlex.join(["mlusim", "run", *without_folders(words)])
        return result
