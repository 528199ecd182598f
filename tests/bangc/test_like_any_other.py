"""A compiled kernel works like any other: runs, saved runs, retiming, sweeps, reports, the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mlusim
from command_line import exit_code
from mlusim import bangc, explore
from mlusim.errors import InputError
from mlusim.explore.user_kernels import kernel_of

FILE = Path(__file__).parent / "kernels" / "basics.mlu"
HOME = str(Path.home())
Output = mlusim.Output((4096,), np.float32)
X = np.arange(3000, dtype=np.float32)
ARGUMENTS = ("x=random:float32:30000", "out=float32:30000", "30000")


def _run(basics: bangc.Module, **options: object) -> mlusim.Result:
    return mlusim.run(basics["copy"], X, mlusim.Output.like(X), X.size, dim=8, **options)


def test_run_in_every_mode_gives_the_same_time(basics: bangc.Module) -> None:
    times = {_run(basics, **options).time_ps for options in ({}, {"data": False}, {"dma": "late"}, {"data": True})}
    assert len(times) == 1


def test_a_saved_run_is_retimed_and_loaded(basics: bangc.Module, tmp_path: Path) -> None:
    result = _run(basics)
    result.save(tmp_path / "run.npz")
    loaded = mlusim.load(tmp_path / "run.npz")
    assert loaded.time_ps == result.time_ps
    assert mlusim.retime(loaded).time_ps == result.time_ps
    assert mlusim.retime(loaded, device="mlu370-s4").time_ps == _run(basics, device="mlu370-s4").time_ps


@pytest.mark.slow
def test_a_kernel_is_compiled_for_the_board_that_it_runs_on(tmp_path: Path) -> None:
    file = tmp_path / "arch.mlu"
    file.write_text("__mlu_entry__ void arch(int *y) { if (!__is_mpu()) y[0] = __BANG_ARCH__; }\n")
    kernel = bangc.compile(file, "mlu370-x4")["arch"]
    for board in ("mlu370-x4", "mlu290-m5"):
        found = mlusim.run(kernel, mlusim.Output((1,), "int32"), dim=1, kind="BLOCK", device=board)
        assert np.asarray(found.output).tolist() == [mlusim.board(board).arch]


@pytest.mark.slow
def test_sweeps_run_in_processes_keyed_by_the_source(basics: bangc.Module, tmp_path: Path) -> None:
    points = [
        explore.sweep(kernel, arguments=ARGUMENTS, dim=[(4,), (8,)], workers=workers)
        for kernel, workers in ((basics["copy"], 0), (basics["copy"], 2), (f"{FILE}:copy", 0))
    ]
    times = [[row["time_us"] for row in found.rows] for found in points]
    assert times[0] == times[1] == times[2]
    assert len(set(times[0])) == 2
    text = "__mlu_entry__ void one(int *y) { if (!__is_mpu()) y[0] = 1; }\n"
    digests = []
    for content in (text, text.replace("= 1", "= 2"), text):
        (tmp_path / "one.mlu").write_text(content)
        digests.append(kernel_of(f"{tmp_path / 'one.mlu'}:one").sha256)
    assert digests[0] == digests[2] != digests[1]


def test_the_commands_take_an_entry_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for text in ARGUMENTS for word in ("--arg", text)]
    assert exit_code("verify", f"{FILE}:copy", *words, "--dim", "8", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    assert exit_code("run", f"{FILE}:copy", *words, "--dim", "8", "--report", tmp_path / "report") == 0
    assert "basics.mlu" in capsys.readouterr().out
    page = (tmp_path / "report" / "report.html").read_text()
    assert "__memcpy(" in page
    assert exit_code("compare", f"{FILE}:copy", *words, "--json") == 0
    assert exit_code("sweep", f"{FILE}:copy", *words, "--dim", "4", "--dim", "8", "--no-db", "--json", "-j", "0") == 0
    with pytest.raises(InputError, match=r"name one of its entries, as in basics\.mlu:copy; it has copy, fill<\.\.\.>"):
        kernel_of(str(FILE))


@pytest.mark.parametrize("command", ["sweep", "tune", "compare", "verify"])
@pytest.mark.grid(2)
def test_every_command_takes_a_file_with_one_entry(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.mlu").write_text("__mlu_entry__ void one(const float *x, float *y) { y[taskId] = x[taskId]; }\n")
    # A sweep starts processes; once is enough.
    here = ("--workers", "0") if command == "tune" else ()
    assert exit_code(command, "one.mlu", "--shape", "64", "--dim", "64", "--kind", "BLOCK", "--json", *here) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_names_and_comments_need_no_locale(tmp_path: Path) -> None:
    """Where the locale's encoding lacks the characters of a file and of its name."""
    file = tmp_path / "叠加 é.mlu"
    content = "// 中文\n#include <bang.h>\n__mlu_entry__ void store(int *out) { *out = 3; }\n"
    file.write_text(content, encoding="utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(FILE.parents[3])}
    words = ["run", f"{file}:store", "--arg", "out=int32:1", "--quiet", "--save-run", "run.zip"]
    command = [sys.executable, "-m", "mlusim", *words]
    ran = subprocess.run(command, env=os.environ | locale, cwd=tmp_path, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert content in mlusim.load(tmp_path / "run.zip").sources.values()


@pytest.mark.parametrize("comment", ["// :-(", '// """', "// it's", "/* \\ */", "// [0, n)) }"])
def test_comments_need_not_be_those_of_python(comment: str, tmp_path: Path) -> None:
    file = tmp_path / "store.mlu"
    file.write_text(
        f"#include <bang.h>\n__mlu_entry__ void store(int *out) {{  {comment}\n  if (!taskId) *out = 3;\n}}\n"
    )
    assert exit_code("verify", f"{file}:store", "--arg", "out=int32:1", "--dim", "4", "--kind", "BLOCK") == 0


def test_a_python_file_suggests_the_right_command(tmp_path):
    file = tmp_path / "add.py"
    file.write_text("async def add(core, x, out): ...\n")
    with pytest.raises(mlusim.InputError, match=r"add\.py is Python, not BANG C: `mlusim run .*add\.py:KERNEL` runs"):
        mlusim.bangc.compile(file)


def test_shape_applies_to_tensors_by_their_types(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "two.mlu"
    file.write_text(
        "#include <bang.h>\n"
        "__mlu_entry__ void two(float *sum, const half *x, const float *y, int n) {\n"
        "  if (__is_mpu()) return;\n"
        "  __nram__ half h[256]; __nram__ float f[256]; __nram__ float z[256];\n"
        "  __memcpy(h, x, n * sizeof(half), GDRAM2NRAM);\n"
        "  __memcpy(z, y, n * sizeof(float), GDRAM2NRAM);\n"
        "  __bang_half2float(f, h, 256);\n"
        "  __bang_add(z, z, f, n);\n"
        "  __memcpy(sum, z, n * sizeof(float), NRAM2GDRAM);\n"
        "}\n"
    )
    words = ("verify", f"{file}:two", "--shape", "256", "--dim", "1", "--kind", "BLOCK")
    assert exit_code(*words, "--arg", "n=256") == 0
    printed = capsys.readouterr().out
    for expected in ("output   sum float32 [256]", "input    x float16 [256]", "input    y float32 [256]"):
        assert expected in printed
    assert exit_code(*words) == 2
    assert "two: n is a number (int32): give --arg n=NUMBER\n" in capsys.readouterr().err
    assert exit_code(*words, "--arg", "n=256", "--arg", "x=float16:256") == 2
    assert "x is only read (a pointer to const), and float16:256 is a tensor to write" in capsys.readouterr().err


pytest_plugins = ["pytester"]

OPTIONS = FILE.with_name("options.mlu")


@pytest.fixture(scope="module")
def scale() -> bangc.Kernel:
    return bangc.compile(OPTIONS, include=[OPTIONS.parent / "include"], define=["FACTOR=3"])["scale"]


@pytest.mark.slow
def test_macros_may_have_the_names_of_parameters_of_the_headers(tmp_path: Path) -> None:
    file = tmp_path / "fill.mlu"
    file.write_text(
        "#include <bang.h>\n#include <cmath>\n"
        "__mlu_entry__ void fill(float *out) {\n"
        "  __nram__ float tile[N];\n"
        "  if (taskId || __is_mpu()) return;\n"
        "  __bang_write_value(tile, N, T(0.5) * size);\n"
        "  __memcpy(out, tile, N * sizeof(float), NRAM2GDRAM);\n"
        "}\n"
    )
    macros = ["N=128", "T(x)=((x) + 1)", "size=2", "A", "k=", "x=3", "NDEBUG"]
    fill = bangc.compile(file, define=macros)["fill"]
    output = mlusim.Output((128,), np.float32)
    report = mlusim.verify(fill, output, dim=4, reference=np.full(128, 3, np.float32))
    assert report.ok, report.text()


@pytest.mark.slow
def test_every_command_of_a_kernel_takes_its_compile_options(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = ("-I", OPTIONS.parent / "include", "-D", "FACTOR=3")
    words = (f"{OPTIONS}:scale", "--shape", "4096", "--arg", "n=4096", *compiled)
    for command in (
        ("run", "--no-data"),
        ("verify",),
        ("compare",),
        ("sweep", "--no-db", "-j", "0"),
        ("tune", "-j", "0"),
    ):
        assert exit_code(command[0], *words, *command[1:], "--dim", "8", "--json") == 0, command
        assert json.loads(capsys.readouterr().out), command
    assert exit_code("compile", OPTIONS, *compiled) == 0
    assert "scale" in capsys.readouterr().out
    assert exit_code("run", *words[:5]) == 1
    # In the words of g++ or of clang.
    assert re.search(r"options\.h: No such file|'options\.h' file not found", capsys.readouterr().err)


def test_tune_compares_launches_of_a_compiled_kernel(scale: bangc.Kernel) -> None:
    dims = [(4, 1, 1), (4, 8, 1)]
    found = explore.tune(scale, shape=4096, arguments=["n=4096"], dim=dims, workers=0, progress=False)
    times = [mlusim.run(scale, np.zeros(4096, np.float32), Output, 4096, dim=dim).time_us for dim in dims]
    assert found.best["time_us"] == min(times)
    assert sorted(row["time_us"] for row in found.rows) == sorted(times)
    assert f"-I {OPTIONS.parent / 'include'} -D FACTOR=3" in found.command


@pytest.mark.slow
def test_the_pytest_fixture_verifies_a_compiled_kernel(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # pytester has a home of its own, in which the headers would be compiled anew.
    monkeypatch.setenv("HOME", HOME)
    pytester.makepyfile(
        f"""
import numpy as np
import pytest
from mlusim import Output, bangc

X = np.arange(4096, dtype=np.float32)


@pytest.mark.parametrize("factor", [3, 4])
def test_scale(verify_kernel, factor):
    scale = bangc.compile({str(OPTIONS)!r}, include=[{str(OPTIONS.parent / "include")!r}], define=["FACTOR=3"])["scale"]
    assert verify_kernel(scale, X, Output.like(X), X.size, dim=8, reference=factor * X).ok
"""
    )
    result = pytester.runpytest_subprocess("-p", "mlusim.host.pytest_plugin", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*4 095 of 4 096 elements of out are wrong*"])
