"""Rewrite patterns: a name, the ops they apply to, a benefit, and a function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from hloscope.mlir import Operation
from hloscope.passes.rewriting import Rewriter

Rewrite: TypeAlias = "Callable[[Rewriter, Operation], bool]"
"""Function that rewrites the module at an operation and returns whether it did.

If it returns false, it has changed nothing.
"""


class Pattern(NamedTuple):
    """One rewrite.

    Attributes:
        name: Name in statistics and tests.
        roots: Full names of the ops it applies to; empty for all ops.
        rewrite: The function.
        benefit: Patterns of larger benefit are tried first; among equals, in the order of listing.
    """

    name: str
    roots: tuple[str, ...]
    rewrite: Rewrite
    benefit: int = 1


class Patterns:
    """Patterns in the order of trial; `on` adds one.

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
        """Return a decorator that adds a pattern for these ops; for all ops if none is named."""

        def listed(rewrite: Rewrite) -> Rewrite:
            self._rows.append(Pattern(rewrite.__name__, roots, rewrite, benefit))
            return rewrite

        return listed

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self._rows)

    def __add__(self, others: Iterable[Pattern]) -> Patterns:
        return Patterns([*self._rows, *others])

    def with_benefit(self, benefit: int) -> Patterns:
        """Return the patterns with another benefit."""
        return Patterns(pattern._replace(benefit=benefit) for pattern in self)


class Chooser:
    """Finds and applies the patterns of an operation, by its name."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._patterns: Final = sorted(patterns, key=lambda pattern: -pattern.benefit)
        self._known: Final[dict[str, tuple[Pattern, ...]]] = {}
        self.fired: Final[Counter[str]] = Counter()
        """Number of applications by pattern."""

    def of(self, name: str) -> tuple[Pattern, ...]:
        """Return the patterns for ops of this name, best first."""
        # Every visit of an operation asks for its patterns, and a program has few names of ops.
        found = self._known.get(name)
        if found is None:
            fit = [p for p in self._patterns if not p.roots or name in p.roots]
            # Among equal benefits, patterns for this op come before patterns for all ops.
            fit.sort(key=lambda pattern: (-pattern.benefit, not pattern.roots))
            found = self._known[name] = tuple(fit)
        return found

    def rewrite(self, rewriter: Rewriter, operation: Operation) -> bool:
        """Apply the first pattern that succeeds; false if none does."""
        for pattern in self.of(operation.name):
            if pattern.rewrite(rewriter, operation):
                self.fired[pattern.name] += 1
                return True
        return False
