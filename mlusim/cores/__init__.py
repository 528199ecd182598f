"""Cores: the machine as a kernel sees it, and the execution of its tasks."""
