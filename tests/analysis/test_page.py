"""The HTML report: its numbers are those of the log, and names chosen by users are escaped."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import mlusim
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.lower_bound import LOSSES
from mlusim.analysis.page.html import page
from mlusim.analysis.page.occupancy import occupancies
from mlusim.analysis.page.pages import index
from mlusim.analysis.page.source import source_blocks
from mlusim.analysis.page.tensors import LDRAM, tensor_traffic
from mlusim.analysis.page.tiles import tile_map
from mlusim.analysis.page.timeline import LANE_NAMES, cause_spans
from mlusim.analysis.style import CAUSE_COLOURS, LOSS_COLOURS
from mlusim.memory.kinds import MemoryKind
from mlusim.planning.tiles import Tiles


def records_of(result):
    return LogColumns(result.log, result.board)


def unpack(column):
    values = np.frombuffer(base64.b64decode(column["data"]), f"<{column['kind']}")
    return values.astype(np.int64) - 1


def payload(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def times_by_cause(result, spans):
    strip = np.array([lane.kind == 0 for lane in spans.lanes])[spans.lane]
    unit = np.array([lane.unit for lane in spans.lanes])[spans.lane]
    total = np.zeros((result.board.cores + result.board.clusters, len(CAUSES)), np.int64)
    np.add.at(total, (unit[strip], spans.cause[strip]), spans.length_ps[strip])
    return total[: result.board.cores]


@pytest.mark.parametrize("most", [10**9, 600, 40])
@pytest.mark.parametrize("name", ["result", "staged_result"])
def test_the_timeline_covers_every_picosecond_of_every_core_once(request, name, most):
    result = request.getfixturevalue(name)
    spans = cause_spans(records_of(result), most)
    np.testing.assert_array_equal(times_by_cause(result, spans), result.metrics.core_causes_ps)
    end = spans.start_ps + spans.length_ps
    same_lane = spans.lane[1:] == spans.lane[:-1]
    assert (spans.start_ps[1:] >= end[:-1])[same_lane].all()
    assert (spans.start_ps >= 0).all()
    assert (end <= result.time_ps).all()
    assert bool(spans.merged) == (most < 10**9)
    if most == 600:
        assert len(spans) <= most < spans.merged


@pytest.mark.parametrize("most", [10**9, 3000])
def test_pipe_busy_time_matches_the_log(staged_result, most):
    records = records_of(staged_result)
    spans = cause_spans(records, most)
    kind = np.array([lane.kind for lane in spans.lanes])[spans.lane]
    busy = {LANE_NAMES[lane]: int(spans.length_ps[kind == lane].sum()) for lane in np.unique(kind).tolist()}
    logged = staged_result.metrics.pipe_busy_ps
    assert busy["io load"] + busy["io store"] == logged["io"]
    for pipe in ("move", "vector", "scalar", "sync"):
        assert busy[pipe] == logged[pipe]
    copies = records.is_copy
    moved = spans.cause != list(CAUSES).index("bandwidth_wait")
    if most == 10**9:
        store = (kind == LANE_NAMES.index("io store")) & moved & (spans.cause == list(CAUSES).index("transfer"))
        assert spans.nbytes[store].sum() == records.bytes_requested[copies & records.is_write].sum()


def test_the_tile_map_names_the_tile_that_covers_each_cell(result):
    found = tile_map(records_of(result), result.plan)
    tiles = result.plan.tiles
    assert len(found.task) == len(tiles)
    assert found.nbytes.sum() == result.plan.itemsize * np.prod(result.plan.output_shape)
    assert found.logged_unit is None
    assert "every part was written by the planned core" in found.verdict
    # Each cell's middle element, in coordinates, lies in the box that is named.
    shape = result.plan.output_shape
    inner = int(np.prod(shape)) // (int(found.row_edges[-1]) * int(found.column_edges[-1]))
    for row in range(len(found.row_edges) - 1):
        for column in range(len(found.column_edges) - 1):
            r = (found.row_edges[row] + found.row_edges[row + 1]) // 2
            c = (found.column_edges[column] + found.column_edges[column + 1]) // 2
            where = np.array(np.unravel_index((r * found.column_edges[-1] + c) * inner, shape))
            tile = found.tile[row, column]
            assert (where >= found.start[tile]).all()
            assert (where < found.stop[tile]).all()


def test_a_large_tile_map_is_sampled_and_the_page_states_it(result):
    found = tile_map(records_of(result), result.plan, max_cells=20)
    assert found.tile.size <= 20
    assert re.search(r"\d+ of its \d+ cells are examined", found.verdict)


def test_the_map_shows_both_owners_where_log_and_plan_differ(make_result):
    differs = make_result()
    tiles = differs.plan.tiles
    moved = Tiles(np.roll(tiles.task, 1), tiles.start, tiles.stop, tiles.nram_bytes)
    # Not in the plan itself: it serves the next equal call too.
    differs.plan = replace(differs.plan, tiles=moved)
    found = tile_map(records_of(differs), differs.plan)
    assert found.logged_unit.shape == found.tile.shape
    assert "was written by another core than planned" in found.verdict
    assert "core, by the log" in page(differs)


def test_memory_occupancy_matches_the_metrics(staged_result, result):
    for run in (staged_result, result):
        found = occupancies(records_of(run))
        for kind, peak in (
            (MemoryKind.NRAM, run.metrics.peak_nram_bytes),
            (MemoryKind.SRAM, run.metrics.peak_sram_bytes),
        ):
            mine = [occupancy for occupancy in found if occupancy.kind is kind]
            assert max((occupancy.peak_bytes for occupancy in mine), default=0) == peak
            for occupancy in mine:
                assert occupancy.nbytes.sum(axis=0).max() == occupancy.peak_bytes
                assert occupancy.nbytes[:, -1].sum() == 0
                assert (occupancy.nbytes >= 0).all()
    assert {
        occupancy.names for occupancy in occupancies(records_of(staged_result)) if occupancy.kind is MemoryKind.SRAM
    } == {("stage",)}


def test_many_allocations_are_reduced_to_their_peaks():
    async def kernel(core, out):
        for turn in range(400):
            with core.nram.scope():
                core.fill(core.nram.alloc((turn % 7 + 1) * 128, "int8", f"buffer {turn % 12}"), 0)
                await core.sync()

    device = mlusim.Device()
    device.launch(kernel, device.alloc(4, "int8"), dim=1, kind="BLOCK")
    device.synchronize()
    run = device.result()
    (whole,) = occupancies(records_of(run))
    (thin,) = occupancies(records_of(run), max_steps=10)
    assert len(whole.names) == 8
    assert whole.names[-1] == "others"
    assert (thin.peaks_only, whole.peaks_only) == (True, False)
    assert len(thin.at_ps) <= 201 < len(whole.at_ps)
    assert thin.nbytes.sum(axis=0).max() == whole.peak_bytes == run.metrics.peak_nram_bytes


@pytest.mark.parametrize("name", ["result", "staged_result"])
def test_traffic_by_tensor_sums_to_the_bus(request, name):
    run = request.getfixturevalue(name)
    found = tensor_traffic(records_of(run))
    assert sum(tensor.bus_read_bytes for tensor in found) == run.metrics.bus_bytes["read"]
    assert sum(tensor.bus_write_bytes for tensor in found) == run.metrics.bus_bytes["write"]
    assert sum(tensor.compulsory_bytes for tensor in found) == sum(run.metrics.compulsory_bytes.values())
    assert all(tensor.written_bytes == 0 for tensor in found if tensor.is_input)


def test_compulsory_bytes_of_tensors_sum_to_those_of_the_summary_if_an_input_is_read_in_part():
    x, shifts = np.zeros((1, 4, 8, 64), np.float32), np.array([[3, -3]], np.int32)
    run = mlusim.ops.tin_shift_forward(x, shifts)
    found = {tensor.name: tensor for tensor in tensor_traffic(records_of(run))}
    read = {name: tensor.compulsory_bytes for name, tensor in found.items() if tensor.is_input}
    # Of four rows, one stays; every load of a shift of 4 B moves 64 B.
    assert read == {"x": x.nbytes // 4, "shifts": shifts.nbytes}
    assert found["shifts"].bus_read_bytes > found["shifts"].compulsory_bytes
    assert run.metrics.compulsory_bytes == {"read": sum(read.values()), "write": x.nbytes}


def test_ldram_has_a_row_of_its_own():
    async def kernel(core, out):
        local = core.ldram.alloc(256, "int8")
        near = core.nram.alloc(256, "int8")
        core.fill(near, 1)
        await core.sync()
        await core.memcpy(local, near)

    device = mlusim.Device()
    device.launch(kernel, device.alloc(4, "int8"), dim=1, kind="BLOCK")
    device.synchronize()
    assert tensor_traffic(records_of(device.result()))[-1][:8] == (LDRAM, (), "", False, 0, 0, 256, 0)


def test_source_line_figures_sum_to_those_of_the_log(staged_result):
    blocks = source_blocks(records_of(staged_result), staged_result.lines, staged_result.sources)
    (block,) = blocks
    assert (block.function, block.file, block.has_source) == ("staged", "conftest.py", True)
    texts = [line.text for line in block.lines]
    assert texts[0] == "async def staged(core, source, out):"
    by_text = {line.text.strip(): line for line in block.lines}
    add = by_text["core.add(computed, loaded, loaded)"]
    assert add.figures.operations == 2 * 64
    assert add.figures.spent_ps[list(CAUSES).index("vector")] > 0
    load = by_text["await core.memcpy(stage, source[first : first + core.core_dim])"]
    assert (load.figures.requested_bytes, load.figures.bus_bytes) == (2 * 64 * 2048, 2 * 64 * 2048)
    spent = sum(int(line.spent_ps.sum()) for line in staged_result.lines if line.line)
    assert block.spent_ps == spent


def test_lines_are_listed_without_their_source(staged_result):
    (block,) = source_blocks(records_of(staged_result), staged_result.lines, {})
    assert not block.has_source
    assert [line.number for line in block.lines] == sorted({line for _, line, _ in staged_result.log.lines})


class _Structure(HTMLParser):
    """Ids, tags and text of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.links, self.images = [], [], [], 0

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        known = dict(attrs)
        if "id" in known:
            self.ids.append(known["id"])
        if tag == "a":
            self.links.append(known["href"])
        for name in known:
            assert not name.startswith("on"), (tag, known)
        for name in ("src", "href"):
            assert not (known.get(name) or "").startswith(("http", "//")), known


