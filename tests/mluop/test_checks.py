"""The checks of tin_shift in their order, each with its status code and message."""

from __future__ import annotations

import logging
import re
from dataclasses import replace

import numpy as np
import pytest

import mlusim
from mluop_programs import BAD, FUNCTIONS, UNSUPPORTED, Call, Tensor, created, descriptor
from mlusim.mluop import (
    MLUOP_DTYPE_BFLOAT16,
    MLUOP_DTYPE_FLOAT,
    MLUOP_DTYPE_HALF,
    MLUOP_DTYPE_INT32,
    MLUOP_STATUS_EXECUTION_FAILED,
    MLUOP_STATUS_SUCCESS,
    cnrtFree,
    cnrtMalloc,
    mluOpCreateTensorDescriptor,
    mluOpDestroy,
    mluOpDestroyTensorDescriptor,
)


def spoil(path, value):
    """A change of one attribute, or one item, of a call: spoil("input.dims.2", 0)."""

    def change(call):
        target = call
        *way, last = path.split(".")
        for name in way:
            target = getattr(target, name)
        if last.isdigit():
            target[int(last)] = value
        else:
            setattr(target, last, value)

    return change


def both(*changes):
    def change(call):
        for each in changes:
            each(call)

    return change


def freed(name):
    def change(call):
        _, pointer = cnrtMalloc(call.handle.device if call.handle else mlusim.Device(), 480)
        cnrtFree(pointer)
        getattr(call, name).pointer = pointer

    return change


def in_place(name):
    def change(call):
        call.output.pointer = getattr(call, name).pointer

    return change


def reads(reason, message):
    """Whether a message continues with `reason`, in which `...` stands for anything."""
    return re.search(re.escape(reason).replace(re.escape("..."), ".*"), message)


CHECKS = [
    (spoil("handle", None), BAD, "handle is NULL"),
    (spoil("input.null_desc", True), BAD, "input_desc is NULL"),
    (spoil("shifts.null_desc", True), BAD, "shifts_desc is NULL"),
    (spoil("output.null_desc", True), BAD, "output_desc is NULL"),
    (spoil("input.dims", [2, 3, 4]), BAD, "input has 3 dimensions: it must have 4, [N, T, C, HW]"),
    (spoil("shifts.dims", [4]), BAD, "shifts has 1 dimensions: it must have 2, [N, G]"),
    (spoil("output.dims", [2, 3, 4, 5, 1]), BAD, "input has 4 dimensions and output 5: they must be equal"),
    (both(spoil("input.dims.2", 0), spoil("output.dims.2", 0)), BAD, "input has C = 0: at least one channel"),
    (spoil("shifts.dims.1", 0), BAD, "shifts has G = 0: at least one group"),
    (spoil("shifts.dims.1", 3), BAD, "C = 4 channels do not divide into G = 3 groups: C must be a multiple of G"),
    (spoil("output.dims.1", 4), BAD, "input has shape [...] and output [..., 4, ...]: they must be equal"),
    (spoil("shifts.dims.0", 3), BAD, "input has N = ... and shifts N = 3: one row of shifts for each batch entry"),
    (spoil("input.strided", True), UNSUPPORTED, "input_desc has strides [..., 2] for [...]: tin_shift takes cont"),
    (spoil("shifts.strided", True), UNSUPPORTED, "shifts_desc has strides [2, 2] for [..., 2]: tin_shift takes"),
    (spoil("output.strided", True), UNSUPPORTED, "output_desc has strides [..., 2] for [...]: tin_shift takes"),
    (spoil("shifts.dtype", MLUOP_DTYPE_FLOAT), BAD, "shifts is MLUOP_DTYPE_FLOAT: it must be MLUOP_DTYPE_INT32"),
    (
        spoil("input.dtype", MLUOP_DTYPE_BFLOAT16),
        BAD,
        "input is MLUOP_DTYPE_BFLOAT16: it must be MLUOP_DTYPE_HALF or MLUOP_DTYPE_FLOAT",
    ),
    (
        spoil("output.dtype", MLUOP_DTYPE_HALF),
        BAD,
        "input is MLUOP_DTYPE_FLOAT and output MLUOP_DTYPE_HALF: they must be equal",
    ),
    (
        both(spoil("input.dims.0", 0), spoil("shifts.dims.0", 0), spoil("output.dims.0", 0)),
        BAD,
        "input has N = 0: at least one batch entry",
    ),
    (both(spoil("input.dims.3", 0), spoil("output.dims.3", 0)), BAD, "input has HW = 0: at least one element in a row"),
    (
        both(spoil("input.dims.3", 2**27), spoil("output.dims.3", 2**27)),
        UNSUPPORTED,
        "input has 3 221 225 472 elements: fewer than 2^31; split it along N",
    ),
    (spoil("input.pointer", None), BAD, "input is NULL and has elements"),
    (spoil("shifts.pointer", None), BAD, "shifts is NULL and has elements"),
    (spoil("output.pointer", None), BAD, "output is NULL and has elements"),
    (freed("input"), BAD, "input points into device memory, which was freed: use it before cnrtFree"),
    (spoil("shifts.pointer", np.zeros((2, 2), np.int32)), BAD, "shifts is of type ndarray, memory of the host, not a"),
    (spoil("output.pointer", 4096), BAD, "output is of type int, not a device pointer: allocate with cnrtMalloc"),
    (in_place("input"), UNSUPPORTED, "output overlaps input: in place is not supported; give it memory of its own"),
    (in_place("shifts"), UNSUPPORTED, "output overlaps shifts: in place is not supported"),
]


