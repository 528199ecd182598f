"""The metrics of a run, computed from its log: time, bytes, efficiencies, peaks, time by cause.

The definitions of io_efficiency and compute_efficiency, and the thresholds of 60 % and 30 %, are those of the vendor's
acceptance standard for operators and of its test framework (docs/hardware.md, P and T).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.tensor_bytes import bytes_by_allocation, compulsory_by_allocation
from mlusim.analysis.totals import Totals
from mlusim.arrays import Integers
from mlusim.cores.instructions.tensor import TENSOR_OPERATIONS
from mlusim.cores.instructions.tensor_pipe import peak_ops_per_cycle
from mlusim.dtypes import INT8, dtype_of
from mlusim.hardware import Board
from mlusim.inputs import check_operations
from mlusim.log import NONE, Log
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.sizes import memory_sizes
from mlusim.units import PS_PER_S, format_us, percent, ps_to_cycles

# The vendor's acceptance thresholds for operators that only move data (P).
NETWORK_BAR = 0.60
ANY_SHAPE_BAR = 0.30

_HALF_RATE_TYPES = frozenset({"float16", "bfloat16", "int16"})


@dataclass(frozen=True, kw_only=True, eq=False)
class Metrics:
    """All figures of a run. A core-picosecond is one picosecond of one MLU core.

    Attributes:
        time_ps: from the start of the first launch to the end of the last; 0 if nothing was launched.
        cycles: the same in cycles of the core clock, rounded up.
        bytes_requested: bytes requested by the kernels, by direction of copy (`GDRAM2NRAM`, ...); scalar accesses to
            off-chip memory under `scalar GDRAM load`, `scalar GDRAM store`, and likewise for LDRAM.
        bus_bytes: bytes on the DRAM bus, `read` and `write`: whole units, including read-modify-write.
        compulsory_bytes: bytes that any kernel must move for this call's data, `read` and `write`: every input and
            output (the host's allocations in GDRAM) once. Where the run moved only a part of a tensor, such as some
            rows of a lookup table, the bus units of that part count.
        theory_io_bytes: the vendor's definition: all tensors once, even if this call's data needs only a part of them.
        theory_ops: operations that the operator itself requires; 0 for pure data movement; None if not declared.
        io_efficiency: compulsory bytes / (time x peak bandwidth): at most 1; None if nothing moved on the DRAM bus.
        vendor_io_efficiency: the vendor's definition: theory_io_bytes / (time x peak bandwidth). Exceeds 1 if a call
            needs only a part of its tensors; None as io_efficiency is.
        compute_efficiency: theory_ops / (time x peak_ops_per_s); 0 if the time is 0; None if theory_ops is.
        peak_bandwidth_bytes_per_s: of the board's DRAM.
        peak_ops_per_s: of all cores' tensor pipes if used, at the rate for the weights' element type; else of all
            vector pipes, at T's rate for the first input's element type.
        peak_pipe: the pipe of that peak, `tensor` or `vector`.
        verdict: the vendor's io_efficiency compared with the vendor's thresholds, as text.
        bottleneck: `io` or `compute`: the larger of the two efficiencies; `unknown` if theory_ops is None.
        peak_nram_bytes: largest NRAM allocation of any core at one time, including alignment.
        peak_sram_bytes: the same for the SRAM of any cluster.
        operations: instructions by name; a counted operation counts as the number it represents.
        records: records in the log.
        where_time_went: core-picoseconds of all MLU cores by cause (`breakdown.CAUSES`); they sum to core_time_ps.
        core_time_ps: MLU cores times time_ps.
        core_causes_ps: (cores, causes) the same per core; each row sums to time_ps.
        pipe_busy_ps: busy time of the pipes of all cores and memory cores, by pipe.
        task_busy_ps: by task, the time with at least one busy pipe.
        task_idle_ps: by task, the rest of its time: issuing, syncs, barriers.
    """

    time_ps: int
    cycles: int
    bytes_requested: Mapping[str, int]
    bus_bytes: Mapping[str, int]
    theory_io_bytes: int
    compulsory_bytes: Mapping[str, int]
    theory_ops: int | None
    io_efficiency: float | None
    vendor_io_efficiency: float | None
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
        read, written = self.bus_bytes["read"], self.bus_bytes["write"]
        return f"<metrics: {self.headline}, DRAM bus {read} B read and {written} B written>"

    @property
    def headline(self) -> str:
        """Time and io_efficiency in one line."""
        has_efficiency = self.io_efficiency is not None
        efficiency = (
            f"io_efficiency {percent(self.io_efficiency)}" if has_efficiency else "no bytes moved on the DRAM bus"
        )
        return f"{format_us(self.time_ps)}, {efficiency}"


def measure(log: Log, board: Board, *, theory_ops: int | None = None) -> Metrics:
    """Compute all figures of a log.

    Args:
        log: log of a device with this board.
        board: the board.
        theory_ops: operations that the operator requires, independent of the kernel; 0 for pure data movement; None:
            unknown.

    The peak for compute_efficiency is that of the tensor pipe if the kernel uses it. Otherwise it is the vector peak
    as T defines it: the half rate if the first input (without inputs, the first output) is half or int16, else the
    float rate. T has no bfloat16, which counts as half here.
    """
    records = LogColumns(log, board)
    theory_ops = check_operations(theory_ops)
    time_ps = records.time_ps
    totals = Totals(records)
    roles = log.roles()
    bus = totals.bus_bytes
    tensor_bytes = sum(log.allocations[identity].nbytes for identity, role in roles.items() if role != "workspace")
    compulsory = _compulsory_bytes(records, roles)
    peak_pipe = "tensor" if TENSOR_OPERATIONS.intersection(totals.operations) else "vector"
    peak_ops = _tensor_peak(log, board) if peak_pipe == "tensor" else _vector_peak(log, board, roles)
    peak_io = board.dram_bandwidth_bytes_per_s
    # A value above 1 means that the run is incomplete and has not even accessed its output.
    uses_dram = any(bus.values())
    io_efficiency = min(_efficiency(sum(compulsory.values()), time_ps, peak_io), 1.0) if uses_dram else None
    vendor_io_efficiency = _efficiency(tensor_bytes, time_ps, peak_io) if uses_dram else None
    compute_efficiency = None if theory_ops is None else _efficiency(theory_ops, time_ps, peak_ops)
    causes, busy = totals.causes_ps, totals.task_busy_ps
    return Metrics(
        time_ps=time_ps,
        cycles=ps_to_cycles(time_ps, board.clock_hz),
        bytes_requested=totals.bytes_requested,
        bus_bytes=bus,
        theory_io_bytes=tensor_bytes,
        compulsory_bytes=compulsory,
        theory_ops=theory_ops,
        io_efficiency=io_efficiency,
        vendor_io_efficiency=vendor_io_efficiency,
        compute_efficiency=compute_efficiency,
        peak_bandwidth_bytes_per_s=peak_io,
        peak_ops_per_s=peak_ops,
        peak_pipe=peak_pipe,
        verdict=verdict(vendor_io_efficiency),
        bottleneck=_bottleneck(io_efficiency, compute_efficiency),
        peak_nram_bytes=peak_bytes(log, MemoryKind.NRAM, board),
        peak_sram_bytes=peak_bytes(log, MemoryKind.SRAM, board),
        operations=totals.operations,
        records=len(records),
        where_time_went={name: int(total) for name, total in zip(CAUSES, causes.sum(axis=0), strict=True)},
        core_time_ps=board.cores * time_ps,
        pipe_busy_ps=totals.pipe_busy_ps,
        core_causes_ps=causes,
        task_busy_ps=busy,
        task_idle_ps=records.task_end_ps - records.task_start_ps - busy,
    )


def _compulsory_bytes(records: LogColumns, roles: Mapping[int, str]) -> dict[str, int]:
    sums = {"read": 0, "write": 0}
    compulsory = compulsory_by_allocation(records, roles, bytes_by_allocation(records))
    for identity, nbytes in compulsory.items():
        sums["read" if roles[identity] == "input" else "write"] += nbytes
    return sums


def _bottleneck(io_efficiency: float | None, compute_efficiency: float | None) -> str:
    if compute_efficiency is None:
        return "unknown"
    return "compute" if compute_efficiency > (io_efficiency or 0) else "io"


def verdict(io_efficiency: float | None) -> str:
    """Compare the vendor's io_efficiency with the vendor's thresholds (P), as text."""
    if io_efficiency is None:
        return "no bytes moved on the DRAM bus"
    if io_efficiency > 1:
        return "above 100 %: the call needs less than all of its tensors, and the vendor counts all"
    network, any_shape = f"{100 * NETWORK_BAR:.0f} %", f"{100 * ANY_SHAPE_BAR:.0f} %"
    if io_efficiency >= NETWORK_BAR:
        return f"meets the vendor's bar: {network} on network shapes"
    if io_efficiency >= ANY_SHAPE_BAR:
        return f"meets the vendor's bar for any shape ({any_shape}), not for network shapes ({network})"
    return f"below the vendor's bar: {network} on network shapes, {any_shape} on any shape"


def peak_bytes(log: Log, kind: MemoryKind, board: Board) -> int:
    """Return the peak allocation of any single memory of a kind, with the padding of each allocation.

    A buffer freed at the time of its allocation counts on its own.
    """
    allocated_bytes = memory_sizes(board)[kind].allocated_bytes
    owners: dict[str, int] = {}
    events: list[tuple[int, int, int]] = []
    peak = 0
    for record in log.allocations:
        if record.memory != kind.value:
            continue
        owner = owners.setdefault(record.memory_name, len(owners))
        nbytes = allocated_bytes(record.nbytes)
        peak = max(peak, nbytes)
        if record.end_ps != record.start_ps:
            events.append((owner, record.start_ps, nbytes))
            if record.end_ps != NONE:
                events.append((owner, record.end_ps, -nbytes))
    used_bytes, last_owner = 0, NONE
    # At equal times, releases come first, as they make room for allocations.
    for owner, _, change in sorted(events):
        used_bytes = change if owner != last_owner else used_bytes + change
        last_owner = owner
        peak = max(peak, used_bytes)
    return peak


def _vector_peak(log: Log, board: Board, roles: Mapping[int, str]) -> int:
    """Return the operations per second of all cores' vector pipes, by T's definition (getCtPeakComputeForce)."""
    of_role = (
        log.allocations[identity].dtype for role in ("input", "output") for identity in roles if roles[identity] == role
    )
    half = next(of_role, "") in _HALF_RATE_TYPES
    per_cycle = board.vector_peak_ops_per_cycle_fp16 if half else board.vector_peak_ops_per_cycle_fp32
    return per_cycle * board.cores * board.clock_hz


def _tensor_peak(log: Log, board: Board) -> int:
    """Return the operations per second of all cores' tensor pipes, for the fastest element type in WRAM."""
    weights = {dtype_of(record.dtype) for record in log.allocations if record.memory == MemoryKind.WRAM.value}
    rates = (peak_ops_per_cycle(board, dtype.itemsize, integers=dtype.kind in "iu") for dtype in weights or {INT8})
    return max(rates) * board.cores * board.clock_hz


def _efficiency(amount: int, time_ps: int, peak_per_s: int) -> float:
    return amount * PS_PER_S / (time_ps * peak_per_s) if time_ps and peak_per_s else 0.0
