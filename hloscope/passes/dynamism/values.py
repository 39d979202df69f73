"""Refinement of a value: its type becomes the most specific one of declared and inferred types.

Source: StableHLO `TypeInference.cpp` (`inferMostSpecificType`), `StablehloRefineShapes.cpp`
(`refineValues`, `refineReturnTypes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from hloscope.ir import ElementType, TensorType, TupleType, Type, UnrankedTensorType, compatible
from hloscope.mlir import Operation, Value
from hloscope.passes.rewriting import OpenBlock, Rewriter
from hloscope.walks import nested

Sizes: TypeAlias = Sequence[int | None]
"""Sizes of a tensor; `None` for an unknown size."""

CAST: Final = "builtin.unrealized_conversion_cast"
_READY_DIALECTS: Final = frozenset(["stablehlo", "chlo", "sdy"])
_READY: Final = frozenset(["func.return", "func.call"])
READY_MARK: Final = "hloscope.ready"
"""Attribute of ops of other dialects whose operands may be refined."""
_NO_SIZE: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1


def most_specific(a: Type, b: Type) -> Type | None:
    """Return the most specific type that both types imply; `None` if they contradict.

    >>> from hloscope.mlir import parse_type, type_text
    >>> found = most_specific(parse_type("tensor<2x?xf32>"), parse_type("tensor<?x3xf32>"))
    >>> type_text(found)
    'tensor<2x3xf32>'
    """
    if a == b:
        return a
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return _of_tuples(a, b)
    if isinstance(a, UnrankedTensorType) and isinstance(b, TensorType):
        return b
    if isinstance(a, TensorType) and isinstance(b, UnrankedTensorType):
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _of_tensors(a, b)
    return None


def _of_tuples(a: TupleType, b: TupleType) -> TupleType | None:
    if len(a.elements) != len(b.elements):
        return None
    parts = [most_specific(x, y) for x, y in zip(a.elements, b.elements, strict=True)]
    found = tuple([part for part in parts if part is not None])
    return TupleType(found) if len(found) == len(parts) else None


def _of_tensors(a: TensorType, b: TensorType) -> TensorType | None:
    """Return the most specific of two tensor types; `None` if sizes or bounds contradict."""
    if a.rank != b.rank or a.element != b.element:
        return None
    sizes: list[int | None] = []
    bounds: list[int | None] = []
    blank = (None,) * a.rank
    for x, y, most_x, most_y in zip(
        a.sizes, b.sizes, a.bounds or blank, b.bounds or blank, strict=True
    ):
        known = [size for size in (x, y) if size is not None]
        # A size must not exceed the bound that the other type declares.
        limits = [most for most in (most_x, most_y) if most is not None]
        if len(set(known)) > 1 or (known and limits and known[0] > min(limits)):
            return None
        sizes.append(known[0] if known else None)
        bounds.append(None if known else min(limits, default=None))
    kept = tuple(bounds) if None in sizes else ()
    return TensorType(a.element, tuple(sizes), None, kept, a.encoding or b.encoding)


def sized(element: ElementType, sizes: Sizes) -> TensorType:
    """Return a tensor type of these sizes, without bounds."""
    bounds = (None,) * len(sizes) if None in sizes else ()
    return TensorType(element, tuple(sizes), None, bounds)


def refine_values(
    rewriter: Rewriter, op: Operation, values: Sequence[Value], types: Sequence[Type]
) -> bool:
    """Set values to the most specific of their types and the inferred ones; has one changed?

    Operands of `func.return` keep the old type: they read a cast after `op`.  A value stays
    unchanged if one of its users may not accept another type.
    """
    if len(values) != len(types):
        return False
    # All types are computed before the first change: a contradiction changes nothing.
    found: list[Type] = []
    for value, type in zip(values, types, strict=True):
        refined = most_specific(value.type, type)
        if refined is None or _is_too_large(refined):
            return False
        found.append(refined)
    is_changed = False
    for value, refined in zip(values, found, strict=True):
        if value.type == refined:
            continue
        if not all(map(_is_ready, rewriter.users(value))):
            return is_changed
        _set_type(rewriter, op, value, refined)
        is_changed = True
    return is_changed


def _is_too_large(type: Type) -> bool:
    """Has the type a size of more than 63 bits?"""
    return isinstance(type, TensorType) and any(size > _MOST for size in type.sizes if size)


def _is_ready(user: Operation) -> bool:
    is_ready = user.name in _READY or user.name.partition(".")[0] in _READY_DIALECTS
    return is_ready or READY_MARK in user.attributes


def unready_readers(users: Iterable[Operation]) -> list[Operation]:
    """Return the users of a value that may not accept another type."""
    return [user for user in users if not _is_ready(user)]


def _set_type(rewriter: Rewriter, op: Operation, value: Value, refined: Type) -> None:
    old = value.type
    rewriter.set_type(value, refined)
    # The function's signature has the old type until `update_function_type` changes both.
    returns = [user for user in rewriter.users(value) if user.name == "func.return"]
    if not returns:
        return
    block = op.parent
    assert isinstance(block, OpenBlock)
    following = block.after(op)
    assert following is not None
    cast = rewriter.create(CAST, (value,), types=(old,), before=following, location=op.location)
    cast.source, cast.start, cast.end = op.source, op.start, op.end
    rewriter.replace_uses(value, cast.result, unless=lambda user: user.name != "func.return")


def refine_results(rewriter: Rewriter, op: Operation, types: Sequence[Type]) -> bool:
    """Set an op's results to the most specific of their types and the inferred ones."""
    return refine_values(rewriter, op, op.results, types)


def refine_shapes(rewriter: Rewriter, op: Operation, shapes: Sequence[Sizes]) -> bool:
    """Refine the sizes of an op's results, tuples flattened; has a type changed?

    Nothing changes if sizes contradict the declared ones, or if a result has bounds.
    """
    flat = flattened([value.type for value in op.results])
    if len(flat) != len(shapes):
        return False
    types: list[Type] = []
    for type, sizes in zip(flat, shapes, strict=True):
        refined = _with_sizes(type, sizes)
        if refined is None:
            return False
        types.append(refined)
    parts = iter(types)
    return refine_results(rewriter, op, [_like(value.type, parts) for value in op.results])


def _with_sizes(type: Type, sizes: Sizes) -> Type | None:
    given = tuple([None if size == _NO_SIZE else size for size in sizes])
    if any(size is not None and size < 0 for size in given):
        return None
    if isinstance(type, UnrankedTensorType):
        return sized(type.element, given)
    if not isinstance(type, TensorType) or type.has_bounds or type.encoding:
        return None
    refined = sized(type.element, given)
    return refined if compatible(type, refined) else None


def flattened(types: Sequence[Type]) -> list[Type]:
    """Return all tensor types in order, with tuples replaced by their elements.

    >>> from hloscope.mlir import parse_type
    >>> len(flattened([parse_type("tuple<tuple<tensor<2xf32>>, tensor<f32>>")]))
    2
    """
    every = nested(types, lambda t: t.elements if isinstance(t, TupleType) else ())
    return [t for t in every if not isinstance(t, TupleType)]


def _like(type: Type, parts: Iterator[Type]) -> Type:
    """Return the type with its tensors taken from `parts` in order, in the same tuples."""
    if not isinstance(type, TupleType):
        return next(parts)
    return TupleType(tuple([_like(element, parts) for element in type.elements]))
