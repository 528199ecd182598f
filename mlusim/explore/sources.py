"""What a point depends on besides its numbers: the simulator's own source, and that of a user's kernel.

A kernel travels to another process as the text of its file, so that what runs is what was hashed. One that has no file
(a notebook's, a function within a function) is pickled by cloudpickle.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mlusim.errors import InputError

Function = Callable[..., Any]

# What decides the figures of a run: files and folders of the package.
MODEL = (
    *("units.py", "dtypes.py", "hardware", "log.py", "memory", "cores", "planning", "kernels", "host", "ops"),
    *(f"analysis/{name}.py" for name in ("breakdown", "floor", "intervals", "metrics", "records")),
    *("explore/grid.py", "explore/point.py"),
)
_LOADED: dict[str, Function] = {}
_LOADING: list[str] = []


@cache
def model_hash() -> str:
    """Of the source of everything in mlusim that decides the figures of a run."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for name in MODEL:
        place = root / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class UserKernel:
    """A function of the user's, as it goes to another process.

    Attributes:
        name: of the function.
        sha256: of its source: its file and the files beside it that it imports, or its own text where it has none.
        launches: whether it is a plain function that uploads and launches itself; else it is a kernel.
        tensors: a kernel's parameters after `core` that have no default: tensors, the last one its output.
        settings: parameters that have a default, by name.
        file, text: of its source.
        pickled: by cloudpickle, in base64, where there is no file.
    """

    name: str
    sha256: str
    launches: bool
    tensors: tuple[str, ...]
    settings: Mapping[str, Any]
    file: str = ""
    text: str = ""
    pickled: str = ""

    def payload(self) -> dict[str, Any]:
        """As plain values."""
        return {name: getattr(self, name) for name in ("name", "sha256", "file", "text", "pickled")}

    def check_sendable(self) -> None:
        """Raise `InputError` where another process cannot have it."""
        if not (self.text or self.pickled):
            raise InputError(
                f"{self.name} has no file that other processes could load, and cloudpickle is not installed: put it at "
                "the top level of a file, pip install cloudpickle, or pass workers=0 to run in this process"
            )


def kernel_of(given: Function | str) -> UserKernel:
    """A user's function: itself, or `file.py:function`.

    Raises `InputError` for a file that cannot be loaded, a function that is not in it, and one that cannot be called as
    a kernel (`async def`, first parameter the core) or as one that launches (parameters device, shape, dtype).
    """
    if isinstance(given, str):
        return _from_file(given)
    if not callable(given):
        raise InputError(f"{given!r} is neither the name of an operator nor a function")
    name = getattr(given, "__name__", type(given).__name__)
    file, text = _file_of(given)
    if text:
        found = _described(given, name, _hash_of_file(Path(file), name, text), file=file, text=text)
    else:
        found = _described(given, name, _hash_of_function(given), pickled=_pickled(given))
    _LOADED[found.sha256] = given
    return found


def load(kernel: Mapping[str, Any]) -> Function:
    """The function of a `UserKernel.payload`, loaded once in each process."""
    key = kernel["sha256"]
    if key not in _LOADED:
        if kernel["pickled"]:
            import cloudpickle

            _LOADED[key] = cloudpickle.loads(base64.b64decode(kernel["pickled"]))
        else:
            _LOADED[key] = _execute(Path(kernel["file"]), kernel["text"], kernel["name"])
    return _LOADED[key]


def check_not_loading() -> None:
    """Raise `InputError` inside a file that is just being loaded for its kernel: a sweep there would never end."""
    if _LOADING:
        raise InputError(
            f"{_LOADING[-1]} starts a sweep when it is loaded: put the call under `if __name__ == '__main__':`"
        )


def _from_file(given: str) -> UserKernel:
    file, colon, name = given.rpartition(":")
    if not colon or not name.isidentifier() or not file:
        raise InputError(f"--kernel {given}: name a file and a function in it, as in kernels.py:add")
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"--kernel {given}: {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"--kernel {given}: {path} is not UTF-8 text, so it is no Python file") from None
    path = path.resolve()
    function = _execute(path, text, name)
    found = _described(function, name, _hash_of_file(path, name, text), file=str(path), text=text)
    _LOADED[found.sha256] = function
    return found


