"""Conversion between versions of VHLO, and the versions that parts of a module need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from hloscope.errors import HloscopeError
from hloscope.ir import (
    BufferType,
    ElementType,
    FunctionType,
    FutureType,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
)
from hloscope.mlir import (
    ELEMENTS,
    UNKNOWN,
    ArrayAttr,
    Attribute,
    DenseAttr,
    DictAttr,
    EnumAttr,
    FileLoc,
    FloatAttr,
    IntegerAttr,
    Location,
    Operation,
    StructAttr,
    TypeAttr,
    Value,
    element_text,
    illegal,
    location_text,
    resolve_location,
)
from hloscope.stablehlo.cloning import clone
from hloscope.stablehlo.vhlo.tables import ATTRIBUTES, OPS, TYPES
from hloscope.stablehlo.vhlo.trees import is_vhlo_op, use_orders
from hloscope.stablehlo.vhlo.versions import (
    CHANGES,
    CURRENT,
    MINIMUM,
    Version,
    extra_needs,
    needs_more,
    version_text,
)

# --------------------------------------------------------------------------------------------------
# Conversion between versions of VHLO. Source: `VhloToVersion.cpp`.


class DowngradeError(HloscopeError):
    """A module cannot be converted to a version, since some ops need a later one.

    Attributes:
        target: The requested version.
        obstacles: Every op that needs a later version than `target`, with the feature that needs
            it.
    """

    def __init__(self, target: Version, found: Sequence[Obstacle]) -> None:
        lines = "".join(f"\n  {one}" for one in dict.fromkeys(map(str, found)))
        super().__init__(f"failed to convert VHLO to v{version_text(target)}:{lines}")
        self.target, self.obstacles = target, tuple(found)


class Converted(Struct, frozen=True):
    """A module that was converted to a version of VHLO.

    Attributes:
        module: The converted module.
        orders: Use-list orders for bytecode, by value; only where they differ from program order.
    """

    module: Operation
    orders: dict[Value, tuple[bool, tuple[int, ...]]] = field(default_factory=dict)


def to_version(module: Operation, target: Version, *, mixed: bool = False) -> Converted:
    """Convert a module of VHLO to another version of VHLO.

    Args:
        module: A module of VHLO; it is not changed.
        target: The version.
        mixed: Whether casts between VHLO and other dialects were inserted into the module.

    Raises:
        DowngradeError: Some op needs a later version; the message names every such op.
    """
    changing = _ops_of_other_form(module, target)
    # No op changes form, so no use moves either: the tree is returned without a copy.
    if not changing:
        return Converted(module, use_orders(module, set(), mixed=True) if mixed else {})
    made = clone(module, {})
    # MLIR keeps the uses of a value in the order in which ops were created. An artifact records
    # orders that differ from program order, so the replaced ops decide bytes.
    replaced = {op for op in made.walk() if op.name in changing}
    for op in replaced:
        op.name, op.properties = _changed(op)
    return Converted(made, use_orders(made, replaced, mixed=mixed))


def convert_to_current(module: Operation) -> None:
    """Convert the ops of a VHLO module to the newest forms, in place.

    The caller must be the only user of the module. Ops that share one properties mapping share one
    afterwards.

    Raises:
        DowngradeError: An op needs a later version.
    """
    changing = _ops_of_other_form(module, CURRENT)
    if not changing:
        return
    # By op name and `id` of the properties. The entry holds them, so the `id` is not reused.
    known: dict[tuple[str, int], tuple[Mapping[str, Attribute], str, Mapping[str, Attribute]]] = {}
    for op in module.walk():
        if op.name in changing:
            key = op.name, id(op.properties)
            if key not in known:
                known[key] = op.properties, *_changed(op)
            _, op.name, op.properties = known[key]


def _ops_of_other_form(module: Operation, target: Version) -> set[str]:
    """Return the names of ops of which the target version has only another form.

    An op of VHLO has at most two forms, `_v1` and `_v2`. The names are those of the module's ops,
    whose form the version lacks.

    Raises:
        DowngradeError: An op needs a later version.
    """
    # Patch numbers do not change the dialect, so versions are compared without them.
    plain = (*target[:2], 0)
    found = obstacles(module, target) if plain < CURRENT else []
    if found:
        raise DowngradeError(plain, found)
    return {name for name in {op.name for op in module.walk()} if _has_other_form(name, plain)}


def _has_other_form(name: str, target: Version) -> bool:
    """Does the target version lack the form of op `name`, `_v1` or `_v2`?

    It has the other form then. For an unknown op the result is false.
    """
    row = OPS.get(name[5:]) if name.startswith("vhlo.") else None
    return row is not None and not row.first <= target <= row.last


def _changed(op: Operation) -> tuple[str, Mapping[str, Attribute]]:
    """Return the name and the properties of an op in its other form.

    An op has at most two forms: one in `_v1` is upgraded to `_v2`, one in `_v2` downgraded.
    """
    base, _, number = op.name.removeprefix("vhlo.").rpartition("_v")
    change = CHANGES[base]
    up = number == "1"
    return f"vhlo.{base}_v{2 if up else 1}", change.up(op.properties) if up else change.down(op)


# --------------------------------------------------------------------------------------------------
# Versions that types, attributes, ops and modules need.


class Need(NamedTuple):
    """A version, and the feature (in words) that needs at least that version."""

    version: Version
    feature: str


class Obstacle(NamedTuple):
    """An op that needs a later version than the target.

    Attributes:
        op: Name of the op in VHLO.
        location: Location of the op.
        version: The first version that has the feature.
        feature: The feature of the op that needs that version.
    """

    op: str
    location: Location
    version: Version
    feature: str

    @property
    def place(self) -> str:
        """Location of the op, as text in MLIR's form."""
        return location_text(resolve_location(self.location))

    def __str__(self) -> str:
        why = f"{self.feature} needs {version_text(self.version)}"
        return f"{self.place}: {illegal(self.op)}: {why}"


