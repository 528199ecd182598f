"""NetBuilder: shapes and types are inferred, and errors raised, while the net is built."""

from __future__ import annotations

import inspect
import pickle
import re

import numpy as np
import pytest

from mlusim.cinn import BFloat16, Bool, Float, Int, NetBuilder, UInt
from mlusim.errors import ArgumentsError, BoardError, InputError
from mlusim.ops.registry import BY_NAME


@pytest.fixture
def a(builder):
    return builder.create_input(Float(32), (8, 24), "A")


@pytest.fixture
def i(builder):
    return builder.create_input(Int(32), (3, 24), "index")


# The documents' own snippets, typos corrected


def test_snippet_of_gather_and_scatter(builder):
    a = builder.create_input(Float(32), (8, 24), "A")
    i = builder.create_input(Int(32), (3, 24), "index")
    b = builder.gather(a, index=i, dim=0)
    z = builder.create_input(Float(32), (8, 24), "Z")
    z = builder.scatter(z, index=i, dim=0, src=b)
    assert (b.shape, b.dtype) == ((3, 24), np.float32)
    assert (z.shape, z.dtype) == ((8, 24), np.float32)


def test_the_misspelt_keyword_of_the_snippet(builder, a, i):
    b = builder.gather(a, index=i, dim=0)
    z = builder.create_input(Float(32), (8, 24), "Z")
    message = r"^scatter has no argument 'scr': did you mean src\? it has x, index, src, axis, dim, name, strategy$"
    with pytest.raises(InputError, match=message) as caught:
        builder.scatter(z, index=i, dim=0, scr=b)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net: net.gather("A"), "gather: index is missing: it takes x, index, axis"),
        (lambda net: net.gather(axis=0), "gather: x and index are missing: it takes x, index, axis"),
        (lambda net: net.gather("A", "index", 0, 1),
         "gather takes x, index, axis by position, and 4 values were passed; by name: dim, name, strategy"),
        (lambda net: net.gather("A", "index", x="A"),
         "gather: x is passed twice, by position and by name: pass it once"),
        (lambda net: net.gather(input_tensor="A", index_tensor="index"),
         "gather has no argument 'input_tensor': did you mean x? it has x, index, axis, dim, name, strategy"),
        (lambda net: net.cast("A", dytpe="int8"),
         "cast has no argument 'dytpe': did you mean dtype? it has x, dtype, saturate, name, strategy"),
        (lambda net: net.create_input(Float(32), (8,), id="B"),
         "create_input has no argument 'id': it has type, shape, name"),
        (lambda net: net.build(output="A"),
         "build has no argument 'output': did you mean outputs? it has target, outputs"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(builder, a, i, call, message):
    with pytest.raises(ArgumentsError) as caught:
        call(builder)
    assert str(caught.value) == message


def test_snippet_of_cast(builder):
    a = builder.create_input(Int(32), (8, 24, 124), "A1")
    b = builder.cast(a, Float(32))
    assert (b.shape, b.dtype) == ((8, 24, 124), np.float32)


def test_snippet_of_bitcast_convert(builder):
    with pytest.raises(InputError, match=r"^bitcast_convert in net 'test_basic': x is of type list, not a variable"):
        builder.bitcast_convert([10], "float32")
    a = builder.create_input(Float(32), (10,), "A")
    assert builder.bitcast_convert(a, "float32").shape == (10,)
    assert builder.bitcast_convert(a, "float16").shape == (10, 2)


# Inference


def test_inferred_shapes_and_types(builder):
    x = builder.create_input(Float(32), (4, 5, 6), "x")
    index = builder.create_input(Int(64), (4, 2, 6), "i")
    assert builder.gather(x, index, 1).shape == (4, 2, 6)
    assert builder.gather(x, index, dim=-2).shape == (4, 2, 6)
    pairs = builder.create_input(Int(32), (4, 2, 3, 2), "pairs")
    assert builder.gather_nd(x, pairs, dims=[1, 2]).shape == (4, 2, 3)
    assert builder.gather_nd(x, pairs, mode="standard").shape == (4, 2, 3, 6)
    src = builder.create_input(Float(32), (4, 2, 3), "src")
    assert builder.scatter_nd(x, pairs, src, axes=[1, 2]).shape == (4, 5, 6)
    assert builder.flip(x, [0, -1]).shape == (4, 5, 6)
    assert builder.reverse(x, dim=1).shape == (4, 5, 6)
    assert builder.flip(x, dims=[]).shape == (4, 5, 6)
    builder.flip(x, np.array([0, 2]), name="both")
    assert "= flip(x, axis=[0, 2]) " in str(builder)
    lengths = builder.create_input(Int(32), (4,), "lengths")
    assert builder.reverse_sequence(x, lengths).shape == (4, 5, 6)
    lengths = builder.create_input(Int(32), (6,), "lengths6")
    assert builder.reverse_sequence(x, lengths, seq_dim=0, batch_dim=2).shape == (4, 5, 6)
    for dtype in (Bool(), bool, "int8", UInt(8), BFloat16(), np.float16):
        assert builder.cast(x, dtype).shape == (4, 5, 6)
    assert builder.cast(x, BFloat16()).dtype == BFloat16().numpy_dtype
    assert builder.bitcast_convert(x, UInt(8)).shape == (4, 5, 6, 4)
    assert builder.create_input(Float(32), (), "scalar").shape == ()
    assert builder.create_input(Float(32), [2, 0], "empty").shape == (2, 0)


def test_variables_by_name(builder, a, i):
    assert builder.gather("A", "index").shape == (3, 24)


def test_names(builder, a, i):
    assert builder.gather(a, i, name="picked").name == "picked"
    assert builder.flip("picked", 0).name == "var_3"
    taken = builder.flip(a, 0, name="var_5")
    assert builder.flip(taken, 0).name == "var_6"
    assert builder.create_input(Bool(), (1,)).name == "var_7"


# Faults


def test_errors_carry_operator_inputs_and_shapes(builder, a, i):
    message = (
        r"^gather\(A, index=index, axis=2\) in net 'test_basic', with A: float32 \[8, 24\] and index: int32 \[3, 24\]: "
    )
    with pytest.raises(InputError, match=rf"{message}gather: axis=2 of a tensor of rank 2"):
        builder.gather(a, i, axis=2)


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda net: net.gather("A", "A"),
        lambda net: net.gather("A", "long"),
        lambda net: net.gather("index", "index", 7),
        lambda net: net.gather_nd("A", "index", axes=[0, 0]),
        lambda net: net.gather_nd("A", "index", mode="fast"),
        lambda net: net.scatter("A", "index", "index"),
        lambda net: net.scatter_nd("A", "index", "index"),
        lambda net: net.flip("A", [0, 0]),
        lambda net: net.flip("A", -3),
        lambda net: net.reverse("A", 2),
        lambda net: net.reverse_sequence("A", "A"),
        lambda net: net.reverse_sequence("A", "long", 1, 1),
        lambda net: net.bitcast_convert("A", "float64"),
        lambda net: net.cast("complex", "float32"),
        lambda net: net.flip("A", 0, strategy="none such"),
    ],
)
def test_the_builder_rejects_what_an_operator_rejects(builder, a, i, spoiled):
    builder.create_input(Int(32), (99,), "long")
    builder.create_input("complex64", (2,), "complex")
    before = str(builder)
    with pytest.raises(InputError, match=r"^\w+\(.*\) in net 'test_basic', with \w+: \w+ \[[\d, ]+\].*: .{20}"):
        spoiled(builder)
    assert str(builder) == before


