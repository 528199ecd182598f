"""The HTML report in a real browser: no errors, no network, the data in the charts, labels under the pointer.

The browser is the system's chromium, driven by playwright. Without either, these tests are skipped; with
MLUSIM_BROWSER_TESTS=required, as in CI, they fail.
"""

import os
import re
import shutil
from functools import partial

import numpy as np
import pytest

import mlusim
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.page import sections
from mlusim.analysis.page.html import page
from mlusim.analysis.page.timeline import cause_spans

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
WIDE, NARROW, PHONE = 1280, 800, 400


def missing(what):
    if os.environ.get("MLUSIM_BROWSER_TESTS") == "required":
        pytest.fail(f"MLUSIM_BROWSER_TESTS=required, and there is no {what}")
    pytest.skip(f"no {what}")


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright: pip install playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        missing("chromium: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS, headless=True)
        yield browser
        browser.close()


class Shown:
    """A page in the browser, with its console messages and requests while it loaded."""

    def __init__(self, browser, path, width=WIDE, query=""):
        self.tab = browser.new_page(viewport={"width": width, "height": 900})
        self.said, self.asked = [], []
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.path = path
        self.tab.goto(path.as_uri() + query)
        self.tab.wait_for_selector("html[data-ready=yes]")
        self.drawn_at_once = self.get("document.querySelectorAll('.main-svg').length")
        self.tab.evaluate("dispatchEvent(new Event('draw-all'))")

    def get(self, script):
        return self.tab.evaluate(script)

    def choose(self, name, value):
        self.tab.select_option(f"#{name}", value)

    def hover(self, chart, x, y, until=""):
        """The words of the label that appears at a part (0 to 1) of a chart's width and height.

        Charts that are drawn when they are seen move what is below them, and a label may still be that of another
        part: the pointer is set again until the label has the words `until`, ten times at most.
        """
        # A tab behind another draws no frame.
        self.tab.bring_to_front()
        self.tab.locator(f"#{chart}").scroll_into_view_if_needed()
        area = self.tab.locator(f"#{chart} .nsewdrag").first
        # The second is the label of all series at one time.
        label = self.tab.locator(f"#{chart} .hoverlayer .hovertext, #{chart} .hoverlayer .legend").first
        for _ in range(10):
            box = area.bounding_box()
            self.tab.mouse.move(box["x"] + x * box["width"] - 8, box["y"] + y * box["height"])
            self.tab.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=3)
            self.tab.wait_for_timeout(100)
            label.wait_for(timeout=5000)
            words = label.text_content()
            if until in words:
                break
        return words

    def clean(self):
        assert self.said == []
        assert self.asked == [self.path.as_uri()]


@pytest.fixture(scope="module")
def shown(browser, result, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(result), encoding="utf-8")
    return Shown(browser, path)


