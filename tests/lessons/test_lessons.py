"""Every lesson runs and prints what its page shows; its exercise fails the check, and its solution passes."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mlusim.bangc.compiler.toolchain import find_compiler
from mlusim.errors import InputError

ROOT = Path(__file__).resolve().parent.parent.parent
LESSONS = ROOT / "lessons"
EXERCISES = sorted((LESSONS / "exercises").glob("*.py"))
SOLUTIONS = Path(__file__).parent / "solutions"


@pytest.fixture(scope="module")
def lesson_modules():
    """`build` and `check`, which find their shared module beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(LESSONS))
        modules = {}
        for name in ("build", "check"):
            spec = importlib.util.spec_from_file_location(f"lessons_{name}", LESSONS / f"{name}.py")
            modules[name] = importlib.util.module_from_spec(spec)
            patch.setitem(sys.modules, spec.name, modules[name])
            spec.loader.exec_module(modules[name])
        yield modules
        sys.modules.pop("tools", None)


try:
    find_compiler()
    NO_COMPILER = ""
except InputError as error:
    NO_COMPILER = str(error)
BANG_C = pytest.mark.skipif(bool(NO_COMPILER), reason=NO_COMPILER)


def param(path):
    return pytest.param(path, id=path.stem, marks=[BANG_C] if path.stem.startswith("13") else [])


def exercise_params():
    """The ladders of the last two lessons take several seconds each."""
    params = []
    for path in EXERCISES:
        marks = [pytest.mark.slow] if path.stem[:2] in ("12", "13") else []
        params.append(pytest.param(path, id=path.stem, marks=[*param(path).marks, *marks]))
    return params


def lesson_params():
    return [param(path) for path in sorted(LESSONS.glob("[0-9][0-9]_*.py"))]


@pytest.mark.parametrize("lesson", lesson_params())
@pytest.mark.grid(2)
def test_a_lesson_prints_what_its_page_shows(lesson, lesson_modules):
    page, figures = lesson_modules["build"].render(lesson)
    # Out of date after a change of the model? `python lessons/build.py`, and read the difference.
    assert page == (LESSONS / "pages" / f"{lesson.stem}.md").read_text(encoding="utf-8")
    assert figures
    for name, _ in figures:
        assert (LESSONS / "pages" / "figures" / f"{name}.svg").stat().st_size > 1000
    assert len(re.findall(r"^# ", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)) == 1
    assert "## Exercise" in page


@pytest.mark.slow
def test_a_lesson_as_a_script_writes_its_pictures_to_a_new_folder(tmp_path):
    def pictures():
        command = [sys.executable, LESSONS / "01_one_core.py"]
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return {Path(path) for path in re.findall(r"\(picture: (.+)\)", run.stderr)}

    first, again = pictures(), pictures()
    assert first
    assert all(path.read_bytes().startswith(b"<?xml") for path in first | again)
    assert {path.parent.parent for path in first | again} == {tmp_path}
    assert len({path.parent for path in first}) == 1
    assert not first & again


@pytest.mark.parametrize("lesson", lesson_params())
def test_a_notebook_is_its_lesson(lesson, lesson_modules):
    pytest.importorskip("jupytext")
    # Out of date? `python lessons/build.py --notebooks`.
    assert lesson.with_suffix(".ipynb").read_text(encoding="utf-8") == lesson_modules["build"].notebook(lesson)


