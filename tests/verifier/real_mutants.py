"""Real programs with one thing changed, in HLO and in StableHLO as its printers write it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.verifier.faults import faults

MOST_CHARACTERS = 20_000
"""Longer programs are left out: they take long and say no more."""


class Mutant(NamedTuple):
    """A program that was changed.

    Attributes:
        name: File that it was made of.
        kind: What was changed.
        line: The changed line.
        text: The whole program.
    """

    name: str
    kind: str
    line: str
    text: str


def programs(folder: Path, language: str) -> list[Path]:
    """The real programs of a language, `hlo` or `stablehlo`."""
    endings = ("hlo.txt", "opt.hlo.txt") if language == "hlo" else ("stablehlo.mlir",)
    found = {path for ending in endings for path in folder.glob(f"*.{ending}")}
    return sorted(p for p in found if ".gpu." not in p.name and p.stat().st_size < MOST_CHARACTERS)


def mutants(folder: Path, language: str, count: int) -> Iterator[Mutant]:
    """Yield `count` programs with one change each, spread over all files."""
    paths = programs(folder, language)
    makers = {path: _mutants_of(path, language, seed) for seed, path in enumerate(paths)}
    while count and makers:
        for path, maker in list(makers.items()):
            mutant = next(maker, None)
            if mutant is None:
                del makers[path]
                continue
            yield mutant
            count -= 1
            if not count:
                return


def _mutants_of(path: Path, language: str, seed: int) -> Iterator[Mutant]:
    text, random = path.read_text(), Random(seed)
    planted = faults(text, seed) if language == "hlo" else iter(())
    kinds = list((_HLO if language == "hlo" else _STABLEHLO).items())
    lines = text.split("\n")
    while True:
        if language == "hlo" and random.random() < 0.5:
            fault = next(planted, None)
            if fault is not None:
                yield Mutant(path.name, fault.kind, fault.line, fault.text)
                continue
        kind, change = random.choice(kinds)
        at = random.randrange(len(lines))
        changed = change(lines[at], lines, random)
        if changed is not None and changed != lines[at]:
            whole = "\n".join([*lines[:at], changed, *lines[at + 1 :]])
            yield Mutant(path.name, kind, changed, whole)


Change = Callable[[str, list[str], Random], str | None]


def _swap(pattern: str, other: Callable[[str, list[str], Random], str | None]) -> Change:
    """A change of one match of a pattern in a line that defines something."""
    compiled = re.compile(pattern)

    def change(line: str, lines: list[str], random: Random) -> str | None:
        found = list(compiled.finditer(line)) if " = " in line else []
        if not found:
            return None
        one = random.choice(found)
        new = other(one[0], lines, random)
        return None if new is None else line[: one.start()] + new + line[one.end() :]

    return change


def _number(text: str, _: list[str], random: Random) -> str:
    return str(max(0, int(text) + random.choice([-1, 1, 2, 100])))


def _one_of(*words: str) -> Callable[[str, list[str], Random], str]:
    return lambda text, lines, random: random.choice([w for w in words if w != text])


def _name_elsewhere(pattern: str) -> Callable[[str, list[str], Random], str | None]:
    compiled = re.compile(pattern)

    def other(text: str, lines: list[str], random: Random) -> str | None:
        for _ in range(8):
            found = compiled.findall(random.choice(lines))
            if found:
                return str(random.choice(found))
        return None

    return other


def _gone(line: str, lines: list[str], random: Random) -> str | None:
    return "" if " = " in line and not line.rstrip().endswith("{") else None


def _header(line: str, lines: list[str], random: Random) -> str | None:
    """One number of the first line, another."""
    numbers = list(re.finditer(r"(?<=[\[,{(])\d+(?=[\],})])", line))
    if not line.startswith("HloModule") or not numbers:
        return None
    one = random.choice(numbers)
    return f"{line[: one.start()]}{int(one[0]) + 1}{line[one.end() :]}"


_UNARY = "abs negate sine cosine exponential log sqrt tanh floor sign not".split()
_BINARY = "add subtract multiply divide maximum minimum power remainder and or xor".split()

_HLO: dict[str, Change] = {
    "unary": _swap(rf"\b(?:{'|'.join(_UNARY)})(?=\()", _one_of(*_UNARY)),
    "binary": _swap(rf"\b(?:{'|'.join(_BINARY)})(?=\()", _one_of(*_BINARY)),
    "layout": _swap(r"(?<=\{)\d(?:,\d)+(?=\})", lambda t, _, r: ",".join(reversed(t.split(",")))),
    "type": _swap(r"\b(?:f32|s32|pred|f64|u32|s64)(?=\[)", _one_of("f32", "s32", "pred", "bf16")),
    "rank": _swap(r"(?<=\[)\d+(?=[,\]])", lambda text, _, random: f"{text},1"),
    "callee": _swap(
        r"(?:to_apply|calls|body)=[\w.%-]+",
        _name_elsewhere(r"(?:to_apply|calls|body)=[\w.%-]+"),
    ),
    "direction": _swap(r"(?<=direction=)\w\w", _one_of("LT", "GE", "EQ", "XX")),
    "index": _swap(r"(?<=index=)\d+", _number),
    "root": _swap(r"^  ROOT ", lambda *_: "  "),
    "gone": _gone,
    "header": _header,
}
_OPS = r"(?<=stablehlo\.)(?:{})\b".format
_STABLEHLO: dict[str, Change] = {
    "unary": _swap(_OPS("|".join(_UNARY)), _one_of(*_UNARY)),
    "binary": _swap(_OPS("|".join(_BINARY)), _one_of(*_BINARY)),
    "size": _swap(r"(?<=[<x])\d+(?=x)", lambda t, lines, r: r.choice(["?", _number(t, lines, r)])),
    "element": _swap(r"(?<=[<x])(?:f32|i32|i1|f64|ui32|i64|bf16)(?=>)", _one_of("f32", "i1", "i8")),
    "rank": _swap(r"(?<=<)\d+x", lambda text, _, random: random.choice(["", text + "1x"])),
    "operand": _swap(r"%[\w#]+(?!.* = )", _name_elsewhere(r"%[\w#]+")),
    "missing": _swap(r", %[\w#]+", lambda *_: ""),
    "attribute": _swap(r"(?<=[\[ :])\d+(?=[\],:])", _number),
    "direction": _swap(r"\b(?:LT|GT|GE|LE|EQ|NE)\b", _one_of("LT", "GE", "XX")),
    "callee": _swap(r"@\w+", _name_elsewhere(r"@\w+")),
    "gone": _gone,
}
