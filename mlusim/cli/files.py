"""Output files of a command: checked before anything runs, and written atomically."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mlusim.cli.options import check_writable
from mlusim.cli.paths import check_target, is_through
from mlusim.errors import InputError
from mlusim.files import atomic_write, beside
from mlusim.host.array_files import read_array, write_array

__all__ = ["check_csv", "check_file", "check_output", "read_array", "write_array", "write_bytes"]


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
    check_writable(where, target.parent)
    return path


def check_csv(option: str, text: str, inputs: Iterable[str] = ()) -> Path:
    """Return the path of a CSV file to write; it and the JSON beside it are checked before anything runs.

    Raises `InputError` as `check_file`.
    """
    path = check_file(option, text, inputs)
    if not is_through(path):
        check_file(option, str(beside(path)), inputs)
    return path


def write_bytes(option: str, path: Path, content: bytes) -> None:
    """Write any file atomically. Raises `InputError` on failure."""
    try:
        with atomic_write(path) as stream:
            stream.write(content)
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be written: {error.strerror or error}") from error
