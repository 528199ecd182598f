"""gather, gather_nd, scatter and scatter_nd, compared with plain loops, NumPy and ONNX."""

import re

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from mlusim import ops
from mlusim.errors import InputError
from mlusim.hardware import board
from operator_runs import BOARDS, any_bits, opaque, scattered

STRATEGIES = ("auto", "slab", "rows")
DTYPES = ("bool", "int8", "uint16", "float32", "int64", "complex128")


def small_board(name, usable_bytes):
    return board(name).replace(nram_bytes=usable_bytes + 1024, nram_reserved_bytes=1024)


def bits(array):
    array = np.ascontiguousarray(array)
    return array.reshape(-1).view(np.uint8)


def gather_loop(x, index, axis):
    x = opaque(x)
    out = np.empty(index.shape, x.dtype)
    for place in np.ndindex(index.shape):
        source = list(place)
        source[axis] = index[place]
        out[place] = x[tuple(source)]
    return out


@st.composite
def element_cases(draw):
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    axis = draw(st.integers(-rank, rank - 1))
    wanted = [draw(st.integers(0, extent)) for extent in shape]
    wanted[axis] = draw(st.integers(0, 9))
    seed = draw(st.integers(0, 2**32 - 1))
    dtype = draw(st.sampled_from(DTYPES))
    index_dtype = draw(st.sampled_from(["int32", "int64"]))
    where = draw(st.sampled_from(BOARDS))
    usable = draw(st.sampled_from([None, 2048, 8192]))
    strategy = draw(st.sampled_from(STRATEGIES))
    return (
        shape,
        axis,
        tuple(wanted),
        seed,
        dtype,
        index_dtype,
        small_board(where, usable) if usable else where,
        strategy,
    )


@given(element_cases())
def test_gather_equals_the_loop(case):
    shape, axis, wanted, seed, dtype, index_dtype, device, strategy = case
    rng = np.random.default_rng(seed)
    x = any_bits(rng, shape, dtype)
    index = rng.integers(-shape[axis], shape[axis], wanted).astype(index_dtype)
    kept = x.copy(), index.copy()
    result = ops.gather(x, index, axis, device=device, strategy=strategy)
    result.plan.check()
    assert result.output.shape == wanted
    np.testing.assert_array_equal(bits(result.output), bits(gather_loop(x, index, axis % len(shape))))
    np.testing.assert_array_equal(bits(x), bits(kept[0]))
    np.testing.assert_array_equal(index, kept[1])
    same = ops.gather_nd(x, index[..., None], axes=[axis], device=device)
    np.testing.assert_array_equal(bits(same.output), bits(result.output))


@given(element_cases())
def test_scatter_equals_the_loop_and_the_last_update_wins(case):
    shape, axis, wanted, seed, dtype, index_dtype, device, strategy = case
    rng = np.random.default_rng(seed)
    x = any_bits(rng, shape, dtype)
    index = rng.integers(-shape[axis], shape[axis], wanted).astype(index_dtype)
    src = any_bits(rng, tuple(extent + int(rng.integers(0, 2)) for extent in wanted), dtype)
    result = ops.scatter(x, index, src, axis, device=device, strategy=strategy)
    result.plan.check()
    np.testing.assert_array_equal(bits(result.output), bits(scattered(x, index, src, axis % len(shape))))
    src = src[tuple(slice(extent) for extent in wanted)]
    same = ops.scatter_nd(x, index[..., None], src, axes=[axis], device=device)
    np.testing.assert_array_equal(bits(same.output), bits(result.output))


@st.composite
def standard_cases(draw):
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    depth = draw(st.integers(0, rank))
    places = tuple(draw(st.integers(0, 4)) for _ in range(draw(st.integers(0, 2))))
    return shape, depth, places, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from(BOARDS))


@given(standard_cases())
def test_standard_mode_matches_tensorflow(case):
    shape, depth, places, seed, device = case
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    index = np.stack([rng.integers(-n, n, places) for n in shape[:depth]], -1) if depth else np.zeros((*places, 0), int)
    gathered = ops.gather_nd(x, index, mode="standard", device=device).output
    expected = np.empty(places + shape[depth:])
    scattered = x.copy()
    updates = rng.standard_normal(expected.shape)
    for place in np.ndindex(places):
        expected[place] = x[tuple(index[place])]
        scattered[tuple(index[place])] = updates[place]
    np.testing.assert_array_equal(gathered, expected)
    np.testing.assert_array_equal(ops.scatter_nd(x, index, updates, mode="standard", device=device).output, scattered)


