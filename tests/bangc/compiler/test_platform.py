"""What BANG C needs: Linux, and C++17 or later."""

import re
import sys

import pytest

from mlusim import bangc
from mlusim.bangc.compiler import toolchain
from mlusim.errors import InputError


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_are_an_error_that_says_where_it_runs(monkeypatch, system):
    monkeypatch.setattr(sys, "platform", system)
    toolchain.find_compiler.cache_clear()
    message = f"BANG C needs Linux, and this system is {system}: run it in a container or a virtual machine with Linux"
    with pytest.raises(InputError, match=re.escape(message)):
        toolchain.find_compiler()


@pytest.mark.parametrize("std", ["c++11", "gnu++14", "c++0x"])
def test_a_standard_before_17_is_an_error_with_the_remedy(std, tmp_path):
    file = tmp_path / "empty.mlu"
    file.write_text("__mlu_entry__ void nothing() {}\n")
    message = f"std={std}: the headers need C++17 or later; leave it out, since gnu++17, the default, also compiles"
    with pytest.raises(InputError, match=re.escape(message)):
        bangc.compile(file, std=std)


def test_a_folder_of_headers_that_does_not_exist_is_an_error(tmp_path):
    file = tmp_path / "k.mlu"
    file.write_text("#include <bang.h>\n")
    with pytest.raises(InputError, match=r"include .*none: there is no such folder"):
        bangc.compile(file, include=[tmp_path / "none"])


def test_options_are_true_or_false(tmp_path):
    file = tmp_path / "k.mlu"
    file.write_text("#include <bang.h>\n")
    with pytest.raises(InputError, match=r"^checked='no': choose True or False$"):
        bangc.compile(file, checked="no")
