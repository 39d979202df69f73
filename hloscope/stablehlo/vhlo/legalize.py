"""Conversion of StableHLO to VHLO, and back. Source: `StablehloLegalizeToVhlo.cpp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from hloscope.errors import UnsupportedError, VerifyError
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
from hloscope.mlir.dialects import DEFINITIONS
from hloscope.stablehlo.cloning import clone
from hloscope.stablehlo.vhlo.attributes import (
    KINDS,
    PLAIN,
    MappingError,
    default,
    is_default_value,
    tensor,
)
from hloscope.stablehlo.vhlo.tables import ATTRIBUTES, OPS, TYPES, current
from hloscope.stablehlo.vhlo.trees import CAST, add_casts, cast_obstacle, is_vhlo_op
from hloscope.stablehlo.vhlo.versions import CURRENT, Version
from hloscope.support.walks import needed_first

# --------------------------------------------------------------------------------------------------
# Conversion of StableHLO to VHLO. Source: `StablehloLegalizeToVhlo.cpp`.


_ELEMENTS: Final = frozenset(
    row.value[0] for row in TYPES if row.value and row.value[0] in ELEMENTS
)
_BASES: Final = {"func.func": "func", "func.return": "return", "func.call": "call"}
_TILINGS: Final = AttributeSlot("result_tilings", "tilings", optional=True)
_STRUCTS: Final = frozenset(row.name.removesuffix("_v1") for row in ATTRIBUTES)
"""Names of StableHLO's structures that are attributes of VHLO, too.

Every other structure is the value of one attribute, which `attributes.KINDS` splits into one
attribute per field.
"""
_TENSOR_ELEMENTS: Final = (I1, I64)
"""Element types of arrays that VHLO writes as tensors; VHLO cannot express other arrays.

Source: `convertGeneric` of `StablehloLegalizeToVhlo.cpp`; what jaxlib writes.
"""
_BITS: Final = 64
"""Width of a tensor size in bits; sizes are signed."""


def slots_of(name: str, library: Version) -> tuple[AttributeSlot, ...]:
    """Return the inherent attributes of StableHLO op `name` that VHLO has in version `library`."""
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
    """Return the name of an op in VHLO without version; empty if VHLO does not have the op.

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
    """Convert a module of StableHLO to VHLO, with the ops that a StableHLO version uses.

    Args:
        module: A module of StableHLO; it is not changed.
        library: The StableHLO version.
        allow_other_dialects: Keep ops and attributes of dialects that VHLO does not have.

    Raises:
        UnsupportedError: VHLO cannot express some ops, types or attributes; the message names all.
    """
    return _Legalizer(library, allow_other_dialects).run(module)


_HINT: Final = "What is of other dialects can be kept: --allow-other-dialects does it."


