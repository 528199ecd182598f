"""Memories: bytes, allocations, views, copy geometry, bus rules, shared links. Independent of cores and kernels."""
