"""Records that functions of a kernel take and return by value, in and out of the memories of the board."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import bangc
from mlusim.bangc.host.program import run_program

TEXT = """#include <bang.h>
#include <cnrt.h>
struct Point { float x, y, z; };
struct Row { float v[12]; };
__attribute__((noinline)) __mlu_func__ Point point(int i) { return {float(i), float(i + 1), float(i + 2)}; }
__attribute__((noinline)) __mlu_func__ Row row(int i) {
  Row made;
  for (int k = 0; k < 12; ++k) made.v[k] = i + k;
  return made;
}
__attribute__((noinline)) __mlu_func__ float sum(Point p) { return p.x + p.y + p.z; }
__attribute__((noinline)) __mlu_func__ float sum(Row r) {
  float total = 0;
  for (float value : r.v) total += value;
  return total;
}
template <typename T> __mlu_entry__ void sums(const T *records, float *out, int n) {
  if (__is_mpu()) return;
  for (int i = taskId; i < n; i += taskDim)
    out[i] = sum(records[i]);
}
__mlu_entry__ void passed(Point first, Row second, float *out) { *out = sum(first) + sum(second); }
__mlu_entry__ void points(Point *out, int n) {
  if (__is_mpu()) return;
  for (int i = taskId; i < n; i += taskDim)
    out[i] = point(i);
}
__mlu_entry__ void rows(Row *out, int n) {
  if (__is_mpu()) return;
  for (int i = taskId; i < n; i += taskDim)
    out[i] = row(i);
}
__mlu_entry__ void early(const Point *in, float *out) {
  if (__is_mpu()) return;
  __nram__ Point tile[16];
  __memcpy_async(tile, in, sizeof(tile), GDRAM2NRAM);
  *out = sum(tile[3]);
  __sync();
}
template __mlu_entry__ void sums<Point>(const Point *, float *, int);
template __mlu_entry__ void sums<Row>(const Row *, float *, int);
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> bangc.Module:
    file = tmp_path_factory.mktemp("records") / "records.mlu"
    file.write_text(TEXT)
    return bangc.compile(file)


@pytest.mark.parametrize(("record", "length"), [("Point", 3), ("Row", 12)])
@pytest.mark.slow
def test_a_record_passed_by_value_is_read_where_it_lies(module: bangc.Module, record: str, length: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (20, length)).astype(np.float32)
    kernel = module[f"sums<{record}>"]
    mlusim.verify(kernel, x, mlusim.Output((20,)), 20, dim=4, kind="BLOCK", reference=x.sum(1)).check()
    report = mlusim.verify(kernel, x, mlusim.Output((21,)), 21, dim=1, kind="BLOCK")
    assert f"reads 8 B at byte {x.nbytes} of records" in report.text()
    assert "records.mlu:20" in report.text()


@pytest.mark.parametrize(("entry", "length"), [("points", 3), ("rows", 12)])
def test_a_record_returned_by_value_is_written_where_it_is_stored(
    module: bangc.Module, entry: str, length: int
) -> None:
    expected = np.add.outer(np.arange(20), np.arange(length)).astype(np.float32)
    mlusim.verify(module[entry], mlusim.Output((20, length)), 20, dim=4, kind="BLOCK", reference=expected).check()
    report = mlusim.verify(module[entry], mlusim.Output((20, length)), 21, dim=1, kind="BLOCK")
    assert f"at byte {expected.nbytes} of out" in report.text()


def test_a_record_passed_by_value_before_its_copy_is_awaited_is_a_race(module: bangc.Module) -> None:
    report = mlusim.verify(module["early"], np.zeros((16, 3), np.float32), mlusim.Output((1,)), dim=1, kind="BLOCK")
    assert "race: load reads tile before memcpy is known to have written it" in report.text()
    assert "records.mlu:37" in report.text()


def test_records_are_arguments_of_a_launch(tmp_path: Path) -> None:
    file = tmp_path / "launched.mlu"
    file.write_text(
        TEXT + "int main() {\n  float *d, h;\n  cnrtMalloc((void **)&d, 4);\n  cnrtDim3_t dim = {1, 1, 1};\n"
        "  passed<<<dim, cnrtFuncTypeBlock, nullptr>>>(point(3), row(1), d);\n"
        "  cnrtSyncDevice();\n  cnrtMemcpy(&h, d, 4, cnrtMemcpyDevToHost);\n  return h == 90 ? 0 : 1;\n}\n"
    )
    assert run_program(bangc.compile(file), mlusim.Device("mlu370-x4")) == 0


@pytest.mark.slow
def test_an_object_with_a_destructor_and_no_copy_constructor_is_not_copied_when_it_is_returned(tmp_path: Path) -> None:
    file = tmp_path / "owner.mlu"
    file.write_text(
        TEXT + "struct Owner { float *ptr; ~Owner() { if (cnrtFree(ptr) != cnrtSuccess) exit(3); } };\n"
        "Owner make() { Owner made; cnrtMalloc((void **)&made.ptr, 64); return made; }\n"
        "int main() { Owner owner = make(); return owner.ptr == nullptr; }\n"
    )
    assert run_program(bangc.compile(file), mlusim.Device("mlu370-x4")) == 0
