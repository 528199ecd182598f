"""The Chrome trace: valid, named, without overlaps, exact."""

import io
import json
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise

import pytest

from mlusim.analysis.records import Records
from mlusim.analysis.trace import stream_trace


@pytest.fixture(scope="module")
def trace(staged_device):
    stream = io.StringIO()
    stream_trace(Records(staged_device.log, staged_device.board), stream)
    return json.loads(stream.getvalue(), parse_float=Decimal)


def test_every_track_has_a_name_and_names_are_unique(trace):
    names = defaultdict(dict)
    processes = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["pid"]][event["tid"]] = event["args"]["name"]
        if event["ph"] == "M" and event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            assert event["tid"] in names[event["pid"]], event
            assert event["pid"] in processes
    assert processes[0] == "board mlu370-x4"
    assert processes[1] == "cluster 0"
    assert {"core 0 task", "core 0 io", "core 3 vector", "memory core io", "core 1 sync"} <= set(names[1].values())
    for threads in names.values():
        assert len(set(threads.values())) == len(threads)


def test_slices_of_a_track_do_not_overlap(trace):
    tracks = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], event["dur"]))
    assert len(tracks) > 80
    for slices in tracks.values():
        slices.sort()
        for (start, duration), (following, _) in pairwise(slices):
            assert start + duration <= following


def test_nothing_is_missing_and_times_are_exact(trace, staged_device):
    log = staged_device.log
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == len(log) + len(log.tasks) + len(log.launches)
    launches = [event for event in slices if event["pid"] == 0]
    assert [(event["ts"], event["dur"]) for event in launches] == [
        (Decimal(launch.start_ps) / 10**6, Decimal(launch.end_ps - launch.start_ps) / 10**6) for launch in log.launches
    ]
    assert {event["name"] for event in slices} >= {
        "GDRAM2SRAM",
        "SRAM2NRAM",
        "NRAM2GDRAM",
        "add",
        "store",
        "sync_cluster",
    }
    copies = [event for event in slices if event["name"] == "NRAM2GDRAM"]
    assert all(event["args"]["bytes"] == 2048 for event in copies)
    assert all(event["args"]["line"].startswith("conftest.py:") for event in copies)


def test_bandwidth_is_a_counter(trace):
    counters = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert {tuple(event["args"]) for event in counters} == {("read", "write")}
    assert max(event["args"]["read"] for event in counters) > 1
    assert counters[-1]["args"] == {"read": 0, "write": 0}
