"""The kernels of gather compared with NumPy, in each tier and strategy, with and without the gather instruction."""

from __future__ import annotations

import numpy as np
import pytest

from mlusim import ops
from mlusim.errors import InputError
from mlusim.hardware import board
from mlusim.units import round_up
from operator_runs import BOARDS, any_bits, on, opaque, operations, same_bits

# Elements of 1, 2, 4, 8 and 16 bytes; of 2 the one whose NaN would show that something converts.
DTYPES = ("bool", "int8", "float16", "float32", "int64", "complex128")


@pytest.mark.grid(6)
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("strategy", "tier"), [("slab", 1), ("slab", 2), ("rows", 3)])
def test_each_tier(name, dtype, wide, strategy, tier):
    """A slab of 100 elements, with room beside it for all 400 lookups of a unit or for some."""
    rng = np.random.default_rng(3)
    x = any_bits(rng, (8, 100), dtype)
    index = rng.integers(-100, 100, (8, 400)).astype("int64" if wide else "int32")
    slab_bytes = round_up(100 * x.itemsize, 128)
    device = on(name, slab_bytes + (1 << 15 if tier == 1 else 7 * 128), clusters=1, cores_per_cluster=4)
    result = ops.gather(x, index, 1, device=device, strategy=strategy)
    assert result.plan.tier == tier
    assert same_bits(result, np.take_along_axis(opaque(x), index.astype(np.int64) % 100, 1))


@pytest.mark.grid(8)
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("nram_bytes", [None, 3072])
@pytest.mark.parametrize("strategy", ["auto", "slab", "rows"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "int64"])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_rows_by_tuples(name, nram_bytes, strategy, dtype, columns):
    rng = np.random.default_rng(columns)
    x = any_bits(rng, (3, 4, 21), dtype)
    index = np.stack([rng.integers(-extent, extent, (6, 5)) for extent in x.shape[:columns]], axis=-1)
    result = ops.gather_nd(x, index, mode="standard", device=on(name, nram_bytes), strategy=strategy)
    assert same_bits(result, opaque(x)[tuple(np.moveaxis(index, -1, 0))])


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("nram_bytes", [None, 2048])
@pytest.mark.parametrize("strategy", ["auto", "slab", "rows"])
def test_two_axes_chosen_around_a_shared_one(name, nram_bytes, strategy):
    rng = np.random.default_rng(9)
    x = any_bits(rng, (6, 5, 9), "int16")
    index = np.stack([rng.integers(-6, 6, (7, 4, 11)), rng.integers(-9, 9, (7, 4, 11))], axis=-1)
    result = ops.gather_nd(x, index, axes=[0, 2], device=on(name, nram_bytes), strategy=strategy)
    assert same_bits(result, x[index[..., 0], np.arange(4)[None, :, None], index[..., 1]])


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", ["mlu370-x4", "mlu590-h8"])
@pytest.mark.parametrize("strategy", ["slab", "rows"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_the_instruction_of_arch_592_and_the_loop_before_it(name, strategy, dtype):
    """The same board with and without it: equal bits; one operation per tile instead of one for N instructions."""
    rng = np.random.default_rng(4)
    x = any_bits(rng, (8, 3000), dtype)
    index = rng.integers(-3000, 3000, (8, 500)).astype(np.int32)
    expected = np.take_along_axis(opaque(x), index.astype(np.int64) % 3000, 1)
    with_it = ops.gather(x, index, 1, device=on(name, arch=592), strategy=strategy)
    without = ops.gather(x, index, 1, device=on(name, arch=322), strategy=strategy)
    assert same_bits(with_it, expected)
    assert same_bits(without, expected)
    assert operations(with_it)["gather"] == len(with_it.plan.tiles)
    assert "gather" not in operations(without)
    loop = "scalar_copy" if strategy == "slab" else "memcpy_rows"
    assert operations(without)[loop] == len(without.plan.tiles)
    if strategy == "slab":
        # For rows of GDRAM the DRAM decides, not who issues the copies.
        assert with_it.time_ps < without.time_ps


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("strategy", ["auto", "slab", "rows"])
@pytest.mark.parametrize(("x", "index"), [((0, 3), (0, 3)), ((4, 0), (5, 0)), ((4, 3), (0, 3)), ((4, 3), (2, 0))])
def test_nothing_is_launched_for_no_elements(name, strategy, x, index):
    result = ops.gather(np.zeros(x, np.float32), np.zeros(index, np.int32), 0, device=name, strategy=strategy)
    assert result.output.shape == index
    assert (len(result.log), result.time_ps) == (0, 0)


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("strategy", ["slab", "rows"])
def test_one_row_gathered_by_every_core(name, strategy):
    x = np.arange(500, dtype=np.int16)
    result = ops.gather(x, np.full(40_000, -1), 0, device=name, strategy=strategy)
    assert np.array_equal(result.output, np.full(40_000, 499, np.int16))
    assert len(set(result.plan.tiles.task.tolist())) == board(name).cores


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("strategy", ["slab", "rows"])
def test_every_byte_is_moved(name, strategy):
    """Loads are the index and at least every element of x that is looked up; stores are the output, each byte once."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((16, 300)).astype(np.float32)
    index = rng.integers(0, 300, (16, 200)).astype(np.int32)
    result = ops.gather(x, index, 1, device=name, strategy=strategy)
    requested = result.bytes_requested
    assert requested["NRAM2GDRAM"] == index.size * 4
    least = index.nbytes + (x.nbytes if strategy == "slab" else index.size * 4)
    assert requested["GDRAM2NRAM"] >= least


@pytest.mark.parametrize("strategy", ["auto", "slab", "rows"])
@pytest.mark.parametrize("bad", [40, -41, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("place", [(0, 0), (2, 4)])
def test_an_index_out_of_range_is_found_before_anything_runs(monkeypatch, strategy, bad, place):
    def launched(*_, **__):
        pytest.fail("something was launched")

    monkeypatch.setattr("mlusim.ops.call.Device", launched)
    x = np.zeros((3, 40), np.float32)
    index = np.zeros((3, 5), np.int32)
    index[place] = bad
    with pytest.raises(InputError, match=rf"gather: index\[{place[0]}, {place[1]}\] = {bad}: axis 1 of x has 40"):
        ops.gather(x, index, 1, strategy=strategy)
    tuples = np.stack([np.zeros_like(index), index], axis=-1)
    with pytest.raises(InputError, match=rf"gather_nd: index\[{place[0]}, {place[1]}, 1\] = {bad}: axis 1 of x"):
        ops.gather_nd(x, tuples, mode="standard", strategy=strategy)
