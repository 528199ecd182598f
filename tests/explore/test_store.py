"""The file of finished points: its content, and invalid files."""

from __future__ import annotations

import functools
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlusim.errors import InputError
from mlusim.explore.store import DIED, DONE, FAILED, IMPOSSIBLE, Outcome, Store

ONE = Outcome(DONE, "", {"time_us": 1.5, "shape": "2x8"})


def test_points_survive_a_round_trip(tmp_path):
    path = tmp_path / "points.sqlite"
    with Store(path) as store:
        store.add("a", ONE)
        store.add("b", Outcome(IMPOSSIBLE, "does not fit", {}))
    with Store(path) as store:
        assert store.read(["a", "b", "c"]) == {"a": ONE, "b": Outcome(IMPOSSIBLE, "does not fit", {})}
        assert store.all() == [ONE, Outcome(IMPOSSIBLE, "does not fit", {})]


def test_known_points_do_not_run_again():
    with Store(None) as store:
        for status in (DONE, IMPOSSIBLE, FAILED, DIED):
            store.add(status, Outcome(status, "", {}))
        keys = [DONE, IMPOSSIBLE, FAILED, DIED, "never"]
        assert store.known(keys) == {DONE, IMPOSSIBLE, FAILED}
        assert store.known(keys, retry=True) == {DONE, IMPOSSIBLE}


def test_finished_points_stay_and_failed_points_are_replaced():
    with Store(None) as store:
        store.add("a", Outcome(DIED, "killed", {}))
        store.add("a", ONE)
        store.add("a", Outcome(FAILED, "late", {}))
        assert store.read(["a"]) == {"a": ONE}


def test_a_new_point_is_seen_by_others_at_once(tmp_path):
    with Store(tmp_path / "points.sqlite") as one, Store(tmp_path / "points.sqlite") as other:
        one.add("a", ONE)
        assert other.read(["a"]) == {"a": ONE}
        other.add("b", ONE)
        assert set(one.read(["a", "b"])) == {"a", "b"}


def test_an_empty_file_becomes_a_store(tmp_path):
    path = tmp_path / "points.sqlite"
    path.touch()
    with Store(path) as store:
        store.add("a", ONE)
    with closing(sqlite3.connect(path)) as base:
        assert base.execute("select count(*) from points").fetchone() == (1,)


def test_a_new_file_that_cannot_be_filled_is_removed(tmp_path, monkeypatch):
    def full(self):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Store, "_check_schema", full)
    path = tmp_path / "s.db"
    for before, left in ((None, False), (b"", True)):
        if before is not None:
            path.write_bytes(before)
        with pytest.raises(InputError, match="disk is full; is the disk full, or the file damaged"):
            Store(path)
        assert path.exists() is left


