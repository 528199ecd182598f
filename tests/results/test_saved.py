"""Saved runs: figures computed from a loaded run equal those of the run, byte for byte."""

from __future__ import annotations

import json
import zipfile
from dataclasses import fields
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mlusim
from mlusim import ops
from mlusim.analysis.report_files import draw
from mlusim.analysis.summary import to_json
from mlusim.explore.python_files import function_of
from mlusim.hardware import presets
from mlusim.log import Log
from mlusim.results.saved import short_names
from mlusim.verifier.check import check_log
from saved_runs import same_log

RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 4, 8, 50), np.float32)
INDEX = RNG.integers(-4, 4, (2, 3, 8, 50))

RUNS = {
    "tin_shift": lambda **o: ops.tin_shift_forward(X, np.array([[1], [-9]], np.int32), strategy="pingpong", **o),
    "gather_nd": lambda **o: ops.gather_nd(X, RNG.integers(0, 2, (7, 2)), mode="standard", **o),
    "gather": lambda **o: ops.gather(X, INDEX, 1, device="mlu590-h8", **o),
    "scatter": lambda **o: ops.scatter(X, INDEX, X[:, :3], 1, device="mlu270-s4", **o),
    "cast": lambda **o: ops.cast(X, "bfloat16", **o),
    "flip": lambda **o: ops.flip(X, [0, -1], **o),
    "reverse_sequence": lambda **o: ops.reverse_sequence(X, np.array([3, 1]), **o),
    "bitcast_view": lambda **o: ops.bitcast_convert(X, "int8", strategy="view", **o),
    "empty": lambda **o: ops.flip(np.empty((0, 3), np.int8), 1, **o),
    "timing_only": lambda **o: ops.cast(X, mlusim.cinn.Int(8), **({"data": False} | o)),
}


@pytest.fixture(params=RUNS)
def run(request):
    return RUNS[request.param]()


PACKAGE = Path(mlusim.__file__).parents[1]


def test_a_loaded_run_gives_every_figure_of_the_run(run, tmp_path):
    read = mlusim.load(run.save(tmp_path / "run.zip"))
    same_log(read.log, run.log)
    assert read.output is None
    assert (read.operator, read.theory_ops, read.stopped) == (run.operator, run.theory_ops, "")
    assert read.board == run.board
    assert read.board.sources == run.board.sources
    assert read.request == run.request is not None
    assert to_json(read) == to_json(run)
    assert read.lower_bound.losses_ps == run.lower_bound.losses_ps
    names = short_names(file for file, _, _ in run.log.lines)
    assert [line[:3] for line in read.lines] == [
        (names.get(line.file, ""), line.line, line.function) for line in run.lines
    ]
    assert read.plan.explain() == run.plan.explain()
    read.plan.check()
    for task in range(run.plan.tasks):
        assert list(read.plan.tiles_of(task)) == list(run.plan.tiles_of(task))
    assert list(draw(read)) == list(draw(run))
    reports = [check_log(result.log, result.board, name=result.operator, plan=result.plan) for result in (read, run)]
    read_json, run_json = (json.dumps(report.to_json()) for report in reports)
    for file, name in names.items():
        run_json = run_json.replace(json.dumps(file), json.dumps(name))
    assert read_json == run_json
    assert reports[0].ok


def test_a_saved_run_contains_the_source_of_every_line(tmp_path):
    run = RUNS["tin_shift"]()
    read = mlusim.load(run.save(tmp_path / "run.zip"))
    for file, line, function in read.log.lines:
        assert not Path(file).is_absolute()
        assert read.sources[file] == (PACKAGE / file).read_text(encoding="utf-8")
        assert read.sources[file].splitlines()[line - 1].strip(), function
    assert read.log.lines


def test_the_same_run_gives_the_same_bytes(tmp_path):
    made = [RUNS[name]().save(tmp_path / f"{name}{turn}") for turn in (1, 2) for name in ("gather", "cast")]
    assert made[0].read_bytes() == made[2].read_bytes()
    assert made[1].read_bytes() == made[3].read_bytes() != made[0].read_bytes()
    again = mlusim.load(made[0]).save(tmp_path / "again")
    assert again.read_bytes() == made[0].read_bytes()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.bool_, np.complex64])
def test_a_saved_run_contains_the_output_on_request(dtype, tmp_path):
    run = ops.flip(RNG.integers(0, 256, (3, 8 * np.dtype(dtype).itemsize), np.uint8).view(dtype), 0)
    read = mlusim.load(run.save(tmp_path / "run", output=True))
    assert read.output.dtype == run.output.dtype
    assert read.output.shape == run.output.shape
    assert read.output.tobytes() == run.output.tobytes()
    scalar = mlusim.load(ops.flip(np.float32(3), []).save(tmp_path / "run", output=True))
    assert scalar.output.shape == ()
    assert scalar.output == 3


