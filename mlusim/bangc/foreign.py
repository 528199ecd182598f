"""Names of the vendor's host libraries that the headers here do not have, in host code beside kernels.

A kernel's file often has the host function that launches it, with calls of CNNL and of more of CNRT than there is here.
The kernel needs none of that. Where the compiler does not know such a name, it is declared as something that converts
to anything, and a function as a call that ends with an error where it is reached.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LIBRARY = re.compile(r"^(?:cn(?:rt|nl|cl|dev|px|papi|[A-Z])|CN(?:RT|NL|CL|PX)?_)\w*$")
_QUOTED = "['\u2018`]([A-Za-z_]\\w*)['\u2019]"
_TYPES = (rf"error: {_QUOTED} does not name a type", rf"error: unknown type name {_QUOTED}")
_OTHERS = (
    rf"error: {_QUOTED} was not declared in this scope",
    rf"error: {_QUOTED} has not been declared",
    rf"error: use of undeclared identifier {_QUOTED}",
)


@dataclass(slots=True)
class Foreign:
    """What a file uses of the vendor's libraries that is not declared: names of types, of functions and constants."""

    types: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)

    def learn(self, message: str) -> bool:
        """Take the names that a compiler's messages call undeclared; whether there was a new one."""
        before = len(self.types) + len(self.others)
        self.types.update(_found(_TYPES, message))
        self.others.update(_found(_OTHERS, message))
        self.types.update(name for name in self.others if name.endswith("_t"))
        self.others -= self.types
        return len(self.types) + len(self.others) > before

    def declarations(self, called: set[str]) -> str:
        """C++ that declares the types, and the names that are not called, on one line."""
        constants = sorted(self.others - called)
        return "".join(
            [f"typedef ::mlusim::Foreign {name}; " for name in sorted(self.types)]
            + [
                f"static constexpr ::mlusim::ForeignConstant {name}{{{number}}}; "
                for number, name in enumerate(constants, 1)
            ]
        )


def is_of_library(name: str) -> bool:
    """Whether a name looks like one of the vendor's host libraries."""
    return _LIBRARY.match(name) is not None


def _found(patterns: tuple[str, ...], message: str) -> set[str]:
    return {name for pattern in patterns for name in re.findall(pattern, message) if is_of_library(name)}
