"""Copies: `__memcpy` in all its forms.

Forms:
  memcpy                   issues a copy of views; `byte_copies`: by pointers and strides
  shared_copy              copies by the engine of the memory core

Each copy:
  geometry                 its limits and cost
  effect                   its movement of bytes
"""
