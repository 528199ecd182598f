"""Finished points in an SQLite file. Each is committed when it finishes, so a killed sweep can be resumed.

Two sweeps may use a file at the same time; the second to finish a point writes the same row again. Each row has a
checksum: damaged rows count as missing, are reported, and are computed again. If the file itself is damaged, its good
rows are copied to a new file, and the old one is renamed to `NAME.damaged`.

The rows of equal points are equal on every machine. The bytes of the file are not: SQLite's pages depend on the order
in which points finish, and on its version.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

from mlusim.errors import InputError
from mlusim.inputs import as_path

DONE, IMPOSSIBLE, FAILED, DIED = "done", "impossible", "failed", "died"

_APPLICATION = 0x6D6C7573  # "mlus": what `file` and SQLite call application_id
_SCHEMA = 3
_WAIT_S = 60.0
_RETRY_S = 0.02
_CORRUPT = ("malformed", "not a database", "corrupt")
_WRITE_VERSIONS = (b"\x01", b"\x02")  # SQLite's file format, offset 18
_JOURNALS = ("-wal", "-shm")
_KEY_PREFIX = 12
_MAX_NAMED = 5
_SELECT = "SELECT key, status, message, row, checksum FROM points"
_INSERT = "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?)"
_TABLES = """\
CREATE TABLE points (
    key TEXT PRIMARY KEY,       -- sha256 of all that decides the point
    status TEXT NOT NULL,       -- done, impossible, failed, died
    message TEXT NOT NULL,      -- why, where it is not done
    row TEXT NOT NULL,          -- JSON: what was requested, and the figures
    checksum TEXT NOT NULL      -- sha256 of the other columns
) WITHOUT ROWID;
"""


class Outcome(NamedTuple):
    """The outcome of a point.

    Attributes:
        status: DONE; IMPOSSIBLE: it does not fit the board, or breaks a rule; FAILED: it raised an error; DIED: its
            process died, or this machine ran out of memory.
        message: the reason.
        row: the request and, if done, the figures: columns of the table.
    """

    status: str
    message: str
    row: dict[str, Any]


class Store:
    """The points of a file, or in memory without a path.

    Attributes:
        damaged: descriptions of damage to the file, as lines of text; damaged rows count as missing.

    Raises `InputError` if the file cannot be opened, or is not a sweep's.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else as_path(path)
        self.damaged: list[str] = []
        location = ":memory:" if self.path is None else str(self.path)
        if self.path is not None and not self.path.absolute().parent.is_dir():
            raise InputError(f"{self.path}: there is no directory {self.path.parent}; make it first")
        deadline = time.monotonic() + _WAIT_S
        is_new = not os.path.exists(location)  # noqa: PTH110 - false, not an error, for a name that is too long
        while (error := self._error_of_opening(location)) is not None:
            if self.path is not None and not self.damaged and _is_damaged(self.path, error):
                self._rebuild(self.path, str(error))
            elif "locked" in str(error) and time.monotonic() <= deadline:
                # If two processes open a new file at once, SQLite rejects one change of the journal mode without
                # waiting.
                time.sleep(_RETRY_S)
            else:
                if is_new and self.path is not None and "locked" not in str(error):
                    self._remove_empty(self.path)
                raise self._input_error(error)

    def _error_of_opening(self, location: str) -> sqlite3.DatabaseError | None:
        """Open the file; return the error if it cannot be used as it is."""
        try:
            self._base = sqlite3.connect(location, timeout=_WAIT_S, isolation_level=None)
        except sqlite3.DatabaseError as error:
            raise self._input_error(error) from None
        try:
            with _texts():
                self._open()
        except sqlite3.DatabaseError as error:
            self._base.close()
            return error
        except BaseException:
            self._base.close()
            raise
        return None

    @staticmethod
    def _remove_empty(path: Path) -> None:
        """Remove a file that was just made and could not be filled, as on a full disk."""
        with suppress(OSError):
            if not path.stat().st_size:
                path.unlink()

    def _open(self) -> None:
        base = self._base
        base.text_factory = bytes  # decoding damaged text would raise
        base.execute("BEGIN IMMEDIATE")
        try:
            self._check_schema()
        except BaseException:
            base.execute("ROLLBACK")
            raise
        base.execute("COMMIT")
        if self.path is not None:
            # Readers never wait for writers. On a file system without shared memory, SQLite keeps its default journal.
            base.execute("PRAGMA journal_mode = WAL")
            # Committed data survives this process, though not necessarily a power cut.
            base.execute("PRAGMA synchronous = NORMAL")
            verdict = base.execute("PRAGMA quick_check(1)").fetchone()[0].decode(errors="replace")
            if verdict != "ok":
                raise sqlite3.DatabaseError(f"{_CORRUPT[0]}: {verdict}")
            # A row with a damaged key is misplaced and may hide others, so check all of them.
            damaged_rows = [_name(row) for row in base.execute(_SELECT) if not _is_good(row)]
            if damaged_rows:
                raise sqlite3.DatabaseError(
                    f"{_CORRUPT[0]}: the checksum of {', '.join(damaged_rows[:_MAX_NAMED])} is wrong"
                )

    def _check_schema(self) -> None:
        base = self._base
        (application,), (schema,) = (
            base.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        )
        tables = base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not tables and not application:
            base.execute(_TABLES)
            base.execute(f"PRAGMA application_id = {_APPLICATION}")
            base.execute(f"PRAGMA user_version = {_SCHEMA}")
        elif application != _APPLICATION or tables != 1:
            raise InputError(f"{self.path} is an SQLite file of something else, not of a sweep: name another file")
        elif schema != _SCHEMA:
            raise InputError(
                f"{self.path} has points in format {schema}, and this mlusim writes format {_SCHEMA}: name another file"
            )

    def _rebuild(self, path: Path, reason: str) -> None:
        """Rename a damaged file, and copy its good rows to a new one."""
        damaged_path = path.with_name(f"{path.name}.damaged")
        number = 1
        while damaged_path.exists():
            number += 1
            damaged_path = path.with_name(f"{path.name}.damaged-{number}")
        for suffix in ("", *_JOURNALS):
            if path.with_name(path.name + suffix).exists():
                path.with_name(path.name + suffix).replace(damaged_path.with_name(damaged_path.name + suffix))
        rows = _salvage(damaged_path)
        self.damaged.append(
            f"{path} is damaged ({reason}): {len(rows)} of its points are intact, and the others run again; the "
            f"old file is now {damaged_path}"
        )
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            self._base = base
            self._open()
            with base:
                base.executemany(_INSERT, rows)

    def known(self, keys: Iterable[str], *, retry: bool = False) -> set[str]:
        """Return the keys of finished points, which need not run again; on `retry`, excludes failed ones."""
        statuses = (DONE, IMPOSSIBLE) if retry else (DONE, IMPOSSIBLE, FAILED)
        return {key for key, outcome in self._read(keys) if outcome.status in statuses}

    def read(self, keys: Iterable[str]) -> dict[str, Outcome]:
        """Return the outcomes of the given keys that are in the file."""
        return dict(self._read(keys))

    def all(self) -> list[Outcome]:
        """Return the outcomes of all points in the file, by key; damaged rows are omitted."""
        outcomes = (self._outcome(row) for row in self._rows(f"{_SELECT} ORDER BY key", ()))
        return [outcome for outcome in outcomes if outcome is not None]

    def add(self, key: str, outcome: Outcome) -> None:
        """Write one point atomically. A finished point is never replaced by an unfinished one."""
        row = json.dumps(outcome.row, separators=(",", ":"))
        values = (key, outcome.status, outcome.message, row)
        base = self._base
        try:
            base.execute("BEGIN IMMEDIATE")
            old_row = base.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone()
            is_intact = old_row is not None and old_row[1] == DONE.encode() and _is_good(old_row)
            if not is_intact:
                base.execute(_INSERT, (*values, _checksum(values)))
            base.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise self._input_error(error) from None

    def merge(self, other: Store) -> int:
        """Add the points of another file; return how many were new. Damaged rows are omitted."""
        old_keys = {row[0] for row in self._rows(_SELECT, ())}
        rows = other._rows(_SELECT, ())
        outcomes = {row[0]: outcome for row in rows if (outcome := other._outcome(row)) is not None}
        for key, outcome in outcomes.items():
            self.add(key.decode(), outcome)
        return len(outcomes.keys() - old_keys)

    def _read(self, keys: Iterable[str]) -> Iterator[tuple[str, Outcome]]:
        for key in keys:
            for row in self._rows(f"{_SELECT} WHERE key = ?", (key,)):
                outcome = self._outcome(row)
                if outcome is not None:
                    yield key, outcome

    def _rows(self, query: str, values: tuple[str, ...]) -> list[Any]:
        try:
            with _texts():
                return self._base.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._input_error(error) from None

    def _outcome(self, row: Any) -> Outcome | None:
        """Return the outcome in a row; None if it is damaged, which is recorded once."""
        if not _is_good(row):
            text = f"{self.path}: the checksum of {_name(row)} is wrong, so it runs again"
            if text not in self.damaged:
                self.damaged.append(text)
            return None
        _, status, message, text, _ = row
        return Outcome(status.decode(), message.decode(), json.loads(text))

    def _input_error(self, error: sqlite3.DatabaseError) -> InputError:
        text = str(error)
        if "not a database" in text:
            return InputError(f"{self.path} is not an SQLite file of a sweep: name another file")
        if os.path.isdir(self.path or ""):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
            return InputError(f"{self.path} is a directory: name a file in it")
        if "unable to open" in text or "readonly" in text:
            return InputError(f"{self.path}: cannot be written ({text}): name a file in a writable directory")
        if "locked" in text:
            return InputError(
                f"{self.path} has been locked by another program for more than {_WAIT_S:g} s: end it first"
            )
        return InputError(f"{self.path}: {text}; is the disk full, or the file damaged? Name another one")

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _texts() -> Iterator[None]:
    """Convert decoding errors to database errors: SQLite's message may quote damaged bytes."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(f"{_CORRUPT[0]}: it names what is not text") from error


def _checksum(values: Iterable[Any]) -> str:
    """Hash the columns of a row except the last; texts as stored in the file."""
    digest = hashlib.sha256()
    for value in values:
        data = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else repr(value).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _is_damaged(path: Path, error: sqlite3.DatabaseError) -> bool:
    """Return whether the file has a sweep's header, but is otherwise corrupt."""
    with path.open("rb") as stream:
        header = stream.read(100)
    # SQLite opens a file with an unknown write version as read-only.
    has_unknown_version = "readonly" in str(error) and header[18:19] not in _WRITE_VERSIONS
    if not has_unknown_version and not any(text in str(error) for text in _CORRUPT):
        return False
    return header.startswith(b"SQLite format 3\0") and header[68:72] == _APPLICATION.to_bytes(4, "big")


def _name(row: Any) -> str:
    """Return a row's name for a message: a prefix of its key."""
    key = row[0].decode(errors="replace") if isinstance(row[0], bytes) else repr(row[0])
    return f"row {key[:_KEY_PREFIX]!r}"


def _is_good(row: Any) -> bool:
    return bool(_checksum(row[:-1]).encode() == row[-1])


def _salvage(path: Path) -> list[Any]:
    """Return the good rows of a damaged file, queried by key prefix, so that a bad page hides only few of them."""
    bounds = ["", *(f"{number:03x}" for number in range(1 << 12)), "\U0010ffff"]
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.text_factory = bytes
        rows = [row for low, high in pairwise(bounds) for row in _rows_between(base, low, high) if _is_good(row)]
    by_key = {row[0]: row for row in rows}
    return [tuple(cell.decode() if isinstance(cell, bytes) else cell for cell in row) for row in by_key.values()]


def _rows_between(base: sqlite3.Connection, low: str, high: str) -> list[Any]:
    """Return the rows with these keys; none if the file is damaged there."""
    with suppress(sqlite3.DatabaseError), _texts():
        return base.execute(f"{_SELECT} WHERE key >= ? AND key < ?", (low, high)).fetchall()
    return []
