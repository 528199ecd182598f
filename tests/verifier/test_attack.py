"""Faulty kernels, each found by its kind; kernels of sound idioms, none of them blamed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import mlusim


def helper(name: str) -> ModuleType:
    """A module beside this file; tests are not a package."""
    spec = importlib.util.spec_from_file_location(f"verifier_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


FAULTY, SOUND = helper("faulty_kernels"), helper("vendor_idioms")


@pytest.mark.parametrize("name", FAULTY.FAULTS)
def test_a_faulty_kernel_is_found(name):
    case = FAULTY.FAULTS[name]
    report = mlusim.verify(case.kernel, *case.arguments, **case.options)
    assert case.kinds & {finding.kind for finding in report.errors}, report.text()


@pytest.mark.parametrize("name", FAULTY.HOST_FAULTS)
def test_a_faulty_host_program_is_found(name):
    case = FAULTY.HOST_FAULTS[name]
    report = case.program()
    assert case.kinds & {finding.kind for finding in report.errors}, report.text()


@pytest.mark.parametrize("dma", ["complete", "late"])
@pytest.mark.parametrize("name", SOUND.IDIOMS)
def test_a_sound_idiom_is_not_blamed(name, dma):
    case = SOUND.IDIOMS[name]
    report = mlusim.verify(case.kernel, *case.arguments, reference=case.reference, dma=dma, **case.options)
    assert report.ok, report.text()


@pytest.mark.parametrize("name", SOUND.HOST_IDIOMS)
def test_a_sound_host_program_is_not_blamed(name):
    report = SOUND.HOST_IDIOMS[name]()
    assert report.ok, report.text()


def test_the_collections_are_large():
    assert len(FAULTY.FAULTS) + len(FAULTY.HOST_FAULTS) > 50
    assert len(SOUND.IDIOMS) + len(SOUND.HOST_IDIOMS) > 35
