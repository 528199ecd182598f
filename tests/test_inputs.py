"""Invalid shapes, arrays, grids and paths are rejected by name in every interface, with rule and remedy."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim.analysis.page.pages import write_pages
from mlusim.analysis.report_files import write_report
from mlusim.explore.python_files import function_of
from mlusim.explore.sweeping import read_sweep
from mlusim.hardware.toml_board import board_from_toml

X = np.arange(24, dtype=np.float32).reshape(4, 6)
OUT = mlusim.Output((4, 6), "float32")


async def copy(core, x, out):
    if core.is_memory_core or core.task_id:
        return
    tile = core.nram.alloc(x.shape, x.dtype)
    await core.memcpy(tile, x)
    await core.memcpy(out, tile)


def run(**options):
    return mlusim.run(copy, X, OUT, **options)


def sweep(**options):
    return mlusim.sweep("reverse", shape=(8, 8), axis=0, workers=0, **options)


RUN = mlusim.ops.reverse(X, 0)
REPORT = mlusim.verify(copy, X, OUT)
DEVICE = mlusim.Device()
SWEEP = mlusim.sweep("reverse", shape=[(8, 8), (16, 8)], axis=0, workers=0)

PATHS = {
    "Result.save": RUN.save,
    "load": mlusim.load,
    "Device.save": DEVICE.save,
    "retime": lambda path: mlusim.retime(path, clock_hz=10**9),
    "Report.draw": REPORT.draw,
    "write_report": lambda path: write_report(RUN, path),
    "write_pages": lambda path: write_pages({"a": RUN}, path),
    "board_from_toml": board_from_toml,
    "board": mlusim.board,
    "sweep(db=)": lambda path: sweep(db=path),
    "sweep(merge=)": lambda path: sweep(merge=[path]),
    "tune(db=)": lambda path: mlusim.tune("reverse", shape=(8, 8), axis=0, workers=0, db=path),
    "read_sweep": read_sweep,
    "Sweep.save": SWEEP.save,
    "Sweep.plot": SWEEP.plot,
    "bangc.compile": mlusim.bangc.compile,
    "function_of": function_of,
}
NO_PATHS = (None, 3, 1.5, True, b"x.zip", "a\0b", Path("a\0b"), [], {}, "x" * 5000)
NOWHERE = {"sweep(db=)", "tune(db=)", "Sweep.plot"}  # None is a value there


@pytest.mark.parametrize(
    ("value", "function"),
    [
        pytest.param(value, function, id=f"{value!r:.12}-{function}")
        for value in NO_PATHS
        for function in PATHS
        if value is not None or function not in NOWHERE
    ],
)
def test_every_function_refuses_values_that_are_not_paths(function, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((mlusim.InputError, mlusim.BoardError)) as caught:
        PATHS[function](value)
    text = str(caught.value)
    assert any(words in text for words in (repr(value)[1:50], type(value).__name__, "File name too long", "xxxxx"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("function", ["load", "board_from_toml", "retime"])
def test_endless_device_files_are_not_read(function):
    with pytest.raises((mlusim.InputError, mlusim.BoardError), match="Not a regular file"):
        PATHS[function]("/dev/zero")


RAGGED = [[1, 2], [3]]
CALLS = [
    (lambda: run(dim=1.5), mlusim.LaunchError, r"dim 1\.5: a grid is three integers"),
    (lambda: run(dim=float("nan")), mlusim.LaunchError, r"dim nan: a grid is"),
    (lambda: run(dim=True), mlusim.LaunchError, r"dim True: a grid is"),
    (lambda: run(dim=()), mlusim.LaunchError, r"dim \(\): a grid is"),
    (lambda: run(dim="4,1,1"), mlusim.LaunchError, r"dim '4,1,1': a grid is"),
    (lambda: run(dim=(1.5, 1, 1)), mlusim.LaunchError, r"dim \(1\.5, 1, 1\): a grid is"),
    (lambda: run(kind=None), mlusim.LaunchError, r"task type None: choose one of BLOCK, UNION1, .* UNION16"),
    (lambda: run(kind=1), mlusim.LaunchError, r"task type 1: choose one of BLOCK"),
    (lambda: run(kind=b"BLOCK"), mlusim.LaunchError, r"task type b'BLOCK': choose one of BLOCK"),
    (lambda: run(max_operations=0), mlusim.InputError, r"max_operations=0: pass an integer of at least 1"),
    (lambda: run(max_operations=1.5), mlusim.InputError, r"max_operations=1\.5: pass an integer"),
    (lambda: run(stall_s=0), mlusim.InputError, r"stall_s=0: give seconds, a number above 0"),
    (lambda: run(stall_s="2"), mlusim.InputError, r"stall_s='2': give seconds"),
    (lambda: run(stall_s=float("nan")), mlusim.InputError, r"stall_s=nan: give seconds"),
    (
        lambda: mlusim.run(copy, RAGGED, OUT),
        mlusim.KernelError,
        r"no attribute 'shape'; a list among the arguments stays a list: pass np\.array\(",
    ),
    (
        lambda: mlusim.run(copy, (1.0, 2.0), OUT),
        mlusim.KernelError,
        r"; a tuple among the arguments stays a tuple: pass",
    ),
    (
        lambda: mlusim.run(copy, X, mlusim.Output((1.5, 2))),
        mlusim.InputError,
        r"Output: the shape \(1\.5, 2\): a shape is",
    ),
    (lambda: mlusim.run(copy, X, mlusim.Output((1,) * 70)), mlusim.InputError, r"Output: the shape has rank 70: NumPy"),
    (
        lambda: mlusim.run(copy, X, mlusim.Output(None)),
        mlusim.InputError,
        r"Output: the shape None: a shape is an integer",
    ),
    (
        lambda: mlusim.run(copy, X, mlusim.Output((2, 3), pitch=1.5)),
        mlusim.InputError,
        r"Output: pitch=1\.5: pass an int",
    ),
    (lambda: mlusim.Output(-1), mlusim.InputError, r"Output: the shape \[-1\]: an extent cannot be negative"),
    (lambda: mlusim.Output("a", "b"), mlusim.InputError, r"Output: the shape 'a': a shape is"),
    (lambda: mlusim.Output.like(RAGGED), mlusim.InputError, r"Output\.like: the argument is not an array"),
    (lambda: mlusim.verify(copy, X, OUT, reference=RAGGED), mlusim.InputError, r"the reference is not an array"),
    (
        lambda: DEVICE.upload(RAGGED),
        mlusim.InputError,
        r"input is not an array: .* pass an array or nested lists of equal",
    ),
    (
        lambda: DEVICE.alloc((float("inf"),), "int8"),
        mlusim.InputError,
        r"output: the shape \(inf,\): a shape is an integer",
    ),
    (lambda: DEVICE.alloc((-1,), "int8"), mlusim.InputError, r"output: the shape \[-1\]: an extent cannot be negative"),
    (lambda: DEVICE.alloc((True,), "int8"), mlusim.InputError, r"integers, not booleans"),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS, ids=[message[:24] for *_, message in CALLS])
def test_invalid_launch_arguments_are_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no repr")


async def computes_with(core, value):
    buffer = core.nram.alloc(64, "float32")
    core.add(buffer, buffer, value)


@pytest.mark.parametrize(
    "call",
    [
        lambda value: mlusim.run(computes_with, value, dim=1, kind="BLOCK", device=value),
        lambda value: mlusim.ops.reverse(X, axis=value),
        lambda value: mlusim.ops.cast(X, value),
        lambda value: mlusim.Device(dma=value),
        mlusim.plan,
        lambda value: mlusim.Device().launch(computes_with, value, kind=value),
    ],
    ids=["device", "axis", "dtype", "dma", "operator", "kind"],
)
@pytest.mark.parametrize("value", ["v" * 5000, Unprintable()], ids=["long", "repr raises"])
def test_a_value_is_cut_in_messages_and_its_repr_may_raise(call, value):
    with pytest.raises(mlusim.MlusimError) as caught:
        call(value)
    assert len(str(caught.value)) < 1000


class Foreign:
    """An array of another library, with gradients."""

    shape = X.shape
    requires_grad = True

    def detach(self):
        return X

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("call detach() first")


def test_arrays_of_other_libraries_are_converted():
    result = mlusim.run(copy, Foreign(), OUT)
    assert np.array_equal(result.output, X)


def slow(rate):
    """A board whose links move so few bytes a second."""
    names = ("dram", "core_read", "core_write", "cluster_read", "cluster_write", "memory_core")
    return mlusim.board("mlu370-x4").replace(**{f"{name}_bandwidth_bytes_per_s": rate for name in names})


def test_a_day_of_simulated_time_adds_up_exactly():
    result = mlusim.ops.reverse(np.zeros((100, 100), np.float32), 0, data=False, device=slow(1))
    spent = result.metrics.where_time_went
    assert result.time_ps > 80_000 * 10**12
    assert sum(spent.values()) == result.time_ps * result.board.cores
    assert min(spent.values()) >= 0


def test_more_time_than_the_log_can_hold_is_an_error():
    with pytest.raises(
        mlusim.SimulatedTimeError, match=r"takes \d+\.\d h of simulated .* exact up to 62\.49 h.* rates"
    ):
        mlusim.ops.reverse(np.zeros((400, 400), np.float32), 0, data=False, device=slow(1))


@pytest.mark.parametrize("call", [partial(mlusim.run, check=True), mlusim.verify])
def test_the_checker_refuses_times_that_the_log_cannot_hold(call):
    board = mlusim.board("mlu270-s4").replace(dram_bandwidth_bytes_per_s=1)
    x = np.zeros(90_000, np.float32)
    with pytest.raises(mlusim.SimulatedTimeError, match=r"takes \d{3}\.\d h of simulated time"):
        call(copy, x, mlusim.Output.like(x), kind="BLOCK", dim=1, device=board)


@pytest.mark.parametrize(("cycles", "count"), [(10**15, 1), (10**30, 1), (1, 10**15), (0, 10**30), (10**9, 10**9)])
def test_scalar_work_of_days_is_refused_at_its_line(cycles, count):
    async def wait(core):
        core.scalar(cycles, count=count)

    with pytest.raises(mlusim.OperandError, match=r"test_inputs\.py:\d+.*at most 281474976710656 cycles in all"):
        mlusim.run(wait)


def test_waits_beyond_the_clock_are_an_error():
    async def wait(core):
        for _ in range(3):
            core.scalar(10**14)

    with pytest.raises(mlusim.SimulatedTimeError, match=r"give the kernel less to do"):
        mlusim.run(wait)


def test_dollar_signs_in_names_are_not_math(tmp_path):
    async def kernel(core, x, out):
        await copy(core, x, out)

    kernel.__name__ = "k$_{"
    board = mlusim.board("mlu370-x4").replace(name="a$b^{_$")
    result = mlusim.run(kernel, X, OUT, device=board)
    written = write_report(result, tmp_path / "report")
    drawing = next(path for path in written if path.name == "timeline.svg").read_text()
    assert "a$b^{_$" in drawing


def test_a_tensor_that_never_fits_is_refused_before_allocation():
    from mlusim.host.random_tensors import RandomTensors

    boards = [mlusim.board("mlu270-s4"), mlusim.board("mlu370-x4")]
    draw = RandomTensors(0, boards=boards)
    with pytest.raises(
        mlusim.AllocationError, match=r"float32 \[100000, 100000\] takes 40 000 000 000 B .* of GDRAM of"
    ):
        draw.elements((100_000, 100_000), np.dtype(np.float32))
    with pytest.raises(mlusim.AllocationError, match=r"can never fit in the .* of 64-bit addresses"):
        RandomTensors(0, data=False).elements((10**21,), np.dtype(np.int8))


class Named(np.ndarray):
    """A subclass that changes what an index means."""

    def __getitem__(self, key):
        raise AssertionError(key)


@pytest.mark.parametrize(
    "x",
    [
        np.arange(6.0, dtype=np.float32).reshape(2, 3).view(Named),
        np.ma.masked_array(np.arange(6, dtype=np.int32), mask=False),
        np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
        np.broadcast_to(np.int16(3), (2, 3)),
        memoryview(bytearray(b"abc")),
    ],
    ids=["subclass", "nothing masked", "fortran", "broadcast", "memoryview"],
)
def test_unusual_arrays_give_the_same_results(x):
    found = mlusim.ops.reverse(x, 0).output
    assert type(found) is np.ndarray
    assert np.array_equal(found, np.asarray(x)[::-1])


def test_masked_elements_are_refused():
    x = np.ma.masked_array(np.arange(4.0), mask=[0, 1, 1, 0])
    for call in (lambda: mlusim.ops.reverse(x, 0), lambda: mlusim.run(wait, x), lambda: mlusim.Device().upload(x)):
        with pytest.raises(mlusim.InputError, match=r"2 masked elements, and a tensor has no mask: give array.filled"):
            call()


async def wait(core, *_arguments):
    core.scalar(1)


@pytest.mark.parametrize("operations", [-1, "1", 1.5, float("nan"), True])
def test_theory_ops_must_be_an_integer(operations):
    message = r"^theory_ops=.*: pass an integer of at least 0$"
    device = mlusim.Device()
    device.launch(wait)
    device.synchronize()
    for call in (
        lambda: mlusim.run(wait, theory_ops=operations),
        lambda: mlusim.verify(wait, theory_ops=operations),
        lambda: device.result(theory_ops=operations),
        lambda: mlusim.sweep(copy, shape=4, theory_ops=[operations]),
    ):
        with pytest.raises(mlusim.InputError, match=message):
            call()


@pytest.mark.parametrize("value", [X, None, [1, 2], 3])
def test_objects_that_are_not_kernels_are_named_on_one_line(value):
    with pytest.raises(
        mlusim.LaunchError, match=r" is not a kernel: write it as `async def kernel\(core, \.\.\.\)`"
    ) as found:
        mlusim.run(value, X)
    assert "\n" not in str(found.value)


def test_an_object_with_a_numeric_path_is_not_a_path():
    class Numbered:
        def __fspath__(self):
            return 3

        def __repr__(self):
            return "Numbered()"

    with pytest.raises(
        mlusim.MlusimError, match=r"^Numbered\(\) is not a path: pass a string such as 'run.zip', or a Path$"
    ):
        mlusim.board(Numbered())


FLAGS = [
    (run, ("data", "progress", "check", "steady")),
    (mlusim.Device, ("data", "progress", "dry")),
    (lambda **flag: mlusim.verify(copy, X, OUT, **flag), ("data",)),
    (lambda **flag: mlusim.ops.flip(X, 0, **flag), ("data", "progress", "check", "steady")),
    (lambda **flag: mlusim.retime(run(), **flag), ("keep_split", "barriers", "progress")),
    (lambda **flag: run().save("unused.zip", **flag), ("output",)),
    (lambda **flag: mlusim.sweep("flip", shape=(4, 4), workers=0, **flag), ("data", "steady", "retry", "progress")),
    (lambda **flag: mlusim.tune("flip", shape=(4, 4), workers=0, **flag), ("steady", "progress")),
]


@pytest.mark.parametrize(("call", "flag"), [(call, flag) for call, flags in FLAGS for flag in flags])
def test_a_flag_is_true_or_false_in_every_function(call, flag):
    with pytest.raises(mlusim.InputError, match=f"^{flag}='no': choose True or False$"):
        call(**{flag: "no"})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda value: run(kind=value), r"task type array\(\[\], .*: choose one of BLOCK, UNION1"),
        (lambda value: run(dma=value), r"dma=array\(\[\], .*: choose one of complete, late"),
        (mlusim.plan, r"no operator array\(\[\], .*choose one of bitcast_convert"),
        (lambda value: mlusim.verify(copy, X, OUT, planned=value), r"planned=array\(\[\], .* is not text"),
    ],
    ids=["kind", "dma", "operator", "planned"],
)
def test_an_array_is_no_name(call, message):
    with pytest.raises(mlusim.MlusimError, match=message):
        call(np.zeros(0))


@pytest.mark.parametrize("option", ["vary", "settings"])
@pytest.mark.parametrize("value", [True, [1], np.zeros(0), {1: 2}], ids=repr)
def test_settings_of_a_sweep_are_a_dictionary(option, value):
    with pytest.raises(mlusim.InputError, match=rf"^{option}=.*: pass a dictionary of names and values, such as "):
        mlusim.sweep(copy, arguments=["x=float32:8", "out=float32:8"], workers=0, **{option: value})
