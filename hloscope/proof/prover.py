"""Checks of maps against a program, by isl for all elements and by traversal from single ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import inf
from time import perf_counter
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from hloscope.errors import UnsupportedError
from hloscope.fusion import Convention, Part, StructureIds
from hloscope.indexing import UNKNOWN_COUNTS, Access, Accesses, DeviceCounts
from hloscope.ir import Computation, Instruction
from hloscope.ops import Elementwise, Tuple
from hloscope.proof.allowance import (
    NO_TIME,
    SECONDS,
    SECONDS_ALL,
    SECONDS_MORE,
    Allowance,
    Isolated,
    TimeLimits,
)
from hloscope.proof.check import Check, Executed, Outcome
from hloscope.proof.execution import Execution
from hloscope.proof.graph import Called, WalkTooLongError
from hloscope.proof.instance import integers_before
from hloscope.proof.reference import ComparisonResult, Order, Question, Reference
from hloscope.proof.relations import StepsThroughBodies
from hloscope.proof.structure import reads
from hloscope.simplifier import CounterExample, UndecidedError, isl_context

# --------------------------------------------------------------------------------------------------
# Checks of maps against the program, by isl and at single elements.


BUDGET: Final = 200_000
"""Limit of isl's steps for the traversal from an output, and for each operand; 1 to 2 seconds."""

_OUT_OF_REACH: Final = Check(Outcome.PROVED, ("out of reach",))


