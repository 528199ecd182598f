"""Detection of unknown names of BANG C: neither instructions nor in the headers."""

from __future__ import annotations

import re

from mlusim.bangc.calls import intrinsics
from mlusim.bangc.compiler.headers import header_names, library_names
from mlusim.bangc.compiler.undeclared_names import is_of_library
from mlusim.cores.instructions.conversion import conversion
from mlusim.spelling import nearest


def is_unknown(name: str) -> bool:
    """Return whether a name belongs to BANG C, but is in neither the table of intrinsics nor the headers."""
    if not looks_like(name) or name in intrinsics.names() or name in header_names():
        return False
    return name.startswith("__bang_") or conversion(name) is None


# Why an instruction is not supported, by a part of its name.
_REASONS = (
    (r"^(cnnl|CNNL)", "the vendor's library of operators, CNNL, is not simulated; launch kernels of your own"),
    (r"^(cn|CN)", "mlusim does not have this function of the vendor's host libraries"),
    (r"_perf_", "a performance counter of the hardware; reports have the simulator's counts"),
    (
        r"^__trc_|^__tensor_",
        "an instruction on tensor descriptors, which no public document describes",
    ),
    (r"^__mlvm_", "a builtin of the vendor's compiler; call the intrinsic that stands for it"),
    (r"^__breakdump_", "a dump for the vendor's debugger; print with __bang_printf"),
    (r"remote", "it writes to another chip, and one board is simulated"),
    (r"tf32|_sr$", "no public document defines how the board rounds or stores these numbers"),
    (
        r"^__grid_|discrete_atomic|bexpand|breduce|sparse|qpreset|active_f|tiling",
        "no public document defines what it computes",
    ),
)


# An unknown name that is this similar to a name of a host library is a slip. More than the default of `nearest`: names
# of one library are similar, such as `cnrtMemcpyAsync` and `cnrtMemsetAsync`.
_LIKE = 0.85


def why_missing(name: str) -> str:
    """Return why an intrinsic of the public headers is not simulated; empty for other names."""
    if name in intrinsics.names():
        return ""
    return next((reason for part, reason in _REASONS if re.search(part, name)), "")


def not_simulated(name: str) -> str:
    """Say that an intrinsic is not simulated, and why, or what to call instead."""
    text = remedy_of(name)
    return f"{name} is not simulated: {text}" if text else f"{name} is not simulated: no public header declares it"


def remedy_of(name: str) -> str:
    """Return what to call instead of an unknown name, or why it is not simulated; empty if neither is known."""
    reason = why_missing(name)
    if is_of_library(name) and not name.lower().startswith("cnnl"):
        names = sorted(intrinsics.names() | library_names())
        candidates = [other for other in names if is_of_library(other) and not other.endswith("_t")]
        reordered = [other for other in candidates if _have_same_words(other, name)]
        return nearest(name, reordered or candidates, cutoff=0 if reordered else _LIKE).rstrip() or reason
    if reason:
        return reason
    vectors = name.removesuffix("_scalar")
    if vectors != name and vectors in intrinsics.names():
        return f"{vectors} takes two vectors: fill one with the number by __bang_write_value"
    # All names share a prefix, which would make them similar.
    prefix = "__bang_" if name.startswith("__bang_") else "__"
    stems = (other.removeprefix(prefix) for other in _known_names() if other.startswith(prefix))
    suggestion = nearest(name.removeprefix(prefix), stems).rstrip()
    return suggestion.replace("did you mean ", f"did you mean {prefix}")


def _have_same_words(one: str, other: str) -> bool:
    """Return whether two names have the same words in any order, perhaps abbreviated: `Device` and `Dev`."""
    first, second = _words(one), _words(other)
    pairs = zip(first, second, strict=False)
    return len(first) == len(second) and all(a.startswith(b) or b.startswith(a) for a, b in pairs)


def _words(name: str) -> list[str]:
    """Return the words of a name such as `cnrtWaitNotifier`, in alphabetical order."""
    return sorted(re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name))


def _known_names() -> set[str]:
    """Return names that a kernel may call, conversions of scalars included."""
    names = {other for other in header_names() if looks_like(other) and not other.endswith("__")}
    for other in intrinsics.names():
        scalar = other.replace("__bang_", "__", 1)
        names.update((other, scalar) if conversion(scalar) is not None else (other,))
    return names


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
    "__mlvm_",
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
    "__trc_",
    "__grid_",
)
# The compiler's atomic functions.
_BUILTIN = re.compile(r"__sync_(fetch_and_|[a-z]+_and_fetch|(bool|val)_compare|lock_|synchronize)")


def looks_like(name: str) -> bool:
    """Return whether a word with two underscores belongs to BANG C rather than to the compiler or the C library."""
    return name.startswith(_PREFIXES) and not _BUILTIN.match(name)
