"""Comparisons of maps, instructions and programs, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hloscope.proof import Compared
from hloscope.simplifier import Proof, Verdict

SAME_ELEMENTS: Final = "same elements read; values not compared"
"""Verdict on instructions and programs that read the same."""


def comparison_text(found: list[Compared], verdict: Verdict, equal: str = "equal") -> Iterator[str]:
    """The verdict, then what is not proved, what is alike in one line.

    Args:
        found: The comparisons.
        verdict: Of all of them.
        equal: Words for what is proved.
    """
    word = {Verdict.PROVED: equal, Verdict.REFUTED: "different", Verdict.UNDECIDED: "undecided"}
    proved = sum(c.proof.is_proved for c in found)
    many = f": {proved} of {len(found)} comparisons proved" if len(found) != 1 else ""
    yield f"{word[verdict]}{many}"
    alike: dict[str, list[str]] = {}
    for c in found:
        if not c.proof.is_proved:
            alike.setdefault(f"{word[c.proof.verdict]}{_why(c.proof)}", []).append(c.what)
    for said, (first, *others) in alike.items():
        more = f" and {len(others)} more" if others else ""
        yield f"  {first}{more}: {said}"


def _why(proof: Proof) -> str:
    """The counter-example, and the devices that show it or the reason."""
    example = proof.counter_example
    if example is not None and proof.reason:
        return f": {example}: {proof.reason}"
    why = example or proof.reason
    return f": {why}" if why else ""


def compared_json(compared: Compared) -> dict[str, Any]:
    """One comparison as JSON has it."""
    proof = compared.proof
    example = proof.counter_example
    return {
        "what": compared.what,
        "verdict": str(proof.verdict),
        "reason": proof.reason or None,
        "counter_example": None
        if example is None
        else {
            "index": list(example.dims),
            "touched": list(example.results),
            "only_in": ("A", "B")[example.only_in],
        },
    }
