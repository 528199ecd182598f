"""Faults of compiled kernels with several consequences: one finding, with the place of its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim import InOut, Output, bangc
from mlusim.verifier.changes import search

X = np.random.default_rng(3).integers(1, 50, (16, 64)).astype(np.float32)

PIPELINE = """#include <bang.h>
template <typename T> __mlu_func__ void load(T *to, const T *from) { __memcpy_async(to, from, 64 * 4, GDRAM2NRAM); }
__mlu_func__ void store(float *to, const float *from) {
  __memcpy_async(to, from, 64 * 4, NRAM2GDRAM);
}
__mlu_entry__ void pipeline(const float *x, float *out) {
  __nram__ float given[2][64], made[2][64];
  if (taskId) return;
  for (int step = 0; step < 18; step++) {
    if (step >= 2) store(out + (step - 2) * 64, made[step % 2]);
    if (step >= 1 && step <= 16) __bang_add(made[(step - 1) % 2], given[(step - 1) % 2], given[(step - 1) % 2], 64);
    if (step < 16) load<float>(given[step % 2], x + step * 64);
  }
}
__mlu_entry__ void total(const float *x, float *out) {
  if (__is_mpu()) return;
  __nram__ float row[64], sum[64];
  __memcpy(row, x + taskId * 64, 256, GDRAM2NRAM);
  __memcpy(sum, out, 256, GDRAM2NRAM);
  __bang_add(sum, sum, row, 64);
  __memcpy(out, sum, 256, NRAM2GDRAM);
}
__mlu_entry__ void two_roles(const float *x, float *out) {
  __mlu_shared__ float box[256];
  __nram__ float row[64];
  for (int step = 0; step < 4; step++) {
    if (__is_mpu()) {
      __memcpy(box, x + step * 256, 1024, GDRAM2SRAM);
    } else {
      __memcpy(row, box + coreId * 64, 256, SRAM2NRAM);
      __memcpy(out + (step * 4 + coreId) * 64, row, 256, NRAM2GDRAM);
    }
  }
}
__mlu_entry__ void read_by_code(const float *x, float *out) {
  if (taskId) return;
  __nram__ float row[64];
  __memcpy_async(row, x, 256, GDRAM2NRAM);
  out[0] = row[3];
}
"""


@pytest.fixture(scope="module")
def helpers(tmp_path_factory: pytest.TempPathFactory) -> bangc.Module:
    path = tmp_path_factory.mktemp("helpers") / "helpers.mlu"
    path.write_text(PIPELINE)
    return bangc.compile(path)


def test_a_sync_missing_at_the_end_of_a_loop_of_helpers_is_one_finding(helpers: bangc.Module) -> None:
    (finding,) = mlusim.verify(helpers["pipeline"], X, Output.like(X), dim=4).errors
    assert finding.remedy == "`__sync()`, which waits for all pipes, at the end of the loop at helpers.mlu:9"


def test_an_update_of_several_tasks_is_told_to_hold_a_lock_by_its_name(helpers: bangc.Module) -> None:
    (finding,) = mlusim.verify(helpers["total"], X[:4], InOut(np.zeros(64, np.float32)), dim=4).errors
    assert finding.remedy.startswith(
        "hold the same lock in every task from helpers.mlu:19 to helpers.mlu:21: "
        "`__bang_lock(0, 0)`, `__bang_unlock(0, 0)`"
    )


def test_a_barrier_of_two_branches_belongs_at_the_end_of_their_loop(helpers: bangc.Module) -> None:
    (finding,) = mlusim.verify(helpers["two_roles"], X, Output.like(X), dim=4).errors
    assert "its memory core, at the end of the loop at helpers.mlu:26" in finding.remedy


COUNTS = """#include <bang.h>
__nram__ int values[64], counts[16];
__mlu_entry__ void count(const int *x, int *out) {
  for (int bin = 0; bin < 16; bin++) counts[bin] = 0;
  __memcpy_async(values, x, sizeof(values), GDRAM2NRAM);
  SYNC;
  for (int i = 0; i < 64; i++) counts[values[i]]++;
  __memcpy(out, counts, sizeof(counts), NRAM2GDRAM);
}
"""


def test_an_index_of_a_copy_in_flight_that_ends_the_run_is_a_race(tmp_path: Path) -> None:
    """The plain load of the index is recorded, although the store that it leads to ends the run."""
    x = np.random.default_rng(4).integers(0, 16, 64).astype(np.int32)
    expected = np.bincount(x, minlength=16).astype(np.int32)
    for sync in ("", "__sync_io()"):
        file = tmp_path / "counts.mlu"
        file.write_text(COUNTS.replace("SYNC", sync))
        kernel = bangc.compile(file)["count"]
        # Every task has the fault.
        report = mlusim.verify(kernel, x, Output(16, np.int32), kind="BLOCK", dim=1 if sync else 3, reference=expected)
        if sync:
            assert report.ok, report.text()
            continue
        (finding,) = report.errors
        assert [finding.kind, *(one.kind for one in finding.folded)] == ["race", "access"]
        assert finding.remedy.startswith("`__sync_io()`, which waits for the IO pipe, between counts.mlu:5 and ")


def _verify(folder: Path, lines: str, *arguments: Any, **options: Any) -> mlusim.verifier.report.Report:
    """Return the report on a kernel, whose lines begin at line 2."""
    file = folder / "kernel.mlu"
    file.write_text(f"#include <bang.h>\n{lines}")
    return mlusim.verify(bangc.compile(file)["kernel"], *arguments, dim=4, **options)


def _only_finding(folder: Path, lines: str, *arguments: Any, **options: Any) -> mlusim.verifier.findings.Finding:
    report = _verify(folder, lines, *arguments, **options)
    assert len(report.findings) == 1, report.text()
    return report.findings[0]


@pytest.mark.slow
def test_a_barrier_of_the_cores_in_both_branches_is_one_finding(tmp_path: Path) -> None:
    lines = """__mlu_shared__ float box[4 * 64];
