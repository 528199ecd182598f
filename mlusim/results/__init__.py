"""Results of runs, and saved runs."""
