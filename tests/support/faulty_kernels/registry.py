"""Kernels with one fault each, and the kinds of findings that may report it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlusim import Output

RNG = np.random.default_rng(7)
X = RNG.integers(1, 50, (16, 64)).astype(np.float32)
Y = RNG.integers(1, 50, (16, 64)).astype(np.float32)
OUT = Output.like(X)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A faulty kernel: how it is verified, and which kinds name its fault."""

    kernel: Callable[..., Any]
    kinds: frozenset[str]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HostFault:
    """A faulty host program: gives the report."""

    program: Callable[[], Any]
    kinds: frozenset[str]


FAULTS: dict[str, Fault] = {}
HOST_FAULTS: dict[str, HostFault] = {}


def fault(*kinds: str, arguments: tuple[Any, ...] = (X, OUT), **options: Any) -> Callable[[Any], Any]:
    """Register a kernel; by default of one input and one output on one cluster."""
    options = {"dim": (4, 1, 1)} | options

    def register(kernel: Any) -> Any:
        name = kernel.__name__.replace("_", " ")
        FAULTS[name] = Fault(kernel=kernel, kinds=frozenset(kinds), arguments=arguments, options=options)
        return kernel

    return register


def host_fault(*kinds: str) -> Callable[[Any], Any]:
    """Register a host program."""

    def register(program: Any) -> Any:
        HOST_FAULTS[program.__name__.replace("_", " ")] = HostFault(program=program, kinds=frozenset(kinds))
        return program

    return register
