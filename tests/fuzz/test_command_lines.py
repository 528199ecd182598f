"""Random command lines: an error of one line with a documented exit code, never a traceback or a hang."""

from __future__ import annotations

import contextlib
import io
import os

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import mlusim
from mlusim.cli import main
from mlusim.cli.operators import SUMMARIES

EXAMPLES = int(os.environ.get("MLUSIM_FUZZ", "20"))
COMMANDS = ["run", "verify", "compare", "diff", "inspect", "devices", "report", "retime", "sweep", "tune", "completion"]
OPERATORS = [*SUMMARIES, "k.py:add"]
OPTIONS = [
    "--shape",
    "--axis",
    "--dtype",
    "--device",
    "--strategy",
    "--nram-limit",
    "--index-shape",
    "--seed",
    "--dim",
    "--kind",
    "--arg",
    "--set",
    "--no-data",
    "--json",
    "--quiet",
    "--check",
    "--explain",
    "--dry-run",
    "--full",
    "--nram",
    "--cores",
    "--vary",
    "--plot",
    "--out",
    "--save-run",
    "--no-db",
    "--db",
    "--workers",
    "--shard",
    "--merge",
    "--at",
    "--core",
    "--groups",
    "--seq-axis",
    "--axes",
    "--mode",
    "--input",
    "--index",
    "--help",
    "--reference",
    "--tolerance",
    "--theory-ops",
]
VALUES = [
    *(
        "",
        "0",
        "1",
        "-1",
        "2,3",
        "4x4",
        "1.5",
        "nan",
        "1e400",
        "4..32+4",
        "1..8*2",
        "8..1",
        "[]",
        "None",
        "x.npy",
        "a.zip",
    ),
    *("missing.npy", ".", "/", "float16", "flaot16", "mlu370-x4", "mlu270", "all", "auto", "UNION1", "BLOCK", "4,1,1"),
    *(
        "1/2",
        "3/2",
        "tile=64",
        "tile=",
        "=",
        "x=x.npy",
        "out=float32:8",
        "64KiB",
        "-5",
        "999999999999",
        "\x1b[31m",
        "$",
        "%s",
    ),
    *("clock_hz=1GHz", "clock_hz=-1", "time", "mine.toml", "k.py:missing", "k.py", "notes.txt", "a" * 300, "☃", "--"),
]
KERNEL = """
async def add(core, x, out, tile=64):
    if core.is_memory_core:
        return
    buffer = core.nram.alloc(tile, x.dtype)
    for start in range(core.task_id * tile, x.size, core.task_dim * tile):
        n = min(tile, x.size - start)
        await core.memcpy(buffer[:n], x[start : start + n])
        await core.memcpy(out[start : start + n], buffer[:n])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import numpy as np

    path = tmp_path_factory.mktemp("commands")
    np.save(path / "x.npy", np.arange(8, dtype=np.float32))
    (path / "k.py").write_text(KERNEL)
    (path / "notes.txt").write_text("mine")
    (path / "mine.toml").write_text('base = "mlu370-x4"\n')
    mlusim.ops.reverse(np.zeros((4, 4), np.int8), 0, data=False).save(path / "a.zip")
    return path


WORDS = st.one_of(st.sampled_from(OPTIONS), st.sampled_from(OPTIONS), st.sampled_from(VALUES))
LINES = st.tuples(
    st.sampled_from(COMMANDS),
    st.one_of(st.sampled_from(OPERATORS), st.sampled_from(VALUES)),
    st.sampled_from([(), ("--shape", "4,4"), ("--shape", "4,4", "--axis", "0"), ("--shape", "8")]),
    st.lists(WORDS, max_size=4),
)


@settings(max_examples=EXAMPLES * 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=LINES)
@example(line=("sweep", "gather", ("--shape", "4,4"), ["--index-shape", "4,4", "--axis", "-1", "--no-db"]))
@example(line=("run", "reverse", ("--shape", "3000000000000"), ["--axis", "0", "--no-data"]))
@example(line=("devices", "mlu370-x4", (), []))
def test_a_random_command_line_ends_with_a_documented_code(folder, line):
    command, what, shape, more = line
    words = [command, what, *shape, *more]
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    out, error = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
        pytest.raises(SystemExit) as stop,
    ):
        main(words)
    text = error.getvalue()
    assert stop.value.code in (0, 1, 2), (words, text)
    assert "internal error" not in text, (words, text)
    assert "Traceback" not in text, (words, text)
    assert "\x1b" not in text
    if stop.value.code:
        assert text.startswith(("error: ", "Usage: ")) or "is not sound" in text or out.getvalue(), (words, text)
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert {name: after.get(name) for name in before} == before, words
    for name in after.keys() - before.keys():
        (folder / name).unlink()
