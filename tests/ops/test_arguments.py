"""Arguments of operators: sequences are read once and stored as tuples, and invalid ones are rejected by name."""

from __future__ import annotations

import inspect
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import cinn, ops
from mlusim.errors import AllocationError, InputError, PlanError
from mlusim.host.random_tensors import RandomTensors
from mlusim.ops.commands import COMMANDS
from mlusim.ops.registry import OPERATORS

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
PAIRS = np.array([[[0, 1]], [[1, 3]]], np.int32)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_function_takes_the_arguments_of_its_schema(name):
    operator = OPERATORS[name]
    parameters = inspect.signature(getattr(ops, name)).parameters
    own = [name for name in parameters if name not in {"device", "strategy", "options"}]
    assert own == [*operator.tensors, *(attribute.name for attribute in operator.attributes)]
    for attribute in operator.attributes:
        default = parameters[attribute.name].default
        assert default is inspect.Parameter.empty if attribute.required else default == attribute.default
    assert parameters["strategy"].default == next(iter(operator.strategies))


@pytest.mark.parametrize("name", COMMANDS)
def test_example_inputs_are_valid(name):
    command = COMMANDS[name]
    values = {"dtype": "int16", "integer": 1, "integers": (0,)}
    needed = {attribute.name: values[attribute.kind] for attribute in command.attributes if attribute.required}
    options = command.options(needed)
    shape = (2, 4, 8, 16) if name == "tin_shift" else (4, 2)
    arrays = command.example(RandomTensors(0), shape, np.dtype(np.float32), options)
    call = command.prepare(options, arrays, mlusim.board("mlu370-x4"), None)
    assert [given.name for given in call.inputs] == [tensor.flag_name for tensor in command.operator.inputs]


@pytest.mark.parametrize("turn", [iter, lambda axes: map(int, axes), lambda axes: (axis for axis in axes), np.array])
def test_an_iterator_is_read_once(turn):
    for function in (ops.reverse, ops.flip):
        np.testing.assert_array_equal(function(X, turn([0, 2])).output, X[::-1, :, ::-1])
    tuples = np.array([[0, 1], [1, 3]], np.int32).reshape(2, 1, 1, 2)
    wanted = ops.gather_nd(X, tuples, [0, 2]).output
    np.testing.assert_array_equal(ops.gather_nd(X, tuples, turn([0, 2])).output, wanted)
    assert mlusim.plan("reverse", iter(X.shape), axis=turn([0, 2])).explain() == ops.reverse(X, [0, 2]).plan.explain()


def test_a_net_copies_the_callers_lists():
    net = cinn.NetBuilder("net")
    x = net.create_input(cinn.Float(32), X.shape, "x")
    axes = [0]
    out = net.flip(x, axes)
    again = net.flip(x, map(int, "0"))
    axes.append(1)
    result = net.build(outputs=[out, again]).execute({"x": X})
    np.testing.assert_array_equal(result[out], X[::-1])
    np.testing.assert_array_equal(result[again], X[::-1])
    assert "axis=[0]" in str(net)


def test_an_axis_may_be_an_array_of_rank_0():
    np.testing.assert_array_equal(ops.flip(X, np.array(1)).output, X[:, ::-1])


def test_a_broadcast_array_that_the_board_cannot_hold_is_refused_before_it_is_copied():
    with pytest.raises(AllocationError, match=r"1 099 511 627 776 B \(1 TiB\) does not fit: 25 769 803 776 B usable"):
        mlusim.Device("mlu370-x4").upload(np.broadcast_to(np.int8(1), (1 << 20, 1 << 20)))


class Grad:
    """A tensor that refuses to become an array while it records gradients, as torch's do."""

    requires_grad = True

    def detach(self):
        return X

    def __array__(self, *_, **__):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


