"""Conversion between versions of VHLO. Source: `VhloToVersion.cpp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from hloscope.errors import HloscopeError
from hloscope.mlir import Attribute, Operation, Region, Value
from hloscope.vhlo.changes import CHANGES
from hloscope.vhlo.needs import Obstacle, obstacles
from hloscope.vhlo.ops import OPS
from hloscope.vhlo.orders import use_orders
from hloscope.vhlo.trees import Rebuild, copied, every_op
from hloscope.vhlo.versions import CURRENT, Version, version_text


class DowngradeError(HloscopeError):
    """A module needs more than a version has.

    Attributes:
        target: The requested version.
        obstacles: Every op that needs a later version, with the feature.
    """

    def __init__(self, target: Version, found: Sequence[Obstacle]) -> None:
        lines = "".join(f"\n  {one}" for one in dict.fromkeys(map(str, found)))
        super().__init__(f"failed to convert VHLO to v{version_text(target)}:{lines}")
        self.target, self.obstacles = target, tuple(found)


class Converted(Struct, frozen=True):
    """A module converted to a version.

    Attributes:
        module: The converted tree.
        orders: Use-list orders for bytecode, of values that need one.
    """

    module: Operation
    orders: dict[Value, tuple[bool, tuple[int, ...]]] = field(default_factory=dict)


def to_version(module: Operation, target: Version, *, mixed: bool = False) -> Converted:
    """Convert a module to a version of VHLO.

    Args:
        module: A tree of VHLO.
        target: The version.
        mixed: The module has new casts between VHLO and other dialects.

    Raises:
        DowngradeError: Some op needs a later version; the message names every such op.
    """
    changing = _ops_of_other_form(module, target)
    # No op changes form, so no use moves either: the tree is returned without a copy.
    if not changing:
        return Converted(module, use_orders(module, set(), mixed=True) if mixed else {})
    replaced: set[Operation] = set()

    def make(
        op: Operation,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        regions: tuple[Region, ...],
    ) -> Operation:
        if op.name not in changing:
            return copied(op, operands, results, regions)
        name, properties = _changed(op)
        made = Operation(
            name,
            operands,
            results,
            properties,
            op.attributes,
            regions,
            location=op.location,
            source=op.source,
            start=op.start,
            end=op.end,
        )
        # MLIR keeps the uses of a value in the order in which ops were created. An artifact records
        # orders that differ from program order, so the replaced ops decide bytes.
        replaced.add(made)
        return made

    made = Rebuild(make).run(module)
    return Converted(made, use_orders(made, replaced, mixed=mixed))


def turn_into_current(module: Operation) -> None:
    """Convert the ops of a module of VHLO to the current version, in place.

    The module must have no other user. Ops that share one properties mapping share one afterwards.

    Raises:
        DowngradeError: As `to_version`.
    """
    changing = _ops_of_other_form(module, CURRENT)
    if not changing:
        return
    # By op name and `id` of the properties. The entry holds them, so the `id` is not reused.
    known: dict[tuple[str, int], tuple[Mapping[str, Attribute], str, Mapping[str, Attribute]]] = {}
    for op in every_op(module):
        if op.name in changing:
            key = op.name, id(op.properties)
            if key not in known:
                known[key] = op.properties, *_changed(op)
            _, op.name, op.properties = known[key]


def _ops_of_other_form(module: Operation, target: Version) -> set[str]:
    """Return the names of a module's ops that have another form in the target version.

    Raises:
        DowngradeError: An op needs a later version.
    """
    # Patch numbers do not change the dialect, so versions are compared without them.
    plain = (*target[:2], 0)
    found = obstacles(module, target) if plain < CURRENT else []
    if found:
        raise DowngradeError(plain, found)
    return {name for name in {op.name for op in every_op(module)} if _has_other_form(name, plain)}


def _has_other_form(name: str, target: Version) -> bool:
    """Does the version have another form of the op of that name?"""
    row = OPS.get(name[5:]) if name.startswith("vhlo.") else None
    return row is not None and not row.first <= target <= row.last


def _changed(op: Operation) -> tuple[str, Mapping[str, Attribute]]:
    """Return the name and the properties of the other form of an op.

    An op has at most two forms, so `_v1` is upgraded and `_v2` downgraded.
    """
    base, _, number = op.name.removeprefix("vhlo.").rpartition("_v")
    change = CHANGES[base]
    up = number == "1"
    return f"vhlo.{base}_v{2 if up else 1}", change.up(op.properties) if up else change.down(op)
