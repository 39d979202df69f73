"""Checks the maps of an answer against the program, twice: by isl and at single elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from hloscope.affine import POS_INF, Dim
from hloscope.errors import UnsupportedError
from hloscope.fusion.analysis import Convention
from hloscope.fusion.blueprint import Blueprints
from hloscope.fusion.leaves import Part
from hloscope.indexing import Access, Accesses, IndexingMap, Precision
from hloscope.indexing.flat import unravel
from hloscope.indexing.layout import address_map, major_to_minor, placed_sizes
from hloscope.indexing.rules.build import sizes as sizes_of
from hloscope.ir.graph import Computation, Instruction
from hloscope.ir.types import TensorType, Type
from hloscope.ir.views import captured
from hloscope.proof.bodies import StepsThroughBodies
from hloscope.proof.check import Check, Executed, Outcome
from hloscope.proof.execution import Execution
from hloscope.proof.graph import Reached, Steps, Walker
from hloscope.proof.instance import integers_before
from hloscope.proof.isolated import Isolated
from hloscope.proof.points import Rows, Touching, first_difference
from hloscope.proof.reads import Values
from hloscope.proof.relations import Relating, Relations
from hloscope.simplifier.isl import CounterExample
from hloscope.simplifier.isl_relations import UndecidedError, budgeted, context

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Order: TypeAlias = Literal["logical", "physical", "linear"]

BUDGET: Final = 200_000
"""Steps of isl for the walk from an output, and again for each operand; a second or two."""
SECONDS: Final = 3.0
"""Time of isl for the questions about one output."""
SECONDS_MORE: Final = 0.4
"""The same where all elements of the output are looked at as well."""
SECONDS_ALL: Final = 24.0
"""Time of isl for all questions to one verifier."""
ENUMERATED: Final = 256
"""The elements of an output of at most so many are all looked at."""
MORE_ENUMERATED: Final = 1 << 16
"""Those of an output of at most so many are, where isl does not decide."""
SAMPLES: Final = (32, 4, 1)
"""Of a larger one so many; fewer where they touch too much."""
ROWS: Final = 1 << 17
"""Elements that are looked at together."""
MORE_ROWS: Final = 1 << 19
"""The same where isl does not decide."""


class Verifier:
    """Checks answers about one program; remembers what was reached.

    Attributes:
        seed: Of the elements and run-time values that are drawn.
        budget: Steps of isl for each output.
        seconds: Time of isl for each output.
        by_execution: Is the program run too?
        convention: Of the answers: what an output of a reduction reads.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        budget: int = BUDGET,
        seconds: float = SECONDS,
        by_execution: bool = False,
        convention: Convention = "structural",
    ) -> None:
        self.seed: Final = seed
        self.budget: Final = budget
        self.seconds: Final = seconds
        self._clock: Final = Clock(seconds)
        self.by_execution: Final = by_execution
        self.convention: Final = convention
        self._steps = StepsThroughBodies(convention)
        self._blueprints = Blueprints()
        self._numbers: dict[object, int] = {}
        self._numbered: tuple[Instruction, int] | None = None
        self._structures: dict[object, int] = {}
        self._asked: tuple[Instruction | None, int] = (None, 0)
        self._done: dict[object, Check] = {}
        self._last: tuple[object, _Truth] | None = None
        self._execution: tuple[object, Execution] | None = None

    def check(
        self,
        ins: Instruction,
        output: int,
        operand: int,
        leaf: int,
        accesses: Accesses,
        *,
        order: Order = "logical",
        inverse: bool = False,
        computation: Computation | None = None,
    ) -> Check:
        """Are maps of an instruction what the program does?

        Args:
            ins: The instruction.
            output: Which of its outputs.
            operand: Which operand, values that regions read from outside after all others; with
                `computation`, which parameter.
            leaf: Which tensor of the operand.
            accesses: The maps.
            order: What their indices are.
            inverse: They lead from the operand to the output.
            computation: The instruction's, where the maps lead to its parameters.
        """
        asked = [(operand, leaf, accesses)]
        options: Any = {"order": order, "inverse": inverse, "computation": computation}
        return self.check_all(ins, output, asked, **options)[0]

    def check_all(
        self,
        ins: Instruction,
        output: int,
        asked: Sequence[tuple[int, int, Accesses]],
        *,
        order: Order = "logical",
        inverse: bool = False,
        computation: Computation | None = None,
    ) -> list[Check]:
        """`check` for several operands, leaves and their maps: the walk is shared."""
        keys = [
            self._key(ins, output, operand, leaf, accesses, order, inverse, computation)
            for operand, leaf, accesses in asked
        ]
        left: dict[object, _Question] = {}
        for key, (operand, leaf, accesses) in zip(keys, asked, strict=True):
            if any(a.map is None for a in accesses):
                self._done[key] = Check(Outcome.UNCLAIMED)
            if key in self._done or key in left:
                continue
            truth = self._truth(ins, output, computation)
            try:
                left[key] = _Question(truth, operand, leaf, accesses, order, inverse)
            except UndecidedError as error:
                self._done[key] = Check(Outcome.UNDECIDED, reason=str(error))
            except UnsupportedError as error:
                self._done[key] = Check(Outcome.UNDECIDED, reason=error.message)
        compared = _compare([*left.values()], self._clock)
        for (key, question), check in zip(left.items(), compared, strict=True):
            if self.by_execution and not check.is_refuted:
                check = self._run(question, check, order)
            self._done[key] = check
        return [self._done[key] for key in keys]

    def _run(self, question: _Question, check: Check, order: Order) -> Check:
        """The check with what execution shows."""
        truth, inverse = question.truth, question.inverse
        key = (truth.ins, truth.computation)
        if self._execution is None or self._execution[0] != key:
            self._execution = (key, Execution(truth.ins, truth.computation, self.seed))
        mine = question.accesses if order == "logical" else None
        execution = self._execution[1]
        executed = execution.check(truth.output, *question.place, mine, inverse=inverse)
        return _with_executed(check, executed, inverse)

    def _truth(self, ins: Instruction, output: int, computation: Computation | None) -> _Truth:
        key = (ins, output, computation)
        if self._last is None or self._last[0] != key:
            truth = _Truth(self._steps, ins, output, computation, self.seed, self.budget)
            self._last = (key, truth)
        return self._last[1]

    def _key(self, ins: Instruction, *rest: object) -> object:
        """Equal keys stand for the same question.

        Op, types, computations and maps are equal, and so is what integers the operands are
        computed from, which may be known before the program runs.
        """
        if rest[-1] is not None:
            return ins, *rest
        if self._asked[0] is not ins:
            number = self._structures.setdefault(self._structure(ins), len(self._structures))
            self._asked = (ins, number)
        return self._asked[1], *rest

    def _structure(self, ins: Instruction) -> object:
        """Equal for instructions of equal structure, as far as answers can depend on it."""
        number = self._blueprints
        read = (*ins.operands, *captured(ins))
        at: dict[Instruction, int] = {}
        same = [at.setdefault(value, k) for k, value in enumerate(read)]
        before = [self._integers(value) for value in read]
        calls = [number.number(c) for c in ins.calls]
        types = [number.type_number(v.type) for v in (ins, *read)]
        return (number.op_of(ins), tuple(types), tuple(calls), tuple(same), tuple(before))

    def _integers(self, value: Instruction) -> object:
        """How an integer value is computed, as far as it may be known."""
        found = integers_before(value)
        if not found:
            return None
        at = {ins: k for k, ins in enumerate(found)}
        number = self._blueprints
        return tuple(
            [
                (number.op_of(i), number.type_number(i.type), *[at.get(o, o) for o in i.operands])
                for i in found
            ]
        )


