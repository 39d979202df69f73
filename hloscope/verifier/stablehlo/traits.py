"""Checks of traits: rules about types and positions that several ops share.

Source: MLIR's `Operation.cpp`, StableHLO's `Base.h`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hloscope.errors import VerifyError
from hloscope.ir import (
    BufferType,
    ElementType,
    QuantizedType,
    TensorType,
    Type,
    UnrankedTensorType,
    compatible,
    compatible_elements,
)
from hloscope.mlir import Operation


def refuse(operation: Operation, message: str, rule: str = "") -> VerifyError:
    """Return an error with MLIR's prefix: `'name' op message`."""
    return VerifyError(f"'{operation.name}' op {message}", rule=rule)


def element_of(type_: Type) -> ElementType | Type:
    """Return the element type of a tensor or buffer; any other type unchanged."""
    match type_:
        case TensorType() | UnrankedTensorType():
            return type_.element
        case BufferType():
            return type_.element.element
        case _:
            return type_


def _operand_types(operation: Operation) -> list[Type]:
    return [value.type for value in operation.operands]


def _result_types(operation: Operation) -> list[Type]:
    return [value.type for value in operation.results]


def _all_types(operation: Operation) -> list[Type]:
    return _operand_types(operation) + _result_types(operation)


def _same_elements(a: Type, b: Type) -> bool:
    return element_of(a) == element_of(b)


def _compatible_element(a: Type, b: Type) -> bool:
    x, y = element_of(a), element_of(b)
    if isinstance(x, ElementType) and isinstance(y, ElementType):
        return compatible_elements(x, y)
    return x == y


def _shapes_agree(types: Sequence[Type]) -> bool:
    """Can all types have one shape?  Unknown sizes match every size."""
    sizes = [t.sizes for t in types if isinstance(t, TensorType)]
    if len(sizes) + sum(isinstance(t, UnrankedTensorType) for t in types) != len(types):
        return False
    if len({len(s) for s in sizes}) > 1:
        return False
    return all(len(set(extents) - {None}) < 2 for extents in zip(*sizes, strict=True))


def _some(operation: Operation, *, results: bool = True) -> None:
    if not operation.operands:
        raise refuse(operation, "expected 1 or more operands, but found 0")
    if results and not operation.results:
        raise refuse(operation, "expected 1 or more results")


def _as_first(agree: Callable[[Type, Type], bool]) -> Callable[[Sequence[Type]], bool]:
    """Return a predicate: does each type agree with the first?"""
    return lambda types: all(agree(t, types[0]) for t in types[1:])


_elements_agree: Final = _as_first(_same_elements)


def _same_types(types: Sequence[Type]) -> bool:
    return _elements_agree(types) and _shapes_agree(types)


def _same_over_all(
    what: str,
    agree: Callable[[Sequence[Type]], bool],
    *,
    results: bool = True,
    some: bool = True,
) -> Callable[[Operation], None]:
    """Return a check that the types of operands, and of results, agree.

    With `some`, the op must have operands and results.
    """
    types_of = _all_types if results else _operand_types
    places = "operands and results" if results else "operands"

    def check(operation: Operation) -> None:
        if some:
            _some(operation, results=results)
        if not agree(types_of(operation)):
            raise refuse(operation, f"requires {what} for all {places}")

    return check


def _same_element_unless_quantized(operation: Operation) -> None:
    first, *rest = elements = [element_of(t) for t in _all_types(operation)]
    if any(isinstance(element, QuantizedType) for element in elements):
        return
    if any(element != first for element in rest):
        raise VerifyError(
            "op requires the same element type for all operands and results", rule="add_c1"
        )


def _elementwise(operation: Operation) -> None:
    """Check an elementwise op: all non-scalar operands and results have one shape."""
    operands = [t for t in _operand_types(operation) if isinstance(t, _MAPPED)]
    results = [t for t in _result_types(operation) if isinstance(t, _MAPPED)]
    if not operands and not results:
        return
    if not operands:
        raise refuse(
            operation, "if a result is non-scalar, then at least one operand must be non-scalar"
        )
    if not results:
        raise refuse(
            operation,
            "if an operand is non-scalar, then there must be at least one non-scalar result",
        )
    if len(results) != len(operation.results):
        raise refuse(operation, "if an operand is non-scalar, then all results must be non-scalar")
    types: list[Type] = [*operands, *results]
    if len({type(t) for t in types}) > 1 or not _shapes_agree(types):
        raise refuse(
            operation, "all non-scalar operands/results must have the same shape and base type"
        )


_MAPPED: Final = TensorType | UnrankedTensorType


def _pairwise(what: str, agree: Callable[[Type, Type], bool]) -> Callable[[Operation], None]:
    def check(operation: Operation) -> None:
        operands, results = _operand_types(operation), _result_types(operation)
        if len(operands) != len(results):
            raise refuse(operation, "requires the same number of operands and results")
        for i, (a, b) in enumerate(zip(operands, results, strict=True)):
            if not agree(a, b):
                raise refuse(
                    operation, f"requires the same {what} for operand and result at index {i}"
                )

    return check


def _terminator(operation: Operation) -> None:
    block = operation.parent
    if block is None or block.operations[-1] is not operation:
        raise refuse(operation, "must be the last operation in the parent block")


TRAITS: Final[dict[str, Callable[[Operation], None]]] = {
    "same_shape": _same_over_all("the same shape", _shapes_agree),
    "same_operands_shape": _same_over_all("the same shape", _shapes_agree, results=False),
    "same_element": _same_over_all("the same element type", _elements_agree),
    "same_element_unless_quantized": _same_element_unless_quantized,
    "same_operands_element": _same_over_all(
        "the same element type", _elements_agree, results=False
    ),
    "same_type": _same_over_all("the same type", _same_types),
    "compatible": _same_over_all("compatible types", _as_first(compatible), some=False),
    "compatible_element": _same_over_all(
        "compatible element types", _as_first(_compatible_element), some=False
    ),
    "compatible_operands_element": _same_over_all(
        "compatible element types", _as_first(_compatible_element), results=False, some=False
    ),
    "elementwise": _elementwise,
    "pairwise": _pairwise("type", lambda a, b: a == b),
    "pairwise_element": _pairwise("element type", _same_elements),
    "terminator": _terminator,
}
"""The check of each trait that constrains types or places.  Traits without one are facts for
others: `infer`, `commutative`, `single_block`, `segments`, `isolated` …"""
