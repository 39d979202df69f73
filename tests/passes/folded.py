"""Programs for the tests of folding and simplifying: small bodies, one pass, its text."""

from __future__ import annotations

from collections.abc import Iterable

from hloscope.mlir import Operation
from hloscope.passes import Pass, Pattern, Run
from hloscope.stablehlo import parse_stablehlo, print_stablehlo


def pass_of(patterns: Iterable[Pattern]) -> Pass:
    """A pass that applies these patterns to each function, the last operation first."""
    rows = list(patterns)

    def run(run: Run) -> None:
        for function in run.functions():
            run.greedy(function, rows, top_down=False)

    return Pass("patterns", run, "Applies patterns.")


def applied(patterns: Iterable[Pattern], text: str) -> tuple[Operation, Run]:
    """The module after the patterns, and what fired."""
    return pass_of(patterns).apply(parse_stablehlo(text).tree)


def text_after(patterns: Iterable[Pattern], text: str) -> str:
    """The text of the module after the patterns."""
    module, _ = applied(patterns, text)
    return print_stablehlo(module)


def ops_after(patterns: Iterable[Pattern], text: str) -> list[str]:
    """Names of the operations of the first function that are neither constants nor its return."""
    module, _ = applied(patterns, text)
    (function, *_) = module.regions[0].blocks[0]
    return [
        op.name.removeprefix("stablehlo.")
        for op in function.regions[0].blocks[0]
        if not op.name.endswith((".constant", "func.return"))
    ]
