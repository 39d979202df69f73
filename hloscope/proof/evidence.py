"""What execution shows of dependence: elements are changed, and what moves is looked at.

No rule takes part.  A run changes many elements at once: an output element none of whose elements
(as the maps say) were changed must not move.  If one does, the change is halved until one element
is left that moves it: the maps are wrong.  Where an output element moves and just one of its
elements was changed, that dependence has been seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hloscope.errors import HloscopeError
from hloscope.fusion.leaves import leaf_types
from hloscope.indexing import Accesses
from hloscope.interpreter.values import Value
from hloscope.ir.types import TensorType
from hloscope.proof.draw import STYLES, Draw
from hloscope.proof.instance import Instance
from hloscope.proof.points import Touching
from hloscope.proof.running import (
    Base,
    Observed,
    Runner,
    leaves_of,
    moved,
    spread,
    whole_shapes,
    with_leaf,
)
from hloscope.proof.size_rules import shape_of
from hloscope.simplifier.isl_relations import UndecidedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bools: TypeAlias = NDArray[np.bool_]
    Ints: TypeAlias = NDArray[np.int64]

Place: TypeAlias = tuple[int, int, int]
"""An output, a source and a leaf of the source."""
Claims: TypeAlias = Mapping[Place, Accesses]
"""The maps between all of them; those left out touch nothing."""

PAIRS: Final = 1 << 21
"""Pairs of an output element and a source element that are looked at together."""
ROUNDS: Final = (*STYLES, "ordinary", "ties", "wide", "special", "ordinary")
"""Styles of the values of one base after another."""
COMPLEMENTS: Final = 3
"""Runs for each base that change all that some output elements do not read."""
PACKINGS: Final = 4
"""Most runs for a base that change elements no output element reads two of."""
CANDIDATES: Final = 512
SECONDS: Final = 2.0
"""After so long no further run begins."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A tensor of a source, and where its elements stand among those of all."""

    source: int
    number: int
    shape: tuple[int, ...]
    first: int

    @property
    def end(self) -> int:
        """The number after its last element."""
        return self.first + prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run with changed elements.

    Attributes:
        base: The run it is compared with.
        values: What the sources were changed to.
        changed: The elements that were, of all sources.
        moved: The chosen output elements that moved.
    """

    base: Base
    values: tuple[Value, ...]
    changed: Bools
    moved: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Violation:
    """An element that moves an output element and is not in its maps.

    Attributes:
        instance: What was run.
        before: Values of the sources.
        after: The same with one element changed.
        place: Output, source, leaf of the source.
        index: Of the element that was changed.
        output: Index of the output element that moved.
        values: The output element before and after.
    """

    instance: Instance
    before: tuple[Value, ...]
    after: tuple[Value, ...]
    place: Place
    index: tuple[int, ...]
    output: tuple[int, ...]
    values: tuple[str, str]

    def __str__(self) -> str:
        changed, output = (f"({', '.join(map(str, i))})" for i in (self.index, self.output))
        at = f", at {self.instance.shapes}" if self.instance.shrunk else ""
        source = self.instance.sources[self.place[1]].type
        of = f" of tensor {self.place[2]}" if len(leaf_types(source)) > 1 else ""
        return (
            f"element {changed}{of} moves output element {output} from {self.values[0]} to"
            f" {self.values[1]}{at}, which is not in the maps"
        )


class Evidence:
    """All runs of one instance.

    Attributes:
        instance: What is run.
        claims: The maps that guide which elements are changed.
        seed: Of all values.
        runs: Those with changed elements.
        copies: Runs with numbered elements: of which element each output element is a copy.
        failures: Why some runs were not possible.
    """

    def __init__(self, instance: Instance, claims: Claims, seed: int = 0) -> None:
        self.instance: Final = instance
        self.claims: Final = claims
        self.seed: Final = seed
        self.runs: Final[list[Run]] = []
        self.copies: Final[list[tuple[Base, Ints]]] = []
        self.failures: Final[list[str]] = []
        self.runner = Runner(self.instance)
        self.leaves = [*_leaves(self.instance)]
        self.size = self.leaves[-1].end if self.leaves else 0
        self.shapes = whole_shapes(self.instance)
        self.chosen = self._chosen()
        self.starts: list[int] = _offsets(self.chosen)
        self._parts: dict[tuple[Place, int], Any] = {}
        self._whole: dict[int, Bools] = {}
        self.undecided = ""
        self.first: Any = None
        self.wrong: list[tuple[Run, int]] = []
        self.found = _nothing(self.starts[-1], self.size)
        self.tries = _zeros(self.size)
        self._moves = any(_is_moving(accesses) for accesses in claims.values())
        self._gather()

    # ------------------------------------------------------------------------------ the runs

    def _chosen(self) -> list[Ints]:
        """Some elements of each output: all where these are few."""
        import numpy as np

        rng = np.random.default_rng(self.seed)
        most = max(4, PAIRS // max(1, self.size) // max(1, len(self.shapes)))
        counts = [prod(shape) for shape in self.shapes]
        return [np.arange(n) if n <= most else np.sort(rng.permutation(n)[:most]) for n in counts]

    def _gather(self) -> None:
        import numpy as np

        if not self.size or not self.starts[-1]:
            return
        begin = perf_counter()
        rng = np.random.default_rng(self.seed)
        for number, style in enumerate(ROUNDS):
            try:
                base = self.runner.base(style, rng)
            except (HloscopeError, OverflowError) as error:
                self.failures.append(str(getattr(error, "message", error)))
                continue
            if style == "numbered":
                self._number(base, rng)
            try:
                relation = self.relation(base)
            except UndecidedError as error:
                self.undecided = self.undecided or str(error)
                relation = np.ones((self.starts[-1], self.size), np.bool_)
            for k in range(COMPLEMENTS):
                if perf_counter() - begin > SECONDS:
                    return
                self._run(base, _complement(relation, number + k, rng), number + k, rng)
            for k in range(PACKINGS):
                left = relation & ~self.found
                if perf_counter() - begin > SECONDS or not left.any():
                    break
                self._run(base, self._packing(relation, left, rng), number + k, rng)
        if not self.runs and not self.failures:
            self.failures.append("all that is read moves everything")

    def _packing(self, relation: Bools, missing: Bools, rng: np.random.Generator) -> Bools:
        """Elements no output element reads two of, those first that were tried least."""
        import numpy as np

        wanted = missing.sum(axis=0) + rng.random(self.size)
        order = np.lexsort((-wanted, self.tries + (wanted < 1)))[:CANDIDATES]
        taken = np.zeros(len(relation), np.bool_)
        found = np.zeros(self.size, np.bool_)
        for column in order:
            image = relation[:, column]
            if not (taken & image).any():
                taken |= image
                found[column] = True
        self.tries += found
        return found

    def _run(self, base: Base, changed: Bools, kind: int, rng: np.random.Generator) -> Run | None:
        """Change these elements."""
        if not changed.any():
            return None
        values, changed = self._changed(base, changed, kind, rng)
        if not changed.any():
            return None
        try:
            outputs = self.runner.outputs(values)
        except HloscopeError as error:
            self.failures.append(error.message)
            return None
        run = Run(base, values, changed, self._moved(base.outputs, outputs))
        self.runs.append(run)
        self._note(run)
        return run

    def _note(self, run: Run) -> None:
        """What the run shows of the maps that guide."""
        import numpy as np

        try:
            relation = self.relation(run.base)
        except UndecidedError:
            return
        touched = relation[:, run.changed]
        if self.first is None:
            self.first = relation
        self.wrong += [(run, int(row)) for row in np.flatnonzero(run.moved & ~touched.any(axis=1))]
        rows, columns = _alone(touched, run)
        self.found[rows, columns] = True

    def _changed(
        self, base: Base, changed: Bools, kind: int, rng: np.random.Generator
    ) -> tuple[tuple[Value, ...], Bools]:
        """Other values of these elements, and which are really other ones."""
        import numpy as np

        values = list(base.values)
        really = np.zeros(self.size, np.bool_)
        draw = Draw(rng, ("wide", "ordinary", "special", "ties")[kind % 4])
        for leaf in self.leaves:
            mine = changed[leaf.first : leaf.end]
            if not mine.any():
                continue
            old = np.asarray([*leaves_of(values[leaf.source])][leaf.number])
            flags = mine.reshape(leaf.shape)[tuple([slice(0, n) for n in old.shape])]
            type_ = leaf_types(self.instance.sources[leaf.source].type)[leaf.number]
            assert isinstance(type_, TensorType)
            new = np.where(flags, draw.elements(type_.element, old.shape), old)
            if type_.element.kind == "pred":
                new = np.where(flags, ~old, old)
            differs = moved(old, new)
            if not differs.any():
                continue
            new = new.astype(old.dtype)
            values[leaf.source] = with_leaf(values[leaf.source], leaf.number, new)
            really[leaf.first : leaf.end] = spread(differs, leaf.shape)
        return tuple(values), really

    def _moved(self, before: Sequence[Any], after: Sequence[Any]) -> Bools:
        import numpy as np

        parts = [
            spread(_within(moved(a, b), shape), shape)[chosen]
            for a, b, shape, chosen in zip(before, after, self.shapes, self.chosen, strict=True)
        ]
        found: Bools = np.concatenate(parts)
        return found

    def _number(self, base: Base, rng: np.random.Generator) -> None:
        """Which element each output element is a copy of, as numbered elements show twice."""
        import numpy as np

        try:
            other = self.runner.base("numbered", rng, base)
        except (HloscopeError, OverflowError):
            return
        found = [self._copied(b) for b in (base, other)]
        self.copies.append((base, np.where(found[0] == found[1], found[0], -1)))

    def _copied(self, base: Base) -> Ints:
        """For each chosen output element the element of equal number, or -1."""
        import numpy as np

        numbers: list[Any] = []
        places: list[Any] = []
        for leaf in self.leaves:
            value = np.asarray([*leaves_of(base.values[leaf.source])][leaf.number])
            if value.dtype.kind == "f" and value.dtype.itemsize >= 4 and value.shape == leaf.shape:
                numbers.append(value.reshape(-1).astype(np.float64))
                places.append(np.arange(leaf.first, leaf.end))
        found = np.full(self.starts[-1], -1, np.int64)
        if not numbers:
            return found
        keys, place = np.concatenate(numbers), np.concatenate(places)
        order = np.argsort(keys, kind="stable")
        keys, place = keys[order], place[order]
        for k, (array, chosen, shape) in enumerate(
            zip(base.outputs, self.chosen, self.shapes, strict=True)
        ):
            if array.dtype.kind != "f" or array.shape != shape or not len(keys):
                continue
            mine = array.reshape(-1)[chosen].astype(np.float64)
            at = np.clip(np.searchsorted(keys, mine), 0, len(keys) - 1)
            twice = keys[np.minimum(at + 1, len(keys) - 1)] == mine
            is_one = (keys[at] == mine) & ~(twice & (at + 1 < len(keys)))
            found[self.starts[k] : self.starts[k + 1]] = np.where(is_one, place[at], -1)
        return found

    # ------------------------------------------------------------------------- the relation

    def relation(self, base: Base) -> Bools:
        """Which chosen output elements touch which elements, as the maps that guide say.

        Raises:
            UndecidedError: It cannot be told.
        """
        key = id(base) if self._moves else 0
        if key not in self._whole:
            found = _nothing(self.starts[-1], self.size)
            for output in range(len(self.shapes)):
                rows = slice(self.starts[output], self.starts[output + 1])
                for leaf in self.leaves:
                    place = output, leaf.source, leaf.number
                    found[rows, leaf.first : leaf.end] = self._known_part(base, place, leaf)
            self._whole[key] = found
        return self._whole[key]

    def _known_part(self, base: Base, place: Place, leaf: Leaf) -> Bools | bool:
        accesses = self.claims.get(place, ())
        if not accesses:
            return False
        key = place, id(base) if _is_moving(accesses) else 0
        if key not in self._parts:
            self._parts[key] = self._part(base, place, accesses, leaf, False)
        part: Bools | bool = self._parts[key]
        return part

    def _part(
        self, base: Base, place: Place, accesses: Accesses, leaf: Leaf, inverse: bool
    ) -> Bools | bool:
        import numpy as np

        if any(a.map is None for a in accesses):
            return True
        if any(a.replica is not None or a.via for a in accesses):
            raise UndecidedError("positions in replica groups")
        shape, chosen = self.shapes[place[0]], self.chosen[place[0]]
        follower = Touching(Observed(base))
        count = prod(leaf.shape)
        found = _nothing(len(chosen), count)
        position = np.full(prod(shape), -1)
        position[chosen] = np.arange(len(chosen))
        starts = points_of(np.arange(count), leaf.shape) if inverse else points_of(chosen, shape)
        for access in accesses:
            assert access.map is not None
            if access.map.is_known_empty:
                continue
            ends = shape if inverse else leaf.shape
            if (starts.shape[1], len(ends)) != (len(access.map.dims), len(access.map.results)):
                raise UndecidedError("the program is inconsistent: ranks differ")
            source, results = follower.results(access.map, starts, {})
            if inverse:
                column, output = _flat(source, results, shape)
                row = position[output]
                found[row[row >= 0], column[row >= 0]] = True
            else:
                row, column = _flat(source, results, leaf.shape)
                found[row, column] = True
        return found

    # ------------------------------------------------------------------------- what it shows

    def shows(
        self, place: Place, accesses: Accesses | None = None, inverse: bool = False
    ) -> tuple[int, int, Violation | None]:
        """What the runs show of a place.

        Args:
            place: Output, source and leaf.
            accesses: Other maps than those that guide.
            inverse: Whether these lead from the source to the output.

        Returns:
            How many pairs were seen to depend, how many the maps have (by the run-time values of
            the first run), and an element that moves an output element it should not.

        Raises:
            UndecidedError: What the maps say cannot be told.
        """
        if self.undecided:
            raise UndecidedError(self.undecided)
        leaf = next(x for x in self.leaves if (x.source, x.number) == place[1:])
        rows = slice(self.starts[place[0]], self.starts[place[0] + 1])
        columns = slice(leaf.first, leaf.end)
        relations = self._others(place, accesses, inverse, leaf) if accesses is not None else None
        if relations is None:
            first, found, wrong = self.first[rows, columns], self.found[rows, columns], self.wrong
        else:
            first, found, wrong = self._again(relations, rows, columns)
        seen = found & first
        for run, row in [w for w in wrong if rows.start <= w[1] < rows.stop][:8]:
            violation = self._narrowed(run, row, place, accesses, inverse)
            if violation is not None:
                return int(seen.sum()), int(first.sum()), violation
        for base, copied in self.copies:
            relation = self.relation(base) if relations is None else relations[id(base)]
            at = [row for row in range(rows.start, rows.stop) if copied[row] >= 0]
            for row in at:
                if not columns.start <= copied[row] < columns.stop:
                    continue
                if relation[row, copied[row]]:
                    seen[row - rows.start, copied[row] - columns.start] = True
                    continue
                violation = self._confirmed(base, row, int(copied[row]), place, accesses, inverse)
                if violation is not None:
                    return int(seen.sum()), int(first.sum()), violation
        seen &= first
        return int(seen.sum()), int(first.sum()), None

    def _others(
        self, place: Place, accesses: Accesses, inverse: bool, leaf: Leaf
    ) -> dict[int, Bools] | None:
        """The relations by base with other maps for one place; `None`: they say the same."""
        if not inverse and accesses == self.claims.get(place, ()):
            return None
        rows = slice(self.starts[place[0]], self.starts[place[0] + 1])
        found: dict[int, Bools] = {}
        same = True
        moves = _is_moving(accesses)
        part: Bools | bool | None = None
        for base in self._bases():
            if part is None or moves:
                part = self._part(base, place, accesses, leaf, inverse)
            relation = self.relation(base)
            if (relation[rows, leaf.first : leaf.end] != part).any():
                same = False
                relation = relation.copy()
                relation[rows, leaf.first : leaf.end] = part
            found[id(base)] = relation
        return None if same else found

    def _bases(self) -> list[Base]:
        found = dict.fromkeys(run.base for run in self.runs)
        return [*found | dict.fromkeys(base for base, _ in self.copies)]

    def _again(
        self, relations: Mapping[int, Bools], rows: slice, columns: slice
    ) -> tuple[Bools, Bools, list[tuple[Run, int]]]:
        """What was seen and what is wrong, with other relations."""
        import numpy as np

        first = relations[id(self.runs[0].base)][rows, columns].copy()
        found = _nothing(self.starts[-1], self.size)
        wrong = []
        for run in self.runs:
            touched = relations[id(run.base)][:, run.changed]
            wrong += [(run, int(r)) for r in np.flatnonzero(run.moved & ~touched.any(axis=1))]
            found[_alone(touched, run)] = True
        return first, found[rows, columns], wrong

    def _confirmed(
        self,
        base: Base,
        row: int,
        column: int,
        place: Place,
        accesses: Accesses | None,
        inverse: bool,
    ) -> Violation | None:
        """A copied element is changed: does the copy move?"""
        import numpy as np

        changed = np.zeros(self.size, np.bool_)
        changed[column] = True
        run = self._run(base, changed, 0, np.random.default_rng(self.seed))
        if run is None or not run.moved[row]:
            return None
        return self._narrowed(run, row, place, accesses, inverse)

    def _narrowed(
        self, run: Run, row: int, place: Place, accesses: Accesses | None, inverse: bool
    ) -> Violation | None:
        """The run with one changed element that moves output element `row`, if it is of `place`."""
        import numpy as np

        columns = np.flatnonzero(run.changed)
        low, high = 0, len(columns)  # the first `low` changed do not move it, `high` do
        while high - low > 1:
            middle = (low + high) // 2
            found = self.runner.outputs(self._partly(run, columns[:middle]))
            if self._moved(run.base.outputs, found)[row]:
                high = middle
            else:
                low = middle
        before, after = self._partly(run, columns[:low]), self._partly(run, columns[:high])
        column = int(columns[low])
        leaf = next(x for x in self.leaves if x.first <= column < x.end)
        if (leaf.source, leaf.number) != place[1:]:
            return None
        base = self.runner.given(before, run.base)
        ends = self.runner.outputs(after)
        outputs = base.outputs
        if not self._moved(outputs, ends)[row]:
            return None
        part = self._part(
            base,
            place,
            self.claims.get(place, ()) if accesses is None else accesses,
            leaf,
            inverse and accesses is not None,
        )
        start = self.starts[place[0]]
        if isinstance(part, bool):
            return None
        if part[row - start, column - leaf.first]:
            return None
        at = int(self.chosen[place[0]][row - start])
        index = _unflat(at, self.shapes[place[0]])
        shown = tuple([_shown(arrays[place[0]], index) for arrays in (outputs, ends)])
        return Violation(
            self.instance,
            before,
            after,
            place,
            _unflat(column - leaf.first, leaf.shape),
            index,
            (shown[0], shown[1]),
        )

    def _partly(self, run: Run, columns: Ints) -> tuple[Value, ...]:
        """The values of the base with some of the changed elements."""
        import numpy as np

        flags = np.zeros(self.size, np.bool_)
        flags[columns] = True
        values = list(run.base.values)
        for leaf in self.leaves:
            mine = flags[leaf.first : leaf.end]
            if not mine.any():
                continue
            old, new = (
                np.asarray([*leaves_of(v[leaf.source])][leaf.number])
                for v in (run.base.values, run.values)
            )
            here = mine.reshape(leaf.shape)[tuple([slice(0, n) for n in old.shape])]
            mixed = np.where(here, new, old).astype(old.dtype)
            values[leaf.source] = with_leaf(values[leaf.source], leaf.number, mixed)
        return tuple(values)


def _offsets(parts: Sequence[Ints]) -> list[int]:
    found = [0]
    for part in parts:
        found.append(found[-1] + len(part))
    return found


def _leaves(instance: Instance) -> Iterator[Leaf]:
    first = 0
    for k, source in enumerate(instance.sources):
        for number, type_ in enumerate(leaf_types(source.type)):
            if isinstance(type_, TensorType):
                leaf = Leaf(k, number, shape_of(type_), first)
                first = leaf.end
                yield leaf


def _within(flags: Bools, shape: tuple[int, ...]) -> Bools:
    """The flags of elements inside the shape."""
    return flags[tuple([slice(0, n) for n in shape])]


def points_of(flat: Ints, shape: tuple[int, ...]) -> Ints:
    """Indices of elements by their number."""
    import numpy as np

    if not shape:
        return np.zeros((len(flat), 0), np.int64)
    return np.stack(np.unravel_index(flat, shape), axis=1).astype(np.int64)


def _flat(source: Ints, results: Ints, shape: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Numbers of trials, and of the elements they touch, those outside the shape left out."""
    import numpy as np

    if not shape:
        return source, np.zeros(len(source), np.int64)
    inside = ((results >= 0) & (results < np.asarray(shape))).all(axis=1)
    return source[inside], np.ravel_multi_index(tuple(results[inside].T), shape)


