"""`mlusim report`: saved runs as pages, one or several."""

import json
import re
import sys
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import mlusim
from command_line import call


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    x, shifts = np.ones((1, 4, 6, 50), np.float32), np.ones((1, 2), np.int32)
    for strategy in ("documented", "pingpong"):
        mlusim.ops.tin_shift_forward(x, shifts, strategy=strategy).save(folder / f"{strategy}.zip")
    return folder


def test_report_of_one_run_writes_every_file(runs, tmp_path):
    done = call("report", runs / "documented.zip", "-o", tmp_path / "out", "--check")
    assert done.exit_code == 0, done.output
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report.html", "timeline.png", "summary.json", "trace.json"} <= files
    assert done.output.splitlines()[0] == str(tmp_path / "out" / "report.html")
    text = (tmp_path / "out" / "report.html").read_text()
    assert "Split proof" in text
    # The source comes from the saved run.
    assert "async def tin_shift_segments" in text


@pytest.mark.parametrize("names", [["documented.zip"], ["documented.zip", "pingpong.zip"]])
def test_without_plotly_no_directory_is_made(runs, tmp_path, monkeypatch, names):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    done = call("report", *(runs / name for name in names), "-o", tmp_path / "out" / "new")
    assert done.exit_code == 2
    assert "the HTML report needs plotly: pip install plotly" in done.output
    assert not (tmp_path / "out").exists()


def test_report_of_several_runs_writes_pages_and_an_index(runs, tmp_path):
    done = call("report", runs / "documented.zip", runs / "pingpong.zip", "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    names = ["index.html", "documented.html", "pingpong.html", "plotly.min.js"]
    assert json.loads(done.output)["files"] == [f"{tmp_path.name}/{name}" for name in names]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    index = (tmp_path / "index.html").read_text()
    links = re.findall(r'<a href="([^"]*)">', index)
    assert links == ["./documented.html", "./pingpong.html"]
    assert all((tmp_path / unquote(urlsplit(link).path)).is_file() for link in links)
    assert "This run was not checked" in (tmp_path / "pingpong.html").read_text()


def test_the_same_run_gives_the_same_bytes(runs, tmp_path):
    for name in ("a", "b"):
        done = call("report", runs / "documented.zip", runs / "pingpong.zip", "-o", tmp_path / name, "-q")
        assert (done.exit_code, done.output) == (0, "")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing argument 'RUN...'"),
        (("nothing.zip",), "nothing.zip: no such file"),
        (
            ("{runs}/documented.zip", "other/documented.zip"),
            "would both be documented.html: name the files differently",
        ),
        (("index.zip", "{runs}/documented.zip"), "index.zip would be index.html, which compares the runs"),
        (("{runs}/documented.zip", "-o", "{runs}/pingpong.zip"), "pingpong.zip is a file: name a directory"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(runs, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    done = call("report", *(word.format(runs=runs) for word in words))
    assert done.exit_code == 2
    assert said in done.output
    assert len(done.output.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
