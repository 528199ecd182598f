"""Local variables that are used before they are set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from command_line import call
from mlusim import Device, InOut, bangc
from mlusim.bangc.host.program import Program
from mlusim.errors import InputError

HEAD = "#include <bang.h>\n__nram__ float a[64];\n__nram__ half h[64];\n"
FILL = "template <class T>\n__mlu_func__ void fill(T *p) {\n  T v;\n  __bang_write_value(p, 64, v);\n}\n"


def found_in(body: str, tmp_path: Path, compiler: str, head: str = HEAD) -> list[tuple[str, list[int]]]:
    """Return titles and lines of the errors of a kernel with this body."""
    file = tmp_path / "unset.mlu"
    file.write_text(f"{head}__mlu_entry__ void k(float *y, int n) {{\n  if (__is_mpu()) return;\n{body}}}\n")
    module = bangc.compile(file, compiler=compiler)
    report = mlusim.verify(module["k"], InOut(np.ones(64, np.float32)), 3, dim=1, kind="BLOCK", rewrites=True)
    assert {finding.kind for finding in report.errors} <= {"unset"}
    return [(finding.title, [site.line for site in finding.sites]) for finding in report.errors]


@pytest.mark.grid(4)
@pytest.mark.parametrize(
    ("body", "variable", "line"),
    [
        ("  int v;\n  if (n == 3) y[0] = v;\n", "v", 7),
        ("  int v;\n  y[0] = n & v;\n", "v", 7),
        ("  int v;\n  if (n & v) y[0] = 1;\n", "v", 7),
        ("  half v;\n  __bang_add_scalar(h, h, v, 64);\n", "v", 7),
        ("  float v;\n  for (int i = 0; i < n; i++) v += y[i];\n  y[0] = v;\n", "v", 7),
        ("  float v;\n  for (int i = 0; i < n; i++) { v = v + y[i]; y[i] = v; }\n", "v", 7),
        ("  unsigned char v, w = 1;\n  while (w < n) { w = w + v; v = 1; }\n  y[0] = w;\n", "v", 7),
    ],
)
def test_the_use_of_a_variable_that_is_not_set_is_an_error(
    body: str, variable: str, line: int, tmp_path: Path, compiler: str
) -> None:
    assert found_in(body, tmp_path, compiler) == [(f"{variable} is used, and was never set", [line])]


def test_the_use_in_a_template_is_an_error_at_its_line(tmp_path: Path, compiler: str) -> None:
    assert found_in("  fill(a);\n", tmp_path, compiler, HEAD + FILL) == [("v is used, and was never set", [7])]


# A reference, a capture, a member; and a declaration with others in the line of its use.
INDIRECT = """
struct Sum {
  float all, most = 0;
  __mlu_func__ void add(float x) { all += x; most = x > most ? x : most; }
};
__mlu_func__ unsigned next(unsigned &state) { return state = state * 5 + 1; }
struct Pair { int a, b; }; template <class T> __mlu_func__ T same(T x) { return x + 1; }
"""


@pytest.mark.parametrize(
    ("body", "variable", "line"),
    [
        ("  unsigned state;\n  y[0] = next(state);\n", "state", 9),
        ("  float v;\n  auto add = [&](float x) { v += x; };\n  add(y[0]);\n  y[0] = v;\n", "v", 14),
        ("  Sum sum;\n  for (int i = 0; i < n; i++) sum.add(y[i]);\n  y[0] = sum.all;\n", "all", 7),
        ("  float v, *p, w; p = y; w = p[0]; p[1] = v + w;\n", "v", 13),
        ("  int v; y[0] = same(n & v);\n", "v", 13),
        ("  float v; y[0] = same(v);\n", "v", 13),
        ("  int v; for (int i = 0; i < v; ++i) y[i] = 1;\n", "v", 13),
        ("  int pair[2], v; pair[0] = v = n; y[0] = pair[1] + v;\n", "pair", 13),
        ("  int v; Pair p = {n, v}; y[0] = p.b;\n", "v", 13),
        ("  float v;\n  if (n > 5) v = 1;\n  y[0] = v;\n", "v", 15),
        ("  int v;\n  for (int i = 0; i < n; i++)\n    if (y[i] == 1) v += 1;\n  y[0] = same(v);\n", "v", 15),
    ],
)
def test_with_gnu_a_variable_may_be_used_by_another_function(
    body: str, variable: str, line: int, tmp_path: Path
) -> None:
    try:
        found = found_in(body, tmp_path, "g++", HEAD + INDIRECT)
    except InputError as error:
        pytest.skip(str(error))
    assert found == [(f"{variable} is used, and was never set", [line])]


# The compiler cannot know whether these are set, or they are used only in an iteration after the one that sets them.
CORRECT = """
  float last, sum, most;
  for (int i = 0; i < n; i++) {
    if (i > 0) y[i] = last;
    last = y[i];
    if (i == 0) sum = 0;
    sum += y[i];
    if (i == 0 || y[i] > most) most = y[i];
  }
  int at;
  for (int i = 0; i < n; i++) at = i;
  y[at] = sum + most;
  float part[2];
  for (int i = 0; i < 2; i++) part[i] = y[i];
  y[3] = part[0];
  int never;
  if (n > 3) y[0] = never;