def _with_executed(check: Check, executed: Executed, inverse: bool) -> Check:
    """The check with what execution shows; what that refutes is refuted."""
    violation = executed.violation
    if violation is None:
        return replace(check, executed=executed)
    pair = (violation.output, violation.index)
    return replace(
        check,
        outcome=Outcome.REFUTED,
        by=(str(executed),),
        reason="",
        counter_example=CounterExample(*(pair[::-1] if inverse else pair), only_in=1),
        executed=executed,
    )


class _Truth:
    """What is reached from one output: asked for when needed, each way once."""

    def __init__(
        self,
        steps: Steps,
        ins: Instruction,
        output: int,
        computation: Computation | None,
        seed: int,
        budget: int,
    ) -> None:
        self.steps, self.ins, self.computation = steps, ins, computation
        self.output = steps.of_part(ins.type, Part(output))
        self.seed, self.budget = seed, budget
        self.here: Type = steps.leaves(ins.type)[self.output]
        self._relations: _Way | UndecidedError | None = None
        self._points: _Way | UndecidedError | None = None
        self._all: _Way | UndecidedError | None = None

    def _values(self) -> Sequence[Instruction]:
        """The values that are touched, in the order in which they are numbered."""
        if self.computation is not None:
            return self.computation.parameters
        return (*self.ins.operands, *captured(self.ins))

    def there(self, operand: int, tensor: int) -> Type:
        """The type of what is touched."""
        return self.steps.tensor_types(self._values()[operand].type)[tensor]

    def walk(self, follower: Any, start: Any) -> dict[tuple[int, int], Reached[Any]]:
        """What is reached of the tensors of values, as a follower has it."""
        walker: Walker[Any] = Walker(self.steps, follower)
        if self.computation is not None:
            found = walker.parameters(self.ins, self.output, start, self.computation)
        else:
            found = walker.operands(self.ins, self.output, start)
        values = self._values()
        parts = {(k, i): self.steps.part(values[k].type, i) for k, i in found}
        return {
            (k, parts[k, i].tensor): reached
            for (k, i), reached in found.items()
            if parts[k, i].dimension is None
        }

    def relations(self) -> _Way:
        """What is reached, as relations."""
        if self._relations is None:
            try:
                values = Values(self.seed)
                with budgeted(self.budget) as isl:
                    follower = Relating(isl, values)
                    found = self.walk(follower, follower.identity(sizes_of(self.here)))
                self._relations = _Way(follower, found)
            except UndecidedError as error:
                self._relations = error
        if isinstance(self._relations, UndecidedError):
            raise self._relations
        return self._relations

    def points(self) -> _Way:
        """What is reached from some or all elements."""
        if self._points is None:
            self._points = self._some_points()
        if isinstance(self._points, UndecidedError):
            raise self._points
        return self._points

    def all_points(self) -> _Way:
        """What is reached from all elements, more of them than are looked at at first.

        Raises:
            UndecidedError: They are too many.
        """
        if self._all is None:
            shape = sizes_of(self.here)
            total = prod(shape)
            if total > MORE_ENUMERATED:
                self._all = UndecidedError(f"there are {total} elements")
            else:
                self._all = self._from_points(shape, total, MORE_ROWS)
        if isinstance(self._all, UndecidedError):
            raise self._all
        return self._all

    @property
    def are_few(self) -> bool:
        """Has the output so few elements that all of them can be looked at?"""
        try:
            return prod(sizes_of(self.here)) <= MORE_ENUMERATED
        except UnsupportedError:
            return False

    def _some_points(self) -> _Way | UndecidedError:
        shape = sizes_of(self.here)
        total = prod(shape)
        found: _Way | UndecidedError = UndecidedError("the output has no elements")
        for count in (total if total <= ENUMERATED else 0, *SAMPLES):
            if 0 < count <= max(total, SAMPLES[-1]):
                found = self._from_points(shape, count, ROWS)
                if isinstance(found, _Way):
                    break
        return found

    def _from_points(self, shape: tuple[int, ...], count: int, rows: int) -> _Way | UndecidedError:
        values = Values(self.seed)
        follower = Touching(values, rows)
        try:
            chosen = some_points(shape, count, self.seed)
            found = self.walk(follower, follower.start(chosen))
        except UndecidedError as error:
            return error
        except OverflowError:
            return UndecidedError("sizes beyond 64 bits")
        return _Way(follower, found, chosen, len(chosen) == prod(shape), values)


