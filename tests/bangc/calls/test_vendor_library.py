"""Functions of the vendor's vector and scalar library, `__cn_vector_*` and `__cn_scalar_*`."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Device, Output, bangc
from rounding_oracle import MODES, OPERATIONS, operands, rounded


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[[str], bangc.Module]:
    """Compile a file in which every function of the library is known."""

    def compiled(text: str) -> bangc.Module:
        file = tmp_path / "library.mlu"
        file.write_text(text)
        module = bangc.compile(file)
        assert not module.missing
        return module

    return compiled


def test_the_library_follows_c_and_not_the_vector_unit(compiled: Callable[[str], bangc.Module]) -> None:
    """Its logarithm is the natural one, and of a number and NaN it takes the number; the vector unit does neither."""
    module = compiled(
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


def test_the_vector_and_scalar_library_and_named_pipelines(compiled: Callable[[str], bangc.Module]) -> None:
    module = compiled(
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


_ROUNDED = """
#include <bang.h>

#define VECTOR_AND_SCALAR(TYPE, KIND, NAME, MODE)                                        \\
    __cn_vector_##NAME##_##KIND##_##MODE(256, z, x, y);                                  \\
    __memcpy(vector, z, sizeof(z), NRAM2GDRAM);                                          \\
    for (int i = 0; i < 256; ++i) z[i] = __cn_scalar_##NAME##_##KIND##_##MODE(x[i], y[i]); \\
    __memcpy(scalar, z, sizeof(z), NRAM2GDRAM);                                          \\
    vector += 256, scalar += 256;
#define MODES(TYPE, KIND, NAME)                   \\
    VECTOR_AND_SCALAR(TYPE, KIND, NAME, dn)       \\
    VECTOR_AND_SCALAR(TYPE, KIND, NAME, up)       \\
    VECTOR_AND_SCALAR(TYPE, KIND, NAME, tz)
#define KERNEL(TYPE, KIND)                                                                          \\
    __mlu_entry__ void kernel_##KIND(const TYPE *a, const TYPE *b, TYPE *vector, TYPE *scalar) {    \\
        __nram__ TYPE x[256], y[256], z[256];                                                       \\
        __memcpy(x, a, sizeof(x), GDRAM2NRAM);                                                      \\
        __memcpy(y, b, sizeof(y), GDRAM2NRAM);                                                      \\
        MODES(TYPE, KIND, add) MODES(TYPE, KIND, sub) MODES(TYPE, KIND, mul) MODES(TYPE, KIND, div) \\
        __cn_vector_rcp_##KIND##_up(256, z, x);                                                     \\
        __memcpy(vector, z, sizeof(z), NRAM2GDRAM);                                                 \\
        for (int i = 0; i < 256; ++i) z[i] = __cn_scalar_rcp_##KIND##_up(x[i]);                     \\
        __memcpy(scalar, z, sizeof(z), NRAM2GDRAM);                                                 \\
    }
KERNEL(float, f32)
KERNEL(half, f16)
"""


@pytest.mark.slow
def test_directed_rounding_of_vectors_and_scalars(compiled: Callable[[str], bangc.Module]) -> None:
    module, device = compiled(_ROUNDED), Device()
    for kind, dtype in (("f32", np.float32), ("f16", np.float16)):
        a, b = operands(dtype, 256)
        pairs = [(Fraction(float(x)), Fraction(float(y))) for x, y in zip(a, b, strict=True)]
        expected = [
            [rounded(exact(x, y), mode, dtype) for x, y in pairs] for exact in OPERATIONS.values() for mode in MODES
        ]
        expected.append([rounded(1 / x, "up", dtype) for x, _ in pairs])
        outputs = [device.alloc((13, 256), dtype) for _ in range(2)]
        device.launch(module[f"kernel_{kind}"], device.upload(a), device.upload(b), *outputs, dim=1, kind="BLOCK")
        device.synchronize()
        for output in outputs:
            np.testing.assert_array_equal(device.download(output).astype(float), expected)


_SCALARS = """
#include <bang.h>

__mlu_entry__ void inverses(const float *a, float *inverse, float *complementary, float *casts, int n) {
    for (int i = 0; i < n; ++i) {
        inverse[i] = __cn_scalar_erfinv_f32(a[i]);
        complementary[i] = __cn_scalar_erfcinv_f32(1 - a[i]);
    }
    casts[0] = __cn_scalar_cast_s64_to_f32_tz(2147483647L);
    casts[1] = __int2float_up(16777217);
    casts[2] = __int2float_dn(-16777217);
    casts[3] = __int2float_rd(16777217);
    casts[4] = __float2half_rm(-65520);
    casts[5] = __float2half_rm(65520);
    casts[6] = __float2half_rd(-65520);
}

