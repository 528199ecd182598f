"""Kernels of the user: their parameters, a digest of all that they depend on, and their way to other processes.

A kernel named `file.py:function` is sent to other processes as the text of its file; a function is pickled by value.
Its digest (`mlusim.explore.fingerprint`) covers everything it depends on, and workers verify it after loading.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import inspect
import secrets
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from mlusim.bangc.kernel_files import SUFFIX, description, digest, is_kernel_file, kernel_again, kernel_of_file
from mlusim.cores.tasks.launch_checks import check_not_called
from mlusim.errors import InputError, MlusimError, for_caller, shown
from mlusim.explore.fingerprint import fingerprint
from mlusim.explore.python_files import Function, execute, from_file, importable_from
from mlusim.host.arguments import ParameterType, Role
from mlusim.source_code import tree_of_function

VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_NUMBERS = {int: int, float: float, "int": int, "float": float}  # texts if the file postpones annotations
_loaded: dict[str, Function] = {}


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
        tensors: a kernel's parameters after `core` without a default: tensors, and numbers.
        outputs: those of them that a Python kernel only stores to, by its source, which another process may not have.
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
    outputs: tuple[str, ...]
    settings: Mapping[str, Any]
    file: str = ""
    text: str = ""

    @property
    def types(self) -> dict[str, ParameterType]:
        """Declared types of its parameters, by name; for a Python kernel, outputs, and those annotated as numbers."""
        types = {name: ParameterType(Role.OUTPUT, None) for name in self.outputs}
        for name, parameter in inspect.signature(self.function).parameters.items():
            if isinstance(parameter.annotation, ParameterType):
                types[name] = parameter.annotation
            elif isinstance(parameter.annotation, type | str) and parameter.annotation in _NUMBERS:
                types[name] = ParameterType(Role.NUMBER, np.dtype(_NUMBERS[parameter.annotation]))
        return types

    def importable(self) -> AbstractContextManager[None]:
        """Make the modules in the folder of its file importable, if it was named as `file.py:function`."""
        return importable_from(self.file if self.text else "")

    def payload(self) -> dict[str, Any]:
        """Return the kernel as plain values, sufficient for this process only."""
        return {name: getattr(self, name) for name in ("name", "sha256", "version", "outputs", "file", "text")}

    @cached_property
    def sendable(self) -> dict[str, Any]:
        """The kernel as plain values that another process can load. Raises `InputError` if it cannot be pickled."""
        compiled = description(self.function)
        if compiled is not None:
            return self.payload() | {"compiled": compiled}
        return self.payload() if self.text else self.payload() | {"pickled": _pickle(self.function)}

    def check_reusable(self, store: object) -> None:
        """Raise `InputError` if saved points of this kernel could be confused with those of a changed one."""
        if self.unknown:
            raise InputError(
                f"changes of {self.name} cannot be detected, because it uses {' and '.join(self.unknown)}: give a "
                f"new {for_caller('--kernel-version', 'kernel_version')} after each change, or store no points "
                f"({for_caller('--no-db', 'db=None')}) instead of using {store}"
            )


def kernel_of(kernel: Function | str, version: str = "") -> UserKernel:
    """Return a user's function, given as itself, `file.py:function`, or `file.mlu:entry`, which is compiled.

    Raises `InputError` for a file that cannot be loaded, a function that is not in it, and one that cannot be called as
    a kernel (`async def`, first parameter the core) or as a launching function (parameters device, shape, dtype).
    """
    check_not_called(kernel, InputError)
    if isinstance(kernel, str) and is_kernel_file(kernel):
        function = kernel_of_file(kernel)
        name, source = function.__name__, {"file": kernel.partition(f"{SUFFIX}:")[0].removesuffix(SUFFIX) + SUFFIX}
    elif isinstance(kernel, str):
        function, name, source = from_file(kernel)
    elif callable(kernel):
        code = getattr(kernel, "__code__", None)
        function, name = kernel, getattr(kernel, "__name__", type(kernel).__name__)
        source = {"file": code.co_filename} if code else {}
    else:
        raise InputError(f"{shown(kernel)} is neither the name of an operator nor a function")
    with importable_from(source["file"] if "text" in source else ""):
        user_kernel = _user_kernel(function, name, version, _only_stored_to(function), **source)
    _loaded[user_kernel.sha256] = function
    return user_kernel


def load(kernel: Mapping[str, Any]) -> Function:
    """Load the function of a `UserKernel`'s payload, once per process.

    Raises `MlusimError` if it is not the function that was sent.
    """
    key = kernel["sha256"]
    if key not in _loaded:
        if kernel.get("compiled"):
            function = kernel_again(kernel["compiled"])
        elif kernel["text"]:
            function = execute(Path(kernel["file"]), kernel["text"], kernel["name"])
        else:
            import cloudpickle

            function = cloudpickle.loads(base64.b64decode(kernel["pickled"]))
            _name_file(function, kernel["file"], set())
        digest, unknown = _digest(function, kernel["version"])
        if digest != key and not (unknown or kernel["version"]):
            raise MlusimError(
                f"{kernel['name']} differs between the worker process and this one: a module that it imports has "
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


def _pickle(function: Function) -> str:
    """Pickle the function by value, with the globals that it uses, in base64."""
    import cloudpickle

    inner = function
    while isinstance(inner, partial):
        inner = inner.func
    module = sys.modules.get(inner.__module__ or "")
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


def _name_file(value: Any, file: str, visited: set[int]) -> None:
    """Give an unpickled function and those that it calls the name of their file, which messages show.

    cloudpickle leaves it out. Functions that were pickled by value are from the kernel's module.
    """
    while isinstance(value, partial):
        value = value.func
    if isinstance(value, CellType):
        with suppress(ValueError):  # an empty cell
            _name_file(value.cell_contents, file, visited)
    if not isinstance(value, FunctionType) or id(value) in visited or not value.__code__.co_filename.startswith("<"):
        return
    visited.add(id(value))
    value.__code__ = _of_file(value.__code__, file)
    for function in (*value.__globals__.values(), *(value.__closure__ or ())):
        _name_file(function, file, visited)


def _of_file(code: CodeType, file: str) -> CodeType:
    constants = tuple(_of_file(value, file) if isinstance(value, CodeType) else value for value in code.co_consts)
    return code.replace(co_filename=file, co_consts=constants)


def restored(kernel: Mapping[str, Any]) -> UserKernel:
    """Restore a `UserKernel` from its payload, in any process."""
    source = {"file": kernel["file"], "text": kernel["text"]}
    return _user_kernel(load(kernel), kernel["name"], kernel["version"], kernel["outputs"], **source)


def _user_kernel(
    function: Function, name: str, version: str, only_stored_to: Collection[str], **source: str
) -> UserKernel:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    required = tuple(
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in VARIABLE
    )
    launches = not inspect.iscoroutinefunction(function)
    if launches:
        _check_launching(function, name, required)
    else:
        _check_kernel(name, parameters)
    sha256, unknown = _digest(function, version)
    return UserKernel(
        name=name,
        sha256=sha256,
        unknown=unknown,
        version=version,
        function=function,
        launches=launches,
        tensors=required[1:],
        outputs=() if launches else tuple(parameter for parameter in required[1:] if parameter in only_stored_to),
        settings={
            parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty
        },
        **source,
    )


def _only_stored_to(kernel: Function) -> frozenset[str]:
    """Return the names that a Python kernel passes only as destinations of copies and stores, by its own source."""
    function_tree = tree_of_function(kernel)
    if function_tree is None:
        return frozenset()
    tree, _ = function_tree
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    stored_names, other = set[str](), set[str]()
    for name in ast.walk(tree):
        if not isinstance(name, ast.Name) or isinstance(parents[name], ast.Attribute):  # out.size
            continue
        part: ast.AST = name
        while isinstance(parent := parents[part], ast.Subscript) and parent.value is part:
            part = parent
        method = parent.func if isinstance(parent, ast.Call) and part in parent.args[:1] else None
        is_store = isinstance(method, ast.Attribute) and method.attr.startswith(("memcpy", "store"))
        (stored_names if is_store else other).add(name.id)
    return frozenset(stored_names - other)


def _check_kernel(name: str, parameters: Sequence[inspect.Parameter]) -> None:
    """Raise `InputError` for a kernel without a parameter for its core."""
    if all(parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD) for parameter in parameters):
        raise InputError(f"{name} takes no core, the first parameter of a kernel: write async def {name}(core, ...)")
    for parameter in parameters[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise InputError(
                f"{name}(core, *{parameter.name}): here arguments are given to parameters by name, and "
                f"*{parameter.name} has none: write one parameter for each tensor, such as {name}(core, x, out)"
            )


def _check_launching(function: Function, name: str, required: tuple[str, ...]) -> None:
    """Raise `InputError` for a plain function that cannot be called as (device, shape, dtype, **settings)."""
    signature = f"{name}({', '.join(required)})"
    if inspect.isasyncgenfunction(function):
        raise InputError(f"{signature} has a `yield`, which a kernel must not have: store its values")
    if inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004 - a coroutine function?
        raise InputError(f"{name} is an object whose `__call__` is a kernel: assign that method to a name in the file")
    if required[:1] == ("core",):
        raise InputError(
            f"{signature} is a plain function, and a kernel is an `async def`: write async def {name}(core, ...), with "
            "`await` before copies and syncs"
        )
    if len(required) != 3:
        raise InputError(
            f"{signature} is a plain function, which is called as {name}(device, shape, dtype, **settings): it "
            "uploads, allocates and launches; a kernel is an `async def`"
        )
