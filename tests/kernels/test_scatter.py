"""The kernels of scatter compared with NumPy: each tier and strategy, with and without the scatter instruction."""

from __future__ import annotations

import numpy as np
import pytest

from mlusim import ops
from mlusim.errors import InputError, PlanError
from mlusim.units import round_up
from operator_runs import BOARDS, any_bits, on, opaque, operations, same_bits, scattered

# What strategy "bins" sorts with.
SORTING = ("mlu370-x4", "mlu590-h8")
WAYS = [
    (name, strategy)
    for name in BOARDS
    for strategy in ("slab", "rows", "bins")
    if strategy != "bins" or name in SORTING
]
# Elements of 1, 2, 4, 8 and 16 bytes.
DTYPES = ("bool", "int8", "float16", "float32", "int64", "complex128")


def put_rows(x, index, src):
    out, src = opaque(x).copy(), opaque(src)
    for place in np.ndindex(index.shape[:-1]):
        out[tuple(index[place])] = src[place]
    return out


@pytest.mark.grid(6)
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("strategy", "tier"), [("slab", 1), ("slab", 2), ("rows", 3), ("bins", 1), ("bins", 2)])
def test_each_tier(name, dtype, wide, strategy, tier):
    """A unit of 4000 elements, in NRAM that takes it whole or not."""
    if strategy == "bins" and name not in SORTING:
        pytest.skip("sorting takes vector operands of any length")
    rng = np.random.default_rng(3)
    units = 1 if strategy == "bins" else 8
    x = any_bits(rng, (units, 4000), dtype)
    index = rng.integers(-4000, 4000, (units, 60)).astype("int64" if wide else "int32")
    index[:, ::3] = -1
    src = any_bits(rng, (units, 61), dtype)
    room = 1 << 18 if tier == 1 else round_up(4000 * x.itemsize, 128) + 128
    # Instructions that start slowly make whole units the fastest, whatever the calibration says.
    cores = 1 if strategy == "bins" or tier == 1 else 4
    device = on(name, room, clusters=1, cores_per_cluster=cores, vector_startup_cycles=64)
    result = ops.scatter(x, index, src, 1, device=device, strategy=strategy)
    assert result.plan.tier == tier
    assert same_bits(result, scattered(x, index, src, 1))


@pytest.mark.parametrize("nram_bytes", [1600, 1000])
@pytest.mark.parametrize("updates", [0, 20])
def test_nram_that_is_not_a_multiple_of_its_alignment(nram_bytes, updates):
    x = np.arange(5000, dtype=np.int64)
    index = np.full(updates, 7)
    result = ops.scatter(x, index, np.arange(updates), 0, device=on("mlu370-x4", nram_bytes), strategy="rows")
    assert result.output[7] == (updates - 1 if updates else 7)
    assert np.array_equal(np.delete(result.output, 7), np.delete(x, 7))


