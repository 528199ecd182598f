"""The files of one command: registered and compared before anything runs, and written atomically.

click's file types register here the files named on a command line, and whether they are read or written. No two options
may write the same file, no input is written, and a file that mlusim did not write is replaced only with `--force`.
"""

from __future__ import annotations

import re
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import click

from mlusim.errors import InputError
from mlusim.files import atomic_write, provenance_path, writing
from mlusim.own_files import is_ours

_GIVEN, _FORCE = "mlusim.paths", "mlusim.force"
_PART = re.compile(r"(.*\.(?:npz|npy|py|mlu)):[^:/\\]*", re.IGNORECASE | re.DOTALL)  # file.npz:key, file.py:function


class NamedPath(NamedTuple):
    """A path on a command line: the option's name, its text, and whether the command writes it."""

    option: str
    text: str
    writes: bool

    @property
    def path(self) -> Path:
        """The file, without the part in it that the text names."""
        part = _PART.fullmatch(self.text)
        return Path(part[1]) if part and not Path(self.text).exists() else Path(self.text)


def register(ctx: click.Context | None, param: click.Parameter | None, text: str, *, writes: bool) -> None:
    """Register a path named on a command line."""
    if ctx is not None and param is not None and not ctx.resilient_parsing:
        # Messages use the first long name, like the checks of the commands.
        names = [name for name in param.opts if name.startswith("--")]
        option = names[0] if names else (param.name or "").upper()
        ctx.meta.setdefault(_GIVEN, {})[NamedPath(option, text, writes)] = None


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
    others += [NamedPath("", path, writes=False) for path in inputs]
    if is_device_or_fifo(path):
        return
    for other in others:
        if (other.option, other.text) != (option, text) and _is_same_file(path, other.path):
            if other.writes:
                raise InputError(f"{option} {text} and {other.option} {other.text} are one file: name two")
            raise InputError(f"{option} {text} is an input, and inputs are never overwritten: name another file")
    force = context is not None and context.meta.get(_FORCE, False)
    if option != "--db" and not force and path.is_file() and path.stat().st_size and not is_ours(path):
        # An .npy file does not show what wrote it.
        state = "already exists" if path.suffix == ".npy" else "exists, and mlusim did not write it"
        raise InputError(f"{option} {text} {state}: name another file, or add --force")


def is_device_or_fifo(path: Path) -> bool:
    """Return whether a path is a device or a FIFO, which is not replaced but written to."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _is_same_file(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return path.resolve() == other.resolve()


def check_output(text: str, inputs: Iterable[str]) -> Path:
    """Return the path of the .npy file of --out; checked before anything runs.

    Raises `InputError` if its directory does not exist or the file is an input.
    """
    if text and Path(text).suffix != ".npy":
        raise InputError(f"--out {text}: the result is written as .npy; name it {Path(text).stem or 'result'}.npy")
    return check_file("--out", text, inputs)


def check_file(option: str, text: str, inputs: Iterable[str] = ()) -> Path:
    """Return the path of any file to write; checked before anything runs.

    Raises `InputError` if its directory does not exist or the file is an input.
    """
    if not text:
        raise InputError(f"{option}: the name of the file is empty")
    path = Path(text)
    option_text = f"{option} {text}"
    check_target(option, text, inputs)
    if is_device_or_fifo(path):
        return path
    if path.is_dir():
        raise InputError(f"{option_text} is a directory: name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise InputError(f"{option_text}: there is no directory {target.parent}; make it first")
    _check_writable(option_text, target.parent)
    return path


def check_picture(option: str, text: str) -> Path:
    """Return the path of a picture to write, .png or .svg; checked before anything runs. Raises `InputError`."""
    if Path(text).suffix.lower() not in {".png", ".svg"}:
        raise InputError(f"{option} {text}: name a .png or .svg file")
    return check_file(option, text)


def check_csv(option: str, text: str, inputs: Iterable[str] = ()) -> Path:
    """Return the path of a CSV file to write; it and its JSON file are checked before anything runs.

    Raises `InputError` as `check_file`.
    """
    path = check_file(option, text, inputs)
    if not is_device_or_fifo(path):
        check_file(option, str(provenance_path(path)), inputs)
    return path


def check_directory(option: str, text: str | None, names: Iterable[str] | None = None) -> None:
    """Raise `InputError`, before anything runs, if a directory cannot be created or written to.

    `names` are the files to write, by default a report's: none may be an input, or a file that mlusim did not write.
    """
    if text is None:
        return
    if not text:
        raise InputError(f"{option}: the name of the directory is empty")
    target = Path(text).resolve()
    if target.exists() and not target.is_dir():
        raise InputError(f"{option} {text} is a file: name a directory")
    existing = next(folder for folder in (target, *target.parents) if folder.exists())
    if not existing.is_dir():
        raise InputError(f"{option} {text}: {existing} is a file, so no directory can be made in it")
    _check_writable(f"{option} {text}", existing)
    if names is None:
        from mlusim.analysis.report_files import report_names

        names = report_names()
    for name in names:
        check_target(option, str(Path(text) / name))


def _check_writable(option_text: str, directory: Path) -> None:
    """Raise `InputError` if no file can be created in a directory; access rights are not conclusive on every system."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".mlusim-"):
            pass
    except OSError as error:
        raise InputError(
            f"{option_text}: the directory {directory} cannot be written: {error.strerror or error}"
        ) from error


def write_bytes(option: str, path: Path, content: bytes) -> None:
    """Write any file atomically. Raises `InputError` on failure."""
    with writing(f"{option} {path}"), atomic_write(path) as stream:
        stream.write(content)
