"""Conversions between real numbers and quantized ones."""

from __future__ import annotations

from typing import ClassVar

from hloscope.errors import Name, VerifyError, message_of
from hloscope.ir import Callees, Op, TensorType, Type, Types
from hloscope.ops.elementwise import Elementwise
from hloscope.ops.inference import array, compatible_shapes, count, extents, op, require, tensor
from hloscope.ops.quantization import quantized


def _pair(op: str, operands: Types, results: Types, rule: str) -> tuple[TensorType, TensorType]:
    """Return the types of the only operand and the only declared result of a conversion.

    Args:
        op: Name of the op.
        operands: Types of the operands.
        results: Declared types of the results.
        rule: Label of the constraint that their shapes agree.

    Raises:
        VerifyError: There are several operands or results, one is not an array, or shapes differ.
    """
    count(op, operands, 1)
    require(
        len(results) == 1, "", message_of(f"`{{}}` has {len(results)} results, needs 1", Name(op))
    )
    operand, result = tensor(op, operands[0], "the operand"), tensor(op, results[0], "the result")
    require(
        compatible_shapes(operand, result),
        rule,
        "requires the same shape for all operands and results",
    )
    return operand, result


@op("uniform_quantize")
class UniformQuantize(Elementwise):
    """Converts real or quantized numbers to the declared quantized type."""

    arity: ClassVar[int] = 1

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        return Op.infer(self, operands, calls)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        source, target = _pair(self.name, operands, results, "uniform_quantize_c1")
        before, after = quantized(source), quantized(target)
        needed = source.element if before is None else before.expressed
        found = target.element if after is None else after.expressed
        require(
            found == needed,
            "uniform_quantize_c2",
            message_of("Expressed type of result expected to be {}, but got {}", needed, found),
        )


@op("uniform_dequantize")
class UniformDequantize(Elementwise):
    """Converts quantized numbers to the real numbers they represent."""

    arity: ClassVar[int] = 1
    result_rule: ClassVar[str] = "uniform_dequantize_c2"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        source = tensor(self.name, operands[0], "the operand")
        element = quantized(source)
        if element is None:
            raise VerifyError(
                f"the operand of `uniform_dequantize` has element type {source.element},"
                " needs a quantized one",
                rule="uniform_dequantize_i1",
            )
        return array(element.expressed, extents(source))

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        _pair(self.name, operands, results, "uniform_dequantize_c1")
        super().verify(operands, results, calls)