__mlu_entry__ void kernel(const float *x, float *out) {
  __nram__ float t[64];
  if (__is_mpu()) {
    __memcpy(box, x, sizeof(box), GDRAM2SRAM);
    __sync_all_ipu();
  } else {
    __sync_all_ipu();
    __memcpy(t, box + coreId * 64, sizeof(t), SRAM2NRAM);
    __memcpy(out + coreId * 64, t, sizeof(t), NRAM2GDRAM);
  }
}
"""
    x = X[:4]
    finding = _only_finding(tmp_path, lines, x, Output.like(x))
    assert finding.remedies[0] == "`__sync_cluster()` in place of `__sync_all_ipu()` at kernel.mlu:7 and kernel.mlu:9"
    fixed = lines.replace("__sync_all_ipu", "__sync_cluster")
    assert _verify(tmp_path, fixed, x, Output.like(x), reference=x).findings == ()


def test_a_sum_that_a_helper_adds_to_is_cleared_before_the_loop_that_calls_it(tmp_path: Path) -> None:
    lines = """__mlu_func__ void add(float *sum, float *row) {
  __bang_add(sum, sum, row, 64);
}
__mlu_entry__ void kernel(const float *x, float *out) {
  if (__is_mpu() || taskId) return;
  __nram__ float sum[64], row[64];
  for (int i = 0; i < 4; ++i) {
    __memcpy(row, x + i * 64, sizeof(row), GDRAM2NRAM);
    add(sum, row);
  }
  __memcpy(out, sum, sizeof(sum), NRAM2GDRAM);
}
"""
    finding = _only_finding(tmp_path, lines, X[:4], Output(64))
    assert finding.remedies[0].startswith("write these bytes before kernel.mlu:8 (__memcpy, ")


@pytest.mark.slow
def test_a_filter_that_stores_too_much_or_at_the_wrong_place_is_one_finding(tmp_path: Path) -> None:
    lines = """__mlu_entry__ void kernel(const float *x, float *out, int *number) {
  if (__is_mpu() || taskId) return;
  __nram__ float t[64], m[64], kept[64];
  int total = 0;
  for (int i = 0; i < 16; ++i) {
    __memcpy(t, x + i * 64, sizeof(t), GDRAM2NRAM);
    __bang_gt_scalar(m, t, 25.0f, 64);
    int some = __bang_count(m, 64);
    __bang_collect(kept, t, m, 64);
    __memcpy(out + total, kept, some * sizeof(float), NRAM2GDRAM);
    total += some;
  }
  *number = total;
}
"""
    kept = X[X > 25]
    reference = {"out": np.pad(kept, (0, 1088 - kept.size)), "number": np.array([kept.size], np.int32)}
    arguments = X, Output(1088), Output(1, "int32")
    assert _verify(tmp_path, lines, *arguments, partial=("out",), reference=reference).findings == ()
    too_much = lines.replace("some * sizeof", "64 * sizeof")
    finding = _only_finding(tmp_path, too_much, *arguments, partial=("out",))
    assert finding.kind == "written-again"
    assert finding.remedies[0].startswith("store as many elements as the filter returns, ")
    in_place = lines.replace("total += some", "total = some")
    finding = _only_finding(tmp_path, in_place, *arguments, partial=("out",), reference=reference)
    assert finding.remedies[0] == "correct the part of out at kernel.mlu:11: it replaces what was written there before"
    # The run in order, too, is compared with the elements that it writes itself.
    early = lines.replace("__memcpy(t, ", "__memcpy_async(t, ")
    report = _verify(tmp_path, early, *arguments, partial=("out",), reference=reference)
    assert report.errors[0].remedy.startswith("`__sync_io()`"), report.text()


@pytest.mark.slow
def test_a_load_into_another_buffer_is_one_finding_with_the_load_that_it_replaces(tmp_path: Path) -> None:
    lines = """__mlu_entry__ void kernel(const float *a, const float *b, float *out) {
  if (__is_mpu()) return;
  __nram__ float x[64], y[64];
  for (int row = taskId; row < 16; row += taskDim) {
    __memcpy_async(x, a + row * 64, 256, GDRAM2NRAM);
    __memcpy_async(y, b + row * 64, 256, GDRAM2NRAM);
    __sync_io();
    __bang_mul(x, x, y, 64);
    out[row] = __bang_sum(x, 64);
  }
}
"""
    assert _verify(tmp_path, lines, X, X, Output(16), reference=(X * X).sum(1)).ok
    finding = _only_finding(tmp_path, lines.replace("(y, b", "(x, b"), X, X, Output(16))
    assert finding.remedies[0] == (
        "correct the destination at kernel.mlu:7 or kernel.mlu:6: nothing reads what memcpy writes to x at kernel.mlu:6"
    )


def test_a_sync_is_missing_where_code_reads_what_a_copy_brings(helpers: bangc.Module) -> None:
    """A run without overlap would tell otherwise: code reads memory however late the copy before it is issued."""
    report = mlusim.verify(helpers["read_by_code"], X, Output(1), reference=X[0, 3:4], dim=4)
    (finding,) = report.errors
    line = PIPELINE[: PIPELINE.index("out[0] = row[3]")].count("\n") + 1
    assert finding.remedy.startswith(f"`__sync_io()`, which waits for the IO pipe, between helpers.mlu:{line - 1} and")


def test_an_error_in_a_helper_names_its_call_and_the_loop_around_that(helpers: bangc.Module) -> None:
    errors = mlusim.verify(helpers["pipeline"], X, Output((8, 64)), dim=4).errors
    finding = next(one for one in errors if one.kind == "access")
    loop = PIPELINE[: PIPELINE.index("for (int step = 0; step < 18")].count("\n") + 1
    assert finding.location.endswith(f"NRAM2GDRAM);, called at helpers.mlu:{loop + 1}")
    assert f"the bound of the loop at helpers.mlu:{loop};" in finding.remedy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ("__bang_sub(b, b, a, 64)", "swap the operands of sub at kernel.mlu:7: then every output is right"),
        ("__bang_sub(b, a, a, 64)", "read b in place of a at kernel.mlu:7: then every output is right"),
        (
            "__bang_sub(b, a, b, 63)",
            "correct argument 4 of the call at kernel.mlu:7: with 1 more, every output is right",
        ),
    ],
)
def test_another_argument_that_fixes_a_kernel_comes_first(call, remedy, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "MOST_COST", 30_000)
    (tmp_path / "kernel.mlu").write_text(
        "#include <bang.h>\n"
        "__mlu_entry__ void k(const float *x, const float *y, float *out) {\n"
        "  __nram__ float a[64];\n"
        "  __nram__ float b[64];\n"
        "  __memcpy(a, x, 256, GDRAM2NRAM);\n"
        "  __memcpy(b, y, 256, GDRAM2NRAM);\n"
        f"  {call};\n"
        "  __memcpy(out, b, 256, NRAM2GDRAM);\n"
        "}\n"
    )
    x, y = np.arange(64, dtype=np.float32) ** 2, np.arange(64, dtype=np.float32)
    kernel = bangc.compile(tmp_path / "kernel.mlu")["k"]
    (finding,) = mlusim.verify(kernel, x, y, Output.like(x), reference=x - y, kind="BLOCK", dim=1).errors
    assert finding.remedies[0] == remedy


@pytest.mark.parametrize(
    ("load", "store", "kind", "remedy"),
    [
        (
            "n",
            "n * 4",
            "uninitialised",
            "multiply the size at twice.mlu:5, which is in bytes: it writes 64 of the 256 ",
        ),
        (
            "n * 4",
            "n",
            "never-written",
            "look for a size that is too small at twice.mlu:7: it is in bytes, and 64 of 256",
        ),
    ],
)
def test_a_size_in_elements_is_told_to_be_in_bytes(tmp_path, load, store, kind, remedy):
    path = tmp_path / "twice.mlu"
    path.write_text(f"""#include <bang.h>
__mlu_entry__ void twice(const float *x, float *out, int n) {{
  __nram__ float tile[64];
  if (taskId < 2) {{
    __memcpy(tile, x + taskId * n, {load}, GDRAM2NRAM);
    __bang_add(tile, tile, tile, n);
    __memcpy(out + taskId * n, tile, {store}, NRAM2GDRAM);
  }}
}}
""")
    x = np.ones(128, np.float32)
    (finding,) = mlusim.verify(mlusim.bangc.compile(path)["twice"], x, mlusim.Output.like(x), 64).errors
    assert finding.kind == kind
    assert finding.remedy.startswith(remedy)
