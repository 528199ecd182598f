"""Planners: plans, tiles, splits and predicted times. Independent of cores and data.

Plans:
  plan, tiles              a split as data, and its boxes of the output; `plan_text`: as text and JSON
  request                  the arguments of an operator, for planning it again
  split, pivot             functions that planners share: buffers, grids, tasks, contiguous tiles
  box_sizes                the boxes that a tensor is cut into
  search                   candidates with predicted times, of which the fastest is chosen
  prediction, cost         the predicted time of a split, and its terms

Planners:
  elementwise              cast, bitcast_convert
  reverse, reverse_groups  reverse and flip
  reverse_sequence         the same for the first rows of each batch entry; `entry_layout`: a tensor as entries
  tin_shift                its variants; `tin_shift_tiers`: what fits in NRAM; `tin_shift_choice`: strategy "auto"
  gather                   gather, gather_nd, index_select
  scatter, scatter_chunk   scatter and scatter_nd, one chunk of updates after another
  sorted_scatter           the same, after sorting the updates into bins; `scatter_binning`: the bins that fit
  lookup, lookup_geometry  what gather and scatter share; `lookup_cost`, `index_arithmetic`: its cost
"""
