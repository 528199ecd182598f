"""Names of BANG C that are not simulated: each is told with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Device, Output, bangc
from mlusim.bangc.undeclared_names import is_of_library
from mlusim.bangc.unknown_names import is_unknown, why_missing
from mlusim.errors import KernelError

KERNEL = """
__mlu_entry__ void kernel(int *out) {
    __nram__ int x[64];
    __bang_write_value(x, 64, 1);
    __bang_tiling_2d_b8(x, x, 64);
    __memcpy(out, x, sizeof(x), NRAM2GDRAM);
}
"""


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("__trc_add", "tensor descriptors"),
        ("cnnlCreate", "CNNL"),
        ("__bang_tiling_2d_b8", "what it computes"),
        ("__bang_perf_cache_miss", "performance counter"),
        ("__memcpy_nram_to_remote", "another chip"),
        ("__bang_float2half_sr", "how the board rounds"),
    ],
)
def test_a_missing_intrinsic_has_its_reason(name: str, part: str) -> None:
    assert is_unknown(name) or is_of_library(name)
    assert part in why_missing(name)


def test_known_intrinsics_have_no_reason() -> None:
    assert not [name for name in bangc.intrinsics.names() if why_missing(name)]


def test_the_error_gives_the_reason_at_the_call(tmp_path: Path) -> None:
    file = tmp_path / "kernel.mlu"
    file.write_text(KERNEL)
    device = Device()
    device.launch(bangc.compile(file)["kernel"], device.alloc(64, "int32"))
    with pytest.raises(KernelError, match=r"kernel\.mlu:5, .*_tiling_2d_b8 is not simulated: no public text tells"):
        device.synchronize()


def test_the_library_follows_c_and_not_the_vector_unit(tmp_path: Path) -> None:
    """Its logarithm is the natural one, and of a number and NaN it takes the number; the vector unit does neither."""
    file = tmp_path / "library.mlu"
    file.write_text(
        """
#include <bang.h>

__mlu_entry__ void kernel(const float *a, float *out, int *special) {
    __nram__ float x[64], y[64], z[64];
    __nram__ int whole[64];
    __memcpy(x, a, sizeof(x), GDRAM2NRAM);
    __cn_vector_log_f32(64, y, x);
    __memcpy(out, y, sizeof(y), NRAM2GDRAM);
    __bang_write_zero(z, 64);
    __cn_vector_max_f32(64, z, z, y);
    __memcpy(out + 64, z, sizeof(z), NRAM2GDRAM);
    __cn_vector_pow_f32(64, z, x, x);
    __cn_vector_accurate_sqrt_f32(64, z, z);
    __memcpy(out + 128, z, sizeof(z), NRAM2GDRAM);
    __cn_vector_isnan_f32(64, whole, y);
    whole[0] = __cn_scalar_isfinite_f32(y[0]) + 2 * __cn_scalar_mod_f32(-7.5f, 2.0f);
    __memcpy(special, whole, sizeof(whole), NRAM2GDRAM);
}
"""
    )
    module = bangc.compile(file)
    assert not module.missing
    x = np.linspace(-3, 12, 64, dtype=np.float32)
    with np.errstate(all="ignore"):
        log, power = np.log(x), np.sqrt(x**x)
    wanted = np.concatenate([log, np.fmax(log, 0), power])
    special = np.isnan(log).astype(np.int32)
    special[0] = -2 - 1 + 0
    outputs = [Output((192,), "float32"), Output((64,), "int32")]
    report = mlusim.verify(module["kernel"], x, *outputs, dim=1, kind="BLOCK")
    assert report.ok, report.text()
    np.testing.assert_allclose(report.outputs["out"], wanted, rtol=1e-6)
    assert np.array_equal(report.outputs["special"], special)


def test_the_vector_and_scalar_library_and_named_pipelines(tmp_path: Path) -> None:
    file = tmp_path / "library.mlu"
    file.write_text(
        """
#include <bang_pipeline.h>

__mlu_entry__ void divide(const int *a, const int *b, int *out) {
    __nram__ int x[64];
    __nram__ int y[64];
    __memcpy(x, a, sizeof(x), GDRAM2NRAM);
    __memcpy(y, b, sizeof(y), GDRAM2NRAM);
    __cn_vector_div_s32(64, x, x, y);
    __memcpy(out, x, sizeof(x), NRAM2GDRAM);
}

__mlu_entry__ void functions(const float *a, float *out) {
    __nram__ float x[64], y[64];
    __nram__ half h[64];
    __nram__ int whole[64];
    bang::pipeline pipe(0);
    bang::memcpy_async(pipe, x, a, sizeof(x), GDRAM2NRAM);
    pipe.wait_memcpy();
    __cn_vector_add_f32_rn(64, y, x, x);
    __cn_vector_max_f32(64, y, y, x);
    __cn_vector_cast_f32_to_s32_tz(64, whole, y);
    __cn_vector_cast_s32_to_f32_rn(64, y, whole);
    __cn_vector_cast_f32_to_f16_rn(64, h, x);
    __cn_vector_abs_f16(64, h, h);
    __cn_vector_cast_f16_to_f32(64, x, h);
    __cn_vector_sub_f32_rn(64, y, y, x);
    y[0] = __cn_scalar_div_f32_rn(1.0f, 4.0f) + __cn_scalar_cast_f32_to_s32_rn(2.5f) + __cn_scalar_max_s32(-3, -4);
    y[1] = __cn_scalar_isnan_f32(y[2] / 0.0f * 0.0f) + __cn_scalar_cast_f32_to_s32_dn(-0.5f);
    __memcpy(out, y, sizeof(y), NRAM2GDRAM);
}
"""
    )
    module = bangc.compile(file)
    assert not module.missing
    rng = np.random.default_rng(0)
    a = rng.integers(-1000, 1000, 64).astype(np.int32)
    b = rng.integers(1, 50, 64).astype(np.int32) * rng.choice(np.array([-1, 1], np.int32), 64)
    expected = np.trunc(a / b).astype(np.int32)
    report = mlusim.verify(module["divide"], a, b, Output.like(a), reference=expected, dim=1, kind="BLOCK")
    assert report.ok, report.text()
    x = (10 * rng.standard_normal(64)).astype(np.float32)
    wanted = np.trunc(np.maximum(x + x, x)) - np.abs(x.astype(np.float16)).astype(np.float32)
    wanted[:2] = 0.25 + 2 - 3, 1 - 1
    report = mlusim.verify(module["functions"], x, Output.like(x), reference=wanted, dim=1, kind="BLOCK")
    assert report.ok, report.text()
