"""From one version of VHLO to another.  Source: `VhloToVersion.cpp`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from hloscope.errors import HloscopeError
from hloscope.lazy import dataclass
from hloscope.mlir import Operation, Region, Value
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


@dataclass(frozen=True, slots=True)
class Converted:
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
    plain = (*target[:2], 0)
    found = obstacles(module, target) if plain < CURRENT else []
    if found:
        raise DowngradeError(plain, found)
    others = {name for name in {op.name for op in every_op(module)} if _is_other(name, plain)}
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
        made = _changed(op, operands, results, regions)
        replaced.add(made)
        return made

    made = Rebuild(make).run(module)
    return Converted(made, use_orders(made, replaced, mixed=mixed))


def _is_other(name: str, target: Version) -> bool:
    """Has the version another form of the op of that name?"""
    row = OPS.get(name[5:]) if name.startswith("vhlo.") else None
    return row is not None and not row.first <= target <= row.last


def _changed(
    op: Operation,
    operands: tuple[Value, ...],
    results: tuple[Value, ...],
    regions: tuple[Region, ...],
) -> Operation:
    base, _, number = op.name.removeprefix("vhlo.").rpartition("_v")
    change = CHANGES[base]
    up = number == "1"
    properties = change.up(op.properties) if up else change.down(op)
    name = f"vhlo.{base}_v{2 if up else 1}"
    return Operation(
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
