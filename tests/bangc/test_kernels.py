"""Compiled kernels run on the simulated board and its memory, and are treated like Python kernels."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim import Device
from mlusim.bangc import Module
from mlusim.errors import InputError


def test_copy_moves_the_bytes_and_names_the_lines_of_the_source(basics: Module) -> None:
    x = np.arange(5000, dtype=np.float32)
    report = mlusim.verify(basics["copy"], x, mlusim.Output((5000,)), 5000, reference=lambda x: x, dim=8)
    report.check()
    device = Device()
    view, out = device.upload(x), device.alloc(x.shape, x.dtype)
    device.launch(basics["copy"], view, out, 5000, dim=4)
    device.synchronize()
    assert {line for file, line, _ in device.log.lines if file.endswith("basics.mlu")} == {13, 14}


@pytest.mark.parametrize(("name", "dtype"), [("fill<float, 64>", "float32"), ("fill<half,128>", "float16")])
def test_a_template_is_instantiated_by_its_name(basics: Module, name: str, dtype: str) -> None:
    device = Device()
    out = device.alloc((4, int(name.split(",")[1].strip(" >"))), dtype)
    device.launch(basics[name], out, 1.5, dim=4)
    device.synchronize()
    assert (device.download(out) == 1.5).all()


def test_an_array_has_its_initial_value_in_every_task(basics: Module) -> None:
    for _ in range(2):
        device = Device()
        out = device.alloc(4, "float32")
        device.launch(basics["initial"], out, dim=4)
        device.synchronize()
        assert device.download(out).tolist() == [1, 2, 3, 4]


def test_code_images_are_reused_by_later_devices(basics: Module) -> None:
    def run() -> None:
        device = Device()
        device.launch(basics["initial"], device.alloc(4, "float32"), dim=4)
        device.synchronize()

    run()
    loaded = {id(image) for image in basics.images()}
    run()
    assert {id(image) for image in basics.images()} == loaded


def test_plain_accesses_are_scalar_loads_at_their_line(basics: Module) -> None:
    x = np.arange(1, 101, dtype=np.float32)
    device = Device()
    out = device.alloc(4, "float32")
    device.launch(basics["scalar"], device.upload(x), out, 100, dim=4)
    device.synchronize()
    assert device.download(out).tolist() == [5050] * 4
    columns = device.log.columns()
    loads = columns["op"] == device.log.ops.index("load_array")
    assert columns["count"][loads].tolist() == [100] * 4
    lines = [device.log.lines[line] for line in columns["line"][loads]]
    assert {line for _, line, _ in lines} == {40}
    board = device.board
    issue_ps = board.cycles_ps(board.issue_cycles)
    took = [100 * board.scalar_gdram_latency_ps - issue_ps] * 4
    assert (columns["end_ps"] - columns["start_ps"])[loads].tolist() == took


def test_a_task_knows_its_ids(basics: Module) -> None:
    found = mlusim.run(basics["identity"], mlusim.Output((8, 6), "int32"), dim=8, kind="UNION2").output
    assert found.tolist() == [[task, 8, task % 4, 4, task // 4, 2] for task in range(8)]


def test_an_unknown_entry_is_an_error_that_names_the_nearest(basics: Module) -> None:
    with pytest.raises(InputError, match=r"basics\.mlu has no entry 'coppy'; did you mean copy"):
        basics["coppy"]
    with pytest.raises(InputError, match=r"fill of basics.mlu is a template: name what .*fill<float, float>"):
        basics["fill"]
