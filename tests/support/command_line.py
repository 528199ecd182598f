"""The command line in this process, and in a separate one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mlusim.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent


def call(*words, **settings):
    """The exit code and output of a command; `settings` as for click's `CliRunner.invoke`."""
    return CliRunner().invoke(main, [str(word) for word in words], **settings)


def output_of(*words, code=0):
    """The output of a command that ends with an exit code; after its errors, if that is not 0."""
    done = call(*words)
    assert done.exit_code == code, done.output
    return done.stderr + done.stdout if code else done.stdout


def error_of(*words, code=2):
    """The error, one line, of a command that ends with an exit code; of wrong usage, it is the only output."""
    done = call(*words)
    assert done.exit_code == code, done.output
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    if code == 2:
        assert done.stdout == ""
    return done.stderr.removeprefix("error: ").rstrip("\n")


def exit_code(*words):
    """The exit code of the program, whose output is not captured here."""
    with pytest.raises(SystemExit) as ended:
        main.main([str(word) for word in words])
    return int(ended.value.code or 0)


def shifted(x, shifts):
    """tin_shift, element by element in time."""
    out = np.zeros_like(x)
    per_group = x.shape[2] // shifts.shape[1]
    for n, t, c in np.ndindex(x.shape[:3]):
        source = t - int(shifts[n, c // per_group])
        if 0 <= source < x.shape[1]:
            out[n, t, c] = x[n, source, c]
    return out


INPUTS = ("--input", "x.npy", "--shifts", "shifts.npy")
RUN = ("run", "tin_shift", *INPUTS)


def expected():
    return shifted(np.load("x.npy"), np.load("shifts.npy"))
