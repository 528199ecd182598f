"""Vector instructions reuse the checks of earlier calls: results and errors stay the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.cores.core import Core
from mlusim.cores.instructions.elementwise import binary
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.cores.vector_call import VectorCall
from mlusim.errors import OperandError
from mlusim.host.device import Device


def refuses(check: Any, *arguments: Any) -> str:
    """The error of a check, or nothing."""
    try:
        check(*arguments)
    except OperandError as error:
        return str(error)
    return ""


@given(
    board=st.sampled_from(["mlu270-s4", "mlu370-x4"]),
    name=st.sampled_from(["add", "float2half_rn", "transpose", "cycle_add"]),
    offsets=st.tuples(*[st.integers(0, 12)] * 3),
    fine=st.booleans(),
)
def test_the_quick_check_of_places_agrees_with_the_plain_one(
    board: str, name: str, offsets: tuple[int, int, int], fine: bool
) -> None:
    seen: list[tuple[str, str]] = []

    async def kernel(core: Core) -> None:
        step = 32 if fine else 8
        instruction = INSTRUCTIONS["convert" if name == "float2half_rn" else name]
        held = core.nram.alloc(1024, "float32")
        other = core.nram.alloc(1024, "float32")
        views = [held[step * at : step * at + 64] for at in offsets]
        views[2] = other[step * offsets[2] : step * offsets[2] + 64]
        attributes: dict[str, Any] = {}
        operands: list[Any] = views[: len(instruction.operands)]
        if name == "transpose":
            operands = [view.reshape(8, 8) for view in operands]
        if name == "float2half_rn":
            operands[0] = operands[0].view("float16")[:64]
            attributes = dict(instruction.defaults) | {"rounding": "rn"}
        call = VectorCall(core.issuer, instruction, operands, attributes)
        seen.append(
            (
                refuses(call.check, core.issuer, operands, operands),
                refuses(call.check_plainly, core.issuer, operands, operands),
            )
        )

    device = Device(board)
    device.launch(kernel, dim=1, kind="BLOCK")
    device.synchronize()
    ((quick, plain),) = seen
    assert quick == plain


def test_a_second_call_is_checked_where_its_operands_lie() -> None:
    async def kernel(core: Core) -> None:
        x = core.nram.alloc(256, "float32")
        core.add(x[:64], x[64:128], x[64:128])
        core.add(x[:64], x[32:96], x[64:128])

    device = Device("mlu370-x4")
    device.launch(kernel, dim=1, kind="BLOCK")
    with pytest.raises(OperandError, match="overlap"):
        device.synchronize()


def test_numbers_and_instructions_that_count_are_not_mixed_up() -> None:
    found: list[Any] = []

    async def kernel(core: Core) -> None:
        x, y, kept = (core.nram.alloc(64, "float32") for _ in range(3))
        core.store_array(x, np.arange(64, dtype=np.float32))
        for number in (1, 1.5, True, np.float32(2)):
            core.add(y, x, number)
            await core.sync()
            found.append(float(core.peek(y)[3]))
        core.gt(y, x, 60.0)
        for _ in range(2):
            found.append(await core.count(y))
            found.append(await core.filter(kept, x, y))

    device = Device("mlu370-x4")
    device.launch(kernel, dim=1, kind="BLOCK")
    device.synchronize()
    assert found == [4.0, 4.5, 4.0, 5.0, 3, 3, 3, 3]


@given(
    st.sampled_from([np.add, np.less, np.maximum, np.logical_xor]),
    st.sampled_from(["float16", "float32", "int8", "int32", "uint16"]),
    st.sampled_from([((8,), (8,)), ((2, 4), (8,)), ((8,), ())]),
)
def test_computing_in_place_gives_what_the_plain_way_gives(operation: Any, dtype: str, shapes: Any) -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(0, 3, shapes[0]).astype(dtype)
    b = rng.integers(0, 3, shapes[1]).astype(dtype)
    plain = binary(partial(operation))
    ours, theirs = a.copy(), a.copy()
    binary(operation)(ours, ours, b)
    plain(theirs, theirs, b)
    assert ours.tobytes() == theirs.tobytes()
