"""The public names of `import mlusim`, and its cost."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import mlusim
from mlusim import errors

ROOT = Path(mlusim.__file__).parent


def loaded_after(code):
    """Modules that a fresh interpreter has loaded after `code`."""
    script = f"import sys\nsys.path.insert(0, {str(ROOT.parent)!r})\n{code}\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_importing_the_package_is_lazy():
    loaded = loaded_after("import mlusim")
    assert {name for name in loaded if name.startswith("mlusim.")} == {"mlusim.version"}
    assert not loaded & {"numpy", "simpy", "ml_dtypes", "click", "rich", "matplotlib"}


def test_a_run_loads_neither_the_command_line_nor_pictures():
    loaded = loaded_after("import mlusim\nfor name in mlusim.__all__: getattr(mlusim, name)")
    assert "simpy" in loaded
    assert not loaded & {"click", "rich", "matplotlib", "PIL", "mlusim.cli"}


@pytest.mark.parametrize("command", ["--help", "run -h", "sweep -h", "--version", "devices", "devices mlu370-x4"])
def test_the_command_line_answers_without_the_simulator(command):
    """NumPy alone takes longer to load than these take to answer."""
    loaded = loaded_after(
        "from click.testing import CliRunner\n"
        "from mlusim.cli import main\n"
        f"assert CliRunner().invoke(main, {command.split()}).exit_code == 0"
    )
    assert "click" in loaded
    assert not loaded & {"numpy", "simpy", "ml_dtypes", "matplotlib"}


@pytest.mark.parametrize("name", mlusim.__all__)
def test_every_public_name_is_there(name):
    assert getattr(mlusim, name) is not None
    assert name in dir(mlusim)


def test_every_error_is_public():
    defined = {name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)}
    assert defined == {name for name in mlusim.__all__ if name.endswith("Error")}


def test_type_checkers_see_the_public_names():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in guard.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {*seen, "__version__"} == set(mlusim.__all__)
    for name, module in seen.items():
        if module != "mlusim":
            assert getattr(importlib.import_module(module), name) is getattr(mlusim, name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'mlusim' has no attribute 'Devise': did you mean Device\?$"):
        mlusim.Devise  # noqa: B018 - reading it raises
    for name, target in mlusim._ELSEWHERE.items():
        with pytest.raises(AttributeError, match=rf"^module 'mlusim' has no attribute '{name}': write {target}$"):
            getattr(mlusim, name)
        module, _, function = target.rpartition(".")
        assert callable(getattr(importlib.import_module(module), function))
    for name in mlusim.ops.__all__:
        with pytest.raises(
            AttributeError, match=rf"^module 'mlusim' has no attribute '{name}': write mlusim.ops.{name}$"
        ):
            getattr(mlusim, name)
    with pytest.raises(AttributeError, match=r"^module 'mlusim' has no attribute 'zzz'$"):
        mlusim.zzz  # noqa: B018 - reading it raises
    with pytest.raises(ImportError, match="cannot import name 'Devise'"):
        exec("from mlusim import Devise")
