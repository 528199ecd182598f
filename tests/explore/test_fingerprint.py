"""The digest of a user's function changes with everything that it depends on, and with nothing else."""

from __future__ import annotations

import collections
import enum
import functools
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mlusim
from mlusim.explore.fingerprint import fingerprint
from mlusim.explore.user_kernels import kernel_of


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Setting:
    tile: int


class Sized(int):
    """A number with an attribute, and with the text of every other."""

    def __new__(cls, number, unit):
        sized = super().__new__(cls, number)
        sized.unit = unit
        return sized

    def __repr__(self):
        return "a size"


def made_by(number):
    """A class whose call is decided by its metaclass."""
    meta = type("Meta", (type,), {"__call__": lambda cls: number})
    return meta("Made", (), {})


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024 - what users write


def closing_over(value):
    async def kernel(core, x, out):
        return value

    return kernel


def importing(line, expression):
    """A kernel with an import of its own; its `core.load` reads nothing from outside."""
    space = {"__name__": "__main__"}
    exec(f"async def kernel(core, x):\n    {line}\n    core.load(x)\n    return {expression}\n", space)
    return space["kernel"]


def with_default(value):
    async def kernel(core, x, out, setting=value):
        return setting

    return kernel


def with_keyword_default(value):
    async def kernel(core, x, out, *, setting=value):
        return setting

    return kernel


def with_global(value):
    """A kernel of a notebook: its globals are not a module's."""
    space = {"VALUE": value, "__name__": "__main__", "__builtins__": __builtins__}
    exec("def helper():\n    return VALUE\nasync def kernel(core, x, out):\n    return helper()\n", space)
    return space["kernel"]


def with_nested_code(value):
    space = {"VALUE": value, "__name__": "__main__"}
    exec("async def kernel(core, x, out):\n    return [(lambda: VALUE)() for _ in range(2)]\n", space)
    return space["kernel"]


def with_method(value):
    class Helper:
        def run(self):
            return value

    helper = Helper()
    return closing_over(helper)


def with_partial(value):
    return closing_over(functools.partial(min, value))


def with_cached_helper(value):
    @functools.cache
    def helper():
        return value

    return closing_over(helper)


WAYS = (
    *(closing_over, with_default, with_keyword_default, with_global),
    *(with_nested_code, with_method, with_partial, with_cached_helper),
)
VALUES = (
    *(1, 2, True, 1.0, -0.0, 0.0, "1", b"1", None, (1,), [1], [1, 2], {1: 2}, {2: 1}, {1}, frozenset({1}), 1j),
    *(np.float32(1), np.float64(1), np.zeros(2000), np.zeros((2000, 1)), np.zeros(2000, np.float32)),
    *(np.ma.array([1, 2], mask=mask) for mask in ([0, 1], [1, 0])),
    *(np.dtype("int8"), np.int8, range(3), slice(3), Colour.RED, Setting(1), Setting(2), Pair(1, 2), Path("a")),
    *(Sized(1, "B"), Sized(2, "B"), Sized(1, "KiB"), made_by(1), made_by(2)),
    *(len, np.add, np.subtract, mlusim.board("mlu370-x4"), mlusim.board("mlu590-h8"), os.path.join),
)


@pytest.mark.parametrize("way", WAYS)
def test_every_captured_value_changes_the_digest(way):
    digests = [fingerprint(way(value)) for value in VALUES]
    assert [digest.unknown for digest in digests] == [()] * len(VALUES)
    assert len({digest.sha256 for digest in digests}) == len(VALUES)
    assert [fingerprint(way(value)).sha256 for value in VALUES] == [digest.sha256 for digest in digests]


@given(hnp.arrays(np.int16, st.integers(1, 5000)), st.data())
def test_changing_one_array_element_changes_the_digest(array, data):
    place = data.draw(st.integers(0, array.size - 1))
    other = array.copy()
    other[place] ^= 1
    one, same, changed = (fingerprint(closing_over(each)).sha256 for each in (array, array.copy(), other))
    assert one == same != changed


