"""Operations built from Python values: attributes, inferred result types, broadcasting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, get_args

from hloscope.errors import HloscopeError, UnsupportedError, VerifyError, did_you_mean
from hloscope.ir import (
    Callee,
    Dims,
    KnownTensor,
    Op,
    Signature,
    TensorType,
    TupleType,
    Type,
    encode,
)
from hloscope.mlir import (
    F64,
    I64,
    MOST_SPLAT,
    ArrayAttr,
    Attribute,
    AttributeSlot,
    Block,
    BoolAttr,
    DenseAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    Operation,
    Region,
    StringAttr,
    Value,
    expanded,
    parse_type,
    spell,
)
from hloscope.mlir.dialects import DIALECTS, EMPTY
from hloscope.ops import Extent, GetTupleElement, Table, Tuple, array, extents, numpy_broadcast
from hloscope.stablehlo.kinds import (
    KINDS,
    VERBATIM,
    i64_array,
    kind_of,
    read_verbatim,
    write_struct,
)
from hloscope.stablehlo.op_making import make_op, own_attributes

# --------------------------------------------------------------------------------------------------
# Operations from Python values: attributes by the tables, result types by inference.


TypeLike: TypeAlias = Type | str
"""A type, or its text: `tensor<2x3xf32>`, or short `2x3xf32`."""

CONSTANTS: Final = frozenset(["stablehlo.constant", "arith.constant", "chlo.constant"])
"""Names of the ops whose attribute `value` is the value of their result."""

_ATTRIBUTES: Final = get_args(Attribute)


def as_type(given: TypeLike) -> Type:
    """Return a type unchanged; parse the text of one, `tensor<2x3xf32>` or short `2x3xf32`.

    >>> as_type("2x3xf32") == as_type("tensor<2x3xf32>")
    True

    Raises:
        ParseError: The text is not a type.
    """
    if not isinstance(given, str):
        return given
    text = given.strip()
    is_whole = text.startswith(("tensor<", "tuple<", "!", "(", "vector<")) or text in _SCALARS
    return parse_type(text if is_whole else f"tensor<{text}>", dialects=DIALECTS)


_SCALARS: Final = frozenset(["index", "none"])


def attribute_of(value: Any) -> Attribute:
    """Return the attribute of a Python value: an integer becomes `i64`, a float `f64`.

    Raises:
        TypeError: No attribute has such a value.

    >>> attribute_of([1, True])
    ArrayAttr(elements=(IntegerAttr(value=1, type=ElementType('s64')), BoolAttr(value=True)))
    """
    match value:
        case bool():
            return BoolAttr(value)
        case int():
            return IntegerAttr(value, I64)
        case float():
            return FloatAttr(encode(value, "f64"), F64)
        case str():
            return StringAttr.of(value)
        case dict():
            return DictAttr(tuple(sorted((str(k), attribute_of(v)) for k, v in value.items())))
        case list() | tuple():
            return ArrayAttr(tuple(map(attribute_of, value)))
        case _ if isinstance(value, _ATTRIBUTES):
            return value  # type: ignore[no-any-return]
        case _:
            raise TypeError(f"no attribute is made of a {type(value).__name__}")


def attributes_from(name: str, given: Mapping[str, Any]) -> dict[str, Attribute]:
    """Return attributes of the op `name`, from Python values by their names in MLIR.

    The fields of a structure (`lhs_contracting_dimensions`) may be given separately.

    Raises:
        TypeError: The op has no such attribute, or a value does not fit it.
    """
    rest = dict(given)
    found: dict[str, Attribute] = {}
    dialect = name.partition(".")[0]
    for slot in own_attributes(name):
        parts = structure_fields(slot)
        own = {field: rest.pop(field) for field in parts if field in rest}
        if own:
            values = {k: v if isinstance(v, int) else tuple(v) for k, v in (parts | own).items()}
            found[slot.name] = write_struct(dialect, slot.constraint, values)
        if slot.name not in rest:
            continue
        value = rest.pop(slot.name)
        if value is not None:
            try:
                found[slot.name] = _made(dialect, slot.constraint, value)
            except (TypeError, ValueError, AttributeError) as error:
                message = f"`{slot.name}` of `{name}` cannot be {value!r}: {error}"
                raise TypeError(message) from None
    if rest:
        slots = own_attributes(name)
        known = [word for slot in slots for word in (slot.name, *structure_fields(slot))]
        unknown = next(iter(rest))
        raise TypeError(f"`{name}` has no attribute `{unknown}`{did_you_mean(unknown, known)}")
    return found


def structure_fields(slot: AttributeSlot) -> dict[str, int | tuple[int, ...]]:
    """Return the fields of an attribute that can be given one by one, with their defaults.

    Empty if the attribute `slot` of an op is not a structure.
    """
    is_struct = kind_of(slot.constraint).spreads and slot.constraint in EMPTY
    return EMPTY[slot.constraint] if is_struct else {}


def _made(dialect: str, constraint: str, value: Any) -> Attribute:
    """Return the attribute for a Python value.

    `constraint` is that of the attribute in an op of `dialect`; an attribute is returned unchanged.
    """
    if isinstance(value, _ATTRIBUTES):
        return value  # type: ignore[no-any-return]
    match constraint:
        case "elements" | "table" | "groups" | "ints" if isinstance(value, str):
            return read_verbatim(value)
        case "precision" if isinstance(value, str):
            value = tuple([word.strip() for word in value.strip("[]").split(",") if word.strip()])
        case "precision":
            value = tuple(value)
        case "channel":
            handle, type = value if isinstance(value, tuple | list) else (value, 0)
            value = {"channel_id": handle, "channel_type": type}
        case "gather" | "scatter" | "dot" | "ragged_dot":
            value = dict(value)
        case "dims" | "bools":
            value = tuple(value)
        case "pairs":
            value = tuple(map(tuple, value))
        case "table" | "groups" | "ints":
            value = Table.of(value)
    kind = kind_of(constraint)
    if kind in (VERBATIM, KINDS["elements"]) and not isinstance(value, str):
        return attribute_of(value)
    made = kind.write(value, dialect)
    if made is None:
        raise ValueError("a number is needed")
    return made


def known_type(value: Value) -> Type:
    """Return the type of a value; for a constant of integers, a type that includes the integers."""
    type = value.type
    if not isinstance(type, TensorType) or type.element.kind not in ("signed", "unsigned"):
        return type
    elements = known_integers(value)
    if elements is None or not type.is_static or len(elements) != type.num_elements:
        return type
    return KnownTensor(type.element, type.sizes, type.layout, type.bounds, type.encoding, elements)


def known_integers(value: Value) -> Dims | None:
    """Return the integers of a constant in row-major order; `None` for other values.

    It is also `None` for constants of more than `MOST_SPLAT` elements.

    >>> type = TensorType(I64, (2,))
    >>> constant = Operation("stablehlo.constant", properties={"value": DenseAttr("[1, 2]", type)})
    >>> known_integers(Value(type, constant))
    (1, 2)
    """
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name not in CONSTANTS:
        return None
    return integers_in(owner.get("value"))


def integers_in(literal: Attribute | None) -> Dims | None:
    """Return all integers of a literal in row-major order; `None` if it is none of integers.

    It is also `None` for literals of more than `MOST_SPLAT` elements.
    """
    type = getattr(literal, "type", None)
    if not isinstance(literal, DenseAttr) or not isinstance(type, TensorType):
        return None
    if not type.is_static or type.num_elements > MOST_SPLAT:
        return None
    try:
        found = expanded(literal)
    except (ValueError, HloscopeError):  # not integers: the verifier reports invalid literals
        return None
    return found if len(found) == type.num_elements else None


def operand_types(op: Op, operands: Sequence[Value]) -> tuple[Type, ...]:
    """Return the types of the operands of an op.

    A type includes the integers of a constant if the inference of `op` reads them.
    """
    types = [value.type for value in operands]
    for number in op.reads_values:
        if number < len(types):
            types[number] = known_type(operands[number])
    return tuple(types)


def inferred(op: Op, operands: tuple[Type, ...], calls: Iterable[Callee] = ()) -> tuple[Type, ...]:
    """Return the inferred types of an op's results.

    `calls` are the signatures of its regions.

    Raises:
        VerifyError: The op cannot have these operands.
        NotInferredError: The operands do not determine the types.
    """
    try:
        type = op.infer(operands, tuple(calls))
    except VerifyError as error:
        error.spell = spell
        raise
    if isinstance(type, TupleType) and not isinstance(op, Tuple | GetTupleElement):
        return type.elements
    return (type,)


def signature(region: Region) -> Signature:
    """Return the argument types of a region of one block, and the types of its results."""
    if not region.blocks:
        return Signature()
    block = region.blocks[0]
    results = block.operations[-1].operands if block.operations else ()
    return Signature(
        tuple([value.type for value in block.arguments]), tuple([value.type for value in results])
    )


def made(
    name: str,
    operands: Sequence[Value] = (),
    properties: Mapping[str, Attribute] | None = None,
    *,
    types: Sequence[Type] | None = None,
    regions: tuple[Region, ...] = (),
    attributes: Mapping[str, Attribute] | None = None,
    callee: Callee | None = None,
) -> Operation:
    """Create an operation that is in no block.

    Args:
        name: Full name of the op.
        operands: The operands.
        properties: Inherent attributes by name.
        types: Types of the results; they are inferred if it is `None`.
        regions: The regions.
        attributes: Other attributes by name.
        callee: Signature of the called function; by default those of the regions are used for
            inference.

    Raises:
        VerifyError: The op cannot have these operands or attributes.
        NotInferredError: The operands do not determine the result types.
    """
    results: tuple[Value, ...] = ()
    draft = Operation(name, tuple(operands), (), properties or {}, attributes or {}, regions)
    if types is None:
        op = make_op(draft)
        calls = tuple(map(signature, regions)) if callee is None else (callee,)
        types = inferred(op, operand_types(op, operands), calls)
    results = tuple([Value(type, draft, k) for k, type in enumerate(types)])
    draft.results = results
    return draft


def region_of(arguments: Sequence[Value], operations: Sequence[Operation] = ()) -> Region:
    """Return a region of one block with these arguments and operations."""
    block = Block(tuple(arguments), tuple(operations))
    for k, argument in enumerate(block.arguments):
        argument.owner, argument.index = block, k
    return Region((block,))


# --------------------------------------------------------------------------------------------------
# Broadcasting of arrays to a common shape, as numpy does, bounded dimensions included.
#
# Source: StableHLO `tests/ops_broadcasting.mlir`.


def broadcast_together(values: Sequence[Value]) -> tuple[list[Operation], list[Value]]:
    """Return the operations that broadcast `values`, and the values in their common shape.

    A value of that shape is returned unchanged.

    Raises:
        VerifyError: There are no values, or the shapes are incompatible.
        UnsupportedError: A size is known at run time only and has no bound.
    """
    dims = numpy_broadcast([value.type for value in values])
    if dims is None or any(size is None and most is None for size, most in dims):
        raise UnsupportedError("sizes without a bound cannot be broadcast before they are known")
    operations: list[Operation] = []
    # A bounded dimension gets its run-time size from the first value that has it. Broadcasting
    # makes it static (its bound), then `set_dimension_size` restores the size.
    sources: dict[int, tuple[Value, int]] = {}
    for value in values:
        assert isinstance(value.type, TensorType)
        shift = len(dims) - value.type.rank
        for d, (size, most) in enumerate(extents(value.type)):
            if size is None and most is not None:
                sources.setdefault(d + shift, (value, d))
    return operations, [_stretched(value, dims, sources, operations) for value in values]


def _stretched(
    value: Value,
    dims: list[Extent],
    sources: dict[int, tuple[Value, int]],
    operations: list[Operation],
) -> Value:
    """Return a value broadcast to sizes `dims`; a value of these sizes is returned unchanged.

    Args:
        value: The value.
        dims: Size and bound of each dimension of the result.
        sources: For dimensions of run-time size, a value that has the size and the dimension in it.
        operations: The list that new operations are appended to.
    """
    type_ = value.type
    assert isinstance(type_, TensorType)
    have = extents(type_)
    if have == dims:
        return value
    shift = len(dims) - type_.rank
    own = [(1, None)] * shift + have
    static = [
        (most if size is None else size, None) if mine == (1, None) else mine
        for mine, (size, most) in zip(own, dims, strict=True)
    ]
    along = i64_array(range(shift, len(dims)))
    wide = made(
        "stablehlo.broadcast_in_dim",
        [value],
        {"broadcast_dimensions": along},
        types=[array(type_.element, static)],
    )
    operations.append(wide)
    result = wide.result
    for d, (size, _) in enumerate(dims):
        if size is None and static[d][0] is not None:
            result = _sized(result, d, sources[d], operations)
    return result


def _sized(value: Value, d: int, source: tuple[Value, int], operations: list[Operation]) -> Value:
    """Return `value` with the run-time size of its dimension `d` set to that of another tensor.

    `source` is the other tensor and its dimension; new operations are appended to `operations`.
    """
    other, e = source
    size = made("stablehlo.get_dimension_size", [other], {"dimension": IntegerAttr(e, I64)})
    bounded = made(
        "stablehlo.set_dimension_size", [value, size.result], {"dimension": IntegerAttr(d, I64)}
    )
    operations += [size, bounded]
    return bounded.result
