"""Planners: plans, tiles, splits and predicted times. Independent of cores and data."""
