"""Updates in place by several tasks: a sum that all of them add to, or a split that does some of the work twice."""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Integers
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.findings import Site
from mlusim.verifier.run import Run


def times_stored(run: Run, alloc: int) -> Integers:
    """Return, by cell of a tensor that is stored at all, how often it is stored."""
    count = Cells(_stores(run, alloc), run.log.allocations[alloc].nbytes).count()
    return np.asarray(count[count > 0])


def is_split_twice(run: Run, alloc: int, tasks: list[int]) -> bool:
    """Return whether two tasks share rows of a split: a lock or a barrier would let both update them in turn.

    They store bytes once each. One task alone stores most of the bytes, or each stores several parts, none of which all
    tasks share, as they would share a sum.
    """
    stores = _stores(run, alloc)
    cells = Cells(stores, run.log.allocations[alloc].nbytes)
    task = run.order.task_of[stores.record]
    if any(cells.count(task == number).max() > 1 for number in tasks):
        return False
    count = cells.count()
    several = all(np.count_nonzero(task == number) > 1 for number in tasks)
    if several and count.max() < len(np.unique(task)):
        return True
    return 2 * cells.total(cells.mixed(task, count > 0)) < cells.total(count > 0)


def _stores(run: Run, alloc: int) -> Accesses:
    accesses = run.accesses
    return accesses.where(np.flatnonzero(accesses.write & (accesses.alloc == alloc)))


def lock_or_atomic(first: Site, second: Site) -> tuple[str, str]:
    """Return the remedies for a load and a store that other tasks must not interrupt: a lock, or an atomic."""
    lock, unlock = (first.call(f"{name}(0)") for name in ("lock", "unlock"))
    where = f"from {first.location} to {second.location}" if first.line < second.line else "from the load to the store"
    atomic = "`__bang_atomic_reduce_add`" if first.is_compiled else "`core.atomic_reduce_add`"
    return (
        f"hold the same lock in every task {where}: {lock}, {unlock}",
        f"if it is a sum, a maximum or the like, update it with an atomic, such as {atomic}",
    )
