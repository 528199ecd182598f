"""How an operator is split: plans, tiles, planners and predicted times. Needs no core."""
