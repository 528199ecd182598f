"""Host programs: `main` with CNRT on a simulated board."""
