"""Summary of an artifact: versions that can read it, obstacles to older targets, sizes."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from hloscope.bytecode.artifacts import without_locations
from hloscope.bytecode.exported import Exported, is_exported, read_exported
from hloscope.bytecode.image import SECTIONS
from hloscope.bytecode.producer import is_of_the_future, version_in
from hloscope.bytecode.reader import Bytecode, read_bytecode
from hloscope.bytecode.writer import write_bytecode
from hloscope.errors import HloscopeError
from hloscope.mlir import DenseAttr, Operation, elements, type_text
from hloscope.vhlo import MINIMUM, RELEASES, Need, Needs, Obstacle, every_op, version_text


class Repeated(Struct, frozen=True):
    """Equal constants: their number, type, and the bytes of one."""

    count: int
    type: str
    bytes: int


class Health(Struct, frozen=True):
    """Summary of an artifact and of its compatibility.

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
        because: Ops that need that version.
        oldest_target: The oldest version to which it converts; empty when `readable_by` is.
        forced_by: Ops that need that version.
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
        """Does the artifact state a version newer than the newest known one?"""
        return is_of_the_future(self.producer)


def examine(data: bytes, name: str) -> Health:
    """Summarize a bytecode file, or a file of `jax.export`.

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
    ops = list(every_op(found.module))
    vhlo = [op for op in ops if op.name.startswith("vhlo.")]
    as_it_is = [_obstacle(op, need) for op in vhlo for need in needs.as_it_is(op)]
    obstacles = [_obstacle(op, need) for op in vhlo for need in needs.of(op)]
    # A reader must know the container as well as the ops, so the oldest reader is the later of the
    # first version with that bytecode and the versions that the ops need as they are.
    container = min(
        (r.version for r in RELEASES if r.bytecode >= image.version), default=RELEASES[-1].version
    )
    readable = max([container, *(one.version for one in as_it_is)])
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
        because=tuple(one for one in as_it_is if known and one.version == readable),
        oldest_target=version_text(target) if known else "",
        forced_by=tuple(one for one in obstacles if known and one.version == target),
        obstacles=tuple(obstacles),
        unknown=unknown,
        sections={SECTIONS[number]: span.size for number, span in image.sections.items()},
        without_locations=_stripped(found),
        repeated=_repeated(ops),
    )


def _obstacle(op: Operation, need: Need) -> Obstacle:
    return Obstacle(op.name, op.location, need.version, need.feature)


def _stripped(found: Bytecode) -> int | None:
    """Return the size in bytes without debug information; `None` if it cannot be written."""
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
