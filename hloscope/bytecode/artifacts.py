"""Portable artifacts: StableHLO programs as MLIR bytecode of a version of VHLO."""

from __future__ import annotations

from hloscope.bytecode.producer import PRODUCER, producer_noted
from hloscope.bytecode.reader import Bytecode, read_bytecode
from hloscope.bytecode.writer import Orders, write_bytecode
from hloscope.mlir import UNKNOWN, Operation, Region, Value
from hloscope.vhlo import (
    CURRENT,
    Converted,
    Rebuild,
    Version,
    bytecode_version,
    copied,
    every_op,
    target_of,
    to_stablehlo,
    to_version,
    to_vhlo,
    turn_into_current,
    turn_into_stablehlo,
    version_of,
)


def write_artifact(
    module: Operation,
    target: str = "current",
    *,
    library: str = "",
    allow_other_dialects: bool = False,
) -> bytes:
    """Return a program as a portable artifact, equal to the bytes that StableHLO itself writes.

    Args:
        module: The tree of a program in StableHLO, or in VHLO of any version.
        target: The version, or `current`, `min`, `week_4`, `week_12`, `none`, `max`.
        library: The StableHLO version to imitate, since bytes depend on it. By default the
            newest known one.
        allow_other_dialects: Keep attributes of other dialects as they are.

    Raises:
        UnknownNameError: The target or library version is unknown.
        UnsupportedError: Something has no form in VHLO. The message names everything that has none.
        DowngradeError: The program needs a later version. The message names every such op.
    """
    of = version_of(library) if library else CURRENT
    producer = target_of(target, of)
    version = version_of(producer)
    made = in_version(module, version, of, allow_other_dialects=allow_other_dialects)
    return write_bytecode(
        made.module,
        producer=PRODUCER + producer,
        version=bytecode_version(version),
        orders=made.orders,
    )


def artifact_in_version(
    module: Operation,
    target: str = "current",
    *,
    library: str = "",
    allow_other_dialects: bool = False,
) -> Converted:
    """Return the VHLO tree that `write_artifact` would write with these arguments."""
    of = version_of(library) if library else CURRENT
    version = version_of(target_of(target, of))
    return in_version(module, version, of, allow_other_dialects=allow_other_dialects)


def in_version(
    module: Operation,
    target: Version,
    library: Version = CURRENT,
    *,
    allow_other_dialects: bool = False,
) -> Converted:
    """Convert a program in StableHLO or VHLO to a version of VHLO."""
    if is_vhlo(module):
        return to_version(module, target)
    module = to_vhlo(module, library, allow_other_dialects=allow_other_dialects)
    return to_version(module, target, mixed=allow_other_dialects)


def is_vhlo(module: Operation) -> bool:
    """Does a module have an op of VHLO?"""
    return any(op.name.startswith("vhlo.") for op in every_op(module))


def read_artifact(data: bytes, name: str = "<bytes>") -> Operation:
    """Read a portable artifact of any version as a program in StableHLO.

    Raises:
        BytecodeError: The artifact is damaged.
        UnsupportedError: It has an unknown or unsupported op; the
            message names the producer and the newest version known here.
    """
    module = read_bytecode(data, name).module
    if not is_vhlo(module):
        return module
    with producer_noted(data, always=True):
        turn_into_current(module)
        return turn_into_stablehlo(module)


def stablehlo_of(found: Bytecode) -> Operation:
    """Return the program of a bytecode file in StableHLO, from any version of VHLO."""
    return stablehlo_of_tree(found.module)


def stablehlo_of_tree(module: Operation) -> Operation:
    """Convert a module of any version of VHLO to StableHLO.

    A module without ops of VHLO is returned unchanged.
    """
    if not is_vhlo(module):
        return module
    return to_stablehlo(to_version(module, CURRENT).module)


def without_locations(found: Bytecode) -> tuple[Operation, Orders]:
    """Return a module without debug information, and its use-list orders."""

    def make(
        op: Operation,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        regions: tuple[Region, ...],
    ) -> Operation:
        made = copied(op, operands, results, regions)
        made.location = UNKNOWN
        for region in regions:
            for block in region.blocks:
                for argument in block.arguments:
                    argument.location = UNKNOWN
        return made

    rebuild = Rebuild(make)
    module = rebuild.run(found.module)
    return module, {rebuild.value(value): order for value, order in found.orders.items()}
