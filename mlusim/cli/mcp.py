"""`mlusim mcp`: a Model Context Protocol server on standard input and output, one line of JSON per message.

Its tools are commands of the program, each in a separate process, so that no kernel can end or block the server.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from mlusim.errors import shown
from mlusim.version import __version__

_VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
_INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS, _PARSE_ERROR = -32600, -32601, -32602, -32700
# The system takes arguments of 2 MiB together; a longer line is not kept in memory.
_LONGEST_LINE = 1 << 22
# A longer time-out exceeds what the system can wait for at once.
_LONGEST_S = 1_000_000
_EXAMPLE = 'such as {"words": ["add.py:add", "--shape", "100000"]}'
_HELP = """\
Serve the tools compile, check, run, tune, diff and explain to a program, through the Model Context Protocol (MCP) on
standard input and output.

A tool takes `words`, the arguments of its command, and returns the command's JSON. Configure a client with the
command `mlusim` and the argument `mcp`; relative paths start from the directory in which the server is started.

\b
Examples:
  mlusim mcp < requests.jsonl
  {"mcpServers": {"mlusim": {"command": "mlusim", "args": ["mcp"]}}}
"""


class Tool(NamedTuple):
    """A tool: its command, and its description."""

    command: str
    about: str


TOOLS: Mapping[str, Tool] = {
    "compile": Tool("compile", "Compile .mlu files or load .py files: kernels, parameters, errors. words: FILE..."),
    "check": Tool(
        "verify",
        "Run a kernel and check it: races, uninitialised reads, deadlocks, wrong results; with lines, rule, remedy. "
        'words: ["add.py:add", "--shape", "100000", "--reference", "add.py:expected"]',
    ),
    "run": Tool(
        "run",
        "Run a kernel or an operator: time, bytes, where the time went. "
        'words: ["add.py:add", "--shape", "100000", "--set", "tile=4096", "--save-run", "a.zip"]',
    ),
    "tune": Tool(
        "tune",
        "Find the fastest settings of a kernel, or the fastest plan of an operator, and why others are slower. "
        'words: ["add.py:add", "--shape", "100000", "--set", "tile=1024..16384*2"]',
    ),
    "diff": Tool("diff", 'Compare two runs by cause, line and figure. words: ["a.zip", "b.zip"]'),
    "explain": Tool(
        "explain", 'Show where the time of a run went, by line, and predict what would help. words: ["a.zip"]'
    ),
}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "words": {
            "type": "array",
            "items": {"type": "string"},
            "description": "arguments and options as on the command line; --help describes them",
        },
        "timeout_s": {
            "type": "number",
            "default": 300,
            "description": "the process is stopped after this many seconds",
        },
    },
    "required": ["words"],
}


class _RequestError(Exception):
    """A request answered with a protocol error: its code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@click.command(help=_HELP)
def mcp() -> None:
    """Serve tools to a program."""
    stream = sys.stdin.buffer
    while line := stream.readline(_LONGEST_LINE):
        if len(line) < _LONGEST_LINE or line.endswith(b"\n"):
            answer = respond(line) if line.strip() else None
        else:
            answer = _error(None, _PARSE_ERROR, f"a message is a line of at most {_LONGEST_LINE} bytes")
            # Read the rest of the line, a part at a time.
            while (part := stream.readline(_LONGEST_LINE)) and not part.endswith(b"\n"):
                pass
        if answer is not None:
            click.echo(json.dumps(answer))
            sys.stdout.flush()


def respond(line: str | bytes) -> dict[str, Any] | None:
    """Return the response to a JSON-RPC 2.0 message; None for a notification."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, _PARSE_ERROR, "the line is not JSON")
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return _error(None, _INVALID_REQUEST, "a message is an object with a method")
    if "id" not in message:
        return None
    number = message["id"]
    if isinstance(number, bool) or not isinstance(number, str | int | None):
        return _error(None, _INVALID_REQUEST, "id is a string or an integer")
    parameters = message.get("params", {})
    if not isinstance(parameters, dict):
        return _error(number, _INVALID_PARAMS, "params is an object")
    try:
        return {"jsonrpc": "2.0", "id": number, "result": _result(message["method"], parameters)}
    except _RequestError as error:
        return _error(number, error.code, str(error))


def _error(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def _result(method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            requested = parameters.get("protocolVersion")
            return {
                "protocolVersion": requested if requested in _VERSIONS else _VERSIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "mlusim", "version": __version__},
            }
        case "ping":
            return {}
        case "tools/list":
            return {
                "tools": [
                    {"name": name, "description": tool.about, "inputSchema": _SCHEMA} for name, tool in TOOLS.items()
                ]
            }
        case "tools/call":
            return _call(parameters.get("name"), parameters.get("arguments", {}))
    raise _RequestError(_NO_METHOD, f"no method {shown(method)}")


def _call(name: Any, arguments: Any) -> dict[str, Any]:
    """Run a command. Its errors are the result of the tool, for the program to read."""
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None:
        raise _RequestError(_INVALID_PARAMS, f"no tool {shown(name)}; choose one of {', '.join(TOOLS)}")
    words = arguments.get("words") if isinstance(arguments, dict) else None
    if not isinstance(words, list) or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise _RequestError(_INVALID_PARAMS, f"words of {name}: a list of strings, as on the command line, {_EXAMPLE}")
    # A whole command line as one word; a word of diff and explain is one anyway.
    if len(words) == 1 and " --" in words[0] and name in ("check", "run", "tune"):
        words = _words_of(name, tool, words[0])
    if not words:
        raise _RequestError(_INVALID_PARAMS, f"words of {name}: one string for each argument and option, {_EXAMPLE}")
    seconds = arguments.get("timeout_s", _SCHEMA["properties"]["timeout_s"]["default"])
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise _RequestError(_INVALID_PARAMS, f"timeout_s={shown(seconds)}: a number of seconds above 0")
    seconds = min(seconds, _LONGEST_S)
    command = [sys.executable, "-m", "mlusim", tool.command, *words]
    if not {"--help", "-h", "--json"} & {*words}:
        command.append("--json")
    try:
        process = subprocess.run(  # noqa: S603 - the program itself
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _content(f"error: not done after {seconds} s; give a smaller shape, or a larger timeout_s", failed=True)
    except (OSError, ValueError) as error:
        return _content(f"error: {tool.command} cannot be started with these words: {error}", failed=True)
    # A check that finds errors has succeeded: its findings are the result.
    return _content(process.stdout or process.stderr.strip(), failed=not process.stdout)


def _words_of(name: str, tool: Tool, line: str) -> list[str]:
    """Return the words of a command line, with or without the command itself."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise _RequestError(
            _INVALID_PARAMS, f"words of {name}, {shown(line)}: {error}; give one string for each argument and option"
        ) from None
    for command in ("mlusim", tool.command):
        words = words[1:] if words[:1] == [command] else words
    return words


def _content(text: str, *, failed: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": failed}
