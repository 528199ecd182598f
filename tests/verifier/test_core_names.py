"""A remedy calls the core as the function does in which it belongs."""

from __future__ import annotations

import pytest

from kernel_pairs import CASES, report_of


@pytest.mark.parametrize(
    ("fault", "call"), [("nosync", "`await self.mlu.sync_compute()`"), ("noload", "`await mlu.sync_io()`")]
)
def test_the_core_has_the_name_that_it_has_where_the_sync_belongs(fault, call, tmp_path):
    (case,) = [case for case in CASES if (case.name, case.fault) == ("methods_of_a_class", fault)]
    (finding,) = report_of(case, tmp_path).errors
    assert finding.remedy.startswith(call)
