"""What checking the maps of an answer came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from hloscope.simplifier.isl import CounterExample


class Outcome(StrEnum):
    """What is known about the maps of one operand, together."""

    PROVED = "proved"
    """They are what the program does, for all elements and all values read at run time."""
    SAMPLED = "sampled"
    """No difference was found at some elements, or for some values read at run time."""
    REFUTED = "refuted"
    """They are wrong; the counter-example shows where."""
    UNDECIDED = "undecided"
    """Nobody could say; the reason says why."""
    UNCLAIMED = "unclaimed"
    """They claim nothing: the precision is `unknown`."""


@dataclass(frozen=True, slots=True)
class Check:
    """The proof of the maps of one operand.

    Attributes:
        outcome: What is known.
        by: What decided: `isl`, `enumerated 96`, `sampled 32, seed 0`.
        reason: Why it is undecided, or why isl was of no help.
        counter_example: A pair that only the maps (`only_in` 0) or only the program (1) has.
        superset: Only that they contain what is touched is claimed, and was checked.
        seconds: How long it took.
    """

    outcome: Outcome
    by: tuple[str, ...] = ()
    reason: str = ""
    counter_example: CounterExample | None = None
    superset: bool = False
    seconds: float = 0.0

    @property
    def is_refuted(self) -> bool:
        """Are the maps wrong?"""
        return self.outcome is Outcome.REFUTED

    def __str__(self) -> str:
        means = "; ".join(self.by)
        match self.outcome:
            case Outcome.UNCLAIMED:
                return "nothing is claimed"
            case Outcome.UNDECIDED:
                return f"undecided: {self.reason}"
            case Outcome.REFUTED:
                return f"REFUTED by {means}: {self.disagreement}"
        contained = " (contained)" if self.superset else ""
        why = f"  (isl: {self.reason})" if self.reason else ""
        return f"{means}{contained}{why}"

    @property
    def disagreement(self) -> str:
        """The counter-example in words."""
        example = self.counter_example
        if example is None:
            return self.reason
        here, there = (f"({', '.join(map(str, t))})" for t in (example.dims, example.results))
        where = ("the maps, not in the program", "the program, not in the maps")[example.only_in]
        return f"{here} -> {there} is in {where}"

    def to_json(self) -> dict[str, Any]:
        """The check as JSON has it."""
        found: dict[str, Any] = {"verdict": str(self.outcome), "by": [*self.by]}
        if self.superset:
            found["superset"] = True
        found["reason"] = self.reason or None
        example = self.counter_example
        if example is not None:
            found["counter_example"] = {
                "index": [*example.dims],
                "touched": [*example.results],
                "only_in": ("maps", "program")[example.only_in],
            }
        return found


_WORST: tuple[Outcome, ...] = (
    Outcome.REFUTED,
    Outcome.UNDECIDED,
    Outcome.UNCLAIMED,
    Outcome.SAMPLED,
    Outcome.PROVED,
)


def combined(checks: Sequence[Check]) -> Check:
    """One check for several tensors: the least that is known of any.

    >>> print(combined([Check(Outcome.PROVED, ("isl",)), Check(Outcome.UNDECIDED, reason="big")]))
    undecided: big
    """
    if not checks:
        return Check(Outcome.UNCLAIMED)
    worst = min(checks, key=lambda check: _WORST.index(check.outcome))
    seconds = sum(check.seconds for check in checks)
    return replace(worst, superset=any(c.superset for c in checks), seconds=seconds)
