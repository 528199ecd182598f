"""Kernels of the user in sweeps: reuse of points, settings of every type, and failing kernels."""

from __future__ import annotations

import functools
import re
import sqlite3
import sys
from contextlib import closing

import numpy as np
import pytest

import mlusim
from mlusim.errors import InputError
from mlusim.explore.runner import Runner
from mlusim.explore.user_kernels import kernel_of
from mlusim.host.arguments import Role
from mlusim.processes import worker_pool


def kernel_of_a_notebook(**values):
    """A kernel whose globals are not a module's, in the way of a notebook."""
    space = {"__name__": "__main__", **values}
    text = (
        "def tiles(core, x):\n    return range(core.task_id * TILE, x.size, core.task_dim * TILE)\n"
        "async def copy(core, x, out):\n"
        "    if core.is_memory_core:\n        return\n"
        "    a = core.nram.alloc(TILE, x.dtype)\n"
        "    for start in tiles(core, x):\n"
        "        n = min(TILE, x.size - start)\n"
        "        await core.memcpy(a[:n], x[start : start + n])\n"
        "        await core.memcpy(out[start : start + n], a[:n])\n"
    )
    exec(text, space)
    return space["copy"]


@pytest.fixture(scope="module")
def worker():
    """A worker process, which takes most of a second to start."""
    with worker_pool(1) as pool:
        yield pool


@pytest.fixture
def one_worker(worker, monkeypatch):
    """Sweeps with a worker process share this one."""
    monkeypatch.setattr(Runner, "_executor", lambda _: worker)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.grid(2)
def test_stored_points_are_never_shared_between_kernels(tmp_path, one_worker, workers):
    db = tmp_path / "points.sqlite"
    alone, reused = [], []
    for tile in (1024, 2048, 1024):
        kernel = kernel_of_a_notebook(TILE=tile)
        alone.append(mlusim.sweep(kernel, shape=100_000, workers=0).rows[0]["copies"])
        found = mlusim.sweep(kernel, shape=100_000, db=db, workers=workers)
        reused.append((found.rows[0]["copies"], found.found))
    assert alone[0] == alone[2] != alone[1]
    assert reused == [(alone[0], 0), (alone[1], 0), (alone[2], 1)]


def test_a_default_that_changes_at_run_time_is_another_kernel(tmp_path):
    async def waits(core, x, out, turns=1):
        for _ in range(turns):
            core.scalar(100)
            await core.sync()

    db = tmp_path / "points.sqlite"
    times = []
    for turns in (1, 5):
        waits.__defaults__ = (turns,)
        times.append(mlusim.sweep(waits, shape=4, db=db, workers=0).rows[0]["time_ps"])
    assert times[0] < times[1]


def test_a_kernel_that_cannot_be_fingerprinted_needs_a_version(tmp_path):
    (tmp_path / "turns.txt").write_text("1")
    kernels = tmp_path / "kern.py"
    kernels.write_text(
        f"async def kernel(core, x, out):\n    with open({str(tmp_path / 'turns.txt')!r}) as stream:\n"
        "        n = int(stream.read())\n"
        "    for _ in range(n):\n        core.scalar(100)\n        await core.sync()\n"
    )
    given = {"operation": f"{kernels}:kernel", "shape": 4, "workers": 0}
    operation = given.pop("operation")
    db = tmp_path / "points.sqlite"
    with pytest.raises(
        InputError,
        match=r"^changes of kernel cannot be detected, because it uses what kernel reads by `open`: "
        r"give a new kernel_version after each change, or store no points \(db=None\) instead of using "
        r".*sqlite$",
    ):
        mlusim.sweep(operation, **given, db=db)
    assert mlusim.sweep(operation, **given).counts["done"] == 1
    first = mlusim.sweep(operation, **given, db=db, kernel_version="1")
    (tmp_path / "turns.txt").write_text("9")
    assert mlusim.sweep(operation, **given, db=db, kernel_version="1").rows == first.rows
    second = mlusim.sweep(operation, **given, db=db, kernel_version="2")
    assert second.found == 0
    assert second.rows[0]["time_ps"] > first.rows[0]["time_ps"]