@pytest.mark.parametrize(
    ("spoiled", "message"),
    [
        (lambda net, a, i: net.gather(a, i, axis=0, dim=0), "gather: axis=0 and dim=0 are names of one argument: pass"),
        (lambda net, a, i: net.scatter(a, i, a, 1, dim=0), "scatter: axis=1 and dim=0 are names of one argument"),
        (lambda net, a, i: net.gather_nd(a, i, [0], dims=[0]), r"gather_nd: axes=\[0\] and dims=\[0\] are names of"),
        (lambda net, a, i: net.scatter_nd(a, i, a, [0], dims=[0]), r"scatter_nd: axes=\[0\] and dims=\[0\] are names"),
        (lambda net, a, i: net.flip(a, 0, dims=[0]), r"flip: axis=0 and dims=\[0\] are names of one argument"),
        (lambda net, a, i: net.reverse(a, dim=0, dims=[0]), r"reverse: dim=0 and dims=\[0\] are names of one argument"),
        (lambda net, a, i: net.reverse_sequence(a, i, 1, seq_dim=1), "reverse_sequence: seq_axis=1 and seq_dim=1 are"),
        (lambda net, a, i: net.flip(a), "flip: axis is missing: pass a value, such as 0,2"),
        (lambda net, a, i: net.reverse(a), "reverse: axis is missing"),
        (lambda net, a, i: net.gather(a, "idnex"), "index = 'idnex' is not a variable of this net: did you mean index"),
        (lambda net, a, i: net.gather(a, np.zeros(3)), "index is of type ndarray, not a variable: make one with"),
        (lambda net, a, i: net.flip(a, 0, name="A"), r"name='A' is taken by A: float32 \[8, 24\]: choose another"),
        (lambda net, a, i: net.create_input(Int(8), (1,), "A"), "create_input in net 'test_basic': name='A' is taken"),
        (lambda net, a, i: net.create_input(Int(8), (1,), ""), "name='' is a string of at least one character"),
        (
            lambda net, a, i: net.create_input(Int(8), 3, "n"),
            r"shape 3 must be a sequence of integers, such as \(8, 24\)",
        ),
        (lambda net, a, i: net.create_input(Int(8), (2, -1), "n"), r"shape \[2, -1\]: an extent cannot be negative"),
        (
            lambda net, a, i: net.create_input(Int(8), (1,) * 65, "n"),
            "create_input: shape has rank 65: NumPy arrays have at most 64",
        ),
        (lambda net, a, i: net.create_input("S3", (1,), "n"), "dtype 'S3' is not an element type"),
        (lambda net, a, i: net.cast(a, "S3"), "dtype 'S3' is not an element type"),
        (lambda net, a, i: net.build(), "net 'test_basic' has no operator: add one"),
    ],
)
def test_faults_of_the_net(builder, a, i, spoiled, message):
    with pytest.raises(InputError, match=message):
        spoiled(builder, a, i)


