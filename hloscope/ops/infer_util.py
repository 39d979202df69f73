"""What typings share: checks with labels, sizes that may be unknown, tuples of results.

A size is an `Extent`, a pair of the size (`None`: known at run time only) and its bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from hloscope.errors import Name, Said, VerifyError, said
from hloscope.ir import (
    ELEMENT_TYPES,
    BufferType,
    Callee,
    Dims,
    ElementType,
    KnownTensor,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
)

Extent: TypeAlias = tuple[int | None, int | None]

PRED = ELEMENT_TYPES["pred"]
S32 = ELEMENT_TYPES["s32"]
U32 = ELEMENT_TYPES["u32"]
_PART_OF = {"c64": ELEMENT_TYPES["f32"], "c128": ELEMENT_TYPES["f64"]}
_COMPLEX_OF = {"f32": ELEMENT_TYPES["c64"], "f64": ELEMENT_TYPES["c128"]}


def require(condition: bool, rule: str, message: str | Said) -> None:
    """Raise `VerifyError` with the label `rule` unless `condition` holds."""
    if not condition:
        raise VerifyError(message, rule=rule)


def count(op: str, operands: Sequence[object], needed: int, *, at_least: bool = False) -> None:
    """Check the number of operands."""
    found = len(operands)
    if found != needed and not (at_least and found > needed):
        more = " or more" if at_least else ""
        raise VerifyError(said(f"`{{}}` has {found} operands, needs {needed}{more}", Name(op)))


def tensor(op: str, type_: Type, what: str) -> TensorType:
    """`type_` itself; it has to be an array."""
    if isinstance(type_, BufferType):
        return type_.element
    if not isinstance(type_, TensorType):
        raise VerifyError(said(f"{what} of `{{}}` is a {kind(type_)}, needs an array", Name(op)))
    return type_


def tensors(op: str, types: Iterable[Type]) -> list[TensorType]:
    """All operands; they have to be arrays."""
    return [tensor(op, t, f"operand {i}") for i, t in enumerate(types)]


def kind(type_: Type) -> str:
    """`tuple`, `token`, `opaque` … for messages."""
    return type(type_).__name__.removesuffix("Type").lower()


def scalar(op: str, type_: Type, what: str, rule: str) -> TensorType:
    """`type_` itself; it has to be an array of rank 0."""
    array = tensor(op, type_, what)
    require(array.rank == 0, rule, f"{what} has rank {array.rank}, needs 0")
    return array


def bare(type_: Type) -> Type:
    """`type_` without layouts.

    >>> from hloscope.ir.types import Layout
    >>> bare(TensorType(S32, (2, 3), Layout((0, 1)))) == TensorType(S32, (2, 3))
    True
    """
    match type_:
        case TensorType():
            return TensorType(type_.element, type_.sizes, None, type_.bounds, type_.encoding)
        case TupleType():
            return TupleType(tuple(map(bare, type_.elements)))
        case BufferType():
            return BufferType(
                TensorType(type_.element.element, type_.element.sizes, None, type_.element.bounds)
            )
        case _:
            return type_


def packed(types: Iterable[Type]) -> Type:
    """The type of an op with these results: one as it is, several as a tuple.  No layouts."""
    bares = tuple(map(bare, types))
    return bares[0] if len(bares) == 1 else TupleType(bares)


def leaves(type_: Type) -> tuple[Type, ...]:
    """The results packed in `type_`."""
    return type_.elements if isinstance(type_, TupleType) else (type_,)


def returned(op: str, calls: Sequence[Callee], index: int = 0) -> Type:
    """Type that a called computation returns."""
    if index >= len(calls):
        raise VerifyError(
            said(f"`{{}}` calls {len(calls)} computations, needs {index + 1}", Name(op))
        )
    return packed(calls[index].results)


def known(type_: Type) -> tuple[int, ...] | None:
    """The value of an operand, row by row, if it is a constant of integers; else `None`.

    Ops see it for the operands that they name in `reads_values`.
    """
    return type_.value if isinstance(type_, KnownTensor) else None


# --- element types --------------------------------------------------------------------------


def real_part(element: ElementType) -> ElementType:
    """Element type of the parts of a complex type; of a real type itself."""
    return _PART_OF.get(element.name, element)


def complex_of(element: ElementType, rule: str = "") -> ElementType:
    """The complex type with parts of this type."""
    if element.name not in _COMPLEX_OF:
        message = f"element type {element} has no complex type, needs f32 or f64"
        raise VerifyError(message, rule=rule)
    return _COMPLEX_OF[element.name]


def wider(a: ElementType, b: ElementType) -> ElementType:
    """The element type that holds more: complex, then floating point, then bits."""
    kinds = ("pred", "unsigned", "signed", "float", "complex")
    return max(a, b, key=lambda e: (kinds.index(e.kind), e.bits))


def common_element(op: str, types: Sequence[TensorType], rule: str = "") -> ElementType:
    """The element type of all; of two floating-point types (HLO may mix them) the wider one.

    Of quantized types, whose scales and granularity may differ, it is the first one.
    """
    best = types[0].element
    for i, t in enumerate(types):
        if t.element is best or t.element == best or _quantized_alike(t.element, best):
            continue
        mixed = {t.element.kind, best.kind} in ({"float"}, {"complex"})
        message = said(
            f"operand {i} of `{{}}` has element type {t.element}, needs {best}", Name(op)
        )
        require(mixed, rule, message)
        best = wider(best, t.element)
    return best


def _quantized_alike(a: ElementType, b: ElementType) -> bool:
    return (
        isinstance(a, QuantizedType)
        and isinstance(b, QuantizedType)
        and a.storage.bits == b.storage.bits
        and a.expressed == b.expressed
    )


def promotable(a: ElementType, b: ElementType, *, any_float: bool = False) -> bool:
    """Is `b` of the kind of `a` and no narrower?  Floats of any width are with `any_float`.

    Quantized types are told by their storage types, and have to express the same type.

    >>> promotable(S32, ELEMENT_TYPES["s64"]), promotable(S32, ELEMENT_TYPES["f64"])
    (True, False)
    """
    if isinstance(a, QuantizedType) and isinstance(b, QuantizedType):
        return a.expressed == b.expressed and a.storage.bits <= b.storage.bits
    if _broad_kind(a) != _broad_kind(b) or "index" in (a.name, b.name):
        return False  # an index is no integer here
    if any_float and a.kind == "float":
        return True
    return (1 if a == PRED else a.bits) <= (1 if b == PRED else b.bits)


def _broad_kind(element: ElementType) -> str:
    return "integer" if element.kind in ("pred", "signed", "unsigned") else element.kind


def same_elements(types: Sequence[TensorType], *, any_float: bool = True) -> bool:
    """Have all of `types` one element type?  Floats of any width are one with `any_float`."""
    first = types[0].element if types else None
    return all(
        t.element == first or (any_float and first is not None and _both_float(t.element, first))
        for t in types
    )


def _both_float(a: ElementType, b: ElementType) -> bool:
    return a.kind == b.kind == "float"


def compatible_shapes(a: TensorType, b: TensorType) -> bool:
    """Could `a` and `b` be the sizes of one array?  Bounds and elements do not matter.

    >>> compatible_shapes(TensorType(S32, (2, None)), TensorType(U32, (None, 3)))
    True
    """
    return a.rank == b.rank and all(map(fit, a.sizes, b.sizes))


def fit(a: int | None, b: int | None) -> bool:
    """Could both be the size of one dimension?"""
    return a is None or b is None or a == b


# --- sizes ----------------------------------------------------------------------------------


def extents(type_: TensorType) -> list[Extent]:
    """Size and bound of every dimension."""
    return list(zip(type_.sizes, type_.each_bound, strict=True))


def like(type_: TensorType, element: ElementType) -> TensorType:
    """The array type of the same sizes with other elements, without layout."""
    return TensorType(element, type_.sizes, None, type_.bounds, type_.encoding)


def array(element: ElementType, dims: Iterable[Extent], encoding: str = "") -> TensorType:
    """The array type of these dimensions, without layout; one with bounds has no encoding.

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
    """Extents of known sizes."""
    return [(size, None) for size in sizes]


