"""Points in other processes: killed and resumed, interrupted, concurrent sweeps, dying workers, a cluster."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
import warnings
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import mlusim
from command_line import output_of

NUMBERS = 30


def arguments(kernels, *more, numbers=NUMBERS):
    return (
        *("sweep", f"{kernels}:slow", "--shape", "1000", "--set", f"number=1..{numbers}+1"),
        *("--db", "points.sqlite", *more),
    )


def finished(path):
    """Points in the file, read as another program would."""
    if not path.exists():
        return 0
    base = sqlite3.connect(path, timeout=30)
    try:
        return base.execute("select count(*) from points").fetchone()[0]
    except sqlite3.OperationalError:
        return 0  # it has no table yet
    finally:
        base.close()


def wait_for(path, count, process):
    deadline = time.monotonic() + 60
    while finished(path) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def session(process):
    """Processes of the session that a process began, itself included."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                state, _, _, number = (place / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(number) == process.pid and state != "Z":
                found.append(int(place.name))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked at in /proc")
def test_a_kill_loses_nothing_that_was_finished(kernels, start, tmp_path):
    path = tmp_path / "points.sqlite"
    process = start(*arguments(kernels, "--workers", "2"))
    wait_for(path, 3, process)
    assert len(session(process)) > 2
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    before = finished(path)
    assert 3 <= before < NUMBERS
    # Workers do not outlive who started them.
    deadline = time.monotonic() + 20
    while session(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert session(process) == []
    with closing(sqlite3.connect(path)) as base:
        assert base.execute("pragma integrity_check").fetchone() == ("ok",)
    again = start(*arguments(kernels, "--workers", "2", "-o", "table.csv"))
    out, errors = again.communicate(timeout=60)
    assert (again.returncode, errors) == (0, "")
    assert f"{NUMBERS} points: {NUMBERS} done (in points.sqlite, {finished_before(out)} of them from before)" in out
    assert finished_before(out) >= before
    assert finished(path) == NUMBERS
    rows = (tmp_path / "table.csv").read_text().splitlines()
    assert len(rows) == 1 + NUMBERS


def finished_before(out):
    return int(out.rpartition("points.sqlite, ")[2].partition(" of them")[0])


def test_ctrl_c_reports_progress_and_how_to_continue(kernels, start, tmp_path, monkeypatch):
    # As in small container images: no pgrep, which loky uses without psutil.
    monkeypatch.setenv("PATH", str(tmp_path))
    process = start(*arguments(kernels, "--workers", "2"))
    wait_for(tmp_path / "points.sqlite", 2, process)
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=20)
    done = finished(tmp_path / "points.sqlite")
    assert process.returncode == 130
    assert out == ""
    assert errors == (
        f"error: interrupted: {done} of {NUMBERS} points are done, in points.sqlite; the same command continues\n"
    )
    assert 2 <= done < NUMBERS


@pytest.mark.slow
def test_two_sweeps_on_one_file(kernels, start, tmp_path):
    both = [start(*arguments(kernels, "--workers", "1", "--quiet", numbers=12)) for _ in range(2)]
    for process in both:
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0
    assert finished(tmp_path / "points.sqlite") == 12
    with closing(sqlite3.connect(tmp_path / "points.sqlite")) as base:
        assert base.execute("pragma integrity_check").fetchone() == ("ok",)


@pytest.mark.slow
def test_a_dead_worker_fails_one_point_only(kernels, tmp_path):
    db = tmp_path / "points.sqlite"
    found = mlusim.sweep(f"{kernels}:dies", shape=[100, 200, 300], how=["no", "yes"], workers=2, db=db)
    assert [(row["how"], row["status"]) for row in found.rows] == [("no", "done"), ("yes", "died")] * 3
    assert found.rows[1]["message"].startswith("the process that simulated it died: killed, perhaps for lack of memory")
    # Another time there may be more memory: such a point runs again.
    assert mlusim.sweep(f"{kernels}:dies", shape=100, how=["no", "yes"], workers=1, db=db).found == 1


def test_many_processes_give_the_results_of_one():
    given = {"shape": [(2, 4, 8, 49), (2, 4, 8, 98)], "strategy": "all", "dtype": ["float16", "float32"]}
    one, many = (mlusim.sweep("tin_shift", **given, workers=workers).rows for workers in (0, 2))
    assert one == many


def test_a_function_without_a_file_goes_to_other_processes():
    part = 64

    async def copy(core, x, out):
        if not core.is_memory_core and core.task_id == 0:
            tile = core.nram.alloc(part, x.dtype)
            await core.memcpy(tile, x[:part])
            await core.memcpy(out[:part], tile)

    # A partial is pickled as the function in it: functools itself stays a module.
    rows = mlusim.sweep(partial(copy), shape=[64, 128], workers=1).rows
    assert [row["copies"] for row in rows] == [2, 2]


# ---------------------------------------------------------------- a cluster


@pytest.fixture(scope="module")
def cluster():
    """A local cluster of two worker processes, and its client."""
    distributed = pytest.importorskip("distributed")
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_cluster_runs_the_same_points(cluster, kernels, tmp_path):
    given = {"shape": [(2, 4, 8, 49), (2, 4, 8, 98)], "strategy": "all", "nram_bytes": [64, 4096]}
    here, there = (mlusim.sweep("tin_shift", **given, **where).rows for where in ({"workers": 0}, {"client": cluster}))
    assert here == there
    assert {row["status"] for row in there} == {"done", "impossible"}
    db = tmp_path / "points.sqlite"
    found = mlusim.sweep(f"{kernels}:add", shape=1000, tile=[64, 256], client=cluster, db=db)
    assert found.counts["done"] == 2
    # What the cluster did is there for this machine, and the other way round.
    assert mlusim.sweep(f"{kernels}:add", shape=1000, tile=[64, 256], workers=0, db=db).rows == found.rows


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_the_command_line_and_a_cluster(cluster, start):
    process = start(
        "sweep", "reverse", "--shape", "64,64", "--axis", "0", "--dask", cluster.scheduler.address, "--no-db"
    )
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "1 point: 1 done" in out


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_the_command_line_closes_its_client(cluster):
    def clients():
        return cluster.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.clients))

    before = clients()
    words = ("sweep", "reverse", "--shape", "64,64", "--axis", "0", "--dask", cluster.scheduler.address, "--no-db")
    output_of(*words)
    assert clients() == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers_of_a_cluster_that_die(cluster, kernels):
    distributed = pytest.importorskip("distributed")
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=60
        ) as local,
        distributed.Client(local) as client,
    ):
        found = mlusim.sweep(f"{kernels}:dies", shape=100, how=["yes"], client=client)
    assert found.rows[0]["status"] == "died"


def test_errors_of_workers_name_options_as_the_caller_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("host.py").write_text("def host(device, shape, dtype):\n    pass\n")
    words = ("sweep", "host.py:host", "--shape", "64", "--shape", "128", "--steady", "--no-db")
    for workers in ("0", "2"):
        assert "; omit --steady" in output_of(*words, "-j", workers, code=1)
