"""Cores: what a kernel sees of the machine, and how its tasks are run."""
