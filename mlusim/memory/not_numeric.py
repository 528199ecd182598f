"""Errors for operations of Python numbers on a view, with the instruction to use instead."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import NoReturn

import numpy as np

from mlusim.errors import OperandError, nearest

_COMPUTE = (
    "compute with instructions, such as core.add(dst, a, b); `await core.load(view)` gives the number of one element"
)
_LOAD = "`await core.load(view)` gives the number of one element"
_LOOK = "core.peek(view) gives its values to look at, and `await core.load_array(view)` loads them to registers"
_WRITE = "memcpy, core.fill and core.store(view, number) write to it"
# By attribute of an array that a view lacks: what to use instead.
_INSTEAD = {
    "T": "view.transpose() swaps the axes",
    "swapaxes": "view.transpose(1, 0, 2) reorders the axes",
    "flatten": "view.reshape(-1) makes it one-dimensional",
    "ravel": "view.reshape(-1) makes it one-dimensional",
    "copy": "core.memcpy(buffer, view) copies it",
    "astype": "core.convert(dst, src) converts between element types",
    "fill": "core.fill(view, number) fills it",
    **dict.fromkeys(("tolist", "tobytes", "flat", "data"), _LOOK),
}


def _refused(remedy: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *_: object, **__: object) -> NoReturn:
        raise OperandError(f"{self!r} is memory, not a number: {remedy}")

    return refuse


class NotNumeric:
    """A base class that rejects arithmetic, truth tests, comparison, assignment and conversion to an array.

    Otherwise each would raise an obscure error or, worse, succeed: every view is true, and no view equals a number.
    """

    __slots__ = ()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refused(_COMPUTE)
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _refused(
        _COMPUTE
    )
    __neg__ = __abs__ = __invert__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refused(_COMPUTE)
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refused(_COMPUTE)
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __float__ = __int__ = __index__ = __complex__ = _refused(_LOAD)
    __setitem__ = _refused(_WRITE)
    __array__ = _refused(_LOOK)
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Number):
            _refused(_LOAD)(self)
        return self is other


def missing_attribute(view: NotNumeric, name: str) -> str:
    """Return the message for an attribute that a view lacks: what to use instead, or the nearest name.

    A method `__getattr__` would say so everywhere, but make each access to an attribute that exists slower: with it, an
    operation takes a fifth more time.
    """
    remedy = ""
    if not name.startswith("_"):
        near = nearest(name, [known for known in dir(type(view)) if not known.startswith("_")])
        remedy = near or (_COMPUTE if hasattr(np.ndarray, name) else "")
        remedy = f": {_INSTEAD.get(name, remedy)}".rstrip(": ")
    return f"a view has no attribute {name!r}{remedy}"