def test_np_load_opens_it(tmp_path):
    run = RUNS["cast"]()
    with np.load(run.save(tmp_path / "run.npz")) as arrays:
        np.testing.assert_array_equal(arrays["log/records"], run.log.table().T)


async def _add_one(core, x, out):
    if not core.is_memory_core:
        buffer = core.nram.alloc(x.shape, x.dtype)
        await core.memcpy(buffer, x)
        core.add(buffer, buffer, 1)
        await core.sync()
        await core.memcpy(out, buffer)


def own_device(kernel=_add_one):
    device = mlusim.Device("mlu370-x4")
    device.launch(kernel, device.upload(np.ones(640, np.float32), "x"), device.alloc(640, "float32"), dim=4)
    return device


def test_a_user_kernel(tmp_path):
    device = own_device()
    device.synchronize()
    result = device.result(theory_ops=640)
    read = mlusim.load(device.save(tmp_path / "own", theory_ops=640))
    same_log(read.log, device.log)
    assert read.plan is read.request is None
    assert read.strategy == ""
    assert read.operator == "_add_one"
    assert device.result("mine").operator == "mine"
    assert to_json(read) == to_json(result)
    assert to_json(read)["plan"] is None
    assert read.metrics.theory_ops == 640
    assert "tile_map" not in draw(read)
    assert read.sources[Path(__file__).name] == Path(__file__).read_text(encoding="utf-8")


def test_a_device_on_which_nothing_ran(tmp_path):
    read = mlusim.load(mlusim.Device("mlu220-m2").save(tmp_path / "none"))
    assert read.operator == "nothing"
    assert read.time_ps == 0
    assert len(read.log) == 0


def test_a_run_that_stopped_with_an_error(tmp_path):
    async def fails(core, x, out):
        await _add_one(core, x, out)
        if core.task_id == 2:
            core.nram.alloc(10**9, "int8")

    device = own_device(fails)
    with pytest.raises(mlusim.AllocationError):
        device.synchronize()
    read = mlusim.load(device.save(tmp_path / "failed"))
    assert read.stopped.startswith("AllocationError: task 2 (cluster 0, core 2)")
    same_log(read.log, device.log)
    assert to_json(read) == to_json(device.result())


def test_a_run_whose_kernel_caught_an_error(tmp_path):
    async def catches(core, x, out):
        try:
            x[x.shape[0]]
        except mlusim.AccessError:
            await _add_one(core, x, out)

    device = own_device(catches)
    device.synchronize()
    saved = device.save(tmp_path / "caught")
    read = mlusim.load(saved)
    (message, location, _, line), *_ = device.log.swallowed
    assert read.log.swallowed[0] == (message, location, "test_saved.py", line)
    finding, *_ = check_log(read.log, read.board).errors
    assert (finding.kind, finding.fields) == ("swallowed", {"file": "test_saved.py", "line": line})
    with zipfile.ZipFile(saved) as archive:
        assert str(Path(__file__).parent) not in archive.read("run.json").decode()


async def _twice(core, count, begin, work, end):
    for step in range(count + 2):
        if step >= 2:
            end(step - 2)
        if step < count:
            begin(step)
        if 1 <= step <= count:
            work(step - 1)


def test_a_loaded_run_has_the_findings_of_the_run(tmp_path, monkeypatch):
    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        given, made = (core.nram.alloc((2, 32), x.dtype, name) for name in ("given", "made"))
        first = 160 * core.task_id
        await _twice(
            core,
            5,
            lambda row: core.memcpy_async(given[row % 2], x[first + 32 * row : first + 32 * row + 32]),
            lambda row: core.mul(made[row % 2], given[row % 2], 2.0),
            lambda row: core.memcpy_async(out[first + 32 * row : first + 32 * row + 32], made[row % 2]),
        )

    device = own_device(kernel)
    device.synchronize()
    path = device.save(tmp_path / "pipeline")
    report = device.verify()
    # The source is in the file of the run, not where the program looks for it.
    monkeypatch.chdir(tmp_path)
    read = mlusim.load(path)
    again = check_log(read.log, read.board, name=report.name)
    assert "at the end of the loop at test_saved.py" in report.text()
    assert again.text() == report.text()


def test_a_net_and_its_operators_can_be_saved(tmp_path):
    from mlusim.cinn import Float, NetBuilder

    net = NetBuilder("net")
    x = net.create_input(Float(32), (4, 6), "x")
    net.flip(x, [0])
    result = net.build("mlu370-x4").execute({"x": np.ones((4, 6), np.float32)})
    for step in result.steps:
        read = mlusim.load(step.result.save(tmp_path / "operator"))
        assert to_json(read) == to_json(step.result)


@pytest.mark.parametrize("board", presets(), ids=lambda board: board.name)
def test_every_board_survives_saving(board, tmp_path):
    changed = board.replace(name="mine \u00fc", dram_mixed_efficiency=1 / 3)
    read = mlusim.load(ops.flip(X[0, 0], 0, device=changed, data=False).save(tmp_path / "run"))
    assert read.board == changed
    assert dict(read.board.sources) == dict(changed.sources)