def _execute(path: Path, text: str, name: str) -> Function:
    """The function of that name in a module made of the text."""
    module = types.ModuleType(f"mlusim_kernel_{path.stem}")
    module.__file__ = str(path)
    if path.parent.is_dir() and str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # for what it imports from beside it
    # Messages and reports show the lines that run, also where the file is not on this machine.
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    sys.modules[module.__name__] = module
    _LOADING.append(path.name)
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - the user's own kernel
    except InputError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise InputError(f"{path}: cannot be loaded: {where_in(error, path)}{type(error).__name__}: {error}") from error
    finally:
        _LOADING.pop()
    function = module.__dict__.get(name)
    if not callable(function):
        own = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
        has = f"it has {', '.join(own)}" if own else "it has no functions"
        raise InputError(f"{path} has no function {name!r}: {has}")
    return function  # type: ignore[no-any-return]


def where_in(error: BaseException, path: Path | str) -> str:
    """The last line of a file that an error came through, as `line 3: `; for a syntax error the line that is wrong."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: "
    lines = []
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"line {lines[-1]}: " if lines else ""


def _described(function: Function, name: str, sha256: str, **source: str) -> UserKernel:
    launches = not inspect.iscoroutinefunction(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    required = tuple(one.name for one in plain if one.default is one.empty)
    settings = {one.name: one.default for one in parameters if one.default is not one.empty}
    if launches and len(required) != 3:  # noqa: PLR2004
        raise InputError(
            f"{name}({', '.join(required)}) is a plain function, and such a one is called as {name}(device, shape, "
            "dtype, **settings): it uploads, allocates and launches; a kernel is an `async def`"
        )
    if not launches and len(required) < 2:  # noqa: PLR2004
        raise InputError(
            f"{name}({', '.join(required)}) takes no tensor: a kernel to sweep is `async def {name}(core, x, ..., "
            "out)`, with tensors of the shape and element type that are swept; for any others write a plain function "
            "(device, shape, dtype) that launches it"
        )
    return UserKernel(name=name, sha256=sha256, launches=launches, tensors=required[1:], settings=settings, **source)


def _file_of(function: Function) -> tuple[str, str]:
    """Path and text of the file at whose top level a function is; empty where it is not."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", "<>")
    if code is None or "<" in name or "." in name or hasattr(function, "__wrapped__"):
        return "", ""
    path = Path(code.co_filename)
    if not path.is_file():
        return "", ""
    return str(path.resolve()), path.read_text(encoding="utf-8")


def _hash_of_file(path: Path, name: str, text: str) -> str:
    digest = hashlib.sha256(f"{name}\0".encode())
    for file, content in sorted(_with_neighbours(path, text).items()):
        digest.update(f"{file.name}\0{content}\0".encode())
    return digest.hexdigest()


def _with_neighbours(path: Path, text: str) -> dict[Path, str]:
    """The file and those of its folder that it imports, directly or not, with their text."""
    found, left = {path: text}, [(path, text)]
    while left:
        here, content = left.pop()
        try:
            tree = ast.parse(content)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for name in names:
                stem = here.parent.joinpath(*name.split("."))
                for place in (stem.with_suffix(".py"), stem / "__init__.py"):
                    if place.is_file() and place not in found:
                        found[place] = place.read_text(encoding="utf-8", errors="replace")
                        left.append((place, found[place]))
    return found


def _hash_of_function(function: Function) -> str:
    """Of a function without a file: its source where Python has it, and the values that it closes over."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        text = repr((code.co_code, code.co_names, [c for c in code.co_consts if not inspect.iscode(c)])) if code else ""
        text = text or repr(function)
    closed = [repr(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    return hashlib.sha256("\0".join([text, *closed]).encode()).hexdigest()


def _pickled(function: Function) -> str:
    try:
        import cloudpickle
    except ImportError:
        return ""
    return base64.b64encode(cloudpickle.dumps(function)).decode("ascii")
