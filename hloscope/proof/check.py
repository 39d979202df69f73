"""Results of checking maps against the program."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hloscope.proof.violation import Violation
from hloscope.simplifier import CounterExample


class Outcome(StrEnum):
    """Result for all maps of one operand."""

    PROVED = "proved"
    """The maps equal the program's, for all elements and all values read at run time."""
    SAMPLED = "sampled"
    """No difference was found for the sampled elements and values read at run time."""
    REFUTED = "refuted"
    """The maps are wrong; there is a counter-example."""
    UNDECIDED = "undecided"
    """Neither proved nor refuted; there is a reason."""
    UNCLAIMED = "unclaimed"
    """The maps state nothing: their precision is `unknown`."""


class Executed(Struct, frozen=True):
    """Evidence about the maps of one operand from executing the program.

    Attributes:
        runs: Number of executions.
        seen: Number of pairs of elements with an observed dependence.
        pairs: Number of pairs in the maps, for the output elements that were compared.
        shapes: Types of the smaller test program that was run; empty if the program itself was run.
        reason: Why nothing was run.
        violation: An element that changes an output element, and is not in its maps.
    """

    runs: int = 0
    seen: int = 0
    pairs: int = 0
    shapes: str = ""
    reason: str = ""
    violation: Violation | None = None

    def __str__(self) -> str:
        if self.reason:
            return f"not executed: {self.reason}"
        at = f" at {self.shapes}" if self.shapes else ""
        return f"executed {self.runs}{at}, seen {self.seen} of {self.pairs}"

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as JSON data."""
        if self.reason:
            return {"runs": 0, "reason": self.reason}
        return {
            "runs": self.runs,
            "seen": self.seen,
            "pairs": self.pairs,
            "instance": self.shapes or None,
        }


class Check(Struct, frozen=True):
    """Result of checking the maps of one operand.

    Attributes:
        outcome: The result.
        by: Methods that decided: `isl`, `enumerated 96`, `sampled 32, seed 0`.
        reason: Why it is undecided, or why isl did not decide.
        counter_example: A pair that only the maps (`only_in` 0) or only the program (1) has.
        superset: The maps claim to contain the program's relation, and only that was checked.
        seconds: Time of the check.
        executed: Evidence from execution, if requested.
    """

    outcome: Outcome
    by: tuple[str, ...] = ()
    reason: str = ""
    counter_example: CounterExample | None = None
    superset: bool = False
    seconds: float = 0.0
    executed: Executed | None = None

    def __repr__(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        reason = f": {self.reason}" if self.reason else ""
        counter = f"; {self.counter_example}" if self.counter_example else ""
        return f"<Check {self.outcome}{by}{reason}{counter}>"

    @property
    def is_refuted(self) -> bool:
        """Are the maps wrong?"""
        return self.outcome is Outcome.REFUTED

    def __str__(self) -> str:
        shown = "" if self.executed is None or self.is_refuted else f"; {self.executed}"
        return f"{self._decided}{shown}"

    @property
    def _decided(self) -> str:
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
        """Text of the counter-example."""
        violation = self.executed.violation if self.executed is not None else None
        if violation is not None:
            return str(violation)
        example = self.counter_example
        if example is None:
            return self.reason
        here, there = (f"({', '.join(map(str, t))})" for t in (example.dims, example.results))
        where = ("the maps, not in the program", "the program, not in the maps")[example.only_in]
        return f"{here} -> {there} is in {where}"

    def to_json(self) -> dict[str, Any]:
        """Return the check as JSON data."""
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
        if self.executed is not None:
            found["executed"] = self.executed.to_json()
        return found


_WORST: tuple[Outcome, ...] = (
    Outcome.REFUTED,
    Outcome.UNDECIDED,
    Outcome.UNCLAIMED,
    Outcome.SAMPLED,
    Outcome.PROVED,
)


def combined(checks: Sequence[Check]) -> Check:
    """Combine the checks of several tensors: the weakest outcome of any.

    >>> print(combined([Check(Outcome.PROVED, ("isl",)), Check(Outcome.UNDECIDED, reason="big")]))
    undecided: big
    """
    if not checks:
        return Check(Outcome.UNCLAIMED)
    if len(checks) == 1:
        return checks[0]
    worst = min(checks, key=lambda check: _WORST.index(check.outcome))
    seconds = sum(check.seconds for check in checks)
    executed = _together([c.executed for c in checks if c.executed is not None])
    superset = any(c.superset for c in checks)
    return replace(worst, superset=superset, seconds=seconds, executed=executed)


def _together(parts: Sequence[Executed]) -> Executed | None:
    """Combine the evidence for several tensors of one value; `None` for none."""
    done = [part for part in parts if not part.reason]
    if not done:
        return parts[0] if parts else None
    return replace(
        done[0],
        seen=sum(part.seen for part in done),
        pairs=sum(part.pairs for part in done),
        violation=next((part.violation for part in done if part.violation), None),
    )
