"""VHLO of today → StableHLO.  Source: `VhloLegalizeToStablehlo.cpp`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from hloscope.dialects import DEFINITIONS
from hloscope.errors import UnsupportedError, VerifyError
from hloscope.mlir import NO_ATTRIBUTES, Attribute, Operation, Region, Value
from hloscope.vhlo.attributes import KINDS, PLAIN, MappingError, says_nothing
from hloscope.vhlo.legalize import slots_of
from hloscope.vhlo.mixing import CAST
from hloscope.vhlo.ops import OPS
from hloscope.vhlo.trees import Rebuild, copied, every_op
from hloscope.vhlo.versions import CURRENT

_Parts: TypeAlias = tuple[str, Mapping[str, Attribute], Mapping[str, Attribute]]

_RETURN: Final = "vhlo.return_v1"
_NAMES: Final = {"func": "func.func", "call": "func.call"}


def to_stablehlo(module: Operation) -> Operation:
    """The module of StableHLO that one of VHLO's present version stands for.

    Casts between VHLO and other dialects vanish.

    Raises:
        UnsupportedError: An op of VHLO is not known.
        VerifyError: An op lacks attributes, or has wrong ones.
    """
    restorer = _Restorer()
    return Rebuild(restorer.make, restorer.is_cast).run(module)


def turn_into_stablehlo(module: Operation) -> Operation:
    """As `to_stablehlo` of a module that nobody else has: its own ops are changed.

    Raises:
        UnsupportedError: An op of VHLO is not known.
        VerifyError: An op lacks attributes, or has wrong ones.
    """
    ops = list(every_op(module))
    if any(op.name == CAST for op in ops):
        return to_stablehlo(module)
    restorer = _Restorer()
    for op in ops:
        if op.name.startswith("vhlo."):
            op.name, op.properties, op.attributes = restorer.parts(op)
    return module


class _Restorer:
    """Makes ops of StableHLO; those that share their properties share them afterwards."""

    def __init__(self) -> None:
        # By name and identity of the properties, which are kept so that no other has it.
        self._shared: dict[tuple[str, int], tuple[Mapping[str, Attribute], _Parts]] = {}

    @staticmethod
    def is_cast(op: Operation) -> bool:
        """Does an op vanish?"""
        return op.name == CAST

    def make(
        self,
        op: Operation,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        regions: tuple[Region, ...],
    ) -> Operation:
        """The op of StableHLO, of new parts."""
        if not op.name.startswith("vhlo."):
            return copied(op, operands, results, regions)
        name, properties, attributes = self.parts(op)
        return Operation(
            name, operands, results, properties, attributes, regions, location=op.location
        )

    def parts(self, op: Operation) -> _Parts:
        """Name, properties and other attributes of the op of StableHLO."""
        given = op.properties
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
        block = op.parent
        region = None if block is None else block.parent
        parent = None if region is None else region.parent
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
        asks = kind in ("dims", "bools") or (kind not in KINDS and not slot.given)
        if slot.optional and asks and says_nothing(slot.name, kind, given[slot.name]):
            continue
        value = KINDS.get(kind, PLAIN).back(given, slot.name)
        if value is not None:
            found[slot.name] = value
    return found
