"""Variables of a file in GDRAM: `__mlu_device__` and `__mlu_const__`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Device, bangc
from mlusim.bangc import Module
from mlusim.errors import AllocationError, KernelError

KERNEL = Path(__file__).parents[1] / "kernels" / "device_variables.mlu"


@pytest.fixture(scope="module")
def module() -> Module:
    return bangc.compile(KERNEL)


def _kept(module: Module, device: Device) -> list[int]:
    out = device.alloc(5, "int32")
    device.launch(module["kept"], out, dim=1, kind="BLOCK")
    device.synchronize()
    return [int(value) for value in device.download(out)]


@pytest.mark.parametrize("again", [False, True])
def test_all_cores_and_launches_share_them(module: Module, again: bool) -> None:
    """A new device begins with the initial values."""
    device = Device()
    out = device.alloc((4, 64), "float32")
    for _ in range(1 + again):
        device.launch(module["exchange"], out, dim=4, kind="UNION1")
    device.synchronize()
    expected = np.repeat([[3.0], [5.0], [7.0], [1.0]], 64, axis=1)
    assert np.array_equal(device.download(out), expected)
    assert _kept(module, device) == [4 + 4 * again, 10, 27 + 7 * again, 6 + 4 + 7, 10]
    report = device.verify()
    report.check()
    assert not [hint for hint in report.hints if hint.kind == "unused"]


def test_constant_records_are_in_gdram(module: Module) -> None:
    result = mlusim.run(module["records"], mlusim.Output((5,), "int32"), dim=1, kind="BLOCK", check=True)
    assert result.output.tolist() == [30, 40, 70, 80, 110]


def test_the_checker_finds_their_races(module: Module) -> None:
    device = Device()
    device.launch(module["races"], dim=4, kind="UNION1")
    device.synchronize()
    assert any("task 0 and task 1 write the same bytes of counter" in str(one) for one in device.verify().errors)


def test_they_have_bytes_in_a_timing_only_run(module: Module) -> None:
    device = Device(data=False)
    device.launch(module["kept"], device.alloc(5, "int32", keep_data=True), dim=1, kind="BLOCK")
    device.synchronize()
    assert device.result().time_us > 0


def test_a_device_that_ran_before_another_has_lost_them(module: Module) -> None:
    first, second = Device(), Device()
    assert _kept(module, first) == _kept(module, second) == [0, 10, 20, 17, 10]
    message = (
        "another device has run device_variables.mlu meanwhile, and has its variables in GDRAM .*: compile the file"
    )
    with pytest.raises(KernelError, match=message):
        _kept(module, first)


def test_large_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "large.mlu").write_text(
        "__mlu_device__ float large[100 * 1000 * 1000];\n__mlu_entry__ void kernel(float *out) { out[0] = large[5]; }\n"
    )
    message = (
        r"large\.mlu:1, .*the variables in GDRAM of large\.mlu take more than 268 435 456 B: allocate large ones by"
    )
    with pytest.raises(AllocationError, match=message):
        mlusim.run(bangc.compile(tmp_path / "large.mlu")["kernel"], mlusim.Output(1), dim=1, kind="BLOCK")


FIRST = """
extern __mlu_shared__ float tile[4 * 32];
extern __mlu_device__ int counter;
__mlu_func__ void put(float value);
__mlu_entry__ void mix(float *out) {
  if (__is_mpu()) return;
  __nram__ float row[32];
  put(taskId + 1);
  __sync_all_ipu();
  __memcpy(row, tile + (taskId + 1) % 4 * 32, sizeof(row), SRAM2NRAM);
  out[taskId] = row[0] + counter;
}
"""
SECOND = """
extern __mlu_device__ int counter;
__mlu_shared__ float tile[4 * 32];
__mlu_device__ int counter = 100;
__mlu_func__ void put(float value) {
  __nram__ float row[32];
  __nram__ int old;
  __bang_write_value(row, 32, value);
  __memcpy(tile + taskId * 32, row, sizeof(row), NRAM2SRAM);
  __bang_atomic_add(&old, &counter, 1);
}
"""


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.grid(4)
def test_cores_and_files_share_memory_that_one_file_defines(tmp_path: Path, swapped: bool) -> None:
    files = []
    for name, text in (("first.mlu", FIRST), ("second.mlu", SECOND)):
        files.append(tmp_path / name)
        files[-1].write_text(text)
    main, other = files[::-1] if swapped else files
    kernel = bangc.compile(main, sources=[other])["mix"]
    reference = np.float32([106, 107, 108, 105])
    mlusim.verify(kernel, mlusim.Output(4), dim=4, kind="UNION1", reference=reference).check()
