"""StableHLO → VHLO.  Source: `StablehloLegalizeToVhlo.cpp`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from hloscope.dialects import DEFINITIONS
from hloscope.errors import UnsupportedError
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
    ELEMENTS,
    I1,
    I64,
    NO_ATTRIBUTES,
    ArrayAttr,
    Attribute,
    AttributeSlot,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    Operation,
    Region,
    StringAttr,
    StructAttr,
    SymbolAttr,
    TypeAttr,
    Value,
    attribute_text,
    element_text,
    illegal,
    location_text,
    resolve_location,
    type_text,
)
from hloscope.vhlo.attributes import KINDS, PLAIN, MappingError, default, tensor
from hloscope.vhlo.codes import ATTRIBUTES, TYPES
from hloscope.vhlo.mixing import add_casts, unfit_beside_vhlo
from hloscope.vhlo.ops import OPS, current
from hloscope.vhlo.trees import Rebuild, copied
from hloscope.vhlo.versions import CURRENT, Version

_ELEMENTS: Final = frozenset(
    row.value[0] for row in TYPES if row.value and row.value[0] in ELEMENTS
)
_BASES: Final = {"func.func": "func", "func.return": "return", "func.call": "call"}
_TILINGS: Final = AttributeSlot("result_tilings", "tilings", optional=True)
_STRUCTS: Final = frozenset(row.name.removesuffix("_v1") for row in ATTRIBUTES)
"""Names of StableHLO's structures that VHLO has too; the others stand in attributes of their own
ops only, which take them apart."""
_TENSOR_ELEMENTS: Final = (I1, I64)
"""Element types of the arrays that VHLO writes as tensors; arrays of other types have no form.