@pytest.mark.slow
def test_a_module_that_differs_in_the_worker_is_detected(tmp_path, monkeypatch):
    (tmp_path / "values_of_mine.py").write_text("TILE = 64\n")
    monkeypatch.syspath_prepend(tmp_path)
    space = {"__name__": "__main__"}
    exec("import values_of_mine\nasync def kernel(core, x, out):\n    core.scalar(values_of_mine.TILE)\n", space)
    kernel = space["kernel"]
    assert mlusim.sweep(kernel, shape=4, workers=1).counts["done"] == 1
    sys.modules["values_of_mine"].TILE = 128
    (row,) = mlusim.sweep(kernel, shape=4, workers=1).rows
    assert row["status"] == "failed"
    assert row["message"].startswith("kernel differs between the worker process and this one: a module")
    assert mlusim.sweep(kernel, shape=4, workers=0).counts["done"] == 1
    monkeypatch.delitem(sys.modules, "values_of_mine")


def test_settings_that_are_keyword_only():
    async def kernel(core, x, out, first=1, *, turns=1):
        for _ in range(first * turns):
            core.scalar(1000)
            await core.sync()

    def launches(device, shape, dtype, *, turns=1):
        device.launch(kernel, device.alloc(shape, dtype), device.alloc(shape, dtype), turns)

    for function in (kernel, launches):
        found = mlusim.sweep(function, shape=4, turns=[1, 4], workers=0)
        assert found.counts["done"] == 2
        assert found.rows[0]["time_ps"] < found.rows[1]["time_ps"]

    async def needs(core, x, out, *, turns):
        for _ in range(turns):
            core.scalar(1000)
            await core.sync()

    for turns in (1, 4):
        (row,) = mlusim.sweep(needs, shape=4, arguments=[f"turns={turns}"], workers=0).rows
        assert row["time_ps"] == found.rows[turns > 1]["time_ps"]


async def crowded(core, x, out, device="a", kind=1, *, shape=2, time_us=3, dim=4, turns=1):
    core.scalar(100 * len(device) * kind * shape * time_us * dim * turns)


def test_settings_may_have_the_names_of_sweep_arguments():
    settings = {"device": ["a", "bb"], "kind": [1, 2], "shape": [1, 2], "time_us": [1, 2], "dim": 1}
    found = mlusim.sweep(crowded, shape=4, settings=settings, workers=0)
    assert found.axes == ["set_device", "set_kind", "set_shape", "set_time_us"]
    assert {row["device"] for row in found.rows} == {"mlu370-x4"}
    assert len({row["time_ps"] for row in found.rows}) == 5  # products of four factors that are 1 or 2
    best = mlusim.tune(crowded, shape=4, settings=settings | {"dim": [7, 1]}, workers=0)
    assert "functools.partial(crowded, device='a', kind=1, dim=1)" in best.call
    x = np.zeros(4, np.float32)
    space = {"mlusim": mlusim, "functools": functools, "crowded": crowded, "x": x, "out": mlusim.Output.like(x)}
    assert eval(best.call, space).time_ps == best.best["time_ps"]
    with pytest.raises(InputError, match=r"^cast is an operator: settings are for kernels of your own"):
        mlusim.sweep("cast", shape=4, dtype="int8", settings=settings)


def test_a_kernel_in_a_package_can_import_siblings(tmp_path):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").touch()
    (inner.parent / "sizes.py").write_text("TURNS = 3\n")
    text = (
        "from ..sizes import TURNS\nasync def kernel(core, x, out, n: int, turns=TURNS):\n    core.scalar(turns * n)\n"
    )
    (inner / "own.py").write_text(text)
    name = f"{inner / 'own.py'}:kernel"
    assert kernel_of(name).settings == {"turns": 3}
    found = mlusim.sweep(name, shape=4, arguments=["n=100"], turns=[1, 3], workers=0)
    assert found.rows[0]["time_ps"] < found.rows[1]["time_ps"]
    with pytest.raises(
        InputError,
        match=r"^kernel: n is a number \(int64\): give arguments=\['n=NUMBER'\]$",
    ):
        mlusim.sweep(name, shape=4, workers=0)
    with pytest.raises(InputError, match=r"^kernel: n is int64, and 0\.5 is not a whole number: round it$"):
        mlusim.sweep(name, shape=4, arguments=["n=0.5"], workers=0)


