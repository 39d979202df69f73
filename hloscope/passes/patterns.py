"""Rewrite patterns: rows of a name, the ops they start from, a benefit, and a function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from hloscope.mlir import Operation
from hloscope.passes.rewriting import Rewriter

Rewrite: TypeAlias = "Callable[[Rewriter, Operation], bool]"
"""Changes the module around an operation, if it can: then the answer is true.

One that answers false has changed nothing.
"""


class Pattern(NamedTuple):
    """One rewrite.

    Attributes:
        name: By which statistics and tests call it.
        roots: Full names of the ops it starts from; empty for all.
        rewrite: What it does.
        benefit: Those with more are tried first; among equals the one that is listed first.
    """

    name: str
    roots: tuple[str, ...]
    rewrite: Rewrite
    benefit: int = 1


class Patterns:
    """Patterns in the order they are tried; a room of patterns lists its own by `on`.

    >>> patterns = Patterns()
    >>> @patterns.on("stablehlo.add")
    ... def add_zero(rewriter, op):
    ...     return False
    >>> [pattern.name for pattern in patterns]
    ['add_zero']
    """

    def __init__(self, given: Iterable[Pattern] = ()) -> None:
        self._rows: Final = list(given)

    def on(self, *roots: str, benefit: int = 1) -> Callable[[Rewrite], Rewrite]:
        """List the decorated function as a pattern for these ops; for all if none is named."""

        def listed(rewrite: Rewrite) -> Rewrite:
            self._rows.append(Pattern(rewrite.__name__, roots, rewrite, benefit))
            return rewrite

        return listed

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self._rows)

    def __add__(self, others: Iterable[Pattern]) -> Patterns:
        return Patterns([*self._rows, *others])

    def with_benefit(self, benefit: int) -> Patterns:
        """The same patterns, all of this benefit."""
        return Patterns(pattern._replace(benefit=benefit) for pattern in self)


class Chooser:
    """Finds the patterns of an operation by its name, best first."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._patterns: Final = sorted(patterns, key=lambda pattern: -pattern.benefit)
        self._known: Final[dict[str, tuple[Pattern, ...]]] = {}
        self.fired: Final[Counter[str]] = Counter()
        """How often each pattern changed something."""

    def of(self, name: str) -> tuple[Pattern, ...]:
        """The patterns for the ops of a name."""
        found = self._known.get(name)
        if found is None:
            fit = [p for p in self._patterns if not p.roots or name in p.roots]
            # Of equal benefit, what is for this op comes before what is for all.
            fit.sort(key=lambda pattern: (-pattern.benefit, not pattern.roots))
            found = self._known[name] = tuple(fit)
        return found

    def rewrite(self, rewriter: Rewriter, operation: Operation) -> bool:
        """Apply the first pattern that fits."""
        for pattern in self.of(operation.name):
            if pattern.rewrite(rewriter, operation):
                self.fired[pattern.name] += 1
                return True
        return False
