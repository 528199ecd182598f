"""Every operator on the command line, on files and on random inputs, with every element type."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import call, output_of
from mlusim.cli.operators import SUMMARIES
from mlusim.dtypes import ALL
from mlusim.host.array_files import read_array, write_array
from mlusim.ops.commands import COMMANDS


def _flip_lengths(x, lengths):
    return np.stack(
        [np.concatenate([row[:length][::-1], row[length:]]) for row, length in zip(x, lengths, strict=True)]
    )


def _put(x, index, src, axis):
    out = x.copy()
    np.put_along_axis(out, index, src, axis)
    return out


def _put_rows(x, index, src):
    out = x.copy()
    for row, values in zip(index, src, strict=True):
        out[tuple(row)] = values
    return out


_X = np.random.default_rng(2).standard_normal((5, 6, 8)).astype(np.float32)
_INDEX = np.random.default_rng(3).integers(-6, 6, (5, 6, 8))
_SRC = _X[::-1].copy()
_ORDER = np.argsort(np.random.default_rng(4).random(_X.shape), axis=1)
_ROWS = np.array([[0, 1], [4, 5], [-1, 0]])
_LENGTHS = np.array([0, 1, 3, 6, 2], np.int32)
OPERATORS = {
    "reverse": ("reverse --input x --axis 0,-1", {"x": _X}, np.flip(_X, (0, 2))),
    "flip": ("flip --input x --axis 1", {"x": _X}, np.flip(_X, 1)),
    "reverse_sequence": (
        "reverse_sequence --input x --seq-lengths n",
        {"x": _X, "n": _LENGTHS},
        _flip_lengths(_X, _LENGTHS),
    ),
    "gather": (
        "gather --input x --index i --axis 1",
        {"x": _X, "i": _INDEX},
        np.take_along_axis(_X, _INDEX % 6, 1),
    ),
    "gather_nd": (
        "gather_nd --input x --index i --mode standard",
        {"x": _X, "i": _ROWS},
        _X[_ROWS[:, 0], _ROWS[:, 1]],
    ),
    "index_select": (
        "index_select --input x --index n --axis -1",
        {"x": _X, "n": _LENGTHS},
        _X[:, :, _LENGTHS],
    ),
    "scatter": (
        "scatter --input x --index i --src s --axis 1",
        {"x": _X, "i": _ORDER, "s": _SRC},
        _put(_X, _ORDER, _SRC, 1),
    ),
    "scatter_nd": (
        "scatter_nd --input x --index i --src s --mode standard",
        {"x": _X, "i": _ROWS, "s": _SRC[0, :3]},
        _put_rows(_X, _ROWS, _SRC[0, :3]),
    ),
    "cast": ("cast --input x --dtype half", {"x": _X}, _X.astype(np.float16)),
    "bitcast_convert": ("bitcast_convert --input x --dtype uint8", {"x": _X}, _X.view(np.uint8).reshape(5, 6, 8, 4)),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_on_files(tmp_path, monkeypatch, operator):
    monkeypatch.chdir(tmp_path)
    command, arrays, expected = OPERATORS[operator]
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    words = [f"{word}.npy" if word in arrays else word for word in command.split()]
    printed = output_of("run", *words, "--out", "out.npy")
    out = np.load("out.npy")
    assert (out.dtype, out.shape, out.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    assert "io_efficiency" in printed
    assert output_of("run", *words, "--dry-run").startswith(f"{operator} on mlu370-x4, strategy ")


def test_every_operator_is_tested_here():
    assert {*OPERATORS, "tin_shift"} == set(SUMMARIES)


def test_the_table_of_summaries_has_every_operator():
    assert list(SUMMARIES) == list(COMMANDS)
    assert all(summary.endswith(".") for summary in SUMMARIES.values())


RANDOM = {
    "tin_shift": "--shape 2,4,6,10 --groups 3",
    "reverse": "--shape 5,6,8 --axis 0,2 --dtype int64",
    "flip": "--shape 40 --axis 0 --dtype bool",
    "reverse_sequence": "--shape 5,6,8 --dtype complex64",
    "index_select": "--shape 5,6,8 --axis 1 --count 3",
    "gather": "--shape 5,6,8 --axis 1 --index-shape 5,20,7",
    "gather_nd": "--shape 5,6,8 --axes 0,2",
    "scatter": "--shape 5,6,8 --axis -1",
    "scatter_nd": "--shape 5,6,8 --mode standard --index-shape 30,2",
    "cast": "--shape 5,6,8 --input-dtype int32 --dtype bfloat16",
    "bitcast_convert": "--shape 5,6,2 --dtype float64",
}


@pytest.mark.parametrize("operator", SUMMARIES)
def test_strategies_of_an_operator_on_random_inputs(operator):
    words = RANDOM[operator].split()
    found = json.loads(output_of("compare", operator, *words, "--json"))
    assert found["results_equal"] is True
    assert len(found["strategies"]) > 1
    names = [row["strategy"] for row in found["strategies"]]
    refused = [row["strategy"] for row in found["refused"]]
    assert [*names, *refused] == [*COMMANDS[operator].operator.strategies]
    table = output_of("compare", operator, *words)
    assert f"{'Both' if len(names) == 2 else f'All {len(names)}'} results are equal, bit for bit." in table
    timed = json.loads(output_of("compare", operator, *words, "--json", "--no-data"))
    assert [row["time_ps"] for row in timed["strategies"]] == [row["time_ps"] for row in found["strategies"]]


@pytest.mark.parametrize("dtype", [dtype.name for dtype in ALL])
def test_every_element_type_survives_a_file_round_trip(tmp_path, dtype):
    array = np.frombuffer(np.random.default_rng(5).bytes(16 * 6), np.dtype(dtype)).reshape(3, -1)
    path = tmp_path / "x.npy"
    write_array("--out", path, array)
    found = read_array("--input", str(path))
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    scalar = array[0, 0].reshape(())
    write_array("--out", path, scalar)
    assert read_array("--input", str(path)).shape == ()


def test_bfloat16_as_the_help_says_and_as_numpy_writes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.arange(-8, 8, dtype=np.float32).reshape(4, 4) / 3
    np.save("x.npy", x)
    output_of("run", "cast", "--input", "x.npy", "--dtype", "bfloat16", "-q", "-o", "y.npy")
    assert np.array_equal(np.load("y.npy")["bfloat16"].view("bfloat16"), x.astype("bfloat16"))
    np.save("z.npy", x.astype("bfloat16"))
    for name in ("y.npy", "z.npy"):
        output_of("run", "cast", "--input", name, "--dtype", "float32", "-q", "--force", "-o", "back.npy")
        assert np.array_equal(np.load("back.npy"), x.astype("bfloat16").astype(np.float32))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_floats_as_numpy_writes_them_are_refused_with_the_way_to_write_them(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3).astype(name).T
    np.save("x.npy", x)
    refused = call("run", "flip", "--axis", "0", "--input", "x.npy")
    assert refused.exit_code == 2
    record = [(name, "u1")]
    assert f"save x.view({record}) instead of an array x of {name}" in refused.stderr
    np.save("x.npy", x.view(record))
    output_of("run", "flip", "--axis", "0", "--input", "x.npy", "-q", "-o", "y.npy")
    assert np.load("y.npy")[name].view(name).tobytes() == x[::-1].tobytes()
