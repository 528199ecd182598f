"""Errors of kernels: what an exception in a kernel means, and its place in the author's own code."""

from __future__ import annotations

import linecache
import re
import sys
from array import array
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

from mlusim.cores.conversion_methods import CONVERSIONS, ConversionMethods
from mlusim.cores.foreign_names import argument_advice, replacement
from mlusim.cores.instructions.table import BY_INTRINSIC
from mlusim.cores.tasks.source_line import awaiting_line, kernel_line
from mlusim.errors import (
    AccessError,
    AwaitError,
    KernelError,
    MlusimError,
    OperandError,
    OperationLimitError,
    UnknownNameError,
    shown,
)
from mlusim.memory.not_numeric import missing_attribute
from mlusim.memory.view import View
from mlusim.source_code import source_name, written_by_author
from mlusim.spelling import nearest
from mlusim.units import format_ns, plural

if TYPE_CHECKING:
    from mlusim.cores.tasks.task import Task

# Python's messages about a method called with too few, too many or unknown arguments.
_WRONG_CALL = re.compile(r"(Core|InstructionMethods|Scratch)\.(\w+)\(\) ((?:missing|got|takes) .*)")
# Endings of Python's messages about awaiting an object that is not awaitable, or asyncio without its loop.
# The first two are Python's before 3.14 and since.
_NO_AWAIT = (
    "can't be used in 'await' expression",
    "object can't be awaited",
    "no running event loop",
    "no current event loop",
)
_AWAITABLE = "a kernel awaits only methods of its core that wait (memcpy, load, sync, ...) and its own coroutines"


# Names in other libraries of a function that frees a buffer.
_FREES = frozenset({"free", "dealloc", "delete"})
# Arguments that NumPy would take for an array, and that a kernel gets as they are.
_NO_TENSORS = (list, tuple, range, memoryview, bytearray, array)


class Abandoned(BaseException):
    """Stops a kernel that catches its errors. `error` is the error to report, or None for the one it caught."""

    error: MlusimError | None = None


def reported(task: Task, error: BaseException) -> BaseException:
    """Return the exception that reports one that a kernel has raised, with its cause and place; may be the same."""
    awaited_all = task.unawaited < 0 or task.refused is not None
    source = kernel_line(error, task.file)
    if isinstance(error, MlusimError) and (awaited_all or not isinstance(error, OperandError | AccessError)):
        error.locate(location(task, source, task.now_ps), source)
        return error
    if isinstance(error, Abandoned):
        refusal = error.error or task.refused or KernelError("the kernel was stopped")
        refusal.locate(location(task, source, task.now_ps), source)
        refusal.__suppress_context__ = True
        return refusal
    if isinstance(error, KeyboardInterrupt) or _quits_debugger(error):
        # Those of `mlusim validate` are not the user's.
        if written_by_author(task.file):
            error.add_note(location(task, source, task.now_ps))
        return error
    # Includes SystemExit: `sys.exit` in a kernel ends the run with an error, not the program.
    if str(error).endswith(_NO_AWAIT):
        report: KernelError = AwaitError(_not_awaitable_text(error))
    elif isinstance(error, AttributeError) and isinstance(error.obj, ConversionMethods):
        report = UnknownNameError(_unknown_instruction(error.obj, str(error.name)))
    elif not awaited_all and (
        isinstance(error, TypeError | AttributeError | MlusimError) or task.unawaited == task.awaited
    ):
        # `core.load(x) + 1`, `core.mul(a, a, core.load(x))`, `x[core.load(i)]`: the cause is the missing `await`.
        report = forgotten_await(task)
    elif isinstance(error, TypeError) and (call := _WRONG_CALL.fullmatch(str(error))):
        report = OperandError(_wrong_call_text(*call.groups()))
    else:
        report = KernelError(_raised_text(error))
    report.locate(location(task, source, task.now_ps), source)
    report.__cause__ = error
    # A debugger that is started after the error (`%debug`, `pytest --pdb`) stops in the innermost frame: the kernel's.
    return report.with_traceback(error.__traceback__ and error.__traceback__.tb_next)


def _quits_debugger(error: BaseException) -> bool:
    """Return whether the author has quit a debugger in the kernel."""
    bdb = sys.modules.get("bdb")
    return bdb is not None and isinstance(error, bdb.BdbQuit)


def location(task: Task, source: tuple[str, int], at_ps: int) -> str:
    """Return the task, the kernel's own line, and simulated time."""
    file, line = source
    return f"{task.name}, {f'{source_name(file)}:{line}, ' if line else ''}at {format_ns(at_ps)}"


def foreign_awaitable(task: Task, coroutine: Any, waits: object) -> AwaitError:
    """Return the error about a kernel that awaits an object of another library."""
    source = awaiting_line(coroutine, task.file)
    text = linecache.getline(*source).strip()
    # Code from `exec` has no source text.
    line_text = f"`{text}`" if text else "this line"
    error = AwaitError(f"{line_text} awaits {shown(waits)}, which is not an awaitable of the simulator: {_AWAITABLE}")
    error.locate(location(task, source, task.now_ps), source)
    return error


