"""The functions in Python that a kernel may call, and runs in which one of them is replaced."""

from __future__ import annotations
import __future__

import ast
import dis
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from threading import RLock, get_ident
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from mlusim.cores.core import Kernel
from mlusim.source_code import syntax_tree, written_by_author

Definition = ast.AsyncFunctionDef | ast.FunctionDef
_ENCLOSING = "enclosing"
# A constant that stands for the function that chooses.
_CHOOSE = "choose the function"
# A larger table or list holds data, not functions.
_MOST_VALUES = 64
# Held while functions may be replaced: another thread would report their lines, and restore the replaced ones.
ONE_AT_A_TIME = RLock()


def functions_of(kernel: Kernel) -> Iterator[FunctionType]:
    """Yield the functions of a kernel's author that it may call, in any file: its own first, then those it names."""
    waiting: list[Any] = [kernel]
    seen: dict[int, Any] = {}
    while waiting:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if not isinstance(value, FunctionType):
            waiting += _behind(value)
        elif written_by_author(value.__code__.co_filename) and not hasattr(value, "bangc_module"):
            yield value
            waiting += _named_by(value)


def _named_by(function: FunctionType) -> Iterator[Any]:
    """Yield the values of a function's globals, closure and defaults, and the members of modules that it names."""
    attributes = {name for code in _codes_in(function.__code__) for name in code.co_names}
    for value in _globals_of(function).values():
        yield value
        if isinstance(value, ModuleType):
            yield from (member for name, member in vars(value).items() if name in attributes)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
    yield from (function.__defaults__ or (), function.__kwdefaults__ or {}, vars(function).get("__wrapped__"))


def _globals_of(function: FunctionType) -> dict[str, Any]:
    """Return the values of the global names in a function; those of attributes are none."""
    names = _global_names_in(function.__code__)
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


@lru_cache(maxsize=64)
def _global_names_in(code: CodeType) -> list[str]:
    instructions = (instruction for inner_code in _codes_in(code) for instruction in dis.get_instructions(inner_code))
    return [instruction.argval for instruction in instructions if instruction.opname == "LOAD_GLOBAL"]


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_in(constant)


def _behind(value: Any) -> list[Any]:
    """Return the functions behind a value, and the values that may have some."""
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, list | tuple | dict):
        values = list(value.values() if isinstance(value, dict) else value)
        return values if len(values) <= _MOST_VALUES else []
    if isinstance(value, staticmethod | classmethod | property):
        return [value.fget if isinstance(value, property) else value.__func__]
    if not isinstance(value, type):
        return [type(value), inspect.getattr_static(value, "__wrapped__", None)]
    kinds = (FunctionType, staticmethod, classmethod, property)
    return [member for owner in value.__mro__ for member in vars(owner).values() if isinstance(member, kinds)]


def compiled(function: FunctionType, node: Definition) -> CodeType:
    """Return the code of a function with another definition."""
    # Python compiles calls of a name that the module imports in another way.
    own_module = function.__globals__.get("__name__")
    imported = [
        name
        for name, value in _globals_of(function).items()
        if isinstance(value, ModuleType | type) and getattr(value, "__module__", None) != own_module
    ]
    imports = [f"import {name}" for name in imported]
    tree = syntax_tree("\n".join((*imports, f"def {_ENCLOSING}({', '.join(function.__code__.co_freevars)}): pass")))
    tree.body[-1].body = [node]  # type: ignore[attr-defined]  # of a definition
    flags = function.__code__.co_flags & __future__.annotations.compiler_flag
    code: Any = compile(tree, function.__code__.co_filename, "exec", flags, dont_inherit=True)
    for part in (_ENCLOSING, function.__code__.co_name):
        inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
        code = next(inner_code for inner_code in inner if inner_code.co_name == part)
    return code  # type: ignore[no-any-return]  # Any for the loop


@contextmanager
def replaced(function: FunctionType, node: Definition) -> Iterator[None]:
    """Let the calls of a function in this thread run another definition of it; those in other threads run it itself."""
    with ONE_AT_A_TIME:
        own, before = get_ident(), function.__code__
        here, elsewhere = (_with_code(function, code) for code in (compiled(function, node), before))

        def choose() -> FunctionType:
            return here if get_ident() == own else elsewhere

        code = compiled(function, _forwarding(function, node.args))
        constants = tuple(choose if constant == _CHOOSE else constant for constant in code.co_consts)
        function.__code__ = code.replace(co_consts=constants, co_filename=__file__)
        try:
            yield
        finally:
            function.__code__ = before


def _with_code(function: FunctionType, code: CodeType) -> FunctionType:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    other = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    other.__kwdefaults__ = function.__kwdefaults__
    return other


def _forwarding(function: FunctionType, given: ast.arguments) -> Definition:
    """Return a definition with the parameters of a function, which passes them to the one that is chosen.

    Its code has to have the variables of closures of the function itself.
    """
    passed = [parameter.arg for parameter in (*given.posonlyargs, *given.args)]
    passed += [f"*{given.vararg.arg}"] if given.vararg else []
    passed += [f"{parameter.arg}={parameter.arg}" for parameter in given.kwonlyargs]
    passed += [f"**{given.kwarg.arg}"] if given.kwarg else []
    begin, wait = ("async def", "await ") if inspect.iscoroutinefunction(function) else ("def", "")
    text = (
        f"{begin} {function.__code__.co_name}({ast.unparse(given)}):\n"
        f"  return {wait}{_CHOOSE!r}.__call__()({', '.join(passed)})\n"
        f"  {', '.join(function.__code__.co_freevars) or 'pass'}"
    )
    return syntax_tree(text).body[0]  # type: ignore[return-value]  # a definition
