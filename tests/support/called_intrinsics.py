"""Calls of intrinsics as C++ text, run one after another in a compiled kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mlusim import Device, bangc

Array = np.ndarray[Any, Any]
TYPES: dict[str, Any] = {
    "float": np.dtype(np.float32),
    "half": np.dtype(np.float16),
    "bfloat16_t": np.dtype(ml_dtypes.bfloat16),
    "int": np.dtype(np.int32),
    "short": np.dtype(np.int16),
    "int8_t": np.dtype(np.int8),
    "uint8_t": np.dtype(np.uint8),
    "uint16_t": np.dtype(np.uint16),
    "uint32_t": np.dtype(np.uint32),
}
FLOATS = ("float", "half", "bfloat16_t")
BYTES = 2048  # of each operand
POISON = 0x5A
_KERNEL = """\
#include <bang.h>
template <typename T> __mlu_entry__ void calls(const char *inputs, char *rows, int n, int m, int offset, float s) {{
  if (__is_mpu() || taskId) return;
  __nram__ char at_a[{room}], at_b[{room}], at_out[{room}];
  T *a = reinterpret_cast<T *>(at_a) + offset, *b = reinterpret_cast<T *>(at_b) + offset;
  T *out = reinterpret_cast<T *>(at_out) + offset;
  int row = 0;
{calls}}}
"""
_CALL = """\
  __memcpy(a, inputs, {bytes}, GDRAM2NRAM);
  __memcpy(b, inputs + {bytes}, {bytes}, GDRAM2NRAM);
  __memset_nram(at_out, {room}, char({poison}));
  {call};
  __memcpy(rows + row++ * {bytes}, {result}, {bytes}, NRAM2GDRAM);
"""


def compiled(calls: Sequence[str], folder: Path, board: str) -> bangc.Module:
    """Compile a kernel that makes the calls."""
    names = {"bytes": BYTES, "room": 2 * BYTES, "poison": POISON}
    text = "".join(_CALL.format(**names, call=call, result=_result(call)) for call in calls)
    file = folder / "calls.mlu"
    file.write_text(_KERNEL.format(**names, calls=text))
    return bangc.compile(file, board)


def _result(call: str) -> str:
    """Return the operand that a call writes: its first argument, or `out` where the call stands in a statement."""
    return call.partition("(")[2].partition(",")[0].rpartition(")")[2] if call.startswith("__bang_") else "out"


def results(module: bangc.Module, type_name: str, inputs: Sequence[Array], rows: int, **numbers: Any) -> list[Array]:
    """Run the calls on `inputs` a and b; returns the bytes of each result as elements of the type."""
    numbers = {"n": inputs[0].size, "m": inputs[1].size, "offset": 0, "s": 0.0, **numbers}
    both = np.zeros((2, BYTES), np.uint8)
    for row, values in zip(both, inputs, strict=True):
        row[: values.nbytes] = values.view(np.uint8)
    device = Device(module.board.name)
    out = device.alloc((rows, BYTES), "uint8")
    device.launch(module[f"calls<{type_name}>"], device.upload(both), out, *numbers.values(), dim=1, kind="BLOCK")
    device.synchronize()
    return list(device.download(out).view(TYPES[type_name]))


def values(type_name: str, count: int, seed: int) -> Array:
    """Random numbers of a type among its special ones: zeros, NaN, infinities, subnormals, extremes."""
    rng = np.random.default_rng(seed)
    kind = TYPES[type_name]
    if type_name in FLOATS:
        limits = ml_dtypes.finfo(kind)
        large, tiny, smallest = (float(limits.max), float(limits.tiny), float(limits.smallest_subnormal))
        special = [0.0, -0.0, np.nan, np.inf, -np.inf, large, -large, tiny, smallest, -smallest, 1, -1, 0.5, 1.5, -2.5]
        ordinary = rng.standard_normal(count) * 10
    else:
        bounds = np.iinfo(kind)
        special = [bounds.min, bounds.max, bounds.min + 1, bounds.max - 1, 0, 1]
        ordinary = rng.integers(max(bounds.min, -100), min(bounds.max, 100), count, endpoint=True)
    return np.where(rng.random(count) < 0.4, rng.choice(special, count), ordinary).astype(kind)


def assert_equal(actual: Array, expected: Array, call: str, inputs: Mapping[str, Array], tolerance: float = 0) -> None:
    """Compare every element, NaN with NaN and zeros with their signs; `tolerance` is relative."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        wide, wanted = actual.astype(np.float64), expected.astype(np.float64)
    same = (wide == wanted) & ((np.signbit(wide) == np.signbit(wanted)) | (tolerance > 0))
    same |= np.isnan(wide) & np.isnan(wanted)
    with np.errstate(invalid="ignore"):
        same |= np.abs(wide - wanted) <= tolerance * np.abs(wanted)
    wrong = np.flatnonzero(~same)
    operands = {name: operand[wrong[:3]].tolist() for name, operand in inputs.items()} if wrong.size else {}
    assert not wrong.size, f"{call}: {wide[wrong[:3]]} instead of {wanted[wrong[:3]]} for {operands}"
