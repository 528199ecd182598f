"""Nets on the simulated board: results compared with NumPy, one device, figures per operator and in total."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import mlusim
from mlusim import ops
from mlusim.cinn import BFloat16, Bool, Float, Int, NetBuilder, UInt
from mlusim.errors import InputError
from mlusim.explore.explanation import explain
from mlusim.units import ps_to_cycles

# A longer net


def long_net():
    builder = NetBuilder("long")
    x = builder.create_input(Float(32), (6, 40), "x")
    i = builder.create_input(Int(64), (5, 40), "i")
    lengths = builder.create_input(Int(32), (5,), "lengths")
    picked = builder.gather(x, i, axis=0, name="picked")
    turned = builder.reverse_sequence(picked, lengths, name="turned")
    half = builder.cast(turned, BFloat16(), name="half")
    halves = builder.bitcast_convert(half, UInt(8), name="bytes")
    back = builder.flip(halves, [0, 2], name="back")
    builder.cast(back, Bool(), name="flags")
    rng = np.random.default_rng(7)
    arrays = {
        "x": rng.standard_normal((6, 40)).astype(np.float32),
        "i": rng.integers(-6, 6, (5, 40)),
        "lengths": np.array([0, 1, 40, 17, 99], np.int32),
    }
    return builder, arrays


def expected_of_long_net(arrays):
    picked = np.take_along_axis(arrays["x"], arrays["i"] % 6, 0)
    turned = picked.copy()
    for row, length in enumerate(np.clip(arrays["lengths"], 0, 40)):
        turned[row, :length] = picked[row, :length][::-1]
    half = turned.astype(BFloat16().numpy_dtype)
    back = half.view(np.uint8).reshape(5, 40, 2)[::-1, :, ::-1]
    return {"picked": picked, "turned": turned, "half": half, "back": back, "flags": back != 0}


def test_a_net_matches_numpy():
    builder, arrays = long_net()
    expected = expected_of_long_net(arrays)
    result = builder.build(outputs=list(expected)).execute(arrays)
    assert list(result.outputs) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(result[name], array, err_msg=name)


def test_by_default_outputs_are_the_variables_that_no_operator_consumes():
    builder, arrays = long_net()
    result = builder.build().execute(arrays)
    assert list(result.outputs) == ["flags"]
    with pytest.raises(InputError, match="net 'long' has no output 'half': it has flags; build"):
        result["half"]


@pytest.mark.parametrize("target", ["mlu370-x4", "mlu590-h8", "mlu270-s4"])
def test_each_step_reports_the_figures_of_its_operator(target):
    builder, arrays = long_net()
    result = builder.build(target, outputs=["picked", "turned", "half", "back", "flags"]).execute(arrays)
    alone = {
        "picked": ops.gather(arrays["x"], arrays["i"], device=target),
        "turned": ops.reverse_sequence(result["picked"], arrays["lengths"], device=target),
        "half": ops.cast(result["turned"], "bfloat16", device=target),
        "back": ops.flip(np.ascontiguousarray(result["half"]).view(np.uint8).reshape(5, 40, 2), [0, 2], device=target),
        "flags": ops.cast(result["back"], bool, device=target),
    }
    steps = {step.name: step.result for step in result.steps}
    assert list(steps) == ["picked", "turned", "half", "bytes", "back", "flags"]
    assert (steps["bytes"].time_ps, steps["bytes"].bytes_requested, steps["bytes"].plan.tier) == (0, {}, 0)
    for name, expected in alone.items():
        assert steps[name].bus_bytes == expected.bus_bytes, name
        assert steps[name].bytes_requested == expected.bytes_requested, name
        assert steps[name].cycles == expected.cycles, name
        assert steps[name].metrics.compulsory_bytes == expected.metrics.compulsory_bytes, name
        np.testing.assert_array_equal(result[name], expected.output, err_msg=name)


def test_totals_are_sums_of_steps_plus_gaps():
    builder, arrays = long_net()
    result = builder.build().execute(arrays)
    board = result.board
    launched = [step.result for step in result.steps if step.result.time_ps]
    assert len(launched) == len(result.log.launches) == 5
    gaps_ps = board.queued_kernel_gap_ps * (len(launched) - 1)
    assert result.time_ps == sum(step.time_ps for step in launched) + gaps_ps
    assert result.cycles == ps_to_cycles(result.time_ps, board.clock_hz)
    for side in ("read", "write"):
        assert result.bus_bytes[side] == sum(step.bus_bytes[side] for step in launched)
    for direction, total in result.bytes_requested.items():
        assert total == sum(step.bytes_requested.get(direction, 0) for step in launched)
    assert result.metrics.compulsory_bytes == {"read": 6 * 40 * 4 + 5 * 40 * 8 + 5 * 4, "write": 5 * 40 * 2}
    assert result.metrics.theory_io_bytes == sum(result.metrics.compulsory_bytes.values())
    seconds = result.time_ps / 10**12
    expected = result.metrics.theory_io_bytes / seconds / board.dram_bandwidth_bytes_per_s
    assert result.io_efficiency == pytest.approx(expected)


def test_of_a_table_only_the_rows_that_are_looked_up_are_compulsory():
    builder = NetBuilder("lookup")
    table, index = builder.create_input(Float(32), (64, 64), "table"), builder.create_input(Int(32), (8,), "index")
    builder.index_select(table, index)
    arrays = {"table": np.zeros((64, 64), np.float32), "index": np.array([3, 5] * 4, np.int32)}
    metrics = builder.build().execute(arrays).metrics
    assert metrics.compulsory_bytes == {"read": 2 * 64 * 4 + 8 * 4, "write": 8 * 64 * 4}
    assert metrics.theory_io_bytes == 64 * 64 * 4 + 8 * 4 + 8 * 64 * 4


def test_a_saved_net_has_the_figures_of_the_net(tmp_path):
    builder, arrays = long_net()
    result = builder.build().execute(arrays)
    loaded = mlusim.load(result.save(tmp_path / "net.zip"))
    assert (loaded.operator, loaded.time_ps, loaded.output) == (result.name, result.time_ps, None)
    assert loaded.metrics.compulsory_bytes == result.metrics.compulsory_bytes
    assert loaded.io_efficiency == result.io_efficiency
    assert loaded.compute_efficiency == result.metrics.compute_efficiency
    assert explain(result).above_ps == explain(loaded).above_ps == loaded.time_ps - loaded.lower_bound.time_ps > 0


def test_a_net_holds_no_more_memory_than_it_needs():
    builder = NetBuilder("chain")
    x = builder.create_input(Float(32), (1024,), "x")
    for _ in range(8):
        x = builder.flip(x, 0)
    result = builder.build().execute({"x": np.arange(1024, dtype=np.float32)})
    tensors = [record for record in result.log.allocations if record.memory == "gdram" and record.task == -1]
    assert len(tensors) == 9
    assert len({record.address for record in tensors}) <= 3
    assert all(record.end_ps >= 0 for record in tensors)


def test_inputs_are_uploaded_once_and_never_written(builder):
    x = builder.create_input(Int(32), (4, 8), "x")
    i = builder.create_input(Int(32), (4, 8), "i")
    once = builder.scatter(x, i, x, name="once")
    builder.scatter(x, i, once, axis=1, name="twice")
    data, index = np.arange(32, dtype=np.int32).reshape(4, 8), np.zeros((4, 8), np.int32)
    before = data.copy()
    result = builder.build(outputs=["once", "twice"]).execute({"x": data, "i": index})
    np.testing.assert_array_equal(data, before)
    expected = before.copy()
    expected[0] = before[3]
    np.testing.assert_array_equal(result["once"], expected)
    second = before.copy()
    second[:, 0] = expected[:, 7]
    np.testing.assert_array_equal(result["twice"], second)
    assert [record.name for record in result.log.allocations if record.read_only] == ["x", "i"]
    assert [record.name for record in result.steps[0].result.log.allocations if record.task == -1] == ["x", "i", "once"]


def test_outputs_do_not_alias_the_inputs(builder):
    x = builder.create_input(Float(32), (4,), "x")
    bits = builder.bitcast_convert(x, Int(32))
    data = np.ones(4, np.float32)
    result = builder.build(outputs=[x, bits]).execute({"x": data})
    data[:] = 0
    assert result[x].tolist() == [1] * 4
    assert result[bits].tolist() == [0x3F800000] * 4


def test_a_view_keeps_its_base_memory_alive(builder):
    x = builder.create_input(Int(32), (64,), "x")
    first = builder.flip(x, 0)
    seen = builder.bitcast_convert(first, UInt(8))
    builder.flip(x, 0, name="other")  # takes the memory of `first`, if that were free
    last = builder.flip(seen, 1)
    data = np.arange(64, dtype=np.int32)
    result = builder.build(outputs=[last]).execute({"x": data})
    np.testing.assert_array_equal(result[last], data[::-1].copy().view(np.uint8).reshape(64, 4)[:, ::-1])


@pytest.mark.parametrize("strided", [lambda array: array[::-1], np.asfortranarray, lambda array: array.astype(">f4")])
def test_inputs_of_any_strides_and_byte_order(builder, strided):
    x = builder.create_input(Float(32), (4, 6), "x")
    out = builder.flip(x, 0)
    data = strided(np.arange(24, dtype=np.float32).reshape(4, 6))
    np.testing.assert_array_equal(builder.build().execute({"x": data})[out], data[::-1])


def test_index_values_of_an_intermediate_are_checked_before_the_launch(builder):
    x = builder.create_input(Float(32), (4, 6), "x")
    f = builder.create_input(Float(32), (4, 6), "f")
    i = builder.cast(f, Int(32), name="i")
    picked = builder.gather(x, i, name="picked")
    program = builder.build()
    data, index = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32), np.zeros((4, 6), np.float32)
    index[2, 3] = -4
    np.testing.assert_array_equal(
        program.execute({"x": data, "f": index})[picked], np.take_along_axis(data, index.astype(int), 0)
    )
    index[2, 3] = 4
    message = r"^gather\(x, index=i, axis=0\) in net 'test_basic', with x: float32 \[4, 6\] and i: int32 \[4, 6\]: .*4"
    with pytest.raises(InputError, match=message) as caught:
        program.execute({"x": data, "f": index})
    assert "2, 3" in str(caught.value)


@pytest.mark.parametrize("strategy", ["pingpong", "serial"])
def test_strategies_by_operator(builder, strategy):
    x = builder.create_input(Float(32), (4096,), "x")
    out = builder.cast(x, "float16", strategy=strategy)
    data = np.linspace(0, 1, 4096, dtype=np.float32)
    result = builder.build().execute({"x": data})
    assert result.steps[0].result.plan.strategy == strategy
    np.testing.assert_array_equal(result[out], data.astype(np.float16))


@pytest.mark.parametrize("check", [None, True])
def test_bitcast_as_a_copy(builder, check):
    x = builder.create_input(Float(32), (4, 6), "x")
    copied = builder.bitcast_convert(x, Int(32), strategy="copy")
    data = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    result = builder.build().execute({"x": data}, check=check)
    assert result[copied].tobytes() == data.tobytes()
    assert result.steps[0].result.bytes_requested == {"GDRAM2NRAM": 96, "NRAM2GDRAM": 96}


def test_rank_0_and_no_elements(builder):
    scalar = builder.create_input(Float(32), (), "scalar")
    empty = builder.create_input(Int(32), (0, 3), "empty")
    x = builder.create_input(Float(32), (2, 3), "x")
    nothing = builder.gather(x, empty)
    outputs = [builder.flip(scalar, []), builder.cast(scalar, Int(8)), nothing, builder.flip(nothing, 1)]
    given = {"scalar": np.float32(2.5), "empty": np.zeros((0, 3), np.int32), "x": np.zeros((2, 3), np.float32)}
    result = builder.build(outputs=outputs).execute(given)
    assert result[outputs[0]].shape == ()
    assert result[outputs[0]] == 2.5
    assert result[outputs[1]] == 2
    assert [result[variable].shape for variable in outputs[2:]] == [(0, 3), (0, 3)]


@st.composite
def nets(draw):
    """A chain of operators on a small matrix, beside what NumPy makes of it."""
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 9)))
    array = np.random.default_rng(draw(st.integers(0, 99))).integers(-100, 100, shape).astype(np.int16)
    builder = NetBuilder("random")
    x = builder.create_input(Int(16), shape, "x")
    arrays, expected = {"x": array}, {}
    for position in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["flip", "gather", "scatter", "cast", "bitcast"]))
        axis = draw(st.integers(-array.ndim, array.ndim - 1))
        if kind in {"gather", "scatter"}:
            index = np.random.default_rng(position).integers(-array.shape[axis], array.shape[axis], array.shape)
            given = builder.create_input(Int(64), array.shape, f"index_{position}")
            arrays[given.name] = index
        if kind == "flip":
            x, array = builder.flip(x, axis), np.flip(array, axis)
        elif kind == "gather":
            x, array = builder.gather(x, given, axis), np.take_along_axis(array, index, axis)
        elif kind == "scatter":
            x, source, array = builder.scatter(x, given, x, axis), array, array.copy()
            np.put_along_axis(array, index, source, axis)
        elif kind == "cast":
            wanted = draw(st.sampled_from([np.int8, np.int16, np.int32, np.uint8]))
            x, array = builder.cast(x, wanted), array.astype(wanted)
        elif array.ndim < 4:
            array = np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.itemsize)
            array = array[..., 0] if array.shape[-1] == 1 else array
            x = builder.bitcast_convert(x, UInt(8))
        expected[x.name] = array
    return builder, arrays, expected


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(nets())
def test_any_chain_of_operators_matches_numpy(net):
    builder, arrays, expected = net
    result = builder.build(outputs=list(expected)).execute(arrays)
    for name, array in expected.items():
        np.testing.assert_array_equal(result[name], array, err_msg=str(builder))


def test_timing_only():
    builder, arrays = long_net()
    program = builder.build()
    timed, full = program.execute(arrays, data=False), program.execute(arrays)
    assert timed.outputs == {}
    assert [step.result.cycles for step in timed.steps] == [step.result.cycles for step in full.steps]
    assert timed.bus_bytes == full.bus_bytes
    with pytest.raises(InputError, match="has no output 'flags': the run was timing-only"):
        timed["flags"]


def test_timing_only_has_no_values_of_an_intermediate_index(builder):
    x = builder.create_input(Float(32), (4, 6), "x")
    f = builder.create_input(Float(32), (4, 6), "f")
    builder.gather(x, builder.cast(f, Int(32), name="i"))
    given = {"x": np.zeros((4, 6), np.float32), "f": np.zeros((4, 6), np.float32)}
    with pytest.raises(InputError, match=r"^gather\(x, index=i, axis=0\) .*: i is computed in the net, and a timing"):
        builder.build().execute(given, data=False)


def test_timing_only_index_by_way_of_a_view(builder):
    x = builder.create_input(Float(32), (4, 6), "x")
    bits = builder.create_input(UInt(8), (4, 6, 4), "bits")
    builder.gather(x, builder.bitcast_convert(bits, Int(32)))
    given = {"x": np.zeros((4, 6), np.float32), "bits": np.zeros((4, 6, 4), np.uint8)}
    assert builder.build().execute(given, data=False).cycles > 0


def test_print_of_a_result(builder):
    x = builder.create_input(Float(32), (4, 6), "x")
    builder.bitcast_convert(builder.flip(x, 0, name="turned"), UInt(8), name="bytes")
    result = builder.build().execute({"x": np.zeros((4, 6), np.float32)})
    title, header, turned, seen, total = str(result).splitlines()
    assert title == "net 'test_basic' on mlu370-x4"
    assert header.split("  ")[1] == "output"
    assert "turned: float32 [4, 6]" in turned
    assert f"{result.steps[0].result.time_us:.2f}" in turned
    assert "bitcast_convert(turned, dtype=uint8)" in seen
    assert seen.split()[-4:] == ["0.00", "0", "0", "0"]
    assert total.split()[0] == "total"
    assert f"{result.time_us:.2f}" in total
    assert repr(result).startswith("<result of net 'test_basic' on mlu370-x4: ")


def test_two_runs_are_bitwise_equal():
    builder, arrays = long_net()
    program = builder.build(mlusim.board("mlu590-h8"))
    first, second = program.execute(arrays), program.execute(arrays)
    np.testing.assert_array_equal(first.log.table(), second.log.table())


def test_attributes_of_the_standards(builder):
    """ONNX's batch_dims and saturate."""
    table = np.arange(24, dtype=np.float32).reshape(2, 3, 4) * 100
    rows = np.array([[[2], [0]], [[1], [1]]], np.int32)
    x, index = builder.create_input(Float(32), (2, 3, 4), "x"), builder.create_input(Int(32), (2, 2, 1), "index")
    taken = builder.gather_nd(x, index, mode="standard", batch_dims=1)
    small = builder.cast(x, "float8_e4m3fn", saturate=True)
    result = builder.build(outputs=[taken, small]).execute({"x": table, "index": rows})
    assert (result[taken] == np.stack([table[0, [2, 0]], table[1, [1, 1]]])).all()
    assert float(result[small].max()) == 448
