"""Chains of data movement: from a value that is moved for the last time back to what it is made of.

A chain is walked from its sink: through ops that only move elements, and through element-wise ops,
which compute the same at every index and so let movement pass; to its leaves, which neither are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import Final, NamedTuple

from hloscope.affine import Dim
from hloscope.indexing import IndexingMap, delinearize, linearize, prove_equal
from hloscope.ir import Dims, Instruction, TensorType
from hloscope.layouts import divisors, supposed
from hloscope.lazy import dataclass
from hloscope.movement.flow import JOINS, Flow, computes, moves, only_map, step_maps
from hloscope.movement.verdicts import Judgement, Kind, judge
from hloscope.simplifier import Proof, Verdict
from hloscope.walks import needed_first, reached

MOST_VALUES: Final = 128
"""Values of one chain; where there are more, it ends there."""
_TRIED: Final = 17
"""Indices at which a supposition is tried before isl is asked to prove it."""
MOST_COMPUTED: Final = 8
"""Element-wise ops of several arrays in one chain."""


class Arrival(NamedTuple):
    """A value, and which of its elements stands at an index of the sink."""

    value: Instruction
    map: IndexingMap


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a chain is made of: a value, and where its elements go.

    Attributes:
        value: The value.
        maps: From an index of the sink to that of the element; several where parts are joined.
        via: The ops between the value and the sink on one way, the first one reads the value.
    """

    value: Instruction
    maps: tuple[IndexingMap, ...]
    via: tuple[Instruction, ...]

    @property
    def type(self) -> TensorType:
        """The type of the value."""
        assert isinstance(self.value.type, TensorType)
        return self.value.type

    @property
    def is_uniform(self) -> bool:
        """Is it one element that stands everywhere?"""
        return self.type.rank == 0


class Chain:
    """Movement that ends in one value.

    Attributes:
        flow: The module's values.
        sink: The last op.
        leaves: The values it begins with.
        steps: The ops, those that are read before those that read them; the sink is the last.
        read: What the op at an arrival reads for the same index of the sink.
        is_cut: Were there too many values, so that it ends at one that could be looked through?
    """

    def __init__(self, flow: Flow, sink: Instruction, *, through_sums: bool = False) -> None:
        self.flow: Final = flow
        self.sink: Final = sink
        walk = _Walk(flow, sink, through_sums)
        self.leaves: Final = walk.leaves
        self.steps: Final = walk.steps
        self.read: Final = walk.read
        self.is_cut: Final = walk.is_cut

    @property
    def type(self) -> TensorType:
        """The type of the sink."""
        assert isinstance(self.sink.type, TensorType)
        return self.sink.type

    @property
    def main(self) -> tuple[Leaf, ...]:
        """The leaves that count: not single elements that stand everywhere, if there are others."""
        return tuple([leaf for leaf in self.leaves if not leaf.is_uniform]) or self.leaves

    @property
    def is_linear(self) -> bool:
        """Is it one row of ops, each reading the one before and perhaps single elements?"""
        joined = any(isinstance(step.op, JOINS) for step in self.steps)
        return len(self.main) == 1 and len(self.main[0].maps) == 1 and not joined

    @cached_property
    def judgements(self) -> tuple[Judgement, ...]:
        """What the movement from each of `main` to the sink is."""
        return tuple([judge_union(leaf.maps, leaf.type, self.type) for leaf in self.main])

    @cached_property
    def kind(self) -> Kind:
        """The dearest of what the leaves need."""
        order = list(Kind)
        if self.sink in [leaf.value for leaf in self.leaves]:
            return Kind.UNDECIDED
        if self.type.num_elements == 0:
            return Kind.BITCAST
        return max((j.kind for j in self.judgements), key=order.index, default=Kind.MOVEMENT)

    @cached_property
    def blocking(self) -> Instruction | None:
        """The op from which on the bytes have moved for good; `None` if they have not, or unknown.

        Before it, what stood between the leaf and it was free all in all.
        """
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

    def along(self, leaf: Leaf) -> Iterator[tuple[Instruction, IndexingMap | None]]:
        """The ops between a leaf and the sink, with the map from the index of each to the leaf.

        `None` where an op reads of the leaf under several conditions.
        """
        here: IndexingMap | None = IndexingMap.identity(leaf.type.shape)
        value = leaf.value
        for step in leaf.via:
            here = _onward(self.flow, step, value, here)
            value = step
            yield step, here

    @cached_property
    def written(self) -> tuple[Instruction, ...]:
        """Steps whose value is written to memory for this chain only, and is no free view."""
        inside = {*self.steps}
        return tuple(
            [
                step
                for step in self.steps
                if self.flow.is_written(step)
                and (step is self.sink or _only_for(self.flow, step, inside))
                and not _is_view(step)
            ]
        )

    @cached_property
    def bytes_written(self) -> int:
        """Bytes that the steps write, as they stand."""
        return sum(map(bytes_of, self.written))

    @cached_property
    def bytes_needed(self) -> int:
        """Bytes that have to be written all the same: what is computed, and what really moves."""
        size = bytes_of(self.sink)
        needed = sum(size for j in self.judgements if not j.kind.is_free)
        if any(computes(step) for step in self.written):
            needed += size
        if not needed and not all(map(self._can_be_the_output, self.main)):
            needed = size
        return min(needed, self.bytes_written)

    def _can_be_the_output(self, leaf: Leaf) -> bool:
        """Is it in memory, and not an argument where the program returns the sink?"""
        given = not leaf.value.operands and self.flow.is_returned(self.sink)
        return self.flow.is_written(leaf.value) and not given

    @property
    def bytes_saved(self) -> int:
        """Bytes that need not be written."""
        return self.bytes_written - self.bytes_needed


