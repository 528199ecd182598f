"""Allowed imports between packages, and the cost of imports, checked with `ast`."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import mlusim

PACKAGE = Path(mlusim.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# Packages and modules in the order of the arrows; a module may import from its own package and from those before it.
ORDER = (
    ("arrays", "units", "errors", "progress", "spelling", "version"),
    ("files", "own_files", "processes", "quantities", "source_code"),
    ("dtypes",),
    ("inputs",),
    ("hardware",),
    ("records", "log_tables"),
    ("log",),
    ("memory",),
    ("cores",),
    ("planning",),
    ("kernels",),
    ("analysis",),
    ("verifier",),
    ("results",),
    ("host",),
    ("ops",),
    ("retiming",),
    ("bangc", "cinn", "mluop", "validation"),
    ("explore",),
    ("__init__",),
    ("cli",),
    ("__main__",),
)
RANK = {package: rank for rank, packages in enumerate(ORDER) for package in packages}

# What a kernel engineer's file may know: the kernel-facing API, the board, and what copies cost.
KERNEL_FACING = {
    "mlusim.arrays",
    "mlusim.cores.core",
    "mlusim.dtypes",
    "mlusim.errors",
    "mlusim.hardware",
    "mlusim.hardware.board_record",
    "mlusim.memory.addresses",
    "mlusim.memory.bus",
    "mlusim.memory.copy_shape",
    "mlusim.memory.copy_limits",
    "mlusim.memory.kinds",
    "mlusim.memory.loop_costs",
    "mlusim.memory.copy_cost",
    "mlusim.memory.view",
    "mlusim.units",
    "mlusim.cores.convert",
}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


@cache
def imports(path: Path, *, typing_only: bool = True) -> list[tuple[str, int, bool]]:
    """Absolute module, line, and whether it is at the top level, of every import; `typing_only`: also for checkers."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]

    def walk(node: ast.AST, *, top: bool) -> Iterator[tuple[str, int, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):  # most of a tree, and without imports
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, child.lineno, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                module = ".".join([*base, *([child.module] if child.module else [])])
                for alias in child.names:
                    whole = f"{module}.{alias.name}"
                    found = PACKAGE.parent.joinpath(*whole.split("."))
                    yield (whole if found.with_suffix(".py").exists() or found.is_dir() else module), child.lineno, top
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                if typing_only:
                    yield from walk(child, top=top)
                yield from (found for part in child.orelse for found in walk(part, top=top))
            else:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(child, top=top and not inside)

    return [*walk(tree_of(path), top=True)]


def test_every_package_has_a_layer() -> None:
    packages = {package_of(module_name(path)) for path in FILES}
    assert packages <= set(RANK), f"say in ORDER where {sorted(packages - set(RANK))} belong"


def test_imports_follow_the_order() -> None:
    """Imports at run time; those for type checkers only may point up."""
    wrong = []
    for path in FILES:
        package = package_of(module_name(path))
        for module, line, _ in imports(path, typing_only=False):
            if module.split(".")[0] != "mlusim" or package == "__init__":
                continue
            other = package_of(module)
            if other != package and RANK[other] >= RANK[package]:
                wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {package} imports {module}")
    assert not wrong


@pytest.mark.parametrize(
    ("package", "rank"),
    [
        # Checks do not know each other.
        ("verifier", {"accesses": 0, "order": 1, "races": 2, "uninitialised": 2, "split": 2}),
        ("bangc", {"calls": 0, "execution": 1, "compiler": 2, "host": 3}),
        ("cores", {"instructions": 0, "compute": 1}),
    ],
)
def test_folders_of_a_package_are_layered(package: str, rank: dict[str, int]) -> None:
    """Imports at run time."""
    wrong = []
    for folder, own in rank.items():
        for path in (PACKAGE / package / folder).glob("*.py"):
            for module, line, _ in imports(path, typing_only=False):
                other = module.removeprefix(f"mlusim.{package}.").partition(".")[0]
                if other in rank.keys() - {folder} and rank[other] >= own:
                    wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {module}")
    assert not wrong


@pytest.mark.parametrize("path", [p for p in FILES if p.parts[-2] == "kernels"], ids=lambda path: path.name)
def test_kernels_import_only_the_kernel_facing_api(path: Path) -> None:
    wrong = [
        f"{path.name}:{line}: {module}"
        for module, line, _ in imports(path)
        if module.startswith("simpy")
        or (
            module.startswith("mlusim.")
            and module not in KERNEL_FACING
            and package_of(module) not in ("kernels", "planning")
        )
    ]
    assert not wrong


def test_memory_does_not_import_cores_or_kernels() -> None:
    for path in FILES:
        if package_of(module_name(path)) == "memory":
            for module, line, _ in imports(path):
                assert package_of(module) not in ("cores", "kernels", "host"), f"{path.name}:{line}"


def test_simpy_is_imported_in_two_files_only() -> None:
    users = sorted(
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        if any(m.split(".")[0] == "simpy" for m, _, _ in imports(path))
    )
    assert users == ["host/device.py", "memory/clock.py"]


def test_simpy_is_not_modified() -> None:
    """No attribute of SimPy is assigned, anywhere."""
    for path in FILES:
        for node in nodes_of(path):
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                if isinstance(target, ast.Attribute):
                    root = target.value
                    while isinstance(root, ast.Attribute):
                        root = root.value
                    assert not (isinstance(root, ast.Name) and root.id == "simpy"), f"{path.name}:{node.lineno}"


def test_matplotlib_is_imported_in_analysis_only_and_inside_functions() -> None:
    found = 0
    for path in FILES:
        for module, line, top in imports(path, typing_only=False):
            if module.split(".")[0] == "matplotlib":
                found += 1
                assert not top, f"{path.name}:{line} imports matplotlib when it is imported"
                assert package_of(module_name(path)) == "analysis", f"{path.name}:{line}"
    assert found


def test_plotly_is_imported_for_a_page_only_and_inside_a_function() -> None:
    users = {
        (path.relative_to(PACKAGE).as_posix(), top)
        for path in FILES
        for module, _, top in imports(path, typing_only=False)
        if module.split(".")[0] == "plotly"
    }
    assert users == {("analysis/page/embed.py", False)}


def test_rich_and_click_are_imported_where_used() -> None:
    for path in FILES:
        if package_of(module_name(path)) == "cli":
            continue
        for module, line, top in imports(path, typing_only=False):
            assert not (top and module.split(".")[0] in ("rich", "click")), f"{path.name}:{line}: {module}"


_A_RUN = """
import numpy as np, mlusim
async def kernel(core, x):
    await core.memcpy(core.nram.alloc(4, 'int8'), x)
mlusim.run(kernel, np.zeros(4, np.int8), dim=1, kind='BLOCK')
"""


@pytest.mark.parametrize(
    "program",
    [
        "import mlusim",
        "import mlusim; mlusim.Device; mlusim.Core",
        "import mlusim.host.device, mlusim.log, mlusim.cores.core",
        _A_RUN,
    ],
)
@pytest.mark.grid(2)
def test_an_import_and_a_run_are_cheap(program: str) -> None:
    """No pictures, tables or command lines come with the board."""
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    code = f"{program}\nimport sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    assert not {"matplotlib", "plotly", "rich", "click", "pandas", "scipy", "PIL", "hypothesis", "pytest"} & set(
        done.stdout.split()
    )


