"""index_select compared with torch and NumPy, on every family, in every strategy, through every interface."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlusim
from command_line import call
from mlusim import cinn, ops
from mlusim.errors import InputError, PlanError
from operator_runs import BOARDS

X = np.arange(2 * 5 * 3 * 4, dtype=np.float32).reshape(2, 5, 3, 4)


@given(data=st.data())
def test_results_equal_numpy_take(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    most = shape[axis]
    values = data.draw(st.lists(st.integers(-most, most - 1), max_size=12)) if most else []
    dtype = data.draw(st.sampled_from(("bool", "int8", "float16", "int64", "complex128")))
    index = np.array(values, data.draw(st.sampled_from(("int32", "int64"))))
    rng = np.random.default_rng(len(values))
    x = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype).reshape(shape)
    device, strategy = data.draw(st.sampled_from(BOARDS)), data.draw(st.sampled_from(("auto", "slab", "rows")))
    result = ops.index_select(x, index, axis, device=device, strategy=strategy)
    expected = np.take(x.view(f"V{x.itemsize}"), index, axis)
    assert result.output.dtype == x.dtype
    assert (result.output.shape, result.output.tobytes()) == (expected.shape, expected.tobytes())
    assert ops.index_select(x, index, axis, device=device, strategy=strategy, data=False).time_ps == result.time_ps


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
@pytest.mark.parametrize("limit", [None, 512])
def test_results_equal_torch_index_select(axis, limit):
    torch = pytest.importorskip("torch")
    index = np.array([1, 0, 1, 1], np.int64)
    found = ops.index_select(X, index, axis, nram_limit_bytes=limit)
    expected = torch.index_select(torch.from_numpy(X), axis, torch.from_numpy(index)).numpy()
    np.testing.assert_array_equal(found.output, expected)


def test_onnx_gather_of_a_list(onnx_cases):
    cases = [case for case in onnx_cases("gather") if case[2][1].ndim == 1]
    assert cases
    for _, attributes, (x, index), (expected,) in cases:
        found = ops.index_select(x, index, **{name: value for name, value in attributes.items() if name == "axis"})
        np.testing.assert_array_equal(found.output, expected)


def test_the_plan_is_the_one_that_runs():
    index = np.arange(5)[::-1].copy()
    result = ops.index_select(X, index, 1)
    plan = mlusim.plan("index_select", X.shape, index.shape, axis=1)
    assert plan.explain() == result.plan.explain()
    assert mlusim.retime(result).time_ps == result.time_ps


def test_index_select_is_available_in_nets_sweeps_and_the_command_line(tmp_path):
    net = cinn.NetBuilder("net")
    x = net.create_input(cinn.Float(32), X.shape, "x")
    out = net.index_select(x, net.create_input(cinn.Int(32), (3,), "i"), axis=1)
    index = np.array([4, -1, 0], np.int32)
    expected = np.take(X, index, 1)
    np.testing.assert_array_equal(net.build().execute({"x": X, "i": index})[out], expected)
    (row,) = mlusim.sweep("index_select", shape=(64, 32), count=7, axis=1, workers=0).rows
    assert (row["status"], row["count"]) == ("done", 7)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "i.npy", index)
    arguments = f"run index_select --input {tmp_path}/x.npy --index {tmp_path}/i.npy --axis 1 --out {tmp_path}/y.npy"
    done = call(*arguments.split(), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["operator"] == "index_select"
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


@pytest.mark.parametrize(
    ("index", "axis", "message"),
    [
        ([0, 5], 1, r"index\[1\] = 5: axis 1 of x has 5 elements, so an index is -5 to 4"),
        ([[0]], 0, r"index has shape \[1, 1\], rank 2: it must be a list of indices"),
        ([0.5], 0, "index is float64: an index of index_select is int32 or int64"),
        ([0], 4, r"axis=4 of a tensor of rank 4: an axis must be in \[-4, 4\)"),
        ([0], 0.5, "axis=0.5 is not an integer"),
    ],
)
def test_invalid_arguments_are_errors(index, axis, message):
    with pytest.raises(InputError, match=message):
        ops.index_select(X, index, axis)
    with pytest.raises(PlanError, match="nram_limit_bytes = 3"):
        ops.index_select(X, [0], 0, nram_limit_bytes=3)


@pytest.mark.parametrize("device", ["mlu220-m2", "mlu270-s4", "mlu370-x4", "mlu590-h8"])
@pytest.mark.parametrize("strategy", ["slab", "rows"])
@pytest.mark.parametrize("shape", [(64, 3, 5), (2, 3, 5), (3, 3, 1)])
def test_an_index_that_repeats_is_read_once_for_each_tile(device, strategy, shape, tmp_path):
    """All positions of the leading axes use the same indices, which are read again for two of them, not for more."""
    x = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    index = np.array([2, -1, 0, 1, 1])
    result = ops.index_select(x, index, 1, device=device, strategy=strategy, check=True)
    np.testing.assert_array_equal(result.output, np.take(x, index, 1))
    with result.log.to_csv(tmp_path / "log.csv").open(newline="") as file:
        read = [
            int(row["bytes_requested"])
            for row in csv.DictReader(file)
            if (row["op"], row["a"], row["a_memory"]) == ("memcpy", "index", "gdram")
        ]
    assert len(read) >= len(result.plan.tiles)
    assert max(read) <= 2 * index.nbytes


@pytest.mark.parametrize("device", ["mlu370-x4", "mlu590-h8"])
@pytest.mark.parametrize("data", [True, False])
def test_only_the_rows_in_the_index_are_compulsory_with_and_without_data(device, data):
    """Also where vector instructions, which a timing-only run does not execute, compute the row numbers."""
    x, index = np.zeros((300, 77), np.float32), np.array([5, -1, 5, 250, 6], np.int32)
    unit = mlusim.board(device).dram_unit_bytes
    rows = np.unique(index % 300) * x.strides[0]
    units = {number for row in rows for number in range(row // unit, -(-(row + x.strides[0]) // unit))}
    found = ops.index_select(x, index, device=device, data=data, strategy="rows").metrics.compulsory_bytes
    assert found == {"read": len(units) * unit + index.nbytes, "write": 5 * x.strides[0]}
