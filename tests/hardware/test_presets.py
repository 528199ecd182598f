"""The presets: public facts copied from the sources, and a golden list of what is assumed."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest

import mlusim.hardware
from mlusim.errors import BoardError
from mlusim.hardware import SOURCES, Board, presets
from mlusim.hardware.checks import EFFICIENCY_ORDER
from mlusim.hardware.describe import assumed_fields, board_rows, field_meanings, value_text
from mlusim.units import KIB
from mlusim.validation.measurements import measurements

PRESETS = {item.name: item for item in presets()}
PARAMETERS = [item.name for item in fields(Board) if item.name not in {"name", "sources"}]

# D; the on-chip sizes from mlu-ops' build script. 0: not in the sources.
FACTS = """
name         arch clusters cores   MHz   GB/s  bits       L2 NRAM WRAM SRAM union
mlu220-m2     220        1     4   500   29.86   64  1048576    0    0    0     1
mlu270-s4     270        4     4  1000  102.4   256  1048576  512 1024 2048     4
mlu270-d4     270        2     4  1000  102.4   256  1048576  512 1024 2048     1
mlu290-m5     290       16     4  1000 1228.8  4096  2097152  512  512 2048    16
mlu365-d2     372        2     4  1000  153.6   192  1048576  768 1024 4096     2
mlu370-s4     372        6     4  1000  307.2   384  2097152  768 1024 4096     4
mlu370-x4     372        8     4  1000  307.2   384  2097152  768 1024 4096     8
mlu370-x8     372        4     4  1000  307.2   384  2097152  768 1024 4096     4
mlu370-m8     372        8     4  1300  307.2   384  2097152  768 1024 4096     8
mlu590-h8     592       12     4  1500 2048    5120 41943040  512  512 2048     8
mlu590-m9     592       12     4  1600 2764.8  6144 50331648  512  512 2048     8
mlu585        592       10     4  1500 2048    5120 41943040  512  512 2048     8
mlu590-m9dg   592        8     4  1850 2304    5120        0  512  512 2048     0
"""

# Golden: a new assumption, or one that a source has replaced, shows here as a reviewed change.
ASSUMED_EVERYWHERE = [
    *("gdram_bytes", "ldram_bytes_per_core"),
    *("dram_read_efficiency", "dram_strided_read_efficiency", "dram_strided_write_efficiency"),
    *("dram_mixing_reach", "dram_share_spread"),
    *(f"vector_{kind}_cycles" for kind in ("divide", "exp", "root", "trig", "activation")),
    *("core_read_bandwidth_bytes_per_s", "core_write_bandwidth_bytes_per_s", "memory_core_bandwidth_bytes_per_s"),
    *("sram_bandwidth_bytes_per_s", "core_sram_bandwidth_bytes_per_s", "sram_latency_ps"),
    "move_bytes_per_cycle",
    *("scalar_loop_cycles", "scalar_sram_cycles", "issue_cycles"),
    *("kernel_end_ps", "core_start_skew_ps", "cluster_barrier_ps", "union_barrier_ps"),
]
# Measured on MLU290 alone.
PORTS_OF_CLUSTERS = ["cluster_read_bandwidth_bytes_per_s", "cluster_write_bandwidth_bytes_per_s"]
# Fitted to measurements of one board, or of one family.
FITTED_ON_M9 = ["kernel_start_ps", "cluster_start_ps"]
FITTED_ON_H8 = [
    *("dma_read_latency_ps", "dma_write_latency_ps", "vector_log_cycles"),
    *("vector_startup_cycles", "move_startup_cycles", "tensor_startup_cycles"),
]
FITTED_ON_X8 = ["tensor_efficiency"]
# Stated by the vendor for MLU370 only.
RULES_OF_370 = [
    *("dram_unit_bytes", "vector_bytes_per_cycle"),
    *("scalar_add_cycles", "scalar_op_cycles", "scalar_divide_fp16_cycles", "scalar_divide_fp32_cycles"),
]
# Measured on some boards only, most of them on MLU590.
ON_2XX = ["dram_write_efficiency", "dram_mixed_efficiency", "gather_element_ps", "queued_kernel_gap_ps", "wave_ps"]
ON_270 = ["dma_segment_ps", "scalar_nram_cycles", "scalar_gdram_latency_ps"]
ON_370 = [*ON_2XX, *ON_270, "dma_element_ps"]
ON_590 = [
    *("queued_kernel_gap_ps", "dram_write_efficiency", "dram_mixed_efficiency", "wave_ps", "dma_element_ps"),
    *ON_270,
]
ASSUMED_ON: dict[str, list[str]] = {
    "mlu220-m2": [*RULES_OF_370, *ON_2XX, *ON_270, "dma_element_ps", "nram_bytes", "wram_bytes", "sram_bytes"],
    "mlu270-s4": [*RULES_OF_370, *ON_2XX],
    "mlu270-d4": [*RULES_OF_370, *ON_2XX],
    "mlu290-m5": [*RULES_OF_370, *ON_2XX, *ON_270, "dma_element_ps"],
    "mlu365-d2": ON_370,
    "mlu370-s4": ON_370,
    "mlu370-x4": [*(set(ON_370) - {"dram_mixed_efficiency", "scalar_gdram_latency_ps"})],
    "mlu370-x8": [*(set(ON_370) - {"scalar_gdram_latency_ps", "scalar_nram_cycles"})],
    "mlu370-m8": [*(set(ON_370) - {"scalar_gdram_latency_ps"})],
    "mlu590-h8": [*RULES_OF_370, *(set(ON_590) - {"wave_ps"})],
    "mlu590-m9": [*RULES_OF_370, "wave_ps", *ON_270],
    "mlu585": [*RULES_OF_370, *ON_590],
    "mlu590-m9dg": [*RULES_OF_370, *ON_590, "family", "max_union", "l2_bytes"],
}

# What the vendor sells the cards as, in TOPS and TFLOPS. MLU370-X8 is a card of two chips.
TOPS = {
    "mlu220-m2": {"int8": 8},
    "mlu270-s4": {"int8": 128},
    "mlu290-m5": {"int8": 512, "int16": 256},
    "mlu370-x8": {"int8": 256 / 2, "int16": 128 / 2, "fp16": 96 / 2},
}


def _facts() -> list[dict[str, str]]:
    head, *rows = (line.split() for line in FACTS.strip().splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.mark.parametrize("fact", _facts(), ids=lambda fact: fact["name"])
def test_preset_values_match_their_sources(fact: dict[str, str]) -> None:
    board = PRESETS[fact["name"]]
    assert board.arch == int(fact["arch"])
    assert board.clusters == int(fact["clusters"])
    assert board.cores_per_cluster == int(fact["cores"])
    assert board.clock_hz == int(fact["MHz"]) * 10**6
    assert board.dram_bandwidth_bytes_per_s == round(float(fact["GB/s"]) * 10**9)
    assert board.dram_bus_bits == int(fact["bits"])
    for column, unit, value, name in (
        ("L2", 1, board.l2_bytes, "l2_bytes"),
        ("NRAM", KIB, board.nram_bytes, "nram_bytes"),
        ("WRAM", KIB, board.wram_bytes, "wram_bytes"),
        ("SRAM", KIB, board.sram_bytes, "sram_bytes"),
        ("union", 1, board.max_union, "max_union"),
    ):
        if int(fact[column]):
            assert value == int(fact[column]) * unit, name
        else:
            assert board.sources[name].startswith("ASSUMED"), name


def test_every_row_of_the_sources_has_a_preset_and_no_other() -> None:
    assert [item.name for item in presets()] == [fact["name"] for fact in _facts()]


@pytest.mark.parametrize("board", presets(), ids=lambda board: board.name)
class TestEveryPreset:
    def test_each_value_has_a_source_that_the_list_of_sources_explains(self, board: Board) -> None:
        assert set(board.sources) == set(PARAMETERS)
        for name, source in board.sources.items():
            letter, colon, place = source.partition(": ")
            assert colon, f"{name}: {source}"
            assert letter in SOURCES, f"{name}: {source}"
            assert place.strip(), f"{name}: {source}"

    def test_every_assumed_value_is_listed(self, board: Board) -> None:
        fitted = [
            field
            for known_on, fields in (
                ("mlu590-m9", FITTED_ON_M9),
                ("mlu590-h8", FITTED_ON_H8),
                ("mlu370-x8", FITTED_ON_X8),
            )
            for field in fields
            if board.name != known_on
        ]
        ports = [] if board.family == "mlu290" else PORTS_OF_CLUSTERS
        assert sorted(assumed_fields(board)) == sorted([*ASSUMED_EVERYWHERE, *ports, *fitted, *ASSUMED_ON[board.name]])

    def test_every_fitted_value_names_its_measurements(self, board: Board) -> None:
        rows = {row.name for row in measurements()}
        for name, source in board.sources.items():
            if source.startswith("fitted: "):
                named = re.split(r"[:,] ", source.removeprefix("fitted: "))
                assert rows & set(named), f"{name}: {source}"

    def test_efficiencies_keep_the_vendors_order(self, board: Board) -> None:
        read, write, strided_read, strided_write = (getattr(board, name) for name in EFFICIENCY_ORDER)
        assert read > write > strided_read > strided_write

    def test_128_kib_of_nram_and_sram_are_reserved(self, board: Board) -> None:
        usable = {"mlu370": (640 * KIB, 3968 * KIB)}.get(board.family, (384 * KIB, 1920 * KIB))
        assert (board.nram_usable_bytes, board.sram_usable_bytes) == usable

    def test_vector_peaks_match_the_test_framework(self, board: Board) -> None:
        assert (board.vector_peak_ops_per_cycle_fp16, board.vector_peak_ops_per_cycle_fp32) == (64, 32)

    def test_tensor_rates_match_the_tops_of_the_card(self, board: Board) -> None:
        for dtype, tops in TOPS.get(board.name, {}).items():
            rate = getattr(board, f"tensor_ops_per_cycle_{dtype}")
            assert rate * board.cores * board.clock_hz / 10**12 == pytest.approx(tops, rel=0.025)

    def test_one_core_cannot_exceed_its_clusters_port(self, board: Board) -> None:
        assert board.core_read_bandwidth_bytes_per_s <= board.cluster_read_bandwidth_bytes_per_s
        assert board.core_write_bandwidth_bytes_per_s <= board.cluster_write_bandwidth_bytes_per_s

    def test_the_clusters_together_can_fill_the_dram(self, board: Board) -> None:
        # But for MLU290, whose copy loop reads 460 to 490 of 1228.8 GB/s.
        together = board.clusters * board.cluster_read_bandwidth_bytes_per_s
        assert (together > board.dram_bandwidth_bytes_per_s) == (board.family != "mlu290")
        assert board.cores * board.core_read_bandwidth_bytes_per_s > board.dram_bandwidth_bytes_per_s

    def test_the_ldram_of_all_cores_leaves_room_in_gdram(self, board: Board) -> None:
        assert board.cores * board.ldram_bytes_per_core < board.gdram_bytes

    def test_rows_show_every_parameter_with_its_meaning(self, board: Board) -> None:
        rows = board_rows(board)
        assert [name for _, name, _, _ in rows] == ["name", *PARAMETERS]
        assert all(group and value for group, _, value, _ in rows)
        assert {name: source for _, name, _, source in rows if name != "name"} == dict(board.sources)


def test_a_measurement_is_an_assumption_on_the_boards_that_inherit_it() -> None:
    source = "measured: a second wave against a loop in the kernel"
    assert PRESETS["mlu590-h8"].sources["wave_ps"] == source
    assert PRESETS["mlu370-x4"].sources["wave_ps"] == f"ASSUMED: as mlu590-h8 ({source})"


@pytest.mark.parametrize(
    ("name", "field", "pattern"),
    [
        ("mlu370-x8", "clock_hz", r"^D: .*; G 5\.3 says 1300 MHz$"),
        ("mlu290-m5", "dram_bandwidth_bytes_per_s", r"^D: .*; T uses 1024 GB/s$"),
        ("mlu220-m2", "dram_bandwidth_bytes_per_s", r"^D: .*; T uses 25\.6 GB/s$"),
        ("mlu220-m2", "l2_bytes", r"^D: .*; 256 KiB on most boards with an MLU220$"),
    ],
)
def test_conflicting_sources_are_named(name: str, field: str, pattern: str) -> None:
    assert re.search(pattern, PRESETS[name].sources[field])


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("mlu370-x4", "mlu370-x4"),
        ("MLU370-X4", "mlu370-x4"),
        (" mlu585 ", "mlu585"),
        ("mlu270-f4", "mlu270-s4"),
        ("MLU270-V4", "mlu270-s4"),
        ("mlu290", "mlu290-m5"),
        ("mlu590", "mlu590-m9"),
    ],
)
def test_board_by_name_or_alias(asked: str, found: str) -> None:
    assert mlusim.hardware.board(asked) is PRESETS[found]


def test_a_board_object_is_returned_unchanged() -> None:
    own = PRESETS["mlu585"].replace(clusters=3)
    assert mlusim.hardware.board(own) is own


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            "mlu370x4",
            r"^no board 'mlu370x4'; did you mean mlu370-x4 or mlu370-x8 or .*\? presets: mlu220-m2, .*m9dg",
        ),
        ("mlu590-h", r"^no board 'mlu590-h'; did you mean .*mlu590-h8.*\? presets: mlu220-m2, "),
        ("a100", r"^no board 'a100'; presets: mlu220-m2, .*; a board of your own is the path of its \.toml file$"),
        ("", r"^no board ''; presets: mlu220-m2, "),
        (370, r"^a board is the name of a preset, the path of a \.toml file or a Board, not 370$"),
        (None, r"^a board is the name of a preset, the path of a \.toml file or a Board, not None$"),
    ],
)
def test_unknown_boards(asked: str, message: str) -> None:
    with pytest.raises(BoardError, match=message):
        mlusim.hardware.board(asked)


@pytest.mark.parametrize(("name", "likely"), [("cluster", "clusters"), ("nram", r"nram_bytes \(bytes\)")])
def test_an_unknown_parameter_suggests_the_likely_one(name: str, likely: str) -> None:
    with pytest.raises(BoardError, match=rf"^mlu370-x4: .*'{name}'.*; did you mean {likely}\?$"):
        mlusim.hardware.board("mlu370-x4").replace(**{name: 2})


def test_reading_toml_is_not_part_of_the_import() -> None:
    code = "import sys, mlusim.hardware; mlusim.hardware.presets(); print('tomllib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_parameter_has_a_meaning_in_one_line() -> None:
    meanings = field_meanings()
    assert list(meanings) == ["name", *PARAMETERS]
    assert all(meaning.endswith(".") and len(meaning) > len("same.") for meaning in meanings.values())


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("clock_hz", 1_850_000_000, "1 850 MHz"),
        ("clock_hz", 1_000_000, "1 MHz"),
        ("clock_hz", 1_500_001, "1.500001 MHz"),
        ("dram_bandwidth_bytes_per_s", 29_860_000_000, "29.86 GB/s"),
        ("nram_bytes", 655_360, "655 360 B (640 KiB)"),
        ("ldram_bytes_per_core", 64, "64 B"),
        ("wave_ps", 2_400_000, "2 400 ns"),
        ("gather_element_ps", 57_500, "57.5 ns"),
        ("move_bytes_per_cycle", 128, "128 B/cycle"),
        ("vector_peak_ops_per_cycle_fp16", 64, "64 ops/cycle"),
        ("tensor_ops_per_cycle_fp16", 3072, "3 072 ops/cycle"),
        ("tensor_ops_per_cycle_fp16", 0, "none"),
        ("tensor_ops_per_cycle_fp32", 0, "none"),
        ("issue_cycles", 4, "4 cycles"),
        ("dram_bus_bits", 5120, "5 120 bits"),
        ("dram_read_efficiency", 0.9, "0.9"),
        ("dram_share_spread", 0.3, "0.3"),
        ("clusters", 12, "12"),
        ("family", "mlu370", "mlu370"),
    ],
)
def test_values_are_shown_with_their_unit(name: str, value: str | float, text: str) -> None:
    assert value_text(name, value) == text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clusters": 0}, r"^mlu585: clusters = 0 must be positive$"),
        ({"wave_ps": -1}, r"^mlu585: wave_ps = -1 must not be negative$"),
        ({"gdram_bytes": 10**400}, r"gdram_bytes = 1\S+ is too large for a number of 64 bits$"),
        ({"dram_mixing_reach": 1e300}, r"dram_mixing_reach = 1e\+300 is too large for a number of 64 bits$"),
        ({"clusters": True}, r"^mlu585: clusters = True must be an integer, not bool; its unit"),
        ({"clock_hz": 1.5e9}, r"^mlu585: clock_hz = 1500000000\.0 must be an integer, not float; its unit"),
        ({"dram_mixed_efficiency": "0.9"}, r"^mlu585: dram_mixed_efficiency = '0\.9' must be a number, not str$"),
        ({"dram_mixed_efficiency": 1.5}, r"^mlu585: dram_mixed_efficiency = 1\.5 must be in \[0\.001, 1\]$"),
        ({"dram_mixed_efficiency": float("nan")}, r"^mlu585: dram_mixed_efficiency = nan must be in \[0\.001, 1\]$"),
        ({"name": ""}, r"^: name = '' must be a string of printable characters$"),
        ({"name": "a\nb"}, r"name = 'a\\nb' must be a string of printable characters$"),
        ({"name": 3}, r"^3: name = 3 must be a string of printable characters$"),
        ({"max_union": 3}, r"^mlu585: max_union = 3 must be one of 1, 2, 4, 8, 16$"),
        ({"dram_unit_bytes": 48}, r"^mlu585: dram_unit_bytes = 48 must be a power of two$"),
        (
            {"vector_alignment_bytes": 64, "arch": 290},
            (
                r"^mlu585: vector_alignment_bytes = 64 must be at least 128 on arch 290: below arch 300 a vector "
                r"operand is a multiple of 128 B \(B\)$"
            ),
        ),
        (
            {"nram_reserved_bytes": 524288},
            r"^mlu585: nram_reserved_bytes = 524288 leaves nothing of nram_bytes = 524288$",
        ),
        (
            {"wave_ps": 10**15 + 1},
            r"^mlu585: wave_ps = 10{14}1 is a delay of more than 1,000 s; no instruction of a chip takes that long$",
        ),
        ({"issue_cycles": 2**61}, r"^mlu585: issue_cycles = 2305843009213693952 is a delay of more than 1,000 s; "),
        ({"sram_bytes": 0}, r"^mlu585: sram_reserved_bytes = 131072 leaves nothing of sram_bytes = 0$"),
        (
            {"dram_write_efficiency": 0.93},
            (
                r"^mlu585: dram_write_efficiency = 0\.93 must be less than dram_read_efficiency = 0\.93: "
                r"contiguous read > contiguous write > strided read > strided write \(G 5\.3\)$"
            ),
        ),
        (
            {"dram_strided_write_efficiency": 0.89},
            r"^mlu585: dram_strided_write_efficiency = 0\.89 must be less than dram_strided_read_efficiency = 0\.88: ",
        ),
    ],
)
def test_a_record_refuses_what_breaks_a_rule(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BoardError, match=message):
        PRESETS["mlu585"].replace(**changes)


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"clusers": "D: x"}, r"^mlu585: sources names 'clusers', which is not a parameter$"),
        ({"clusters": " "}, r"^mlu585: the source of clusters is ' '; name one or write ASSUMED and why$"),
        ({}, r"^mlu585: family has no source; name one or write ASSUMED and why$"),
    ],
)
def test_a_record_refuses_values_without_an_origin(sources: dict[str, str], message: str) -> None:
    preset = PRESETS["mlu585"]
    values = {name: getattr(preset, name) for name in ["name", *PARAMETERS]}
    with pytest.raises(BoardError, match=message):
        Board(sources=sources, **values)


def test_integers_of_numpy_are_parameters_too() -> None:
    changed = mlusim.hardware.board("mlu370-x4").replace(clusters=np.int64(2), max_union=np.uint8(2))
    assert changed == mlusim.hardware.board("mlu370-x4").replace(clusters=2, max_union=2)
    assert (type(changed.clusters), type(changed.max_union)) == (int, int)
