"""`bang::pipeline`: waits, copies and instructions of the header `bang_pipeline.h`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Output, bangc

SOURCE = """
#include <bang_pipeline.h>

// Each core passes its part to the next one through SRAM.
__mlu_entry__ void rotate(const float *x, float *out) {
    __nram__ float part[64];
    __mlu_shared__ float all[256];
    bang::pipeline pipe(0);
    if (coreId != 0x80) {
        bang::memcpy_async(pipe, part, x + taskId * 64, sizeof(part), GDRAM2NRAM);
        pipe.wait_copy_dram_to_nram();
        bang::memcpy_async(pipe, all + coreId * 64, part, sizeof(part), NRAM2SRAM);
        pipe.wait_copy_nram_to_sram();
    }
    pipe.wait_memcpy();
    if (coreId != 0x80) {
        bang::memcpy_async(pipe, part, all + (coreId + 1) % 4 * 64, sizeof(part), SRAM2NRAM);
        pipe.wait_copy_sram_to_nram();
        bang::memcpy_async(pipe, out + taskId * 64, part, sizeof(part), NRAM2GDRAM);
        pipe.wait_copy_nram_to_dram();
    }
}

template <class T> __mlu_func__ void compute(T *x, T *y, T *z, const T *a, const T *b, T *out) {
    bang::pipeline pipe(1);
    bang::memcpy_async(pipe, x, a, 64 * sizeof(T), GDRAM2NRAM);
    bang::memcpy_async(pipe, y, b, 64 * sizeof(T), GDRAM2NRAM);
    pipe.wait_memcpy();
    bang::vector::mul(pipe, z, x, y, 64);
    bang::vector::add(pipe, z, z, x, 64);
    bang::vector::sub(pipe, z, z, y, 64);
    pipe.wait_compute();
    // Copies within NRAM have ended when the call returns.
    bang::memcpy_async(pipe, x, z, 64 * sizeof(T), NRAM2NRAM);
    bang::memcpy_async(pipe, out, x, 64 * sizeof(T), NRAM2GDRAM);
    pipe.wait_copy_nram_to_dram();
}

__mlu_entry__ void floats(const float *a, const float *b, float *out) {
    __nram__ float x[64], y[64], z[64];
    compute(x, y, z, a, b, out);
}

__mlu_entry__ void halves(const half *a, const half *b, half *out) {
    __nram__ half x[64], y[64], z[64];
    compute(x, y, z, a, b, out);
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> bangc.Module:
    file: Path = tmp_path_factory.mktemp("pipeline") / "pipeline.mlu"
    file.write_text(SOURCE)
    return bangc.compile(file)


@pytest.mark.parametrize("device", ["mlu290-m5", "mlu370-x4", "mlu590-h8"])
def test_wait_memcpy_is_a_barrier_of_the_cluster(module: bangc.Module, device: str) -> None:
    x = np.arange(256, dtype=np.float32)
    expected = np.roll(x.reshape(4, 64), -1, axis=0).reshape(-1)
    report = mlusim.verify(module["rotate"], x, Output.like(x), reference=expected, dim=4, kind="UNION1", device=device)
    assert report.ok, report.text()


@pytest.mark.parametrize(("entry", "dtype"), [("floats", np.float32), ("halves", np.float16)])
def test_a_block_task_waits_for_its_loads(module: bangc.Module, entry: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 8, (2, 64)).astype(dtype)
    report = mlusim.verify(module[entry], a, b, Output.like(a), reference=a * b + a - b, dim=1, kind="BLOCK")
    assert report.ok, report.text()
