"""`mlusim diff`: the parts of the difference of two runs."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import mlusim
from command_line import output_of
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.provenance import provenance
from mlusim.cli.saved_or_run import run_of
from mlusim.errors import MissingDataError
from mlusim.explore.diff import diff
from mlusim.explore.explanation import explain
from mlusim.explore.suggestions import what_to_try

KERNEL = """\
async def add(core, x, out, tile=1024):
    if core.is_memory_core:
        return
    a = core.nram.alloc(tile, x.dtype)
    for start in range(core.task_id * tile, x.size, core.task_dim * tile):
        n = min(tile, x.size - start)
        await core.memcpy(a[:n], x[start : start + n])
        core.add(a[:n], a[:n], a[:n])
        await core.memcpy(out[start : start + n], a[:n])
"""
MOVED = "# one more line\n" + KERNEL


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "k.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shift(strategy, **more):
    x, shifts = np.zeros((2, 8, 16, 49), np.float32), np.ones((2, 4), np.int32)
    return mlusim.ops.tin_shift_forward(x, shifts, strategy=strategy, **more)


@pytest.mark.parametrize("other", [{"strategy": "pingpong"}, {"strategy": "tight", "device": "mlu590-h8"}])
def test_causes_and_lines_sum_to_the_difference_exactly(other):
    before, after = shift("tight"), shift(**other)
    found = diff(before, after)
    assert found.time_ps == after.time_ps - before.time_ps != 0
    assert sum(found.causes_ps.values()) == found.time_ps
    assert sum(line.time_ps for line in found.lines) == found.time_ps
    assert list(found.causes_ps) == list(CAUSES)
    assert float(re.search(r": (\S+) us>$", repr(found))[1]) == round(found.time_ps / 1e6, 2)
    back = diff(after, before)
    assert {name: -value for name, value in back.causes_ps.items()} == found.causes_ps


async def copy(core, x, out, tile=1024, cores=1):
    if core.is_memory_core or core.task_id >= cores:
        return
    buffer = core.nram.alloc(tile, x.dtype)
    for start in range(core.task_id * tile, x.size, cores * tile):
        await core.memcpy(buffer, x[start : start + tile])
        await core.memcpy(out[start : start + tile], buffer)


def copied(tile, cores=1, **more):
    x = np.ones(1 << 15, np.float32)
    return mlusim.run(copy, x, mlusim.Output.like(x), tile=tile, cores=cores, **more)


@pytest.mark.parametrize("launch", [{"dim": 1, "kind": "BLOCK"}, {"dim": 4}, {}])
def test_cores_without_work_in_both_runs_are_left_out(launch):
    found = diff(copied(1024, **launch), copied(4096, **launch))
    assert found.time_ps < 0
    assert sum(found.causes_ps.values()) == sum(line.time_ps for line in found.lines) == found.time_ps
    # 48 copies fewer, each of which starts up for the latency that the board states.
    board = mlusim.board("mlu370-x4")
    saved_ps = 24 * (board.dma_read_latency_ps + board.dma_write_latency_ps)
    assert found.causes_ps["dma_latency"] == pytest.approx(-saved_ps, rel=0.02)
    assert abs(found.causes_ps["idle"]) < 0.01 * saved_ps


def test_cores_with_work_in_one_run_count_in_both():
    before, after = copied(1024), copied(1024, cores=32)
    found = diff(before, after)
    assert sum(found.causes_ps.values()) == sum(line.time_ps for line in found.lines) == found.time_ps
    # 31 of 32 cores are idle in the first run.
    idle_ps = [run.metrics.where_time_went["idle"] / 32 for run in (before, after)]
    assert found.causes_ps["idle"] == pytest.approx(idle_ps[1] - idle_ps[0], abs=1)
    on_another = diff(copied(1024), copied(1024, device="mlu590-h8"))
    assert sum(on_another.causes_ps.values()) == on_another.time_ps
    assert abs(on_another.causes_ps["idle"]) < 0.01 * before.time_ps


@pytest.mark.parametrize("steady", [False, True])
def test_an_empty_run_and_an_extrapolated_one_are_compared(steady):
    empty = mlusim.ops.flip(np.zeros((0, 4), np.float32), 0)
    small = mlusim.ops.flip(np.zeros((8, 4), np.float32), 0)
    large = mlusim.ops.cast(np.zeros((4096, 4096), np.float16), "float32", data=False, steady=steady)
    for before, after in ((empty, small), (small, empty), (empty, empty), (small, large), (large, small)):
        found = diff(before, after)
        assert sum(found.causes_ps.values()) == sum(line.time_ps for line in found.lines) == found.time_ps


def test_losses_and_the_causes_of_each_line_sum_exactly():
    found = explain(shift("tight"))
    assert sum(found.losses_ps.values()) == found.above_ps > 0
    assert sum(line.time_ps for line in found.lines) == found.result.time_ps
    assert all(sum(line.causes_ps.values()) == line.time_ps for line in found.lines)
    above = (found.result.time_ps - found.result.lower_bound.time_ps) / 1e6
    assert re.fullmatch(
        rf"<explanation of tin_shift_forward on mlu370-x4: {above:.2f} us above the lower bound, most of it .*>",
        repr(found),
    )


def test_two_versions_of_a_file_are_compared_line_by_line(home):
    (home / "k2.py").write_text(MOVED)
    text = output_of("diff", "k.py:add --shape 65536 --set tile=512", "k2.py:add --shape 65536")
    assert re.search(r"^\S+  k.py:7 -> k2.py:8 +await core.memcpy\(a\[:n\], x", text, re.MULTILINE)
    assert not re.search(r"\.py:-", text)


def test_diffing_a_saved_run_with_itself_shows_no_empty_tables(home):
    output_of("run", "k.py", "--shape", "4096", "--save-run", "a.zip", "-q")
    text = output_of("diff", "a.zip", "a.zip")
    assert "no cause took more or less time" in text
    assert "line A > B" not in text


def test_a_run_does_not_differ_from_itself():
    found = diff(shift("tight"), shift("tight"))
    assert not any(found.causes_ps.values())
    assert not any(line.time_ps for line in found.lines)
    assert all(metric.before == metric.after for metric in found.metrics)


def test_a_run_saved_from_python_has_no_command(home):
    own = shift("tight")
    own.save(home / "own.zip")
    assert not any(diff("own.zip", own).causes_ps.values())
    assert explain("own.zip").losses_ps == explain(own).losses_ps
    with pytest.raises(mlusim.InputError, match=r"^3 is not a path: pass a string such as 'run\.zip', or a Path$"):
        explain(3)
    printed = output_of("diff", "own.zip", "cast --shape 64,64 --dtype float16")
    assert [line.partition(" us  ")[2] for line in printed.splitlines()[:2]] == [
        "tin_shift_forward on mlu370-x4, strategy tight",
        "cast on mlu370-x4, strategy pingpong, shape 64,64, dtype float16",
    ]


def test_moved_lines_are_matched_by_their_text(home):
    output_of("run", "k.py", "--shape", "50000", "--save-run", "a.zip", "-q")
    (home / "k.py").write_text(MOVED)
    output_of("run", "k.py", "--shape", "50000", "--save-run", "b.zip", "-q")
    found = json.loads(output_of("diff", "a.zip", "b.zip", "--json"))
    assert found["time_ps"] == 0
    assert [line["time_ps"] for line in found["lines"]] == [0] * len(found["lines"])
    numbers = {(line["before"], line["after"]) for line in found["lines"] if line["before"]}
    assert numbers
    assert all(after == before + 1 for before, after in numbers)


def test_diff_takes_two_descriptions_and_writes_a_page(home):
    words = ("k.py:add --shape 50000", "k.py:add --shape 50000 --set tile=4096")
    text = output_of("diff", *words, "--report", "d")
    assert max(map(len, text.splitlines())) <= 80
    assert "per core on average" in text
    assert "k.py:7" in text
    assert "Predictions, with one loss removed" in text
    page = (home / "d" / "diff.html").read_text()
    assert page.count("<svg") >= 3
    assert '<figure class="timelines"><svg' in page
    assert "Timelines, on one scale" in page
    assert "What to try for B" in page
    assert "Predictions, with one loss removed" in page
    for figure in ("io_efficiency", "peak_nram_bytes", "operations: memcpy"):
        assert f">{figure}</th>" in page
    output_of("diff", *words, "--report", "e", "-q")
    assert (home / "e" / "diff.html").read_text() == page


def test_suggestions_are_faster_and_match_retiming():
    result = shift("tight")
    tries = what_to_try(result)
    assert tries
    assert all(suggestion.time_ps < result.time_ps for suggestion in tries)
    latency = next(suggestion for suggestion in tries if suggestion.loss == "latency")
    again = mlusim.retime(result, keep_split=True, dma_read_latency_ps=0, dma_write_latency_ps=0)
    assert latency.time_ps == again.time_ps


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gone.zip", "gone.zip"), "gone.zip: no such file"),
        (
            ("k.py:add --shape", "x"),
            "is not a saved run; as arguments of `mlusim run`: option '--shape' requires an arg",
        ),
        (("", "x"), "'' is not a run: name a saved run, or give the arguments of `mlusim run` in quotes"),
        (
            ("flip --shape 3", "x"),
            "as arguments of `mlusim run`: missing option '--axis'; see `mlusim run flip --help`",
        ),
        (("k.py:add --shpe 4", "x"), "is not a saved run; as arguments of `mlusim run`: no such option"),
        (
            ("k.py:add", "x"),
            "add: no argument for x and out; give --shape for random tensors (those that ",
        ),
        (
            ("k.py:add --set 'tile", "x"),
            "is not a saved run; as arguments of `mlusim run`: No closing quotation",
        ),
        (
            ("mlusim run k.py:add --shape 4 --save-run=r.zip", "x"),
            "--save-run=r.zip': omit --save-run=r.zip; the run is only timed, and the output is that of this command",
        ),
    ],
)
def test_a_file_that_is_not_a_run_is_an_error(home, words, message):
    assert message in output_of("diff", *words, code=2)


def test_json_says_where_the_figures_come_from(home):
    np.save("x.npy", np.zeros(8, np.float32))
    board = home / "mine.toml"
    board.write_text('base = "mlu370-x4"\nclock_hz = 900_000_000\n')
    found = json.loads(output_of("run", "k.py", "--arg", f"x={home}/x.npy", "--arg", "out=float32:8", "--json"))[
        "provenance"
    ]
    assert found["command"] == "mlusim run k.py --arg x=x.npy --arg out=float32:8 --json"
    assert str(home) not in json.dumps(found)
    assert found["mlusim"] == mlusim.__version__
    assert found["tensors"][0] == {"name": "x", "shape": [8], "dtype": "float32", "role": "input"}
    assert found["board"]["edited_from"] is None
    assert found["board"]["clock_hz"] == 1_000_000_000
    output_of("run", "k.py", "--shape", "8", "--save-run", "a.zip", "-q", "--seed", "3")
    assert mlusim.load("a.zip").made_by["seed"] == 3
    again = mlusim.retime("a.zip", clock_hz=900_000_000)
    edited = provenance(again)["board"]
    assert (edited["edited_from"], edited["edited"]) == ("mlu370-x4", ["clock_hz"])
    # A board file has a name of its own, and its base is known all the same.
    mine = json.loads(output_of("run", "k.py", "--shape", "8", "--device", "mine.toml", "--json"))["provenance"][
        "board"
    ]
    assert (mine["name"], mine["edited_from"], mine["edited"]) == ("mine", "mlu370-x4", ["clock_hz"])


@pytest.mark.parametrize(
    "words", ["k.py --shape 4096", "k.py:add --shape 4096", "mlusim run k.py --shape 4096", "run k.py --shape 4096"]
)
def test_a_run_may_be_described_by_its_command_line(home, words):
    found = json.loads(output_of("diff", words, "k.py:add --shape 4096", "--json"))
    assert found["time_ps"] == 0


def test_the_page_title_names_the_differences_between_the_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text(
        "async def move(core, x, out, tile=8):\n"
        "    if core.task_id or core.is_memory_core:\n        return\n"
        "    a = core.nram.alloc(tile, x.dtype)\n"
        "    for n in range(0, x.size, tile):\n"
        "        await core.memcpy(a, x[n : n + tile])\n        await core.memcpy(out[n : n + tile], a)\n"
    )
    long, short = "k.py:move --shape 64", "k.py:move --shape 64 --set=tile=16 --seed 3"
    text = output_of("diff", long, short, "--report", "both")
    assert "  move on mlu370-x4\n" in text
    assert "  move on mlu370-x4, tile=16, seed 3\n" in text
    page = (tmp_path / "both" / "diff.html").read_text()
    assert "<title>move on mlu370-x4, and move on mlu370-x4, tile=16, seed 3: " in page
    output_of("diff", long, long, "--report", "same")
    assert "<title>move on mlu370-x4, twice: 0.00 us" in (tmp_path / "same" / "diff.html").read_text()


def test_a_kernel_that_loads_what_it_has_computed_is_run_with_data(home):
    kernel = """
async def total(core, x, out):
    if core.task_id or core.is_memory_core:
        return
    held = core.nram.alloc(x.shape, x.dtype)
    await core.memcpy(held, x)
    core.fill(held, await core.sum(held))
    await core.memcpy(out, held)
"""
    (home / "total.py").write_text(kernel)
    text = output_of("explain", "total.py:total --shape 64")
    assert "total on mlu370-x4" in text
    # The kernel of an operator is not the user's.
    of_operator = "compares the operator's strategies and tiles"
    assert of_operator not in text
    assert of_operator in output_of("explain", "tin_shift --shape 2,8,64,49 --dtype float16 --strategy tight")
    assert "\n0.00 us (0.0 %), per core" in output_of("diff", "total.py:total --shape 64", "total.py:total --shape 64")
    with pytest.raises(MissingDataError, match=r"in a timing-only run, which has no numbers: run with data$"):
        run_of("total.py:total --shape 64 --no-data")
