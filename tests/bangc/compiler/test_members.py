"""Static members and templates of variables with a memory space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Output, bangc
from mlusim.errors import CompileError

MEMBERS = """
#include <bang.h>
struct Tiles {
    static __nram__ float own[64], factor;
    inline static __nram__ float other[64];
    static __nram__ int *cell;
    static __mlu_const__ float table[2];
};
__nram__ float Tiles::own[64];
__nram__ float Tiles::factor;
__nram__ int *Tiles::cell;
__mlu_const__ float Tiles::table[2] = {1, 2};
template <typename T> class Stage {
  public:
    __mlu_func__ T *through(const T *x, int n) {
        __memcpy(here, x, n * sizeof(T), GDRAM2NRAM);
        __memcpy(shared + 64 * coreId, here, n * sizeof(T), NRAM2SRAM);
        __memcpy(there, shared + 64 * coreId, n * sizeof(T), SRAM2NRAM);
        return there;
    }
  private:
    static __nram__ T here[64], there[64];
    inline static __mlu_shared__ T shared[256];
};
template <typename T> __nram__ T Stage<T>::here[64];
template <typename T> __nram__ T Stage<T>::there[64];
template <typename T, int I> __nram__ T tile[64];
__mlu_entry__ void kernel(const float *x, const int *y, float *out) {
    if (__is_mpu()) return;
    const float *a = Stage<float>().through(x + 64 * coreId, 64);
    const int *b = Stage<int>().through(y + 64 * coreId, 64);
    __bang_int322float(Tiles::own, b, 64, 0);
    __bang_add(tile<float, 0>, Tiles::own, a, 64);
    __bang_mul(tile<float, 1>, Tiles::own, a, 64);
    __bang_add(Tiles::other, tile<float, 0>, tile<float, 1>, 64);
    Tiles::factor = Tiles::table[1];
    __bang_mul_scalar(Tiles::other, Tiles::other, Tiles::factor, 64);
    __memcpy(out + 64 * coreId, Tiles::other, 64 * sizeof(float), NRAM2GDRAM);
}
"""


def test_static_members_and_templates_of_variables_have_memory_spaces(tmp_path: Path) -> None:
    (tmp_path / "members.mlu").write_text(MEMBERS)
    x, y = np.arange(256, dtype=np.float32), np.arange(256, dtype=np.int32)[::-1].copy()
    module = bangc.compile(tmp_path / "members.mlu")
    report = mlusim.verify(
        module["kernel"], x, y, Output.like(x), dim=4, kind="UNION1", reference=2 * (x + y + x * y).astype(np.float32)
    )
    assert report.ok, report.text()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            "struct S { static __nram__ float data[2]; };\n__nram__ float S::data[2] = {1, 2};",
            "3: data: a static member or a template with a memory space has no value in its definition; set it in the",
        ),
        ("template <class T> __mlu_shared__ T data[64];", "2: data: a template of variables in SRAM is not simulated;"),
    ],
)
def test_members_and_templates_that_are_refused(declared: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "refused.mlu").write_text(f"#include <bang.h>\n{declared}\n")
    with pytest.raises(CompileError, match=rf"refused\.mlu:{message}"):
        bangc.compile(tmp_path / "refused.mlu")
