"""`mlusim sweep` on the command line: its output and files, and its errors of one line."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import mlusim
from command_line import call, error_of
from mlusim.cli import main
from mlusim.cli.operators import SUMMARIES

ROOT = Path(__file__).resolve().parent.parent.parent
TIN_SHIFT = ("sweep", "tin_shift", "--shape", "2,4,8,49", "--workers", "0")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def succeed(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_sweep_prints_and_stores_a_row_per_point(folder):
    text = succeed(*TIN_SHIFT, "--strategy", "tight,batched", "--dtype", "float16", "--nram", "100,1KiB..2KiB*2")
    lines = text.splitlines()
    assert lines[0].split() == ["nram_usable_bytes", "strategy", "tier", "time", "io_eff.", "traffic"]
    assert lines[1].split()[:4] == ["100B", "tight", "impossible:", "mlu370-x4"]
    (row,) = mlusim.sweep(
        "tin_shift", shape=(2, 4, 8, 49), dtype="float16", strategy="tight", nram_bytes=1024, workers=0
    ).rows
    assert lines[3].split()[:4] == ["1KiB", "tight", str(row["tier"]), f"{row['time_us']:.2f}"]
    assert text.endswith("6 points: 4 done, 2 impossible (in sweep.sqlite)\n")
    assert "sweep.sqlite" in names(folder)
    again = succeed(*TIN_SHIFT, "--strategy", "all", "--dtype", "float16", "--nram", "2KiB")
    assert "(in sweep.sqlite, 2 of them from before)" in again


def test_a_folder_without_room_for_the_points_names_the_way_without(folder):
    Path("sweep.sqlite").mkdir()
    found = call(*TIN_SHIFT)
    assert (found.exit_code, found.stderr) == (
        2,
        "error: --db sweep.sqlite is a directory: name a file in it; --no-db runs without the file\n",
    )


def test_python_and_the_command_line_have_the_same_points(folder):
    succeed("sweep", "reverse", "--shape", "32,16", "--axis", "0", "--axis", "0,1", "--db", "a.sqlite", "-j", "0", "-q")
    assert mlusim.sweep("reverse", shape=(32, 16), axis=[(0,), (0, 1)], db="a.sqlite", workers=0).found == 2
    succeed("sweep", "tin_shift", "--shape", "2,4,8,16", "--db", "a.sqlite", "-j", "0", "-q")
    assert mlusim.sweep("tin_shift", shape=(2, 4, 8, 16), db="a.sqlite", workers=0).found == 1
    succeed(
        "sweep", "cast", "--shape", "99", "--dtype", "int8", "--input-dtype", "float16,int16", "--db", "a.sqlite", "-j0"
    )
    found = mlusim.sweep("cast", shape=99, dtype="int8", input_dtype=["float16", "int16"], db="a.sqlite", workers=0)
    assert found.found == 2


def test_tables_pictures_and_json(folder):
    text = succeed(*TIN_SHIFT, "--cores", "4..16*2", "-o", "t.csv", "--plot", "time,copies", "--no-db")
    assert text.endswith("3 points: 3 done\nwrote t.csv\nwrote t.csv.json\nwrote t.png\n")
    assert [row["cores"] for row in csv.DictReader(Path("t.csv").read_text().splitlines())] == ["4", "8", "16"]
    found = json.loads(
        succeed(*TIN_SHIFT, "--cores", "4,8", "--no-db", "--json", "--against", "cores", "--picture", "p.svg")
    )
    assert found["axes"] == ["cores"]
    assert found["counts"]["done"] == 2
    assert [row["cores"] for row in found["rows"]] == [4, 8]
    assert found["written"] == ["p.svg"]
    assert names(folder) == ["p.svg", "t.csv", "t.csv.json", "t.png"]
    assert succeed(*TIN_SHIFT, "--no-db", "--quiet") == ""


def test_settings_and_launches_of_a_kernel_are_axes(kernels):
    lines = succeed(
        *("sweep", f"{kernels}:add", "--shape", "1000", "--set", "tile=64..128*2"),
        *("--dim", "4", "--dim", "4,8,1", "--kind", "union1,BLOCK", "--workers", "0", "--no-db"),
    ).splitlines()
    assert lines[0].split() == ["tile", "dim", "kind", "time", "io_eff.", "traffic"]
    assert [line.split()[:3] for line in lines[1:3]] == [["64", "4,1,1", "UNION1"], ["64", "4,1,1", "BLOCK"]]
    assert lines[-1] == "8 points: 8 done"
    assert "--set NAME=VALUES" in succeed("sweep", f"{kernels}:add", "--help")


def test_settings_have_the_type_of_their_default(folder):
    Path("k.py").write_text(
        "def launch(device, shape, dtype, part=0.5, fast=False, how='a'):\n"
        "    assert (type(part), type(fast), type(how)) == (float, bool, str)\n"
        "    async def nothing(core):\n"
        "        pass\n"
        "    device.launch(nothing, dim=4)\n"
    )
    rows = json.loads(
        succeed(
            *("sweep", "k.py:launch", "--shape", "4", "--no-db", "--workers", "0", "--json"),
            *("--set", "part=0.25,0.5", "--set", "fast=true,false", "--set", "how=a,b"),
        )
    )["rows"]
    assert [(row["part"], row["fast"], row["how"]) for row in rows][:3] == [
        (0.25, True, "a"),
        (0.25, True, "b"),
        (0.25, False, "a"),
    ]
    assert error_of("sweep", "k.py:launch", "--shape", "4", "--set", "fast=maybe") == (
        "--set fast=maybe: choose true or false"
    )


# Most examples of tune try hundreds of plans.
SHORT = {"bitcast_convert", "cast", "index_select"}


@pytest.mark.grid(2)
@pytest.mark.parametrize(
    ("group", "name"),
    [
        pytest.param(group, name, marks=[pytest.mark.slow] if group == "tune" and name not in SHORT else [])
        for group in ("sweep", "tune")
        for name in SUMMARIES
    ],
)
def test_every_operator_has_its_options_once_and_an_example_that_runs(group, name):
    command = main.commands[group].get_command(click.Context(main), name)
    options = [option for parameter in command.params for option in parameter.opts]
    assert len(set(options)) == len(options)
    # As a shell joins them.
    lines = [line.strip() for line in succeed(group, name, "--help").replace("\\\n", "").splitlines()]
    example = next(line for line in lines if line.startswith(f"mlusim {group} "))
    words = example.split()[1:]
    small = [word.replace("4096", "512").replace("784*2", "49*2").replace("4194304", "9999") for word in words]
    succeed(*small, "--workers", "0", "--quiet")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--db", "notes.txt"), "notes.txt is not an SQLite file of a sweep: name another file"),
        (("-o", "t.xls"), "t.xls: a table is a .parquet, .csv or .json file: use one of these suffixes"),
        (("-o", "gone/t.csv"), "--out gone/t.csv: there is no directory "),
        (("--vary", "clock_hz"), "--vary clock_hz: write NAME=VALUES"),
        (("--vary", "clock_hz=1GHz", "--vary", "clock_hz=2GHz"), "--vary clock_hz=2GHz: clock_hz has a value already"),
        (
            ("--vary", "dram_bandwidth_bytes_per_s=1GB/s", "--bandwidth", "2GB/s"),
            "--bandwidth and --vary dram_bandwidth_bytes_per_s are one parameter: give one of them",
        ),
        (("--vary", "clock_hz=1GB"), "clock_hz: '1GB': no unit 'GB': it takes Hz, kHz, MHz, GHz"),
        (("--nram", "2KiB..1KiB*2"), "nram_bytes: '2KiB..1KiB*2' goes down: write the smaller value first"),
        (("--plot", "time"), "the sweep has one point: give an axis several values to draw figures against it"),
        (("--cores", "4,8", "--against", "colour"), "against colour: no such axis; the sweep has cores"),
        (
            ("--cores", "4,8", "--against", "nram"),
            "against nram_usable_bytes: all points have the same value; choose one of cores",
        ),
        (("--cores", "4,8", "--picture", "p.jpg"), "--picture p.jpg: name a .png or .svg file"),
        (("--strategy", "tigth"), "strategy='tigth': did you mean tight?"),
        (("--dtype", "float17"), "'float17'"),
        (
            ("--dask", "tcp://127.0.0.1:9"),
            "--dask and --workers: the cluster has its own workers; drop one of them",
        ),
    ],
)
def test_wrong_options_are_one_line_before_anything_runs(folder, arguments, message):
    Path("notes.txt").write_text("x" * 200)
    assert message in error_of(*TIN_SHIFT, *arguments)
    assert names(folder) == ["notes.txt"]


def test_an_unknown_figure_lists_the_known_ones():
    text = error_of(*TIN_SHIFT, "--cores", "4,8", "--plot", "tame")
    reason = "is not a figure: choose time, bandwidth, efficiency, traffic, or a column of numbers: time_us, "
    assert text.startswith(f"'tame' {reason}")


def test_sweeps_with_only_failed_or_impossible_points_exit_with_code_1(kernels):
    text = error_of("sweep", f"{kernels}:divides_by_zero", "--shape", "4", "--workers", "0", "--no-db", code=1)
    assert text.startswith("1 of 1 points failed; the first: ")
    assert text.endswith("the kernel raised ZeroDivisionError: division by zero")
    text = error_of("sweep", "tin_shift", "--shape", "2,4", "--workers", "0", "--no-db", code=1)
    assert text == "the point is impossible: shape of rank 2: tin_shift takes N,T,C,HW, such as 2,8,256,196"
    result = call("sweep", f"{kernels}:add", "--shape", "64", "--set", "tile=10000000", "--workers", "0", "--no-db")
    assert result.output.count("largest free range") == 1  # of the reason: in the error, and not in the table as well


def test_a_shard_without_a_point_is_done(kernels):
    shards = [
        call("sweep", f"{kernels}:add", "--shape", "64", "--workers", "0", "--no-db", "--shard", f"{part}/2").output
        for part in (1, 2)
    ]
    assert sorted(text.splitlines()[-1] for text in shards) == ["0 points: this shard is empty", "1 point: 1 done"]


@pytest.mark.parametrize("steady", [(), ("--steady",)], ids=["simulated", "steady"])
def test_a_table_has_the_same_columns_if_no_point_is_possible(folder, steady):
    def columns(limits):
        words = ("sweep", "reverse", "--axis", "0", "--shape", "64", "--nram-limit", limits, *steady, "--no-db")
        call(*words, "--workers", "0", "--quiet", "--force", "-o", "table.csv")
        return Path("table.csv").read_text().partition("\n")[0].split(",")

    assert columns("2") == columns("2,2048")
    assert {"time_us", "tier", "idle_us"} < set(columns("2"))


def test_an_unknown_operator_is_an_error():
    assert "did you mean tin_shift?" in error_of("sweep", "tin_shft", "--shape", "2")
    assert "a kernel is the argument of this command: mlusim sweep FILE.py:KERNEL" in error_of(
        "sweep", "--kernel", "a.py:b"
    )


def test_a_limit_on_nram_for_a_run():
    given = ("run", "tin_shift", "--shape", "2,4,8,49", "--strategy", "tight")
    text = succeed(*given, "--nram-limit", "0.5KiB", "--explain")
    assert "usable NRAM 655 360 B (640 KiB), limited to 512 B" in text
    assert re.search(r"\n  tier +2 \(unit split\)", text)
    assert "is not a size such as 65536 or 64KiB" in error_of(*given, "--nram-limit", "1KiB,2KiB")
    assert error_of(*given, "--nram-limit", "1MiB").startswith(
        "nram_limit_bytes=1048576: a limit must be 1 to 655360, the usable"
    )
    assert len(error_of(*given, "--nram-limit", "1e4000")) < 500


@pytest.mark.slow
def test_the_progress_bar_is_shown_only_on_a_terminal(folder):
    """On a pseudo-terminal as standard error; the bar is drawn there, and standard output stays a table."""
    reader, writer = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-m", "mlusim", *TIN_SHIFT, "--nram", "256..64KiB*2", "--strategy", "all", "--no-db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer, env=environment, text=True) as process:
        os.close(writer)
        seen = b""
        while True:
            try:
                part = os.read(reader, 4096)
            except OSError:
                break
            if not part:
                break
            seen += part
        out = process.stdout.read()
    os.close(reader)
    assert process.returncode == 0
    assert "sweeping" in seen.decode()
    assert "/54" in seen.decode()
    assert "\x1b" not in out


def test_two_boards_of_one_name_are_refused(folder):
    Path("again.toml").write_text('name = "mlu370-x4"\nbase = "mlu370-x4"\nclock_hz = 900_000_000\n')
    found = call(*TIN_SHIFT, "--device", "mlu370-x4,again.toml", "--no-db")
    assert found.exit_code == 2
    assert "two different boards are called mlu370-x4: give one another name in its TOML file" in found.stderr
    assert succeed(*TIN_SHIFT, "--device", "mlu370-x4,MLU370-X4", "--no-db", "-q") == ""


def test_a_reason_is_cut_in_the_table_and_complete_below(folder, monkeypatch):
    monkeypatch.setattr("mlusim.cli.console._WIDTH", 80)
    lines = call(*TIN_SHIFT, "--cores", "6,8", "--no-db").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["6", "8"]
    assert lines[1].endswith("...")
    assert all(len(line) <= 80 for line in lines[:3])
    assert "impossible: mlu370-x4: 6 cores are not whole clusters of 4; use 4 or 8" in lines
