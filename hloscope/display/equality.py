"""Comparisons of maps, instructions and programs, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hloscope.arrays import np
from hloscope.compare import ValueRuns
from hloscope.display.results import result_json, result_text
from hloscope.ir import TensorType
from hloscope.proof import Compared
from hloscope.simplifier import Proof, Verdict

_MOST_SHOWN: Final = 64
"""Arguments of more elements are shown by their statistics."""
SAME_ELEMENTS: Final = "same elements read; values not compared"
"""Verdict on instructions and programs that read the same."""


def comparison_text(found: list[Compared], verdict: Verdict, equal: str = "equal") -> Iterator[str]:
    """Yield the verdict, then the comparisons that are not proved; equal ones share a line.

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
    """The counterexample with its devices, or the reason."""
    example = proof.counter_example
    if example is not None and proof.reason:
        return f": {example}: {proof.reason}"
    why = example or proof.reason
    return f": {why}" if why else ""


def compared_json(compared: Compared) -> dict[str, Any]:
    """One comparison as JSON."""
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


def value_runs_text(found: ValueRuns) -> Iterator[str]:
    """Runs of two programs: no difference found, or the first difference with its arguments."""
    on = f" on {found.replicas} x {found.partitions} devices (replicas x partitions)"
    where = on if found.replicas * found.partitions > 1 else ""
    if found.divided:
        where += f", {found.divided} partitioned"
    if found.types:
        yield f"different: {found.types}"
        return
    runs = f"{found.runs} run{'s' * (found.runs != 1)}"
    shown = found.difference
    if shown is None:
        said = f"no difference found in {runs}{where}"
        yield f"undecided: {found.reason} ({said})" if found.reason else said
        return
    yield f"different: values differ in run {shown.run}{where}"
    device = f" of device {shown.device}" if shown.device is not None else ""
    apart = shown.difference
    yield (
        f"  output {shown.output}{device} at {list(apart.index)}: {apart.found} in A,"
        f" {apart.expected} in B; {apart.count:,} of {apart.size:,} elements differ"
    )
    for number, (name, type_, value) in enumerate(shown.inputs):
        brief = not isinstance(type_, TensorType) or np.asarray(value).size > _MOST_SHOWN
        yield f"  argument {number} `{name}`: {result_text(value, type_, brief=brief)}"


def value_runs_json(found: ValueRuns) -> dict[str, Any]:
    """Runs of two programs as JSON."""
    shown = found.difference
    verdict = "refuted" if shown is not None or found.types else "no difference found"
    return {
        "what": "values",
        "verdict": "undecided" if found.reason else verdict,
        "compared": [],
        "runs": found.runs,
        "replicas": found.replicas,
        "partitions": found.partitions,
        "partitioned": found.divided or None,
        "reason": found.types or found.reason or None,
        "difference": None
        if shown is None
        else {
            "run": shown.run,
            "output": shown.output,
            "device": None if shown.device is None else list(shown.device),
            "index": [int(n) for n in shown.difference.index],
            "A": str(shown.difference.found),
            "B": str(shown.difference.expected),
            "elements": shown.difference.count,
            "of": shown.difference.size,
            "arguments": [
                {"name": name, "value": result_json(value, type_)}
                for name, type_, value in shown.inputs
            ],
        },
    }
