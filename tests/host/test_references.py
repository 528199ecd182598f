"""The reference of `mlusim.verify`: arrays, functions and mappings, compared bit by bit or within tolerances."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import mlusim
from doubling import ONE, X, double
from kernel_lines import at
from mlusim import InputError, Output, verify


async def both(core, x, up, down):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    for out, factor in ((up, 2.0), (down, 0.5)):
        await core.memcpy(held, x)
        core.mul(held, held, factor)
        await core.memcpy(out, held)


@pytest.mark.parametrize("reference", [X * 2, lambda x: x * 2, {"out": X * 2}])
def test_a_reference_is_an_array_a_function_or_a_mapping(reference):
    assert verify(double, X, Output.like(X), reference=reference, **ONE).ok
    wrong = verify(double, X, Output.like(X), 3.0, reference=reference, **ONE)
    assert [finding.kind for finding in wrong.errors] == ["wrong-value"]
    fields = wrong.errors[0].fields
    assert (fields["tensor"], fields["elements"]) == ("out", 63)
    assert [line.partition(":")[0] for line in fields["through"]] == ["doubling.py"] * 2


def test_a_reference_may_compute_in_place():
    def doubled(x):
        x += x
        return x

    x = np.arange(8, dtype=np.float32)

    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype)
        await core.memcpy(held, x)
        core.add(held, held, held)
        await core.memcpy(out, held)

    for reference in (doubled, lambda x: (x + x,), (x + x,), tuple(x + x)):
        report = mlusim.verify(kernel, x, mlusim.Output.like(x), reference=reference, kind="BLOCK", dim=1)
        assert report.ok, report.text()
    assert (x == np.arange(8)).all()


def test_references_of_two_outputs():
    outputs = (Output.like(X), Output.like(X))
    assert verify(both, X, *outputs, reference={"up": X * 2, "down": X / 2}, **ONE).ok
    assert verify(both, X, *outputs, reference=lambda x: (x * 2, x / 2), **ONE).ok
    assert verify(both, X, *outputs, reference=lambda x: (None, x / 2), **ONE).ok
    assert not verify(both, X, *outputs, reference=lambda x: (None, x / 3), **ONE).ok
    assert verify(both, X, *outputs, reference=[X * 2, X / 2], **ONE).ok
    assert verify(both, X, *outputs, reference=lambda x: [x * 2, None], **ONE).ok
    assert not verify(both, X, *outputs, reference=[X / 2, X * 2], **ONE).ok
    with pytest.raises(InputError, match=r"^a reference of 3 arrays for 2 outputs: up, down$"):
        verify(both, X, *outputs, reference=[X, X, X], **ONE)
    with pytest.raises(
        InputError, match=r"^a reference of one array for 2 outputs, up, down: pass a tuple or list of arrays, or"
    ):
        verify(both, X, *outputs, reference=X, **ONE)
    with pytest.raises(InputError, match=r"^the reference names \['left'\], which are not outputs: .*'down', 'up'"):
        verify(both, X, *outputs, reference={"left": X}, **ONE)


def test_a_failing_reference_is_an_error_at_its_line():
    def wanted(x):
        return x.no_such_method()

    with pytest.raises(InputError, match=r"^the reference function raised AttributeError: ") as caught:
        verify(double, X, Output.like(X), reference=wanted, **ONE)
    assert caught.value.message.endswith(f"at {at(wanted, 'return')}: return x.no_such_method()")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    with pytest.raises(InputError, match=r"takes 0 positional .*; it is called with the input arrays, in order$"):
        verify(double, X, Output.like(X), reference=lambda: X, **ONE)


def test_a_kernel_or_a_text_as_a_reference_is_refused():
    async def wanted(x):
        return 2 * x

    with pytest.raises(InputError, match=r"^the reference function returned None: return the expected output, or"):
        verify(double, X, Output.like(X), reference=lambda _: None, **ONE)
    with pytest.raises(InputError, match=r"^the reference is an `async def` like a kernel: write a plain function of"):
        verify(double, X, Output.like(X), reference=wanted, **ONE)
    with pytest.raises(
        InputError, match=r"^the reference is 'ref\.npy': pass an array or a function \(a command takes a file, or F"
    ):
        verify(double, X, Output.like(X), reference="ref.npy", **ONE)


def test_a_reference_of_another_shape_or_type_is_refused():
    with pytest.raises(InputError, match=r"output float32 \[8, 8\].*convert the reference: \.astype\('float32'\)$"):
        verify(double, X, Output.like(X), reference=X.astype(float), **ONE)


def test_bits_or_a_tolerance():
    bits = X.copy()
    bits[0, 0] = -0.0
    assert not verify(double, X, Output.like(X), reference=bits * 2, **ONE).ok
    assert verify(double, X, Output.like(X), reference=X * 2.0001, tolerance=1e-3, **ONE).ok
    assert not verify(double, X, Output.like(X), reference=X * 2.01, tolerance=1e-3, **ONE).ok
    nan = np.full((8, 8), np.nan, np.float32)
    assert verify(double, nan, Output.like(X), reference=-nan, **ONE).ok


async def copied(core, x, out):
    if core.task_id or core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape, x.dtype)
    await core.memcpy(tile, x)
    await core.memcpy(out, tile)


@pytest.mark.parametrize(
    ("dtype", "value", "reference", "options", "ok"),
    [
        # Differences neither wrap nor overflow, and infinities are near nothing else.
        ("int8", 127, -128, {"tolerance": 0.01}, False),
        ("int8", 100, -100, {"tolerance": 1.9}, False),
        ("int8", 100, -100, {"tolerance": 2.0}, True),
        ("uint8", 3, 4, {"tolerance": 0.25}, True),
        ("uint8", 3, 4, {"tolerance": 0.24}, False),
        ("bool", True, False, {"tolerance": 0.5}, False),
        ("float16", 60000, -60000, {"tolerance": 1.0}, False),
        ("float32", 1, np.inf, {"tolerance": 1e-3}, False),
        ("float32", -np.inf, np.inf, {"tolerance": 1e-3}, False),
        ("float32", np.inf, 1, {"absolute_tolerance": 1e30}, False),
        ("float32", np.inf, np.inf, {"tolerance": 1e-3}, True),
        ("float32", np.nan, 1, {"tolerance": 1e3}, False),
        ("complex64", 1 + 1j, 1 + 1.0001j, {"tolerance": 1e-3}, True),
        # Near 0 a relative tolerance admits nothing.
        ("float32", 1e-9, 0, {"tolerance": 1e-3}, False),
        ("float32", 1e-9, 0, {"tolerance": 1e-3, "absolute_tolerance": 1e-8}, True),
        ("float32", 1 + 2e-3, 1, {"tolerance": 1e-3, "absolute_tolerance": 1e-8}, False),
        ("float32", -0.0, 0.0, {"absolute_tolerance": 1e-30}, True),
    ],
)
def test_tolerances(dtype, value, reference, options, ok):
    x, expected = np.full(3, value, dtype), np.full(3, reference, dtype)
    assert verify(copied, x, Output.like(x), reference=expected, **options, **ONE).ok is ok


def test_a_rule_names_its_tolerances_and_differences_like_those_of_rounding_their_size():
    x = np.array([1.0, 0.0, 1e-5], np.float32)
    options = {"tolerance": 1e-4, "absolute_tolerance": 1e-9}
    (finding,) = verify(copied, x, Output.like(x), reference=np.float32([1, 0, 0]), **options, **ONE).findings
    assert finding.rule == "the output must equal the reference within 0.0001 of it plus 1e-09"
    assert finding.remedy == (
        "check the operation that made these bytes; if it is only rounding, allow for it: --absolute-tolerance 1e-05 "
        "(in Python absolute_tolerance=1e-05): the largest difference from the reference is at most 1e-05"
    )
    (finding,) = verify(copied, x, Output.like(x), reference=np.float32([2, 0, 0]), **ONE).findings
    assert "rounding" not in finding.remedy


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.complex64])
def test_differences_of_a_unit_in_the_last_place_are_rounding_first(dtype):
    x = np.ones(3, dtype)
    reference = x.copy()
    reference[1] += ml_dtypes.finfo(dtype).eps
    (finding,) = verify(copied, x, Output.like(x), reference=reference, **ONE).findings
    form = r"allow for rounding: --tolerance (\S+) \(in Python tolerance=\1\): .* is at most \1 of it$"
    remedy = re.match(form, finding.remedies[0])
    assert verify(copied, x, Output.like(x), reference=reference, tolerance=float(remedy[1]), **ONE).ok
