"""Retiming reproduces a run on its own board, and gives the times of a fresh run on another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mlusim
from any_kernel import everything
from mlusim.analysis.summary import to_json
from mlusim.errors import InputError
from mlusim.retiming.retime import plan_on, retime
from retimed_runs import FASTER, RUNS, changed, fresh, ran, same_log, same_run

BOARDS = ("mlu370-x4", "mlu270-s4", "mlu590-h8")


@pytest.mark.grid(12)
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", RUNS)
def test_retiming_on_the_same_board_reproduces_an_operator(name, board, tmp_path):
    run = ran(name, board, data=True)
    again = retime(run)
    same_log(again.log, run.log)
    assert to_json(again) == to_json(run)
    assert again.output is None
    assert again.plan.explain() == run.plan.explain()
    saved = retime(run.save(tmp_path / "run"))
    same_log(saved.log, run.log)
    assert [*saved.sources.values()] == [*run.sources.values()]


def test_the_parameters_of_a_saved_plan_are_compared_by_value_and_not_by_the_names_of_fields(tmp_path):
    x, lengths = np.ones((4, 6, 8), np.float32), np.arange(4, dtype=np.int32)
    run = mlusim.load(mlusim.ops.reverse_sequence(x, lengths).save(tmp_path / "run"))
    layout = run.plan.parameters["layout"]
    for rows, same in ((6, True), (5, False)):
        former = {f"former_{name}": rows if name == "rows" else value for name, value in layout["fields"].items()}
        parameters = {**run.plan.parameters, "layout": {**layout, "fields": former}}
        run.plan = replace(run.plan, parameters=parameters)
        assert (plan_on(run, run.board)[1] == "") == same
    with pytest.raises(InputError, match="would be split differently on mlu370-x4: layout = "):
        retime(run)


@pytest.mark.parametrize("board", BOARDS)
def test_a_timing_only_run_gives_the_same_retimed_result(board):
    for name in ("gather_rows", "scatter", "cast"):
        same_log(retime(ran(name, board)).log, ran(name, board).log)


@pytest.mark.grid(12)
@pytest.mark.parametrize(("number", "parameter"), list(enumerate(FASTER)))
def test_retiming_with_another_parameter_equals_a_fresh_run(number, parameter):
    """A third of the operators for each parameter, so that neighbours share them all."""
    for name, board in zip(list(RUNS)[number % 3 :: 3], (BOARDS * len(RUNS))[number:], strict=False):
        values = changed(board, parameter)
        again = retime(ran(name, board), keep_split=True, **values)
        same_run(again, fresh(ran(name, board), mlusim.board(board).replace(**values)))


@pytest.mark.parametrize(
    "changes",
    [{"scalar_loop_cycles": 0}, {"scalar_add_cycles": 9}, {"scalar_nram_cycles": 90}],
    ids=lambda one: next(iter(one)),
)
def test_a_sort_by_scalar_code_takes_the_time_of_the_other_board(changes):
    x, index = np.zeros((1, 7), np.float32), np.zeros((1, 5), np.int64)

    def run(board):
        return mlusim.ops.scatter(x, index, x[:, :5], 1, strategy="bins", device=board, data=False)

    again = retime(run("mlu270-d4"), keep_split=True, **changes)
    same_run(again, run(mlusim.board("mlu270-d4").replace(**changes)))


def test_retiming_an_operator_on_another_board_equals_a_fresh_run():
    same = 0
    for name, operation in RUNS.items():
        for board, other in (("mlu370-x4", "mlu370-s4"), ("mlu370-x4", "mlu370-x8"), ("mlu590-h8", "mlu590-m9")):
            plan, difference = plan_on(ran(name, board), mlusim.board(other))
            if not difference:
                same += 1
                again = retime(ran(name, board), other)
                straight = operation(device=other, data=False, check=False)
                same_run(again, straight)
                assert to_json(again) == to_json(straight)
                assert again.plan.explain() == straight.plan.explain() == plan.explain()
    assert same > 10


def test_retiming_an_operator_of_a_net_gives_its_time():
    from mlusim.cinn import Float, NetBuilder

    net = NetBuilder("net")
    x = net.create_input(Float(32), (64, 96), "x")
    net.cast(net.flip(x, [0]), "int8")
    result = net.build("mlu370-x4").execute({"x": np.ones((64, 96), np.float32)})
    for step in result.steps:
        again = retime(step.result)
        assert again.time_ps == step.result.time_ps
        assert again.metrics.bus_bytes == step.result.metrics.bus_bytes
    assert {step.result.log.launches[0].start_ps > 0 for step in result.steps} == {False, True}


def test_tensors_of_the_host_live_as_long_as_in_a_fresh_run():
    async def scalar(core, *_):
        core.scalar(1000)

    def lifetimes(clock_hz):
        device = mlusim.Device(mlusim.board("mlu370-x4").replace(clock_hz=clock_hz))
        device.launch(scalar, device.upload(np.zeros(4), "before"))
        device.synchronize()
        between = device.upload(np.zeros(4), "between")
        device.launch(scalar, between)
        device.synchronize()
        device.free(between)
        again = retime(device.result(), clock_hz=100_000_000)
        return [[(record.start_ps, record.end_ps) for record in log.allocations] for log in (device.log, again.log)]

    fresh_lifetimes, _ = lifetimes(100_000_000)
    assert lifetimes(1_000_000_000)[1] == fresh_lifetimes
    assert 0 < fresh_lifetimes[1][0] < fresh_lifetimes[1][1]


def test_a_retimed_run_can_be_saved_and_retimed(tmp_path):
    run = everything("mlu590-m9", 8)
    slow = retime(run, clock_hz=10**8)
    back = retime(slow.save(tmp_path / "slow"), "mlu590-m9")
    assert slow.time_ps > run.time_ps == back.time_ps
    same_run(back, run)


def test_decisions_on_loaded_values_stay_as_recorded():
    """A kernel that polls a flag issues fewer loads on a board with slow loads; retiming keeps the recorded ones."""

    async def polls(core, flag, x):
        if core.is_memory_core:
            return
        if core.task_id == 0:
            await core.memcpy(core.nram.alloc(x.shape, "int8"), x)
            core.store(flag[0], 1)
        else:
            while await core.load(flag[0]) != 1:
                core.scalar(100)

    def run(board):
        device = mlusim.Device(board)
        flag = device.alloc(1, "int32")
        device.launch(polls, flag, device.upload(np.zeros(400_000, np.int8)), dim=4)
        device.synchronize()
        return device.result()

    board = mlusim.board("mlu370-x4")
    slower = board.replace(scalar_gdram_latency_ps=20 * board.scalar_gdram_latency_ps)
    here, there = run(board), run(slower)
    assert there.metrics.operations["load"] < here.metrics.operations["load"]
    assert retime(here, slower).metrics.operations == here.metrics.operations


def test_default_scalar_costs_are_the_boards_and_explicit_ones_the_kernels():
    async def works(core, cycles):
        core.scalar(cycles, count=1000)

    times = {}
    for cycles in (None, 7):
        device = mlusim.Device("mlu370-x4")
        device.launch(works, cycles, dim=1, kind="BLOCK")
        device.synchronize()
        again = retime(device.result(), scalar_op_cycles=50)
        times[cycles] = again.time_ps - device.result().time_ps
    board = mlusim.board("mlu370-x4")
    assert times == {None: board.cycles_ps(1000 * (50 - board.scalar_op_cycles)), 7: 0}
