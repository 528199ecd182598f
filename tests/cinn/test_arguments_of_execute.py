"""The arguments of `execute`: inputs by name or by variable, and options."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim.cinn import Float, Int, NetBuilder
from mlusim.errors import InputError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "net 'test_basic': input 'x', 'i' is missing: execute"),
        ([], r"net 'test_basic': inputs of type list have no names: execute\({name: array, ...}\), for x, i"),
        ({"x": 0}, r"input 'x' is int64 \[\] and was declared as float32 \[4, 6\]: pass it as declared"),
        ({"x": np.zeros((4, 6))}, r"input 'x' is float64 \[4, 6\] and was declared as float32 \[4, 6\]"),
        ({"x": np.zeros((6, 4), np.float32)}, r"input 'x' is float32 \[6, 4\] and was declared as float32 \[4, 6\]"),
        ({"z": 0}, "net 'test_basic' has no input 'z': its inputs are x, i, unused"),
        ({"picked": 0}, "net 'test_basic' has no input 'picked'"),
    ],
)
def test_faults_of_the_inputs(builder, given, message):
    x = builder.create_input(Float(32), (4, 6), "x")
    i = builder.create_input(Int(32), (4, 6), "i")
    builder.create_input(Int(32), (1,), "unused")
    builder.gather(x, i, name="picked")
    with pytest.raises(InputError, match=message):
        builder.build().execute(given)


def test_inputs_by_variable_and_unused_ones(builder):
    x = builder.create_input(Float(32), (4,), "x")
    unused = builder.create_input(Int(32), (1,), "unused")
    out = builder.flip(x, 0)
    program = builder.build()
    data = np.arange(4, dtype=np.float32)
    for given in ({x: data}, {"x": data, unused: np.zeros(1, np.int32)}):
        assert program.execute(given)[out].tolist() == [3, 2, 1, 0]
    with pytest.raises(InputError, match=r"input 'x' is given twice, by name and as a variable: give it once$"):
        program.execute({"x": data, x: data})
    with pytest.raises(mlusim.ArgumentsError, match=r"^execute takes inputs by position, and 2 values were passed"):
        program.execute(data, data)
    with pytest.raises(
        InputError, match=r"an index of gather is int32 or int64; pass x\.astype\('int64'\), or in a net buil"
    ):
        builder.gather(x, x, axis=0)
    with pytest.raises(InputError, match=r"^NetBuilder: name='' is empty"):
        NetBuilder("")
    stranger = NetBuilder("other").create_input(Float(32), (4,), "x")
    with pytest.raises(InputError, match=r"has no input x: float32 \[4\]"):
        program.execute({stranger: data})


def test_the_board_of_a_program_is_that_of_build(builder):
    x = builder.create_input(Float(32), (4,), "x")
    builder.flip(x, 0)
    with pytest.raises(
        InputError, match=r"^net 'test_basic': a program is built for its board: builder\.build\(device\)$"
    ):
        builder.build().execute({"x": np.zeros(4, np.float32)}, device="mlu590-h8")


def test_options_that_a_net_does_not_have(builder):
    x = builder.create_input(Float(32), (4,), "x")
    builder.flip(x, 0)
    data = {"x": np.zeros(4, np.float32)}
    with pytest.raises(
        InputError, match=r"^net 'test_basic': steady=True is for an operator of its own, as in mlusim\.ops$"
    ):
        builder.build().execute(data, data=False, steady=True)
    assert builder.build().execute(data, data=False, steady=False).time_ps
    with pytest.raises(TypeError, match=r"^execute has no argument 'chek': did you mean check\? it has data, dma"):
        builder.build().execute(data, chek=True)
    with pytest.raises(InputError, match=r"^check=5: choose True or False$"):
        builder.build().execute(data, check=5)
