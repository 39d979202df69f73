"""Refinement of a syntax tree: sizes that follow from those of the arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from hloscope import passes, stablehlo, verifier
from hloscope.api.artifacts import Serializable, tree_of
from hloscope.api.explaining import refuse_first
from hloscope.errors import Diagnostic, UnknownNameError

if TYPE_CHECKING:
    from hloscope.mlir import Operation

ArgumentLike: TypeAlias = Any
"""The type or value of an argument: the text of its type, a type, a whole number that is its value,
an array or anything else with a `shape`, or `None` for nothing."""


class Refined(NamedTuple):
    """A program after refinement.

    Attributes:
        tree: The program.
        diagnostics: The findings of the passes.
    """

    tree: Operation
    diagnostics: tuple[Diagnostic, ...]


def right_tree(program: Serializable, *, allow_unregistered: bool = False) -> Operation:
    """The syntax tree of a program, verified.

    Raises:
        VerifyError: It is wrong.
    """
    tree = tree_of(program)
    found = verifier.verify_mlir(tree, allow_unregistered=allow_unregistered, first_only=True)
    refuse_first(found)
    return tree


def refined(
    tree: Operation,
    args: str | Sequence[ArgumentLike] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    assertions: bool = True,
) -> Refined:
    """Refine a valid syntax tree for arguments of given sizes.

    Args:
        tree: The program; it is not verified again.
        args: Types, values or arrays of the arguments, as `refine` takes them.
        dims: Sizes of the dimension variables of `jax.export`, by their names, instead of `args`.
        assertions: Check what the program asserts of its sizes.

    Raises:
        PassError: The types do not fit, or an assertion does not hold.
        UnknownNameError: The program has no function, or no such dimension variable.
    """
    if args is not None and dims is not None:
        raise UnknownNameError("give either types of the arguments or sizes by name, not both")
    nothing_given = args is None and dims is None
    if not any(op.name == "func.func" for op in stablehlo.walk(tree)):
        raise UnknownNameError("there is no function in the program")
    if dims is not None:
        types = passes.argument_types(tree, dims)
    else:
        tree, types = passes.with_arguments(tree, args)
    steps = passes.refining_steps(tree, types, assertions=None if nothing_given else assertions)
    outcome = passes.run_pipeline(tree, steps)
    if outcome.failed == _CHECKING and all(map(_is_open, outcome.diagnostics)):
        # The assertions cannot be decided yet: they stay in the program.
        outcome = passes.run_pipeline(tree, steps[:-1])
    if not outcome.ok:
        raise _broken_assertion(tree, steps) or passes.failure(outcome)
    return Refined(outcome.module, tuple(outcome.diagnostics))


_CHECKING: Final = "stablehlo-check-shape-assertions"


def _is_open(diagnostic: Diagnostic) -> bool:
    """Is the diagnostic about an assertion on unknown sizes?"""
    return diagnostic.message.startswith("expects static ")


def _broken_assertion(tree: Operation, steps: Sequence[passes.Step]) -> passes.PassError | None:
    """The error about a violated shape assertion; `None` if no assertion is violated.

    It is more precise than the type errors that refinement with these sizes reports.
    """
    if not steps or steps[-1].name != _CHECKING:
        return None
    if not steps[-1].options.get("enable-shape-assertions", True):
        return None
    # Without the verifier the pipeline gets past the types that do not fit, to the assertions.
    outcome = passes.run_pipeline(tree, steps, verify_each=False)
    said = [found for found in outcome.diagnostics if not _is_open(found)]
    if outcome.failed != steps[-1].name or not said:
        return None
    return passes.failure(passes.Outcome(tree, said, failed=outcome.failed))
