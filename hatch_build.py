"""Compile the performance-critical modules with mypyc, and one in C, while a wheel is built.

They are ordinary typed Python, and the one in C has a twin in NumPy: results are the same without this step. With it,
an operation takes half the host time. `help` finds no docstrings in compiled modules; editors and the documentation
read the sources. The wheel is plain Python if there is no C compiler, if the compilation fails, if MLUSIM_COMPILE is 0,
and in an editable install, where edits have to take effect. `mlusim --version` shows whether the package is compiled,
and if not, why.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import sysconfig
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The issue of an operation, its pipe, its link, its effect on memory, its record. `tests/test_compiled.py` has the
# rules for these modules.
MODULES = (
    "mlusim/arrays.py",
    "mlusim/bangc/execution/accesses.py",
    "mlusim/bangc/execution/compiled_task.py",
    "mlusim/bangc/calls/call_record.py",
    "mlusim/bangc/calls/copy_calls.py",
    "mlusim/bangc/execution/fibre_runner.py",
    "mlusim/bangc/execution/gdram_map.py",
    "mlusim/bangc/execution/placed_arrays.py",
    "mlusim/cores/atomics.py",
    "mlusim/cores/compute/deferred_vector.py",
    "mlusim/cores/compute/uncached_vector.py",
    "mlusim/cores/compute/vector.py",
    "mlusim/cores/compute/vector_call.py",
    "mlusim/cores/copies/byte_copies.py",
    "mlusim/cores/copies/effect.py",
    "mlusim/cores/copies/geometry.py",
    "mlusim/cores/copies/memcpy.py",
    "mlusim/cores/copies/shared_copy.py",
    "mlusim/cores/counted/bin_sort.py",
    "mlusim/cores/counted/collect.py",
    "mlusim/cores/counted/row_copies.py",
    "mlusim/cores/counted/row_loop.py",
    "mlusim/cores/counted/scalar_copy.py",
    "mlusim/cores/instructions/limits.py",
    "mlusim/cores/issuer.py",
    "mlusim/cores/machine/pipe.py",
    "mlusim/cores/machine/unit.py",
    "mlusim/cores/memory_sets.py",
    "mlusim/cores/operands.py",
    "mlusim/cores/scalar.py",
    "mlusim/cores/synchronisation/syncs.py",
    "mlusim/cores/tasks/task.py",
    "mlusim/cores/tasks/waiting.py",
    "mlusim/memory/allocation.py",
    "mlusim/memory/bin_costs.py",
    "mlusim/memory/copy_cost.py",
    "mlusim/memory/copy_limits.py",
    "mlusim/memory/deferred.py",
    "mlusim/memory/flow.py",
    "mlusim/memory/layout.py",
    "mlusim/memory/link.py",
    "mlusim/memory/loop_costs.py",
    "mlusim/memory/quick_link.py",
    "mlusim/memory/row_copy.py",
    "mlusim/memory/shares.py",
    "mlusim/memory/view.py",
    "mlusim/records.py",
    "mlusim/units.py",
)
# Loops over elements, in C (`mlusim/memory/element_loops.py`).
C_MODULES = ("mlusim/memory/_element_loops.c",)
# The sources of other libraries are not read, which would take half a minute; their types do not matter here.
_MYPY = """
[mypy]
python_version = 3.11
follow_imports = skip
ignore_missing_imports = True
disable_error_code = misc, no-any-return, var-annotated
[mypy-mlusim.*]
follow_imports = silent
"""


class CompileModules(BuildHookInterface[Any]):
    """A build hook of hatchling, which runs before the files of the wheel are collected."""

    def dependencies(self) -> list[str]:
        """Return the packages that the build needs besides hatchling; NumPy is for its types."""
        return [] if _obstacle() else ["mypy[mypyc]>=2.4,<3", "numpy>=2.0", "setuptools>=70"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the extension modules into the wheel beside their sources."""
        if version == "editable":
            return
        reason = _obstacle()
        if not reason:
            try:
                folder = _compiled(Path(self.root))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever stops mypyc or the compiler
                reason = f"mypyc failed ({type(error).__name__}: {error}): `pip install -v` shows its messages"
        if reason:
            self.app.display_warning(f"not compiled, so operations take twice as long, because {reason}")
            # pip shows no warning of a build that succeeds; `mlusim --version` reads this file.
            file = Path(self.root) / "build" / "not_compiled.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(reason, encoding="utf-8")
            build_data["force_include"][str(file)] = "mlusim/not_compiled.txt"
            return
        for file in sorted(folder.rglob("*")):
            if file.suffix in {".so", ".pyd"}:
                build_data["force_include"][str(file)] = str(file.relative_to(folder))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _obstacle() -> str:
    """Return the reason for not compiling, or nothing. mypyc needs a C compiler and the interpreter's global lock."""
    if os.environ.get("MLUSIM_COMPILE") == "0":
        return "MLUSIM_COMPILE was 0 when it was installed"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "mypyc does not support interpreters without the global lock"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if sys.platform != "win32" and shutil.which(compiler) is None:
        return f"there was no C compiler ({compiler}) when it was installed"
    return ""


def _compiled(root: Path) -> Path:
    """Return a folder in `build` with the extension modules of these sources, compiled now or by an earlier build."""
    digest = hashlib.sha256(sysconfig.get_config_var("EXT_SUFFIX").encode())
    # All sources: compiled code relies on the types of the other modules, too.
    sources = [path for path in (root / "mlusim").rglob("*") if path.suffix in {".c", ".py"}]
    for path in (root / "hatch_build.py", *sorted(sources)):
        digest.update(path.read_bytes())
    done = root / "build" / f"compiled-{digest.hexdigest()[:16]}"
    if not done.is_dir():
        done.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=done.parent) as folder:
            _compile(root, Path(folder))
            try:
                (Path(folder) / "lib").rename(done)
            except OSError:
                # Another build of the same sources may have finished first.
                if not done.is_dir():
                    raise
    return done


def _compile(root: Path, folder: Path) -> None:
    """Compile the modules to extension modules in `folder`/lib."""
    from mypyc.build import mypycify
    from setuptools import Distribution, Extension

    (folder / "mypy.ini").write_text(_MYPY)
    with chdir(root), redirect_stdout(sys.stderr):
        extensions = mypycify(
            [f"--config-file={folder / 'mypy.ini'}", f"--cache-dir={folder / 'cache'}", *MODULES],
            opt_level="2",
            debug_level="0",
            multi_file=True,
            target_dir=str(folder / "c"),
        )
        extensions += [Extension(source.removesuffix(".c").replace("/", "."), [source]) for source in C_MODULES]
        build = Distribution({"name": "mlusim", "ext_modules": extensions}).get_command_obj("build_ext")
        build.build_lib = str(folder / "lib")
        build.build_temp = str(folder / "objects")
        build.ensure_finalized()
        build.run()