def run_notebook(lesson):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    book = nbformat.read(lesson.with_suffix(".ipynb"), as_version=4)
    nbclient.NotebookClient(book, resources={"metadata": {"path": str(LESSONS)}}).execute()
    return [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.mark.filterwarnings("ignore")  # of the notebook server's libraries
@pytest.mark.slow
def test_a_lesson_runs_as_a_notebook_and_shows_its_pictures():
    outputs = run_notebook(LESSONS / "01_one_core.py")
    assert [output for output in outputs if "image/svg+xml" in output.get("data", {})]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lesson", lesson_params())
def test_every_lesson_runs_as_a_notebook(lesson):
    assert run_notebook(lesson)


def test_the_index_and_every_page_link_to_files():
    for page in (LESSONS / "README.md", *(LESSONS / "pages").glob("*.md")):
        targets = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
        assert [target for target in targets if "://" not in target and not (page.parent / target).exists()] == []
    listed = set(re.findall(r"pages/(\w+)\.md", (LESSONS / "README.md").read_text(encoding="utf-8")))
    assert listed == {path.stem for path in LESSONS.glob("[0-9][0-9]_*.py")}


def verdict(lesson_modules, path):
    check = lesson_modules["check"]
    try:
        return check.check(path)
    except check.NotYetError as error:
        return f"not yet: {error}"


WRONG = {
    "01": "wrong-value",
    "02": r"task-race: task \d+ and task \d+ write the same bytes of out",
    "03": "compute i and store i - 1 share a step",
    "04": "its memory core can load it to SRAM",
    "05": "does not fit",
    "06": r"with inputs \[10, 16\], -4:\n\nerror: wrong-value",
    "07": "the margins of a row are 2 x 32 elements",
    "08": "find the 6 sequences of consecutive rows",
    "09": "the number of bytes written on the bus is 16 384 B and should be at most 8 192 B: collect rows in NRAM",
    "10": "race: mul reads b before memcpy is known to have written it",
    "11": "the target is 70 %: larger tiles, two buffers",
    "12": "let load i \\+ 1, matmul i and store i - 1 share a step",
    "13": "let the loads of tile i \\+ 1, the add of tile i and the store of tile i - 1 share a step",
}


@pytest.mark.parametrize("exercise", exercise_params())
def test_an_unsolved_exercise_fails(exercise, lesson_modules):
    assert re.search(WRONG[exercise.name[:2]], verdict(lesson_modules, exercise))


def test_the_race_exercise_gives_the_right_result_by_luck(lesson_modules):
    found = verdict(lesson_modules, LESSONS / "exercises" / "10_missing_sync.py")
    assert len(re.findall("^error: race: ", found, re.MULTILINE)) == 2
    assert "wrong-value" not in found


@pytest.mark.parametrize("exercise", exercise_params())
def test_its_solution_passes(exercise, lesson_modules):
    assert verdict(lesson_modules, SOLUTIONS / exercise.name).startswith("pass: ")


def test_every_exercise_has_a_lesson_a_check_and_a_solution(lesson_modules):
    names = [path.name for path in EXERCISES]
    assert names == [path.name for path in sorted(LESSONS.glob("[0-9][0-9]_*.py"))]
    assert names == sorted(path.name for path in SOLUTIONS.glob("*.py"))
    assert list(lesson_modules["check"].EXERCISES) == [name[:2] for name in names]


CHANGES = [
    ("03", "await core.sync()", "pass", "race:"),
    ("02", "core.task_id * TILE, x.size", "core.task_id * TILE, x.size - TILE", "never-written"),
    ("05", "rows = min(time, core.nram.usable_bytes // (elements * x.itemsize))", "rows = time", "does not fit"),
    ("04", "await core.sync_cluster()", "pass", "race:"),
    ("08", "await core.memcpy(out, tile)", "await core.memcpy(out[:1], tile[:1])", "never-written"),
    ("08", "await core.memcpy(out, tile)", "await core.memcpy_rows(out, tile, range(len(rows)), range(len(rows)))",
     "the number of copies is 137 and should be at most 18"),
    ("11", "core.memcpy_async(out[start", "await core.memcpy(out[start", "pass: "),
    ("12", "await core.sync()", "pass", "race:"),
    ("12", "core.memcpy(right, weights)", "core.memcpy(right[1:], weights[1:])", "uninitialised"),
    ("01", "core.mul(tile, tile, 2.0)", "1 / 0", "ZeroDivisionError"),
    ("01", "core.mul(tile, tile, 2.0)", "core.mul(tile, tile, ", "line 10: SyntaxError: '\\(' was never closed"),
    ("01", "async def kernel", "async def kernal", "has no function 'kernel': it has kernal"),
    ("01", "async def kernel", "kernel = print\n\n\nasync def other", "`kernel` is not a kernel: write it as"),
    ("01", "core.mul(tile, tile, 2.0)", "yield", "write it as `async def kernel\\(core, ...\\)`, without `yield`"),
    ("01", "TILE = 8192", "TILE = 1 // 0", "cannot be loaded: line 3: ZeroDivisionError"),
    ("01", "TILE = 8192", "raise SystemExit(0)", "cannot be loaded: line 3: SystemExit: 0"),
    # The watchdog waits for five seconds.
    pytest.param(*("01", "        core.mul(tile, tile, 2.0)", "        while True:\n            pass"),
                 "no operation issued", marks=pytest.mark.slow),
    ("04", "await core.memcpy(out", "await core.sync_cluster()\n        await core.memcpy(out", "hang"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "right", "wrong", "words"), CHANGES)
def test_typical_mistakes_are_recognised(number, right, wrong, words, lesson_modules, tmp_path):
    solution = next(SOLUTIONS.glob(f"{number}_*.py"))
    text = solution.read_text(encoding="utf-8")
    assert right in text
    path = tmp_path / solution.name
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    found = verdict(lesson_modules, path)
    assert re.search(words, found), found
    assert "Traceback" not in found


def test_a_solution_may_have_a_byte_order_mark_and_modules_beside_it(lesson_modules, tmp_path):
    """As Notepad saves it, and as other learners' folders have them: a module of the same name is another one."""
    solution = SOLUTIONS / "01_one_core.py"
    text = solution.read_text(encoding="utf-8").replace("TILE = 8192", "from size import TILE")
    for folder, size in (("ann", 8192), ("ben", 8000)):
        path = tmp_path / folder / solution.name
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8-sig")
        (path.parent / "size.py").write_text(f"TILE = {size}\n", encoding="utf-8")
        found = verdict(lesson_modules, path)
        assert found.startswith("pass: ") == (size == 8192), found


@pytest.mark.slow
def test_the_command_says_pass_or_what_is_wrong(lesson_modules, capsys):
    def run(*arguments):
        command = [sys.executable, str(LESSONS / "check.py"), *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
        )
        return done.returncode, done.stdout + done.stderr

    code, text = run(SOLUTIONS / "01_one_core.py")
    assert (code, text.startswith("pass: 2 cases are correct")) == (0, True)
    assert run()[0] == 2
    main = lesson_modules["check"].main
    assert main([str(EXERCISES[0])]) == 1
    assert capsys.readouterr().out.startswith("not yet: with inputs [8192]:")
    assert main(["nothing.py"]) == 2


@pytest.mark.slow
def test_an_exercise_of_ones_own_is_checked_as_the_readme_says(tmp_path):
    readme = (LESSONS / "README.md").read_text(encoding="utf-8")
    (tmp_path / "class.py").write_text(re.search(r"```python\n(from check import.*?)```", readme, re.DOTALL)[1])
    one_core = (SOLUTIONS / "01_one_core.py").read_text(encoding="utf-8").replace("2.0", "0.5")
    all_cores = """
async def kernel(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(8192, x.dtype)
    for start in range(core.task_id * 8192, x.size, core.task_dim * 8192):
        n = min(8192, x.size - start)
        await core.memcpy(tile[:n], x[start : start + n])
        core.mul(tile[:n], tile[:n], 0.5)
        await core.memcpy(out[start : start + n], tile[:n])
"""

    def run(kernel, exercise="class.py:halve"):
        (tmp_path / "halve.py").write_text(kernel)
        command = [sys.executable, str(LESSONS / "check.py"), "halve.py", exercise]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}
        )
        return done.returncode, done.stdout + done.stderr

    code, text = run(all_cores)
    assert (code, text[:48]) == (0, "pass: 2 cases are correct and free of races; the")
    code, text = run(all_cores.replace("0.5", "0.25"))
    assert (code, text.startswith("not yet: with inputs [100]:\n\nerror: wrong-value")) == (1, True)
    code, text = run(all_cores.replace("core.task_id * 8192", "0").replace("core.task_dim * 8192", "8192"))
    assert (code, "not yet: with inputs [100]:\n\nerror: task-race" in text) == (1, True)
    code, text = run(one_core)
    assert code == 1
    assert run(all_cores, "class.py:third") == (2, "error: class.py has no function 'third': it has halve\n")
    takes_none = "missing 1 required positional argument: 'core'; an exercise is a function without arguments\n"
    (tmp_path / "class.py").write_text("def halve(core):\n    return 3\n")
    assert run(all_cores) == (2, f"error: class.py:halve: halve() {takes_none}")
    (tmp_path / "class.py").write_text("def halve():\n    return 3\n")
    assert run(all_cores) == (
        2, "error: class.py:halve returns no exercise with cases: return Exercise([Case((x,), 2 * x)])\n"
    )  # fmt: skip


def test_a_bang_c_file_is_checked_by_the_file_that_compiles_it(lesson_modules, monkeypatch, capsys):
    checked = []
    monkeypatch.setattr(lesson_modules["check"], "check", lambda path, _: checked.append(path) or "pass")
    assert lesson_modules["check"].main([str(SOLUTIONS / "13_bang_c.mlu")]) == 0
    assert checked == [SOLUTIONS / "13_bang_c.py"]
    assert capsys.readouterr().out == "pass\n"
