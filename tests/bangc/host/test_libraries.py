"""Host code in a kernel file: functions and types of unsupported libraries, and more of CNRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Device, bangc
from mlusim.bangc.host.program import run_program
from mlusim.bangc.survey import survey
from mlusim.errors import CompileError, KernelError

KERNELS = Path(__file__).parents[1] / "kernels"
LIBRARY = """#include <cnnl.h>
#include <iostream>
struct Shape { int sizes[CNNL_DIM_MAX]; };
static_assert(sizeof(Shape) == 8 * sizeof(int));
__mlu_entry__ void one(float *x) {
  __nram__ float a[64];
  __bang_write_value(a, 64, 1.0f);
  __memcpy(x, a, sizeof(a), NRAM2GDRAM);
}
struct Op { cnnlStrangeDescriptor_t strange = nullptr; cnnlTensorDescriptor_t tensor; cnnlMode_t mode; };
#define CHECK(call) if ((call) != CNNL_STATUS_SUCCESS) return false
bool host(cnnlHandle_t handle, float *x) {
  Op op;
  cnrtJobType_t job = CNRT_FUNC_TYPE_BLOCK;
  cnnlOther_t other = 3;
  std::cerr << job << other;
  cnrtQueue_t queue = nullptr;
  op.mode = CNNL_MODE_TWO;
  switch (op.mode) { case CNNL_MODE_ONE: return false; case CNNL_MODE_TWO: break; default: return false; }
  cnnlDataType_t type = CNNL_DTYPE_STRANGE; \
  switch (type) { case CNNL_DTYPE_HALF: case CNNL_DTYPE_STRANGE: break; default: ; }
  one<<<1, job, queue>>>(x);
  CHECK(cnnlSetTensorDescriptor(op.tensor, CNNL_LAYOUT_ARRAY, type, 1, nullptr));
  return true;
}
int main() { float *x; cnrtMalloc((void **)&x, 256); return host(nullptr, x); }
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    file = tmp_path / "library.mlu"
    file.write_text(LIBRARY)
    return file


@pytest.mark.slow
def test_kernels_run_although_host_code_uses_other_libraries(library: Path) -> None:
    x = mlusim.run(bangc.compile(library)["one"], mlusim.Output(64), dim=1, kind="BLOCK").output
    assert np.array_equal(x, np.ones(64, np.float32))


@pytest.mark.slow
def test_a_call_of_an_unavailable_library_fails_when_reached(library: Path) -> None:
    with pytest.raises(KernelError, match=r"main, library\.mlu:22: cnnlSetTensorDescriptor is not simulated: the ven"):
        run_program(bangc.compile(library), Device())


def test_check_tells_library_functions_from_intrinsics(library: Path) -> None:
    (found,) = survey([library])
    assert found.compiles
    assert found.missing == ()
    assert found.libraries == ("cnnlSetTensorDescriptor",)


@pytest.mark.slow
def test_an_unknown_name_of_the_users_own_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "own.mlu"
    file.write_text("void f() { cnnlCreate(); strangeCreate(); }\n")
    with pytest.raises(CompileError, match=r"own\.mlu:1:.*strangeCreate"):
        bangc.compile(file)


def test_runtime_queries_return_the_boards_properties(capsys: pytest.CaptureFixture[str]) -> None:
    device = Device("mlu290")
    assert run_program(bangc.compile(KERNELS / "runtime.mlu", device), device) == 0
    board = device.board
    assert capsys.readouterr().out.splitlines() == [
        f"{board.name.upper()} {board.clusters} {board.cores_per_cluster} {board.nram_bytes}",
        f"{board.name.upper()} {board.cores}",
        "called on the host with 7",
        "pitched 1 2 4 5",
        "device 2, host 1, pinned 3",
        "quantized 8 48, back 1.0 6.0",
        "driver 6.0",
        "version ok",
        "cnrtErrorNoMem again",
        "PASSED",
    ]


@pytest.mark.slow
def test_a_missing_constant_as_a_bound_is_an_error_with_the_remedy(compiler: str, tmp_path: Path) -> None:
    file = tmp_path / "bound.mlu"
    file.write_text(
        "#include <cnnl.h>\n"
        "__mlu_entry__ void fill(float *x) {\n"
        "  for (int i = taskId; i < CNNL_STRANGE_MAX; i += taskDim) x[i] = 2;\n}\n"
    )
    expected = (
        r"bound\.mlu:3:.*error: CNNL_STRANGE_MAX: .*number matters here; define it: -D CNNL_STRANGE_MAX=<number>\n"
    )
    with pytest.raises(CompileError, match=expected):
        bangc.compile(file, compiler=compiler)
    fill = bangc.compile(file, compiler=compiler, define=["CNNL_STRANGE_MAX=8"])["fill"]
    mlusim.verify(fill, mlusim.Output((8,)), dim=4, kind="BLOCK", reference=np.full(8, 2, np.float32)).check()


def test_a_status_is_compared_with_one_that_the_headers_lack(compiler: str, tmp_path: Path) -> None:
    file = tmp_path / "status.mlu"
    file.write_text(
        "#include <cnrt.h>\n"
        "int main(int count, char **) {\n"
        "  cnrtRet_t status = count > 1 ? cnrtErrorNotReady : cnrtErrorBusy;\n  int number = status;\n"
        "  bool busy = status == cnrtErrorBusy && number == cnrtErrorBusy && !(cnrtErrorBusy != status);\n"
        "  switch (status) { case cnrtSuccess: case cnrtErrorIllegalState: return 3; default: break; }\n"
        "  return busy + 10 * (cnrtErrorBusy == cnrtErrorIllegalState);\n}\n"
    )
    module = bangc.compile(file, compiler=compiler)
    assert run_program(module, Device()) == 1
    assert run_program(module, Device(), ("ready",)) == 0