NASTY = '</script><script>alert(1)</script><img src=x onerror="alert(2)">&amp;<b>'


def nasty_result():
    async def kernel(core, x):
        # </script><img src=x onerror=alert(3)>
        await core.memcpy(core.nram.alloc(4, "int8", NASTY), x)

    device = mlusim.Device()
    device.launch(kernel, device.upload(np.zeros(4, np.int8), NASTY), dim=1, kind="BLOCK")
    device.synchronize()
    return device.result(NASTY)


def test_names_chosen_by_users_are_escaped():
    run = nasty_result()
    text = page(run)
    plotly = text.index("plotly.js v")
    without = text[:plotly] + text[text.index('<script type="application/json"') :]
    for bad in ("<img", "<b>&", "alert(1)</script><"):
        assert bad not in without
    structure = _Structure()
    structure.feed(text)
    assert structure.tags.count("script") == 3
    assert "img" not in structure.tags
    figure = payload(text)["figures"]["traffic-chart"]["data"][0]
    assert figure["y"][0].startswith("&lt;/script&gt;&lt;script&gt;alert(1)")
    for shown in (run._repr_html_(), index({NASTY: run})):
        assert "<img" not in shown
        assert "<script" not in shown


def test_a_page_is_complete_and_has_a_heading_for_each_link(result):
    structure = _Structure()
    structure.feed(page(result))
    assert len(set(structure.ids)) == len(structure.ids)
    assert structure.tags.count("h1") == 1
    sections = [link[1:] for link in structure.links if link.startswith("#")]
    assert sections == [
        *("summary", "plan", "time", "timeline", "tiles", "bandwidth", "memory", "roofline", "traffic", "source"),
        "verification",
    ]
    assert set(sections) <= set(structure.ids)
    assert all(f"{name}-chart" in structure.ids for name in ("losses", "cores", "timeline", "tile", "bandwidth"))


