"""Readers of operations for patterns: integer attributes, result types, producers of values."""

from __future__ import annotations

from hloscope.ir import Dims, TensorType
from hloscope.mlir import DenseArrayAttr, DenseAttr, IntegerAttr, Operation, Value, expanded
from hloscope.stablehlo import integers_in, known_integers


def integers_of(operation: Operation, name: str) -> Dims | None:
    """Return the integers of an attribute, dense or array; `None` if it has none.

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
    """Return the number of an integer attribute; `None` if it is missing or of another kind."""
    attribute = operation.get(name)
    return attribute.value if isinstance(attribute, IntegerAttr) else None


def tensor_of(value: Value) -> TensorType | None:
    """Return the type of a value if it is a ranked tensor; else `None`."""
    return value.type if isinstance(value.type, TensorType) else None


def static_result(operation: Operation) -> TensorType | None:
    """Return the type of the only result if it is a tensor of static shape; else `None`."""
    results = operation.results
    type = tensor_of(results[0]) if len(results) == 1 else None
    return type if type is not None and type.is_static else None


def has_bounds(type: TensorType) -> bool:
    """Has the type a bound, or another encoding, in addition to its sizes?"""
    return bool(type.encoding) or any(bound is not None for bound in type.bounds)


def maker_of(value: Value, name: str = "") -> Operation | None:
    """Return the operation that produces a value, if it has the name; else `None`."""
    owner = value.owner
    return owner if isinstance(owner, Operation) and name in ("", owner.name) else None


def constant_integers(value: Value) -> Dims | None:
    """Return the integers of a constant in row-major order; `index` and shape constants count.

    >>> from hloscope.mlir import I64
    >>> type = TensorType(I64, (2,))
    >>> constant = Operation("stablehlo.constant", properties={"value": DenseAttr("[1, 2]", type)})
    >>> constant_integers(Value(type, constant))
    (1, 2)
    """
    shape = maker_of(value, "shape.const_shape")
    return known_integers(value) if shape is None else integers_in(shape.get("shape"))