@pytest.fixture(scope="module")
def staged(browser, staged_device, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "staged.html"
    path.write_text(page(staged_device.result("staged")), encoding="utf-8")
    return Shown(browser, path)


def test_charts_below_the_window_are_drawn_when_scrolled_to(shown):
    charts = shown.get("document.querySelectorAll('.chart .main-svg').length")
    assert shown.drawn_at_once < charts / 2


def test_every_chart_is_drawn_without_an_error_or_a_request(shown, staged):
    for one, charts in (
        (shown, "losses cores timeline tile bandwidth memory roofline traffic"),
        (staged, "losses cores timeline bandwidth memory roofline traffic"),
    ):
        drawn = one.get(
            "[...document.querySelectorAll('.chart')].filter(c => c.querySelector('.main-svg')).map(c => c.id)"
        )
        assert sorted(drawn) == sorted(f"{name}-chart" for name in charts.split())
        assert one.get("document.querySelector('h1').textContent")
        one.clean()


@pytest.mark.parametrize("width", [WIDE, NARROW, PHONE])
def test_nothing_is_wider_than_the_window(shown, width):
    shown.tab.set_viewport_size({"width": width, "height": 900})
    shown.tab.wait_for_function(
        f"[...document.querySelectorAll('.chart .main-svg')].every(c => Math.abs(c.clientWidth - {width} + 48) < 60)"
    )
    assert shown.get("document.documentElement.scrollWidth") == width
    outside = shown.get(
        """[...document.querySelectorAll('section *')].filter(e => !e.closest('.wide') && !e.closest('svg')
           && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className || e.tagName)"""
    )
    assert outside == []
    # No label of a chart is cut off at its edge.
    cut = shown.get(
        """[...document.querySelectorAll('.chart')].flatMap(chart => { const box = chart.getBoundingClientRect();
           return [...chart.querySelectorAll('.main-svg text')].filter(t => { const r = t.getBoundingClientRect();
           return r.width && (r.left < box.left - 2 || r.right > box.right + 2); })
           .map(t => chart.id + t.textContent) })"""
    )
    assert cut == []
    # Charts keep their height: each is as high as its layout says.
    heights = shown.get(
        """[...document.querySelectorAll('.chart')].map(chart =>
           [chart.id, chart.querySelector('.main-svg').getBoundingClientRect().height - chart.layout.height])"""
    )
    assert [name for name, off in heights if abs(off) > 1] == []
    shown.tab.set_viewport_size({"width": WIDE, "height": 900})


def test_the_charts_hold_the_numbers_of_the_run(shown, result):
    cores = shown.get(
        "document.getElementById('cores-chart').data.map(t => [t.name, t.y.length, t.y.reduce((a,b)=>a+b)])"
    )
    known = {CAUSES[name]: total / 1e6 for name, total in result.metrics.where_time_went.items() if total}
    assert {name: total for name, _, total in cores} == pytest.approx(known, rel=1e-4)
    assert {count for _, count, _ in cores} == {result.board.cores}
    bandwidth = shown.get("document.getElementById('bandwidth-chart').data.slice(0, 2).map(t => [t.name, t.x, t.y])")
    for name, x, y in bandwidth:
        moved = (np.diff(x) * 1e-6 * np.array(y[:-1]) * 1e9).sum()
        assert moved == pytest.approx(result.bus_bytes[name], rel=1e-3)
    memory = shown.get("document.getElementById('memory-chart').data.slice(0, -1).map(t => Math.max(...t.y))")
    assert sum(memory) == result.metrics.peak_nram_bytes
    tiles = shown.get("document.getElementById('tile-chart').data[0].text.flat()")
    assert len(set(tiles)) == len(result.plan.tiles)
    bars = shown.get("document.getElementById('traffic-chart').data.map(t => [t.name, t.x.reduce((a, b) => a + b)])")
    assert dict(bars)["on the DRAM bus"] == sum(result.bus_bytes.values())


def shares_drawn(shown):
    """By row of the chart, the share of the timeline's cells of each cause."""
    return np.array(
        shown.get(
            """document.getElementById('timeline-chart').data[0].z.map(row =>
               Array.from({length: 10}, (_, cause) => row.filter(value => value === cause).length / row.length))"""
        )
    )


def test_the_timeline_shows_each_cores_time_by_cause(shown, result):
    shown.choose("timeline-choice", "all")
    drawn = shares_drawn(shown)
    rows = drawn[drawn.sum(axis=1) > 0]
    levels = len(rows) // result.board.cores
    assert levels > 3
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    by_core = rows.reshape(result.board.cores, levels, -1).mean(axis=1)
    np.testing.assert_allclose(by_core, result.metrics.core_causes_ps / result.time_ps, atol=0.02)


@pytest.mark.slow
def test_a_long_run_is_summarised_with_exact_shares(browser, staged_device, tmp_path, monkeypatch):
    monkeypatch.setattr(sections, "cause_spans", partial(cause_spans, max_spans=3500))
    run = staged_device.result("staged")
    path = tmp_path / "long.html"
    path.write_text(page(run), encoding="utf-8")
    one = Shown(browser, path)
    assert "spans, too many for a page" in one.get("document.getElementById('timeline').textContent")
    drawn = shares_drawn(one)
    columns = one.get("document.getElementById('timeline-chart').data[0].z[0].length")
    assert 5 < columns < 200
    rows = drawn[drawn.sum(axis=1) > 0]
    units = run.board.cores + 4  # and the memory cores that worked
    by_unit = rows.reshape(units, len(rows) // units, -1).mean(axis=1)
    np.testing.assert_allclose(by_unit[: run.board.cores], run.metrics.core_causes_ps / run.time_ps, atol=0.07)
    for _ in range(20):
        one.tab.click("#zoom-in")
    words = one.get("document.getElementById('timeline-chart').data[0].text.flat()")
    assert any("vector compute" in word for word in words) or any("syncs" in word for word in words)
    assert one.get("document.getElementById('timeline-chart').data[0].z[0].length") <= 4
    one.clean()


def test_the_timeline_zooms_and_shows_pipes(shown, result):
    shown.choose("timeline-choice", "0")
    lanes = shown.get("document.getElementById('timeline-chart').layout.yaxis.ticktext")
    assert lanes == ["all its time", "io load", "io store", "vector", "scalar"]
    words = shown.get("document.getElementById('timeline-chart').data[0].text.flat()")
    assert any("tin_shift.py:" in word and "GDRAM2NRAM" in word for word in words)
    for _ in range(3):
        shown.tab.click("#zoom-in")
    low, high = shown.get("document.getElementById('timeline-chart').layout.xaxis.range")
    assert high - low == pytest.approx(result.time_us / 8, rel=1e-3)
    # As by a drag over the middle of the chart.
    shown.get("Plotly.relayout('timeline-chart', {'xaxis.range[0]': 1, 'xaxis.range[1]': 2})")
    width, columns = shown.get("(({dx, z}) => [dx, z[0].length])(document.getElementById('timeline-chart').data[0])")
    assert width * columns == pytest.approx(1, rel=1e-6)
    shown.tab.click("#zoom-right")
    assert shown.get("document.getElementById('timeline-chart').layout.xaxis.range") == pytest.approx([1.5, 2.5])
    shown.get("Plotly.relayout('timeline-chart', {'xaxis.autorange': true})")
    assert shown.get("document.getElementById('timeline-chart').layout.xaxis.range[1]") == pytest.approx(result.time_us)
    shown.choose("timeline-choice", "all")
    shown.clean()


def test_hovering_over_a_tile_shows_core_box_and_bytes(shown, result):
    words = shown.hover("tile-chart", 0.01, 0.01, until="task 0")
    tile = next(iter(result.plan.tiles_of(0)))
    box = ", ".join(f"{start}:{stop}" for start, stop in zip(tile.start, tile.stop, strict=True))
    assert "cluster 0 core 0, task 0" in words
    assert f"iteration 0box [{box}]" in words
    nbytes = int(np.prod(tile.shape)) * result.plan.itemsize
    assert f"{nbytes:,}".replace(",", "\u00a0") + " B of the output" in words


def test_hovering_over_the_timeline_shows_the_operation(staged):
    staged.choose("timeline-choice", "all")
    assert "launch" in staged.hover("timeline-chart", 0.005, 0.02)


@pytest.mark.parametrize(("chart", "unit"), [("bandwidth-chart", "GB/s"), ("memory-chart", " B")])
@pytest.mark.parametrize("part", [0.1, 0.4, 0.9])
def test_hovering_over_a_time_shows_all_series_with_units(shown, chart, unit, part):
    words = shown.hover(chart, part, 0.5, until=unit)
    assert re.match(r"[\d.]+ us", words)
    assert unit in words


def test_memories_and_colours_can_be_chosen(staged, shown):
    options = staged.tab.locator("#memory-choice option").all_text_contents()
    sram = next(place for place, text in enumerate(options) if "SRAM" in text)
    staged.choose("memory-choice", str(sram))
    assert staged.get("document.getElementById('memory-chart').data[0].name") == "stage"
    shown.choose("tile-choice", "iteration")
    most = int(shown.get("Math.max(...document.getElementById('tile-chart').data[0].z.flat())"))
    assert most == 1
    shown.choose("tile-choice", "unit")
    staged.clean()


def test_source_lines_are_shown_beside_their_figures(staged):
    rows = staged.get(
        "[...document.querySelectorAll('table.source tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    by_text = {cells[-1].strip(): cells for cells in rows}
    line = by_text["await core.memcpy(loaded, stage[core.core_id])"]
    assert line[3] == "128"
    assert line[4] == "262 144"
    assert "async def staged(core, source, out):" in by_text


NASTY = '</script><script>document.title = "taken"</script><img src=x onerror="document.title = 1"><b>bold</b>'


def test_names_with_html_are_shown_as_text(browser, tmp_path):
    async def kernel(core, x):
        await core.memcpy(core.nram.alloc(4, "int8", NASTY), x)

    device = mlusim.Device()
    device.launch(kernel, device.upload(np.zeros(4, np.int8), NASTY), dim=1, kind="BLOCK")
    device.synchronize()
    path = tmp_path / "nasty.html"
    path.write_text(page(device.result(NASTY)), encoding="utf-8")
    one = Shown(browser, path)
    assert one.get("document.title").startswith("</script><script>")
    assert NASTY in one.get("document.querySelector('#memory-chart .legend').textContent")
    assert one.get("document.querySelectorAll('img').length") == 0
    one.clean()


def test_the_page_of_an_empty_run_opens(browser, tmp_path):
    empty = mlusim.ops.tin_shift_forward(np.zeros((1, 0, 4, 3), np.float32), np.zeros((1, 2), np.int32))
    path = tmp_path / "empty.html"
    path.write_text(page(empty), encoding="utf-8")
    one = Shown(browser, path, NARROW)
    assert "Nothing was launched" in one.get("document.body.textContent")
    one.clean()


def test_charts_follow_the_theme_and_are_light_in_print(shown):
    paper = "getComputedStyle(document.querySelector('#timeline-chart .main-svg')).backgroundColor"
    bars = "[...document.querySelectorAll('#cores-chart .bars .point path')].map(p => getComputedStyle(p).fill)"
    fills = set(shown.get(bars))
    assert shown.get(paper) == "rgb(255, 255, 255)"
    shown.tab.emulate_media(color_scheme="dark")
    shown.tab.wait_for_function(f"{paper} == 'rgb(22, 24, 27)'")
    swap = {"rgb(0, 0, 0)": "rgb(242, 242, 242)", "rgb(255, 255, 255)": "rgb(22, 24, 27)"}
    assert set(shown.get(bars)) == {swap.get(fill, fill) for fill in fills}
    shown.tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shown.get(paper) == "rgb(255, 255, 255)"
    assert shown.get("Math.max(...[...document.querySelectorAll('.chart')].map(c => c.clientHeight))") <= 500
    shown.tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shown.get(paper) == "rgb(22, 24, 27)"
    shown.tab.emulate_media(color_scheme="light")
    shown.tab.wait_for_function(f"{paper} == 'rgb(255, 255, 255)'")
    shown.clean()


def test_lecture_mode_enlarges_text_and_charts_adapt(browser, shown):
    lecture = Shown(browser, shown.path, query="?present")
    cut = """[...document.querySelectorAll('.js-plotly-plot')].flatMap(chart => {
        const frame = chart.getBoundingClientRect();
        return [...chart.querySelectorAll('.main-svg text')].filter(text => {
            const { left, right, width } = text.getBoundingClientRect();
            return width && (left < frame.left - 2 || right > frame.right + 2);
        }).map(text => text.textContent); })"""
    overlaps = """[...document.querySelectorAll('.js-plotly-plot')].flatMap(chart => {
        const texts = [...chart.querySelectorAll('.legendtext')].map(text => text.getBoundingClientRect());
        return texts.flatMap((a, i) => texts.slice(i + 1).filter(b =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1));
    }).length"""
    assert lecture.get(cut) == []
    assert lecture.get(overlaps) == 0
    size = "parseFloat(getComputedStyle(document.querySelector('.xtick text')).fontSize)"
    assert lecture.get(size) > 1.3 * shown.get(size)
    lanes = """(() => { const names = [...document.querySelectorAll('#timeline-chart .ytick text')]
        .map(text => text.getBoundingClientRect()).sort((a, b) => a.top - b.top);
        return names.length > 1 && names.slice(1).every((one, i) => one.top >= names[i].bottom - 4); })()"""
    assert lecture.get(lanes)
    assert lecture.get("getComputedStyle(document.querySelector('.lecture')).display") == "none"
    lecture.tab.click("a.ends-lecture")
    lecture.tab.wait_for_function("location.search === '' && !document.documentElement.classList.contains('present')")
    lecture.tab.click("a.lecture")
    lecture.tab.wait_for_function("document.documentElement.classList.contains('present')")
    lecture.tab.close()
