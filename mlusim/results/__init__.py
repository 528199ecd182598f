"""Results of runs, and runs as files."""