def test_charts_contain_the_figures_of_the_run(result):
    data = payload(page(result))
    figures = data["figures"]
    spent = {trace["name"]: sum(trace["y"]) for trace in figures["cores-chart"]["data"]}
    for name, total in result.metrics.where_time_went.items():
        assert spent.get(CAUSES[name], 0) == pytest.approx(total / 1e6, rel=1e-4)
    losses = dict(zip(figures["losses-chart"]["data"][0]["y"], figures["losses-chart"]["data"][0]["x"], strict=True))
    assert losses.pop("lower bound") == pytest.approx(result.lower_bound.time_ps / 1e6, rel=1e-4)
    assert sum(losses.values()) == pytest.approx((result.time_ps - result.lower_bound.time_ps) / 1e6, rel=1e-4)
    read, write = figures["bandwidth-chart"]["data"][:2]
    seconds = np.diff(read["x"]) * 1e-6
    for trace, side in ((read, "read"), (write, "write")):
        moved = (np.array(trace["y"][:-1]) * 1e9 * seconds).sum()
        assert moved == pytest.approx(result.metrics.bus_bytes[side], rel=1e-3)
    point = figures["roofline-chart"]["data"][5]
    assert point["y"][0] == pytest.approx(result.io_efficiency * 307.2, rel=1e-4)
    time = data["timeline"]
    length, lane = unpack(time["length_ps"]), np.repeat(np.arange(len(time["lanes"])), np.diff(time["first"]))
    strip = np.array([kind == 0 for _, kind in time["lanes"]])[lane]
    # Cores and memory cores that had a task: each its whole time.
    assert length[strip].sum() % result.time_ps == 0
    assert unpack(data["tiles"]["nbytes"]).sum() == result.metrics.compulsory_bytes["write"]


