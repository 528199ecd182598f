"""A BANG C file with changed tokens: an error of mlusim or a run, never a crash or a hang."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("MLUSIM_FUZZ", "20"))
SOURCE = """
#include <bang.h>
#define TILE 256
__mlu_entry__ void add(const float *a, const float *b, float *out, int n) {
  __nram__ float x[TILE];
  __nram__ float y[TILE];
  if (__is_mpu()) { return; }
  for (int start = taskId * TILE; start < n; start += taskDim * TILE) {
    int count = n - start < TILE ? n - start : TILE;
    __memcpy_async(x, a + start, count * sizeof(float), GDRAM2NRAM);
    __memcpy(y, b + start, count * sizeof(float), GDRAM2NRAM);
    __sync();
    __bang_add(x, x, y, TILE);
    __memcpy(out + start, x, count * sizeof(float), NRAM2GDRAM);
  }
}
"""
TOKENS = re.findall(r"#include.*|#define.*|\w+|[-+*/<>=!]=|[^\w\s]", SOURCE)
NUMBERS = ("0", "1", "-1", "2147483647")
SIGNS = (*"(){};*+-/%<&'\"☃", "##")
NAMES = ("x", "a", "out", "n", "NULL", "float", "int", "half", "while", "if", "return", "taskId", "coreId")
CALLS = ("__nram__", "__mlu_shared__", "GDRAM2NRAM", "SRAM2NRAM", "__sync_cluster", "__bang_sub", "__bang_nothing")
WORDS = st.sampled_from((*NUMBERS, *SIGNS, *NAMES, *CALLS))
CHANGE = st.tuples(
    st.sampled_from(["replace", "delete", "insert", "repeat", "swap"]), st.integers(0, len(TOKENS) - 1), WORDS
)

RUN = """
import sys
import numpy as np
import mlusim
try:
    module = mlusim.bangc.compile(sys.argv[1], "mlu370-x4")
    x = np.ones(1000, np.float32)
    mlusim.run(module["add"], x, x, mlusim.Output(x.shape, x.dtype), x.size, stall_s=3, max_operations=20_000)
except mlusim.MlusimError as error:
    print(type(error).__name__, error)
"""


def changed(changes):
    tokens = [*TOKENS]
    for kind, number, word in changes:
        place = number % max(len(tokens), 1)
        if kind == "replace":
            tokens[place : place + 1] = [word]
        elif kind == "delete":
            del tokens[place]
        elif kind == "insert":
            tokens.insert(place, word)
        elif kind == "repeat":
            tokens.insert(place, tokens[place])
        else:
            tokens[place : place + 2] = tokens[place : place + 2][::-1]
    return " ".join(f"\n{token}\n" if token.startswith("#") and len(token) > 2 else token for token in tokens)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bangc")


@pytest.mark.slow
@settings(max_examples=max(EXAMPLES // 10, 3))
@given(changes=st.lists(CHANGE, min_size=1, max_size=3))
@example(changes=[("replace", TOKENS.index("count"), "2147483647")])
def test_a_changed_file_is_refused_or_runs(folder, changes):
    file = folder / "k.mlu"
    file.write_text(changed(changes))
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:], file.read_text())
    assert "Traceback" not in done.stderr, (done.stderr, file.read_text())


@pytest.mark.slow
def test_the_unchanged_file_runs(folder):
    file = folder / "whole.mlu"
    file.write_text(changed([]))
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
