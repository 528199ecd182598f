"""The sources that a point depends on: the simulator's and the user's kernel.

A kernel named `file.py:function` is sent to other processes as the text of its file; a function is pickled by value.
Its digest (`mlusim.explore.fingerprint`) covers everything it depends on, and workers verify it after loading.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import inspect
import linecache
import secrets
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import invalidate_caches
from importlib.util import decode_source
from pathlib import Path
from typing import Any

import numpy as np

from mlusim.bangc.kernel_files import SUFFIX, description, digest, is_kernel_file, kernel_again, kernel_of_file
from mlusim.errors import InputError, MlusimError, shown
from mlusim.explore.fingerprint import fingerprint, installed
from mlusim.files import open_input
from mlusim.host.arguments import ParameterType, Role
from mlusim.inputs import as_path

Function = Callable[..., Any]

# Files and folders of the package that determine the figures of a run.
MODEL = (
    *("units.py", "dtypes.py", "hardware", "log.py", "records.py", "memory", "cores"),
    *("planning", "kernels", "host", "ops", "bangc", "inputs.py"),
    *(f"analysis/{name}.py" for name in ("breakdown", "extrapolation", "intervals", "lower_bound")),
    *(f"analysis/{name}.py" for name in ("log_columns", "metrics", "totals", "windows")),
    *("explore/axes.py", "explore/axis_values.py", "explore/kernel_call.py", "explore/point.py"),
)
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_NUMBERS = {int: int, float: float, "int": int, "float": float}  # texts if the file postpones annotations
_loaded: dict[str, Function] = {}
_files_loading: list[str] = []


@cache
def model_hash() -> str:
    """Return the digest of all mlusim sources that determine the figures of a run."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for name in MODEL:
        source = root / name
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class UserKernel:
    """A user's function that can be sent to another process.

    Attributes:
        name: name of the function.
        sha256: digest of the function, everything it depends on, and `version`.
        unknown: dependencies not covered by the digest; without a version, the digest is then different each time.
        version: the user's version for dependencies not covered by the digest; may be empty.
        function: the function itself, in this process.
        launches: whether it is a plain function that uploads and launches; else it is a kernel.
        tensors: a kernel's parameters after `core` without a default: tensors, the last one its output.
        settings: parameters with a default, by name.
        file: its source file.
        text: text of that file, if named as `file.py:function`.
    """

    name: str
    sha256: str
    unknown: tuple[str, ...] = ()
    version: str = ""
    function: Function
    launches: bool
    tensors: tuple[str, ...]
    settings: Mapping[str, Any]
    file: str = ""
    text: str = ""

    @property
    def types(self) -> dict[str, ParameterType]:
        """Declared types of its parameters, by name; for a Python kernel, those annotated as numbers."""
        declared = {}
        for name, parameter in inspect.signature(self.function).parameters.items():
            if isinstance(parameter.annotation, ParameterType):
                declared[name] = parameter.annotation
            elif isinstance(parameter.annotation, type | str) and parameter.annotation in _NUMBERS:
                declared[name] = ParameterType(Role.NUMBER, np.dtype(_NUMBERS[parameter.annotation]))
        return declared

    def payload(self) -> dict[str, Any]:
        """Return the kernel as plain values, sufficient for this process only."""
        return {name: getattr(self, name) for name in ("name", "sha256", "version", "file", "text")}

    @cached_property
    def sendable(self) -> dict[str, Any]:
        """The kernel as plain values that another process can load. Raises `InputError` if it cannot be pickled."""
        compiled = description(self.function)
        if compiled is not None:
            return self.payload() | {"compiled": compiled}
        return self.payload() if self.text else self.payload() | {"pickled": _pickled(self.function)}

    def check_reusable(self, where: object) -> None:
        """Raise `InputError` if saved points of this kernel could be confused with those of a changed one."""
        if self.unknown:
            raise InputError(
                f"{self.name} cannot be told from a changed one, because it uses {' and '.join(self.unknown)}: give "
                f"kernel_version (--kernel-version), another one after each change, or no file for the points "
                f"(--no-db) instead of {where}"
            )


