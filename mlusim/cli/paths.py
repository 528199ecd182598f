"""The files of one command, compared with each other before anything runs.

click's file types register here the files named on a command line, and whether they are read or written. No two options
may write the same file, no input is written, and a file that mlusim did not write is replaced only with `--force`.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import click

from mlusim.errors import InputError
from mlusim.files import is_ours

_GIVEN, _FORCE = "mlusim.paths", "mlusim.force"
_PART = re.compile(r"(.*\.(?:npz|npy|py|mlu)):[^:/\\]*", re.IGNORECASE | re.DOTALL)  # file.npz:key, file.py:function


class Given(NamedTuple):
    """A path on a command line: the option's name, its text, and whether the command writes it."""

    option: str
    text: str
    writes: bool

    @property
    def path(self) -> Path:
        """The file, without the part in it that the text names."""
        part = _PART.fullmatch(self.text)
        return Path(part[1]) if part and not Path(self.text).exists() else Path(self.text)


def note(ctx: click.Context | None, param: click.Parameter | None, text: str, *, writes: bool) -> None:
    """Register a path named on a command line."""
    if ctx is not None and param is not None and not ctx.resilient_parsing:
        # Messages use the first long name, like the checks of the commands.
        names = [name for name in param.opts if name.startswith("--")]
        option = names[0] if names else (param.name or "").upper()
        ctx.meta.setdefault(_GIVEN, {})[Given(option, text, writes)] = None


def _keep_force(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    del param
    ctx.meta[_FORCE] = value


force_option = click.option(
    "--force",
    is_flag=True,
    expose_value=False,
    callback=_keep_force,
    help="Replace files that mlusim did not write.",
)


def check_target(option: str, text: str, inputs: Iterable[str] = ()) -> None:
    """Raise `InputError` if a file to write is also another file of the command, or mlusim did not write it.

    `inputs` are files that are not named by an option of a file type.
    """
    path = Path(text)
    context = click.get_current_context(silent=True)
    others = [] if context is None else [*context.meta.get(_GIVEN, ())]
    others += [Given("", path, writes=False) for path in inputs]
    if is_through(path):
        return
    for other in others:
        if (other.option, other.text) != (option, text) and _same(path, other.path):
            if other.writes:
                raise InputError(f"{option} {text} and {other.option} {other.text} are one file: name two")
            raise InputError(f"{option} {text} is an input, and inputs are never overwritten: name another file")
    force = context is not None and context.meta.get(_FORCE, False)
    if option != "--db" and not force and path.is_file() and path.stat().st_size and not is_ours(path):
        # An .npy file does not show what wrote it.
        state = "already exists" if path.suffix == ".npy" else "exists, and mlusim did not write it"
        raise InputError(f"{option} {text} {state}: name another file, or add --force")


def is_through(path: Path) -> bool:
    """Whether a path is a device or a FIFO, which is not replaced but written to."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()
