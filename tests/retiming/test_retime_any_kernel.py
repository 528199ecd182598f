"""Retiming random kernels that use every instruction."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlusim
from any_kernel import everything
from mlusim.retiming.retime import retime
from retimed_runs import FASTER, changed, same_log, same_run


@given(seed=st.integers(0, 10**6), board=st.sampled_from(("mlu370-x4", "mlu290-m5", "mlu590-m9")))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_retiming_on_the_same_board_reproduces_any_kernel(seed, board):
    run = everything(board, seed)
    same_log(retime(run).log, run.log)


@given(
    seed=st.integers(0, 10**6),
    board=st.sampled_from(("mlu370-x4", "mlu290-m5", "mlu590-m9")),
    names=st.sets(st.sampled_from(sorted(FASTER)), min_size=1, max_size=4),
    clusters=st.sampled_from((None, 3)),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_retiming_any_kernel_on_another_board_equals_a_fresh_run(seed, board, names, clusters):
    values = changed(board, *sorted(names)) | ({} if clusters is None else {"clusters": clusters, "max_union": 2})
    again = retime(everything(board, seed), **values)
    same_run(again, everything(mlusim.board(board).replace(**values), seed))
