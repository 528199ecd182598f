"""A remedy calls the core as the function does in which it belongs."""

from __future__ import annotations

import pytest

from kernel_pairs import CASES, report_of
from mlusim.verifier.core_names import core_at
from mlusim.verifier.source_file import SourceLine, source_file


@pytest.mark.parametrize(
    ("fault", "call"), [("nosync", "`await self.mlu.sync_compute()`"), ("noload", "`await mlu.sync_io()`")]
)
def test_the_core_has_the_name_that_it_has_where_the_sync_belongs(fault, call, tmp_path):
    (case,) = [case for case in CASES if (case.name, case.fault) == ("methods_of_a_class", fault)]
    (finding,) = report_of(case, tmp_path).errors
    assert finding.remedy.startswith(call)


class Rows:
    def __init__(self, mlu, x, out):
        self.mlu, self.x, self.out = mlu, x, out
        self.row = mlu.nram.alloc(8, x.dtype, "row")

    def load(self, row):
        self.mlu.memcpy_async(self.row, self.x[row])

    def negate(self):
        self.mlu.neg(self.row, self.row)

    def store(self, row):
        self.mlu.memcpy_async(self.out[row], self.row)

    async def run(self):
        for row in range(8):
            self.load(row)
            self.negate()
            self.store(row)


def test_a_method_without_operations_has_the_core_of_its_first_parameter():
    first, last = source_file(__file__).function(Rows.run.__code__.co_firstlineno + 1)[0]
    assert {core_at(SourceLine(__file__, line)) for line in range(first, last + 1)} == {"self.mlu"}
