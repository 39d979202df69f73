"""Chains of data movement: from their last value, the sink, back to the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Final, NamedTuple

from hloscope.affine import Dim
from hloscope.indexing import IndexingMap, delinearize, linearize, prove_equal, unravel
from hloscope.indexing.layouts import divisors, supposed
from hloscope.ir import Computation, Dims, Instruction, TensorType
from hloscope.movement.flow import JOINS, RENAMING, Flow, computes, only_map
from hloscope.movement.verdicts import Judgement, Kind, judge
from hloscope.movement.walking import (
    Arrival,
    Leaf,
    Neighbourhoods,
    Role,
    Walk,
    broadcasts_of_scalar,
    composed,
)
from hloscope.ops import Parameter
from hloscope.simplifier import Proof, Verdict

# --------------------------------------------------------------------------------------------------
# Chains of data movement: from a value that is moved for the last time back to its sources.
#
# A chain is followed from its sink through ops that only move elements, and through element-wise
# ops, with which movement commutes because they compute the same at every index.  It ends at its
# sources, which are neither.


_TRIED: Final = 17
"""Number of indices at which a candidate map is tested before isl proves it."""


class _Slots(NamedTuple):
    """Where a chain's values are in the list of values around its sink, its last op.

    Attributes:
        steps: Positions in the list of the chain's ops.
        leaves: For each source its position in the list, and those of the ops between it and the
            sink.
        sources: Positions of the main sources; see `Chain.main`.
    """

    steps: tuple[int, ...]
    leaves: tuple[tuple[int, tuple[int, ...]], ...]
    sources: tuple[int, ...]


class Chain:
    """Data movement that ends in one value, the sink.

    Attributes:
        flow: The def-use graph of the module.
        sink: The last op.
        leaves: The sources of the chain, each with maps from an index of the sink.
        steps: The ops, producers first; the last one is the sink.
        walk: The traversal that found them.
        is_cut: Did the traversal end early because the chain has too many values?
        pattern: Chains that have the same pattern are at the same positions of equal computations;
            `None` for chains that are not compared this way.
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
        """Create a chain from a traversal, or from an equal chain.

        Args:
            flow: The module's values.
            sink: The last op.
            walk: The traversal from the sink.
            around: The values around the sink, by position.
            like: An equal chain; this chain then has the values at the same positions of `around`.
            pattern: See `Chain.pattern`.
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
        """Return the chain that was analysed for all equal chains; the chain itself if it was.

        All equal chains have the same kind and proofs.
        """
        return self if self._like is None else self._like

    # The cached properties of a model are read for each equal chain: programs repeat layers, so
    # one model may serve many chains.
    @cached_property
    def _slots(self) -> _Slots:
        """Return the positions of the chain's values among the values around the sink.

        Chains that equal this one have their values at the same positions.
        """
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
        """Return the sources of the chain, each with maps from an index of the sink."""
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
    def ends_in_nary(self) -> bool:
        """Does an element-wise op compute a source, so that the chain could continue there?"""
        return any([computes(leaf.value) for leaf in self.model.leaves])

    @property
    def sources(self) -> tuple[Instruction, ...]:
        """Return the values of the main sources; see `main`."""
        if self._like is None:
            return tuple([leaf.value for leaf in self.main])
        here = self._around
        return tuple([here[k] for k in self._like._slots.sources])

    @property
    def read(self) -> dict[Arrival, tuple[Arrival, ...]]:
        """Return, for each value that the traversal reached, the values that its op reads.

        Each value comes with the map from an index of the sink to the index of the element that is
        read.
        """
        if self._like is None:
            return self.walk.read
        here = dict(zip(self._like._around, self._around, strict=True))
        return {
            Arrival(here[at.value], at.map): tuple([Arrival(here[v], m) for v, m in found])
            for at, found in self.walk.read.items()
        }

    @property
    def type(self) -> TensorType:
        """Return the type of the sink."""
        assert isinstance(self.sink.type, TensorType)
        return self.sink.type

    @property
    def main(self) -> tuple[Leaf, ...]:
        """Return the sources that are not broadcast scalars; all sources if there are no others."""
        return tuple([leaf for leaf in self.leaves if not leaf.is_uniform]) or self.leaves

    @property
    def is_linear(self) -> bool:
        """Does each op read only the previous op's value, apart from scalars?"""
        joined = any(isinstance(step.op, JOINS) for step in self.steps)
        return len(self.main) == 1 and len(self.main[0].maps) == 1 and not joined

    @cached_property
    def judgements(self) -> tuple[Judgement, ...]:
        """Return the verdict on the movement from each main source to the sink."""
        if self._like is not None:
            return self._like.judgements
        return tuple([judge_union(leaf.maps, leaf.type, self.type) for leaf in self.main])

    @cached_property
    def kind(self) -> Kind:
        """Return the verdict on the whole chain: the most expensive one of `judgements`.

        The order is that of `Kind`. The verdict is `MOVEMENT` if `judgements` is empty, `UNDECIDED`
        if the sink is itself a source, and `BITCAST` if the sink has no elements.
        """
        if self._like is not None:
            return self._like.kind
        if self.sink in [leaf.value for leaf in self.leaves]:
            return Kind.UNDECIDED
        if self.type.num_elements == 0:
            return Kind.BITCAST
        order = list(Kind)
        return max((j.kind for j in self.judgements), key=order.index, default=Kind.MOVEMENT)

    @cached_property
    def blocking(self) -> Instruction | None:
        """Return the op of a chain from which on the movement from the source is no longer free.

        `None` if the whole chain is free, or if that is not decided.
        """
        if self._like is not None:
            found = self._like.blocking
            return None if found is None else self._around[self._like._around.index(found)]
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
        # A later op may undo the movement of earlier ones, so `found` is reset whenever the prefix
        # is free.
        found = None
        for step, here in self.along(row):
            if here is None or not isinstance(step.type, TensorType):
                return found or step
            free = judge(here, row.type, step.type).kind.is_free
            found = None if free else found or step
        return found or self.sink

    def along(self, leaf: Leaf) -> Iterator[tuple[Instruction, IndexingMap | None]]:
        """Yield each op on the path from a source to the sink, with its map to the source.

        Producers come first. The map leads from an index of the op's result to an index of the
        source. It is `None` if the op has no single exact map to the source, or if its numbers
        exceed 64 bits.
        """
        here: IndexingMap | None = IndexingMap.identity(leaf.type.shape)
        value = leaf.value
        for step in leaf.via:
            operands = [self.flow.source(operand) for operand in step.operands]
            m = only_map(step, operands.index(value)) if value in operands else None
            here = None if m is None or here is None else composed(m, here)
            value = step
            yield step, here


