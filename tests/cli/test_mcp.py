"""`mlusim mcp`, `compile` and `explain`: requests of programs, and the responses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from command_line import call
from mlusim.cli.mcp import respond

KERNEL = """\
async def add(core, x, y, out, tile=1024):
    if core.is_memory_core:
        return
    a = core.nram.alloc(tile, x.dtype)
    b = core.nram.alloc(tile, x.dtype)
    for start in range(core.task_id * tile, x.size, core.task_dim * tile):
        n = min(tile, x.size - start)
        core.memcpy_async(a[:n], x[start : start + n])
        core.memcpy_async(b[:n], y[start : start + n])
        core.add(a[:n], a[:n], b[:n])
        await core.memcpy(out[start : start + n], a[:n])
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "add.py").write_text(KERNEL)
    return tmp_path


def ask(method, /, number=1, **params):
    return respond(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))


def call_tool(name, *words, **more):
    result = ask("tools/call", name=name, arguments={"words": list(words), **more})["result"]
    return result["content"][0]["text"], result["isError"]


def test_a_line_that_is_too_long_is_dropped_and_the_next_one_answered():
    ping = b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}'
    answers = call("mcp", input=ping + b" " * (1 << 23) + b"\n" + ping).stdout.splitlines()
    assert [json.loads(answer) for answer in answers] == [
        {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": -32700, "message": "a message is a line of at most 4194304 bytes"},
        },
        {"jsonrpc": "2.0", "id": 7, "result": {}},
    ]


@pytest.mark.slow
def test_an_mcp_session_fixes_a_kernel(home):
    server = subprocess.Popen(
        [sys.executable, "-m", "mlusim", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home
    )

    def send(number, method, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        print(json.dumps(message if number is None else message | {"id": number}), file=server.stdin, flush=True)
        return None if number is None else json.loads(server.stdout.readline())

    def tool(number, name, *words):
        answer = send(number, "tools/call", name=name, arguments={"words": list(words)})
        assert answer["id"] == number
        return json.loads(answer["result"]["content"][0]["text"])

    with server:
        began = send(1, "initialize", protocolVersion="2025-03-26")
        assert began["result"]["protocolVersion"] == "2025-03-26"
        assert send(None, "notifications/initialized") is None
        names = [tool["name"] for tool in send(2, "tools/list")["result"]["tools"]]
        assert names == ["compile", "check", "run", "tune", "diff", "explain"]
        assert tool(3, "compile", "add.py")["files"][0]["kernels"] == {"add": ["x", "y", "out", "tile=1024"]}
        tool(4, "run", "add.py:add", "--shape", "8192", "--save-run", "before.zip")
        number = 5
        while not (found := tool(number, "check", "add.py:add", "--shape", "8192"))["ok"]:
            fault = next(finding for finding in found["findings"] if finding["severity"] == "error")
            lines = (home / "add.py").read_text().splitlines()
            lines.insert(max(site["line"] for site in fault["sites"]) - 1, f"        await core.{fault['sync']}()")
            (home / "add.py").write_text("\n".join(lines) + "\n")
            number += 1
            assert number < 9
        assert number > 5
        tool(20, "run", "add.py:add", "--shape", "8192", "--save-run", "after.zip")
        change = tool(21, "diff", "before.zip", "after.zip")
        assert sum(change["causes_ps"].values()) == change["time_ps"] > 0
        why = tool(22, "explain", "after.zip")
        assert sum(line["time_ps"] for line in why["lines"]) == why["time_ps"]
        assert any(line["text"].startswith("await core.") and line["time_ps"] > 0 for line in why["lines"])
        server.stdin.close()
    assert server.returncode == 0


@pytest.mark.parametrize(
    "line", ["cast --dtype float32 --shape 8,64", "mlusim run cast --dtype float32 --shape '8,64'"]
)
@pytest.mark.slow
def test_the_words_of_a_run_may_be_one_string(line):
    words = ["cast", "--dtype", "float32", "--shape", "8,64"]
    one, several = (json.loads(call_tool("run", *given)[0]) for given in ([line], words))
    assert one["time_ps"] == several["time_ps"] > 0


def test_a_tool_error_is_returned_as_its_answer():
    text, failed = call_tool("run", "add.py:add", "--shpe", "3")
    assert failed
    assert "No such option '--shpe'" in text
    text, failed = call_tool("compile", "gone.py")
    assert failed
    assert "gone.py: no such file" in text
    text, failed = call_tool("check", "add.py:add", "--shape", "8192", timeout_s=0.01)
    assert failed
    assert "not done after 0.01 s" in text


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("nonsense", -32700, "not JSON"),
        (b"\xff\xfe", -32700, "not JSON"),
        ("[" * 100_000, -32700, "not JSON"),
        ('{"id": 1e400, "method": "ping"}', -32600, "id is a string or an integer"),
        ('{"id": [1], "method": "ping"}', -32600, "id is a string or an integer"),
        ("[1]", -32600, "an object with a method"),
        ('{"id": 1, "method": 3}', -32600, "an object with a method"),
        ('{"id": 1, "method": "tools/call", "params": []}', -32602, "params is an object"),
        ('{"id": 1, "method": "resources/list"}', -32601, "no method 'resources/list'"),
        ('{"id": 1, "method": "tools/call", "params": {"name": "rm"}}', -32602, "no tool 'rm'; choose one of compile"),
        ('{"id": 1, "method": "tools/call", "params": {"name": "run"}}', -32602, "words of run: a list of strings"),
        (
            '{"id": 1, "method": "tools/call", "params": {"name": "run", "arguments": {"words": []}}}',
            -32602,
            "words of run: one string for each argument and option, such as",
        ),
        (
            '{"id": 1, "method": "tools/call", "params": {"name": "run", "arguments": {"words": ["a.py:b --d \\"x"]}}}',
            -32602,
            "words of run, 'a.py:b --d \"x': No closing quotation; give one string for each argument and option",
        ),
        (
            (
                '{"id": 1, "method": "tools/call", "params": {"name": "run", "arguments": {"words": ["x"],'
                ' "timeout_s": 0}}}'
            ),
            -32602,
            "timeout_s=0: a number of seconds above 0",
        ),
    ],
)
def test_an_invalid_message_gets_an_error(line, code, message):
    error = respond(line)["error"]
    assert error["code"] == code
    assert message in error["message"]


