"""The parameters that boards share, each with its source: those of all boards, of a family, and of single boards.

A value applies to every board of its layer. If its source covers only some of them, the others inherit it as an
assumption, with its origin. `mlusim.hardware.presets` puts the layers together.
"""

from __future__ import annotations

from typing import NamedTuple

from mlusim.units import KIB, MIB, PS_PER_NS


class PerCycle(NamedTuple):
    """A width in bytes per cycle; multiplied by the board's clock, it is a bandwidth."""

    nbytes: int


class Entry(NamedTuple):
    """A value and its source. `known_on`: the boards or families covered by the source; empty: all."""

    value: float | PerCycle
    source: str
    known_on: str


Layer = dict[str, Entry]
"""Entries by field of `Board`."""


def _from(source: str, known_on: str = "", **values: float | PerCycle) -> Layer:
    return {name: Entry(value, source, known_on) for name, value in values.items()}


def _tensor(int8: int, int16: int, fp16: int, fp32: int, note: str = "") -> Layer:
    """Return the rates of the tensor pipe from D, which counts multiply-adds."""
    rates = {"int8": int8, "int16": int16, "fp16": fp16, "fp32": fp32}
    source = f"D: device_computing_power, multiply-adds per cycle and core, two operations each{note}"
    return {f"tensor_ops_per_cycle_{dtype}": Entry(2 * rate, source, "") for dtype, rate in rates.items()}


