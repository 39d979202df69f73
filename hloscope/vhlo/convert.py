"""From one version of VHLO to another.  Source: `VhloToVersion.cpp`."""

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
    """A version has not all that a module needs.

    Attributes:
        target: The version.
        obstacles: Everything that keeps the module from it.
    """

    def __init__(self, target: Version, found: Sequence[Obstacle]) -> None:
        lines = "".join(f"\n  {one}" for one in dict.fromkeys(map(str, found)))
        super().__init__(f"failed to convert VHLO to v{version_text(target)}:{lines}")
        self.target, self.obstacles = target, tuple(found)


class Converted(Struct, frozen=True):
    """A module of a version.

    Attributes:
        module: The tree.
        orders: Orders of uses as bytecode has them, of values where they are not the usual ones.
    """

    module: Operation
    orders: dict[Value, tuple[bool, tuple[int, ...]]] = field(default_factory=dict)


def to_version(module: Operation, target: Version, *, mixed: bool = False) -> Converted:
    """The module with the ops of a version.

    Args:
        module: A tree of VHLO.
        target: The version.
        mixed: Its casts to and from VHLO have just been made, which orders of uses tell.

    Raises:
        DowngradeError: It needs more than that version has; the message names every op that does.
    """
    others = _others(module, target)
    if not others:
        return Converted(module, use_orders(module, set(), mixed=True) if mixed else {})
    replaced: set[Operation] = set()

    def make(
        op: Operation,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        regions: tuple[Region, ...],
    ) -> Operation:
        if op.name not in others:
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
        replaced.add(made)
        return made

    made = Rebuild(make).run(module)
    return Converted(made, use_orders(made, replaced, mixed=mixed))


def turn_into_current(module: Operation) -> None:
    """Change the ops of a module of VHLO, which nobody else has, to those of the present version.

    Ops that share their properties share them afterwards.

    Raises:
        DowngradeError: As `to_version`.
    """
    others = _others(module, CURRENT)
    if not others:
        return
    # By name and identity of the properties, which are kept so that no other has it.
    known: dict[tuple[str, int], tuple[Mapping[str, Attribute], str, Mapping[str, Attribute]]] = {}
    for op in every_op(module):
        if op.name in others:
            key = op.name, id(op.properties)
            if key not in known:
                known[key] = op.properties, *_changed(op)
            _, op.name, op.properties = known[key]


def _others(module: Operation, target: Version) -> set[str]:
    """The names of a module's ops that have another form in a version."""
    plain = (*target[:2], 0)
    found = obstacles(module, target) if plain < CURRENT else []
    if found:
        raise DowngradeError(plain, found)
    return {name for name in {op.name for op in every_op(module)} if _is_other(name, plain)}


def _is_other(name: str, target: Version) -> bool:
    """Has the version another form of the op of that name?"""
    row = OPS.get(name[5:]) if name.startswith("vhlo.") else None
    return row is not None and not row.first <= target <= row.last


def _changed(op: Operation) -> tuple[str, Mapping[str, Attribute]]:
    """Name and properties of the other form of an op."""
    base, _, number = op.name.removeprefix("vhlo.").rpartition("_v")
    change = CHANGES[base]
    up = number == "1"
    return f"vhlo.{base}_v{2 if up else 1}", change.up(op.properties) if up else change.down(op)
