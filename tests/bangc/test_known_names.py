"""Names of BANG C that are not simulated: each is told with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Device, Output, bangc
from mlusim.bangc.known_names import is_unknown, why_missing
from mlusim.bangc.second_look import is_of_library
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


def test_known_intrinsics_have_none() -> None:
    assert not [name for name in bangc.intrinsics.names() if why_missing(name)]


def test_the_error_gives_the_reason_at_the_call(tmp_path: Path) -> None:
    file = tmp_path / "kernel.mlu"
    file.write_text(KERNEL)
    device = Device()
    device.launch(bangc.compile(file)["kernel"], device.alloc(64, "int32"))
    with pytest.raises(KernelError, match=r"kernel\.mlu:5, .*_tiling_2d_b8 is not simulated: no public text tells"):
        device.synchronize()


def test_the_vector_library_divides_integers(tmp_path: Path) -> None:
    file = tmp_path / "divide.mlu"
    file.write_text(
        """
__mlu_entry__ void divide(const int *a, const int *b, int *out) {
    __nram__ int x[64];
    __nram__ int y[64];
    __memcpy(x, a, sizeof(x), GDRAM2NRAM);
    __memcpy(y, b, sizeof(y), GDRAM2NRAM);
    __cn_vector_div_s32(64, x, x, y);
    __memcpy(out, x, sizeof(x), NRAM2GDRAM);
}
"""
    )
    rng = np.random.default_rng(0)
    a = rng.integers(-1000, 1000, 64).astype(np.int32)
    b = rng.integers(1, 50, 64).astype(np.int32) * rng.choice(np.array([-1, 1], np.int32), 64)
    expected = np.trunc(a / b).astype(np.int32)
    report = mlusim.verify(bangc.compile(file)["divide"], a, b, Output.like(a), reference=expected, dim=1, kind="BLOCK")
    assert report.ok, report.text()
