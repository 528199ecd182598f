"""Compiled code, compared with measurements of real boards; C++ constructs found in real files."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from mlusim import Device, Output, bangc, run
from mlusim.bangc.host.program import run_program
from mlusim.validation.measurements import measurements

KERNELS = Path(__file__).parent / "kernels"
_SIZE = 64


@pytest.mark.parametrize("board", ["mlu370-x8", "mlu370-x4"])
@pytest.mark.parametrize("memory", ["gdram", "nram"])
@pytest.mark.grid(2)
def test_an_iteration_of_a_plain_loop_takes_the_measured_time(board: str, memory: str) -> None:
    name = f"matmul-scalar-{memory}-{board.removeprefix('mlu').replace('-', '')}"
    row = next(row for row in measurements() if row.name == name)
    iterations = 128 * 256 * 128
    kernel = bangc.compile(KERNELS / "scalar_matmul.mlu", board)[f"in_{memory}"]
    a = np.random.default_rng(0).standard_normal((_SIZE, _SIZE), np.float32)
    done = run(kernel, a, a, Output((_SIZE, _SIZE), np.float32), _SIZE, device=board, dim=1, kind="BLOCK")
    np.testing.assert_allclose(done.output, a @ a, rtol=1e-3, atol=1e-4)
    assert done.time_us / _SIZE**3 == pytest.approx(row.time_us / iterations, rel=0.03)


def test_arithmetic_of_bfloat16_rounds_each_operation() -> None:
    kernel = bangc.compile(KERNELS / "host_language.mlu")["arithmetic"]
    bfloat16 = ml_dtypes.bfloat16
    x = np.random.default_rng(1).standard_normal(200, np.float32).astype(bfloat16)
    done = run(kernel, Output(200, bfloat16), x, 200, dim=1, kind="BLOCK")
    total = np.abs(x) + x * bfloat16(2)
    total = (total + bfloat16(1)) * bfloat16(0.5) + bfloat16(1)
    expected = np.maximum(total - np.abs(x), x / bfloat16(3))
    np.testing.assert_array_equal(done.output.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize(
    ("board", "host_us"),
    [("mlu370-x8", 27), ("mlu370-x4", 48), ("mlu590-m9", 9.2), ("mlu590-h8", 9.2), ("mlu290-m5", 27)],
)
def test_a_notifier_on_an_idle_queue_includes_the_hosts_launch(
    board: str, host_us: float, capsys: pytest.CaptureFixture[str]
) -> None:
    device = Device(board)
    module = bangc.compile(KERNELS / "host_language.mlu", board)
    # A function without its return runs on behind its call.
    assert run_program(module, device) == 0
    increments, difference_us, busy_us, fresh_us = capsys.readouterr().out.split()
    assert increments == "2"
    launch = device.log.launches[0]
    # Of two short launches in a row, the second one waits for its call, which takes 6.3 us as measured on mlu590-m9.
    assert float(busy_us) == pytest.approx(6.3, abs=2 * device.board.queued_kernel_gap_ps / 1e6)
    idle_us = host_us + (launch.end_ps - launch.start_ps) / 1e6
    assert float(difference_us) == pytest.approx(idle_us - 6.3, abs=4 * device.board.queued_kernel_gap_ps / 1e6)
    # What another queue did before the first notifier of a new queue is not part of the time.
    assert float(fresh_us) == pytest.approx(0, abs=2 * device.board.queued_kernel_gap_ps / 1e6)


def test_irregular_accesses_are_few_records() -> None:
    kernel = bangc.compile(KERNELS / "scalar_matmul.mlu")["permuted"]
    size = 60_000
    index = np.random.default_rng(2).permutation(size).astype(np.int32)
    x = np.arange(size, dtype=np.int32)
    done = run(kernel, Output(size, np.int32), x, index, size, dim=1, kind="BLOCK", check=True)
    np.testing.assert_array_equal(done.output, x[index])
    assert done.metrics.operations["load_rows"] + done.metrics.operations["load_array"] == 2 * size
    assert done.log.count < size // 50
    # Two loads that are waited for, and ordinary operations; of the posted stores only the last batch is.
    each_ns = 2 * 380 + 3 * 4
    assert done.time_us == pytest.approx(size * each_ns / 1000, rel=0.03)
