"""Comparison of maps with the reference relation, at single elements and by isl."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from hloscope.errors import UnsupportedError
from hloscope.proof.allowance import SECONDS_MORE, Allowance, Purse
from hloscope.proof.check import Check, Outcome
from hloscope.proof.graph import WalkTooLongError
from hloscope.proof.isolated import NO_TIME, Isolated
from hloscope.proof.question import Looked, Question
from hloscope.simplifier import CounterExample, UndecidedError, isl_context

_Found: TypeAlias = Looked | UndecidedError


class Comparison:
    """Queries about several outputs, decided in order of cost.

    Single elements come first: a refuted query needs no proof.  Then isl decides the others, in one
    child process for all outputs, within a time for each.  If an output has few elements, isl gets
    a short time, then all its elements are enumerated.
    """

    def __init__(self, outputs: Sequence[Sequence[Question]], allowance: Allowance) -> None:
        self.questions: Final = [question for some in outputs for question in some]
        self._output = [number for number, some in enumerate(outputs) for _ in some]
        self._allowance = allowance
        self._points: list[_Found] = []
        self._by_isl: list[_Found] = [UndecidedError("not asked") for _ in self.questions]

    def checks(self) -> list[Check]:
        """Return the result of each query."""
        begin = perf_counter()
        allowance = self._allowance
        for question in self.questions:
            spent = UndecidedError(allowance.reason) if allowance.is_spent else None
            self._points.append(spent or _tried(question.at_points))
        open_ = []
        for k, found in enumerate(self._points):
            if isinstance(found, WalkTooLongError):
                self._by_isl[k] = found  # isl's steps take longer
            elif not _is_refuting(found):
                open_.append(k)
        few = [question.truth.are_few for question in self.questions]
        # Fully enumerated queries are decided: isl is a second proof, with the smallest budget.
        whole = [k for k in open_ if _is_whole(self._points[k])]
        self._ask(whole, Question.isl_json, allowance.again, self._by_isl)
        open_ = [k for k in open_ if not _is_whole(self._points[k])]
        for is_few, purse in ((True, allowance.shortly), (False, allowance.first)):
            some = [k for k in open_ if few[k] is is_few]
            self._ask(some, Question.isl_json, purse, self._by_isl)
        self._ask_everywhere([k for k in open_ if few[k] and _is_open(self._by_isl[k])])
        each = (perf_counter() - begin) / max(1, len(self.questions))
        both = zip(self.questions, self._points, self._by_isl, strict=True)
        return [_judged(*one, each) for one in both]

    def _ask_everywhere(self, open_: Sequence[int]) -> None:
        """Enumerate all elements of outputs with few of them, then give isl more time."""
        every = [*self._points]
        self._ask(open_, Question.everywhere_json, self._allowance.everywhere, every)
        self._points = [
            p if isinstance(e, UndecidedError) else e
            for p, e in zip(self._points, every, strict=True)
        ]
        left = [k for k in open_ if not (_is_whole(p := self._points[k]) or _is_refuting(p))]
        self._ask(left, Question.isl_json, self._allowance.first, self._by_isl)

    def _ask(
        self,
        open_: Sequence[int],
        ask: Callable[[Question], Any],
        purse: Purse,
        found: list[_Found],
    ) -> None:
        """Send queries to a child process that can be killed, within `purse` for each output.

        One query may take half of its output's time.

        Args:
            open_: Numbers of the queries.
            ask: What is asked of each.
            purse: Time budget; the time used is subtracted.
            found: Results by number, which are replaced.
        """
        if not open_:
            return
        isl_context()  # isl is loaded once, not in every child
        apart = Isolated([partial(ask, self.questions[k]) for k in open_])
        output, left, most = -1, 0.0, 0.0
        try:
            for number, k in enumerate(open_):
                # The time is per output: its first query starts a new budget.
                if self._output[k] != output:
                    output, left = self._output[k], self._allowance.ready(purse)
                    most = max(left / 2, SECONDS_MORE)
                if left <= 0:
                    spent = self._allowance.is_spent
                    found[k] = UndecidedError(self._allowance.reason if spent else NO_TIME)
                    continue
                found[k] = _tried(partial(_asked, apart, number, min(left, most)))
                left -= apart.taken
                purse.left -= apart.taken
        finally:
            apart.stop()


def _is_open(found: _Found) -> bool:
    """Is the query undecided?"""
    return isinstance(found, UndecidedError)


def _is_refuting(found: _Found) -> bool:
    """Did the comparison find a counter-example?"""
    return isinstance(found, Looked) and found.example is not None


def _is_whole(found: _Found) -> bool:
    """Was every element compared?"""
    return isinstance(found, Looked) and found.is_whole


def _tried(ask: Callable[[], Looked]) -> _Found:
    """Return the result, or the reason why there is none."""
    try:
        return ask()
    except UndecidedError as error:
        return error
    except UnsupportedError as error:
        return UndecidedError(error.message)
    except OverflowError:
        return UndecidedError("sizes beyond 64 bits")


def _asked(apart: Isolated, number: int, seconds: float) -> Looked:
    """Return the child's result as the parent's types."""
    means, is_whole, example = apart.ask(number, seconds)
    if example is None:
        return Looked(means, is_whole, None)
    dims, results, only_in = example
    return Looked(means, is_whole, CounterExample(tuple(dims), tuple(results), only_in=only_in))


def _judged(
    question: Question,
    points: _Found,
    by_isl: _Found,
    seconds: float,
) -> Check:
    """Combine the results at single elements and by isl."""
    superset = question.is_over

    def check(outcome: Outcome, by: tuple[str, ...] = (), reason: str = "") -> Check:
        return Check(outcome, by, reason, superset=superset, seconds=seconds)

    # A counter-example of either method refutes; it is checked before any proof counts.
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
    """Join the two reasons; equal ones are given once."""
    return by_isl if by_isl == at_points else f"{by_isl}; at single elements: {at_points}"
