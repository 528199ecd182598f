"""Matrix products and convolutions, compared with NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from instruction_oracle import c_signature, run, values
from mlusim.cores.instructions.c_signatures import c_signatures_of
from mlusim.dtypes import dtype_of


@pytest.mark.parametrize(("kind", "target"), [("float32", "float32"), ("float16", "float32"), ("int8", "int32")])
def test_matmul_accepts_filters_from_reshape_filter(kind: str, target: str) -> None:
    m, n, k = 5, 128, 12
    a, filters = values(m * k, kind).reshape(m, k), values(n * k, kind).reshape(n, k)
    weights = run("reshape_filter", np.empty(n * k, filters.dtype), filters.reshape(n, 1, 1, k))
    got = run("matmul", np.empty((m, n), dtype_of(target)), a, weights)
    for i, j in itertools.product(range(m), range(n)):
        assert float(got[i, j]) == sum(float(x) * float(y) for x, y in zip(a[i], filters[j], strict=True))
    bias = values(n, "float32")
    got = run("mlp", np.empty(n, np.float32), a[0], weights, bias)
    for j in range(n):
        assert got[j] == sum(float(x) * float(y) for x, y in zip(a[0], filters[j], strict=True)) + bias[j]


def test_integer_products_saturate_and_scale() -> None:
    a, weights = np.full((1, 64), 100, np.int8), np.full((64, 64), 100, np.int8)
    assert run("matmul", np.empty((1, 64), np.int16), a, weights)[0, 0] == 32767
    assert run("matmul", np.empty((1, 64), np.float32), a, weights, fix_position=-3)[0, 0] == 640000 / 8


def test_int32_is_multiplied_by_int16() -> None:
    a, filters = values(48, "int32") * 2**20 + 12345, values(64 * 48, "int16").reshape(64, 1, 1, 48)
    weights = run("reshape_filter", np.empty(filters.size, np.int16), filters)
    bias = values(64, "float32")
    expected = filters.reshape(64, 48).astype(object) @ a.astype(object)
    got = run("mlp", np.empty(64, np.float32), a, weights, bias, fix_position=-3)
    assert got.tolist() == (expected.astype(np.float64) / 8 + bias).astype(np.float32).tolist()
    sizes = {"channel_input": 48, "kernel_height": 1, "kernel_width": 1}
    got = run("conv", np.empty((1, 1, 64), np.float32), a.reshape(1, 1, 48), weights, **sizes)
    assert got.reshape(-1).tolist() == expected.astype(np.float32).tolist()


@pytest.mark.parametrize("dilation", [1, 2])
def test_conv(dilation: int) -> None:
    high, wide, inputs, outputs = 6, 7, 3, 64
    a = values(high * wide * inputs, "float32").reshape(high, wide, inputs)
    filters = values(outputs * 2 * 3 * inputs, "float32").reshape(outputs, 2, 3, inputs)
    kernel = run("reshape_filter", np.empty(filters.size, np.float32), filters)
    reach_y, reach_x = dilation + 1, 2 * dilation + 1
    rows, columns = (high - reach_y) // 2 + 1, (wide - reach_x) // 1 + 1
    got = run(
        "conv",
        np.empty((rows, columns, outputs), np.float32),
        a,
        kernel,
        channel_input=inputs,
        kernel_height=2,
        kernel_width=3,
        stride_width=1,
        stride_height=2,
        dilation_width=dilation,
        dilation_height=dilation,
    )
    for i, j, o in np.ndindex(*got.shape):
        expected = sum(
            float(a[2 * i + y * dilation, j + x * dilation, c]) * float(filters[o, y, x, c])
            for y, x, c in np.ndindex(2, 3, inputs)
        )
        assert got[i, j, o] == expected


@pytest.mark.parametrize(("name", "shape"), [("conv_bias", (64,)), ("conv_partial", (2, 3, 64))])
def test_a_convolution_may_add_to_its_destination(name: str, shape: tuple[int, ...]) -> None:
    a, filters = values(4 * 4 * 2, "float32").reshape(4, 4, 2), values(64 * 2 * 2 * 2, "float32").reshape(64, 2, 2, 2)
    kernel = run("reshape_filter", np.empty(filters.size, np.float32), filters)
    given = {"channel_input": 2, "kernel_height": 2, "kernel_width": 2, "stride_height": 2}
    plain = run("conv", np.empty((2, 3, 64), np.float32), a, kernel, **given)
    addend = values(math.prod(shape), "float32").reshape(shape)
    got = run(name, np.empty((2, 3, 64), np.float32), a, kernel, addend, **given)
    assert got.tolist() == (plain + addend).tolist()


def test_argument_lists_of_products_and_convolutions() -> None:
    """The height of mlp's weights is that of its result; the fourth pointer of conv is the bias."""
    numbers = [128, 12, 3]
    shapes, attributes = c_signature("__bang_mlp", 7).bind(
        [0, 0, 0, 0, *numbers], dict.fromkeys(("dst", "src", "bias"), 4)
    )
    assert (shapes["dst"], shapes["src"], shapes["bias"]) == ((128,), (12,), (128,))
    assert attributes["fix_position"] == 3
    lists = [(signature.instruction.name, len(signature.arguments)) for signature in c_signatures_of("__bang_conv")]
    assert lists == [("conv", n) for n in (11, 12, 14, 15, 16)] + [("conv_bias", n) for n in (12, 13, 15, 16, 17)]
    dilated = c_signatures_of("__bang_conv")[2]
    shapes, _ = dilated.bind([0, 0, 0, 8, 9, 10, 3, 2, 1, 2, 64, 0, 3, 2], {"dst": 4, "src": 4, "kernel": 4})
    assert shapes["dst"] == ((9 - 5) // 2 + 1, (10 - 4) // 1 + 1, 64)
