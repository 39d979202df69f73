"""Def-use graph of a module's values; fusions, calls and tuples are followed.

Values are followed through operands, through computations with a single calling fusion or call, and
through tuples that are taken apart again. Other called computations are separate.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from hloscope.fusion import StructureIds
from hloscope.indexing import IndexingMap, Precision, output_to_input
from hloscope.ir import Computation, Instruction, Module, TensorType
from hloscope.ops import (
    ELEMENTWISE,
    Bitcast,
    Broadcast,
    BroadcastInDim,
    Call,
    Concatenate,
    Elementwise,
    Fusion,
    GetTupleElement,
    Pad,
    Parameter,
    Reshape,
    Return,
    Reverse,
    Slice,
    Transpose,
    Tuple,
    While,
)

COPY: Final = ELEMENTWISE["copy"]
MOVES: Final = (Reshape, Transpose, Bitcast, Broadcast, BroadcastInDim, Slice, Reverse, COPY)
"""Ops that only move elements of one operand: the result consists of some of its elements."""
JOINS: Final = (Concatenate, Pad)
"""Ops that only move elements of several operands: the result consists of some of their
elements.
"""
MOVING: Final = MOVES + JOINS
"""Ops that only move elements: the result consists of elements of the operands."""
FOLLOWED: Final = (Fusion, Call)
"""Ops whose called computation is followed: their value is the value of its root."""
TUPLES: Final = (Tuple, Return)
_OPENABLE: Final = (Parameter, *FOLLOWED, Return, GetTupleElement)
"""Ops whose value may be an alias of another instruction's value."""
RENAMING: Final = (*_OPENABLE, *TUPLES)
"""Ops whose value may be an alias of their operand, or a tuple with the operand."""
_MOST_HOPS: Final = 10_000
"""Maximum number of fusions and tuples that are followed; recursive modules have no end."""


def is_array(ins: Instruction) -> bool:
    """Is the value an array of known sizes?"""
    return isinstance(ins.type, TensorType) and ins.type.is_static


def moves(ins: Instruction) -> bool:
    """Does the instruction only move whole elements of its operands?"""
    if not isinstance(ins.op, MOVING) or not is_array(ins):
        return False
    return all(is_array(operand) and _bits(operand) == _bits(ins) for operand in ins.operands)


def _bits(ins: Instruction) -> int:
    """Return the bits of an array's element; 0 for values that are not arrays."""
    return ins.type.element.bits if isinstance(ins.type, TensorType) else 0


def computes(ins: Instruction) -> bool:
    """Is the instruction element-wise, on arrays of known sizes? Copies do not count."""
    return (
        isinstance(ins.op, Elementwise)
        and not isinstance(ins.op, COPY)
        and bool(ins.operands)
        and is_array(ins)
        and all(map(is_array, ins.operands))
    )


def step_maps(ins: Instruction) -> tuple[tuple[IndexingMap, ...] | None, ...]:
    """Return, for each operand, the maps from an index of the result to the operand.

    Each map gives at most one element for an index. The entry is `None` if not all maps are known
    and exact.
    """
    found: list[tuple[IndexingMap, ...] | None] = []
    for accesses in output_to_input(ins):
        maps = tuple([access.map for access in accesses if access.map is not None])
        known = len(maps) == len(accesses) and all(
            access.precision is Precision.EXACT for access in accesses
        )
        plain = not any(m.is_undefined or m.ranges or m.runtime for m in maps)
        found.append(maps if known and plain else None)
    return tuple(found)


def only_map(ins: Instruction, operand: int = 0) -> IndexingMap | None:
    """Return the only map from the result to an operand.

    `None` if the operand has several maps, or the map is not known and exact.
    """
    maps = step_maps(ins)[operand]
    return maps[0] if maps is not None and len(maps) == 1 else None


