"""Pipelines: passes with options, their text and execution, and the table of all passes.

Examples of the text of a pipeline:

    refine-arguments{types=tensor<16xf32>},refine-shapes
    builtin.module(stablehlo-refine-shapes, func.func(stablehlo-canonicalize-dynamism))

Source: MLIR's `PassRegistry.cpp` (the text of pipelines, options of passes), `Pass.cpp`.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from hloscope.errors import Diagnostic, UnknownNameError, did_you_mean
from hloscope.mlir import Operation
from hloscope.passes.framework import Option, Pass, PassError, pass_error
from hloscope.passes.rewriting import Rewriter
from hloscope.support.lazy import lazy
from hloscope.verifier import verify_mlir

# --------------------------------------------------------------------------------------------------
# Pipelines: passes with options, their text, and their execution.


_OPENING: Final = "({[<"
_CLOSING: Final = dict(zip(")}]>", _OPENING, strict=True))
_MOST_STEPS: Final = 1000


class PipelineError(UnknownNameError):
    """The text is not a pipeline, or a pass lacks a requested option."""


class Step(Struct, frozen=True):
    """One pass of a pipeline, with the values of its options."""

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
        fired: Name of each step that ran, and how often it applied each pattern.
        failed: Name of the pass that failed, or after which the module was invalid; empty if the
            pipeline succeeded.
    """

    module: Operation
    diagnostics: list[Diagnostic] = field(default_factory=list)
    fired: list[tuple[str, Counter[str]]] = field(default_factory=list)
    failed: str = ""

    @property
    def ok(self) -> bool:
        """Return whether all passes succeeded."""
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
        allow_unregistered: Accept ops that have no definition.
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
    """Return the module after all passes of a pipeline; the input is not changed.

    Raises:
        PassError: A pass failed, or the module after it is invalid.
    """
    outcome = run_pipeline(module, steps)
    if outcome.ok:
        return outcome.module
    raise failure(outcome)


def failure(outcome: Outcome) -> PassError:
    """Return the exception for the outcome of a pipeline that failed."""
    return pass_error(outcome.failed, outcome.diagnostics)


# --------------------------------------------------------------------------------------------- text


def parse_pipeline(text: str) -> list[Step]:
    """Parse a pipeline; `builtin.module(…)`, `func.func(…)` and `any(…)` only group passes.

    Raises:
        UnknownNameError: No pass has that name.
        PipelineError: The text is not a pipeline, or a pass lacks a requested option.

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
    """Return the passes of the pass or pipeline `name`; `options` is a text such as `a=1 b=2`.

    Raises:
        UnknownNameError: No pass has that name, or the pass lacks a requested option.
    """
    if find_pipeline(name) is None:
        return [step_of(name, options)]
    return parse_pipeline(f"{name}{{{options}}}" if options else name)


def step_of(name: str, options: str = "") -> Step:
    """Return the pass `name` with options; `options` is a text such as `a=1 b=2`.

    Raises:
        UnknownNameError: No pass has that name, or the pass lacks a requested option.
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
    """Return the value of option `key` of a pass, parsed from `text`.

    Raises:
        PipelineError: The text is not a value of the option.
    """
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
    """Return an option value without the quotes or braces around it."""
    if len(value) > 1 and value[0] + value[-1] in ("''", '""', "{}"):
        return value[1:-1]
    return value


def _name_and_options(element: str) -> tuple[str, str, str]:
    """Split one element of a pipeline text into name, opening bracket and text in the brackets."""
    brackets = [place for bracket in "({" if (place := element.find(bracket)) >= 0]
    if not brackets:
        return element, "", ""
    at = min(brackets)
    name, opened, rest = element[:at].strip(), element[at], element[at + 1 :]
    if not rest.endswith({"(": ")", "{": "}"}[opened]):
        raise PipelineError(f"`{element[:60]}` is not a pass: a bracket is not closed")
    return name, opened, rest[:-1]


def cut(text: str, is_border: Callable[[str], bool]) -> list[str]:
    """Split a text at characters that are borders, outside brackets and quotes.

    Raises:
        PipelineError: An opening bracket has no matching closing one, or the reverse.

    >>> cut("a{x=1,2},b", lambda letter: letter == ",")
    ['a{x=1,2}', 'b']
    """
    return [*_pieces(text, is_border)]


def _pieces(text: str, is_border: Callable[[str], bool]) -> Iterator[str]:
    """Yield the pieces of a text between border characters outside of brackets.

    `is_border` returns whether a character is a border.

    Raises:
        PipelineError: Brackets do not match.
    """
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


# --------------------------------------------------------------------------------------------------
# Table of all passes by name, each loaded at its first use.
#
# Upstream's names may be written without `stablehlo-`; a pipeline is a name for several passes.