"""


def test_correct_code_and_code_that_does_not_run_have_no_error(tmp_path: Path, compiler: str) -> None:
    assert found_in(CORRECT, tmp_path, compiler) == []


def test_in_main_it_is_an_error_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "main.mlu"
    file.write_text("int main(int count, char **) {\n  int n;\n  return count +\n         n;\n}\n")
    with pytest.raises(InputError, match=r"main, main\.mlu:[34]: n is used, and was never set: set it on each path"):
        Program(bangc.compile(file), Device()).run()


@pytest.mark.parametrize("index", [1, 2])
def test_with_gnu_an_element_that_is_not_set_is_an_error_where_an_instruction_takes_it(
    tmp_path: Path, index: int
) -> None:
    file = tmp_path / "unset.mlu"
    file.write_text(
        f"{HEAD}__mlu_entry__ void k(float *y, int n) {{\n  float scale[4];\n  scale[n] = 3;\n"
        "  __bang_write_value(a, 64, scale[2]);\n  __memcpy(y, a, 256, NRAM2GDRAM);\n}\n"
    )
    try:
        module = bangc.compile(file, compiler="g++")
    except InputError as error:
        pytest.skip(str(error))
    report = mlusim.verify(module["k"], mlusim.Output(64, "float32"), index, dim=1, kind="BLOCK")
    if index == 2:
        assert report.ok
        return
    (finding,) = report.errors
    assert finding.kind == "unset"
    assert finding.title == "__bang_write_value takes a float that has no value: a local variable was never set"
    assert [site.line for site in finding.sites] == [7]


@pytest.mark.slow
def test_an_error_that_follows_from_it_does_not_hide_it(tmp_path: Path) -> None:
    file = tmp_path / "hidden.mlu"
    file.write_text(
        "#include <bang.h>\n#include <cnrt.h>\n__mlu_entry__ void k(float *y) {\n  int at;\n  y[at] = 1;\n}\n"
        "int main() {\n  float *y;\n  cnrtMalloc((void **)&y, 64);\n"
        "  k<<<1, cnrtFuncTypeBlock, nullptr>>>(y);\n  return cnrtSyncDevice();\n}\n"
    )
    result = call("bangc", "run", str(file), "--check")
    assert result.exit_code == 1
    assert "error: unset: at is used, and was never set\n  in     hidden.mlu:5" in result.stderr


def test_loops_before_launches_and_in_constants_hide_no_use(tmp_path: Path) -> None:
    file = tmp_path / "loops.mlu"
    file.write_text(
        "#include <bang.h>\n#include <cnrt.h>\n"
        "constexpr int sum(int n) { int s = 0; for (int i = 0; i < n; i++) { s += i; } return s; }\n"
        "static_assert(sum(4) == 6);\n"
        "__mlu_entry__ void k(float *y) {\n  float v;\n  if (__is_ipu()) y[0] = v;\n}\n"
        "int main() {\n  float *y; int n = 0;\n  cnrtMalloc((void **)&y, 64);\n"
        "  for (int i = 0; i < 3; i++) n += i;\n  k<<<n, cnrtFuncTypeBlock, nullptr>>>(y);\n"
        "  return cnrtSyncDevice();\n}\n"
    )
    report = mlusim.verify(bangc.compile(file)["k"], mlusim.Output(1, "float32"), dim=1, kind="BLOCK")
    assert [(finding.title, finding.sites[0].line) for finding in report.errors] == [
        ("v is used, and was never set", 7)
    ]
