"""Sweeps of kernels, and the keys of their points."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import mlusim
from mlusim.errors import InputError
from mlusim.explore.axis_arguments import axes_of
from mlusim.explore.model_hash import MODEL
from mlusim.explore.point import Point
from sweeping_here import SHAPE, X4, here


def points_of(operation, **given):
    return list(axes_of(operation, **({"device": "mlu370-x4", "options": {}} | given)).points())


def test_a_kernel_over_its_settings(kernels, monkeypatch):
    monkeypatch.syspath_prepend(kernels.parent)
    found = mlusim.sweep(
        f"{kernels}:add", shape=10_000, tile=[256, 1024, 10**6], kind=["UNION1", "BLOCK"], dim=4, workers=0
    )
    assert found.counts == {"done": 4, "impossible": 2, "failed": 0, "died": 0}
    assert found.axes == ["tile", "kind"]
    assert "kernels.py:" in found.rows[-1]["message"]
    assert "nram.alloc of 4 000 000 B" in found.rows[-1]["message"]
    device = mlusim.Device(data=False)
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("kernels", kernels)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    x, y = (device.upload(np.zeros(10_000, np.float32)) for _ in range(2))
    device.launch(module.add, x, y, device.alloc(10_000, "float32"), 256, dim=4)
    device.synchronize()
    assert found.rows[0]["time_ps"] == device.log.launches[0].end_ps - device.log.launches[0].start_ps
    assert "tier" not in found.rows[0]


def test_a_function_that_launches(kernels):
    once, twice = (
        mlusim.sweep(f"{kernels}:{name}", shape=10_000, dtype="float16", workers=0).rows[0]
        for name in ("add", "add_twice")
    )
    assert twice["launches"] == 2
    assert twice["time_us"] > 1.9 * once["time_us"]


def test_a_callable_of_this_process():
    async def copy(core, x, out, part=2):
        if core.is_memory_core or core.task_id:
            return
        tile = core.nram.alloc(x.size // part, x.dtype)
        for start in range(0, x.size, tile.size):
            await core.memcpy(tile, x[start : start + tile.size])
            await core.memcpy(out[start : start + tile.size], tile)

    rows = here(copy, shape=4096, part=[1, 4]).rows
    assert [row["copies"] for row in rows] == [2, 8]
    assert here(copy, shape=4096, part=(1)).rows[0]["time_ps"] == rows[0]["time_ps"]


def test_a_text_is_values_of_the_type_of_the_default():
    async def copy(core, x, out, part=2, fast=True, block=(1, 2), how="near", more=None):
        """Never runs: only its points are made."""

    def values(**settings):
        points = points_of(copy, shape=SHAPE, options=settings)
        (name,) = settings
        return [point.options[name] for point in points]

    assert values(part="2..8*2,9") == [2, 4, 8, 9]
    assert values(part=[1, "4..8+2"]) == [1, 4, 6, 8]
    assert values(fast="true,false") == [True, False]
    assert values(block="(4,8),(2,2)") == [(4, 8), (2, 2)]
    assert values(how="near,far") == ["near,far"]
    assert values(more="2..8*2") == ["2..8*2"]
    with pytest.raises(InputError, match=r"^part: 'fast' is neither a number nor a range such as 16\.\.64\*2 or "):
        values(part="fast")
    with pytest.raises(InputError, match=r"^block=3: write a tuple in parentheses, such as block=\(4,8\)$"):
        values(block="3")


def test_a_function_without_a_module():
    """As made by `exec` in a separate dictionary."""
    names = {}
    exec("async def nothing(core, x, out, part=2): pass", names)
    assert here(names["nothing"], shape=4, part=[1, 2]).counts["done"] == 2


def test_objects_that_are_not_kernels_are_errors(kernels, tmp_path):
    with pytest.raises(InputError, match=r"kernels\.py has no function 'ad': it has add, add_twice, .*"):
        here(f"{kernels}:ad", shape=4)
    with pytest.raises(InputError, match=r"gone\.py: no such file$"):
        here(f"{tmp_path}/gone.py:f", shape=4)
    with pytest.raises(InputError, match=r"^kernels\.py:: name a file and a function in it"):
        here("kernels.py:", shape=4)
    (tmp_path / "bad.py").write_text("x = 1\n\nraise RuntimeError('not today')\n")
    with pytest.raises(InputError, match=r"bad\.py: cannot be loaded: line 3: RuntimeError: not today$"):
        here(f"{tmp_path}/bad.py:f", shape=4)
    (tmp_path / "worse.py").write_text("def f(:\n")
    with pytest.raises(InputError, match=r"worse\.py: cannot be loaded: line 1: SyntaxError: invalid syntax$"):
        here(f"{tmp_path}/worse.py:f", shape=4)
    (tmp_path / "imports.py").write_text("x = 1\nimport worse\n")
    with pytest.raises(
        InputError, match=r"imports\.py: .*: line 2: SyntaxError: invalid syntax \(worse\.py, line 1\)$"
    ):
        here(f"{tmp_path}/imports.py:f", shape=4)
    with pytest.raises(
        InputError,
        match=r"^tale: add has no such parameter with a default, which is a setting; did you mean tile\? it has tile$",
    ):
        here(f"{kernels}:add", shape=4, tale=3)
    with pytest.raises(
        InputError, match=r"^strategy: add is a function of your own, which no planner splits: omit it$"
    ):
        here(f"{kernels}:add", shape=4, strategy="all")
    with pytest.raises(
        InputError, match=r"^nram_limit_bytes: add is a function of your own, which no planner splits: omit it$"
    ):
        here(f"{kernels}:add", shape=4, nram_limit_bytes=4096)
    with pytest.raises(
        InputError, match=r"^dim: add_twice launches its kernels itself: make it a setting of add_twice$"
    ):
        here(f"{kernels}:add_twice", shape=4, dim=4)
    with pytest.raises(
        InputError, match=r"^add: task type 'union1': did you mean UNION1\? choose one of BLOCK, UNION1, UNION2"
    ):
        here(f"{kernels}:add", shape=4, kind=["BLOCK", "union1"])
    with pytest.raises(InputError, match=r"^add: dim \(0, 1, 1\): each axis of a grid must be 1 to 65535"):
        here(f"{kernels}:add", shape=4, dim=0)
    with pytest.raises(InputError, match=r"is a plain function, which is called as test\w+\(device, shape, dtype"):
        here(test_a_callable_of_this_process, shape=4)
    (tmp_path / "plain.py").write_text("def k(core, x, out):\n    core.memcpy(out, x)\n")
    message = (
        r"^k\(core, x, out\) is a plain function, and a kernel is an `async def`: write async def k\(core, \.\.\.\)"
    )
    with pytest.raises(InputError, match=message):
        here(f"{tmp_path}/plain.py:k", shape=4)
    text = (
        "class K:\n    async def __call__(self, core, x, out): pass\nk = K()\nasync def g(core, x, out):\n    yield\n"
    )
    (tmp_path / "others.py").write_text(text)
    with pytest.raises(InputError, match=r"^k is an object whose `__call__` is a kernel: assign that method to a name"):
        here(f"{tmp_path}/others.py:k", shape=4)
    with pytest.raises(InputError, match=r"^g\(core, x, out\) has a `yield`, which a kernel must not have"):
        here(f"{tmp_path}/others.py:g", shape=4)
    (tmp_path / "fails.py").write_text("def launch(device, shape, dtype):\n    device.nram.alloc(shape)\n")
    (row,) = here(f"{tmp_path}/fails.py:launch", shape=4).rows
    assert row["message"] == "launch: line 2: AttributeError: 'Device' object has no attribute 'nram'"


def test_a_kernel_without_tensors_has_a_time():
    async def alone(core):
        pass

    (row,) = here(alone, shape=4).rows
    assert (row["status"], row["copies"]) == ("done", 0)


def test_invalid_arguments_are_errors(kernels):
    with pytest.raises(
        InputError,
        match=r"^add: no argument for y and out; give shape=\.\.\. for random tensors .*, "
        r"or arguments=\['y=\.\.\.'\], a",
    ):
        here(f"{kernels}:add", arguments=["x=random:float32:8"])
    with pytest.raises(InputError, match=r"^tin_shift is an operator: arguments are for kernels of your own; pass"):
        here("tin_shift", shape=4, arguments=["8"])


def test_a_kernel_file_that_sweeps_when_it_is_loaded(tmp_path):
    path = tmp_path / "endless.py"
    path.write_text("import mlusim\nmlusim.sweep(__file__ + ':f', shape=4)\n")
    with pytest.raises(
        InputError, match=r"^endless\.py starts a sweep when it is loaded: put the call under `if __name__"
    ):
        here(f"{path}:f", shape=4)


def test_a_kernel_that_raises_is_a_failed_point(kernels):
    (row,) = here(f"{kernels}:divides_by_zero", shape=4).rows
    assert row["status"] == "failed"
    assert "ZeroDivisionError: division by zero" in row["message"]
    assert "kernels.py:" in row["message"]
    assert "time_us" not in row


def keys(operation, **given):
    return [point.key() for point in points_of(operation, **given) if isinstance(point, Point)]


def test_a_key_covers_everything_that_affects_the_result():
    base = {"shape": SHAPE, "strategy": "tight"}
    same, *others = (
        keys("tin_shift", **(base | change))[0]
        for change in (
            {},
            {"shape": (2, 4, 8, 50)},
            {"dtype": "float16"},
            {"strategy": "documented"},
            {"nram_limit_bytes": 4096},
            {"nram_bytes": 4096},
            {"cores": 8},
            {"vary": {"dma_read_latency_ps": [1]}},
            {"options": {"groups": 2}},
            {"seed": 1},
            {"device": "mlu370-x8"},
        )
    )
    assert len({same, *others}) == 1 + len(others)
    assert keys("tin_shift", **base) == [same]
    # However a board comes to its values, it is the same board.
    assert keys("tin_shift", **base, nram_bytes=X4.nram_usable_bytes, cores=32) == [same]


def test_a_changed_kernel_makes_a_new_point(kernels):
    before = keys(f"{kernels}:add", shape=4)
    assert keys(f"{kernels}:add", shape=4) == before
    kernels.write_text(kernels.read_text().replace("tile=1024", "tile=2048"))
    changed = keys(f"{kernels}:add", shape=4)
    assert changed != before
    twice = keys(f"{kernels}:add_twice", shape=4)
    (kernels.parent / "neighbour.py").write_text("DOUBLE = 2 + 1\n")
    assert keys(f"{kernels}:add_twice", shape=4) != twice
    # What a kernel does not use is not a part of it.
    assert keys(f"{kernels}:add", shape=4) == changed


def test_a_changed_model_makes_a_new_point(monkeypatch):
    before = keys("tin_shift", shape=SHAPE)
    monkeypatch.setattr("mlusim.explore.point.model_hash", lambda: "another")
    assert keys("tin_shift", shape=SHAPE) != before


def test_the_model_fingerprint_covers_all_imports_of_a_point():
    """Every module of mlusim that a point loads is in its hash, or is listed here as one without effect on figures."""
    code = (
        "import sys, mlusim; mlusim.sweep('gather', shape=(8, 8), workers=0)\n"
        "print(*(name for name in sys.modules if name.startswith('mlusim.')))"
    )
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    no_part = {"arrays", "explore", "cli", "errors", "verifier", "results", "files", "progress", "processes", "version"}
    # The number that it reads from a text is part of the point.
    no_part.add("quantities")
    no_part |= {"source_code", "spelling"}
    no_part_of_analysis = ("by_line", "known_error", "launch_log", "run_kind")
    ours = {name.removesuffix(".py").replace("/", ".") for name in MODEL}
    missing = [
        name
        for name in (full.removeprefix("mlusim.") for full in names)
        if not any(name == module or name.startswith(f"{module}.") for module in ours)
        and name.split(".")[0] not in no_part
        and name not in ("analysis", *(f"analysis.{module}" for module in no_part_of_analysis))
    ]
    assert missing == []


def test_arguments_modified_in_place_stay_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("y.npy", np.ones(64, np.float32))

    async def double(core, y, repeats=1):
        if core.is_memory_core or core.task_id:
            return
        tile = core.nram.alloc(y.shape, y.dtype)
        await core.memcpy(tile, y)
        for _ in range(repeats):
            core.add(tile, tile, tile)
        await core.sync()
        await core.memcpy(y, tile)

    found = mlusim.sweep(double, arguments=["inout:y.npy"], repeats=[1, 2], workers=0)
    assert found.counts["done"] == 2
    assert found.rows[0]["arguments"] == "inout:y.npy"
    (read_only,) = mlusim.sweep(double, arguments="y.npy", workers=0).rows  # one needs no list
    assert "y is an input" in read_only["message"]
    in_place, plain = (points_of(double, shape=None, arguments=[text])[0].key() for text in ("inout:y.npy", "y.npy"))
    assert in_place != plain
