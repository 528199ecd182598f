"""Instructions that move elements: transposes, pads, tables, fills."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from instruction_oracle import rng, run, values
from mlusim.dtypes import dtype_of


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8", "complex64"])
def test_matrices(kind: str) -> None:
    a = np.arange(24).astype(dtype_of(kind)).reshape(4, 6)
    at = {
        "transpose": ((6, 4), lambda i, j: (j, i)),
        "rotate90": ((6, 4), lambda i, j: (j, 3 - i)),
        "rotate180": ((4, 6), lambda i, j: (3 - i, 5 - j)),
        "rotate270": ((6, 4), lambda i, j: (5 - j, i)),
        "mirror": ((4, 6), lambda i, j: (i, 5 - j)),
    }
    for name, (shape, goes) in at.items():
        got = run(name, np.zeros(shape, a.dtype), a)
        for i, j in itertools.product(range(4), range(6)):
            assert got[goes(i, j)] == a[i, j], name


def test_pad_and_layouts() -> None:
    a = np.arange(1, 25, dtype=np.int16).reshape(2, 3, 4)
    got = run("pad", np.full((5, 6, 4), 9, np.int16), a, pad_top=1, pad_bottom=2, pad_left=3, pad_right=0)
    assert got[1:3, 3:6].tolist() == a.tolist()
    assert got.sum() == a.sum()
    got = run("pad", np.empty((3, 3, 4), np.int16), a, pad_top=0, pad_bottom=1, pad_left=0, pad_right=0, pad_value=-7)
    assert got[:2].tolist() == a.tolist()
    assert set(got[2].reshape(-1).tolist()) == {-7}
    b = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    nchw = run("reshape_nhwc2nchw", np.zeros((2, 5, 3, 4), np.float32), b)
    assert all(nchw[n, c, h, w] == b[n, h, w, c] for n, h, w, c in np.ndindex(*b.shape))
    assert run("reshape_nchw2nhwc", np.zeros_like(b), nchw).tolist() == b.tolist()
    filters = np.arange(128 * 6, dtype=np.int32).reshape(128, 1, 2, 3)
    laid = run("reshape_filter", np.zeros(128 * 6, np.int32), filters).reshape(64, 2, 6)
    assert all(laid[i % 64, i // 64].tolist() == filters[i].reshape(-1).tolist() for i in range(128))


def test_tables_and_fills() -> None:
    table = np.arange(64, dtype=np.float32) * 3
    index = rng.integers(0, 64, 40).astype(np.uint32)
    got = run("lut", np.zeros(40, np.float32), index, table)
    assert got.tolist() == [3 * int(i) for i in index]
    beyond = np.array([64, 5, 2**32 - 1], np.uint32)
    assert run("lut", np.full(3, 7, np.float32), beyond, table).tolist() == [7, 15, 7]
    assert run("write_value", np.zeros(5, np.float16), value=-1.5).tolist() == [-1.5] * 5
    assert math.copysign(1, run("write_value", np.zeros(1, np.float32), value=-0.0)[0]) == -1
    assert run("fill", np.zeros(3, np.int8), value=7).tolist() == [7] * 3
    assert run("write_value", np.zeros(3, np.int8), value=300).tolist() == [44] * 3
    assert run("write_zero", np.full(5, math.nan)).tobytes() == bytes(40)
    assert run("incseq", np.zeros(9, np.float16)).tolist() == list(range(9))


def test_expansion_of_channels() -> None:
    weights, a, b = values(6, "float32"), values(24, "float32"), values(24, "float32")
    scratch = np.zeros(1, np.float32)
    got = run("expand_channel_mul", np.empty(24, np.float32), weights, scratch, a)
    assert got.tolist() == [a[i] * weights[i // 4] for i in range(24)]
    got = run("expand_channel_mul_add", np.empty(24, np.float32), weights, scratch, a, b)
    assert got.tolist() == [a[i] * weights[i // 4] + b[i] for i in range(24)]