@pytest.mark.grid(6)
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("nram_bytes", [None, 4096, 1536])
@pytest.mark.parametrize("strategy", ["auto", "rows"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_each_axis(name, nram_bytes, strategy, axis):
    rng = np.random.default_rng(axis)
    x = any_bits(rng, (5, 7, 33), "float32")
    index_shape = [4, 6, 20]
    index_shape[axis] = 30
    index = rng.integers(-x.shape[axis], x.shape[axis], index_shape)
    src = any_bits(rng, tuple(index_shape), "float32")
    result = ops.scatter(x, index, src, axis, device=on(name, nram_bytes), strategy=strategy)
    assert same_bits(result, scattered(x, index, src, axis))


@pytest.mark.grid(8)
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("nram_bytes", [None, 2560])
@pytest.mark.parametrize("strategy", ["auto", "slab", "rows"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "int64"])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_rows_by_tuples(name, nram_bytes, strategy, dtype, columns):
    rng = np.random.default_rng(columns)
    x = any_bits(rng, (3, 4, 21), dtype)
    index = np.stack([rng.integers(-extent, extent, (6, 5)) for extent in x.shape[:columns]], axis=-1)
    src = any_bits(rng, (6, 5, *x.shape[columns:]), dtype)
    result = ops.scatter_nd(x, index, src, mode="standard", device=on(name, nram_bytes), strategy=strategy)
    assert same_bits(result, put_rows(x, index, src))


@pytest.mark.grid(3)
@pytest.mark.parametrize(("name", "strategy"), WAYS)
@pytest.mark.parametrize("nram_bytes", [None, 3072])
def test_two_axes_chosen_around_a_shared_one(name, strategy, nram_bytes):
    rng = np.random.default_rng(9)
    x = any_bits(rng, (6, 5, 9), "int16")
    index = np.stack([rng.integers(-6, 6, (7, 4, 11)), rng.integers(-9, 9, (7, 4, 11))], axis=-1)
    src = any_bits(rng, (7, 4, 11), "int16")
    result = ops.scatter_nd(x, index, src, axes=[0, 2], device=on(name, nram_bytes), strategy=strategy)
    expected = x.copy()
    for place in np.ndindex(src.shape):
        expected[index[place][0], place[1], index[place][1]] = src[place]
    assert same_bits(result, expected)


@pytest.mark.grid(6)
@pytest.mark.parametrize("name", SORTING)
@pytest.mark.parametrize("strategy", ["slab", "rows", "bins"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_the_instruction_of_arch_592_and_the_loop_before_it(name, strategy, dtype):
    """The same board with and without, on rows of x that stay whole: equal bits."""
    rng = np.random.default_rng(4)
    x = any_bits(rng, (48, 600), dtype)
    index = rng.integers(-600, 600, (48, 500)).astype(np.int32)
    src = any_bits(rng, index.shape, dtype)
    expected = scattered(x, index, src, 1)
    # Two cores, so that no core has a part of a row.
    with_it, without = (
        ops.scatter(x, index, src, 1, device=on(name, arch=arch, clusters=1, cores_per_cluster=2), strategy=strategy)
        for arch in (592, 322)
    )
    assert same_bits(with_it, expected)
    assert same_bits(without, expected)
    loop = "memcpy_rows" if strategy == "rows" else "scalar_copy"
    # How many differs: the lists of the instruction take NRAM, so the planner cuts otherwise with it.
    assert operations(with_it)["scatter"]
    assert operations(without)[loop]
    assert loop not in operations(with_it)
    assert "scatter" not in operations(without)
    if strategy != "rows":
        # For elements of GDRAM the DRAM decides, not who issues the copies.
        assert with_it.time_ps < without.time_ps


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
@pytest.mark.parametrize("wide", [False, True])
def test_row_numbers_by_vector_instructions_or_by_the_loop(dtype, wide):
    """Before arch 592, on rows of x that stay whole: whichever is faster, with equal bits."""
    rng = np.random.default_rng(5)
    x = any_bits(rng, (48, 600), dtype)
    index = rng.integers(-600, 600, (48, 500)).astype("int64" if wide else "int32")
    src = any_bits(rng, index.shape, dtype)
    cores = {"clusters": 1, "cores_per_cluster": 2}
    by_vector, by_loop = (
        ops.scatter(x, index, src, 1, device=on("mlu370-x4", vector_startup_cycles=cycles, **cores), strategy="slab")
        for cycles in (64, 100_000)
    )
    assert same_bits(by_vector, scattered(x, index, src, 1))
    assert same_bits(by_loop, by_vector.output)
    assert by_vector.plan.parameters.index_arithmetic.numbered
    assert operations(by_vector)["minequal"] == operations(by_vector)["scalar_copy"]
    assert not by_loop.plan.parameters.index_arithmetic.numbered
    assert "minequal" not in operations(by_loop)


@pytest.mark.parametrize(("name", "strategy"), [*WAYS, *((name, "auto") for name in BOARDS)])
@pytest.mark.parametrize(("x", "index"), [((0, 3), (0, 3)), ((4, 0), (5, 0)), ((4, 3), (0, 3)), ((4, 3), (2, 0))])
def test_no_elements_and_no_updates(name, strategy, x, index):
    given = np.arange(x[0] * x[1], dtype=np.float32).reshape(x)
    index = np.zeros(index, np.int32)
    result = ops.scatter(given, index, np.ones(index.shape, np.float32), 0, device=name, strategy=strategy)
    assert np.array_equal(result.output, given)
    assert result.output.shape == x
    assert (len(result.log) == 0) == (given.size == 0)


class TestLastWins:
    """Of several updates of one element, the last in row-major order wins, although cores apply them in parallel."""

    @staticmethod
    def writer(plan, place):
        """The task that an element of a single row belongs to."""
        inside = (plan.tiles.start[:, -1] <= place) & (place < plan.tiles.stop[:, -1])
        (task,) = plan.tiles.task[inside]
        return int(task)

    @pytest.mark.slow
    @pytest.mark.parametrize(("name", "strategy"), WAYS)
    @pytest.mark.parametrize("dma", ["complete", "late"])
    @pytest.mark.parametrize("nram_bytes", [None, 8192])
    def test_thousands_of_updates_of_four_elements(self, name, strategy, dma, nram_bytes):
        """The elements are far apart, in the parts of different cores, and each has thousands of updates."""
        rng = np.random.default_rng(5)
        x = np.full((1, 6000), -1, np.float32)
        index = rng.integers(0, 4, (1, 12_000)).astype(np.int32) * 1999
        src = np.arange(index.size, dtype=np.float32).reshape(index.shape)
        assert min(np.bincount(index[0])[::1999]) > 2000
        result = ops.scatter(x, index, src, 1, device=on(name, nram_bytes), strategy=strategy, dma=dma, check=True)
        expected = x.copy()
        for place in range(0, 6000, 1999):
            expected[0, place] = np.flatnonzero(index[0] == place)[-1]
        assert np.array_equal(result.output, expected)
        assert len({self.writer(result.plan, place) for place in range(0, 6000, 1999)}) == 4

    def test_updates_of_one_element_are_applied_in_order(self):
        """With "bins", the updates of one element are in all chunks, and the chunks are assigned to all cores."""
        x = np.zeros((1, 6000), np.float32)
        index = np.full((1, 12_000), 77, np.int32)
        src = np.arange(12_000, dtype=np.float32).reshape(1, -1)
        result = ops.scatter(x, index, src, 1, strategy="bins")
        codes = result.log.columns()
        sorting = codes["task"][codes["op"] == result.log.ops.index("collect_bins")]
        assert len(set(sorting.tolist())) == result.board.cores
        assert result.output[0, 77] == 11_999
        assert not result.output[0, :77].any()
        assert not result.output[0, 78:].any()

    @pytest.mark.parametrize(("name", "strategy"), [(name, how) for name, how in WAYS if how != "bins"])
    def test_rows_that_many_tuples_name(self, name, strategy):
        rng = np.random.default_rng(6)
        x = np.zeros((50, 30), np.int32)
        index = rng.integers(-3, 3, (4000, 1))
        src = np.arange(4000 * 30, dtype=np.int32).reshape(4000, 30)
        result = ops.scatter_nd(x, index, src, mode="standard", device=name, strategy=strategy, check=True)
        expected = x.copy()
        for place in range(-3, 3):
            expected[place] = src[np.flatnonzero(index[:, 0] == place)[-1]]
        assert np.array_equal(result.output, expected)

    @pytest.mark.grid(3)
    @pytest.mark.parametrize(("name", "strategy"), WAYS)
    @pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
    def test_in_little_nram(self, name, strategy, dtype):
        """Four elements of each row take all updates, so every chunk updates each of them."""
        rng = np.random.default_rng(2)
        x = any_bits(rng, (3, 40), dtype)
        index = rng.integers(-4, 0, (3, 1000)).astype(np.int32)
        src = any_bits(rng, index.shape, dtype)
        result = ops.scatter(x, index, src, 1, device=on(name, 4096), strategy=strategy)
        assert same_bits(result, scattered(x, index, src, 1))


@pytest.mark.parametrize(("name", "strategy"), WAYS)
def test_every_byte_is_moved(name, strategy):
    """Loaded: x, the index, and src; stored: the output once, and by "rows" each update once more."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((16, 300)).astype(np.float32)
    index = rng.integers(0, 300, (16, 200)).astype(np.int32)
    src = rng.standard_normal(index.shape).astype(np.float32)
    result = ops.scatter(x, index, src, 1, device=name, strategy=strategy)
    requested = result.bytes_requested
    assert requested["GDRAM2NRAM"] >= x.nbytes + index.nbytes + src.nbytes
    stored = {"slab": x.nbytes, "rows": x.nbytes + src.nbytes, "bins": x.nbytes + 2 * src.nbytes}
    assert requested["NRAM2GDRAM"] == stored[strategy]


class TestIndexErrors:
    """They are found before the launch, so nothing is written."""

    @pytest.fixture(autouse=True)
    def no_device(self, monkeypatch):
        def made(*_, **__):
            pytest.fail("a device was made, so something would have been launched")

        monkeypatch.setattr("mlusim.ops.call.Device", made)

    @pytest.mark.parametrize("strategy", ["auto", "slab", "rows", "bins"])
    @pytest.mark.parametrize("bad", [40, -41, 2**31 - 1, -(2**31)])
    @pytest.mark.parametrize("place", [(0, 0), (2, 4)])
    def test_values_out_of_range(self, strategy, bad, place):
        x = np.zeros((3, 40), np.float32)
        src = np.ones((3, 5), np.float32)
        index = np.zeros((3, 5), np.int32)
        index[place] = bad
        row, column = place
        with pytest.raises(InputError, match=rf"^scatter: index\[{row}, {column}\] = {bad}: axis 1 of x has 40 el"):
            ops.scatter(x, index, src, 1, strategy=strategy)
        tuples = np.stack([np.zeros_like(index), index], axis=-1)
        with pytest.raises(InputError, match=rf"^scatter_nd: index\[{row}, {column}, 1\] = {bad}: axis 1 of x has 40"):
            ops.scatter_nd(x, tuples, src, mode="standard", strategy=strategy)
        assert not x.any()

    @pytest.mark.parametrize("strategy", ["auto", "slab", "rows", "bins"])
    def test_64_bits_are_not_cut_to_32(self, strategy):
        x, index = np.zeros((3, 40), np.float32), np.full((3, 5), 2**32)
        with pytest.raises(InputError, match=r"index\[0, 0\] = 4294967296"):
            ops.scatter(x, index, np.ones((3, 5), np.float32), 1, strategy=strategy)

    def test_a_split_that_does_not_fit(self):
        x, index = np.zeros((1, 4000), np.float32), np.zeros((1, 5), np.int32)
        with pytest.raises(PlanError, match="a region of x and an update do not fit together in the"):
            ops.scatter(x, index, x[:, :5], 1, device=on("mlu370-x4", 256), strategy="bins")


def test_in_a_net_the_output_is_not_even_allocated():
    from mlusim.cinn import Float, Int, NetBuilder

    builder = NetBuilder("late index")
    x, index = builder.create_input(Float(32), (2, 90), "x"), builder.create_input(Int(32), (2, 7), "index")
    turned = builder.reverse(index, [1])
    builder.scatter(x, turned, builder.create_input(Float(32), (2, 7), "src"), 1, name="put")
    arrays = {
        "x": np.zeros((2, 90), np.float32),
        "index": np.array([[0] * 7, [0, 0, 0, 0, 0, 0, 90]], np.int32),
        "src": np.ones((2, 7), np.float32),
    }
    with pytest.raises(InputError, match=r"\[1, 0\] = 90: axis 1 of x has 90 elements"):
        builder.build("mlu370-x4").execute(arrays)
