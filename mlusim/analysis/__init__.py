"""What a run's log says: metrics, tables, pictures, traces. Reads logs and runs nothing.

Only functions in here import matplotlib, and only when a picture is asked for.
"""
