"""Quantized ops replaced by integer arithmetic, or by floats between dequantize and quantize."""

from __future__ import annotations

from typing import Final

from hloscope.errors import Diagnostic
from hloscope.ir import QuantizedType, TensorType, Type
from hloscope.mlir import Definition, Operation, Value, function_type
from hloscope.mlir.dialects import DEFINITIONS
from hloscope.passes.conversion import (
    Conversion,
    InsertionPoint,
    convert_function,
    convert_regions,
    replace_converted,
)
from hloscope.passes.framework import Pass, Run, until_none_fits
from hloscope.passes.legalizing.quantized_products import (
    F32,
    I32,
    Quantizer,
    along,
    as_elements,
    expressed_of,
    has_quantized,
    hybrid,
    integer_product,
    kind_of,
    of_convolution,
    of_dot,
    quantized,
    storage_of,
    stored,
)
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter

# --------------------------------------------------------------------------------------------------
# `stablehlo-legalize-quant-to-math`: quantized programs as arithmetic on stored integers.
#
# Ops with a rule of their own come first, then data movement, then ops that are defined through
# dequantization.  Broadcasting ops of CHLO remain for `chlo-legalize-to-stablehlo`.
#
# Source: StableHLO `StablehloLegalizeQuantToMath.cpp`.


MATH_PATTERNS: Final = Patterns()

_MOVES: Final = tuple(
    f"stablehlo.{name}"
    for name in (
        "bitcast_convert broadcast_in_dim composite concatenate constant dynamic_broadcast_in_dim"
        " dynamic_reshape dynamic_slice gather get_dimension_size maximum minimum pad reduce_window"
        " reshape return select slice transpose"
    ).split()
)
"""Ops that only move elements, so that they can be applied to the stored integers."""


@MATH_PATTERNS.on("func.func", benefit=10)
def function(rewriter: Rewriter, op: Operation) -> bool:
    """Convert the argument and result types of a function to their stored integers."""
    convert_function(rewriter, op, storage_of)
    return True


@MATH_PATTERNS.on("func.return", benefit=10)
def returned(rewriter: Rewriter, op: Operation) -> bool:
    """Replace the operands of a `return` by stored integers, which the new signature declares."""
    rewriter.set_operands(op, stored(rewriter, op))
    return True


