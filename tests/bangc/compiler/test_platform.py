"""BANG C on systems other than Linux."""

import re
import sys

import pytest

from mlusim.bangc.compiler import toolchain
from mlusim.errors import InputError


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_are_an_error_that_says_where_it_runs(monkeypatch, system):
    monkeypatch.setattr(sys, "platform", system)
    toolchain.find_compiler.cache_clear()
    message = f"BANG C needs Linux, and this system is {system}: run it in a container or a virtual machine with Linux"
    with pytest.raises(InputError, match=re.escape(message)):
        toolchain.find_compiler()