def test_the_digest_covers_helper_code_but_not_its_location():
    def kernel_with(text):
        space = {"__name__": "__main__"}
        exec(text, space)
        return fingerprint(space["kernel"]).sha256

    helper, kernel = "def helper(n):\n    return n + 1\n", "async def kernel(core, x, out):\n    return helper(2)\n"
    base = kernel_with(helper + kernel)
    assert kernel_with("\n\n# a comment\n" + helper + "OTHER = 3\n" + kernel) == base
    assert kernel_with(helper.replace("1", "2") + kernel) != base


def test_helpers_that_call_each_other():
    space = {"__name__": "__main__"}
    text = (
        "def a(n):\n    return b(n)\ndef b(n):\n    return a(n - 1) if n else {}\nasync def kernel(c, x):\n    a(3)\n"
    )
    digests = set()
    for end in (0, 1, 0):
        exec(text.format(end), space)
        digests.add(fingerprint(space["kernel"]).sha256)
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (threading.Lock(), "`value`, a lock"),
        ((n for n in range(3)), "`value`, a generator"),
        (lambda: open("x").read(), "what <lambda> reads by `open`"),  # noqa: PTH123, SIM115 - what users write
        (lambda: os.environ["X"], "what <lambda> reads by `environ`"),
        (lambda: Path("x").read_text(), "what <lambda> reads by `read_text`"),
        (lambda: Path("x").open(), "what <lambda> reads by `open`"),  # noqa: SIM115 - what users write
        (lambda: eval("1"), "what <lambda> reads by `eval`"),
        (open, "what `value` reads"),
        (os.getenv, "what `value` reads"),
        (np.fromfile, "what `value` reads"),
        (lambda: np.load("x.npy"), "what <lambda> reads by `np.load`"),
        (np.load, "what `value` reads"),
        (importing("import numpy", "numpy.load(x)"), "what kernel reads by `numpy.load`"),
        (importing("import numpy as n", "[n.load(y) for y in x]"), "what kernel reads by `n.load`"),
        (importing("from numpy import add, load", "load(x)"), "what kernel reads by `numpy.load`"),
    ],
)
def test_objects_that_cannot_be_digested_are_named(value, why):
    assert fingerprint(closing_over(value)).unknown == (why,)


def test_sibling_modules_count_by_text_and_by_use(tmp_path):
    def digest(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        return kernel_of(f"{tmp_path}/kern.py:kernel").sha256

    kern = "import first\nasync def kernel(core, x, out):\n    return first.run()\n"
    base = digest(kern=kern, first="import second\ndef run():\n    return second.N\n", second="N = 1\n")
    assert digest(second="N = 1\n") == base
    changed = digest(second="N = 1000\n")
    assert changed != base
    assert digest(first="import second\ndef run():\n    return second.N - 1\n") not in {base, changed}
    within = "async def kernel(core, x, out):\n    from first import N\n    return N\n"
    base = digest(kern=within, first="from second import N\n", second="N = 1\n")
    assert digest(second="N = 1000\n") != base
    assert not {"first", "second"} & set(sys.modules)


def test_two_kernel_files_with_neighbours_of_one_name(tmp_path):
    for folder, number in (("a", 1), ("b", 22)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kern.py").write_text(
            "from settings_of_mine import N\nasync def kernel(core, x, out):\n    return N\n"
        )
        (tmp_path / folder / "settings_of_mine.py").write_text(f"N = {number}\n")
    before = list(sys.path)
    kernels = [kernel_of(f"{tmp_path}/{folder}/kern.py:kernel").function for folder in ("a", "b", "a")]
    assert [kernel.__globals__["N"] for kernel in kernels] == [1, 22, 1]
    assert sys.path == before


@pytest.mark.slow
def test_another_process_computes_the_same_digest():
    """The hash seed, and with it the order of sets, is another in each process."""
    code = (
        "from mlusim.explore.fingerprint import fingerprint\n"
        "import numpy as np, enum\n"
        "NAMES = {'a', 'b', 'c', 'd'}\n"
        "class Kind(enum.Enum):\n    A = 1\n    B = 2\n"
        "class Helper:\n    __slots__ = ('x',)\n    def run(self): return {'p', 'q', 'r'}\n"
        "async def kernel(core, x, out, k=Kind.A):\n"
        "    return NAMES, Helper().run(), x in {'u', 'v', 'w'}, np.add, k\n"
        "print(fingerprint(kernel).sha256)\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(digests) == 1
