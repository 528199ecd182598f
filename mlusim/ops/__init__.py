"""The operators as a user calls them: arrays in, a result with output, plan, log and figures out."""

from __future__ import annotations

from mlusim.ops.tin_shift import plan_tin_shift, tin_shift_backward, tin_shift_forward

__all__ = ["plan_tin_shift", "tin_shift_backward", "tin_shift_forward"]
