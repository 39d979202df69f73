"""Dynamic programs with something changed, so that many of them still read and verify.

Sizes become others, unknown or huge; values, types, functions and ops take each other's places.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.conftest import SHARED
from tests.passes import dynamic_corpus

_LARGEST: Final = 30_000
_NUMBERS: Final = ["0", "1", "2", "3", "-1", "7", "64", str(2**31), str(2**63 - 1), str(2**63)]
_TYPES: Final = [
    "tensor<*xf32>",
    "tensor<?xi32>",
    "tensor<0xf32>",
    "!stablehlo.token",
    "tensor<?xf32, #stablehlo.bounds<4>>",
]
_LITERALS: Final = ["0", "-1", str(2**63 - 1), "[1, 2]", "", "true"]

_Choice = Callable[[str, random.Random], str]
_CHANGES: Final[list[tuple[re.Pattern[str], _Choice]]] = [
    (re.compile(r"\?"), lambda _, rng: rng.choice(["3", "0", "1", "9999999999", "?x?"])),
    (re.compile(r"\b\d+\b"), lambda _, rng: rng.choice(_NUMBERS)),
    (re.compile(r"%\w+"), lambda text, rng: rng.choice(re.findall(r"%\w+", text))),
    (
        re.compile(r"tensor<[^<>]*>"),
        lambda text, rng: rng.choice(re.findall(r"tensor<[^<>]*>", text) + _TYPES),
    ),
    (re.compile(r"@[\w.]+"), lambda text, rng: rng.choice(re.findall(r"@[\w.]+", text))),
    (
        re.compile(r"stablehlo\.\w+"),
        lambda text, rng: rng.choice([*re.findall(r"stablehlo\.\w+", text), "x.y"]),
    ),
    (
        re.compile(r"i32|f32|i64|i1"),
        lambda _, rng: rng.choice(["i32", "f32", "i64", "i1", "ui8", "bf16", "complex<f32>"]),
    ),
    (re.compile(r"dense<[^>]*>"), lambda _, rng: f"dense<{rng.choice(_LITERALS)}>"),
]


def originals() -> list[tuple[str, list[str]]]:
    """Programs, and the types their arguments are refined to; none for those that need none."""
    found = [
        (dynamic_corpus.path_of(record).read_text(), list(record["types"]))
        for record in dynamic_corpus.records()
    ]
    chunks = SHARED / "conformance/stablehlo/transforms/chunks.jsonl"
    for line in chunks.read_text().splitlines():
        chunk = json.loads(line)
        if re.search("refine|dynamism|assertions", chunk["source"]):
            found.append((chunk["text"], []))
    files = [*(SHARED / "real/models").glob("*.poly.stablehlo.mlir")]
    found += [(Path(file).read_text(), []) for file in sorted(files)]
    return [(text, types) for text, types in found if len(text) <= _LARGEST]


def mutated(text: str, rng: random.Random) -> str:
    """The text with one to six things changed."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        text = _lines(text, rng) if rng.random() < 0.25 else _words(text, rng)
    return text


def _lines(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            del lines[a]
        case 1:
            lines.insert(b, lines[a])
        case _:
            lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _words(text: str, rng: random.Random) -> str:
    pattern, choose = rng.choice(_CHANGES)
    places = list(pattern.finditer(text))
    if not places:
        return text
    place = rng.choice(places)
    return text[: place.start()] + choose(text, rng) + text[place.end() :]


def mutations(count: int, seed: int) -> Iterator[tuple[str, list[str]]]:
    """Changed programs, and types for their arguments."""
    rng = random.Random(seed)
    programs = originals()
    for _ in range(count):
        text, types = rng.choice(programs)
        yield mutated(text, rng), types if rng.random() < 0.8 else []
