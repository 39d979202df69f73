"""Findings of the verifier as errors of queries about invalid programs.

A query that states something of a program's values (a proof, equality, results) verifies the
program first, by `check`. Other queries verify it only after an unexpected error, by
`explains_invalid_program`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast
from weakref import WeakSet

from hloscope import fusion, indexing, stablehlo, verifier
from hloscope.errors import Diagnostic, HloscopeError, VerifyError
from hloscope.ir import Instruction, Module

P = ParamSpec("P")
T = TypeVar("T")


def findings(module: Module) -> list[Diagnostic]:
    """Every finding of the verifier about a module."""
    if module.has_tree and isinstance(module, stablehlo.TreeModule):
        return verifier.verify_mlir(module.tree)
    return verifier.verify_hlo(module)


def is_known_valid(module: Module) -> bool:
    """Was the module verified before and found valid?"""
    return module in _VALID


def check(module: Module | None) -> None:
    """Refuse an invalid module with its first finding; a module is verified once.

    Raises:
        VerifyError: It is wrong.
    """
    if module is None or module in _VALID:
        return
    refuse_first(findings(module))
    _VALID.add(module)


def check_part(module: Module, instructions: Iterable[Instruction]) -> None:
    """Refuse invalid instructions of a module.

    Only the given instructions are verified, except that a StableHLO module is verified as a whole.

    Raises:
        VerifyError: One of them is wrong.
    """
    if module.has_tree:
        check(module)
    elif module not in _VALID:
        refuse_first(verifier.verify_instructions(instructions))


def analysis_of(module: Module, convention: fusion.Convention = "structural") -> fusion.Analysis:
    """Return an analysis of a module's maps, which refuses invalid instructions.

    Args:
        module: The module, not verified.
        convention: What counts as read: what the program's structure depends on, or XLA's rule.
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
        VerifyError: There is.
    """
    if found:
        raise VerifyError(found[0].message, span=found[0].span, rule=found[0].rule)


_VALID: Final[WeakSet[Module]] = WeakSet()
"""Modules that the verifier accepts; they do not change."""


def explains_invalid_program(question: Callable[P, T]) -> Callable[P, T]:
    """Decorator: an unexpected error on an invalid program becomes the verifier's finding.

    The first argument of the question has the attributes `asked_module` and `while_asked`, a
    context that is entered for the time of the question.
    """

    @wraps(question)
    def asked(*args: P.args, **named: P.kwargs) -> T:
        about = cast(Any, args[0])
        try:
            with about.while_asked:
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
