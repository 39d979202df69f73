"""Checks of an op against its definition: counts, types, attributes, regions and traits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final, TypeAlias

from hloscope.errors import VerifyError
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
    RegionSlot,
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


def _bounds(name: str, which: str) -> tuple[int, bool]:
    """Return the minimum number of operands, results or regions, and whether there may be more.

    `name` is the op's name; `which` is `operands`, `results` or `regions`.
    """
    slots: Sequence[Slot | RegionSlot]
    definition = DEFINITIONS[name]
    if which == "regions":
        least = sum(not region.variadic for region in definition.regions)
        return least, least < len(definition.regions)
    slots = definition.operands if which == "operands" else definition.results
    least = sum(not slot.count for slot in slots)
    return least, least < len(slots)


def _check_counts(operation: Operation, definition: Definition) -> None:
    """Check the numbers of regions, results, successors and operands, in MLIR's order."""
    name = definition.name
    least, more = _bounds(name, "regions")
    if _wrong(len(operation.regions), least, more):
        words = {0: "requires zero regions", 1: "requires one region"}
        raise refuse(operation, _expected(least, more, "regions", words))
    least, more = _bounds(name, "results")
    if _wrong(len(operation.results), least, more):
        words = {0: "requires zero results", 1: "requires one result"}
        raise refuse(operation, _expected(least, more, "results", words))
    if operation.successors:
        raise refuse(operation, f"requires 0 successors but found {len(operation.successors)}")
    least, more = _bounds(name, "operands")
    found = len(operation.operands)
    if _wrong(found, least, more):
        words = {0: "requires zero operands", 1: "requires a single operand"}
        message = _expected(least, more, "operands", words)
        but = f", but found {found}" if message.startswith("expected") else ""
        raise refuse(operation, message + but)


def _wrong(found: int, least: int, more: bool) -> bool:
    return found < least or (found > least and not more)


def _expected(least: int, more: bool, what: str, words: dict[int, str]) -> str:
    if not more and least in words:
        return words[least]
    return f"expected {least}{' or more' * more} {what}"


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
    "": lambda t: True,
    "0d": lambda t: t.rank == 0,
    "1d": lambda t: t.rank == 1,
    "static": lambda t: t.is_static,
    "bounded": lambda t: t.is_static or _one_bounded(t),
    "shape": lambda t: t.is_static and t.rank == 1,
    "list": lambda t: t.is_static and t.rank == 1,
    "pairs": lambda t: t.is_static and t.rank == 2,
}
"""Predicate of ranked tensor types for each shape word of a type constraint."""

_NAMED: Final[dict[str, Predicate]] = {
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


def type_predicate(constraint: str) -> Predicate:
    """Return the predicate of the types that satisfy a constraint.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> type_predicate("FC/token")(TensorType(ELEMENT_TYPES["f32"], (2, None)))
    True
    >>> type_predicate("static.FC")(TensorType(ELEMENT_TYPES["f32"], (2, None)))
    False
    """
    parts = [_alternative(part) for part in constraint.split("/")]
    return parts[0] if len(parts) == 1 else lambda t: any(part(t) for part in parts)


def _alternative(part: str) -> Predicate:
    """Return the predicate of one alternative of a type constraint.

    The alternative is `shape.letters`, a name, or a tuple.
    """
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
    """Return the predicate of tuples, nested at will, whose leaves satisfy `leaf`."""

    def parts(t: Type) -> tuple[Type, ...]:
        return t.elements if isinstance(t, TupleType) else ()

    # Tuples nest without limit: `nested` flattens them without recursion.
    return lambda t: (
        isinstance(t, TupleType)
        and all(isinstance(part, TupleType) or leaf(part) for part in nested(t.elements, parts))
    )


def type_fits(constraint: str, type_: Type) -> bool:
    """Does a type satisfy a constraint in the notation of `type_summary`?"""
    return type_predicate(constraint)(type_)


# --- attributes -----------------------------------------------------------------------------


def _integer(attribute: Attribute, name: str, least: int | None = None) -> bool:
    """Is the attribute an integer of the type `name`, of at least `least` if that is given?"""
    return (
        isinstance(attribute, IntegerAttr)
        and isinstance(attribute.type, ElementType)
        and attribute.type.name == name
        and (least is None or attribute.value >= least)
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
    """Does an attribute satisfy a constraint, whose name is that in op definitions?

    >>> from hloscope.mlir.types import I64
    >>> attribute_fits("i64>=0", IntegerAttr(-1, I64))
    False
    """
    return _ATTRIBUTES[constraint](attribute)
