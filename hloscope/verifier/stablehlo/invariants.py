"""Checks of an op against its definition: counts, types, attributes, regions and traits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from hloscope.errors import VerifyError
from hloscope.ir import (
    ELEMENT_TYPES,
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
    F64,
    I1,
    I32,
    I64,
    TUPLES,
    ArrayAttr,
    Attribute,
    AttributeSlot,
    BoolAttr,
    Definition,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    Operation,
    Slot,
    StringAttr,
    StructAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
    VerbatimAttr,
    type_text,
)
from hloscope.mlir.dialects import DEFINITIONS
from hloscope.support.source import Span
from hloscope.support.walks import nested
from hloscope.verifier.stablehlo.traits import TRAITS, element_of, refuse

# --------------------------------------------------------------------------------------------------
# Checks of an op against its definition, in the order and words of MLIR.
#
# Source: MLIR's `Operation.cpp` and the checks its op definition generator writes.


def check_definition(operation: Operation, definition: Definition) -> None:
    """Check an op against its definition.

    Counts, attributes, types, regions and traits are checked in this order.

    Raises:
        VerifyError: The first violation; the message is MLIR's.
    """
    if definition.open:
        return
    # Counts come first: the later checks pair operands, results and regions with their slots.
    _check_counts(operation, definition)
    _check_single_blocks(operation, definition)
    _check_attributes(operation, definition)
    _check_types("operand", definition.operands, operation)
    _check_types("result", definition.results, operation)
    _check_agreements(operation, definition)
    _check_regions(operation, definition)
    for trait in definition.traits:
        check = TRAITS.get(trait)
        if check is not None:
            try:
                check(operation)
            except VerifyError as error:
                error.rule = definition.labels.get(trait, "")
                raise


# --- counts ---------------------------------------------------------------------------------


def _check_counts(operation: Operation, definition: Definition) -> None:
    """Check the numbers of regions, results, successors and operands, in MLIR's order."""
    _check_count(
        operation, "region", len(operation.regions), [r.variadic for r in definition.regions]
    )
    _check_count(
        operation, "result", len(operation.results), [bool(s.count) for s in definition.results]
    )
    if operation.successors:
        raise refuse(operation, f"requires 0 successors but found {len(operation.successors)}")
    _check_count(
        operation, "operand", len(operation.operands), [bool(s.count) for s in definition.operands]
    )


def _check_count(operation: Operation, what: str, found: int, variadic: Sequence[bool]) -> None:
    """Check the number of operands, results or regions of an op.

    Args:
        operation: The op.
        what: `operand`, `result` or `region`.
        found: Their number.
        variadic: For each slot of the definition: may it have another number of them than one?
    """
    least, more = variadic.count(False), any(variadic)
    if found == least or (found > least and more):
        return
    if not more and least < 2:
        one = "a single operand" if what == "operand" else f"one {what}"
        raise refuse(operation, f"requires {one if least else f'zero {what}s'}")
    but = f", but found {found}" if what == "operand" else ""
    raise refuse(operation, f"expected {least}{' or more' * more} {what}s{but}")


def _check_single_blocks(operation: Operation, definition: Definition) -> None:
    if "single_block" not in definition.traits:
        return
    for i, region in enumerate(operation.regions):
        if len(region.blocks) > 1:
            raise refuse(operation, f"expects region #{i} to have 0 or 1 blocks")
        bare = "no_terminator" in definition.traits
        if region.blocks and not region.blocks[0].operations and not bare:
            raise refuse(operation, "expects a non-empty block")


# --- attributes, types, regions -------------------------------------------------------------


def _check_attributes(operation: Operation, definition: Definition) -> None:
    """Check that required attributes are present, and that all satisfy their constraints."""
    given: list[tuple[AttributeSlot, Attribute]] = []
    for slot in sorted(definition.attributes, key=attrgetter("name")):  # MLIR's order
        attribute = operation.get(slot.name)
        if attribute is not None:
            given.append((slot, attribute))
        elif not slot.optional:
            raise refuse(operation, f"requires attribute '{slot.name}'", slot.label)
    # All required attributes are looked up before the first constraint is checked, as in MLIR.
    for slot, attribute in given:
        if not attribute_fits(slot.constraint, attribute):
            message = f"attribute '{slot.name}' failed to satisfy constraint: {slot.summary}"
            error = refuse(operation, message, slot.label)
            raise _of_pretty_form(operation, slot.name, error)