# All boards.
COMMON: Layer = {
    # The machine
    **_from("D: IPU cores of a cluster", cores_per_cluster=4),
    **_from(
        "T: CT_PEAK_*_COMPUTE_FORCE, for every board; D's 128 and 64 from MLU370 on count a multiply-add as two",
        vector_peak_ops_per_cycle_fp16=64,
        vector_peak_ops_per_cycle_fp32=32,
    ),
    # Memories
    **_from(
        "ASSUMED: D's STACK_SIZE, 8 GiB / 20 in whole MiB, read as the limit of one core",
        ldram_bytes_per_core=409 * MIB,
    ),
    **_from("K: REM_FOR_STACK", nram_reserved_bytes=128 * KIB, sram_reserved_bytes=128 * KIB),
    **_from("K: NFU_ALIGN_SIZE", vector_alignment_bytes=128),
    **_from("K: WRAM alignment", wram_alignment_bytes=64),
    # DRAM and the paths to it
    **_from("G: 5.3, accesses are 64 B, aligned to 64 B", "mlu370", dram_unit_bytes=64),
    **_from(
        "ASSUMED: one unit of 64 B per cycle; MLU590's cores reach at least 46 B per cycle in a wide reduction",
        core_read_bandwidth_bytes_per_s=PerCycle(64),
        core_write_bandwidth_bytes_per_s=PerCycle(64),
    ),
    **_from(
        "ASSUMED: two units of 64 B per cycle, twice a core's port; MLU290 reaches 25 B per cycle through SRAM (I24)",
        memory_core_bandwidth_bytes_per_s=PerCycle(128),
    ),
    **_from(
        "ASSUMED: rows-4KB-590h8 and rows-8KB-590h8 allow 300 to 650 ns, depending on the cost of a logarithm",
        dma_read_latency_ps=450 * PS_PER_NS,
    ),
    **_from(
        "ASSUMED: that of a read: a write is not faster than a read (G 5.3), and no measurement requires more",
        dma_write_latency_ps=450 * PS_PER_NS,
    ),
    **_from(
        "ASSUMED: each byte read mixes with up to four bytes written, and the reverse; a kernel with two loads per "
        "store is mixed all the time",
        dram_mixing_reach=4.0,
    ),
    **_from(
        "ASSUMED: cores drift apart within a few copies that fill NRAM; values of 0.1 to 0.25 fit all measurements "
        "about equally well, and 0.25 has the smallest largest error",
        dram_share_spread=0.25,
    ),
    # On chip
    **_from(
        "ASSUMED: the ports of four cores together; the measurement on MLU290 needs 25 GB/s only (I24)",
        sram_bandwidth_bytes_per_s=PerCycle(256),
    ),
    **_from("ASSUMED: as wide as the core's port to DRAM", core_sram_bandwidth_bytes_per_s=PerCycle(64)),
    **_from("ASSUMED: a hundred cycles, as a scalar access to GDRAM at its fastest", sram_latency_ps=100 * PS_PER_NS),
    **_from("ASSUMED: as wide as the vector pipe", move_bytes_per_cycle=128),
    **_from("ASSUMED: as a vector instruction", move_startup_cycles=30),
    **_from("G: 5.3, 128 B per cycle, at least 128 B", "mlu370", vector_bytes_per_cycle=128),
    **_from(
        "ASSUMED: the geometric mean of 8 cycles, a short pipeline, and 114, the most that hardsigmoid-290-4 allows "
        "for an instruction, its issue and waiting included",
        vector_startup_cycles=30,
    ),
    **_from(
        "ASSUMED: the longer of the two readings of log1p-590h8",
        vector_log_cycles=20,
    ),
    **_from("ASSUMED: as a logarithm", vector_exp_cycles=20, vector_trig_cycles=20),
    **_from("ASSUMED: half a logarithm", vector_divide_cycles=10, vector_root_cycles=10),
    **_from("ASSUMED: a table's look-up and one multiply-add, two passes each", vector_activation_cycles=4),
    **_from("ASSUMED: as a vector instruction", tensor_startup_cycles=30),
    **_from("ASSUMED: as MLU370 in matmul-pipe3-370x8", tensor_efficiency=0.78),
    **_from("G: 5.3, scalar add and subtract", "mlu370", scalar_add_cycles=2),
    **_from("G: 5.3, ordinary operations take 1 to 3 cycles; the longest", "mlu370", scalar_op_cycles=3),
    **_from("G: 5.3, scalar division", "mlu370", scalar_divide_fp16_cycles=8, scalar_divide_fp32_cycles=16),
    **_from("ASSUMED: an add and a branch with its delay slot", scalar_loop_cycles=4),
    **_from(
        "measured: scalar-nram-270, 78 cycles less 17 instructions of 3 cycles, for two loads",
        "mlu270",
        scalar_nram_cycles=14,
    ),
    **_from("ASSUMED: between NRAM's 14 cycles and GDRAM's hundred or more", scalar_sram_cycles=50),
    **_from("measured: 55 to 60 ns per element, on MLU590", "mlu590", gather_element_ps=57_500),
    **_from("ASSUMED: an add for the address, and the issue", issue_cycles=4),
    # Launches and barriers
    **_from(
        "ASSUMED: 1.0 us together with kernel_end_ps, which leaves time for the store of fill-one, 1.36 us in all; "
        "most of it before the kernel",
        kernel_start_ps=700 * PS_PER_NS,
    ),
    **_from("ASSUMED: see kernel_start_ps", kernel_end_ps=300 * PS_PER_NS),
    **_from("measured: between queued kernels, queue warm", "mlu590-m9", queued_kernel_gap_ps=120 * PS_PER_NS),
    **_from("measured: a second wave against a loop in the kernel", "mlu590-h8", wave_ps=2_400 * PS_PER_NS),
    **_from(
        "ASSUMED: breaks the lockstep of equal tasks; 48 cores start within 0.24 us. A fit to copies of 2 to 17 MB "
        "would be tens of nanoseconds, and small launches would be slower with more tasks",
        core_start_skew_ps=5 * PS_PER_NS,
    ),
    **_from(
        "ASSUMED: copies on the twelve clusters of mlu590-m9 have a fixed cost 1 to 1.6 us higher than fill-one on one",
        cluster_start_ps=150 * PS_PER_NS,
    ),
    **_from("ASSUMED: a round trip within the cluster, as sram_latency_ps", cluster_barrier_ps=100 * PS_PER_NS),
    **_from("ASSUMED: a round trip across the chip, as a scalar access to GDRAM", union_barrier_ps=200 * PS_PER_NS),
}

