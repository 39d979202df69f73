"""Checks of an op against its definition, in the order and words of MLIR.

Source: MLIR's `Operation.cpp` and the checks its op definition generator writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from hloscope.dialects import DEFINITIONS
from hloscope.errors import VerifyError
from hloscope.ir import TensorType, Type
from hloscope.mlir import (
    Attribute,
    AttributeSlot,
    Definition,
    DenseArrayAttr,
    Operation,
    RegionSlot,
    Slot,
    type_text,
)
from hloscope.source import Span
from hloscope.verifier.stablehlo.constraints import attribute_fits, type_fits
from hloscope.verifier.stablehlo.traits import TRAITS, element_of, refuse


def check_definition(operation: Operation, definition: Definition) -> None:
    """Check counts, attributes, types, regions and traits; raise the first error.

    Raises:
        VerifyError: With MLIR's message.
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
    """Return the least number of operands, results or regions, and whether there may be more."""
    slots: Sequence[Slot | RegionSlot]
    definition = DEFINITIONS[name]
    if which == "regions":
        least = sum(not region.variadic for region in definition.regions)
        return least, least < len(definition.regions)
    slots = definition.operands if which == "operands" else definition.results
    least = sum(not slot.count for slot in slots)
    return least, least < len(slots)


def _check_counts(operation: Operation, definition: Definition) -> None:
    """Check the number of regions, results, successors and operands, in MLIR's order."""
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
    """Return the error as MLIR's parser reports it: at the `{` before the attribute."""
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
"""Characters after an op's name that are searched for its attributes."""


def slot_of_each(
    slots: tuple[Slot, ...], count: int, segments: tuple[int, ...] | None = None
) -> Iterator[Slot]:
    """Yield the slots of `count` operands or results, in order.

    Operands of several variadic slots are divided by `segments`, otherwise evenly.
    """
    variadic = sum(bool(slot.count) for slot in slots)
    each = max(0, count - (len(slots) - variadic)) // max(variadic, 1)
    for i, slot in enumerate(slots):
        size = segments[i] if segments is not None else each if slot.count else 1
        for _ in range(size):
            yield slot


def _segments(operation: Operation, which: str, slots: int, found: int) -> tuple[int, ...]:
    """Return the segment sizes of operands or results, checked against their number `found`."""
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
    """Check that named operands, results or attributes have equal types, ranks or sizes."""
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
