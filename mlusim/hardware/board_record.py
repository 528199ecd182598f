"""`Board`: a frozen record, with the unit in each name and the origin of each value.

Not modelled: the L2 cache and LLC, clock changes under load, the host link.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlusim.errors import BoardError
from mlusim.hardware.checks import check_types, check_values
from mlusim.hardware.parameter_names import unknown_parameter
from mlusim.units import GIGA, cycles_to_ps

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Board:
    """An MLU board: its resources, their speeds, and the source of each value.

    `sources` names the origin of every other field: a key of `SOURCES` with the place in it, or a string that begins
    with `ASSUMED` and a reason. Raises `BoardError`, naming the field, if a value has the wrong type or breaks a rule.
    Reads and writes share the DRAM bandwidth; the ports of cores and clusters have a limit per direction.

    Attributes:
        name: the board's name for `--device`.
        family: boards of a family share the chip and its timing.
        arch: `__BANG_ARCH__`, which determines the available instructions and copies.

        The machine
        clusters: clusters on the chip; each has MLU cores, a memory core and an SRAM.
        cores_per_cluster: MLU cores of a cluster, its memory core not counted.
        max_union: the largest n of a UNIONn launch: 1, 2, 4, 8 or 16.
        clock_hz: rated clock of the cores; a drop under load is not modelled.
        tensor_ops_per_cycle_int8: peak of a core's tensor pipe on 8-bit integers, a multiply-add counted as two.
        tensor_ops_per_cycle_int16: the same for 16-bit integers.
        tensor_ops_per_cycle_fp16: the same for halves, bfloat16 included; 0: no multiply of halves.
        tensor_ops_per_cycle_fp32: the same for float; 0: no float multiply.
        vector_peak_ops_per_cycle_fp16: figure of merit for compute_efficiency, per core, not the speed of the model.
        vector_peak_ops_per_cycle_fp32: the same for float.

        Memories
        gdram_bytes: off-chip memory that all cores and the host share.
        ldram_bytes_per_core: limit of the private off-chip memory of a core.
        l2_bytes: last-level cache; recorded, not modelled.
        nram_bytes: on-chip memory of a core for vector and tensor operands, reserved part included.
        wram_bytes: on-chip memory of a core for weights.
        sram_bytes: on-chip memory of a cluster, reserved part included.
        nram_reserved_bytes: part of the NRAM that the compiler reserves for its stack.
        sram_reserved_bytes: part of the SRAM that the compiler reserves.
        vector_alignment_bytes: alignment of vector operands and of allocations; at least 128 below arch 300.
        wram_alignment_bytes: alignment of WRAM operands.

        DRAM and the paths to it
        dram_bandwidth_bytes_per_s: nominal bandwidth of the chip's DRAM, reads and writes together.
        dram_bus_bits: width of the DRAM bus; recorded, not modelled.
        dram_unit_bytes: smallest access; a part of a unit is charged as one, and a partial write reads the unit first.
        dram_read_efficiency: fraction of the nominal bandwidth that contiguous reads reach.
        dram_write_efficiency: the same for contiguous writes; less than for reads.
        dram_strided_read_efficiency: the same for strided reads; less than for contiguous writes.
        dram_strided_write_efficiency: the same for strided writes; the least of the four.
        dram_mixed_efficiency: factor on top of those four while reads and writes are in flight together.
        dram_mixing_ps: upper limit of the time for which a transfer counts as in flight after its end, for mixing.
        dram_mixing_reach: a transfer that has ended counts as in flight for this many times the DRAM's time for it.
        dram_share_spread: largest difference from 1 of the weight of a transfer's share of a full DRAM or port.
        core_read_bandwidth_bytes_per_s: port of one core, reads from DRAM; its requests in flight over their latency.
        core_write_bandwidth_bytes_per_s: port of one core, writes to DRAM.
        cluster_read_bandwidth_bytes_per_s: port that a cluster's cores and memory core share, reads.
        cluster_write_bandwidth_bytes_per_s: port that a cluster's cores and memory core share, writes.
        memory_core_bandwidth_bytes_per_s: IO engine of the memory core, DRAM to and from SRAM.
        dma_read_latency_ps: from issue of a read to its first byte; hidden behind the copy before it in the pipe.
        dma_write_latency_ps: the same for a write.
        dma_segment_ps: minimum time for each segment of a copy off chip; without gaps, it is one segment.
        dma_element_ps: the same where a segment is shorter than a bus unit, as in element-wise strided access.

        On chip
        sram_bandwidth_bytes_per_s: SRAM of a cluster, all its cores together.
        core_sram_bandwidth_bytes_per_s: one core to and from its cluster's SRAM.
        sram_latency_ps: from issue of a copy between NRAM and SRAM to its first byte.
        move_bytes_per_cycle: bytes of a segment that a copy on chip moves per cycle; a segment takes at least one.
        move_startup_cycles: fixed part of a copy inside a core.
        vector_bytes_per_cycle: operand bytes that the vector pipe processes per cycle.
        vector_startup_cycles: fixed part of a vector instruction.
        vector_divide_cycles: division and reciprocal, for each 128 B.
        vector_exp_cycles: exponentials, for each 128 B.
        vector_log_cycles: logarithms, for each 128 B.
        vector_root_cycles: square roots, for each 128 B.
        vector_trig_cycles: sine and cosine, for each 128 B.
        vector_activation_cycles: activations and other functions by table, for each 128 B.
        tensor_startup_cycles: fixed part of a tensor instruction.
        tensor_efficiency: fraction of the peak that a tensor instruction reaches.
        scalar_add_cycles: scalar add and subtract.
        scalar_op_cycles: other ordinary scalar operations.
        scalar_divide_fp16_cycles: scalar division of halves; a kernel charges it by `core.scalar`.
        scalar_divide_fp32_cycles: the same for floats.
        scalar_loop_cycles: overhead of one iteration of a loop.
        scalar_nram_cycles: scalar load or store of NRAM.
        scalar_sram_cycles: scalar load or store of SRAM.
        scalar_gdram_latency_ps: scalar load of GDRAM or LDRAM; consecutive loads do not overlap.
        gather_element_ps: one element of `__gather` or `__scatter` on GDRAM, per core.
        issue_cycles: scalar cycles to issue one operation.

        Launches and barriers
        kernel_start_ps: from when the device takes a kernel to its first instruction.
        kernel_end_ps: from its last instruction to the kernel's end.
        queued_kernel_gap_ps: between two kernels of one queue.
        wave_ps: before each wave of BLOCK tasks after the first, and each UNIONn job that waits for clusters.
        core_start_skew_ps: delay between the starts of successive cores of a launch.
        cluster_start_ps: delay between the starts of successive clusters of a launch, in its first wave only.
        cluster_barrier_ps: `__sync_cluster` after the last arrival.
        union_barrier_ps: `__sync_all` after the last arrival.

        Origins
        sources: origin of each field, by its name.
    """

    name: str
    family: str
    arch: int

    # The machine
    clusters: int
    cores_per_cluster: int
    max_union: int
    clock_hz: int
    tensor_ops_per_cycle_int8: int
    tensor_ops_per_cycle_int16: int
    tensor_ops_per_cycle_fp16: int
    tensor_ops_per_cycle_fp32: int
    vector_peak_ops_per_cycle_fp16: int
    vector_peak_ops_per_cycle_fp32: int

    # Memories
    gdram_bytes: int
    ldram_bytes_per_core: int
    l2_bytes: int
    nram_bytes: int
    wram_bytes: int
    sram_bytes: int
    nram_reserved_bytes: int
    sram_reserved_bytes: int
    vector_alignment_bytes: int
    wram_alignment_bytes: int

    # DRAM and the paths to it
    dram_bandwidth_bytes_per_s: int
    dram_bus_bits: int
    dram_unit_bytes: int
    dram_read_efficiency: float
    dram_write_efficiency: float
    dram_strided_read_efficiency: float
    dram_strided_write_efficiency: float
    dram_mixed_efficiency: float
    dram_mixing_ps: int
    dram_mixing_reach: float
    dram_share_spread: float
    core_read_bandwidth_bytes_per_s: int
    core_write_bandwidth_bytes_per_s: int
    cluster_read_bandwidth_bytes_per_s: int
    cluster_write_bandwidth_bytes_per_s: int
    memory_core_bandwidth_bytes_per_s: int
    dma_read_latency_ps: int
    dma_write_latency_ps: int
    dma_segment_ps: int
    dma_element_ps: int

    # On chip
    sram_bandwidth_bytes_per_s: int
    core_sram_bandwidth_bytes_per_s: int
    sram_latency_ps: int
    move_bytes_per_cycle: int
    move_startup_cycles: int
    vector_bytes_per_cycle: int
    vector_startup_cycles: int
    vector_divide_cycles: int
    vector_exp_cycles: int
    vector_log_cycles: int
    vector_root_cycles: int
    vector_trig_cycles: int
    vector_activation_cycles: int
    tensor_startup_cycles: int
    tensor_efficiency: float
    scalar_add_cycles: int
    scalar_op_cycles: int
    scalar_divide_fp16_cycles: int
    scalar_divide_fp32_cycles: int
    scalar_loop_cycles: int
    scalar_nram_cycles: int
    scalar_sram_cycles: int
    scalar_gdram_latency_ps: int
    gather_element_ps: int
    issue_cycles: int

    # Launches and barriers
    kernel_start_ps: int
    kernel_end_ps: int
    queued_kernel_gap_ps: int
    wave_ps: int
    core_start_skew_ps: int
    cluster_start_ps: int
    cluster_barrier_ps: int
    union_barrier_ps: int

    sources: Mapping[str, str] = field(repr=False, hash=False)  # a mapping has no hash

    def __post_init__(self) -> None:
        check_types(self)
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))
        check_values(self)

    def __repr__(self) -> str:
        rate = self.dram_bandwidth_bytes_per_s / GIGA
        return f"<board {self.name}: {self.clusters} x {self.cores_per_cluster} cores, DRAM {rate:g} GB/s>"

    @property
    def cores(self) -> int:
        """MLU cores on the board, memory cores not counted."""
        return self.clusters * self.cores_per_cluster

    @property
    def nram_usable_bytes(self) -> int:
        """NRAM of a core that a kernel may allocate, in bytes."""
        return self.nram_bytes - self.nram_reserved_bytes

    @property
    def sram_usable_bytes(self) -> int:
        """SRAM of a cluster that a kernel may allocate, in bytes."""
        return self.sram_bytes - self.sram_reserved_bytes

    @property
    def has_3d_memcpy(self) -> bool:
        """3-D `__memcpy` exists from arch 300 on (B)."""
        return self.arch >= 300

    @property
    def has_independent_move(self) -> bool:
        """IO-DMA and Move-DMA are independent from the 3xx series on (G)."""
        return self.arch >= 300

    @property
    def has_gather(self) -> bool:
        """`__gather` and `__scatter` exist from arch 592 on (B)."""
        return self.arch >= 592

    @property
    def needs_aligned_vectors(self) -> bool:
        """1xx and 2xx: vector operands 64 B aligned and a multiple of 128 B long (B)."""
        return self.arch < 300

    def cycles_ps(self, cycles: int) -> int:
        """Time of `cycles` of the core clock in picoseconds, rounded up."""
        if type(cycles) is not int or cycles < 0:
            from mlusim.inputs import as_count  # it loads NumPy, without which `mlusim devices` is fast

            cycles = as_count("cycles_ps: cycles", cycles, minimum=0)
        return cycles_to_ps(cycles, self.clock_hz)

    def parameters(self) -> dict[str, Any]:
        """Return the name and all parameters by name, without their sources."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "sources"}

    def differing(self, other: Board) -> list[str]:
        """Return the parameters in which this board and another one differ; the name is none."""
        from mlusim.inputs import check_is  # as in `cycles_ps`

        check_is("differing: other", other, Board, "pass mlusim.board(NAME)")
        theirs = other.parameters()
        return [name for name, value in self.parameters().items() if name != "name" and value != theirs[name]]

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled; `Board` recreates it.
        return _board_of, (self.parameters() | {"sources": dict(self.sources)},)

    def replace(self, **changes: object) -> Board:
        """Return a copy with some fields changed; their source becomes `ASSUMED: set by the user`."""
        names = [item.name for item in fields(self)]
        for key in changes:
            if key not in names:
                raise BoardError(f"{self.name}: {unknown_parameter(key, names)}")
        sources = dict(self.sources) | dict.fromkeys(changes, "ASSUMED: set by the user")
        values = {key: _python_integer(value) for key, value in changes.items()}
        return Board(**(self.parameters() | values | {"sources": sources}))


def _python_integer(value: Any) -> Any:
    """Return an integer of NumPy as Python's, and other values unchanged."""
    try:
        return value if isinstance(value, bool) else index(value)
    except TypeError:
        return value


def _board_of(values: dict[str, Any]) -> Board:
    """Restore a board from a pickle."""
    return Board(**values)