Source: `convertGeneric` of `StablehloLegalizeToVhlo.cpp`; what jaxlib writes.
"""
_BITS: Final = 64
"""Of a size, which has a sign."""


@cache
def slots_of(name: str, library: Version) -> tuple[AttributeSlot, ...]:
    """The inherent attributes of an op of StableHLO that VHLO knows, as a library has them."""
    definition = DEFINITIONS.get(name)
    found = list(definition.attributes) if definition else []
    base = base_of(name)
    row = OPS.get(current(base, library) or "")
    if base == "custom_call" and library >= (1, 18, 0):
        found.append(_TILINGS)
    known = row.attributes if row else ()
    own = [slot for slot in found if _known(slot, known, name)]
    return tuple(own)


def _known(slot: AttributeSlot, names: tuple[str, ...], op: str) -> bool:
    wanted = KINDS.get(slot.constraint, PLAIN).names(slot.name, op)
    return bool(wanted) and wanted[0] in names


def base_of(name: str) -> str:
    """The name of an op in VHLO, without version; empty if there is none.

    >>> base_of("func.call"), base_of("stablehlo.if"), base_of("chlo.tan")
    ('call', 'if', '')
    """
    if name in _BASES:
        return _BASES[name]
    dialect, _, base = name.partition(".")
    return base if dialect == "stablehlo" else ""


def to_vhlo(
    module: Operation, library: Version = CURRENT, *, allow_other_dialects: bool = False
) -> Operation:
    """The module with the ops of VHLO that a library of that version uses.

    Args:
        module: A tree of StableHLO.
        library: The version.
        allow_other_dialects: Keep ops and attributes that VHLO has none for.

    Raises:
        UnsupportedError: Ops, types or attributes have no form in VHLO; the message names all.
    """
    return _Legalizer(library, allow_other_dialects).run(module)


_HINT: Final = "What is of other dialects can be kept: --allow-other-dialects does it."


class _Legalizer:
    def __init__(self, library: Version, mixed: bool) -> None:
        self.library, self.mixed = library, mixed
        self.problems: list[str] = []
        self._types: dict[int, tuple[Type, bool]] = {}
        # By name and identity of the properties, which are kept so that no other has it.
        self._shared: dict[
            tuple[str, int], tuple[Mapping[str, Attribute], Mapping[str, Attribute]]
        ] = {}
        self._attributes: dict[int, tuple[Attribute, Attribute, str]] = {}

    def run(self, module: Operation) -> Operation:
        made = Rebuild(self._make).run(module)
        if self.problems:
            lines = "".join(f"\n  {problem}" for problem in dict.fromkeys(self.problems))
            hint = "" if self.mixed else f"\n{_HINT}"
            raise UnsupportedError(f"failed to legalize to VHLO:{lines}{hint}")
        if self.mixed:
            add_casts(made)
        return made

    def _make(
        self,
        op: Operation,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        regions: tuple[Region, ...],
    ) -> Operation:
        if op.name == "builtin.module":
            return copied(op, operands, results, regions)
        base = base_of(op.name)
        if not base and self.mixed:
            why = unfit_beside_vhlo(op)
            if why:
                self._refuse(op, why)
            return copied(op, operands, results, regions)
        name = current(base, self.library)
        if name is None:
            self._refuse(op, f"the op {op.name} has no form in VHLO")
            return copied(op, operands, results, regions)
        properties, attributes = self._attributes_of(op)
        for result in results:
            self._check_type(op, result.type)
        for region in regions:
            for block in region.blocks:
                for argument in block.arguments:
                    self._check_type(op, argument.type)
        return Operation(
            f"vhlo.{name}",
            operands,
            results,
            properties,
            attributes,
            regions,
            location=op.location,
            source=op.source,
            start=op.start,
            end=op.end,
        )

    def _attributes_of(
        self, op: Operation
    ) -> tuple[Mapping[str, Attribute], Mapping[str, Attribute]]:
        """As `_divided`; ops that share their properties share those in VHLO."""
        given = op.properties
        key = op.name, id(given)
        known = self._shared.get(key) if not op.attributes else None
        if known is not None:
            return known[1], NO_ATTRIBUTES
        before = len(self.problems)
        try:
            properties, attributes = self._divided(op)
        except MappingError as error:
            self._refuse(op, str(error))
            return {}, {}
        if not op.attributes and not attributes and len(self.problems) == before:
            self._shared[key] = given, properties
        return properties, attributes

    def _refuse(self, op: Operation, why: str) -> None:
        where = location_text(resolve_location(op.location))
        if op.span is not None:
            line, column = op.span.line_col
            where = f"{op.span.source.name}:{line}:{column}"
        self.problems.append(f"{where}: {illegal(op.name)}: {why}")

    def _divided(self, op: Operation) -> tuple[Mapping[str, Attribute], Mapping[str, Attribute]]:
        """Inherent attributes and all others, of the op in VHLO."""
        slots = slots_of(op.name, self.library)
        left = op.attributes
        given = op.properties
        if not slots and not left and not given:
            return NO_ATTRIBUTES, NO_ATTRIBUTES
        rest = {**given, **left} if left else dict(given)
        found: dict[str, Attribute] = {}
        for slot in slots:
            value = rest.pop(slot.name, None)
            if value is None:
                found.update(default(slot.name, slot.constraint, op))
            elif slot.constraint in KINDS:
                found.update(KINDS[slot.constraint].to(slot.name, value, op.name))
            else:
                found[slot.name] = value
        check = self._check
        return (
            {name: check(op, name, value) for name, value in found.items()},
            {name: check(op, name, value) for name, value in rest.items()},
        )

    # ------------------------------------------------------------------- what VHLO can say

    def _check(self, op: Operation, name: str, value: Attribute) -> Attribute:
        """The attribute as VHLO has it."""
        known = self._attributes.get(id(value))
        if known is None:
            made, unfit, strange = self._converted(value)
            known = self._attributes[id(value)] = (
                value,
                made,
                unfit or ("" if self.mixed else strange),
            )
        if known[2]:
            self._refuse(op, f"the attribute `{name}` has no form in VHLO: {known[2]}")
        return known[1]

    def _converted(self, value: Attribute) -> tuple[Attribute, str, str]:
        """An attribute as VHLO has it, the part that it cannot say, the part of no kind it has.

        Names of functions are strings in VHLO and arrays of `i64` and `i1` are tensors, at any
        depth of the attribute and whatever its name.
        """
        unfit = strange = ""
        respelled = False
        stack = [value]
        while stack:
            part = stack.pop()
            match part:
                case ArrayAttr(parts):
                    stack += parts
                case DictAttr(entries):
                    stack += [inner for _, inner in entries]
                case IntegerAttr() | FloatAttr() | DenseAttr() | TypeAttr():
                    if not self._fits(part.type):
                        unfit = attribute_text(part)[:100]
                case StringAttr(_, type) if type is not None:
                    unfit = attribute_text(part)[:100]
                case StructAttr("stablehlo", name):
                    if name not in _STRUCTS:
                        unfit = attribute_text(part)[:100]
                case _ if _is_respelled(part):
                    respelled = True
                case StringAttr() | BoolAttr() | EnumAttr("stablehlo" | "vhlo"):
                    pass
                case _:
                    strange = attribute_text(part)[:100]
        return (_respelled(value) if respelled else value), unfit, strange

    def _check_type(self, op: Operation, type: Type) -> None:
        if not self._fits(type):
            self._refuse(op, f"the type {type_text(type)} has no form in VHLO")

    def _fits(self, type: Type) -> bool:
        known = self._types.get(id(type))
        if known is None:
            known = self._types[id(type)] = type, fits(type)
        return known[1]


def _is_respelled(value: Attribute) -> bool:
    """Does VHLO have another attribute instead of this one, as `_respelled` gives it?"""
    match value:
        case SymbolAttr():
            return not value.nested
        case DenseArrayAttr(element):
            return element in _TENSOR_ELEMENTS
        case _:
            return False


def _respelled(value: Attribute) -> Attribute:
    """An attribute with strings for names of functions and tensors for arrays of numbers.

    Parsers bound how deep attributes are nested.
    """
    match value:
        case SymbolAttr() if _is_respelled(value):
            return StringAttr.of(value.root)
        case DenseArrayAttr(element, values) if _is_respelled(value):
            return tensor(values, truths=element == I1)
        case ArrayAttr(parts):
            return ArrayAttr(tuple(map(_respelled, parts)))
        case DictAttr(entries):
            return DictAttr(tuple([(name, _respelled(part)) for name, part in entries]))
        case _:
            return value


def fits(type: Type) -> bool:
    """Has VHLO a type for this one?

    >>> fits(ELEMENTS["i32"]), fits(TupleType((ELEMENTS["f80"],)))
    (True, False)
    >>> fits(TensorType(ELEMENTS["f32"], (1 << 63,)))
    False
    """
    match type:
        case QuantizedType():
            return not type.by_blocks and fits(type.expressed)
        case ElementType(kind="complex"):
            inside = ELEMENTS.get(element_text(type)[len("complex<") : -1])
            return inside is not None and fits(inside)
        case ElementType():
            return element_text(type) in _ELEMENTS
        case TensorType(element):
            plain = not type.encoding or type.encoding.startswith("#stablehlo.bounds<")
            sizes = all([size is None or size.bit_length() < _BITS for size in type.sizes])
            return plain and sizes and fits(element)
        case UnrankedTensorType(element):
            return fits(element)
        case TupleType(parts) | FutureType(parts):
            return all(map(fits, parts))
        case FunctionType(inputs, results):
            return all(map(fits, (*inputs, *results)))
        case BufferType(inside):
            return fits(inside)
        case TokenType():
            return True
        case _:
            return type_text(type) == "!shape.witness"
