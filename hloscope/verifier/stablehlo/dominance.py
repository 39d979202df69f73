"""Dominance: the definition of a value must dominate each of its uses.

Source: MLIR's `Verifier.cpp` and `Dominance.cpp`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from hloscope.errors import Diagnostic
from hloscope.mlir import Block, Operation, Region, Value


class Dominance:
    """Order of ops and dominators of blocks in one isolated op.

    Both are computed once per block and per region, at the first query: most blocks are never
    queried, and a region with many uses is queried once for each.
    """

    def __init__(self) -> None:
        self._order: dict[int, int] = {}
        self._numbered: set[int] = set()
        self._nearest: dict[int, dict[int, int]] = {}

    def number(self, block: Block) -> dict[int, int]:
        """Return positions of ops in their blocks, by identity, with those of `block` included."""
        if id(block) not in self._numbered:
            self._numbered.add(id(block))
            self._order.update((id(op), i) for i, op in enumerate(block.operations))
        return self._order

    def nearest(self, region: Region) -> dict[int, int]:
        """Return the immediate dominator of each reachable block of a region, by identity."""
        known = self._nearest.get(id(region))
        if known is None:
            known = self._nearest[id(region)] = _immediate_dominators(region)
        return known

    def dominates(self, value: Value, user: Operation) -> bool:
        """Does the definition of `value` dominate `user`?"""
        owner = value.owner
        home = owner if isinstance(owner, Block) else owner.parent if owner else None
        if home is None or home.parent is None:
            return owner is not None
        # A use in a nested region counts as a use by the ancestor op in the region of the
        # definition.
        block = user.parent
        ancestor: Operation | None = user
        while block is not None and block.parent is not home.parent:
            ancestor = block.parent.parent if block.parent else None
            block = ancestor.parent if ancestor else None
        if block is None or ancestor is None:
            return False
        if block is home:
            if isinstance(owner, Block):
                return True
            order = self.number(home)
            return order[id(owner)] < order[id(ancestor)]
        nearest = self.nearest(home.parent)
        at = id(block)
        # Unreachable code never runs, so that every definition dominates it.
        if at not in nearest:
            return True
        # The entry is its own dominator and ends the climb.
        while at != id(home) and nearest[at] != at:
            at = nearest[at]
        return at == id(home)


def _successors(block: Block) -> Sequence[Block]:
    return block.operations[-1].successors if block.operations else ()


def _immediate_dominators(region: Region) -> dict[int, int]:
    """Return the immediate dominator of each reachable block; the entry's is itself.

    Blocks are named by identity.  Source: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance
    Algorithm".
    """
    entry = region.blocks[0]
    postorder: list[Block] = []
    seen = {id(entry)}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, successors = stack[-1]
        following = next((s for s in successors if id(s) not in seen), None)
        if following is None:
            postorder.append(block)
            stack.pop()
        else:
            seen.add(id(following))
            stack.append((following, iter(_successors(following))))
    # A dominator has a higher postorder number than the blocks it dominates.  So the block with the
    # lower number climbs until both paths meet in the nearest common dominator.
    number = {id(block): i for i, block in enumerate(postorder)}
    predecessors: dict[int, list[int]] = {key: [] for key in number}
    for block in postorder:
        for successor in _successors(block):
            predecessors[id(successor)].append(id(block))
    nearest = {id(entry): id(entry)}
    changed = True
    while changed:
        changed = False
        # In reverse postorder each block but the entry has a processed predecessor: `known` is not
        # empty.
        for block in reversed(postorder[:-1]):
            known = [p for p in predecessors[id(block)] if p in nearest]
            new = known[0]
            for other in known[1:]:
                while new != other:
                    if number[new] < number[other]:
                        new = nearest[new]
                    else:
                        other = nearest[other]
            if nearest.get(id(block)) != new:
                nearest[id(block)], changed = new, True
    return nearest


def undominated(
    root: Operation, isolated: frozenset[str], closed: Container[Operation]
) -> Iterator[Diagnostic]:
    """Yield an error for each op below `root` that uses a value its definition does not dominate.

    Args:
        root: The op.
        isolated: Names of ops whose regions are skipped: they are roots themselves.
        closed: Ops whose regions are known to have no such use; they are skipped.
    """
    dominance = Dominance()
    waiting = [root]
    while waiting:
        operation = waiting.pop()
        for region in operation.regions:
            blocks = region.blocks
            reachable = None if len(blocks) < 2 else dominance.nearest(region)
            for block in blocks:
                # A region of one block needs no dominators: an earlier op of the block dominates a
                # later one.
                check = reachable is None or id(block) in reachable
                defined = set(block.arguments)
                for op in block.operations:
                    if check and not defined.issuperset(op.operands):
                        yield from _undominated_uses(op, defined, dominance)
                    defined.update(op.results)
                    if op.regions and op.name not in isolated and op not in closed:
                        waiting.append(op)


def _undominated_uses(
    op: Operation, defined: set[Value], dominance: Dominance
) -> Iterator[Diagnostic]:
    """Yield an error for the first operand that is neither in `defined` nor dominates the op."""
    for number, value in enumerate(op.operands):
        if value not in defined and not dominance.dominates(value, op):
            yield _error(op, number, value)
            return


def _error(user: Operation, number: int, value: Value) -> Diagnostic:
    owner = value.owner
    notes: tuple[Diagnostic, ...] = ()
    if isinstance(owner, Operation):
        place = _place(user, owner)
        notes = (Diagnostic(f"operand defined here ({place})", owner.span, severity="note"),)
    return Diagnostic(f"operand #{number} does not dominate this use", user.span, notes=notes)


def _place(user: Operation, definition: Operation) -> str:
    here, there = user.parent, definition.parent
    if here is there:
        return "op in the same block"
    inner = here.parent if here else None
    outer = there.parent if there else None
    if inner is outer:
        return "op in the same region"
    if _inside(inner, outer):
        return "op in a parent region"
    if _inside(outer, inner):
        return "op in a child region"
    return "op is neither in a parent nor in a child region"


def _inside(inner: Region | None, outer: Region | None) -> bool:
    while inner is not None and inner is not outer:
        block = inner.parent.parent if inner.parent else None
        inner = block.parent if block else None
    return inner is not None
