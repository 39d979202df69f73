"""Replacement of ops that a StableHLO version lacks, and of deprecated ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from hloscope.ir import ELEMENT_TYPES, ElementType, TensorType
from hloscope.mlir import (
    ELEMENTS,
    BoolAttr,
    CallSiteLoc,
    FileLoc,
    FusedLoc,
    Location,
    NameLoc,
    Operation,
    Region,
    StringAttr,
    StructAttr,
    Value,
    element_text,
    resolve_location,
)
from hloscope.mlir.dialects import sparse_struct
from hloscope.ops import Mesh, with_element
from hloscope.passes.conversion import Conversion, InsertionPoint, i64_tensor, shaped
from hloscope.passes.framework import Option, Pass, Run
from hloscope.passes.patterns import Patterns
from hloscope.passes.reading import mesh_of_symbol, rows_of, symbols_of
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import AttributeGroups, i64_array, made, region_of
from hloscope.stablehlo.vhlo import CURRENT, Version, version_of, version_text

# --------------------------------------------------------------------------------------------------
# `stablehlo-compatibility-expander`: expands ops that an older version of StableHLO lacks.
#
# Source: StableHLO `StablehloCompatibilityExpander.cpp` and its tests.


TAN: Final = Patterns()
BATCHING: Final = Patterns()

_GROUPS: Final = "replica_groups"


@TAN.on("stablehlo.tan")
def tan(rewriter: Rewriter, op: Operation) -> bool:
    """Expand `tan x` to `sine / cosine`.

    For complex `a + ib` the expansion is `(tan a + i tanh b) / (1 - i tan a tanh b)`.
    """
    operand, at = op.operands[0], InsertionPoint(rewriter, op)
    type = op.result.type
    if not isinstance(type, TensorType):
        return False

    def make(name: str, *operands: Value, type: TensorType | None = None) -> Value:
        return at.make(f"stablehlo.{name}", type, *operands)

    if type.element.kind != "complex":
        rewriter.replace(op, [make("divide", make("sine", operand), make("cosine", operand))])
        return True
    part = ELEMENTS[element_text(type.element).removeprefix("complex<").removesuffix(">")]
    parts = with_element(type, part)
    # The constant 1 needs a static shape.
    if None in type.sizes:
        return False
    one = at.splat("1.0", parts)
    real = make("real", operand, type=parts)
    slope = make("divide", make("sine", real), make("cosine", real))
    bent = make("tanh", make("imag", operand, type=parts))
    above = make("complex", slope, bent, type=type)
    below = make("complex", one, make("negate", make("multiply", slope, bent)), type=type)
    rewriter.replace(op, [make("divide", above, below)])
    return True


# --------------------------------------------------------------------------- batching dimensions


@BATCHING.on("stablehlo.gather")
def gather(rewriter: Rewriter, op: Operation) -> bool:
    """Replace batching dimensions of a gather by start indices."""
    names = ("operand_batching_dims", "start_indices_batching_dims")
    return _unbatched(rewriter, op, 1, "dimension_numbers", names, "start_index_map")


@BATCHING.on("stablehlo.scatter")
def scatter(rewriter: Rewriter, op: Operation) -> bool:
    """Replace batching dimensions of a scatter by scatter indices."""
    names = ("input_batching_dims", "scatter_indices_batching_dims")
    at = len(op.results)
    attribute, index_map = "scatter_dimension_numbers", "scatter_dims_to_operand_dims"
    return _unbatched(rewriter, op, at, attribute, names, index_map)


_COLLAPSED: Final = {"gather": "collapsed_slice_dims", "scatter": "inserted_window_dims"}


def _unbatched(
    rewriter: Rewriter,
    op: Operation,
    at: int,
    attribute: str,
    batching: tuple[str, str],
    index_map: str,
) -> bool:
    """Replace the batching dimensions of a gather or scatter by collapsed dimensions with indices.

    Args:
        rewriter: The rewriter of the module.
        op: The gather or scatter.
        at: Position of the operand that has the indices.
        attribute: Name of the attribute with the dimension numbers.
        batching: Names of their batching fields: that of the operand, that of the indices.
        index_map: Name of their field that maps index components to dimensions.
    """
    numbers = op.get(attribute)
    indices = op.operands[at]
    if not isinstance(numbers, StructAttr) or not isinstance(indices.type, TensorType):
        return False
    fields: dict[str, Any] = dict(numbers.fields)
    dims, indices_dims = (tuple(fields.pop(name, ())) for name in batching)
    if not dims or None in indices.type.sizes:
        return False
    vector_dim = fields.get("index_vector_dim", 0)
    grown = _with_iotas(rewriter, op, indices, indices_dims, vector_dim)
    collapsed = _COLLAPSED[numbers.name]
    # A batching dimension has slices of size 1 at the batch's number: a collapsed dimension whose
    # index is an iota.
    fields[collapsed] = tuple(sorted((*fields.get(collapsed, ()), *dims)))
    fields[index_map] = (*dims, *fields.get(index_map, ()))
    was_sorted = op.get("indices_are_sorted") == BoolAttr(True)
    # The new indices come first, so that sorted indices stay sorted only if they ascend, too.
    still = was_sorted and _ascends(indices_dims) and _ascends(fields[index_map])
    properties = {
        **op.properties,
        attribute: sparse_struct("stablehlo", numbers.name, fields),
        "indices_are_sorted": BoolAttr(still),
    }
    rewriter.set_properties(op, properties)
    rewriter.set_operands(op, (*op.operands[:at], grown, *op.operands[at + 1 :]))
    return True


def _ascends(values: Sequence[int]) -> bool:
    return list(values) == sorted(values)


def _with_iotas(
    rewriter: Rewriter, op: Operation, indices: Value, dims: Sequence[int], vector_dim: int
) -> Value:
    """Return the indices with new components in front: the position in each dimension of `dims`.

    `vector_dim` is the index vector dimension, to which the components are added; ops are inserted
    before `op`.
    """
    type = indices.type
    assert isinstance(type, TensorType)
    at = InsertionPoint(rewriter, op)
    element = _wide_enough(type, dims)
    if element != type.element:
        type = with_element(type, element)
        indices = at.convert(indices, type)
    # A missing index vector dimension means vectors of one element.
    if vector_dim == type.rank:
        indices = at.reshape(indices, *_known(type), 1)
        type = shaped(element, *_known(type), 1)
    one = shaped(element, *[1 if d == vector_dim else s for d, s in enumerate(type.sizes)])
    iotas = [at.iota(one, dim) for dim in dims]
    return at.concatenate((*iotas, indices), vector_dim)


def _known(type: TensorType) -> tuple[int, ...]:
    return tuple([size for size in type.sizes if size is not None])


def _wide_enough(type: TensorType, dims: Sequence[int]) -> ElementType:
    """Return the element type of the indices, or a wider one that can index dimensions `dims`."""
    sizes = [size for dim in dims if (size := type.sizes[dim]) is not None]
    for element in (type.element, ELEMENT_TYPES["s32"]):
        digits = element.bits - (element.kind == "signed")
        if all(size < 1 << digits for size in sizes):
            return element
    return ELEMENT_TYPES["s64"]


# ------------------------------------------------------------------------- groups along axes


def _expand_groups(run: Run) -> None:
    """Replace replica groups along mesh axes by lists of device numbers, in all collectives."""
    symbols = symbols_of(run.rewriter.module)
    for op in run.rewriter.walk():
        groups = op.get(_GROUPS)
        if not isinstance(groups, StructAttr) or groups.name != "replica_group_mesh_axes":
            continue
        axes = AttributeGroups(groups)
        mesh: Mesh | str = axes.mesh
        if isinstance(mesh, str):
            symbol = symbols.get(mesh)
            if symbol is None:
                run.plain_error(op, "Failed to find mesh symbol")
                continue
            found = mesh_of_symbol(symbol)
            if found is None:
                run.plain_error(op, "Failed to find mesh attribute on symbol")
                continue
            mesh = found
        rows = rows_of(mesh, axes.axes)
        if rows is None:
            run.plain_error(op, "the axes of the replica groups are none of the mesh")
            continue
        table = i64_tensor([*chain(*rows)], (len(rows), len(rows[0]) if rows else 0))
        run.rewriter.set_properties(op, {**op.properties, _GROUPS: table})


# ----------------------------------------------------------------------------- ranges of places


def start_of(location: Location) -> Location:
    """Return the location with each range in a file replaced by its start.

    >>> start_of(NameLoc("f", FileLoc("a.py", 2, 21, 2, 30)))
    NameLoc(name='f', child=FileLoc(file='a.py', line=2, column=21, end_line=-1, end_column=-1))
    """
    match resolve_location(location):
        case FileLoc(file, line, column):
            return FileLoc(file, line, column)
        case NameLoc(name, child):
            return NameLoc(name, start_of(child))
        case CallSiteLoc(callee, caller):
            return CallSiteLoc(start_of(callee), start_of(caller))
        case FusedLoc(locations, metadata):
            return FusedLoc(tuple(map(start_of, locations)), metadata)
        case other:
            return other


def _start_places(run: Run) -> None:
    # Operations share locations: each is converted once, and the results are shared again.
    """Replace each range in a file by its start, in all locations of the module."""
    known: dict[Location, Location] = {}

    def start(location: Location) -> Location:
        found = known.get(location)
        if found is None:
            found = known[location] = start_of(location)
        return found

    for op in run.rewriter.walk():
        op.location = start(op.location)
        for block in op.blocks:
            for argument in block.arguments:
                argument.location = start(argument.location)


def _target(text: str) -> Version:
    return (*version_of(text)[:2], 0)


def _expand(run: Run) -> None:
    """Expand what the StableHLO version in the option `target` lacks."""
    target: Version = run.options["target"]
    patterns = Patterns()
    if target < (1, 1, 0):
        patterns += BATCHING
    if target < (1, 4, 0):
        patterns += TAN
    for function in run.functions():
        run.greedy(function, patterns)
    if target < (1, 9, 0):
        _start_places(run)
    if target < (1, 16, 0):
        _expand_groups(run)


COMPATIBILITY: Final = Pass(
    "stablehlo-compatibility-expander",
    _expand,
    "Expands ops that the target version does not have.",
    {"target": Option(CURRENT, f"The version, {version_text(CURRENT)} by default.", _target)},
)


# --------------------------------------------------------------------------------------------------
# `stablehlo-legalize-deprecated-ops`: replaces deprecated ops by their successors.
#
# Source: StableHLO `StablehloLegalizeDeprecatedOps.cpp` and its patterns.


DEPRECATED_PATTERNS: Final = Patterns()

_REPLACED: Final = frozenset(
    f"stablehlo.{name}"
    for name in "broadcast create_token cross-replica-sum dot unary_einsum".split()
)
_WITHOUT_SUCCESSOR: Final = frozenset(["stablehlo.map", "stablehlo.rng"])


@DEPRECATED_PATTERNS.on("stablehlo.broadcast")
def broadcast(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `broadcast`, whose new dimensions come first, by `broadcast_in_dim`."""
    operand, result = op.operands[0].type, op.result.type
    if not isinstance(operand, TensorType) or not isinstance(result, TensorType):
        return False
    dimensions = range(result.rank - operand.rank, result.rank)
    properties = {"broadcast_dimensions": i64_array(dimensions)}
    return rewriter.replace_by(op, "stablehlo.broadcast_in_dim", op.operands, properties)


