"""The split proof: every byte of the output is written once, by the right task.

Checks:
  coverage                 writes per byte of an output, and reads per byte of an input
  never_written            bytes that nothing writes, and why
  overwrites               bytes that are overwritten before anything reads them
  stale                    bytes of an earlier launch that the host copies back again
  plan_comparison          whether a run follows its plan

Figures:
  balance, tensor_use      how even the split is, and what it reads and writes of each tensor
  proof_map                the split as an image
"""
