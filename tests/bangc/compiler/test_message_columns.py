"""Columns of the compiler's messages, which counts them in the rewritten text."""

from __future__ import annotations

import pytest

from mlusim.bangc.compiler.message_columns import with_own_columns

OWN = ["", "  __nram__ float a[64]; float z = foo + a[0] + SUM(bar);"]
REWRITTEN = "  typedef float t [64]; static t &a = *at<t>(a); float z = foo + a[0] + ((bar) + (bar));"
TEXT = f'# 1 "f.mlu"\n\n{REWRITTEN}\n# 9 "other.h"\nint x;\n'


@pytest.mark.parametrize(("word", "marked"), [("foo", True), ("a[0]", True), ("bar", True), ("typedef", False)])
def test_the_column_and_the_marks_are_those_of_the_users_line(word: str, marked: bool) -> None:
    column = REWRITTEN.index(word) + 1
    lines = [f"f.mlu:2:{column}: error: {word}", f"    2 | {OWN[1]}", "      | " + " " * (column - 1) + "^~~"]
    place, quoted, *marks = with_own_columns(lines, TEXT, lambda _: OWN)
    assert quoted == lines[1]
    at = OWN[1].index(word if marked else "__nram__") + 1
    assert place == f"f.mlu:2:{at}: error: {word}"
    assert marks == (["      | " + " " * (at - 1) + "^~~"] if marked else [])


def test_other_messages_stay() -> None:
    lines = ["f.mlu: In function x:", "g.mlu:3:7: note: here", "      |       ^", "1 error generated."]
    assert with_own_columns(lines, TEXT, lambda _: []) == lines
