"""Syncs, barriers and locks, and the order of instructions.

On a core:
  ordering                 the order of its instructions, and when their effects are visible

Between pipes and between cores:
  syncs                    the instructions that wait for pipes or for other cores
  barrier                  barriers, and the cores that take part in them
  locks                    locks between cores
"""