def _of_pretty_form(operation: Operation, name: str, error: VerifyError) -> VerifyError:
    """Return the error as MLIR's parser reports it for ops in pretty syntax.

    Its position is the `{` of the attributes. `name` is the name of the attribute.
    """
    source = operation.source
    # The generic form starts with a quote; its errors come from the verifier, not the parser.
    if source is None or source.text.startswith('"', operation.start):
        return error
    text = source.text[operation.end : operation.end + _NEAR]
    found = re.search(rf"\b{re.escape(name)}\s*=", text)
    opened = text.rfind("{", 0, found.start()) if found else -1
    if opened < 0:
        return error
    span = Span(source, operation.end + opened, operation.end + opened + 1)
    return VerifyError(f"custom op '{operation.name}' {error.message}", span=span, rule=error.rule)


_NEAR: Final = 4096
"""Number of characters after an op's name in which the text of its attributes is searched."""


def slot_of_each(
    slots: tuple[Slot, ...], count: int, segments: tuple[int, ...] | None = None
) -> Iterator[Slot]:
    """Yield the slot of each operand or result of an op, in order.

    Args:
        slots: The slots: operands or results as the definition declares them, some variadic.
        count: Number of operands or results of the op.
        segments: Number of values of each slot; without it, variadic slots share their values
            evenly.
    """
    variadic = sum(bool(slot.count) for slot in slots)
    each = max(0, count - (len(slots) - variadic)) // max(variadic, 1)
    for i, slot in enumerate(slots):
        size = segments[i] if segments is not None else each if slot.count else 1
        for _ in range(size):
            yield slot


def _segments(operation: Operation, which: str, slots: int, found: int) -> tuple[int, ...]:
    """Return the number of values of each slot, from the attribute with segment sizes.

    `which` names the attribute, `slots` is the number of slots, and `found` the number of values.

    Raises:
        VerifyError: The sizes do not sum up to `found`.
    """
    name = f"{which}SegmentSizes"
    attribute = operation.get(name)
    values = attribute.values if isinstance(attribute, DenseArrayAttr) else (0,) * slots
    if len(values) != slots:
        raise refuse(
            operation,
            f"'{name}' attribute for specifying {which} segments must have {slots} elements,"
            f" but got {len(values)}",
        )
    if min(values, default=0) < 0:
        raise refuse(operation, f"'{name}' attribute cannot have negative elements")
    total = sum(values)
    if total != found:
        raise refuse(
            operation,
            f"{which} count ({found}) does not match with the total size ({total}) specified in"
            f" attribute '{name}'",
        )
    return values


def _check_types(which: str, slots: tuple[Slot, ...], operation: Operation) -> None:
    """Check that each operand or result satisfies the type constraint of its slot.

    `which` is `operand` or `result`; `slots` are those of the definition.
    """
    values = operation.operands if which == "operand" else operation.results
    segments = None
    if "segments" in DEFINITIONS[operation.name].traits:
        segments = _segments(operation, which, len(slots), len(values))
    each = slot_of_each(slots, len(values), segments)
    for i, (slot, value) in enumerate(zip(each, values, strict=False)):
        if not type_fits(slot.constraint, value.type):
            raise refuse(
                operation,
                f"{which} #{i} must be {slot.summary}, but got '{type_text(value.type)}'",
                slot.label,
            )


