"""Pools, forward and backward, compared with loops over their windows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from instruction_oracle import close, rng, run, values
from mlusim.cores.instructions.c_signatures import c_signatures_of
from mlusim.dtypes import is_float


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(("window", "stride"), [((2, 3), (2, 1)), ((1, 4), (4, 1)), ((3, 3), (3, 3)), ((2, 2), None)])
def test_pools(kind: str, window: tuple[int, int], stride: tuple[int, int] | None) -> None:
    """stride is (width, height), as BANG C has it."""
    high, wide, channels = 6, 8, 5
    a = values(high * wide * channels, kind, low=-4, high=4).reshape(high, wide, channels)
    across, down = stride or window[::-1]
    rows, columns = (high - window[0]) // down + 1, (wide - window[1]) // across + 1
    arguments: dict[str, Any] = {"kernel_height": window[0], "kernel_width": window[1]}
    if stride:
        arguments |= {"stride_width": across, "stride_height": down}

    def pixels(i: int, j: int, c: int) -> list[float]:
        return [
            float(a[i * down + y, j * across + x, c]) for y, x in itertools.product(range(window[0]), range(window[1]))
        ]

    shape = (rows, columns, channels)
    for name, fold in (("sumpool", sum), ("maxpool", max), ("minpool", min)):
        got = run(name, np.zeros(shape, a.dtype), a, **arguments)
        for at in np.ndindex(*shape):
            assert float(got[at]) == float(np.array(fold(pixels(*at))).astype(a.dtype)), name
    for name, fold in (("maxpool", max), ("minpool", min)):
        index = run(f"{name}_index", np.zeros(shape, np.uint32), a, **arguments)
        nbytes = index.size * a.dtype.itemsize
        pair = np.zeros(2 * nbytes, np.uint8)
        run(f"{name}_value_index", pair, a, value_index_stride=nbytes, **arguments)
        places = pair[nbytes:].view(f"u{a.dtype.itemsize}").reshape(shape)
        best = pair[:nbytes].view(a.dtype).reshape(shape)
        for at in np.ndindex(*shape):
            found = pixels(*at)
            assert index[at] == places[at] == found.index(fold(found))
            assert float(best[at]) == fold(found)
    if is_float(a.dtype):
        got = run("avgpool", np.zeros(shape, a.dtype), a, **arguments)
        means = [sum(pixels(*at)) / (window[0] * window[1]) for at in np.ndindex(*shape)]
        close(got.reshape(-1), means, kind)


@pytest.mark.parametrize(("name", "fold", "other"), [("maxpool", np.nanmax, -np.inf), ("minpool", np.nanmin, np.inf)])
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_an_extreme_of_a_window_passes_over_nan(kind: str, name: str, fold: Any, other: float) -> None:
    a = values(2 * 8 * 3, kind, low=-4, high=4).reshape(2, 8, 3)
    a[0, ::2] = np.nan
    a[1, 3] = np.nan
    a[0, :4, 0] = np.nan, other, np.nan, other
    a[:, 4:, 1] = np.nan
    windows = a.astype(float).reshape(2, 2, 4, 3)
    with np.errstate(invalid="ignore"):
        is_empty = np.isnan(windows).all(axis=2)
        expected = np.where(is_empty, np.nan, fold(np.where(is_empty[:, :, None], 0, windows), axis=2))
    window = {"kernel_height": 1, "kernel_width": 4}
    got = run(name, np.zeros((2, 2, 3), a.dtype), a, **window).astype(float)
    assert np.array_equal(got, expected, equal_nan=True)
    places = run(f"{name}_index", np.zeros((2, 2, 3), np.uint32), a, **window).astype(int)
    at_places = np.take_along_axis(windows, places[:, :, None], axis=2)[:, :, 0]
    assert np.array_equal(at_places, expected, equal_nan=True)
    assert places[0, 0, 0] == 1


def test_dilated_pools_with_index() -> None:
    a = values(7 * 8 * 2, "float32").reshape(7, 8, 2)
    arguments = {"kernel_height": 2, "kernel_width": 3, "stride_height": 2, "stride_width": 1, "in_dh": 3, "in_dw": 2}
    rows, columns = (7 - 4) // 2 + 1, 8 - 5 + 1
    nbytes = rows * columns * 2 * 4
    pair = run("maxpool_value_index", np.zeros(2 * nbytes, np.uint8), a, value_index_stride=nbytes, **arguments)
    best = pair[:nbytes].view(np.float32).reshape(rows, columns, 2)
    for i, j, c in np.ndindex(rows, columns, 2):
        assert best[i, j, c] == max(a[2 * i + 3 * y, j + 2 * x, c] for y in range(2) for x in range(3))
    lengths = [len(signature.arguments) for signature in c_signatures_of("__bang_maxpool_value_index")]
    assert lengths == [10, 14]
    shapes, _ = c_signatures_of("__bang_maxpool_value_index")[1].bind(
        [0, 0, 2, 7, 8, 2, 3, 1, 2, nbytes, 3, 2, 1, 1], {"dst": 4, "src": 4}
    )
    assert shapes["dst"] == (2 * rows * columns * 2,)


@pytest.mark.parametrize("overlap", ["ACC", "COVER"])
def test_pools_backward(overlap: str) -> None:
    high, wide, channels, window, across, down = 5, 7, 3, (2, 3), 2, 1
    rows, columns = (high - window[0]) // down + 1, (wide - window[1]) // across + 1
    gradient = values(rows * columns * channels, "float32").reshape(rows, columns, channels)
    places = rng.integers(0, 6, gradient.shape).astype(np.int32)
    arguments = {"kernel_height": 2, "kernel_width": 3, "stride_width": across, "stride_height": down}
    if overlap == "ACC":
        expected = np.zeros((high, wide, channels))
        average = np.zeros_like(expected)
        for i, j, c in np.ndindex(*gradient.shape):
            y, x = divmod(int(places[i, j, c]), 3)
            expected[i * down + y, j * across + x, c] += gradient[i, j, c]
            average[i * down : i * down + 2, j * across : j * across + 3, c] += gradient[i, j, c] / 6
        got = run("maxpool_bp", np.ones_like(expected, np.float32), gradient, places, overlap=overlap, **arguments)
        np.testing.assert_array_equal(got, expected)
        got = run("avgpool_bp", np.ones_like(expected, np.float32), gradient, overlap=overlap, **arguments)
        np.testing.assert_allclose(got, average, rtol=1e-6, atol=1e-6)
    else:
        apart = {**arguments, "stride_width": 3, "stride_height": 2}
        small = gradient[:2, :2].copy()
        accumulated = run("avgpool_bp", np.ones((4, 6, 3), np.float32), small, overlap="ACC", **apart)
        covered = run("avgpool_bp", np.ones((4, 6, 3), np.float32), small, overlap="COVER", **apart)
        np.testing.assert_array_equal(accumulated, covered)


def test_a_later_window_covers_an_earlier_one() -> None:
    gradient = np.random.default_rng(4).standard_normal((3, 2, 2)).astype(np.float32)
    expected = np.zeros((5, 3, 2), np.float32)
    for i, j in np.ndindex(3, 2):
        expected[i : i + 3, j : j + 2] = gradient[i, j] / 6
    window = {"kernel_height": 3, "kernel_width": 2, "stride_height": 1, "stride_width": 1}
    got = run("avgpool_bp", np.ones_like(expected), gradient, overlap="COVER", **window)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_unpool_writes_positive_zeros() -> None:
    source = np.array([[[-5.0, np.inf, np.nan]]], np.float32)
    got = run("unpool", np.full((1, 2, 3), 9, np.float32), source, kernel_height=1, kernel_width=2, index=1)
    np.testing.assert_array_equal(got[0, 1], source[0, 0])
    assert got[0, 0].tobytes() == bytes(12)


def test_unpool() -> None:
    small = np.array([[[5.0], [6.0]]], np.float32)
    got = run("unpool", np.full((3, 7, 1), 9, np.float32), small, kernel_height=3, kernel_width=2, stride_width=3,
              stride_height=3, index=3)  # fmt: skip
    assert got[:, :, 0].tolist() == [
        [0, 0, 9, 0, 0, 9, 9],
        [0, 5, 9, 0, 6, 9, 9],
        [0, 0, 9, 0, 0, 9, 9],
    ]