def _only_for(flow: Flow, step: Instruction, inside: set[Instruction]) -> bool:
    return not flow.is_returned(step) and all(user in inside for user in flow.users(step))


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
    assert isinstance(ins.type, TensorType)
    bits = max(8, ins.type.element.bits)
    return ins.type.num_elements * bits // 8


@lru_cache(maxsize=1 << 14)
def composed(first: IndexingMap, second: IndexingMap) -> IndexingMap:
    """Apply `first`, then `second`; simplified."""
    return first.compose(second).simplify()


def _onward(
    flow: Flow, step: Instruction, value: Instruction, here: IndexingMap | None
) -> IndexingMap | None:
    """From an index of the step to the leaf, given that from an index of the value it reads."""
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
    for k in range(_TRIED):  # where nothing arrives there is no one map
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


class _Walk:
    """From the sink to the leaves."""

    def __init__(self, flow: Flow, sink: Instruction, through_sums: bool) -> None:
        self.flow = flow
        self.through_sums = through_sums
        self.is_cut = False
        self.read: dict[Arrival, tuple[Arrival, ...]] = {}
        """What the op at an arrival reads for the same index of the sink."""
        self._joined: set[Arrival] = set()
        self._next: dict[Instruction, Instruction] = {}
        self._reached: dict[Instruction, list[IndexingMap]] = {}
        self._computed = 0
        assert isinstance(sink.type, TensorType)
        first = Arrival(sink, IndexingMap.identity(sink.type.shape))
        seen = {first: None}
        todo = [first]
        for at in todo:
            for operand, m in self._operands(at, sink):
                following = Arrival(operand, composed(at.map, m))
                if following.map.is_known_empty:
                    continue
                if at in self._joined or isinstance(at.value.op, JOINS):
                    self._joined.add(following)
                if following not in seen:
                    seen[following] = None
                    self._next.setdefault(operand, at.value)
                    todo.append(following)
        inner = {at.value for at in seen} - set(self._reached)
        self.steps = tuple(_in_order(flow, sink, inner))
        self.leaves = tuple(
            [Leaf(v, tuple(maps), tuple(self._way(v, sink))) for v, maps in self._reached.items()]
        )

    def _operands(self, at: Arrival, sink: Instruction) -> list[tuple[Instruction, IndexingMap]]:
        """The values that are read at an arrival, none if it is a leaf."""
        value = at.value
        found = self._opened(at) if value is sink or self._is_inside(at) else None
        if found is None:
            self._reached.setdefault(value, []).append(at.map)
            return []
        return found

    def _is_inside(self, at: Arrival) -> bool:
        if len(self._next) > MOST_VALUES:
            self.is_cut = True
            return False
        if moves(at.value):
            return True
        if not computes(at.value) or at in self._joined:
            return False
        arrays = {
            v for v in map(self.flow.source, at.value.operands) if not is_single(self.flow, v)
        }
        if len(arrays) <= 1:
            return True
        self._computed += 1
        return self.through_sums and self._computed <= MOST_COMPUTED

    def _opened(self, at: Arrival) -> list[tuple[Instruction, IndexingMap]] | None:
        found = []
        for operand, maps in zip(at.value.operands, step_maps(at.value), strict=True):
            if maps is None:
                return None
            value = self.flow.source(operand)
            found += [(value, m) for m in maps if not m.is_known_empty]
        self.read[at] = tuple([Arrival(v, composed(at.map, m)) for v, m in found])
        return found

    def _way(self, value: Instruction, sink: Instruction) -> Iterator[Instruction]:
        """The ops from a leaf to the sink."""
        while value is not sink:
            value = self._next[value]
            yield value


