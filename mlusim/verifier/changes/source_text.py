"""The text of an expression, as its file has it, and with a change."""

from __future__ import annotations

import ast
import linecache
from typing import Any

from mlusim.source_code import syntax_tree
from mlusim.verifier.changes.functions import Definition
from mlusim.verifier.changes.syntax_parts import Part


class Text:
    """The text of a function.

    Args:
        file: its file.
        definition: its definition, with the lines of the file; its columns are those of the text without indentation.
    """

    def __init__(self, file: str, definition: Definition) -> None:
        line = linecache.getline(file, definition.lineno)
        self._file = file
        self._indent = len(line) - len(line.lstrip()) - definition.col_offset

    def of_change(self, shown: Any, part: Part, after: str) -> tuple[str, str]:
        """Return the text of an expression or statement before and after a change of a part of it.

        Args:
            shown: the expression.
            part: the part.
            after: the changed expression, as Python would write it.
        """
        before, text, content = ast.unparse(shown), self._of(shown), part.place.content
        if _unparsed(text) != before:
            return before, after
        if self._of(content) and isinstance(part.new, ast.AST):
            start, end = content.col_offset - shown.col_offset, content.end_col_offset - shown.col_offset
            source = text.encode()
            with_part = (source[:start] + ast.unparse(part.new).encode() + source[end:]).decode()
            if _unparsed(with_part) == after:
                return text, with_part
        return text, after

    def _of(self, node: Any) -> str:
        """Return the text of a node on one line, else ""."""
        if getattr(node, "lineno", 0) != getattr(node, "end_lineno", None):
            return ""
        line = linecache.getline(self._file, node.lineno).encode()
        return line[node.col_offset + self._indent : node.end_col_offset + self._indent].decode()


def _unparsed(text: str) -> str:
    try:
        return ast.unparse(syntax_tree(text))
    except (SyntaxError, ValueError):
        return ""
