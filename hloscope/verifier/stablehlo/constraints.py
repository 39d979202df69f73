"""Predicates of types and attributes: does a value satisfy a definition's constraint?

Source: StableHLO's `Base.td` and `Base.cpp`; the quantized types' constraints are those of the
specification, `quantized_type_c5` to `c14`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

from hloscope.ir import (
    BufferType,
    ElementType,
    FunctionType,
    FutureType,
    QuantizedType,
    TensorType,
    TokenType,
    TupleType,
    Type,
    UnrankedTensorType,
)
from hloscope.mlir import (
    TUPLES,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    StructAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
    VerbatimAttr,
)
from hloscope.walks import nested

Predicate: TypeAlias = Callable[[Type], bool]

_WIDTHS: Final = (2, 4, 8, 16, 32, 64)
_FLOATS: Final = frozenset(
    "f4e2m1fn f6e2m3fn f6e3m2fn f8e3m4 f8e4m3 f8e4m3b11fnuz f8e4m3fn f8e4m3fnuz f8e5m2"
    " f8e5m2fnuz f8e8m0fnu bf16 f16 f32 f64".split()
)
_SIGNLESS: Final = frozenset(f"s{bits}" for bits in _WIDTHS)
_UNSIGNED: Final = frozenset(f"u{bits}" for bits in _WIDTHS)
_STORAGE: Final = (2, 4, 8, 16, 32)
_RANGES: Final = {
    "f16": (2.0**-24, 65504.0),
    "bf16": (2.0**-133, (2 - 2.0**-7) * 2.0**127),
    "f32": (2.0**-149, (2 - 2.0**-23) * 2.0**127),
    "f64": (5e-324, (2 - 2.0**-52) * 2.0**1023),
}
"""Least and largest positive finite number of each expressed type of quantized types."""


def _quantized(element: ElementType) -> bool:
    if not isinstance(element, QuantizedType) or element.by_blocks:
        return False
    low, high = _RANGES.get(element.expressed.name, (0.0, math.inf))
    return (
        element.storage.kind in {"signed", "unsigned"}
        and not element.storage.name.startswith("si")
        and element.storage.bits in _STORAGE
        and all(low <= scale <= high for scale in element.scales)
        and all(element.storage_min <= z <= element.storage_max for z in element.zero_points)
    )


_ELEMENTS: Final[dict[str, Callable[[ElementType], bool]]] = {
    "F": lambda e: e.name in _FLOATS,
    "B": lambda e: e.kind == "pred",
    "I": lambda e: e.name in _SIGNLESS or e.name in _UNSIGNED,
    "S": lambda e: e.name in _SIGNLESS,
    "C": lambda e: e.name in {"c64", "c128"},
    "Q": lambda e: isinstance(e, QuantizedType) and e.is_per_tensor and _quantized(e),
    "A": lambda e: isinstance(e, QuantizedType) and e.is_per_axis and _quantized(e),
    "D": lambda e: e.name in {"f32", "f64"},
    "X": lambda e: e.name == "index",
    "N": lambda e: e.kind in {"pred", "signed", "unsigned"} and e.name != "index",
    "i": lambda e: e.name == "s32",
    "u": lambda e: e.name == "u32",
    "f": lambda e: e.kind == "float",
    "c": lambda e: e.kind == "complex",
}
"""Predicates of element types, by the letter of the notation."""


def _one_bounded(t: TensorType) -> bool:
    dynamic = [d for d, size in enumerate(t.sizes) if size is None]
    return len(dynamic) == 1 and bool(t.bounds) and t.bounds[dynamic[0]] is not None


_SHAPES: Final[dict[str, Callable[[TensorType], bool]]] = {
    "": lambda t: True,
    "0d": lambda t: t.rank == 0,
    "1d": lambda t: t.rank == 1,
    "static": lambda t: t.is_static,
    "bounded": lambda t: t.is_static or _one_bounded(t),
    "shape": lambda t: t.is_static and t.rank == 1,
    "list": lambda t: t.is_static and t.rank == 1,
    "pairs": lambda t: t.is_static and t.rank == 2,
}
"""Predicates of the shapes of ranked tensors, by the word of the notation."""

_NAMED: Final[dict[str, Predicate]] = {
    "token": lambda t: isinstance(t, TokenType),
    "future": lambda t: isinstance(t, FutureType),
    "anything": lambda t: True,
    "index": lambda t: isinstance(t, ElementType) and t.name == "index",
    "function": lambda t: isinstance(t, FunctionType),
}


def _axis_fits(t: TensorType) -> bool:
    """Is the quantized dimension, if any, a dimension of the tensor with one scale per index?"""
    element = t.element
    if not isinstance(element, QuantizedType) or not element.is_per_axis:
        return True
    (axis,) = element.axes
    if not 0 <= axis < t.rank:
        return False
    size = t.sizes[axis]
    return size is None or size == len(element.scales)


# Each operand and result asks for its constraint's predicate, and there are few constraints.
@cache
def type_predicate(constraint: str) -> Predicate:
    """Return a predicate: does a type satisfy the constraint, in the notation of `type_summary`?

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> type_predicate("FC/token")(TensorType(ELEMENT_TYPES["f32"], (2, None)))
    True
    >>> type_predicate("static.FC")(TensorType(ELEMENT_TYPES["f32"], (2, None)))
    False
    """
    parts = [_alternative(part) for part in constraint.split("/")]
    return parts[0] if len(parts) == 1 else lambda t: any(part(t) for part in parts)


def _alternative(part: str) -> Predicate:
    """Return the predicate of one alternative: `shape.letters`, a name, or a tuple."""
    if part in _NAMED:
        return _NAMED[part]
    if part in TUPLES:
        return _tuple_of(type_predicate(TUPLES[part]))
    shape, _, letters = part.rpartition(".")
    kinds = [_ELEMENTS[letter] for letter in letters]

    def element_fits(element: ElementType) -> bool:
        return any(kind(element) for kind in kinds)

    if shape == "memref":
        return lambda t: isinstance(t, BufferType) and element_fits(t.element.element)
    if shape == "any":
        return lambda t: (
            ((isinstance(t, TensorType) and _axis_fits(t)) or isinstance(t, UnrankedTensorType))
            and element_fits(t.element)
        )
    right_shape = _SHAPES[shape]
    return lambda t: (
        isinstance(t, TensorType) and element_fits(t.element) and right_shape(t) and _axis_fits(t)
    )


def _tuple_of(leaf: Predicate) -> Predicate:
    def parts(t: Type) -> tuple[Type, ...]:
        return t.elements if isinstance(t, TupleType) else ()

    # Tuples nest without limit: `nested` flattens them without recursion.
    return lambda t: (
        isinstance(t, TupleType)
        and all(isinstance(part, TupleType) or leaf(part) for part in nested(t.elements, parts))
    )


def type_fits(constraint: str, type_: Type) -> bool:
    """Does a type satisfy the constraint?"""
    return type_predicate(constraint)(type_)


# --- attributes -----------------------------------------------------------------------------


def _integer(attribute: Attribute, name: str, least: int | None = None) -> bool:
    return (
        isinstance(attribute, IntegerAttr)
        and isinstance(attribute.type, ElementType)
        and attribute.type.name == name
        and (least is None or attribute.value >= least)
    )


def _dense(attribute: Attribute, element: str | None, rank: int | None = None) -> bool:
    if isinstance(attribute, VerbatimAttr):
        return element is None and attribute.text.startswith(("dense_resource<", "sparse<"))
    return (
        isinstance(attribute, DenseAttr)
        and isinstance(attribute.type, TensorType)
        and (element is None or attribute.type.element.name == element)
        and (rank is None or attribute.type.rank == rank)
    )


def _float(attribute: Attribute, name: str) -> bool:
    return (
        isinstance(attribute, FloatAttr)
        and isinstance(attribute.type, ElementType)
        and attribute.type.name == name
    )


def _values(attribute: Attribute, name: str) -> bool:
    return (
        isinstance(attribute, DenseArrayAttr)
        and isinstance(attribute.element, ElementType)
        and attribute.element.name == name
    )


def _each(attribute: Attribute, fits: Callable[[Attribute], bool]) -> bool:
    return isinstance(attribute, ArrayAttr) and all(map(fits, attribute.elements))


def _flat(attribute: Attribute) -> bool:
    return isinstance(attribute, SymbolAttr) and not attribute.nested


def _struct(name: str) -> Callable[[Attribute], bool]:
    return lambda a: isinstance(a, StructAttr) and a.name == name


def _enum(name: str) -> Callable[[Attribute], bool]:
    return lambda a: isinstance(a, EnumAttr) and a.name == name


def _is_mesh_axes(attribute: Attribute) -> bool:
    if isinstance(attribute, VerbatimAttr):
        return attribute.text.startswith("#stablehlo.replica_group_mesh_axes")
    return isinstance(attribute, StructAttr) and attribute.name == "replica_group_mesh_axes"


_ATTRIBUTES: Final[dict[str, Callable[[Attribute], bool]]] = {
    "i32": lambda a: _integer(a, "s32"),
    "i32>=0": lambda a: _integer(a, "s32", 0),
    "i32>0": lambda a: _integer(a, "s32", 1),
    "i64": lambda a: _integer(a, "s64"),
    "i64>=0": lambda a: _integer(a, "s64", 0),
    "i64>0": lambda a: _integer(a, "s64", 1),
    "f32": lambda a: _float(a, "f32"),
    "f64": lambda a: _float(a, "f64"),
    "bool": lambda a: isinstance(a, BoolAttr),
    "unit": lambda a: isinstance(a, UnitAttr),
    "string": lambda a: isinstance(a, StringAttr),
    "array": lambda a: isinstance(a, ArrayAttr),
    "dict": lambda a: isinstance(a, DictAttr),
    "config": lambda a: isinstance(a, StringAttr | DictAttr),
    "dims": lambda a: _values(a, "s64"),
    "bools": lambda a: _values(a, "pred"),
    "elements": lambda a: _dense(a, None),
    **dict.fromkeys(("ints", "pairs", "table"), lambda a: _dense(a, "s64")),
    "groups": lambda a: _dense(a, "s64") or _is_mesh_axes(a),
    "typed": lambda a: (
        not isinstance(
            a, UnitAttr | ArrayAttr | DictAttr | SymbolAttr | TypeAttr | DenseArrayAttr | EnumAttr
        )
    ),
    **dict.fromkeys(("symbol", "callee"), _flat),
    **dict.fromkeys(("symbols", "callees"), lambda a: _each(a, _flat)),
    "programs": lambda a: _each(a, lambda row: _each(row, _flat)),
    "layouts": lambda a: _each(a, lambda layout: _dense(layout, "index", 1)),
    "aliases": lambda a: _each(a, _struct("output_operand_alias")),
    "precision": lambda a: _each(a, _enum("precision")),
    "channel": _struct("channel_handle"),
    "accuracy": _struct("result_accuracy"),
    "algorithm": _struct("dot_algorithm"),
    "dot": _struct("dot"),
    "gather": _struct("gather"),
    "scatter": _struct("scatter"),
    "ragged_dot": _struct("ragged_dot"),
    "conv": _struct("conv"),
    "api_version": lambda a: _integer(a, "s32", 0) and isinstance(a, IntegerAttr) and a.value <= 4,
    "transpose": _enum("transpose"),
    "comparison_direction": _enum("comparison_direction"),
    "comparison_type": _enum("comparison_type"),
    "rng_algorithm": _enum("rng_algorithm"),
    "rng_distribution": _enum("rng_distribution"),
    "fft_type": _enum("fft_type"),
    "type": lambda a: isinstance(a, TypeAttr),
    "dicts": lambda a: _each(a, lambda entry: isinstance(entry, DictAttr)),
    "any": lambda a: True,
}


def attribute_fits(constraint: str, attribute: Attribute) -> bool:
    """Does an attribute satisfy the constraint, named as definitions name it?

    >>> from hloscope.mlir.types import I64
    >>> attribute_fits("i64>=0", IntegerAttr(-1, I64))
    False
    """
    return _ATTRIBUTES[constraint](attribute)