def is_single(flow: Flow, value: Instruction) -> bool:
    """Is it one element, or a broadcast of one?"""
    for _ in range(MOST_VALUES):
        if isinstance(value.type, TensorType) and value.type.rank == 0:
            return True
        if value.op.name != "broadcast_in_dim":
            return False
        value = flow.source(value.operands[0])
    return False


def _in_order(flow: Flow, sink: Instruction, inside: set[Instruction]) -> Iterator[Instruction]:
    """The ops inside, those that are read first."""

    def read(op: Instruction) -> list[Instruction]:
        return [v for v in map(flow.source, op.operands) if v in inside]

    return needed_first([sink], read)


def chains_of(flow: Flow, through: Iterable[Instruction] | None = None) -> Iterator[Chain]:
    """The chain of every value that is moved for the last time, in the order of the text.

    Args:
        flow: The values of a module.
        through: Only chains that may lead through one of these values.
    """
    going = _Going(flow)
    near = None if through is None else flow.in_order(_onward_of(flow, through))
    for ins in flow.instructions() if near is None else near:
        if moves(ins) and flow.source(ins) is ins and not going.on(ins):
            yield _better(flow, ins)


def chain_to(flow: Flow, value: Instruction) -> Chain | None:
    """The chain of a value, if it is moved for the last time."""
    if not moves(value) or flow.source(value) is not value or _Going(flow).on(value):
        return None
    return _better(flow, value)


def _onward_of(flow: Flow, values: Iterable[Instruction]) -> set[Instruction]:
    """The values, and all that is moved or computed of them."""

    def onward(value: Instruction) -> list[Instruction]:
        return [user for user in flow.users(value) if moves(user) or computes(user)]

    return {*reached(values, onward)}


class _Going:
    """Whether all readers of a value move it on, at once or after computing on it alone."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._known: dict[Instruction, bool] = {}

    def on(self, value: Instruction) -> bool:
        """Do they?  What is computed in a circle does not."""
        stack = [value]
        while stack:
            top = stack[-1]
            if top in self._known:
                stack.pop()
                continue
            readers = self._readers(top)
            waiting = [r for r in readers or () if r not in self._known and r not in stack]
            if waiting:
                stack += waiting
                continue
            self._known[top] = readers is not None and all(
                self._known.get(reader, False) for reader in readers
            )
            stack.pop()
        return self._known[value]

    def _readers(self, value: Instruction) -> list[Instruction] | None:
        """The readers that compute on the value alone; `None` if any does something else."""
        flow, found = self._flow, []
        readers = flow.users(value)
        if not readers or flow.is_returned(value):
            return None
        for reader in readers:
            if moves(reader):
                continue
            arrays = {v for v in map(flow.source, reader.operands) if not is_single(flow, v)}
            if not computes(reader) or len(arrays) > 1:
                return None
            found.append(reader)
        return found


def _better(flow: Flow, sink: Instruction) -> Chain:
    """The chain up to ops on several arrays; or through them, if that saves more."""
    plain = Chain(flow, sink)
    if not any(computes(leaf.value) for leaf in plain.leaves):
        return plain
    through = Chain(flow, sink, through_sums=True)
    return through if through.bytes_saved > plain.bytes_saved else plain
