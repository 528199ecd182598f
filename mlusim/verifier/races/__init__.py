"""Races: accesses to the same bytes that nothing orders.

  race_search              all races of a run, one finding per pair of source lines
  conflicts                the pairs of accesses; `ordered_otherwise`: those that no barrier has to order
  pair, race_findings      one pair, and the finding on it
  releases                 buffers released while a transfer may use them

Remedies:
  missing_syncs            races that one sync would fix, and where it could stand; `lane_syncs`: that sync
  missing_barriers         races between tasks that one barrier would fix
  iterations               the iterations of loops in which tasks are; the order of accesses that is meant
  task_remedies            what orders two tasks: a barrier and its place, a lock; `atomic_remedies`: an atomic
  barrier_places           a barrier that is too late or too narrow, or belongs on the paths of two kinds of cores
  wrong_parts              accesses to a wrong part of a buffer, which no barrier fixes
  updates                  in-place updates by several tasks: a sum, or a split that does work twice
"""
