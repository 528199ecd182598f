"""Analysis of a run's log: metrics, tables, pictures, traces. It reads logs and runs nothing.

Only functions in here import matplotlib, and only when a picture is requested.
"""
