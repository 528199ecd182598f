"""The metrics of a run, computed from its log: time, bytes, efficiencies, peaks, time by cause.

Definitions of io_efficiency and compute_efficiency, and the bar of 60 % and 30 %: the vendor's acceptance standard
for operators and its test framework (docs/hardware.md, P and T).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.records import Integers, Records
from mlusim.analysis.totals import Totals
from mlusim.cores.instructions.tensor import TENSOR_OPERATIONS, peak_ops_per_cycle
from mlusim.dtypes import dtype_of
from mlusim.hardware import Board
from mlusim.log import NONE, AllocationRecord, Log
from mlusim.memory.kinds import MemoryKind
from mlusim.units import PS_PER_S, PS_PER_US, ps_to_cycles, round_up

# The vendor's acceptance bar for operators that only move data (P).
NETWORK_BAR = 0.60
ANY_SHAPE_BAR = 0.30

_HALF_TYPES = frozenset({"float16", "bfloat16"})


@dataclass(frozen=True, kw_only=True, eq=False)
class Metrics:
    """All figures of a run. A core-picosecond is one picosecond of one MLU core.

    Attributes:
        time_ps: start of the first launch to end of the last; 0 where nothing was launched.
        cycles: the same in cycles of the core clock, rounded up.
        bytes_requested: bytes that the kernels requested, by direction of copy (`GDRAM2NRAM`, ...); scalar accesses
            to off-chip memory under `scalar GDRAM load`, `scalar GDRAM store` and the same of LDRAM.
        bus_bytes: bytes on the DRAM bus, `read` and `write`: whole units, read-modify-write included.
        compulsory_bytes: what must move for this call's data, as `read` and `write`: inputs and outputs once (the
            host's allocations in GDRAM), but no more than the run moved, where it moved any: of a table, the rows that
            were looked up or updated.
        theory_io_bytes: the vendor's count: all tensors once, whether this call's data needs all of them or not.
        theory_ops: operations that the operator itself needs; 0 for pure data movement; None where nobody declared any.
        io_efficiency: compulsory bytes / (time x peak bandwidth): at most 1; 0 where time is.
        vendor_io_efficiency: the vendor's: theory_io_bytes / (time x peak bandwidth). Above 1 where a call needs less
            than all of its tensors.
        compute_efficiency: theory_ops / (time x peak_ops_per_s); 0 where time is; None where theory_ops is.
        peak_bandwidth_bytes_per_s: of the board's DRAM.
        peak_ops_per_s: of all cores' tensor pipes where they were used, at the rate for the weights' element type; else
            of all vector pipes, at the rate for the output's element type.
        peak_pipe: which of them, `tensor` or `vector`.
        verdict: the vendor's io_efficiency against the vendor's bar, in words.
        bottleneck: `io` or `compute`: the side with the larger efficiency; `unknown` where theory_ops is.
        peak_nram_bytes: the most that any one core had allocated at once, rounding to the alignment included.
        peak_sram_bytes: the same of any cluster's SRAM.
        operations: instructions by name; a counted operation counts as what it stands for.
        records: records in the log.
        where_time_went: core-picoseconds of all MLU cores by cause (`breakdown.CAUSES`); they sum to core_time_ps.
        core_time_ps: MLU cores times time_ps.
        core_causes_ps: (cores, causes) the same for each core; each row sums to time_ps.
        pipe_busy_ps: time that the pipes of all cores and memory cores worked, by pipe.
        task_busy_ps: (tasks,) time in which any pipe of the task worked.
        task_idle_ps: (tasks,) the rest of each task's time: issuing, syncs, barriers.
    """

    time_ps: int
    cycles: int
    bytes_requested: Mapping[str, int]
    bus_bytes: Mapping[str, int]
    theory_io_bytes: int
    compulsory_bytes: Mapping[str, int]
    theory_ops: int | None
    io_efficiency: float
    vendor_io_efficiency: float
    compute_efficiency: float | None
    peak_bandwidth_bytes_per_s: int
    peak_ops_per_s: int
    peak_pipe: str
    verdict: str
    bottleneck: str
    peak_nram_bytes: int
    peak_sram_bytes: int
    operations: Mapping[str, int]
    records: int
    where_time_went: Mapping[str, int]
    core_time_ps: int
    pipe_busy_ps: Mapping[str, int]
    core_causes_ps: Integers = field(repr=False)
    task_busy_ps: Integers = field(repr=False)
    task_idle_ps: Integers = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"<metrics: {self.time_ps / PS_PER_US:.2f} us, io_efficiency {self.io_efficiency:.1%}, "
            f"DRAM bus {self.bus_bytes['read']} B read and {self.bus_bytes['write']} B written>"
        )


def measure(
    log: Log, board: Board, *, theory_ops: int | None = None, tensor_bytes: Mapping[str, int] | None = None
) -> Metrics:
    """All figures of a log.

    Args:
        log: of a device of `board`.
        theory_ops: operations that the operator needs, whatever the kernel does; 0 for pure data movement; None:
            unknown.
        tensor_bytes: inputs (`read`) and outputs (`write`), once; by default every allocation that the host made in
            GDRAM.

    The peak for compute_efficiency is T's vector peak: the half rate where the first output (the first allocation of
    the host that kernels may write) is float16 or bfloat16, the float rate otherwise. For a kernel that uses the
    tensor pipe it is that pipe's peak.
    """
    records = Records(log, board)
    time_ps = records.time_ps
    totals = Totals(records)
    tensors = _host_tensors(log)
    if tensor_bytes is None:
        tensor_bytes = {
            "read": sum(record.nbytes for record in tensors if record.read_only),
            "write": sum(record.nbytes for record in tensors if not record.read_only),
        }
    theory_io_bytes = sum(tensor_bytes.values())
    bus = totals.bus_bytes
    compulsory = {way: min(nbytes, bus[way] or nbytes) for way, nbytes in tensor_bytes.items()}
    peak_pipe = "tensor" if TENSOR_OPERATIONS.intersection(totals.operations) else "vector"
    peak_ops = _tensor_peak(log, board) if peak_pipe == "tensor" else _vector_peak(log, board)
    peak_io = board.dram_bandwidth_bytes_per_s
    # More than 1 would be a run that is not complete: one that has not touched its output at all.
    io_efficiency = min(_efficiency(sum(compulsory.values()), time_ps, peak_io), 1.0)
    vendor_io_efficiency = _efficiency(theory_io_bytes, time_ps, peak_io)
    compute_efficiency = None if theory_ops is None else _efficiency(theory_ops, time_ps, peak_ops)
    causes, busy = totals.causes_ps, totals.task_busy_ps
    return Metrics(
        time_ps=time_ps,
        cycles=ps_to_cycles(time_ps, board.clock_hz),
        bytes_requested=totals.bytes_requested,
        bus_bytes=bus,
        theory_io_bytes=theory_io_bytes,
        compulsory_bytes=compulsory,
        theory_ops=theory_ops,
        io_efficiency=io_efficiency,
        vendor_io_efficiency=vendor_io_efficiency,
        compute_efficiency=compute_efficiency,
        peak_bandwidth_bytes_per_s=board.dram_bandwidth_bytes_per_s,
        peak_ops_per_s=peak_ops,
        peak_pipe=peak_pipe,
        verdict=verdict(vendor_io_efficiency),
        bottleneck=_bottleneck(io_efficiency, compute_efficiency),
        peak_nram_bytes=peak_bytes(log, MemoryKind.NRAM, board.vector_alignment_bytes),
        peak_sram_bytes=peak_bytes(log, MemoryKind.SRAM, board.vector_alignment_bytes),
        operations=totals.operations,
        records=len(records),
        where_time_went={name: int(total) for name, total in zip(CAUSES, causes.sum(axis=0), strict=True)},
        core_time_ps=board.cores * time_ps,
        pipe_busy_ps=totals.pipe_busy_ps,
        core_causes_ps=causes,
        task_busy_ps=busy,
        task_idle_ps=records.task_end_ps - records.task_start_ps - busy,
    )


def _bottleneck(io_efficiency: float, compute_efficiency: float | None) -> str:
    if compute_efficiency is None:
        return "unknown"
    return "compute" if compute_efficiency > io_efficiency else "io"


def verdict(io_efficiency: float) -> str:
    """The vendor's io_efficiency against the vendor's bar (P), in words."""
    if io_efficiency > 1:
        return "above 100 %: the call needs less than all of its tensors, and the vendor counts all"
    network, any_shape = f"{100 * NETWORK_BAR:.0f} %", f"{100 * ANY_SHAPE_BAR:.0f} %"
    if io_efficiency >= NETWORK_BAR:
        return f"meets the vendor's bar: {network} on network shapes"
    if io_efficiency >= ANY_SHAPE_BAR:
        return f"meets the vendor's bar for any shape ({any_shape}), not for network shapes ({network})"
    return f"below the vendor's bar: {network} on network shapes, {any_shape} on any shape"


def peak_bytes(log: Log, kind: MemoryKind, alignment_bytes: int) -> int:
    """The most that any one memory of a kind had allocated at once, each allocation rounded up to the alignment.

    Buffers that were freed at the time at which they were made count each alone.
    """
    owners: dict[str, int] = {}
    events: list[tuple[int, int, int]] = []
    peak = 0
    for record in log.allocations:
        if record.memory != kind.value:
            continue
        owner = owners.setdefault(record.memory_name, len(owners))
        size = max(round_up(record.nbytes, alignment_bytes), alignment_bytes)
        peak = max(peak, size)
        if record.end_ps != record.start_ps:
            events.append((owner, record.start_ps, size))
            if record.end_ps != NONE:
                events.append((owner, record.end_ps, -size))
    used, last_owner = 0, NONE
    # At one time what is freed comes first: it made room for what is allocated.
    for owner, _, size in sorted(events):
        used = size if owner != last_owner else used + size
        last_owner = owner
        peak = max(peak, used)
    return peak


def _host_tensors(log: Log) -> list[AllocationRecord]:
    return [
        record
        for record in log.allocations
        if record.task == NONE and record.memory == MemoryKind.GDRAM.value and not record.workspace
    ]


def _vector_peak(log: Log, board: Board) -> int:
    """Operations per second of all cores' vector pipes, as T reckons."""
    output = next((record.dtype for record in _host_tensors(log) if not record.read_only), "")
    half = output in _HALF_TYPES
    per_cycle = board.vector_peak_ops_per_cycle_fp16 if half else board.vector_peak_ops_per_cycle_fp32
    return per_cycle * board.cores * board.clock_hz


def _tensor_peak(log: Log, board: Board) -> int:
    """Operations per second of all cores' tensor pipes, for the narrowest elements that WRAM held."""
    weights = (dtype_of(record.dtype).itemsize for record in log.allocations if record.memory == MemoryKind.WRAM.value)
    return peak_ops_per_cycle(board, min(weights, default=1)) * board.cores * board.clock_hz


def _efficiency(amount: int, time_ps: int, peak_per_s: int) -> float:
    return amount * PS_PER_S / (time_ps * peak_per_s) if time_ps and peak_per_s else 0.0
