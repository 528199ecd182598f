"""CINN's NetBuilder on the simulated board: nets of operators.

The net:
  builder, net             NetBuilder; the variables and instructions of a net
  types                    CINN's names of element types

The run:
  program, result          a built net and its execution; outputs and figures by operator
"""

from mlusim.cinn.builder import NetBuilder
from mlusim.cinn.net import Instruction, Variable
from mlusim.cinn.program import Program
from mlusim.cinn.result import NetResult, Step
from mlusim.cinn.types import BFloat16, Bool, Float, Float16, Int, Type, UInt

__all__ = [
    "BFloat16",
    "Bool",
    "Float",
    "Float16",
    "Instruction",
    "Int",
    "NetBuilder",
    "NetResult",
    "Program",
    "Step",
    "Type",
    "UInt",
    "Variable",
]
