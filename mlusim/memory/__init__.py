"""Memories: bytes, allocations, views, copy geometry, bus rules, shared links. Knows nothing of cores or kernels."""
