"""LLVM's FileCheck, as far as the conformance corpus uses it.

    check(output, directives(source))          # lines `// CHECK-NEXT: …` of a source
    check(output, from_records(chunk["checks"]))

Source: LLVM's FileCheck manual.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_DIRECTIVE = re.compile(
    r"(?<![\w-])(?P<prefix>{prefixes})(?:-(?P<kind>LABEL|NEXT|SAME|DAG|NOT|EMPTY|COUNT-\d+))?"
    r"(?P<literal>{{LITERAL}})?:(?P<text>.*)".replace("{{LITERAL}}", r"\{LITERAL\}")
)
_PART = re.compile(
    r"\{\{(?P<regex>.*?)\}\}"
    r"|\[\[#(?:(?P<number>\w+):)?(?P<value>[^\]]*)\]\]"
    r"|\[\[(?P<name>\$?\w+)(?::(?P<pattern>(?:[^\]]|\](?!\]))*\]?))?\]\]"
)
_POSIX = {"alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "space": r"\s", "upper": "A-Z"}


@dataclass(frozen=True)
class Check:
    """One directive: `kind` is LABEL, NEXT, SAME, DAG, NOT, EMPTY, COUNT-n or nothing."""

    kind: str
    text: str
    literal: bool = False
    line: int = 0


class MismatchError(AssertionError):
    """The text is not as the directives say."""


def directives(source: str, prefixes: Sequence[str] = ("CHECK",)) -> list[Check]:
    """The directives in the comments of a source."""
    pattern = re.compile(_DIRECTIVE.pattern.replace("{prefixes}", "|".join(prefixes)))
    found = ((n, pattern.search(line)) for n, line in enumerate(source.splitlines(), 1))
    return [Check(m["kind"] or "", m["text"].strip(), bool(m["literal"]), n) for n, m in found if m]


def from_records(
    records: Iterable[Mapping[str, Any]], prefixes: Sequence[str] = ("CHECK",)
) -> list[Check]:
    """The directives of a chunk record of the corpus."""
    return [
        Check(r["kind"] or "", r["text"].strip(), r["literal"], r["line"])
        for r in records
        if r["prefix"] in prefixes
    ]


def check(output: str, checks: Sequence[Check]) -> None:
    """Raise `MismatchError` unless the output is as the directives say."""
    _Run(_squeezed(output)).run(list(checks))


def _squeezed(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


class _Run:
    def __init__(self, output: str) -> None:
        self.output = output
        self.values: dict[str, str] = {}

    def run(self, checks: list[Check]) -> None:
        labels = [i for i, c in enumerate(checks) if c.kind == "LABEL"]
        places, at = [], 0
        for i in labels:
            found = self.find(checks[i], at, len(self.output))
            places.append((i, found))
            at = found.end()
        edges = [(-1, 0, 0), *((i, f.start(), f.end()) for i, f in places)]
        for (first, _, at), (last, end, _) in zip(
            edges, [*edges[1:], (len(checks), len(self.output), 0)], strict=True
        ):
            self.block(checks[first + 1 : last], at, end)

    def block(self, checks: list[Check], at: int, end: int) -> None:
        """The directives between two labels."""
        unwanted: list[Check] = []
        together: list[tuple[int, int]] = []  # where those of a group of DAG are
        group = at
        for c in checks:
            if c.kind == "NOT":
                if together:
                    at, together = max(e for _, e in together), []
                unwanted.append(c)
                continue
            if c.kind == "DAG":
                if not together:
                    group = at
                start, stop = self.dag(c, group, end, together)
                self.absent(unwanted, at, start)
                unwanted = []
                together.append((start, stop))
                continue
            if together:
                at, together = max(e for _, e in together), []
            start, stop = self.one(c, at, end)
            self.absent(unwanted, at, start)
            unwanted = []
            at = stop
        if together:
            at = max(e for _, e in together)
        self.absent(unwanted, at, end)

    def dag(self, c: Check, at: int, end: int, taken: list[tuple[int, int]]) -> tuple[int, int]:
        while True:
            found = self.find(c, at, end)
            clash = [e for s, e in taken if s < found.end() and found.start() < e]
            if not clash:
                return found.start(), found.end()
            at = max(clash)

    def one(self, c: Check, at: int, end: int) -> tuple[int, int]:
        if c.kind.startswith("COUNT-"):
            first = at
            for number in range(int(c.kind[6:])):
                found = self.find(c, at, end)
                first = found.start() if number == 0 else first
                at = found.end()
            return first, at
        if c.kind == "EMPTY":
            found = re.compile(r"\n(?=\n|\Z)").search(self.output, at, end)
            if found is None or self.output[at : found.start()].strip(" ").count("\n"):
                raise MismatchError(f"line {c.line}: no empty line follows")
            return found.end(), found.end()
        found = self.find(c, at, end)
        lines = self.output.count("\n", at, found.start())
        if c.kind == "NEXT" and lines != 1:
            raise MismatchError(f"line {c.line}: `{c.text}` is {lines} lines on:\n{self.near(at)}")
        if c.kind == "SAME" and lines:
            raise MismatchError(f"line {c.line}: `{c.text}` is not on that line:\n{self.near(at)}")
        return found.start(), found.end()

    def absent(self, checks: list[Check], at: int, end: int) -> None:
        for c in checks:
            if self.pattern(c).search(self.output, at, end):
                raise MismatchError(f"line {c.line}: `{c.text}` is there")

    def find(self, c: Check, at: int, end: int) -> re.Match[str]:
        pattern = self.pattern(c)
        found = pattern.search(self.output, at, end)
        if found is None:
            raise MismatchError(f"line {c.line}: no `{c.text}` in\n{self.near(at)}")
        for group, value in found.groupdict().items():
            self.values[_name(group)] = value
        return found

    def near(self, at: int) -> str:
        return self.output[at : at + 600]

    def pattern(self, c: Check) -> re.Pattern[str]:
        text = _squeezed(c.text)
        if c.literal:
            return re.compile(re.escape(text))
        parts, at, seen = [], 0, set()
        for part in _PART.finditer(text):
            parts.append(re.escape(text[at : part.start()]))
            at = part.end()
            name = part["name"] or part["number"]
            if part["regex"] is not None:
                parts.append(f"(?:{_posix(part['regex'])})")
            elif name and (part["pattern"] is not None or part["number"]):
                parts.append(f"(?P<{_group(name)}>{_posix(part['pattern'] or '[0-9]+')})")
                seen.add(name)
            elif name in seen:
                parts.append(f"(?P={_group(name)})")
            else:
                name = name or part["value"].strip()
                if name not in self.values:
                    raise MismatchError(f"line {c.line}: `{name}` is not defined")
                parts.append(re.escape(self.values[name]))
        parts.append(re.escape(text[at:]))
        return re.compile("".join(parts), re.MULTILINE)


def _posix(regex: str) -> str:
    regex = re.sub(r"\[:(\w+):\]", lambda m: _POSIX[m[1]], regex)
    return re.sub(r"\((?!\?)", "(?:", re.sub(r"\\\(", "\0", regex)).replace("\0", r"\(")


def _group(name: str) -> str:
    return name.replace("$", "global__")


def _name(group: str) -> str:
    return group.replace("global__", "$")
