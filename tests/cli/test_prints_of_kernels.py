"""What a kernel prints goes to standard output, except with --json; what its file prints, to standard error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import call
from mlusim.cli.mcp import respond

KERNELS = """
import os

print("loaded")

async def prints(core, x, out):
    if core.task_id == 0 and not core.is_memory_core:
        print("printed")

async def writes(core, x, out):
    if core.task_id == 0 and not core.is_memory_core:
        os.write(1, b"written by another library\\n")

async def fails(core, x, out):
    print("printed")
    raise ValueError("no luck")

async def has_no_reader(core, x, out):
    raise BrokenPipeError(32, "Broken pipe")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernels.py").write_text(KERNELS, encoding="utf-8")


def run(kernel, *options):
    return call("run", f"kernels.py:{kernel}", "--shape", "10", *options)


def test_a_kernel_prints_to_standard_output_but_beside_json_to_standard_error():
    done = run("prints", "--quiet")
    assert (done.stdout, done.stderr) == ("printed\n", "loaded\n")
    done = run("prints", "--json")
    assert json.loads(done.stdout)["format"] == "mlusim-summary/1"
    assert done.stderr == "loaded\nprinted\n"
    # Not for later commands.
    assert run("prints", "--quiet").stdout == "printed\n"


def test_so_does_what_is_written_to_the_descriptor():
    command = [sys.executable, "-m", "mlusim", "run", "kernels.py:writes", "--shape", "10", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    json.loads(done.stdout)
    assert done.stderr == "loaded\nwritten by another library\n"


def test_the_error_of_a_kernel_that_prints_reaches_a_program():
    words = ["kernels.py:fails", "--shape", "10"]
    call = {"name": "run", "arguments": {"words": words}}
    answer = respond(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}))
    assert answer["result"]["isError"]
    assert answer["result"]["content"][0]["text"].endswith("the kernel raised ValueError: no luck")


def test_a_kernel_whose_reader_has_left_is_no_error():
    done = run("has_no_reader")
    assert (done.exit_code, done.stderr) == (0, "loaded\n")
