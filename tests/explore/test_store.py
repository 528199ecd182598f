"""The file of finished points: what is in it, and files that are none."""

from __future__ import annotations

import sqlite3

import pytest

from mlusim.errors import InputError
from mlusim.explore.store import DIED, DONE, FAILED, IMPOSSIBLE, Outcome, Store

ONE = Outcome(DONE, "", {"time_us": 1.5, "shape": "2x8"}, 0.25)


def test_points_come_back_as_they_were(tmp_path):
    path = tmp_path / "points.sqlite"
    with Store(path) as store:
        store.add("a", ONE)
        store.add("b", Outcome(IMPOSSIBLE, "does not fit", {}, 0.0))
    with Store(path) as store:
        assert store.read(["a", "b", "c"]) == {"a": ONE, "b": Outcome(IMPOSSIBLE, "does not fit", {}, 0.0)}
        assert store.all() == [ONE, Outcome(IMPOSSIBLE, "does not fit", {}, 0.0)]


def test_what_need_not_run_again():
    with Store(None) as store:
        for status in (DONE, IMPOSSIBLE, FAILED, DIED):
            store.add(status, Outcome(status, "", {}, 0.0))
        keys = [DONE, IMPOSSIBLE, FAILED, DIED, "never"]
        assert store.known(keys) == {DONE, IMPOSSIBLE, FAILED}
        assert store.known(keys, retry=True) == {DONE, IMPOSSIBLE}


def test_what_is_done_stays_done_and_what_is_not_is_replaced():
    with Store(None) as store:
        store.add("a", Outcome(DIED, "killed", {}, 0.0))
        store.add("a", ONE)
        store.add("a", Outcome(FAILED, "late", {}, 0.0))
        assert store.read(["a"]) == {"a": ONE}


def test_a_new_point_is_seen_by_others_at_once(tmp_path):
    with Store(tmp_path / "points.sqlite") as one, Store(tmp_path / "points.sqlite") as other:
        one.add("a", ONE)
        assert other.read(["a"]) == {"a": ONE}
        other.add("b", ONE)
        assert set(one.read(["a", "b"])) == {"a", "b"}


def test_an_empty_file_is_taken(tmp_path):
    path = tmp_path / "points.sqlite"
    path.touch()
    with Store(path) as store:
        store.add("a", ONE)
    assert sqlite3.connect(path).execute("select count(*) from points").fetchone() == (1,)


def test_files_that_are_none_of_a_sweep(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("no database at all, and long enough to be read as a header of one hundred bytes. " * 3)
    with pytest.raises(InputError, match=r"notes\.txt is not an SQLite file: name another one for the points$"):
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
    with pytest.raises(InputError, match=r"cannot be written"):
        Store(tmp_path)


def test_a_file_of_another_format(tmp_path):
    path = tmp_path / "points.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as base:
        base.execute("pragma user_version = 7")
    base.close()
    with pytest.raises(InputError, match=r"has points in format 7, and this mlusim writes format 1: name another file"):
        Store(path)


def test_a_damaged_file(tmp_path):
    path = tmp_path / "points.sqlite"
    with Store(path) as store:
        for number in range(200):
            store.add(str(number), Outcome(DONE, "x" * 200, {}, 0.0))
    content = bytearray(path.read_bytes())
    content[5000:20000] = b"\xff" * 15000
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"points\.sqlite: .*; is the disk full, or the file damaged\? Name another one"
    ):
        Store(path).all()


def test_many_open_a_new_file_at_once(tmp_path):
    """SQLite does not wait by itself when two change the journal of a file at the same time."""
    from concurrent.futures import ThreadPoolExecutor

    def write(number):
        with Store(tmp_path / f"{number // 8}.sqlite") as store:
            store.add(str(number), ONE)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(80)))
    assert [len(Store(tmp_path / f"{number}.sqlite").all()) for number in range(10)] == [8] * 10
