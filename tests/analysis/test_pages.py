"""The files of a report: one page for each run, the index of several, links, and names."""

import re
import subprocess
import sys
from dataclasses import fields
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import mlusim
from mlusim.analysis.page.html import page
from mlusim.analysis.page.pages import write_pages
from mlusim.errors import InputError


def test_several_runs_get_an_index(result, staged_result, tmp_path):
    made = write_pages({"one": result, "two & more": staged_result}, tmp_path / "new")
    assert [path.name for path in made] == ["index.html", "one.html", "two & more.html", "plotly.min.js"]
    # The library is there once, and the pages load it.
    assert [path.stat().st_size > 1_000_000 for path in made] == [False, False, False, True]
    assert all('data-src="plotly.min.js"></script>' in page.read_text() for page in made[1:3])
    text = made[0].read_text()
    links = re.findall(r'<a href="([^"]*)">', text)
    assert links == ["./one.html", "./two%20%26%20more.html"]
    assert [made[0].parent / unquote(urlsplit(link).path) for link in links] == made[1:3]
    assert ">two &amp; more</a>" in text
    assert "<script" not in text
    assert text.count("<svg") == 2
    assert 'href="index.html"' in made[1].read_text()
    # A kernel of the user's own has no strategy.
    assert f"<td>{result.strategy}</td>" in text
    assert "<td>UNION1 (4, 4, 1) and 1 more</td>" in text


def test_a_page_that_cannot_be_written_is_a_clear_error(result, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write to .*: .*; name a directory"):
        write_pages({"one": result}, tmp_path / "file" / "deep")


def test_pages_need_plotly_only_when_written():
    code = (
        "import sys, numpy as np, mlusim, mlusim.analysis.page.html as h\n"
        "r = mlusim.ops.tin_shift_forward(np.ones((1, 2, 4, 3), np.float32), np.ones((1, 2), np.int32))\n"
        "r._repr_html_()\n"
        "assert not [name for name in sys.modules if name.startswith(('plotly', 'matplotlib'))]\n"
        "sys.modules['plotly.offline'] = None\n"
        "try: h.page(r)\n"
        "except mlusim.InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "the HTML report needs plotly: pip install plotly\n"


def test_links_to_pages_are_relative_paths_for_any_run_name(tmp_path):
    result = mlusim.ops.flip(np.zeros((4, 4), np.int8), 0, data=False)
    names = ["javascript:alert(1)", "run#1", "a b%20&\"<x>'?"]
    first, *pages, _ = write_pages(dict.fromkeys(names, result), tmp_path)
    links = re.findall(r'<a href="([^"]*)"', first.read_text())
    assert [urlsplit(link).scheme for link in links] == ["", "", ""]
    assert [unquote(urlsplit(link).path) for link in links] == [f"./{name}.html" for name in names]
    assert [page.name for page in pages] == [f"{name}.html" for name in names]


@pytest.mark.parametrize("name", ["../x", "a/b", "a\\b", "", "..", "a\0", 3])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path, name):
    result = mlusim.ops.flip(np.zeros((4, 4), np.int8), 0, data=False)
    with pytest.raises(mlusim.InputError, match=r"is not a name for a page"):
        write_pages({name: result}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_footer_states_the_provenance_of_the_figures():
    board = mlusim.board("mlu370-x4").replace(clock_hz=900_000_000)
    result = mlusim.ops.flip(np.zeros((4, 4), np.int8), 0, data=False, device=board)
    foot = page(result).partition("<footer>")[2].partition("</footer>")[0]
    assert f"<dt>mlusim</dt><dd>{mlusim.__version__}</dd>" in foot
    assert foot.count("not recorded: the run was made from Python") == 3
    assert "<dd>x: int8 [4, 4]</dd>" in foot
    assert "mlu370-x4, edited from mlu370-x4: <code>clock_hz</code>" in foot
    parameters = {item.name for item in fields(board)} - {"sources"}
    assert all(f"<code>{name}</code>" in foot for name in parameters)
    result.made_by = {"command": "mlusim run <x> --seed 3", "date": "2026-11-22", "seed": 3}
    foot = page(result).partition("<footer>")[2].partition("</footer>")[0]
    assert "<code>mlusim run &lt;x&gt; --seed 3</code>" in foot
    assert "<dd>2026-11-22</dd><dt>seed</dt><dd>3</dd>" in foot
