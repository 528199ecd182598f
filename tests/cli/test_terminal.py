"""On a terminal: colour, progress, Ctrl-C."""

from __future__ import annotations

import os
import pty
import signal
import sys
import time

from command_line import ROOT


def on_a_terminal(*arguments, interrupt_after=None, **environment):
    """Output and exit code of a process whose standard streams are a terminal."""
    child, terminal = pty.fork()
    if not child:
        values = {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "100"} | environment
        command = [sys.executable, "-m", "mlusim", *map(str, arguments)]
        os.execve(sys.executable, command, os.environ | values)
    output = b""
    started = time.monotonic()
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        output += part
        if interrupt_after and interrupt_after in output:
            os.kill(child, signal.SIGINT)
            interrupt_after = None
        assert part
        assert time.monotonic() - started < 300, "it hangs"
    os.close(terminal)
    return output.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_colour_is_used_on_a_terminal_unless_disabled():
    arguments = ("run", "tin_shift", "--shape", "1,4,8,49")
    coloured, code = on_a_terminal(*arguments)
    plain, _ = on_a_terminal(*arguments, NO_COLOR="1")
    assert code == 0
    assert "\x1b[31m" in coloured  # the verdict on so small a shape
    assert "\x1b[31m" not in plain
    error, code = on_a_terminal("devices", "no")
    assert (code, error.startswith("\x1b[31m\x1b[1merror:\x1b[0m no board")) == (2, True)


def test_a_long_run_shows_progress_and_stops_when_interrupted():
    shape = ("run", "tin_shift", "--shape", "64,32,4096,1", "--no-data", "--strategy", "documented")
    output, code = on_a_terminal(*shape, interrupt_after=b"operations")
    assert "simulating" in output
    assert "%" in output
    assert "error:\x1b[0m interrupted" in output
    assert "Traceback" not in output
    assert code == 130
