"""Which instructions of two stages of a compilation come from the same place of the source.

Passes rename, fuse and reorder instructions, but keep `op_name` and the line of source of what an
instruction computes in the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from hloscope.compare.pairing import STRUCTURE, plain, reachable
from hloscope.errors import HloscopeError
from hloscope.hlo_parser import read_metadata
from hloscope.ir import Computation, Instruction, TensorType
from hloscope.lazy import pattern
from hloscope.ops import Call, Composite, Constant, CustomCall, Fusion, Iota, Rng
from hloscope.walks import reached

Key: TypeAlias = "tuple[object, ...]"

_SILENT: Final = (Constant, *STRUCTURE)
"""Ops whose values say nothing of what a line computes."""
_NUMBER: Final = pattern(r"(?:[._](?:\d+|clone|remat))+$")
_NOT_IN_NAMES: Final = pattern(r"\W")


def by_source(
    mine: Computation, theirs: Computation, paired: Mapping[Instruction, Instruction]
) -> dict[Instruction, list[Instruction]]:
    """Instructions of `mine` without a partner, and those of `theirs` that come from there.

    Two instructions come from the same place if they have the same `op_name`, file and line of
    source, element type and sizes.  If a program says no `op_name`s, its names stand for the last
    parts of them: `add.12` for `jit(f)/add`.  Only what runs once counts, and only what is computed
    of arguments: passes move constants to other places, where other constants have their names.
    """
    once = [*_run_once(mine)], [*_run_once(theirs)]
    said = all(any(_origin(ins) is not None for c in side for ins in c) for side in once)
    right: defaultdict[Key, list[Instruction]] = defaultdict(list)
    for computation in once[1]:
        for y in _computed(computation):
            key = _key(y, said)
            if key is not None:
                right[key].append(y)
    found: dict[Instruction, list[Instruction]] = {}
    for computation in once[0]:
        for x in _computed(computation):
            key = None if x in paired else _key(x, said)
            if key is not None and key in right:
                found[x] = right[key]
    return found


def _run_once(entry: Computation) -> Iterator[Computation]:
    """The computations that one run of the entry evaluates exactly once."""
    sites: defaultdict[Computation, list[Instruction]] = defaultdict(list)
    for computation in reachable(entry):
        for ins in computation:
            for callee in ins.calls:
                sites[callee].append(ins)

    def called_once(computation: Computation) -> Iterator[Computation]:
        for ins in computation:
            if isinstance(ins.op, Call | Composite | Fusion):
                yield from (callee for callee in ins.calls if len(sites[callee]) == 1)

    yield from reached([entry], called_once)


def _computed(computation: Computation) -> Iterator[Instruction]:
    """The instructions that are not computed of constants alone; operands come before users."""
    constant: set[Instruction] = set()
    for ins in computation:
        is_written = isinstance(ins.op, Constant | Iota | Fusion) or bool(ins.operands)
        may_vary = isinstance(ins.op, CustomCall | Rng)
        if is_written and not may_vary and constant.issuperset(ins.operands):
            constant.add(ins)
        else:
            yield ins


def _key(ins: Instruction, said: bool) -> Key | None:
    """Where an instruction comes from, and the array it makes; `None` if that is not said."""
    if isinstance(ins.op, _SILENT) or not isinstance(ins.type, TensorType):
        return None
    origin = _origin(ins)
    if said:
        return None if origin is None else (*origin, plain(ins.type))
    if origin is None:
        return _NUMBER.sub("", ins.name), plain(ins.type)
    return _NOT_IN_NAMES.sub("_", origin[0].rpartition("/")[2]), plain(ins.type)


def _origin(ins: Instruction) -> tuple[str, str, int] | None:
    """`op_name`, file and line of an instruction of HLO."""
    text = dict(ins.extras).get("metadata")
    if text is None:
        return None
    try:
        found = read_metadata(text)
    except HloscopeError:
        return None
    return (found.op_name, found.source_file, found.source_line) if found.op_name else None
