"""Assembly statements in kernels: fused steps, a division, a gather, a sequence, the position of a bit.

A statement names its operands; their values are passed in the order in which the statement first names them.

    fuse.nram.f32 [%[dst]], %[n], [%[a]], .mul(%[x]), .sub([%[b]]);      dst = a * x - b, rounded once
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array
from mlusim.bangc.calls.device_calls import gather
from mlusim.bangc.calls.type_codes import BFLOAT, FLOAT, POINTER, SIGNED, UNSIGNED, dtype_of_code, type_code
from mlusim.cores.compute import uncached_vector, vector
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.errors import KernelError
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.bangc.execution.compiled_task import CompiledTask


# Element types of statements, as the codes of the headers.
_CODES = {
    **{f"s{8 * size}": POINTER | type_code(SIGNED, size) for size in (1, 2, 4, 8)},
    **{f"u{8 * size}": POINTER | type_code(UNSIGNED, size) for size in (1, 2, 4, 8)},
    **{f"f{8 * size}": POINTER | type_code(FLOAT, size) for size in (2, 4)},
    "bf16": POINTER | type_code(BFLOAT, 2),
}
# Bytes of a vector register, as in the headers.
_REGISTER_BYTES = 256
_NAME = re.compile(r"%\[(\w+)\]")
_FUSE = re.compile(r"fuse\.nram\.(\w+)\s+\[%\[(\w+)\]\],\s*%\[(\w+)\],\s*\[%\[(\w+)\]\]((?:,\s*\.\w+\([^)]*\))+);?$")
_STEP = re.compile(r"\.(\w+)\(\s*(\[?)%\[(\w+)\]\]?\s*\)")
_DIVIDE = re.compile(r"div\.scalar\.nram\.(\w+)\s+\[%\[(\w+)\]\],\s*\[%\[(\w+)\]\],\s*%\[(\w+)\],\s*%\[(\w+)\];?$")
_INDEX = re.compile(r"index\.vvr\.(\w+)\s+%\[(\w+)\],\s*%\[(\w+)\],\s*(\d+);?$")
_GATHER = re.compile(
    r"gather\.vector\.nram\.nram\.nram\.u32\s+\[%\[(\w+)\]\],\s*\[%\[(\w+)\]\],\s*\[%\[(\w+)\]\],"
    r"\s*%\[(\w+)\],\s*%\[(\w+)\],\s*%\[(\w+)\];?$"
)
_LAST_BIT = re.compile(r"findlast1\.gpr\.b(32|64)\s+%\[(\w+)\],\s*%\[(\w+)\];?$")

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


def run_statement(task: CompiledTask, line: int, text: str, operands: Sequence[Any]) -> Awaitable[None] | None:
    """Execute a statement; returns what its task has to wait for, if anything.

    Args:
        task: the task of compiled code.
        line: source line in the log.
        text: text of the statement.
        operands: values of its operands: outputs by address, inputs by value.
    """
    words = " ".join(text.split())
    values = dict(zip(dict.fromkeys(_NAME.findall(words)), operands, strict=False))
    for pattern, do in _STATEMENTS:
        match = pattern.match(words)
        if match is not None:
            waits: Awaitable[None] | None = do(task, line, values, *match.groups())
            return waits
    raise KernelError(f"__asm__ {text!r} is not simulated; use the intrinsic that the statement stands for")


def _code(kind: str) -> int:
    code = _CODES.get(kind)
    if code is None:
        raise KernelError(f"assembly on elements of type {kind}: the simulator knows {', '.join(_CODES)}")
    return code


def _fuse(
    task: CompiledTask, line: int, values: dict[str, Any], kind: str, dst: str, count: str, first: str, steps: str
) -> None:
    code, shape = _code(kind), (int(values[count]),)
    result, source = task.view(code, values[dst], shape), task.view(code, values[first], shape)
    chain: list[tuple[Callable[..., Any], Any]] = []
    for name, is_vector, operand in _STEP.findall(steps):
        if name not in _OPERATIONS:
            raise KernelError(f"fuse.nram with .{name}: the simulator knows {', '.join(_OPERATIONS)}")
        value = task.view(code, values[operand], shape) if is_vector else values[operand]
        chain.append((_OPERATIONS[name], value))
    views = (result, source, *(value for _, value in chain if isinstance(value, View)))
    uncached_vector.issue_counted(task.issuer, line, "fuse", views, partial(_chain, result, source, chain), 1)


def _chain(result: View, source: View, chain: list[tuple[Callable[..., Any], Any]]) -> None:
    """Compute all steps in the next wider float, or in the integers' own type; comparisons give 1 or 0."""
    dtype = result.dtype
    wide = dtype if dtype.kind in "iu" else np.dtype(np.float64 if dtype.itemsize > 2 else np.float32)
    values: Array = source.typed().astype(wide)
    with np.errstate(all="ignore"):
        for operation, operand in chain:
            other = operand.typed() if isinstance(operand, View) else np.asarray(operand)
            values = operation(values, other.astype(dtype).astype(wide)).astype(wide)
        np.copyto(result.typed(), values, casting="unsafe")


def _divide(
    task: CompiledTask, line: int, values: dict[str, Any], kind: str, dst: str, src: str, divisor: str, count: str
) -> None:
    code, shape = _code(kind), (int(values[count]),)
    operands = (task.view(code, values[dst], shape), task.view(code, values[src], shape), values[divisor])
    vector.issue(task.issuer, line, INSTRUCTIONS["div"], operands, {})


def _gather(task: CompiledTask, line: int, values: dict[str, Any], *names: str) -> Awaitable[None]:
    """Gather segments at byte offsets. ASSUMED: later instructions wait for it, as for `__gather`."""
    code = _code("u32")
    dst, src, offsets, size, count, stride = (int(values[name]) for name in names)
    return gather(task, line, [code, code, code, 0], (dst, src, offsets, size, stride, count))


def _last_bit(task: CompiledTask, line: int, values: dict[str, Any], bits: str, dst: str, src: str) -> None:
    """Set a variable to the position of the most significant bit that is 1."""
    del task, line
    value = int(values[src]) & ((1 << int(bits)) - 1)
    if not value:
        raise KernelError(f"findlast1.gpr.b{bits} of 0: no public document defines the result; test for 0 before it")
    ctypes.c_uint32.from_address(int(values[dst])).value = value.bit_length() - 1


def _index(task: CompiledTask, line: int, values: dict[str, Any], kind: str, dst: str, base: str, step: str) -> None:
    """Set a vector register, stored in C++ memory, to base, base + step, ..."""
    del line, task
    if kind not in {"f32", "s32", "u32"}:
        raise KernelError(f"index.vvr of type {kind}: the simulator knows f32, s32 and u32")
    register = memoryview((ctypes.c_char * _REGISTER_BYTES).from_address(int(values[dst]))).cast("B")
    lanes = np.frombuffer(register, dtype_of_code(_code(kind)))
    lanes[...] = values[base] + np.arange(lanes.size) * int(step)


_STATEMENTS: tuple[tuple[re.Pattern[str], Callable[..., Any]], ...] = (
    (_FUSE, _fuse),
    (_DIVIDE, _divide),
    (_INDEX, _index),
    (_GATHER, _gather),
    (_LAST_BIT, _last_bit),
)