class Flow:
    """Def-use graph of a module; fusions, calls and tuples are followed.

    Computations are read on demand: a query about one value reads the values around it, not the
    whole module.
    """

    def __init__(
        self,
        module: Module,
        structure_ids: StructureIds | None = None,
        opaque: Container[Instruction] = (),
    ) -> None:
        """Prepare the graph of a module; nothing is read yet.

        Args:
            module: The program.
            structure_ids: Numbers of the structures of its computations, if they are known.
            opaque: Instructions that end chains, such as invalid ones.
        """
        self._module: Final = module
        self.opaque: Final = opaque
        self.has_regions: Final = module.has_tree
        self.structure_ids: Final = StructureIds() if structure_ids is None else structure_ids
        self._numbers: Final = {c: k for k, c in enumerate(module)}
        # Lazy indices of the module: each is asked for most values by traversals, plans and
        # traffic.
        self._home: Final[dict[Instruction, Computation]] = {}
        self._places: Final[dict[Computation, dict[Instruction, int]]] = {}
        self._direct: Final[dict[Instruction, list[Instruction]]] = {}
        self._calls: Final[dict[Computation, dict[Computation, list[Instruction]]]] = {}
        self._callers: Final[dict[Computation, Instruction | None]] = {}
        self._sources: Final[dict[Instruction, Instruction]] = {}
        self._arrays: Final[dict[Instruction, list[Instruction]]] = {}
        self._uses: Final[dict[Instruction, tuple[tuple[Instruction, ...], bool]]] = {}
        self._other_use: Final[dict[Instruction, Instruction | None]] = {}
        """For each value a user outside of the chain that was queried last.

        That user is probably outside of the next chain too, so it is tested first.
        """
        self._results: Final[
            dict[Computation, tuple[Instruction | None, frozenset[Instruction]]]
        ] = {}
        if self.has_regions:  # a region anywhere may use a value
            for computation in module:
                self._enter(computation)

    # ---------------------------------------------------------------------------- computations

    def _enter(self, computation: Computation) -> dict[Computation, list[Instruction]]:
        """Record the users inside a computation; return the instructions that call each callee."""
        known = self._calls.get(computation)
        if known is not None:
            return known
        calls: dict[Computation, list[Instruction]] = {}
        home, direct = self._home, self._direct
        for ins in computation:
            home[ins] = computation
            # An operand used twice by an instruction is one use.
            for operand in dict.fromkeys(ins.operands):
                direct.setdefault(operand, []).append(ins)
            for callee in ins.calls:
                calls.setdefault(callee, []).append(ins)
        self._calls[computation] = calls
        return calls

    # Cached: one pass over the module, needed for every `caller`.
    @cached_property
    def _possible_callers(self) -> Mapping[Computation, Sequence[Computation]]:
        """Return the computations that may call each computation."""
        return self._module.possible_callers()

    def computations(self) -> Iterable[Computation]:
        """Yield all computations of the module, in order."""
        for computation in self._module:
            self._enter(computation)
            yield computation

    def in_order(self, values: Iterable[Instruction]) -> list[Instruction]:
        """Return the values of the module in the order of the text."""
        return sorted([v for v in values if self.home(v) is not None], key=self._place_of)

    def _place_of(self, value: Instruction) -> tuple[int, int]:
        """Return the sort key of a value in the order of the text.

        It has the number of the value's computation, and the position in the computation.
        """
        home = self._home[value]
        places = self._places.get(home)
        if places is None:
            places = self._places[home] = {ins: k for k, ins in enumerate(home)}
        return self._numbers.get(home, 0), places[value]

    def home(self, ins: Instruction) -> Computation | None:
        """Return the computation of an instruction; `None` if it is not in the module."""
        found = self._home.get(ins)
        if found is None:
            entry = self._module.entry
            # Computations that are parsed already are searched first; reading the others costs
            # time.
            others = sorted(self._module, key=lambda c: not c.is_read)
            for computation in (entry, *others):
                if ins in self._home:
                    break
                self._enter(computation)
            found = self._home.get(ins)
        return found

    def caller(self, computation: Computation) -> Instruction | None:
        """Return the fusion or call that is the only caller of a computation; `None` otherwise."""
        if computation in self._callers:
            return self._callers[computation]
        every = self._every_caller(computation)
        is_seen = len(every) == 1 and isinstance(every[0].op, FOLLOWED) and len(every[0].calls) == 1
        found = self._callers[computation] = every[0] if is_seen else None
        return found

    def _every_caller(self, computation: Computation) -> list[Instruction]:
        """Return all instructions that call a computation."""
        return [
            ins
            for other in self._possible_callers.get(computation, ())
            for ins in self._enter(other).get(computation, ())
        ]

    def loop_of(self, computation: Computation) -> Instruction | None:
        """Return the loop that has a computation as its body; `None` if there are other callers."""
        every = self._every_caller(computation)
        is_body = len(every) == 1 and isinstance(every[0].op, While)
        return every[0] if is_body and every[0].calls[-1] is computation else None

    def is_inside(self, value: Instruction, computation: Computation) -> bool:
        """Is a value in a computation, or in a fusion or call inside it?"""
        home = self.home(value)
        for _ in range(_MOST_HOPS):
            if home is computation:
                return True
            caller = None if home is None else self.caller(home)
            if caller is None:
                return False
            home = self.home(caller)
        return False

    def _is_opened(self, ins: Instruction) -> bool:
        """Is the instruction a fusion or call whose computation is followed?"""
        if not isinstance(ins.op, FOLLOWED) or len(ins.calls) != 1:
            return False
        return self.caller(ins.calls[0]) is ins

    def _root_of(self, ins: Instruction) -> Instruction:
        """Return the root of the called computation of a fusion or call."""
        self._enter(ins.calls[0])
        return ins.calls[0].root

    # ----------------------------------------------------------------------------------- values

    def source(self, value: Instruction) -> Instruction:
        """Return the value that `value` is an alias of, behind fusions, calls and tuples.

        A value that is no alias is returned unchanged.
        """
        if not isinstance(value.op, _OPENABLE):
            return value
        known = self._sources.get(value)
        if known is not None:
            return known
        at = value
        for _ in range(_MOST_HOPS):
            following = self._alias_of(at)
            if following is None:
                break
            at = following
        self._sources[value] = at
        return at

    def _alias_of(self, at: Instruction) -> Instruction | None:
        """Return the value of which another one is an alias, by one step only.

        `at` is the possible alias. `None` if it is no alias.
        """
        match at.op:
            case Parameter(number=number):
                home = self.home(at)
                caller = None if home is None else self.caller(home)
                if caller is not None and 0 <= number < len(caller.operands):
                    return caller.operands[number]
            case Fusion() | Call() if isinstance(at.type, TensorType) and self._is_opened(at):
                return self._root_of(at)
            case Return() if len(at.operands) == 1:
                return at.operands[0]
            case GetTupleElement(index=index):
                # The tuple itself may be the value of a call or of another tuple's element.
                whole = self.source(at.operands[0]) if at.operands else at
                parts = self._elements(whole)
                if 0 <= index < len(parts):
                    return parts[index]
        return None

    def _elements(self, value: Instruction) -> Sequence[Instruction]:
        """Return the elements of a tuple that a `tuple` op makes, also if a fusion returns it.

        The result is empty for any other value.
        """
        for _ in range(_MOST_HOPS):
            if isinstance(value.op, TUPLES):
                return value.operands
            if not self._is_opened(value):
                break
            value = self._root_of(value)
        return ()

    def _parts(self, value: Instruction) -> list[Instruction]:
        """Return the arrays of a value: itself, or the elements of a tuple (one level deep)."""
        known = self._arrays.get(value)
        if known is None:
            whole = self.source(value)
            is_tuple = not isinstance(whole.type, TensorType)
            parts = (
                self._elements(whole)
                if is_tuple and (value is whole or self._is_opened(whole))
                else ()
            )
            known = self._arrays[value] = [*map(self.source, parts)] or [whole]
        return known

    def is_written(self, ins: Instruction) -> bool:
        """Is the value written to a buffer: outside of fusions, or returned by one?"""
        home = self.home(ins)
        for _ in range(_MOST_HOPS):
            if home is None:
                return not isinstance(ins.op, Bitcast)
            fusion, results = self._results_of(home)
            if fusion is None:
                return not isinstance(ins.op, Bitcast)
            if ins not in results:
                return False
            ins, home = fusion, self.home(fusion)
        return False

    def is_fused(self, computation: Computation) -> bool:
        """Is a fusion the only caller of the computation?"""
        return self._results_of(computation)[0] is not None

    def results(self, computation: Computation) -> frozenset[Instruction]:
        """Return the values that a computation returns; those in a tuple one by one."""
        return self._results_of(computation)[1]

    def _results_of(
        self, computation: Computation
    ) -> tuple[Instruction | None, frozenset[Instruction]]:
        """Return the fusion that is the only caller (or `None`), and the returned values."""
        known = self._results.get(computation)
        if known is None:
            caller, root = self.caller(computation), computation.root
            fusion = None if caller is None or isinstance(caller.op, Call) else caller
            results = root.operands if isinstance(root.op, Tuple) else (root,)
            known = self._results[computation] = fusion, frozenset(results)
        return known

    # ------------------------------------------------------------------------------------- uses

    def users(self, value: Instruction) -> tuple[Instruction, ...]:
        """Return the users of a value in the order of the text.

        Fusions, calls and tuples that only forward the value are followed, and are not users.
        """
        return self.used(value)[0]

    def is_returned(self, value: Instruction) -> bool:
        """Does a computation return the value, other than to a fusion or call that is followed?"""
        return self.used(value)[1]

    def used(self, value: Instruction) -> tuple[tuple[Instruction, ...], bool]:
        """Return the users of a value, and whether a computation returns the value.

        The users are in the order of the text; see `users` and `is_returned`.
        """
        known = self._uses.get(value)
        if known is None:
            known = self._uses[value] = self._in_order_of_text(dict.fromkeys(self._each_use(value)))
        return known

    def _in_order_of_text(
        self, uses: Iterable[Instruction | None]
    ) -> tuple[tuple[Instruction, ...], bool]:
        """Return the users in the order of the text, and whether `None` is among the uses."""
        readers = [reader for reader in uses if reader is not None]
        return tuple(self.in_order(readers) if len(readers) > 1 else readers), None in uses

    def users_if(
        self, value: Instruction, predicate: Callable[[Instruction], bool]
    ) -> tuple[Instruction, ...] | None:
        """Return `users` if all satisfy `predicate` and the value is not returned; else `None`."""
        known = self._uses.get(value)
        if known is None:
            met: dict[Instruction | None, None] = {}
            # The first use that is not fine ends the search; values with thousands of users are
            # common.
            for use in self._each_use(value):
                if use is None or not predicate(use):
                    return None
                met[use] = None
            known = self._uses[value] = self._in_order_of_text(met)
        users, is_returned = known
        return None if is_returned or not all(map(predicate, users)) else users

    def is_used_only_in(self, value: Instruction, inside: Container[Instruction | None]) -> bool:
        """Are all users of the value in `inside`?

        The set contains `None` if the value may be returned.
        """
        if value in self._other_use and self._other_use[value] not in inside:
            return False
        known = self._uses.get(value)
        uses = self._each_use(value) if known is None else (*known[0], *[None] * known[1])
        for use in uses:
            if use not in inside:
                self._other_use[value] = use
                return False
        return True

    def _each_use(self, value: Instruction) -> Iterator[Instruction | None]:
        """Yield the users of a value and of its aliases, as they are found.

        `None` is yielded if the value is returned.
        """
        if self._has_one_name(value):
            yield from self._direct.get(value, ())
            return
        # Depth first: a new name is followed at once, because a caller often stops at the first
        # use.
        names = dict.fromkeys([value])
        stack = [self._uses_of_name(value, value)]
        while stack:
            for readers, others in stack[-1]:
                yield from readers
                # A further name is the same value, or a tuple that may contain it.
                new = [
                    o
                    for o in others
                    if o not in names
                    and (not isinstance(o.type, TensorType) or self.source(o) is value)
                ]
                if new:
                    names.update(dict.fromkeys(new))
                    stack += [self._uses_of_name(name, value) for name in new]
                    break
            else:
                stack.pop()

    def _has_one_name(self, value: Instruction) -> bool:
        """Is the value an array that has no alias?"""
        home = self.home(value)
        if home is None or home.root is value or self.has_regions:
            return False
        if isinstance(value.op, _OPENABLE) or not isinstance(value.type, TensorType):
            return False
        return not any([isinstance(reader.op, RENAMING) for reader in self._direct.get(value, ())])

    def _uses_of_name(
        self, name: Instruction, value: Instruction
    ) -> Iterator[tuple[Sequence[Instruction | None], Sequence[Instruction]]]:
        """Yield the users of one alias of a value, with the further aliases that they create.

        Each pair has the users of `name`, and aliases of the value. `None` is a user that stands
        for the return of `name`.

        Args:
            name: The value itself, or an alias of it: a parameter, a tuple with it, or a tuple
                element.
            value: The value.
        """
        home = self.home(name)
        here = value in self._parts(name)
        if home is not None and home.root is name:
            caller = self.caller(home)
            yield (None,) if caller is None and here else (), () if caller is None else (caller,)
        for reader in self._direct.get(name, ()):
            is_read = here and not self._is_alias(reader)
            yield (reader,) if is_read else (), self._names_inside(reader, name)

    def _names_inside(self, reader: Instruction, name: Instruction) -> list[Instruction]:
        """Return the aliases of the value that a user of the alias `name` creates.

        These are parameters of a called computation, or the user itself.
        """
        if self._is_opened(reader):
            self._enter(reader.calls[0])
            parameters = reader.calls[0].parameters
            pairs = zip(reader.operands, parameters, strict=False)
            return [parameter for operand, parameter in pairs if operand is name]
        return [reader] if isinstance(reader.op, (GetTupleElement, *TUPLES)) else []

    def _is_alias(self, reader: Instruction) -> bool:
        """Is the user's value only an alias of the value that it reads?"""
        if isinstance(reader.op, TUPLES):
            home = self.home(reader)
            if home is not None and home.root is reader and self.caller(home) is not None:
                return True
        if not isinstance(reader.op, _OPENABLE):
            return False
        return self._is_opened(reader) or self.source(reader) is not reader
