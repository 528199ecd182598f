"""`std::numeric_limits` of half and bfloat16_t, against ml_dtypes."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from mlusim import Device, bangc

KERNEL = """
#include <bang.h>
#include <limits>
template <typename T> __mlu_entry__ void limits(float *out) {
    if (taskId || __is_mpu()) return;
    typedef std::numeric_limits<T> L;
    const float values[] = {
        L::min(), L::max(), L::lowest(), L::epsilon(), L::denorm_min(), L::infinity(), L::quiet_NaN(),
        L::digits, L::min_exponent, L::max_exponent, L::is_specialized,
    };
    for (int i = 0; i < 11; ++i) out[i] = values[i];
}
"""


@pytest.mark.parametrize(("name", "kind"), [("half", np.float16), ("bfloat16_t", ml_dtypes.bfloat16)])
@pytest.mark.grid(2)
def test_limits_of_16_bit_floats(name: str, kind: type, tmp_path: Path, compiler: str) -> None:
    (tmp_path / "limits.mlu").write_text(KERNEL)
    device = Device()
    out = device.alloc(11, "float32")
    module = bangc.compile(tmp_path / "limits.mlu", compiler=compiler)
    device.launch(module[f"limits<{name}>"], out, dim=1, kind="BLOCK")
    device.synchronize()
    info = ml_dtypes.finfo(kind)
    numbers = (info.tiny, info.max, info.min, info.eps, info.smallest_subnormal, np.inf, np.nan)
    expected = [*map(float, numbers), info.nmant + 1, info.minexp + 1, info.maxexp, 1]
    np.testing.assert_array_equal(device.download(out), np.array(expected, np.float32))
