"""Portable artifacts: programs in MLIR bytecode of a VHLO version, and summaries of them."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from hloscope.errors import HloscopeError
from hloscope.mlir import DenseAttr, Operation, Value, elements, type_text
from hloscope.stablehlo.bytecode.exported import Exported, is_exported, read_exported
from hloscope.stablehlo.bytecode.image import (
    PRODUCER,
    SECTIONS,
    is_of_the_future,
    producer_noted,
    version_in,
)
from hloscope.stablehlo.bytecode.reader import Bytecode, read_bytecode
from hloscope.stablehlo.bytecode.writer import Orders, write_bytecode
from hloscope.stablehlo.cloning import clone, strip_locations
from hloscope.stablehlo.vhlo import (
    CURRENT,
    MINIMUM,
    RELEASES,
    Converted,
    Need,
    Needs,
    Obstacle,
    Version,
    bytecode_version,
    convert_to_current,
    convert_to_stablehlo,
    is_vhlo_op,
    target_of,
    to_stablehlo,
    to_version,
    to_vhlo,
    version_of,
    version_text,
)

# --------------------------------------------------------------------------------------------------
# Portable artifacts: StableHLO programs as MLIR bytecode of a version of VHLO.


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
        target: The StableHLO version that must be able to read the artifact, or a name that stands
            for one: `current`, `min`, `week_4`, `week_12`, `none`, `max`.
        library: The StableHLO version to imitate, since bytes depend on it. By default the
            newest known one.
        allow_other_dialects: Keep attributes of other dialects as they are.

    Raises:
        UnknownNameError: The target or library version is unknown.
        UnsupportedError: VHLO cannot express some op, type or attribute. The message names all of
            them.
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
    """Return the VHLO module that `write_artifact` would write with these arguments.

    Its use-list orders are returned with it.
    """
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
    """Convert a program in StableHLO or VHLO to a version of VHLO.

    Args:
        module: The program.
        target: The version of VHLO.
        library: The StableHLO version to imitate.
        allow_other_dialects: Keep attributes of other dialects as they are.
    """
    if is_vhlo(module):
        return to_version(module, target)
    module = to_vhlo(module, library, allow_other_dialects=allow_other_dialects)
    return to_version(module, target, mixed=allow_other_dialects)


def is_vhlo(module: Operation) -> bool:
    """Does a module contain an op of VHLO?"""
    return any(map(is_vhlo_op, module.walk()))


def read_artifact(data: bytes, name: str = "<bytes>") -> Operation:
    """Return the program in a portable artifact of any version, converted to StableHLO.

    `data` are the bytes of the artifact, `name` is its name in messages.

    Raises:
        BytecodeError: The artifact is damaged.
        UnsupportedError: It has an unknown or unsupported op; the
            message names the producer and the newest version known here.
    """
    module = read_bytecode(data, name).module
    if not is_vhlo(module):
        return module
    with producer_noted(data, always=True):
        convert_to_current(module)
        return convert_to_stablehlo(module)


def stablehlo_of_tree(module: Operation) -> Operation:
    """Return a module of any version of VHLO, converted to StableHLO.

    A module without ops of VHLO is returned unchanged.
    """
    if not is_vhlo(module):
        return module
    return to_stablehlo(to_version(module, CURRENT).module)


def without_locations(found: Bytecode) -> tuple[Operation, Orders]:
    """Return the module of a bytecode file without locations, and its use-list orders.

    With both, the file can be written again.
    """
    values: dict[Value, Value] = {}
    module = clone(found.module, values)
    strip_locations(module)
    return module, {values[value]: order for value, order in found.orders.items()}


# --------------------------------------------------------------------------------------------------
# Summary of an artifact: versions that can read it, obstacles to older targets, sizes.


class Repeated(Struct, frozen=True):
    """Constants of equal value and type in an artifact.

    Attributes:
        count: Number of the constants.
        type: Their type.
        bytes: Bytes of one constant; if all elements are equal, of one element.
    """

    count: int
    type: str
    bytes: int


class Health(Struct, frozen=True):
    """Summary of an artifact: its contents, and the versions that can read it.

    Attributes:
        name: Name of the file.
        size: Size of the file in bytes.
        exported: The functions of a `jax.export` file; empty for other files.
        producer: The producer that the file names.
        version: The VHLO version that the file states; empty if it states none.
        bytecode: Version of MLIR bytecode.
        ops: Number of operations.
        readable_by: The oldest version of StableHLO that can read the file; empty if no
            known version can, or if the file has no op of VHLO.
        because: Ops that need the version `readable_by`.
        oldest_target: The oldest version to which the program can be converted; empty when
            `readable_by` is.
        forced_by: Ops that need the version `oldest_target`.
        obstacles: Ops that need a version later than the minimum.
        unknown: Ops of VHLO that are in no known version.
        sections: Size of each section in bytes.
        without_locations: Bytes of the same artifact without debug information; `None` if unknown.
        repeated: Constants that occur more than once.
    """

    name: str
    size: int
    exported: tuple[Exported, ...]
    producer: str
    version: str
    bytecode: int
    ops: int
    readable_by: str
    because: tuple[Obstacle, ...]
    oldest_target: str
    forced_by: tuple[Obstacle, ...]
    obstacles: tuple[Obstacle, ...]
    unknown: tuple[str, ...]
    sections: dict[str, int]
    without_locations: int | None
    repeated: tuple[Repeated, ...]

    @property
    def is_of_the_future(self) -> bool:
        """Does the file state a VHLO version newer than the newest known one?"""
        return is_of_the_future(self.producer)


def examine(data: bytes, name: str) -> Health:
    """Return a summary of a bytecode file, or of a file of `jax.export`.

    `data` are the bytes of the file, `name` is its name in messages.

    Raises:
        BytecodeError: The file is damaged.
    """
    exported: tuple[Exported, ...] = ()
    bytecode = data
    if is_exported(data):
        exported = tuple(read_exported(data, name))
        bytecode = exported[0].module
    return _health(read_bytecode(bytecode, name), name, len(data), exported)


def _health(found: Bytecode, name: str, size: int, exported: tuple[Exported, ...]) -> Health:
    image, needs = found.image, Needs()
    ops = [*found.module.walk()]
    vhlo = [op for op in ops if is_vhlo_op(op)]
    needs_of_present_form = [
        _obstacle(op, need) for op in vhlo for need in needs.needs_of_present_form(op)
    ]
    obstacles = [_obstacle(op, need) for op in vhlo for need in needs.of(op)]
    # A reader must know the container as well as the ops, so the oldest reader is the later of the
    # first version with that bytecode and the versions that the ops need as they are.
    container = min(
        (r.version for r in RELEASES if r.bytecode >= image.version), default=RELEASES[-1].version
    )
    readable = max([container, *(one.version for one in needs_of_present_form)])
    target = max([MINIMUM, *(one.version for one in obstacles)])
    version = version_in(image.producer)
    unknown = tuple(dict.fromkeys(op.name for op in vhlo if not needs.knows(op)))
    known = bool(vhlo) and not unknown
    return Health(
        name=name,
        size=size,
        exported=exported,
        producer=image.producer,
        version=version_text(version) if version else "",
        bytecode=image.version,
        ops=len(ops) - 1,
        readable_by=version_text(readable) if known else "",
        because=tuple(one for one in needs_of_present_form if known and one.version == readable),
        oldest_target=version_text(target) if known else "",
        forced_by=tuple(one for one in obstacles if known and one.version == target),
        obstacles=tuple(obstacles),
        unknown=unknown,
        sections={SECTIONS[number]: span.size for number, span in image.sections.items()},
        without_locations=_size_without_locations(found),
        repeated=_repeated(ops),
    )


def _obstacle(op: Operation, need: Need) -> Obstacle:
    return Obstacle(op.name, op.location, need.version, need.feature)


def _size_without_locations(found: Bytecode) -> int | None:
    """Return the size in bytes of an artifact if its locations are removed.

    `None` if it cannot be written.
    """
    image = found.image
    try:
        module, orders = without_locations(found)
        data = write_bytecode(
            module,
            producer=image.producer,
            version=image.version,
            orders=orders,
            by_trait=found.by_trait,
        )
    except HloscopeError:
        return None
    return len(data)


def _repeated(ops: list[Operation]) -> tuple[Repeated, ...]:
    counts: Counter[DenseAttr] = Counter()
    for op in ops:
        value = op.properties.get("value") if op.name.endswith(("constant_v1", ".constant")) else 0
        if isinstance(value, DenseAttr):
            counts[value] += 1
    found = [
        Repeated(count, type_text(value.type), len(elements(value).raw))
        for value, count in counts.items()
        if count > 1
    ]
    return tuple(sorted(found, key=lambda one: -one.count * max(one.bytes, 1)))
