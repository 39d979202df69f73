"""Passes for all dialects: merge equal operations, remove symbols, inline calls, cancel casts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Final

from hloscope.errors import HloscopeError
from hloscope.mlir import (
    UNKNOWN,
    ArrayAttr,
    Attribute,
    Block,
    DenseAttr,
    DictAttr,
    Operation,
    StringAttr,
    SymbolAttr,
    Value,
    elements,
)
from hloscope.mlir.dialects import is_isolated
from hloscope.passes.conversion import CAST
from hloscope.passes.framework import Pass, Run
from hloscope.passes.reading import symbols_of
from hloscope.passes.regions import may_be_erased
from hloscope.passes.rewriting import OpenBlock, Rewriter
from hloscope.stablehlo import clone, strip_locations
from hloscope.support.walks import needed_first

# --------------------------------------------------------------------------------------------------
# `cse`, common subexpression elimination: reuse the results of an equivalent dominating op.
#
# Source: MLIR's `CSE.cpp`.


_LARGEST: Final = 1 << 12
"""An op with more operations in its regions is not compared with others."""

_MOST_COMPARED: Final = 8
"""Maximum number of ops with regions with which one op is compared."""


class _Scope:
    """The operations of one block by which equal later ones can be replaced, by key.

    `outer` is the scope of the block around it; `None` if there is none.
    """

    __slots__ = ("known", "outer")

    def __init__(self, outer: _Scope | None) -> None:
        self.known: Final[dict[Hashable, list[Operation]]] = {}
        self.outer: Final = outer

    def find(self, key: Hashable, operation: Operation) -> Operation | None:
        """Return an equal operation in this or an outer scope; `None` if there is none.

        It has the same key and equal regions.
        """
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
    """One traversal that replaces operations by equal earlier ones, in the regions of an op."""

    def __init__(self, run: Run) -> None:
        self.rewriter: Final[Rewriter] = run.rewriter
        self.run: Final = run
        self.dead: Final[list[Operation]] = []

    def merge(self, top: Operation) -> None:
        """Merge equal operations in the regions of `top`, in program order.

        An operation is compared with earlier ones in its block, and in the blocks around it.
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
        # Users are erased before their operands, so that dead chains are erased completely.
        for operation in reversed(self.dead):
            if not self.rewriter.is_used(operation):
                self.rewriter.erase(operation)

    def _scoped_blocks(
        self, owner: Operation, outer: _Scope | None
    ) -> list[tuple[Iterator[Operation], _Scope]]:
        """Return the blocks in the regions of the operation `owner`, last first.

        Each block is an iterator over its operations, with its scope. `outer` is the scope of the
        block that contains `owner`.
        """
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
        """Replace an operation by an equal one in `scope`, or record in `dead` that it is unused.

        Return whether one of both was done; otherwise add the operation to `scope`.
        """
        if not may_be_erased(operation) or not operation.results:
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
    """Return the number of operations in the regions of an operation, at any depth."""
    work = [operation] if operation.regions else []
    for each in work:
        for block in each.blocks:
            work += block.operations
    return len(work)


def _key(operation: Operation) -> Hashable | None:
    """Return a key of an operation without its location and names; `None` if a region is too large.

    Operations with equal keys may be merged.
    """
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
    """Return a key of an operation without its regions; `numbers` replaces operands by numbers."""
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
    """Return a key of a literal by its elements: different texts of equal elements have equal keys.

    Other attributes are returned unchanged.
    """
    if not isinstance(value, DenseAttr) or len(value.literal) > _LARGEST:
        return value
    try:
        return bytes(elements(value).raw), value.type
    except HloscopeError:
        return value


def _merge_equal(run: Run) -> None:
    _Merging(run).merge(run.rewriter.module)


CSE: Final = Pass("cse", _merge_equal, "Eliminates common subexpressions.")


# --------------------------------------------------------------------------------------------------
# `symbol-dce` and `inline`: unused private symbols, calls of functions with one block.
#
# Source: MLIR's `SymbolDCE.cpp`, `Inliner.cpp`.


MOST_INLINED: Final = 1 << 18
"""Maximum number of operations that inlining adds to a module; further calls are not inlined."""


def _symbols_in(operation: Operation) -> Iterator[str]:
    """Yield the names of the symbols that an operation's attributes refer to."""
    work: list[Attribute] = [*operation.properties.values(), *operation.attributes.values()]
    while work:
        match work.pop():
            case SymbolAttr(root):
                yield root
            case ArrayAttr(parts):
                work += parts
            case DictAttr(entries):
                work += [value for _, value in entries]
            case _:
                pass


def _is_private(operation: Operation) -> bool:
    return operation.get("sym_visibility") in (StringAttr(b"private"), StringAttr(b"nested"))


def remove_unused(run: Run) -> None:
    """Erase private symbols that no public one refers to, directly or through other symbols."""
    rewriter = run.rewriter
    named = symbols_of(rewriter.module)
    roots = [op for op in rewriter.module.regions[0].blocks[0]] if rewriter.module.regions else []
    work = [op for op in roots if not _is_private(op)]
    kept = set(work)
    # `work` grows while it is traversed: a used symbol uses others.
    for operation in work:
        for inner in rewriter.walk(operation):
            for name in _symbols_in(inner):
                target = named.get(name)
                if target is not None and target not in kept:
                    kept.add(target)
                    work.append(target)
    for operation in roots:
        if operation not in kept and isinstance(operation.get("sym_name"), StringAttr):
            rewriter.erase(operation)
            run.fired["unused symbol"] += 1


