"""The host interface of mlu-ops: programs, descriptors, handles."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import mlusim
from command_line import shifted
from mluop_programs import BAD, FUNCTIONS, UNSUPPORTED, created, descriptor
from mlusim import mluop
from mlusim.mluop import (
    MLUOP_DTYPE_FLOAT,
    MLUOP_DTYPE_HALF,
    MLUOP_DTYPE_INT32,
    MLUOP_LAYOUT_ARRAY,
    MLUOP_STATUS_EXECUTION_FAILED,
    MLUOP_STATUS_SUCCESS,
    cnrtFree,
    cnrtMalloc,
    cnrtMemcpy,
    cnrtMemcpyDevToHost,
    cnrtMemcpyHostToDev,
    cnrtSuccess,
    mluOpCreate,
    mluOpCreateTensorDescriptor,
    mluOpDestroy,
    mluOpDestroyTensorDescriptor,
    mluOpSetTensorDescriptor,
    mluOpSetTensorDescriptorEx,
    mluOpTinShiftForward,
)

DATA_TYPES = {"float16": MLUOP_DTYPE_HALF, "float32": MLUOP_DTYPE_FLOAT, "int32": MLUOP_DTYPE_INT32}


def on_device(device, array):
    status, pointer = cnrtMalloc(device, array.nbytes)
    assert status == cnrtSuccess
    assert cnrtMemcpy(pointer, array, array.nbytes, cnrtMemcpyHostToDev) == cnrtSuccess
    return pointer


def arguments(handle, device, x, shifts):
    """The arguments of tin_shift, with both inputs and an output on the device."""
    call = [handle]
    for array in (x, shifts, x):
        call += [descriptor(array.shape, DATA_TYPES[array.dtype.name]), on_device(device, array)]
    return call


def data(dtype="float32", shape=(2, 5, 6, 7)):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape).astype(dtype)
    x.reshape(-1)[:3] = [np.nan, -0.0, np.inf]
    return x, np.array([[-1, 0, 2], [3, -(2**31), 1]], np.int32)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_host_program(function, dtype):
    device = mlusim.Device("mlu370-x4")
    handle = created(device)
    x, shifts = data(dtype)
    out = np.empty_like(x)
    d_x, d_shifts = on_device(device, x), on_device(device, shifts)
    status, d_out = cnrtMalloc(device, out.nbytes)
    assert status == cnrtSuccess
    x_desc, out_desc = descriptor(x.shape, DATA_TYPES[dtype]), descriptor(out.shape, DATA_TYPES[dtype])
    shifts_desc = descriptor(shifts.shape, MLUOP_DTYPE_INT32)

    assert function(handle, x_desc, d_x, shifts_desc, d_shifts, out_desc, d_out) == MLUOP_STATUS_SUCCESS

    assert cnrtMemcpy(out, d_out, out.nbytes, cnrtMemcpyDevToHost) == cnrtSuccess
    bits = f"u{x.itemsize}"
    np.testing.assert_array_equal(out.view(bits), shifted(x, shifts).view(bits))
    for desc in (x_desc, shifts_desc, out_desc):
        assert mluOpDestroyTensorDescriptor(desc) == MLUOP_STATUS_SUCCESS
    for pointer in (d_x, d_shifts, d_out):
        assert cnrtFree(pointer) == cnrtSuccess
    assert mluOpDestroy(handle) == MLUOP_STATUS_SUCCESS


def test_tensors_may_lie_in_one_allocation():
    device = mlusim.Device("mlu370-x4")
    x, shifts = data()
    _, base = cnrtMalloc(device, 4096)
    d_x, d_shifts, d_out = base, base + 2048, base + 2304 - 64
    assert cnrtMemcpy(d_x, x, x.nbytes, cnrtMemcpyHostToDev) == cnrtSuccess
    assert cnrtMemcpy(d_shifts, shifts, shifts.nbytes, cnrtMemcpyHostToDev) == cnrtSuccess
    arguments = (descriptor(x.shape, MLUOP_DTYPE_FLOAT), d_x, descriptor(shifts.shape, MLUOP_DTYPE_INT32), d_shifts)
    handle = created(device)

    status = mluOpTinShiftForward(handle, *arguments, descriptor(x.shape, MLUOP_DTYPE_FLOAT), d_out)

    assert status == MLUOP_STATUS_SUCCESS
    out = np.empty_like(x)
    assert cnrtMemcpy(out, d_out, out.nbytes, cnrtMemcpyDevToHost) == cnrtSuccess
    np.testing.assert_array_equal(out, shifted(x, shifts))
    expected = mlusim.ops.tin_shift_forward(x, shifts, strategy=handle.strategy)
    assert handle.last_result.metrics.compulsory_bytes == expected.metrics.compulsory_bytes
    assert handle.last_result.bytes_requested == expected.bytes_requested


@pytest.mark.parametrize("strategy", ["documented", "shipped", "pingpong"])
def test_the_profile_covers_only_the_last_launch(strategy):
    device = mlusim.Device("mlu370-x4")
    handle = created(device, strategy=strategy)
    assert handle.last_result is None
    x, shifts = data()
    call = arguments(handle, device, x, shifts)
    assert mluOpTinShiftForward(*call) == MLUOP_STATUS_SUCCESS
    first = handle.last_result
    assert mluOpTinShiftForward(*call) == MLUOP_STATUS_SUCCESS
    second = handle.last_result
    alone = mlusim.ops.tin_shift_forward(x, shifts, strategy=strategy)

    assert first is not second
    for result in (first, second):
        assert result.plan.strategy == strategy
        assert result.cycles == alone.cycles
        assert result.bus_bytes == alone.bus_bytes
        assert result.metrics.where_time_went == alone.metrics.where_time_went
        assert result.metrics.operations == alone.metrics.operations
        assert result.io_efficiency == alone.io_efficiency
        assert result.metrics.peak_nram_bytes == alone.metrics.peak_nram_bytes
    gap_ps = second.log.launches[0].start_ps - first.log.launches[0].end_ps
    assert gap_ps == device.board.queued_kernel_gap_ps


def test_tensors_of_a_program_are_inputs_and_outputs_by_what_kernels_write():
    x, shifts = data()
    device = mlusim.Device("mlu370-x4")
    handle = created(device)
    call = arguments(handle, device, x, shifts)
    assert mluOpTinShiftForward(*call) == MLUOP_STATUS_SUCCESS
    assert list(device.log.roles().values()) == ["input", "input", "output"]
    assert device.result().metrics.theory_io_bytes == 2 * x.nbytes + shifts.nbytes


@pytest.mark.parametrize("shape", [(2, 5, 6, 7), (2, 16, 96, 784)])
def test_a_timing_only_device_runs_a_host_program(shape):
    x, shifts = data(shape=shape)
    times = {}
    for has_data in (True, False):
        device = mlusim.Device("mlu370-x4", data=has_data)
        handle = created(device)
        call = arguments(handle, device, x, shifts)
        assert mluOpTinShiftForward(*call) == MLUOP_STATUS_SUCCESS
        times[has_data] = handle.last_result.time_ps
    assert times[True] == times[False] > 0
    status = cnrtMemcpy(x.copy(), call[-1], x.nbytes, cnrtMemcpyDevToHost)
    assert status == mluop.cnrtErrorNotSupport


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_empty_tensors_are_strided_by_their_strides(function, caplog):
    """As in mlu-ops, which compares strides before it looks for T = 0."""
    handle = created(mlusim.Device("mlu370-x4"))
    shifts = descriptor((2, 3), MLUOP_DTYPE_INT32)
    for strides in (None, (0, 42, 7, 1), (42, 42, 7, 1)):
        empty = descriptor((2, 0, 6, 7), MLUOP_DTYPE_FLOAT, strides)
        assert function(handle, empty, None, shifts, None, empty, None) == MLUOP_STATUS_SUCCESS
    strided = descriptor((2, 0, 6, 7), MLUOP_DTYPE_FLOAT, (99, 50, 8, 2))
    assert function(handle, strided, None, shifts, None, strided, None) == UNSUPPORTED
    assert "has strides [99, 50, 8, 2] for [2, 0, 6, 7]: tin_shift takes contiguous tensors only" in caplog.text


def test_handle_faults(caplog, device):
    assert mluOpCreate(None) == (BAD, None)
    assert mluOpCreate("mlu370-x4") == (BAD, None)
    assert "device is of type str, not a mlusim.Device: mluOpCreate(Device('mlu370-x4'))" in caplog.text
    assert mluOpCreate(device, strategy="fast") == (BAD, None)
    assert "strategy = 'fast': it must be one of auto, documented, shipped" in caplog.text
    assert mluOpCreate(device, strategy=np.array(["auto", "tight"])) == (BAD, None)
    closed = mlusim.Device("mlu370-x4")
    closed.close()
    assert mluOpCreate(closed) == (BAD, None)
    assert caplog.messages[-1].endswith("this device is closed: make a new one")
    assert mluOpDestroy(None) == BAD
    handle = created(device)
    assert mluOpDestroy(handle) == MLUOP_STATUS_SUCCESS
    assert mluOpDestroy(handle) == BAD
    assert "[mluOpDestroy] MLUOP_STATUS_BAD_PARAM: handle was destroyed" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, 0, []), "dimNb = 0: a tensor has at least 1 dimension"),
        ((MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, "2", [1, 2]), "dimNb = '2': it must be an integer, the number of dim"),
        ((MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, 2, None), "dimSize is NULL"),
        ((MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, 2**70, [1]), "dimSize has 1 numbers and dimNb is 11805916"),
        ((MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, 3, [1, 2]), "dimSize has 2 numbers and dimNb is 3: give one for each"),
        ((MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, 2, [1, -1]), "dimSize = [1, -1]: each is 0 to 2^31 - 1"),
        ((MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, 1, [2**31]), "dimSize = [2147483648]: each is 0 to 2^31 - 1"),
        ((MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, 1, [1.5]), "dimSize = [1.5]: it must be a sequence of integers"),
        ((11, MLUOP_DTYPE_HALF, 1, [1]), "layout = 11 is not a mluOpTensorLayout_t"),
        ((MLUOP_LAYOUT_ARRAY, 10, 1, [1]), "dtype = 10 is not a mluOpDataType_t"),
    ],
)
def test_descriptor_faults(caplog, arguments, reason):
    _, desc = mluOpCreateTensorDescriptor()
    assert mluOpSetTensorDescriptor(desc, *arguments) == BAD
    assert f"[mluOpSetTensorDescriptor] MLUOP_STATUS_BAD_PARAM: {reason}" in caplog.text
    assert desc.dims == ()


def test_integers_of_numpy_are_arguments(device):
    _, desc = mluOpCreateTensorDescriptor()
    layout, dtype, count = np.array([MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, 2])
    assert mluOpSetTensorDescriptor(desc, layout, dtype, count, np.array([2, 3])) == MLUOP_STATUS_SUCCESS
    assert (desc.dtype, desc.dims) == (MLUOP_DTYPE_HALF, (2, 3))
    _, pointer = cnrtMalloc(device, np.int64(12))
    assert cnrtMemcpy(pointer, np.zeros(12, np.uint8), np.int32(12), np.int32(cnrtMemcpyHostToDev)) == cnrtSuccess


def test_only_the_extents_that_dim_nb_counts_are_read():
    _, desc = mluOpCreateTensorDescriptor()
    assert mluOpSetTensorDescriptor(desc, MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, 2, [2, 3, None]) == MLUOP_STATUS_SUCCESS
    assert desc.dims == (2, 3)


def test_strided_descriptor_faults(caplog):
    _, desc = mluOpCreateTensorDescriptor()
    arguments = (MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_HALF, 2, [2, 3])
    assert mluOpSetTensorDescriptorEx(desc, *arguments, None) == BAD
    assert mluOpSetTensorDescriptorEx(None, *arguments, [3, 1]) == BAD
    assert caplog.messages == [
        "[mluOpSetTensorDescriptorEx] MLUOP_STATUS_BAD_PARAM: dimStride is NULL",
        "[mluOpSetTensorDescriptorEx] MLUOP_STATUS_BAD_PARAM: desc is NULL",
    ]
    assert mluOpDestroyTensorDescriptor(None) == BAD
    assert mluOpDestroyTensorDescriptor(desc) == MLUOP_STATUS_SUCCESS
    assert mluOpDestroyTensorDescriptor(desc) == BAD
    assert "desc was destroyed" in caplog.messages[-1]


def test_large_tensors_are_described_with_a_warning(caplog):
    desc = descriptor([2**16, 2**15], MLUOP_DTYPE_HALF)
    assert desc.element_num == 2**31
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "has 2 147 483 648 elements: operators take fewer than 2^31" in record.getMessage()


def test_enumeration_members_are_module_constants():
    kinds = (mluop.mluOpStatus_t, mluop.mluOpDataType_t, mluop.mluOpTensorLayout_t, mluop.cnrtRet_t)
    for kind in (*kinds, mluop.cnrtMemTransDir_t):
        for member in kind:
            assert getattr(mluop, member.name) is member
            assert member.name in mluop.__all__


def test_numbers():
    assert (MLUOP_STATUS_SUCCESS, BAD, MLUOP_STATUS_EXECUTION_FAILED, UNSUPPORTED) == (0, 3, 6, 7)
    assert (MLUOP_DTYPE_HALF, MLUOP_DTYPE_FLOAT, MLUOP_DTYPE_INT32, MLUOP_LAYOUT_ARRAY) == (1, 2, 6, 4)
    assert (mluop.MLUOP_DTYPE_UINT32, mluop.MLUOP_DTYPE_BFLOAT16, mluop.cnrtErrorNoMem) == (11, 17, 100100)
    assert (cnrtMemcpyHostToDev, mluop.cnrtMemcpyDevToDev, cnrtMemcpyDevToHost) == (0, 1, 2)
