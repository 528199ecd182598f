"""Finished points in an SQLite file, each written as it finishes: what is in it survives a kill at any moment.

Two sweeps may use one file at once; whoever comes second to a point writes the same again.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from mlusim.errors import InputError

DONE, IMPOSSIBLE, FAILED, DIED = "done", "impossible", "failed", "died"

_APPLICATION = 0x6D6C7573  # "mlus": what `file` and SQLite call application_id
_SCHEMA = 1
_WAIT_S = 60.0
_AGAIN_S = 0.02
_TABLES = """\
CREATE TABLE points (
    key TEXT PRIMARY KEY,       -- sha256 of all that decides the point
    status TEXT NOT NULL,       -- done, impossible, failed, died
    message TEXT NOT NULL,      -- why, where it is not done
    row TEXT NOT NULL,          -- JSON: what was asked for, and the figures
    host_s REAL NOT NULL        -- seconds that it took to simulate
) WITHOUT ROWID;
"""


class Outcome(NamedTuple):
    """What came of a point.

    Attributes:
        status: DONE; IMPOSSIBLE: it does not fit the board, or breaks a rule; FAILED: it ran into an error; DIED: its
            process did, or this machine ran out of memory.
        message: why.
        row: what was asked for and, where it is done, the figures: columns of the table.
        host_s: seconds of host time that it took.
    """

    status: str
    message: str
    row: dict[str, Any]
    host_s: float


class Store:
    """The points of one file, or of memory where there is none.

    Raises `InputError` where the file cannot be opened, or is not one of a sweep.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        place = ":memory:" if self.path is None else str(self.path)
        if self.path is not None and not self.path.absolute().parent.is_dir():
            raise InputError(f"{self.path}: there is no directory {self.path.parent}; make it first")
        deadline = time.monotonic() + _WAIT_S
        while True:
            try:
                self._base = sqlite3.connect(place, timeout=_WAIT_S, isolation_level=None)
                self._open()
            except sqlite3.DatabaseError as error:
                # Where two open a new file at once, SQLite refuses one of them a change of the journal, and waits not.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise self._trouble(error) from None
                self._base.close()
                time.sleep(_AGAIN_S)
            else:
                return

    def _open(self) -> None:
        base = self._base
        if self.path is not None:
            # A reader never waits for a writer. Where the file system has no shared memory SQLite keeps its journal.
            base.execute("PRAGMA journal_mode = WAL")
            # What is committed is with the system: it survives this process, if not a power cut.
            base.execute("PRAGMA synchronous = NORMAL")
        base.execute("BEGIN IMMEDIATE")
        try:
            self._check_schema()
        except BaseException:
            base.execute("ROLLBACK")
            raise
        base.execute("COMMIT")

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
        elif application != _APPLICATION:
            raise InputError(f"{self.path} is an SQLite file of something else, not of a sweep: name another file")
        elif schema != _SCHEMA:
            raise InputError(
                f"{self.path} has points in format {schema}, and this mlusim writes format {_SCHEMA}: name another file"
            )

    def known(self, keys: Iterable[str], *, retry: bool = False) -> set[str]:
        """Those of the keys that need not run again: points that finished; without the failed ones on `retry`."""
        settled = (DONE, IMPOSSIBLE) if retry else (DONE, IMPOSSIBLE, FAILED)
        return {key for key, outcome in self._read(keys) if outcome.status in settled}

    def read(self, keys: Iterable[str]) -> dict[str, Outcome]:
        """What came of each of the keys that are there."""
        return dict(self._read(keys))

    def all(self) -> list[Outcome]:
        """What came of every point in the file, by key."""
        query = "SELECT status, message, row, host_s FROM points ORDER BY key"
        return [_outcome(row) for row in self._rows(query, ())]

    def add(self, key: str, outcome: Outcome) -> None:
        """Write one point, at once or not at all. What is done is never replaced by what is not."""
        row = json.dumps(outcome.row, separators=(",", ":"))
        try:
            self._base.execute(
                "INSERT INTO points VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET status = excluded.status, "
                "message = excluded.message, row = excluded.row, host_s = excluded.host_s "
                "WHERE points.status <> 'done'",
                (key, outcome.status, outcome.message, row, outcome.host_s),
            )
        except sqlite3.DatabaseError as error:
            raise self._trouble(error) from None

    def _read(self, keys: Iterable[str]) -> Iterator[tuple[str, Outcome]]:
        query = "SELECT status, message, row, host_s FROM points WHERE key = ?"
        for key in keys:
            for row in self._rows(query, (key,)):
                yield key, _outcome(row)

    def _rows(self, query: str, values: tuple[str, ...]) -> list[Any]:
        try:
            return self._base.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._trouble(error) from None

    def _trouble(self, error: sqlite3.DatabaseError) -> InputError:
        text = str(error)
        if "not a database" in text:
            return InputError(f"{self.path} is not an SQLite file: name another one for the points")
        if "unable to open" in text or "readonly" in text:
            return InputError(f"{self.path}: cannot be written ({text}): name a file in a directory that can be")
        if "locked" in text:
            return InputError(f"{self.path} is locked by another program for more than {_WAIT_S:g} s: end that first")
        return InputError(f"{self.path}: {text}; is the disk full, or the file damaged? Name another one")

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _outcome(row: Any) -> Outcome:
    status, message, text, host_s = row
    return Outcome(status, message, json.loads(text), host_s)
