"""Consequences: findings that follow from another one.

  folding                  folds them into the finding of their cause
  rules                    whether a finding is the cause of another, and its remedies then: a rule for each kind
  race_rules               the rules for races, releases, lookups and syncs
  output_rules             the rules for what a kernel reads and writes
  one_fault                what tells that two findings have one cause, for the rules
  other_results            the order of remedies that other runs of the kernel tell: without overlap, from zeros

One fault is one finding: what else it leads to goes under it.
"""