@pytest.mark.parametrize(
    ("how", "workers"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit('enough')", 0),
        ("raise SystemExit", 0),
        ("raise GeneratorExit", 0),
        ("sys.exit(0)", 1),
    ],
)
def test_a_kernel_that_ends_the_program_is_a_failed_point(tmp_path, one_worker, how, workers):
    (tmp_path / "kern.py").write_text(
        f"import sys\ndef ends(device, shape, dtype, now=False):\n    if now:\n        {how}\n"
        f"async def leaves(core, x, out, now=False):\n    if now:\n        {how}\n"
    )
    for name in ("ends", "leaves"):
        rows = mlusim.sweep(f"{tmp_path}/kern.py:{name}", shape=4, now=[True, False], workers=workers).rows
        assert [row["status"] for row in rows] == ["failed", "done"]
        assert how.partition("(")[0].replace("sys.exit", "SystemExit").removeprefix("raise ") in rows[0]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_script_needs_no_main_guard(tmp_path, workers):
    import os
    import subprocess

    (tmp_path / "script.py").write_text(
        "import mlusim\n\nTURNS = 3\n\nasync def kernel(core, x, out):\n    for _ in range(TURNS):\n"
        "        core.scalar(1000)\n        await core.sync()\n\n"
        f"print(mlusim.sweep(kernel, shape=[4, 8], workers={workers}, db='points.sqlite'))\n"
        f"print(mlusim.sweep('flip', shape=[(4, 4)], axis=0, workers={workers}))\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, env=os.environ, check=False
    )
    assert (done.stdout, done.stderr) == ("<sweep of 2 points: 2 done>\n<sweep of 1 point: 1 done>\n", "")