def _zeros(count: int) -> Ints:
    import numpy as np

    return np.zeros(count, np.int64)


def _nothing(rows: int, columns: int) -> Bools:
    import numpy as np

    return np.zeros((rows, columns), np.bool_)


def _is_moving(accesses: Accesses) -> bool:
    """Do the maps depend on values of the run?"""
    return any(a.map is not None and a.map.runtime for a in accesses)


def _alone(touched: Bools, run: Run) -> tuple[Ints, Ints]:
    """Output elements that moved and touch just one changed element, and which that is."""
    import numpy as np

    rows = np.flatnonzero(run.moved & (touched.sum(axis=1) == 1))
    return rows, np.flatnonzero(run.changed)[touched[rows].argmax(axis=1)]


def _unflat(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    import numpy as np

    return tuple([int(i) for i in np.unravel_index(at, shape)]) if shape else ()


def _shown(array: Any, index: tuple[int, ...]) -> str:
    return str(array[index]) if all(i < n for i, n in zip(index, array.shape, strict=True)) else "–"


def _complement(relation: Bools, kind: int, rng: np.random.Generator) -> Bools:
    """All elements that some output elements do not read: of one, a few, half of all."""
    import numpy as np

    rows = len(relation)
    count = (1, max(1, rows // 2), 2, max(1, rows // 8), 1)[kind % 5]
    some = rng.permutation(rows)[:count]
    found: Bools = np.logical_not(np.any(relation[some], axis=0))
    if not found.any() and count > 1:
        found = np.logical_not(relation[some[0]])
    return found
