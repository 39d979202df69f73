"""Upstream's tests of passes, one program each: run by their RUN lines, judged by their comments.

`python -m tests.passes.chunks [PART] [--failures]` prints how many are right, for all whose source
or id has PART in it; with `--failures` also why each of the others is not.
"""

from __future__ import annotations

import argparse
import json
import shlex
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hloscope.errors import Diagnostic, HloscopeError, ParseError, UnknownNameError
from hloscope.mlir import parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import CommandLine, parse_command_line, run_pipeline
from hloscope.support.source import Source
from hloscope.verifier import expectations, mismatches, verify_mlir
from tests.conftest import SHARED
from tests.filecheck import MismatchError, check, from_records

FILE: Final = SHARED / "conformance/stablehlo/transforms/chunks.jsonl"

EXCEPTIONS: Final[dict[str, str]] = {
    "transforms.stablehlo_aggressive_simplification#0028": (
        "the maximum that is kept is of the other result's minimum; dropping that changes its value"
    ),
}
"""Chunks that do not pass, by id: the reason."""


@dataclass
class Case:
    """One program and one of its RUN lines."""

    chunk: dict[str, Any]
    number: int
    """Of the RUN line."""

    @property
    def name(self) -> str:
        number = f"/{self.number}" if len(self.chunk["run_lines"]) > 1 else ""
        return f"{self.chunk['id']}{number}"

    @property
    def commands(self) -> list[list[str]]:
        """The commands of the RUN line, between pipes."""
        commands: list[list[str]] = [[]]
        for word in shlex.split(self.chunk["run_lines"][self.number]):
            if word == "|":
                commands.append([])
            else:
                commands[-1].append(word)
        return commands


def cases(part: str = "", file: Path = FILE) -> Iterator[Case]:
    """Every program with each RUN line whose source or id has `part` in it."""
    for line in file.read_text().splitlines():
        chunk = json.loads(line)
        if part in chunk["source"] or part in chunk["id"]:
            for number in range(len(chunk["run_lines"])):
                yield Case(chunk, number)


def is_runnable(case: Case) -> bool:
    """Is the RUN line one of our passes, then FileCheck?"""
    try:
        asked(case)
    except UnknownNameError:
        return False
    return [words[0] for words in case.commands[1:]] == ["FileCheck"]


def asked(case: Case) -> CommandLine:
    words = [word for word in case.commands[0] if word not in ("not", "2>&1")]
    assert words[0] == "stablehlo-opt", words
    return parse_command_line(words[1:])


def result(case: Case) -> tuple[str | None, list[Diagnostic]]:
    """What the passes print, if they succeed, and all that they find."""
    line, text = asked(case), case.chunk["text"]
    try:
        tree = parse_mlir(
            text,
            case.chunk["id"],
            dialects=DIALECTS,
            allow_unregistered=line.allow_unregistered,
        )
    except ParseError as error:
        return None, [Diagnostic(error.message, error.span)]
    allow = line.allow_unregistered
    wrong = verify_mlir(tree, allow_unregistered=allow, first_only=True)
    if wrong:
        return None, wrong
    outcome = run_pipeline(tree, line.steps, allow_unregistered=allow)
    if not outcome.ok:
        return None, outcome.diagnostics
    printed = print_mlir(
        outcome.module, dialects=DIALECTS, generic=line.generic, locations=line.locations
    )
    return printed, outcome.diagnostics


def judge(case: Case) -> str:
    """Why the result is not as the comments say; empty if it is."""
    first, *_, last = case.commands
    try:
        output, found = result(case)
    except HloscopeError as error:
        return f"raises {error!r}"
    except Exception:
        return traceback.format_exc()
    is_negated = first[0] == "not"
    if asked(case).verify_diagnostics:
        source = Source(case.chunk["id"], case.chunk["text"])
        wrong = mismatches(expectations(source), found)
        if wrong:
            return "\n".join(map(str, wrong))
    elif (output is None) != is_negated:
        return "\n".join(["succeeds" if is_negated else "fails", *map(str, found)])
    shown = output or ""
    if "2>&1" in first:
        shown += "\n".join(map(str, found))
    try:
        check(shown, from_records(case.chunk["checks"], _prefixes(last)))
    except MismatchError as error:
        return f"{error}\n{shown}\n" + "\n".join(map(str, found))
    return ""


def _prefixes(words: list[str]) -> list[str]:
    given = [word.partition("=")[2] for word in words if word.startswith("--check-prefix")]
    return [prefix for each in given for prefix in each.split(",")] or ["CHECK"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--failures", action="store_true")
    given = parser.parse_args()
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for case in cases(given.part):
        source = Path(case.chunk["source"]).stem
        total[source] += 1
        why = judge(case) if is_runnable(case) else "no such pass"
        right[source] += not why
        if why and given.failures:
            print(f"==== {case.name}\n{case.chunk['text']}\n---- {why}")
    for source, count in total.items():
        print(f"{source}: {right[source]} of {count}")


if __name__ == "__main__":
    main()