class _Way:
    """One way of following the program, and what it reached."""

    def __init__(
        self,
        follower: Any,
        found: dict[tuple[int, int], Reached[Any]],
        chosen: NDArray[np.int64] | None = None,
        is_all: bool = False,
        values: Values | None = None,
    ) -> None:
        self.follower, self.found = follower, found
        self.chosen, self.is_all, self.values = chosen, is_all, values


def some_points(shape: Sequence[int], count: int, seed: int) -> NDArray[np.int64]:
    """Different indices of a tensor: all, or its corners, its middle and random ones.

    >>> some_points((2, 2), 9, 0).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    import numpy as np

    total = prod(shape)
    if total > POS_INF:
        return _far_points(shape, count, seed)
    if total <= count:
        flat = np.arange(total, dtype=np.int64)
    else:
        fixed = [total - 1, 0, total // 2][:count]
        drawn = np.random.default_rng(seed).integers(0, total, max(0, count - len(fixed)))
        flat = np.unique(np.concatenate([np.asarray(fixed, np.int64), drawn]))
    index = unravel(flat, shape)
    return np.stack(index, axis=1) if shape else np.zeros((total, 0), np.int64)


def _far_points(shape: Sequence[int], count: int, seed: int) -> NDArray[np.int64]:
    """The same where int64 does not number the elements: coordinates are drawn one by one."""
    import numpy as np

    if max(shape) > POS_INF:
        raise UndecidedError("an index does not fit into 64 bits")
    rng = np.random.default_rng(seed)
    ends = np.asarray(shape, np.int64) - 1
    drawn = [rng.integers(0, ends, endpoint=True) for _ in range(count)]
    return np.unique(np.stack([ends, ends * 0, ends // 2, *drawn])[:count], axis=0)


def _compare(questions: Sequence[_Question], clock: Clock) -> list[Check]:
    """First at points: what they refute needs no more proof.  Then by isl, in its own process.

    Where an output has few elements, isl gets little time before all of them are looked at.
    """
    begin = perf_counter()
    points = [_tried(question.at_points) for question in questions]
    by_isl: list[_Looked | UndecidedError] = [UndecidedError("not asked") for _ in questions]
    open_ = [k for k, found in enumerate(points) if not _is_refuting(found)]
    few = bool(questions) and questions[0].truth.are_few
    _ask_isl(questions, [k for k in open_ if _is_whole(points[k])], clock.again, by_isl)
    open_ = [k for k in open_ if not _is_whole(points[k])]
    _ask_isl(questions, open_, clock.shortly if few else clock.first, by_isl)
    open_ = [k for k in open_ if isinstance(by_isl[k], UndecidedError)]
    if few:
        for k in open_:
            more = _tried(partial(questions[k].at_points, everywhere=True))
            if isinstance(more, _Looked):
                points[k] = more
        open_ = [k for k in open_ if not _is_whole(points[k]) and not _is_refuting(points[k])]
        _ask_isl(questions, open_, clock.first, by_isl)
    each = (perf_counter() - begin) / max(1, len(questions))
    return [_judged(*found, each) for found in zip(questions, points, by_isl, strict=True)]


def _ask_isl(
    questions: Sequence[_Question],
    open_: Sequence[int],
    purse: Purse,
    found: list[_Looked | UndecidedError],
) -> None:
    """Put questions to isl, which has so much time for all; none may take more than half of it."""
    left = purse.ready()
    if not open_:
        return
    context()  # isl is loaded once, not in every child
    most = max(left / 2, SECONDS_MORE)
    apart = Isolated([questions[k].as_json for k in open_])
    try:
        for number, k in enumerate(open_):
            start = perf_counter()
            found[k] = _tried(partial(_asked, apart, number, min(left, most)))
            taken = perf_counter() - start
            left -= taken
            purse.left -= taken
    finally:
        apart.stop()


@dataclass(slots=True)
class Purse:
    """Time for isl: so much for one output, and so much for all."""

    seconds: float
    left: float

    def ready(self) -> float:
        """The time for the next output."""
        return max(0.0, min(self.seconds, self.left))


class Clock:
    """The time of one verifier for isl.

    Attributes:
        first: Where nothing else decides.
        shortly: Before all elements of an output are looked at.
        again: Where all have been: it would be a second proof.
    """

    def __init__(self, seconds: float) -> None:
        self.first: Final = Purse(seconds, SECONDS_ALL)
        self.shortly: Final = Purse(min(seconds, SECONDS_MORE), SECONDS_ALL / 2)
        self.again: Final = Purse(min(seconds, SECONDS_MORE), SECONDS_ALL / 8)


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was found out: by which means, for everything, and a pair that is wrong."""

    means: str
    is_whole: bool
    example: CounterExample | None


