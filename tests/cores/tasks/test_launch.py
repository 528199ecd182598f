"""Launches: task types and grids, kernels and arguments, and the limits of the board."""

from __future__ import annotations

import functools
import re
import types
from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim.cores.core import Core
from mlusim.cores.tasks.launch import WaitingJobs
from mlusim.errors import LaunchError, UnknownNameError
from mlusim.hardware import board as board_of
from mlusim.hardware import presets
from mlusim.host.device import Device
from mlusim.memory.view import View

X4 = board_of("mlu370-x4")
ISSUE = X4.cycles_ps(X4.issue_cycles)


async def nothing(core: Core) -> None:
    """Returns at once."""


async def busy(core: Core, cycles: int) -> None:
    core.scalar(cycles)


# Who am I


@pytest.mark.parametrize(
    ("kind", "dim"),
    [
        ("BLOCK", (1, 1, 1)),
        ("BLOCK", (5, 3, 2)),
        ("UNION1", (4, 1, 1)),
        ("UNION1", (4, 1, 2)),
        ("UNION1", (12, 2, 3)),
        ("UNION2", (8, 2, 1)),
        ("UNION4", (16, 1, 2)),
        ("UNION4", (32, 2, 1)),
        ("UNION8", (32, 1, 1)),
    ],
)
def test_identities(run: Any, kind: str, dim: tuple[int, int, int]) -> None:
    """taskId = (taskIdZ * taskDimY + taskIdY) * taskDimX + taskIdX; coreId 0x80 on the memory core; clusterDim."""
    seen: list[tuple[int, ...]] = []
    memory_cores: list[tuple[int, ...]] = []

    async def kernel(core: Core) -> None:
        union = 0 if kind == "BLOCK" else int(kind[5:])
        assert core.cluster_dim == union
        assert core.core_dim == 4
        assert (core.task_dim_x, core.task_dim_y, core.task_dim_z) == dim
        assert core.task_dim == dim[0] * dim[1] * dim[2]
        x, y, z = core.task_id_x, core.task_id_y, core.task_id_z
        assert core.task_id == (z * dim[1] + y) * dim[0] + x
        assert core.is_memory_core == (core.core_id == 0x80)
        if core.is_memory_core:
            memory_cores.append((core.cluster_id, y, z))
            return
        assert 0 <= core.core_id < 4
        assert 0 <= core.cluster_id < max(union, 1)
        if union:
            # A union's tasks are dealt to its cores in order.
            assert x % (4 * union) == 4 * core.cluster_id + core.core_id
        seen.append((core.task_id, x, y, z))

    run(kernel, dim=dim, kind=kind)
    grid = [(x, y, z) for z in range(dim[2]) for y in range(dim[1]) for x in range(dim[0])]
    assert sorted(seen) == [(number, *place) for number, place in enumerate(grid)]
    assert len(memory_cores) == (0 if kind == "BLOCK" else len(grid) // 4)


def test_the_default_grid_is_one_task_for_every_core() -> None:
    device = Device()
    assert device.default_dim("BLOCK") == (32, 1, 1)
    assert device.default_dim("UNION1") == (4, 8, 1)
    assert device.default_dim("UNION4") == (16, 2, 1)
    assert Device("mlu370-s4").default_dim("UNION4") == (16, 1, 1)
    launch = device.launch(nothing)
    device.synchronize()
    assert (launch.dim, launch.kind, launch.done) == ((4, 8, 1), "UNION1", True)
    assert len([task for task in device.log.tasks if not task.is_memory_core]) == 32


# What the board cannot hold


def refused(message: str, kernel: Any, *arguments: Any, device: Any = "mlu370-x4", **how: Any) -> None:
    target = device if isinstance(device, Device) else Device(device)
    with pytest.raises(LaunchError, match="^" + message):
        target.launch(kernel, *arguments, **how)
    assert not target.log.launches
    target.synchronize()  # the device is as good as before


@pytest.mark.parametrize(
    ("kind", "near"),
    [
        *((kind, "") for kind in ("UNION3", "UNION0", "UNION32", "UNION", "UNIONx", "BLOCKS", "")),
        *((kind, "UNION16") for kind in ("union16", "Union_16", "cnrtFuncTypeUnion16", "CNRT_FUNC_TYPE_UNION16")),
    ],
)
def test_task_types(kind: str, near: str) -> None:
    meant = rf"did you mean {near}\? " if near else ""
    refused(
        rf"nothing: task type '{kind}': {meant}choose one of BLOCK, UNION1, UNION2, UNION4, UNION8, UNION16$",
        nothing,
        dim=(16, 1, 1),
        kind=kind,
    )


@pytest.mark.parametrize("board", presets(), ids=lambda board: board.name)
def test_the_boards_limit_of_union(board: Any) -> None:
    for union in (1, 2, 4, 8, 16):
        device = Device(board)
        dim = (4 * union, 1, 1)
        if union <= min(board.max_union, board.clusters):
            device.launch(nothing, dim=dim, kind=f"UNION{union}")
            device.synchronize()
        else:
            refused(
                rf"nothing: UNION{union} needs {union} clusters at once; {board.name} takes at most "
                rf"UNION{board.max_union} and has {board.clusters} clusters?$",
                nothing,
                device=device,
                dim=dim,
                kind=f"UNION{union}",
            )


@pytest.mark.parametrize(
    ("kind", "x", "width", "near"),
    [("UNION1", 6, 4, 8), ("UNION2", 12, 8, 16), ("UNION4", 4, 16, 16), ("UNION4", 65535, 16, 65520)],
)
def test_dim_x_is_a_multiple_of_4_n(kind: str, x: int, width: int, near: int) -> None:
    refused(
        rf"nothing: dim\.x = {x} for {kind}: it must be a multiple of {width} \(4 cores x {width // 4} clusters?\); "
        rf"try {near}$",
        nothing,
        dim=(x, 1, 1),
        kind=kind,
    )


@pytest.mark.parametrize("dim", [(0, 1, 1), (4, 0, 1), (4, 1, -1), (65536, 1, 1), (4, 65536, 1), (4, 1, 65536)])
def test_an_axis_is_1_to_65535(dim: tuple[int, int, int]) -> None:
    remedy = "loop inside the kernel" if max(dim) > 65535 else "guard an empty launch with `if`"
    message = rf"nothing: dim {re.escape(str(dim))}: each axis of a grid must be 1 to 65535; {remedy}$"
    refused(message, nothing, dim=dim, kind="BLOCK")


@pytest.mark.parametrize("dim", [(), (4, 1, 1, 1), (4.0, 1, 1), ("4", 1, 1)])
def test_a_grid_is_three_integers(dim: Any) -> None:
    refused(rf"nothing: dim {re.escape(str(dim))}: a grid is three integers \(x, y, z\), or fewer$", nothing, dim=dim)


@pytest.mark.parametrize("dim", [[4, 2, 1], np.array([4, 2, 1]), (np.int64(4), 2, np.uint8(1)), (4, 2), (8,)])
def test_a_grid_may_be_any_sequence(run: Any, dim: Any) -> None:
    device = run(nothing, dim=dim, kind="UNION1")
    assert sorted({task.task_id for task in device.log.tasks}) == list(range(8))
    assert len(run(nothing, dim=np.int32(3)).log.tasks) == 3


def test_the_largest_grid_takes_no_memory() -> None:
    """A launch of 2^48 tasks is valid, although it would never end."""
    Device().launch(nothing, dim=(65535, 65535, 65535), kind="BLOCK")


@pytest.mark.parametrize(("dim", "width"), [((3, 1, 1), 1), ((2, 3, 4), 1), ((8, 1, 3), 4), ((16, 5, 2), 8)])
def test_task_ids_count_along_x_first(dim: tuple[int, int, int], width: int) -> None:
    grid = WaitingJobs(dim, width)
    expected = [(x, y, z) for z in range(dim[2]) for y in range(dim[1]) for x in range(0, dim[0], width)]
    assert len(grid) == len(expected)
    assert [grid.popleft() for _ in expected] == expected
    assert not grid


def test_clusters_of_one_core(run: Any) -> None:
    """Arch 322 has one core in a cluster."""
    device = run(nothing, device=X4.replace(cores_per_cluster=1), dim=(2, 3, 1), kind="UNION2")
    assert sorted(task.core for task in device.log.tasks) == [0] * 6 + [0x80] * 6
    refused(
        r"nothing: dim\.x = 3 for UNION2: it must be a multiple of 2 \(1 core x 2 clusters\); try 4$",
        nothing,
        device=Device(X4.replace(cores_per_cluster=1)),
        dim=3,
        kind="UNION2",
    )


def test_a_launch_rejects_objects_that_are_not_kernels() -> None:
    def plain(core: Core) -> None:
        pass

    async def generator(core: Core) -> Any:
        yield

    @types.coroutine
    def old(core: Core) -> Any:
        yield

    message = r"is not a kernel: write it as `async def {}\(core, \.\.\.\)`, without `yield`$"
    refused("plain " + message.format("plain"), plain, dim=4)
    refused("generator " + message.format("generator"), generator, dim=4)
    refused("old " + message.format("old"), old, dim=4)
    refused("print " + message.format("print"), print, dim=4)
    refused("None " + message.format("kernel"), None, dim=4)
    refused(r"<function .*<lambda>.*> is not a kernel|<lambda> is not a kernel", lambda core: None, dim=4)
    refused("7 is not a kernel", 7, dim=4)
    refused(
        r"^the kernel is a name, 'add.py:add': pass the function itself, imported from its file", "add.py:add", dim=4
    )


def test_an_object_whose_repr_raises_is_named_by_its_type() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    with pytest.raises(LaunchError, match=r"^<Broken> is not a kernel: write it as "):
        mlusim.run(Broken(), np.ones(3, np.float32))


def test_a_partial_has_the_name_of_its_function() -> None:
    kernel = functools.partial(functools.partial(busy), cycles=3)
    assert mlusim.run(kernel, kind="BLOCK", dim=1).operator == "busy"
    refused(r"^busy: dim \(0, 1, 1\): each axis", kernel, dim=0)


def test_a_coroutine_object_is_not_a_kernel() -> None:
    """The coroutine leaves no warning, either."""
    refused(
        r"the kernel is a coroutine object instead of a function: pass `busy` itself instead of calling it$",
        busy(None, 3),
        dim=4,
    )


@pytest.mark.parametrize("arguments", [(), (1, 2), (None, None, None)])
def test_the_number_of_arguments(arguments: tuple[Any, ...]) -> None:
    refused(
        rf"busy\(core: 'Core', cycles: 'int'\) -> 'None' was launched with {len(arguments)} arguments after `core`: ",
        busy,
        *arguments,
        dim=4,
    )


@pytest.mark.parametrize(("setting", "meant"), [("grid", "dim"), ("task_type", "kind")])
def test_a_setting_of_the_launch_by_another_name(setting: str, meant: str) -> None:
    refused(rf".*: got an unexpected keyword argument '{setting}'; did you mean {meant}\?$", busy, 3, **{setting: 1})


def test_a_kernel_without_core() -> None:
    async def forgot() -> None:
        pass

    refused(r"forgot\(\) -> 'None' was launched with 0 arguments after `core`: too many positional arguments$", forgot)


def test_keyword_only_settings_of_a_kernel() -> None:
    given = []

    async def kernel(core: Core, *, rows: int, strategy: str = "tight") -> None:
        given.append((rows, strategy))

    device = Device()
    device.launch(kernel, dim=1, kind="BLOCK", rows=3, strategy="wide")
    device.synchronize()
    assert given == [(3, "wide")]
    with pytest.raises(LaunchError, match=r"missing a required (keyword-only )?argument: 'rows'"):
        device.launch(kernel, dim=1, kind="BLOCK")


def test_views_of_the_device() -> None:
    device, other = Device(), Device()

    async def kernel(core: Core, x: View) -> None: ...

    refused(
        r"kernel: <view of input .*> is not in this device's GDRAM: upload",
        kernel,
        other.upload(np.zeros(4)),
        device=device,
    )
    gone = device.upload(np.zeros(4), "gone")
    device.free(gone)
    refused(
        r"kernel: <view of gone \(gdram\): float64 \[4\]> was freed; upload or allocate it again$",
        kernel,
        gone,
        device=device,
    )
    refused("the queue belongs to another device: make one with this device's queue", nothing, queue=other.queue())


def test_partial_functions_and_methods_are_kernels(run: Any) -> None:
    seen: list[int] = []

    class Operator:
        async def kernel(self, core: Core, value: int) -> None:
            seen.append(value)

    run(Operator().kernel, 1)
    run(functools.partial(Operator().kernel, value=2))
    assert seen == [1, 2]


def test_an_object_that_can_be_called_names_the_method_to_pass(run: Any) -> None:
    class Operator:
        async def __call__(self, core: Core) -> None:
            pass

    with pytest.raises(LaunchError, match=r"is an object whose `__call__` is a kernel: pass that method itself$"):
        run(Operator())
    run(Operator().__call__)


def test_a_queue_is_one_of_the_device() -> None:
    with pytest.raises(LaunchError, match=r"^3 is not a queue: make one with this device's queue\(\)$"):
        Device("mlu370-x4").launch(nothing, queue=3)


def test_conversions_are_suggested_only_for_names_of_conversions() -> None:
    async def displays(core: Core) -> None:
        core.display(1)

    async def converts(core: Core) -> None:
        core.float2hlf(core, core)

    refuse = functools.partial(mlusim.run, kind="BLOCK", dim=1)
    with pytest.raises(UnknownNameError, match=r"core\.display is not an instruction of this core: docs"):
        refuse(displays)
    with pytest.raises(UnknownNameError, match="did you mean float2half"):
        refuse(converts)
