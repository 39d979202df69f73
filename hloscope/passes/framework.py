"""What a pass is: a row of a name, options and a function that rewrites a module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from hloscope.errors import Diagnostic, HloscopeError
from hloscope.mlir import Operation
from hloscope.passes.greedy import ITERATIONS, GreedyDriver
from hloscope.passes.patterns import Chooser, Pattern
from hloscope.passes.rewriting import Rewriter

_LOOKED_BACK: Final = 100
"""Among so many diagnostics the same one is looked for: patterns are tried more than once."""


class PassError(HloscopeError):
    """A pass could not do what it is for; `diagnostics` says why, in the order it was found."""

    diagnostics: tuple[Diagnostic, ...] = ()


def names(text: str) -> tuple[str, ...]:
    """The names of an option, which commas separate.

    >>> names("a, b,")
    ('a', 'b')
    """
    return tuple([word.strip() for word in text.split(",") if word.strip()])


class Option(Struct, frozen=True):
    """An option of a pass: its default, what it is for, and how its text is read."""

    default: Any
    help: str
    read: Callable[[str], Any] = str


class Run(Struct):
    """One run of a pass over a module.

    Attributes:
        rewriter: The module that is changed.
        options: Values of all options.
        diagnostics: Errors and warnings found on the way.
        fired: How often each pattern changed something.
        failed: The pass did not succeed; without a diagnostic for passes that fail silently.
    """

    rewriter: Rewriter
    options: Mapping[str, Any]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    failed: bool = False

    def error(self, operation: Operation, message: str, *, fails: bool = True) -> None:
        """Note an error at an operation; `message` without the name of the op.

        Args:
            operation: Where.
            message: What is wrong.
            fails: The pass does not succeed; some report errors and do.
        """
        self.plain_error(operation, f"'{operation.name}' op {message}", fails=fails)

    def plain_error(self, operation: Operation, message: str, *, fails: bool = True) -> None:
        """Note an error whose message does not name the op; the same one is noted once."""
        found = Diagnostic(message, operation.span)
        if found not in self.diagnostics[-_LOOKED_BACK:]:
            self.diagnostics.append(found)
        self.failed |= fails

    def functions(self) -> Iterator[Operation]:
        """The functions of the module, in order."""
        for block in self.rewriter.module.blocks:
            yield from (op for op in block if op.name == "func.func")

    def greedy(
        self,
        scope: Operation,
        patterns: Iterable[Pattern] | Chooser,
        *,
        top_down: bool = True,
        max_iterations: int = ITERATIONS,
        merges_blocks: bool = True,
    ) -> bool:
        """Apply patterns in an operation until none fits; was there an end?"""
        driver = GreedyDriver(
            self.rewriter,
            scope,
            patterns,
            top_down=top_down,
            max_iterations=max_iterations,
            merges_blocks=merges_blocks,
        )
        before = driver.chooser.fired.copy()
        converged = driver.run()
        self.fired += driver.chooser.fired - before
        return converged

    def greedy_bottom_up(self, patterns: Iterable[Pattern] | Chooser) -> None:
        """Apply patterns in all functions until none fits; without end the run has failed."""
        for function in self.functions():
            self.failed |= not self.greedy(function, patterns, top_down=False)


def until_none_fits(patterns: Iterable[Pattern], name: str) -> Callable[[Run], None]:
    """What a pass does that applies patterns in each function; without end it has failed.

    Args:
        patterns: What is applied.
        name: The pass as upstream's message calls it.
    """

    def run(about: Run) -> None:
        for function in about.functions():
            if not about.greedy(function, patterns):
                about.error(function, f"Failed to converge {name} in {ITERATIONS} iterations")

    return run


class Pass(Struct, frozen=True):
    """A pass.

    Attributes:
        name: As upstream calls it: `stablehlo-refine-shapes`.
        run: Changes the module of a `Run`.
        help: One line on what it does.
        options: By name.
        on_functions: Upstream runs it on each function, not on a module.
    """

    name: str
    run: Callable[[Run], None]
    help: str
    options: Mapping[str, Option] = field(default_factory=dict)
    on_functions: bool = False

    def apply(self, module: Operation, **options: Any) -> tuple[Operation, Run]:
        """The module after the pass, and what happened; `module` stays as it is.

        Raises:
            PassError: The pass did not succeed.
        """
        run = self.change(Rewriter(module), options)
        if run.failed:
            raise _failure(self.name, run)
        return run.rewriter.finish(), run

    def change(self, rewriter: Rewriter, options: Mapping[str, Any]) -> Run:
        """Run over a module that may be changed; `failed` of the answer says if it is no good."""
        unknown = options.keys() - self.options.keys()
        if unknown:
            raise TypeError(f"{self.name} has no option `{min(unknown)}`")
        values = {name: option.default for name, option in self.options.items()}
        run = Run(rewriter, {**values, **options})
        self.run(run)
        return run


def _failure(name: str, run: Run) -> PassError:
    first = next((found for found in run.diagnostics if found.severity == "error"), None)
    message = first.message if first is not None else f"{name} did not succeed"
    error = PassError(message, span=first.span if first is not None else None)
    error.diagnostics = tuple(run.diagnostics)
    return error