def test_words_that_no_process_takes_are_an_error():
    text, failed = call_tool("run", "\ud800", "--shape", "3")
    assert failed
    assert text.startswith("error: run cannot be started with these words: ")


@pytest.mark.parametrize("seconds", [1e9, 1e400])
def test_the_longest_time_out_is_that_of_the_system(seconds):
    text, failed = call_tool("run", "--help", timeout_s=seconds)
    assert not failed
    assert text.startswith("Usage: ")


def test_a_notification_gets_no_answer():
    assert respond('{"jsonrpc": "2.0", "method": "notifications/cancelled"}') is None


def test_an_unknown_protocol_version_gets_the_supported_one():
    assert ask("initialize", protocolVersion="1999-01-01")["result"]["protocolVersion"] == "2025-06-18"
    assert ask("ping")["result"] == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("async def f(:\n", "line 1: SyntaxError"),
        ("x = 1\0\n", "SyntaxError: source code string cannot contain null bytes"),
        (b"# gr\xf6\xdfe\n", "bad.py cannot be decoded"),
        ("x = 1\n", "it has no kernel, an `async def` whose first parameter is the core"),
        (
            "async def f():\n    pass\n",
            "f takes no core, the first parameter of a kernel: write async def f(core, ...)",
        ),
        ("raise RuntimeError('no')\nasync def f(core, out):\n    pass\n", "RuntimeError: no"),
    ],
)
def test_compile_reports_the_errors_of_a_file(home, text, message):
    (home / "bad.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = call("compile", "bad.py", "add.py", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert found["ok"] is False
    assert message in found["files"][0]["error"]
    assert found["files"][1]["error"] == ""


def test_explain_fits_and_sums(home):
    (home / "add.py").write_text(KERNEL.replace("        core.add", "        await core.sync()\n        core.add"))
    text = call("explain", "add.py:add --shape 100000").stdout
    assert max(map(len, text.splitlines())) <= 100
    assert "above the lower bound of" in text
    assert "What to try. Predictions, with one loss removed" in text
    assert "core.memcpy_async(a[:n], x[start" in text


def test_compile_takes_files_of_kernels():
    done = call("compile", "x.npy")
    assert (done.exit_code, done.stderr) == (2, "error: x.npy is not a kernel file: name a .py or a .mlu file\n")


def test_check_is_an_alias_of_verify():
    done = call("check", "add.py:add", "--shape", "8192")
    assert done.exit_code == 1
    assert "race: " in done.stdout
