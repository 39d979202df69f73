"""Comparison of maps with execution: source elements are changed, and outputs compared.

A row is an output element, a column a source element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

from msgspec import Struct

from hloscope.errors import HloscopeError
from hloscope.fusion import Analysis, ParameterReads, leaf_types
from hloscope.indexing import UNKNOWN_COUNTS, Accesses, DeviceCounts
from hloscope.interpreter import Value
from hloscope.ir import Computation, Instruction
from hloscope.proof.allowance import Deadline, TimeOverError
from hloscope.proof.check import Executed, Violation
from hloscope.proof.elements import (
    Claims,
    Elements,
    Packings,
    Place,
    Touched,
    changed_values,
    complement,
    copied_columns,
    is_moving,
    nothing,
    partly_changed,
    unflat,
)
from hloscope.proof.instance import Instance, NotExecutableError, instance_of
from hloscope.proof.running import STYLES, Base, Runner
from hloscope.simplifier import UndecidedError
from hloscope.support.arrays import Bools, Ints, is_among, np

# --------------------------------------------------------------------------------------------------
# Comparison of maps with execution, on a small test program.


T = TypeVar("T")

SECONDS: Final = 2.0
"""Processor time in seconds to build a test program and run it; afterwards no run begins."""


class Execution:
    """Runs of the test program of one instruction, and checks of maps against them.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e { p = f32[4,6] parameter(0) "
    >>> text += "ROOT r = f32[6,4] transpose(p), dimensions={1,0} }"
    >>> root = parse_hlo(text).entry.root
    >>> execution = Execution(root)
    >>> result = execution.check(0, 0, 0)
    >>> result.seen, result.pairs, result.violation
    (24, 24, None)
    """

    def __init__(
        self,
        ins: Instruction,
        computation: Computation | None = None,
        seed: int = 0,
        seconds: float = inf,
        stated: DeviceCounts = UNKNOWN_COUNTS,
    ) -> None:
        self.reason = ""
        self._inverse: dict[Place, Accesses] = {}
        self.evidence: Evidence | None = None
        self._deadline: Final = Deadline(min(seconds, SECONDS))
        try:
            self.instance = instance_of(ins, computation, self._deadline, stated)
            devices = self.instance.devices
            counts = DeviceCounts(devices.replicas, devices.partitions)
            self._analysis: Final = Analysis(counts=counts)
            claims = _analysed(self._claims)
            self.evidence = Evidence(self.instance, claims, seed, self._deadline)
        except (NotExecutableError, UndecidedError) as error:
            self.reason = str(error)
        except HloscopeError as error:
            self.reason = error.message

    def _claims(self) -> dict[Place, Accesses]:
        """Return the maps of the test program, by output, source and leaf."""
        instance = self.instance
        found: dict[Place, Accesses] = {}
        inside = instance.computation
        reads = None if inside is None else ParameterReads(self._analysis, inside)
        for k in range(len(leaf_types(instance.ins.type))):
            self._deadline.check()
            if reads is not None:
                for (end, leaf), accesses in reads.of(instance.ins, k).items():
                    if end in instance.sources:
                        found[k, instance.sources.index(end), leaf] = accesses
                continue
            for (operand, leaf), some in self._analysis.output_to_input(instance.ins, k).items():
                found[k, _position(instance, operand), leaf] = some
        return found

    def inverse(self, place: Place) -> Accesses:
        """Return the test program's maps that lead from a source's tensor to an output.

        `place` has the numbers of the output, the source and its tensor.
        """
        if place not in self._inverse:
            _, source, leaf = place
            ins = self.instance.ins
            outputs = range(len(leaf_types(ins.type)))
            self._inverse |= {(k, source, leaf): () for k in outputs}
            operand = source if source < len(ins.operands) else self.instance.sources[source]
            for k, some in self._analysis.input_to_output(ins, operand, leaf).items():
                self._inverse[k, source, leaf] = some
        return self._inverse[place]

    def check(
        self,
        output: int,
        operand: int,
        leaf: int,
        accesses: Accesses | None = None,
        *,
        inverse: bool = False,
    ) -> Executed:
        """Compare the maps of an operand with the runs.

        Args:
            output: Number of the output.
            operand: Number of the operand; if the maps lead to a computation's parameters, that of
                the parameter.
            leaf: Number of the tensor in the operand.
            accesses: Maps of the program itself, by logical indices.  They are checked if the test
                program has the program's sizes.  Otherwise its own maps are.
            inverse: Whether the maps lead from the operand to the output.
        """
        evidence, place = self.evidence, (output, operand, leaf)
        if evidence is None or not evidence.runs:
            return Executed(reason=self._reason())
        if not evidence.elements.has(*place[1:]):
            return Executed(reason="it has no elements")
        # Maps of the program do not apply to a smaller test program, which has its own.
        if self.instance.is_smaller or accesses is None:
            accesses = None
            if inverse:
                try:
                    accesses = _analysed(partial(self.inverse, place))
                except UndecidedError as error:
                    return Executed(reason=str(error))
        claimed = evidence.claims.get(place, ()) if accesses is None else accesses
        if any(a.map is None for a in claimed):
            return Executed(reason="nothing is claimed of the instance")
        try:
            seen, pairs, violation = evidence.shows(place, accesses, inverse)
        except UndecidedError as error:
            return Executed(reason=str(error))
        return Executed(
            evidence.runner.count, seen, pairs, self.instance.shapes, violation=violation
        )

    def suspects(self, output: int) -> frozenset[tuple[int, int]]:
        """Return the (source, leaf) tensors that an output's maps have, or that may change it."""
        evidence = self.evidence
        if evidence is None or not evidence.runs or evidence.undecided:
            return frozenset()
        places = {place for place, accesses in evidence.claims.items() if accesses}
        leaves = {(output, leaf.source, leaf.number) for leaf in evidence.elements.leaves}
        places |= {place for place in leaves if evidence.is_suspect(place)}
        return frozenset([place[1:] for place in places if place[0] == output])

    def without_suspects(self) -> Executed:
        """Return the result for tensors that are not in `suspects`: no dependence was observed."""
        evidence = self.evidence
        if evidence is None or not evidence.runs or evidence.undecided:
            return Executed(reason=self._reason())
        return Executed(evidence.runner.count, shapes=self.instance.shapes)

    def _reason(self) -> str:
        """Return the reason why nothing was run, as a text."""
        if self.evidence is None:
            return self.reason
        failures = [self.evidence.undecided or "there are no elements"]
        return [*self.evidence.failures, *failures][0]


def _analysed(question: Callable[[], T]) -> T:
    """Return `question()`, an analysis of a program that may be inconsistent.

    Raises:
        UndecidedError: The program is inconsistent.
    """
    try:
        return question()
    except (ValueError, LookupError, TypeError, AssertionError):
        raise UndecidedError("the program is inconsistent") from None


def _position(instance: Instance, operand: int | Instruction) -> int:
    """Return the number of a source: of an operand, given by its number, or of a captured value."""
    if isinstance(operand, int):
        return operand
    return instance.sources.index(operand, len(instance.ins.operands))


# --------------------------------------------------------------------------------------------------
# Dependences observed by execution: elements of sources are changed, and outputs compared.
#
# No indexing rule takes part.  A run changes many elements at once.  An output element must not
# change if none of its elements, by the maps, was changed.  If it does, bisection finds one element
# that changes it: the maps are wrong.  If an output element changes and exactly one of its elements
# was changed, that dependence is observed.


ROUNDS: Final = (*STYLES, "ordinary", "ties", "wide", "special", "ordinary")
"""Styles of the values of the base runs, in order."""
COMPLEMENTS: Final = 3
"""Runs for each base run that change all elements that some output elements do not read."""
PACKINGS: Final = 4
"""Largest number of runs for a base run in which each output reads at most one changed element."""
SECONDS_AFTER: Final = 0.5
"""Time limit in seconds to find the one changed element that changed an output wrongly."""
MOST_PAIRS: Final = 1 << 25
"""Limit of pairs of an output element and a source element in a table; each pair takes a byte."""
MOST_NARROWED: Final = 8
"""Limit of wrongly changed output elements that are bisected for one query."""


class Run(Struct, frozen=True, eq=False):
    """A run of the test program in which some source elements are changed.

    Attributes:
        base: The base run, without the changes.
        values: Values of the sources.
        changed: Flags of the changed source elements. Shape `[columns]`.
        moved: Flags of the output elements that differ from the base run. Shape `[rows]`.
    """

    base: Base
    values: tuple[Value, ...]
    changed: Bools
    moved: Bools

    def alone(self, touched: Bools) -> tuple[Ints, Ints]:
        """Return the rows that differ and depend on exactly one changed column, and that column.

        A row is an output element, a column a source element. `touched` says whether each row
        depends on each changed column; shape `[rows, changed]`.
        """
        rows = np.flatnonzero(self.moved & (touched.sum(axis=1) == 1))
        return rows, np.flatnonzero(self.changed)[touched[rows].argmax(axis=1)]

    def unexplained(self, touched: Bools) -> list[tuple[Run, int]]:
        """Return the output elements that differ but depend on no changed element, with this run.

        Such an element shows that the maps are wrong. `touched` says whether each output element
        (row) depends on each changed one; shape `[rows, changed]`.
        """
        return [(self, int(r)) for r in np.flatnonzero(self.moved & ~touched.any(axis=1))]


class _Query(Struct, frozen=True, eq=False):
    """A query about the maps from one output to one tensor of a source.

    Attributes:
        place: Numbers of the output, the source and its tensor.
        accesses: The maps to check; `None` stands for those of the test program.
        inverse: Whether the maps lead from the source to the output.
    """

    place: Place
    accesses: Accesses | None
    inverse: bool


class Evidence:
    """All runs of one test program, and what they show about maps.

    Attributes:
        instance: The test program.
        claims: The maps of the test program; they decide which elements are changed.
        seed: Seed of all random values.
        elements: Numbering of the elements of sources and outputs.
        runs: Runs with changed elements.
        copies: Base runs on distinct numbers, each with the column that each row is a copy of, or
            -1.
        failures: Texts that say why some runs were not possible.
        undecided: Text that says why the maps cannot be evaluated; empty if they can.
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
        # The relation is a matrix of one byte per pair: refuse before it is allocated.
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
        """Run the test program, one base run after the other, until the time limit."""
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
                relation = self._claimed_relation(base)
            except TimeOverError as error:
                self.failures.append(error.message)
                return
            if style == "numbered":
                self._number(base, rng)
            # Complements search for wrong maps: rows that do not read a changed column must stay.
            for k in range(COMPLEMENTS):
                if deadline.is_over():
                    return
                self._run(base, complement(relation, number + k, rng), number + k, rng)
            # Packings search for evidence: with one changed column per row, each changed row shows
            # one pair.
            for k in range(PACKINGS):
                left = relation & ~self._found
                if deadline.is_over() or not left.any():
                    break
                self._run(base, packings.next(relation, left, rng), number + k, rng)
        if not self.runs and not self.failures:
            self.failures.append("all that is read moves everything")

    def _claimed_relation(self, base: Base) -> Bools:
        """Return whether each output element depends on each source element, by the maps.

        The result has shape `[rows, columns]`. All entries are true if the maps cannot be
        evaluated. `base` is the run whose values the maps may read.
        """
        try:
            return self._touched.relation(base)
        except UndecidedError as error:
            self.undecided = self.undecided or str(error)
            return np.ones((self.elements.rows, self.elements.size), np.bool_)

    def _run(self, base: Base, changed: Bools, kind: int, rng: np.random.Generator) -> Run | None:
        """Run the test program with changed columns, and record the run.

        `None` if nothing changed or the run failed.

        Args:
            base: The run with which the results are compared.
            changed: Flags of the columns to change. Shape `[columns]`.
            kind: Number that selects the style of the new random values.
            rng: Source of randomness.
        """
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
        """Record the dependences that a run shows, and the outputs it changes against the maps."""
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
        """Record, for each row, of which column it is a copy: a source element of equal value.

        The sources have distinct values in the run `base`. A second run on other distinct values
        must show the same column; else the record is -1.
        """
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
        """Return what the runs show about the dependence of an output on one leaf of a source.

        Args:
            place: Numbers of the output, the source and its leaf.
            accesses: Maps to check in place of the test program's.
            inverse: Whether these maps lead from the source to the output.

        Returns:
            The number of observed pairs; the number of pairs in the maps, by the run-time values
            of the first run; and an element that changes an output element outside of its maps.

        Raises:
            UndecidedError: The maps cannot be evaluated.
        """
        if self.undecided:
            raise UndecidedError(self.undecided)
        # No map, and no unexplained change: there is nothing to compare.
        if not accesses and not self.claims.get(place) and not self.is_suspect(place):
            return 0, 0, None
        query = _Query(place, accesses, inverse)
        rows, columns = self.elements.rows_of(place[0]), self.elements.columns_of(*place[1:])
        block = np.ix_(rows, columns)
        relations = self._queried_relations(query, block) if accesses is not None else None
        if relations is None:
            first, found, wrong = self._first[block], self._found[block], self._wrong
        else:
            first, found, wrong = self._reevaluated(relations, block)
        mine = np.zeros(self.elements.rows, np.bool_)
        mine[rows] = True
        violation: Violation | None = None
        self.runner.deadline = Deadline(SECONDS_AFTER)
        for run, row in [w for w in wrong if mine[w[1]]][:MOST_NARROWED]:
            violation = violation or self._narrowed(run, row, query)
        seen = found & first
        if violation is None:
            violation = self._copies_explained(query, relations, rows, columns, seen)
        return int((seen & first).sum()), int(first.sum()), violation

    def is_suspect(self, place: Place) -> bool:
        """Did a run show that an output depends on a tensor which its maps may lack?

        `place` has the numbers of the output, the source and its tensor; the maps are those of the
        test program.
        """
        output = place[0]
        elements = self.elements
        if any(elements.output_of(row) == output for _, row in self._wrong):
            return True
        if self._unexplained is None:
            # Computed once, for all places: each base's relation is a large matrix.
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
        query: _Query,
        relations: Mapping[int, Bools] | None,
        rows: Ints,
        columns: Ints,
        seen: Bools,
    ) -> Violation | None:
        """Compare the rows that are copies of columns with the maps; return a copy that these lack.

        Args:
            query: The maps to check.
            relations: The relation of each base run by `id`; `None` stands for those of the test
                program's maps.
            rows: Rows of the queried output.
            columns: Columns of the queried leaf, ascending.
            seen: Flags of observed pairs, one for each of `rows` and `columns`; copies that the
                maps have are set to true.
        """
        for base, copied in self.copies:
            relation = self._touched.relation(base) if relations is None else relations[id(base)]
            for at in np.flatnonzero(is_among(copied[rows], columns)):
                row, column = rows[at], int(copied[rows[at]])
                if relation[row, column]:
                    seen[at, np.searchsorted(columns, column)] = True
                    continue
                violation = self._confirmed(base, int(row), column, query)
                if violation is not None:
                    return violation
        return None

    def _queried_relations(self, query: _Query, block: Any) -> dict[int, Bools] | None:
        """Return which output elements depend on which source elements, by the queried maps.

        Only one block of each table is by the queried maps; the rest is by the test program's maps.

        Args:
            query: The maps.
            block: Rows of the queried output and columns of the queried tensor, as a numpy index.

        Returns:
            A table of flags `[rows, columns]` for each base run, by its `id`; `None` if the queried
            maps change no table.
        """
        accesses = query.accesses or ()
        if not query.inverse and accesses == self.claims.get(query.place, ()):
            return None
        found: dict[int, Bools] = {}
        same = True
        moves = is_moving(accesses)
        part: Bools | bool | None = None
        for base in self._bases():
            if part is None or moves:
                part = self._touched.part(base, query.place, accesses, query.inverse)
            # Only the block of the queried place is replaced; the other places keep the guiding
            # maps, so that a change they explain is not blamed on this place.
            relation = self._touched.relation(base)
            if (relation[block] != part).any():
                same = False
                relation = relation.copy()
                relation[block] = part
            found[id(base)] = relation
        return None if same else found

    def _bases(self) -> list[Base]:
        """Return the base runs, each once, in order."""
        found = dict.fromkeys(run.base for run in self.runs)
        return [*found | dict.fromkeys(base for base, _ in self.copies)]

    def _reevaluated(
        self, relations: Mapping[int, Bools], block: Any
    ) -> tuple[Bools, Bools, list[tuple[Run, int]]]:
        """Evaluate all runs with other tables of dependences than those of the test program's maps.

        Args:
            relations: Whether each row depends on each column, for each base run by `id`.
            block: Rows of the queried output and columns of the queried tensor, as a numpy index.

        Returns:
            The first base run's table in `block`; the observed pairs in `block`; and the wrong
            changes: runs, each with a row that no changed column explains.
        """
        first = relations[id(self.runs[0].base)][block]
        found = nothing(self.elements.rows, self.elements.size)
        wrong = []
        for run in self.runs:
            touched = relations[id(run.base)][:, run.changed]
            wrong += run.unexplained(touched)
            found[run.alone(touched)] = True
        return first, found[block], wrong

    def _confirmed(self, base: Base, row: int, column: int, query: _Query) -> Violation | None:
        """Change the source element `column` that an output element `row` copies.

        Return a violation if the row changes with it against the queried maps; else `None`.
        """
        changed = np.zeros(self.elements.size, np.bool_)
        changed[column] = True
        run = self._run(base, changed, 0, np.random.default_rng(self.seed))
        if run is None or not run.moved[row]:
            return None
        return self._narrowed(run, row, query)

    def _narrowed(self, run: Run, row: int, query: _Query) -> Violation | None:
        """Return the violation by one changed element of a run, which bisection finds.

        Args:
            run: The run.
            row: An output element that the run changed.
            query: The maps to check. If they have the pair of both elements, the result is `None`.

        Raises:
            UndecidedError: The time limit is exceeded.
        """
        elements = self.elements
        columns = np.flatnonzero(run.changed)
        low, high = (
            0,
            len(columns),
        )  # invariant: `low` changed elements leave the row, `high` change it
        try:
            while high - low > 1:
                middle = (low + high) // 2
                found = self.runner.outputs(self._partly_changed(run, columns[:middle]))
                if elements.moved(run.base.outputs, found)[row]:
                    high = middle
                else:
                    low = middle
            before, after = (
                self._partly_changed(run, columns[:low]),
                self._partly_changed(run, columns[:high]),
            )
            # The base for the last step has the first `low` elements changed, so exactly one
            # differs.
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
            base, row, column, query
        ):
            return None
        leaf = elements.leaf_at(column)
        number, index = elements.element(row)
        shown = tuple([_shown(arrays[number], index) for arrays in (base.outputs, ends)])
        return Violation(
            self.instance,
            before,
            after,
            query.place,
            unflat(column - leaf.first, leaf.shape),
            index,
            (shown[0], shown[1]),
            (leaf.device, number // elements.outputs),
        )

    def _is_claimed(self, base: Base, row: int, column: int, query: _Query) -> bool:
        """Do the queried maps have the pair of output element `row` and source element `column`?

        Pairs outside of the queried output and leaf count as contained. `base` is the run whose
        values the maps read.
        """
        place, given = query.place, query.accesses
        rows, columns = self.elements.rows_of(place[0]), self.elements.columns_of(*place[1:])
        if column not in columns:
            return True
        accesses = self.claims.get(place, ()) if given is None else given
        part = self._touched.part(base, place, accesses, query.inverse and given is not None)
        if isinstance(part, bool):
            return True
        return bool(part[np.searchsorted(rows, row), np.searchsorted(columns, column)])

    def _partly_changed(self, run: Run, columns: Ints) -> tuple[Value, ...]:
        """Return the sources' values of the base run, with new values of `run` in some elements.

        `columns` are the numbers of these source elements.
        """
        return partly_changed(self.elements, run.base, run.values, columns)


def _shown(array: Any, index: tuple[int, ...]) -> str:
    """Return the text of an array element; a dash if a dynamic size excludes it."""
    return str(array[index]) if all(i < n for i, n in zip(index, array.shape, strict=True)) else "–"