def test_a_call_in_order_runs(call):
    assert call.run() == MLUOP_STATUS_SUCCESS


@pytest.mark.parametrize(("change", "status", "reason"), CHECKS, ids=[check[2][:40] for check in CHECKS])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_each_check_has_status_and_reason(call, caplog, function, change, status, reason):
    name, source, target = FUNCTIONS[function]
    change(call)
    assert call.run(function) == status
    (record,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert record.name == "mlusim.mluop"
    reason = re.sub("(?<!_)input", source, re.sub("(?<!_)output", target, reason))
    assert reads(f"[{name}] {status.name}: {reason}", record.getMessage())


@pytest.mark.parametrize("later", range(1, len(CHECKS)), ids=[check[2][:40] for check in CHECKS[1:]])
def test_the_first_failing_check_decides_the_status(device, caplog, later):
    for change, status, reason in CHECKS[:later]:
        call = Call(created(device))
        for tensor in (call.input, call.shifts, call.output):
            _, tensor.pointer = cnrtMalloc(device, 480)
        CHECKS[later][0](call)
        change(call)
        caplog.clear()
        assert call.run() == status
        assert reads(f"{status.name}: {reason}", caplog.messages[-1])


@pytest.mark.parametrize("number", range(len(CHECKS)), ids=[check[2][:40] for check in CHECKS])
def test_an_empty_time_axis_succeeds_before_pointers_are_checked(call, caplog, number):
    change, status, reason = CHECKS[number]
    both(spoil("input.dims.1", 0), spoil("output.dims.1", 0))(call)
    change(call)
    first_pointer_check = next(place for place, check in enumerate(CHECKS) if "NULL and has" in check[2])
    large = "2^31" in reason  # no elements with T = 0
    launches = len(call.handle.device.log.launches) if call.handle else 0
    if number >= first_pointer_check or large:
        assert call.run() == MLUOP_STATUS_SUCCESS
        assert not caplog.records
        assert call.handle.last_result is None
        assert len(call.handle.device.log.launches) == launches
    else:
        assert call.run() == status
        assert reads(reason, caplog.messages[-1])


def test_no_time_and_no_pointers(device):
    call = Call(created(device), *(Tensor([2, 0, 4, 5], MLUOP_DTYPE_HALF), Tensor([2, 2], MLUOP_DTYPE_INT32)))
    call.output = Tensor([2, 0, 4, 5], MLUOP_DTYPE_HALF)
    assert call.run() == MLUOP_STATUS_SUCCESS


def test_large_shifts_of_a_tensor_without_frames(device, caplog):
    call = Call(created(device), Tensor([2, 0, 2**30, 1], MLUOP_DTYPE_FLOAT), Tensor([2, 2**30], MLUOP_DTYPE_INT32))
    call.output = Tensor([2, 0, 2**30, 1], MLUOP_DTYPE_FLOAT)
    assert call.run() == UNSUPPORTED
    assert caplog.messages[-1].endswith("shifts has 2 147 483 648 elements: fewer than 2^31; split it along N")


def test_large_shifts_of_rows_without_elements(device, caplog):
    source, target = (Tensor([2, 3, 2**30, 0], MLUOP_DTYPE_FLOAT) for _ in range(2))
    assert Call(created(device), source, Tensor([2, 2**30], MLUOP_DTYPE_INT32), target).run() == BAD
    assert caplog.messages[-1].endswith("input has HW = 0: at least one element in a row")


@pytest.mark.parametrize(("batch", "status"), [(2**16, UNSUPPORTED), (2**16 - 1, BAD)])
def test_the_limit_is_2_to_the_31_elements(device, batch, status):
    source, target = (Tensor([batch, 2, 2**7, 2**7], MLUOP_DTYPE_HALF) for _ in range(2))
    call = Call(created(device), source, Tensor([batch, 1], MLUOP_DTYPE_INT32), target)
    assert call.run() == status  # BAD_PARAM: one step further, the pointers are NULL


@pytest.mark.parametrize("strides", [(60, 20, 5, 1), [60, 20, 5, 1]])
def test_explicit_contiguous_strides_are_accepted(call, strides):
    call.input.desc = descriptor(call.input.dims, MLUOP_DTYPE_FLOAT, strides)
    assert call.run() == MLUOP_STATUS_SUCCESS


def test_the_stride_of_a_unit_dimension_is_ignored(call):
    call.input = Tensor([2, 3, 4, 1], MLUOP_DTYPE_FLOAT, pointer=call.input.pointer)
    call.input.desc = descriptor([2, 3, 4, 1], MLUOP_DTYPE_FLOAT, [12, 4, 1, 99])
    call.output.dims = [2, 3, 4, 1]
    assert call.run() == MLUOP_STATUS_SUCCESS


def test_pointer_of_another_board(call, caplog):
    _, call.output.pointer = cnrtMalloc(mlusim.Device("mlu590-h8"), 480)
    assert call.run() == BAD
    assert "output is memory of another board (mlu590-h8) than the handle's (mlu370-x4)" in caplog.text


@pytest.mark.parametrize(("offset", "reason"), [(4, "at byte 4 of device memory, which has 480 B"), (-4, "at byte -4")])
def test_tensor_that_leaves_its_allocation(call, caplog, offset, reason):
    call.input.pointer += offset
    assert call.run() == BAD
    assert f"input needs 480 B {reason}" in caplog.text


def test_allocation_too_small_for_the_descriptor(call, caplog):
    call.input.dims[3] = call.output.dims[3] = 6
    assert call.run() == BAD
    assert "input needs 576 B at byte 0 of device memory, which has 480 B: allocate more" in caplog.text


def test_pointer_between_elements(call, device, caplog):
    _, pointer = cnrtMalloc(device, 512)
    call.input.pointer = pointer + 2
    assert call.run() == BAD
    assert "input is 2 B from the start of its allocation: not a multiple of 4 B" in caplog.text


@pytest.mark.parametrize("shift", [-476, 0, 476])
def test_any_overlap_counts_as_in_place(device, caplog, shift):
    call = Call(created(device))
    _, base = cnrtMalloc(device, 2048)
    call.input.pointer, call.output.pointer = base + 960, base + 960 + shift
    _, call.shifts.pointer = cnrtMalloc(device, 16)
    assert call.run() == UNSUPPORTED
    assert "output overlaps input" in caplog.text
    call.output.pointer = base + 960 + (480 if shift >= 0 else -480)
    assert call.run() == MLUOP_STATUS_SUCCESS


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        (lambda call: mluOpDestroy(call.handle), "handle was destroyed: make another with mluOpCreate"),
        (spoil("handle", "handle"), "handle is of type str, not a mluOpHandle: make it with mluOpCreate"),
        (spoil("input.desc", (2, 3)), "input_desc is of type tuple, not a mluOpTensorDescriptor: make it with "),
    ],
)
def test_invalid_handles_and_descriptors(call, caplog, spoiled, reason):
    spoiled(call)
    assert call.run() == BAD
    assert reason in caplog.text