def test_kernels_use_no_global_state() -> None:
    """No `global` statement, and no environment variable, anywhere in the package but its command line."""
    for path in FILES:
        package = package_of(module_name(path))
        for node in nodes_of(path):
            assert not isinstance(node, ast.Global), f"{path.name}:{node.lineno}"
            if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
                assert package == "cli", f"{path.name}:{node.lineno}"


def test_modules_that_docstrings_name_exist() -> None:
    """Names in backticks such as `planning.reverse.plan_reverse`, with or without `mlusim.`, exist."""
    packages = "|".join(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
    missing = []
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(rf"`(?:mlusim\.)?((?:{packages})(?:\.\w+)+)`", text):
            *parts, last = match[1].split(".")
            module = PACKAGE.joinpath(*parts)
            whole = module / last
            if whole.with_suffix(".py").exists() or whole.is_dir():
                continue
            file = module.with_suffix(".py") if module.with_suffix(".py").exists() else module / "__init__.py"
            if not file.exists() or not re.search(rf"\b{last}\b", file.read_text(encoding="utf-8")):
                missing.append(f"{path.relative_to(PACKAGE)}: {match[0]}")
    assert not missing


@pytest.mark.parametrize(
    ("mark", "with_reason"),
    [("# noqa", r"# noqa: [A-Z0-9, ]+ - \S"), ("# type: ignore", r"# type: ignore\[[a-z-]+\]  # \S")],
)
def test_every_exception_from_a_rule_has_a_reason(mark: str, with_reason: str) -> None:
    """`# noqa: CODE - reason`, `# type: ignore[code]  # reason`."""
    comments = [
        f"{path}: {line.strip()}"
        for path in (*FILES, *Path(__file__).parent.rglob("*.py"))
        if path != Path(__file__)
        for line in path.read_text(encoding="utf-8").splitlines()
        if mark in line
    ]
    assert comments
    assert not [comment for comment in comments if not re.search(with_reason, comment)]


def test_arguments_that_docstrings_describe_exist() -> None:
    """A parameter that is renamed takes its line under `Args:` along."""
    stale, described = [], 0
    for path in FILES:
        for node in nodes_of(path):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.args.kwarg:
                continue
            section = re.search(r"^Args:\n((?: +.*\n?|\n)+)", ast.get_docstring(node) or "", re.MULTILINE)
            if section is None:
                continue
            arguments = node.args
            names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
            names |= {arguments.vararg.arg} if arguments.vararg else set()
            lines = re.findall(r"^    ((?:\*?\w+, )*\*?\w+):", section[1], re.MULTILINE)
            for name in ", ".join(lines).replace("*", "").split(", "):
                described += 1
                if name not in names:
                    stale.append(f"{path.relative_to(PACKAGE)}: {node.name}: {name}")
    assert described
    assert not stale


@pytest.mark.parametrize(
    "package", sorted(path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py"))
)
def test_the_map_of_a_package_names_every_module(package: str) -> None:
    text = ast.get_docstring(tree_of(PACKAGE / package / "__init__.py")) or ""
    listed = {name for head in re.findall(r"^  ((?:\w+, )*\w+)  ", text, re.MULTILINE) for name in head.split(", ")}
    modules = {path.stem for path in (PACKAGE / package).glob("*.py")} - {"__init__", "__main__"}
    missing = modules - listed - set(re.findall(r"`(\w+)`", text))
    assert not missing, f"say in mlusim/{package}/__init__.py what {sorted(missing)} are for"
    unknown = {name for name in listed - modules if not (PACKAGE / package / name).is_dir()}
    assert not unknown, f"there is no {sorted(unknown)} in mlusim/{package}"