@pytest.mark.slow
@pytest.mark.parametrize("device", BOARDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_thousands_of_duplicates_across_cores(device, strategy):
    rng = np.random.default_rng(7)
    x = np.zeros((3, 500), np.float32)
    index = rng.integers(0, 3, (2000, 500))
    src = np.arange(index.size, dtype=np.float32).reshape(index.shape)
    expected = x.copy()
    for row in range(len(index)):
        np.put_along_axis(expected, index[row : row + 1], src[row : row + 1], 0)
    result = ops.scatter(x, index, src, 0, device=device, strategy=strategy)
    np.testing.assert_array_equal(result.output, expected)
    flat = ops.scatter_nd(x.reshape(-1), index[:, :1] % 3, src[:, 0], mode="standard", device=device)
    last = {int(place) % 3: row for row, place in enumerate(index[:, 0])}
    for place, row in last.items():
        assert flat.output[place] == src[row, 0]


@pytest.mark.parametrize("device", BOARDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_index_without_coordinates_replaces_none(device, strategy):
    x = np.arange(105.0).reshape(3, 5, 7)
    index = np.zeros((2, 5, 4, 0), np.int32)
    settings = {"device": device, "strategy": strategy}
    np.testing.assert_array_equal(ops.gather_nd(x, index, **settings).output, x[:2, :, :4])
    expected = x.copy()
    expected[:2, :, :4] = -1
    np.testing.assert_array_equal(ops.scatter_nd(x, index, -np.ones((2, 5, 4)), **settings).output, expected)


@pytest.mark.parametrize("device", BOARDS)
def test_the_documents_examples(device):
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    index = np.array([[0, 1, 1], [3, 2, 0]])
    b = ops.gather(a, index, 0, device=device).output
    np.testing.assert_array_equal(b, [[0, 4, 5], [9, 7, 2]])
    c = ops.scatter(np.zeros((4, 3), np.float32), index, b, 0, device=device).output
    np.testing.assert_array_equal(c, [[0, 0, 2], [0, 4, 5], [0, 7, 0], [9, 0, 0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i: ops.gather(x, i, 1), r"gather: index\[1, 0\] = 3: axis 1 of x has 3 elements"),
        (lambda x, i: ops.gather(x, i - 5, 0), r"gather: index\[0, 0\] = -5: axis 0 of x has 4 elements"),
        (lambda x, i: ops.gather(x, i, 2), r"axis=2"),
        (lambda x, i: ops.gather(x, i.astype(np.float32), 0), r"int32 or int64"),
        (lambda x, i: ops.gather(x, i[0], 0), r"rank"),
        (lambda x, i: ops.gather(x, np.zeros((2, 4), int), 0), r"index"),
        (lambda x, i: ops.gather_nd(x, np.zeros((3, 1), int)), r"fit mode='standard'"),
        (lambda x, i: ops.scatter(x, i, x[:1], 0), r"src"),
        (lambda x, i: ops.scatter(x, i, x.astype(np.float64), 0), r"float64"),
        (lambda x, i: ops.scatter(x, i + 2**40, x, 0), r"1099511627776"),
        (lambda x, i: ops.scatter_nd(x, np.array([[9, 0]]), x[0, :1], mode="standard"), r"= 9"),
        (lambda x, i: ops.gather(x, i, 0, strategy="fast"), r"strategy='fast'"),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    before = x.copy()
    with pytest.raises(InputError) as caught:
        call(x, np.array([[0, 1, 1], [3, 2, 0]]))
    assert re.search(message, str(caught.value)), str(caught.value)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("device", BOARDS)
def test_strides_of_the_caller_do_not_matter(device):
    base = np.arange(2 * 6 * 8, dtype=np.int32).reshape(2, 6, 8)
    x = base[:, ::-2, 1::3].transpose(2, 0, 1)
    index = np.broadcast_to(np.array([[[1], [0]]]), (3, 2, 3))
    expected = np.take_along_axis(x, np.ascontiguousarray(index), 2)
    np.testing.assert_array_equal(ops.gather(x, index, 2, device=device).output, expected)
    src = np.broadcast_to(np.int32(7), index.shape)
    np.testing.assert_array_equal(
        bits(ops.scatter(x, index, src, 2, device=device).output), bits(scattered(x, index, src, 2))
    )


@pytest.mark.parametrize("device", BOARDS)
@pytest.mark.parametrize("data_shape", [(0, 3), (4, 0), (1,), (2, 1, 2, 1, 2, 1, 2)])
def test_odd_shapes(device, data_shape):
    x = np.arange(int(np.prod(data_shape)), dtype=np.int16).reshape(data_shape)
    wanted = (0, *data_shape[1:]) if data_shape[0] == 0 else data_shape
    index = np.zeros(wanted, np.int32)
    np.testing.assert_array_equal(bits(ops.gather(x, index, 0, device=device).output), bits(gather_loop(x, index, 0)))
    src = np.ones(wanted, np.int16)
    np.testing.assert_array_equal(
        bits(ops.scatter(x, index, src, 0, device=device).output), bits(scattered(x, index, src, 0))
    )


# What ONNX's node tests have and docs/semantics.md has not: the attribute, its value without effect, and why.
EXCLUDED = {
    "reduction": (
        b"none",
        "an update replaces; there are no sums, products, minima or maxima of duplicates",
    ),
    "batch_dims": (0, "docs/semantics.md has gather_nd with batch_dims=0 only"),
}


def excluded(attributes):
    return any(attributes.get(name, without) != without for name, (without, _) in EXCLUDED.items())


@pytest.mark.parametrize(
    ("module", "call", "least"),
    [
        ("gatherelements", lambda inputs, axis: ops.gather(*inputs, axis), 3),
        ("gathernd", lambda inputs, _: ops.gather_nd(*inputs, mode="standard"), 2),
        ("scatterelements", lambda inputs, axis: ops.scatter(*inputs, axis), 3),
        ("scatternd", lambda inputs, _: ops.scatter_nd(*inputs, mode="standard"), 1),
    ],
)
def test_onnx_node_tests(onnx_cases, module, call, least):
    found = onnx_cases(module)
    cases = [case for case in found if not excluded(case[1])]
    assert len(cases) >= least
    assert {name for _, attributes, *_ in found for name in attributes} <= {"axis", *EXCLUDED}
    for name, attributes, inputs, (expected,) in cases:
        np.testing.assert_array_equal(call(inputs, attributes.get("axis", 0)).output, expected, err_msg=name)
