"""Retiming: a saved log as the program of another board."""
