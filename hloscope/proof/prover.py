"""Checks the maps of an answer against the program, twice: by isl and at single elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, Final

from hloscope.errors import UnsupportedError
from hloscope.fusion import Blueprints, Convention
from hloscope.indexing import Accesses
from hloscope.ir import Computation, Instruction, captured
from hloscope.ops import Elementwise
from hloscope.proof.allowance import SECONDS, SECONDS_ALL, SECONDS_MORE, Allowance, Purse
from hloscope.proof.bodies import StepsThroughBodies
from hloscope.proof.check import Check, Executed, Outcome
from hloscope.proof.execution import Execution
from hloscope.proof.graph import WalkTooLongError
from hloscope.proof.involved import integers_before
from hloscope.proof.isolated import NO_TIME, Isolated
from hloscope.proof.question import Looked, Order, Question
from hloscope.proof.truth import Truth
from hloscope.simplifier import CounterExample, UndecidedError, isl_context

BUDGET: Final = 200_000
"""Steps of isl for the walk from an output, and again for each operand; a second or two."""


class Prover:
    """Checks answers about one program; remembers what was reached.

    Attributes:
        seed: Of the elements and run-time values that are drawn.
        budget: Steps of isl for each output.
        allowance: The time for each output and for everything.
        by_execution: Is the program run too?
        convention: Of the answers: what an output of a reduction reads.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        budget: int = BUDGET,
        seconds: float = SECONDS,
        seconds_of_isl: float = SECONDS_ALL,
        total: float = inf,
        by_execution: bool = False,
        convention: Convention = "structural",
    ) -> None:
        self.seed: Final = seed
        self.budget: Final = budget
        self.allowance: Final = Allowance(seconds, seconds_of_isl, total)
        self.by_execution: Final = by_execution
        self.convention: Final = convention
        self._steps = StepsThroughBodies(convention)
        self._blueprints = Blueprints()
        self._numbers: dict[object, int] = {}
        self._numbered: tuple[Instruction, int] | None = None
        self._structures: dict[object, int] = {}
        self._asked: tuple[Instruction | None, int] = (None, 0)
        self._done: dict[object, Check] = {}
        self._last: tuple[object, Truth] | None = None
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
        left: dict[object, Question] = {}
        for key, (operand, leaf, accesses) in zip(keys, asked, strict=True):
            if any(a.map is None for a in accesses):
                self._done[key] = Check(Outcome.UNCLAIMED)
            if key in self._done or key in left:
                continue
            if self.allowance.is_spent:
                self._done[key] = Check(Outcome.UNDECIDED, reason=self.allowance.reason)
                continue
            truth = self._truth(ins, output, computation)
            try:
                left[key] = Question(truth, operand, leaf, accesses, order, inverse)
            except UndecidedError as error:
                self._done[key] = Check(Outcome.UNDECIDED, reason=str(error))
            except UnsupportedError as error:
                self._done[key] = Check(Outcome.UNDECIDED, reason=error.message)
        compared = _compare([*left.values()], self.allowance) if left else []
        for (key, question), check in zip(left.items(), compared, strict=True):
            if self.by_execution and not check.is_refuted:
                check = self._run(question, check, order)
            self._done[key] = check
        return [self._done[key] for key in keys]

    def reached(
        self, ins: Instruction, output: int, computation: Computation | None
    ) -> tuple[frozenset[tuple[int, int]], Check]:
        """The tensors that an output may read anything of, and the check of all others together.

        A tensor is the number of its operand, or parameter, and its own number in it.  Those of
        which execution has something to show are among them.
        """
        found: frozenset[tuple[int, int]] = frozenset()
        if self.allowance.is_spent:
            rest = Check(Outcome.UNDECIDED, reason=self.allowance.reason)
        else:
            try:
                found = self._truth(ins, output, computation).reached()
                rest = Check(Outcome.PROVED, ("out of reach",))
            except UndecidedError as error:
                rest = Check(Outcome.UNDECIDED, reason=str(error))
            except UnsupportedError as error:
                rest = Check(Outcome.UNDECIDED, reason=error.message)
        if not self.by_execution:
            return found, rest
        if self.allowance.is_spent:
            return found, replace(rest, executed=Executed(reason=self.allowance.reason))
        execution = self._executed(ins, computation)
        found |= execution.suspects(output)
        return found, replace(rest, executed=execution.nothing_seen())

    def _run(self, question: Question, check: Check, order: Order) -> Check:
        """The check with what execution shows."""
        if self.allowance.is_spent:
            return replace(check, executed=Executed(reason=self.allowance.reason))
        truth, inverse = question.truth, question.inverse
        mine = question.accesses if order == "logical" else None
        execution = self._executed(truth.ins, truth.computation)
        executed = execution.check(truth.number, *question.place, mine, inverse=inverse)
        return _with_executed(check, executed, inverse)

    def _executed(self, ins: Instruction, computation: Computation | None) -> Execution:
        """The runs of an instruction."""
        key = (ins, computation)
        if self._execution is None or self._execution[0] != key:
            seconds = self.allowance.left() / 2  # something is left for other questions
            self._execution = (key, Execution(ins, computation, self.seed, seconds))
        return self._execution[1]

    def _truth(self, ins: Instruction, output: int, computation: Computation | None) -> Truth:
        key = (ins, output, computation)
        if self._last is None or self._last[0] != key:
            left = self.allowance.left
            truth = Truth(self._steps, ins, output, computation, self.seed, self.budget, left)
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
        # No value decides what an elementwise op reads, but it may decide what is seen of a run.
        plain = isinstance(ins.op, Elementwise) and not self.by_execution
        before = [] if plain else [self._integers(value) for value in read]
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
    """The check combined with execution, which may refute what isl did not."""
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