def resized(extent: Extent, change: Callable[[int], int]) -> Extent:
    """`change` applied to what is known of a size."""
    size, bound = extent
    return (
        None if size is None else change(size),
        None if bound is None else change(bound),
    )


def may_equal(a: Extent, b: Extent) -> bool:
    """Can both be sizes of the same dimension?"""
    return None in (a[0], b[0]) or a[0] == b[0]


def merged(a: Extent, b: Extent) -> Extent:
    """The most specific of two dimensions that are one: a known size, else the lower bound.

    Source: StableHLO `type_inference.md`, table of merged dimensions.

    >>> merged((3, None), (None, 5)), merged((None, 5), (None, 4))
    ((3, None), (None, 4))
    """
    if a[0] is not None or b[0] is not None:
        return (b[0] if a[0] is None else a[0]), None
    return None, min((x for x in (a[1], b[1]) if x is not None), default=None)


def either(a: Extent, b: Extent) -> Extent:
    """The least specific of two dimensions, for a value that is one or the other (a branch's).

    Source: StableHLO `type_inference.md`, table of conditional branches.

    >>> either((3, None), (None, 5)), either((None, 5), (None, None))
    ((None, 5), (None, None))
    """
    if a[0] is not None and b[0] is not None:
        return a
    most = [x[1] if x[0] is None else x[0] for x in (a, b)]
    return None, None if None in most else max(x for x in most if x is not None)