def test_a_tensor_that_requires_gradients_is_detached():
    np.testing.assert_array_equal(ops.flip(Grad(), 0).output, X[::-1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.flip([[1, 2], [3]], 0), "flip: x is not an array: .*inhomogeneous.*nested lists of equal lengths"),
        (
            lambda: ops.flip([object()], 0),
            "flip: x is not an array of numbers: list becomes an array of Python objects",
        ),
        (lambda: ops.flip(X, 0.5), "axis=0.5 is not an integer"),
        (lambda: ops.flip(X, None), "axis=None is not an integer"),
        (lambda: ops.tin_shift_backward(X[None], PAIRS[:, 0], np.arange(2)), r"rule=array\(\[0, 1\]\): choose one of"),
        (
            lambda: mlusim.plan("flip", (2.5, 3), axis=0),
            r"the shape of x \(2.5, 3\): a shape is an integer or a tuple of integers",
        ),
        (lambda: mlusim.plan("flip", (1,) * 65, axis=0), "the shape of x has rank 65: NumPy arrays have at most 64"),
        (
            lambda: mlusim.plan("bitcast_convert", (1,) * 64, dtype="int8"),
            "bitcast_convert: the output has rank 65: NumPy arrays have at most 64",
        ),
        (
            lambda: mlusim.plan("gather", (1,) * 64, (1,) * 64),
            "gather: x has rank 64: its lookups have one more axis, and NumPy arrays have at most 64",
        ),
        (lambda: mlusim.plan("flip", (-1, 3), axis=0), r"the shape of x \[-1, 3\]: an extent cannot be negative"),
        (lambda: mlusim.plan("flap", (1, 3), axis=0), "no operator 'flap'; did you mean flip"),
        (
            lambda: mlusim.plan("gather", shape=(1, 3)),
            r"plan of gather takes no shape=: .*, x, index, by position: mlusim.plan\('gather', \(...\), \(...\), .*",
        ),
        (
            lambda: mlusim.plan("gather", (1, 3)),
            "plan of gather with 1 shape: pass one for each of its tensors, x, index",
        ),
        (
            lambda: mlusim.plan("gather", (1, 3), (1, 3), "float16"),
            "plan of gather with 3 shapes: .*tensors, x, index; element types are input_dtype and index_dtype$",
        ),
        (
            lambda: mlusim.plan("gather", (1, 3), (1, 3), dtype="float16"),
            "plan of gather with dtype: element types are input_dtype and index_dtype$",
        ),
        (lambda: mlusim.plan("flip", (1, 3)), "flip: axis is missing: pass a value, such as 0,2$"),
        (lambda: mlusim.plan("flip", (1, 3), axes=0), "flip has no attribute 'axes': did you mean axis"),
    ],
)
def test_invalid_arguments_are_errors(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_an_unknown_keyword_lists_the_known_ones():
    with pytest.raises(TypeError, match=r"flip has no argument 'axes': did you mean axis. it has x, axis, device"):
        ops.flip(X, 0, axes=1)


@pytest.mark.parametrize("operator", ["scatter", "reverse", "cast", "gather", "tin_shift_forward"])
@pytest.mark.parametrize("limit", [1, 16, 100])
def test_a_limit_below_one_buffer_is_refused_by_every_operator(operator, limit):
    x = X.reshape(2, 3, 4, 1)
    empty = np.empty((2, 0, 4), np.int32)
    calls = {
        "scatter": lambda: ops.scatter(X, empty, X[:, :0], 1, nram_limit_bytes=limit),
        "reverse": lambda: ops.reverse(X, 0, nram_limit_bytes=limit),
        "cast": lambda: ops.cast(X, "int8", nram_limit_bytes=limit),
        "gather": lambda: ops.gather(X, X.astype(np.int32) % 2, 0, nram_limit_bytes=limit),
        "tin_shift_forward": lambda: ops.tin_shift_forward(x, np.zeros((2, 1), np.int32), nram_limit_bytes=limit),
    }
    with pytest.raises(PlanError, match=f"with nram_limit_bytes = {limit}: .*raise nram_limit_bytes"):
        calls[operator]()


def test_a_huge_axis_has_example_indices():
    (x, index) = COMMANDS["gather"].example(
        RandomTensors(0, data=False), (3_000_000_000,), np.dtype(np.int8), {"axis": 0, "index_shape": (10,)}
    )
    assert (x.shape, index.shape, index.dtype) == ((3_000_000_000,), (10,), np.int32)
    assert ops.gather(x, index, data=False).time_ps > 0


# ---------------------------------------------------------------- cast


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(
    ("source", "device"),
    [
        *product(["float16", "float32", "float64", "int8", "uint16", "int64"], ["mlu270-s4", "mlu370-x4"]),
        # The vector unit of MLU270 does not compute on bfloat16: refused, below.
        ("bfloat16", "mlu370-x4"),
    ],
)
def test_saturate_keeps_to_the_finite_range(dtype, source, device):
    target = mlusim.dtypes.dtype_of(dtype)
    low, high = mlusim.dtypes.bounds(target)
    x = np.array(
        [0, 1, -1, 100, -100, 447, 449, 1000, -1000, 30000, -30000, 60000, -60000, 65000, 1e9, -1e9], np.float64
    )
    if source.startswith(("int", "uint")):
        bounds = np.iinfo(source)
        x = np.clip(x, bounds.min, bounds.max)
    else:
        x = np.concatenate([x, [np.inf, -np.inf, np.nan, -0.0]])
    with np.errstate(all="ignore"):
        x = np.resize(x, 1000).astype(mlusim.dtypes.dtype_of(source))
        clipped = np.clip(x.astype(np.float64), low, high)
        wanted = clipped.astype(np.float32).astype(target)
    found = ops.cast(x, dtype, saturate=True, device=device).output
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


def test_saturate_is_for_float8_and_off_by_default():
    assert np.isnan(ops.cast(np.float32([1000]), "float8_e4m3fn").output.astype(np.float32)[0])
    assert ops.cast(np.float32([1000]), "float8_e4m3fn", saturate=np.True_).output.astype(np.float32)[0] == 448
    with pytest.raises(InputError, match="saturate=True to float16: only casts to float8_e4m3fn and float8_e5m2"):
        ops.cast(X, "float16", saturate=True)
    narrow = X.astype(mlusim.dtypes.dtype_of("float8_e5m2"))
    with pytest.raises(InputError, match="x is float8_e5m2, which the vector unit converts but does not compute on"):
        ops.cast(narrow, "float8_e4m3fn", saturate=True)
    with pytest.raises(InputError, match="saturate=True from bfloat16 on mlu270-s4: the vector unit of arch 270"):
        ops.cast(X.astype(mlusim.dtypes.dtype_of("bfloat16")), "float8_e5m2", saturate=True, device="mlu270-s4")
    with pytest.raises(InputError, match="saturate=1 is not a boolean"):
        ops.cast(X, "float8_e5m2", saturate=1)


@pytest.mark.parametrize("target", ["complex64", "complex128"])
@pytest.mark.parametrize("source", ["bool", "int8", "int64", "float16", "float64", "complex64", "complex128"])
def test_a_complex_target_takes_real_numbers_as_its_real_part(source, target):
    x = (np.arange(-8, 8) * 3).astype(source)
    if source.startswith("complex"):
        x = x + 1j * x[::-1]
    found = ops.cast(x.astype(source), target).output
    assert found.dtype == target
    np.testing.assert_array_equal(found, x.astype(source).astype(target))
    if not source.startswith("complex"):
        assert not np.signbit(found.imag).any()


# ---------------------------------------------------------------- gather_nd with shared axes


def by_batches(x, index, batch_dims):
    """What ONNX's reference does: batch entry by batch entry."""
    batch = x.shape[:batch_dims]
    out = [x[n][tuple(np.moveaxis(index[n], -1, 0))] for n in np.ndindex(*batch)]
    return np.array(out).reshape(*batch, *out[0].shape)


@pytest.mark.parametrize("device", ["mlu270-s4", "mlu370-x4", "mlu590-h8"])
@pytest.mark.parametrize("strategy", ["auto", "slab", "rows"])
@pytest.mark.parametrize(
    ("shape", "positions", "columns", "batch_dims"),
    [
        ((2, 5, 4), (2, 3), 1, 1),
        ((2, 3, 6, 5), (2, 3, 7), 1, 2),
        ((3, 4, 5, 2), (3, 9), 2, 1),
        ((2, 8, 9), (2, 4, 2), 2, 1),
    ],
)
def test_gather_nd_shares_leading_axes(shape, positions, columns, batch_dims, strategy, device):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape).astype(np.float32)
    chosen = shape[batch_dims : batch_dims + columns]
    index = np.stack([rng.integers(-extent, extent, positions) for extent in chosen], -1)
    found = ops.gather_nd(x, index, mode="standard", batch_dims=batch_dims, strategy=strategy, device=device)
    np.testing.assert_array_equal(found.output, by_batches(x, index, batch_dims))


