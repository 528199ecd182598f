"""Functions that take objects of mlusim refuse others; those that take lists refuse empty and unordered ones."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.metrics import measure
from mlusim.analysis.page.pages import write_pages
from mlusim.analysis.report_files import write_report
from mlusim.analysis.tile_map import draw_tile_map
from mlusim.analysis.timeline_picture import draw_timeline
from mlusim.explore.compare import compare
from mlusim.hardware.host_launch import host_launch_us
from mlusim.hardware.toml_board import to_toml
from mlusim.planning import split
from mlusim.validation.report import validate

X = np.arange(24, dtype=np.float32).reshape(4, 6)
RUN = mlusim.ops.reverse(X, 0)
LOG, BOARD, PLAN = RUN.log, RUN.board, RUN.plan
RECORDS = LogColumns(LOG, BOARD)


async def copy(core, x, out, rows=1):
    if core.is_memory_core or core.task_id:
        return
    tile = core.nram.alloc(x.shape, x.dtype)
    await core.memcpy(tile, x)
    await core.memcpy(out, tile)


async def copy_all(core, *tensors):
    await copy(core, *tensors)


def plan_of(**options):
    return mlusim.Plan.from_tiles(PLAN.tiles, (4, 6), **options)


def sweep(**axes):
    return mlusim.sweep("reverse", **{"shape": (8, 8), "axis": 0, "workers": 0, **axes})


def tune(**axes):
    return mlusim.tune("reverse", **{"shape": (8, 8), "axis": 0, "workers": 0, **axes})


@pytest.mark.parametrize("value", [None, True, 3, "log", X, {}, LogColumns], ids=lambda value: f"{value!r:.12}")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda value: measure(value, BOARD), r"^log=.* is not a Log: pass the log of a result or a device"),
        (lambda value: measure(LOG, value), r"^board=.* is not a Board: pass the board of the result"),
        (lambda value: LogColumns(value, BOARD), r"^log=.* is not a Log"),
        (
            lambda value: draw_timeline(value, "title"),
            r"^records=.* is not a LogColumns: pass LogColumns\(result\.log,",
        ),
        (lambda value: draw_tile_map(value, PLAN), r"^records=.* is not a LogColumns"),
        (lambda value: draw_tile_map(RECORDS, value), r"^plan=.* is not a Plan: pass the plan of a result"),
        (to_toml, r"^board=.* is not a Board: pass mlusim\.board\(NAME\)$"),
        (lambda value: write_report(value, "report"), r" is not a result: pass what mlusim\.run or device\.result"),
        (lambda value: write_pages({"a": value}, "report"), r" is not a result: pass what mlusim\.run"),
    ],
    ids=["log", "board", "columns", "timeline", "tile map", "plan", "to_toml", "report", "pages"],
)
def test_an_object_of_another_class_is_named(call, message, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mlusim.InputError, match=message):
        call(value)
    assert not list(tmp_path.rglob("*.html"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: split.buffer_bytes(BOARD, 0), r"^buffer_bytes: buffers=0: pass an integer of at least 1$"),
        (
            lambda: split.buffer_bytes("mlu370-x4"),
            r"^buffer_bytes: board='mlu370-x4' is not a Board: pass mlusim\.board",
        ),
        (lambda: BOARD.differing("a"), r"^differing: other='a' is not a Board: pass mlusim\.board\(NAME\)$"),
        (lambda: host_launch_us([]), r"^board_name=\[\] is not text$"),
        (lambda: PLAN.parameters_as(3), r"^parameters_as: kind=3 is not a type: pass the class of the parameters"),
        (lambda: PLAN.parameters_as((int, str)), r"^parameters_as: kind=\(.*\) is not a type: pass the class"),
        (
            lambda: mlusim.Device(BOARD).buffers_at("a"),
            r"^buffers_at: time_ps='a': pass an integer of at least 0$",
        ),
        (lambda: BOARD.cycles_ps("a"), r"^cycles_ps: cycles='a': pass an integer of at least 0$"),
        (lambda: BOARD.cycles_ps(float("nan")), r"^cycles_ps: cycles=nan: pass an integer of at least 0$"),
        (lambda: PLAN.to_json(boxes="no"), r"^boxes='no': choose True or False$"),
        (lambda: split.max_loops(370), r"^max_loops: board=370 is not a Board"),
        (lambda: split.union1_launch(BOARD, -1), r"^union1_launch: units=-1: pass an integer of at least 0$"),
        (lambda: split.run_lengths(7, 0), r"^runs: tasks=0: pass an integer of at least 1$"),
        (lambda: split.in_turn([1.5], 2), r"^in_turn: sizes=\[1\.5\]: pass the size of each item, a list of integers$"),
        (
            lambda: split.boxes("a", [0]),
            r"^boxes: cuts='a': pass a list with an item for each axis$",
        ),
        (lambda: split.boxes([3], [0]), r"^boxes: cuts=\[3\]: an item is a pair of starts and stops"),
        (lambda: split.boxes(3, [0]), r"^boxes: cuts=3: pass a list with an item for each axis$"),
        (lambda: plan_of(tier="a"), r"^the tier of the plan='a': pass an integer of at least 1$"),
        (lambda: plan_of(reason=None), r"^the reason of the plan=None is not text$"),
        (lambda: plan_of(parameters=3), r"^the parameters of the plan=3 is not a Mapping: pass names and values"),
        (lambda: mlusim.cinn.NetBuilder(3), r"^NetBuilder: name=3 is not text$"),
        (
            lambda: mlusim.cinn.NetBuilder("n").create_input("int8", b"x"),
            r"create_input: shape b'x' must be a sequence of integers",
        ),
        (lambda: mlusim.verifier.checked("no").__enter__(), r"^on='no': choose True or False$"),
        (lambda: mlusim.verify(copy, X, mlusim.Output.like(X)).text(hints="no"), r"^hints='no': choose True or False$"),
        (lambda: [*validate(["copy"], workers="")], r"^workers='': pass an integer of at least 0$"),
        (lambda: [*validate(["copy", "nope"])], r"^no measurement begins with 'nope'; choose one of copy-8\.4MB, "),
        (lambda: measure(LOG, BOARD, theory_ops=1.5), r"^theory_ops=1\.5: pass an integer of at least 0$"),
        (lambda: draw_timeline(RECORDS, None), r"^title=None is not text$"),
        (lambda: draw_tile_map(RECORDS, PLAN, about=3), r"^about=3 is not text$"),
        (lambda: write_pages([RUN], "report"), r"^results=.* is not a Mapping: pass a dictionary of names and results"),
        (
            lambda: compare("reverse", ["auto"]),
            r"^operation='reverse' is not a function: pass one that takes a strategy",
        ),
        (lambda: compare(lambda strategy: RUN, 3), r"^strategies=3: pass a list of strings$"),
        (lambda: compare(lambda strategy: RUN, []), r"^no strategy to compare: name at least one$"),
        (lambda: tune(shape=[]), r"^nothing to sweep: shape has no values; pass at least one$"),
        (lambda: tune(dtype=[]), r"^nothing to sweep: dtype has no values; pass at least one$"),
        (lambda: tune(device=[]), r"^nothing to sweep: device has no values; pass at least one$"),
        (lambda: tune(strategy=[]), r"^nothing to sweep: strategy has no values; pass at least one$"),
        (lambda: sweep(cores=int), r"^cores: <class 'int'> is not a whole number above 0$"),
        (lambda: sweep(nram_bytes=np.zeros((2, 2), int)), r"^nram_bytes: .* is not a whole number above 0$"),
        (lambda: sweep(shard={1, 2}), r"^shard=\{1, 2\}: give \(part, number of parts\), such as \(1, 4\)$"),
        (lambda: sweep(kernel_version=3), r"^kernel_version=3 is not text$"),
        (lambda: sweep(arguments=np.zeros(2)), r"^reverse is an operator: arguments are for kernels of your own"),
        (lambda: mlusim.sweep(copy, arguments=np.zeros(2), workers=0), r" is not an argument as text: write a file"),
        (
            lambda: mlusim.sweep(copy_all, shape=8, workers=0),
            r"^copy_all\(core, \*tensors\): here arguments are given to ",
        ),
        (
            lambda: mlusim.Device().alloc({2, 3}, "int8"),
            r"^output: the shape \{2, 3\}: a set has no order; pass a tuple",
        ),
        (
            lambda: mlusim.verify(copy, X, mlusim.Output.like(X), reference={}),
            r"^the reference is empty: name an output, ",
        ),
        (
            lambda: mlusim.cinn.Program("net", 3, (), (), ()),
            r"^target=3 is not a Board: build a program by builder\.build\('mlu370-x4'\)$",
        ),
        (
            lambda: mlusim.cinn.Program("net", BOARD, 3, (), ()),
            r"^inputs=3: pass a tuple of Variable objects, or build a program by builder\.build",
        ),
        (
            lambda: mlusim.cinn.Program("net", BOARD, (), ("x",), ()),
            r"^instructions=\('x',\): pass a tuple of Instruction",
        ),
        (lambda: mlusim.View.of(3, 1, 1), r"^allocation=3 is not an Allocation: .* return views; slice those$"),
        (
            lambda: mlusim.ops.tin_shift(np.zeros((1, 2, 2, 4), np.float32), [["1"]]),
            r"dtype <U1 is not an element type",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_value_is_named_with_rule_and_remedy(call, message):
    with pytest.raises(mlusim.InputError, match=message):
        call()


def test_a_task_type_that_does_not_exist_has_no_default_grid():
    device = mlusim.Device()
    assert device.default_dim("BLOCK") == (32, 1, 1)
    assert device.default_dim("UNION4") == (16, 2, 1)
    with pytest.raises(
        mlusim.LaunchError,
        match=r"^task type 'union1': did you mean UNION1\? choose one of BLOCK, UNION1, .*, UNION16$",
    ):
        device.default_dim("union1")


@pytest.mark.parametrize("value", [None, 3, int], ids=repr)
def test_settings_do_not_hide_that_a_kernel_is_none(value):
    with pytest.raises(mlusim.LaunchError, match=r" is not a kernel: write it as `async def "):
        mlusim.run(value, X, rows=2)
