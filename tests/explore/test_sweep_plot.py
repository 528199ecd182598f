"""Pictures of a sweep: the points, where tiers change, and a legend that covers nothing."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from mlusim.analysis.style import drawing
from mlusim.analysis.sweep_plot import MAX_LINES, check_plot, draw_sweep
from mlusim.errors import InputError
from sweeping_here import SHAPE, here


@pytest.fixture(scope="module")
def one_line():
    return here("tin_shift", shape=SHAPE, strategy="tight", nram_bytes="64..4KiB*2")


@pytest.fixture(scope="module")
def two_lines():
    return here("tin_shift", shape=SHAPE, strategy=["tight", "pingpong"], nram_bytes="128..4KiB*2")


def figure_of(found, metrics=("time", "efficiency", "traffic"), against="nram_usable_bytes"):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with drawing():
        figure = draw_sweep(found.rows, found.axes, metrics, against)
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
    return figure


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_lines_show_the_figures(one_line):
    time, efficiency, traffic = figure_of(one_line).axes
    done = one_line.done
    for axes, column, factor in (
        (time, "time_us", 1),
        (efficiency, "io_efficiency", 100),
        (traffic, "traffic_ratio", 1),
    ):
        line = axes.lines[0]
        assert line.get_xdata().tolist() == [row["nram_usable_bytes"] for row in done]
        assert np.allclose(line.get_ydata(), [factor * row[column] for row in done])


@pytest.mark.slow
def test_tier_boundaries_of_one_line_are_bands(one_line):
    tiers = {row["nram_usable_bytes"]: row["tier"] for row in one_line.done}
    changes = [(a, b) for a, b in zip(tiers, list(tiers)[1:], strict=False) if tiers[a] != tiers[b]]
    expected = [(a * b) ** 0.5 for a, b in changes]
    assert len(expected) == 2
    for number, axes in enumerate(figure_of(one_line).axes):
        vertical = [
            line.get_xdata()[0] for line in axes.lines if len({*line.get_xdata()}) == 1 and len(line.get_xdata()) == 2
        ]
        assert np.allclose(vertical, expected)
        assert texts(axes) == ([] if number else ["tier 3", "tier 2", "tier 1"])


def test_impossible_points_are_marked(one_line):
    assert one_line.rows[0]["status"] == "impossible"
    figure = figure_of(one_line)
    for axes in figure.axes:
        marks = [line for line in axes.lines if line.get_marker() == "x"]
        assert [line.get_xdata()[0] for line in marks] == [64]
    assert "no result: does not fit, or failed" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_different_boundaries_have_the_colour_of_their_line(two_lines):
    axes = figure_of(two_lines).axes[0]
    edges = {round(line.get_xdata()[0], 6): line.get_color() for line in axes.lines if list(line.get_ydata()) == [0, 1]}
    legend = axes.figure.legends[0]
    colours = {
        text.get_text(): line.get_color() for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True)
    }
    expected = {}
    for strategy in ("tight", "pingpong"):
        rows = [row for row in two_lines.done if row["strategy"] == strategy]
        for row, other in pairwise(rows):
            if row["tier"] != other["tier"]:
                edge = round((row["nram_usable_bytes"] * other["nram_usable_bytes"]) ** 0.5, 6)
                expected[edge] = colours[strategy]
    assert len(expected) == 4
    assert edges == expected
    assert sorted(texts(axes)) == ["2 | 1", "2 | 1", "3 | 2", "3 | 2"]


def test_the_legend_and_the_heading_cover_no_axes(two_lines):
    figure = figure_of(two_lines)
    renderer = figure.canvas.get_renderer()
    legend = figure.legends[0].get_window_extent(renderer)
    heading = [text.get_window_extent(renderer) for text in figure.texts]
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert not box.overlaps(legend)
        assert not any(box.overlaps(other) for other in heading)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:2] == ["tight", "pingpong"]
    assert {"tier 1: whole units", "tier 2: unit split", "tier 3: row split"} < set(labels)


def test_an_axis_of_names_keeps_its_order():
    found = here("tin_shift", shape=SHAPE, device=["mlu590-h8", "mlu270", "mlu370-x4"], strategy=["tight", "batched"])
    axes = figure_of(found, ["time"], "device").axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["mlu590-h8", "mlu270-s4", "mlu370-x4"]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.grid(2)
def test_the_same_sweep_gives_the_same_picture(tmp_path, one_line, suffix):
    for name in ("one", "two"):
        one_line.plot(tmp_path / f"{name}{suffix}", against="nram")
    one, two = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert len(one) > 5000
    assert one == two


def test_the_axis_with_most_values_is_the_default(two_lines):
    assert check_plot(two_lines.rows, two_lines.axes, ["time"], None) == "nram_usable_bytes"
    assert check_plot(two_lines.rows, two_lines.axes, ["time"], "strategy") == "strategy"


def test_columns_of_the_table_are_figures(two_lines):
    axes = figure_of(two_lines, ["peak_nram_bytes"]).axes[0]
    assert axes.get_ylabel() == "peak nram [B]"
    efficiency, bandwidth = figure_of(two_lines, ["io_efficiency", "bandwidth"]).axes
    assert efficiency.get_ylabel() == "io_efficiency [%]"
    row = two_lines.done[0]
    assert np.isclose(bandwidth.lines[0].get_ydata()[0], row["compulsory_bytes"] / row["time_us"] / 1e3)
    assert [axes.get_ylabel() for axes in two_lines.plot(metrics="copies").axes] == ["copies"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"against": "clock"}, r"against clock: no such axis; the sweep has nram_usable_bytes, strategy"),
        (
            {"metrics": ["speed"]},
            r"'speed' is not a figure: choose time, bandwidth, efficiency, traffic, or a column of numbers",
        ),
        ({"against": ["clock"]}, r"against=\['clock'\] is not text"),
        ({"title": 3}, r"title=3 is not text"),
        ({"metrics": 3}, r"metrics=3: pass a list of strings"),
        ({"metrics": []}, r"nothing to draw: name time, bandwidth, efficiency, traffic or columns of the table"),
        ({"path": "x.jpg"}, r"x\.jpg: a picture is a \.png or \.svg file: use one of these suffixes"),
        ({"path": "gone/x.png"}, r"gone/x\.png: cannot be written: No such file or directory"),
    ],
)
def test_plots_that_cannot_be_drawn_are_errors(two_lines, given, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        two_lines.plot(**given)


def test_too_many_lines_or_none_are_errors():
    rows = [{"a": a, "b": b, "time_us": 1.0} for a in range(MAX_LINES + 1) for b in range(2)]
    with pytest.raises(InputError, match=rf"^against b there would be {MAX_LINES + 1} lines, .* sweep fewer of them$"):
        check_plot(rows, ["a", "b"], ["time"], "b")
    with pytest.raises(InputError, match=r"^the sweep has one point: give an axis several values"):
        here("reverse", shape=(4,), axis=0).plot()
    with pytest.raises(InputError, match=r"^nothing to draw: no point is done; the first: .*rank 2"):
        here("tin_shift", shape=[(2, 2), (3, 3)]).plot(against="shape")
    assert check_plot(rows[: 2 * MAX_LINES], ["a", "b"], ["time"], "b") == "b"


def test_lines_that_coincide_are_wider_beneath(tmp_path):
    found = here("cast", shape=65536, dtype="float16", strategy="all", nram_bytes=[32768, 65536, 131072])
    times = {row["strategy"]: [] for row in found.rows}
    for row in found.rows:
        times[row["strategy"]].append(row["time_us"])
    assert len(times) == 3
    assert len({tuple(line) for line in times.values()}) < 3, "strategies that give one plan coincide"
    axes = found.plot(None, metrics=["time"]).axes[0]
    lines = [line for line in axes.lines if len(line.get_xdata()) == 3 and line.get_linestyle() == "-"]
    widths = [line.get_linewidth() for line in lines]
    orders = [line.get_zorder() for line in lines]
    assert orders == sorted(orders)
    for number, (name, other) in enumerate(zip(list(times), list(times)[1:], strict=False)):
        if times[name] == times[other]:
            assert widths[number] > widths[number + 1]


@pytest.mark.parametrize(("last", "widest"), [(2.0, 7.5), (400.0, 7.5)])
def test_lines_that_coincide_as_drawn_are_wider_up_to_a_limit(one_line, last, widest):
    """One at 400 us makes the axis logarithmic, on which 1 us and 1.5 us do not coincide."""
    times = [1.0] * 8 + [1.5, last]
    rows = [
        one_line.done[0] | {"strategy": str(number), "nram_usable_bytes": nram, "time_us": time}
        for number, time in enumerate(times)
        for nram in (1024, 2048)
    ]
    (axes,) = figure_of(SimpleNamespace(rows=rows, axes=["strategy", "nram_usable_bytes"]), ("time",)).axes
    widths = [line.get_linewidth() for line in axes.lines if line.get_linestyle() != "None"]
    assert widths[0] == max(widths) == widest
    assert widths[:8] == sorted(widths[:8], reverse=True)
    assert widths[7:] == [1.5] * 3


def test_points_without_an_efficiency_are_left_out(one_line):
    rows = [row | {"io_efficiency": None} if row is one_line.done[0] else row for row in one_line.rows]
    (efficiency,) = figure_of(SimpleNamespace(rows=rows, axes=one_line.axes), ("efficiency",)).axes
    assert len(efficiency.lines[0].get_xdata()) == len(one_line.done) - 1
