"""Names of other kernel languages: each message names what a core has."""

from __future__ import annotations

import re

import pytest

from mlusim import Core
from mlusim.cores.tasks import foreign_names
from mlusim.cores.tasks.foreign_names import replacement


def test_every_replacement_is_an_instruction_or_attribute() -> None:
    known = {*dir(Core), "task_dim", "task_id"}  # the two are assigned when a core is made
    assert [name for name in foreign_names._INSTRUCTIONS if name not in known] == []
    named = {name for advice in foreign_names._ADVICE.values() for name in re.findall(r"core\.(\w+)", advice)}
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
        ("nonsense", ""),
    ],
)
def test_a_name_is_found_in_any_spelling(name: str, says: str) -> None:
    assert replacement(name) == says
