"""The kernel's name of its `Core` where a remedy adds a call: `core`, or `self.core` in a method of a class."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Mapping
from functools import lru_cache

from mlusim.source_code import syntax_tree
from mlusim.verifier.source_file import SourceLine, source_file

# Methods of a core that other objects hardly have.
_OF_CORE = re.compile(r"memcpy\w*|sync\w*|atomic_\w+|write_zero|lock|unlock")
_USUAL = "core"


def core_at(at: SourceLine) -> str:
    """Return the expression for the core at a line of Python: that of its calls or its function, or a parameter."""
    names = _names("".join(linecache.getlines(at.file)))
    if at.line in names:
        return names[at.line]
    first, last = source_file(at.file).function(at.line)[0]
    in_function = (name for line, name in names.items() if first <= line <= last)
    if own := next(in_function, ""):
        return own
    parameters = re.findall(r"\w+", SourceLine(at.file, first).source)
    return next((name for name in names.values() if name.partition(".")[0] in parameters), _USUAL)


@lru_cache(maxsize=64)
def _names(text: str) -> Mapping[int, str]:
    """By line, the expression on which a method of a core is called there, in the order of the lines."""
    try:
        calls = [node.func for node in ast.walk(syntax_tree(text)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError):
        return {}
    methods = [call for call in calls if isinstance(call, ast.Attribute) and _OF_CORE.fullmatch(call.attr)]
    method_calls = [call for call in methods if isinstance(call.value, ast.Name | ast.Attribute)]
    return {call.lineno: ast.unparse(call.value) for call in sorted(method_calls, key=lambda call: call.lineno)}
