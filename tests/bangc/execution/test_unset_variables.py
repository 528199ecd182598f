"""Local variables that instructions use before they are set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Output, bangc

TEXT = """#include <bang.h>
__mlu_entry__ void k(float *y, int n) {
  __nram__ float a[64];
  float scale[4];
  scale[n] = 3;
  __bang_write_value(a, 64, scale[2]);
  __memcpy(y, a, 256, NRAM2GDRAM);
}
"""


@pytest.mark.parametrize("index", [1, 2])
def test_a_float_variable_that_is_not_set_is_an_error_where_an_instruction_takes_it(tmp_path: Path, index: int) -> None:
    file = tmp_path / "unset.mlu"
    file.write_text(TEXT)
    try:
        module = bangc.compile(file, compiler="g++")
    except mlusim.errors.InputError as error:
        pytest.skip(str(error))
    report = mlusim.verify(module["k"], Output(64, "float32"), index, dim=1, kind="BLOCK")
    if index == 2:
        assert report.ok
        assert np.all(report.outputs["y"] == 3)
        return
    (finding,) = report.errors
    assert finding.kind == "unset"
    assert finding.title == "__bang_write_value takes a float that has no value: a local variable was never set"
    assert [site.line for site in finding.sites] == [6]
