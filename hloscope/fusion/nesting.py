"""Computations that call others, many levels deep, or themselves.

What an analysis finds out about a computation it builds on what it knows of those that are called,
which would take as many Python frames as calls are nested.  So of a deep chain some computations
are looked at first, the innermost before the others: no more than `EVERY` levels are ever left.
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import Computation, inside_out

EVERY: Final = 16
"""Of so many levels of calls the innermost computation is looked at ahead."""
RECURSIVE: Final = "a function that calls itself"
"""The reason why nothing is known of what such a function reads."""


class Nesting:
    """How deep computations call others; each is looked at once."""

    def __init__(self) -> None:
        self._depth: dict[Computation, int] = {}
        self._ahead: dict[str, set[Computation]] = {}

    def depth(self, computation: Computation) -> int:
        """The number of computations in the longest chain of calls that begins here.

        A call of a computation whose chain is being followed, its own, counts as none.
        """
        depth = self._depth
        if computation not in depth:
            for top in inside_out(computation, depth):
                depth[top] = 1 + max([depth.get(callee, 0) for callee in top.callees], default=0)
        return depth[computation]

    def ahead(self, question: str, computation: Computation) -> list[Computation]:
        """The computations to ask a question about before this one, inner ones first, each once."""
        if self.depth(computation) <= EVERY:
            return []
        asked = self._ahead.setdefault(question, set())
        walked = [*inside_out(computation, asked)]
        asked.update(walked)
        return [
            inner for inner in walked if inner is not computation and not self._depth[inner] % EVERY
        ]