def _callee(operation: Operation, named: Mapping[str, Operation]) -> Operation | None:
    """Return the function that a call refers to; `None` if the op is no call that can be inlined.

    `named` has the operations that define symbols, by name.
    """
    if operation.name != "func.call" or "no_inline" in operation.properties:
        return None
    symbol = operation.get("callee")
    target = named.get(symbol.root) if isinstance(symbol, SymbolAttr) else None
    if target is None or target.name != "func.func" or "no_inline" in target.properties:
        return None
    blocks = target.regions[0].blocks if target.regions else ()
    if len(blocks) != 1 or blocks[0].operations[-1:] == ():
        return None
    types = [value.type for value in blocks[0].arguments]
    if types != [value.type for value in operation.operands]:
        return None
    last = blocks[0].operations[-1]
    if last.name != "func.return":
        return None
    results = [value.type for value in last.operands]
    return target if results == [value.type for value in operation.results] else None


def _order(rewriter: Rewriter, named: Mapping[str, Operation]) -> list[Operation]:
    """Return the functions among the symbols `named`, callees before callers.

    A cycle of calls is cut at one of its functions.
    """
    calls = {
        op: [t for inner in rewriter.walk(op) if (t := _callee(inner, named)) is not None]
        for op in named.values()
        if op.name == "func.func"
    }
    return [*needed_first(calls, calls.__getitem__)]


def _inline(run: Run) -> None:
    """Inline calls in callees before those in callers, then erase functions that became unused."""
    rewriter = run.rewriter
    named = symbols_of(rewriter.module)
    order = _order(rewriter, named)
    # A function is inlined only after its own calls were, so that its copies need no more work.
    place = {operation: k for k, operation in enumerate(order)}
    sizes: Counter[Operation] = Counter()
    left = MOST_INLINED
    for function in order:
        for call in [*rewriter.walk(function)]:
            target = _callee(call, named)
            # Only functions earlier in the order are complete.  The others are part of a cycle.
            if target is None or place[target] >= place[function] or sizes[target] > left:
                continue
            left -= sizes[target]
            _replace_call(rewriter, call, target)
            run.fired["inline"] += 1
        sizes[function] = sum(1 for _ in rewriter.walk(function))
    remove_unused(run)


def _replace_call(rewriter: Rewriter, call: Operation, target: Operation) -> None:
    """Replace a call by a copy of the body of the function `target`."""
    body = target.regions[0].blocks[0]
    assert isinstance(body, OpenBlock)
    values: dict[Value, Value] = dict(zip(body.arguments, call.operands, strict=True))
    for operation in body.operations[:-1]:
        rewriter.insert(clone(operation, values), before=call)
    returned = body.operations[-1].operands
    rewriter.replace(call, [values.get(value, value) for value in returned])


SYMBOL_DCE: Final = Pass(
    "symbol-dce", remove_unused, "Erases private functions that no public one uses."
)
INLINE: Final = Pass(
    "inline", _inline, "Inlines calls of functions with one block; then `symbol-dce`."
)


# --------------------------------------------------------------------------------------------------
# `reconcile-unrealized-casts`: erases casts that undo each other.
#
# Source: MLIR's `ReconcileUnrealizedCasts.cpp`.


def _erase_casts(run: Run) -> None:
    """Replace chains of casts that lead back to the first type by their first values."""
    rewriter = run.rewriter
    casts = [op for op in rewriter.walk() if op.name == CAST]
    for operation in casts:
        source = _value_before_casts(operation)
        if source is not None:
            rewriter.replace(operation, source)
            run.fired["cancel"] += 1
    # In reverse, the users of a cast are erased first.
    for operation in reversed(casts):
        if operation.parent is not None and not rewriter.is_used(operation):
            rewriter.erase(operation)


def _value_before_casts(operation: Operation) -> tuple[Value, ...] | None:
    """Return the values before a chain of casts whose last types are the types of these values.

    The result is `None` if the op is not a cast, or if there are no such values within 64 casts.
    """
    wanted = [value.type for value in operation.results]
    at: Operation | None = operation
    for _ in range(64):
        if at is None or at.name != CAST:
            return None
        if [value.type for value in at.operands] == wanted:
            return at.operands
        owner = at.operands[0].owner if at.operands else None
        at = owner if isinstance(owner, Operation) and owner.results == at.operands else None
    return None


RECONCILE_CASTS: Final = Pass(
    "reconcile-unrealized-casts", _erase_casts, "Erases casts that undo each other or are unused."
)


# --------------------------------------------------------------------------------------------------
# `strip-debuginfo`: removes all locations.
#
# Source: MLIR's `StripDebugInfo.cpp`.


def _strip_locations(run: Run) -> None:
    strip_locations(run.rewriter.module)


STRIP_LOCATIONS: Final = Pass("strip-debuginfo", _strip_locations, "Removes all locations.")
