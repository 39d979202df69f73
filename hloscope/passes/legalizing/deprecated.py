"""`stablehlo-legalize-deprecated-ops`: replaces deprecated ops by their successors.

Source: StableHLO `StablehloLegalizeDeprecatedOps.cpp` and its patterns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.ir import TensorType
from hloscope.mlir import Block, Operation, Region, StringAttr, StructAttr, Value
from hloscope.passes.conversion import Conversion
from hloscope.passes.framework import Option, Pass, Run
from hloscope.passes.legalizing.making import integers, shaped, splat
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import made

PATTERNS: Final = Patterns()

_REPLACED: Final = frozenset(
    f"stablehlo.{name}"
    for name in "broadcast create_token cross-replica-sum dot unary_einsum".split()
)
_WITHOUT_SUCCESSOR: Final = frozenset(["stablehlo.map", "stablehlo.rng"])


@PATTERNS.on("stablehlo.broadcast")
def broadcast(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by a `broadcast_in_dim` into the last dimensions: new dimensions come first."""
    operand, result = op.operands[0].type, op.result.type
    if not isinstance(operand, TensorType) or not isinstance(result, TensorType):
        return False
    dimensions = range(result.rank - operand.rank, result.rank)
    properties = {"broadcast_dimensions": integers(dimensions)}
    new = rewriter.create(
        "stablehlo.broadcast_in_dim", op.operands, properties, before=op, types=(result,)
    )
    rewriter.replace(op, new.results)
    return True


@PATTERNS.on("stablehlo.create_token")
def create_token(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by an `after_all` without operands."""
    new = rewriter.create("stablehlo.after_all", before=op, types=(op.result.type,))
    rewriter.replace(op, new.results)
    return True


@PATTERNS.on("stablehlo.cross-replica-sum")
def cross_replica_sum(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by an `all_reduce` that adds."""
    type = op.result.type
    if not isinstance(type, TensorType):
        return False
    groups = op.get("replica_groups")
    properties = {} if groups is None else {"replica_groups": groups}
    region = adding(type)
    new = rewriter.create(
        "stablehlo.all_reduce",
        op.operands,
        properties,
        before=op,
        types=(type,),
        regions=(region,),
    )
    rewriter.replace(op, new.results)
    return True


def adding(type: TensorType) -> Region:
    """Return a region that adds two elements of the type."""
    element = shaped(type.element)
    left, right = Value(element, None, 0), Value(element, None, 1)
    total = made("stablehlo.add", (left, right), types=(element,))
    end = made("stablehlo.return", total.results, types=())
    block = Block((left, right), (total, end))
    left.owner = right.owner = block
    return Region((block,))


@PATTERNS.on("stablehlo.dot")
def dot(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by a `dot_general` of the last dimension with the first."""
    left = op.operands[0].type
    if not isinstance(left, TensorType) or not left.rank:
        return False
    fields = (
        ("lhs_contracting_dimensions", (left.rank - 1,)),
        ("rhs_contracting_dimensions", (0,)),
    )
    properties = {"dot_dimension_numbers": StructAttr("stablehlo", "dot", fields)}
    precision = op.get("precision_config")
    if precision is not None:
        properties["precision_config"] = precision  # type: ignore[assignment]
    new = rewriter.create(
        "stablehlo.dot_general", op.operands, properties, before=op, types=(op.result.type,)
    )
    rewriter.replace(op, new.results)
    return True


@PATTERNS.on("stablehlo.unary_einsum")
def unary_einsum(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by an `einsum` with a constant 1 as left operand."""
    type, config = op.operands[0].type, op.get("einsum_config")
    if not isinstance(type, TensorType) or not isinstance(config, StringAttr):
        return False
    one = splat(rewriter, ONES.get(type.element.kind, "1"), shaped(type.element), before=op)
    properties = {"einsum_config": StringAttr(b"," + config.value)}
    new = rewriter.create(
        "stablehlo.einsum",
        (one, *op.operands),
        properties,
        before=op,
        types=(op.result.type,),
    )
    rewriter.replace(op, new.results)
    return True


ONES: Final = {"pred": "true", "float": "1.0", "complex": "(1.0, 0.0)"}
"""Text of the number 1, by kind of the element type; `1` for others."""


def _illegal(fail_on_unused: bool) -> Callable[[Operation], bool]:
    names = _REPLACED | (_WITHOUT_SUCCESSOR if fail_on_unused else frozenset())
    return lambda operation: operation.name not in names


def _run(run: Run) -> None:
    Conversion(run, PATTERNS, _illegal(run.options["fail-on-unused"])).convert_functions()


PASS: Final = Pass(
    "stablehlo-legalize-deprecated-ops",
    _run,
    "Replaces deprecated ops by their successors.",
    {
        "fail-on-unused": Option(
            default=True,
            help="Fail at deprecated ops that have no successor.",
            read=lambda text: text == "true",
        )
    },
    on_functions=True,
)
