"""Which names of BANG C there are: words of a file that are neither instructions nor in the headers are unknown."""

from __future__ import annotations

from mlusim.bangc import intrinsics, toolchain
from mlusim.cores.instructions.conversion import conversion


def is_unknown(name: str) -> bool:
    """Whether a name is one of BANG C that neither the table of intrinsics nor the headers have."""
    if not looks_like(name) or name in intrinsics.names() or name in toolchain.header_names():
        return False
    return name.startswith("__bang_") or conversion(name) is None


_PREFIXES = (
    "__bang_",
    "__mem",
    "__nram",
    "__sram",
    "__gdram",
    "__ldram",
    "__wram",
    "__sync",
    "__vv_",
    "__cn_",
    "__gather",
    "__scatter",
    "__load_",
    "__store_",
    "__nv_",
    "__mlu",
    "__half2",
    "__float2",
    "__int2",
    "__int32",
    "__int16",
    "__int8",
    "__bfloat16",
    "__short2",
    "__uint",
    "__breakdump",
)


def looks_like(name: str) -> bool:
    """Whether a word with two underscores is one of BANG C rather than of the compiler or the C library."""
    return name.startswith(_PREFIXES)
