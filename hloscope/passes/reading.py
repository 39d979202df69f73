"""What patterns ask of operations: attributes as numbers, types of results, who made a value."""

from __future__ import annotations

from hloscope.ir import Dims, TensorType
from hloscope.mlir import DenseArrayAttr, DenseAttr, IntegerAttr, Operation, Value, expanded
from hloscope.stablehlo import integers_in, known_integers


def integers_of(operation: Operation, name: str) -> Dims | None:
    """The integers of an attribute, however it is written; nothing if there is none.

    >>> from hloscope.mlir import I64
    >>> op = Operation("stablehlo.transpose", properties={"permutation": DenseArrayAttr(I64, (0,))})
    >>> integers_of(op, "permutation"), integers_of(op, "dimensions")
    ((0,), None)
    """
    match operation.get(name):
        case DenseArrayAttr(_, values):
            return values
        case DenseAttr() as literal:
            try:
                return expanded(literal)
            except ValueError:  # no integers
                return None
        case _:
            return None


def integer_of(operation: Operation, name: str) -> int | None:
    """The number of an integer attribute."""
    attribute = operation.get(name)
    return attribute.value if isinstance(attribute, IntegerAttr) else None


def tensor_of(value: Value) -> TensorType | None:
    """The type of a value, if it is an array of a known rank."""
    return value.type if isinstance(value.type, TensorType) else None


def static_result(operation: Operation) -> TensorType | None:
    """The type of the only result, if it is an array of known sizes."""
    results = operation.results
    type = tensor_of(results[0]) if len(results) == 1 else None
    return type if type is not None and type.is_static else None


def has_bounds(type: TensorType) -> bool:
    """Does a type say more than its sizes: a bound, or another encoding?"""
    return bool(type.encoding) or any(bound is not None for bound in type.bounds)


def maker_of(value: Value, name: str = "") -> Operation | None:
    """The operation that makes a value, if it has that name."""
    owner = value.owner
    return owner if isinstance(owner, Operation) and name in ("", owner.name) else None


def constant_integers(value: Value) -> Dims | None:
    """The integers of a constant in row-major order, of `index` and of shapes too.

    >>> from hloscope.mlir import I64
    >>> type = TensorType(I64, (2,))
    >>> constant = Operation("stablehlo.constant", properties={"value": DenseAttr("[1, 2]", type)})
    >>> constant_integers(Value(type, constant))
    (1, 2)
    """
    shape = maker_of(value, "shape.const_shape")
    return known_integers(value) if shape is None else integers_in(shape.get("shape"))