def _is_refuting(found: _Looked | UndecidedError) -> bool:
    return isinstance(found, _Looked) and found.example is not None


def _is_whole(found: _Looked | UndecidedError) -> bool:
    return isinstance(found, _Looked) and found.is_whole


def _tried(ask: Callable[[], _Looked]) -> _Looked | UndecidedError:
    try:
        return ask()
    except UndecidedError as error:
        return error
    except UnsupportedError as error:
        return UndecidedError(error.message)
    except OverflowError:
        return UndecidedError("sizes beyond 64 bits")


def _asked(apart: Isolated, number: int, seconds: float) -> _Looked:
    found = apart.ask(number, seconds)
    if found is None:
        return _Looked("isl", True, None)
    dims, results, only_in = found
    return _Looked("isl", True, CounterExample(tuple(dims), tuple(results), only_in=only_in))


def _judged(
    question: _Question,
    points: _Looked | UndecidedError,
    by_isl: _Looked | UndecidedError,
    seconds: float,
) -> Check:
    """What both came to."""
    superset = question.is_over

    def check(outcome: Outcome, by: tuple[str, ...] = (), reason: str = "") -> Check:
        return Check(outcome, by, reason, superset=superset, seconds=seconds)

    for found in (points, by_isl):
        if isinstance(found, _Looked) and found.example is not None:
            refuted = check(Outcome.REFUTED, (found.means,))
            return replace(refuted, counter_example=found.example)
    means = (points.means,) if isinstance(points, _Looked) else ()
    if isinstance(by_isl, _Looked):
        return check(Outcome.PROVED, ("isl", *means))
    reason = str(by_isl)
    if isinstance(points, UndecidedError):
        return check(Outcome.UNDECIDED, (), _both(reason, str(points)))
    outcome = Outcome.PROVED if points.is_whole else Outcome.SAMPLED
    return check(outcome, means, reason)