async def by_masks(core, x, where, out):
    a, b, mask = (core.nram.alloc(96, x.dtype) for _ in range(3))
    core.write_zero(b)
    await core.memcpy(a, x)
    for row in range(3):
        await core.memcpy(mask, where[row])
        core.maskmove(b, a, mask)
        core.maskmove(b[0:20], a[0:20], mask[0:20])
        core.mask_select(b, mask, a, b)
    await core.memcpy(out, b)


def test_masks_of_selected_elements_are_saved(tmp_path):
    where = RNG.integers(0, 2, (3, 96)).astype(np.float32)
    where[2] = 1
    arguments = np.ones(96, np.float32), where, mlusim.Output((96,))
    run = mlusim.run(by_masks, *arguments, kind="BLOCK", dim=1)
    log = run.log
    moves = [record for record, row in enumerate(log.table()) if log.ops[row[0]] in ("maskmove", "mask_select")]
    # The last move of a whole buffer is that of any instruction; of 20 elements, the last byte has bits beyond.
    expected = [where[record // 3, : 20 if record % 3 == 1 else 96] != 0 for record in range(9)]
    del moves[6], expected[6]
    assert list(log.selected) == moves
    for record, mask in zip(moves, expected, strict=True):
        np.testing.assert_array_equal(log.selection(record, len(mask)), mask)
    read = mlusim.load(run.save(tmp_path / "run.zip"))
    same_log(read.log, log)
    reports = [check_log(result.log, result.board, name=result.operator, plan=None) for result in (read, run)]
    assert reports[0].text() == reports[1].text()


async def pooled(core, x, out):
    """Of 8 rows 6 are loaded, and pools of the others are not stored."""
    a, b = core.nram.alloc((8, 8, 4), x.dtype, "a"), core.nram.alloc((4, 4, 4), x.dtype, "b")
    await core.memcpy(a[0:6], x)
    core.sumpool(b, a, 2, 2)
    await core.memcpy(out, b[0:3])


def test_attributes_of_instructions_are_saved(tmp_path):
    run = mlusim.run(pooled, np.ones((6, 8, 4), np.float32), mlusim.Output((3, 4, 4)), kind="BLOCK", dim=1)
    log = run.log
    assert log.attributes == {1: {"kernel_height": 2, "kernel_width": 2, "stride_width": None, "stride_height": None}}
    read = mlusim.load(run.save(tmp_path / "run.zip"))
    same_log(read.log, log)
    assert check_log(read.log, read.board, name=read.operator, plan=None).ok


def test_everything_of_a_log_is_saved():
    saved = {
        *("board", "records", "ops", "lines", "boxes", "tasks", "launches", "allocations", "addresses", "selected"),
        *("attributes", "more_operands", "host", "loops", "byte_copies", "released", "windows", "swallowed", "joined"),
        *("skipped", "unsteady", "remarks", "of_file", "seen", "calls", "lambdas"),
    }
    # Numbers of this process's layouts; texts, which the run has.
    not_saved = {"layout_boxes", "sources"}
    # A field that is new in the log is new in `mlusim.results.saved_log`, and in `same_log` above.
    assert {name for name in vars(Log("board")) if not name.startswith("_")} == saved | not_saved


def test_log_records_have_plain_field_types_only():
    """What `_table_values` can write: integers, booleans, and JSON values with tuples for lists."""
    from mlusim.results.saved_log import _TABLES

    kinds = {item.type for record in _TABLES.values() for item in fields(record)}
    assert kinds <= {"int", "bool", "str", "tuple[int, ...]", "tuple[int, int, int]"}


def test_short_file_names_are_unique_and_hide_local_folders():
    package = Path(mlusim.__file__).parent
    files = ["/a/b/k.py", "/a/c/k.py", "/a/x.mlu", "kept/as.py", "<input>", str(package / "kernels" / "reverse.py")]
    names = short_names(files)
    assert len({*names.values()}) == len(files)
    assert names["/a/b/k.py"] == "k.py"
    assert names["/a/c/k.py"] == "c/k.py"
    assert names["/a/x.mlu"] == "x.mlu"
    assert (names["kept/as.py"], names["<input>"]) == ("kept/as.py", "<input>")
    assert names[files[-1]] == "mlusim/kernels/reverse.py"


def test_the_same_run_gives_the_same_file_in_every_folder(tmp_path):
    text = "async def copy(core, x, out):\n    if not core.is_memory_core:\n"
    text += "        await core.memcpy(core.nram.alloc(8, x.dtype), x)\n"
    saved = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "k.py").write_text(text)
        run = function_of(f"{tmp_path / folder / 'k.py'}:copy")
        x = np.ones(8, np.float32)
        saved.append(mlusim.run(run, x, mlusim.Output.like(x)).save(tmp_path / folder / "run.zip").read_bytes())
    assert saved[0] == saved[1]