def concatenated(a: Extent, b: Extent) -> Extent:
    """The dimension along which two arrays are put together.

    >>> concatenated((2, None), (3, None)), concatenated((2, None), (None, 5))
    ((5, None), (None, 7))
    """
    if a[0] is not None and b[0] is not None:
        return a[0] + b[0], None
    most = [x[1] if x[0] is None else x[0] for x in (a, b)]
    return None, None if None in most else sum(filter(None, most))


def check_meeting(d: int, a: Extent, b: Extent, rule: str = "") -> None:
    """Check that two sizes (and bounds) of dimension `d` can be those of one array."""
    if a[0] is not None and b[0] is not None:
        message = f"Mismatched dimension sizes {a[0]} and {b[0]} in dimension {d}"
        require(a[0] == b[0], rule, message)
    size, bound = (a[0], b[1]) if b[0] is None else (b[0], a[1])
    if size is not None and bound is not None:
        message = f"Mismatched dimension size {size} and bound {bound} in dimension {d}"
        require(size <= bound, rule, message)


def same_sizes(op: str, types: Sequence[TensorType], rule: str = "") -> list[Extent]:
    """The common sizes of all `types`."""
    result = extents(types[0])
    seen = {id(types[0])}
    for i, t in enumerate(types):
        if id(t) in seen:
            continue
        seen.add(id(t))
        require(
            t.rank == len(result),
            rule,
            said(f"operand {i} of `{{}}` has rank {t.rank}, needs {len(result)}", Name(op)),
        )
        for d, (mine, other) in enumerate(zip(extents(t), result, strict=True)):
            if mine == other:
                continue
            require(
                may_equal(mine, other),
                rule,
                said(
                    f"dimension {d}: operand {i} of `{{}}` has size {mine[0]}, needs {other[0]}",
                    Name(op),
                ),
            )
            check_meeting(d, mine, other, rule)
            result[d] = merged(mine, other)
    return result


def size_text(size: int | None) -> str:
    """A size as messages write it: `?` where it is not known."""
    return "?" if size is None else str(size)


def raw_size(size: int | None) -> str:
    """A size as messages write it that do not know of unknown ones: the number that marks them."""
    return str(-(1 << 63) if size is None else size)


def sizes_text(sizes: Iterable[int | None]) -> str:
    """Sizes as messages write them.

    >>> sizes_text((1, None, 8))
    '1, ?, 8'
    """
    return ", ".join(map(size_text, sizes))


def check_distinct(lhs: Dims, rhs: Dims, lhs_name: str, rhs_name: str, rule: str) -> None:
    """Check that no dimension is named twice in `lhs` and `rhs` together."""
    seen: set[int] = set()
    for d in (*lhs, *rhs):
        require(
            d not in seen, rule, f"has duplicated dimension from {lhs_name} and {rhs_name}: {d}"
        )
        seen.add(d)


def check_in_bounds(
    dim: int, upper: int, name: str, upper_name: str, rule: str, *, inclusive: bool = False
) -> None:
    """Check that `dim` is in `[0, upper)`, or in `[0, upper]` if `inclusive`."""
    end = "]" if inclusive else ")"
    require(
        0 <= dim < upper + inclusive,
        rule,
        f"Expects {name} to be in range [0, {upper_name}{end} i.e. [0, {upper}{end}. got: {dim}.",
    )


def check_all_in_bounds(dims: Dims, upper: int, name: str, upper_name: str, rule: str) -> None:
    """Check that every one of `dims` is in `[0, upper)`."""
    for dim in dims:
        require(
            0 <= dim < upper,
            rule,
            f"Expects each element of {name} to be in range [0, {upper_name}) i.e. [0, {upper})."
            f" got: {dim}.",
        )


def without(items: Sequence[Extent], dims: Iterable[int]) -> list[Extent]:
    """The dimensions of `items` that are not in `dims`."""
    dropped = set(dims)
    return [x for i, x in enumerate(items) if i not in dropped]


def halves(op: str, operands: tuple[Type, ...]) -> tuple[list[TensorType], list[TensorType]]:
    """The N inputs and the N initial values of a reduction."""
    if not operands or len(operands) % 2:
        raise VerifyError(
            said(f"`{{}}` has {len(operands)} operands, needs as many inputs as inits", Name(op))
        )
    types = tensors(op, operands)
    middle = len(types) // 2
    return types[:middle], types[middle:]
