"""The `shape` dialect as arithmetic on `i32` tensors, and StableHLO's integers as signless."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hloscope.errors import VerifyError
from hloscope.ir import (
    BufferType,
    DialectType,
    ElementType,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
    VectorType,
)
from hloscope.mlir import (
    INDEX,
    Attribute,
    DenseAttr,
    IntegerAttr,
    Operation,
    Value,
    dense_values,
    elements,
    integer_type,
    is_signless,
)
from hloscope.passes.conversion import (
    S32,
    Conversion,
    InsertionPoint,
    convert_signature,
    shaped,
)
from hloscope.passes.framework import Pass, Run
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# `shape-legalize-to-stablehlo`: size computations as arithmetic on `i32` tensors.
#
# Casts connect `index`, which StableHLO does not have, with `tensor<i32>`.  If everything was
# converted, `reconcile-unrealized-casts` erases them.
#
# Source: StableHLO `ShapeLegalizeToStablehlo.cpp`.


PATTERNS: Final = Patterns()

_HIGHEST_RANK: Final = 1 << 12
"""Maximum rank for which sizes are computed: each size needs several ops."""


def _is_index(type: Type) -> bool:
    return type == INDEX or (isinstance(type, TensorType) and type.element == INDEX)


def _is_i32(type: Type) -> bool:
    return isinstance(type, TensorType) and type.element == S32


def _as_i32(type: Type) -> Type | None:
    """Return the type of `i32` that replaces a type of `index`.

    It is a tensor of rank 0 for `index`, and a tensor of the same shape for a static tensor of
    `index` or `i32`; `None` for other types.
    """
    if type == INDEX:
        return shaped(S32)
    if isinstance(type, TensorType) and type.is_static and type.element in (S32, INDEX):
        return shaped(S32, *type.sizes)
    return None


class _Inserter(InsertionPoint):
    """An insertion point with conversions between `index` and `i32`."""

    __slots__ = ()

    def to_i32(self, value: Value) -> Value:
        """Return a value of `index` cast to `i32`."""
        type = _as_i32(value.type)
        assert type is not None
        return value if value.type == type else self.cast(value, type)

    def to_index(self, value: Value) -> Value:
        """Return a tensor of `i32` cast to `index`."""
        assert isinstance(value.type, TensorType)
        return self.cast(value, shaped(INDEX, *value.type.sizes) if value.type.rank else INDEX)


def _constant_index(value: Value) -> int | None:
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "arith.constant" and value.type == INDEX:
        found = owner.get("value")
        return found.value if isinstance(found, IntegerAttr) else None
    return None


def _fits_i32(value: int) -> int:
    """Return the signed integer whose bits are the low 32 bits of `value`."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


