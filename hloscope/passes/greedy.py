"""The greedy driver: patterns are applied until none fits, in the order MLIR's driver has.

Source: MLIR's `GreedyPatternRewriteDriver.cpp` and `FoldUtils.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from hloscope.dialects import DEFINITIONS, is_isolated
from hloscope.errors import HloscopeError
from hloscope.ir import Type
from hloscope.mlir import UNKNOWN, Attribute, DenseAttr, Operation, Region, Value, elements
from hloscope.passes.effects import may_go
from hloscope.passes.patterns import Chooser, Pattern
from hloscope.passes.regions import clean_regions, has_branches
from hloscope.passes.rewriting import OpenBlock, Rewriter, Watcher
from hloscope.stablehlo import CONSTANTS

ITERATIONS: Final = 10
"""Patterns are applied so often, unless a pass says otherwise."""


_VALUES: Final = dict.fromkeys(CONSTANTS, "value") | {"shape.const_shape": "shape"}
"""Ops that are brought to the front, and the attribute that tells them apart."""

_WIDE: Final = 500
"""An op of more operands is not looked at again each time that one of them changes."""
_OF_ONE_OP: Final = ("stablehlo.async_start",)
"""Ops whose region holds one op and its `return`; constants stay in regions of that op."""
_Key: TypeAlias = tuple[OpenBlock, str, Attribute | None, object]
"""Of a constant: where it goes, its dialect, its value and its type."""
_MOST_COMPARED: Final = 4096
"""Characters or bytes of literals that are compared by their elements, not as they are written."""
_MOST_REWRITES: Final = 256
"""Rewrites for each operation at the start, after which patterns are taken to chase each other."""


_HOMES: Final = frozenset(["sdy.manual_computation"])
"""Ops that keep the constants of their regions, though what is outside could be read there."""


class PostponedError(Exception):
    """What a pattern raises, having changed nothing, that has to be tried again later."""


class WorkList:
    """Operations to look at, the one that came last first; each stands in it once."""

    def __init__(self) -> None:
        self._stack: list[Operation | None] = []
        self._places: dict[Operation, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def push(self, operation: Operation) -> None:
        """Put an operation on top, unless it is somewhere in the list."""
        if operation not in self._places:
            self._places[operation] = len(self._stack)
            self._stack.append(operation)

    def pop(self) -> Operation | None:
        """Take the top; nothing if the list is empty."""
        while self._stack:
            top = self._stack.pop()
            if top is not None:
                del self._places[top]
                return top
        return None

    def remove(self, operation: Operation) -> None:
        """Take an operation out wherever it is."""
        place = self._places.pop(operation, None)
        if place is not None:
            self._stack[place] = None

    def reverse(self) -> None:
        """Turn the list round."""
        self._stack = [operation for operation in reversed(self._stack) if operation is not None]
        self._places = {operation: k for k, operation in enumerate(self._stack) if operation}


class GreedyDriver(Watcher):
    """Applies patterns to all that stands in one operation (most often a function).

    Args:
        rewriter: The module that is changed; the driver is its watcher while it runs.
        scope: The operation in whose regions everything happens.
        patterns: To be tried; drivers may share a chooser.
        top_down: Begin with the first operation, not with the last.
        max_iterations: How often to begin anew.
        merges_blocks: Between iterations, do blocks of a region become one that are the same?
    """

    def __init__(
        self,
        rewriter: Rewriter,
        scope: Operation,
        patterns: Iterable[Pattern] | Chooser,
        *,
        top_down: bool = True,
        max_iterations: int = ITERATIONS,
        merges_blocks: bool = True,
    ) -> None:
        self.rewriter: Final = rewriter
        self.scope: Final = scope
        self.chooser: Final = patterns if isinstance(patterns, Chooser) else Chooser(patterns)
        self.top_down: Final = top_down
        self.max_iterations: Final = max_iterations
        self.merges_blocks: Final = merges_blocks
        self._has_branches = False
        self._work = WorkList()
        self._later: dict[Operation, None] = {}
        self._iterations, self._is_under_way, self._is_changed, self._left = 0, False, False, 0
        self._constants: dict[_Key, Operation] = {}
        self._owned: dict[Operation, _Key] = {}

    def run(self) -> bool:
        """Change what can be changed; has nothing been left to do?

        A pattern that cannot go on before something else is done raises `PostponedError`: then
        `run` is called again later, and goes on with the same operation.
        """
        outer, self.rewriter.watcher = self.rewriter.watcher, self
        try:
            while self._iterations < self.max_iterations:
                if not self._iteration():
                    return True
            return False
        finally:
            self.rewriter.watcher = outer

    # ----------------------------------------------------------------------------------- watching

    def inserted(self, operation: Operation) -> None:
        """A new operation, and all in its regions, is looked at."""
        for each in self.rewriter.walk(operation):
            self._push(each)

    def changed(self, operation: Operation) -> None:
        """An operation that is not what it was is looked at again."""
        self._push(operation)

    def erased(self, operation: Operation) -> None:
        """Those who made what it read may have nobody else, or one other, to read it."""
        for value in operation.operands:
            owner = value.owner
            if isinstance(owner, Operation) and self.rewriter.user_count(value) <= 2:
                self._push(owner)
        self._work.remove(operation)
        self._later.pop(operation, None)
        key = self._owned.pop(operation, None)
        if key is not None:
            del self._constants[key]

    def _push(self, operation: Operation) -> None:
        """Look at an operation and at all around it, up to the scope."""
        chain: list[Operation] = []
        at: Operation | None = operation
        while at is not None and at is not self.scope:
            chain.append(at)
            region = at.parent.parent if at.parent is not None else None
            at = region.parent if region is not None else None
        if at is self.scope:
            for each in chain:
                if len(each.operands) > _WIDE:
                    self._later[each] = None
                else:
                    self._work.push(each)

    def _next(self) -> Operation | None:
        """The next operation to look at; those of very many operands come when no other is left."""
        found = self._work.pop()
        return self._later.popitem()[0] if found is None and self._later else found

    def constant(
        self, name: str, properties: Mapping[str, Attribute], type: Type, *, before: Operation
    ) -> Value:
        """A constant that something was folded into: one at the front, known or new."""
        front = _front(before, self.scope)
        first = before if front is None or front.first is None else front.first
        new = self.rewriter.create(name, (), properties, before=first, types=(type,))
        new.location = before.location
        if front is None:
            return new.result
        key = _constant_key(new, front)
        known = self._constants.get(key)
        if known is not None:
            self.rewriter.erase(new)
            return known.result
        self._constants[key], self._owned[new] = new, key
        return new.result

    # ------------------------------------------------------------------------------------- running

    def _iteration(self) -> bool:
        """One walk over everything and all that follows; has anything been changed?"""
        if not self._is_under_way:
            self._begin()
        self._work_off()
        if self._has_branches:
            self._is_changed |= clean_regions(self.rewriter, self.scope, merges=self.merges_blocks)
        self._is_under_way = False
        self._iterations += 1
        return self._is_changed

    def _begin(self) -> None:
        """Put everything on the list."""
        self._is_under_way, self._is_changed = True, False
        self._work, self._later, self._constants, self._owned = WorkList(), {}, {}, {}
        _, *order = every = [*self.rewriter.walk(self.scope)]
        self._has_branches = any(each.regions and has_branches(each) for each in every)
        if self.top_down:
            for operation in order:
                if not self._is_merged(operation):
                    self._work.push(operation)
            self._work.reverse()
        else:
            for operation in _postorder(self.scope):
                if not self._is_merged(operation):
                    self._push(operation)
        self._left = _MOST_REWRITES * (len(self._work) + len(self._later) + 16)

    def _work_off(self) -> None:
        rewriter = self.rewriter
        while self._left and (operation := self._next()) is not None:
            if not rewriter.is_used(operation) and may_go(operation) and not _is_last(operation):
                rewriter.erase(operation)
                self._is_changed = True
            elif (
                operation.name not in _VALUES
                and not _is_alone(operation)
                and self._rewrite(operation)
            ):
                self._is_changed = True
                self._left -= 1

    def _rewrite(self, operation: Operation) -> bool:
        try:
            return self.chooser.rewrite(self.rewriter, operation)
        except PostponedError:
            self._work.push(operation)
            raise

    def _is_merged(self, operation: Operation) -> bool:
        """Is the operation a constant that another one took the place of?

        The first of a kind is moved to the front of an entry block, unless it stands there.
        """
        if operation.name not in _VALUES:
            return False
        rewriter, front = self.rewriter, _front(operation, self.scope)
        if front is None or len(operation.results) != 1:
            return False
        key = _constant_key(operation, front)
        known = self._constants.get(key)
        if known is not None:
            known.location = UNKNOWN
            rewriter.replace(operation, known.results)
            return True
        block = operation.parent
        assert isinstance(block, OpenBlock)
        is_front = block is front and (
            front.first is operation or block.before(operation) in self._owned
        )
        if not is_front:
            assert front.first is not None
            rewriter.move(operation, before=front.first)
        self._constants[key], self._owned[operation] = operation, key
        return False


@lru_cache(maxsize=4096)
def _by_value(value: Attribute | None) -> Attribute | None:
    """The same for literals of the same elements, written or computed, unless they are long."""
    if isinstance(value, DenseAttr) and len(value.literal) <= _MOST_COMPARED:
        try:
            return DenseAttr(bytes(elements(value).raw), value.type)
        except HloscopeError:  # strings, numbers of other types
            return value
    return value


def _constant_key(operation: Operation, front: OpenBlock) -> _Key:
    """Equal for constants of a dialect that are the same and go to the same place."""
    dialect, value = operation.name.partition(".")[0], operation.get(_VALUES[operation.name])
    return front, dialect, _by_value(value), operation.result.type


def _is_last(operation: Operation) -> bool:
    """Does it end its block?  A program may wrongly end one with a constant, which then stays."""
    block = operation.parent
    return isinstance(block, OpenBlock) and block.last is operation


def _is_alone(operation: Operation) -> bool:
    """Is it the only op that its region may hold, so that no constant can be put beside it?"""
    region = operation.parent.parent if operation.parent is not None else None
    owner = region.parent if region is not None else None
    return owner is not None and owner.name in _OF_ONE_OP


def _front(operation: Operation, scope: Operation) -> OpenBlock | None:
    """The entry block of the widest region whose values the operation's place can see.

    Ops that are isolated from above see no values from outside; unknown ones are taken for such.
    """
    at: Operation | None = operation
    region: Region | None = None
    while at is not None and at is not scope:
        outer = at.parent.parent if at.parent is not None else None
        at = outer.parent if outer is not None else None
        if at is not None and at.name in _OF_ONE_OP:
            break
        region = outer
        definition = DEFINITIONS.get(at.name) if at is not None else None
        if definition is None or is_isolated(definition.name) or definition.name in _HOMES:
            break
    block = region.blocks[0] if region is not None and region.blocks else None
    return block if isinstance(block, OpenBlock) else None


def _postorder(scope: Operation) -> list[Operation]:
    """All in a scope: what regions hold first, then the op that has them, in the order of text."""
    order: list[Operation] = []
    stack: list[Operation] = [scope]
    while stack:
        operation = stack.pop()
        order.append(operation)
        stack += operation.inside
    order.reverse()
    return order[:-1]
