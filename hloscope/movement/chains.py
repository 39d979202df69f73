"""Chains of data movement: from a value that is moved for the last time back to what it is made of.

A chain is walked from its sink: through ops that only move elements, and through element-wise ops,
which compute the same at every index and so let movement pass; to its leaves, which neither are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Final, NamedTuple

from hloscope.affine import Dim
from hloscope.indexing import IndexingMap, delinearize, linearize, prove_equal
from hloscope.ir import Dims, Instruction, TensorType
from hloscope.layouts import divisors, supposed
from hloscope.movement.flow import JOINS, Flow, computes, only_map
from hloscope.movement.patterns import Pattern
from hloscope.movement.verdicts import Judgement, Kind, judge
from hloscope.movement.walking import Arrival, Leaf, Walk, composed
from hloscope.simplifier import Proof, Verdict

_TRIED: Final = 17
"""Indices at which a supposition is tried before isl is asked to prove it."""


class _Slots(NamedTuple):
    """Where the values of a chain stand among those around its sink.

    Attributes:
        steps: Places of the steps.
        leaves: For each leaf its place, and those of the ops between it and the sink.
        sources: Places of the leaves that count.
    """

    steps: tuple[int, ...]
    leaves: tuple[tuple[int, tuple[int, ...]], ...]
    sources: tuple[int, ...]


class Chain:
    """Movement that ends in one value.

    Attributes:
        flow: The module's values.
        sink: The last op.
        leaves: The values it begins with.
        steps: The ops, those that are read before those that read them; the sink is the last.
        walk: How they were found.
        is_cut: Were there too many values, so that it ends at one that could be looked through?
        pattern: The same for chains that lie in the same places of equal computations, if one does.
    """

    def __init__(
        self,
        flow: Flow,
        sink: Instruction,
        walk: Walk,
        around: Sequence[Instruction] = (),
        like: Chain | None = None,
        pattern: Pattern | None = None,
    ) -> None:
        """Take a walk, the values around the sink, and a chain like this one, if there is any.

        The walk then is that chain's, and this one has the values in the same places.
        """
        self.flow: Final = flow
        self.sink: Final = sink
        self.walk: Final = walk
        self._around: Final = around
        self._like: Final = like
        self.is_cut: Final = walk.is_cut
        self.pattern: Final = pattern
        self.steps: Final = (
            walk.steps if like is None else tuple([around[k] for k in like._slots.steps])
        )

    @property
    def model(self) -> Chain:
        """The chain that this one is like, or itself: kind, proofs and places are the same."""
        return self if self._like is None else self._like

    @cached_property
    def _slots(self) -> _Slots:
        """The places in which the values of chains like this one stand, too."""
        place = {value: k for k, value in enumerate(self._around)}
        return _Slots(
            tuple([place[step] for step in self.walk.steps]),
            tuple(
                [
                    (place[leaf.value], tuple([place[v] for v in leaf.via]))
                    for leaf in self.walk.leaves
                ]
            ),
            tuple([place[leaf.value] for leaf in self.main]),
        )

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The values it begins with."""
        if self._like is None:
            return self.walk.leaves
        here = self._around
        return tuple(
            [
                Leaf(here[k], leaf.maps, tuple([here[step] for step in via]))
                for leaf, (k, via) in zip(self.walk.leaves, self._like._slots.leaves, strict=True)
            ]
        )

    @property
    def ends_in_sums(self) -> bool:
        """Does it begin with what is computed, so that it might go on there?"""
        return self.model._ends_in_sums

    @cached_property
    def _ends_in_sums(self) -> bool:
        return any([computes(leaf.value) for leaf in self.leaves])

    @property
    def sources(self) -> tuple[Instruction, ...]:
        """The values of `main`."""
        if self._like is None:
            return tuple([leaf.value for leaf in self.main])
        here = self._around
        return tuple([here[k] for k in self._like._slots.sources])

    @cached_property
    def read(self) -> dict[Arrival, tuple[Arrival, ...]]:
        """What the op at an arrival reads for the same index of the sink."""
        if self._like is None:
            return self.walk.read
        here = dict(zip(self._like._around, self._around, strict=True))
        return {
            Arrival(here[at.value], at.map): tuple([Arrival(here[v], m) for v, m in found])
            for at, found in self.walk.read.items()
        }

    @property
    def type(self) -> TensorType:
        """The type of the sink."""
        assert isinstance(self.sink.type, TensorType)
        return self.sink.type

    @cached_property
    def main(self) -> tuple[Leaf, ...]:
        """The leaves that count: not single elements that stand everywhere, if there are others."""
        return tuple([leaf for leaf in self.leaves if not leaf.is_uniform]) or self.leaves

    @property
    def is_linear(self) -> bool:
        """Is it one row of ops, each reading the one before and perhaps single elements?"""
        joined = any(isinstance(step.op, JOINS) for step in self.steps)
        return len(self.main) == 1 and len(self.main[0].maps) == 1 and not joined

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """What the movement from each of `main` to the sink is."""
        return self.model._judgements

    @cached_property
    def _judgements(self) -> tuple[Judgement, ...]:
        return tuple([judge_union(leaf.maps, leaf.type, self.type) for leaf in self.main])

    @property
    def kind(self) -> Kind:
        """The dearest of what the leaves need."""
        return self.model._kind

    @cached_property
    def _kind(self) -> Kind:
        order = list(Kind)
        if self.sink in [leaf.value for leaf in self.leaves]:
            return Kind.UNDECIDED
        if self.type.num_elements == 0:
            return Kind.BITCAST
        return max((j.kind for j in self.judgements), key=order.index, default=Kind.MOVEMENT)

    @property
    def blocking(self) -> Instruction | None:
        """The op from which on the bytes have moved for good; `None` if they have not, or unknown.

        The ops between the leaf and it, taken together, cost nothing.
        """
        if self._like is None:
            return self._blocking
        at = self._like._blocked_at
        return None if at is None else self._around[at]

    @cached_property
    def _blocking(self) -> Instruction | None:
        if self.kind.is_free or self.kind is Kind.UNDECIDED or not self.main:
            return None
        row = max(
            (
                leaf
                for leaf, j in zip(self.main, self.judgements, strict=True)
                if j.kind == self.kind
            ),
            key=lambda leaf: len(leaf.via),
        )
        found = None
        for step, here in self.along(row):
            if here is None or not isinstance(step.type, TensorType):
                return found or step
            free = judge(here, row.type, step.type).kind.is_free
            found = None if free else found or step
        return found or self.sink

    @cached_property
    def _blocked_at(self) -> int | None:
        """The place of `blocking`."""
        return None if self.blocking is None else self._around.index(self.blocking)

    def along(self, leaf: Leaf) -> Iterator[tuple[Instruction, IndexingMap | None]]:
        """The ops between a leaf and the sink, with the map from the index of each to the leaf.

        `None` where an op reads of the leaf under several conditions, or numbers are past 64 bits.
        """
        here: IndexingMap | None = IndexingMap.identity(leaf.type.shape)
        value = leaf.value
        for step in leaf.via:
            here = _onward(self.flow, step, value, here)
            value = step
            yield step, here