class Prover:
    """Checks the maps of one program; results are stored.

    Attributes:
        seed: Seed of the sampled elements and run-time values.
        budget: Limit of isl's steps for each output.
        allowance: Time limits.
        by_execution: Whether test programs are run, too.
        convention: How maps describe the inputs that reductions read.
        stated: Numbers of replicas and partitions that the program states.
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
        stated: DeviceCounts = UNKNOWN_COUNTS,
    ) -> None:
        self.seed: Final = seed
        self.budget: Final = budget
        self.allowance: Final = Allowance(seconds, seconds_of_isl, total)
        self.by_execution: Final = by_execution
        self.convention: Final = convention
        self.stated: Final = stated
        self._steps = StepsThroughBodies(convention, stated)
        self._structure_ids = StructureIds()
        # Operands and outputs of one instruction are asked one after the other, and equal
        # instructions of a program have equal results.
        self._structures: dict[object, int] = {}
        self._result_of: tuple[Instruction | None, int] = (None, 0)
        self._done: dict[object, Check] = {}
        self._last: tuple[object, Reference] | None = None
        self._values: Final = lru_cache(maxsize=1)(reads)
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
        """Check whether maps of an instruction equal the program's relation.

        Args:
            ins: The instruction.
            output: Number of the output.
            operand: Number of the operand; captured values are numbered after the operands. With
                `computation`, number of the parameter.
            leaf: Number of the tensor in the operand.
            accesses: The maps.
            order: Kind of the maps' indices: logical, physical or linear.
            inverse: Whether the maps lead from the operand to the output.
            computation: The instruction's computation, if the maps lead to its parameters.
        """
        asked = [(output, [(operand, leaf, accesses)])]
        options: Any = {"order": order, "inverse": inverse, "computation": computation}
        return self.check_outputs(ins, asked, **options)[0][0]

    def check_outputs(
        self,
        ins: Instruction,
        queries: Sequence[tuple[int, Sequence[tuple[int, int, Accesses]]]],
        *,
        order: Order = "logical",
        inverse: bool = False,
        computation: Computation | None = None,
    ) -> list[list[Check]]:
        """Check the maps of several outputs, with one child process for isl.

        `queries` has, for each output, its number and its queries: the number of the operand, that
        of the leaf, and the maps. All other arguments are as in `check`.
        """
        options = (order, inverse, computation)
        keys = [
            [self._key(ins, output, *one, *options) for one in some] for output, some in queries
        ]
        left: dict[object, Question] = {}
        outputs: list[list[Question]] = []
        for mine, (output, some) in zip(keys, queries, strict=True):
            # A key asked twice in one call becomes one query.
            new = {k: one for k, one in zip(mine, some, strict=True) if k not in left}
            found = self._questions(ins, output, new, *options)
            left |= found
            outputs.append([*found.values()])
        compared = Comparison(outputs, self.allowance).checks() if left else []
        for (key, question), check in zip(left.items(), compared, strict=True):
            if self.by_execution and not check.is_refuted:
                check = self._run(question, check, order)
            self._done[key] = check
        return [[self._done[key] for key in mine] for mine in keys]

    def _questions(
        self,
        ins: Instruction,
        output: int,
        queries: Mapping[object, tuple[int, int, Accesses]],
        order: Order,
        inverse: bool,
        computation: Computation | None,
    ) -> dict[object, Question]:
        """Return the queries about one output that have no stored result, by key.

        The results of queries without a map, after the time is used up, or of unsupported types,
        are stored immediately.

        Args:
            ins: The instruction.
            output: Number of the output.
            queries: The number of the operand, that of its tensor, and the maps to check, by key.
            order: Kind of the maps' indices.
            inverse: Whether the maps lead from the operand to the output.
            computation: The instruction's computation, if the maps lead to its parameters.
        """
        found: dict[object, Question] = {}
        for key, (operand, leaf, accesses) in queries.items():
            if any(a.map is None for a in accesses):
                self._done[key] = Check(Outcome.UNCLAIMED)
            if key in self._done:
                continue
            if self.allowance.is_spent:
                self._done[key] = Check(Outcome.UNDECIDED, reason=self.allowance.reason)
                continue
            # The reference is shared by all operands of an output; it is computed at first use.
            truth = self._reference(ins, output, computation)
            try:
                found[key] = Question(truth, operand, leaf, accesses, order, inverse)
            except UndecidedError as error:
                self._done[key] = Check(Outcome.UNDECIDED, reason=str(error))
            except UnsupportedError as error:
                self._done[key] = Check(Outcome.UNDECIDED, reason=error.message)
        return found

    def reached(
        self, ins: Instruction, output: int, computation: Computation | None
    ) -> tuple[frozenset[tuple[int, int]], Check]:
        """Return the tensors that an output may read, and one check for every other tensor.

        A tensor is given by the number of the operand or parameter, and its number in that. Tensors
        for which execution showed a dependence are included. The check says whether all others are
        certainly not read.

        Args:
            ins: The instruction.
            output: Number of the output.
            computation: The instruction's computation, if parameters are wanted instead of
                operands.
        """
        found: frozenset[tuple[int, int]] = frozenset()
        try:
            part = None if computation else self._part(ins, output)
            if part is not None:
                found, rest = frozenset([part]), _OUT_OF_REACH
            elif self.allowance.is_spent:
                rest = Check(Outcome.UNDECIDED, reason=self.allowance.reason)
            else:
                found, rest = self._reference(ins, output, computation).reached(), _OUT_OF_REACH
        except UndecidedError as error:
            rest = Check(Outcome.UNDECIDED, reason=str(error))
        except UnsupportedError as error:
            rest = Check(Outcome.UNDECIDED, reason=error.message)
        if not self.by_execution:
            return found, rest
        if self.allowance.is_spent:
            return found, replace(rest, executed=Executed(reason=self.allowance.reason))
        execution = self._executed(ins, computation)
        # Execution may show a dependence on a tensor that no map reaches: then it must be checked
        # too.
        found |= execution.suspects(output)
        return found, replace(rest, executed=execution.without_suspects())

    def _run(self, question: Question, check: Check, order: Order) -> Check:
        """Return `check` with the result of executing a test program added.

        Args:
            question: The query: maps of one operand.
            check: The result so far.
            order: Kind of the maps' indices; only maps of logical indices are executed.
        """
        if self.allowance.is_spent:
            return replace(check, executed=Executed(reason=self.allowance.reason))
        truth, inverse = question.truth, question.inverse
        mine = question.accesses if order == "logical" else None
        execution = self._executed(truth.ins, truth.computation)
        executed = execution.check(truth.number, *question.place, mine, inverse=inverse)
        return _with_executed(check, executed, inverse)

    def _executed(self, ins: Instruction, computation: Computation | None) -> Execution:
        """Return the runs of an instruction's test program.

        Those of the last instruction are stored.
        """
        key = (ins, computation)
        if self._execution is None or self._execution[0] != key:
            seconds = self.allowance.left() / 2  # something is left for other questions
            self._execution = (key, Execution(ins, computation, self.seed, seconds, self.stated))
        return self._execution[1]

    def _reference(
        self, ins: Instruction, output: int, computation: Computation | None
    ) -> Reference:
        """Return the reference relations of an output; those of the last output are stored."""
        key = (ins, output, computation)
        if self._last is None or self._last[0] != key:
            values = computation.parameters if computation else self._values(ins)
            options = (self.seed, self.budget, self.allowance.left)
            truth = Reference(self._steps, ins, output, computation, values, *options)
            self._last = (key, truth)
        return self._last[1]

    def _part(self, ins: Instruction, output: int) -> tuple[int, int] | None:
        """Return the (operand, leaf) that output number `output` of a `tuple` op is.

        `None` for other ops.
        """
        if not isinstance(ins.op, Tuple):
            return None
        steps = self._steps
        flow, *more = steps.reads(ins, steps.of_part(ins.type, Part(output)))
        if more or isinstance(flow, Called) or not isinstance(flow.operand, int):
            return None
        part = steps.part(ins.operands[flow.operand].type, flow.leaf)
        return None if part.dimension is not None else (flow.operand, part.tensor)

    def _key(self, ins: Instruction, *rest: Any) -> object:
        """Return a key of a query about `ins` and of `rest`; equal keys mean equal results.

        A key has the op, types, callees and maps, and the producers of integer operands, whose
        values may be known before the program runs. An element of a tuple is keyed by its own
        operand alone.
        """
        output, operand, leaf, *others, computation = rest
        if computation is not None:
            return ins, *rest
        if not self.by_execution and (part := self._part(ins, output)) is not None:
            here = self._steps.tensor_types(ins.type)[output]
            there = self._steps.tensor_types(ins.operands[operand].type)[leaf]
            types = map(self._structure_ids.type_number, (here, there))
            accesses, *how = others
            about = tuple([_of_any_leaf(a) if a.leaf == leaf else a for a in accesses])
            return Tuple, *types, part == (operand, leaf), about, *how
        if self._result_of[0] is not ins:
            number = self._structures.setdefault(self._structure(ins), len(self._structures))
            self._result_of = (ins, number)
        return self._result_of[1], *rest

    def _structure(self, ins: Instruction) -> object:
        """Return a key of the parts of an instruction on which results depend."""
        number = self._structure_ids
        read = self._values(ins)
        at: dict[Instruction, int] = {}
        # Which operands are the same value matters, as a map may read one value twice.
        same = [at.setdefault(value, k) for k, value in enumerate(read)]
        # No value decides what an elementwise op reads, but the outputs of a run depend on values.
        plain = isinstance(ins.op, Elementwise) and not self.by_execution
        before = [] if plain else [self._integers(value) for value in read]
        calls = [number.number(c) for c in ins.calls]
        types = [number.type_number(v.type) for v in (ins, *read)]
        return (number.op_of(ins), tuple(types), tuple(calls), tuple(same), tuple(before))

    def _integers(self, value: Instruction) -> object:
        """Return a key of the producers of an integer operand; `None` if it has none."""
        found = integers_before(value)
        if not found:
            return None
        at = {ins: k for k, ins in enumerate(found)}
        number = self._structure_ids
        return tuple(
            [
                (number.op_of(i), number.type_number(i.type), *[at.get(o, o) for o in i.operands])
                for i in found
            ]
        )


def _of_any_leaf(access: Access) -> tuple[Any, ...]:
    """Return a key of an access, without the number of its leaf."""
    return access.map, access.precision, access.reason, access.replica, access.via


def _with_executed(check: Check, executed: Executed, inverse: bool) -> Check:
    """Return `check` with a result of execution added; a violation refutes the check.

    With `inverse`, the maps of the check lead from the operand to the output.
    """
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


# --------------------------------------------------------------------------------------------------
# Comparison of maps with the reference relation, at single elements and by isl.


_Found: TypeAlias = ComparisonResult | UndecidedError


class Comparison:
    """Decides the queries about several outputs, the cheapest methods first.

    Single elements come first: a refuted query needs no proof. Then isl decides the others, in one
    child process for all outputs, within a time limit for each. If an output has few elements, isl
    gets a short time, then all elements are enumerated.
    """

    def __init__(self, outputs: Sequence[Sequence[Question]], allowance: Allowance) -> None:
        self.questions: Final = [question for some in outputs for question in some]
        self._output = [number for number, some in enumerate(outputs) for _ in some]
        self._allowance = allowance
        self._points: list[_Found] = []
        self._by_isl: list[_Found] = [UndecidedError("not asked") for _ in self.questions]

    def checks(self) -> list[Check]:
        """Return the result of each query, in order."""
        begin = perf_counter()
        allowance = self._allowance
        for question in self.questions:
            spent = UndecidedError(allowance.reason) if allowance.is_spent else None
            self._points.append(spent or _result_or_error(question.at_points))
        open_ = []
        for k, found in enumerate(self._points):
            if isinstance(found, WalkTooLongError):
                self._by_isl[k] = found  # isl's steps take longer
            elif not _is_refuting(found):
                open_.append(k)
        few = [question.truth.are_few for question in self.questions]
        # Fully enumerated queries are decided: isl is a second proof, with the smallest budget.
        whole = [k for k in open_ if _compares_all(self._points[k])]
        self._ask(whole, Question.isl_json, allowance.again, self._by_isl)
        open_ = [k for k in open_ if not _compares_all(self._points[k])]
        for is_few, limits in ((True, allowance.shortly), (False, allowance.first)):
            some = [k for k in open_ if few[k] is is_few]
            self._ask(some, Question.isl_json, limits, self._by_isl)
        self._ask_everywhere([k for k in open_ if few[k] and _is_undecided(self._by_isl[k])])
        each = (perf_counter() - begin) / max(1, len(self.questions))
        both = zip(self.questions, self._points, self._by_isl, strict=True)
        return [_check_of(*one, each) for one in both]

    def _ask_everywhere(self, open_: Sequence[int]) -> None:
        """Enumerate all elements of some outputs with few elements, then run isl on them again.

        `open_` are the numbers of the queries about these outputs; their results are replaced.
        """
        every = [*self._points]
        self._ask(open_, Question.everywhere_json, self._allowance.everywhere, every)
        self._points = [
            p if isinstance(e, UndecidedError) else e
            for p, e in zip(self._points, every, strict=True)
        ]
        left = [k for k in open_ if not (_compares_all(p := self._points[k]) or _is_refuting(p))]
        self._ask(left, Question.isl_json, self._allowance.first, self._by_isl)

    def _ask(
        self,
        open_: Sequence[int],
        ask: Callable[[Question], Any],
        limits: TimeLimits,
        found: list[_Found],
    ) -> None:
        """Send queries to a child process that can be killed, with time limits from `limits`.

        One query may take half of the time of its output.

        Args:
            open_: Numbers of the queries to send.
            ask: The function that the child process calls with each query.
            limits: Time limits; the time used is subtracted from `left`.
            found: Results of all queries; those of `open_` are replaced.
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
                    output, left = self._output[k], self._allowance.ready(limits)
                    most = max(left / 2, SECONDS_MORE)
                if left <= 0:
                    spent = self._allowance.is_spent
                    found[k] = UndecidedError(self._allowance.reason if spent else NO_TIME)
                    continue
                found[k] = _result_or_error(partial(_result_of, apart, number, min(left, most)))
                left -= apart.taken
                limits.left -= apart.taken
        finally:
            apart.stop()


