"""Correct kernels in the style of the vendor's: none of them may have an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlusim import Output

RNG = np.random.default_rng(8)
X = RNG.integers(1, 50, (24, 64)).astype(np.float32)
Y = RNG.integers(1, 50, (24, 64)).astype(np.float32)
OUT = Output.like(X)
TOTAL = Output((64,), "float32")


@dataclass(frozen=True, kw_only=True)
class Idiom:
    """A sound kernel and how it is verified."""

    kernel: Callable[..., Any]
    arguments: tuple[Any, ...]
    reference: Any
    options: dict[str, Any] = field(default_factory=dict)


IDIOMS: dict[str, Idiom] = {}
HOST_IDIOMS: dict[str, Callable[[], Any]] = {}


def idiom(*arguments: Any, reference: Any, **options: Any) -> Callable[[Any], Any]:
    """Register a kernel; by default on one cluster."""
    options = {"dim": (4, 1, 1)} | options

    def register(kernel: Any) -> Any:
        name = kernel.__name__.replace("_", " ")
        IDIOMS[name] = Idiom(kernel=kernel, arguments=arguments, reference=reference, options=options)
        return kernel

    return register


def host_idiom(program: Any) -> Any:
    """Register a host program that gives the report."""
    HOST_IDIOMS[program.__name__.replace("_", " ")] = program
    return program