# DDR4 and LPDDR: MLU220, MLU270, MLU370.
_DDR: Layer = {
    **_from("ASSUMED: above writes (G 5.3); reads alone were not measured", dram_read_efficiency=0.92),
    **_from("ASSUMED: as writes on MLU590, 0.90 to 0.91", dram_write_efficiency=0.90),
    **_from(
        "ASSUMED: 0.95 of contiguous, as on MLU590; the order by G 5.3",
        dram_strided_read_efficiency=0.87,
        dram_strided_write_efficiency=0.85,
    ),
    **_from(
        "measured: stream-copy-370 and stream-add-370 reach 0.85 and 0.84 of nominal in all",
        "mlu370-x4",
        dram_mixed_efficiency=0.94,
    ),
}

_2XX: Layer = {
    **_tensor(4_096, 2_048, 0, 0, "; T agrees; no floats"),
    **_from(
        "ASSUMED: 128 B per cycle, as mlu370-x4",
        cluster_read_bandwidth_bytes_per_s=PerCycle(128),
        cluster_write_bandwidth_bytes_per_s=PerCycle(128),
    ),
    **_from(
        "measured: scalar-gdram-270, 250 cycles less 13 instructions of 3 cycles, for two loads in turn",
        "mlu270",
        scalar_gdram_latency_ps=105 * PS_PER_NS,
    ),
}

_270: Layer = {
    **_DDR,
    **_2XX,
    **_from("D: ISA version", "mlu270", arch=270),
    **_from("M: arch 270", "mlu270", nram_bytes=512 * KIB, wram_bytes=1_024 * KIB, sram_bytes=2_048 * KIB),
    **_from(
        "measured: a strided store of 512 B segments; loads and shorter segments are taken to be no faster",
        "mlu270",
        dma_segment_ps=200 * PS_PER_NS,
        dma_element_ps=200 * PS_PER_NS,
    ),
}

_220: Layer = {
    **_270,
    **_from("D: ISA version", arch=220),
    **_tensor(2_048, 1_024, 0, 0, "; T agrees; no floats"),
}

_290: Layer = {
    **_2XX,
    **_from("D: ISA version", arch=290),
    **_from("M: arch 290", nram_bytes=512 * KIB, wram_bytes=512 * KIB, sram_bytes=2_048 * KIB),
    **_from(
        "ASSUMED: as MLU590, HBM too; the order by G 5.3",
        dram_read_efficiency=0.93,
        dram_write_efficiency=0.91,
        dram_strided_read_efficiency=0.88,
        dram_strided_write_efficiency=0.86,
    ),
    **_from("ASSUMED: as MLU590, HBM too", dram_mixed_efficiency=0.88),
    **_from(
        "measured: a copy loop of all cores reads 460 to 490 GB/s (I24), 29 to 31 B per cycle and cluster, and leaves "
        "a port idle for 3 % of the time; hard_sigmoid agrees, with 25 B per cycle each way",
        "mlu290",
        cluster_read_bandwidth_bytes_per_s=PerCycle(31),
        cluster_write_bandwidth_bytes_per_s=PerCycle(31),
    ),
    **_from(
        "ASSUMED: as wide as the cluster's; one task of hard_sigmoid moves 15 B per cycle each way",
        core_read_bandwidth_bytes_per_s=PerCycle(31),
        core_write_bandwidth_bytes_per_s=PerCycle(31),
    ),
    **_from("ASSUMED: as MLU370", dma_segment_ps=20 * PS_PER_NS, dma_element_ps=40 * PS_PER_NS),
}