def _is_undecided(result: _Found) -> bool:
    """Is the result of a query undecided?"""
    return isinstance(result, UndecidedError)


def _is_refuting(result: _Found) -> bool:
    """Does the result of a query have a counter-example?"""
    return isinstance(result, ComparisonResult) and result.example is not None


def _compares_all(result: _Found) -> bool:
    """Did the result of a query come from a comparison of all elements, not only of a sample?"""
    return isinstance(result, ComparisonResult) and result.is_whole


def _result_or_error(ask: Callable[[], ComparisonResult]) -> _Found:
    """Return the result of the function `ask`, or the error that says why there is none."""
    try:
        return ask()
    except UndecidedError as error:
        return error
    except UnsupportedError as error:
        return UndecidedError(error.message)
    except OverflowError:
        return UndecidedError("sizes beyond 64 bits")


def _result_of(apart: Isolated, number: int, seconds: float) -> ComparisonResult:
    """Return the result of query number `number`, which the child process `apart` runs.

    The query may take `seconds`.
    """
    means, is_whole, example = apart.ask(number, seconds)
    if example is None:
        return ComparisonResult(means, is_whole, None)
    dims, results, only_in = example
    return ComparisonResult(
        means, is_whole, CounterExample(tuple(dims), tuple(results), only_in=only_in)
    )