def test_variable_of_another_builder(builder, i):
    other = NetBuilder("other").create_input(Float(32), (8, 24), "A")
    with pytest.raises(InputError, match=r"x = A: float32 \[8, 24\] belongs to net 'other': make it with this builder"):
        builder.gather(other, i)


def test_faults_of_build(builder, a, i):
    b = builder.gather(a, i)
    with pytest.raises(BoardError, match="mlu371"):
        builder.build("mlu371")
    with pytest.raises(InputError, match="build in net 'test_basic': outputs = 'c' is not a variable of this net"):
        builder.build(outputs=[b, "c"])
    with pytest.raises(InputError, match="build in net 'test_basic': outputs is of type int, not a variable"):
        builder.build(outputs=3)


# What it looks like


def test_print(builder):
    a = builder.create_input(Float(32), (8, 24), "A")
    i = builder.create_input(Int(32), (3, 24), "index")
    b = builder.gather(a, index=i, dim=0)
    builder.cast(b, "float16", name="half")
    assert str(builder).splitlines() == [
        "net test_basic",
        "  A     = input                           float32 [8, 24]",
        "  index = input                           int32 [3, 24]",
        "  var_2 = gather(A, index=index, axis=0)  float32 [3, 24]",
        "  half  = cast(var_2, dtype=float16)      float16 [3, 24]",
    ]
    assert repr(builder) == "<NetBuilder 'test_basic': 2 inputs, 2 operators>"
    program = builder.build()
    assert repr(program) == "<program 'test_basic' on mlu370-x4: 2 operators>"
    assert len(program) == 2
    assert repr(program[1]) == "half = cast(var_2, dtype=float16): float16 [3, 24]"
    assert [instruction.output.name for instruction in program] == ["var_2", "half"]
    assert repr(a) == "A: float32 [8, 24]"