def _both(by_isl: str, at_points: str) -> str:
    return by_isl if by_isl == at_points else f"{by_isl}; at single elements: {at_points}"


class _Question:
    """The maps of one operand and what they are compared with."""

    def __init__(
        self,
        truth: _Truth,
        operand: int,
        leaf: int,
        accesses: Accesses,
        order: Order,
        inverse: bool,
    ) -> None:
        self.truth, self.accesses, self.inverse = truth, accesses, inverse
        self.place = operand, leaf
        self.there = truth.there(operand, leaf)
        self.placed = placing(truth.here, order), placing(self.there, order)
        self.is_over = any(a.precision is Precision.OVER for a in accesses)
        self.is_far = any(_is_far(t, order) for t in (truth.here, self.there))

    def _reached(self, way: _Way) -> Reached[Any]:
        reached = way.found.get(self.place, Reached(None))
        if reached.unknown:
            raise UndecidedError(f"unknown on the way: {reached.unknown}")
        return reached

    # --------------------------------------------------------------------------------------- isl

    def as_json(self) -> Any:
        """`by_isl` for JSON."""
        found = self.by_isl()
        return None if found is None else [[*found.dims], [*found.results], found.only_in]

    def by_isl(self) -> CounterExample | None:
        """A pair that is wrong; `None`: there is none."""
        way = self.truth.relations()
        reached = self._reached(way)
        follower: Relating = way.follower
        with budgeted(self.truth.budget) as isl:
            real = self._real(isl, follower, reached.elements or {})
            said = follower.union(self.accesses)
            if self.is_far:
                real, said = self._bounded(isl, follower, real, said)
            for steps in dict.fromkeys((*real, *said)):
                example = self._differs(isl, follower, real.get(steps), said.get(steps), reached)
                if example is not None:
                    return example
        return None

    def _real(self, isl: Any, follower: Relating, real: Relations) -> Relations:
        here, there = self.placed
        if here is not None:
            start = follower.relation(here, {}).reverse()
            real = {steps: start.apply_range(r) for steps, r in real.items()}
        if there is not None:
            real = follower.through(real, Access(there), {}) or {}
        if not self.inverse:
            return real
        return {steps: follower.reversed(r, len(steps)) for steps, r in real.items()}

    def _bounded(
        self, isl: Any, follower: Relating, real: Relations, said: Relations
    ) -> tuple[Relations, Relations]:
        """Both, of elements that there are: intervals do not say where more than 64 bits end."""
        types = self.truth.here, self.there
        ends = []
        for type, place in zip(types, self.placed, strict=True):
            shape = sizes_of(type)
            names = [f"i{k}" for k in range(len(shape))]
            bounds = [f"0 <= {n} < {size}" for n, size in zip(names, shape, strict=True)]
            text = f"{{ [{', '.join(names)}] : {' and '.join(bounds) or '0 = 0'} }}"
            box = isl.Set.read_from_str(context(), text)
            ends.append(box if place is None else box.apply(follower.relation(place, {})))
        start, end = reversed(ends) if self.inverse else ends
        real = {steps: r.intersect_domain(start) for steps, r in real.items()}
        said = {steps: r.intersect_domain(start) for steps, r in said.items()}
        if () in real:
            real[()] = real[()].intersect_range(end)
        return real, said

    def _differs(
        self, isl: Any, follower: Relating, real: Any, said: Any, reached: Reached[Any]
    ) -> CounterExample | None:
        real = said.subtract(said) if real is None else real
        said = real.subtract(real) if said is None else said
        missing = real.subtract(said)
        sides = [(1, missing)] if self.is_over else [(1, missing), (0, said.subtract(real))]
        for only_in, difference in sides:
            difference = follower.parameters.possible(isl, difference)
            if difference.is_empty():
                continue
            if only_in == 1 and reached.over:
                raise UndecidedError(f"on the way more may be touched than needed: {reached.over}")
            point = difference.wrap().sample_point()
            kind = isl.dim_type.set
            dims = difference.dim(isl.dim_type.in_)
            count = dims + difference.dim(isl.dim_type.out)
            pair = [int(str(point.get_coordinate_val(kind, i))) for i in range(count)]
            return CounterExample(tuple(pair[:dims]), tuple(pair[dims:]), only_in=only_in)
        return None

    # ------------------------------------------------------------------------------------ points

    def at_points(self, *, everywhere: bool = False) -> _Looked:
        """What was looked at, was it everything, and a pair that is wrong, if there is one."""
        if self.is_far and self.placed != (None, None):
            raise UndecidedError("sizes beyond 64 bits")
        way = self.truth.all_points() if everywhere else self.truth.points()
        reached = self._reached(way)
        real: Rows = reached.elements or {}
        assert way.chosen is not None
        assert way.values is not None
        follower: Touching = way.follower
        here, there = self.placed
        chosen = _moved(here, way.chosen)
        real = {steps: _moved_rows(there, rows) for steps, rows in real.items()}
        if self.inverse:
            example = self._back(way, chosen, real)
        else:
            said = follower.union(self.accesses, follower.start(chosen))
            example = self._first(chosen, real, said, reached)
        is_all = way.is_all and not way.values.drawn and not self.inverse
        count = len(chosen)
        means = f"enumerated {count}" if is_all else f"sampled {count}, seed {self.truth.seed}"
        return _Looked(means, is_all, example)

    def _first(
        self, chosen: NDArray[np.int64], real: Rows, said: Rows, reached: Reached[Any]
    ) -> CounterExample | None:
        row = first_difference(real, said)
        only_in = 1
        if row is not None and reached.over:
            raise UndecidedError(f"on the way more may be touched than needed: {reached.over}")
        if row is None and not self.is_over:
            row, only_in = first_difference(said, real), 0
        if row is None:
            return None
        dims = tuple(chosen[row[0]].tolist())
        return CounterExample(dims, row[1:], only_in=only_in)

    def _back(self, way: _Way, chosen: NDArray[np.int64], real: Rows) -> CounterExample | None:
        """Maps from the operand: each pair of the program is in them, and the other way round."""
        import numpy as np

        reached = way.found.get(self.place, Reached(None))
        place = self.placed[1]
        width = 1 + len(place.results if place and place.results else sizes_of(self.there))
        for steps, rows in real.items():
            rows = rows[:ROWS].astype(np.int64)
            rows = rows[np.random.default_rng(self.truth.seed).permutation(len(rows))[:1024]]
            touched = rows[:, 1:width]
            said = way.follower.union(self.accesses, way.follower.start(touched))
            numbers = np.arange(len(rows), dtype=np.int64)[:, None]
            pairs = np.concatenate([numbers, chosen[rows[:, 0]], rows[:, width:]], axis=1)
            row = first_difference({steps: pairs}, said)
            if row is not None:
                if reached.over:
                    raise UndecidedError(f"on the way more may be touched: {reached.over}")
                return CounterExample(tuple(touched[row[0]].tolist()), row[1:], only_in=1)
        if self.is_over or any(placed is not None for placed in self.placed):
            return None
        # From some elements of the operand there, and from what they reach back.
        starts = some_points(sizes_of(self.there), 8, self.truth.seed)
        width = 1 + len(sizes_of(self.truth.here))
        for steps, ends in way.follower.union(self.accesses, way.follower.start(starts)).items():
            ends = ends[np.random.default_rng(self.truth.seed).permutation(len(ends))[:32]]
            again = self.truth.walk(way.follower, way.follower.start(ends[:, 1:width]))
            found: Rows = again.get(self.place, Reached(None)).elements or {}
            numbers = np.arange(len(ends), dtype=np.int64)[:, None]
            pairs = np.concatenate([numbers, starts[ends[:, 0]], ends[:, width:]], axis=1)
            row = first_difference({steps: pairs}, found)
            if row is not None:
                return CounterExample(row[1:], tuple(ends[row[0], 1:].tolist()), only_in=0)
        return None