_ROWS: Final = """
    dynamism.refining       REFINE_ARGUMENTS          stablehlo-refine-arguments
    dynamism.refining       REFINE_SHAPES             stablehlo-refine-shapes
    dynamism.shapes         CANONICALIZE_DYNAMISM     stablehlo-canonicalize-dynamism
    dynamism.dimensions     CHECK_SHAPE_ASSERTIONS    stablehlo-check-shape-assertions
    dynamism.exporting      RECOMPOSE                 stablehlo-ext-chlo-recompose-ops
    dynamism.exporting      EXT_REFINE_SHAPES         stablehlo-ext-refine-shapes
    dynamism.exporting      EXT_CANONICALIZE_DYNAMISM stablehlo-ext-canonicalize-dynamism
    dynamism.exporting      VALIDATE                  validate-static-shapes
    folding                 AGGRESSIVE_FOLDER         stablehlo-aggressive-folder
    simplifying             AGGRESSIVE_SIMPLIFICATION stablehlo-aggressive-simplification
    simplifying             TARGET_INDEPENDENT        stablehlo-target-independent-optimization
    legalizing.shape        SHAPE_TO_STABLEHLO        shape-legalize-to-stablehlo
    legalizing.chlo         PASS                      chlo-legalize-to-stablehlo
    legalizing.versions     DEPRECATED                stablehlo-legalize-deprecated-ops
    legalizing.versions     COMPATIBILITY             stablehlo-compatibility-expander
    legalizing.composites   COMPOSITE_TO_CALL         stablehlo-legalize-composite-to-call
    legalizing.composites   WRAP_IN_COMPOSITE         stablehlo-wrap-in-composite
    legalizing.shape        SIGNLESS                  stablehlo-convert-to-signless
    canonicalize            PASS                      canonicalize
    general                 RECONCILE_CASTS           reconcile-unrealized-casts
    general                 CSE                       cse
    general                 STRIP_LOCATIONS           strip-debuginfo
    general                 SYMBOL_DCE                symbol-dce
    general                 INLINE                    inline
    legalizing.quantized    QUANT_TO_MATH             stablehlo-legalize-quant-to-math
    legalizing.quantized    QUANTIZED_TO_QDQ          stablehlo-legalize-quantized-op-to-qdq
    legalizing.quantized    QDQ_TO_QUANTIZED          stablehlo-legalize-qdq-to-quantized-op
    legalizing.complex_math PASS                      stablehlo-complex-math-expander
    legalizing.composites   ADD_PROBES                interpreter-instrument-with-probe
"""
"""One pass per line: module in `hloscope.passes`, variable in it, and one or more pass names."""

PIPELINES: Final[dict[str, str]] = {
    "chlo-pre-serialization-pipeline": (
        "chlo-legalize-to-stablehlo,shape-legalize-to-stablehlo,reconcile-unrealized-casts"
    ),
    "stablehlo-remove-dynamism": (
        "stablehlo-refine-arguments{*},stablehlo-refine-shapes,stablehlo-canonicalize-dynamism"
    ),
}
"""Text of each pipeline, by name; options of the pipeline are inserted at `*`."""


def _table() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for row in _ROWS.strip().splitlines():
        module, variable, *names = row.split()
        for name in names:
            found[name] = f"hloscope.passes.{module}", variable
    return found


PASSES: Final = _table()
"""Module and variable that define each pass, by the pass's name."""

_PREFIX: Final = "stablehlo-"


def find_pass(name: str) -> Pass:
    """Return the pass of this name.

    Raises:
        UnknownNameError: No pass has this name.

    >>> find_pass("refine-arguments").name
    'stablehlo-refine-arguments'
    """
    where = PASSES.get(name) or PASSES.get(_PREFIX + name)
    if where is None:
        raise UnknownNameError(f"no pass is called `{name}`{did_you_mean(name, pass_names())}")
    found: Pass = getattr(lazy(where[0]), where[1])
    return found


def find_pipeline(name: str, options: str = "") -> str | None:
    """Return the text of the pipeline `name`, with options inserted; `None` if there is none.

    Without `options`, passes of the pipeline that would take them are omitted.

    Raises:
        UnknownNameError: The pipeline does not take options.

    >>> find_pipeline("remove-dynamism")
    'stablehlo-refine-shapes,stablehlo-canonicalize-dynamism'
    """
    text = PIPELINES.get(name) or PIPELINES.get(_PREFIX + name)
    if text is None:
        return None
    if options:
        if "{*}" not in text:
            raise UnknownNameError(f"`{name}` has no options")
        return text.replace("{*}", f"{{{options}}}")
    return ",".join(each for each in text.split(",") if not each.endswith("{*}"))


