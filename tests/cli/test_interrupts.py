"""A command whose kernel is interrupted, or in which a debugger is quit."""

from __future__ import annotations

import re

from command_line import output_of


def test_to_quit_the_debugger_in_a_kernel_is_an_interrupt_and_not_a_bug(tmp_path, monkeypatch):
    (tmp_path / "stop.py").write_text(
        "import bdb\n\n\nasync def stop(core, x, out, tile=4):\n    raise bdb.BdbQuit  # what `q` in pdb raises\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ("stop.py:stop", "--shape", "64")
    for command in ("run", "verify", "compare"):
        assert output_of(command, *words, code=130) == "error: the debugger was quit\n"
    assert output_of("sweep", *words, "--no-db", "--workers", "0", code=130) == "error: the debugger was quit\n"
    told = "a debugger has no terminal in a worker process: use `mlusim run`, or workers=0"
    assert told in output_of("sweep", *words, "--no-db", "--workers", "1", code=1)


def test_an_interrupt_in_a_kernel_tells_where_it_was(tmp_path, monkeypatch):
    (tmp_path / "stop.py").write_text(
        "import signal\n\n\nasync def stop(core, x, out):\n    signal.raise_signal(signal.SIGINT)  # Ctrl-C\n"
    )
    monkeypatch.chdir(tmp_path)
    text = output_of("run", "stop.py:stop", "--shape", "64", code=130)
    assert re.fullmatch(r"error: interrupted: memory core of cluster 0, stop\.py:5, at [\d .]+ ns\n", text)


def test_an_interrupt_while_a_file_is_loaded_names_the_line(tmp_path, monkeypatch):
    (tmp_path / "stop.py").write_text(
        "import signal\n\nwhile True:\n    signal.raise_signal(signal.SIGINT)  # Ctrl-C\n\n\n"
        "async def stop(core, x, out):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    text = output_of("run", "stop.py:stop", "--shape", "64", code=130)
    assert text == "error: interrupted: stop.py: line 4: the file was being loaded\n"
