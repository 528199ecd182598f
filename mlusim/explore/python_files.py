"""Functions of Python files, named as `file.py:function`: the file is loaded as a module of its own."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import invalidate_caches
from importlib.util import decode_source
from pathlib import Path
from typing import Any

from mlusim.errors import InputError
from mlusim.explore.fingerprint import installed
from mlusim.files import cannot_read, open_input
from mlusim.inputs import as_path
from mlusim.source_code import line_of, syntax_tree
from mlusim.spelling import it_has

Function = Callable[..., Any]

_files_loading: list[str] = []


def function_of(kernel_name: str) -> Function:
    """Return any function by `file.py:function`, such as a reference. Raises `InputError`."""
    as_path(kernel_name)
    return from_file(kernel_name)[0]


def from_file(kernel_name: str) -> tuple[Function, str, dict[str, str]]:
    """Return the function of `file.py:function`, or the only kernel of a `file.py`."""
    file, colon, name = kernel_name.rpartition(":")
    if kernel_name.endswith(".py"):
        file, colon, name = kernel_name, ":", ""
    if not colon or not file or not (name.isidentifier() or kernel_name.endswith(".py")):
        raise InputError(f"{kernel_name}: name a file and a function in it, as in kernels.py:add")
    if file.endswith(":"):
        raise InputError(f"{kernel_name}: write one colon, {file.rstrip(':')}:{name}")
    path = Path(file)
    text = source_text(path)
    name = name or _only_kernel(path, text)
    full_path = path.resolve()
    return execute(full_path, text, name, file), name, {"file": str(full_path), "text": text}


def source_text(path: Path) -> str:
    """Return the text of a Python file. Raises `InputError`."""
    try:
        with open_input(path) as stream:
            content = stream.read()
    except OSError as error:
        raise InputError(cannot_read(path, error)) from None
    except ValueError:
        raise InputError(f"{path} is not a path") from None
    try:
        return decode_source(content)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be decoded ({error}): save it as UTF-8, or name its encoding in its first line, as in "
            "`# coding: gbk`"
        ) from None


def _only_kernel(path: Path, text: str) -> str:
    """Return the name of the only kernel of a file, a top-level `async def`. Raises `InputError`."""
    try:
        names = [node.name for node in syntax_tree(text).body if isinstance(node, ast.AsyncFunctionDef)]
    except SyntaxError as error:
        raise InputError(f"{path}: cannot be loaded: line {error.lineno}: SyntaxError: {error.msg}") from error
    names = [name for name in names if not name.startswith("_")]
    if len(names) != 1:
        raise InputError(
            f"{path}: name the kernel, an `async def`, as in {path.name}:{(names or ['add'])[0]}; {it_has(names)}"
        )
    return names[0]


def execute(path: Path, text: str, name: str, file_name: str = "") -> Function:
    """Return a function of a module created from the text; `file_name` names the file in messages."""
    file_name = file_name or str(path)
    module = types.ModuleType(f"mlusim_kernel_{path.stem}")
    module.__file__ = str(path)
    module.__package__, _ = _package(path)
    # Messages and reports show the lines that run, even if the file does not exist on this machine.
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    sys.modules[module.__name__] = module
    _files_loading.append(path.name)
    try:
        # Standard output is for the results of a command.
        with importable_from(path), redirect_stdout(sys.stderr):
            exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - the user's own kernel
    except InputError:
        raise
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"{file_name}: {where_in(interrupt, path)}the file was being loaded")
        raise
    except BaseException as error:
        load_error = InputError(f"{file_name}: cannot be loaded: {where_in(error, path)}{_error_text(error, path)}")
        if isinstance(error, SyntaxError):  # whose traceback has no line of the file
            raise load_error from None
        raise load_error from error
    finally:
        _files_loading.pop()
    function: Function | None = module.__dict__.get(name)
    if not callable(function):
        functions = {key: value for key, value in vars(module).items() if inspect.isfunction(value) and key[:1] != "_"}
        names = [key for key, value in functions.items() if value.__code__.co_filename == str(path)]
        has = f"it has {', '.join(names)}" if names else "it defines no functions"
        raise InputError(f"{file_name} has no function {name!r}: {has}")
    return function


@contextmanager
def importable_from(path: Path | str) -> Iterator[None]:
    """Make modules of a kernel file's folder importable while it loads or runs; installed modules take precedence.

    The modules are unloaded afterwards, as other kernel files may have neighbours of the same name.
    """
    if not (path and Path(path).parent.is_dir()):
        yield
        return
    # The file's own, and that of the package which it is in: its relative imports start there.
    folders = [*{Path(path).parent: None, _package(Path(path))[1]: None}]
    names: set[str] = set()
    for folder in folders:
        names |= {module.stem for module in folder.glob("*.py")}
        names |= {init.parent.name for init in folder.glob("*/__init__.py")}
    names -= {name for name in names if installed(name)} | {"__main__"}
    hidden_modules = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] in names}
    sys.path.extend(map(str, folders))
    invalidate_caches()
    try:
        yield
    finally:
        for folder in folders:
            sys.path.remove(str(folder))
        for name in [*sys.modules]:
            if name.partition(".")[0] in names:
                del sys.modules[name]
        sys.modules.update(hidden_modules)


def _package(path: Path) -> tuple[str, Path]:
    """Return a file's package, by its import name, and the folder from which it is imported.

    A folder with an `__init__.py` is a package; without one the name is empty.
    """
    folder, parts = path.parent, list[str]()
    while folder.name.isidentifier() and (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), folder


def where_in(error: BaseException, path: Path | str) -> str:
    """Return the last line of a file in an error's traceback, as `line 3: `; if its syntax is wrong, the wrong line."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: "
    lines = []
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(line_of(trace))
        trace = trace.tb_next
    return f"line {lines[-1]}: " if lines else ""


def _error_text(error: BaseException, path: Path) -> str:
    """Return the type and the text of an error; a syntax error in the file itself without the place, which is known."""
    text = error.msg if isinstance(error, SyntaxError) and error.filename == str(path) else error
    return f"{type(error).__name__}: {text}"


def check_not_loading() -> None:
    """Raise `InputError` inside a kernel file that is being loaded: a sweep there would recurse without end."""
    if _files_loading:
        raise InputError(
            f"{_files_loading[-1]} starts a sweep when it is loaded: put the call under `if __name__ == '__main__':`"
        )