_370: Layer = {
    **_DDR,
    **_from("D: ISA version", arch=372),
    **_tensor(4_096, 2_048, 1_536, 384, "; T agrees"),
    **_from("M: arch 372", nram_bytes=768 * KIB, wram_bytes=1_024 * KIB, sram_bytes=4_096 * KIB),
    **_from(
        "ASSUMED: T's 128 GB/s of an MLU370 restricted to one cluster, as the limit of each direction",
        cluster_read_bandwidth_bytes_per_s=128 * 10**9,
        cluster_write_bandwidth_bytes_per_s=128 * 10**9,
    ),
    **_from(
        "measured: matmul-scalar-gdram-370x8, 647.6 ns less 18 cycles, for two loads",
        "mlu370-x8",
        scalar_gdram_latency_ps=315 * PS_PER_NS,
    ),
    **_from(
        "measured: matmul-scalar-nram-370x8 and -370x4, 30 cycles less 6 instructions of 3 cycles, for two loads",
        "mlu370-x8",
        scalar_nram_cycles=6,
    ),
    **_from(
        "ASSUMED: between MLU270's 200 ns and MLU590's 2 ns and 9 ns, by ratio",
        dma_segment_ps=20 * PS_PER_NS,
        dma_element_ps=40 * PS_PER_NS,
    ),
}

_590: Layer = {
    **_from("D: ISA version", arch=592),
    **_tensor(4_096, 1_024, 2_048, 512),
    **_from("M: arch 592", nram_bytes=512 * KIB, wram_bytes=512 * KIB, sram_bytes=2_048 * KIB),
    **_from("ASSUMED: above writes (G 5.3); reads alone were not measured", dram_read_efficiency=0.93),
    **_from(
        "measured: expand-538MB, 0.90 of nominal with 2 us of launch and latency in it",
        "mlu590-m9",
        dram_write_efficiency=0.91,
    ),
    **_from(
        "ASSUMED: 0.95 of contiguous: transpose-44.8MB, strided on both sides, takes 4 % longer than the copy; the "
        "order by G 5.3",
        dram_strided_read_efficiency=0.88,
        dram_strided_write_efficiency=0.86,
    ),
    **_from(
        "measured: copies, adds and concat of 45 to 540 MB reach 0.78 to 0.85 of nominal in all, launch taken off",
        "mlu590-m9",
        dram_mixed_efficiency=0.88,
    ),
    **_from(
        "ASSUMED: the four cores at full speed together; expand-538MB needs more than MLU370's 128 B per cycle",
        cluster_read_bandwidth_bytes_per_s=PerCycle(256),
        cluster_write_bandwidth_bytes_per_s=PerCycle(256),
    ),
    **_from("ASSUMED: as mlu370-m8", scalar_gdram_latency_ps=205 * PS_PER_NS),
    **_from(
        "measured: element-wise strided access on all cores is about 100 times slower than transpose-44.8MB: 9 ns an "
        "element",
        "mlu590-m9",
        dma_element_ps=9 * PS_PER_NS,
    ),
    **_from(
        "ASSUMED: three cycles of set-up for each segment. transpose-44.8MB takes 4 % longer than a copy, so "
        "whole units cannot pay what single elements do",
        dma_segment_ps=2 * PS_PER_NS,
    ),
}

# Values measured on one board that differ from those of its family.
BY_BOARD: dict[str, Layer] = {
    "mlu370-x4": _from(
        "measured: matmul-scalar-gdram-370x4, 777.6 ns less 18 cycles, for two loads",
        scalar_gdram_latency_ps=380 * PS_PER_NS,
    ),
    "mlu370-m8": _from(
        "measured: 629.5 ns for two loads and a read-modify-write, without waiting for the store",
        scalar_gdram_latency_ps=205 * PS_PER_NS,
    ),
}

BY_FAMILY: dict[str, Layer] = {"mlu220": _220, "mlu270": _270, "mlu290": _290, "mlu370": _370, "mlu590": _590}