def _check_of(
    question: Question,
    points: _Found,
    by_isl: _Found,
    seconds: float,
) -> Check:
    """Return the check of a query, from its results at single elements and by isl.

    Args:
        question: The query.
        points: Result at single elements, or the error that says why there is none.
        by_isl: Result by isl, or the error.
        seconds: Time of the check.
    """
    superset = question.is_over

    def check(outcome: Outcome, by: tuple[str, ...] = (), reason: str = "") -> Check:
        return Check(outcome, by, reason, superset=superset, seconds=seconds)

    # A counter-example of either method refutes; it is checked before any proof counts.
    for found in (points, by_isl):
        if isinstance(found, ComparisonResult) and found.example is not None:
            refuted = check(Outcome.REFUTED, (found.means,))
            return replace(refuted, counter_example=found.example)
    means = (points.means,) if isinstance(points, ComparisonResult) else ()
    if isinstance(by_isl, ComparisonResult):
        return check(Outcome.PROVED, ("isl", *means))
    reason = str(by_isl)
    if isinstance(points, UndecidedError):
        return check(Outcome.UNDECIDED, (), _joined_reasons(reason, str(points)))
    outcome = Outcome.PROVED if points.is_whole else Outcome.SAMPLED
    return check(outcome, means, reason)


def _joined_reasons(by_isl: str, at_points: str) -> str:
    """Return a text of both reasons; equal reasons are given once.

    `by_isl` is why isl did not decide, `at_points` why single elements did not.
    """
    return by_isl if by_isl == at_points else f"{by_isl}; at single elements: {at_points}"
