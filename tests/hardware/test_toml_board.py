"""User-defined boards from TOML files, and the error for each mistake."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlusim.hardware
from mlusim.errors import BoardError
from mlusim.hardware import Board, presets
from mlusim.hardware.checks import EFFICIENCY_ORDER
from mlusim.hardware.toml_board import board_from_toml, to_toml
from mlusim.units import KIB, PS_PER_S

X4 = mlusim.hardware.board("mlu370-x4")
KINDS = {item.name: item.type for item in fields(Board) if item.name != "sources"}
INTEGERS = [name for name, kind in KINDS.items() if kind == "int"]


def values_of(board: Board) -> dict[str, Any]:
    return {name: getattr(board, name) for name in KINDS}


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------- what it may say
def test_omitted_keys_come_from_the_base(tmp_path: Path) -> None:
    board = mlusim.hardware.board(write(tmp_path, 'base = "MLU370-X4"\nclusters = 4\ndram_mixed_efficiency = 1\n'))
    # The window of mixing follows: half the cores, and no loss.
    window_ps = math.ceil(16 * 640 * KIB * PS_PER_S / (X4.dram_bandwidth_bytes_per_s * X4.dram_write_efficiency))
    values = {"name": "mine", "clusters": 4, "dram_mixed_efficiency": 1, "dram_mixing_ps": window_ps}
    assert values_of(board) == values_of(X4) | values
    changed = {"name", "clusters", "dram_mixed_efficiency"}
    inherited = set(X4.sources) - changed
    assert {key: board.sources[key] for key in inherited} == {key: X4.sources[key] for key in inherited}
    assert {board.sources[key] for key in changed} == {"user: mine.toml"}


def test_a_window_of_mixing_that_is_given_stays(tmp_path: Path) -> None:
    board = board_from_toml(write(tmp_path, 'base = "mlu370-x4"\nclusters = 4\ndram_mixing_ps = 5\n'))
    assert (board.dram_mixing_ps, board.sources["dram_mixing_ps"]) == (5, "user: mine.toml")


def test_an_alias_is_a_base(tmp_path: Path) -> None:
    board = board_from_toml(write(tmp_path, 'base = "mlu290"\n'))
    assert values_of(board) == values_of(mlusim.hardware.board("mlu290-m5")) | {"name": "mine"}


def test_a_name_and_sources_of_its_own(tmp_path: Path) -> None:
    text = 'base = "mlu370-x4"\nname = "half an X4"\nclusters = 4\n[sources]\nclusters = "the data sheet, page 3"\n'
    board = board_from_toml(write(tmp_path, text))
    assert board.name == "half an X4"
    assert board.sources["clusters"] == "the data sheet, page 3"


def test_a_string_may_have_another_unit(tmp_path: Path) -> None:
    text = 'base = "mlu370-x4"\nnram_bytes = "1 MiB"\nclock_hz = "0.9GHz"\ndma_read_latency_ps = "500 ns"\n'
    board = board_from_toml(write(tmp_path, text))
    assert (board.nram_bytes, board.clock_hz, board.dma_read_latency_ps) == (1 << 20, 900_000_000, 500_000)


def test_a_source_without_a_value_replaces_the_bases_source(tmp_path: Path) -> None:
    board = board_from_toml(write(tmp_path, 'base = "mlu370-x4"\n[sources]\nwave_ps = "measured: here"\n'))
    assert (board.wave_ps, board.sources["wave_ps"]) == (X4.wave_ps, "measured: here")


def test_a_byte_order_mark_and_windows_lines_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'\xef\xbb\xbfbase = "mlu370-x4"\r\nclusters = 4\r\n')
    assert board_from_toml(path).clusters == 4


def test_a_whole_number_may_have_an_exponent(tmp_path: Path) -> None:
    made = board_from_toml(
        write(tmp_path, 'base = "mlu370-x4"\ndram_bandwidth_bytes_per_s = 614.4e9\nclock_hz = 9e8\n')
    )
    assert (made.dram_bandwidth_bytes_per_s, made.clock_hz) == (614_400_000_000, 900_000_000)
    assert type(made.clock_hz) is int


def test_text_with_a_separator_or_suffix_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 'base = "mlu585"\n', "mlu370-x4")
    write(tmp_path, 'base = "mlu585"\n', "Mine.TOML")
    monkeypatch.chdir(tmp_path)
    assert mlusim.hardware.board("./mlu370-x4").clusters == 10
    assert mlusim.hardware.board("Mine.TOML").clusters == 10
    assert mlusim.hardware.board(Path("mlu370-x4")).clusters == 10
    assert mlusim.hardware.board("mlu370-x4") is X4


# ------------------------------------------------------------------------------------------------ round trips
@pytest.mark.parametrize("board", presets(), ids=lambda board: board.name)
def test_a_preset_as_toml_reads_back(board: Board, tmp_path: Path) -> None:
    text = to_toml(board)
    read = board_from_toml(write(tmp_path, text))
    assert values_of(read) == values_of(board)
    assert set(read.sources.values()) == {"user: mine.toml"}
    for name, source in board.sources.items():
        assert any(line.startswith(f"{name} = ") and line.endswith(f"  # {source}") for line in text.splitlines())


@st.composite
def boards(draw: st.DrawFn) -> Board:
    printable = st.text(min_size=1).filter(str.isprintable)
    values: dict[str, Any] = {name: draw(st.integers(1, 2**63 - 1)) for name in INTEGERS}
    values |= {"name": draw(printable), "family": draw(printable), "max_union": draw(st.sampled_from([1, 2, 4, 8, 16]))}
    # A delay may be 1,000 s long.
    values |= {name: draw(st.integers(0, 10**15)) for name in INTEGERS if name.endswith("_ps")}
    clock_hz = values["clock_hz"]
    values |= {name: draw(st.integers(0, clock_hz * 1000)) for name in INTEGERS if name.endswith("_cycles")}
    values |= {name: draw(st.integers(1, 64)) for name in ("clusters", "cores_per_cluster")}
    for name in ("dram_unit_bytes", "vector_alignment_bytes", "wram_alignment_bytes"):
        values[name] = 2 ** draw(st.integers(7 if name == "vector_alignment_bytes" else 0, 20))
    for memory in ("nram", "sram"):
        values[f"{memory}_reserved_bytes"] = draw(st.integers(0, values[f"{memory}_bytes"] - 1))
    part = st.floats(0.001, 1)
    ordered = sorted(draw(st.lists(part, min_size=4, max_size=4, unique=True)), reverse=True)
    values |= dict(zip(EFFICIENCY_ORDER, ordered, strict=True))
    values["dram_mixed_efficiency"] = draw(part)
    values |= {
        "dram_mixed_efficiency": draw(part),
        "tensor_efficiency": draw(part),
        "dram_share_spread": draw(st.floats(0, 1, exclude_max=True)),
    }
    values["dram_mixing_reach"] = draw(st.floats(0, 1e18))
    source = draw(st.text().filter(str.strip))
    return Board(sources=dict.fromkeys(KINDS, source), **values)


@given(board=boards())
@pytest.mark.slow
def test_any_board_as_toml_reads_back(board: Board, tmp_path_factory: pytest.TempPathFactory) -> None:
    read = board_from_toml(write(tmp_path_factory.mktemp("board"), to_toml(board)))
    assert values_of(read) == values_of(board)


@given(
    changes=st.dictionaries(
        st.sampled_from([name for name in INTEGERS if name.endswith("_ps")]), st.integers(0, 10**15)
    )
)
def test_a_file_changes_only_the_keys_it_names(
    changes: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = 'base = "mlu370-x4"\n' + "".join(f"{name} = {value}\n" for name, value in changes.items())
    board = board_from_toml(write(tmp_path_factory.mktemp("board"), text))
    assert values_of(board) == values_of(X4) | {"name": "mine"} | changes
    assert {name for name, source in board.sources.items() if source.startswith("user: ")} == {"name", *changes}


# --------------------------------------------------------------------------------------------------- mistakes
BASE = 'base = "mlu370-x4"\n'
MISTAKES = {
    "unknown key": (f"{BASE}clusers = 4", r"no parameter 'clusers'; did you mean clusters\?"),
    "unknown key, other case": (f"{BASE}CLUSTERS = 4", r"no parameter 'CLUSTERS'; did you mean clusters\?"),
    "unknown key, other unit": (f"{BASE}clok_mhz = 4", r"no parameter 'clok_mhz'; did you mean clock_hz \(hertz\)\?"),
    "unknown key, like none": (
        f"{BASE}colour = 4",
        r"no parameter 'colour'; `mlusim devices mlu370-x4` lists them$",
    ),
    "a part of the name": (
        f"{BASE}bandwidth = 4",
        r"no parameter 'bandwidth'; did you mean dram_bandwidth_bytes_per_s \(bytes per second\) or core_read_.*\?",
    ),
    "the first word of the name": (f"{BASE}cores = 4", r"no parameter 'cores'; did you mean cores_per_cluster\?"),
    "no unit": (f"{BASE}nram = 1024", r"'nram' lacks its unit; did you mean nram_bytes \(bytes\)\?"),
    "no unit, one of many": (
        f"{BASE}dram_bandwidth = 1024",
        r"'dram_bandwidth' lacks its unit; did you mean dram_bandwidth_bytes_per_s \(bytes per second\)\?",
    ),
    "no unit, part of a name": (
        f"{BASE}scalar_divide = 9",
        (
            r"no parameter 'scalar_divide'; did you mean scalar_divide_fp16_cycles \(cycles\) or "
            r"scalar_divide_fp32_cycles \(cycles\)\?"
        ),
    ),
    "other unit": (
        f"{BASE}clock_mhz = 1000",
        r"no parameter 'clock_mhz'; the unit is part of the name: clock_hz \(hertz\)",
    ),
    "other unit, time": (
        f"{BASE}wave_us = 2.4",
        r"no parameter 'wave_us'; the unit is part of the name: wave_ps \(picoseconds\)",
    ),
    "other unit, per core": (
        f"{BASE}ldram_bytes = 9",
        r"no parameter 'ldram_bytes'; the unit is part of the name: ldram_bytes_per_core \(bytes per core\)",
    ),
    "boolean": (
        f"{BASE}clusters = true",
        r"clusters = True must be an integer, not bool; its unit.*",
    ),
    "float": (f"{BASE}clusters = 4.5", r"clusters = 4\.5 must be an integer, not float; its unit.*"),
    "infinity": (
        f"{BASE}clusters = inf",
        r"clusters = inf must be an integer, not float; its unit.*",
    ),
    "text": (
        f'{BASE}clusters = "4"',
        r"clusters = '4' must be an integer, not str; its unit is part of its name",
    ),
    "unit of another kind": (f'{BASE}nram_bytes = "1 MHz"', r"nram_bytes: '1 MHz': no unit 'MHz': it takes B, KiB, .*"),
    "text for a size": (f'{BASE}nram_bytes = "large"', r"nram_bytes: 'large' is not a number such as 64KiB"),
    "fraction of a byte": (
        f'{BASE}nram_bytes = "1.5 B"',
        r"nram_bytes: '1\.5 B' is 1\.5, and nram_bytes takes whole .*",
    ),
    "array": (f"{BASE}clusters = [4]", r"clusters = \[4\] must be an integer, not list; its unit.*"),
    "table for a number": (
        f"{BASE}[clusters]\nn = 4",
        r"clusters = \{'n': 4\} must be an integer, not dict; its unit.*",
    ),
    "date": (
        f"{BASE}clusters = 2024-01-01",
        r"clusters = .* must be an integer, not date; its unit.*",
    ),
    "boolean efficiency": (
        f"{BASE}dram_mixed_efficiency = true",
        r"dram_mixed_efficiency = True must be a number, not bool",
    ),
    "number as a name": (f"{BASE}name = 3", r"name = 3 must be a string of printable characters"),
    "empty name": (f'{BASE}name = ""', r"name = '' must be a string of printable characters"),
    "nested": (f"{BASE}[memories]\nnram_bytes = 9", r"\[memories\]: a board file is flat; only \[sources\] is a table"),
    "negative": (f"{BASE}nram_bytes = -1", r"nram_bytes = -1 must not be negative"),
    "zero": (f"{BASE}clusters = 0", r"clusters = 0 must be positive"),
    "efficiency above one": (f"{BASE}dram_read_efficiency = 92", r"dram_read_efficiency = 92 must be in \[0\.001, 1\]"),
    "nan": (f"{BASE}dram_mixed_efficiency = nan", r"dram_mixed_efficiency = nan must be in \[0\.001, 1\]"),
    "nothing left": (
        f"{BASE}nram_bytes = 131072",
        r"nram_reserved_bytes = 131072 leaves nothing of nram_bytes = 131072",
    ),
    "order of efficiencies": (
        f"{BASE}dram_strided_read_efficiency = 0.95",
        (
            r"dram_strided_read_efficiency = 0\.95 must be less than dram_write_efficiency = 0\.9: contiguous read > "
            r"contiguous write > strided read > strided write \(G 5\.3\)"
        ),
    ),
    "union": (f"{BASE}max_union = 5", r"max_union = 5 must be one of 1, 2, 4, 8, 16"),
    "no base": (
        "clusters = 4",
        r"missing family, arch, cores_per_cluster, max_union and \d+ more; give every parameter, or a preset as base",
    ),
    "empty": (
        "",
        r"missing family, arch, clusters, cores_per_cluster and \d+ more; give every parameter, or a preset as base",
    ),
    "unknown base": ('base = "mlu370-x5"', r"base: no board 'mlu370-x5'; did you mean mlu370-x.*\? presets: mlu220.*"),
    "base of another file": ('base = "./other.toml"', r"base: no board '\./other\.toml'; presets: .*"),
    "base of a wrong type": ("base = 370", r"base = 370 must be the name of a preset, not int"),
    "sources of a wrong type": (f'{BASE}sources = "me"', r"sources must be a table of strings, not str"),
    "source of nothing": (
        f'{BASE}[sources]\nclusers = "me"',
        r"sources\.clusers: no parameter 'clusers'; did you mean clusters\?",
    ),
    "source of a wrong type": (
        f"{BASE}[sources]\nclusters = 3",
        r"sources\.clusters = 3 must be a string that says where the value is from",
    ),
    "given twice": (f"{BASE}clusters = 4\nclusters = 5\n", r"line 3: clusters is given twice"),
    "malformed": (f"{BASE}clusters = four\n", r"not valid TOML: invalid value \(at line 2, column 12\)"),
    "malformed at the end": (f"{BASE}clusters =", r"not valid TOML: invalid value \(at end of document\)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_names_file_and_key(mistake: str, tmp_path: Path) -> None:
    text, message = MISTAKES[mistake]
    with pytest.raises(BoardError, match=rf"^.*mine\.toml: {message}$"):
        board_from_toml(write(tmp_path, text))


def test_one_missing_key_is_named(tmp_path: Path) -> None:
    text = "\n".join(line for line in to_toml(X4).splitlines() if not line.startswith("wave_ps"))
    with pytest.raises(BoardError, match=r"mine\.toml: missing wave_ps; give every parameter, or a preset as base$"):
        board_from_toml(write(tmp_path, text))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"none\.toml: no such file$"):
        mlusim.hardware.board(str(tmp_path / "none.toml"))


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r": cannot be read: "):
        board_from_toml(tmp_path)


def test_a_binary_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'base = "mlu\xff"')
    with pytest.raises(BoardError, match=r"mine\.toml: not UTF-8 text: byte 11 cannot be decoded$"):
        board_from_toml(path)
