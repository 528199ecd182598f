"""Remedies: the sync that waits for an operation on a pipe."""

from __future__ import annotations

from mlusim.log import IO, MOVE, TENSOR, VECTOR
from mlusim.verifier.findings import Remedy, Site, Way
from mlusim.verifier.order.lanes import MEMORY_CORE_IO, POSTED
from mlusim.verifier.source_file import SourceLine

# By lane, the sync of a core that waits for it, and a description.
LANE_SYNCS = {
    VECTOR: ("sync_compute", "the vector pipe"),
    TENSOR: ("sync_compute", "the tensor pipe"),
    IO: ("sync_io", "the IO pipe"),
    MOVE: ("sync_move", "the Move pipe"),
    POSTED: ("sync", "the posted store"),
    MEMORY_CORE_IO: ("sync_io", "the memory core's IO pipe"),
}

FULL_SYNC = "sync"
# By sync, a description of the pipes it waits for.
SYNC_PIPES = {
    FULL_SYNC: "all pipes",
    "sync_io": "the IO pipe",
    "sync_move": "the Move pipe",
    "sync_compute": "the vector and tensor pipes",
}


def sync_after(site: Site, lane: int, at: SourceLine | None = None) -> str:
    """Return the sync that waits for an operation on a lane, as text; `at`: a line of the function where it belongs."""
    sync, pipe = LANE_SYNCS[lane]
    return f"{site.call(f'{sync}()', at)}, which waits for {pipe}"


def blocking_copy(copy: Site, location: str = "") -> Remedy:
    """Return the remedy that makes a copy block; `location`: that of its call, if it is in a helper function."""
    return Remedy(f"wait for the copy at {location or copy.location}: {copy.call('memcpy(...)')}", Way.BLOCK)


def on_the_vector_pipe(location: str) -> str:
    """Return the remedy that takes a copy within NRAM from the Move pipe."""
    return (
        "copy on the vector pipe, in order with its instructions: `core.memcpy_async(...)` in place of "
        f"`core.move(...)` at {location}"
    )
