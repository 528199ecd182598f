"""Output files of a command: checked before anything runs, and written atomically."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from mlusim.cli.paths import check_target, is_through
from mlusim.errors import InputError
from mlusim.files import atomic_write, provenance_path, writing


def check_output(option: str, text: str, inputs: Iterable[str] = ()) -> Path:
    """Return the path of an .npy file to write; checked before anything runs.

    Raises `InputError` if its directory does not exist or the file is an input.
    """
    if Path(text).suffix != ".npy":
        raise InputError(f"{option} {text}: the result is written as .npy; name it {Path(text).stem or 'result'}.npy")
    return check_file(option, text, inputs)


def check_file(option: str, text: str, inputs: Iterable[str] = ()) -> Path:
    """Return the path of any file to write; checked before anything runs.

    Raises `InputError` if its directory does not exist or the file is an input.
    """
    path = Path(text)
    where = f"{option} {text}"
    check_target(option, text, inputs)
    if is_through(path):
        return path
    if path.is_dir():
        raise InputError(f"{where} is a directory: name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise InputError(f"{where}: there is no directory {target.parent}; make it first")
    _check_writable(where, target.parent)
    return path


def check_csv(option: str, text: str, inputs: Iterable[str] = ()) -> Path:
    """Return the path of a CSV file to write; it and the JSON beside it are checked before anything runs.

    Raises `InputError` as `check_file`.
    """
    path = check_file(option, text, inputs)
    if not is_through(path):
        check_file(option, str(provenance_path(path)), inputs)
    return path


def check_directory(option: str, text: str | None, names: Iterable[str] | None = None) -> None:
    """Raise `InputError`, before anything runs, if a directory cannot be created or written to.

    `names` are the files to write, by default a report's: none may be an input, or a file that mlusim did not write.
    """
    if text is None:
        return
    target = Path(text).resolve()
    if target.exists() and not target.is_dir():
        raise InputError(f"{option} {text} is a file: name a directory")
    existing = next(folder for folder in (target, *target.parents) if folder.exists())
    if not existing.is_dir():
        raise InputError(f"{option} {text}: {existing} is a file, so no directory can be made in it")
    _check_writable(f"{option} {text}", existing)
    if names is None:
        from mlusim.analysis.pictures import report_names

        names = report_names()
    for name in names:
        check_target(option, str(Path(text) / name))


def _check_writable(where: str, directory: Path) -> None:
    """Raise `InputError` if no file can be created in a directory; access rights are not conclusive on every system."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".mlusim-"):
            pass
    except OSError as error:
        raise InputError(f"{where}: the directory {directory} cannot be written: {error.strerror or error}") from error


def make_directory(option: str, text: str) -> Path:
    """Return the directory, created if missing. Raises `InputError` on failure."""
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option} {text}: cannot be made: {error.strerror or error}") from error
    return folder


def write_bytes(option: str, path: Path, content: bytes) -> None:
    """Write any file atomically. Raises `InputError` on failure."""
    with writing(f"{option} {path}"), atomic_write(path) as stream:
        stream.write(content)
