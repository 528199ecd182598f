"""The methods of `Core` that issue vector and tensor instructions, each created from an entry of the table.

    core.add(dst, src0, src1)       core.sumpool(dst, src, kernel_height, kernel_width)

Operands and attributes are passed in the order of the entry, or by name. Where BANG C returns a number (`sum`, `count`,
`findfirst1`, ...), omit the result and await: `n = await core.count(mask)`. Conversions also have their own names:
`core.float2half_rn(dst, src)`.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from typing import TYPE_CHECKING, Any

from mlusim.cores.atomics import atomic
from mlusim.cores.compute.vector import call
from mlusim.cores.conversion_methods import ConversionMethods
from mlusim.cores.instructions.limits import check_number, takes_number
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.cores.memory_sets import set_memory
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.instructions.limits import Value


_SMALL = range(-128, 128)


def _rename(issue: Callable[..., Any], name: str) -> None:
    issue.__name__, issue.__qualname__ = name, f"InstructionMethods.{name}"


def method(name: str) -> Callable[..., Any]:
    """Return a method that issues the instruction `name`, with its summary as docstring."""
    entry = INSTRUCTIONS[name]

    def issue_views(self: InstructionMethods, *operands: Any, **attributes: Any) -> Any:
        issuer = self.issuer
        return call(issuer, issuer.line(_getframe(1)), entry, operands, attributes)

    def issue_with_number(self: InstructionMethods, *operands: Any, **attributes: Any) -> Any:
        issuer = self.issuer
        line = issuer.line(_getframe(1))
        last = operands[-1] if operands and not attributes else None
        if type(last) is not View and not (type(last) is int and last in _SMALL):
            check_number(entry, operands, attributes)
        return call(issuer, line, entry, operands, attributes)

    issue = issue_with_number if takes_number(entry) else issue_views
    _rename(issue, name)
    spellings = f": `{'`, `'.join(entry.intrinsics)}`" if entry.intrinsics else ""
    note = "" if entry.exact else " Computed in IEEE arithmetic; the board approximates."
    answer = " Await it without `dst` for the number." if entry.to_register else ""
    answer = " Await it for the number of elements." if entry.counts else answer
    issue.__doc__ = f"`{entry.signature}`: {entry.summary}{spellings}.{note}{answer}"
    return issue


def atomic_method(operation: str, *, fetches: bool) -> Callable[..., Any]:
    """Return a method for an atomic on GDRAM, to be awaited."""

    def fetch(self: InstructionMethods, old: View, target: View, operand: Value) -> Any:
        line = self.issuer.line(_getframe(1))
        return atomic(self.issuer, line, operation, target, operand, old=old)

    def reduce(self: InstructionMethods, target: View, operand: Value) -> Any:
        return atomic(self.issuer, self.issuer.line(_getframe(1)), operation, target, operand)

    issue = fetch if fetches else reduce
    _rename(issue, f"atomic_{operation}" if fetches else f"atomic_reduce_{operation}")
    old_value = "; `old`, in NRAM, gets what it held" if fetches else ""
    issue.__doc__ = (
        f"target = {operation} of target and operand, element by element, in one step on GDRAM{old_value}. Await it."
    )
    return issue


def set_method(name: str) -> Callable[..., Any]:
    """Return a method that sets a memory, to be awaited."""

    def issue(self: InstructionMethods, dst: View, value: Any) -> Any:
        return set_memory(self.issuer, self.issuer.line(_getframe(1)), name, dst, value)

    _rename(issue, name)
    issue.__doc__ = f"Every element of dst = value: `__{name}`. Await it."
    return issue


class InstructionMethods(ConversionMethods):
    """The base class of `Core`: the instructions of the table, under BANG C's names."""

    def atomic_cas(self, old: View, target: View, compare: Value, operand: Value) -> Any:
        """Target = operand where it equals `compare`; `old`, in NRAM, receives the old value. Await it."""
        line = self.issuer.line(_getframe(1))
        return atomic(self.issuer, line, "cas", target, operand, old=old, compare=compare)

    def atomic_reduce_cas(self, target: View, compare: Value, operand: Value) -> Any:
        """Target = operand where it equals `compare`. Await it."""
        line = self.issuer.line(_getframe(1))
        return atomic(self.issuer, line, "cas", target, operand, compare=compare)

    # Sets of other memories, and atomics on GDRAM
    gdramset = set_method("gdramset")
    sramset = set_method("sramset")
    ldramset = set_method("ldramset")
    atomic_add = atomic_method("add", fetches=True)
    atomic_reduce_add = atomic_method("add", fetches=False)
    atomic_max = atomic_method("max", fetches=True)
    atomic_reduce_max = atomic_method("max", fetches=False)
    atomic_min = atomic_method("min", fetches=True)
    atomic_reduce_min = atomic_method("min", fetches=False)
    atomic_and = atomic_method("and", fetches=True)
    atomic_reduce_and = atomic_method("and", fetches=False)
    atomic_or = atomic_method("or", fetches=True)
    atomic_reduce_or = atomic_method("or", fetches=False)
    atomic_xor = atomic_method("xor", fetches=True)
    atomic_reduce_xor = atomic_method("xor", fetches=False)
    atomic_exch = atomic_method("exch", fetches=True)
    atomic_reduce_exch = atomic_method("exch", fetches=False)
    atomic_inc = atomic_method("inc", fetches=True)
    atomic_reduce_inc = atomic_method("inc", fetches=False)
    atomic_dec = atomic_method("dec", fetches=True)
    atomic_reduce_dec = atomic_method("dec", fetches=False)
    # Arithmetic
    add = method("add")
    add_tz = method("add_tz")
    cycle_add_tz = method("cycle_add_tz")
    cycle_add = method("cycle_add")
    sub = method("sub")
    cycle_sub = method("cycle_sub")
    mul = method("mul")
    cycle_mul = method("cycle_mul")
    div = method("div")
    rem = method("rem")
    maxequal = method("maxequal")
    cycle_maxequal = method("cycle_maxequal")
    minequal = method("minequal")
    cycle_minequal = method("cycle_minequal")
    maximum = method("maximum")
    cycle_maximum = method("cycle_maximum")
    minimum = method("minimum")
    cycle_minimum = method("cycle_minimum")
    nan_maximum = method("nan_maximum")
    cycle_nan_maximum = method("cycle_nan_maximum")
    nan_minimum = method("nan_minimum")
    cycle_nan_minimum = method("cycle_nan_minimum")
    square = method("square")
    abs = method("abs")
    neg = method("neg")
    floor = method("floor")
    ceil = method("ceil")
    round = method("round")
    relu = method("relu")
    sign = method("sign")
    fusion = method("fusion")
    # Comparison
    lt = method("lt")
    cycle_lt = method("cycle_lt")
    le = method("le")
    cycle_le = method("cycle_le")
    gt = method("gt")
    cycle_gt = method("cycle_gt")
    ge = method("ge")
    cycle_ge = method("cycle_ge")
    eq = method("eq")
    cycle_eq = method("cycle_eq")
    ne = method("ne")
    cycle_ne = method("cycle_ne")
    fcmpfilter = method("fcmpfilter")
    lt_bitindex = method("lt_bitindex")
    le_bitindex = method("le_bitindex")
    gt_bitindex = method("gt_bitindex")
    ge_bitindex = method("ge_bitindex")
    eq_bitindex = method("eq_bitindex")
    ne_bitindex = method("ne_bitindex")
    # Logic and bits
    and_ = method("and_")
    cycle_and = method("cycle_and")
    or_ = method("or_")
    cycle_or = method("cycle_or")
    xor = method("xor")
    cycle_xor = method("cycle_xor")
    not_ = method("not_")
    band = method("band")
    cycle_band = method("cycle_band")
    bor = method("bor")
    cycle_bor = method("cycle_bor")
    bxor = method("bxor")
    cycle_bxor = method("cycle_bxor")
    bnot = method("bnot")
    sll = method("sll")
    srl = method("srl")
    # Functions
    hypot = method("hypot")
    exp = method("exp")
    log = method("log")
    log2 = method("log2")
    pow2 = method("pow2")
    sqrt = method("sqrt")
    rsqrt = method("rsqrt")
    recip = method("recip")
    sin = method("sin")
    cos = method("cos")
    tanh = method("tanh")
    # Activations
    active_exp = method("active_exp")
    active_exphp = method("active_exphp")
    active_exp_less_0 = method("active_exp_less_0")
    active_log = method("active_log")
    active_loghp = method("active_loghp")
    active_sqrt = method("active_sqrt")
    active_sqrthp = method("active_sqrthp")
    active_rsqrt = method("active_rsqrt")
    active_rsqrthp = method("active_rsqrthp")
    active_recip = method("active_recip")
    active_reciphp = method("active_reciphp")
    active_recip_greater_1 = method("active_recip_greater_1")
    active_sin = method("active_sin")
    active_cos = method("active_cos")
    active_tanh = method("active_tanh")
    active_sigmoid = method("active_sigmoid")
    active_gelu = method("active_gelu")
    active_gelup = method("active_gelup")
    relun = method("relun")
    # Series
    taylor3_sin = method("taylor3_sin")
    taylor4_sin = method("taylor4_sin")
    taylor3_cos = method("taylor3_cos")
    taylor4_cos = method("taylor4_cos")
    taylor3_tanh = method("taylor3_tanh")
    taylor4_tanh = method("taylor4_tanh")
    taylor3_sigmoid = method("taylor3_sigmoid")
    taylor4_sigmoid = method("taylor4_sigmoid")
    taylor3_softplus = method("taylor3_softplus")
    taylor4_softplus = method("taylor4_softplus")
    # Arithmetic of the vector library that rounds in one direction
    add_dn = method("add_dn")
    add_up = method("add_up")
    sub_dn = method("sub_dn")
    sub_up = method("sub_up")
    sub_tz = method("sub_tz")
    mul_dn = method("mul_dn")
    mul_up = method("mul_up")
    mul_tz = method("mul_tz")
    div_dn = method("div_dn")
    div_up = method("div_up")
    div_tz = method("div_tz")
    recip_dn = method("recip_dn")
    recip_up = method("recip_up")
    recip_tz = method("recip_tz")
    # Functions of the vector library
    tan = method("tan")
    asin = method("asin")
    acos = method("acos")
    atan = method("atan")
    sinh = method("sinh")
    cosh = method("cosh")
    expm1 = method("expm1")
    exp10 = method("exp10")
    log1p = method("log1p")
    log10 = method("log10")
    erf = method("erf")
    erfinv = method("erfinv")
    erfcinv = method("erfcinv")
    trunc = method("trunc")
    pow = method("pow")
    atan2 = method("atan2")
    scalbn = method("scalbn")
    fmax = method("fmax")
    fmin = method("fmin")
    isnan = method("isnan")
    isinf = method("isinf")
    # Conversion
    convert = method("convert")
    to_int4 = method("to_int4")
    from_int4 = method("from_int4")
    # Reductions
    sum = method("sum")
    reduce_sum = method("reduce_sum")
    max = method("max")
    min = method("min")
    argmax = method("argmax")
    argmin = method("argmin")
    fabsmax = method("fabsmax")
    fabsmin = method("fabsmin")
    count = method("count")
    count_bitindex = method("count_bitindex")
    popcnt = method("popcnt")
    findfirst1 = method("findfirst1")
    findlast1 = method("findlast1")
    # Selection
    filter = method("filter")
    filter_bitindex = method("filter_bitindex")
    select = method("select")
    select_bitindex = method("select_bitindex")
    maskmove = method("maskmove")
    maskmove_bitindex = method("maskmove_bitindex")
    mask_select = method("mask_select")
    # Layout
    transpose = method("transpose")
    rotate90 = method("rotate90")
    rotate180 = method("rotate180")
    rotate270 = method("rotate270")
    mirror = method("mirror")
    pad = method("pad")
    reshape_nhwc2nchw = method("reshape_nhwc2nchw")
    reshape_nchw2nhwc = method("reshape_nchw2nhwc")
    reshape_filter = method("reshape_filter")
    # Tables
    lut = method("lut")
    # Fills
    write_value = method("write_value")
    fill = method("fill")
    write_zero = method("write_zero")
    incseq = method("incseq")
    rand = method("rand")
    # Pools
    sumpool = method("sumpool")
    avgpool = method("avgpool")
    maxpool = method("maxpool")
    minpool = method("minpool")
    maxpool_index = method("maxpool_index")
    minpool_index = method("minpool_index")
    maxpool_value_index = method("maxpool_value_index")
    minpool_value_index = method("minpool_value_index")
    maxpool_bp = method("maxpool_bp")
    avgpool_bp = method("avgpool_bp")
    unpool = method("unpool")
    # Tensor
    expand_channel_mul = method("expand_channel_mul")
    expand_channel_mul_add = method("expand_channel_mul_add")
    matmul = method("matmul")
    mlp = method("mlp")
    conv = method("conv")
    conv_bias = method("conv_bias")
    conv_partial = method("conv_partial")
    integral = method("integral")
    histogram = method("histogram")
