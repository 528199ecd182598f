"""`nram_limit_bytes`: a plan that uses less NRAM is right, and within its limit."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim.errors import InputError
from sweeping_here import inputs


@pytest.mark.parametrize("limit", [0, -1, 10**9, 3.5, True])
def test_an_invalid_limit_is_an_error(limit):
    with pytest.raises(InputError, match=r"^nram_limit_bytes="):
        mlusim.ops.reverse(np.zeros(4), 0, nram_limit_bytes=limit)


@pytest.mark.parametrize(
    ("operator", "shape", "options"),
    [
        ("tin_shift", (2, 4, 8, 400), {}),
        ("reverse", (256, 400), {"axis": (0, 1)}),
        ("reverse_sequence", (8, 256, 200), {"seq_axis": 1, "batch_axis": 0}),
        ("gather", (64, 200), {"axis": 1}),
        ("scatter", (64, 200), {"axis": 0}),
        ("cast", (20_000,), {"dtype": "float16"}),
    ],
)
def test_every_operator_is_right_within_an_nram_limit(operator, shape, options):
    """The fixture of all tests also verifies the run, and compares it with its plan."""
    call = getattr(mlusim.ops, "tin_shift_forward" if operator == "tin_shift" else operator)
    arrays = inputs(operator, shape, **options)
    whole, limited = (call(*arrays, **options, nram_limit_bytes=limit) for limit in (None, 4096))
    assert limited.output.tobytes() == whole.output.tobytes()
    # A limit may choose another cut, with fewer but smaller boxes in NRAM at once: it binds, and it holds.
    assert limited.metrics.peak_nram_bytes <= 4096 < whole.metrics.peak_nram_bytes
    assert limited.plan.nram_bytes <= 4096
    assert limited.report is not None


def test_a_limit_applies_to_every_operator_of_a_net():
    from mlusim.cinn import Float, NetBuilder

    builder = NetBuilder("net")
    x = builder.create_input(Float(32), (64, 256), "x")
    builder.cast(builder.flip(x, [0, 1]), "float16")
    array = np.random.default_rng(0).standard_normal((64, 256), np.float32)
    ran = builder.build().execute({"x": array}, nram_limit_bytes=1024)
    assert [step.result.plan.nram_limit_bytes for step in ran.steps] == [1024, 1024]
    assert all(step.result.metrics.peak_nram_bytes <= 1024 for step in ran.steps)
