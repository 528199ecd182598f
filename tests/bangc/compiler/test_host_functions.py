"""Functions without `__mlu_func__` that code for the board calls."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlusim
from mlusim import Output, bangc
from mlusim.errors import CompileError

KERNELS = Path(__file__).parent.parent / "kernels"


def test_each_function_of_the_host_that_a_kernel_calls_is_a_hint_at_its_line() -> None:
    file = KERNELS / "host_functions.mlu"
    report = mlusim.verify(bangc.compile(file)["calls_host"], Output((1,), "float32"), dim=4, kind="UNION1")
    assert report.ok
    assert report.outputs["y"].tolist() == [17]
    assert {(finding.kind, finding.times) for finding in report.findings} == {("host-function", 1)}
    called = {finding.title.removeprefix("code for the board calls ") for finding in report.findings}
    names = "plain with_words in_template explicit_host in_namespace declared_before method of_class apply of_all"
    operators = ["operator()", "operator+", "operator float", "specialised<float>"]
    assert called == {f"{name}, which has no __mlu_func__" for name in [*names.split(), *operators]}
    lines = file.read_text().splitlines()
    for finding in report.findings:
        assert finding.sites[0].operation.partition("<")[0] in lines[finding.sites[0].line - 1]


def test_functions_of_the_board_are_none_of_the_host() -> None:
    report = mlusim.verify(
        bangc.compile(KERNELS / "host_functions.mlu")["calls_board"], Output((1,), "float32"), dim=4, kind="UNION1"
    )
    assert report.outputs["y"].tolist() == [14]
    assert not report.findings


def test_a_stream_of_the_host_in_a_kernel_is_an_error_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "called.mlu"
    file.write_text(
        "#include <bang.h>\n#include <iostream>\n__mlu_func__ void f(int n) {\n  if (n > 9) std::cout << n;\n}\n"
    )
    with pytest.raises(CompileError, match=r"called\.mlu:4: cout in code for the board: .*; print with printf"):
        bangc.compile(file, syntax_only=True)


def test_streams_of_functions_that_the_host_calls_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "called.mlu"
    file.write_text(
        "#include <bang.h>\n#include <iostream>\n__mlu_host__ __mlu_func__ void shows(int n) { std::cout << n; }\n"
        "int main() { std::cerr << 1; shows(2); }\n"
    )
    bangc.compile(file, syntax_only=True)
