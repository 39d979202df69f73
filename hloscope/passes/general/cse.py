"""`cse`, common subexpression elimination: an equivalent dominating operation gives the results.

Source: MLIR's `CSE.cpp`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from hloscope.dialects import is_isolated
from hloscope.errors import HloscopeError
from hloscope.mlir import UNKNOWN, Attribute, Block, DenseAttr, Operation, Value, elements
from hloscope.passes.effects import may_go
from hloscope.passes.framework import Pass, Run
from hloscope.passes.rewriting import Rewriter

_LARGEST: Final = 1 << 12
"""Ops with more in their regions are not compared."""

_MOST_COMPARED: Final = 8
"""So many ops with regions, all else being equal, an op with regions is compared with."""


class _Scope:
    """What is known in a block, and in those around it."""

    __slots__ = ("known", "outer")

    def __init__(self, outer: _Scope | None) -> None:
        self.known: Final[dict[Hashable, list[Operation]]] = {}
        self.outer: Final = outer

    def find(self, key: Hashable, operation: Operation) -> Operation | None:
        """An equivalent operation in scope: of this key, with equivalent regions."""
        scope: _Scope | None = self
        left, own = _MOST_COMPARED, None
        while scope is not None and left:
            for known in scope.known.get(key, ()):
                if not operation.regions:
                    return known
                own = own or _key(operation)
                left -= 1
                if own is None or not left:
                    return None
                if _key(known) == own:
                    return known
            scope = scope.outer
        return None


class _Merging:
    """One walk over everything in an operation."""

    def __init__(self, run: Run) -> None:
        self.rewriter: Final[Rewriter] = run.rewriter
        self.run: Final = run
        self.dead: Final[list[Operation]] = []

    def merge(self, top: Operation) -> None:
        """In the order of the text: an operation knows those before it, and before those around."""
        stack = self._opened(top, None)
        while stack:
            operations, scope = stack[-1]
            operation = next(operations, None)
            if operation is None:
                stack.pop()
            elif not self._is_merged(operation, scope) and operation.regions:
                stack += self._opened(operation, None if is_isolated(operation.name) else scope)
        for operation in reversed(self.dead):
            if not self.rewriter.is_used(operation):
                self.rewriter.erase(operation)

    def _opened(
        self, owner: Operation, outer: _Scope | None
    ) -> list[tuple[Iterator[Operation], _Scope]]:
        """The blocks in an operation, the first one last, and what is known in each."""
        found: list[tuple[Iterator[Operation], _Scope]] = []
        for region in owner.regions:
            # The entry comes before all others; about those nothing is asked.
            first: _Scope | None = None
            for block in region.blocks:
                scope = _Scope(first or outer)
                first = first or scope
                found.append((iter(block), scope))
        return found[::-1]

    def _is_merged(self, operation: Operation, scope: _Scope) -> bool:
        if not may_go(operation) or not operation.results:
            return False
        if not self.rewriter.is_used(operation):
            self.dead.append(operation)
            return True
        key = _own_key(operation, {}), _count(operation)
        known = scope.find(key, operation)
        if known is None:
            scope.known.setdefault(key, []).append(operation)
            return False
        if known.location == UNKNOWN and operation.location != UNKNOWN:
            known.location = operation.location
        self.rewriter.replace(operation, known.results)
        self.run.fired["merge"] += 1
        return True


def _count(operation: Operation) -> int:
    """How many operations its regions hold."""
    work = [operation] if operation.regions else []
    for each in work:
        for block in each.blocks:
            work += block.operations
    return len(work)


def _key(operation: Operation) -> Hashable | None:
    """A key that equivalent operations share; `None` where none is looked for."""
    numbers: dict[Value, int] = {}
    parts: list[Hashable] = []
    work: list[Operation | Block] = [operation]
    while work:
        if len(parts) > _LARGEST:
            return None
        item = work.pop()
        if isinstance(item, Block):
            for argument in item.arguments:
                numbers[argument] = len(numbers)
                parts.append(argument.type)
            continue
        parts.append(_own_key(item, numbers))
        inside: list[Operation | Block] = []
        for region in item.regions:
            if len(region.blocks) > 1:
                return None
            for block in region.blocks:
                inside += [block, *block.operations]
        parts.append(len(inside))
        work += reversed(inside)
        for value in item.results if item is not operation else ():
            numbers[value] = len(numbers)
    return tuple(parts)


def _own_key(operation: Operation, numbers: dict[Value, int]) -> Hashable:
    attributes = [*operation.properties.items(), *operation.attributes.items()]
    return (
        operation.name,
        tuple([numbers.get(value, value) for value in operation.operands]),
        tuple([value.type for value in operation.results]),
        tuple(sorted([(name, _literal(value)) for name, value in attributes], key=_first)),
    )


def _first(pair: tuple[str, Hashable]) -> str:
    return pair[0]


def _literal(value: Attribute) -> Hashable:
    """A literal by its elements, however it is written; all else by itself."""
    if not isinstance(value, DenseAttr) or len(value.literal) > _LARGEST:
        return value
    try:
        return bytes(elements(value).raw), value.type
    except HloscopeError:
        return value


def _run(run: Run) -> None:
    _Merging(run).merge(run.rewriter.module)


PASS: Final = Pass("cse", _run, "Operations that do the same are done once.")
