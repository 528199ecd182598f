"""Definitions shared with `runtime/fibre.h`: structures, limits, and the codes that a fibre stops with."""

from __future__ import annotations

import ctypes
from enum import IntEnum

import numpy as np

from mlusim.memory.kinds import MemoryKind

ARGUMENTS, ARRAYS = 32, 2048
# A call record in 64-bit words; the values come last.
RESULT_WORD, OPERATION_WORD, LINE_WORD, COUNT_WORD, FILE_WORD, CODES_WORD, VALUES_WORD = range(7)
KINDS = (MemoryKind.NRAM, MemoryKind.WRAM, MemoryKind.SRAM, MemoryKind.LDRAM)
SRAM = 2
# Added to a memory's number: the array may be another file's, and is until a file defines it.
EXTERN = 8
# The number of variables in GDRAM, which all images of a binary share.
VARIABLES = len(KINDS)
# Results of resuming: the number of an intrinsic; beyond FIRST_KNOWN that of a known call; or one of these.
FIRST_KNOWN = 1 << 32
FINISHED, SETTLE, DRAIN, SIGNAL, WILD, PLACED, PRINT, LEFT, SKIPPED, UNSYNCED = range(-1, -11, -1)


class Leave(IntEnum):
    """Why compiled code calls `mlusim_leave`, its first argument; as numbers in `runtime/` and `include/mlusim/`."""

    ABORT = 0
    ASSERTION = 1
    EXIT = 2
    EXCEPTION = 3
    STACK = 4
    UNDEFINED = 5
    HEAP = 6
    TOO_MANY = 7
    CALLED = 8
    INVOKED = 9
    OTHER_MEMORY = 10
    OUTSIDE = 11
    UNREACHABLE = 12


# Flags of a range: host memory that a copy may still use, and whether it writes there.
IN_FLIGHT, WRITTEN = 4, 8
ARENA_BYTES = 1 << 28
# Unused addresses between the arrays of an arena; they take no capacity.
GAP_BYTES = 1 << 16
# Addresses below are a null pointer, or near one.
NULL_BYTES = 1 << 16
# Protected pages at the ends of a stack.
GUARD_BYTES = 1 << 16
WORD = ctypes.c_uint64


class Call(ctypes.Structure):
    """A call made by a fibre."""

    _fields_ = (
        ("result", WORD),
        ("op", ctypes.c_int64),
        ("line", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("file", WORD),
        ("codes", WORD),
        ("value", WORD * ARGUMENTS),
    )


class Range(ctypes.Structure):
    """A range of GDRAM; bit 0 of `flags`: read-only, bit 1: without bytes. Or one of the host: `IN_FLIGHT`."""

    _fields_ = (("base", WORD), ("size", WORD), ("flags", WORD))


class PlacedArray(ctypes.Structure):
    """An array with a memory space."""

    _fields_ = (
        ("kind", WORD),
        ("name", ctypes.c_char_p),
        ("offset", WORD),
        ("size", WORD),
        ("file", ctypes.c_char_p),
        ("line", WORD),
        ("initial", ctypes.c_void_p),
        ("owner", ctypes.c_char_p),
    )


class Arena(ctypes.Structure):
    """The addresses of one memory."""

    _fields_ = (
        ("base", WORD),
        ("used", WORD),
        ("alignment", WORD),
        ("count", WORD),
        ("arrays", PlacedArray * ARRAYS),
    )


class Fibre(ctypes.Structure):
    """The part of a fibre shared with C++."""

    _fields_ = (
        ("call", Call),
        ("arenas", ctypes.POINTER(Arena) * len(KINDS)),
        ("ranges", ctypes.POINTER(Range)),
        ("range_count", WORD),
        ("in_flight", WORD),
        ("image", WORD),
        ("image_size", WORD),
        ("device", WORD),
        ("absent", WORD),
        ("astray", WORD),
        ("pending", WORD),
        ("limit_ticks", WORD),
        ("runs", WORD),
        ("run_count", WORD),
        ("run_capacity", WORD),
        ("stack", WORD),
        ("stack_size", WORD),
        ("drops", WORD),
        ("skipped", WORD),
    )


FIBRE_WORDS = ctypes.sizeof(Fibre) // 8
RUN_COUNT_WORD = Fibre.run_count.offset // 8


class Fault(ctypes.Structure):
    """Data of a signal; an endless loop is number SIGVTALRM, a foreign thread 0."""

    _fields_ = (
        ("number", WORD),
        ("address", WORD),
        ("pc", WORD),
        ("accessed", WORD),
        ("sp", WORD),
        ("count", WORD),
        ("words", WORD * 4096),
    )


class EntryRecord(ctypes.Structure):
    """A registered entry."""


EntryRecord._fields_ = (
    ("name", ctypes.c_char_p),
    ("parameters", ctypes.c_char_p),
    ("file", ctypes.c_char_p),
    ("line", ctypes.c_int64),
    ("function", ctypes.c_void_p),
    ("body", ctypes.c_void_p),
    ("count", WORD),
    ("codes", ctypes.POINTER(WORD)),
    ("sizes", ctypes.POINTER(WORD)),
    ("next", ctypes.POINTER(EntryRecord)),
)

RUN = np.dtype([("pc", "<u8"), ("address", "<u8"), ("stride", "<i8"), ("count", "<u8"), ("meta", "<u8")])
UNIT_VARIABLES = (
    "task_id",
    "task_id_x",
    "task_id_y",
    "task_id_z",
    "task_dim",
    "task_dim_x",
    "task_dim_y",
    "task_dim_z",
    "core_id",
    "core_dim",
    "cluster_id",
    "cluster_dim",
    "is_memory_core",
)
