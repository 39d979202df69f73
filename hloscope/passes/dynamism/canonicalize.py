"""`stablehlo-canonicalize-dynamism`: replaces dynamic ops with constant sizes by static ops.

Source: StableHLO `StablehloCanonicalizeDynamism.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from hloscope.ir import TensorType, Type
from hloscope.mlir import NO_ATTRIBUTES, ArrayAttr, Operation
from hloscope.passes.dynamism.constants import i64_array, ints
from hloscope.passes.dynamism.forms import STATIC, slice_sizes
from hloscope.passes.dynamism.shape_operands import SHAPE_OPERANDS, shape_operands, shapes_of
from hloscope.passes.folding import INDEX_FOLDS
from hloscope.passes.framework import Pass, Run
from hloscope.passes.patterns import Chooser, Pattern, Patterns
from hloscope.passes.rewriting import Rewriter

ITERATIONS: Final = 2

PATTERNS: Final = Patterns()
"""Patterns of single ops, except for custom calls."""


def _is_static(type: Type) -> bool:
    return isinstance(type, TensorType) and type.is_static


def custom_call(run: Run) -> Callable[[Rewriter, Operation], bool]:
    """Return the pattern of custom calls with shape operands; errors go to the run."""

    def drop_shape_operands(rewriter: Rewriter, op: Operation) -> bool:
        """Remove the operands with sizes, and their layouts, if all results are static."""
        if shapes_of(op, run) is None:
            return False
        if not all(_is_static(value.type) for value in op.results):  # so no tuples, as upstream
            return False
        dropped = {*(shape_operands(op, run) or ())}
        kept = [k for k, value in enumerate(op.operands) if value not in dropped]
        properties = dict(op.properties)
        layouts = properties.get("operand_layouts")
        if isinstance(layouts, ArrayAttr) and len(layouts.elements) == len(op.operands):
            properties["operand_layouts"] = ArrayAttr(tuple([layouts.elements[k] for k in kept]))
        new = rewriter.create(
            op.name,
            [op.operands[k] for k in kept],
            properties,
            attributes={k: v for k, v in op.attributes.items() if k != SHAPE_OPERANDS},
            types=[value.type for value in op.results],
            before=op,
        )
        rewriter.replace(op, new.results)
        return True

    return drop_shape_operands


@PATTERNS.on("stablehlo.dynamic_broadcast_in_dim")
def broadcast(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by `broadcast_in_dim` if operand and result are static."""
    operand, shape = op.operands
    if not _is_static(operand.type) or not _is_static(op.result.type) or ints(shape) is None:
        return False
    dims = op.get("broadcast_dimensions")
    given = {} if dims is None else {"broadcast_dimensions": dims}
    return _replace_by(rewriter, op, "stablehlo.broadcast_in_dim", (operand,), given)


@PATTERNS.on("stablehlo.dynamic_iota")
def iota(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by `iota` if the result is static."""
    if not _is_static(op.result.type) or ints(op.operands[0]) is None:
        return False
    return _replace_by(rewriter, op, "stablehlo.iota", (), op.properties)


@PATTERNS.on("stablehlo.dynamic_reshape")
def reshape(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by `reshape` if the result is static."""
    if not _is_static(op.result.type) or ints(op.operands[1]) is None:
        return False
    return _replace_by(rewriter, op, "stablehlo.reshape", op.operands[:1], {})


@PATTERNS.on("stablehlo.real_dynamic_slice")
def slice_side_by_side(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by `dynamic_slice` if the limits are the starts plus a constant."""
    sizes = slice_sizes(op)
    if sizes is None:
        return False
    operand, starts = op.operands[:2]
    scalars = []
    for d in range(len(sizes)):
        bounds = {"start_indices": [d], "limit_indices": [d + 1], "strides": [1]}
        attributes = {name: i64_array(numbers) for name, numbers in bounds.items()}
        one = rewriter.create("stablehlo.slice", (starts,), attributes, before=op).result
        assert isinstance(one.type, TensorType)
        scalar = TensorType(one.type.element, ())
        scalars.append(
            rewriter.create("stablehlo.reshape", (one,), types=(scalar,), before=op).result
        )
    given = {"slice_sizes": i64_array(sizes)}
    target = "stablehlo.dynamic_slice"
    return _replace_by(rewriter, op, target, (operand, *scalars), given, keeps=True)


@PATTERNS.on(*STATIC)
def static_form(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by the static op if all dynamic amounts are constants."""
    form = STATIC[op.name](op)
    if form is None:
        return False
    return _replace_by(rewriter, op, *form, keeps=op.name == "stablehlo.real_dynamic_slice")


def _replace_by(
    rewriter: Rewriter,
    op: Operation,
    name: str,
    operands: Iterable[object],
    properties: object,
    *,
    keeps: bool = False,
) -> bool:
    """Replace an op by another of the same result types; return true."""
    new = rewriter.create(
        name,
        tuple(operands),  # type: ignore[arg-type]
        properties,  # type: ignore[arg-type]
        attributes=op.attributes if keeps else NO_ATTRIBUTES,
        types=[value.type for value in op.results],
        before=op,
    )
    rewriter.replace(op, new.results)
    return True


def canonicalize(run: Run, more: Iterable[Pattern] = ()) -> None:
    """Replace dynamic ops by static ones, with additional patterns in `more`."""
    own = Pattern("drop_shape_operands", ("stablehlo.custom_call",), custom_call(run))
    chooser = Chooser([own, *PATTERNS, *more, *INDEX_FOLDS])
    for function in run.functions():
        converged = run.greedy(function, chooser, max_iterations=ITERATIONS)
        if not converged:
            message = f"Failed to converge StablehloCanonicalizeDynamism in {ITERATIONS} iterations"
            run.plain_error(function, message, fails=False)


CANONICALIZE_DYNAMISM: Final = Pass(
    "stablehlo-canonicalize-dynamism",
    canonicalize,
    "Replaces dynamic ops with constant sizes by static ops.",
    on_functions=True,
)
