"""Helpers of type inference: labelled checks, unknown sizes, registration of op classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

from hloscope.errors import MessageTemplate, Name, VerifyError, message_of
from hloscope.ir import (
    ELEMENT_TYPES,
    BufferType,
    Callee,
    Dims,
    ElementType,
    KnownTensor,
    Op,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    Types,
)

# --------------------------------------------------------------------------------------------------
# Helpers of type inference: labelled checks, sizes that may be unknown, tuples of results.
#
# A dimension is an `Extent`: its size (`None` if it is known only at run time) and its bound.


Extent: TypeAlias = tuple[int | None, int | None]

PRED = ELEMENT_TYPES["pred"]
S32 = ELEMENT_TYPES["s32"]
U32 = ELEMENT_TYPES["u32"]
_PART_OF = {"c64": ELEMENT_TYPES["f32"], "c128": ELEMENT_TYPES["f64"]}
_COMPLEX_OF = {"f32": ELEMENT_TYPES["c64"], "f64": ELEMENT_TYPES["c128"]}


def require(condition: bool, rule: str, message: str | MessageTemplate) -> None:
    """Raise a `VerifyError` unless a condition holds.

    Args:
        condition: The condition.
        rule: Label of the constraint, which the error has.
        message: Text of the error.
    """
    if not condition:
        raise VerifyError(message, rule=rule)


def count(op: str, operands: Sequence[object], needed: int, *, at_least: bool = False) -> None:
    """Check that the op has `needed` operands; with `at_least`, it may have more.

    `op` is the name of the op for the message, `operands` are its operands.

    Raises:
        VerifyError: The number is wrong.
    """
    found = len(operands)
    if found != needed and not (at_least and found > needed):
        more = " or more" if at_least else ""
        raise VerifyError(
            message_of(f"`{{}}` has {found} operands, needs {needed}{more}", Name(op))
        )


def tensor(op: str, type_: Type, noun: str) -> TensorType:
    """Return `type_` if it is an array type; for a buffer, return its array type.

    Args:
        op: Name of the op, for the message.
        type_: The type.
        noun: Name of the operand or result of that type, for the message.

    Raises:
        VerifyError: `type_` is neither an array type nor a buffer.
    """
    if isinstance(type_, BufferType):
        return type_.element
    if not isinstance(type_, TensorType):
        raise VerifyError(
            message_of(f"{noun} of `{{}}` is a {kind(type_)}, needs an array", Name(op))
        )
    return type_


def tensors(op: str, types: Sequence[Type], needed: int | None = None) -> list[TensorType]:
    """Return all types as array types, after checking that there are `needed`, if that is given.

    Raises:
        VerifyError: A type is not an array type, or their number is wrong.
    """
    if needed is not None:
        count(op, types, needed)
    return [tensor(op, t, f"operand {i}") for i, t in enumerate(types)]


def kind(type_: Type) -> str:
    """Return a word for the kind of a type in messages: `tuple`, `token`, `opaque` …."""
    return type(type_).__name__.removesuffix("Type").lower()


def scalar(op: str, type_: Type, noun: str, rule: str) -> TensorType:
    """Return `type_` if it is an array type of rank 0.

    Args:
        op: Name of the op, for the message.
        type_: The type.
        noun: Name of the operand or result of that type, for the message.
        rule: Label of the constraint.

    Raises:
        VerifyError: The type is not an array type of rank 0.
    """
    array = tensor(op, type_, noun)
    require(array.rank == 0, rule, f"{noun} has rank {array.rank}, needs 0")
    return array


def without_layouts(type_: Type) -> Type:
    """Return `type_` without layouts, also inside tuples.

    >>> from hloscope.ir.types import Layout
    >>> without_layouts(TensorType(S32, (2, 3), Layout((0, 1)))) == TensorType(S32, (2, 3))
    True
    """
    match type_:
        case TensorType():
            return TensorType(type_.element, type_.sizes, None, type_.bounds, type_.encoding)
        case TupleType():
            return TupleType(tuple(map(without_layouts, type_.elements)))
        case BufferType():
            return BufferType(
                TensorType(type_.element.element, type_.element.sizes, None, type_.element.bounds)
            )
        case _:
            return type_


def packed(types: Iterable[Type]) -> Type:
    """Return the type of an op with these result types: the only one, or their tuple.

    Layouts are removed.
    """
    bares = tuple(map(without_layouts, types))
    return bares[0] if len(bares) == 1 else TupleType(bares)


def leaves(type_: Type) -> Types:
    """Return the types of the results of an op of type `type_`: the elements of a tuple type."""
    return type_.elements if isinstance(type_, TupleType) else (type_,)


def returned(op: str, calls: Sequence[Callee], index: int = 0) -> Type:
    """Return the type of the value that called computation number `index` returns.

    `op` is the name of the op, for the message; `calls` are its called computations.

    Raises:
        VerifyError: There are fewer called computations.
    """
    if index >= len(calls):
        raise VerifyError(
            message_of(f"`{{}}` calls {len(calls)} computations, needs {index + 1}", Name(op))
        )
    return packed(calls[index].results)


def known_elements(type_: Type) -> tuple[int, ...] | None:
    """Return the elements of a constant integer operand in row-major order; `None` for others.

    The elements are known only for operands that the op lists in `reads_values`.
    """
    return type_.value if isinstance(type_, KnownTensor) else None


# --- element types --------------------------------------------------------------------------


def real_part(element: ElementType) -> ElementType:
    """Return the element type of the parts of a complex type; of a real type, the type itself."""
    return _PART_OF.get(element.name, element)


def complex_of(element: ElementType, rule: str = "") -> ElementType:
    """Return the complex type whose parts have this float type.

    `rule` is the label of the constraint that there is one.

    Raises:
        VerifyError: There is none.
    """
    if element.name not in _COMPLEX_OF:
        message = f"element type {element} has no complex type, needs f32 or f64"
        raise VerifyError(message, rule=rule)
    return _COMPLEX_OF[element.name]


def wider(a: ElementType, b: ElementType) -> ElementType:
    """Return the wider element type: by kind (integer, float, complex), then by bits."""
    kinds = ("pred", "unsigned", "signed", "float", "complex")
    return max(a, b, key=lambda e: (kinds.index(e.kind), e.bits))


def common_element(op: str, types: Sequence[TensorType], rule: str = "") -> ElementType:
    """Return the common element type of operands.

    For float types, which HLO may mix, it is the widest one.  For quantized types, whose scales may
    differ, it is the first one.

    Args:
        op: Name of the op, for the message.
        types: Types of the operands.
        rule: Label of the constraint that there is a common type.

    Raises:
        VerifyError: There is no common type.
    """
    best = types[0].element
    for i, t in enumerate(types):
        if t.element is best or t.element == best or _quantized_compatibly(t.element, best):
            continue
        mixed = {t.element.kind, best.kind} in ({"float"}, {"complex"})
        message = message_of(
            f"operand {i} of `{{}}` has element type {t.element}, needs {best}", Name(op)
        )
        require(mixed, rule, message)
        best = wider(best, t.element)
    return best


def _quantized_compatibly(a: ElementType, b: ElementType) -> bool:
    """Do both quantized types have storage types of one width, and one expressed type?"""
    return (
        isinstance(a, QuantizedType)
        and isinstance(b, QuantizedType)
        and a.storage.bits == b.storage.bits
        and a.expressed == b.expressed
    )


def promotable(a: ElementType, b: ElementType, *, any_float: bool = False) -> bool:
    """Is `b` of the same kind as `a` and at least as wide?

    With `any_float`, every float type counts as wide enough.  Quantized types are compared by their
    storage types, and must have the same expressed type.

    >>> promotable(S32, ELEMENT_TYPES["s64"]), promotable(S32, ELEMENT_TYPES["f64"])
    (True, False)
    """
    if isinstance(a, QuantizedType) and isinstance(b, QuantizedType):
        return a.expressed == b.expressed and a.storage.bits <= b.storage.bits
    if _broad_kind(a) != _broad_kind(b) or "index" in (a.name, b.name):
        return False  # here an index is not an integer
    if any_float and a.kind == "float":
        return True
    return (1 if a == PRED else a.bits) <= (1 if b == PRED else b.bits)


def _broad_kind(element: ElementType) -> str:
    return "integer" if element.kind in ("pred", "signed", "unsigned") else element.kind


def same_elements(types: Sequence[TensorType], *, any_float: bool = True) -> bool:
    """Do all of `types` have one element type?  With `any_float`, all float types count as one."""
    if not types:
        return True
    first = types[0].element
    return all(
        t.element == first or (any_float and t.element.kind == first.kind == "float") for t in types
    )


def compatible_shapes(a: TensorType, b: TensorType) -> bool:
    """Could one array have the type `a` and the type `b`, element types and bounds aside?

    >>> compatible_shapes(TensorType(S32, (2, None)), TensorType(U32, (None, 3)))
    True
    """
    return a.rank == b.rank and all(map(may_be_one_size, a.sizes, b.sizes))


def may_be_one_size(a: int | None, b: int | None) -> bool:
    """Could `a` and `b` be sizes of the same dimension? `None` is an unknown size."""
    return a is None or b is None or a == b


# --- sizes ----------------------------------------------------------------------------------


def extents(type_: TensorType) -> list[Extent]:
    """Return the extents of all dimensions: pairs (size, bound)."""
    return list(zip(type_.sizes, type_.each_bound, strict=True))


def with_element(type_: TensorType, element: ElementType) -> TensorType:
    """Return the array type with the sizes of `type_` and another element type, without layout."""
    return TensorType(element, type_.sizes, None, type_.bounds, type_.encoding)


def array(element: ElementType, dims: Iterable[Extent], encoding: str = "") -> TensorType:
    """Return the array type with these dimensions, without layout.

    A type with bounds has no encoding.

    >>> array(S32, [(2, None), (None, 8)]).sizes
    (2, None)
    """
    dims = tuple(dims)
    sizes = tuple(size for size, _ in dims)
    bounds = tuple(bound for _, bound in dims) if None in sizes else ()
    if encoding and any(bound is not None for bound in bounds):
        encoding = ""
    return TensorType(element, sizes, None, bounds, encoding)


def static(sizes: Iterable[int]) -> list[Extent]:
    """Return the extents, pairs (size, `None`), of dimensions of known sizes."""
    return [(size, None) for size in sizes]


def resized(extent: Extent, change: Callable[[int], int]) -> Extent:
    """Return an extent with `change` applied to its size and to its bound, if these are known."""
    size, bound = (None if number is None else change(number) for number in extent)
    return size, bound


def may_equal(a: Extent, b: Extent) -> bool:
    """Could two extents, pairs (size, bound), describe the same dimension, bounds aside?"""
    return None in (a[0], b[0]) or a[0] == b[0]


def merged(a: Extent, b: Extent) -> Extent:
    """Return the most specific extent of one dimension: a known size, else the lower bound.

    Source: StableHLO `type_inference.md`, table of merged dimensions.

    >>> merged((3, None), (None, 5)), merged((None, 5), (None, 4))
    ((3, None), (None, 4))
    """
    if a[0] is not None or b[0] is not None:
        return (b[0] if a[0] is None else a[0]), None
    return None, min((x for x in (a[1], b[1]) if x is not None), default=None)


def either(a: Extent, b: Extent) -> Extent:
    """Return the least specific extent of one dimension of two alternative values.

    The values are for example the results of two branches.

    Source: StableHLO `type_inference.md`, table of conditional branches.

    >>> either((3, None), (None, 5)), either((None, 5), (None, None))
    ((None, 5), (None, None))
    """
    if a[0] is not None and b[0] is not None:
        return a
    most = [x[1] if x[0] is None else x[0] for x in (a, b)]
    return None, None if None in most else max(x for x in most if x is not None)


def concatenated(a: Extent, b: Extent) -> Extent:
    """Return the extent of the dimension along which two arrays of extents a and b are joined.

    >>> concatenated((2, None), (3, None)), concatenated((2, None), (None, 5))
    ((5, None), (None, 7))
    """
    if a[0] is not None and b[0] is not None:
        return a[0] + b[0], None
    most = [x[1] if x[0] is None else x[0] for x in (a, b)]
    return None, None if None in most else sum(filter(None, most))


def check_compatible_extents(d: int, a: Extent, b: Extent, rule: str = "") -> None:
    """Check that two extents can both describe dimension `d` of one array.

    An extent is a pair of size and bound, `None` if unknown. `rule` is the constraint's label.

    Raises:
        VerifyError: Sizes differ, or a size exceeds a bound.
    """
    if a[0] is not None and b[0] is not None:
        message = f"Mismatched dimension sizes {a[0]} and {b[0]} in dimension {d}"
        require(a[0] == b[0], rule, message)
    size, bound = (a[0], b[1]) if b[0] is None else (b[0], a[1])
    if size is not None and bound is not None:
        message = f"Mismatched dimension size {size} and bound {bound} in dimension {d}"
        require(size <= bound, rule, message)


def same_sizes(op: str, types: Sequence[TensorType], rule: str = "") -> list[Extent]:
    """Return the common dimensions of all types, as specific as possible.

    Args:
        op: Name of the op, for the message.
        types: The array types.
        rule: Label of the constraint that sizes agree.

    Raises:
        VerifyError: Ranks or sizes differ.
    """
    result = extents(types[0])
    # Operands often share one type object, so each object is compared only once.
    seen = {id(types[0])}
    for i, t in enumerate(types):
        if id(t) in seen:
            continue
        seen.add(id(t))
        require(
            t.rank == len(result),
            rule,
            message_of(f"operand {i} of `{{}}` has rank {t.rank}, needs {len(result)}", Name(op)),
        )
        for d, (extent, common) in enumerate(zip(extents(t), result, strict=True)):
            if extent == common:
                continue
            require(
                may_equal(extent, common),
                rule,
                message_of(
                    f"dimension {d}: operand {i} of `{{}}` has size {extent[0]}, needs {common[0]}",
                    Name(op),
                ),
            )
            check_compatible_extents(d, extent, common, rule)
            result[d] = merged(extent, common)
    return result


def size_text(size: int | None) -> str:
    """Return a size as text for messages; `?` if it is unknown."""
    return "?" if size is None else str(size)


def raw_size(size: int | None) -> str:
    """Return a size as text; an unknown one is -2^63, as in some messages of StableHLO."""
    return str(-(1 << 63) if size is None else size)


def raw_sizes(type_: TensorType) -> str:
    """Return the sizes of an array type as text, as `raw_size` writes them, with commas."""
    return ", ".join(map(raw_size, type_.sizes))


def sizes_text(sizes: Iterable[int | None]) -> str:
    """Return sizes as text for messages, separated by commas.

    >>> sizes_text((1, None, 8))
    '1, ?, 8'
    """
    return ", ".join(map(size_text, sizes))


def check_distinct(lhs: Dims, rhs: Dims, lhs_name: str, rhs_name: str, rule: str) -> None:
    """Check that no dimension occurs twice in `lhs` and `rhs` together.

    Args:
        lhs: First list of dimensions.
        rhs: Second list of dimensions.
        lhs_name: Name of the first list, for the message.
        rhs_name: Name of the second list, for the message.
        rule: Label of the constraint.
    """
    seen: set[int] = set()
    for d in (*lhs, *rhs):
        require(
            d not in seen, rule, f"has duplicated dimension from {lhs_name} and {rhs_name}: {d}"
        )
        seen.add(d)


def check_in_bounds(
    dim: int, upper: int, name: str, upper_name: str, rule: str, *, inclusive: bool = False
) -> None:
    """Check that `dim` is in `[0, upper)`, or in `[0, upper]` if `inclusive`.

    Args:
        dim: The number to check.
        upper: Upper bound of the number.
        name: Name of `dim`, for the message.
        upper_name: Name of `upper`, for the message.
        rule: Label of the constraint.
        inclusive: Is `upper` itself allowed?
    """
    end = "]" if inclusive else ")"
    require(
        0 <= dim < upper + inclusive,
        rule,
        f"Expects {name} to be in range [0, {upper_name}{end} i.e. [0, {upper}{end}. got: {dim}.",
    )


def check_all_in_bounds(dims: Dims, upper: int, name: str, upper_name: str, rule: str) -> None:
    """Check that each of `dims` is in `[0, upper)`.

    Args:
        dims: The numbers to check.
        upper: Exclusive upper bound of the numbers.
        name: Name of `dims`, for the message.
        upper_name: Name of `upper`, for the message.
        rule: Label of the constraint.
    """
    for dim in dims:
        require(
            0 <= dim < upper,
            rule,
            f"Expects each element of {name} to be in range [0, {upper_name}) i.e. [0, {upper})."
            f" got: {dim}.",
        )


def without(items: Sequence[Extent], dims: Iterable[int]) -> list[Extent]:
    """Return `items` without the entries at the indices `dims`."""
    dropped = set(dims)
    return [x for i, x in enumerate(items) if i not in dropped]


def halves(op: str, operands: Types) -> tuple[list[TensorType], list[TensorType]]:
    """Return the types of the N inputs and of the N initial values of a reduction.

    Args:
        op: Name of the op, for the message.
        operands: Types of all operands, inputs first.

    Raises:
        VerifyError: The number of operands is 0 or odd, or a type is not an array type.
    """
    if not operands or len(operands) % 2:
        raise VerifyError(
            message_of(
                f"`{{}}` has {len(operands)} operands, needs as many inputs as inits", Name(op)
            )
        )
    types = tensors(op, operands)
    middle = len(types) // 2
    return types[:middle], types[middle:]


# --------------------------------------------------------------------------------------------------
# Registration of op classes by name, and value types of their parameters.


OPS: Final[dict[str, type[Op]]] = {}
"""Classes of ops by the op's name."""

_O = TypeVar("_O", bound=type[Op])


def op(name: str) -> Callable[[_O], _O]:
    """Return a class decorator that registers an op class as `name`; it must be the outermost."""

    def register(cls: _O) -> _O:
        assert name not in OPS, name
        cls.name = name
        OPS[name] = cls
        return cls

    return register


Pairs = tuple[tuple[int, int], ...]
"""Pairs of integers, such as (low, high) for each dimension or (source, target)."""
