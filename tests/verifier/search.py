"""Asks everything about changed programs, and prints those whose answers contradict each other.

    python -m tests.verifier.search LANGUAGE FIRST LAST [--show N] [--count]

The numbers are seeds; the same seed is always the same program.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Final, Protocol

import hloscope
from tests.verifier import hlo_programs, stablehlo_programs
from tests.verifier.ends import disagreements

SLOW: Final = 2.0
"""Seconds of the processor within which everything about a program is answered."""


class Changed(Protocol):
    """A program of some ops."""

    @property
    def ops(self) -> tuple[str, ...]:
        """Names of its ops, the one it is about last."""

    def text(self) -> str:
        """The module."""


LANGUAGES: Final[dict[str, Callable[[int], Changed]]] = {
    "hlo": hlo_programs.program_of,
    "mlir": stablehlo_programs.program_of,
}


@dataclass
class Report:
    """How often each op was accepted and refused, and what contradicts: seed, text, answers."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    found: list[tuple[int, str, list[str]]] = field(default_factory=list)


def search(language: str, seeds: Iterable[int], *, timed: bool = True) -> Report:
    """Ask everything about the programs of these seeds; `timed`: soon enough, too?"""
    report = Report()
    for seed in seeds:
        program = LANGUAGES[language](seed)
        text = program.text()
        wrong = disagreements(text, seed, soon=SLOW if timed else inf)
        if wrong:
            report.found.append((seed, text, wrong))
        counter = report.accepted if is_accepted(text) else report.refused
        counter.update(set(program.ops))
    return report


def is_accepted(text: str) -> bool:
    """Does the verifier find nothing?  Where it fails, it does not accept; that is a finding."""
    try:
        return not hloscope.verify(text)
    except Exception:
        return False


def _kind(wrong: list[str]) -> str:
    return re.sub(r"%?\b[a-h]\b|\d+|\{[^}]*\}", "", wrong[0])[:100]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("language", choices=sorted(LANGUAGES))
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--show", type=int, default=2, help="programs of each kind")
    parser.add_argument("--count", action="store_true", help="print how often each op occurs")
    given = parser.parse_args()
    warnings.simplefilter("error")
    total, shown = Report(), Counter[str]()
    for seed in range(given.first, given.last):
        report = search(given.language, [seed])
        total.accepted += report.accepted
        total.refused += report.refused
        for _, text, wrong in report.found:
            shown[_kind(wrong)] += 1
            if shown[_kind(wrong)] <= given.show:
                print(f"# seed {seed}: {'; '.join(wrong)}\n{text}", flush=True)
    print(f"{given.last - given.first} programs, {shown.total()} with contradictions")
    print(*shown.most_common(), sep="\n")
    accepted, refused = total.accepted, total.refused
    if given.count:
        for op in sorted({*accepted, *refused}):
            print(f"{op:35} {accepted[op]:6} accepted {refused[op]:6} refused")


if __name__ == "__main__":
    main()