def test_gather_nd_of_onnx_with_batch_dims(onnx_cases):
    cases = [case for case in onnx_cases("gathernd") if case[1].get("batch_dims")]
    assert cases
    for _, attributes, (x, index), (wanted,) in cases:
        found = ops.gather_nd(x, index, mode="standard", batch_dims=attributes["batch_dims"])
        np.testing.assert_array_equal(found.output, wanted)


@pytest.mark.parametrize(
    ("batch_dims", "mode", "message"),
    [
        (3, "standard", r"batch_dims=3 of gather_nd: x has shape \[2, 3, 4\] .* so batch_dims must be 0 to 2"),
        (1, "aligned", "belongs to mode='standard', .*: pass mode='standard' too, or omit batch_dims"),
        (0.5, "standard", "batch_dims=0.5 of gather_nd: a number of axes must be an integer"),
        (True, "standard", "batch_dims=True of gather_nd: a number of axes must be an integer"),
        (2, "standard", "their first 2 axes are equal"),
    ],
)
def test_invalid_batch_dims_are_errors(batch_dims, mode, message):
    with pytest.raises(InputError, match=message):
        ops.gather_nd(X, PAIRS, mode=mode, batch_dims=batch_dims)


def test_an_input_larger_than_the_board_is_refused_before_the_split():
    huge = np.broadcast_to(np.float32(0), (1 << 20, 1 << 20, 4))
    with pytest.raises(
        AllocationError, match=r"^cast: x takes .* \(16 TiB\): it can never fit in the GDRAM of mlu370-x4, .*; choose"
    ):
        ops.cast(huge, "float16", data=False)