def passes_of(name: str) -> list[str]:
    """Return the names of the passes of a pass or pipeline, passes that need options included.

    Raises:
        UnknownNameError: There is no such pass or pipeline.

    >>> passes_of("cse"), len(passes_of("remove-dynamism"))
    (['cse'], 3)
    """
    text = PIPELINES.get(name) or PIPELINES.get(_PREFIX + name) or name
    return [find_pass(each.removesuffix("{*}")).name for each in text.split(",")]


def is_pass(name: str) -> bool:
    """Is `name` the name of a pass or a pipeline?"""
    return any(full in held for held in (PASSES, PIPELINES) for full in (name, _PREFIX + name))


def pass_names() -> list[str]:
    """Return the names of all passes and pipelines, sorted, without the prefix `stablehlo-`."""
    return sorted(name.removeprefix(_PREFIX) for name in (*PASSES, *PIPELINES))


# --------------------------------------------------------------------------------------------------
# Command lines of upstream's tool: `stablehlo-opt FILE --stablehlo-refine-shapes …`.
#
# Source: MLIR's `MlirOptMain.cpp`, `PassPipelineCLParser`.


_SWITCHES: Final = {
    "split-input-file": "split",
    "verify-diagnostics": "verify_diagnostics",
    "allow-unregistered-dialect": "allow_unregistered",
    "mlir-print-debuginfo": "locations",
    "mlir-print-op-generic": "generic",
    "verify-each": "verify_each",
    "mlir-print-ir-after-all": "print_after_all",
    "mlir-pass-statistics": "statistics",
}
"""Options of `stablehlo-opt` without a value, with the field of `CommandLine` that each sets."""

_WITHOUT_EFFECT: Final = frozenset(
    [
        "mlir-disable-threading",
        "mlir-print-local-scope",
        "mlir-print-op-on-diagnostic",
        "mlir-print-stacktrace-on-diagnostic",
        "no-implicit-module",
    ]
)


_WITH_VALUE: Final = frozenset(["pass-pipeline", "mlir-print-ir-after"])


class CommandLine(Struct):
    """A parsed command line of `stablehlo-opt`.

    Attributes:
        steps: The passes, in order.
        files: Names of the programs' files.
        split: Split each file into several programs.
        verify_diagnostics: Compare the errors with those that comments expect.
        allow_unregistered: Accept ops that have no definition.
        locations: Print locations.
        generic: Print all ops in generic form.
        verify_each: Verify after each pass.
        print_after_all: Print the module after each pass.
        print_after: Names of passes after which the module is printed.
        statistics: Print the number of applications by pattern.
    """

    steps: list[Step] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    split: bool = False
    verify_diagnostics: bool = False
    allow_unregistered: bool = False
    locations: bool = False
    generic: bool = False
    verify_each: bool = True
    print_after_all: bool = False
    print_after: list[str] = field(default_factory=list)
    statistics: bool = False


def is_upstreams(word: str) -> bool:
    """Is `word` an option of `stablehlo-opt`: dashes and the name of an option, pass or pipeline?

    >>> is_upstreams("-split-input-file"), is_upstreams("--cse=x"), is_upstreams("--no-such-thing")
    (True, True, False)
    """
    if not word.startswith("-"):
        return False
    name = word.lstrip("-").partition("=")[0]
    return name in _SWITCHES or name in _WITHOUT_EFFECT or name in _WITH_VALUE or is_pass(name)


def parse_command_line(words: Sequence[str] | str) -> CommandLine:
    """Parse the words after `stablehlo-opt` in a command line.

    Raises:
        UnknownNameError: No pass has this name, or the pass lacks a requested option.

    >>> line = parse_command_line("%s --stablehlo-refine-arguments='types=tensor<4xf32>'")
    >>> line.files, [step.name for step in line.steps]
    (['%s'], ['stablehlo-refine-arguments'])
    """
    line = CommandLine()
    for word in _split(words) if isinstance(words, str) else words:
        if not word.startswith("-") or word == "-":
            # Upstream accepts options with one dash or two.
            line.files.append(word)
            continue
        name, has_value, value = word.lstrip("-").partition("=")
        if name in _SWITCHES:
            setattr(line, _SWITCHES[name], _is_on(name, value) if has_value else True)
        elif name == "pass-pipeline":
            line.steps += parse_pipeline(value)
        elif name == "mlir-print-ir-after":
            line.print_after += value.split(",")
        elif name not in _WITHOUT_EFFECT:
            line.steps += steps_of(name, value)
    return line


def _is_on(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false", "1", "0"):
        raise PipelineError(f"`{name}` is `{value}`, needs true or false")
    return value.lower() in ("true", "1")


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise PipelineError(f"`{text[:60]}`: {error}") from None
