"""Analysis of a run's log: metrics, tables, pictures, traces. It reads logs and runs nothing.

matplotlib is imported only inside functions, when a picture is requested.
"""
