"""The sensitivity of the time to a parameter, compared with manual changes."""

import numpy as np
import pytest

from mlusim.hardware import board
from mlusim.ops.call import Input
from mlusim.ops.commands import COMMANDS
from mlusim.ops.sensitivity import scale_parameter, sensitivity, uncertain_parameters
from mlusim.ops.tin_shift import FORWARD


@pytest.fixture
def call():
    x, shifts = np.zeros((1, 8, 8, 64), np.float32), np.zeros((1, 2), np.int32)
    inputs = Input(name="x", array=x), Input(name="shifts", array=shifts, keep_data=True)
    return FORWARD.prepare(board("mlu370-x4"), "documented", *inputs)


def test_sensitivities_are_sorted_and_name_uncertain_parameters(call):
    found = sensitivity(call)
    swings = [parameter.swing for parameter in found]
    assert swings == sorted(swings, reverse=True)
    assert all(parameter.source.startswith(("ASSUMED", "fitted")) for parameter in found)
    latency = next(parameter for parameter in found if parameter.field == "dma_read_latency_ps")
    assert latency.less < 0 < latency.more


def test_a_parameter_is_varied_as_far_as_its_limits_allow():
    on = board("mlu370-x4")
    assert scale_parameter(on, "dma_read_latency_ps", 1.2).dma_read_latency_ps == round(1.2 * on.dma_read_latency_ps)
    mixed = on.dram_mixed_efficiency
    assert scale_parameter(on, "dram_mixed_efficiency", 0.8).dram_mixed_efficiency == pytest.approx(0.8 * mixed)
    assert scale_parameter(on, "dram_mixed_efficiency", 1.2).dram_mixed_efficiency == pytest.approx(1, abs=1e-4)
    read = scale_parameter(on, "dram_read_efficiency", 0.8).dram_read_efficiency
    assert on.dram_write_efficiency < read < on.dram_write_efficiency + 1e-4
    assert scale_parameter(on.replace(wave_ps=9 * 10**14), "wave_ps", 1.2).wave_ps == pytest.approx(10**15, rel=1e-6)
    assert [scale_parameter(on, "scalar_add_cycles", factor).scalar_add_cycles for factor in (0.8, 1.2)] == [1, 3]
    assert scale_parameter(on.replace(move_bytes_per_cycle=1), "move_bytes_per_cycle", 0.8).move_bytes_per_cycle == 1


def test_sourced_parameters_are_not_varied():
    names = uncertain_parameters(board("mlu370-x4"))
    assert {"dma_read_latency_ps", "dram_mixing_reach", "dram_share_spread"} <= {*names}
    assert not {"dram_bandwidth_bytes_per_s", "vector_bytes_per_cycle", "scalar_add_cycles", "nram_bytes"} & set(names)


def test_a_run_without_operations_is_sensitive_to_nothing():
    call = COMMANDS["reverse"].prepare({"axis": 0}, [np.zeros((0, 4), np.float32)], board("mlu370-x4"), None)
    assert sensitivity(call) == []
