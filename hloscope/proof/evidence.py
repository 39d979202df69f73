"""What execution shows of dependence: elements are changed, and what moves is looked at.

No rule takes part.  A run changes many elements at once: an output element none of whose elements
(as the maps say) were changed must not move.  If one does, the change is halved until one element
is left that moves it: the maps are wrong.  Where an output element moves and just one of its
elements was changed, that dependence has been seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from hloscope.arrays import Bools, Ints, is_among, np
from hloscope.errors import HloscopeError
from hloscope.indexing import Accesses
from hloscope.interpreter import Value
from hloscope.proof.allowance import Deadline, TimeOverError
from hloscope.proof.changing import (
    Packings,
    changed_values,
    complement,
    copied_columns,
    partly_changed,
)
from hloscope.proof.draw import STYLES
from hloscope.proof.elements import Elements, Place, nothing, unflat
from hloscope.proof.instance import Instance
from hloscope.proof.involved import NotExecutableError
from hloscope.proof.running import Base, Runner
from hloscope.proof.touched import Claims, Touched, is_moving
from hloscope.proof.violation import Violation
from hloscope.simplifier import UndecidedError

ROUNDS: Final = (*STYLES, "ordinary", "ties", "wide", "special", "ordinary")
"""Styles of the values of one base after another."""
COMPLEMENTS: Final = 3
"""Runs for each base that change all that some output elements do not read."""
PACKINGS: Final = 4
"""Most runs for a base that change elements no output element reads two of."""
SECONDS_AFTER: Final = 0.5
"""Time for finding the one element that moved an output element wrongly."""
MOST_PAIRS: Final = 1 << 25
"""Pairs of an output element and an operand element, of each of which a byte is kept."""
MOST_NARROWED: Final = 8
"""Of output elements that moved wrongly, so many are looked at for one question."""


class Run(Struct, frozen=True, eq=False):
    """A run with changed elements.

    Attributes:
        base: The run it is compared with.
        values: What the sources were changed to.
        changed: The columns that were, of all sources.
        moved: The rows that moved.
    """

    base: Base
    values: tuple[Value, ...]
    changed: Bools
    moved: Bools

    def alone(self, touched: Bools) -> tuple[Ints, Ints]:
        """Rows that moved and touch just one changed column, and which that is."""
        rows = np.flatnonzero(self.moved & (touched.sum(axis=1) == 1))
        return rows, np.flatnonzero(self.changed)[touched[rows].argmax(axis=1)]

    def unexplained(self, touched: Bools) -> list[tuple[Run, int]]:
        """The rows that moved and touch no changed column."""
        return [(self, int(r)) for r in np.flatnonzero(self.moved & ~touched.any(axis=1))]


class _Asked(Struct, frozen=True, eq=False):
    """The maps in question: other ones than those that guide, if there are any."""

    place: Place
    accesses: Accesses | None
    inverse: bool


class Evidence:
    """All runs of one instance.

    Attributes:
        instance: What is run.
        claims: The maps that guide which elements are changed.
        seed: Of all values.
        elements: The elements of sources and outputs.
        runs: Those with changed elements.
        copies: Runs with numbered elements: of which element each output element is a copy.
        failures: Why some runs were not possible.
        undecided: Why it cannot be told what the maps say; else empty.
    """

    def __init__(
        self, instance: Instance, claims: Claims, seed: int = 0, deadline: Deadline | None = None
    ) -> None:
        self.instance: Final = instance
        self.claims: Final = claims
        self.seed: Final = seed
        self.runs: Final[list[Run]] = []
        self.copies: Final[list[tuple[Base, Ints]]] = []
        self.failures: Final[list[str]] = []
        self.runner = Runner(instance, deadline or Deadline())
        self.elements: Final = Elements(instance, seed)
        pairs = self.elements.rows * self.elements.size
        if pairs > MOST_PAIRS:
            raise NotExecutableError(f"{pairs:,} pairs of elements are more than can be kept")
        self._touched = Touched(instance, self.elements, claims, self.runner.deadline)
        self.undecided = ""
        self._first: Any = None
        self._wrong: list[tuple[Run, int]] = []
        self._unexplained: set[Place] | None = None
        self._found = nothing(self.elements.rows, self.elements.size)
        self._gather(self.runner.deadline)

    # ------------------------------------------------------------------------------ the runs

    def _gather(self, deadline: Deadline) -> None:
        if not self.elements.size or not self.elements.rows:
            return
        rng = np.random.default_rng(self.seed)
        packings = Packings(self.elements.size)
        for number, style in enumerate(ROUNDS):
            if deadline.is_over():
                return
            try:
                base = self.runner.base(style, rng)
            except (HloscopeError, OverflowError) as error:
                self.failures.append(str(getattr(error, "message", error)))
                continue
            try:
                relation = self._guide(base)
            except TimeOverError as error:
                self.failures.append(error.message)
                return
            if style == "numbered":
                self._number(base, rng)
            for k in range(COMPLEMENTS):
                if deadline.is_over():
                    return
                self._run(base, complement(relation, number + k, rng), number + k, rng)
            for k in range(PACKINGS):
                left = relation & ~self._found
                if deadline.is_over() or not left.any():
                    break
                self._run(base, packings.next(relation, left, rng), number + k, rng)
        if not self.runs and not self.failures:
            self.failures.append("all that is read moves everything")

    def _guide(self, base: Base) -> Bools:
        """What the maps say; everything where that cannot be told."""
        try:
            return self._touched.relation(base)
        except UndecidedError as error:
            self.undecided = self.undecided or str(error)
            return np.ones((self.elements.rows, self.elements.size), np.bool_)

    def _run(self, base: Base, changed: Bools, kind: int, rng: np.random.Generator) -> Run | None:
        """Change these columns."""
        if not changed.any():
            return None
        values, changed = changed_values(self.elements, base, changed, kind, rng)
        if not changed.any():
            return None
        try:
            outputs = self.runner.outputs(values)
        except HloscopeError as error:
            self.failures.append(error.message)
            return None
        run = Run(base, values, changed, self.elements.moved(base.outputs, outputs))
        self.runs.append(run)
        self._note(run)
        return run

    def _note(self, run: Run) -> None:
        """What the run shows of the maps that guide."""
        try:
            relation = self._touched.relation(run.base)
        except (UndecidedError, TimeOverError):
            return
        touched = relation[:, run.changed]
        if self._first is None:
            self._first = relation
        self._wrong += run.unexplained(touched)
        self._found[run.alone(touched)] = True

    def _number(self, base: Base, rng: np.random.Generator) -> None:
        """Which column each row is a copy of, as numbered elements show twice."""
        try:
            other = self.runner.base("numbered", rng, base)
        except (HloscopeError, OverflowError):
            return
        found = [copied_columns(self.elements, b) for b in (base, other)]
        self.copies.append((base, np.where(found[0] == found[1], found[0], -1)))

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
        if not accesses and not self.claims.get(place) and not self.is_suspect(place):
            return 0, 0, None
        asked = _Asked(place, accesses, inverse)
        rows, columns = self.elements.rows_of(place[0]), self.elements.columns_of(*place[1:])
        block = np.ix_(rows, columns)
        relations = self._others(asked, block) if accesses is not None else None
        if relations is None:
            first, found, wrong = self._first[block], self._found[block], self._wrong
        else:
            first, found, wrong = self._again(relations, block)
        mine = np.zeros(self.elements.rows, np.bool_)
        mine[rows] = True
        violation: Violation | None = None
        self.runner.deadline = Deadline(SECONDS_AFTER)
        for run, row in [w for w in wrong if mine[w[1]]][:MOST_NARROWED]:
            violation = violation or self._narrowed(run, row, asked)
        seen = found & first
        if violation is None:
            violation = self._copies_explained(asked, relations, rows, columns, seen)
        return int((seen & first).sum()), int(first.sum()), violation

    def is_suspect(self, place: Place) -> bool:
        """Did anything move, or was anything copied, that the maps that guide do not explain?"""
        output = place[0]
        elements = self.elements
        if any(elements.output_of(row) == output for _, row in self._wrong):
            return True
        if self._unexplained is None:
            self._unexplained = set()
            for base, copied in self.copies:
                relation = self._touched.relation(base)
                rows = np.flatnonzero(copied >= 0)
                for row in rows[~relation[rows, copied[rows]]]:
                    leaf = elements.leaf_at(int(copied[row]))
                    at = elements.output_of(int(row)), leaf.source, leaf.number
                    self._unexplained.add(at)
        return place in self._unexplained

    def _copies_explained(
        self,
        asked: _Asked,
        relations: Mapping[int, Bools] | None,
        rows: Ints,
        columns: Ints,
        seen: Bools,
    ) -> Violation | None:
        """Note the pairs of copies as `seen`; an element of which a copy is not in the maps."""
        for base, copied in self.copies:
            relation = self._touched.relation(base) if relations is None else relations[id(base)]
            for at in np.flatnonzero(is_among(copied[rows], columns)):
                row, column = rows[at], int(copied[rows[at]])
                if relation[row, column]:
                    seen[at, np.searchsorted(columns, column)] = True
                    continue
                violation = self._confirmed(base, int(row), column, asked)
                if violation is not None:
                    return violation
        return None

    def _others(self, asked: _Asked, block: Any) -> dict[int, Bools] | None:
        """The relations by base with other maps for one place; `None`: they say the same."""
        accesses = asked.accesses or ()
        if not asked.inverse and accesses == self.claims.get(asked.place, ()):
            return None
        found: dict[int, Bools] = {}
        same = True
        moves = is_moving(accesses)
        part: Bools | bool | None = None
        for base in self._bases():
            if part is None or moves:
                part = self._touched.part(base, asked.place, accesses, asked.inverse)
            relation = self._touched.relation(base)
            if (relation[block] != part).any():
                same = False
                relation = relation.copy()
                relation[block] = part
            found[id(base)] = relation
        return None if same else found

    def _bases(self) -> list[Base]:
        found = dict.fromkeys(run.base for run in self.runs)
        return [*found | dict.fromkeys(base for base, _ in self.copies)]

    def _again(
        self, relations: Mapping[int, Bools], block: Any
    ) -> tuple[Bools, Bools, list[tuple[Run, int]]]:
        """What was seen and what is wrong, with other relations."""
        first = relations[id(self.runs[0].base)][block]
        found = nothing(self.elements.rows, self.elements.size)
        wrong = []
        for run in self.runs:
            touched = relations[id(run.base)][:, run.changed]
            wrong += run.unexplained(touched)
            found[run.alone(touched)] = True
        return first, found[block], wrong

    def _confirmed(self, base: Base, row: int, column: int, asked: _Asked) -> Violation | None:
        """A copied element is changed: does the copy move?"""
        changed = np.zeros(self.elements.size, np.bool_)
        changed[column] = True
        run = self._run(base, changed, 0, np.random.default_rng(self.seed))
        if run is None or not run.moved[row]:
            return None
        return self._narrowed(run, row, asked)

    def _narrowed(self, run: Run, row: int, asked: _Asked) -> Violation | None:
        """The run with one changed element that moves a row, if it is of the place in question."""
        elements = self.elements
        columns = np.flatnonzero(run.changed)
        low, high = 0, len(columns)  # the first `low` changed do not move it, `high` do
        try:
            while high - low > 1:
                middle = (low + high) // 2
                found = self.runner.outputs(self._partly(run, columns[:middle]))
                if elements.moved(run.base.outputs, found)[row]:
                    high = middle
                else:
                    low = middle
            before, after = self._partly(run, columns[:low]), self._partly(run, columns[:high])
            base = self.runner.given(before, run.base)
            ends = self.runner.outputs(after)
        except TimeOverError:
            raise UndecidedError(
                "what moved an output element wrongly was not found in time"
            ) from None
        except HloscopeError as error:
            self.failures.append(error.message)
            return None
        column = int(columns[low])
        if not elements.moved(base.outputs, ends)[row] or self._is_claimed(
            base, row, column, asked
        ):
            return None
        leaf = elements.leaf_at(column)
        number, index = elements.element(row)
        shown = tuple([_shown(arrays[number], index) for arrays in (base.outputs, ends)])
        return Violation(
            self.instance,
            before,
            after,
            asked.place,
            unflat(column - leaf.first, leaf.shape),
            index,
            (shown[0], shown[1]),
            (leaf.device, number // elements.outputs),
        )

    def _is_claimed(self, base: Base, row: int, column: int, asked: _Asked) -> bool:
        """Is the pair in the maps in question, or none of the place?"""
        place, given = asked.place, asked.accesses
        rows, columns = self.elements.rows_of(place[0]), self.elements.columns_of(*place[1:])
        if column not in columns:
            return True
        accesses = self.claims.get(place, ()) if given is None else given
        part = self._touched.part(base, place, accesses, asked.inverse and given is not None)
        if isinstance(part, bool):
            return True
        return bool(part[np.searchsorted(rows, row), np.searchsorted(columns, column)])

    def _partly(self, run: Run, columns: Ints) -> tuple[Value, ...]:
        """The values of the base with some of the changed elements."""
        return partly_changed(self.elements, run.base, run.values, columns)


def _shown(array: Any, index: tuple[int, ...]) -> str:
    return str(array[index]) if all(i < n for i, n in zip(index, array.shape, strict=True)) else "–"