def kernel_of(kernel: Function | str, version: str = "") -> UserKernel:
    """Return a user's function, given as itself, `file.py:function`, or `file.mlu:entry`, which is compiled.

    Raises `InputError` for a file that cannot be loaded, a function that is not in it, and one that cannot be called as
    a kernel (`async def`, first parameter the core) or as a launching function (parameters device, shape, dtype).
    """
    if isinstance(kernel, str) and is_kernel_file(kernel):
        function = kernel_of_file(kernel)
        name, source = function.__name__, {"file": kernel.partition(f"{SUFFIX}:")[0].removesuffix(SUFFIX) + SUFFIX}
    elif isinstance(kernel, str):
        function, name, source = _from_file(kernel)
    elif callable(kernel):
        code = getattr(kernel, "__code__", None)
        function, name = kernel, getattr(kernel, "__name__", type(kernel).__name__)
        source = {"file": code.co_filename} if code else {}
    else:
        raise InputError(f"{shown(kernel)} is neither the name of an operator nor a function")
    with importable_from(source["file"] if "text" in source else ""):
        described = _described(function, name, version, **source)
    _loaded[described.sha256] = function
    return described


def load(kernel: Mapping[str, Any]) -> Function:
    """Load the function of a `UserKernel`'s payload, once per process.

    Raises `MlusimError` if it is not the function that was sent.
    """
    key = kernel["sha256"]
    if key not in _loaded:
        if kernel.get("compiled"):
            function = kernel_again(kernel["compiled"])
        elif kernel["text"]:
            function = _execute(Path(kernel["file"]), kernel["text"], kernel["name"])
        else:
            import cloudpickle

            function = cloudpickle.loads(base64.b64decode(kernel["pickled"]))
        digest, unknown = _digest(function, kernel["version"])
        if digest != key and not (unknown or kernel["version"]):
            raise MlusimError(
                f"{kernel['name']} is another function in the worker process than here: a module that it imports has "
                "other values there; make them settings of the kernel, or pass workers=0 to run in this process"
            )
        _loaded[key] = function
    return _loaded[key]


def _digest(function: Function, version: str) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a function with the user's version; unique each time if incomplete without a version."""
    compiled = digest(function)
    sha256, unknown = (compiled, ()) if compiled is not None else fingerprint(function)
    if version:
        return hashlib.sha256(f"{sha256} {version}".encode()).hexdigest(), ()
    return (secrets.token_hex(32), unknown) if unknown else (sha256, ())


def _pickled(function: Function) -> str:
    """Pickle the function by value, with the globals that it uses, in base64."""
    import cloudpickle

    own = function
    while isinstance(own, partial):
        own = own.func
    module = sys.modules.get(own.__module__ or "")
    by_value = module is not None and module.__name__ not in cloudpickle.list_registry_pickle_by_value()
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        return base64.b64encode(cloudpickle.dumps(function)).decode("ascii")
    except Exception as error:
        raise InputError(
            f"{getattr(function, '__name__', function)} cannot go to another process: {type(error).__name__}: {error}; "
            "name it as file.py:function, or pass workers=0 to run in this process"
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)


def check_not_loading() -> None:
    """Raise `InputError` inside a kernel file that is being loaded: a sweep there would recurse without end."""
    if _files_loading:
        raise InputError(
            f"{_files_loading[-1]} starts a sweep when it is loaded: put the call under `if __name__ == '__main__':`"
        )


def described(kernel: Mapping[str, Any]) -> UserKernel:
    """Restore a `UserKernel` from its payload, in any process."""
    return _described(load(kernel), kernel["name"], kernel["version"], file=kernel["file"], text=kernel["text"])


def function_of(kernel_name: str) -> Function:
    """Return any function by `file.py:function`, such as a reference. Raises `InputError`."""
    as_path(kernel_name)
    return _from_file(kernel_name)[0]


