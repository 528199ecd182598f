"""The host's time for launches, in what a program measures between two notifiers."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlusim import Device, bangc, board
from mlusim.bangc.host.host_time import HostTime
from mlusim.bangc.host.program import run_program
from mlusim.log_tables import LaunchRecord
from mlusim.units import PS_PER_US

# Of MLU590-M9 (`mlusim.hardware.host_launch`): from a call to the start of the kernel, and for the call.
START_US, CALL_US = 9.2, 6.3

PROGRAM = r"""
#include <bang.h>
#include <cnrt.h>
#include <cstdio>
__mlu_entry__ void copy(float *x) {
  __nram__ float tile[64];
  __memcpy(tile, x, 256, GDRAM2NRAM);
  __memcpy(x, tile, 256, NRAM2GDRAM);
}
int main() {
  float *x, us;
  cnrtMalloc((void **)&x, 256);
  cnrtMemset(x, 0, 256);
  cnrtQueue_t queue;
  cnrtNotifier_t start, end;
  cnrtQueueCreate(&queue), cnrtNotifierCreate(&start), cnrtNotifierCreate(&end);
  cnrtDim3_t dim = {1, 1, 1};
  WARM_UP
  cnrtPlaceNotifier(start, queue);
  for (int i = 0; i < 20; ++i) {
    copy<<<dim, cnrtFuncTypeBlock, queue>>>(x);
    AFTER_EACH
  }
  cnrtPlaceNotifier(end, queue);
  cnrtQueueSync(queue);
  cnrtNotifierDuration(start, end, &us);
  printf("%.3f\n", us);
}
"""


def record(start_us: float, end_us: float) -> LaunchRecord:
    return LaunchRecord("k", "BLOCK", (1, 1, 1), 0, round(start_us * PS_PER_US), round(end_us * PS_PER_US))


def delays_us(launches: list[LaunchRecord], waited: dict[int, list[int]]) -> list[float]:
    """The delays of launches; `waited`: the launches that the host waits for before a launch, by its index."""
    host = HostTime(board("mlu590-m9"))
    for index in range(len(launches)):
        host.waited(waited.get(index, []))
        host.launched()
    return [host.delay_ps(launches, number + 1) / PS_PER_US for number in range(len(launches))]


def test_long_launches_hide_the_host_except_that_of_the_first() -> None:
    launches = [record(0, 100), record(100, 200), record(200, 300)]
    assert delays_us(launches, {}) == [START_US] * 3


def test_short_launches_in_a_row_wait_for_the_host() -> None:
    launches = [record(index, index + 1) for index in range(4)]
    assert delays_us(launches, {}) == pytest.approx([START_US + index * (CALL_US - 1) for index in range(4)])


def test_a_launch_after_a_wait_starts_as_on_an_idle_queue() -> None:
    launches = [record(0, 100), record(100, 200), record(200, 300)]
    assert delays_us(launches, {2: [0, 1]}) == pytest.approx([START_US, START_US, 2 * START_US])


def test_a_wait_for_a_launch_that_ended_long_ago_costs_nothing() -> None:
    launches = [record(0, 1), record(1, 100), record(100, 200)]
    assert delays_us(launches, {2: [0]}) == pytest.approx([START_US, START_US + CALL_US - 1, START_US + CALL_US - 1])


@pytest.mark.parametrize(
    ("warm_up", "after_each", "expected_us"),
    [
        ("", "", lambda kernel_us: START_US + 19 * CALL_US + kernel_us),
        # From the end of a launch to that of the last one, the host makes 20 calls.
        ("copy<<<dim, cnrtFuncTypeBlock, queue>>>(x);", "", lambda _: 20 * CALL_US),
        ("", "cnrtQueueSync(queue);", lambda kernel_us: 20 * (START_US + kernel_us)),
        ("", "cnrtSyncDevice();", lambda kernel_us: 20 * (START_US + kernel_us)),
    ],
    ids=["in a row", "behind a launch", "each awaited", "device awaited"],
)
@pytest.mark.grid(2)
def test_a_program_measures_the_host(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], warm_up: str, after_each: str, expected_us: object
) -> None:
    file = tmp_path / "launches.mlu"
    file.write_text(PROGRAM.replace("WARM_UP", warm_up).replace("AFTER_EACH", after_each))
    device = Device("mlu590-m9")
    assert run_program(bangc.compile(file), device) == 0
    first = device.log.launches[0]
    kernel_us = (first.end_ps - first.start_ps) / PS_PER_US
    assert callable(expected_us)
    assert float(capfd.readouterr().out) == pytest.approx(expected_us(kernel_us), rel=0.01)
