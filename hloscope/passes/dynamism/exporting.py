"""Passes that XLA runs on a program that `jax.export` wrote with symbolic sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hloscope.errors import HloscopeError
from hloscope.ir import Dims, TensorType, TupleType, Type, UnrankedTensorType
from hloscope.mlir import (
    I64,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DictAttr,
    IntegerAttr,
    Operation,
    Region,
    StringAttr,
    SymbolAttr,
    UnitAttr,
    Value,
)
from hloscope.passes.conversion import i64_tensor
from hloscope.passes.dynamism.dimensions import is_assertion
from hloscope.passes.dynamism.refining import UNKNOWN_SIZE, WRAPPER, refine
from hloscope.passes.dynamism.shapes import canonicalize
from hloscope.passes.dynamism.values import (
    READY_MARK,
    Sizes,
    flattened,
    integer,
    refine_results,
    refine_shapes,
)
from hloscope.passes.folding import fold_integers, signed_integers
from hloscope.passes.framework import Pass, Run
from hloscope.passes.patterns import Patterns
from hloscope.passes.reading import symbols_of
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import clone, i64_array, made, region_of

# --------------------------------------------------------------------------------------------------
# Passes that XLA runs on a program that `jax.export` wrote with symbolic sizes.
#
# Source: XLA `pjrt/mlir_to_hlo.cc`, `python/refine_polymorphic_shapes.cc`,
# `stablehlo_ext/transforms/ChloRecomposeOps.cpp`.


# --------------------------------------------------------------------------------- chlo-recompose

_RECOMPOSED: Final = {
    "topk": "top_k",
    **{
        name: name
        for name in "erf tan acos acosh asin asinh atanh cosh sinh mulhi ragged_dot".split()
    },
}
"""Name of the CHLO op by the name of the custom call that represents it."""
_ATTRIBUTES: Final = "mhlo.attributes"
_ALLOWED: Final = frozenset(["call_target_name", _ATTRIBUTES, "mhlo.version"])


def _represented_op(op: Operation) -> tuple[str, DictAttr] | None:
    """Return the name and attributes of the CHLO op that a custom call or composite stands for.

    The result is `None` if it stands for none.
    """
    if op.name == "stablehlo.composite":
        return _composed(op)
    name, given = _chlo_name(op), op.get(_ATTRIBUTES)
    if not name or not {*op.attributes} <= _ALLOWED or not isinstance(given, DictAttr):
        return None
    return name, given


def _composed(op: Operation) -> tuple[str, DictAttr] | None:
    """Return the name and attributes of the CHLO op that a composite's name states.

    The result is `None` for any other op.
    """
    named = op.get("name")
    given = op.get("composite_attributes") or DictAttr(())
    if not isinstance(named, StringAttr) or not isinstance(given, DictAttr):
        return None
    dialect, _, last = named.text.partition(".")
    is_known = dialect == "chlo" and last in _RECOMPOSED.values()
    return (named.text, given) if is_known else None


def _chlo_name(op: Operation) -> str:
    """Return the name of the CHLO op that a custom call stands for.

    Empty for any other custom call.
    """
    target = op.get("call_target_name")
    if op.name != "stablehlo.custom_call" or not isinstance(target, StringAttr):
        return ""
    dialect, _, name = target.text.partition(".")
    if dialect != "mhlo" or name not in _RECOMPOSED:
        return ""
    if op.get("backend_config") not in (None, StringAttr(b""), DictAttr(())):
        return ""
    if op.get("called_computations") not in (None, ArrayAttr(())):
        return ""
    return f"chlo.{_RECOMPOSED[name]}"


def recompose(run: Run) -> None:
    """Replace each custom call or composite that stands for a CHLO op by that op."""
    for function in run.functions():
        for op in run.rewriter.walk(function):
            found = _represented_op(op)
            if found is None:
                continue
            name, given = found
            run.rewriter.replace_by(op, name, op.operands, dict(given.entries))
            run.fired["recompose"] += 1


# -------------------------------------------------------------------------------------- validation


def dynamic_ops(run: Run) -> Iterator[Operation]:
    """Yield the ops with dynamic sizes in a result type, or in a block argument of a region."""
    for op in run.rewriter.walk():
        values = [*op.results]
        for block in op.blocks:
            values += block.arguments
        if any(map(_is_dynamic, flattened([value.type for value in values]))):
            yield op


def _is_dynamic(type: Type) -> bool:
    if isinstance(type, TensorType):
        return not type.is_static
    return isinstance(type, UnrankedTensorType | TupleType)


def validate(run: Run) -> None:
    """Report an error for each dynamic op; if there is none, for each assertion that is left."""
    for op in dynamic_ops(run):
        run.error(op, "has dynamic shapes")
    if run.failed:
        return
    for op in run.rewriter.walk():
        if is_assertion(op):
            run.error(op, "has residual shape assertions")


# ------------------------------------------------------------------------------------------ passes


def _refine(run: Run) -> None:
    rewriter = run.rewriter
    for op in rewriter.walk():
        if op.name in SIZE_READERS:
            rewriter.set_attributes(op, {**op.attributes, READY_MARK: UnitAttr()})
    refine(run, REFINE)
    for op in rewriter.walk():
        if READY_MARK in op.attributes:
            rest = {name: value for name, value in op.attributes.items() if name != READY_MARK}
            rewriter.set_attributes(op, rest)


def _canonicalize(run: Run) -> None:
    canonicalize(run, CANONICALIZE)


RECOMPOSE: Final = Pass(
    "stablehlo-ext-chlo-recompose-ops",
    recompose,
    "Replaces custom calls that represent CHLO ops by these ops.",
    on_functions=True,
)
EXT_REFINE_SHAPES: Final = Pass(
    "stablehlo-ext-refine-shapes",
    _refine,
    "refine-shapes, with XLA's custom calls for dynamic ops.",
)
EXT_CANONICALIZE_DYNAMISM: Final = Pass(
    "stablehlo-ext-canonicalize-dynamism",
    _canonicalize,
    "canonicalize-dynamism, with XLA's custom calls for dynamic ops.",
    on_functions=True,
)
VALIDATE: Final = Pass(
    "validate-static-shapes",
    validate,
    "Fails if a size is unknown, or an assertion about sizes remains.",
)


# --------------------------------------------------------------------------------------------------
# XLA's custom calls for dynamic ops that StableHLO does not have.
#
# Source: XLA `stablehlo_ext/IR/stablehlo_ops.cpp`, `transforms/StablehloRefineShapes.cpp`,
# `transforms/StablehloCanonicalizeDynamism.cpp`.


_CALL: Final = "stablehlo.custom_call"
_REDUCE_WINDOW: Final = "stablehlo.dynamic_reduce_window"
_RANDOM: Final = "stablehlo.dynamic_rng_bit_generator"
_TOP_K: Final = "stablehlo.dynamic_top_k"
_APPROX_TOP_K: Final = "stablehlo.dynamic_approx_top_k"

REFINE: Final = Patterns()
"""Patterns for custom calls that the pass `refine-shapes` tries in addition to its own."""
CANONICALIZE: Final = Patterns()
"""Patterns for custom calls that `canonicalize-dynamism` tries in addition to its own."""


def _is_call_of(op: Operation, target: str, *more: str) -> bool:
    """Is the op a custom call of `target` with only default attributes and those in `more`?

    Attributes that are empty arrays are allowed.
    """
    if op.get("call_target_name") != StringAttr(target.encode()):
        return False
    if op.get("backend_config") not in (None, StringAttr(b""), DictAttr(())):
        return False
    if op.get("has_side_effect") not in (None, BoolAttr(False)):
        return False
    allowed = {"api_version", "backend_config", "call_target_name", "has_side_effect", *more}
    given = {*op.properties, *op.attributes} - allowed
    return all(op.get(name) == ArrayAttr(()) for name in given)


def _callee(op: Operation) -> str:
    """Return the name of the function that a custom call names.

    Empty unless it names exactly one.
    """
    given = op.get("called_computations")
    if isinstance(given, ArrayAttr) and len(given.elements) == 1:
        symbol = given.elements[0]
        if isinstance(symbol, SymbolAttr) and not symbol.nested:
            return symbol.root
    return ""


@REFINE.on(_CALL)
def unwrap(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a wrapper call by its operand if the operand still has dynamic sizes.

    A wrapper call keeps the old type of a refined argument. Upstream refuses dynamic sizes here: it
    refines arguments to static sizes only.
    """
    if op.get("call_target_name") != StringAttr(WRAPPER.encode()) or len(op.operands) != 2:
        return False
    if UNKNOWN_SIZE not in (signed_integers(op.operands[1]) or ()) or len(op.results) != 1:
        return False
    operand, result = op.operands[0], op.results[0]
    refine_results(rewriter, op, [operand.type])
    if operand.type != result.type or not rewriter.is_used(op):
        return False
    rewriter.replace_uses(result, operand)
    return True