def forgotten_await(task: Task) -> AwaitError:
    """Return the error about an operation that the kernel has called and not awaited."""
    log = task.chip.log
    values = log.records.values(task.unawaited)
    file, line, _ = log.lines[values["line"]]
    name = log.ops[values["op"]]
    text = f"`core.{name}(...)` was not awaited, so the task did not wait for it: write `await core.{name}(...)`"
    if task.unawaited == task.awaited:
        text = (
            f"`await core.{name}(...)` was left before it was over, because only the simulator resumes a kernel: await "
            "coroutines instead of driving them by `send` or asyncio, and leave an async generator at its end, or "
            "within `async with contextlib.aclosing(generator)`"
        )
    error = AwaitError(text)
    error.locate(location(task, (file, line), values["issue_ps"]), (file, line))
    return error


def foreign_core(task: Task) -> KernelError:
    """Return the error about a kernel that uses the core of this task, which is another one or has ended."""
    state = ", which has ended" if task.finished else ""
    return KernelError(f"this is the core of {task.name}{state}: a kernel uses only its own core, while it runs")


def returned_value(task: Task, value: object, source: tuple[str, int]) -> KernelError:
    """Return the error about a kernel that returns something, at its last line."""
    error = KernelError(
        f"the kernel returned {shown(value)}: a kernel returns nothing; it writes results to an output, such as "
        "Output(shape, dtype)"
    )
    error.locate(location(task, source, task.now_ps), source)
    return error


def too_many_operations(task: Task) -> OperationLimitError:
    """Return the error about a kernel that issues more operations than it may."""
    return OperationLimitError(
        f"{plural(task.chip.max_operations, 'operation')} issued without an end: an endless loop? "
        "If the kernel needs more, raise max_operations"
    )


def _not_awaitable_text(error: BaseException) -> str:
    if "NoneType" in str(error):
        return (
            "there is nothing to wait for: the call returned None, as memcpy_async and vector instructions do; "
            f"{_AWAITABLE}"
        )
    advice = "write its parentheses, as in `await core.sync()`; " if "method" in str(error) else ""
    return f"{error}: {advice}{_AWAITABLE}"


def _wrong_call_text(owner: str, name: str, complaint: str) -> str:
    """Return the message about a method called with too few, too many or unknown arguments."""
    from mlusim.cores.core import Core
    from mlusim.cores.scratch import Scratch

    # Without `self`, which Python counts too.
    _, *parameters = signature(getattr(Scratch if owner == "Scratch" else Core, name)).parameters.values()
    call = f"{name}{Signature([parameter.replace(annotation=Parameter.empty) for parameter in parameters])}"
    if lacks := re.fullmatch("missing .*: (.*)", complaint):
        reduces = name.replace("atomic_", "atomic_reduce_")
        remedy = f"; {reduces}(target, operand) does not return the old value"
        return f"{call}: missing {lacks[1]}{remedy if reduces != name and hasattr(Core, reduces) else ''}"
    if positional := re.search(r"but (\d+) ", complaint):
        complaint = f"got {plural(int(positional[1]) - 1, 'positional argument')}"
    keyword = re.search(r"unexpected keyword argument '(\w+)'", complaint)
    return f"{call} {complaint}: {argument_advice(keyword[1] if keyword else '')}"


def _raised_text(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, AttributeError) and (attribute := re.search(r"'(\w+)' of 'View' object", text)):
        text = f"a view's {attribute[1]} is fixed: view.reshape(...), view.view(dtype) and slices return other views"
    elif isinstance(error, AttributeError) and isinstance(error.obj, View):
        from mlusim.cores.core import Core

        text = missing_attribute(error.obj, str(error.name), is_instruction=hasattr(Core, str(error.name)))
    elif isinstance(error, AttributeError) and type(error.obj).__name__ == "Scratch" and error.name in _FREES:
        text += ": `with core.nram.scope():` frees the buffers that are allocated in it"
    elif isinstance(error, AttributeError) and _is_ours(error.obj):
        names = [name for name in dir(error.obj) if not name.startswith("_")]
        if isinstance(error.obj, type):
            text = f"{error.obj.__name__} has no attribute {error.name!r}"
        text += f": {nearest(str(error.name), names).rstrip() or 'it has ' + ', '.join(names)}"
    elif isinstance(error, TypeError) and text == "'int' object is not callable":
        text += "; core.task_id and related names, and x.size, are numbers: write them without parentheses"
    message = f"the kernel raised {type(error).__name__}{': ' if text else ''}{text}"
    if isinstance(error, AttributeError) and hasattr(View, str(error.name)) and isinstance(error.obj, _NO_TENSORS):
        kind = type(error.obj).__name__
        message += f"; a {kind} among the arguments stays a {kind}: pass np.array(...), which is uploaded to GDRAM"
    return message


def _is_ours(value: object) -> bool:
    """Return whether an object is of a class of mlusim, or is such a class."""
    return (value if isinstance(value, type) else type(value)).__module__.startswith("mlusim.")


def _unknown_instruction(core: Any, name: str) -> str:
    """Return the message for a method that a core lacks, with the nearest name."""
    # BANG C's names without the underscores.
    short_name = name.lstrip("_").removeprefix("bang_")
    names = [names for names in dir(core) if not names.startswith("_")]
    if "2" in short_name:
        names += CONVERSIONS
    instruction = BY_INTRINSIC.get(f"__bang_{short_name}")
    bang_c_advice = f"did you mean {instruction.name}?" if instruction else ""
    advice = bang_c_advice or replacement(short_name) or nearest(short_name, names).rstrip()
    advice += "" if not advice else " " if advice.endswith("?") else "; "
    pages = "docs/instructions.md and docs/glossary.md list them all"
    return f"core.{name} is not an instruction of this core: {advice}{pages}"
