"""The operands of the operation that made a wrong value, in compiled kernels, whose buffers are bytes."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from findings import ONE, the_only_error
from mlusim import Output

SOURCE = """#include <bang.h>
__nram__ {type} a[128];
__mlu_entry__ void twice(const {type} *x, {type} *out) {{
  __memcpy(a, x, 64 * sizeof({type}), GDRAM2NRAM);
  __bang_add(a + 64, a, a, 63);
  __bang_mul(a + 64 + {first}, a + {first}, a, 1);
  __memcpy(out, a + 64, 64 * sizeof({type}), NRAM2GDRAM);
}}
"""
CONVERTED = """#include <bang.h>
__nram__ float a[64];
__nram__ int b[64];
__mlu_entry__ void convert(const int *x, float *out) {
  __memcpy(b, x, 256, GDRAM2NRAM);
  __bang_int322float(a, b, 64, 0);
  __memcpy(out, a, 256, NRAM2GDRAM);
}
"""


@pytest.mark.parametrize(("ctype", "dtype"), [("float", np.float32), ("half", np.float16), ("int", np.int32)])
@pytest.mark.grid(2)
def test_an_operand_has_the_type_of_the_result(ctype, dtype, tmp_path):
    x = np.arange(3, 67, dtype=dtype)
    file = tmp_path / "twice.mlu"
    file.write_text(SOURCE.format(type=ctype, first=63))
    finding = the_only_error(mlusim.bangc.compile(file)["twice"], x, Output.like(x), reference=2 * x, **ONE)
    end = 64 * x.itemsize
    assert finding.location == f"mul read a[{end - x.itemsize}:{end}] = {x[63]!s} and a[0:{x.itemsize}] = {x[0]!s}"


def test_the_operand_of_a_conversion_has_a_type_that_is_not_known(tmp_path):
    x = np.arange(1, 65, dtype=np.int32)
    file = tmp_path / "convert.mlu"
    file.write_text(CONVERTED)
    finding = the_only_error(
        mlusim.bangc.compile(file)["convert"], x, Output((64,)), reference=x.astype(np.float32) + 1, **ONE
    )
    assert finding.kind == "wrong-value"
    assert not finding.location
