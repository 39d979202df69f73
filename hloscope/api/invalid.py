"""Invalid programs: errors of queries, and which parts are still analysed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property, wraps
from typing import Any, Final, ParamSpec, TypeVar, cast
from weakref import WeakSet

from hloscope import cost, fusion, indexing, stablehlo, verifier
from hloscope.errors import Diagnostic, HloscopeError, VerifyError
from hloscope.ir import Computation, Instruction, Module
from hloscope.ops import While

# --------------------------------------------------------------------------------------------------
# Programs with invalid instructions: the findings, and the kernels that are still analysed.
#
# An instruction whose types are wrong has no meaning, and neither has an instruction that calls it.
# The others have the types that they declare, even if an invalid instruction computes an operand.


MOST_NAMES: Final = 8
"""Maximum number of names that a note lists."""


class Invalid:
    """The findings about a module, by instruction; empty if the module is valid.

    Attributes:
        findings: Every finding of the verifier, in the order of the text.
        reasons: The instructions without results, each with the finding that prevents them: invalid
            instructions, and those that call an invalid one at any depth.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> module = parse_hlo('''ENTRY e {
    ...   a = f32[2] parameter(0)
    ...   b = f32[3] abs(a)
    ...   ROOT c = f32[3] negate(b)
    ... }''')
    >>> [ins.name for ins in Invalid(module).reasons]
    ['b']

    Raises:
        VerifyError: A finding is about the module, not about one instruction.
    """

    def __init__(self, module: Module) -> None:
        self._module: Final = module
        self.findings: Final = () if is_known_valid(module) else tuple(findings(module))
        self.reasons: Final = self._reasons() if self.findings else {}

    def _reasons(self) -> dict[Instruction, str]:
        """Return the finding of each invalid instruction.

        A finding belongs to the instruction whose position it starts at.
        """
        places = {found.span.start: found for found in self.findings if found.span is not None}
        homes = {ins: computation for computation in self._module for ins in computation}
        wrong = {
            ins: places.pop(ins.span.start).message
            for ins in homes
            if ins.span is not None and ins.span.start in places
        }
        # A finding without an instruction, such as one about the whole module, leaves no part of it
        # to analyse.
        for found in self.findings:
            if found.span is None or found.span.start in places:
                raise VerifyError(found.message, span=found.span, rule=found.rule)
        return self._with_callers(wrong, homes)

    def _with_callers(
        self, wrong: Mapping[Instruction, str], homes: Mapping[Instruction, Computation]
    ) -> dict[Instruction, str]:
        """Add the instructions that call, at any depth, a computation with an invalid instruction.

        Args:
            wrong: Finding of each invalid instruction.
            homes: Computation of each instruction.
        """
        callers: dict[Computation, list[Instruction]] = {}
        for ins in homes:
            for called in ins.calls:
                callers.setdefault(called, []).append(ins)
        found, todo = dict(wrong), list(wrong)
        while todo:
            ins = todo.pop()
            for caller in callers.get(homes[ins], ()):
                if caller not in found:
                    found[caller] = f"`{ins.name}`, which it calls, is invalid: {found[ins]}"
                    todo.append(caller)
        return {ins: found[ins] for ins in homes if ins in found}

    @cached_property  # asked for each kernel
    def hidden(self) -> frozenset[Computation]:
        """Return the computations whose number of runs is unknown.

        They are called by an invalid instruction, or by a loop that contains one: its trip count
        may depend on that.
        """
        found: set[Computation] = set()
        direct = {place.span.start for place in self.findings if place.span is not None}
        todo = [
            called
            for ins in self.reasons
            if isinstance(ins.op, While) or (ins.span is not None and ins.span.start in direct)
            for called in ins.calls
        ]
        while todo:
            computation = todo.pop()
            if computation not in found:
                found.add(computation)
                todo += [called for ins in computation for called in ins.calls]
        return frozenset(found)

    @property
    def note(self) -> str:
        """Return a note that names the invalid instructions, which results leave out."""
        names = [f"`{ins.name}`" for ins in self.reasons]
        more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
        return f"left out, because invalid: {', '.join(names[:MOST_NAMES])}{more}"

    def kernels(self) -> list[tuple[Computation, Instruction]]:
        """Return the kernels that are analysed, with their computations."""
        return [
            (place.computation, ins)
            for place in cost.running(self._module)
            for ins in place.kernels
            if self.is_answered(place.computation, ins)
        ]

    def is_answered(self, computation: Computation, ins: Instruction) -> bool:
        """Is the instruction valid, and is the number of its computation's runs known?"""
        return ins not in self.reasons and computation not in self.hidden


