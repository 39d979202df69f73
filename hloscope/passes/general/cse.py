"""`cse`, common subexpression elimination: reuse the results of an equivalent dominating op.

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
"""Largest number of operations in the regions of an op that is compared."""

_MOST_COMPARED: Final = 8
"""Largest number of ops with regions that an op is compared with."""


class _Scope:
    """Operations of a block by key, with the scopes of the blocks around it."""

    __slots__ = ("known", "outer")

    def __init__(self, outer: _Scope | None) -> None:
        self.known: Final[dict[Hashable, list[Operation]]] = {}
        self.outer: Final = outer

    def find(self, key: Hashable, operation: Operation) -> Operation | None:
        """Return an equivalent operation in scope: same key, equivalent regions."""
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
    """One traversal of all operations in an operation."""

    def __init__(self, run: Run) -> None:
        self.rewriter: Final[Rewriter] = run.rewriter
        self.run: Final = run
        self.dead: Final[list[Operation]] = []

    def merge(self, top: Operation) -> None:
        """Merge equivalent operations in program order.

        An operation is compared with those before it in its block, and in the blocks around it.
        """
        stack = self._scoped_blocks(top, None)
        while stack:
            operations, scope = stack[-1]
            operation = next(operations, None)
            if operation is None:
                stack.pop()
            elif not self._is_merged(operation, scope) and operation.regions:
                # An isolated op reads no outer values, so that outer operations cannot replace its
                # own.
                stack += self._scoped_blocks(
                    operation, None if is_isolated(operation.name) else scope
                )
        # Users are erased before what they read, so that whole dead chains go.
        for operation in reversed(self.dead):
            if not self.rewriter.is_used(operation):
                self.rewriter.erase(operation)

    def _scoped_blocks(
        self, owner: Operation, outer: _Scope | None
    ) -> list[tuple[Iterator[Operation], _Scope]]:
        """Return the blocks in an operation, as iterators with their scopes, the first one last."""
        found: list[tuple[Iterator[Operation], _Scope]] = []
        for region in owner.regions:
            # The entry block dominates all others of a region; their own order is not examined.
            first: _Scope | None = None
            for block in region.blocks:
                scope = _Scope(first or outer)
                first = first or scope
                found.append((iter(block), scope))
        return found[::-1]

    def _is_merged(self, operation: Operation, scope: _Scope) -> bool:
        """Replace an operation by an equivalent one in scope; true if it is replaced or unused."""
        if not may_go(operation) or not operation.results:
            return False
        if not self.rewriter.is_used(operation):
            self.dead.append(operation)
            return True
        # The number of nested operations is part of the key: it separates most regions cheaply.
        key = _own_key(operation, {}), _count(operation)
        known = scope.find(key, operation)
        if known is None:
            scope.known.setdefault(key, []).append(operation)
            return False
        # The merged operation gets a known location if either of both has one.
        if known.location == UNKNOWN and operation.location != UNKNOWN:
            known.location = operation.location
        self.rewriter.replace(operation, known.results)
        self.run.fired["merge"] += 1
        return True


def _count(operation: Operation) -> int:
    """Return the number of operations in the regions of an operation."""
    work = [operation] if operation.regions else []
    for each in work:
        for block in each.blocks:
            work += block.operations
    return len(work)


def _key(operation: Operation) -> Hashable | None:
    """Return a key that equivalent operations share; `None` if its regions are too large."""
    # Values defined inside count by number, outer values by identity.
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
        tuple(sorted([(name, _literal(value)) for name, value in attributes], key=_name_of_pair)),
    )


def _name_of_pair(pair: tuple[str, Hashable]) -> str:
    return pair[0]


def _literal(value: Attribute) -> Hashable:
    """Return a literal as its elements, so that spellings are equal; others unchanged."""
    if not isinstance(value, DenseAttr) or len(value.literal) > _LARGEST:
        return value
    try:
        return bytes(elements(value).raw), value.type
    except HloscopeError:
        return value


def _run(run: Run) -> None:
    _Merging(run).merge(run.rewriter.module)


PASS: Final = Pass("cse", _run, "Eliminates common subexpressions.")
