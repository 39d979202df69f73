"""Checks of op traits, of dominance, and of the operands that branches pass."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Final

from hloscope.errors import Diagnostic, VerifyError
from hloscope.ir import (
    BufferType,
    ElementType,
    QuantizedType,
    TensorType,
    Type,
    UnrankedTensorType,
    compatible,
    compatible_elements,
)
from hloscope.mlir import Block, DenseArrayAttr, Operation, Region, Value

# --------------------------------------------------------------------------------------------------
# Checks of traits: rules about types and positions that several ops share.
#
# Source: MLIR's `Operation.cpp`, StableHLO's `Base.h`.


def refuse(operation: Operation, message: str, rule: str = "") -> VerifyError:
    """Return the error for an op, with the message in MLIR's form: `'name' op message`.

    `rule` is the violated constraint.
    """
    return VerifyError(f"'{operation.name}' op {message}", rule=rule)


def element_of(type_: Type) -> ElementType | Type:
    """Return the element type of a tensor or buffer type; any other type is returned unchanged."""
    match type_:
        case TensorType() | UnrankedTensorType():
            return type_.element
        case BufferType():
            return type_.element.element
        case _:
            return type_


def _same_elements(a: Type, b: Type) -> bool:
    return element_of(a) == element_of(b)


def _compatible_element(a: Type, b: Type) -> bool:
    x, y = element_of(a), element_of(b)
    if isinstance(x, ElementType) and isinstance(y, ElementType):
        return compatible_elements(x, y)
    return x == y


def _shapes_agree(types: Sequence[Type]) -> bool:
    """Can all types have the same shape?

    Dynamic sizes are compatible with every size.
    """
    sizes = [t.sizes for t in types if isinstance(t, TensorType)]
    if len(sizes) + sum(isinstance(t, UnrankedTensorType) for t in types) != len(types):
        return False
    if len({len(s) for s in sizes}) > 1:
        return False
    return all(len(set(extents) - {None}) < 2 for extents in zip(*sizes, strict=True))


def _some(operation: Operation, *, results: bool = True) -> None:
    if not operation.operands:
        raise refuse(operation, "expected 1 or more operands, but found 0")
    if results and not operation.results:
        raise refuse(operation, "expected 1 or more results")


def _as_first(agree: Callable[[Type, Type], bool]) -> Callable[[Sequence[Type]], bool]:
    """Return a predicate of several types: does each agree with the first one?

    `agree` returns whether two types agree.
    """
    return lambda types: all(agree(t, types[0]) for t in types[1:])


_elements_agree: Final = _as_first(_same_elements)


def _same_types(types: Sequence[Type]) -> bool:
    return _elements_agree(types) and _shapes_agree(types)


def _same_over_all(
    what: str,
    agree: Callable[[Sequence[Type]], bool],
    *,
    results: bool = True,
    some: bool = True,
) -> Callable[[Operation], None]:
    """Return a check that the types of all operands and results of an op agree.

    Args:
        what: Text that names the property in messages.
        agree: Returns whether types agree.
        results: Are the types of results checked, too?
        some: Must the op have operands and results?
    """
    places = "operands and results" if results else "operands"

    def check(operation: Operation) -> None:
        if some:
            _some(operation, results=results)
        types = operation.operand_types + (operation.result_types if results else [])
        if not agree(types):
            raise refuse(operation, f"requires {what} for all {places}")

    return check


def _same_element_unless_quantized(operation: Operation) -> None:
    first, *rest = elements = [
        element_of(t) for t in operation.operand_types + operation.result_types
    ]
    if any(isinstance(element, QuantizedType) for element in elements):
        return
    if any(element != first for element in rest):
        raise VerifyError(
            "op requires the same element type for all operands and results", rule="add_c1"
        )


def _elementwise(operation: Operation) -> None:
    """Check an element-wise op: operands and results that are not scalars have one shape."""
    operands = [t for t in operation.operand_types if isinstance(t, _MAPPED)]
    results = [t for t in operation.result_types if isinstance(t, _MAPPED)]
    if not operands and not results:
        return
    if not operands:
        raise refuse(
            operation, "if a result is non-scalar, then at least one operand must be non-scalar"
        )
    if not results:
        raise refuse(
            operation,
            "if an operand is non-scalar, then there must be at least one non-scalar result",
        )
    if len(results) != len(operation.results):
        raise refuse(operation, "if an operand is non-scalar, then all results must be non-scalar")
    types: list[Type] = [*operands, *results]
    if len({type(t) for t in types}) > 1 or not _shapes_agree(types):
        raise refuse(
            operation, "all non-scalar operands/results must have the same shape and base type"
        )


_MAPPED: Final = TensorType | UnrankedTensorType


def _pairwise(what: str, agree: Callable[[Type, Type], bool]) -> Callable[[Operation], None]:
    """Return a check that each operand and the result at the same index agree.

    `agree` returns whether two types agree; `what` names the property in messages.
    """

    def check(operation: Operation) -> None:
        operands, results = operation.operand_types, operation.result_types
        if len(operands) != len(results):
            raise refuse(operation, "requires the same number of operands and results")
        for i, (a, b) in enumerate(zip(operands, results, strict=True)):
            if not agree(a, b):
                raise refuse(
                    operation, f"requires the same {what} for operand and result at index {i}"
                )

    return check


def _terminator(operation: Operation) -> None:
    block = operation.parent
    if block is None or block.operations[-1] is not operation:
        raise refuse(operation, "must be the last operation in the parent block")


TRAITS: Final[dict[str, Callable[[Operation], None]]] = {
    "same_shape": _same_over_all("the same shape", _shapes_agree),
    "same_operands_shape": _same_over_all("the same shape", _shapes_agree, results=False),
    "same_element": _same_over_all("the same element type", _elements_agree),
    "same_element_unless_quantized": _same_element_unless_quantized,
    "same_operands_element": _same_over_all(
        "the same element type", _elements_agree, results=False
    ),
    "same_type": _same_over_all("the same type", _same_types),
    "compatible": _same_over_all("compatible types", _as_first(compatible), some=False),
    "compatible_element": _same_over_all(
        "compatible element types", _as_first(_compatible_element), some=False
    ),
    "compatible_operands_element": _same_over_all(
        "compatible element types", _as_first(_compatible_element), results=False, some=False
    ),
    "elementwise": _elementwise,
    "pairwise": _pairwise("type", lambda a, b: a == b),
    "pairwise_element": _pairwise("element type", _same_elements),
    "terminator": _terminator,
}
"""Check of each trait that constrains types or the position of an op, by the trait's name.

