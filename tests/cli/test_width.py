"""Tables are complete and readable on 80 columns, including --full."""

from __future__ import annotations

import re

import click
import pytest
from rich.console import Console

from command_line import call
from mlusim.cli import console, main

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


@pytest.mark.grid(4)
@pytest.mark.parametrize("more", [(), ("--full",)], ids=["short", "full"])
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits_its_width_uncut(name, width, more, monkeypatch):
    monkeypatch.setattr(console, "console", lambda: Console(width=width, highlight=False, markup=False, emoji=False))
    done = call(*TABLES[name], *more)
    assert done.exit_code == 0, done.output
    # A command to copy is one line, however long.
    lines = [line for line in done.stdout.splitlines() if not line.startswith("  mlusim")]
    assert max(map(len, lines)) <= width
    assert "\u2026" not in done.stdout


KERNEL = """\
async def double(core, x, out, tile=64):
    if core.is_memory_core:
        return
    buffer = core.nram.alloc(tile, x.dtype)
    for start in range(core.task_id * tile, x.size, core.task_dim * tile):
        core.memcpy_async(buffer, x[start : start + tile])
        core.add(buffer, buffer, buffer)
        await core.memcpy(out[start : start + tile], buffer)
"""


class Terminal(Console):
    """A terminal of 80 columns."""

    def __init__(self):
        super().__init__(width=80, highlight=False, markup=False, emoji=False, force_terminal=True, no_color=True)


@pytest.mark.parametrize(
    ("words", "first", "status"),
    [(("verify", "k.py:double"), "race: ", 1), (("run", "k.py:sound", "--check"), "sound, 1 hint", 0)],
    ids=["verify", "run"],
)
def test_findings_and_the_proof_fit_on_a_terminal(words, first, status, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "console", Terminal)
    more = KERNEL.replace("double", "sound").replace(
        "        core.add", "        await core.sync()\n" * 2 + "        core.add"
    )
    (tmp_path / "k.py").write_text(f"{KERNEL}\n\n{more}")
    command = [*words, "--shape", "4096"]
    done = call(*command)
    assert done.exit_code == status
    assert first in done.stdout
    assert "split proof" in done.stdout
    text = click.unstyle(done.stdout)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    # Nothing is cut: the words are those that a pipe gets.
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    plain = call(*command).stdout
    shown, piped = (text.partition(first)[2].split() for text in (text, plain))
    assert shown == piped


def commands(command, path=()):
    """Every command, as words."""
    yield path
    for name, subcommand in command.commands.items() if isinstance(command, click.Group) else ():
        yield from commands(subcommand, (*path, name))


@pytest.mark.parametrize("path", [*commands(main)], ids=" ".join)
def test_help_fits_and_its_examples_can_be_pasted(path):
    done = call(*path, "--help", terminal_width=80)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        # A line that goes on does so in an option, further in than the command.
        if line.endswith("\\"):
            assert after.startswith("        ")
    assert not any(r"\b" in line for line in lines)
    # Remarks on an example are comments of the shell.
    for example in re.findall(r"^    (mlusim .*(?:\\\n.*)*)", done.stdout, re.MULTILINE):
        assert "  " not in re.sub(r" \\\n +", " ", example).partition(" #")[0].rstrip(), example


@pytest.mark.parametrize("name", [name for name in TABLES if " " not in name])
@pytest.mark.grid(3)
def test_the_full_table_contains_the_short_one(name):
    short, full = (call(*TABLES[name], *more).stdout for more in ((), ("--full",)))
    assert len(full) > len(short) or name == "diff"  # whose short table may be whole
    heads = next(line for line in short.splitlines() if "  " in line).split("  ")
    assert all(head.strip() in full for head in heads[:-1])  # the last of compare is one cause, or several


def test_parts_of_a_wide_table_repeat_its_key_columns():
    assert console.parts_of([10, 20, 20, 20], 1, 80) == [[0, 1, 2, 3]]
    assert console.parts_of([10, 20, 20, 20], 1, 60) == [[0, 1, 2], [0, 3]]
    assert console.parts_of([10, 20, 20, 20], 2, 60) == [[0, 1, 2], [0, 1, 3]]
    assert console.parts_of([100, 20, 20], 1, 60) == [[0, 1], [0, 2]]
    assert console.parts_of([10], 1, 60) == [[0]]