__mlu_entry__ void atomics(unsigned *counter, float *largest, int *taken, unsigned *old) {
    old[taskId] = __cn_scalar_atomic_add_u32(counter, 3);
    __cn_scalar_atomic_inc_u32(counter + 1, 2);
    __cn_scalar_atomic_max_f32(largest, (float)taskId);
    if (__cn_scalar_atomic_cas_s32(taken, 0, taskId + 1) == 0) taken[1] = taskId + 1;
    __cn_scalar_atomic_or_s32(taken + 2, 1 << taskId);
}
"""


def test_inverse_error_functions_casts_and_atomics_of_scalars(compiled: Callable[[str], bangc.Module]) -> None:
    module, device = compiled(_SCALARS), Device()
    a = np.array([-1, -0.99, -0.3, -1e-20, 0, 1e-4, 0.4999, 0.5, 0.75, 0.999999, 1, 2], np.float32)
    results = [device.alloc(a.size, np.float32) for _ in range(3)]
    device.launch(module["inverses"], device.upload(a), *results, a.size, dim=1, kind="BLOCK")
    device.synchronize()
    inverse, complementary, casts = (device.download(result) for result in results)
    assert inverse[[0, -2]].tolist() == complementary[[0, -2]].tolist() == [-math.inf, math.inf]
    assert np.isnan([inverse[-1], complementary[-1]]).all()
    inside = slice(1, -2)
    np.testing.assert_allclose([math.erf(y) for y in inverse[inside]], a[inside], rtol=2e-6)
    np.testing.assert_allclose([math.erfc(y) for y in complementary[inside]], (1 - a)[inside], rtol=2e-6)
    # The halves of 65520 are the largest, 65504, and 2^16, which is infinite.
    assert casts[:7].tolist() == [2147483520, 16777218, -16777218, 16777218, -65504, math.inf, -math.inf]

    counter, taken = (device.upload(np.zeros(3, kind), writable=True) for kind in (np.uint32, np.int32))
    largest, old = device.upload(np.full(1, -5, np.float32), writable=True), device.alloc(16, np.uint32)
    device.launch(module["atomics"], counter, largest, taken, old, dim=16, kind="BLOCK")
    device.synchronize()
    assert device.download(counter).tolist() == [48, 16 % 3, 0]
    assert sorted(device.download(old).tolist()) == list(range(0, 48, 3))
    assert device.download(largest).tolist() == [15]
    first, named, bits = device.download(taken).tolist()
    assert (first, bits) == (named, 0xFFFF)


def test_macros_of_a_file_do_not_reach_into_headers_and_calls_have_the_lines_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "chain.mlu"
    file.write_text(
        "#define T float\n#define V 64\n#define value a\n#define other b\n"
        "#include <bang_fusor.h>\n#include <bang_pipeline.h>\n"
        "__mlu_entry__ void chain(const T *x, T *y) {\n"
        "  __nram__ T a[V], b[V];\n"
        "  bang::pipeline pipe(0);\n"
        "  bang::memcpy_async(pipe, a, x, sizeof(a), GDRAM2NRAM);\n"
        "  pipe.wait_copy_dram_to_nram();\n"
        "  bang::experimental::fusor<T>(b, a, V).mul(2)\n"
        "      .add(a).abs();\n"
        "  vv_float v;\n"
        "  __vv_move(v, 1.0f);\n"
        "  __vv_store(a, v);\n"
        "  __bang_sub(b, b, a, V);\n"
        "  __memcpy(y, b, sizeof(b), NRAM2GDRAM);\n"
        "}\n"
    )
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    device = Device()
    out = device.alloc(64, "float32")
    device.launch(bangc.compile(file)["chain"], device.upload(x), out, dim=1, kind="BLOCK")
    device.synchronize()
    np.testing.assert_array_equal(device.download(out), np.abs(2 * x + x) - 1)
    lines = {(Path(name).name, line) for name, line, _ in device.log.lines}
    assert lines == {("chain.mlu", line) for line in (10, 11, 12, 13, 16, 17, 18)}