def _onward(
    flow: Flow, step: Instruction, value: Instruction, here: IndexingMap | None
) -> IndexingMap | None:
    """The map from an index of a step to the leaf; `here` is that of the value that it reads."""
    for k, operand in enumerate(step.operands):
        if flow.source(operand) is value and here is not None:
            m = only_map(step, k)
            return None if m is None else composed(m, here)
    return None


def judge_union(maps: Sequence[IndexingMap], source: TensorType, output: TensorType) -> Judgement:
    """What a movement of several parts is, each with its own map; together they may be one map."""
    if len(maps) == 1 and not maps[0].constraints:
        whole = maps[0].dims == IndexingMap.identity(output.shape).dims
        if whole or output.num_elements == 0:
            return judge(maps[0], source, output)
    for candidate in _candidates(maps, source, output):
        if _fits(maps, candidate, output.shape) and prove_equal(maps, [candidate]).is_proved:
            return judge(candidate.simplify(), source, output)
    if len(maps) == 1:
        return judge(maps[0], source, output)
    reason = f"{len(maps)} parts that together are not a rearrangement"
    return Judgement(Kind.MOVEMENT, Proof(Verdict.REFUTED, reason=reason), reason=reason)


def _candidates(
    maps: Sequence[IndexingMap], source: TensorType, output: TensorType
) -> Iterator[IndexingMap]:
    """Maps of the whole output that the parts may be together."""
    yield from dict.fromkeys(IndexingMap.of_sizes(output.shape, (), m.results) for m in maps)
    size = prod(output.shape)
    if size == 0 or prod(source.shape) == 0:
        return
    for k in range(_TRIED):  # an index that no part covers: no single map is the parts
        index = _index_at((size - 1) * k // (_TRIED - 1), output.shape)
        if not any(m.satisfies(index) for m in maps):
            return

    def position(x: int) -> int:
        index = _index_at(x, output.shape)
        for m in maps:
            if m.satisfies(index):
                return _position_of(m.evaluate(index), source.shape)
        return -1

    form = supposed(position, output.num_elements, divisors(output.shape))
    x = linearize([Dim(k) for k in range(output.rank)], output.shape)
    inside = delinearize(form.expression(x), source.shape)
    yield IndexingMap.of_sizes(output.shape, (), inside)


def _fits(maps: Sequence[IndexingMap], candidate: IndexingMap, shape: Dims) -> bool:
    """May the parts be the candidate together?  Tried at the corners and some places between."""
    size = prod(shape)
    for k in range(_TRIED):
        index = _index_at((size - 1) * k // (_TRIED - 1) if size else 0, shape)
        found = {m.evaluate(index) for m in maps if m.satisfies(index)} if size else set()
        if size and found != {candidate.evaluate(index)}:
            return False
    return True


def _index_at(position: int, shape: Dims) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        position, k = divmod(position, size)
        index.append(k)
    return tuple(index[::-1])


def _position_of(index: Sequence[int], shape: Dims) -> int:
    position = 0
    for k, size in zip(index, shape, strict=True):
        position = position * size + k
    return position
