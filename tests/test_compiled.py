"""The modules that `hatch_build.py` compiles avoid features that mypyc treats differently from Python."""

from __future__ import annotations

import ast
import importlib.util
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import mlusim
from mlusim import version
from mlusim.memory.docstrings import restore_docstring
from mlusim.version import is_compiled

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "mlusim"


def listed() -> list[str]:
    """`MODULES` of the build hook, which needs hatchling to be imported."""
    tree = ast.parse((ROOT / "hatch_build.py").read_text())
    lists = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "MODULES" for target in node.targets)
    ]
    return list(ast.literal_eval(lists[0]))


MODULES = listed()


def nodes(module: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse((ROOT / module).read_text())))


@pytest.mark.parametrize("module", MODULES)
def test_no_exception_has_a_cause_that_mypyc_would_drop(module):
    found = [node.lineno for node in nodes(module) if isinstance(node, ast.Raise) and node.cause is not None]
    assert not found, f"{module}: `raise ... from` sets no cause once compiled: set __cause__ in a plain module"


@pytest.mark.parametrize("module", MODULES)
def test_instances_need_no_dictionary_and_no_weak_reference(module):
    names = {node.id for node in nodes(module) if isinstance(node, ast.Name)}
    assert not names & {"vars", "weakref", "cached_property"}


@pytest.mark.parametrize("module", MODULES)
def test_no_frames_are_looked_at(module):
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in nodes(module)}
    assert not names & {"_getframe", "currentframe", "f_back"}, "a compiled function has no frame"


def test_no_plain_class_has_a_compiled_base():
    classes = {
        module: [node for node in nodes(module) if isinstance(node, ast.ClassDef)]
        for module in (path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py"))
    }
    compiled = {node.name for module in MODULES for node in classes[module]}
    wrong = [
        f"{module}: {node.name}"
        for module, found in classes.items()
        if module not in MODULES
        for node in found
        if compiled & {base.id for base in node.bases if isinstance(base, ast.Name)}
    ]
    assert not wrong


@pytest.mark.parametrize("name", ["View", "Pointer"])
def test_classes_have_docstrings_when_compiled_too(name):
    """In a checkout, of a class that lacks it as a compiled one does."""
    cls = getattr(mlusim, name)
    bare = cls if is_compiled() else type(name, (), {"__module__": cls.__module__})
    restore_docstring(bare)
    expected = {
        "View": "A typed, strided window on one allocation.",
        "Pointer": "An address and an element type, as in C",
    }
    assert bare.__doc__.startswith(expected[name])
    assert "\nMembers:\n" in bare.__doc__
    assert "dtype: object) -> " not in bare.__doc__
    if name == "View":
        assert "\n    transpose(*axes: int | tuple[int, ...]): Return the axes in another order" in bare.__doc__
        assert "\n    shape: Elements along each axis." in bare.__doc__
    assert expected[name] in pydoc.render_doc(bare)


def test_the_version_tells_how_it_was_built():
    # Not in the checkout, whose modules are never compiled.
    environment = {**os.environ, "PYTHONPATH": str(Path(mlusim.__file__).parent.parent)}
    command = [sys.executable, "-P", "-m", "mlusim", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    checkout = "not compiled, as in every checkout and editable installation"
    assert said == f"mlusim {mlusim.__version__}, {'compiled' if is_compiled() else checkout}\n"


class Hook:
    """What the build hook uses of hatchling, which tests do not need."""

    def __class_getitem__(cls, _):
        return cls

    def __init__(self, root, warnings):
        self.root = root
        self.app = SimpleNamespace(display_warning=warnings.append)


@pytest.mark.parametrize(
    ("compiles", "compiler", "reason"),
    [
        ("0", "/usr/bin/cc", "MLUSIM_COMPILE was 0 when it was installed"),
        ("1", None, r"there was no C compiler \(.+\) when it was installed"),
        ("1", "/usr/bin/cc", r"mypyc failed \(SystemExit: 1\): `pip install -v` shows its messages"),
    ],
)
def test_a_wheel_that_is_not_compiled_says_why(compiles, compiler, reason, tmp_path, monkeypatch):
    monkeypatch.setenv("MLUSIM_COMPILE", compiles)
    monkeypatch.setitem(
        sys.modules, "hatchling.builders.hooks.plugin.interface", SimpleNamespace(BuildHookInterface=Hook)
    )
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    monkeypatch.setattr(build.sys, "platform", "linux")
    monkeypatch.setattr(build.shutil, "which", lambda _: compiler)
    monkeypatch.setattr(build, "_compiled", lambda _: sys.exit(1))
    warnings, data = [], {"force_include": {}}
    build.CompileModules(str(tmp_path), warnings).initialize("standard", data)
    ((file, inside),) = data["force_include"].items()
    assert inside == "mlusim/not_compiled.txt"
    (warning,) = warnings
    assert re.fullmatch(f"not compiled, so operations take twice as long, because {reason}", warning)
    # The wheel has that file beside this module.
    Path(file).rename(tmp_path / "not_compiled.txt")
    monkeypatch.setattr(version, "__file__", str(tmp_path / "version.py"))
    monkeypatch.setattr(version, "is_compiled", lambda: False)
    assert re.fullmatch(f"not compiled, because {reason}", version.build())
