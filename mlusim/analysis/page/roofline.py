"""The roofline of a run: the compute roof and the bandwidth roof."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.metrics import ANY_SHAPE_BAR, NETWORK_BAR, Metrics
from mlusim.analysis.style import BLACK, GREY, PURPLE, ROOF, ROOFS_TOGETHER
from mlusim.units import GIB, GIGA, KIB, PS_PER_S, format_us

_POINTS = 60
_MARGIN = 30.0
# GB/s of a byte per picosecond.
_PER_PS = PS_PER_S / GIGA


class Roof(NamedTuple):
    """A line above all runs, or a bar to compare with."""

    name: str
    colour: str
    x: list[float]
    y: list[float]
    is_bar: bool = False


class Point(NamedTuple):
    """The point of the run."""

    name: str
    x: float
    y: float


class Roofline(NamedTuple):
    """A chart on logarithmic axes.

    Attributes:
        x_label, quantity, unit: label of the horizontal axis; what the vertical one shows, and its unit.
        roofs, points: its lines and points.
        about: the lines of text below its title.
    """

    x_label: str
    quantity: str
    unit: str
    roofs: list[Roof]
    points: list[Point]
    about: tuple[str, str]

    @property
    def y_label(self) -> str:
        """Label of the vertical axis."""
        return f"{self.quantity} [{self.unit}]"


def roofline(records: LogColumns, metrics: Metrics) -> Roofline | None:
    """Return the roofs and the run; None if it took no time, or had nothing to move."""
    if not metrics.time_ps or not sum(metrics.compulsory_bytes.values()):
        return None
    return _compute(metrics, metrics.theory_ops) if metrics.theory_ops else _movement(records, metrics)


def _compute(metrics: Metrics, operations: int) -> Roofline:
    """Operations per second over operations per byte of DRAM traffic."""
    seconds = metrics.time_ps / PS_PER_S
    rate = operations / seconds / GIGA
    bus, compulsory = sum(metrics.bus_bytes.values()), sum(metrics.compulsory_bytes.values())
    points = [Point("this run, by its compulsory bytes", operations / compulsory, rate)]
    if bus:
        points.append(Point("this run, by its bytes on the bus", operations / bus, rate))
    peak_ops, peak_bytes = metrics.peak_ops_per_s / GIGA, metrics.peak_bandwidth_bytes_per_s / GIGA
    ridge = peak_ops / peak_bytes
    low = min(ridge, *(point.x for point in points)) / _MARGIN
    high = max(ridge, *(point.x for point in points)) * _MARGIN
    roofs = [
        Roof("DRAM at its peak", BLACK, [low, ridge], [low * peak_bytes, peak_ops]),
        Roof(f"{metrics.peak_pipe} pipes of all cores at their peak", PURPLE, [ridge, high], [peak_ops, peak_ops]),
    ]
    side = "DRAM" if points[0].x < ridge else f"the {metrics.peak_pipe} pipes"
    about = (
        f"The operator needs {points[0].x:.3g} operations for each byte that it must move.",
        f"Below {ridge:.3g}, DRAM is the limit, and above it the {metrics.peak_pipe} pipes: here it is {side}.",
    )
    return Roofline("operations for each byte [op/B]", "throughput", "Gop/s", roofs, points, about)


def _movement(records: LogColumns, metrics: Metrics) -> Roofline:
    """Bytes per second over bytes: a small tensor is limited by launch and latency, a large one by the DRAM."""
    board = records.board
    fixed_ps = board.kernel_start_ps + board.kernel_end_ps
    fixed_ps += board.dma_read_latency_ps * bool(metrics.bus_bytes["read"])
    fixed_ps += board.dma_write_latency_ps * bool(metrics.bus_bytes["write"])
    nbytes = sum(metrics.compulsory_bytes.values())
    peak = metrics.peak_bandwidth_bytes_per_s / GIGA
    low = min(nbytes / _MARGIN, KIB)
    x = np.geomspace(low, max(nbytes * _MARGIN, GIB), _POINTS)
    # Bytes per picosecond are terabytes per second.
    latency_x = np.geomspace(low, min(2 * fixed_ps * peak / _PER_PS, x[-1]), 2) if fixed_ps else x[:0]
    combined = x / (fixed_ps + x / peak * _PER_PS) * _PER_PS

    def line(name: str, colour: str, y: object, *, is_bar: bool = False) -> Roof:
        return Roof(name, colour, x.tolist(), np.broadcast_to(np.asarray(y, float), x.shape).tolist(), is_bar)

    roofs = [
        line("DRAM at its peak", BLACK, peak),
        Roof("launch and latency alone", ROOF, latency_x.tolist(), (latency_x / max(fixed_ps, 1) * _PER_PS).tolist()),
        line("both: fixed time, then bytes at peak", ROOFS_TOGETHER, combined),
        line(f"vendor's bar for network shapes, {100 * NETWORK_BAR:.0f} %", GREY, NETWORK_BAR * peak, is_bar=True),
        line(f"vendor's bar for any shape, {100 * ANY_SHAPE_BAR:.0f} %", GREY, ANY_SHAPE_BAR * peak, is_bar=True),
    ]
    achieved = nbytes / metrics.time_ps * _PER_PS
    points = [Point("this run: compulsory bytes over its time", float(nbytes), achieved)]
    bus = sum(metrics.bus_bytes.values())
    if bus:
        points.append(Point("this run: bytes on the bus over its time", float(bus), bus / metrics.time_ps * _PER_PS))
    half = fixed_ps * peak / _PER_PS
    reason = (
        "The kernel's operations are not declared (theory_ops), so its compute roof is unknown."
        if metrics.theory_ops is None
        else "The operator only moves data, so its roof is bandwidth."
    )
    fixed = (
        f"Launch and latency take {format_us(fixed_ps)} at any size: below {half / KIB:.4g} KiB they cost more "
        "than moving the bytes at the DRAM's peak."
    )
    return Roofline("bytes moved [B]", "bandwidth", "GB/s", roofs, points, (reason, fixed))