_SINCE: Final = {row.name.removesuffix("_v1"): row.since for row in ATTRIBUTES}
_TYPE_SINCE: Final = {row.value[0]: row.since for row in TYPES if row.value}


def type_need(type: Type) -> Need | None:
    """Return the version that a type needs, with the feature; `None` if every version has it.

    The types in a future, and in a type quantized along an axis, are not examined.

    Source: `VhloToVersion.cpp`, `isLegalType`.
    """
    found: list[Need | None] = []
    match type:
        case QuantizedType():
            if type.axes:
                return Need(_TYPE_SINCE["quantized_axis"], "a type quantized along an axis")
            found = [type_need(ELEMENTS[_signless(type)]), type_need(type.expressed)]
        case ElementType(kind="complex"):
            inside = ELEMENTS.get(element_text(type)[len("complex<") : -1])
            return type_need(inside) if inside is not None else None
        case ElementType():
            text = element_text(type)
            since = _TYPE_SINCE.get(text, MINIMUM)
            return Need(since, f"the type {text}") if since > MINIMUM else None
        case TensorType(element) | UnrankedTensorType(element):
            return type_need(element)
        case TupleType(parts):
            found = [type_need(part) for part in parts]
        case FunctionType(inputs, results):
            found = [type_need(part) for part in (*inputs, *results)]
        case BufferType(inside):
            found = [Need(_TYPE_SINCE["buffer"], "the type of a buffer"), type_need(inside)]
        case FutureType():
            return Need(_TYPE_SINCE["future"], "the type of a future")
        case _:
            return None
    return max((need for need in found if need is not None), default=None)


def _signless(type: QuantizedType) -> str:
    name = f"i{type.storage.bits}"
    return name if name in ELEMENTS else "i8"


def attribute_need(value: Attribute) -> Need | None:
    """Return the version that an attribute needs, with the feature; `None` if every version has it.

    The axes of a mesh are not examined.
    """
    return max(_attribute_needs(value), default=None)


def _attribute_needs(value: Attribute) -> Iterator[Need]:
    stack: list[Any] = [value]
    while stack:
        part = stack.pop()
        match part:
            case IntegerAttr() | FloatAttr() | DenseAttr() | TypeAttr():
                need = type_need(part.type)
                if need is not None:
                    yield need
            case ArrayAttr(parts):
                stack += parts
            case DictAttr(entries):
                stack += [inner for _, inner in entries]
            case EnumAttr(_, name, _) | StructAttr(_, name, _):
                since = _SINCE.get(name, MINIMUM)
                if since > MINIMUM:
                    yield Need(since, f"an attribute {name}")
                if isinstance(part, StructAttr) and name == "replica_group_mesh_axes":
                    stack += [inner for _, inner in part.fields if isinstance(inner, ArrayAttr)]


_NOTHING: Final[Sequence[Need]] = ()


