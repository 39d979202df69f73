"""Helpers of patterns: readers of attributes, types, defining ops and device meshes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from hloscope.errors import UnsupportedError
from hloscope.ir import Dims, TensorType
from hloscope.mlir import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    IntegerAttr,
    Operation,
    StringAttr,
    StructAttr,
    Value,
    expanded,
    print_mlir,
)
from hloscope.mlir.dialects import DIALECTS, meshes_in
from hloscope.ops import MOST_DEVICES, AxisRef, Mesh
from hloscope.stablehlo import AttributeGroups, integers_in, known_integers

# --------------------------------------------------------------------------------------------------
# Readers of operations for patterns: integer attributes, result types, producers of values.


def integers_of(operation: Operation, name: str) -> Dims | None:
    """Return the integers of the attribute `name`, dense or array; `None` if it is missing.

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
    """Return the integer of the attribute `name`; `None` if it is missing or of another kind."""
    attribute = operation.get(name)
    return attribute.value if isinstance(attribute, IntegerAttr) else None


def tensor_of(value: Value) -> TensorType | None:
    """Return the type of a value; `None` if it is not a ranked tensor."""
    return value.type if isinstance(value.type, TensorType) else None


def static_result(operation: Operation) -> TensorType | None:
    """Return the type of the only result; `None` if it is not a tensor of static shape."""
    results = operation.results
    type = tensor_of(results[0]) if len(results) == 1 else None
    return type if type is not None and type.is_static else None


def has_bounds(type: TensorType) -> bool:
    """Does the tensor type have a bound or another encoding?"""
    return bool(type.encoding) or any(bound is not None for bound in type.bounds)


def defining_op(value: Value, name: str = "") -> Operation | None:
    """Return the operation that defines a value; `None` for a block argument.

    With a `name`, the result is also `None` if the operation has another name.
    """
    owner = value.owner
    return owner if isinstance(owner, Operation) and name in ("", owner.name) else None


def constant_integers(value: Value) -> Dims | None:
    """Return the integers of a constant in row-major order; `None` if the value is no constant.

    Constants of `index` and `shape.const_shape` are read, too.

    >>> from hloscope.mlir import I64
    >>> type = TensorType(I64, (2,))
    >>> constant = Operation("stablehlo.constant", properties={"value": DenseAttr("[1, 2]", type)})
    >>> constant_integers(Value(type, constant))
    (1, 2)
    """
    shape = defining_op(value, "shape.const_shape")
    return known_integers(value) if shape is None else integers_in(shape.get("shape"))


# --------------------------------------------------------------------------------------------------
# Device meshes that a module names, and device groups along their axes.


def symbols_of(module: Operation) -> Mapping[str, Operation]:
    """Return the operations of a module that define a symbol, by symbol name."""
    return {
        name.text: op for op in module.inside if isinstance(name := op.get("sym_name"), StringAttr)
    }


def mesh_named(module: Operation, name: str) -> Mesh | None:
    """Return the mesh of this name, defined by Shardy or as an attribute; `None` if unknown."""
    symbol = symbols_of(module).get(name)
    if symbol is None:
        return None
    if symbol.name != "sdy.mesh":
        return mesh_of_symbol(symbol)
    try:
        return meshes_in(print_mlir(symbol, dialects=DIALECTS).strip()).get(name)
    except UnsupportedError:
        return None


def mesh_of_symbol(symbol: Operation) -> Mesh | None:
    """Return the mesh in the attribute `stablehlo.mesh` of an operation; `None` if it has none.

    The attribute is a structure or a dictionary.
    """
    attribute: Attribute | None = symbol.get("stablehlo.mesh")
    if isinstance(attribute, StructAttr):
        fields: Mapping[str, Any] = {"mesh": attribute, "axes": ArrayAttr(())}
        found = AttributeGroups(
            StructAttr("stablehlo", "replica_group_mesh_axes", tuple(fields.items()))
        ).mesh
        return found if isinstance(found, Mesh) else None
    if not isinstance(attribute, DictAttr):
        return None
    entries = dict(attribute.entries)
    listed, ids = entries.get("axes"), entries.get("device_ids")
    axes: list[tuple[str, int]] = []
    for axis in listed.elements if isinstance(listed, ArrayAttr) else ():
        fields_of_axis = dict(axis.entries) if isinstance(axis, DictAttr) else {}
        name, size = fields_of_axis.get("name"), fields_of_axis.get("size")
        if not isinstance(name, StringAttr) or not isinstance(size, IntegerAttr):
            return None
        axes.append((name.text, size.value))
    return Mesh(tuple(axes), expanded(ids) if isinstance(ids, DenseAttr) else None)


def rows_of(mesh: Mesh, axes: Sequence[AxisRef]) -> tuple[Dims, ...] | None:
    """Return the device groups along mesh axes, as tuples of device numbers.

    `None` if the mesh lacks an axis.
    """
    sizes = dict(mesh.axes)
    count = prod(sizes.values())
    wrong = any(size < 1 for size in sizes.values()) or not 0 < count <= MOST_DEVICES
    # A part of an axis must end at a divisor of the axis' size.
    parts = [(axis.before * (axis.size or sizes.get(axis.name, 0)), axis) for axis in axes]
    if wrong or any(not end or sizes.get(axis.name, 1) % end for end, axis in parts):
        return None
    # Each device and each axis counts once, or the groups would overlap.
    if len(mesh.devices) != count or len(set(axes)) != len(axes):
        return None
    return mesh.groups(axes)
