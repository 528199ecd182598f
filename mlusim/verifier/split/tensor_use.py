"""Reads and writes per byte of the host's tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlusim.log_tables import AllocationRecord
from mlusim.units import group_digits, percent, short_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorUse:
    """The use of one host tensor in a run.

    Attributes:
        name, shape, dtype, nbytes: the tensor.
        is_input: the host wrote its bytes, and no kernel does.
        bytes_read, bytes_written: by all operations together.
        least_reads, most_reads: minimum and maximum reads over all bytes.
        unread_bytes, unwritten_bytes: bytes never read, never written.
        rewritten_bytes: bytes overwritten before they were read.
        updated_bytes: bytes written more than once, each time after a read or a fill: accumulated or changed in place.
        expected_bytes: bytes that the launches were expected to write: excludes the gaps of a pitched tensor.
        known: False if a timing-only run does not know which rows were accessed; these accesses are left out.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    is_input: bool
    bytes_read: int = 0
    bytes_written: int = 0
    least_reads: int = 0
    most_reads: int = 0
    unread_bytes: int = 0
    unwritten_bytes: int = 0
    rewritten_bytes: int = 0
    expected_bytes: int = 0
    updated_bytes: int = 0
    known: bool = True

    @classmethod
    def of(cls, allocation: AllocationRecord, **counts: Any) -> TensorUse:
        """Return the use of a tensor of the log; counts that are not given are 0."""
        return cls(
            name=allocation.name, shape=allocation.shape, dtype=allocation.dtype, nbytes=allocation.nbytes, **counts
        )

    @classmethod
    def untouched(cls, allocation: AllocationRecord, *, is_input: bool) -> TensorUse:
        """Return the use of a tensor that no operation accesses."""
        nbytes = allocation.nbytes
        return cls.of(allocation, is_input=is_input, unread_bytes=nbytes, unwritten_bytes=nbytes, expected_bytes=nbytes)

    @property
    def times_read(self) -> float:
        """Bytes read over the size: 1 is the compulsory minimum of an input."""
        return self.bytes_read / self.nbytes if self.nbytes else 0.0

    @property
    def times_written(self) -> float:
        """Bytes written over the size: 1 is the compulsory minimum of an output."""
        return self.bytes_written / self.nbytes if self.nbytes else 0.0

    def text(self) -> str:
        """Format as one line of a report."""
        if not self.known:
            return "a timing-only run does not know which rows were touched"
        if self.is_input:
            if not self.bytes_read:
                return "never read"
            if self.least_reads == self.most_reads:
                return f"every byte read {'once' if self.most_reads == 1 else f'{self.most_reads} times'}"
            never_text = f"; {percent(self.unread_bytes / self.nbytes)} never" if self.unread_bytes else ""
            return (
                f"read {self.times_read:.2f} times on average, each byte {self.least_reads} to {self.most_reads} "
                f"times{never_text}"
            )
        faults = []
        if self.unwritten_bytes:
            faults.append(f"{short_bytes(self.unwritten_bytes)} never written")
        if self.rewritten_bytes:
            faults.append(f"{short_bytes(self.rewritten_bytes)} written more than once")
        text = ", ".join(faults) or f"all {group_digits(self.expected_bytes)} B written" + (
            f", {short_bytes(self.updated_bytes)} updated in place" if self.updated_bytes else " exactly once"
        )
        return text + (f"; read back {self.times_read:.2f} times" if self.bytes_read else "")