class _Legalizer:
    """Converts StableHLO ops to VHLO, and records what VHLO cannot express."""

    def __init__(self, library: Version, mixed: bool) -> None:
        self.library, self.mixed = library, mixed
        self.problems: list[str] = []
        # By `id`: programs share types and attributes, and to hash a long constant costs more than
        # to convert it. Each entry holds its key's object, so the `id` is not reused.
        self._types: dict[int, tuple[Type, bool]] = {}
        # By op name and `id` of the properties. The entry holds them, so the `id` is not reused.
        self._shared: dict[
            tuple[str, int], tuple[Mapping[str, Attribute], Mapping[str, Attribute]]
        ] = {}
        self._attributes: dict[int, tuple[Attribute, Attribute, str]] = {}

    def run(self, module: Operation) -> Operation:
        # The whole module is converted before any error is raised, so that one message has all
        # problems.
        made = clone(module, {})
        for op in needed_first([made], lambda op: op.inside):
            self._convert(op)
        if self.problems:
            lines = "".join(f"\n  {problem}" for problem in dict.fromkeys(self.problems))
            hint = "" if self.mixed else f"\n{_HINT}"
            raise UnsupportedError(f"failed to legalize to VHLO:{lines}{hint}")
        if self.mixed:
            add_casts(made)
        return made

    def _convert(self, op: Operation) -> None:
        """Give an op its name and attributes in VHLO; record what VHLO cannot express."""
        if op.name == "builtin.module":
            return
        base = base_of(op.name)
        # An op outside of VHLO stays. It may use values of VHLO through casts, unless its regions
        # or successors would need casts where none can be inserted.
        if not base and self.mixed:
            why = cast_obstacle(op)
            if why:
                self._refuse(op, why)
            return
        name = current(base, self.library)
        if name is None:
            self._refuse(op, f"the op {op.name} has no form in VHLO")
            return
        properties, attributes = self._attributes_of(op)
        arguments = [argument for block in op.blocks for argument in block.arguments]
        for value in (*op.results, *arguments):
            if not self._fits(value.type):
                self._refuse(op, f"the type {type_text(value.type)} has no form in VHLO")
        op.name, op.properties, op.attributes = f"vhlo.{name}", properties, attributes

    def _attributes_of(
        self, op: Operation
    ) -> tuple[Mapping[str, Attribute], Mapping[str, Attribute]]:
        """Return an op's inherent and other attributes in VHLO; errors are recorded.

        Ops of one name that share one properties mapping share the result.
        """
        given = op.properties
        key = op.name, id(given)
        known = self._shared.get(key) if not op.attributes else None
        if known is not None:
            return known[1], NO_ATTRIBUTES
        before = len(self.problems)
        try:
            properties, attributes = self._split_attributes(op)
        except MappingError as error:
            self._refuse(op, str(error))
            return {}, {}
        # Only a result without errors is reused: errors name the op, so each op must report its
        # own. Attributes outside of the properties differ from op to op.
        if not op.attributes and not attributes and len(self.problems) == before:
            self._shared[key] = given, properties
        return properties, attributes

    def _refuse(self, op: Operation, why: str) -> None:
        where = location_text(resolve_location(op.location))
        if op.span is not None:
            line, column = op.span.line_col
            where = f"{op.span.source.name}:{line}:{column}"
        self.problems.append(f"{where}: {illegal(op.name)}: {why}")

    def _split_attributes(
        self, op: Operation
    ) -> tuple[Mapping[str, Attribute], Mapping[str, Attribute]]:
        """Return an op's inherent attributes in VHLO, and all others.

        Raises:
            MappingError: An attribute is missing or has a value of another kind.
        """
        slots = slots_of(op.name, self.library)
        left = op.attributes
        given = op.properties
        if not slots and not left and not given:
            return NO_ATTRIBUTES, NO_ATTRIBUTES
        # Older texts have inherent attributes in the attribute dictionary. So both mappings are
        # searched for the attributes that the op defines; whatever remains is discardable.
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
        """Return an attribute of `op` in VHLO's form.

        If VHLO cannot express it, record an error that has its name `name`, and return it
        unchanged.
        """
        known = self._attributes.get(id(value))
        if known is None:
            made, inexpressible, foreign = self._converted(value)
            known = self._attributes[id(value)] = (
                value,
                made,
                inexpressible or ("" if self.mixed else foreign),
            )
        if known[2]:
            self._refuse(op, f"the attribute `{name}` has no form in VHLO: {known[2]}")
        return known[1]

    def _converted(self, value: Attribute) -> tuple[Attribute, str, str]:
        """Return an attribute in VHLO's form, and texts of parts that VHLO cannot express.

        The first text is of a part that no VHLO attribute can express, the second of a part of an
        unknown dialect; either may be empty. Symbols become strings, and arrays of `i64` and `i1`
        become tensors, at any depth and under any name.
        """
        inexpressible = foreign = ""
        changed = False
        # A work list in place of recursion: only attributes that have a part to rewrite are
        # rebuilt.
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
                        inexpressible = attribute_text(part)[:100]
                case StringAttr(_, type) if type is not None:
                    inexpressible = attribute_text(part)[:100]
                case StructAttr("stablehlo", name):
                    if name not in _STRUCTS:
                        inexpressible = attribute_text(part)[:100]
                case _ if _has_vhlo_form(part):
                    changed = True
                case StringAttr() | BoolAttr() | EnumAttr("stablehlo" | "vhlo"):
                    pass
                case _:
                    foreign = attribute_text(part)[:100]
        return (_in_vhlo_form(value) if changed else value), inexpressible, foreign

    def _fits(self, type: Type) -> bool:
        known = self._types.get(id(type))
        if known is None:
            known = self._types[id(type)] = type, fits(type)
        return known[1]


def _has_vhlo_form(value: Attribute) -> bool:
    """Is the attribute a symbol, or an array of `i64` or `i1`, which `_in_vhlo_form` replaces?"""
    match value:
        case SymbolAttr():
            return not value.nested
        case DenseArrayAttr(element):
            return element in _TENSOR_ELEMENTS
        case _:
            return False


def _in_vhlo_form(value: Attribute) -> Attribute:
    """Return an attribute with strings in place of symbols, and tensors in place of arrays.

    The function may recurse, since parsers limit the nesting of attributes.
    """
    match value:
        case SymbolAttr() if _has_vhlo_form(value):
            return StringAttr.of(value.root)
        case DenseArrayAttr(element, values) if _has_vhlo_form(value):
            return tensor(values, truths=element == I1)
        case ArrayAttr(parts):
            return ArrayAttr(tuple(map(_in_vhlo_form, parts)))
        case DictAttr(entries):
            return DictAttr(tuple([(name, _in_vhlo_form(part)) for name, part in entries]))
        case _:
            return value


