"""Saved runs with forged content and valid checksums: rejected as damaged, or usable. Zip bombs, escapes."""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim.analysis.summary import to_json
from mlusim.log import PIPES
from mlusim.memory.kinds import Direction
from mlusim.results import saved_checks

# One run of the suite takes seconds; MLUSIM_FUZZ=20000 takes an hour or so.
EXAMPLES = int(os.environ.get("MLUSIM_FUZZ", "20"))
WRONG = (-1, 0, 1, 5, 2**31, 2**61, 2**70, -(2**40), 1.5, None, True, "x", [], [1], {}, "\x1b[31m", [[1, 2, 3]])


@functools.cache
def whole():
    """Members of a saved run by name."""
    with TemporaryDirectory() as folder:
        x = np.arange(24, dtype=np.int32).reshape(4, 6)
        path = mlusim.ops.gather(x, np.zeros((2, 6), np.int64), 0).save(Path(folder) / "run.zip")
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def places_of(value, path=()):
    """Paths of every value within JSON, but for the source texts."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        if path or key != "sources":
            yield from places_of(child, (*path, key))


def use(members):
    """Load a file of these members and compute everything from it; None where it is refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        try:
            run = mlusim.load(path)
        except mlusim.InputError as error:
            return error.message
        to_json(run)
        run.lower_bound  # noqa: B018 - computed when it is read
        run.lines  # noqa: B018 - likewise
        assert "\x1b" not in f"{run!r}{run.operator}{run.stopped}"
        return ""


@settings(max_examples=EXAMPLES)
@given(place=st.integers(0, 1 << 30), wrong=st.sampled_from(WRONG))
def test_any_value_of_the_head_replaced(place, wrong):
    head = json.loads(whole()["run.json"])
    places = [path for path in places_of(head) if path]
    *path, last = places[place % len(places)]
    part = functools.reduce(lambda value, key: value[key], path, head)
    part[last] = wrong
    use(whole() | {"run.json": json.dumps(head).encode()})


@settings(max_examples=EXAMPLES)
@given(name=st.integers(0, 1 << 20), place=st.integers(0, 1 << 30), wrong=st.integers(-(2**40), 2**62))
def test_any_number_of_any_array_replaced(name, place, wrong):
    arrays = sorted(name for name, data in whole().items() if name.endswith(".npy") and np.load(io.BytesIO(data)).size)
    chosen = arrays[name % len(arrays)]
    array = np.load(io.BytesIO(whole()[chosen])).copy()
    array.reshape(-1)[place % array.size] = wrong if array.dtype == np.int64 else 0
    data = io.BytesIO()
    np.save(data, array)
    use(whole() | {chosen: data.getvalue()})


@pytest.mark.slow
def test_indices_one_past_the_end_of_a_table_are_refused():
    tables = json.loads(whole()["run.json"])["log"]
    records = np.load(io.BytesIO(whole()["log/records.npy"]))
    sizes = {len(table) for table in tables.values() if isinstance(table, list)} | {len(Direction), len(PIPES)}
    for column, past in itertools.product(range(len(records)), sizes):
        changed = records.copy()
        changed[column, -1] = past
        data = io.BytesIO()
        np.save(data, changed)
        use(whole() | {"log/records.npy": data.getvalue()})


@pytest.mark.parametrize(("table", "column"), [("log/launches", 4), ("log/tasks", 5)])
def test_an_impossible_start_time_is_refused(table, column):
    array = np.load(io.BytesIO(whole()[f"{table}.npy"])).copy()
    array[column, 0] = 1 << 58
    data = io.BytesIO()
    np.save(data, array)
    assert "a time of 288230376151711744 ps" in use(whole() | {f"{table}.npy": data.getvalue()})


def test_a_plan_of_billions_of_tasks_is_refused_before_they_are_counted():
    head = json.loads(whole()["run.json"])
    head["plan"]["dim"][0] = 1 << 31
    assert "more than any grid has" in use(whole() | {"run.json": json.dumps(head).encode()})


def test_an_unmodified_run_loads():
    assert use(whole()) == ""


def test_a_truncated_log_is_refused():
    array = np.load(io.BytesIO(whole()["log/records.npy"]))
    data = io.BytesIO()
    np.save(data, array[:, :-1])
    assert "its log has" in use(whole() | {"log/records.npy": data.getvalue()})


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_checks, "_MAX_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.json", whole()["run.json"])
        archive.writestr("log/records.npy", bytes(32 << 20))
    with pytest.raises(mlusim.InputError, match=r"damaged \(ValueError: \d+ B that unpack to \d+ B\)"):
        mlusim.load(tmp_path / "bomb.zip")


def test_an_array_larger_than_its_archive_member_is_refused():
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<i8", "fortran_order": False, "shape": (1 << 40, 25)})
    assert "declares the shape" in use(whole() | {"log/records.npy": data.getvalue()})


def test_terminal_escapes_of_names_do_not_reach_a_terminal():
    head = json.loads(whole()["run.json"])
    head["operator"] = "\x1b]0;owned\x07gather"
    assert use(whole() | {"run.json": json.dumps(head).encode()}) == ""
