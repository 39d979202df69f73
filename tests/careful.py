"""Changes that leave many programs right: what is put in a place is of the kind that stands there.

Broken texts mostly tell about the verifier; these get past it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

Change = Callable[[str, Random], str]

_ELEMENTS: Final = (
    "f32 f64 bf16 f16 f8e4m3fn s8 s32 s64 u8 u32 u64 pred c64 c128 s4 u2".split(),
    "f32 f64 bf16 f16 f8E4M3FN i8 i32 i64 ui8 ui32 ui64 i1 complex<f32> complex<f64> i4".split(),
)
_ALIKE: Final = tuple(
    tuple(row.split())
    for row in (
        "add subtract multiply divide maximum minimum power remainder atan2 and or xor",
        "negate abs exponential exponential-minus-one log log-plus-one tanh sqrt rsqrt cbrt sign"
        " ceil floor cosine sine tan logistic not popcnt count-leading-zeros copy convert"
        " optimization-barrier round-nearest-even",
        "negate abs exponential exponential_minus_one log log_plus_one tanh sqrt rsqrt cbrt sign"
        " ceil floor cosine sine tan logistic not popcnt count_leading_zeros"
        " optimization_barrier round_nearest_even",
        "shift-left shift-right-arithmetic shift-right-logical add and or xor",
        "EQ NE LT LE GT GE",
        "SIGNED UNSIGNED FLOAT TOTALORDER",
        "kLoop kInput kOutput kCustom",
        "TO_APPLY sum",
        "all-reduce all-reduce-start",
        "true false",
        "0 1 -1 2 3.5 inf -inf nan 2147483647 -2147483648 1e38 65504 255 -128",
    )
)
_SHAPE: Final = re.compile(r"(?<=[a-z\d]\[)[\d,]+(?=\])|(?<=tensor<)(?:\d+x)+")
_LAYOUT: Final = re.compile(r"(?<=\]\{)\d+(?:,\d+)+(?=[:}])")
_LIST: Final = re.compile(r"(?<==\{)\d+(?:,\s*\d+)+(?=\})|(?<==\s\[)\d+(?:,\s*\d+)+(?=\])")
_NUMBER: Final = re.compile(r"(?<=[=\[{:x_ ,])-?\d+(?=[\]}:x_, )])")
_VALUE: Final = re.compile(
    r"(?<![\w.-])(?P<name>[\w.-]+)\s?=\s?(?P<value>\{(?:[^{}\n]|\{[^{}\n]*\})*\}|\[[^\]\n]*\]|[\w./:x-]+)"
)
_HLO: Final = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = (\S+) [\w-]+\(", re.MULTILINE)
_MLIR: Final = re.compile(
    r"^\s+(%[\w.]+) = [^\n]* (\S+)$|(%[\w.]+): (tensor<[^\n]*?>)(?=[,)])", re.MULTILINE
)
_END: Final = re.compile(r"^ +(?:ROOT|return|func\.return|stablehlo\.return)\b", re.MULTILINE)
_SCOPE: Final = re.compile(r"^[^\s].*\{\s*$|^\s*func\.func", re.MULTILINE)
_HEADER: Final = re.compile(r"^HloModule[^\n]*")


def _element(text: str, rng: Random) -> str:
    """One element type becomes another throughout."""
    names = _ELEMENTS["func" in text or "stablehlo" in text]
    there = [n for n in names if re.search(rf"(?<![\w.<]){re.escape(n)}(?![\w<])|x{n}>", text)]
    if not there:
        return text
    old, new = rng.choice(there), rng.choice(names)
    word = re.escape(old)
    return re.sub(rf"(?<![\w.%@]){word}(?=[\[>,)\s])|(?<=\dx){word}(?=>)", new, text)


def _size(text: str, rng: Random) -> str:
    """One size becomes another in all types."""
    sizes = sorted({n for found in _SHAPE.findall(text) for n in re.findall(r"\d+", found)})
    if not sizes:
        return text
    old = rng.choice(sizes)
    new = str(rng.choice([0, 1, 2, 5, 64, 1_000_003, 2**32, 2**63, 2**64]))
    change = re.compile(rf"(?<![\d]){old}(?!\d)")
    return _SHAPE.sub(lambda found: change.sub(new, found[0]), text)


def _nudge(text: str, rng: Random) -> str:
    """A number of an attribute, a type or a literal becomes a little larger or smaller."""
    places = list(_NUMBER.finditer(text))
    if not places:
        return text
    one = rng.choice(places)
    new = int(one[0]) + rng.choice([-1, 1]) if len(one[0]) < 100 else 0
    return f"{text[: one.start()]}{new}{text[one.end() :]}"


def _shuffle(pattern: re.Pattern[str]) -> Change:
    def shuffled(text: str, rng: Random) -> str:
        places = list(pattern.finditer(text))
        if not places:
            return _alike(text, rng)
        one = rng.choice(places)
        numbers = [n.strip() for n in one[0].split(",")]
        rng.shuffle(numbers)
        return text[: one.start()] + ",".join(numbers) + text[one.end() :]

    return shuffled


def _alike(text: str, rng: Random) -> str:
    """An op, or a word or number, becomes one that may stand in its place."""
    words = {w for row in _ALIKE for w in row}
    places = [m for m in re.finditer(r"-?[\w.-]+", text) if _word(m[0]) in words]
    if not places:
        return text
    one = rng.choice(places)
    old = _word(one[0])
    new = rng.choice(rng.choice([row for row in _ALIKE if old in row]))
    return text[: one.end() - len(old)] + new + text[one.end() :]


def _word(text: str) -> str:
    return text.removeprefix("stablehlo.").removeprefix("chlo.")


def _operand(text: str, rng: Random) -> str:
    """An operand becomes another value of its type, which stands before it."""
    is_mlir = "stablehlo" in text or "func.func" in text
    pattern = _MLIR if is_mlir else _HLO
    scopes = [m.start() for m in _SCOPE.finditer(text)]
    names: dict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
    defined: dict[tuple[int, str], str] = {}
    for found in pattern.finditer(text):
        name, type_ = (found[1], found[2]) if found[1] else (found[3], found[4])
        scope = sum(start <= found.start() for start in scopes)
        names[scope, type_].append((found.end(), name))
        defined[scope, name] = type_
    uses = [m for m in re.finditer(r"(?<=[(, ])%?[\w.-]+(?=[,) ])", text)]
    rng.shuffle(uses)
    for use in uses[:20]:
        scope = sum(start <= use.start() for start in scopes)
        sign = "" if is_mlir else "%"
        type_ = defined.get((scope, use[0].removeprefix(sign) if sign else use[0]), "")
        before = [n for end, n in names.get((scope, type_), ()) if end <= use.start()]
        if before:
            new = rng.choice(before)
            prefix = "%" if sign and use[0].startswith("%") else ""
            return text[: use.start()] + prefix + new + text[use.end() :]
    return text


def attribute_from(texts: Sequence[str]) -> Change:
    """A change that gives an attribute the value it has elsewhere, in this program or another."""

    def taken(text: str, rng: Random) -> str:
        header = _HEADER.match(text)
        places = list(_VALUE.finditer(text, header.end() if header else 0))
        if not places:
            return _alike(text, rng)
        one = rng.choice(places)
        for other in (text, *rng.sample(texts, min(3, len(texts)))):
            there = [m["value"] for m in _VALUE.finditer(other) if m["name"] == one["name"]]
            there = [value for value in there if value != one["value"]]
            if there:
                return text[: one.start("value")] + rng.choice(there) + text[one.end("value") :]
        return _nudge(text, rng)

    return taken


def line_from(texts: Sequence[str]) -> Change:
    """A change that adds an op of another program, with values of this one as its operands."""

    def added(text: str, rng: Random) -> str:
        is_mlir = "stablehlo" in text
        other = rng.choice(texts)
        if is_mlir != ("stablehlo" in other):
            return _operand(text, rng)
        lines = [line for line in other.splitlines() if " = " in line and line.rstrip()[-1:] != "{"]
        places = list(_END.finditer(text))
        if not lines or not places:
            return _operand(text, rng)
        line = rng.choice(lines).replace("ROOT ", "")
        name = re.match(r"\s*(%?)[\w.-]+", line)
        where = rng.choice(places)
        known = re.findall(r"(%?[\w.-]+) = ", text[: where.start()][-4000:])
        if name is None or not known:
            return text
        renamed = re.sub(
            r"(?<=[(, ])%[\w.-]+|(?<=\()[a-z][\w.-]*(?=[,)])", lambda _: rng.choice(known), line
        )
        renamed = re.sub(r"^\s*%?[\w.-]+", f"  {name[1]}added{rng.randrange(1000)}", renamed)
        return text[: where.start()] + renamed + "\n" + text[where.start() :]

    return added


def changes(texts: Sequence[str]) -> dict[str, Change]:
    """The changes by name; some take parts of other programs."""
    return {
        "element type changed": _element,
        "size changed": _size,
        "number nudged": _nudge,
        "layout shuffled": _shuffle(_LAYOUT),
        "list shuffled": _shuffle(_LIST),
        "op replaced": _alike,
        "operand replaced": _operand,
        "attribute of another op": attribute_from(texts),
        "op of another program": line_from(texts),
    }
