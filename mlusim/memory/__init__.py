"""Memories: allocations, views, copy geometry, bus rules and shared links. Independent of cores and kernels."""
