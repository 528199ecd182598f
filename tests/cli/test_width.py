"""Tables are whole and readable on 80 columns, with --full too."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from rich.console import Console

from mlusim.cli import main, show

SHIFT = ("tin_shift", "--shape", "2,8,64,49", "--dtype", "float16")
SWEEP = ("sweep", *SHIFT, "--strategy", "all", "--nram", "4KiB,64KiB", "--no-db", "-j", "0")
TABLES = {
    "devices": ("devices",),
    "compare": ("compare", *SHIFT),
    "compare of boards": ("compare", *SHIFT, "--strategy", "tight,pingpong", "--device", "mlu370-x4,mlu590-h8"),
    "tune": ("tune", *SHIFT, "--strategy", "tight,pingpong", "-j", "0"),
    "sweep": SWEEP,
    "validate": ("validate", "fill-one"),
    "diff": ("diff", " ".join((*SHIFT, "--strategy", "tight")), " ".join((*SHIFT, "--strategy", "pingpong"))),
}


@pytest.mark.parametrize("more", [(), ("--full",)], ids=["short", "full"])
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_whole(name, width, more, monkeypatch):
    monkeypatch.setattr(show, "console", lambda: Console(width=width, highlight=False, markup=False, emoji=False))
    done = CliRunner().invoke(main, [*TABLES[name], *more])
    assert done.exit_code == 0, done.output
    # A command to copy is one line, however long.
    lines = [line for line in done.stdout.splitlines() if not line.startswith("  mlusim")]
    assert max(map(len, lines)) <= width
    assert "\u2026" not in done.stdout


@pytest.mark.parametrize("name", [name for name in TABLES if " " not in name])
def test_full_shows_more_and_all_that_the_short_table_has(name):
    short, full = (CliRunner().invoke(main, [*TABLES[name], *more]).stdout for more in ((), ("--full",)))
    assert len(full) > len(short) or name == "diff"  # whose short table may be whole
    heads = next(line for line in short.splitlines() if "  " in line).split("  ")
    assert all(head.strip() in full for head in heads[:-1])  # the last of compare is one cause, or several


def test_the_parts_of_a_wide_table_begin_with_its_keys():
    assert show.parts_of([10, 20, 20, 20], 1, 80) == [[0, 1, 2, 3]]
    assert show.parts_of([10, 20, 20, 20], 1, 60) == [[0, 1, 2], [0, 3]]
    assert show.parts_of([10, 20, 20, 20], 2, 60) == [[0, 1, 2], [0, 1, 3]]
    assert show.parts_of([100, 20, 20], 1, 60) == [[0, 1], [0, 2]]
    assert show.parts_of([10], 1, 60) == [[0]]
