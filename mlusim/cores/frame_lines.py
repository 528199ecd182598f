"""The lines that the frames of kernels execute, numbered as in the log."""

from __future__ import annotations

from types import CodeType
from typing import Any

from mlusim.log import Log
from mlusim.source_code import in_own_kernels, line_of, written_by_author

# After this many executions of a line of a helper function by one caller, its callers are no longer recorded: finding
# them takes the host a microsecond. By then, each of 64 tasks has executed the few calls before a loop, and the loop.
_EXECUTIONS = 300


class _HelperLine:
    """A line of a helper function, by its index in `Log.lines`, and how often one caller has executed it."""

    __slots__ = ("executions", "line")

    def __init__(self, line: int) -> None:
        self.line = line
        self.executions = 1


class FrameLines:
    """Numbers of source lines by frame.

    Attributes:
        numbers: by id of a code object and by instruction in it, the index in `Log.lines`; without lines of helper
            functions whose callers are still recorded.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.numbers: dict[int, dict[int, int]] = {}
        self._helper_lines: dict[tuple[int, int, int, int], _HelperLine] = {}
        self._code_objects: list[CodeType] = []

    def number(self, frame: Any) -> int:
        """Return the index in `Log.lines` of the line that a frame executes."""
        code, caller = frame.f_code, frame.f_back
        if caller is not None:
            # The callers of a helper function differ, so `numbers` gets its lines after many executions only.
            key = id(code), frame.f_lasti, id(caller.f_code), caller.f_lasti
            helper_line = self._helper_lines.get(key)
            if helper_line is not None:
                helper_line.executions += 1
                if helper_line.executions > _EXECUTIONS:
                    self.numbers.setdefault(key[0], {})[key[1]] = helper_line.line
                return helper_line.line
            # The callers of functions of mlusim's own kernels are found by name.
            if not in_own_kernels(code.co_filename) and written_by_author(caller.f_code.co_filename):
                helper_line = self._helper_lines[key] = _HelperLine(self._helper_line(frame))
                return helper_line.line
        # Numbers are looked up by the id of the code object, then by instruction: hashing the object itself walks its
        # constants. `_code_objects` keeps it alive, so that its id is not reused.
        if id(code) not in self.numbers:
            self.numbers[id(code)] = {}
            self._code_objects.append(code)
        numbers = self.numbers[id(code)]
        if frame.f_lasti not in numbers:
            numbers[frame.f_lasti] = self._log.source_line(code.co_filename, line_of(frame), code.co_name)
        return numbers[frame.f_lasti]

    def _helper_line(self, frame: Any) -> int:
        """Return the index in `Log.lines` of the line of a helper function, and record the calls that led to it."""
        code = frame.f_code
        number = self._log.source_line(code.co_filename, line_of(frame), code.co_name)
        if code.co_name == "<lambda>":
            self._log.lambdas.add((code.co_filename, line_of(frame)))
        while (caller := frame.f_back) is not None and written_by_author(caller.f_code.co_filename):
            location = frame.f_code.co_filename, line_of(frame)
            self._log.calls.setdefault(location, set()).add((caller.f_code.co_filename, line_of(caller)))
            self._code_objects += [frame.f_code, caller.f_code]
            frame = caller
        return number
