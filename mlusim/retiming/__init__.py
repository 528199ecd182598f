"""Retiming: the time of a saved run on another board."""
