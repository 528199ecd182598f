"""Outputs that kernels write in part by intent, such as the elements that a filter selects."""

from __future__ import annotations

import numpy as np
import pytest

from findings import ONE, only
from mlusim import Device, Output, verify

X = np.array([0, 3, 0, 0, 5, 7, 0, 9] * 8, np.float32)
SELECTED = X[X != 0]


async def select(core, x, out, count, lost=0):
    """Store the elements that are not 0, and their number; `lost` of them are not stored."""
    held, mask, chosen = (core.nram.alloc(x.size, x.dtype, name) for name in ("held", "mask", "chosen"))
    await core.memcpy(held, x)
    core.ne(mask, held, 0)
    number = await core.collect(chosen, held, mask)
    await core.memcpy(out[: number - lost], chosen[: number - lost])
    core.store_array(count, np.array([number], np.int32))


def outputs():
    return Output.like(X), Output((1,), "int32")


def expected(first):
    return np.append(first, np.zeros(len(X) - len(first), np.float32)), np.array([len(SELECTED)], np.int32)


@pytest.mark.parametrize("partial", [("out",), True])
def test_a_declared_output_may_stay_unwritten_in_part(partial):
    report = verify(select, X, *outputs(), partial=partial, reference=expected(SELECTED), **ONE)
    assert not report.findings
    assert [use.unwritten_bytes for use in report.tensors] == [0, X.nbytes - SELECTED.nbytes, 0]


def test_without_a_declaration_the_error_says_how_to_declare_it():
    finding = only(verify(select, X, *outputs(), **ONE), "never-written")
    assert finding.remedy.splitlines()[-1] == ("or, if only a part holds selected elements, pass partial=('out',)")
    assert only(verify(select, X, *outputs(), partial=("count",), **ONE), "never-written")


def test_written_elements_of_a_partial_output_are_compared():
    wrong = SELECTED.copy()
    wrong[3] = 1
    finding = only(verify(select, X, *outputs(), partial=("out",), reference=expected(wrong), **ONE), "wrong-value")
    assert finding.title == "1 of 64 elements of out are wrong; the first, out[3], is 9.0 and should be 1.0"


def test_a_partial_output_of_which_nothing_is_written_is_an_error():
    async def nothing(core, x, out):
        await core.memcpy(core.nram.alloc(x.shape, x.dtype, "held"), x)

    report = verify(nothing, X, Output.like(X), partial=True, **ONE)
    assert "never-written" in [one.kind for one in report.errors]
    assert "without a task; nothing is written" in str(report)


def test_a_reference_of_another_shape_is_refused():
    with pytest.raises(Exception, match=r"^the reference of out is float32 \[32\] and the output float32 \[64\]"):
        verify(select, X, *outputs(), partial=True, reference=(SELECTED, None), **ONE)


def test_a_device_takes_the_same_declaration():
    device = Device()
    views = [device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out"), device.alloc((1,), "int32", "count")]
    device.launch(select, *views, **ONE)
    device.synchronize()
    device.download(views[1])
    assert [one.kind for one in device.verify().errors] == ["never-written"]
    assert device.verify(partial=("out",)).ok