def judge_union(maps: Sequence[IndexingMap], source: TensorType, output: TensorType) -> Judgement:
    """Return the verdict on a movement of several parts, each with its own map.

    Args:
        maps: Maps from an index of the output to an index of the source.
        source: Type of the source.
        output: Type of the output.
    """
    if len(maps) == 1 and not maps[0].constraints:
        whole = maps[0].dims == IndexingMap.identity(output.shape).dims
        if whole or output.num_elements == 0:
            return judge(maps[0], source, output)
    # The parts together may equal one map of the whole output. Candidates are tested at some
    # indices, then proved.
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
    """Yield maps of the whole output that may equal the union of `maps`; none is proved yet."""
    yield from dict.fromkeys(IndexingMap.of_sizes(output.shape, (), m.results) for m in maps)
    if 0 in (*output.shape, *source.shape):
        return
    # An index that no part covers: no single map is the parts.
    if not all(any(m.satisfies(index) for m in maps) for index in _tested(output.shape)):
        return

    def position(x: int) -> int:
        """Return the row-major position in the source for one in the output.

        -1 if no part covers it.
        """
        index = _index_at(x, output.shape)
        found = next((m.evaluate(index) for m in maps if m.satisfies(index)), None)
        if found is None:
            return -1
        at = 0
        for k, size in zip(found, source.shape, strict=True):
            at = at * size + k
        return at

    form = supposed(position, output.num_elements, divisors(output.shape))
    x = linearize([Dim(k) for k in range(output.rank)], output.shape)
    inside = delinearize(form.expression(x), source.shape)
    yield IndexingMap.of_sizes(output.shape, (), inside)


def _fits(maps: Sequence[IndexingMap], candidate: IndexingMap, shape: Dims) -> bool:
    """Does a map equal the union of `maps` at all tested indices?

    Args:
        maps: Maps of parts of the output, each with its own domain.
        candidate: Map of the whole output.
        shape: Sizes of the output.
    """
    return all(
        {m.evaluate(index) for m in maps if m.satisfies(index)} == {candidate.evaluate(index)}
        for index in _tested(shape)
    )


