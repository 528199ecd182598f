"""Achieved DRAM bandwidth over time, against the board's peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.records import Integers, Records
from mlusim.analysis.style import BLACK, BLUE, GREY, VERMILION, legend_below, new_figure, nothing_ran, time_unit
from mlusim.units import PS_PER_S

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rates = np.ndarray[Any, np.dtype[np.float64]]
_BINS = 300
_BYTES_PER_GB = 10**9


def bus_bytes_over_time(records: Records, edges: Integers) -> tuple[Rates, Rates]:
    """(bins,) bytes read and bytes written on the DRAM bus in each bin of time.

    The bytes of a copy are spread evenly over the time in which they move, those of a scalar access over its own: the
    log has totals, not the rate at each moment. What lies in the window of `edges` sums to the bytes of the log.
    """
    start, end = records.moving_ps, records.end_ps
    return (
        _spread(records.bus_read_bytes, start, end, edges),
        _spread(records.bus_write_bytes, start, end, edges),
    )


def _spread(amount: Integers, start: Integers, end: Integers, edges: Integers) -> Rates:
    some = amount > 0
    amount, start, end = amount[some], start[some], np.maximum(end[some], start[some] + 1)
    rate = amount / (end - start)
    # The sum of all rates is a staircase; its integral at the edges is exact by the straight lines between its steps.
    at = np.concatenate([start, end])
    order = np.argsort(at, kind="stable")
    times = at[order]
    level = np.cumsum(np.concatenate([rate, -rate])[order])
    total = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))]) if len(times) else np.zeros(1)
    reached = np.interp(edges, times, total) if len(times) else np.zeros(len(edges))
    return np.diff(reached)


def draw_bandwidth(records: Records, title: str = "Achieved DRAM bandwidth") -> Figure:
    """Bandwidth of reads and writes, stacked, over time, with the board's peak and the run's mean."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    begin, end = records.start_of_run_ps, records.end_of_run_ps
    if not records.time_ps:
        figure = new_figure(2.0, title)
        nothing_ran(figure, figure.subplots(), "nothing was launched: no byte moved")
        return figure
    edges = np.unique(np.linspace(begin, end, _BINS + 1).round().astype(np.int64))
    read, write = bus_bytes_over_time(records, edges)
    seconds = np.diff(edges) / PS_PER_S
    read, write = read / seconds / _BYTES_PER_GB, write / seconds / _BYTES_PER_GB
    peak = records.board.dram_bandwidth_bytes_per_s / _BYTES_PER_GB
    bus_total = int(records.bus_read_bytes.sum() + records.bus_write_bytes.sum())
    mean = bus_total * PS_PER_S / records.time_ps / _BYTES_PER_GB
    unit, scale = time_unit(records.time_ps)
    figure = new_figure(
        4.2,
        title,
        f"bytes on the bus of {records.board.name}: mean {mean:.1f} GB/s of {peak:.1f} GB/s peak, {100 * mean / peak:.1f} %",
    )
    axes = figure.subplots()
    at = (edges - begin) / scale
    axes.stairs(read, at, fill=True, color=BLUE)
    axes.stairs(read + write, at, baseline=read, fill=True, color=VERMILION)
    axes.axhline(peak, color=BLACK, lw=1.5)
    axes.axhline(mean, color=BLACK, lw=1.2, ls=(0, (5, 3)))
    axes.set_xlim(0, at[-1])
    axes.set_ylim(0, 1.08 * max(peak, float((read + write).max())))
    axes.set_xlabel(f"time since the launch [{unit}]")
    axes.set_ylabel("GB/s")
    axes.grid(axis="y", color=GREY, alpha=0.3)
    legend_below(
        figure,
        [
            Patch(facecolor=BLUE, label="read"),
            Patch(facecolor=VERMILION, label="write (stacked on read)"),
            Line2D([], [], color=BLACK, lw=1.5, label="peak of the board"),
            Line2D([], [], color=BLACK, lw=1.2, ls=(0, (5, 3)), label="mean of the run"),
        ],
    )
    return figure
