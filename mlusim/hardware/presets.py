"""The boards that come with mlusim: a table of their differences, followed by their common values.

A value is a fact with its source, a measurement, or ASSUMED with the reasoning. If a source covers only some boards,
the others inherit the value as an assumption, with its origin. Timing parameters are estimates by plain reasoning, from
one or two measurements each, unless `mlusim.hardware.calibrated` overrides them with values fitted to all measurements
together by `python -m mlusim.validation.calibrate`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from mlusim.errors import BoardError, nearest, shown
from mlusim.hardware.board_record import Board
from mlusim.hardware.calibrated import fitted as fitted_parameters
from mlusim.units import GIB, KIB, MIB, PS_PER_NS, PS_PER_S, ceil_ps

SOURCES: dict[str, str] = {
    "K": "Cambricon/mlu-ops, kernels/kernel.h",
    "G": "Cambricon/mlu-ops, docs/BANG-C-OPS-Develop-Guide.md; 5.3 has the cost rules, stated for MLU370",
    "P": "Cambricon/mlu-ops, docs/MLU-OPS-Performance-Acceptance-Standard.md",
    "T": "Cambricon/mlu-ops, test framework test/mlu_op_gtest/pb_gtest, executor.h",
    "M": "Cambricon/mlu-ops, build script: sizes of the on-chip memories by architecture",
    "I24": "Cambricon/mlu-ops, issue 24: copy loops on MLU290",
    "I27": "Cambricon/mlu-ops, issue 27",
    "D": "jklincn/cambricon-mlu-driver, the open Linux driver: mcu/cndrv_mcu_info.c, attr/cndrv_attr_mlu*.c",
    "B": "the public BANG C headers",
    "measured": "public measurements on real boards",
    "fitted": "python -m mlusim.validation.calibrate, to the public measurements in mlusim/validation/measured.csv",
    "derived": "follows from other values of the board",
    "user": "a user's own board, read from a TOML file",
    "ASSUMED": "no public source: an estimate, with its reasoning",
}


class _Row(NamedTuple):
    """The values of a board that differ within its family."""

    name: str
    family: str
    clusters: int
    max_union: int
    clock_mhz: int
    dram_mb_per_s: int
    bus_bits: int
    l2_kib: int
    gdram_gib: int


_ROWS = (
    #     name          family    clusters union  MHz     MB/s    bits  L2 KiB  GDRAM GiB
    _Row("mlu220-m2",   "mlu220",    1,   1,   500,    29_860,    64,   1_024,   4),
    _Row("mlu270-s4",   "mlu270",    4,   4, 1_000,   102_400,   256,   1_024,  16),
    _Row("mlu270-d4",   "mlu270",    2,   1, 1_000,   102_400,   256,   1_024,  16),
    _Row("mlu290-m5",   "mlu290",   16,  16, 1_000, 1_228_800, 4_096,   2_048,  32),
    _Row("mlu365-d2",   "mlu370",    2,   2, 1_000,   153_600,   192,   1_024,  12),
    _Row("mlu370-s4",   "mlu370",    6,   4, 1_000,   307_200,   384,   2_048,  24),
    _Row("mlu370-x4",   "mlu370",    8,   8, 1_000,   307_200,   384,   2_048,  24),
    _Row("mlu370-x8",   "mlu370",    4,   4, 1_000,   307_200,   384,   2_048,  24),
    _Row("mlu370-m8",   "mlu370",    8,   8, 1_300,   307_200,   384,   2_048,  24),
    _Row("mlu590-h8",   "mlu590",   12,   8, 1_500, 2_048_000, 5_120,  40_960,  80),
    _Row("mlu590-m9",   "mlu590",   12,   8, 1_600, 2_764_800, 6_144,  49_152,  96),
    _Row("mlu585",      "mlu590",   10,   8, 1_500, 2_048_000, 5_120,  40_960,  80),
    _Row("mlu590-m9dg", "mlu590",    8,   8, 1_850, 2_304_000, 5_120,  40_960,  80),
)  # fmt: skip

ALIASES: dict[str, str] = {
    "mlu270": "mlu270-s4",
    "mlu270-f4": "mlu270-s4",
    "mlu270-v4": "mlu270-s4",
    "mlu290": "mlu290-m5",
    "mlu590": "mlu590-m9",
}

_ROW_SOURCES: dict[str, str] = {
    "family": "D: name of the chip",
    "clusters": "D: cluster count",
    "max_union": "D: kernel class limit",
    "clock_hz": "D: rated IPU frequency",
    "dram_bandwidth_bytes_per_s": "D: bandwidth",
    "dram_bus_bits": "D: bus width",
    "l2_bytes": "D: cache size",
    "gdram_bytes": (
        "ASSUMED: 4 GiB for each 64 bits of a DDR bus, as MLU370-X8 sells with 48 GB on two chips; for each 1024 bits "
        "of HBM 8 GiB on MLU290, 16 GiB on MLU590"
    ),
}

# Sources of single values that differ from those of their column.
_ROW_NOTES: dict[str, dict[str, str]] = {
    "mlu220-m2": {
        "dram_bandwidth_bytes_per_s": "D: bandwidth, 64 bits at 3733 Mbit/s; T uses 25.6 GB/s",
        "l2_bytes": "D: cache size of the M2; 256 KiB on most boards with an MLU220",
    },
    "mlu290-m5": {"dram_bandwidth_bytes_per_s": "D: bandwidth, 4096 bits at 2.4 Gbit/s; T uses 1024 GB/s"},
    "mlu370-x8": {
        "clusters": "D: cluster count, of one of the card's two chips: a program sees two devices",
        "clock_hz": "D: rated IPU frequency; G 5.3 says 1300 MHz",
        "dram_bandwidth_bytes_per_s": "D: bandwidth, of one of the card's two chips",
    },
    "mlu590-m9dg": {
        "family": "ASSUMED: from its name; D does not list the board",
        "clusters": "measured: vadd-1core-590, on a board of 8 clusters",
        "max_union": "ASSUMED: as the other boards with an MLU590",
        "clock_hz": "measured: vadd-1core-590, on a board of 1850 MHz",
        "dram_bandwidth_bytes_per_s": "measured: vadd-1core-590, on a board of 2304 GB/s",
        "dram_bus_bits": "derived: 2304 GB/s at mlu590-m9's 3.6 Gbit/s for each pin",
        "l2_bytes": "ASSUMED: 40 MiB, as the other boards with a bus of 5120 bits",
    },
}


class _PerCycle(NamedTuple):
    """A width in bytes per cycle; multiplied by the board's clock, it is a bandwidth."""

    nbytes: int