# --------------------------------------------------------------------------------------------------
# Findings of the verifier as errors of queries about invalid programs.
#
# A query that states something of a program's values (a proof, equality, results) verifies the
# program first, by `check`. Other queries verify it only after an unexpected error, by
# `explains_invalid_program`.


P = ParamSpec("P")
T = TypeVar("T")


def findings(module: Module) -> list[Diagnostic]:
    """Return every finding of the verifier about a module."""
    if module.has_tree and isinstance(module, stablehlo.TreeModule):
        return verifier.verify_mlir(module.tree)
    return verifier.verify_hlo(module)


def is_known_valid(module: Module) -> bool:
    """Was the module verified before and found valid?"""
    return module in _VALID


def check(module: Module | None) -> None:
    """Raise the first finding about a module; each module is verified at most once.

    `None` is accepted and does nothing.

    Raises:
        VerifyError: The module is invalid.
    """
    if module is None or module in _VALID:
        return
    refuse_first(findings(module))
    _VALID.add(module)


def check_part(module: Module, instructions: Iterable[Instruction]) -> None:
    """Raise the first finding about the given instructions of a module.

    A StableHLO module is verified as a whole.

    Raises:
        VerifyError: One of the instructions is invalid.
    """
    if module.has_tree:
        check(module)
    elif module not in _VALID:
        refuse_first(verifier.verify_instructions(instructions))


def analysis_of(module: Module, convention: fusion.Convention = "structural") -> fusion.Analysis:
    """Return an analysis of a module's maps, which raises an error for invalid instructions.

    Args:
        module: The module, not verified.
        convention: Which operand elements count as read: those that the program's structure depends
            on, or those by XLA's rule.
    """
    return fusion.Analysis(
        has_regions=module.has_tree,
        convention=convention,
        refuse=lambda ins: check_part(module, [ins]),
        counts=indexing.counts_of(module),
    )


def refuse_first(found: Sequence[Diagnostic]) -> None:
    """Raise the first finding, if there is one.

    Raises:
        VerifyError: `found` is not empty.
    """
    if found:
        raise VerifyError(found[0].message, span=found[0].span, rule=found[0].rule)


_VALID: Final[WeakSet[Module]] = WeakSet()
"""Modules that were verified and are valid; modules do not change."""


def explains_invalid_program(question: Callable[P, T]) -> Callable[P, T]:
    """Decorate a query so that an unexpected exception on an invalid program raises `VerifyError`.

    After an exception other than `HloscopeError` the program is verified. If it is invalid, its
    first error is raised, else the exception itself. The first argument of the query has the
    attribute `asked_module`, the module to verify. It may have `while_asked`, a context manager
    that is active during the query.
    """

    @wraps(question)
    def asked(*args: P.args, **named: P.kwargs) -> T:
        about = cast(Any, args[0])
        try:
            with getattr(about, "while_asked", nullcontext()):
                return question(*args, **named)
        except HloscopeError:
            raise
        except Exception as error:
            _explain(error, about.asked_module)
            raise

    return asked


def _explain(error: Exception, module: Module | None) -> None:
    try:
        check(module)
    except VerifyError as wrong:
        raise wrong from error
