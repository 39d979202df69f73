"""Conversion of VHLO's current version to StableHLO. Source: `VhloLegalizeToStablehlo.cpp`."""

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
    """Convert a module of VHLO's current version to StableHLO.

    Casts between VHLO and other dialects are removed.

    Raises:
        UnsupportedError: VHLO does not have an op of the module.
        VerifyError: An op lacks an attribute, or has an invalid one.
    """
    restorer = _Restorer()
    return Rebuild(restorer.make, restorer.is_cast).run(module)


def turn_into_stablehlo(module: Operation) -> Operation:
    """Convert a module as `to_stablehlo` does, but change its ops in place.

    The module must have no other user. A module with casts is copied instead.

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
    """Conversion of ops to StableHLO; ops that share one properties mapping share it afterwards."""

    def __init__(self) -> None:
        # By op name and `id` of the properties. The entry holds them, so the `id` is not reused.
        self._shared: dict[tuple[str, int], tuple[Mapping[str, Attribute], _Parts]] = {}

    @staticmethod
    def is_cast(op: Operation) -> bool:
        """Is the op a cast, which is removed?"""
        return op.name == CAST

    def make(
        self,
        op: Operation,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        regions: tuple[Region, ...],
    ) -> Operation:
        """Return the op of StableHLO with the given operands, results and regions."""
        if not op.name.startswith("vhlo."):
            return copied(op, operands, results, regions)
        name, properties, attributes = self.parts(op)
        return Operation(
            name, operands, results, properties, attributes, regions, location=op.location
        )

    def parts(self, op: Operation) -> _Parts:
        """Return name, properties and other attributes of the op in StableHLO."""
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
        # VHLO writes every optional attribute out. StableHLO omits those with the default value,
        # except where its op always states them.
        asks = kind in ("dims", "bools") or (kind not in KINDS and not slot.given)
        if slot.optional and asks and says_nothing(slot.name, kind, given[slot.name]):
            continue
        value = KINDS.get(kind, PLAIN).back(given, slot.name)
        if value is not None:
            found[slot.name] = value
    return found
