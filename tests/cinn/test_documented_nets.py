"""The snippets and examples of the standards' documents, with their typos corrected."""

from __future__ import annotations

import numpy as np
import pytest

from mlusim.cinn import Float, Int
from mlusim.errors import InputError


def test_snippet_of_gather_and_scatter(builder):
    a = builder.create_input(Float(32), (8, 24), "A")
    i = builder.create_input(Int(32), (3, 24), "index")
    b = builder.gather(a, index=i, dim=0)  # shape=(3, 24)
    z = builder.create_input(Float(32), (8, 24), "Z")
    z = builder.scatter(z, index=i, dim=0, src=b)  # shape=(8, 24)
    rng = np.random.default_rng(0)
    a_data, z_data = rng.standard_normal((2, 8, 24)).astype(np.float32)
    i_data = rng.permuted(np.tile(np.arange(8, dtype=np.int32)[:, None], 24), axis=0)[:3]

    result = builder.build("mlu370-x4", outputs=[b, z]).execute({"A": a_data, "index": i_data, "Z": z_data})

    np.testing.assert_array_equal(result[b], np.take_along_axis(a_data, i_data, 0))
    expected = z_data.copy()
    np.put_along_axis(expected, i_data, result[b], 0)
    np.testing.assert_array_equal(result[z], expected)


def test_example_of_gather_and_scatter(builder):
    index = np.array([[0, 1, 1], [3, 2, 0]], np.int32)
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    a = builder.create_input(Float(32), (4, 3), "A")
    i = builder.create_input(Int(32), (2, 3), "index")
    c = builder.create_input(Float(32), (4, 3), "C")
    b_1 = builder.gather(a, dim=0, index=i)
    b_3 = builder.scatter(c, dim=0, index=i, src=b_1)
    given = {"A": array, "index": index, "C": np.zeros((4, 3), np.float32)}
    result = builder.build(outputs=[b_1, b_3]).execute(given)
    assert result[b_1].tolist() == [[0, 4, 5], [9, 7, 2]]
    assert result[b_3].tolist() == [[0, 0, 2], [0, 4, 5], [0, 7, 0], [9, 0, 0]]

    b_2 = builder.gather(a, dim=1, index=i, name="B_2")  # 3 is outside an axis of 3
    with pytest.raises(InputError, match=r"^gather\(A, index=index, axis=1\) in net 'test_basic', with A: .* 3"):
        builder.build(outputs=[b_2]).execute(given)


def test_snippet_of_cast(builder):
    a = builder.create_input(Int(32), (8, 24, 124), "A1")
    b = builder.cast(a, Float(32))
    data = np.random.default_rng(0).integers(-(2**31), 2**31, (8, 24, 124)).astype(np.int32)
    result = builder.build().execute({a: data})
    np.testing.assert_array_equal(result[b], data.astype(np.float32))


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (0, [[9, 10, 11, 12], [5, 6, 7, 8], [1, 2, 3, 4]]),
        (1, [[4, 3, 2, 1], [8, 7, 6, 5], [12, 11, 10, 9]]),
        ([0, 1], [[12, 11, 10, 9], [8, 7, 6, 5], [4, 3, 2, 1]]),
    ],
)
def test_example_of_flip(builder, axis, expected):
    x = builder.create_input(Int(32), (3, 4), "x")
    out = builder.flip(x, axis)
    result = builder.build().execute({"x": np.arange(1, 13, dtype=np.int32).reshape(3, 4)})
    assert result[out].tolist() == expected


def test_snippet_of_bitcast_convert(builder):
    a = builder.create_input(Float(32), (10,), "A")
    b = builder.bitcast_convert(a, "float16")
    data = np.random.default_rng(0).standard_normal(10).astype(np.float32)
    result = builder.build().execute({"A": data})
    assert result[b].shape == (10, 2)
    assert result[b].tobytes() == data.tobytes()
    assert (result.time_ps, result.bus_bytes) == (0, {"read": 0, "write": 0})