def _check_agreements(operation: Operation, definition: Definition) -> None:
    """Check that values or attributes that a definition lists have equal types, ranks or sizes."""
    if not definition.agreements:
        return
    types: dict[str, Type] = {}
    for slots, values in (
        (definition.operands, operation.operands),
        (definition.results, operation.results),
    ):
        for slot, value in zip(slot_of_each(slots, len(values)), values, strict=False):
            types.setdefault(slot.name, value.type)
    for what, names, label in definition.agreements:
        if what == "size":
            first, *rest = (_size(operation, name) for name in names)
        else:
            first, *rest = (_SHARED[what](types[name]) for name in names)
        if any(other != first for other in rest):
            raise refuse(
                operation,
                f"failed to verify that all of {{{', '.join(names)}}} have same {what}",
                label,
            )


def _size(operation: Operation, name: str) -> object:
    attribute = operation.get(name)
    return len(attribute.values) if isinstance(attribute, DenseArrayAttr) else None


_SHARED: Final[dict[str, Callable[[Type], object]]] = {
    "element type": lambda t: element_of(t),
    "type": lambda t: t,
    "rank": lambda t: t.rank if isinstance(t, TensorType) else t,
}


def _check_regions(operation: Operation, definition: Definition) -> None:
    slots = definition.regions
    for i, region in enumerate(operation.regions):
        slot = slots[min(i, len(slots) - 1)]
        if slot.sized and len(region.blocks) != 1:
            raise refuse(
                operation,
                f"region #{i} ('{slot.name}') failed to verify constraint: region with 1 blocks",
            )


# --------------------------------------------------------------------------------------------------
# Predicates of types and attributes: does a value satisfy a definition's constraint?
#
# Source: StableHLO's `Base.td` and `Base.cpp`; the quantized types' constraints are those of the
# specification, `quantized_type_c5` to `c14`.

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
"""Smallest and largest positive finite number of a float type, by its name; for quantized types."""


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
"""Predicate of element types for each letter of a type constraint."""


def _one_bounded(t: TensorType) -> bool:
    dynamic = [d for d, size in enumerate(t.sizes) if size is None]
    return len(dynamic) == 1 and bool(t.bounds) and t.bounds[dynamic[0]] is not None


_SHAPES: Final[dict[str, Callable[[TensorType], bool]]] = {
    **dict.fromkeys(("", "any"), lambda t: True),
    "memref": lambda t: False,
    "0d": lambda t: t.rank == 0,
    "1d": lambda t: t.rank == 1,
    "static": lambda t: t.is_static,
    "bounded": lambda t: t.is_static or _one_bounded(t),
    "shape": lambda t: t.is_static and t.rank == 1,
    "list": lambda t: t.is_static and t.rank == 1,
    "pairs": lambda t: t.is_static and t.rank == 2,
}
"""Predicate of ranked tensor types for each shape word of a type constraint."""

_NAMED: Final[dict[str, Callable[[Type], bool]]] = {
    "token": lambda t: isinstance(t, TokenType),
    "future": lambda t: isinstance(t, FutureType),
    "anything": lambda t: True,
    "index": lambda t: isinstance(t, ElementType) and t.name == "index",
    "function": lambda t: isinstance(t, FunctionType),
}


def _axis_fits(t: TensorType) -> bool:
    """Does a quantized dimension, if the type has one, exist and have one scale per index?"""
    element = t.element
    if not isinstance(element, QuantizedType) or not element.is_per_axis:
        return True
    (axis,) = element.axes
    if not 0 <= axis < t.rank:
        return False
    size = t.sizes[axis]
    return size is None or size == len(element.scales)


def type_fits(constraint: str, type_: Type) -> bool:
    """Does a type satisfy a constraint in the notation of `type_summary`?

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> type_fits("FC/token", TensorType(ELEMENT_TYPES["f32"], (2, None)))
    True
    >>> type_fits("static.FC", TensorType(ELEMENT_TYPES["f32"], (2, None)))
    False
    """
    return any(_alternative_fits(part, type_) for part in constraint.split("/"))