SIZE_READERS: Final = frozenset(
    ["shape.dim", "shape.shape_of", "tensor.cast", "tensor.dim", "tensor.extract", "tensor.rank"]
)
"""Ops of other dialects that accept operands of any tensor type, most of them to read sizes."""


@REFINE.on("tensor.cast")
def refine_cast(rewriter: Rewriter, op: Operation) -> bool:
    """Refine the result of a `tensor.cast` to the sizes of its operand.

    Upstream refines only StableHLO ops.
    """
    return refine_results(rewriter, op, [op.operands[0].type])


@REFINE.on("shape.shape_of")
def known_shape(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `shape.shape_of` by a constant if all sizes of its operand are static."""
    type = op.operands[0].type
    if not isinstance(type, TensorType) or not type.is_static or not type.rank:
        return False
    return fold_integers(rewriter, op, type.shape)


# --------------------------------------------------------------------------------- reduce_window


class _Windows(NamedTuple):
    """Operands and attributes of the static `reduce_window` that equals a dynamic one."""

    operands: tuple[Value, ...]
    properties: dict[str, Attribute]


_VECTORS: Final = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")


def _windows(op: Operation) -> _Windows | None:
    """Return operands and attributes of the static form of a dynamic `reduce_window`.

    `None` unless all its amounts, such as sizes and strides, are constants.
    """
    count = len(op.results)
    if not _is_call_of(op, _REDUCE_WINDOW, "called_computations") or not _callee(op):
        return None
    if not count or len(op.operands) != 2 * count + 5:
        return None
    values, numbers = op.operands[: 2 * count], op.operands[2 * count :]
    found = [signed_integers(value) for value in numbers]
    rank = getattr(values[0].type, "rank", -1)
    vectors, padding = [v for v in found[:4] if v is not None], found[4]
    if len(vectors) < 4 or padding is None or len(padding) != 2 * rank:
        return None
    if any(len(vector) != rank for vector in vectors):
        return None
    properties: dict[str, Attribute] = {
        name: i64_array(vector) for name, vector in zip(_VECTORS, vectors, strict=True)
    }
    properties["padding"] = i64_tensor(padding, (rank, 2))
    return _Windows(values, properties)


@REFINE.on(_CALL)
def refine_reduce_window(rewriter: Rewriter, op: Operation) -> bool:
    """Refine the results of a dynamic `reduce_window` whose sizes and strides are constants."""
    found = _windows(op)
    if found is None:
        return False
    try:
        draft = made("stablehlo.reduce_window", found.operands, found.properties)
    except HloscopeError:
        return False
    return refine_shapes(rewriter, op, [_sizes(value) for value in draft.results])


def _sizes(value: Value) -> Sizes:
    return value.type.sizes if isinstance(value.type, TensorType) else ()


@CANONICALIZE.on(_CALL)
def static_reduce_window(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a dynamic `reduce_window` call by `reduce_window`; the called body is its region."""
    found = _windows(op)
    function = symbols_of(rewriter.module).get(_callee(op))
    if found is None or function is None or function.name != "func.func":
        return False
    body = _region_of(function)
    if body is None or len(body.block.arguments) != len(found.operands):
        return False
    name = "stablehlo.reduce_window"
    return rewriter.replace_by(op, name, found.operands, found.properties, regions=(body,))


def _region_of(function: Operation) -> Region | None:
    """Return a copy of a function's body as a region; `None` if it has several blocks."""
    if len(function.regions) != 1 or len(function.regions[0].blocks) != 1:
        return None
    region = clone(function, {}).regions[0]
    *inside, last = region.block.operations
    end = Operation("stablehlo.return", last.operands, location=last.location)
    end.source, end.start, end.end = last.source, last.start, last.end
    return region_of(region.block.arguments, (*inside, end))


# ---------------------------------------------------------------------------------- random, top_k


def _random_sizes(op: Operation) -> Dims | None:
    if not _is_call_of(op, _RANDOM, "rng_algorithm"):
        return None
    if len(op.operands) != 2 or len(op.results) != 2 or op.get("rng_algorithm") is None:
        return None
    return signed_integers(op.operands[1])


@REFINE.on(_CALL)
def refine_random(rewriter: Rewriter, op: Operation) -> bool:
    """Refine the results of a dynamic random-number call: the new state, and the bits.

    Their sizes are those of the old state, and those in the shape operand.
    """
    sizes = _random_sizes(op)
    if sizes is None:
        return False
    return refine_shapes(rewriter, op, [_sizes(op.operands[0]), sizes])


@CANONICALIZE.on(_CALL)
def static_random(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a dynamic random-number call by `rng_bit_generator`."""
    algorithm = op.get("rng_algorithm")
    if algorithm is None or _random_sizes(op) is None:
        return False
    given = {"rng_algorithm": algorithm}
    return rewriter.replace_by(op, "stablehlo.rng_bit_generator", op.operands[:1], given)


def _top_k(op: Operation) -> int | None:
    if not _is_call_of(op, _TOP_K) or len(op.operands) != 2 or len(op.results) != 2:
        return None
    return integer(op.operands[1])


@REFINE.on(_CALL)
def refine_top_k(rewriter: Rewriter, op: Operation) -> bool:
    """Refine a dynamic top-k call to the operand's sizes, with `k` in place of the last size."""
    k = _top_k(op)
    if k is None or not isinstance(op.operands[0].type, TensorType):
        return False
    sizes = (*_sizes(op.operands[0])[:-1], k)
    return refine_shapes(rewriter, op, [sizes, sizes])


@CANONICALIZE.on(_CALL)
def static_top_k(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a dynamic top-k call by `chlo.top_k`, unless `k` exceeds the last size."""
    k = _top_k(op)
    sizes = _sizes(op.operands[0]) if k is not None else ()
    if k is None or not sizes or (sizes[-1] is not None and k > sizes[-1]) or k < 0:
        return False
    return rewriter.replace_by(op, "chlo.top_k", op.operands[:1], {"k": IntegerAttr(k, I64)})


@CANONICALIZE.on(_CALL)
def static_approx_top_k(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a dynamic `ApproxTopK` call by a static one with `k` in its configuration."""
    config = op.get("mhlo.backend_config")
    more = ("called_computations", "mhlo.backend_config")
    if not _is_call_of(op, _APPROX_TOP_K, *more) or not isinstance(config, DictAttr):
        return False
    entries, count = dict(config.entries), len(op.results)
    dim = entries.get("reduction_dim")
    # A `top_k` in the configuration would contradict the operand that holds `k`.
    is_right = (
        bool(_callee(op))
        and len(op.operands) == 2 * count + 1
        and isinstance(dim, IntegerAttr)
        and dim.type == I64
        and "top_k" not in entries
    )
    k = integer(op.operands[-1]) if is_right else None
    if k is None:
        return False
    entries["top_k"] = IntegerAttr(k, I64)
    # Dictionary attributes are sorted by name, so that equal ones print and compare equal.
    attributes = {**op.attributes, "mhlo.backend_config": DictAttr(tuple(sorted(entries.items())))}
    properties = {**op.properties, "call_target_name": StringAttr(b"ApproxTopK")}
    return rewriter.replace_by(op, op.name, op.operands[:-1], properties, attributes=attributes)
