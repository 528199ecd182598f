"""A digest of a function and its dependencies, for the keys of a sweep's points.

Functions with equal digests compute the same. The digest covers, by value: bytecode, default arguments, closed-over
variables, the globals named by the code and, through them, helper functions, classes, arrays and modules. Installed
code (the standard library, site-packages) is covered by name and version; mlusim itself is part of the key elsewhere.

A value without content to hash (an open file, a lock, a generator) is reported as unknown. So is everything that code
reads from outside at run time (`open`, `os.environ`, `exec`, `np.load`). Points of such a function are reused only if
the user states a version. Not covered: time, random numbers without a seed, and files read by library calls.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import importlib
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlusim.arrays import Array

_SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes, types.EllipsisType, types.NotImplementedType})
# Names by which code reads from outside: builtins, and attributes of modules and paths.
_OUTSIDE_NAMES = frozenset({"open", "input", "exec", "eval", "__import__", "globals"})
_OUTSIDE_ATTRIBUTES = frozenset(
    {"environ", "getenv", "open", "read_text", "read_bytes", "fromfile", "loadtxt", "genfromtxt", "memmap"}
    | {"import_module"}
)
# Names that only of a library's function, not of a kernel's `core`, read from outside.
_READERS = frozenset({"load"})
# Attributes of a class that do not affect its behaviour, or that pickling adds.
_OF_EVERY_CLASS = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__slotnames__", "__annotations__", "__abstractmethods__"}
    | {"_abc_impl", "__firstlineno__", "__static_attributes__", "__annotate_func__", "__annotations_cache__"}
    | {"__dataclass_fields__", "__dataclass_params__", "__getstate__", "__setstate__"}
)
_INSTALLED = tuple({Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Fingerprint(NamedTuple):
    """The digest of a function.

    Attributes:
        sha256: hexadecimal digest.
        unknown: dependencies that the digest does not cover, as "`name` ..."; empty if it is complete.
    """

    sha256: str
    unknown: tuple[str, ...]


def fingerprint(function: Callable[..., Any]) -> Fingerprint:
    """Return the digest of a function and all its dependencies."""
    walk = _Walk()
    digest = walk.of(function, getattr(function, "__name__", "the function"))
    return Fingerprint(digest.hex(), tuple(dict.fromkeys(walk.unknown)))


class _Walk:
    """A traversal of the values that a function depends on; each value is hashed once."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self._digests: dict[int, bytes] = {}
        self._alive: list[Any] = []  # so that no id is used twice

    def of(self, value: Any, name: str) -> bytes:
        """Return the digest of a value that the code calls `name`."""
        if type(value) in _SCALARS:
            return _join(type(value).__name__, repr(value))
        key = id(value)
        if key not in self._digests:
            self._alive.append(value)
            # A reference to a value in progress is a cycle, identified by its index.
            self._digests[key] = _join("cycle", str(len(self._digests)))
            self._digests[key] = self._content(value, name)
        return self._digests[key]

    def _content(self, value: Any, name: str) -> bytes:
        match value:
            case np.ndarray() if not value.dtype.hasobject:
                return self._array(value, name)
            case np.generic() if not value.dtype.hasobject:
                return _join("scalar", str(value.dtype), value.tobytes())
            case np.dtype():
                return _join("dtype", str(value))
            case tuple() | list() if type(value) in {tuple, list}:
                return self._of_parts(type(value).__name__, value, name)
            case dict() | types.MappingProxyType() if type(value) in {dict, types.MappingProxyType}:
                return self._of_parts("dict", [part for item in value.items() for part in item], name)
            case set() | frozenset() if type(value) in {set, frozenset}:
                return _join(type(value).__name__, *sorted(self.of(item, name) for item in value))
            case types.ModuleType():
                return self._module(value, name)
            case types.FunctionType() | types.BuiltinFunctionType() if _reads_outside(value):
                self.unknown.append(f"what `{name}` reads")
                return _join("reader", value.__name__)
            case types.FunctionType():
                return self._function(value)
            case types.MethodType():
                return self._of_parts("method", (value.__func__, value.__self__), name)
            case property():
                return self._of_parts("property", (value.fget, value.fset, value.fdel), name)
            case staticmethod() | classmethod():
                return self._of_parts(type(value).__name__, (value.__func__,), name)
            case type():
                return self._class(value)
            case _:
                return self._object(value, name)

    def _array(self, value: Array, name: str) -> bytes:
        array = value.view(np.ndarray)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        digest = _join("array", str(array.dtype), str(array.shape), hashlib.sha256(data.tobytes()).digest())
        if type(value) in {np.ndarray, np.memmap}:
            return digest
        # Subclasses, such as masked arrays, have further attributes.
        return _join("array", digest, self._of_parts("attributes", (type(value), vars(value)), name))

    def _of_parts(self, kind: str, parts: Any, name: str) -> bytes:
        return _join(kind, *(self.of(part, name) for part in parts))

    def _function(self, function: types.FunctionType) -> bytes:
        package = installed(function.__module__)
        if package:
            return _join("function", package, function.__qualname__)
        code = function.__code__
        defaults = (function.__defaults__, function.__kwdefaults__)
        parts = [_code(code), self._of_parts("defaults", defaults, f"a default of {function.__name__}")]
        for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # a variable that is not assigned yet
                continue
            parts += [variable.encode(), self.of(content, variable)]
        attributes = {key: value for key, value in vars(function).items() if key != "__wrapped__"}
        parts.append(self.of(attributes, function.__name__))
        parts += self._globals(function, code)
        return _join("function", *parts)

    def _globals(self, function: types.FunctionType, code: types.CodeType) -> Iterator[bytes]:
        """Yield digests of the values that the code looks up by name outside the function, in order of the names."""
        names, attributes, imports, dotted = _lookups(code)
        modules = {module: self._imported(module, function.__name__) for module in sorted({*imports.values()})}
        scope = function.__globals__ | {name: modules[module] for name, module in imports.items()}
        outside_names = names & _OUTSIDE_NAMES - function.__globals__.keys() | attributes & _OUTSIDE_ATTRIBUTES
        self.unknown += [f"what {function.__name__} reads by `{name}`" for name in sorted(outside_names)]
        for name, attribute in sorted(dotted):
            module = scope.get(name)
            if isinstance(module, types.ModuleType) and _reads_outside(getattr(module, attribute, None), _READERS):
                self.unknown.append(f"what {function.__name__} reads by `{name}.{attribute}`")
        for name in sorted(names & function.__globals__.keys()):
            yield from self._global(function.__globals__[name], name, attributes)
        for name, module in modules.items():
            if module is not None:
                yield from self._global(module, name, attributes)

    def _imported(self, name: str, function: str) -> types.ModuleType | None:
        """Return a module that a function imports when it runs; None if it cannot be imported."""
        try:
            return importlib.import_module(name)
        except Exception:  # noqa: BLE001 - a module may raise anything while it loads
            self.unknown.append(f"`import {name}` in {function}")
            return None

    def _global(self, value: Any, name: str, attributes: set[str]) -> Iterator[bytes]:
        """Yield the digest of a value and, if it is a module of the user's, of its values that the code looks up."""
        yield _join(name, self.of(value, name))
        if isinstance(value, types.ModuleType) and not installed(value.__name__):
            for attribute in sorted(attributes & vars(value).keys()):
                yield _join(attribute, self.of(vars(value)[attribute], f"{name}.{attribute}"))

    def _module(self, module: types.ModuleType, name: str) -> bytes:
        package = installed(module.__name__)
        if package:
            return _join("module", package, module.__name__)
        file = getattr(module, "__file__", None)
        if file is None or not Path(file).is_file():
            self.unknown.append(f"`{name}`, a module without a file")
            return _join("module", module.__name__)
        parts = [Path(file).read_bytes()]
        for key, value in sorted(vars(module).items()):
            # Include modules that it imports from, in whatever way.
            owner = value if isinstance(value, types.ModuleType) else sys.modules.get(getattr(value, "__module__", ""))
            if isinstance(owner, types.ModuleType) and owner is not module and not installed(owner.__name__):
                parts.append(_join(key, self.of(owner, key)))
        return _join("module", *parts)

    def _class(self, kind: type) -> bytes:
        package = installed(kind.__module__)
        if package:
            return _join("class", package, kind.__qualname__)
        parts = [kind.__name__.encode(), self._of_parts("bases", (type(kind), *kind.__bases__), kind.__name__)]
        for key, value in sorted(vars(kind).items()):
            if key not in _OF_EVERY_CLASS:
                slot = isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType)
                parts.append(_join(key, b"" if slot else self.of(value, f"{kind.__name__}.{key}")))
        return _join("class", *parts)

    def _object(self, value: Any, name: str) -> bytes:
        """Hash any other object by its pickled state."""
        try:
            registered: Any = copyreg.dispatch_table.get(type(value))
            reduced = registered(value) if registered else value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 - objects that cannot be pickled raise various errors
            self.unknown.append(f"`{name}`, {_with_article(type(value).__name__)}")
            return _join("unknown", type(value).__qualname__)
        if isinstance(reduced, str):
            package = installed(getattr(value, "__module__", None) or type(value).__module__)
            if not package and hasattr(value, "__wrapped__"):  # functools.cache and similar wrappers
                return self._of_parts("wrapper", (type(value), value.__wrapped__), name)
            if not package:
                self.unknown.append(f"`{name}`, {_with_article(type(value).__name__)}")
            return _join("global", package, type(value).__qualname__, reduced)
        parts = [list(part) if isinstance(part, Iterator) else part for part in reduced]
        return self._of_parts("object", parts, name)