def _tested(shape: Dims) -> Iterator[tuple[int, ...]]:
    """Yield the indices at which candidates are tested: `_TRIED`, spread over the array."""
    size = prod(shape)
    for k in range(_TRIED if size else 0):
        yield _index_at((size - 1) * k // (_TRIED - 1), shape)


def _index_at(position: int, shape: Dims) -> tuple[int, ...]:
    """Return the index of a row-major position."""
    return tuple([int(k) for k in unravel(position, shape)])


# --------------------------------------------------------------------------------------------------
# Chains of fused computations, shared between fusions of equal structure.
#
# A program has thousands of fusions and few different ones.  The values that are moved for the last
# time, and the chains that are wholly inside, are computed for the first fusion of each structure.
# The result holds for the others because it depends only on:
#
# - the instructions of the computation, which are equal in op, types and operands (`StructureIds`);
# - the users of its values: a value that is not returned, and that no user renames, has its users
#   in the computation;
# - which parameters are one value, and which are broadcast scalars: that depends on the caller, so
#   it is part of the key (`Patterns._parameter_facts`);
# - whether steps are written to memory: of a fusion only its results are, and they are not steps
#   here.


class Pattern:
    """A chain that recurs at the same positions of several computations of equal structure.

    Patterns are compared by identity.

    Attributes:
        places: Positions in the computation of the values around the chain's last op.
        model: The one of these chains that was analysed.
    """

    __slots__ = ("model", "places")

    def __init__(self, places: tuple[int, ...], model: Chain) -> None:
        self.places: Final = places
        self.model: Final = model


class Moved(NamedTuple):
    """A value in a fused computation whose op moves elements.

    Attributes:
        place: Position of the value in the computation.
        ends: Does a chain end in the value? `None` if that depends on users outside of the
            computation.
        pattern: The chain, if all its values are inside the computation; else `None`.
    """

    place: int
    ends: bool | None
    pattern: Pattern | None


class Patterns:
    """Finds the moved values of fused computations; computations of equal structure share results.

    Args:
        flow: The values of a module.
        around: Neighbourhoods of the values.
        ends_in: Does a chain end in a value?
        chain_inside: Returns the chain of a value, and the values around it, if all of these values
            satisfy a condition; else `None`.
    """

    def __init__(
        self,
        flow: Flow,
        around: Neighbourhoods,
        ends_in: Callable[[Instruction], bool],
        chain_inside: Callable[
            [Instruction, Callable[[Instruction], bool]], tuple[Chain, list[Instruction]] | None
        ],
    ) -> None:
        self._flow: Final = flow
        self._around: Final = around
        self._ends_in: Final = ends_in
        self._chain_inside: Final = chain_inside
        # One entry for each structure of fused computations, which many fusions share.
        self._known: Final[dict[object, Sequence[Moved] | None]] = {}
        self._moves: Final[dict[int, bool]] = {}
        """For each structure number: does a computation of this structure move elements?"""

    def of(self, computation: Computation) -> Sequence[Moved] | None:
        """Return the moved values of a computation, in order.

        `None` if the computation is not the body of a fusion that can be analysed by structure.
        """
        if self._flow.has_regions or not len(computation):
            return None
        structure = self._flow.structure_ids.number(computation)
        moves = self._moves.get(structure)
        if moves is None:
            moves = self._moves[structure] = any(map(self._around.moves, computation.instructions))
        if not moves:
            return ()
        if not self._flow.is_fused(computation):
            return None
        # Equal structure is not enough: whether a parameter is a broadcast scalar changes its
        # chains.
        key = structure, *self._parameter_facts(computation)
        if key not in self._known:
            # No value may be an alias: an operand, or a tuple with an operand.
            is_plain = all(
                isinstance(ins.op, Parameter)
                or not isinstance(ins.op, RENAMING)
                or ins is computation.root
                for ins in computation
            )
            self._known[key] = self._moved_values(computation) if is_plain else None
        return self._known[key]

    def _parameter_facts(self, computation: Computation) -> list[tuple[int, int | None]]:
        """Return, for each parameter, the two facts about its value on which chains inside depend.

        These are the number of the first parameter with the same value, and
        `broadcasts_of_scalar` of the value.
        """
        first: dict[Instruction, int] = {}
        found = []
        for k, parameter in enumerate(computation.parameters):
            value = self._flow.source(parameter)
            found.append((first.setdefault(value, k), broadcasts_of_scalar(self._flow, value)))
        return found

    def _moved_values(self, computation: Computation) -> list[Moved]:
        """Return the values of a fused computation whose ops move elements, with their chains."""
        found = []
        place = {ins: k for k, ins in enumerate(computation.instructions)}
        results = self._flow.results(computation)

        def is_inside(value: Instruction) -> bool:
            """Is the value computed in this computation, and not returned?"""
            made_here = value in place and not isinstance(value.op, Parameter)
            return made_here and value not in results and not value.calls

        for ins, k in place.items():
            if not self._around.moves(ins):
                continue
            # The result depends on users outside of the computation, so each fusion decides it.
            if not self._is_decided(ins, is_inside):
                found.append(Moved(k, None, None))
            elif self._ends_in(ins):
                chain = self._chain_inside(ins, is_inside)
                pattern = chain and Pattern(tuple([place[v] for v in chain[1]]), chain[0])
                found.append(Moved(k, True, pattern))
        return found

    def _is_decided(self, value: Instruction, is_inside: Callable[[Instruction], bool]) -> bool:
        """Do only values inside the computation decide whether a chain ends in the value?

        `is_inside` returns whether a value is computed in the computation and not returned by it.
        """
        met = {value: None}
        todo = [value]
        for at in todo:
            if not is_inside(at):
                return False
            for reader in self._flow.users(at):
                if self._flow.home(reader) is not self._flow.home(at) or reader.calls:
                    return False
                # A user that computes on the value alone may pass it on, so its own users count
                # too.
                if reader not in met and self._around.facts_of(reader).role is Role.ALONE:
                    met[reader] = None
                    todo.append(reader)
        return True
