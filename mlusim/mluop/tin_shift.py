"""mluOpTinShiftForward and mluOpTinShiftBackward: the checks of mlu-ops in its order, then the kernel.

The order is that of mlu-ops' own host code (docs/hardware.md). Further checks, which C cannot make, follow: that a
pointer is device memory of the handle's board, not freed and large enough, and that the output does not overlap inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from mlusim.errors import MlusimError
from mlusim.mluop.cnrt import DevicePointer, device_fault
from mlusim.mluop.descriptor import LARGE_TENSOR_NUM, descriptor_fault, mluOpTensorDescriptor
from mlusim.mluop.handle import handle_fault, mluOpHandle
from mlusim.mluop.refusals import first_refusal, refuse
from mlusim.mluop.types import ELEMENT_TYPES, mluOpDataType_t, mluOpStatus_t
from mlusim.ops.on_device import apply_on_device
from mlusim.ops.operator import Operator
from mlusim.ops.tin_shift import BACKWARD, FORWARD
from mlusim.units import group_digits

_SUCCESS, _BAD_PARAM = mluOpStatus_t.MLUOP_STATUS_SUCCESS, mluOpStatus_t.MLUOP_STATUS_BAD_PARAM
_NOT_SUPPORTED = mluOpStatus_t.MLUOP_STATUS_NOT_SUPPORTED
_EXECUTION_FAILED = mluOpStatus_t.MLUOP_STATUS_EXECUTION_FAILED
_INPUT_TYPES = (mluOpDataType_t.MLUOP_DTYPE_HALF, mluOpDataType_t.MLUOP_DTYPE_FLOAT)
_INPUT_RANK, _SHIFTS_RANK = 4, 2


def mluOpTinShiftForward(
    handle: mluOpHandle | None,
    input_desc: mluOpTensorDescriptor | None,
    input: DevicePointer | None,
    shifts_desc: mluOpTensorDescriptor | None,
    shifts: DevicePointer | None,
    output_desc: mluOpTensorDescriptor | None,
    output: DevicePointer | None,
) -> mluOpStatus_t:
    """output[n, t, c] = input[n, t - k, c] where 0 <= t - k < T, else +0.0, with k = shifts[n, c // (C / G)].

    Args:
        handle: from `mluOpCreate`.
        input_desc, input: [N, T, C, HW], half or float, contiguous.
        shifts_desc, shifts: [N, G], int32, C a multiple of G.
        output_desc, output: like the input, and not overlapping it: in place is not supported.

    The board's function only queues the kernel; this one returns when it is complete, and its profile is
    `handle.last_result`.

    Returns SUCCESS (for T = 0 without a launch and without checking the pointers), BAD_PARAM, NOT_SUPPORTED (strides,
    2^31 elements, in place), or EXECUTION_FAILED if the kernel does not fit on the board or fails.
    """
    tensors = _Tensors(
        _Tensor("input", input_desc, input),
        _Tensor("shifts", shifts_desc, shifts),
        _Tensor("output", output_desc, output),
    )
    return _tin_shift("mluOpTinShiftForward", FORWARD, handle, tensors)


def mluOpTinShiftBackward(
    handle: mluOpHandle | None,
    grad_output_desc: mluOpTensorDescriptor | None,
    grad_output: DevicePointer | None,
    shifts_desc: mluOpTensorDescriptor | None,
    shifts: DevicePointer | None,
    grad_input_desc: mluOpTensorDescriptor | None,
    grad_input: DevicePointer | None,
) -> mluOpStatus_t:
    """The backward operator as mlu-ops ships it: the same shift as forward, NOT the gradient.

    Arguments and statuses as `mluOpTinShiftForward`, with grad_output read and grad_input written. The true gradient is
    `mlusim.ops.tin_shift_backward(..., rule="adjoint")`.
    """
    tensors = _Tensors(
        _Tensor("grad_output", grad_output_desc, grad_output),
        _Tensor("shifts", shifts_desc, shifts),
        _Tensor("grad_input", grad_input_desc, grad_input),
    )
    return _tin_shift("mluOpTinShiftBackward", BACKWARD, handle, tensors)


class _Tensor(NamedTuple):
    """A descriptor and a pointer as passed by the caller, of any type until checked, and the pointer's name."""

    name: str
    desc: Any
    pointer: Any


class _Tensors(NamedTuple):
    source: _Tensor
    shifts: _Tensor
    target: _Tensor


def _tin_shift(function: str, operator: Operator, handle: Any, tensors: _Tensors) -> mluOpStatus_t:
    refusal = first_refusal(function, _descriptor_checks(handle, tensors))
    if refusal is None and tensors.source.desc.dims[1]:
        refusal = first_refusal(function, _pointer_checks(handle, tensors))
        if refusal is None:
            return _run(function, operator, handle, tensors)
    return _SUCCESS if refusal is None else refusal


def _run(function: str, operator: Operator, handle: mluOpHandle, tensors: _Tensors) -> mluOpStatus_t:
    views = [
        (tensor.name, tensor.pointer.view(tensor.desc.dims, ELEMENT_TYPES[tensor.desc.dtype])) for tensor in tensors
    ]
    try:
        handle.last_result, _ = apply_on_device(
            operator, handle.device, views[:2], {}, handle.strategy, views[2][0], output=views[2][1]
        )
    except MlusimError as error:
        return refuse(function, _EXECUTION_FAILED, f"{type(error).__name__}: {error}")
    return _SUCCESS


_Check = tuple[Any, mluOpStatus_t, str]


def _descriptor_checks(handle: Any, tensors: _Tensors) -> Iterator[_Check]:
    """Yield (fails, status, reason) of each check before data is read, in order; each relies on the previous ones."""
    fault = handle_fault(handle)
    yield fault, _BAD_PARAM, fault
    for tensor in tensors:
        fault = descriptor_fault(tensor.desc, f"{tensor.name}_desc")
        yield fault, _BAD_PARAM, fault
    for tensor in tensors:
        yield not tensor.desc.dims, _BAD_PARAM, f"{tensor.name}_desc is not set: call mluOpSetTensorDescriptor first"

    source, shifts, target = (tensor.desc for tensor in tensors)
    name, shifts_name, target_name = (tensor.name for tensor in tensors)
    ranks = len(source.dims), len(shifts.dims), len(target.dims)
    reason = f"{name} has {ranks[0]} dimensions: it must have 4, [N, T, C, HW]"
    yield ranks[0] != _INPUT_RANK, _BAD_PARAM, reason
    reason = f"{shifts_name} has {ranks[1]} dimensions: it must have 2, [N, G]"
    yield ranks[1] != _SHIFTS_RANK, _BAD_PARAM, reason
    reason = f"{name} has {ranks[0]} dimensions and {target_name} {ranks[2]}: they must be equal"
    yield ranks[0] != ranks[2], _BAD_PARAM, reason

    (batch, _, channels, hw), (shifts_batch, groups) = source.dims, shifts.dims
    yield not channels, _BAD_PARAM, f"{name} has C = 0: at least one channel"
    yield not groups, _BAD_PARAM, f"{shifts_name} has G = 0: at least one group"
    reason = f"C = {channels} channels do not divide into G = {groups} groups: C must be a multiple of G"
    yield channels % groups, _BAD_PARAM, reason
    reason = f"{name} has shape {list(source.dims)} and {target_name} {list(target.dims)}: they must be equal"
    yield source.dims != target.dims, _BAD_PARAM, reason
    reason = f"{name} has N = {batch} and {shifts_name} N = {shifts_batch}: one row of shifts for each batch entry"
    yield batch != shifts_batch, _BAD_PARAM, reason
    for tensor in tensors:
        strides = f"strides {list(tensor.desc.strides)} for {list(tensor.desc.dims)}"
        reason = f"{tensor.name}_desc has {strides}: tin_shift takes contiguous tensors only; copy it to one"
        yield tensor.desc.is_strided, _NOT_SUPPORTED, reason

    reason = f"{shifts_name} is {shifts.dtype.name}: it must be MLUOP_DTYPE_INT32"
    yield shifts.dtype != mluOpDataType_t.MLUOP_DTYPE_INT32, _BAD_PARAM, reason
    reason = f"{name} is {source.dtype.name}: it must be MLUOP_DTYPE_HALF or MLUOP_DTYPE_FLOAT"
    yield source.dtype not in _INPUT_TYPES, _BAD_PARAM, reason
    reason = f"{name} is {source.dtype.name} and {target_name} {target.dtype.name}: they must be equal"
    yield source.dtype != target.dtype, _BAD_PARAM, reason
    yield not batch, _BAD_PARAM, f"{name} has N = 0: at least one batch entry"
    yield not hw, _BAD_PARAM, f"{name} has HW = 0: at least one element in a row"
    for tensor in tensors:
        elements = tensor.desc.element_num
        reason = f"{tensor.name} has {group_digits(elements)} elements: fewer than 2^31; split it along N"
        yield elements >= LARGE_TENSOR_NUM, _NOT_SUPPORTED, reason


def _pointer_checks(handle: mluOpHandle, tensors: _Tensors) -> Iterator[_Check]:
    """Yield the checks of the data pointers, in order: NULL first, for all three, then the other checks."""
    for tensor in tensors:
        yield tensor.pointer is None, _BAD_PARAM, f"{tensor.name} is NULL and has elements"
    for tensor in tensors:
        fault = device_fault(tensor.pointer, tensor.name, tensor.desc.nbytes, handle.device)
        yield fault, _BAD_PARAM, fault
        itemsize, offset = ELEMENT_TYPES[tensor.desc.dtype].itemsize, tensor.pointer.offset
        reason = f"{tensor.name} is {offset} B from the start of its allocation: not a multiple of {itemsize} B"
        yield offset % itemsize, _BAD_PARAM, reason
    target = tensors.target
    for tensor in tensors[:2]:
        reason = f"{target.name} overlaps {tensor.name}: in place is not supported; give it memory of its own"
        yield _overlap(tensor, target), _NOT_SUPPORTED, reason


def _overlap(one: _Tensor, other: _Tensor) -> bool:
    first: DevicePointer = one.pointer
    second: DevicePointer = other.pointer
    if first.allocation is not second.allocation:
        return False
    return bool(first.offset < second.offset + other.desc.nbytes and second.offset < first.offset + one.desc.nbytes)
