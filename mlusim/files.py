"""Files of the host: atomic writes, scratch folders, reads with clear errors."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from mlusim.errors import InputError
from mlusim.spelling import nearest

# On Linux, a file without a name: the system removes it with the process, however the process ends.
_NAMELESS = getattr(os, "O_TMPFILE", 0)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a stream that replaces the file if the block succeeds; otherwise the file stays as it was.

    A symbolic link is followed. A file that is replaced keeps its mode. A device such as /dev/stdout, or a FIFO, is
    written at the end of the block. Raises `OSError` if the file cannot be written.
    """
    target = Path(path)
    mode = _mode(target)
    if mode is not None and (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
        with tempfile.TemporaryFile() as stream:
            yield stream
            stream.seek(0)
            with target.open("wb") as through:
                shutil.copyfileobj(stream, through)
        return
    if mode is not None and not stat.S_ISREG(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, os.strerror(number) if stat.S_ISDIR(mode) else "Not a regular file", str(target))
    target = target.resolve()
    scratch = target.with_name(f".{target.name[:64]}.{os.urandom(8).hex()}.part")
    handle, nameless = _open_scratch(scratch)
    try:
        with os.fdopen(handle, "wb") as stream:
            if mode is not None:
                os.chmod(handle if os.chmod in os.supports_fd else scratch, stat.S_IMODE(mode))  # noqa: PTH101 - a handle
            yield stream
            stream.flush()
            os.fsync(handle)
            if nameless:
                _give_name(handle, scratch)
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def directory_for(path: Path) -> Iterator[None]:
    """Create a directory, and its parents, for the files of the block. If it fails, those left empty are removed.

    Raises `InputError` for an `OSError` of the block, which writes these files.
    """
    missing_folders: list[Path] = []
    try:
        # A name that is too long is an `OSError`, too.
        missing_folders += [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as error:
        for folder in missing_folders:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise InputError(
                f"cannot write to {path}: {reason}; name a directory that can be written and has room"
            ) from error
        raise


@contextmanager
def writing(name: object) -> Iterator[None]:
    """Convert an `OSError` of the block, which writes a file, to an `InputError` that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{name}: cannot be written: {error.strerror or error}") from error


_FOLDER = "mlusim-scratch-"
_STALE_S = 60
_LOCKS = find_spec("fcntl") is not None  # Windows has none


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder for temporary files, removed at the end of the block; first remove those of killed processes.

    A folder in use is locked by its process. The system releases the lock however the process ends.
    """
    _remove_stale(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as name:
        handle = _lock(Path(name))
        try:
            yield Path(name)
        finally:
            if handle is not None:
                os.close(handle)


@lru_cache(maxsize=1)
def _remove_stale(directory: Path) -> None:
    """Remove this user's unlocked scratch folders, once per process; on systems without locks, none."""
    if not _LOCKS:
        return
    for folder in directory.glob(f"{_FOLDER}*"):
        with suppress(OSError):
            status = folder.lstat()
            # A folder that another process has just made may not be locked yet.
            fresh = time.time() - status.st_mtime < _STALE_S
            if fresh or not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            handle = _lock(folder)
            if handle is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(handle)


def _lock(folder: Path) -> int | None:
    """Lock a folder and return its handle; None if another process has locked it, or without locks."""
    if not _LOCKS:
        return None
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def open_input(path: Path) -> BinaryIO:
    """Open a file for reading. Raises `OSError`, including for devices: some, such as /dev/zero, never end."""
    mode = path.stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return path.open("rb")


def cannot_read(path: Path, error: OSError, name: object = None) -> str:
    """Return why a file cannot be read, for a message; of a missing one, with a similar name in its folder.

    name: how the message names the file; by default its path.
    """
    name = path if name is None else name
    if not isinstance(error, FileNotFoundError):
        return f"{name}: cannot be read: {error.strerror or error}"
    names: list[str] = []
    with suppress(OSError):
        names = [other.stem for other in path.parent.iterdir() if other.suffix == path.suffix]
    hint = nearest(path.stem, names).removesuffix("? ")
    return f"{name}: no such file" + (f"; {hint}{path.suffix}?" if hint else "")


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a file. Raises `OSError` as `open_input`, and `ValueError` if the file is not text."""
    with TextIOWrapper(open_input(path), encoding=encoding) as stream:
        return stream.read()


def utf8(text: str) -> bytes:
    """Return text as UTF-8, with `?` for the bytes of file names that are not text, which Python has as surrogates."""
    return text.encode("utf-8", "replace")


def _mode(path: Path) -> int | None:
    """Return the type and permissions of the file at a path; None if there is none."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _open_scratch(scratch: Path) -> tuple[int, bool]:
    """Create a file, and return its handle and whether it is nameless; never follows a link."""
    if _NAMELESS:
        with suppress(OSError):  # a file system without nameless files
            return os.open(scratch.parent, _NAMELESS | os.O_RDWR, 0o666), True
    return os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), False


def _give_name(handle: int, scratch: Path) -> None:
    folder = os.open(scratch.parent, os.O_RDONLY)
    try:
        # Given the handle of a folder, Python follows the link to the open file.
        os.link(f"/proc/self/fd/{handle}", scratch.name, dst_dir_fd=folder)
    finally:
        os.close(folder)


def provenance_path(path: Path) -> Path:
    """Return the file that says where the figures of a CSV file come from: `x.csv.json` of `x.csv`."""
    return path.with_name(f"{path.name}.json")
