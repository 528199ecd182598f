"""mlusim: a discrete-event simulator of Cambricon MLU boards.

    import mlusim

    result = mlusim.run(kernel, x, mlusim.Output.like(x), device="mlu370-x4")  # a kernel of your own
    result.output, result.time_us, result.bus_bytes, result.io_efficiency
    mlusim.verify(kernel, x, mlusim.Output.like(x)).check()  # races, uninitialised reads, wrong results
    mlusim.ops.tin_shift_forward(x, shifts)  # an operator

The names in `__all__` are public. Each is loaded when it is first used (PEP 562), so that `import mlusim` is fast.

What all packages use:
  units, dtypes, arrays    picoseconds and bytes; element types; annotations of arrays
  errors, spelling         the errors, and their suggestions for misspelt names
  inputs, quantities       the checks of what users pass; numbers with a unit as text
  files, own_files         atomic writes; which files mlusim wrote; `processes`: worker processes
  source_code              names of kernels in files, lines of frames, syntax trees
  progress, version        the progress bar; the version, and how it was built
  log, log_tables          the log of a run; its tables of tasks, launches and allocations
  records                  its records, one for each operation
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from mlusim.version import __version__

# As type checkers know it: the import of `typing` would be the longest part of `import mlusim`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from mlusim import bangc, cinn, errors, explore, mluop, ops, verifier
    from mlusim.cores.core import Core
    from mlusim.errors import (
        AccessError,
        AllocationError,
        ArgumentsError,
        AwaitError,
        BoardError,
        CompileError,
        CopyError,
        HangError,
        InputError,
        KernelError,
        LaunchError,
        MissingDataError,
        MlusimError,
        OperandError,
        OperationLimitError,
        PlanError,
        SimulatedTimeError,
        UnknownNameError,
        VerificationError,
    )
    from mlusim.explore.sweeping import sweep
    from mlusim.explore.tuning import tune
    from mlusim.hardware import Board, board, presets
    from mlusim.host.arguments import InOut, Output
    from mlusim.host.device import Device
    from mlusim.host.run import run
    from mlusim.host.verify import verify
    from mlusim.log import Log
    from mlusim.memory.kinds import Direction, MemoryKind
    from mlusim.memory.view import Pointer, View
    from mlusim.ops.operator import plan
    from mlusim.planning.plan import Plan
    from mlusim.planning.tiles import Tile, Tiles
    from mlusim.results.result import Result
    from mlusim.results.saved import load
    from mlusim.retiming.retime import retime
    from mlusim.verifier.report import Report

__all__ = [
    "AccessError",
    "AllocationError",
    "ArgumentsError",
    "AwaitError",
    "Board",
    "BoardError",
    "CompileError",
    "CopyError",
    "Core",
    "Device",
    "Direction",
    "HangError",
    "InOut",
    "InputError",
    "KernelError",
    "LaunchError",
    "Log",
    "MemoryKind",
    "MissingDataError",
    "MlusimError",
    "OperandError",
    "OperationLimitError",
    "Output",
    "Plan",
    "PlanError",
    "Pointer",
    "Report",
    "Result",
    "SimulatedTimeError",
    "Tile",
    "Tiles",
    "UnknownNameError",
    "VerificationError",
    "View",
    "__version__",
    "bangc",
    "board",
    "cinn",
    "errors",
    "explore",
    "load",
    "mluop",
    "ops",
    "plan",
    "presets",
    "retime",
    "run",
    "sweep",
    "tune",
    "verifier",
    "verify",
]

_HOMES = {
    "Board": "mlusim.hardware",
    "Core": "mlusim.cores.core",
    "Device": "mlusim.host.device",
    "Direction": "mlusim.memory.kinds",
    "Log": "mlusim.log",
    "MemoryKind": "mlusim.memory.kinds",
    "InOut": "mlusim.host.arguments",
    "Output": "mlusim.host.arguments",
    "Plan": "mlusim.planning.plan",
    "Pointer": "mlusim.memory.view",
    "Report": "mlusim.verifier.report",
    "Result": "mlusim.results.result",
    "Tile": "mlusim.planning.tiles",
    "Tiles": "mlusim.planning.tiles",
    "View": "mlusim.memory.view",
    "board": "mlusim.hardware",
    "load": "mlusim.results.saved",
    "plan": "mlusim.ops.operator",
    "presets": "mlusim.hardware",
    "retime": "mlusim.retiming.retime",
    "run": "mlusim.host.run",
    "sweep": "mlusim.explore.sweeping",
    "tune": "mlusim.explore.tuning",
    "verify": "mlusim.host.verify",
}
# Commands whose functions are elsewhere.
_ELSEWHERE = {
    "check": "mlusim.verify",
    "compare": "mlusim.explore.compare.compare",
    "devices": "mlusim.presets",
    "diff": "mlusim.explore.diff.diff",
    "explain": "mlusim.explore.explanation.explain",
    "report": "mlusim.analysis.report_files.write_report",
    "validate": "mlusim.validation.report.validate",
}
_MODULES = frozenset({"bangc", "cinn", "errors", "explore", "mluop", "ops", "verifier"})


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"mlusim.{name}")
    home = "mlusim.errors" if name.endswith("Error") and name in __all__ else _HOMES.get(name)
    if home is None:
        from mlusim.spelling import nearest

        # The import system asks for each module of the package here, too; only for other names is `mlusim.ops` loaded.
        is_module = name.startswith("_") or find_spec(f"mlusim.{name}") is not None
        is_operator = not is_module and name in import_module("mlusim.ops").__all__
        elsewhere = f"mlusim.ops.{name}" if is_operator else _ELSEWHERE.get(name)
        near = f": write {elsewhere}" if elsewhere else f": {nearest(name, __all__)}".rstrip(": ")
        raise AttributeError(f"module 'mlusim' has no attribute {name!r}{near}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