@PATTERNS.on("shape.const_shape")
def const_shape(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `shape.const_shape` by a constant of `i32`."""
    given, type = op.get("shape"), op.result.type
    if not isinstance(type, TensorType) or not isinstance(given, DenseAttr):
        return False
    try:
        sizes = [_fits_i32(size) for size in dense_values(given)]
    except (ValueError, VerifyError):
        return False
    count = type.sizes[0] if type.rank == 1 else None
    if len(sizes) == 1 and count is not None and count <= _HIGHEST_RANK:
        sizes *= count
    if len(sizes) != count:
        return False
    at = _Inserter(rewriter, op)
    rewriter.replace(op, [at.to_index(at.constant(sizes, S32))])
    return True


@PATTERNS.on("arith.muli")
def multiply(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a product of `index` values by one of `i32`."""
    values = (*op.operands, *op.results)
    if not all(_is_index(value.type) and _as_i32(value.type) for value in values):
        return False
    at, operands = _Inserter(rewriter, op), []
    for value in op.operands:
        known = _constant_index(value)
        made = at.to_i32(value) if known is None else at.constant(_fits_i32(known), S32)
        operands.append(made)
    rewriter.replace(op, [at.to_index(at.infer("stablehlo.multiply", *operands))])
    return True


@PATTERNS.on("arith.index_cast")
def index_cast(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a cast between `index` and integers by a conversion; a scalar becomes rank 0."""
    value, wanted, at = op.operands[0], op.result.type, _Inserter(rewriter, op)
    if value.type == INDEX:
        made = at.to_i32(value)
        if wanted != S32:
            made = at.convert(made, shaped(wanted))  # type: ignore[arg-type]
        made = at.cast(made, wanted)
    elif not isinstance(value.type, TensorType):
        if wanted != INDEX:
            return False
        made = at.cast(at.cast(value, shaped(value.type)), wanted)  # type: ignore[arg-type]
    elif not (_as_i32(value.type) and _as_i32(wanted)):
        return False
    else:
        made = at.to_i32(value)
        made = at.to_index(made) if _is_index(wanted) else made
    rewriter.replace(op, [made])
    return True


@PATTERNS.on("shape.num_elements")
def num_elements(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `shape.num_elements` by the product of all sizes."""
    type = op.operands[0].type
    as_i32 = _as_i32(type)
    if not isinstance(as_i32, TensorType) or op.result.type != INDEX or as_i32.rank != 1:
        return False
    if as_i32.num_elements > _HIGHEST_RANK:
        return False
    at = _Inserter(rewriter, op)
    sizes, product = at.to_i32(op.operands[0]), at.constant(1, S32)
    for k in range(as_i32.num_elements):
        size = at.reshape(at.slice(sizes, [k], [k + 1]))
        product = at.infer("stablehlo.multiply", product, size)
    rewriter.replace(op, [at.to_index(product)])
    return True


@PATTERNS.on("shape.shape_of")
def shape_of(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `shape.shape_of` by the concatenated sizes of the tensor, as `i32`."""
    value, wanted = op.operands[0], op.result.type
    if not isinstance(value.type, TensorType) or wanted != shaped(INDEX, value.type.rank):
        return False
    at = _Inserter(rewriter, op)
    sizes = [at.reshape(at.size(value, k), 1) for k in range(value.type.rank)]
    rewriter.replace(op, [at.to_index(at.concatenate(sizes) if sizes else at.constant([], S32))])
    return True


@PATTERNS.on("shape.broadcast")
def broadcast(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `shape.broadcast` by the maximum of sizes; the shorter shape gets leading ones."""
    types = [_as_i32(value.type) for value in op.operands]
    ranks = [type.sizes[0] for type in types if isinstance(type, TensorType) and type.rank == 1]
    if len(op.operands) != 2 or len(ranks) != 2 or None in ranks:
        return False
    counts = [rank for rank in ranks if rank is not None]
    longest = max(counts)
    if op.result.type != shaped(INDEX, longest):
        return False
    at = _Inserter(rewriter, op)
    shapes = [at.to_i32(value) for value in op.operands]
    # Compatible sizes are equal, or one of them is 1: the larger one is the broadcast size, as
    # upstream computes it.  (Sizes of 0 are not considered there either.)
    for k, count in enumerate(counts):
        if count < longest:
            ones = at.splat("1", shaped(S32, longest - count))
            shapes[k] = at.concatenate((ones, shapes[k]))
    rewriter.replace(op, [at.to_index(at.infer("stablehlo.maximum", *shapes))])
    return True


@PATTERNS.on("stablehlo.dynamic_broadcast_in_dim", "stablehlo.dynamic_reshape")
def cast_operands(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a shape operand of element type `index` by one of `i32`."""
    if not all(_as_i32(value.type) for value in op.operands if _is_index(value.type)):
        return False
    at = _Inserter(rewriter, op)
    rewriter.set_operands(op, [at.to_i32(v) if _is_index(v.type) else v for v in op.operands])
    return True


@PATTERNS.on("tensor.dim")
def dim(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `tensor.dim` of a constant dimension number by the size, computed as `i32`."""
    source, number = op.operands[0], _constant_index(op.operands[1])
    if number is None or not isinstance(source.type, TensorType):
        return False
    if not 0 <= number < source.type.rank:
        return False
    at = _Inserter(rewriter, op)
    rewriter.replace(op, [at.to_index(at.size(source, number))])
    return True


@PATTERNS.on("tensor.extract")
def extract(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `tensor.extract` at a constant index by a slice of one element."""
    source = op.operands[0]
    type = source.type
    if not isinstance(type, TensorType) or not (_is_index(type) or _is_i32(type)):
        return False
    if not type.is_static or len(op.operands) != 1 + type.rank:
        return False
    starts = []
    for value, size in zip(op.operands[1:], type.shape, strict=True):
        start = _constant_index(value)
        if start is None or not 0 <= start < size:
            return False
        starts.append(start)
    at = _Inserter(rewriter, op)
    part = at.slice(at.to_i32(source), starts, [start + 1 for start in starts])
    rewriter.replace(op, [at.cast(at.reshape(part), op.result.type)])
    return True


@PATTERNS.on("tensor.from_elements")
def from_elements(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `tensor.from_elements` by a concatenation; a single element only changes its type."""
    type = op.result.type
    if not isinstance(type, TensorType) or type.rank > 1 or not type.is_static:
        return False
    at = _Inserter(rewriter, op)
    if type.rank == 0:
        if len(op.operands) != 1:
            return False
        rewriter.replace(op, [at.cast(op.operands[0], type)])
        return True
    if not _is_index(type) or len(op.operands) != type.sizes[0] or not op.operands:
        return False
    if any(value.type != INDEX for value in op.operands):
        return False
    parts = []
    for value in op.operands:
        known = _constant_index(value)
        if known is None:
            parts.append(at.reshape(at.to_i32(value), 1))
        else:
            parts.append(at.constant([_fits_i32(known)], S32))
    rewriter.replace(op, [at.to_index(at.concatenate(parts))])
    return True


_ILLEGAL: Final = frozenset(["arith.index_cast", "arith.muli"])
_LEGAL: Final = frozenset(["tensor.cast"])


def _is_legal(operation: Operation) -> bool:
    name = operation.name
    dialect = name.partition(".")[0]
    if dialect in ("shape", "tensor"):
        return name in _LEGAL
    if dialect == "stablehlo":
        return not any(_is_index(value.type) for value in operation.operands)
    return name not in _ILLEGAL


def _legalize_shapes(run: Run) -> None:
    Conversion(run, PATTERNS, _is_legal).convert_functions()


SHAPE_TO_STABLEHLO: Final = Pass(
    "shape-legalize-to-stablehlo",
    _legalize_shapes,
    "Converts size computations (shape, tensor, index) to StableHLO on i32 tensors.",
    on_functions=True,
)


# --------------------------------------------------------------------------------------------------
# `stablehlo-convert-to-signless`: makes all integer types signless, with unchanged bits.
#
# Ops that depend on signedness (`divide`, `compare`, `convert`) treat all operands as signed
# afterwards, as in upstream.
#
# Source: StableHLO `StablehloConvertToSignless.cpp`.


_WIDTH: Final = pattern(r"(?<=[x<])[us]i(\d+)\b")


def signless(type: Type) -> Type:
    """Return the type with each unsigned integer type replaced by the signless one of its width.

    >>> from hloscope.ir import ELEMENT_TYPES
    >>> signless(TensorType(ELEMENT_TYPES["u8"], (3,)))
    TensorType('s8[3]')
    """
    match type:
        case TensorType(element) | UnrankedTensorType(element) | VectorType(element):
            new = _element(element)
            return type if new is element else replace(type, element=new)
        case ElementType():
            return _element(type)
        case TupleType(parts):
            return _tuple(type, parts)
        case BufferType(array):
            inner = signless(array)
            return BufferType(inner) if isinstance(inner, TensorType) else type
        case DialectType() if type.text.startswith("memref<"):
            # Other buffer types are not parsed, so that their text is changed.
            return replace(type, text=_WIDTH.sub(r"i\1", type.text))
        case _:
            return type


def _tuple(type: TupleType, parts: tuple[Type, ...]) -> TupleType:
    """Return the tuple type with elements `parts`.

    Nested tuples are returned unchanged, as in upstream.
    """
    new = tuple([part if isinstance(part, TupleType) else signless(part) for part in parts])
    return TupleType(new) if new != parts else type


def _element(element: ElementType) -> ElementType:
    integer = element.kind in ("signed", "unsigned") and not isinstance(element, QuantizedType)
    if not integer or is_signless(element) or element.name == "index":
        return element
    return integer_type(f"i{element.bits}") or element


def _constant(value: Attribute) -> Attribute:
    """Return a literal with the same bits and signless integers; other attributes are unchanged."""
    if not isinstance(value, DenseAttr):
        return value
    type = signless(value.type)
    if type == value.type:
        return value
    try:
        return DenseAttr(elements(value).raw, type)
    except VerifyError:
        return value


def _make_signless(run: Run) -> None:
    """Replace unsigned integers by signless ones, in types and in constants."""
    rewriter = run.rewriter
    for operation in [*rewriter.walk()]:
        arguments = [a for block in operation.blocks for a in block.arguments]
        for value in (*operation.results, *arguments):
            new = signless(value.type)
            if new != value.type:
                rewriter.set_type(value, new)
                run.fired["signless"] += 1
        if operation.name == "func.func":
            convert_signature(rewriter, operation, signless)
        given = operation.properties.get("value")
        if given is not None and operation.name in ("stablehlo.constant", "arith.constant"):
            rewriter.set_properties(operation, {**operation.properties, "value": _constant(given)})


SIGNLESS: Final = Pass(
    "stablehlo-convert-to-signless",
    _make_signless,
    "Makes all integer types signless.",
)
