"""The second process of a report: its pictures are those of the first one, which draws them if the second fails."""

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from mlusim.analysis import drawing_process
from mlusim.analysis.drawing_process import SUFFIXES, DrawingProcess
from mlusim.analysis.pictures import draw
from mlusim.analysis.style import drawing, render


@pytest.fixture
def second(monkeypatch):
    """A function that starts a process, as if this one had not imported matplotlib yet."""
    started = []

    def start():
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "matplotlib", raising=False)
            started.append(DrawingProcess().__enter__())
        return started[-1]

    yield start
    for process in started:
        process.__exit__()


def test_pictures_are_the_same_in_both_processes(second, result):
    process = second()
    pictures = draw(result)
    draws = [pictures[name] for name in ("tile_map", "traffic")]
    with drawing():
        expected = [render(picture, SUFFIXES) for picture in draws]
        process.begin(draws)
        running = process._process
        assert process.files(draws) == expected
    assert running is not None
    assert running.returncode is not None


@pytest.mark.parametrize("program", ["raise SystemExit", "import sys; sys.stdin.buffer.read(); print(1)"])
def test_if_the_second_process_fails_the_first_one_draws(second, result, monkeypatch, program):
    monkeypatch.setattr(drawing_process, "_PROGRAM", program)
    process = second()
    draws = [draw(result)["traffic"]]
    with drawing():
        process.begin(draws)
        assert [[picture[:4] for picture in files] for files in process.files(draws)] == [[b"\x89PNG", b"<?xm"]]


def test_an_error_of_drawing_is_that_of_the_first_process(second):
    process = second()
    draws = [partial(int, "a picture")]
    with drawing():
        process.begin(draws)
        with pytest.raises(ValueError, match="invalid literal for int"):
            process.files(draws)


def test_no_process_is_started_once_matplotlib_is_imported():
    import matplotlib as mpl

    assert mpl
    with DrawingProcess() as process:
        assert process._process is None


def alive(process):
    """Whether a process runs; one that has ended may not have been waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="a system without /proc")
def test_the_second_process_ends_with_the_first():
    code = (
        "import os; from mlusim.analysis.drawing_process import DrawingProcess\n"
        "print(DrawingProcess().__enter__()._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    process = int(found.stdout)
    until = time.monotonic() + 30
    while alive(process):
        assert time.monotonic() < until
        time.sleep(0.05)
