"""Each measurement as a run on the simulated board: its kernel, tensors and launch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlusim.hardware import Board, board
from mlusim.host.device import Device
from mlusim.memory.view import View
from mlusim.units import KIB, PS_PER_US
from mlusim.validation import kernels, matmul_kernels
from mlusim.validation.measurements import Measurement

_UNION1 = (4, 12, 1)
_STREAM_NRAM_BYTES = 240 * KIB
_HARD_SIGMOID_CHUNK = 43_520
_VECTOR_ADD_CHUNK = 40_960
_CONCAT_BLOCKS = 16
_TRANSPOSE_TILE = (256, 192)  # 96 KiB of halves, which divides 2048 x 10944

# Instructions per inner iteration besides its two loads.
_GDRAM_ORDINARY, _NRAM_ORDINARY = 13, 17
_COURSE_ORDINARY = 6
_MATMUL_ROWS, _MATMUL_TASKS = 128, 128

_SEQUENCES = (20, 25, 18, 20)
_VOCABULARY = 30_522  # a row of 122088 B


def recreate(row: Measurement, target: Board | None = None) -> Device:
    """Run a measurement's kernel, timing only; return the device with its log.

    Args:
        row: the measurement.
        target: a board to use instead of the row's own, for fits and sensitivities.
    """
    simulated = target or board(row.board)
    if row.name.startswith("hardsigmoid"):
        # bangpy reserves no NRAM: three chunks of 43520 floats use all of its 512 KiB except 2 KiB.
        simulated = simulated.replace(nram_reserved_bytes=0)
    kind = "scalar" if "scalar" in row.name else row.name.partition("-")[0]
    # Only scalar loads need data: they read values.
    device = Device(simulated, data=kind == "scalar")
    _LAUNCHES[kind](row, device)
    device.synchronize()
    return device


def simulated_us(row: Measurement, device: Device) -> float:
    """Return the simulated time to compare with `row.time_us`: the launch plus the measurement's host time."""
    launch = device.log.launches[0]
    return (launch.end_ps - launch.start_ps) / PS_PER_US + row.overhead_us


def _tensor(device: Device, shape: int | tuple[int, ...], dtype: Any, name: str = "input") -> View:
    return device.upload(np.broadcast_to(np.zeros((), dtype), shape), name)


def _elements(row: Measurement) -> int:
    return math.prod(map(int, row.shape.split("x")))


def _tasks(row: Measurement) -> int:
    return int(row.launch.split()[1])


def _copy(row: Measurement, device: Device) -> None:
    count = _elements(row)
    x, out = _tensor(device, count, row.dtype), device.alloc(count, row.dtype)
    device.launch(kernels.copy, [out], x, dim=_UNION1, kind="UNION1")


def _concat(row: Measurement, device: Device) -> None:
    count = row.bytes_read // np.dtype(row.dtype).itemsize // _CONCAT_BLOCKS
    blocks = [_tensor(device, count, row.dtype, f"input {index}") for index in range(_CONCAT_BLOCKS)]
    out = device.alloc((_CONCAT_BLOCKS, count), row.dtype)
    device.launch(kernels.copy, list(out), *blocks, dim=_UNION1, kind="BLOCK")


def _elementwise(
    kernel: Any, inputs: str, row: Measurement, device: Device, *parameters: int, dim: Any = None, kind: str = "BLOCK"
) -> None:
    """Launch a kernel on inputs of these names, each a letter, and an output of their size."""
    count = _elements(row)
    tensors = [_tensor(device, count, row.dtype, name) for name in inputs]
    out = device.alloc(count, row.dtype)
    device.launch(kernel, *tensors, out, *parameters, dim=dim or _tasks(row), kind=kind)


def _expand(row: Measurement, device: Device) -> None:
    out = device.alloc(_elements(row), row.dtype)
    device.launch(kernels.expand, _tensor(device, 1, row.dtype), out, dim=_tasks(row), kind="BLOCK")


def _fill_one(row: Measurement, device: Device) -> None:
    device.launch(kernels.fill_one, device.alloc(1, row.dtype), dim=(4, 1, 1), kind="UNION1")


def _transpose(row: Measurement, device: Device) -> None:
    height, width = map(int, row.shape.split("x"))
    x, out = _tensor(device, (height, width), row.dtype), device.alloc((width, height), row.dtype)
    device.launch(kernels.transpose, x, out, *_TRANSPOSE_TILE, dim=_UNION1, kind="UNION1")


