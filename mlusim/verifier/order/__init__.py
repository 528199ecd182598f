"""The order of operations.

Within a task, and by syncs, barriers and locks:
  lanes                    operations that are in order among themselves
  happens_before           the order that the hardware guarantees

By data:
  handshakes               the order between tasks that atomics establish
"""
