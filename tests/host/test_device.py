"""A board in a host program: upload, alloc, download, free, timing-only runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlusim import dtypes
from mlusim.cores.core import Core
from mlusim.errors import AccessError, AllocationError, BoardError, InputError
from mlusim.hardware import board as board_of
from mlusim.host.device import Device
from mlusim.memory.view import View

X4 = board_of("mlu370-x4")


async def copy(core: Core, x: View, out: View) -> None:
    tile = core.nram.alloc(x.shape, x.dtype)
    await core.memcpy(tile, x)
    await core.memcpy(out, tile)


# Boards


def test_a_board_by_name_file_or_record(tmp_path: Path) -> None:
    assert Device().board == Device("MLU370-X4").board == Device(X4).board == X4
    path = tmp_path / "mine.toml"
    path.write_text('base = "mlu370-x4"\nname = "mine"\nclusters = 2\nmax_union = 2\n', encoding="utf-8")
    assert Device(path).board.clusters == Device(str(path)).board.clusters == 2
    with pytest.raises(BoardError, match=r"^no board 'mlu371-x4'; did you mean"):
        Device("mlu371-x4")
    with pytest.raises(InputError, match=r"^dma='early': choose one of complete, late$"):
        Device(dma="early")


# Upload and download


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0,), (4, 0, 2), (2, 1, 3, 1, 2)])
def test_a_download_returns_the_upload(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
    device = Device()
    view = device.upload(array)
    assert (view.shape, view.dtype) == (shape, dtype)
    got = device.download(view)
    assert got.shape == shape
    assert got.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[::-1],
        lambda x: x.T,
        lambda x: x[:, ::2],
        lambda x: x[1:, :0],
        lambda x: np.broadcast_to(x[:1], (7, x.shape[1])),
        lambda x: np.lib.stride_tricks.as_strided(x, (3, 2), (0, 64)),
        np.asfortranarray,
    ],
)
def test_any_strides(make: Any) -> None:
    array = make(np.arange(60, dtype=np.int32).reshape(6, 10))
    device = Device()
    np.testing.assert_array_equal(device.download(device.upload(array)), array)


def test_a_contiguous_array_is_adopted_and_never_written() -> None:
    array = np.arange(64, dtype=np.int32)
    device = Device()
    view, out = device.upload(array), device.alloc(64, np.int32)
    assert np.shares_memory(device.download(view), array)
    device.launch(copy, view, out, dim=1, kind="BLOCK")
    device.synchronize()
    assert array.tolist() == list(range(64))
    with pytest.raises(ValueError, match="read-only"):
        device.download(view)[0] = 1
    device.download(out)[0] = 99  # an output is the caller's
    assert device.download(out[0]) == 99


def test_read_only_arrays_lists_and_scalars() -> None:
    frozen = np.arange(4.0)
    frozen.setflags(write=False)
    device = Device()
    assert device.download(device.upload(frozen)).tolist() == [0, 1, 2, 3]
    assert device.download(device.upload([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]
    assert device.download(device.upload(np.float32(2.5))) == 2.5


@pytest.mark.parametrize("dtype", ["datetime64[s]", "S3", "O", [("a", "i4")], [("a", ">i4")]])
def test_unsupported_element_types_are_refused(dtype: Any) -> None:
    with pytest.raises(InputError, match=r"^input: dtype .*is not an element type"):
        Device().upload(np.zeros(3, dtype))


@pytest.mark.parametrize("code", ["i2", "u8", "f2", "f4", "c8"])
def test_arrays_of_the_other_byte_order_keep_their_values(code: str) -> None:
    bits = np.random.default_rng(0).integers(0, 256, (4, 6, int(code[1:])), np.uint8)
    for order in "<>":
        array = bits.view(f"{order}{code}")[::-1, ::2, 0]
        device = Device()
        found = device.download(device.upload(array))
        assert found.dtype == np.dtype(code)
        # As NumPy has it, NaN payloads included.
        native = array if array.dtype.isnative else array.byteswap().view(array.dtype.newbyteorder())
        assert found.tobytes() == native.tobytes()


def test_outputs_hold_poison() -> None:
    device = Device()
    assert (device.download(device.alloc((3, 5), np.uint8)) == 0xFF).all()
    assert np.isnan(device.download(device.alloc((), np.float32)))
    assert device.download(device.alloc((2, 0, 3), np.int8)).shape == (2, 0, 3)
    assert device.alloc(7, "half").shape == device.alloc(np.int64(7), "half").shape == (7,)


def test_parts_of_a_tensor_can_be_downloaded() -> None:
    device = Device()
    view = device.upload(np.arange(24).reshape(4, 6))
    assert device.download(view[::-1, 3]).tolist() == [21, 15, 9, 3]
    assert device.download(device.alloc((0, 4), np.int8)[:, ::-1]).shape == (0, 4)


# Room in GDRAM


def test_gdram_can_be_exhausted() -> None:
    device = Device(X4.replace(gdram_bytes=4096))
    first = device.alloc(3000, np.int8)
    with pytest.raises(
        AllocationError,
        match=r"^gdram\.alloc of 2 000 B .*does not fit: 4 096 B usable in the GDRAM of mlu370-x4, 3 072 B in use, "
        r"largest free range 1 024 B$",
    ):
        device.alloc(2000, np.int8)
    device.free(first)
    assert device.alloc(4000, np.int8).nbytes == 4000


def test_free() -> None:
    device, other = Device(), Device()
    view = device.upload(np.arange(4), "x")
    with pytest.raises(AllocationError, match=r"is in the GDRAM of mlu370-x4, not in the GDRAM of this device$"):
        other.free(view)
    device.free(view)
    with pytest.raises(
        AllocationError, match=r"^x is freed already; free each allocation of the GDRAM of mlu370-x4 once$"
    ):
        device.free(view)
    for use in (device.download, lambda freed: device.download(freed[1:])):
        with pytest.raises(AllocationError, match=r"^x in the GDRAM of mlu370-x4 was freed; upload or"):
            use(view)


def test_a_tensor_that_a_queued_launch_got_is_not_freed() -> None:
    async def kernel(core: Core, x: View) -> None:
        pass

    device = Device()
    x, other = device.upload(np.ones(4), "x"), device.upload(np.ones(4), "other")
    device.launch(kernel, x)
    device.free(other)
    with pytest.raises(InputError, match=r"free of <view of x .*> before kernel has run, which got it: .*synchronize"):
        device.free(x)
    device.synchronize()
    device.free(x)


def test_memory_of_another_device_cannot_be_downloaded(run_kept: list[View]) -> None:
    device = Device()
    with pytest.raises(
        AllocationError, match=r"^<view of .*> is in the GDRAM of mlu370-x4, not in the GDRAM of this dev"
    ):
        device.download(Device().alloc(4, np.int8))
    with pytest.raises(AllocationError, match=r"is in the NRAM of cluster 0 core 0 of mlu370-x4, not in the GDRAM of"):
        device.download(run_kept[0])


@pytest.fixture
def run_kept() -> list[View]:
    kept: list[View] = []

    async def kernel(core: Core) -> None:
        kept.append(core.nram.alloc(4, np.int8))

    device = Device()
    device.launch(kernel, dim=1, kind="BLOCK")
    device.synchronize()
    return kept


@pytest.mark.parametrize("shape", [-3, (-3,), (4, -1)])
def test_extents_are_not_negative(shape: Any) -> None:
    with pytest.raises(InputError, match=r"^output: the shape \[.*\]: an extent cannot be negative$"):
        Device().alloc(shape, np.int8)


# Views of zero size, and shapes that no laptop holds


def test_zero_sized_tensors() -> None:
    async def kernel(core: Core, x: View, out: View) -> None:
        if x.size:
            await core.memcpy(out, x)

    device = Device()
    x, out = device.upload(np.zeros((0, 4), np.float32)), device.alloc((0, 4), np.float32)
    device.launch(kernel, x, out, dim=4)
    device.synchronize()
    assert device.download(out).shape == (0, 4)
    assert len(device.log) == 0


def test_huge_shapes_in_a_timing_only_run() -> None:
    """Terabytes: no byte is held, times and bytes are exact integers."""
    device = Device(X4.replace(gdram_bytes=1 << 50, dram_mixing_ps=0), data=False)
    rows, row = 1 << 16, 1 << 29
    x = device.alloc((rows, row), np.int8)
    out = device.alloc((rows, row), np.int8)

    async def kernel(core: Core, x: View, out: View) -> None:
        for half in range(2):
            await core.memcpy(out[half::2], x[half::2])

    device.launch(kernel, x, out, dim=1, kind="BLOCK")
    device.synchronize()
    columns = device.log.columns()
    assert columns["bytes_requested"].tolist() == [rows // 2 * row] * 2
    assert columns["bus_read_bytes"].tolist() == [rows // 2 * row] * 2
    board = device.board
    bus = rows // 2 * row
    work = bus / board.dram_strided_read_efficiency + bus / board.dram_strided_write_efficiency
    slowest = max(
        work / (board.dram_bandwidth_bytes_per_s * board.dram_mixed_efficiency),
        bus / min(board.core_read_bandwidth_bytes_per_s, board.core_write_bandwidth_bytes_per_s),
    )
    took = columns["end_ps"] - columns["issue_ps"]
    assert took.tolist() == pytest.approx([slowest * 1e12] * 2, rel=1e-6)


def test_a_timing_only_run_has_no_bytes() -> None:
    device = Device(data=False)
    out = device.alloc(16, np.int8, "out")
    assert not device.data
    with pytest.raises(
        AccessError, match=r"^out has a size but no bytes: this run is timing-only; run it with data=True$"
    ):
        device.download(out)
    kept = device.upload(np.arange(4), keep_data=True)
    assert device.download(kept).tolist() == [0, 1, 2, 3]


def test_the_time_of_a_result_equals_that_of_its_figures() -> None:
    device = Device("mlu370-x4")
    assert device.result().time_ps == device.result().metrics.time_ps == 0
    x, out = device.upload(np.ones((4, 32), np.float32)), device.alloc((4, 32), np.float32)
    device.launch(copy, x, out, dim=1, kind="BLOCK")
    device.synchronize()
    once = device.result()
    assert once.time_ps == once.metrics.time_ps == device.log.launches[0].end_ps - device.log.launches[0].start_ps > 0
    device.launch(copy, x, out, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.result().time_ps == device.result().metrics.time_ps > 2 * once.time_ps


@pytest.mark.parametrize("given", [None, "x", np.zeros(3)])
def test_only_views_are_downloaded_and_freed(given: Any) -> None:
    device = Device("mlu370-x4")
    for call in (device.download, device.free):
        with pytest.raises(InputError, match="is not a tensor of the device: pass what alloc or upload returned"):
            call(given)


def test_results_need_a_synchronized_device():
    async def kernel(core):
        del core

    device = Device()
    device.launch(kernel)
    for call in (device.result, device.verify):
        with pytest.raises(
            InputError, match=r"before kernel has run: a launch only queues; call synchronize\(\) first"
        ):
            call()
    device.synchronize()
    assert device.result().time_ps > 0
    for call in (device.result, partial(device.save, "a.zip")):
        with pytest.raises(InputError, match=r"^name=3 is not text$"):
            call(3)
    with pytest.raises(InputError, match=r"^core='0': pass an integer of at least 0$"):
        device.result().memory_at(0, core="0")


def test_data_is_a_truth_value():
    assert Device(data=np.bool_(False)).log.table().tolist() == []
    with pytest.raises(InputError, match=r"^data='no': choose True or False$"):
        Device(data="no")
    device = Device()
    for option in ("workspace", "keep_data", "overwritten"):
        with pytest.raises(InputError, match=f"{option}='no': choose True or False"):
            device.alloc(4, np.float32, **{option: "no"})
    with pytest.raises(InputError, match="writable=1: choose True or False"):
        device.upload(np.ones(4, np.float32), writable=1)
