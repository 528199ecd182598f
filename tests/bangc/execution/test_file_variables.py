"""C++ variables without a memory space: values passed through them are found, and devices do not share them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Output, bangc

X = np.arange(64, dtype=np.float32)
HEAD = "#include <bang.h>\n__nram__ float tile[64];\n"
BODY = """
__mlu_entry__ void entry(float *x, float *out) {
  if (coreId == 0x80) return;
  BEFORE
  __memcpy(tile, x, 256, GDRAM2NRAM);
  __bang_add_scalar(tile, tile, (float)(VALUE), 64);
  __memcpy(out + taskId * 64, tile, 256, NRAM2GDRAM);
}
"""
KEEPING = {
    "of the file": ("static int seen;\nint table[4];\n", "seen++; table[taskId] = 1;", "seen", {"seen", "table"}),
    "of a function": ("", "static int calls = 0; calls++;", "calls", {"entry(float*, float*)::calls"}),
    "in a namespace": ("namespace mine { long total = 5; }\n", "mine::total += 2;", "mine::total", {"mine::total"}),
}
HARMLESS = {
    "constants": ("const float lut[4] = {1, 2, 3, 4};\nconstexpr int two = 2;\n", "", "lut[taskId] + two"),
    "read alone": ("int offset = 7;\n", "", "offset"),
    "a constant made at its first use": ("", "static const float half = x[0] + 1.5f;", "half"),
    "a local variable": ("", "int local = 0; local++;", "local"),
    "restored": ("int depth = 0;\n", "depth++; depth--;", "depth"),
}


def compiled(folder: Path, top: str, before: str, value: str) -> bangc.Kernel:
    path = folder / "kernel.mlu"
    path.write_text(HEAD + top + BODY.replace("BEFORE", before).replace("VALUE", value), encoding="utf-8")
    return bangc.compile(path)["entry"]


@pytest.mark.grid(2)
@pytest.mark.parametrize("name", KEEPING)
def test_values_passed_to_later_tasks_are_reported(name: str, tmp_path: Path) -> None:
    top, before, value, variables = KEEPING[name]
    kernel = compiled(tmp_path, top, before, value)
    reports = [mlusim.verify(kernel, X, Output((4, 64)), dim=4) for _ in range(2)]
    for report in reports:
        titles = {finding.title for finding in report.errors}
        assert all(re.search(r"\.mlu:\d+: .*", finding.location) for finding in report.errors), report.text()
        assert titles == {f"tasks leave values in {one}, a C++ variable without a memory space" for one in variables}
        assert {finding.kind for finding in report.errors} == {"host-data"}


@pytest.mark.grid(2)
@pytest.mark.parametrize("name", HARMLESS)
def test_variables_that_pass_no_values_are_not_reported(name: str, tmp_path: Path) -> None:
    report = mlusim.verify(compiled(tmp_path, *HARMLESS[name]), X, Output((4, 64)), dim=4)
    assert report.ok, report.text()


def test_a_device_begins_with_fresh_variables(tmp_path: Path) -> None:
    kernel = compiled(tmp_path, "int seen;\n", "seen++;", "seen")
    runs = [mlusim.run(kernel, X, Output((4, 64)), dim=4).output for _ in range(3)]
    assert all(np.array_equal(run, np.broadcast_to(X + 1, (4, 64))) for run in runs)
