"""Correspondence of instructions of two compilation stages by their source location.

Passes rename, fuse and reorder instructions, but keep the `op_name` and source line of the
instruction that computes a final value.
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
"""Ops whose values do not identify a source line."""
_NUMBER: Final = pattern(r"(?:[._](?:\d+|clone|remat))+$")
_NOT_IN_NAMES: Final = pattern(r"\W")


def by_source(
    mine: Computation, theirs: Computation, paired: Mapping[Instruction, Instruction]
) -> dict[Instruction, list[Instruction]]:
    """Return, for instructions of `mine` without partner, those of `theirs` from the same source.

    Two instructions have the same source if `op_name`, file, line, element type and sizes are
    equal. If one program has no `op_name`s, instruction names replace their last parts: `add.12`
    for `jit(f)/add`.  Only instructions that run once and depend on arguments count: passes move
    constants to places where other constants have their names.
    """
    once = [*_run_once(mine)], [*_run_once(theirs)]
    # Both programs need `op_name`s; else the keys of the two sides would have different forms.
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
    """Yield the computations that one run of the entry evaluates exactly once."""
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
    """Yield the instructions that do not depend on constants alone, operands before users."""
    constant: set[Instruction] = set()
    for ins in computation:
        is_written = isinstance(ins.op, Constant | Iota | Fusion) or bool(ins.operands)
        may_vary = isinstance(ins.op, CustomCall | Rng)
        if is_written and not may_vary and constant.issuperset(ins.operands):
            constant.add(ins)
        else:
            yield ins


def _key(ins: Instruction, said: bool) -> Key | None:
    """Return the source location and type of an instruction; `None` if it states no location."""
    if isinstance(ins.op, _SILENT) or not isinstance(ins.type, TensorType):
        return None
    origin = _origin(ins)
    if said:
        return None if origin is None else (*origin, plain(ins.type))
    if origin is None:
        return _NUMBER.sub("", ins.name), plain(ins.type)
    return _NOT_IN_NAMES.sub("_", origin[0].rpartition("/")[2]), plain(ins.type)


def _origin(ins: Instruction) -> tuple[str, str, int] | None:
    """Return `op_name`, file and line of an HLO instruction; `None` if they are not given."""
    text = dict(ins.extras).get("metadata")
    if text is None:
        return None
    try:
        found = read_metadata(text)
    except HloscopeError:
        return None
    return (found.op_name, found.source_file, found.source_line) if found.op_name else None