class _Entry(NamedTuple):
    """A value and its source. `known_on`: the boards or families covered by the source; empty: all."""

    value: float | _PerCycle
    source: str
    known_on: str


_Layer = dict[str, _Entry]


def _from(source: str, known_on: str = "", **values: float | _PerCycle) -> _Layer:
    return {name: _Entry(value, source, known_on) for name, value in values.items()}


_ALL: _Layer = {
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
        core_read_bandwidth_bytes_per_s=_PerCycle(64),
        core_write_bandwidth_bytes_per_s=_PerCycle(64),
    ),
    **_from(
        "ASSUMED: two units of 64 B per cycle, twice a core's port; MLU290 reaches 25 B per cycle through SRAM (I24)",
        memory_core_bandwidth_bytes_per_s=_PerCycle(128),
    ),
    **_from(
        "ASSUMED: rows-4KB-590h8 and rows-8KB-590h8 leave 300 to 650 ns for it, depending on the cost of the logarithm",
        dma_read_latency_ps=450 * PS_PER_NS,
    ),
    **_from(
        "ASSUMED: less than a read's, as nothing comes back; measurements do not distinguish it from kernel_start_ps",
        dma_write_latency_ps=300 * PS_PER_NS,
    ),
    **_from(
        "ASSUMED: a byte of one kind mixes with up to four of the other: two loads to a store are mixed throughout",
        dram_mixing_reach=4.0,
    ),
    **_from(
        "ASSUMED: cores leave a common step within some copies of an NRAM; of 0.1 to 0.25, which fit all "
        "measurements together about equally well, the one with the least worst row",
        dram_share_spread=0.25,
    ),
    **_from("ASSUMED: none: no measurement requires it", dram_latency_growth=0.0),
    # On chip
    **_from(
        "ASSUMED: the four cores at full speed together; MLU290 needs no more than 25 GB/s of it (I24)",
        sram_bandwidth_bytes_per_s=_PerCycle(256),
    ),
    **_from("ASSUMED: as wide as the core's port to DRAM", core_sram_bandwidth_bytes_per_s=_PerCycle(64)),
    **_from("ASSUMED: a hundred cycles, as a scalar access to GDRAM at its fastest", sram_latency_ps=100 * PS_PER_NS),
    **_from("ASSUMED: as wide as the vector pipe", move_bytes_per_cycle=128),
    **_from("ASSUMED: as a vector instruction", move_startup_cycles=30),
    **_from("G: 5.3, 128 B per cycle, at least 128 B", "mlu370", vector_bytes_per_cycle=128),
    **_from(
        "ASSUMED: the geometric mean of 8 cycles, a short pipeline, and 114, which hardsigmoid-290-4 leaves for each "
        "instruction with waiting and issue in it",
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
        "ASSUMED: with kernel_end_ps 1.0 us, so that fill-one's 1.36 us hold a store; most of it before the kernel",
        kernel_start_ps=700 * PS_PER_NS,
    ),
    **_from("ASSUMED: see kernel_start_ps", kernel_end_ps=300 * PS_PER_NS),
    **_from("measured: between queued kernels, queue warm", "mlu590-m9", queued_kernel_gap_ps=120 * PS_PER_NS),
    **_from("measured: a second wave against a loop in the kernel", "mlu590-h8", wave_ps=2_400 * PS_PER_NS),
    **_from(
        "ASSUMED: breaks the lockstep of equal tasks; 48 cores take 0.24 us. A fit would spend tens of nanoseconds on "
        "copies of 2 to 17 MB, and a small launch would be slower with more tasks",
        core_start_skew_ps=5 * PS_PER_NS,
    ),
    **_from(
        "ASSUMED: copies on twelve clusters of mlu590-m9 have 1 to 1.6 us more of fixed cost than fill-one on one",
        cluster_start_ps=150 * PS_PER_NS,
    ),
    **_from("ASSUMED: a round trip within the cluster, as sram_latency_ps", cluster_barrier_ps=100 * PS_PER_NS),
    **_from("ASSUMED: a round trip across the chip, as a scalar access to GDRAM", union_barrier_ps=200 * PS_PER_NS),
}

