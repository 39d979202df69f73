"""Programs with something broken: bytes, lines and tokens, and what one op has given to another."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_TOKEN: Final = re.compile(r"[\w.%@#!-]+|[^\s\w]")
_LARGEST: Final = 60_000
_NUMBERS: Final = (
    "0", "-1", "7", "99999999999", "1e400", "", "2147483647", "2147483648", str(2**63 - 1),
    str(2**63), str(2**64 - 1), str(2**64), str(-(2**63) - 1), "9" * 400, "9" * 5000, "0x1F", "-0",
    "1_000", "\u0663",
)  # fmt: skip
"""What stands in the place of a number: bounds of machines, and what is none everywhere."""
_DEEP: Final = 10_000
"""More than Python has frames."""
_BRACKETS: Final = (
    ("(", ")"), ("{", "}"), ("[", "]"), ("<", ">"), ("{x=", "}"), ("{x = ", "}"), ("tuple<", ">"),
    ("(", ""), ("{", ""), ("[", ""), ("complex<", ">"), ("-", ""), ("loc(", ")"),
)  # fmt: skip
"""What opens something that may hold another of its kind, and what closes it."""
_LONG: Final = 100_000
"""Characters of a long name."""


def _flip(text: str, rng: random.Random) -> str:
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data.decode("utf-8", "replace")


def _drop(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    for _ in range(rng.randint(1, 3)):
        if lines:
            del lines[rng.randrange(len(lines))]
    return "".join(lines)


def _swap(text: str, rng: random.Random) -> str:
    tokens = list(_TOKEN.finditer(text))
    if len(tokens) < 2:
        return text
    first = rng.randrange(len(tokens) - 1)
    near = min(len(tokens) - 1, first + rng.choice([1, 2, 5, 50]))
    a, b = tokens[first], tokens[near]
    return text[: a.start()] + b[0] + text[a.end() : b.start()] + a[0] + text[b.end() :]


def _cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text))]


def _number(text: str, rng: random.Random) -> str:
    numbers = list(re.finditer(r"\d+", text))
    if not numbers:
        return text
    one = rng.choice(numbers)
    return text[: one.start()] + rng.choice(_NUMBERS) + text[one.end() :]


def _again(text: str, rng: random.Random) -> str:
    tokens = list(_TOKEN.finditer(text))
    one = rng.choice(tokens)
    return text[: one.end()] + one[0] * rng.choice([1, 3, 3000]) + text[one.end() :]


_TYPE: Final = re.compile(
    r"tensor<[^<>\n]*>|\b(?:pred|token|[a-z]+\d+\w*)\[[^\]\n]*\](?:\{[^}\n]*\})?"
)
_ATTRIBUTE: Final = re.compile(r"(?<=[,{<] )[\w.]+\s?=\s?(?:\{[^{}\n]*\}|\[[^\]\n]*\]|[^,{}<>\n]+)")
_OPERANDS: Final = re.compile(r"(?<=\w)\([^()\n]*\)")
_NAME: Final = re.compile(r'"?\b(?:stablehlo|chlo)\.\w+"?|(?<=\s)[a-z][a-z-]+(?=\()')
_DEFINED: Final = re.compile(r"^\s*(?:ROOT )?(%?[\w.-]+)(?::\d+)? = ", re.MULTILINE)
_REGION: Final = re.compile(r"\{\n(?:[^{}]|\{[^{}\n]*\})*?\n\s*\}")


def _exchange(pattern: re.Pattern[str]) -> Callable[[str, random.Random], str]:
    """A function that lets two places of a kind exchange what stands there, or one take it."""

    def exchanged(text: str, rng: random.Random) -> str:
        places = list(pattern.finditer(text))
        if len(places) < 2:
            return _swap(text, rng)
        first, second = sorted(rng.sample(range(len(places)), 2))
        a, b = places[first], places[second]
        if b.start() < a.end():
            return text
        new = (b[0], a[0]) if rng.random() < 0.5 else rng.choice([(a[0], a[0]), (b[0], b[0])])
        return text[: a.start()] + new[0] + text[a.end() : b.start()] + new[1] + text[b.end() :]

    return exchanged


def _rank(text: str, rng: random.Random) -> str:
    """One type gets another rank, wherever else it stands it stays."""
    places = list(_TYPE.finditer(text))
    if not places:
        return text
    one = rng.choice(places)
    sizes = [rng.choice([0, 1, 2, 3, 7, 64]) for _ in range(rng.choice([0, 1, 2, 3, 5, 66]))]
    if one[0].startswith("tensor<"):
        element = re.split(r"[\dx?*]+x|,", one[0][len("tensor<") : -1])[-1] or "f32"
        new = "tensor<" + "".join(f"{n}x" for n in sizes) + element + ">"
    else:
        new = one[0].split("[")[0] + f"[{','.join(map(str, sizes))}]"
    return text[: one.start()] + new + text[one.end() :]


def _size_order(text: str, rng: random.Random) -> str:
    """One type gets its sizes in another order."""
    places = [
        place for place in _TYPE.finditer(text) if len(re.findall(r"\d+(?=[x,])", place[0])) > 1
    ]
    if not places:
        return _rank(text, rng)
    one = rng.choice(places)
    mark = "x" if one[0].startswith("tensor<") else ","
    begin, _, rest = one[0].partition("<" if mark == "x" else "[")
    parts = rest[:-1].split(mark)
    kept = parts[-1:] if mark == "x" else []
    sizes = parts[:-1] if mark == "x" else parts
    rng.shuffle(sizes)
    inner = mark.join([*sizes, *kept])
    new = f"{begin}<{inner}>" if mark == "x" else f"{begin}[{inner}{rest[-1:]}"
    return text[: one.start()] + new + text[one.end() :]


def _same_name(text: str, rng: random.Random) -> str:
    """Two values have one name, or one reads itself, or what comes after it."""
    names = list(_DEFINED.finditer(text))
    if len(names) < 2:
        return _swap(text, rng)
    one, other = rng.sample(names, 2)
    if rng.random() < 0.4:
        return text[: one.start(1)] + other[1] + text[one.end(1) :]
    line = text.find("\n", one.end())
    inside = re.compile(r"%[\w.-]+|(?<=[(, ])[a-z][\w.-]*(?=[,)])")
    uses = list(inside.finditer(text, one.end(), line if line > 0 else len(text)))
    if not uses:
        return text
    use, new = rng.choice(uses), rng.choice([one[1], other[1]])
    return text[: use.start()] + new + text[use.end() :]


def _long_name(text: str, rng: random.Random) -> str:
    """A name is very long, where it is defined or everywhere."""
    names = list(_DEFINED.finditer(text))
    if not names:
        return _again(text, rng)
    one = rng.choice(names)
    new = one[1] + rng.choice(["a", ".0", "_", "é", "-"]) * _LONG
    if rng.random() < 0.5:
        return text.replace(one[1], new, 3)
    return text[: one.start(1)] + new + text[one.end(1) :]


def _deep(text: str, rng: random.Random) -> str:
    """A type, an attribute or an operand is in very many brackets, which may not all be closed."""
    places = list(rng.choice([_TYPE, _ATTRIBUTE, _OPERANDS, _TOKEN]).finditer(text))
    if not places:
        return text
    one, (opened, closed) = rng.choice(places), rng.choice(_BRACKETS)
    count = rng.choice([100, _DEEP])
    return text[: one.start()] + opened * count + one[0] + closed * count + text[one.end() :]


KINDS: Final[dict[str, Callable[[str, random.Random], str]]] = {
    "bytes flipped": _flip,
    "lines dropped": _drop,
    "tokens swapped": _swap,
    "cut off": _cut,
    "number changed": _number,
    "token repeated": _again,
    "types exchanged": _exchange(_TYPE),
    "attributes exchanged": _exchange(_ATTRIBUTE),
    "operands exchanged": _exchange(_OPERANDS),
    "ops exchanged": _exchange(_NAME),
    "regions exchanged": _exchange(_REGION),
    "rank changed": _rank,
    "sizes in another order": _size_order,
    "names shared": _same_name,
    "name very long": _long_name,
    "nested deeply": _deep,
}


def originals(shared: Path) -> list[str]:
    """HLO and StableHLO texts of the shared data, small enough to break many times."""
    models = shared / "real" / "models"
    paths = [*models.glob("*.hlo.txt"), *models.glob("*.mlir")]
    texts = [p.read_text() for p in sorted(paths) if p.stat().st_size <= _LARGEST]
    chunks = shared / "conformance" / "stablehlo" / "verify" / "chunks.jsonl"
    with chunks.open() as lines:
        texts += [json.loads(line)["text"] for line in lines]
    return [text for text in texts if text.strip()]


def mutations(texts: list[str], count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield `count` broken texts and how each was broken."""
    rng = random.Random(seed)
    for _ in range(count):
        text, kind = rng.choice(texts), rng.choice(list(KINDS))
        yield kind, KINDS[kind](text, rng)
