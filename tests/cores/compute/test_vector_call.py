"""Vector instructions reuse the checks of earlier calls, with the same results and errors."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.cores.compute import vector
from mlusim.cores.compute.vector_call import VectorCall, _ufunc_for
from mlusim.cores.core import Core
from mlusim.cores.instructions.record import Instruction
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.errors import AccessError, MlusimError, OperandError
from mlusim.host.device import Device
from mlusim.memory.view import View


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
def test_the_fast_overlap_check_agrees_with_the_plain_one(
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


def test_a_repeated_call_is_checked_at_its_own_operands() -> None:
    async def kernel(core: Core) -> None:
        x = core.nram.alloc(256, "float32")
        core.add(x[:64], x[64:128], x[64:128])
        core.add(x[:64], x[32:96], x[64:128])

    device = Device("mlu370-x4")
    device.launch(kernel, dim=1, kind="BLOCK")
    with pytest.raises(OperandError, match="overlap"):
        device.synchronize()


def test_cached_calls_distinguish_numbers_and_counts() -> None:
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


@pytest.mark.parametrize(
    "instruction", [entry for entry in INSTRUCTIONS.values() if entry.ufunc], ids=attrgetter("name")
)
@pytest.mark.parametrize("is_number", [False, True])
def test_ufunc_into_the_result_equals_compute(instruction: Instruction, is_number: bool) -> None:
    for dtype in instruction.types:
        rng = np.random.default_rng(3)
        a, b = rng.integers(0, 256, (2, 40, dtype.itemsize), np.uint8).view(dtype).reshape(2, 40)
        second = b[0] if is_number else b
        ufunc = _ufunc_for(instruction, [view_like(array) for array in (a, a, second) if array.ndim])
        assert ufunc is instruction.ufunc
        ours, theirs = a.copy(), a.copy()
        with np.errstate(all="ignore"):
            ufunc(ours, second, out=ours)
            instruction.compute(theirs, theirs, second)
        assert ours.tobytes() == theirs.tobytes()


def test_no_ufunc_for_operands_of_different_shapes() -> None:
    views = [view_like(np.zeros(shape)) for shape in ((8,), (2, 4), (8,))]
    assert _ufunc_for(INSTRUCTIONS["add"], views) is None
    assert _ufunc_for(INSTRUCTIONS["band"], views[:1]) is None


def view_like(array: Any) -> View:
    return Device("mlu370-x4").alloc(array.shape, array.dtype)


@given(
    board=st.sampled_from(["mlu270-s4", "mlu370-x4"]),
    calls=st.lists(
        st.tuples(
            st.sampled_from(["add", "square", "add_number", "write_zero", "write_value"]),
            *[st.tuples(st.integers(0, 3), st.integers(0, 4), st.booleans())] * 3,
        ),
        min_size=2,
        max_size=12,
    ),
)
def test_the_cached_call_issues_what_the_uncached_call_issues(board: str, calls: list[Any]) -> None:
    def run() -> tuple[Any, ...]:
        seen: list[Any] = []

        async def kernel(core: Core) -> None:
            held = core.nram.alloc((4, 128), "float32")
            core.fill(held.reshape(-1), 3.0)
            with core.nram.scope():
                freed = core.nram.alloc((4, 128), "float32")
            for name, *where in calls:
                buffer = freed if where[0][:2] == (3, 4) else held
                views = [
                    buffer[row] if whole else buffer[row][8 * eighth : 8 * eighth + 64] for row, eighth, whole in where
                ]
                operands: list[Any] = views
                if name in ("add_number", "write_value"):
                    _, number, is_float = where[2]
                    operands = [*views[: 1 + (name == "add_number")], float(number) if is_float else number]
                count = {"square": 2, "write_zero": 1}.get(name, len(operands))
                getattr(core, name.removesuffix("_number"))(*operands[:count])
            await core.sync()
            seen.append(core.peek(held).tobytes())

        device = Device(board)
        device.launch(kernel, dim=1, kind="BLOCK")
        error = ""
        try:
            device.synchronize()
        except MlusimError as raised:
            error = str(raised)
        return device.log.table().tolist(), seen, error

    ours = run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector, "_issue_again", lambda *_: False)
        assert run() == ours


def test_a_helper_that_issues_several_calls_in_turn_repeats_each_of_them() -> None:
    def run(board: str) -> tuple[Any, Any]:
        seen: list[bytes] = []

        async def kernel(core: Core) -> None:
            x, y = (core.nram.alloc(64, "float32") for _ in range(2))

            def each() -> None:
                for number, binary in ((0.5, core.mul), (-0.0, core.add), (0.0, core.sub), (2, core.maxequal)):
                    core.fill(y, number)
                    binary(x, x, y)

            core.fill(x, -3.0)
            for _ in range(4):
                each()
                await core.sync()
                seen.append(core.peek(x).tobytes() + core.peek(y).tobytes())

        device = Device(board)
        device.launch(kernel, dim=1, kind="BLOCK")
        device.synchronize()
        return device.log.table().tolist(), seen

    boards = ("mlu270-s4", "mlu370-x4")
    ours = [run(board) for board in boards]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector, "_issue_again", lambda *_: False)
        assert [run(board) for board in boards] == ours


def test_zeros_of_either_sign_are_different_values() -> None:
    found: list[bool] = []

    async def kernel(core: Core) -> None:
        x = core.nram.alloc(64, "float32")
        for zero in (0.0, -0.0, np.float32(0), np.float32(-0.0)):
            core.fill(x, zero)
            await core.sync()
            found.append(bool(np.signbit(core.peek(x)).all()))

    device = Device("mlu370-x4")
    device.launch(kernel, dim=1, kind="BLOCK")
    device.synchronize()
    assert found == [False, True, False, True]


@pytest.mark.parametrize("value", [[1.0], ([1.0],), {"a": 1}, "one"])
def test_a_value_that_is_not_a_number_is_an_error_hashable_or_not(value: Any) -> None:
    async def kernel(core: Core) -> None:
        core.fill(core.nram.alloc(64, "float32"), value)
        await core.sync()

    device = Device("mlu370-x4")
    device.launch(kernel, dim=1, kind="BLOCK")
    with pytest.raises(OperandError, match="value is a real number, not"):
        device.synchronize()


def test_rows_of_a_buffer_are_cached_views() -> None:
    async def kernel(core: Core, x: View) -> None:
        held = core.nram.alloc((40, 32), "float32")
        assert held[3] is held[3]
        for key in (True, 40, -1, 1.0):
            with pytest.raises(AccessError):
                held[key]
        first = [held[row] for row in range(40)]
        assert [view.offset for view in first] == [row * 128 for row in range(40)]
        assert x[0] is not x[0]
        core.fill(held[1], 5.0)
        await core.sync()
        assert (core.peek(held)[1] == 5).all()

    device = Device("mlu370-x4")
    device.launch(kernel, device.upload(np.zeros((2, 2), np.float32)), dim=1, kind="BLOCK")
    device.synchronize()


def test_an_unknown_argument_is_an_error_also_where_the_line_repeats_a_call() -> None:
    async def kernel(core: Core) -> None:
        held = core.nram.alloc(64, "float32")
        core.fill(held, 1.0)
        for named in ({}, {}, {}, {"bogus": 1}):
            core.add(held, held, held, **named)
        await core.sync()

    device = Device("mlu370-x4")
    device.launch(kernel, dim=1, kind="BLOCK")
    with pytest.raises(MlusimError, match="has no argument 'bogus'"):
        device.synchronize()
