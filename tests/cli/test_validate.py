"""`mlusim validate` and `mlusim run --sensitivity`, on the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import call


def test_rows_are_selected_by_name(tmp_path):
    done = call("validate", "copy-8.4MB", "fill-one", "--plot", str(tmp_path / "errors.png"))
    assert done.exit_code == 0, done.output
    assert "copy-8.4MB" in done.output
    assert max(map(len, done.output.splitlines())) <= 80
    assert "fit       2 rows: mean error" in done.output
    assert "left out  2 rows" in done.output
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")


def test_json():
    found = json.loads(call("validate", "copy-1", "--json").output)
    assert [row["id"] for row in found["rows"]] == ["copy-1.57MB"]
    assert found["rows"][0]["measured_us"] == 4.16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "no measurement begins with 'nonsense'; choose one of copy-8.4MB, "),
        (["fill-one", "--plot", "a.pdf"], "--plot a.pdf: name a .png or .svg file"),
    ],
)
def test_mistakes(arguments, message):
    done = call("validate", *arguments)
    assert done.exit_code == 2
    assert message in done.output


def _children(pid):
    """The file that lists the processes that a process has started."""
    return Path(f"/proc/{pid}/task/{pid}/children")


@pytest.mark.skipif(not _children(os.getpid()).exists(), reason="processes are looked at in /proc")
def test_ctrl_c_ends_all_processes_with_one_line():
    command = [sys.executable, "-m", "mlusim", "validate", "--quiet"]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    # Its workers are starting, one after the other, each of which takes a while.
    while len(_children(process.pid).read_text().split()) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate()[1] == "error: interrupted\n"
    assert process.returncode == 130


def test_sensitivity_of_a_run():
    done = call("run", "tin_shift", "--shape", "1,8,8,64", "--sensitivity", "--json", "--seed", "1")
    assert done.exit_code == 0, done.output
    moved = json.loads(done.output)["sensitivity"]
    assert {"field", "source", "less", "more"} == set(moved[0])
    assert "dma_read_latency_ps" in [parameter["field"] for parameter in moved]
