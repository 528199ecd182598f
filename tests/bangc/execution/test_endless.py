"""Endless loops that call the simulator are errors at their line; loops that end are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Device, bangc
from mlusim.errors import OperationLimitError

FILE = Path(__file__).parents[1] / "kernels" / "endless.mlu"


@pytest.fixture(scope="module")
def module() -> bangc.Module:
    return bangc.compile(FILE)


@pytest.mark.parametrize(
    ("entry", "line", "tasks"),
    [("syncs", 6, 1), ("syncs", 6, 8), ("barriers", 10, 8), ("no_change", 16, 4), ("a_flag_that_nobody_sets", 21, 1)],
)
@pytest.mark.grid(2)
def test_a_task_that_repeats_the_same_state_is_stopped(module: bangc.Module, entry: str, line: int, tasks: int) -> None:
    device = Device(max_operations=2_000_000)
    out = device.alloc(8, "int32")
    kind = "UNION1" if tasks > 1 else "BLOCK"
    device.launch(module[entry], out, dim=(min(tasks, 4), -(-tasks // 4), 1), kind=kind)
    with pytest.raises(OperationLimitError, match=rf"endless\.mlu:{line}, .* repeats itself: .*an endless loop"):
        device.synchronize()


@pytest.mark.slow
def test_a_loop_without_visible_effects_is_stopped_early(module: bangc.Module) -> None:
    device = Device(max_operations=60_000)
    device.launch(module["computes_on"], device.alloc(8, "int32"), dim=1, kind="BLOCK")
    message = r"endless\.mlu:7\d, .* 16 384 calls of the simulator, .* left nothing outside its core: an endless loop\?"
    with pytest.raises(OperationLimitError, match=message):
        device.synchronize()


@pytest.mark.parametrize(
    ("entry", "tasks"),
    [
        ("counts_in_nram", 1),
        ("counts_in_a_variable", 1),
        ("waits_for_another_core", 4),
        ("meets_another_core", 4),
        ("waits_for_a_time", 1),
    ],
)
@pytest.mark.grid(2)
def test_a_finite_loop_is_not_stopped(module: bangc.Module, entry: str, tasks: int) -> None:
    kind = "UNION1" if tasks > 1 else "BLOCK"
    out = mlusim.run(module[entry], mlusim.Output(4, "int32"), dim=tasks, kind=kind).output
    np.testing.assert_array_equal(out[:tasks], 1)


def test_instructions_that_a_memory_core_skips_count_as_operations(tmp_path: Path) -> None:
    file = tmp_path / "skipped.mlu"
    file.write_text(
        "__nram__ float tile[64];\n"
        "__mlu_entry__ void kernel(const float *x, int count) {\n"
        "  if (coreId != 0x80) return;\n"
        "  for (int k = 0; k < count; ++k) __memcpy(tile + k % 64, x + k % 64, 4, GDRAM2NRAM);\n"
        "}\n"
    )
    module = bangc.compile(file)
    # They are no stall, although nothing is recorded and no time passes.
    device = Device(stall_s=0.5)
    device.launch(module["kernel"], device.upload(np.ones(64, np.float32)), 100_000, dim=4, kind="UNION1")
    device.synchronize()
    # Most return at once, without a switch to the simulator, and are counted all the same.
    for limit in (1000, 20_000):
        device = Device(max_operations=limit)
        device.launch(module["kernel"], device.upload(np.ones(64, np.float32)), limit, dim=4, kind="UNION1")
        device.synchronize()
        device = Device(max_operations=limit)
        device.launch(module["kernel"], device.upload(np.ones(64, np.float32)), limit + 1, dim=4, kind="UNION1")
        with pytest.raises(OperationLimitError, match=rf"skipped\.mlu:4.*{limit // 1000} ?000"):
            device.synchronize()
