"""Arguments of a kernel as text."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlusim
from mlusim.dtypes import ALL, dtype_name
from mlusim.errors import InputError
from mlusim.host.arguments import (
    FileInput,
    Output,
    ParameterType,
    RandomInput,
    Role,
    assign,
    parse_argument,
    read_inputs,
)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("8", "", 8),
        ("-3", "", -3),
        ("scale=0.5", "scale", 0.5),
        ("on=true", "on", True),
        ("x=x.npy", "x", FileInput("x.npy")),
        ("d/x.npz:key", "", FileInput("d/x.npz:key")),
        ("out=float32:2,8,64", "out", Output((2, 8, 64), np.dtype("float32"))),
        ("int8:4x2", "", Output((4, 2), np.dtype("int8"))),
        ("x=random:float16:1000", "x", RandomInput((1000,), np.dtype("float16"))),
        ("out=float32:", "out", Output((), np.dtype("float32"))),
    ],
)
def test_every_argument_syntax_is_parsed(text, name, value):
    found = parse_argument(text)
    assert (found.name, found.value, found.text) == (name, value, text)
    assert type(found.value) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "out=flaot32:8",
            r"^arguments=\['out=flaot32:8'\]: 'flaot32' is not an element type; did you mean float32\? choose a file",
        ),
        ("out=float32:a", r"'a' is not a shape such as 2,8,256,196 or 2x8x256x196$"),
        ("x=random:float32", r"write random:DTYPE:SHAPE, such as random:float32:1000$"),
        (
            "x=word",
            r"^arguments=\['x=word'\]: 'word' is not an argument; choose a file \(x.npy, x.npz:key; inout:x.npy: ",
        ),
        ("2x=8", r"'2x' is not a parameter's name; write NAME=VALUE or VALUE$"),
    ],
)
def test_invalid_arguments_are_errors(text, message):
    with pytest.raises(InputError, match=message):
        parse_argument(text)


@given(st.sampled_from(ALL), st.lists(st.integers(0, 99), min_size=1, max_size=5))
def test_an_output_argument_survives_a_round_trip(dtype, shape):
    text = f"out={dtype_name(dtype)}:{','.join(map(str, shape))}"
    assert parse_argument(text).value == Output(tuple(shape), dtype)


def test_named_arguments_are_assigned_before_positional_ones():
    given = assign("k", ("x", "n", "out"), map(parse_argument, ["out=int8:4", "x.npy", "7"]))
    assert given == {"x": FileInput("x.npy"), "n": 7, "out": Output((4,), np.dtype("int8"))}
    assert list(given) == ["x", "n", "out"]


def test_shape_makes_the_tensors_without_an_argument():
    given = assign("k", ("x", "y", "out"), [parse_argument("y=3")], shape=(8,), dtype="float16")
    assert given == {"x": RandomInput((8,), np.dtype("float16")), "y": 3, "out": Output((8,), np.dtype("float16"))}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["1", "2", "3"], r"^arguments=\['3'\]: k has no parameter left for it$"),
        (["x=1", "x=2"], r"^arguments=\['x=2'\]: x is given twice$"),
        (["z=1"], r"^arguments=\['z=1'\]: k has no parameter 'z'; it has x, out, tile$"),
        (["x=1"], r"^k: no argument for out; give shape=... .*, or arguments=\['out=...'\], a file"),
        (
            [],
            r"^k: no argument for x and out; give shape=\.\.\. for .* or else the last one\), or arguments=\['x=",
        ),
    ],
)
def test_arguments_that_do_not_match_the_kernel_are_errors(texts, message):
    with pytest.raises(InputError, match=message):
        assign("k", ("x", "out"), map(parse_argument, texts), optional=("tile",))


WHOLE, REAL = (ParameterType(Role.NUMBER, np.dtype(name)) for name in ("int64", "float32"))


@pytest.mark.parametrize(
    ("text", "declared", "message"),
    [
        ("n=3.5", WHOLE, r"^k: n is int64, and 3\.5 is not a whole number: round it$"),
        (
            "n=99999999999999999999",
            WHOLE,
            r"^k: n is int64, and 1e\+20 is not -9223372036854775808 to 9223372036854775807$",
        ),
        ("n=inf", WHOLE, r"^k: n is int64, and inf is not a whole number: round it$"),
        ("n=x.npy", WHOLE, r"^k: n is a number \(int64\), not a tensor: give arguments=\['n=NUMBER'\]$"),
        ("n=float32:8", REAL, r"^k: n is a number \(float32\), not a tensor: give arguments=\['n=NUMBER'\]$"),
    ],
)
def test_a_number_must_be_of_its_declared_type(text, declared, message):
    with pytest.raises(InputError, match=message):
        assign("k", ("n",), [parse_argument(text)], types={"n": declared})


@pytest.mark.parametrize(
    ("text", "declared", "value"), [("n=1e3", WHOLE, 1000), ("n=true", WHOLE, True), ("n=3", REAL, 3)]
)
def test_a_whole_number_is_an_integer_however_it_is_written(text, declared, value):
    given = assign("k", ("n",), [parse_argument(text)], types={"n": declared})["n"]
    assert (given, type(given)) == (value, type(value))


def test_files_and_random_inputs_become_arrays(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.int32))
    given = {"x": FileInput(str(tmp_path / "x.npy")), "y": RandomInput((3,), "float32"), "n": 5}
    one, other = read_inputs(given, seed=1), read_inputs(given, seed=1)
    assert one["x"].tolist() == [0, 1, 2, 3]
    assert np.array_equal(one["y"], other["y"])
    assert one["n"] == 5
    assert not np.array_equal(one["y"], read_inputs(given, seed=2)["y"])
    assert read_inputs(given, data=False)["y"].strides == (0,)


async def scaled(core, x, out, factor=2.0):
    if core.task_id or core.is_memory_core:
        return
    a = core.nram.alloc(x.shape, x.dtype)
    await core.memcpy(a, x)
    core.mul(a, a, factor)
    await core.sync()
    await core.memcpy(out, a)


def test_run_returns_outputs_and_takes_settings():
    x = np.arange(8, dtype=np.float32)
    result = mlusim.run(scaled, x, mlusim.Output.like(x), factor=3.0, check=True)
    assert np.array_equal(result.output, 3 * x)
    assert list(result.outputs) == ["out"]
    assert result.report.ok
    assert result.operator == "scaled"


async def named(core, x, *, factor, out, tile=8):
    await scaled(core, x, out, factor * tile)


def test_keyword_only_parameters_reach_the_kernel():
    x = np.arange(8, dtype=np.float32)
    for more, expected in (({}, 16 * x), ({"tile": 1}, 2 * x)):
        given = {"factor": 2.0, "out": mlusim.Output.like(x), **more}
        assert np.array_equal(mlusim.run(named, x, **given).output, expected)
        assert mlusim.verify(named, x, reference=expected, **given).ok
        assert np.array_equal(mlusim.run(named, x=x, **given).outputs["out"], expected)
    with pytest.raises(TypeError, match=r"^named has no parameter 'tiel': did you mean tile\? .*; mlusim.verify has"):
        mlusim.verify(named, x, tiel=3)


def test_run_without_data_has_the_same_time_and_no_output():
    x = np.arange(8, dtype=np.float32)
    timed = mlusim.run(scaled, x, mlusim.Output.like(x), data=False)
    assert timed.output is None
    assert timed.time_ps == mlusim.run(scaled, x, mlusim.Output.like(x)).time_ps


def test_run_takes_no_views_of_another_device():
    device = mlusim.Device()
    view = device.alloc(4, "float32")
    with pytest.raises(InputError, match=r"^x is <view .*the kernel gets a device of its own"):
        mlusim.run(scaled, view, view)


def test_the_last_tensor_of_a_shape_is_the_output():
    given = assign("add", ["x", "out", "n"], [parse_argument("n=8")], shape=(4,))
    assert isinstance(given["out"], mlusim.Output)
    given = assign("add", ["x", "out", "y"], [parse_argument("out=float32:4")], shape=(4,))
    assert isinstance(given["y"], mlusim.Output)


def test_a_parameter_named_like_a_keyword_gets_an_underscore():
    given = assign("race", ["out", "in_"], [parse_argument("in=8"), parse_argument("7")])
    assert given == {"out": 7, "in_": 8}


async def shrunk(core, x, out, *, tile=4, scale=1):
    await core.sync()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"tiel": 3},
            r"^shrunk has no parameter 'tiel': did you mean tile\? shrunk has tile, scale; mlusim.run has device",
        ),
        ({"devcie": "mlu270-s4"}, r"^shrunk has no parameter 'devcie': did you mean device\? "),
        ({"grid": (4, 1, 1)}, r"^shrunk has no parameter 'grid': did you mean dim\? "),
        ({"task_type": "BLOCK"}, r"^shrunk has no parameter 'task_type': did you mean kind\? "),
        ({"board": "mlu270-s4"}, r"^shrunk has no parameter 'board': did you mean device\? "),
        ({"x": 3}, r"^shrunk: x is given twice, by position and by name$"),
    ],
)
def test_an_unknown_keyword_names_the_kernel_and_the_nearest_name(settings, message):
    with pytest.raises(TypeError, match=message):
        mlusim.run(shrunk, np.zeros(4), mlusim.Output((4,)), **settings)


@pytest.mark.parametrize(("name", "meant"), [("rtol", "tolerance"), ("atol", "absolute_tolerance")])
def test_the_names_of_numpy_for_tolerances_are_recognised(name, meant):
    with pytest.raises(TypeError, match=rf"^shrunk has no parameter '{name}': did you mean {meant}\?"):
        mlusim.verify(shrunk, np.zeros(4), mlusim.Output((4,)), reference=np.zeros(4), **{name: 1e-3})


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("float33", "Output: dtype 'float33' is not an element type; did you mean float32"),
        ("fp16", r"Output: dtype 'fp16' is not an element type; did you mean float16\? accepted"),
        (">f4", "Output: dtype '>f4' is float32 in the other byte order"),
    ],
)
def test_an_invalid_element_type_is_an_error_where_the_output_is_declared(dtype, message):
    with pytest.raises(InputError, match=f"^{message}"):
        mlusim.Output(3, dtype)


@pytest.mark.parametrize("shape", [3, (3, 4)])
def test_a_shape_is_not_an_array_to_be_like(shape):
    with pytest.raises(InputError, match=r"^Output\.like\(.*\) takes an array: Output\(.*, dtype\) takes a shape$"):
        mlusim.Output.like(shape)
    assert mlusim.Output.like([[1, 2, 3]]).shape == (1, 3)


@pytest.mark.parametrize(
    ("given", "shown"), [(3, "3"), (np.zeros(99), r"<array of float64 \[99\]>"), (None, "None"), ("a\0b", r"'a\\x00b'")]
)
def test_the_name_of_a_tensor_is_text(given, shown):
    device = mlusim.Device("mlu370-x4")
    with pytest.raises(InputError, match=rf"^name={shown} is not text$"):
        device.upload(np.zeros(3), given)
    with pytest.raises(InputError, match=rf"^name={shown} is not text$"):
        device.alloc(3, "float32", given)


@pytest.mark.parametrize("caller", [mlusim.run, mlusim.verify])
def test_a_keyword_of_the_launch_does_not_hide_a_parameter_of_the_kernel(caller):
    got = []

    async def transpose(core, x, dim=0, *, kind="row"):
        got.append((dim, kind, core.task_dim))

    x = np.zeros(3)
    device = mlusim.Device("mlu370-x4")
    view = device.upload(x)
    for setting, text in (("dim", 4), ("kind", "BLOCK")):
        message = rf"^{setting}={text!r} is an argument of mlusim\.{caller.__name__} itself, and transpose has a param"
        with pytest.raises(InputError, match=message):
            caller(transpose, x, **{setting: text})
        with pytest.raises(
            InputError, match=r"^\w+=\S+ is an argument of mlusim\.Device\.launch itself, and transpose"
        ):
            device.launch(transpose, view, **{setting: text})

    async def required(core, x, *, kind):
        got.append((x, kind))

    async def others(core, *dim, **kind):
        got.append((1, "row", core.task_dim))

    with pytest.raises(
        InputError, match=rf"^kind='UNION1' is an argument of mlusim\.{caller.__name__} itself, and req"
    ):
        caller(required, x)
    caller(others, x, dim=8)
    caller(transpose, x, 1, dim=8)
    caller(functools.partial(transpose, kind="column"), x, 1, kind="BLOCK", dim=2)
    assert {item[:2] for item in got} == {(1, "row"), (1, "column")}
    assert {item[2] for item in got} == {8, 2}
