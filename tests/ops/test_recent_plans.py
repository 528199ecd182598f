"""Plans of recent calls are cached: the same plan for an equal call, another for any other."""

from __future__ import annotations

import pytest

import mlusim
from mlusim.errors import PlanError
from mlusim.hardware import board


def test_the_same_call_has_the_same_plan() -> None:
    first = mlusim.plan("reverse", (64, 64), axis=[0])
    assert mlusim.plan("reverse", (64, 64), axis=[0]) is first


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((64, 65), {}),
        ((64, 64), {"axis": [1]}),
        ((64, 64), {"input_dtype": "float16"}),
        ((64, 64), {"strategy": "mirror"}),
        ((64, 64), {"device": "mlu590-h8"}),
        ((64, 64), {"nram_limit_bytes": 4096}),
    ],
)
def test_another_call_has_another_plan(shape: tuple[int, int], options: dict[str, object]) -> None:
    first = mlusim.plan("reverse", (64, 64), axis=[0])
    other = mlusim.plan("reverse", shape, **({"axis": [0]} | options))
    assert other is not first
    assert other.output_shape != first.output_shape or other != first


def test_a_modified_board_has_its_own_plan() -> None:
    x4 = board("mlu370-x4")
    first = mlusim.plan("reverse", (64, 64), axis=[0], device=x4)
    smaller = x4.replace(clusters=1)
    assert mlusim.plan("reverse", (64, 64), axis=[0], device=smaller).board is smaller
    assert mlusim.plan("reverse", (64, 64), axis=[0], device=x4) is first


def test_a_cached_plan_cannot_be_modified() -> None:
    plan = mlusim.plan("reverse", (64, 64), axis=[0])
    with pytest.raises(ValueError, match="read-only"):
        plan.tiles.start[:] = 0


def test_an_unplannable_call_fails_every_time() -> None:
    tiny = board("mlu370-x4").replace(nram_bytes=128, nram_reserved_bytes=0)
    for _ in range(2):
        with pytest.raises(PlanError):
            mlusim.plan("gather", (64, 64), (64, 64), axis=0, device=tiny)
