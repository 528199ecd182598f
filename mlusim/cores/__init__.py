"""Cores: the machine from a kernel's point of view, and the execution of its tasks."""