def test_files_that_are_not_of_a_sweep_are_rejected(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("no database at all, and long enough to be read as a header of one hundred bytes. " * 3)
    with pytest.raises(InputError, match=r"notes\.txt is not an SQLite file of a sweep: name another file$"):
        Store(text)
    assert text.read_text().startswith("no database")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as base:
        base.execute("create table mine (a)")
    base.close()
    with pytest.raises(
        InputError, match=r"other\.db is an SQLite file of something else, not of a sweep: name another"
    ):
        Store(other)
    with pytest.raises(InputError, match=r"there is no directory .*gone; make it first"):
        Store(tmp_path / "gone" / "points.sqlite")
    with pytest.raises(InputError, match=r" is a directory: name a file in it$"):
        Store(tmp_path)


def test_a_file_of_another_format(tmp_path):
    path = tmp_path / "points.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as base:
        base.execute("pragma user_version = 7")
    base.close()
    with pytest.raises(InputError, match=r"has points in format 7, and this mlusim writes format 3: name another file"):
        Store(path)


def filled(path, count=200):
    """A file of points, and what is in it by key."""
    outcomes = {
        hashlib.sha256(str(number).encode()).hexdigest(): Outcome(DONE, "x" * 50, {"number": number})
        for number in range(count)
    }
    with Store(path) as store:
        for key, outcome in outcomes.items():
            store.add(key, outcome)
    return outcomes


@functools.cache
def whole():
    """The bytes of a file, and what is in it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "points.sqlite"
        outcomes = filled(path, 60)
        return path.read_bytes(), outcomes


@example(place=18, length=1, noise=b"\x03")  # the version by which SQLite may write
@example(place=3639, length=1, noise=b"\x80")  # in the schema, which SQLite quotes
@given(
    place=st.one_of(st.integers(0, 99), st.integers(0, 1 << 16)),
    length=st.sampled_from([1, 1, 8, 600, 5000]),
    noise=st.binary(min_size=1, max_size=8),
)
def test_a_damaged_file_keeps_only_its_valid_points(place, length, noise):
    """Bytes changed anywhere: refused, or every point as it was or missing, and what is missing can be added again."""
    content, outcomes = bytearray(whole()[0]), whole()[1]
    start = place % len(content)
    stop = min(start + length, len(content))
    content[start:stop] = (noise * length)[: stop - start]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "points.sqlite"
        path.write_bytes(content)
        try:
            store = Store(path)
        except InputError as error:
            refusal = error.message
            store = None
        if store is None:
            assert "points.sqlite" in refusal
            assert "name another" in refusal.lower()
            return
        with store:
            found = store.read(outcomes)
            assert all(outcomes[key] == outcome for key, outcome in found.items())
            assert store.damaged or found == outcomes
            for key in outcomes.keys() - found.keys():
                store.add(key, outcomes[key])
            assert store.read(outcomes) == outcomes
        with Store(path) as again:
            assert again.read(outcomes) == outcomes


def test_a_damaged_row_is_named_and_replaced(tmp_path):
    path = tmp_path / "points.sqlite"
    outcomes = filled(path, 5)
    key = next(iter(outcomes))
    with sqlite3.connect(path) as base:
        base.execute("update points set row = replace(row, 'number', 'nunber') where key = ?", (key,))
    base.close()
    with Store(path) as store:
        assert store.known(outcomes) == outcomes.keys() - {key}
        assert (
            f"the checksum of row '{key[:12]}' is wrong): 4 of its points are intact, and the others"
            in store.damaged[0]
        )
        assert len(store.all()) == 4
        store.add(key, outcomes[key])
        assert store.read(outcomes) == outcomes


def test_a_damaged_page_loses_few_points_and_the_old_file_is_kept(tmp_path):
    path = tmp_path / "points.sqlite"
    outcomes = filled(path)
    content = bytearray(path.read_bytes())
    content[16384:20480] = b"\xff" * 4096
    path.write_bytes(content)
    for aside in ("points.sqlite.damaged", "points.sqlite.damaged-2"):
        with Store(path) as store:
            found = store.read(outcomes)
            assert len(outcomes) * 0.8 < len(found) < len(outcomes)
            assert store.damaged[0].startswith(f"{path} is damaged (")
            assert store.damaged[0].endswith(
                f"): {len(found)} of its points are intact, and the others run again; the old file is now "
                f"{tmp_path / aside}"
            )
        assert (tmp_path / aside).read_bytes() == content
        path.write_bytes(content)


def test_files_of_shards_are_merged(tmp_path):
    shards = [tmp_path / f"{number}.sqlite" for number in range(2)]
    outcomes = [filled(path, count) for path, count in zip(shards, (3, 5), strict=True)]
    with Store(tmp_path / "all.sqlite") as merged:
        for path, added in zip(shards, (3, 2), strict=True):
            with Store(path) as other:
                assert merged.merge(other) == added
        assert merged.read(outcomes[1]) == outcomes[1]


def test_many_open_a_new_file_at_once(tmp_path):
    """SQLite does not wait by itself when two change the journal of a file at the same time."""
    from concurrent.futures import ThreadPoolExecutor

    def write(number):
        with Store(tmp_path / f"{number // 8}.sqlite") as store:
            store.add(str(number), ONE)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(80)))
    for number in range(10):
        with Store(tmp_path / f"{number}.sqlite") as store:
            assert len(store.all()) == 8
