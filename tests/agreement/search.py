"""Searches generated programs for wrong answers, and prints a smallest program for each kind.

    python -m tests.agreement.search LANGUAGE FIRST LAST [--show N]

The numbers are seeds; the same seed is always the same program.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from tests.agreement.generated import SPELL, FailureError, Report, check, program_of
from tests.generator import HloTextError, Program, shrink, walk


def smallest(program: Program, language: str, kind: str) -> tuple[Program, str]:
    """The smallest program that fails in the same way, and what is said of it."""
    said = [""]

    def fails(candidate: Program) -> bool:
        try:
            check(candidate, language)
        except FailureError as error:
            if error.kind == kind:
                said[0] = str(error)
                return True
        except HloTextError:
            pass  # the candidate captures what cannot be handed in
        return False

    return shrink(program, fails), said[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("language", choices=sorted(SPELL))
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--show", type=int, default=3, help="programs of each kind")
    given = parser.parse_args()
    failures: dict[str, list[tuple[int, str, Program]]] = {}
    total, started = Report(), time.monotonic()
    for seed in range(given.first, given.last):
        program = program_of(seed, given.language)
        try:
            total += check(program, given.language)
        except FailureError as error:
            failures.setdefault(error.kind, []).append((seed, str(error), program))
    seconds = time.monotonic() - started
    count = given.last - given.first
    print(f"{count} programs, {1000 * seconds / count:.1f} ms each")
    print(total)
    print(f"failures: {Counter({kind: len(some) for kind, some in failures.items()})}")
    for kind, some in failures.items():
        known: set[tuple[str, ...]] = set()
        for seed, message, program in sorted(
            some, key=lambda row: len(SPELL[given.language](row[2]))
        ):
            if len(known) >= given.show:
                break
            small, said = smallest(program, given.language, kind)
            ops = tuple(sorted({node.name for node in walk(small.entry)}))
            if ops not in known:
                known.add(ops)
                print(f"\n# seed {seed}: {said or message}\n{SPELL[given.language](small)}")


if __name__ == "__main__":
    main()
