"""Repeated calls that the runtime recognises: their values, addresses and errors."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim import Device, bangc
from mlusim.bangc.execution.compiled_task import CompiledTask
from mlusim.errors import AccessError, CopyError
from mlusim.log import Log
from mlusim.memory.kinds import MemoryKind
from mlusim.version import is_compiled

KERNELS = Path(__file__).parents[1] / "kernels"


@pytest.fixture(scope="module")
def module() -> bangc.Module:
    return bangc.compile(KERNELS / "repeated.mlu")


@pytest.mark.slow
def test_a_log_is_freed_with_its_device(module: bangc.Module) -> None:
    device = Device()
    x, out = device.upload(np.arange(512, dtype=np.float32)), device.alloc(8192 + 512, np.float32)
    device.launch(module["repeated"], x, out, 7, dim=1, kind="BLOCK")
    device.synchronize()
    log = weakref.ref(device.log)
    gc.collect()
    gc.disable()
    try:
        del device, x, out
        assert log() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("distinct", [7, 6000])
@pytest.mark.grid(4)
def test_repeated_calls_use_their_own_values(module: bangc.Module, distinct: int) -> None:
    device = Device()
    x = np.arange(512, dtype=np.float32)
    out = device.alloc(8192 + 512, np.float32)
    device.launch(module["repeated"], device.upload(x), out, distinct, dim=1, kind="BLOCK")
    device.synchronize()
    result = device.download(out)
    assert np.array_equal(result[:distinct], 3 * (np.arange(distinct) % 5))
    for k in range(8):
        count = 32 if k % 2 else 64
        tile = slice(64 * k, 64 * k + count)
        assert np.array_equal(result[8192:][tile], x[tile] * (2 if k < 4 else 3))


@pytest.mark.skipif(is_compiled(), reason="methods of compiled classes cannot be replaced")
def test_the_quick_lookup_of_an_address_finds_what_the_plain_one_finds(
    module: bangc.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, kinds = CompiledTask.locate_cached, []

    def checked(self: CompiledTask, address: int) -> Any:
        for near in (address, address + 3, address):
            assert quick(self, near) == self.locate(near)
        with pytest.raises(AccessError):
            quick(self, 1)
        kinds.append(quick(self, address)[0].memory.kind)
        return quick(self, address)

    monkeypatch.setattr(CompiledTask, "locate_cached", checked)
    device = Device()
    x, out = device.upload(np.zeros(512, np.float32)), device.alloc(8192 + 512, np.float32)
    device.launch(module["repeated"], x, out, 7, dim=1, kind="BLOCK")
    device.synchronize()
    assert set(kinds) == {MemoryKind.GDRAM, MemoryKind.NRAM}


def test_a_repeated_copy_is_checked_like_the_first(module: bangc.Module) -> None:
    with pytest.raises(AccessError, match=r"repeated\.mlu:26.*memcpy reads bytes 576\.\.832 of x, which has 800 B"):
        mlusim.run(module["leaves"], np.zeros(200, np.float32), dim=1, kind="BLOCK")


def test_rows_within_ldram(module: bangc.Module) -> None:
    x = np.arange(64, dtype=np.float32)
    device = Device()
    out = device.alloc(80, np.float32)
    device.launch(module["respaced"], device.upload(x), out, dim=1, kind="BLOCK")
    device.synchronize()
    assert np.array_equal(device.download(out).reshape(4, 20)[:, :12], x.reshape(4, 16)[:, :12])


def test_remedies_name_the_functions_of_bang_c(module: bangc.Module) -> None:
    with pytest.raises(CopyError, match=r"memcpy_async has no NRAM2LDRAM: use `__memcpy\(\.\.\.\)`$"):
        mlusim.run(module["spills"], np.zeros(64, np.float32), dim=1, kind="BLOCK")


@pytest.mark.parametrize(
    ("direction", "message"),
    [
        ("LDRAM2NRAM", r"says LDRAM2NRAM but copies from .* into x \(gdram\).*GDRAM2NRAM; write that, or correct"),
        ("mluMemcpyDirection_t(77)", "in direction 77: there is no such copy; write a name, such as GDRAM2NRAM$"),
    ],
)
@pytest.mark.grid(2)
def test_a_wrong_direction_is_named_with_its_remedy(direction: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "direction.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void load(float *x) {\n  __nram__ float tile[64];\n"
        f"  __memcpy(tile, x, sizeof(tile), {direction});\n}}\n"
    )
    device = Device()
    device.launch(bangc.compile(file)["load"], device.upload(np.zeros(64, np.float32), "x"), dim=1, kind="BLOCK")
    with pytest.raises(CopyError, match=r"direction\.mlu:4, .*: memcpy " + message):
        device.synchronize()


TASKS, ROOM, ROWS = 4, 4096, 7
STEP = st.tuples(
    st.integers(0, 8),
    st.sampled_from([0, 64, 1024, 1088]),
    st.sampled_from([2048, 2112, 2304]),
    st.sampled_from([64, 128]),
    st.integers(-2, 2),
)
PLAN = st.lists(STEP, min_size=1, max_size=6).flatmap(
    lambda steps: st.lists(st.sampled_from(steps), min_size=30, max_size=30)
)


def expected(x: np.ndarray, plan: np.ndarray) -> np.ndarray:
    """What a task of `any` leaves in NRAM, by NumPy; its copies to `out` are overwritten with that."""
    room = np.zeros(ROOM, np.float32)
    for kind, to, origin, count, number in plan.tolist():
        target = room[to : to + count]
        if kind in (0, 4):
            target[:] = x[origin : origin + count]
        elif kind == 2:
            target += room[origin : origin + count]
        elif kind == 3:
            target *= number
        elif kind == 5:
            for row in range(ROWS + 1):
                room[to + 16 * row :][:16] = x[origin + 32 * row :][:16]
        elif kind == 6:
            room[to + number + 2] += room[origin + number]
        elif kind == 7:
            target[:] = number
        elif kind == 8:
            np.copyto(target, room[origin : origin + count], where=room[origin : origin + count] != 0)
    return room


@settings(max_examples=15, deadline=None)
@given(first=PLAN, second=PLAN)
@pytest.mark.slow
def test_a_run_is_the_same_without_known_calls(module: bangc.Module, first: Any, second: Any) -> None:
    x = np.random.default_rng(1).integers(-2, 3, ROOM).astype(np.float32)
    # Each task begins elsewhere in its list, and a second launch runs on the same cores.
    plans = [np.array([np.roll(plan, task, 0) for task in range(TASKS)], np.int32) for plan in (first, second)]
    runs = []
    for knows in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not knows:
                patch.setattr(module.runtime.library, "mlusim_know", lambda *_: 0)
            runs.append(run_plans(module, x, plans))
    (outputs, log), (plain_outputs, plain_log) = runs
    for output, plain, plan in zip(outputs, plain_outputs, plans, strict=True):
        assert output.tobytes() == plain.tobytes()
        assert np.array_equal(output, [expected(x, of_task) for of_task in plan], equal_nan=True)
    assert log.records.table().tobytes() == plain_log.records.table().tobytes()
    assert (log.lines, log.seen, log.remarks) == (plain_log.lines, plain_log.seen, plain_log.remarks)
    # What instructions such as maskmove have written depends on data.
    assert log.selected == plain_log.selected


def run_plans(module: bangc.Module, x: np.ndarray, plans: list[np.ndarray]) -> tuple[list[np.ndarray], Log]:
    device = Device()
    outputs = []
    for plan in plans:
        out = device.alloc((TASKS, ROOM), np.float32)
        arguments = (device.upload(x), out, device.upload(plan), plan.shape[1], ROWS)
        device.launch(module["any"], *arguments, dim=TASKS, kind="UNION1")
        device.synchronize()
        outputs.append(device.download(out))
    return outputs, device.log


def test_a_call_is_known_by_its_types_and_its_addresses(module: bangc.Module) -> None:
    device = Device()
    x, y = (
        device.upload(np.full(64, 96, np.float32), writable=True),
        device.upload(np.full(64, 96, np.float16), writable=True),
    )
    device.launch(module["halves"], x, y, 4, dim=1, kind="BLOCK")
    device.synchronize()
    assert set(device.download(x)) == {96 / 2**6}
    assert set(device.download(y)) == {96 / 2**5}


@pytest.mark.parametrize("zeros", [0, 10])
def test_what_a_repeated_move_leaves_is_uninitialised(module: bangc.Module, zeros: int) -> None:
    device = Device()
    x = np.ones(64, np.float32)
    x[:zeros] = 0
    device.launch(module["moves"], device.upload(x), device.alloc(64, np.float32), dim=1, kind="BLOCK")
    device.synchronize()
    assert [finding.nbytes for finding in device.verify().findings] == ([4 * zeros] if zeros else [])