def _is_far(type: Type, order: Order) -> bool:
    """Are there elements whose indices, or places, do not fit into 64 bits?"""
    shape = sizes_of(type)
    return (prod(shape) if order == "linear" else max(shape, default=0)) > POS_INF


def placing(type: Type, order: Order) -> IndexingMap | None:
    """From a logical index to the kind of index that an answer speaks of; `None`: the same."""
    if order == "logical":
        return None
    if not isinstance(type, TensorType):
        raise UnsupportedError("only tensors have places in memory")
    if order == "linear":
        if prod(placed_sizes(type)) > POS_INF:
            raise UndecidedError("a position in memory does not fit into 64 bits")
        return address_map(type)
    order_of = major_to_minor(type)
    return IndexingMap.of_sizes(sizes_of(type), (), [Dim(k) for k in order_of])


def _moved(place: IndexingMap | None, points: NDArray[np.int64]) -> NDArray[np.int64]:
    import numpy as np

    if place is None or not place.results:
        return points  # a scalar has no other places
    columns = place.evaluate_array(list(points.T))
    return np.stack([np.broadcast_to(c, len(points)) for c in columns], axis=1)


def _moved_rows(place: IndexingMap | None, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows whose indices are places; positions in groups, which follow them, stay."""
    import numpy as np

    if place is None:
        return rows
    end = 1 + len(place.dims)
    moved = [rows[:, :1], _moved(place, rows[:, 1:end]), rows[:, end:]]
    return np.concatenate(moved, axis=1)
