"""Achieved DRAM bandwidth over time, compared with the board's peak."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlusim.analysis.canvas import Canvas
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import parts_of
from mlusim.analysis.plot import Plot, left_of
from mlusim.analysis.style import BLACK, READ, WRITE, time_unit
from mlusim.arrays import Integers, Numbers
from mlusim.units import GIGA, PS_PER_S, percent

_MAGNIFY_BELOW = 0.3
_PANEL_PX = 340
_ROUNDS, _TOLERANCE = 50, 0.005


def bus_bytes_over_time(records: LogColumns, edges: Integers) -> tuple[Numbers, Numbers]:
    """Return the bytes read and the bytes written on the DRAM bus, by time bin.

    The log contains the total of a transfer, not its rate over time. Its bytes are spread evenly over its transfer
    time, and then moved, within that time, away from bins in which the DRAM would exceed its best efficiency. Bytes are
    conserved over the part of the run spanned by `edges` (ascending, picoseconds).
    """
    # Transfers within a single bin are just summed; the others are few, however long the log is.
    within_bins = np.zeros((2, len(edges) - 1))
    across_bins = []
    for part in parts_of(records):
        transfers, first, last = _transfers(part, edges)
        in_one_bin = first == last
        for row, nbytes in enumerate(transfers[:2]):
            within_bins[row] += _by_bin(first[in_one_bin], nbytes[in_one_bin], edges)
        across_bins.append(np.concatenate([transfers, [first, last]])[:, ~in_one_bin])
    reads, writes = _spread_over_bins(records, np.concatenate(across_bins, axis=1), within_bins.sum(axis=0), edges)
    return within_bins[0] + reads, within_bins[1] + writes


def _spread_over_bins(
    records: LogColumns, transfers: Numbers, others: Numbers, edges: Integers
) -> tuple[Numbers, Numbers]:
    """Return the bytes that transfers read and write by time bin, in addition to `others`.

    transfers: (6, transfers) bytes read and written, start and end, first and last bin.
    """
    read, write, start, end, first, last = transfers
    # A cell is a bin of a transfer.
    cells = (last - first + 1).astype(np.int64)
    transfer = np.repeat(np.arange(len(cells)), cells)
    first_cell = np.cumsum(cells) - cells
    bin_index = np.arange(int(cells.sum())) - first_cell[transfer] + first.astype(np.int64)[transfer]
    overlap = np.minimum(end[transfer], edges[bin_index + 1]) - np.maximum(start[transfer], edges[bin_index])
    amount = read + write
    amount_in_cell = amount[transfer] * np.maximum(overlap, 0) / (end - start)[transfer]
    board = records.board
    capacity = np.diff(edges) * (board.dram_bandwidth_bytes_per_s * board.dram_read_efficiency / PS_PER_S)
    for _ in range(_ROUNDS):
        load = (others + _by_bin(bin_index, amount_in_cell, edges)) / capacity
        if load.max(initial=0.0) <= 1 + _TOLERANCE:
            break
        amount_in_cell /= np.maximum(load, 1)[bin_index]
        amount_in_cell *= (amount / np.bincount(transfer, amount_in_cell, minlength=len(cells)))[transfer]
    read_in_cell = amount_in_cell * (read / amount)[transfer]
    return _by_bin(bin_index, read_in_cell, edges), _by_bin(bin_index, amount_in_cell - read_in_cell, edges)


def _transfers(records: LogColumns, edges: Integers) -> tuple[Numbers, Integers, Integers]:
    """(4, transfers) bytes read and written, start and end of transfers; by transfer, its first and last bin.

    Times are picoseconds within `edges`; as floats they are exact below 2.5 hours, and for longer runs more precise
    than a bin.
    """
    moving = np.flatnonzero(records.bus_read_bytes + records.bus_write_bytes)
    start = np.maximum(records.moving_ps[moving], edges[0])
    end = np.maximum(np.minimum(records.end_ps[moving], edges[-1]), start + 1)
    first = np.clip(np.searchsorted(edges, start, side="right") - 1, 0, len(edges) - 2)
    last = np.clip(np.searchsorted(edges, end, side="left") - 1, first, len(edges) - 2)
    columns = (records.bus_read_bytes[moving], records.bus_write_bytes[moving], start, end)
    return np.array(columns, np.float64), first, last


def _by_bin(bin_index: Integers, amount: Numbers, edges: Integers) -> Numbers:
    return np.bincount(bin_index, amount, minlength=len(edges) - 1).astype(np.float64)


class Bandwidth(NamedTuple):
    """The bandwidth of a run, in GB/s.

    Attributes:
        edges_ps: by time bin, its start on the clock of the log; last, the end of the last bin.
        read, write: by time bin.
        peak, mean: of the board and of the run.
    """

    edges_ps: Integers
    read: Numbers
    write: Numbers
    peak: float
    mean: float


def bandwidth_of(records: LogColumns, bins: int = 300) -> Bandwidth:
    """Return the bandwidth of a run that took time, in equal time bins; fewer bins if the run is shorter than that."""
    start_ps, end_ps = records.start_of_run_ps, records.end_of_run_ps
    edges_ps = np.unique(np.linspace(start_ps, end_ps, bins + 1).round().astype(np.int64))
    seconds = np.diff(edges_ps) / PS_PER_S
    read, write = (nbytes / seconds / GIGA for nbytes in bus_bytes_over_time(records, edges_ps))
    peak = records.board.dram_bandwidth_bytes_per_s / GIGA
    bus_bytes = sum(int(part.bus_read_bytes.sum() + part.bus_write_bytes.sum()) for part in parts_of(records))
    return Bandwidth(edges_ps, read, write, peak, bus_bytes * PS_PER_S / records.time_ps / GIGA)


def draw_bandwidth(records: LogColumns, title: str, about: str) -> Canvas:
    """Draw the bandwidth of reads and writes over time, stacked, with the board's peak and the run's mean."""
    if not records.time_ps:
        canvas = Canvas(title, about)
        canvas.message("nothing was launched: no byte moved")
        return canvas
    edges_ps, read, write, peak, mean = bandwidth_of(records)
    unit, scale = time_unit(records.time_ps)
    edges = (edges_ps - edges_ps[0]) / scale
    highest = float((read + write).max())
    # A curve far below the peak gets a second panel with its own scale.
    tops = [1.08 * max(peak, highest)] + [1.08 * highest] * (0 < highest < _MAGNIFY_BELOW * peak)
    canvas = Canvas(
        title,
        about,
        f"bytes on the bus, read-modify-write included: mean {mean:.1f} GB/s, {percent(mean / peak)} of the peak of "
        f"{peak:.1f} GB/s",
    )
    plot_left = max(left_of(Plot.y_ticks((0, top))[1], 10, label=True) for top in tops)
    for top in tops:
        plot = Plot(canvas, plot_left, _PANEL_PX / len(tops) + 50, x=(0, float(edges[-1])), y=(top, 0))
        plot.y_grid()
        plot.rectangles(edges[:-1], edges[1:], read, 0, READ)
        plot.rectangles(edges[:-1], edges[1:], read + write, read, WRITE)
        if peak < top:
            plot.horizontal_line(peak, 2.5, BLACK)
        if mean < top:
            plot.horizontal_line(mean, 2, BLACK, dashes=True)
        plot.y_axis("on the DRAM bus [GB/s]" if top == tops[0] else "magnified [GB/s]")
        plot.x_axis(f"time since the first launch [{unit}]" if top == tops[-1] else "")
    canvas.legend(
        [
            ("read", READ, "box"),
            ("write (stacked on read)", WRITE, "box"),
            ("peak of the board", BLACK, "line"),
            ("mean of the run", BLACK, "dashes"),
        ]
    )
    return canvas