def test_building_a_program_copies_the_net(builder, a, i):
    b = builder.gather(a, i)
    program = builder.build()
    builder.flip(b, 0)
    assert len(program) == 1
    assert program.outputs == (b,)
    assert re.match("<program", repr(builder.build()))


def test_outputs_may_be_one_variable_or_its_name(builder, a, i):
    taken = builder.gather(a, i, name="taken")
    builder.flip(taken, 0)
    assert builder.build(outputs=taken).outputs == builder.build(outputs="taken").outputs == (taken,)


def test_every_operator_has_a_method_with_its_attributes_and_their_names_in_cinn():
    for name, operator in BY_NAME.items():
        parameters = inspect.signature(vars(NetBuilder)[name]).parameters
        assert {attribute.name for attribute in operator.attributes} <= {*parameters}, name
    assert str(inspect.signature(NetBuilder("net").flip)).startswith("(x, axis=None, *, dim=None, dims=None,")


def test_index_select_takes_its_axis_by_position_or_by_either_name(builder, a):
    chosen = builder.create_input(Int(32), (5,), "chosen")
    x, index = np.arange(8 * 24, dtype=np.float32).reshape(8, 24), np.array([3, 0, -1, 23, 3], np.int32)
    calls = [
        builder.index_select(a, chosen, 1),
        builder.index_select(a, index=chosen, axis=1),
        builder.index_select(a, chosen, dim=-1),
    ]
    found = builder.build("mlu370-x4", outputs=calls).execute({"A": x, "chosen": index})
    for variable in calls:
        assert np.array_equal(found[variable], np.take(x, index, axis=1))


def test_the_forward_operator_has_the_name_of_its_command(builder):
    x, shifts = builder.create_input(Float(32), (1, 2, 4, 3), "x"), builder.create_input(Int(32), (1, 2), "shifts")
    assert builder.tin_shift(x, shifts).shape == (1, 2, 4, 3)


def test_an_unknown_operator_lists_the_operators(builder):
    with pytest.raises(
        AttributeError, match=r"^a net has no operator or attribute 'softmax'; its operators are .*, flip,"
    ):
        builder.softmax()


def test_a_net_its_program_and_its_result_can_be_pickled(builder):
    x = builder.create_input(Float(32), (4, 3), "x")
    index = builder.create_input(Int(32), (2, 3), "index")
    flipped = builder.flip(x, 0)
    builder.gather(flipped, index, name="out")
    data = {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "index": np.array([[0, 1, 2], [3, 0, 0]], np.int32)}
    program = builder.build()
    result = program.execute(data)
    again = pickle.loads(pickle.dumps(result))
    assert (again.time_ps, again.bus_bytes) == (result.time_ps, result.bus_bytes)
    for copied in (pickle.loads(pickle.dumps(program)), pickle.loads(pickle.dumps(builder)).build()):
        np.testing.assert_array_equal(
            copied.execute(data)["out"], np.take_along_axis(data["x"][::-1], data["index"], 0)
        )


def test_an_element_type_without_its_width_is_an_error_that_names_one(builder, a):
    message = "dtype <function Float> is not an element type; call it, as in Float(32); "
    with pytest.raises(InputError, match=re.escape(message)):
        builder.cast(a, Float)
