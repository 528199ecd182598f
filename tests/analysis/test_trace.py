"""The Chrome trace: valid, named, without overlaps, exact."""

import io
import json
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise

import pytest

import mlusim
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.trace import stream_trace


def trace_of(device):
    stream = io.StringIO()
    stream_trace(LogColumns(device.log, device.board), stream)
    return json.loads(stream.getvalue(), parse_float=Decimal)


@pytest.fixture(scope="module")
def trace(staged_device):
    return trace_of(staged_device)


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
    assert processes[1] == "board mlu370-x4"
    assert processes[2] == "cluster 0"
    assert {"core 0 task", "core 0 io", "core 3 vector", "memory core io", "core 1 sync"} <= set(names[2].values())
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
    launches = [event for event in slices if event["pid"] == 1]
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


def test_every_event_conforms_to_the_trace_format(trace):
    """The keys of each kind of event, and the numbers that Perfetto keeps for Linux's idle process left free."""
    keys = {
        "X": {"ph", "name", "pid", "tid", "ts", "dur", "args"},
        "C": {"ph", "name", "pid", "ts", "args"},
        "M": {"ph", "name", "pid", "args"},
    }
    assert set(trace) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert {event["ph"] for event in trace["traceEvents"]} == set(keys)
    for event in trace["traceEvents"]:
        assert set(event) - {"tid"} == keys[event["ph"]] - {"tid"}
        assert isinstance(event["pid"], int)
        assert event["pid"] > 0
        if "tid" in event:
            assert event["tid"] > 0
            assert event["tid"] != event["pid"]
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
        if event["ph"] == "M":
            assert event["name"] in {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}
            assert ("tid" in event) == event["name"].startswith("thread")
            kind = str if event["name"].endswith("name") else int
            assert [type(value) for value in event["args"].values()] == [kind]


def test_tracks_are_ordered_like_the_machine(trace):
    def named(what):
        return [event for event in trace["traceEvents"] if event["ph"] == "M" and event["name"] == what]

    order = {event["pid"]: event["args"]["sort_index"] for event in named("process_sort_index")}
    names = sorted(named("process_name"), key=lambda event: order[event["pid"]])
    assert [event["args"]["name"] for event in names][:3] == ["board mlu370-x4", "cluster 0", "cluster 1"]
    place = {event["tid"]: event["args"]["sort_index"] for event in named("thread_sort_index")}
    threads = [event for event in named("thread_name") if event["pid"] == 2]
    in_order = [event["args"]["name"] for event in sorted(threads, key=lambda event: place[event["tid"]])]
    assert in_order[:4] == ["core 0 task", "core 0 io", "core 0 move", "core 0 vector"]
    assert in_order[-1].startswith("memory core")


def test_thread_ids_are_unique_across_wide_clusters_and_queues():
    async def kernel(core):
        core.scalar(1)

    device = mlusim.Device(mlusim.board("mlu370-x4").replace(clusters=2, cores_per_cluster=200))
    device.launch(kernel)
    device.synchronize()
    events = trace_of(device)["traceEvents"]
    processes = {event["pid"] for event in events}
    threads = [event["tid"] for event in events if event["name"] == "thread_name"]
    # By core, the thread of its tasks and that of its scalar pipe; one of the queue.
    assert len(processes) == 3
    assert len({*threads} - processes) == len(threads) == 2 * 400 + 1