def test_destroyed_and_unset_descriptors(call, caplog):
    call.shifts.desc = descriptor([2, 2], MLUOP_DTYPE_INT32)
    mluOpDestroyTensorDescriptor(call.shifts.desc)
    assert call.run() == BAD
    assert "shifts_desc was destroyed" in caplog.text
    _, call.shifts.desc = mluOpCreateTensorDescriptor()
    assert call.run() == BAD
    assert "shifts_desc is not set: call mluOpSetTensorDescriptor first" in caplog.text


@pytest.mark.parametrize(
    ("options", "nbytes", "reason"),
    [
        ({"max_operations": 1}, 480, "OperationLimitError: .*task"),
        # More than a timing-only device has bytes for.
        ({"data": False}, 2 << 20, "MissingDataError: .*timing-only"),
    ],
)
def test_a_kernel_that_fails_is_execution_failed(caplog, options, nbytes, reason):
    call = Call(created(mlusim.Device("mlu370-x4", **options)))
    for tensor in (call.input, call.shifts, call.output):
        _, tensor.pointer = cnrtMalloc(call.handle.device, nbytes)
    assert call.run() == MLUOP_STATUS_EXECUTION_FAILED
    assert re.search(rf"\[mluOpTinShiftForward\] MLUOP_STATUS_EXECUTION_FAILED: {reason}", caplog.text)
    assert call.handle.last_result is None
    assert call.run() == MLUOP_STATUS_EXECUTION_FAILED
    assert "this device stopped with an error" in caplog.text


def test_a_board_that_holds_no_element_is_execution_failed(caplog):
    board = mlusim.board("mlu370-x4")
    tiny = replace(board, nram_bytes=board.nram_reserved_bytes + 1)
    call = Call(created(mlusim.Device(tiny)))
    for tensor in (call.input, call.shifts, call.output):
        _, tensor.pointer = cnrtMalloc(call.handle.device, 480)
    assert call.run() == MLUOP_STATUS_EXECUTION_FAILED
    assert re.search("PlanError: mlu370-x4 has .* no element of 4 B fits", caplog.text)
