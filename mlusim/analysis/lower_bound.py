"""The lower bound of a run's time, and the attribution of the time above it.

The lower bound is the larger of two bounds: the compulsory bytes (`Metrics.compulsory_bytes`) at the DRAM's nominal
bandwidth, and the operator's operations, if declared, on the vector pipes of all cores. The simulated time above it is
attributed completely, core by core. First, the bound is deducted from a core's time, in this order: transfers (for a
compute bound, vector compute first), then the core's other activities, idle time last. The remainder has the causes of
`breakdown`; waiting for bandwidth and transfer time are first explained by losses of the DRAM, as far as they go:

1. `extra_bytes`: bus bytes beyond the compulsory ones: partial units, read-modify-write, repeated transfers;
2. `contiguous`: contiguous reads and writes below the nominal bandwidth;
3. `strided`: the additional loss of strided copies;
4. `mixed`: reads and writes in flight together;
5. `shared_bandwidth`: the rest of the waiting: contention for the DRAM or the cluster's port;
6. `port`: the rest of the transfer time: a core's own port is slower than its share of the DRAM.

The losses before these keep the order of `breakdown`: launch, latency, compute, syncs and idle time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.intervals import gaps, intervals, union
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import parts_of, windows
from mlusim.analysis.metrics import Metrics
from mlusim.arrays import Integers
from mlusim.hardware import Board
from mlusim.log import VECTOR
from mlusim.units import PS_PER_S, ceil_div

LOSSES: dict[str, str] = {
    "launch": "launch overhead",
    "latency": "exposed DMA latency and instruction issue",
    "extra_bytes": "DRAM: bytes beyond the compulsory ones",
    "contiguous": "DRAM: contiguous access below peak",
    "strided": "DRAM: strided access",
    "mixed": "DRAM: reads and writes mixed",
    "shared_bandwidth": "bandwidth contention",
    "port": "bandwidth of the cores' ports",
    "compute": "exposed compute and on-chip copies",
    "sync": "syncs and barriers",
    "idle": "load imbalance and tail",
}

# Loss that the remainder of each cause of `breakdown` counts as.
_GROUPS = {
    "transfer": "port",
    "bandwidth_wait": "shared_bandwidth",
    "on_chip_copy": "compute",
    "vector": "compute",
    "scalar": "compute",
    "dma_latency": "latency",
    "sync": "sync",
    "issue": "latency",
    "launch": "launch",
    "idle": "idle",
}
_MOVING_FIRST = [
    *("transfer", "bandwidth_wait", "vector", "on_chip_copy", "scalar", "dma_latency"),
    *("sync", "issue", "launch", "idle"),
]
_COMPUTE_FIRST = ["vector", *(name for name in _MOVING_FIRST if name != "vector")]

# The parameters that a loss depends on most; below, those of compute by pipe.
PARAMETERS_OF_LOSS = {
    "launch": ("kernel_start_ps", "cluster_start_ps", "kernel_end_ps", "wave_ps", "queued_kernel_gap_ps"),
    "latency": ("dma_read_latency_ps", "dma_write_latency_ps", "issue_cycles"),
    "extra_bytes": ("dram_unit_bytes",),
    "contiguous": ("dram_read_efficiency", "dram_write_efficiency"),
    "strided": ("dram_strided_read_efficiency", "dram_strided_write_efficiency"),
    "mixed": ("dram_mixed_efficiency",),
    "shared_bandwidth": ("cluster_read_bandwidth_bytes_per_s", "cluster_write_bandwidth_bytes_per_s"),
    "port": ("core_read_bandwidth_bytes_per_s", "core_write_bandwidth_bytes_per_s", "dma_segment_ps"),
    "compute": ("vector_startup_cycles",),
    "sync": ("cluster_barrier_ps", "union_barrier_ps"),
    "idle": (),
}
_PARAMETERS_OF_COMPUTE = {
    "tensor": ("tensor_efficiency", "tensor_startup_cycles"),
    "vector": ("vector_startup_cycles",),
    "on_chip_copy": ("move_startup_cycles", "sram_latency_ps"),
    "scalar": ("scalar_gdram_latency_ps", "scalar_nram_cycles"),
}
_LISTED = 3


@dataclass(frozen=True, slots=True, eq=False)
class LowerBound:
    """The lower bound of a run, and the losses above it.

    Attributes:
        io_ps: compulsory bytes at the nominal bandwidth.
        compute_ps: the operator's operations at the peak of all vector pipes, or of all tensor pipes if those ran; 0 if
            the run is faster, by instructions of several operations each: then that peak is not a bound.
        time_ps: the larger of the two, at most the run's time.
        core_losses_ps: (cores, losses) picoseconds of each core above the bound by cause, in the order of `LOSSES`;
            each row sums to the run's time minus the lower bound.
        losses_ps: the sums over the cores, by name.
    """

    io_ps: int
    compute_ps: int
    time_ps: int
    losses_ps: Mapping[str, int]
    core_losses_ps: Integers = field(repr=False)

    @property
    def largest_loss(self) -> str:
        """Name of the largest loss."""
        return max(self.losses_ps, key=lambda name: self.losses_ps[name])


def lower_bound_of(records: LogColumns, metrics: Metrics) -> LowerBound:
    """Return the lower bound of a run and the losses above it."""
    board = records.board
    compulsory = metrics.compulsory_bytes
    io_ps = _time_ps(sum(compulsory.values()), board.dram_bandwidth_bytes_per_s)
    compute_ps = _time_ps(metrics.theory_ops or 0, _most_ops_per_s(records, metrics))
    if compute_ps > metrics.time_ps:
        compute_ps = 0
    bound_ps = min(max(io_ps, compute_ps), metrics.time_ps)
    remaining = {name: metrics.core_causes_ps[:, index].copy() for index, name in enumerate(CAUSES)}
    _deduct(remaining, _COMPUTE_FIRST if compute_ps > io_ps else _MOVING_FIRST, bound_ps)
    losses = {name: np.zeros(board.cores, np.int64) for name in LOSSES}
    for name, lost_ps in _dram_losses(records, sum(compulsory.values())).items():
        losses[name] += _deduct(remaining, ["bandwidth_wait", "transfer"], lost_ps)
    for name, remaining_ps in remaining.items():
        losses[_GROUPS[name]] += remaining_ps
    table = np.stack([losses[name] for name in LOSSES], axis=1)
    totals = {name: int(total) for name, total in zip(LOSSES, table.sum(axis=0), strict=True)}
    return LowerBound(io_ps, compute_ps, bound_ps, totals, table)


def most_sensitive_to(board: Board, bound: LowerBound, metrics: Metrics) -> list[str]:
    """Return the parameters without a public source that determine most of the time above the lower bound, in order."""
    spent_ps = metrics.where_time_went
    computing = sorted(("vector", "on_chip_copy", "scalar"), key=lambda name: -spent_ps[name])
    if metrics.peak_pipe == "tensor":
        computing.insert(computing.index("vector"), "tensor")
    uncertain: list[str] = []
    for name, lost_ps in sorted(bound.losses_ps.items(), key=lambda item: -item[1]):
        if lost_ps:
            keys = PARAMETERS_OF_LOSS[name]
            if name == "compute":
                keys = tuple(key for part in computing if spent_ps.get(part, 1) for key in _PARAMETERS_OF_COMPUTE[part])
            uncertain += [key for key in keys if board.sources[key].startswith(("ASSUMED", "fitted"))]
    return uncertain[:_LISTED]


def _time_ps(amount: int, per_s: int) -> int:
    return ceil_div(amount * PS_PER_S, per_s) if per_s else 0


def _most_ops_per_s(records: LogColumns, metrics: Metrics) -> int:
    """Return the peak of the operations: T's, or more if vector instructions processed narrower elements.

    A vector instruction processes a fixed number of bytes per cycle (G 5.3).
    """
    board = records.board
    if metrics.peak_pipe == "tensor":
        return metrics.peak_ops_per_s
    itemsizes = np.array([box.itemsize for box in records.log.boxes] + [0])
    narrowest = board.vector_bytes_per_cycle
    for part in parts_of(records):
        vector = part.pipe == VECTOR
        widest = np.maximum(itemsizes[part.dst_box[vector]], itemsizes[part.a_box[vector]])
        narrowest = min([narrowest, *np.unique(widest[widest > 0]).tolist()])
    per_cycle = board.vector_bytes_per_cycle // narrowest
    return max(metrics.peak_ops_per_s, per_cycle * board.cores * board.clock_hz)


def _deduct(remaining: dict[str, Integers], order: list[str], amount_ps: int) -> Integers:
    """Deduct up to `amount_ps` per core from the causes in order; return the amount deducted per core."""
    amount_left = np.full(len(next(iter(remaining.values()))), amount_ps, np.int64)
    for name in order:
        part = np.minimum(amount_left, remaining[name])
        remaining[name] -= part
        amount_left -= part
    return amount_ps - amount_left


def _dram_losses(records: LogColumns, compulsory: int) -> dict[str, int]:
    """Return the time lost by the DRAM to each cause over the whole run."""
    board = records.board
    peak = board.dram_bandwidth_bytes_per_s / PS_PER_S
    bytes_read = bytes_written = strided_read = strided_written = 0
    for part in parts_of(records):
        strided = part.strided
        bytes_read += int(part.bus_read_bytes.sum())
        bytes_written += int(part.bus_write_bytes.sum())
        strided_read += int(part.bus_read_bytes[strided].sum())
        strided_written += int(part.bus_write_bytes[strided].sum())
    best_read, best_write = 1 / board.dram_read_efficiency, 1 / board.dram_write_efficiency
    contiguous = bytes_read * (best_read - 1) + bytes_written * (best_write - 1)
    extra_work = strided_read * (1 / board.dram_strided_read_efficiency - best_read)
    extra_work += strided_written * (1 / board.dram_strided_write_efficiency - best_write)
    return {
        "extra_bytes": round(max(bytes_read + bytes_written - compulsory, 0) / peak),
        "contiguous": round(contiguous / peak),
        "strided": round(extra_work / peak),
        "mixed": round(mixed_ps(records) * (1 - board.dram_mixed_efficiency)),
    }


def mixed_ps(records: LogColumns) -> int:
    """Return the transfer time with reads and writes of DRAM in flight together, as defined by the link."""
    reach_ps = min(records.board.dram_mixing_ps, records.time_ps)  # time after the run does not count
    return sum(_mixed_ps(window, reach_ps) for window in windows(records, reach_ps=reach_ps))


def _mixed_ps(records: LogColumns, mixing_ps: int) -> int:
    low, high = records.start_of_run_ps, records.end_of_run_ps
    moves = records.is_copy & (records.bus_read_bytes + records.bus_write_bytes > 0)
    reads = moves & (records.bus_read_bytes > 0) & ~records.is_write
    pauses = []
    for selected, more_ps in ((moves, 0), (reads, mixing_ps), (moves & records.is_write, mixing_ps)):
        start = records.moving_ps[selected]
        extended = union(intervals(np.zeros(len(start), np.int64), start, records.end_ps[selected] + more_ps))
        pauses.append(gaps(extended, 1, low, high))
    mixed = gaps(union(*pauses), 1, low, high)
    return int((mixed[:, 2] - mixed[:, 1]).sum())
