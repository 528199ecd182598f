"""Tables are whole and readable on 80 columns; with --full on 120."""

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


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_whole(name, width, monkeypatch):
    monkeypatch.setattr(show, "console", lambda: Console(width=width, highlight=False, markup=False, emoji=False))
    full = ["--full"] if width > 80 and name.split()[0] in ("compare", "tune") else []
    done = CliRunner().invoke(main, [*TABLES[name], *full])
    assert done.exit_code == 0, done.output
    # A command to copy is one line, however long.
    lines = [line for line in done.stdout.splitlines() if not line.startswith("  mlusim")]
    assert max(map(len, lines)) <= width
    assert "\u2026" not in done.stdout
