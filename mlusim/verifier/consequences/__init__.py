"""Consequences: findings that follow from another one.

  folding                  folds them into the finding of their cause
  causes                   which finding is the cause of another, by a rule for each kind of consequence
  one_fault                what tells that two findings have one cause, for both of the others
  remedies                 the remedies of a cause, which its consequences make more precise
  other_results            the order of remedies that other runs of the kernel tell: without overlap, from zeros

One fault is one finding: what else it leads to goes under it.
"""
