"""Further runs of a kernel whose outputs are wrong, which tell what fixes it.

`mlusim.verifier.consequences.other_results` explains what each of them tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.core import Kernel
from mlusim.errors import MlusimError, OperationLimitError, SimulatedTimeError
from mlusim.host.device import DEFAULT_STALL_S, Device
from mlusim.host.run import Uploaded
from mlusim.host.silence import silent
from mlusim.log import Log
from mlusim.memory.view import View
from mlusim.verifier.changes import search
from mlusim.verifier.changes.operand_changes import Change
from mlusim.verifier.changes.source_changes import SourceChange
from mlusim.verifier.consequences.other_results import OtherRun
from mlusim.verifier.order.happens_before import BY_OFFSETS
from mlusim.verifier.polling import records_before_polls
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine
from mlusim.verifier.split.coverage import written_elements
from mlusim.verifier.wrong_values import are_rounded, wrong_elements

# So long that each operation of a core is done before its next one is issued.
_SLOW_ISSUE_CYCLES = 1 << 24
# A kernel with a change may issue this many times as many operations, and at least so many if an error ended its run.
_LONGER, _FEWEST = 8, 400
# A change may make a loop endless: how long it may issue nothing, and after how many such runs no other is tried.
_STALL_S, _MOST_STALLS = 0.5, 2


class Start(Protocol):
    """Queues the kernel on a fresh device; `board_changes` are other values of the board."""

    def __call__(  # noqa: D102 - the class says it
        self,
        *,
        fresh_byte: int = ...,
        changed: Kernel = ...,
        limits: Mapping[str, Any] = ...,
        **board_changes: int,
    ) -> tuple[Device, Uploaded]: ...


@dataclass(kw_only=True)
class OtherRuns:
    """Further runs of a kernel, whose output is dropped.

    Attributes:
        kernel: the kernel.
        start: queues it on a fresh device.
        log: the log of its first run.
        outputs, expected: the outputs of that run, and the expected ones.
        tolerances: the largest differences, relative and absolute.
        partial: names of outputs of which a part may stay unwritten; True for all.
        stall_s: how long the kernel may issue nothing.
        is_sound: whether the checker finds no error in the run of a device.
        polls: whether that run ended in polls of memory that nothing sets.
    """

    kernel: Kernel
    start: Start
    log: Log
    outputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    tolerances: tuple[float, float]
    partial: bool | tuple[str, ...] = ()
    stall_s: float = DEFAULT_STALL_S
    is_sound: Callable[[Device], bool]
    polls: bool = False
    _stalls: int = field(default=0, init=False)
    # The cost of the runs with a change.
    _spent: int = field(default=0, init=False)

    def in_order(self) -> OtherRun:
        """Run it with each operation of a core done before its next one is issued."""
        with silent():
            return self._other(*self.start(issue_cycles=_SLOW_ISSUE_CYCLES))

    def from_zeros(self) -> OtherRun:
        """Run it in fresh memory of zeros. Its result is right if most of what differs from the first run is."""
        with silent():
            return self._other(*self.start(fresh_byte=0), earlier_outputs=self.outputs)

    def fixing(self, records: Sequence[int], lines: Collection[SourceLine]) -> list[str]:
        """Return the remedies of changes of one line that fix it, as `changes.search.fixing_remedies`."""
        if not self._may_run_again:
            return []
        return search.fixing_remedies(self.kernel, self.log, records, lines, self._is_fixed)

    def fixing_barriers(self, *, is_hang: bool) -> list[str]:
        """Return the remedies of barriers that fix it, as `changes.search.fixing_barriers`."""
        return search.fixing_barriers(self.kernel, self.log, self._is_fixed, is_hang=is_hang)

    @cached_property
    def _operations(self) -> int:
        return records_before_polls(self.log) if self.polls else len(self.log)

    @cached_property
    def _cost(self) -> int:
        return search.cost(self.log, self._operations)

    @property
    def _may_run_again(self) -> bool:
        """Whether the limits allow a run that costs as much as the first one."""
        return self._stalls < _MOST_STALLS and self._spent + self._cost <= search.MOST_COST

    def _is_fixed(self, change: Change | SourceChange) -> bool:
        if not self._may_run_again:
            return False
        longer, fewest = (_LONGER // 4, _FEWEST // 4) if self.polls else (_LONGER, _FEWEST)
        max_operations = max(longer * (self._operations + 1), fewest)
        limits = {"max_operations": max_operations, "stall_s": min(self.stall_s, _STALL_S)}
        try:
            with silent(), change.applied(self.kernel) as changed:
                device, run = self.start(changed=changed, limits=limits)
                error = error_of(device)
        except (MlusimError, SyntaxError, ValueError):
            # Python does not compile every change.
            return False
        self._spent += search.cost(device.log, len(device.log))
        if error is not None:
            self._stalls += isinstance(error, OperationLimitError) and len(device.log) < max_operations
            return False
        outputs = {name: device.download(view) for name, view in run.outputs.items()}
        expected = where_written(device.log, run.outputs, self.expected, outputs, partial=self.partial)
        is_wrong = any(len(self._wrong_elements(name, outputs[name], expected[name])) for name in expected)
        return not is_wrong and self.is_sound(device)

    def _wrong_elements(self, name: str, result: Array, expected: Array) -> Array:
        """Return the flat positions of an output's wrong elements; none if only rounding is left of a larger fault."""
        positions = wrong_elements(result, expected, *self.tolerances)
        is_rounded = are_rounded(result, expected, positions) and not self._was_rounded(name)
        return positions[:0] if is_rounded else positions

    def _was_rounded(self, name: str) -> bool:
        """Return whether the first run's output was wrong by rounding alone: then rounding is the fault to fix."""
        if name not in self.outputs:
            return False
        result, expected = self.outputs[name], self.expected[name]
        positions = wrong_elements(result, expected, *self.tolerances)
        return bool(len(positions)) and are_rounded(result, expected, positions)

    def _other(
        self, device: Device, run: Uploaded, earlier_outputs: Mapping[str, Array] = MappingProxyType({})
    ) -> OtherRun:
        """Run a kernel again. Its result is right if all of it is, or most of what differs from `earlier_outputs`.

        An error may end it. And offsets are read at issue, when what earlier copies bring may not be in memory yet.
        """
        if error_of(device) is not None or {*BY_OFFSETS} & {*device.log.ops}:
            return OtherRun(device.log, None)
        outputs = {name: device.download(view) for name, view in run.outputs.items()}
        expected = where_written(device.log, run.outputs, self.expected, outputs, partial=True)
        wrong_positions = {name: self._wrong_elements(name, outputs[name], expected[name]) for name in expected}
        elements, number = sum(map(len, wrong_positions.values())), 0
        if earlier_outputs:
            elements = 0
            for name, positions in wrong_positions.items():
                differ = [run_outputs[name].reshape(-1, 1).view(np.uint8) for run_outputs in (outputs, earlier_outputs)]
                is_changed = (differ[0] != differ[1]).any(axis=1)
                number += int(np.count_nonzero(is_changed))
                elements += int(np.count_nonzero(is_changed[positions]))
        # A single element may be right by chance.
        is_conclusive = not earlier_outputs or number > 1
        names = frozenset(name for name, positions in wrong_positions.items() if len(positions))
        return OtherRun(device.log, elements <= number // 2 if is_conclusive else None, names)


def error_of(device: Device) -> MlusimError | None:
    """Run the queued launches; return the error that ended the run, if any. Raises `SimulatedTimeError`."""
    try:
        device.synchronize()
    except SimulatedTimeError:
        # The checker cannot read its log.
        raise
    except MlusimError as error:
        return error
    return None


def where_written(
    log: Log,
    views: Mapping[str, View],
    expected: Mapping[str, Array],
    outputs: Mapping[str, Array],
    *,
    partial: bool | tuple[str, ...],
) -> Mapping[str, Array]:
    """Return the expected outputs; those of `partial` with their own bytes where no operation has written."""
    merged = dict(expected)
    for name in expected if partial is True else set(partial or ()) & set(expected):
        reference, result = expected[name], outputs[name]
        # The comparison raises an error for another shape or element type.
        if (reference.shape, reference.dtype) == (result.shape, result.dtype):
            merged[name] = np.where(written_elements(Run(log), views[name]), reference, result)
    return merged