def fits(type: Type) -> bool:
    """Can VHLO express this type?

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


# --------------------------------------------------------------------------------------------------
# Conversion of VHLO's current version to StableHLO. Source: `VhloLegalizeToStablehlo.cpp`.


_Parts: TypeAlias = tuple[str, Mapping[str, Attribute], Mapping[str, Attribute]]

_RETURN: Final = "vhlo.return_v1"
_NAMES: Final = {"func": "func.func", "call": "func.call"}


def to_stablehlo(module: Operation) -> Operation:
    """Convert a module of VHLO's current version to StableHLO; the module is not changed.

    Casts between VHLO and other dialects are removed.

    Raises:
        UnsupportedError: VHLO does not have an op of the module.
        VerifyError: An op lacks an attribute, or has an invalid one.
    """
    made = clone(module, {})
    for op in made.walk():
        if is_vhlo_op(op):
            op.source = None  # its position is one in the text of VHLO
    return convert_to_stablehlo(made)


def convert_to_stablehlo(module: Operation) -> Operation:
    """Convert a module of VHLO's current version to StableHLO, in place; return it.

    The caller must be the only user of the module. Casts between VHLO and other dialects are
    removed.

    Raises:
        UnsupportedError: VHLO does not have an op of the module.
        VerifyError: An op lacks an attribute, or has an invalid one.
    """
    ops = list(module.walk())
    restorer = _Restorer()
    for op in ops:
        if is_vhlo_op(op):
            op.name, op.properties, op.attributes = restorer.parts(op)
    if any(op.name == CAST for op in ops):
        _remove_casts(ops)
    return module


def _remove_casts(ops: Sequence[Operation]) -> None:
    """Remove the casts among the ops of a module; their operands replace their results."""
    sources: dict[Value, Value] = {}
    for op in ops:
        if op.name == CAST:
            operands = [sources.get(value, value) for value in op.operands]
            sources.update(zip(op.results, operands, strict=True))
    for op in ops:
        op.operands = tuple([sources.get(value, value) for value in op.operands])
        for block in op.blocks:
            block.operations = tuple([inner for inner in block.operations if inner.name != CAST])


class _Restorer:
    """Converts VHLO ops to StableHLO.

    Ops that share one properties mapping share one afterwards.
    """

    def __init__(self) -> None:
        # By op name and `id` of the properties. The entry holds them, so the `id` is not reused.
        self._shared: dict[tuple[str, int], tuple[Mapping[str, Attribute], _Parts]] = {}

    def parts(self, op: Operation) -> _Parts:
        """Return the name, the properties and the other attributes of an op in StableHLO."""
        given = op.properties
        # A return's name depends on its parent, and attributes outside of the properties differ
        # from op to op, so neither is shared.
        if op.attributes or op.name == _RETURN:
            return _parts(op)
        known = self._shared.get((op.name, id(given)))
        if known is None:
            known = self._shared[op.name, id(given)] = given, _parts(op)
        return known[1]


def _parts(op: Operation) -> _Parts:
    if op.name[5:] not in OPS:
        what = f"unregistered operation '{op.name}' found in dialect ('vhlo')"
        raise UnsupportedError(f"{what} that does not allow unknown operations")
    name = _name_of(op)
    try:
        properties = _properties(op, name)
    except MappingError as error:
        raise VerifyError(f"{op.name}: {error}") from None
    except KeyError as error:
        raise VerifyError(f"{op.name} requires attribute {error}") from None
    attributes = op.attributes
    # Text may have inherent attributes in the attribute dictionary; StableHLO has them as
    # properties.
    if attributes:
        definition = DEFINITIONS.get(name)
        own = definition.inherent if definition else frozenset()
        moved = {key: value for key, value in attributes.items() if key in own}
        if moved:
            properties = {**properties, **moved}
            attributes = {key: value for key, value in attributes.items() if key not in own}
    return name, properties, attributes


def _name_of(op: Operation) -> str:
    base = op.name[5:].rpartition("_v")[0]
    if base == "return":
        parent = op.parent_op
        in_function = parent is not None and parent.name in ("vhlo.func_v1", "func.func")
        return "func.return" if in_function else "stablehlo.return"
    return _NAMES.get(base) or f"stablehlo.{base}"


def _properties(op: Operation, name: str) -> Mapping[str, Attribute]:
    given = op.properties
    if not given:
        missing = OPS[op.name[5:]].attributes
        if missing:
            raise KeyError(missing[0])
        return NO_ATTRIBUTES
    found: dict[str, Attribute] = {}
    for slot in slots_of(name, CURRENT):
        kind = slot.constraint
        # VHLO writes every optional attribute out. StableHLO omits those with the default value,
        # except where its op always states them.
        asks = kind in ("dims", "bools") or (kind not in KINDS and not slot.given)
        if slot.optional and asks and is_default_value(slot.name, kind, given[slot.name]):
            continue
        value = KINDS.get(kind, PLAIN).back(given, slot.name)
        if value is not None:
            found[slot.name] = value
    return found
