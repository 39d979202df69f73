"""Pipelines: passes with options, their text, and their execution.

    refine-arguments{types=tensor<16xf32>},refine-shapes
    builtin.module(stablehlo-refine-shapes, func.func(stablehlo-canonicalize-dynamism))

Source: MLIR's `PassRegistry.cpp` (the text of pipelines, options of passes), `Pass.cpp`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from hloscope.errors import Diagnostic, UnknownNameError, did_you_mean
from hloscope.mlir import Operation
from hloscope.passes.framework import Option, Pass, PassError
from hloscope.passes.registry import find_pass, find_pipeline
from hloscope.passes.rewriting import Rewriter
from hloscope.verifier import verify_mlir

_OPENING: Final = "({[<"
_CLOSING: Final = dict(zip(")}]>", _OPENING, strict=True))
_MOST_STEPS: Final = 1000


class PipelineError(UnknownNameError):
    """The text is not a pipeline, or a pass does not have such an option."""


class Step(Struct, frozen=True):
    """A pass with values of its options."""

    job: Pass
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.job.name


class Outcome(Struct):
    """Result of a pipeline.

    Attributes:
        module: The module after all passes; the input module if a pass failed.
        diagnostics: Errors and warnings in order of discovery; a pass may report errors and
            succeed.
        fired: Name of each step that ran, with the number of applications by pattern.
        failed: Name of the pass that failed, or after which the module was invalid; empty if the
            pipeline succeeded.
    """

    module: Operation
    diagnostics: list[Diagnostic] = field(default_factory=list)
    fired: list[tuple[str, Counter[str]]] = field(default_factory=list)
    failed: str = ""

    @property
    def ok(self) -> bool:
        """Did all passes succeed?"""
        return not self.failed


def run_pipeline(
    module: Operation,
    steps: Sequence[Step],
    *,
    allow_unregistered: bool = True,
    verify_each: bool = True,
    after: Callable[[Step, Operation], None] | None = None,
) -> Outcome:
    """Run passes on a copy of a module; stop at the first that fails.

    Args:
        module: A valid module; it is not changed.
        steps: The passes, in order.
        allow_unregistered: Accept ops of dialects without a definition?
        verify_each: Verify the module after each pass, as upstream does; an invalid module is a
            failure of the pass.
        after: Called with each step that succeeded and the module after it.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> tree = parse_stablehlo("func.func @f(%a: tensor<?xf32>) { return }").tree
    >>> outcome = run_pipeline(tree, parse_pipeline("refine-arguments{types=tensor<4xf32>}"))
    >>> outcome.ok
    True
    """
    outcome = Outcome(module)
    if not steps:
        return outcome
    # All passes change one copy; the input is returned unchanged if one of them fails.
    rewriter = Rewriter(module)
    for step in steps:
        run = step.job.change(rewriter, step.options)
        outcome.diagnostics += run.diagnostics
        outcome.fired.append((step.name, run.fired))
        invalid: list[Diagnostic] = []
        # `first_only` is what upstream's verifier reports between passes.
        if verify_each and not run.failed:
            invalid = verify_mlir(
                rewriter.module, allow_unregistered=allow_unregistered, first_only=True
            )
        if run.failed or invalid:
            outcome.diagnostics += invalid
            outcome.failed = step.name
            return outcome
        if after is not None:
            after(step, rewriter.module)
    outcome.module = rewriter.finish()
    return outcome


def applied(module: Operation, steps: Sequence[Step]) -> Operation:
    """Return the module after all passes.

    Raises:
        PassError: A pass failed, or the module after it is invalid.
    """
    outcome = run_pipeline(module, steps)
    if outcome.ok:
        return outcome.module
    raise failure(outcome)


def failure(outcome: Outcome) -> PassError:
    """Return the error to raise for a pipeline that failed."""
    found = [each for each in outcome.diagnostics if each.severity == "error"]
    if not found:
        return PassError(f"{outcome.failed} did not succeed")
    first = found[0]
    error = PassError(first.message, span=first.span, rule=first.rule)
    error.diagnostics = tuple(outcome.diagnostics)
    return error


# --------------------------------------------------------------------------------------------- text


def parse_pipeline(text: str) -> list[Step]:
    """Parse a pipeline; `builtin.module(…)`, `func.func(…)` and `any(…)` only group passes.

    Raises:
        UnknownNameError: No pass has that name.
        PipelineError: The text is not a pipeline, or a pass does not have such an option.

    >>> [step.name for step in parse_pipeline("builtin.module(func.func(refine-arguments))")]
    ['stablehlo-refine-arguments']
    """
    steps: list[Step] = []
    work = [text]
    while work:
        element = work.pop().strip()
        pieces = [piece.strip() for piece in cut(element, lambda letter: letter == ",")]
        if len(pieces) > 1:
            # The list is a stack: the first piece must be on top, so that steps come in order.
            work += reversed(pieces)
            continue
        if not element:
            continue
        name, opened, rest = _name_and_options(element)
        if opened == "(":
            work.append(rest)
            continue
        known = find_pipeline(name, rest)
        if known is not None:
            work.append(known)
            continue
        steps.append(step_of(name, rest))
        if len(steps) > _MOST_STEPS:
            raise PipelineError(f"a pipeline of more than {_MOST_STEPS} passes")
    return steps


def steps_of(name: str, options: str = "") -> list[Step]:
    """Return the passes of a pass or pipeline name, with options as text: `a=1 b=2`.

    Raises:
        UnknownNameError: No pass has that name, or it does not have such an option.
    """
    if find_pipeline(name) is None:
        return [step_of(name, options)]
    return parse_pipeline(f"{name}{{{options}}}" if options else name)


def step_of(name: str, options: str = "") -> Step:
    """Return a pass with options as text: `a=1 b=2`.

    Raises:
        UnknownNameError: No pass has that name, or it does not have such an option.
    """
    job = find_pass(name)
    given: dict[str, Any] = {}
    for word in cut(options, str.isspace):
        if not word:
            continue
        key, _, value = word.partition("=")
        option = job.options.get(key)
        if option is None:
            raise PipelineError(
                f"`{job.name}` has no option `{key}`{did_you_mean(key, job.options)}"
            )
        given[key] = _read(job, key, option, _unquoted(value))
    return Step(job, given)


def _read(job: Pass, key: str, option: Option, text: str) -> Any:
    if isinstance(option.default, bool):
        if text not in _TRUTH:
            raise PipelineError(f"`{key}` of `{job.name}` is `{text}`, needs true or false")
        return _TRUTH[text]
    try:
        return option.read(text)
    except ValueError:
        raise PipelineError(f"`{key}` of `{job.name}` cannot be `{text}`") from None


_TRUTH: Final = {"": True, "true": True, "1": True, "false": False, "0": False}


def _unquoted(value: str) -> str:
    """Return a value without quotes or braces around it."""
    if len(value) > 1 and value[0] + value[-1] in ("''", '""', "{}"):
        return value[1:-1]
    return value


def _name_and_options(element: str) -> tuple[str, str, str]:
    """Return the name, the bracket after it, and the text inside the brackets."""
    at = min((place for bracket in "({" if (place := element.find(bracket)) >= 0), default=-1)
    if at < 0:
        return element, "", ""
    name, opened, rest = element[:at].strip(), element[at], element[at + 1 :]
    if not rest.endswith({"(": ")", "{": "}"}[opened]):
        raise PipelineError(f"`{element[:60]}` is not a pass: a bracket is not closed")
    return name, opened, rest[:-1]


def cut(text: str, is_border: Callable[[str], bool]) -> list[str]:
    """Split a text at borders that are outside brackets and quotes.

    Raises:
        PipelineError: Brackets do not match.

    >>> cut("a{x=1,2},b", lambda letter: letter == ",")
    ['a{x=1,2}', 'b']
    """
    return [*_pieces(text, is_border)]


def _pieces(text: str, is_border: Callable[[str], bool]) -> Iterator[str]:
    """Yield the pieces between borders at bracket depth 0; check that brackets match."""
    open_: list[str] = []
    quote, start = "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPENING:
            open_.append(letter)
        # The `>` of `->` in a function type is not a bracket.
        elif letter in _CLOSING and not (letter == ">" and text[at - 1 : at] == "-"):
            if not open_ or open_.pop() != _CLOSING[letter]:
                raise PipelineError(f"`{text[:60]}`: `{letter}` closes nothing")
        elif not open_ and is_border(letter):
            yield text[start:at]
            start = at + 1
    if open_ or quote:
        raise PipelineError(f"`{text[:60]}`: `{quote or open_[-1]}` is not closed")
    yield text[start:]