class Needs:
    """Computes the versions that ops need; results are stored by attribute, type and properties."""

    def __init__(self) -> None:
        # By `id`, since to hash a long constant costs more than to inspect it. Each entry holds the
        # object, so its `id` is not reused.
        self._attributes: dict[int, tuple[Attribute, Need | None]] = {}
        self._types: dict[int, tuple[Type, Need | None]] = {}
        # Properties by op name and `id`, of ops whose needs depend on their types only.
        self._plain: dict[tuple[str, int], Mapping[str, Attribute]] = {}

    def type(self, type: Type) -> Need | None:
        """Return `type_need(type)`, which is computed once for each type object."""
        known = self._types.get(id(type))
        if known is None:
            known = self._types[id(type)] = type, type_need(type)
        return known[1]

    def attribute(self, value: Attribute) -> Need | None:
        """Return `attribute_need(value)`, which is computed once for each attribute object."""
        known = self._attributes.get(id(value))
        if known is None:
            known = self._attributes[id(value)] = value, attribute_need(value)
        return known[1]

    def of(self, op: Operation) -> Sequence[Need]:
        """Return the versions after the minimum that an op needs, each with a feature.

        A feature that the op's other form does not need is not included.
        """
        known = self._plain.get((op.name, id(op.properties)))
        if known is None or op.attributes:
            return self._of(op)
        type = self.type
        for value in op.operands:
            if type(value.type) is not None:
                return self._of(op)
        for value in op.results:
            if type(value.type) is not None:
                return self._of(op)
        return _NOTHING

    def _of(self, op: Operation) -> list[Need]:
        found = self._looked_up(op)
        name = op.name.removeprefix("vhlo.")
        # Needs of ops with the same properties differ only by their types, unless a rule inspects
        # operands or results: then each op is inspected.
        if not found and not op.attributes and not _depends_on_context(name):
            self._plain[op.name, id(op.properties)] = op.properties
        return found

    def _looked_up(self, op: Operation) -> list[Need]:
        name = op.name.removeprefix("vhlo.")
        found: list[Need] = []
        base, _, number = name.rpartition("_v")
        change = CHANGES.get(base)
        row = OPS.get(name)
        dropped: frozenset[str] = frozenset()
        if row is None:
            return []
        # The form `_v2` can be downgraded if its new attributes have default values. Then it needs
        # no more than `_v1`, so the attributes that a downgrade drops do not count.
        if change is not None and number == "2":
            obstacles = change.obstacles(op)
            dropped = frozenset(attribute for attribute, _ in change.added)
            found += [Need(change.first, what) for what in obstacles]
            row, name = OPS[f"{base}_v1"], f"{base}_v1"
        if row.first > MINIMUM:
            found.append(Need(row.first, f"the op {base}"))
        found += [Need(*need) for need in extra_needs(name, op)]
        for key, value in op.properties.items():
            self._add(found, self.attribute(value) if key not in dropped else None, f"`{key}`")
        for key, value in op.attributes.items():
            self._add(found, self.attribute(value), f"`{key}`")
        for kind, values in (("operand", op.operands), ("result", op.results)):
            for position, one in enumerate(values):
                self._add(found, self.type(one.type), f"{kind} {position}")
        return found

    @staticmethod
    def knows(op: Operation) -> bool:
        """Is the op in VHLO's tables of ops?"""
        return op.name.removeprefix("vhlo.") in OPS

    def needs_of_present_form(self, op: Operation) -> list[Need]:
        """Return the versions that a reader needs for the present form of an op, with features."""
        name = op.name.removeprefix("vhlo.")
        row = OPS.get(name)
        if row is None:
            return []
        found = [need for need in self.of(op) if not need.feature.startswith("the op ")]
        if row.first > MINIMUM:
            found.append(Need(row.first, f"the op {name}"))
        return found

    @staticmethod
    def _add(found: list[Need], need: Need | None, where: str) -> None:
        if need is not None:
            found.append(Need(need.version, f"{need.feature} of {where}"))


def _depends_on_context(name: str) -> bool:
    """May the versions that op `name` needs depend on more than its properties and types?"""
    change = CHANGES.get(name.rpartition("_v")[0])
    return needs_more(name) or (change is not None and bool(change.condition))


def place_of(op: Operation) -> Location:
    """Return the location of an op; if it is unknown, the op's position in its text."""
    if op.location != UNKNOWN or op.span is None:
        return op.location
    return FileLoc(op.span.source.name, *op.span.line_col)


def obstacles(module: Operation, target: Version) -> list[Obstacle]:
    """Return the ops of a VHLO module that the target version cannot express, with the features."""
    needs = Needs()
    # Patch numbers do not change the dialect, so versions are compared without them.
    plain = (*target[:2], 0)
    return [
        Obstacle(op.name, place_of(op), need.version, need.feature)
        for op in module.walk()
        if is_vhlo_op(op)
        for need in needs.of(op)
        if need.version > plain
    ]
