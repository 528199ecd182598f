"""The boards that come with mlusim: a table of what differs between boards of a family, and the boards made from it.

Other values are those of `mlusim.hardware.board_values`. A value is a fact with its source, a measurement, or ASSUMED
with the reasoning. Timing parameters are estimates by plain reasoning, from one or two measurements each, unless
`mlusim.hardware.calibrated` overrides them with values fitted to all measurements together by
`python -m mlusim.validation.calibrate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from mlusim.errors import BoardError, shown
from mlusim.hardware.board_record import Board
from mlusim.hardware.board_values import BY_BOARD, BY_FAMILY, COMMON, Entry, Layer, PerCycle
from mlusim.hardware.calibrated import fitted_parameters
from mlusim.spelling import nearest
from mlusim.units import GIB, KIB, PS_PER_S, ceil_ps

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
    suggestion = nearest(key, family or [*preset_names(), *ALIASES], count=3)
    raise BoardError(f"no board {shown(name)}; {suggestion}presets: {', '.join(preset_names())}")


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
    layers = COMMON | BY_FAMILY[row.family] | BY_BOARD.get(name, {}) | (_fitted_layer(row.family) if fitted else {})
    for field, entry in layers.items():
        value = entry.value
        values[field] = value.nbytes * values["clock_hz"] if isinstance(value, PerCycle) else value
        is_known = entry.known_on in {"", name, row.family}
        sources[field] = entry.source if is_known else f"ASSUMED: as {entry.known_on} ({entry.source})"
    values["dram_mixing_ps"] = mixing_ps(values)
    sources["dram_mixing_ps"] = "derived: the DRAM's time for the usable NRAM of all cores, reads and writes mixed"
    return Board(name=name, sources=sources, **values)


def mixing_ps(values: Mapping[str, Any]) -> int:
    """Return the mixing window of reads and writes: the DRAM's time to fill the NRAM of all cores."""
    cores = values["clusters"] * values["cores_per_cluster"]
    nbytes = cores * (values["nram_bytes"] - values["nram_reserved_bytes"])
    efficiency = values["dram_write_efficiency"] * values["dram_mixed_efficiency"]
    return ceil_ps(nbytes * PS_PER_S / (values["dram_bandwidth_bytes_per_s"] * efficiency))


def _fitted_layer(family: str) -> Layer:
    """Return the fitted parameters of a family: those of all boards, overridden by its own."""
    return {
        parameter.field: Entry(parameter.value, f"fitted: {parameter.source}", parameter.known_on)
        for parameter in fitted_parameters()
        if not parameter.families or family in parameter.families
    }