@MATH_PATTERNS.on("stablehlo.uniform_quantize", benefit=10)
def quantize(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `uniform_quantize` of `f32`, or of another quantized type, by arithmetic."""
    source, target = op.operands[0].type, quantized(op.result.type)
    wanted = storage_of(op.result.type)
    if why_not_quantized(op) or target is None or not isinstance(source, TensorType):
        return False
    assert isinstance(wanted, TensorType)
    (value,) = stored(rewriter, op)
    given, at = quantized(source), Quantizer(rewriter, op)
    if given is not None:
        made = requantized(at, value, (given, target), wanted)
        replace_converted(rewriter, op, [made])
        return True
    scales, zeros, axis = at.parameters(target, F32)
    low, high = at.limits(target, F32)
    made = at.combine("divide", value, scales, source, axis)
    made = at.combine("add", made, zeros, source, axis)
    made = at.make("stablehlo.clamp", source, low, made, high)
    made = at.round(made, target, clamps=False)
    replace_converted(rewriter, op, [at.convert(made, wanted)])
    return True


def why_not_quantized(op: Operation) -> str | None:
    """Return upstream's message if a `uniform_quantize` cannot be replaced; else `None`."""
    if op.name != "stablehlo.uniform_quantize":
        return None
    source, target = op.operands[0].type, quantized(op.result.type)
    given = quantized(source)
    if isinstance(source, TensorType) and source.element == F32:
        known = target is not None and not target.by_blocks
    else:
        known = _is_simple(given) and _is_simple(target)
    if not known:
        return "'stablehlo.uniform_quantize' op Unsupported input element type."
    if given is None or target is None or not (given.is_per_axis and target.is_per_axis):
        return None
    text = "Cannot requantize while changing quantization_axis"
    return f"'stablehlo.uniform_quantize' op {text}" if given.axis != target.axis else None


def _is_simple(type: QuantizedType | None) -> bool:
    return type is not None and not type.by_blocks


def requantized(
    at: Quantizer, value: Value, types: tuple[QuantizedType, QuantizedType], wanted: TensorType
) -> Value:
    """Return stored integers of one quantized type as stored integers of another.

    Args:
        at: Where ops are created.
        value: The stored integers.
        types: The source and the target type.
        wanted: Type of the returned tensor.
    """
    source, target = types
    if source == target:
        return at.convert(value, wanted)
    made = at.convert(value, as_elements(wanted, F32))
    made = _merged(at, made, source, target)
    made = at.round(made, target, clamps=wanted.element.bits < 32)
    return at.convert(made, wanted)


def _merged(at: Quantizer, value: Value, source: QuantizedType, target: QuantizedType) -> Value:
    """Return `value * s + z`: stored numbers of type `source` in the scale of type `target`.

    `s` is the ratio of scales, and `z` the remaining zero point.
    """
    per_axis = source.is_per_axis or target.is_per_axis
    count = max(len(source.scales), len(target.scales)) if per_axis else 1
    ratios, zeros = [], []
    for k in range(count):
        # A side with one scale for the whole tensor repeats it for each slice.
        s, t = k % len(source.scales), k % len(target.scales)
        ratios.append(source.scales[s] / target.scales[t])
        zeros.append(target.zero_points[t] - source.zero_points[s] * ratios[-1])
    axis = along(target if target.is_per_axis else source)
    type = value.type
    assert isinstance(type, TensorType)
    factor = at.numbers(ratios, F32, per_axis=per_axis)
    made = at.combine("multiply", value, factor, type, axis)
    if any(zeros):
        made = at.combine("add", made, at.numbers(zeros, F32, per_axis=per_axis), type, axis)
    return made


@MATH_PATTERNS.on("stablehlo.uniform_dequantize", benefit=10)
def dequantize(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `uniform_dequantize` by `(integer - zero point) * scale`."""
    given = quantized(op.operands[0].type)
    if given is None or given.by_blocks:
        return False
    (value,) = stored(rewriter, op)
    whole, real = as_elements(value.type, I32), as_elements(value.type, F32)
    at = Quantizer(rewriter, op)
    scales, zeros, axis = at.parameters(given, I32)
    made = at.combine("subtract", at.convert(value, whole), zeros, whole, axis)
    made = at.combine("multiply", at.convert(made, real), scales, real, axis)
    if op.result.type != real:
        made = at.convert(made, as_elements(real, given.expressed))
    rewriter.replace(op, [made])
    return True


@MATH_PATTERNS.on("stablehlo.add", benefit=10)
def add(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a quantized `add` by a sum of stored integers in the result's scale.

    The zero point that would count twice is subtracted.
    """
    types = [quantized(value.type) for value in (*op.operands, op.result)]
    left, right, result = types
    if left is None or right is None or result is None or any(t and t.by_blocks for t in types):
        return False
    wanted = storage_of(op.result.type)
    assert isinstance(wanted, TensorType)
    if left.is_per_axis or right.is_per_axis or result.is_per_axis:
        if not left == right == result or wanted.element != I32:
            return False
        return _add_along(rewriter, op, result, wanted)
    # Sums of narrow integers may exceed their type, so that `i32` holds them until the clamp.
    at, whole = Quantizer(rewriter, op), as_elements(wanted, I32)
    one, other = [
        requantized(at, value, (source, result), whole)
        for value, source in zip(stored(rewriter, op), (left, right), strict=True)
    ]
    zero = at.number(result.zero_points[0], I32)
    made = at.combine("subtract", at.combine("add", one, other, whole), zero, whole)
    if wanted.element != I32:
        low, high = at.limits(result, I32)
        made = at.convert(at.make("stablehlo.clamp", whole, low, made, high), wanted)
    replace_converted(rewriter, op, [made])
    return True


def _add_along(rewriter: Rewriter, op: Operation, type: QuantizedType, wanted: TensorType) -> bool:
    at = Quantizer(rewriter, op)
    made = at.make("stablehlo.add", wanted, *stored(rewriter, op))
    if any(type.zero_points):
        zeros = at.per_axis(type.zero_points, I32)
        made = at.combine("subtract", made, zeros, wanted, along(type))
    replace_converted(rewriter, op, [made])
    return True


@MATH_PATTERNS.on("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution", benefit=10)
def product(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a quantized product by one of integers, or of floats and dequantized weights."""
    kind = kind_of(op)
    if kind == "hybrid":
        return hybrid(rewriter, op)
    dims = of_convolution(op) if op.name == "stablehlo.convolution" else of_dot(op)
    return kind == "quantized" and dims is not None and integer_product(rewriter, op, dims)


@MATH_PATTERNS.on(*_MOVES, benefit=10)
def moved(rewriter: Rewriter, op: Operation) -> bool:
    """Apply an op that only moves elements to the stored integers."""
    # Order is preserved only for one scale and zero point on both sides.
    if op.name in ("stablehlo.maximum", "stablehlo.minimum"):
        types = {quantized(value.type) for value in (*op.operands, op.result)}
        found = types.pop()
        if types or found is None or not found.is_per_tensor:
            return False
    if op.regions:
        convert_regions(rewriter, op, storage_of)
    operands = stored(rewriter, op)
    if not op.results:
        rewriter.set_operands(op, operands)
        return True
    types_of = [storage_of(value.type) for value in op.results]
    new = rewriter.create(
        op.name,
        operands,
        op.properties,
        before=op,
        types=types_of,
        attributes=op.attributes,
        regions=rewriter.take_regions(op),
    )
    replace_converted(rewriter, op, new.results)
    return True


def _is_legal(op: Operation) -> bool:
    if op.name == "func.func":
        signature = function_type(op)
        types = (*signature.inputs, *signature.results) if signature is not None else ()
        return all(storage_of(type) == type for type in types)
    return all(storage_of(v.type) == v.type for v in (*op.operands, *op.results))


def _run(run: Run) -> None:
    rows = [*MATH_PATTERNS, *TO_QDQ_PATTERNS]

    def refused(op: Operation) -> str | None:
        why = why_not_quantized(op)
        if why is not None:
            run.diagnostics.append(Diagnostic(why, op.span))
        return None

    Conversion(run, rows, _is_legal, refused).convert_functions()


QUANT_TO_MATH: Final = Pass(
    "stablehlo-legalize-quant-to-math",
    _run,
    "Expands quantized ops into arithmetic on stored integers.",
    on_functions=True,
)


# --------------------------------------------------------------------------------------------------
# `stablehlo-legalize-quantized-op-to-qdq`: computes quantized ops in expressed floats.
#
# Source: StableHLO `StablehloLegalizeQuantizedOpToQDQ.cpp`.


TO_QDQ_PATTERNS: Final = Patterns()

_COMBINING: Final = (
    "batch_norm_grad batch_norm_inference batch_norm_training cholesky clamp compare convolution"
    " dot dot_general select triangular_solve"
)
"""Ops that are not elementwise whose quantized form the specification defines by dequantization."""


def _is_elementwise(definition: Definition) -> bool:
    """Is the op of a definition element-wise, with operands and results that may be quantized?"""
    values = definition.operands + definition.results
    takes_all = all("Q" in slot.constraint for slot in values)
    is_quantize = definition.name == "stablehlo.uniform_quantize"
    return "elementwise" in definition.traits and takes_all and not is_quantize


DEQUANTIZED_OPS: Final = (
    *(n for n in DEFINITIONS if n.startswith("stablehlo.") and _is_elementwise(DEFINITIONS[n])),
    *(f"stablehlo.{name}" for name in _COMBINING.split()),
)
"""Ops whose quantized form is defined as quantize(op(dequantize(operands))).

Source: StableHLO spec.
"""


@TO_QDQ_PATTERNS.on(*DEQUANTIZED_OPS)
def dequantized(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a quantized op by dequantized operands, the op on floats, and quantized results."""
    if not has_quantized(op) or op.regions:
        return False
    at = InsertionPoint(rewriter, op)
    operands = [_as(at, "uniform_dequantize", v, expressed_of(v.type)) for v in op.operands]
    new = rewriter.create(
        op.name,
        operands,
        op.properties,
        before=op,
        types=[expressed_of(value.type) for value in op.results],
        attributes=op.attributes,
    )
    both = zip(op.results, new.results, strict=True)
    rewriter.replace(op, [_as(at, "uniform_quantize", made, old.type) for old, made in both])
    return True


def _as(at: InsertionPoint, name: str, value: Value, type: Type) -> Value:
    """Return a value converted to `type` by an op; a value of that type is returned unchanged."""
    return value if value.type == type else at.make(f"stablehlo.{name}", type, value)


QUANTIZED_TO_QDQ: Final = Pass(
    "stablehlo-legalize-quantized-op-to-qdq",
    until_none_fits(TO_QDQ_PATTERNS, "StablehloLegalizeQuantizedOpToQDQPass"),
    "Expands quantized ops into dequantize, op on floats, quantize.",
    on_functions=True,
)


# --------------------------------------------------------------------------------------------------
# `stablehlo-legalize-qdq-to-quantized-op`: merges dequantize, op, quantize into one op.
#
# Source: StableHLO `StablehloLegalizeQDQToQuantizedOp.cpp`.


FROM_QDQ_PATTERNS: Final = Patterns()


@FROM_QDQ_PATTERNS.on("stablehlo.uniform_quantize")
def quantized_op(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `uniform_quantize` of an op on dequantized operands by the op on quantized types."""
    inner = op.operands[0].owner
    if not isinstance(inner, Operation) or inner.regions or len(inner.results) != 1:
        return False
    owners = [value.owner for value in inner.operands]
    sources = [
        owner.operands[0]
        for owner in owners
        if isinstance(owner, Operation) and owner.name == "stablehlo.uniform_dequantize"
    ]
    if not sources or len(sources) != len(owners):
        return False
    new = rewriter.create(
        inner.name,
        sources,
        inner.properties,
        before=op,
        types=(op.result.type,),
        attributes=inner.attributes,
        location=inner.location,
    )
    rewriter.replace(op, new.results)
    return True


QDQ_TO_QUANTIZED: Final = Pass(
    "stablehlo-legalize-qdq-to-quantized-op",
    until_none_fits(FROM_QDQ_PATTERNS, "StablehloLegalizeQDQToQuantizedOpPass"),
    "Merges dequantize, op and quantize into one quantized op.",
    on_functions=True,
)