# DDR4 and LPDDR: MLU220, MLU270, MLU370.
_DDR: _Layer = {
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

_2XX: _Layer = {
    **_from(
        "D: int8 and int16 only, no floating point in the tensor pipe",
        tensor_ops_per_cycle_fp16=0,
        tensor_ops_per_cycle_fp32=0,
    ),
    **_from(
        "ASSUMED: 128 B per cycle, as mlu370-x4",
        cluster_read_bandwidth_bytes_per_s=_PerCycle(128),
        cluster_write_bandwidth_bytes_per_s=_PerCycle(128),
    ),
    **_from(
        "measured: scalar-gdram-270, 250 cycles less 13 instructions of 3 cycles, for two loads in turn",
        "mlu270",
        scalar_gdram_latency_ps=105 * PS_PER_NS,
    ),
}

_270: _Layer = {
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

_220: _Layer = {**_270, **_from("D: ISA version", arch=220)}

_290: _Layer = {
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
        cluster_read_bandwidth_bytes_per_s=_PerCycle(31),
        cluster_write_bandwidth_bytes_per_s=_PerCycle(31),
    ),
    **_from(
        "ASSUMED: as wide as the cluster's; one task of hard_sigmoid moves 15 B per cycle each way",
        core_read_bandwidth_bytes_per_s=_PerCycle(31),
        core_write_bandwidth_bytes_per_s=_PerCycle(31),
    ),
    **_from("ASSUMED: as MLU370", dma_segment_ps=20 * PS_PER_NS, dma_element_ps=40 * PS_PER_NS),
}

_370: _Layer = {
    **_DDR,
    **_from("D: ISA version", arch=372),
    **_from("T: LT_PEAK_FP16_FP16_COMPUTE_FORCE_370; D agrees", tensor_ops_per_cycle_fp16=3_072),
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
    **_from(
        "ASSUMED: a quarter of the half rate; matmul-pipe3-370x8 needs at least 562",
        tensor_ops_per_cycle_fp32=768,
    ),
}

_590: _Layer = {
    **_from("D: ISA version", arch=592),
    **_from("D: 2048 multiply-adds per cycle, two operations each", tensor_ops_per_cycle_fp16=4_096),
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
        cluster_read_bandwidth_bytes_per_s=_PerCycle(256),
        cluster_write_bandwidth_bytes_per_s=_PerCycle(256),
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
    **_from("ASSUMED: a quarter of the half rate, as MLU370", tensor_ops_per_cycle_fp32=1_024),
}

# Values measured on one board of a family that differ from the others.
_BOARDS: dict[str, _Layer] = {
    "mlu370-x4": _from(
        "measured: matmul-scalar-gdram-370x4, 777.6 ns less 18 cycles, for two loads",
        scalar_gdram_latency_ps=380 * PS_PER_NS,
    ),
    "mlu370-m8": _from(
        "measured: 629.5 ns for two loads and a read-modify-write, without waiting for the store",
        scalar_gdram_latency_ps=205 * PS_PER_NS,
    ),
}

_FAMILIES: dict[str, _Layer] = {"mlu220": _220, "mlu270": _270, "mlu290": _290, "mlu370": _370, "mlu590": _590}


@cache
def preset_names() -> tuple[str, ...]:
    """Return the names of the presets, oldest architecture first, without aliases."""
    return tuple(row.name for row in _ROWS)


def find_preset(name: str) -> Board:
    """Return a preset by its name or an alias, case-insensitive.

    Raises `BoardError` with the nearest names and all presets.
    """
    key = name.strip().lower()
    key = ALIASES.get(key, key)
    if key in preset_names():
        return preset(key)
    family = [preset_name for preset_name in preset_names() if key and preset_name.startswith(key)]
    near = nearest(key, family or [*preset_names(), *ALIASES], most=3)
    raise BoardError(f"no board {shown(name)}; {near}presets: {', '.join(preset_names())}")


@cache
def preset(name: str, *, fitted: bool = True) -> Board:
    """Return the preset with that exact name, as a shared object; `fitted=False`: without calibration."""
    row = next(row for row in _ROWS if row.name == name)
    values: dict[str, Any] = {
        "family": row.family,
        "clusters": row.clusters,
        "max_union": row.max_union,
        "clock_hz": row.clock_mhz * 10**6,
        "dram_bandwidth_bytes_per_s": row.dram_mb_per_s * 10**6,
        "dram_bus_bits": row.bus_bits,
        "l2_bytes": row.l2_kib * KIB,
        "gdram_bytes": row.gdram_gib * GIB,
    }
    sources = _ROW_SOURCES | _ROW_NOTES.get(name, {})
    layers = _ALL | _FAMILIES[row.family] | _BOARDS.get(name, {}) | (_fitted(row.family) if fitted else {})
    for field, entry in layers.items():
        value = entry.value
        values[field] = value.nbytes * values["clock_hz"] if isinstance(value, _PerCycle) else value
        known = entry.known_on in {"", name, row.family}
        sources[field] = entry.source if known else f"ASSUMED: as {entry.known_on} ({entry.source})"
    values["dram_mixing_ps"] = _mixing_ps(values)
    sources["dram_mixing_ps"] = "derived: the DRAM's time for the usable NRAM of all cores, reads and writes mixed"
    return Board(name=name, sources=sources, **values)


def _mixing_ps(values: dict[str, Any]) -> int:
    """Return the mixing window of reads and writes: the DRAM's time to fill the NRAM of all cores."""
    cores = values["clusters"] * values["cores_per_cluster"]
    nbytes = cores * (values["nram_bytes"] - values["nram_reserved_bytes"])
    efficiency = values["dram_write_efficiency"] * values["dram_mixed_efficiency"]
    return ceil_ps(nbytes * PS_PER_S / (values["dram_bandwidth_bytes_per_s"] * efficiency))


def _fitted(family: str) -> _Layer:
    """Return the fitted parameters of a family: those of all boards, overridden by its own."""
    return {
        fit.field: _Entry(fit.value, f"fitted: {fit.source}", fit.known_on)
        for fit in fitted_parameters()
        if not fit.families or family in fit.families
    }
