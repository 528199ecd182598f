"""Kernels with names that the simulator does not have, and their errors. A comment marks the line of the error."""

from __future__ import annotations

from typing import Any

from mlusim.cores.core import Core
from mlusim.errors import KernelError, MlusimError, UnknownNameError


async def no_such_method(core: Core) -> None:
    core.memcopy(1, 2)  # named


async def task_id_as_in_bang_c(core: Core) -> None:
    core.scalar(core.taskId)  # named


async def no_such_allocation(core: Core) -> None:
    core.nram.allocate(64, "float32")  # named


async def attribute_of_an_array(core: Core) -> None:
    str(core.nram.alloc((4, 4), "int8").T)  # named


async def shape_as_in_numpy(core: Core) -> None:
    core.nram.alloc((4, 4), "int8").shape = (2, 8)  # type: ignore[misc]  # named


async def misspelt_attribute(core: Core) -> None:
    str(core.nram.alloc((4, 4), "int8").shap)  # named


async def arithmetic_of_an_array(core: Core) -> None:
    core.nram.alloc((4, 4), "int8").mean()  # named


async def instruction_as_a_method(core: Core) -> None:
    core.nram.alloc((4, 4), "int8").sum()  # named


async def name_of_numpy(core: Core) -> None:
    core.multiply(1, 2)  # named


async def name_of_triton(core: Core) -> None:
    core.program_id(0)  # named


async def name_of_ascend_c(core: Core) -> None:
    core.DataCopy(1, 2)  # named


async def module_of_triton(core: Core) -> None:
    core.tl.load(1)  # named


async def item_of_torch(core: Core) -> None:
    core.nram.alloc(4, "int8")[0].item()  # named


async def zeros_of_numpy(core: Core) -> None:
    core.nram.zeros(8, "float32")  # named


async def name_of_bang_c(core: Core) -> None:
    core.__bang_add(1, 2)  # named


async def name_of_bang_c_with_a_suffix(core: Core) -> None:
    core.mul_scalar(1, 2, 3)  # type: ignore[attr-defined]  # named


MISNAMED: list[tuple[Any, type[MlusimError], str]] = [
    (
        no_such_method,
        UnknownNameError,
        r"core\.memcopy is not an instruction of this core: did you mean memcpy\? docs/instructions",
    ),
    (task_id_as_in_bang_c, UnknownNameError, r"core\.taskId is not .*: did you mean task_id\? docs/instructions"),
    (no_such_allocation, KernelError, r".*'Scratch' object has no attribute 'allocate': did you mean alloc\?$"),
    (attribute_of_an_array, KernelError, ".* a view has no attribute 'T': view.transpose.. swaps the axes$"),
    (
        shape_as_in_numpy,
        KernelError,
        r".* AttributeError: a view's shape is fixed: view\.reshape\(\.\.\.\), .* other views$",
    ),
    (misspelt_attribute, KernelError, r".* a view has no attribute 'shap': did you mean shape\?$"),
    (arithmetic_of_an_array, KernelError, ".* a view has no attribute 'mean': compute with instructions, such as"),
    (instruction_as_a_method, KernelError, r".* a view has no attribute 'sum': it is an instruction .*, `core\.sum\("),
    (name_of_numpy, UnknownNameError, r"core\.multiply is not an instruction of this core: did you mean mul\? docs"),
    (name_of_triton, UnknownNameError, r"core\.program_id is not an instruction .*: did you mean task_id\? docs"),
    (name_of_ascend_c, UnknownNameError, r"core\.DataCopy is not an instruction .*: did you mean memcpy\? docs"),
    (module_of_triton, UnknownNameError, r"core\.tl is not .*: instructions are methods of core itself, .*; docs"),
    (item_of_torch, KernelError, ".* a view has no attribute 'item': `await core.load.view.` returns the value"),
    (zeros_of_numpy, KernelError, r".*'Scratch' object has no attribute 'zeros': it has adopt, alloc, free_bytes, "),
    (name_of_bang_c, UnknownNameError, r"core\.__bang_add is not an instruction of this core: did you mean add\?"),
    (
        name_of_bang_c_with_a_suffix,
        UnknownNameError,
        r"core\.mul_scalar is not an instruction of this core: did you mean mul\? docs",
    ),
]
