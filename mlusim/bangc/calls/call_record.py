"""Calls of the simulator by compiled code: decoding of their records, and return values."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Awaitable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from mlusim.bangc.calls.type_codes import BFLOAT, FLOAT, POINTER, SIGNED, kind_of
from mlusim.bangc.runtime_layout import (
    CODES_WORD,
    COUNT_WORD,
    FILE_WORD,
    LINE_WORD,
    OPERATION_WORD,
    RESULT_WORD,
    VALUES_WORD,
)

if TYPE_CHECKING:
    from mlusim.bangc.calls.intrinsics import Intrinsic
    from mlusim.bangc.execution.compiled_task import CompiledTask

_WORD_BYTES = 8
# The bytes of a record with the location of the call and the types of its values; the values follow.
HEAD = slice(OPERATION_WORD * _WORD_BYTES, VALUES_WORD * _WORD_BYTES)
_VALUES_BYTE = VALUES_WORD * _WORD_BYTES
_WORD = struct.Struct("<Q")
_DOUBLE = struct.Struct("<d")


class CallSite:
    """A call of compiled code, without its values.

    Attributes:
        issue: executes it, given the task, the line, the codes and the values.
        returns: whether it returns a value.
        name: name of the intrinsic.
        line: its number in the log.
        codes: type codes of its values.
    """

    __slots__ = ("_struct", "codes", "issue", "line", "name", "returns")

    def __init__(self, words: Any, intrinsic: Intrinsic, line: int) -> None:
        self.name = intrinsic.name
        self.issue: Any = intrinsic.handler if intrinsic.prepare is None else partial(_prepare, intrinsic)
        self.line = line
        self.codes = _codes(words)
        self.returns = intrinsic.result(len(self.codes)) != "void"
        self._struct = _layout(tuple(self.codes))

    def values(self, record: Any) -> tuple[Any, ...]:
        """Return the values of the call that the fibre waits for."""
        return self._struct.unpack_from(record, _VALUES_BYTE)


def _prepare(
    intrinsic: Intrinsic, task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]
) -> Awaitable[None] | None:
    """Execute a call, and cache it for repetition with equal values."""
    execute = intrinsic.prepare(task, line, codes, values) if intrinsic.prepare else None
    if execute is None:
        return intrinsic.handler(task, line, codes, values)
    task.know(execute, line)
    return execute()


def _codes(words: Any) -> list[int]:
    count = words[COUNT_WORD]
    return list(struct.unpack(f"<{count}Q", ctypes.string_at(words[CODES_WORD], 8 * count)))


@lru_cache(maxsize=1024)
def _layout(codes: tuple[int, ...]) -> struct.Struct:
    formats = {SIGNED: "q", FLOAT: "d", BFLOAT: "d"}
    kinds = ["Q" if code >= POINTER else formats.get(kind_of(code), "Q") for code in codes]
    return struct.Struct("<" + "".join(kinds))


def decode_call(words: Any) -> tuple[int, int, list[Any], list[int]]:
    """Return the parts of a call record: address of the file's name, line, values, codes of their types."""
    codes = _codes(words)
    values = _layout(tuple(codes)).unpack_from(words.cast("B"), _VALUES_BYTE)
    return words[FILE_WORD], words[LINE_WORD], list(values), codes


def set_result(words: Any, value: Any) -> None:
    """Set the return value of the call, a float or an integer: 64 bits."""
    number = _WORD.unpack(_DOUBLE.pack(value))[0] if isinstance(value, float) else int(value) & (1 << 64) - 1
    words[RESULT_WORD] = number


def text_at(address: int) -> str:
    """Return a string of compiled code."""
    return ctypes.string_at(address).decode(errors="replace")


def file_at(address: int) -> str:
    """Return the name of a file in compiled code, with the characters that the file system's encoding gives it."""
    return os.fsdecode(ctypes.string_at(address))