def figures_of(result):
    data = payload(page(result))
    return [*data["figures"].values(), *data["memories"]]


@pytest.mark.parametrize("name", ["result", "staged_result"])
@pytest.mark.slow
def test_plotly_knows_every_attribute(request, name):
    from plotly import graph_objects as go

    for figure in figures_of(request.getfixturevalue(name)):
        go.Figure(figure)  # raises for an attribute or value that plotly has not


def test_each_cause_and_loss_has_a_colour_of_its_own():
    assert list(CAUSE_COLOURS) == list(CAUSES)
    assert list(LOSS_COLOURS) == list(LOSSES)
    assert len(set(CAUSE_COLOURS.values())) == len(CAUSES)
    assert len(set(LOSS_COLOURS.values())) == len(LOSSES)


def empty():
    return mlusim.ops.tin_shift_forward(np.zeros((1, 0, 4, 3), np.float32), np.zeros((1, 2), np.int32))


def view():
    return mlusim.ops.bitcast_convert(np.zeros(10, np.float32), "float16")


def no_data():
    x, shifts = np.ones((2, 6, 24, 50), np.float16), np.ones((2, 4), np.int32)
    return mlusim.ops.tin_shift_forward(x, shifts, data=False, check=True)


def many_cores():
    return mlusim.ops.cast(np.ones((200, 300), np.float32), "float16", device="mlu290-m5")


@pytest.mark.parametrize("make", [empty, view, no_data, many_cores, nasty_result])
def test_unusual_runs_have_a_page_and_a_notebook_view(make):
    run = make()
    text = page(run)
    structure = _Structure()
    structure.feed(text)
    assert {f"#{name}" for name in ("summary", "roofline", "traffic", "verification")} <= set(structure.links)
    assert ("#timeline" in structure.links) == bool(run.time_ps)
    assert run.board.name in run._repr_html_()
    assert len(run._repr_html_()) < 30_000


def test_a_run_that_stopped_says_so():
    async def kernel(core, x):
        await core.memcpy(core.nram.alloc(4, "int8"), x)
        raise ValueError("<stop here>")

    device = mlusim.Device()
    device.launch(kernel, device.upload(np.zeros(4, np.int8)), dim=1, kind="BLOCK")
    with pytest.raises(mlusim.KernelError):
        device.synchronize()
    run = device.result()
    assert "The run stopped with an error" in page(run)


def test_the_page_shows_the_verification_if_there_is_one(make_result):
    checked = make_result()
    checked.report = None
    assert "This run was not checked" in page(checked)
    checked.report = mlusim.verifier.check.check_log(checked.log, checked.board, plan=checked.plan)
    text = page(checked)
    assert "Split proof" in text
    assert "written exactly once" in text
    assert "written exactly once" in checked.report._repr_html_()


def test_a_nets_result_shows_its_operators():
    net = mlusim.cinn.NetBuilder("<net>")
    x = net.create_input(mlusim.cinn.Float(32), [4, 8], "x")
    net.flip(x, [0], name="b")
    out = net.build().execute({"x": np.ones((4, 8), np.float32)})
    shown = out._repr_html_()
    assert "net &#x27;&lt;net&gt;&#x27; on" in shown
    assert "flip" in shown
