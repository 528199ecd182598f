"""The files of a report: complete, reproducible, and written without importing matplotlib."""

import json
import re
import subprocess
import sys
from copy import copy
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import mlusim
from mlusim.analysis import report_files, timeline_picture
from mlusim.analysis.canvas import WIDTH, width_of
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.report_files import draw, write_report
from mlusim.analysis.style import drawing, new_figure
from mlusim.analysis.tile_map import draw_tile_map
from mlusim.analysis.timeline_picture import draw_timeline, draw_two_timelines
from mlusim.analysis.traffic import traffic_bars
from mlusim.errors import InputError
from mlusim.hardware import board

PICTURES = ("timeline", "tile_map", "traffic", "bandwidth", "roofline")
FILES = [f"{name}{suffix}" for name in PICTURES for suffix in (".png", ".svg")]


def texts(canvas):
    return [text.string for text in canvas.texts]


def test_a_report_is_complete_and_the_same_each_time(make_result, tmp_path):
    made = write_report(make_result(), tmp_path / "a" / "new")
    again = write_report(make_result(), tmp_path / "b")
    assert [path.name for path in made] == ["report.html", *FILES, "summary.json", "trace.json"]
    assert sorted(path.name for path in (tmp_path / "a" / "new").iterdir()) == sorted(path.name for path in made)
    for first, second in zip(made, again, strict=True):
        content = first.read_bytes()
        assert content == second.read_bytes(), first.name
        assert len(content) > 5000
        if first.suffix == ".png":
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
        elif first.suffix == ".html":
            assert content.startswith(b"<!DOCTYPE html>")
        elif first.suffix == ".svg":
            assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
        else:
            json.loads(content)


async def product(core, x, out):
    if core.is_memory_core or core.task_id:
        return
    tile = core.nram.alloc(x.shape, x.dtype)
    await core.memcpy(tile, x)
    core.mul(tile, tile, tile)
    await core.memcpy(out, tile)


@pytest.mark.parametrize("operations", [None, 0, 10_000, 3_000_000])
def test_a_roofline_has_the_run_where_its_rates_are(operations):
    x = np.ones(10_000, np.float32)
    result = mlusim.run(product, x, mlusim.Output.like(x), theory_ops=operations)
    canvas = draw(result)["roofline"]
    moved, seconds = 2 * x.nbytes, result.time_ps * 1e-12
    at = (operations / moved, operations / seconds / 1e9) if operations else (moved, moved / seconds / 1e9)
    units = {"k": 1e3, "M": 1e6, "G": 1e9}

    def value(words):
        return float(words.rstrip("kMG")) * units.get(words[-1], 1)

    ticks = [text for text in canvas.texts if re.fullmatch(r"[\d.]+(e-\d+)?[kMG]?", text.string)]
    right_of = [(value(text.string), text.y) for text in ticks if text.anchor == "r"]
    below = [(value(text.string), text.x) for text in ticks if text.anchor == "m"][:-1]  # the last one may be moved
    squares = [shape.boxes[0] for shape in canvas.shapes if len(shape.boxes) == 1]
    squares = [box for box in squares if 15 < box[2] - box[0] < 19 and abs(box[2] - box[0] - box[3] + box[1]) < 0.1]
    centre = (squares[0][0] + squares[0][2]) / 2, (squares[0][1] + squares[0][3]) / 2
    for ticks_of, pixel, expected in zip((below, right_of), centre, at, strict=True):
        values, pixels = np.array(sorted(ticks_of, key=lambda tick: tick[1])).T
        slope = np.diff(np.log10(values))[0] / np.diff(pixels)[0]
        assert 10 ** (np.log10(values[0]) + slope * (pixel - pixels[0])) == pytest.approx(expected, rel=0.01)
    unit = "Gop/s" if operations else "GB/s"
    assert any(words.endswith(f": {at[1]:.4g} {unit}") for words in texts(canvas))


