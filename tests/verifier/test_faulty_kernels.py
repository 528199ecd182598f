"""Faulty kernels, each found by kind, and kernels with correct idioms, none with an error."""

from __future__ import annotations

import pytest

import faulty_kernels
import mlusim
import vendor_idioms


@pytest.mark.parametrize("name", faulty_kernels.FAULTS)
def test_a_faulty_kernel_is_found(name):
    case = faulty_kernels.FAULTS[name]
    report = mlusim.verify(case.kernel, *case.arguments, **case.options)
    assert case.kinds & {finding.kind for finding in report.errors}, report.text()


@pytest.mark.parametrize("name", faulty_kernels.HOST_FAULTS)
def test_a_faulty_host_program_is_found(name):
    case = faulty_kernels.HOST_FAULTS[name]
    report = case.program()
    assert case.kinds & {finding.kind for finding in report.errors}, report.text()


@pytest.mark.parametrize("dma", ["complete", "late"])
@pytest.mark.parametrize("name", vendor_idioms.IDIOMS)
def test_a_sound_idiom_has_no_errors(name, dma):
    case = vendor_idioms.IDIOMS[name]
    report = mlusim.verify(case.kernel, *case.arguments, reference=case.reference, dma=dma, **case.options)
    assert report.ok, report.text()


@pytest.mark.parametrize("name", vendor_idioms.HOST_IDIOMS)
def test_a_sound_host_program_has_no_errors(name):
    report = vendor_idioms.HOST_IDIOMS[name]()
    assert report.ok, report.text()


def test_there_are_many_faulty_and_sound_kernels():
    assert len(faulty_kernels.FAULTS) + len(faulty_kernels.HOST_FAULTS) > 50
    assert len(vendor_idioms.IDIOMS) + len(vendor_idioms.HOST_IDIOMS) > 35