def test_the_former_functions_that_planned_name_their_successor():
    with pytest.raises(AttributeError, match=r"'plan_gather'; mlusim\.plan\('gather', \.\.\.\) plans an operator"):
        _ = ops.plan_gather
    with pytest.raises(AttributeError, match=r"has no attribute 'gatherr': did you mean gather\?$"):
        _ = ops.gatherr
    with pytest.raises(AttributeError, match=r"has no attribute 'quux'$"):
        _ = ops.quux


def test_tin_shift_is_callable_by_its_name_on_the_command_line():
    clip, shifts = np.arange(8, dtype=np.float32).reshape(1, 4, 2, 1), np.array([[1, 0]], np.int32)
    shifted = np.concatenate([np.zeros((1, 1, 1, 1)), clip[:, :-1, :1]], 1)
    expected = np.concatenate([shifted, clip[:, :, 1:]], 2)
    assert np.array_equal(ops.tin_shift(clip, shifts).output, expected)
    assert np.array_equal(ops.tin_shift(clip, [[1, 0]]).output, expected)
    with pytest.raises(InputError, match="shifts is int64: it must be int32"):
        ops.tin_shift(clip, [[2**31, 0]])
    assert mlusim.plan("tin_shift", clip.shape, (1, 2)) == mlusim.plan("tin_shift_forward", clip.shape, (1, 2))


@pytest.mark.parametrize("axes", [0, np.array(0), 1.5])
def test_axes_are_a_list(axes):
    with pytest.raises(InputError, match=r"^gather_nd: axes=.* is not a list of axes: name one for each coordinate$"):
        ops.gather_nd(X, np.zeros((*X.shape, 1), np.int32), axes=axes)


def test_inputs_may_have_the_other_byte_order():
    x, index = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([2, 0], np.int32)
    found = ops.index_select(x.astype(">f4"), index.astype(">i4"))
    assert found.output.dtype == np.float32
    assert np.array_equal(found.output, x[index])
    assert ops.bitcast_convert(np.array([1, -2], ">i2"), "uint16").output.tolist() == [1, 2**16 - 2]


def test_a_limit_of_numpy_is_one_of_python(tmp_path):
    result = ops.reverse(X, 0, nram_limit_bytes=np.array(4096), max_operations=np.int64(1000))
    assert result.plan.explain() == ops.reverse(X, 0, nram_limit_bytes=4096).plan.explain()
    loaded = mlusim.load(result.save(tmp_path / "run.zip"))
    assert loaded.plan.nram_limit_bytes == 4096


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.gather(x, [[0]], dim=0), "gather has no argument 'dim': did you mean axis? it has x, index, "),
        (lambda x: ops.flip(x, dims=0), "flip has no argument 'dims': did you mean axis? it has x, axis, device, "),
        (lambda x: ops.cast(x, "int8", board="mlu590-h8"), "cast has no argument 'board': did you mean device? it "),
        (lambda x: ops.scatter(x, [[0]], scr=x), "scatter has no argument 'scr': did you mean src? it has x, "),
        (lambda x: ops.scatter(x, [[0]]), "scatter: src is missing: it takes x, index, src, axis"),
        (lambda x: ops.cast("x.npy", "int8"), "cast: x='x.npy' is not an array: load the file, np.load('x.npy')"),
        (lambda x: ops.cast(Path("x.npy"), "int8"), f"cast: x={Path('x.npy')!r} is not an array: load the file, "),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(InputError) as caught:
        call(np.zeros((2, 3), np.float32))
    assert str(caught.value).startswith(message)


def test_a_type_error_within_an_operator_is_not_explained():
    """Only errors of the call itself are explained; one from within keeps its text."""

    class Spoiled:
        @property
        def requires_grad(self):
            raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        ops.cast(Spoiled(), "int8")


@pytest.mark.parametrize("axes", [{1, 0}, frozenset({1, 0})])
def test_axes_of_coordinates_have_an_order(axes):
    x, index = np.arange(24).reshape(4, 6), np.zeros((4, 6, 2), np.int32)
    for call in (lambda: ops.gather_nd(x, index, axes=axes), lambda: ops.scatter_nd(x, index, x, axes=axes)):
        with pytest.raises(InputError, match=r"_nd: axes=\{0, 1\}: a set has no order; pass a tuple, such as \(0, 1\)"):
            call()
    np.testing.assert_array_equal(ops.reverse(x, axes).output, x[::-1, ::-1])
