"""The argument lists of BANG C: names, operands, attributes."""

from __future__ import annotations

import pytest

from instruction_oracle import c_signature
from mlusim.cores.instructions.c_signatures import CSignature, c_signatures_of
from mlusim.cores.instructions.record import Instruction, Match
from mlusim.cores.instructions.table import BY_INTRINSIC, INSTRUCTIONS
from mlusim.errors import OperandError


def every_c_signature() -> list[tuple[str, CSignature]]:
    return [(name, signature) for name in BY_INTRINSIC for signature in c_signatures_of(name)]


@pytest.mark.parametrize(
    ("name", "signature"), every_c_signature(), ids=lambda item: item if isinstance(item, str) else ""
)
def test_signatures_name_operands_and_attributes(name: str, signature: CSignature) -> None:
    entry: Instruction = signature.instruction
    names = {argument.name for argument in signature.arguments}
    stands = {attribute for argument in signature.arguments for attribute in argument.stands_for}
    for operand in entry.operands:
        assert operand.name in names or operand.number or entry.to_register, name
    for attribute in entry.attributes:
        assert attribute in stands or attribute in entry.defaults or attribute in signature.fixed, name
    pointers = [argument for argument in signature.arguments if argument.shape is not None]
    scratch = {"dst_addition", "src_addition"}
    assert {argument.name for argument in pointers} <= {operand.name for operand in entry.operands} | scratch


def test_a_call_becomes_shapes_and_attributes() -> None:
    transposed = c_signature("__bang_transpose", 4)
    assert transposed.bind([0, 0, 3, 5], {"dst": 4, "src": 4})[0] == {"dst": (5, 3), "src": (3, 5)}
    pool = c_signature("__bang_sumpool", 9)
    shapes, attributes = pool.bind([0, 0, 64, 6, 8, 2, 3, 1, 2], {"dst": 2, "src": 2})
    assert shapes == {"dst": (3, 6, 64), "src": (6, 8, 64)}
    assert attributes == {"kernel_height": 2, "kernel_width": 3, "stride_width": 1, "stride_height": 2}
    fused = c_signature("__bang_fusion", 6)
    shapes, attributes = fused.bind(["FMA", 0, 0, 2.0, 0, 96], {"dst": 4, "src0": 4, "src2": 4})
    assert shapes == {"dst": (96,), "src0": (96,), "src1": 2.0, "src2": (96,)}
    assert attributes == {"operation": "FMA"}
    bits = c_signature("__bang_gt_bitindex", 4)
    assert bits.bind([0, 0, 0, 256], {"dst": 4, "src0": 4, "src1": 4})[0]["dst"] == (8,)
    padded = c_signature("__bang_pad", 7)
    shapes, attributes = padded.bind([0, 0, 4, 5, 6, 1, 2], {"dst": 4, "src": 4})
    assert shapes["dst"] == (7, 10, 4)
    assert attributes == {"pad_top": 1, "pad_bottom": 1, "pad_left": 2, "pad_right": 2, "pad_value": 0}
    valued = c_signature("__bang_pad", 10)
    shapes, attributes = valued.bind([0, 0, 4, 5, 6, 1, 2, 3, 4, 7], {"dst": 4, "src": 4})
    assert shapes["dst"] == (8, 13, 4)
    assert attributes["pad_value"] == 7
    both = c_signature("__bang_int322int16", 5)
    assert both.bind([0, 0, 8, 3, 1], {"dst": 2, "src": 4})[1]["position"] == 2


def test_an_extent_that_is_divided_by_zero_is_an_error() -> None:
    pool = c_signature("__bang_sumpool", 9)
    with pytest.raises(OperandError, match=r"stride_height is 0, and an operand's extent is .* // stride_height: pass"):
        pool.bind([0, 0, 64, 6, 8, 2, 3, 1, 0], {"dst": 2, "src": 2})


def test_first_sources_decide_the_type() -> None:
    for entry in INSTRUCTIONS.values():
        assert entry.operands[0].name == "dst"
        assert any(operand.match is Match.SAME for operand in entry.operands)
        assert entry.summary[0].islower() or entry.summary[0].isdigit(), entry.name
