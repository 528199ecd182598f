"""`--set`: values of other types than integers."""

from __future__ import annotations

import shlex

import pytest

from command_line import call, output_of

KERNEL = """\
async def shown(core, x, out, block=(1, 2), limit=None):
    if core.task_id == 0 and not core.is_memory_core:
        print(repr(block), repr(limit))
"""


@pytest.fixture(autouse=True)
def _kernel_file(tmp_path, monkeypatch):
    (tmp_path / "s.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (("block=(3,4)",), "(3, 4) None"),
        (("block=[3, 4]", "limit=64"), "(3, 4) 64"),
        (("limit=0.5",), "(1, 2) 0.5"),
        (("limit=most",), "(1, 2) 'most'"),
    ],
)
def test_settings_of_other_types(words, seen):
    options = [part for word in words for part in ("--set", word)]
    assert output_of("run", "s.py:shown", "--shape", "64", "-q", *options).strip() == seen


def test_a_tuple_is_one_value_of_a_setting():
    words = ("tune", "s.py:shown", "--shape", "64", "--workers", "0", "-q")
    command = output_of(*words, "--set", "block=(3,4)").splitlines()[-1]
    assert "'block=(3, 4)'" in command
    assert output_of(*shlex.split(command)[1:], "-q").strip() == "(3, 4) None"
    assert output_of(*words, "--set", "block=(3,4),(5,6)").count("None") == 2
    refused = call(*words, "--set", "block=3")
    assert refused.exit_code == 2
    assert "--set block=3: write a tuple in parentheses, such as block=(4,8)" in refused.stderr