def test_a_neighbouring_file_does_not_shadow_installed_modules(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise RuntimeError('executed')\n")
    (tmp_path / "kern.py").write_text("import mine_beside\nasync def kernel(core, x, out):\n    pass\n")
    (tmp_path / "mine_beside.py").write_text("")
    assert mlusim.sweep(f"{tmp_path}/kern.py:kernel", shape=4, workers=0).counts["done"] == 1
    import matplotlib as mpl

    assert not mpl.__file__.startswith(str(tmp_path))
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize("workers", [0, 1])
def test_a_kernel_may_import_siblings_while_running(tmp_path, one_worker, workers):
    (tmp_path / "kern.py").write_text(
        "async def kernel(core, x, out):\n    import mine_beside\n    core.scalar(mine_beside.N)\n"
    )
    (tmp_path / "mine_beside.py").write_text("N = 5\n")
    assert mlusim.sweep(f"{tmp_path}/kern.py:kernel", shape=4, workers=workers).counts["done"] == 1


def _half(core, x):
    return core.nram.alloc(-(x.size // 2), x.dtype)


def test_messages_from_workers_name_the_file_of_a_function(one_worker):
    async def fails(core, x, out):
        if not core.is_memory_core:
            _half(core, x)

    (row,) = mlusim.sweep(fails, shape=64, workers=1).rows
    assert re.search(r"^task 0 .*, test_user_kernels\.py:\d+, at .* ns: alloc of shape \[-32\]", row["message"])


def test_array_settings_are_sent_to_workers(one_worker):
    table = np.arange(5000)

    async def kernel(core, x, out):
        core.scalar(int(table[4999]))

    assert mlusim.sweep(kernel, shape=4, workers=1).counts["done"] == 1


@pytest.mark.slow
def test_shards_partition_the_points_and_merge(tmp_path):
    given = {"shape": [(4, n) for n in range(8, 40)], "axis": [0, 1], "workers": 0}
    whole = mlusim.sweep("flip", **given)
    files = [tmp_path / f"{part}.sqlite" for part in (1, 2, 3)]
    parts = [
        mlusim.sweep("flip", **given, shard=(part, 3), db=file).rows
        for part, file in zip((1, 2, 3), files, strict=True)
    ]
    assert sum(map(len, parts)) == len(whole)
    assert min(map(len, parts)) > len(whole) // 6
    merged = mlusim.sweep("flip", **given, db=tmp_path / "all.sqlite", merge=files)
    assert merged.found == len(whole)
    assert merged.rows == whole.rows
    mlusim.sweep("flip", **given, db=tmp_path / "whole.sqlite")
    texts = []
    for name in ("whole", "all"):
        with closing(sqlite3.connect(tmp_path / f"{name}.sqlite")) as base:
            texts.append("\n".join(base.iterdump()))
    assert texts[0] == texts[1], "equal points are equal rows, whatever ran them and when"
    with pytest.raises(InputError, match=r"^shard 4/3: parts are numbered from 1 to 3$"):
        mlusim.sweep("flip", **given, shard=(4, 3))


def test_impossible_points_belong_to_one_shard():
    given = {"shape": (4, 4), "axis": 0, "cores": [6, 4], "workers": 0}
    rows = [row["status"] for part in (1, 2) for row in mlusim.sweep("flip", **given, shard=(part, 2)).rows]
    assert sorted(rows) == ["done", "impossible"]


def test_a_damaged_store_is_reported_and_repaired(tmp_path):
    import sqlite3

    db = tmp_path / "points.sqlite"
    given = {"shape": (4, 4), "axis": [0, 1], "workers": 0, "db": db}
    before = mlusim.sweep("flip", **given)
    with sqlite3.connect(db) as base:
        base.execute("update points set row = replace(row, 'time_ps', 'time_pt') where row like '%\"axis\":1%'")
    base.close()
    with pytest.warns(
        UserWarning, match=r"points\.sqlite is damaged .* 1 of its points are intact, and the others run again"
    ):
        after = mlusim.sweep("flip", **given)
    assert after.found == 1
    assert [row["time_ps"] for row in after.rows] == [row["time_ps"] for row in before.rows]
    assert mlusim.sweep("flip", **given).found == 2


async def normalise(core, x, out, rows=1):
    """Divide each row by its sum, which the kernel loads."""
    if core.is_memory_core:
        return
    for row in range(core.task_id * rows, x.shape[0], core.task_dim * rows):
        with core.nram.scope():
            tile = core.nram.alloc((rows, x.shape[1]), x.dtype)
            await core.memcpy(tile, x[row : row + rows])
            for number in range(rows):
                core.mul(tile[number], tile[number], 1 / await core.sum(tile[number]))
            await core.memcpy(out[row : row + rows], tile)


def test_a_kernel_that_loads_what_it_has_computed_runs_with_data():
    found = mlusim.sweep(normalise, shape=(64, 100), rows=[1, 2], workers=0)
    assert [row["status"] for row in found.rows] == ["done", "done"]
    for row in found.rows:
        x = np.ones((64, 100), np.float32)
        assert row["time_ps"] == mlusim.run(normalise, x, mlusim.Output.like(x), rows=row["rows"]).time_ps
    best = mlusim.tune(normalise, shape=(64, 100), rows=[1, 2], workers=0)
    assert best.best["time_ps"] == min(row["time_ps"] for row in found.rows) == best.run().time_ps


def test_steady_has_no_data():
    (row,) = mlusim.sweep(normalise, shape=(64, 100), steady=True, workers=0).rows
    assert row["status"] == "failed"
    assert row["message"].endswith("in a timing-only run, which has no numbers: run with data")


def test_tensors_that_a_kernel_only_stores_to_are_outputs():
    async def two(core, doubled, x, tripled):
        if core.is_memory_core:
            return
        buffer = core.nram.alloc(x.size, x.dtype)
        await core.memcpy(buffer, x)
        core.add(buffer, buffer, buffer)
        await core.memcpy(doubled[: doubled.size], buffer)
        core.memcpy_async(tripled, buffer)

    async def in_place(core, x, total):
        await core.store(x[0], await core.load(x[1]))
        await core.store(total[0][:], 1)

    async def helped(core, x, out):
        await two(core, out, x, out)

    def outputs(kernel):
        return [name for name, declared in kernel_of(kernel).types.items() if declared.role is Role.OUTPUT]

    assert outputs(two) == ["doubled", "tripled"]
    assert outputs(in_place) == ["total"]
    assert outputs(helped) == []
    for workers in (0, 1):
        assert mlusim.sweep(two, shape=64, dim=1, kind="BLOCK", workers=workers).counts["done"] == 1
