"""Recognition of the files that mlusim wrote: these may be replaced without `--force`."""

from __future__ import annotations

import os
from pathlib import Path

_HEAD_BYTES = 4096
_PARQUET_END = 8  # the length of the footer, 4 bytes, and the magic number


def is_ours(path: str | os.PathLike[str]) -> bool:
    """Return whether mlusim wrote a file, by its first and last bytes; False for .npy, which has no room for a mark."""
    try:
        with Path(path).open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - _PARQUET_END, 0))
            end = stream.read()
            stream.seek(max(size - _PARQUET_END - int.from_bytes(end[:4], "little"), 0))
            footer = stream.read() if head.startswith(b"PAR1") else b""
    except OSError:
        return False
    first, _, _ = head.partition(b"\n")
    return any(
        (
            head.startswith(b"PK\x03\x04") and head[30:38] == b"run.json",  # a saved run
            head.startswith(b"SQLite format 3\0") and head[68:72] == b"mlus",  # points of a sweep
            head.startswith(b"\x89PNG") and b"Software\0mlusim" in head,
            head.startswith(b"<?xml") and b"<svg" in head and b"<dc:title>mlusim</dc:title>" in head,
            head.startswith(b"<!DOCTYPE html>") and b'<meta name="generator" content="mlusim' in head,
            head.startswith(b"{") and b"simulated by mlusim" in head,
            head.startswith(b'[\n {\n  "operator": ') and b'\n  "device": ' in head,  # a table of a sweep
            first.startswith(b"operator,device,") and b"status,message" in first,
            first.startswith(b"op,task,pipe,line,issue_ps,")
            and first.rstrip().endswith(b"dst_memory,a_memory"),  # operations
            head.startswith(b"PAR1") and b"mlusim" in footer,
            head.startswith(b"# A board of mlusim"),
            head.lstrip(b"/*\n ").startswith(b"plotly.js v"),  # the library that the pages of a folder share
        )
    )
