"""Names of other kernel languages: each message names what a core has."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kernel_runs import run_alone
from mlusim import Core, Direction, KernelError
from mlusim.cores import foreign_names
from mlusim.cores.foreign_names import replacement


def test_every_replacement_is_an_instruction_or_attribute() -> None:
    known = {*dir(Core), "task_dim", "task_id"}  # the two are assigned when a core is made
    assert [name for name in foreign_names._INSTRUCTIONS if name not in known] == []
    advices = [*foreign_names._ADVICE.values(), *foreign_names._ARGUMENTS.values()]
    named = {name for advice in advices for name in re.findall(r"core\.(\w+)", advice)}
    assert [name for name in sorted(named) if name not in known] == []


def test_no_entry_is_a_name_of_the_core() -> None:
    known = dir(Core)
    entries = [*foreign_names._INSTRUCTION_OF, *foreign_names._ADVICE]
    assert [name for name in entries if name in known] == []
    assert len(entries) == len(set(entries))
    assert [name for name in entries if name != name.replace("_", "").lower()] == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("DataCopy", "did you mean memcpy?"),
        ("data_copy", "did you mean memcpy?"),
        ("program_id", "did you mean task_id?"),
        ("cdiv", "scalar arithmetic is Python's: -(-a // b)"),
        ("GetSystemCycle", replacement("clock64")),
        ("argsort", replacement("topk")),
        ("print", "`print(core, view)` shows the task, the simulated time and the values"),
        ("num_cores", "did you mean task_dim?"),
        ("nonsense", ""),
    ],
)
def test_a_name_is_found_in_any_spelling(name: str, says: str) -> None:
    assert replacement(name) == says


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda core: core.nram.free(0), r"has no attribute 'free': `with core\.nram\.scope\(\):` frees the buffers"),
        (
            lambda core: core.nram.release("a"),
            r"nram\.release\('a'\): it takes the number of buffers to keep, at least 0; to ",
        ),
        (
            lambda core: core.nram.release(-1),
            r"nram\.release\(-1\): .* allocate them within `with core\.nram\.scope\(\):`",
        ),
        (lambda _: Direction.GDRAM2NARM, r"Direction has no attribute 'GDRAM2NARM': did you mean GDRAM2NRAM\?$"),
        (
            lambda core: core.clock(),
            r"core\.clock is not an instruction .*; `print\(core\)` shows the simulated time, and ",
        ),
        (lambda core: core.task_id(), "'int' object is not callable; core.task_id .* write them without parentheses$"),
    ],
)
def test_the_message_says_what_to_write(call: Any, message: str) -> None:
    async def kernel(core: Core) -> None:
        call(core)

    with pytest.raises(KernelError, match=message):
        run_alone(kernel)
