"""Passes: a name, options and a function that rewrites a module."""

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
"""Number of last diagnostics among which duplicates are found: patterns are tried repeatedly."""


class PassError(HloscopeError):
    """A pass did not succeed; `diagnostics` holds its errors, in the order of discovery."""

    diagnostics: tuple[Diagnostic, ...] = ()


def names(text: str) -> tuple[str, ...]:
    """Split the text of an option at commas; blanks around names are dropped.

    >>> names("a, b,")
    ('a', 'b')
    """
    return tuple([word.strip() for word in text.split(",") if word.strip()])


class Option(Struct, frozen=True):
    """An option of a pass: default value, help text and parser of its text."""

    default: Any
    help: str
    read: Callable[[str], Any] = str


class Run(Struct):
    """One run of a pass over a module.

    Attributes:
        rewriter: The module being rewritten.
        options: Values of all options.
        diagnostics: Errors and warnings of the pass.
        fired: Number of applications by pattern.
        failed: True if the pass did not succeed; some passes fail without a diagnostic.
    """

    rewriter: Rewriter
    options: Mapping[str, Any]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    failed: bool = False

    def error(self, operation: Operation, message: str, *, fails: bool = True) -> None:
        """Report an error at an operation, with the op's name before `message`.

        Args:
            operation: Location of the error.
            message: Text after the op's name.
            fails: Does the pass fail?  Some passes report errors and succeed.
        """
        self.plain_error(operation, f"'{operation.name}' op {message}", fails=fails)

    def plain_error(self, operation: Operation, message: str, *, fails: bool = True) -> None:
        """Report an error whose message does not name the op; a repeated one is reported once."""
        found = Diagnostic(message, operation.span)
        if found not in self.diagnostics[-_LOOKED_BACK:]:
            self.diagnostics.append(found)
        self.failed |= fails

    def functions(self) -> Iterator[Operation]:
        """Yield the functions of the module, in order."""
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
        """Apply patterns in an operation until none applies; return whether that came to an end."""
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
        """Apply patterns in all functions, last op first; the run fails if there is no end."""
        for function in self.functions():
            self.failed |= not self.greedy(function, patterns, top_down=False)


def until_none_fits(patterns: Iterable[Pattern], name: str) -> Callable[[Run], None]:
    """Return the function of a pass that applies patterns in each function until none applies.

    The pass reports an error, and fails, if there is no end.

    Args:
        patterns: The patterns.
        name: Name of the pass in upstream's message.
    """

    def run(about: Run) -> None:
        for function in about.functions():
            if not about.greedy(function, patterns):
                about.error(function, f"Failed to converge {name} in {ITERATIONS} iterations")

    return run


class Pass(Struct, frozen=True):
    """A pass over modules.

    Attributes:
        name: Upstream's name, such as `stablehlo-refine-shapes`.
        run: Function that rewrites the module of a `Run`.
        help: One line of help.
        options: Options by name.
        on_functions: True if upstream runs the pass on functions, not on a module.
    """

    name: str
    run: Callable[[Run], None]
    help: str
    options: Mapping[str, Option] = field(default_factory=dict)
    on_functions: bool = False

    def apply(self, module: Operation, **options: Any) -> tuple[Operation, Run]:
        """Return the rewritten module and the run; `module` is not changed.

        Raises:
            PassError: The pass did not succeed.
        """
        run = self.change(Rewriter(module), options)
        if run.failed:
            raise _failure(self.name, run)
        return run.rewriter.finish(), run

    def change(self, rewriter: Rewriter, options: Mapping[str, Any]) -> Run:
        """Rewrite the module of `rewriter` in place; if the run failed, the module is unusable."""
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
