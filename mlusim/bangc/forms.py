"""Argument lists of the core's instructions, read: how a C call becomes views, numbers and attributes.

A form such as `dst[n] src[n] table[table_length] n table_length` names the arguments in their order. One with extents
in brackets is a pointer, and its view has that shape; `name~dst` is a number that is written as dst's type; `a:b,c`
gives one argument to two attributes; `_` is read and not used.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlusim.bangc.bridge import Bridge
    from mlusim.bangc.lines import Site

FORMS: Mapping[str, dict[int, str]] = {
    "__bang_write_value": {3: "dst[n] n value"},
    "__bang_write_zero": {2: "dst[n] n"},
    "__nramset": {3: "dst[n] n value"},
    "__bang_add": {4: "dst[n] a[n] b[n] n"},
    "__bang_sub": {4: "dst[n] a[n] b[n] n"},
    "__bang_mul": {4: "dst[n] a[n] b[n] n"},
}
_METHODS = {"__bang_write_value": "fill", "__nramset": "fill"}


def form_handler(name: str, forms: Mapping[int, str]) -> Callable[..., Awaitable[None] | None]:
    """The crossing of an intrinsic of the table."""
    method = _METHODS.get(name) or name.removeprefix("__bang_").removeprefix("__")
    parsed = {arity: [_part(word) for word in form.split()] for arity, form in forms.items()}

    def handler(bridge: Bridge, site: Site, codes: list[int], values: list[Any]) -> None:
        parts = parsed[len(values)]
        given = {part[0]: value for part, value in zip(parts, values, strict=True)}
        sizes = {part[0]: given[part[0]] for part in parts if part[1] is None}
        used = set()
        for part in parts:
            used.update(part[2])
        operands = []
        for part, code, value in zip(parts, codes, values, strict=True):
            if part[1] is not None:
                operands.append(bridge.view(code, value, tuple(int(eval(e, {}, sizes)) for e in part[1])))
            elif part[0] not in used:
                operands.append(value)
        site.call(getattr(bridge.core, method), *operands)

    return handler


_WORD = re.compile(r"[A-Za-z_]\w*")


def _part(word: str) -> tuple[str, tuple[str, ...] | None, tuple[str, ...]]:
    name, bracket, rest = word.partition("[")
    if not bracket:
        return name, None, ()
    extents = tuple(rest.rstrip("]").split(","))
    return name, extents, tuple(_WORD.findall(rest))