def _compare(questions: Sequence[Question], allowance: Allowance) -> list[Check]:
    """What is found of questions about one output, at least one.

    First at points: what they refute needs no more proof.  Then by isl, in its own process.
    Where an output has few elements, isl gets little time before all of them are looked at.
    """
    begin = perf_counter()
    points = [_tried(question.at_points) for question in questions]
    by_isl: list[Looked | UndecidedError] = [UndecidedError("not asked") for _ in questions]
    open_ = []
    for k, found in enumerate(points):
        if isinstance(found, WalkTooLongError):
            by_isl[k] = found  # as it would be for isl, whose steps are longer
        elif not _is_refuting(found):
            open_.append(k)
    few = questions[0].truth.are_few
    whole = [k for k in open_ if _is_whole(points[k])]
    _ask_apart(questions, whole, Question.isl_json, allowance.again, allowance, by_isl)
    open_ = [k for k in open_ if not _is_whole(points[k])]
    purse = allowance.shortly if few else allowance.first
    _ask_apart(questions, open_, Question.isl_json, purse, allowance, by_isl)
    open_ = [k for k in open_ if isinstance(by_isl[k], UndecidedError)]
    if few and open_:
        every = [*points]
        _ask_apart(
            questions, open_, Question.everywhere_json, allowance.everywhere, allowance, every
        )
        points = [
            p if isinstance(e, UndecidedError) else e for p, e in zip(points, every, strict=True)
        ]
        open_ = [k for k in open_ if not _is_whole(points[k]) and not _is_refuting(points[k])]
        _ask_apart(questions, open_, Question.isl_json, allowance.first, allowance, by_isl)
    each = (perf_counter() - begin) / len(questions)
    return [_judged(*found, each) for found in zip(questions, points, by_isl, strict=True)]


def _ask_apart(
    questions: Sequence[Question],
    open_: Sequence[int],
    ask: Callable[[Question], Any],
    purse: Purse,
    allowance: Allowance,
    found: list[Looked | UndecidedError],
) -> None:
    """Ask where it can be stopped, within a time for all; none may take more than half of it."""
    left = allowance.ready(purse)
    if not open_:
        return
    if left <= 0:
        why = UndecidedError(allowance.reason if allowance.is_spent else NO_TIME)
        found[:] = [why if k in open_ else f for k, f in enumerate(found)]
        return
    isl_context()  # isl is loaded once, not in every child
    most = max(left / 2, SECONDS_MORE)
    apart = Isolated([partial(ask, questions[k]) for k in open_])
    try:
        for number, k in enumerate(open_):
            found[k] = _tried(partial(_asked, apart, number, min(left, most)))
            left -= apart.taken
            purse.left -= apart.taken
    finally:
        apart.stop()


def _is_refuting(found: Looked | UndecidedError) -> bool:
    return isinstance(found, Looked) and found.example is not None


def _is_whole(found: Looked | UndecidedError) -> bool:
    return isinstance(found, Looked) and found.is_whole


def _tried(ask: Callable[[], Looked]) -> Looked | UndecidedError:
    try:
        return ask()
    except UndecidedError as error:
        return error
    except UnsupportedError as error:
        return UndecidedError(error.message)
    except OverflowError:
        return UndecidedError("sizes beyond 64 bits")


def _asked(apart: Isolated, number: int, seconds: float) -> Looked:
    means, is_whole, example = apart.ask(number, seconds)
    if example is None:
        return Looked(means, is_whole, None)
    dims, results, only_in = example
    return Looked(means, is_whole, CounterExample(tuple(dims), tuple(results), only_in=only_in))


def _judged(
    question: Question,
    points: Looked | UndecidedError,
    by_isl: Looked | UndecidedError,
    seconds: float,
) -> Check:
    """The verdict of both checks together."""
    superset = question.is_over

    def check(outcome: Outcome, by: tuple[str, ...] = (), reason: str = "") -> Check:
        return Check(outcome, by, reason, superset=superset, seconds=seconds)

    for found in (points, by_isl):
        if isinstance(found, Looked) and found.example is not None:
            refuted = check(Outcome.REFUTED, (found.means,))
            return replace(refuted, counter_example=found.example)
    means = (points.means,) if isinstance(points, Looked) else ()
    if isinstance(by_isl, Looked):
        return check(Outcome.PROVED, ("isl", *means))
    reason = str(by_isl)
    if isinstance(points, UndecidedError):
        return check(Outcome.UNDECIDED, (), _both(reason, str(points)))
    outcome = Outcome.PROVED if points.is_whole else Outcome.SAMPLED
    return check(outcome, means, reason)


def _both(by_isl: str, at_points: str) -> str:
    return by_isl if by_isl == at_points else f"{by_isl}; at single elements: {at_points}"
