"""Element types of operands that HLO demands beyond what StableHLO does.

Source: XLA `shape_inference.cc` (`InferUnaryOpShape`, `InferElementwiseBinaryOpShape`,
`InferReducePrecisionShape`, `InferTriangularSolveShape`, `VerifyReducerShape`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.errors import VerifyError
from hloscope.hlo_parser.opcodes import SPELLINGS
from hloscope.ir.graph import Instruction
from hloscope.ir.op import Op
from hloscope.ir.types import BufferType, ElementType, TensorType, Type
from hloscope.ops.gather_scatter import Scatter
from hloscope.ops.linalg import TriangularSolve
from hloscope.ops.reduction import Reduce
from hloscope.ops.windows import ReduceWindow, SelectAndScatter

_ROWS: Final = """
    pred signed unsigned          | and not or xor
    signed unsigned               | count-leading-zeros popcnt
    float                         | cbrt ceil erf floor is-finite reduce-precision
    float                         | round-nearest-afz round-nearest-even
    float complex                 | acos acosh asin asinh atan2 atanh cosh cosine exponential
    float complex                 | exponential-minus-one imag log log-plus-one logistic real rsqrt
    float complex                 | sine sinh sqrt tan tanh
    signed float complex          | abs sign
    signed unsigned float complex | divide negate power remainder shift-left subtract
    signed unsigned float complex | shift-right-arithmetic shift-right-logical
    f32 f64                       | complex
"""
"""Kinds, or names, of the elements that the operands of element-wise opcodes may have."""


def _allowed() -> Iterator[tuple[type[Op], tuple[str, ...]]]:
    for row in filter(str.strip, _ROWS.splitlines()):
        kinds, opcodes = row.split("|")
        for opcode in opcodes.split():
            yield SPELLINGS[opcode].op, tuple(kinds.split())


_ALLOWED: Final = dict(_allowed())


def check_elements(ins: Instruction) -> None:
    """Check the element types of the operands, and that bodies that reduce take them.

    Raises:
        VerifyError: One is of another type than the op takes.
    """
    cls = type(ins.op)
    allowed = _ALLOWED.get(cls)
    if allowed is not None:
        for i, operand in enumerate(ins.operands):
            element = _element(operand.type)
            if element.kind not in allowed and element.name not in allowed:
                needed = ", ".join(allowed)
                raise VerifyError(f"operand {i} has element type {element}, needs one of {needed}")
    elif cls is TriangularSolve:
        a, b = [_element(o.type) for o in ins.operands]
        if a != b or a.kind not in ("float", "complex"):
            raise VerifyError(
                f"operands are of {a} and {b}, need to be of one floating or complex type"
            )
    elif cls in _REDUCING:
        _check_body(ins)


_REDUCING: Final = (Reduce, ReduceWindow, Scatter, SelectAndScatter)
"""Ops whose last computation takes what is accumulated, then what comes to it."""


def _check_body(ins: Instruction) -> None:
    """Check that the parameters of a body have the element types of what is given to it."""
    types = [o.type for o in ins.operands]
    number = len(types) // 2
    if isinstance(ins.op, SelectAndScatter):
        given = [types[2], types[1]]
    elif isinstance(ins.op, Scatter):
        given = [*types[:number], *types[number + 1 :]]
    else:
        given = [*types[number:], *types[:number]]
    body = ins.calls[-1]
    for i, (operand, parameter) in enumerate(zip(given, body.arguments, strict=False)):
        have, want = _element(operand), _element(parameter)
        if have != want and not have.kind == want.kind == "float":
            raise VerifyError(f"parameter {i} of {body.name} is of {want}, what it gets of {have}")


def _element(type_: Type) -> ElementType:
    array = type_.element if isinstance(type_, BufferType) else type_
    assert isinstance(array, TensorType)
    return array.element