def _reads_outside(value: Any, names: frozenset[str] = _OUTSIDE_NAMES | _OUTSIDE_ATTRIBUTES | _READERS) -> bool:
    """Return whether a value, under whatever name, is a function of a library that reads from outside."""
    return getattr(value, "__name__", "") in names and bool(installed(getattr(value, "__module__", None)))


def _join(*parts: str | bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


def _code(code: types.CodeType) -> bytes:
    """Hash bytecode, without file names and line numbers."""
    constants = [
        _code(constant) if isinstance(constant, types.CodeType) else _constant(constant) for constant in code.co_consts
    ]
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return _join("code", code.co_code, repr(shape), repr(names), getattr(code, "co_exceptiontable", b""), *constants)


def _constant(value: Any) -> bytes:
    # The order of a frozenset constant differs between processes.
    if isinstance(value, frozenset):
        return _join("frozenset", *sorted(map(_constant, value)))
    if isinstance(value, tuple):
        return _join("tuple", *map(_constant, value))
    return _join(type(value).__name__, repr(value))


def _lookups(code: types.CodeType) -> tuple[set[str], set[str], dict[str, str], set[tuple[str, str]]]:
    """Return what a code object and nested ones look up.

    Global names; attributes; the modules that they import, by themselves and by the names that they give them; and
    pairs of a global name, or such a name, and its attribute.
    """
    names: set[str] = set()
    dotted: set[tuple[str, str]] = set()
    attributes: set[str] = set()
    imports: dict[str, str] = {}
    pending = [code]
    while pending:
        code = pending.pop()
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        owner = module = previous = ""
        for step in dis.get_instructions(code):
            # From Python 3.13 on, one instruction may store to a variable and load another.
            variables = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            if step.opname in {"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"}:
                attributes.add(step.argval)
                dotted.add((module if step.opname == "IMPORT_FROM" else owner, step.argval))
            elif step.opname == "IMPORT_NAME":
                module = imports[step.argval] = step.argval
            elif step.opname.startswith("STORE_") and previous == "IMPORT_NAME":
                imports[variables[0]] = module
            elif step.opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
                names.add(step.argval)
            owner = variables[-1] if "LOAD_" in step.opname else ""
            previous = step.opname
    return names, attributes, imports, dotted


@functools.cache
def installed(module: str | None) -> str:
    """Return name and version of the installed package of a module; empty for a user's own module."""
    root = (module or "").partition(".")[0]
    if root == "__main__":  # a script or a notebook, whatever program started it
        return ""
    if root == "mlusim":
        return "mlusim"
    if root in sys.stdlib_module_names:
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    top = sys.modules.get(root)
    file = getattr(top, "__file__", None)
    if file is None or not any(Path(file).is_relative_to(folder) for folder in _INSTALLED):
        return ""
    version = getattr(top, "__version__", None)
    if version is None:
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as version_of

        try:
            version = version_of(root)
        except PackageNotFoundError:
            version = ""
    return f"{root} {version}"


def _with_article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