@DEPRECATED_PATTERNS.on("stablehlo.create_token")
def create_token(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `create_token` by an `after_all` without operands."""
    return rewriter.replace_by(op, "stablehlo.after_all", ())


@DEPRECATED_PATTERNS.on("stablehlo.cross-replica-sum")
def cross_replica_sum(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `cross-replica-sum` by an `all_reduce` that adds."""
    type = op.result.type
    if not isinstance(type, TensorType):
        return False
    groups = op.get("replica_groups")
    properties = {} if groups is None else {"replica_groups": groups}
    return rewriter.replace_by(
        op, "stablehlo.all_reduce", op.operands, properties, regions=(adding(type),)
    )


def adding(type: TensorType) -> Region:
    """Return a region that returns the sum of two scalars of the element type of `type`."""
    element = shaped(type.element)
    left, right = Value(element, None, 0), Value(element, None, 1)
    total = made("stablehlo.add", (left, right), types=(element,))
    end = made("stablehlo.return", total.results, types=())
    return region_of((left, right), (total, end))


@DEPRECATED_PATTERNS.on("stablehlo.dot")
def dot(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `dot` by a `dot_general` that contracts the last dimension with the first."""
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
    return rewriter.replace_by(op, "stablehlo.dot_general", op.operands, properties)


@DEPRECATED_PATTERNS.on("stablehlo.unary_einsum")
def unary_einsum(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `unary_einsum` by an `einsum` with a constant 1 as left operand."""
    type, config = op.operands[0].type, op.get("einsum_config")
    if not isinstance(type, TensorType) or not isinstance(config, StringAttr):
        return False
    number = ONES.get(type.element.kind, "1")
    one = InsertionPoint(rewriter, op).splat(number, shaped(type.element))
    properties = {"einsum_config": StringAttr(b"," + config.value)}
    return rewriter.replace_by(op, "stablehlo.einsum", (one, *op.operands), properties)


ONES: Final = {"pred": "true", "float": "1.0", "complex": "(1.0, 0.0)"}
"""Text of the number 1 by kind of the element type; for other kinds it is `1`."""


def _illegal(fail_on_unused: bool) -> Callable[[Operation], bool]:
    names = _REPLACED | (_WITHOUT_SUCCESSOR if fail_on_unused else frozenset())
    return lambda operation: operation.name not in names


def _replace_deprecated(run: Run) -> None:
    Conversion(
        run, DEPRECATED_PATTERNS, _illegal(run.options["fail-on-unused"])
    ).convert_functions()


DEPRECATED: Final = Pass(
    "stablehlo-legalize-deprecated-ops",
    _replace_deprecated,
    "Replaces deprecated ops by their successors.",
    {
        "fail-on-unused": Option(
            default=True,
            help="Fail at deprecated ops that have no successor.",
        )
    },
    on_functions=True,
)