def _from_file(kernel_name: str) -> tuple[Function, str, dict[str, str]]:
    """Return the function of `file.py:function`, or the only kernel of a `file.py`."""
    file, colon, name = kernel_name.rpartition(":")
    if kernel_name.endswith(".py"):
        file, colon, name = kernel_name, ":", ""
    if not colon or not file or not (name.isidentifier() or kernel_name.endswith(".py")):
        raise InputError(f"{kernel_name}: name a file and a function in it, as in kernels.py:add")
    path = Path(file)
    try:
        with open_input(path) as stream:
            content = stream.read()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise InputError(f"{path} is not a path") from None
    try:
        text = decode_source(content)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be decoded ({error}): save it as UTF-8, or name its encoding in its first line, as in "
            "`# coding: gbk`"
        ) from None
    name = name or _only_kernel(path, text)
    whole = path.resolve()
    return _execute(whole, text, name, file), name, {"file": str(whole), "text": text}


def _only_kernel(path: Path, text: str) -> str:
    """Return the name of the only kernel of a file, a top-level `async def`. Raises `InputError`."""
    try:
        names = [node.name for node in ast.parse(text).body if isinstance(node, ast.AsyncFunctionDef)]
    except SyntaxError as error:
        raise InputError(f"{path}: cannot be loaded: line {error.lineno}: SyntaxError: {error.msg}") from error
    names = [name for name in names if not name.startswith("_")]
    if len(names) != 1:
        has = f"it has {', '.join(names)}" if names else "it has none"
        raise InputError(f"{path}: name the kernel, an `async def`, as in {path.name}:{(names or ['add'])[0]}; {has}")
    return names[0]


def _execute(path: Path, text: str, name: str, shown: str = "") -> Function:
    """Return a function of a module created from the text; `shown` names the file in messages."""
    shown = shown or str(path)
    module = types.ModuleType(f"mlusim_kernel_{path.stem}")
    module.__file__ = str(path)
    module.__package__, _ = _package(path)
    # Messages and reports show the lines that run, even if the file does not exist on this machine.
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    sys.modules[module.__name__] = module
    _files_loading.append(path.name)
    try:
        with importable_from(path):
            exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - the user's own kernel
    except InputError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise InputError(
            f"{shown}: cannot be loaded: {where_in(error, path)}{type(error).__name__}: {error}"
        ) from error
    finally:
        _files_loading.pop()
    function: Function | None = module.__dict__.get(name)
    if not callable(function):
        functions = {key: value for key, value in vars(module).items() if inspect.isfunction(value) and key[:1] != "_"}
        own = [key for key, value in functions.items() if value.__code__.co_filename == str(path)]
        has = f"it has {', '.join(own)}" if own else "it defines no functions"
        raise InputError(f"{shown} has no function {name!r}: {has}")
    return function


@contextmanager
def importable_from(path: Path | str) -> Iterator[None]:
    """Make modules beside a kernel file importable while it loads or runs, with lower priority than installed ones.

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
    hidden = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] in names}
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
        sys.modules.update(hidden)


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
    """Return the last line of a file in an error's traceback, as `line 3: `; for a syntax error, the wrong line."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: "
    lines = []
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"line {lines[-1]}: " if lines else ""


def _described(function: Function, name: str, version: str, **source: str) -> UserKernel:
    launches = not inspect.iscoroutinefunction(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    required = tuple(
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in VARIABLE
    )
    settings = {
        parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty
    }
    if not launches and all(
        parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD) for parameter in parameters
    ):
        raise InputError(f"{name} takes no core, the first parameter of a kernel: write async def {name}(core, ...)")
    if inspect.isasyncgenfunction(function):
        raise InputError(f"{name}({', '.join(required)}) has a `yield`, and a kernel has none: store its values")
    if launches and inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004 - a coroutine function?
        raise InputError(f"{name} is an object whose `__call__` is a kernel: give that method a name of the file")
    if launches and required[:1] == ("core",):
        raise InputError(
            f"{name}({', '.join(required)}) is a plain function, and a kernel is an `async def`: write "
            f"async def {name}(core, ...), with `await` before copies and syncs"
        )
    if launches and len(required) != 3:
        raise InputError(
            f"{name}({', '.join(required)}) is a plain function, which is called as {name}(device, shape, "
            "dtype, **settings): it uploads, allocates and launches; a kernel is an `async def`"
        )
    sha256, unknown = _digest(function, version)
    return UserKernel(
        name=name,
        sha256=sha256,
        unknown=unknown,
        version=version,
        function=function,
        launches=launches,
        tensors=required[1:],
        settings=settings,
        **source,
    )
