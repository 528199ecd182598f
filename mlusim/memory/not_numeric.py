"""Errors for operations of Python numbers on a view, with the instruction to use instead."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any, NoReturn

import numpy as np

from mlusim.errors import OperandError
from mlusim.spelling import nearest

_COMPUTE = (
    "compute with instructions, such as core.add(dst, a, b); `await core.load(view)` returns the value of one element"
)
_LOAD = "`await core.load(view)` returns the value of one element"
_COUNT = f"{_LOAD}; a number that the host knows is an argument itself: 100, or --arg NAME=100"
_COPY = "core.memcpy(buffer, view) copies its bytes, and core.peek(view) returns its values for inspection"
_LOOK = "core.peek(view) returns its values for inspection, and `await core.load_array(view)` loads them to registers"
_WRITE = "memcpy, core.fill and core.store(view, number) write to it"
# By attribute of an array that a view lacks: what to use instead.
_INSTEAD = {
    "item": _LOAD,
    "numel": "view.size is the number of elements",
    "element_size": "view.itemsize is the size of an element",
    **dict.fromkeys(("T", "mT", "t"), "view.transpose() swaps the axes"),
    **dict.fromkeys(("swapaxes", "permute"), "view.transpose(1, 0, 2) reorders the axes"),
    **dict.fromkeys(("flatten", "ravel"), "view.reshape(-1) makes it one-dimensional"),
    **dict.fromkeys(("squeeze", "unsqueeze"), "view.reshape(...) adds and removes axes of extent 1"),
    **dict.fromkeys(("expand", "repeat"), "view.broadcast_to(...) repeats axes with stride 0"),
    **dict.fromkeys(("copy", "clone", "contiguous", "copy_", "to"), "core.memcpy(buffer, view) copies it"),
    **dict.fromkeys(
        ("astype", "type", "float", "half", "bfloat16", "int", "bool"),
        "core.convert(dst, src) converts between element types",
    ),
    **dict.fromkeys(("fill", "fill_", "zero_"), "core.fill(view, number) fills it"),
    **dict.fromkeys(("address", "ctypes", "data_ptr"), "view.pointer is its address"),
    **dict.fromkeys(("tolist", "tobytes", "flat", "data", "numpy", "cpu"), _LOOK),
}


_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)


def _refuse(remedy: str, description: str = "memory, not a number") -> Callable[..., NoReturn]:
    def refuse(self: object, *_: object, **__: object) -> NoReturn:
        raise OperandError(f"{self!r} is {description}: {remedy}")

    return refuse


def _equal(self: object, other: object) -> bool:
    if isinstance(other, Number):
        _refuse(_LOAD)(self)
    return self is other


def _format(self: object, specification: str) -> str:
    try:
        return format(str(self), specification)
    except ValueError:
        _refuse(_LOAD)(self)


# Methods by name. Without `__eq__`, a comparison with a number would be false.
_METHODS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys((f"__{side}{name}__" for name in _OPERATORS for side in ("", "r")), _refuse(_COMPUTE)),
    **dict.fromkeys(("__neg__", "__abs__", "__invert__"), _refuse(_COMPUTE)),
    **dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__"), _refuse(_LOAD)),
    **dict.fromkeys(("__round__", "__trunc__", "__floor__", "__ceil__"), _refuse(_LOAD)),
    # A deep copy would have bytes of its own, on no device.
    **dict.fromkeys(("__deepcopy__", "__reduce_ex__"), _refuse(_COPY, "memory of a device, which Python cannot copy")),
    **dict.fromkeys(("__bool__", "__float__", "__complex__"), _refuse(_LOAD)),
    **dict.fromkeys(("__int__", "__index__"), _refuse(_COUNT)),
    **dict.fromkeys(("__setitem__", "__delitem__"), _refuse(_WRITE)),
    "__format__": _format,
    "__array__": _refuse(_LOOK),
    "__eq__": _equal,
}


def refuse_numbers(cls: type) -> None:
    """Make a class reject arithmetic, truth tests, comparison, assignment and conversion to an array.

    Otherwise each would raise an obscure error or, worse, succeed: every view is true, and no view equals a number.
    The methods are not inherited: a class that is compiled and has a base that is not would accept any attribute. Nor
    are they written in the class: mypyc cannot assign one function to many operators.
    """
    for name, method in _METHODS.items():
        setattr(cls, name, method)


def missing_attribute(view: object, name: str, *, is_instruction: bool = False) -> str:
    """Return the message for an attribute that a view lacks: what to use instead, or the nearest name.

    Instructions, as NumPy's methods `sum` and `max`, are methods of the core.

    A method `__getattr__` would say so everywhere, but make each access to an attribute that exists slower: with it, an
    operation takes a fifth more time.
    """
    remedy = ""
    if not name.startswith("_"):
        suggestion = nearest(name, [member for member in dir(type(view)) if not member.startswith("_")])
        remedy = suggestion or (_COMPUTE if hasattr(np.ndarray, name) else "")
        if is_instruction:
            remedy = f"it is an instruction of the core, `core.{name}(...)`"
        remedy = f": {_INSTEAD.get(name, remedy)}".rstrip(": ")
    return f"a view has no attribute {name!r}{remedy}"