def test_a_run_without_bytes_has_no_roofline():
    async def nothing(core):
        await core.sync()

    device = mlusim.Device("mlu370-x4")
    device.launch(nothing)
    device.synchronize()
    assert "no roofline: the run took no time, or had nothing to move" in texts(draw(device.result())["roofline"])


def test_a_report_replaces_only_its_own_files(result, tmp_path, monkeypatch):
    (tmp_path / "timeline.png").write_text("old")
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.setattr(report_files, "draw", lambda _: {})
    write_report(result, tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "notes.txt",
        "report.html",
        "summary.json",
        "timeline.png",
        "trace.json",
    ]


def test_a_result_writes_its_report_itself(result, tmp_path):
    written = result.write_report(tmp_path / "report")
    assert sorted(written) == sorted((tmp_path / "report").iterdir())
    assert written[0].name == "report.html"
    assert json.loads((tmp_path / "report" / "trace.json").read_text())["traceEvents"]
    with pytest.raises(InputError, match=r"^3 is not a path"):
        result.write_report(3)


def test_a_failed_report_leaves_no_partial_files(result, tmp_path, monkeypatch):
    (tmp_path / "summary.json").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report_files, "draw", lambda _: {})
    monkeypatch.setattr(report_files, "stream_trace", full)
    with pytest.raises(InputError, match=r"cannot write to .*: No space left on device; name a directory"):
        write_report(result, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
    assert (tmp_path / "summary.json").read_text() == "old"
    with pytest.raises(InputError, match="No space left on device"):
        write_report(result, tmp_path / "new" / "report")
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_directory_that_cannot_be_made_is_a_clear_error(result, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write to .*file.*: .*; name a directory that can be written"):
        write_report(result, tmp_path / "file" / "reports")


def test_long_runs_are_summarised_and_state_what_is_left_out(monkeypatch, make_result):
    result = make_result()
    monkeypatch.setattr(timeline_picture, "MAX_UNITS", 3)
    monkeypatch.setattr(timeline_picture, "MAX_SPANS", 20)
    records = LogColumns(result.log, result.board)
    canvas = draw_timeline(records, "T")
    said = " ".join(texts(canvas))
    assert re.search(r"; spans shorter than [\d .]+ ns are summed up", said)
    assert "3 of 32 active cores shown" in said
    names = [words for words in texts(canvas) if re.fullmatch(r"cluster \d+ core \d+", words)]
    assert names == ["cluster 0 core 0", "cluster 4 core 0", "cluster 7 core 3"]


def test_the_tile_map_shows_where_plan_and_log_differ(make_result):
    result = make_result()
    records = LogColumns(result.log, result.board)
    agreed = draw_tile_map(records, result.plan)
    assert "every part was written by the planned core" in " ".join(texts(agreed))
    tiles = copy(result.plan.tiles)
    tiles.task = np.roll(tiles.task, 1)
    differs = " ".join(texts(draw_tile_map(records, replace(result.plan, tiles=tiles))))
    assert "% was written by another core than planned" in differs
    assert "core that writes (logged)" in differs


def test_traffic_shows_both_directions_and_on_chip_copies(staged_device):
    from mlusim.analysis.metrics import measure

    bars = {
        label: (nbytes, least)
        for label, _, nbytes, least in traffic_bars(measure(staged_device.log, staged_device.board))
    }
    tensor = 64 * 512 * 4
    assert bars["read: compulsory"] == (tensor, tensor)
    assert bars["GDRAM2SRAM"] == (2 * tensor, tensor)
    assert bars["NRAM2GDRAM"] == (2 * tensor, tensor)
    assert bars["NRAM2NRAM"] == (2 * tensor, 0)
    assert bars["scalar GDRAM store"] == (2 * 64 * 2 * 4, tensor)
    assert bars["read on the bus"][0] == 2 * tensor + 2 * 64 * 2 * 64


def test_empty_runs_and_small_boards_can_be_drawn(tmp_path):
    empty = mlusim.ops.tin_shift_forward(np.zeros((1, 0, 4, 3), np.float32), np.zeros((1, 2), np.int32))
    assert len(write_report(empty, tmp_path)) == 13
    tiny = board("mlu370-x4").replace(nram_bytes=4096, nram_reserved_bytes=0)
    x = np.ones((1, 5, 4, 3000), np.float16)
    rows_split = mlusim.ops.tin_shift_forward(x, np.ones((1, 2), np.int32), device=tiny)
    assert rows_split.plan.tier == 3
    canvas = draw_tile_map(LogColumns(rows_split.log, tiny), rows_split.plan)
    assert "every part was written by the planned core" in " ".join(texts(canvas))


@pytest.mark.slow
def test_runs_and_reports_do_not_import_matplotlib(tmp_path):
    code = (
        "import sys, numpy as np, mlusim\n"
        "import mlusim.analysis.report_files, mlusim.analysis.summary, mlusim.analysis.trace\n"
        "r = mlusim.ops.tin_shift_forward(np.ones((1, 2, 4, 3), np.float32), np.ones((1, 2), np.int32))\n"
        "r.metrics, mlusim.analysis.summary.rows(r)\n"
        "mlusim.analysis.summary.to_json(r)\n"
        f"mlusim.analysis.report_files.write_report(r, {str(tmp_path)!r})\n"
        "assert not [name for name in sys.modules if name.startswith('matplotlib')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_drawing_leaves_the_callers_style_unchanged():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with drawing():
        assert mpl.rcParams["svg.hashsalt"] == "mlusim"
    assert dict(mpl.rcParams) == before


def test_two_timelines_show_the_same_cores():
    small, large = (mlusim.ops.flip(np.ones((rows, 512), np.float32), axis=1) for rows in (64, 512))
    canvas = draw_two_timelines([(LogColumns(run.log, run.board), name) for run, name in ((small, "A"), (large, "B"))])
    words = texts(canvas)
    titles = [words.index(word) for word in words if re.match("[AB]: ", word)]
    names = [[word for word in part if "core " in word] for part in (words[: titles[1]], words[titles[1] + 1 :])]
    above, below = ([word for word in part if word.startswith("cluster")] for part in names)
    assert above == below
    assert 1 < len(above) <= 8
    # Of all that worked these are only some in the second.
    assert words[titles[1]].endswith("active cores")


def test_long_names_leave_room_for_the_board():
    async def kernel(core, x, out):
        if core.task_id == 0 and not core.is_memory_core:
            core.scalar()

    kernel.__name__ = "name_" * 60
    x = np.ones(8, np.float32)
    result = mlusim.run(kernel, x, mlusim.Output.like(x))
    for canvas in draw(result).values():
        title = canvas.texts[0]
        assert re.fullmatch("[A-Z].*: (name_)+n?a?m?….*_ on mlu370-x4", title.string), title.string
        assert 0.9 * WIDTH < title.x + width_of(title.string, title.size, bold=True) <= WIDTH


def test_figures_of_matplotlib_have_short_titles_too():
    figure = new_figure(2, "name_" * 100 + "on x4")
    assert re.fullmatch("name_.*….*_on x4", figure.get_suptitle())


def test_two_timelines_have_a_common_time_axis():
    async def kernel(core, x, out, busy):
        if core.task_id in busy and not core.is_memory_core:
            core.scalar(count=1000)

    x = np.ones(8, np.float32)
    runs = [mlusim.run(kernel, x, mlusim.Output.like(x), busy, device="mlu590-h8") for busy in ((0,), (47,))]
    canvas = draw_two_timelines([(LogColumns(run.log, run.board), "A") for run in runs])
    zeros = [text.x for text in canvas.texts if text.string in {"0", "0.0"}]
    assert zeros == [zeros[0]] * 2
