"""Portable artifacts: programs of StableHLO as VHLO of a version, in MLIR bytecode."""

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
    """A program as a portable artifact of a version, the bytes that StableHLO itself writes.

    Args:
        module: The tree of a program in StableHLO, or in VHLO of any version.
        target: The version, or `current`, `min`, `week_4`, `week_12`, `none`, `max`.
        library: The version of the library whose bytes are wanted; they depend on it.  The
            newest one that is known if it is not said.
        allow_other_dialects: Keep attributes of other dialects as they are.

    Raises:
        UnknownNameError: There is no such version.
        UnsupportedError: Something has no form in VHLO; the message names all.
        DowngradeError: The version has not all that the program needs; the message names all.
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
    """What `write_artifact` writes with these arguments, as a tree of VHLO."""
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
    """A program in VHLO of a version."""
    if is_vhlo(module):
        return to_version(module, target)
    module = to_vhlo(module, library, allow_other_dialects=allow_other_dialects)
    return to_version(module, target, mixed=allow_other_dialects)


def is_vhlo(module: Operation) -> bool:
    """Is any op of VHLO in a module?"""
    return any(op.name.startswith("vhlo.") for op in every_op(module))


def read_artifact(data: bytes, name: str = "<bytes>") -> Operation:
    """The tree of the program in StableHLO that an artifact of any version has.

    Raises:
        BytecodeError: The artifact is damaged.
        UnsupportedError: It has an op that no known version has, or that is not read yet; the
            message names the producer and the newest version known here.
    """
    module = read_bytecode(data, name).module
    if not is_vhlo(module):
        return module
    with producer_noted(data, always=True):
        turn_into_current(module)
        return turn_into_stablehlo(module)


def stablehlo_of(found: Bytecode) -> Operation:
    """The program of bytecode in StableHLO, whatever version of VHLO it is in."""
    return stablehlo_of_tree(found.module)


def stablehlo_of_tree(module: Operation) -> Operation:
    """A module in StableHLO, whatever version of VHLO it is in."""
    if not is_vhlo(module):
        return module
    return to_stablehlo(to_version(module, CURRENT).module)


def without_locations(found: Bytecode) -> tuple[Operation, Orders]:
    """The module of bytecode without debug information, and its orders of uses."""

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