def _stream(row: Measurement, device: Device) -> None:
    count = _elements(row)
    inputs = [_tensor(device, count, row.dtype, name) for name in ("a", "b")[: row.bytes_read // row.bytes_written]]
    device.launch(kernels.stream, device.alloc(count, row.dtype), _STREAM_NRAM_BYTES, *inputs, kind="UNION1")


def _scalar(row: Measurement, device: Device) -> None:
    rows, inner, columns = _matrices(row)
    a = device.upload(np.zeros((rows, inner), row.dtype), "a")
    b = device.upload(np.zeros((inner, columns), row.dtype), "b")
    out = device.alloc((rows, columns), row.dtype)
    kernel, ordinary = matmul_kernels.scalar_matmul, _GDRAM_ORDINARY
    if "nram" in row.name:
        kernel, ordinary = matmul_kernels.scalar_matmul_nram, _NRAM_ORDINARY
    if not row.name.startswith("scalar"):
        ordinary = _COURSE_ORDINARY
    device.launch(kernel, a, b, out, ordinary, dim=1, kind="BLOCK")


def _matrices(row: Measurement) -> tuple[int, int, int]:
    """Return rows, inner extent and columns of a matmul; for the course's shapes, derived from the bytes written."""
    if "=" not in row.shape:
        rows, inner, columns = map(int, row.shape.split("x"))
        return rows, inner, columns
    m, n, k = (int(part.partition("=")[2]) for part in row.shape.split())
    itemsize = np.dtype(row.dtype).itemsize
    return (m, n, k) if row.bytes_written in {0, m * k * itemsize} else (m, k, n)


def _matmul(row: Measurement, device: Device) -> None:
    rows, inner, columns = _matrices(row)
    a = _tensor(device, (rows, inner), row.dtype, "a")
    b = _tensor(device, (columns, inner), row.dtype, "b")
    out = device.alloc((rows, columns), row.dtype)
    kernel, parameters, tasks, kind = _MATMULS[row.name.split("-")[1]]
    device.launch(kernel, a, b, out, *parameters, dim=tasks, kind=kind)


_MATMULS: dict[str, tuple[Any, tuple[int, ...], int, str]] = {
    "1core": (matmul_kernels.matmul_one, (), 1, "BLOCK"),
    "blocks": (matmul_kernels.matmul_blocks, (_MATMUL_ROWS,), _MATMUL_TASKS, "BLOCK"),
    "pipe3": (matmul_kernels.matmul_pipelined, (_MATMUL_ROWS,), _MATMUL_TASKS, "BLOCK"),
    "sram": (matmul_kernels.matmul_staged, (_MATMUL_ROWS,), _MATMUL_TASKS, "UNION1"),
}


def _rows(row: Measurement, device: Device) -> None:
    programs = _tasks(row)
    width = (4096 if "4KB" in row.name else 8192) // np.dtype(row.dtype).itemsize
    x = _tensor(device, (sum(_SEQUENCES), _VOCABULARY), row.dtype)
    lengths = device.upload(np.array(_SEQUENCES, np.int32), "sequence lengths", keep_data=True)
    out = device.alloc((len(_SEQUENCES), _VOCABULARY), row.dtype)
    device.launch(kernels.row_loads, x, lengths, out, width, dim=programs, kind="BLOCK")


_LAUNCHES: dict[str, Callable[[Measurement, Device], None]] = {
    "copy": _copy,
    "expand": _expand,
    "fill": _fill_one,
    "add": lambda row, device: _elementwise(kernels.add, "ab", row, device, dim=_UNION1, kind="UNION1"),
    "concat": _concat,
    "transpose": _transpose,
    "stream": _stream,
    "vadd": lambda row, device: _elementwise(kernels.vector_add, "ab", row, device, _VECTOR_ADD_CHUNK),
    "hardsigmoid": lambda row, device: _elementwise(kernels.hard_sigmoid, "x", row, device, _HARD_SIGMOID_CHUNK),
    "scalar": _scalar,
    "rows": _rows,
    "matmul": _matmul,
    "log1p": lambda row, device: _elementwise(kernels.log1p, "x", row, device),
}