Other traits, such as `infer`, `commutative` and `single_block`, have no check.
"""


# --------------------------------------------------------------------------------------------------
# Dominance: the definition of a value must dominate each of its uses.
#
# Source: MLIR's `Verifier.cpp` and `Dominance.cpp`.


class Dominance:
    """The positions of ops and the dominators of blocks in the regions of one isolated op.

    Both are computed once per block and per region, at the first query: most blocks are never
    queried, and a region with many uses is queried once for each.
    """

    def __init__(self) -> None:
        self._order: dict[int, int] = {}
        self._numbered: set[int] = set()
        self._nearest: dict[int, dict[int, int]] = {}

    def number(self, block: Block) -> dict[int, int]:
        """Return the position of each op in its block, by the op's identity (`id`).

        The result has at least the ops of `block`.
        """
        if id(block) not in self._numbered:
            self._numbered.add(id(block))
            self._order.update((id(op), i) for i, op in enumerate(block.operations))
        return self._order

    def nearest(self, region: Region) -> dict[int, int]:
        """Return the immediate dominator of each reachable block of a region.

        Both blocks are given by identity (`id`).
        """
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
            ancestor = block.parent_op
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
    """Return the immediate dominator of each reachable block, both by identity (`id`).

    The dominator of the entry block is itself. Source: Cooper, Harvey, Kennedy, "A Simple, Fast
    Dominance Algorithm".
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
    """Yield an error for each op below `root` that uses a value that does not dominate the op.

    Args:
        root: Operation whose regions are searched.
        isolated: Names of ops whose regions are skipped: they are searched as roots of their own.
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
    """Yield an error for the op's first operand whose definition does not dominate the op.

    Operands in `defined` are known to be valid. `dominance` has the dominators of blocks.
    """
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
    """Return a text that says where `definition` is, as seen from `user`.

    Such a text is `op in the same block`.
    """
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


# --------------------------------------------------------------------------------------------------
# Operands of branches against the arguments of their blocks.
#
# Source: MLIR's `ControlFlowInterfaces`.


def wrong_branch(operation: Operation) -> str:
    """Return how the operands of a branch differ from the arguments of its successors.

    The text describes the first difference; it is empty if there is none.
    """
    if not operation.successors:
        return ""
    groups = _groups(operation)
    # The operands of an unknown op cannot be divided between its successors: not checked, as in
    # MLIR.
    if groups is None or len(groups) != len(operation.successors):
        return ""
    for number, (block, values) in enumerate(zip(operation.successors, groups, strict=True)):
        if len(values) != len(block.arguments):
            return (
                f"branch has {len(values)} operands for successor #{number}, but target block has"
                f" {len(block.arguments)}"
            )
        for at, (value, argument) in enumerate(zip(values, block.arguments, strict=True)):
            if value.type != argument.type:
                return f"type mismatch for bb argument #{at} of successor #{number}"
    return ""


def _groups(operation: Operation) -> list[tuple[Value, ...]] | None:
    """Return the operands passed to each successor of a branch; `None` if that is unknown."""
    operands = operation.operands
    if operation.name == "cf.br":
        return [operands]
    sizes = operation.get("operandSegmentSizes")
    if not isinstance(sizes, DenseArrayAttr) or sum(sizes.values) != len(operands):
        return None
    # The first segment is the condition or the switch value.
    counts = list(sizes.values[1:])
    if operation.name == "cf.switch":
        cases = operation.get("case_operand_segments")
        if not isinstance(cases, DenseArrayAttr) or len(sizes.values) != 3:
            return None
        # A switch has three segments: value, default operands, all cases together.
        counts = [sizes.values[1], *cases.values]
    elif operation.name != "cf.cond_br":
        return None
    found, at = [], sizes.values[0]
    for count in counts:
        found.append(operands[at : at + count])
        at += count
    return found
