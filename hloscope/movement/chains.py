"""Chains of data movement: from a value that is moved for the last time back to what it is made of.

A chain is walked from its sink: through ops that only move elements, and through element-wise ops,
which compute the same at every index and so let movement pass; to its leaves, which neither are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import Final, NamedTuple

from hloscope.affine import Dim
from hloscope.indexing import IndexingMap, delinearize, linearize, prove_equal
from hloscope.ir import Dims, Instruction, TensorType, array_bytes
from hloscope.layouts import divisors, supposed
from hloscope.movement.flow import JOINS, Flow, computes, moves, only_map
from hloscope.movement.patterns import Pattern, Patterns
from hloscope.movement.verdicts import Judgement, Kind, judge
from hloscope.movement.walking import Arrival, Leaf, Role, Surroundings, Walk, composed
from hloscope.simplifier import Proof, Verdict
from hloscope.walks import reached

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
        self._bytes: Final[dict[tuple[bool, ...], tuple[int, int]]] = {}
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

    @property
    def _counted(self) -> tuple[bool, ...]:
        """Of each step: is its value written to memory, for this chain only?"""
        flow, sink, steps = self.flow, self.sink, self.steps
        if len(steps) == 1:
            return (flow.is_written(sink),)
        return tuple(
            [
                flow.is_written(step) and (step is sink or flow.is_only_for(step, steps))
                for step in steps
            ]
        )

    @cached_property
    def written(self) -> tuple[Instruction, ...]:
        """Steps whose value is written to memory for this chain only, and is no free view."""
        steps = zip(self.steps, self._counted, strict=True)
        return tuple([step for step, counts in steps if counts and not _is_view(step)])

    @cached_property
    def _written_and_needed(self) -> tuple[int, int]:
        """Bytes that the steps write, and those of them that have to be written all the same.

        They are the same of chains that are alike and whose same steps are written, but where a
        source cannot be the output.
        """
        shared, counted = self.model._bytes, self._counted
        known = shared.get(counted)
        if known is None:
            written = sum(map(bytes_of, self.written))
            known = shared[counted] = written, self._due if written else 0
        written, needed = known
        if written and not needed and not all(map(self._can_be_the_output, self.sources)):
            needed = bytes_of(self.sink)
        return written, min(needed, written)

    @property
    def _due(self) -> int:
        """Bytes to write for what is computed and what really moves."""
        size = bytes_of(self.sink)
        due = sum(size for j in self.judgements if not j.kind.is_free)
        return due + size if any(computes(step) for step in self.written) else due

    @property
    def bytes_written(self) -> int:
        """Bytes that the steps write, as they stand."""
        return self._written_and_needed[0]

    @property
    def bytes_needed(self) -> int:
        """Bytes that have to be written all the same: what is computed, and what really moves."""
        return self._written_and_needed[1]

    @property
    def bytes_saved(self) -> int:
        """Bytes that need not be written."""
        written, needed = self._written_and_needed
        return written - needed

    def _can_be_the_output(self, source: Instruction) -> bool:
        """Is it in memory, and not an argument where the program returns the sink?"""
        given = not source.operands and self.flow.is_returned(self.sink)
        return self.flow.is_written(source) and not given


@lru_cache(maxsize=1 << 12)
def _is_view(step: Instruction) -> bool:
    """Is it a reshape that leaves the bytes where they are?"""
    if not moves(step) or step.op.name not in ("reshape", "bitcast"):
        return False
    m = only_map(step)
    here, there = step.type, step.operands[0].type
    assert isinstance(here, TensorType)
    assert isinstance(there, TensorType)
    return m is not None and judge(m, there, here).kind.is_free


def bytes_of(ins: Instruction) -> int:
    """Bytes of an array in memory, without padding."""
    found = array_bytes(ins.type)
    assert found is not None
    return found.data


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
    reason = f"{len(maps)} parts that together are no rearrangement"
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


def chains_of(flow: Flow, through: Iterable[Instruction] | None = None) -> Iterator[Chain]:
    """The chain of every value that is moved for the last time, in the order of the text.

    Args:
        flow: The values of a module.
        through: Only chains that may lead through one of these values.
    """
    chains = _Chains(flow)
    if through is None:
        yield from chains.every()
        return
    for ins in flow.in_order(_onward_of(flow, through)):
        if chains.ends_in(ins):
            yield chains.better(ins)


def chain_to(flow: Flow, value: Instruction) -> Chain | None:
    """The chain of a value, if it is moved for the last time."""
    chains = _Chains(flow)
    return chains.better(value) if chains.ends_in(value) else None


def _onward_of(flow: Flow, values: Iterable[Instruction]) -> set[Instruction]:
    """The values, and all that is moved or computed of them."""

    def onward(value: Instruction) -> list[Instruction]:
        return [user for user in flow.users(value) if moves(user) or computes(user)]

    return {*reached(values, onward)}


class _Chains:
    """Finds the chains of a module; those like another one are walked once."""

    def __init__(self, flow: Flow) -> None:
        self._flow: Final = flow
        self._around: Final = Surroundings(flow)
        self._goes_on: Final[dict[Instruction, bool]] = {}
        self._models: Final[dict[tuple[int, ...], Chain]] = {}
        self._patterns: Final = Patterns(flow, self._around, self.ends_in, self._chain_inside)

    def every(self) -> Iterator[Chain]:
        """All chains of the module, in the order of the text."""
        for computation in self._flow.computations():
            known = self._patterns.of(computation)
            if known is None:
                for ins in computation:
                    if self.ends_in(ins):
                        yield self.better(ins)
                continue
            here = computation.instructions
            for place, ends, pattern in known:
                if pattern is not None:
                    yield self._repeated(here, place, pattern)
                elif ends or (ends is None and self.ends_in(here[place])):
                    yield self.better(here[place])

    def _repeated(self, here: Sequence[Instruction], place: int, pattern: Pattern) -> Chain:
        """The chain of a pattern among these instructions."""
        around, model = [here[k] for k in pattern.places], pattern.model
        return Chain(self._flow, here[place], model.walk, around, model, pattern)

    def _chain_inside(
        self, sink: Instruction, is_inside: Callable[[Instruction], bool]
    ) -> tuple[Chain, list[Instruction]] | None:
        """The chain that others are like, and the values around; `None` if not all are inside.

        Of a chain no step of which is written, none through ops on several arrays saves more.
        """
        plain = self._chain(sink, through_sums=False)
        around = self._around.of(sink, through_sums=False)
        values = [*around.values]
        if plain.ends_in_sums:
            values += self._around.of(sink, through_sums=True).values
        model = self._models.get(around.key)
        if model is None or not all(map(is_inside, values)):
            return None
        return model, around.values

    def ends_in(self, value: Instruction) -> bool:
        """Is it a value that is moved for the last time?"""
        return self._around.moves(value) and not self.goes_on(value)

    def goes_on(self, value: Instruction) -> bool:
        """Do all readers of a value move it on, at once or after computing on it alone?

        A value that is read only in a cycle does not.
        """
        known = self._goes_on
        if value in known:
            return known[value]
        opened = {value: self._readers(value)}
        stack = [value]
        while stack:
            top = stack[-1]
            readers = opened[top] or ()
            waiting = [r for r in readers if r not in known and r not in opened]
            if waiting:
                opened.update([(reader, self._readers(reader)) for reader in waiting])
                stack += waiting
                continue
            if top not in known:
                found = opened[top]
                known[top] = found is not None and all([known.get(r, False) for r in found])
            stack.pop()
        return known[value]

    def _readers(self, value: Instruction) -> Sequence[Instruction] | None:
        """The readers that compute on the value alone; `None` if any does something else."""
        readers = self._flow.users_if(value, self._goes_through)
        if not readers:
            return None
        return [reader for reader in readers if self._around.seen(reader).role is Role.ALONE]

    def _goes_through(self, reader: Instruction) -> bool:
        return self._around.seen(reader).role in (Role.ALONE, Role.MOVED)

    def better(self, sink: Instruction) -> Chain:
        """The chain up to ops on several arrays; or through them, if that saves more."""
        plain = self._chain(sink, through_sums=False)
        if not plain.ends_in_sums:
            return plain
        through = self._chain(sink, through_sums=True)
        return through if through.bytes_saved > plain.bytes_saved else plain

    def _chain(self, sink: Instruction, *, through_sums: bool) -> Chain:
        around = self._around.of(sink, through_sums)
        known = self._models.get(around.key)
        if known is not None:
            return Chain(self._flow, sink, known.walk, around.values, known)
        walk = Walk(self._flow, sink, self._around, through_sums)
        found = Chain(self._flow, sink, walk, around.values)
        inside = {at.value for at in walk.read}
        if inside.issubset(around.opened):  # otherwise more was read than the key has
            self._models[around.key] = found
        return found