def _alternative_fits(part: str, type_: Type) -> bool:
    """Does a type satisfy one alternative of a constraint: `shape.letters`, a name, or a tuple?"""
    if part in _NAMED:
        return _NAMED[part](type_)
    if part in TUPLES:
        # Tuples nest without limit: `nested` flattens them without recursion.
        parts = nested([type_], lambda t: t.elements if isinstance(t, TupleType) else ())
        return isinstance(type_, TupleType) and all(
            isinstance(part_, TupleType) or type_fits(TUPLES[part], part_) for part_ in parts
        )
    shape, _, letters = part.rpartition(".")
    shape_fits, kinds = _SHAPES[shape], [_ELEMENTS[letter] for letter in letters]
    match type_:
        case BufferType(array) if shape == "memref":
            element = array.element
        case UnrankedTensorType(element) if shape == "any":
            pass
        case TensorType(element) if shape_fits(type_) and _axis_fits(type_):
            pass
        case _:
            return False
    return any(kind(element) for kind in kinds)


def _typed(
    attribute: Attribute,
    kind: type[IntegerAttr | FloatAttr | DenseArrayAttr],
    element: ElementType,
) -> bool:
    """Is the attribute of this class, with this type of its value or its elements?"""
    if not isinstance(attribute, kind):
        return False
    found = attribute.element if isinstance(attribute, DenseArrayAttr) else attribute.type
    return found == element


# --- attributes -----------------------------------------------------------------------------


def _integer(attribute: Attribute, element: ElementType, least: float = -math.inf) -> bool:
    """Is the attribute an integer of the type `element`, of at least `least`?"""
    return (
        isinstance(attribute, IntegerAttr)
        and attribute.type == element
        and attribute.value >= least
    )


def _dense(attribute: Attribute, element: str | None, rank: int | None = None) -> bool:
    """Is the attribute a dense literal of this element type and rank? `None` allows any."""
    if isinstance(attribute, VerbatimAttr):
        return element is None and attribute.text.startswith(("dense_resource<", "sparse<"))
    return (
        isinstance(attribute, DenseAttr)
        and isinstance(attribute.type, TensorType)
        and (element is None or attribute.type.element.name == element)
        and (rank is None or attribute.type.rank == rank)
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
    "i32": lambda a: _integer(a, I32),
    "i32>=0": lambda a: _integer(a, I32, 0),
    "i32>0": lambda a: _integer(a, I32, 1),
    "i64": lambda a: _integer(a, I64),
    "i64>=0": lambda a: _integer(a, I64, 0),
    "i64>0": lambda a: _integer(a, I64, 1),
    "f32": lambda a: _typed(a, FloatAttr, ELEMENT_TYPES["f32"]),
    "f64": lambda a: _typed(a, FloatAttr, F64),
    "bool": lambda a: isinstance(a, BoolAttr),
    "unit": lambda a: isinstance(a, UnitAttr),
    "string": lambda a: isinstance(a, StringAttr),
    "array": lambda a: isinstance(a, ArrayAttr),
    "dict": lambda a: isinstance(a, DictAttr),
    "config": lambda a: isinstance(a, StringAttr | DictAttr),
    "dims": lambda a: _typed(a, DenseArrayAttr, I64),
    "bools": lambda a: _typed(a, DenseArrayAttr, I1),
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
    **{name: _struct(name) for name in ("dot", "gather", "scatter", "ragged_dot", "conv")},
    "api_version": lambda a: _integer(a, I32, 0) and not _integer(a, I32, 5),
    **{
        name: _enum(name)
        for name in (
            *("transpose", "comparison_direction", "comparison_type", "rng_algorithm"),
            *("rng_distribution", "fft_type"),
        )
    },
    "type": lambda a: isinstance(a, TypeAttr),
    "dicts": lambda a: _each(a, lambda entry: isinstance(entry, DictAttr)),
    "any": lambda a: True,
}


def attribute_fits(constraint: str, attribute: Attribute) -> bool:
    """Does an attribute satisfy a constraint, whose name is that in op definitions?

    >>> from hloscope.mlir.types import I64
    >>> attribute_fits("i64>=0", IntegerAttr(-1, I64))
    False
    """
    return _ATTRIBUTES[constraint](attribute)
