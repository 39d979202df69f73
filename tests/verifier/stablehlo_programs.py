"""StableHLO programs of one op: right ones of nearly every op, changed ones, free combinations.

A right program is a row of `ROWS`: `op(types) {attributes} regions -> types`, with types as in
`4x3xf32`.  A change takes one thing of it; a free combination takes the parts from different rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from tests.verifier.stablehlo_rows import (
    BINARY_CHLO,
    BITS,
    CHLO,
    DECOMPOSITION,
    ELEMENTS,
    IMPLICIT,
    IMPLICIT_BITS,
    REGIONS,
    ROWS,
    TWO,
    TYPES,
    UNARY,
)

_ROW: Final = re.compile(r"([\w.-]+)\(([^()]*)\)(?: \{(.*)\})?((?: \w+)*) -> (.*)$")
_REGIONS: Final = tuple(REGIONS.values())
_NUMBER: Final = re.compile(r"(?<![\w.#])-?\d+(?![\w.])")


@dataclass(frozen=True)
class Program:
    """One op: the types of the parameters, which of them it takes, its parts and results."""

    op: str
    parameters: tuple[str, ...]
    operands: tuple[int, ...]
    attributes: tuple[str, ...]
    regions: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def ops(self) -> tuple[str, ...]:
        """The op."""
        return (self.op,)

    def text(self) -> str:
        """The module."""
        takes = ", ".join(f"%a{i}: {_type(t)}" for i, t in enumerate(self.parameters))
        gives = ", ".join(map(_type, self.results))
        names = ", ".join(f"%r#{i}" for i in range(len(self.results)))
        held = f" <{{{', '.join(self.attributes)}}}>" if self.attributes else ""
        regions = ", ".join(self.regions)
        used = ", ".join(f"%a{i}" for i in self.operands)
        types = ", ".join(_type(self.parameters[i]) for i in self.operands)
        left = f"%r:{len(self.results)} = " if self.results else ""
        name = self.op if "." in self.op else f"stablehlo.{self.op}"
        return (
            f"func.func @main({takes}) -> ({gives}) {{\n"
            f'  {left}"{name}"({used}){held}{f" ({regions})" if regions else ""}'
            f" : ({types}) -> ({gives})\n"
            f"  return{f' {names} : {gives}' if names else ''}\n}}\n"
        ) + (DECOMPOSITION if "@twice" in held else "")


def _type(text: str) -> str:
    if text == "token":
        return "!stablehlo.token"
    return text if text.startswith(("!stablehlo", "tuple")) else f"tensor<{text}>"


def _split(text: str) -> tuple[str, ...]:
    """The attributes between commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.strip() for part in parts if part.strip())


def _program(row: str) -> Program:
    found = _ROW.match(row)
    assert found is not None, row
    op, types, attributes, regions, results = found.groups()
    parameters = tuple(types.split())
    taken = parameters[:1] if op in ("if", "case") else parameters
    held = _split(attributes.replace("->", "\0")) if attributes else ()
    return Program(
        op,
        parameters,
        tuple(range(len(taken))),
        tuple(a.replace("\0", "->") for a in held),
        tuple([REGIONS[name] for name in regions.split()]),
        tuple(results.split()),
    )


def _programs() -> Iterator[Program]:
    rows = [row for row in ROWS.split("\n") if row.strip()]
    rows += [f"{op}(4x3xf32) -> 4x3xf32" for op in UNARY.split()]
    rows += [f"{op}(4x3xf32 4x3xf32) -> 4x3xf32" for op in TWO.split()]
    rows += [f"{op}(4xi32 4xi32) -> 4xi32" for op in BITS.split()]
    rows += [f"chlo.{op}(4x3xf32) -> 4x3xf32" for op in CHLO.split()]
    rows += [f"chlo.{op}(4x3xf32 4x3xf32) -> 4x3xf32" for op in BINARY_CHLO.split()]
    rows += [f"chlo.broadcast_{op}(4x3xf32 3xf32) -> 4x3xf32" for op in IMPLICIT.split()]
    rows += [f"chlo.broadcast_{op}(4x3xi32 3xi32) -> 4x3xi32" for op in IMPLICIT_BITS.split()]
    return map(_program, rows)


RIGHT: Final = tuple(_programs())
"""Right programs."""


def other_type(text: str, c: Random) -> str:
    """A type much like that one, or quite another."""
    found = re.fullmatch(r"((?:[\d?]+x)*)([^,#]*)", text)
    if found is None or text == "token" or c.random() < 0.2:
        return c.choice(TYPES)
    sizes, element = found[1].split("x")[:-1], found[2]
    match c.randrange(6):
        case 0 | 1:
            element = c.choice((*ELEMENTS, "f32", "i1", "i32", "complex<f32>"))
        case 2:
            sizes.insert(c.randint(0, len(sizes)), c.choice("0 1 2 3 4 ?".split()))
        case 3 if sizes:
            sizes.pop(c.randrange(len(sizes)))
        case _ if sizes:
            sizes[c.randrange(len(sizes))] = c.choice("? ? 0 1 2 3 4 5 8".split())
    return "".join(f"{size}x" for size in sizes) + element


def _other(items: tuple[str, ...], c: Random, new: Callable[[str], str]) -> tuple[str, ...]:
    if not items:
        return items
    at = c.randrange(len(items))
    return (*items[:at], new(items[at]), *items[at + 1 :])


def _number(text: str, c: Random) -> str:
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return text
    one = c.choice(numbers)
    n = int(one[0])
    return f"{text[: one.start()]}{c.choice([n + 1, n - 1, -1, 0, 2, 100])}{text[one.end() :]}"


def _more_or_fewer(text: str, c: Random) -> str:
    """A list with one number left out, or one more."""
    numbers = list(re.finditer(r"-?\d+, |, -?\d+(?=[\]>])", text))
    if numbers and c.random() < 0.5:
        one = c.choice(numbers)
        return text[: one.start()] + text[one.end() :]
    places = list(re.finditer(r"(?<=[\d])(?=[\]>])", text))
    if not places:
        return text
    at = c.choice(places).start()
    return f"{text[:at]}, {c.randrange(3)}{text[at:]}"


_TENSOR: Final = re.compile(r"tensor<((?:[^<>]|<[^<>]*>)*)>")
_SHAPED: Final = re.compile(r"((?:[\d?]+x)*)((?:[^,<]|<[^<>]*>)*)(.*)")


def everywhere(p: Program, c: Random) -> Program:
    """The program with one element type or size replaced wherever it occurs, or of higher rank.

    Much of what comes of it is right: types that no row has.
    """
    whole = " ".join(map(_type, (*p.parameters, *p.results)))
    tensors = [_SHAPED.fullmatch(text) for text in _TENSOR.findall(whole)]
    shapes = [(found[1].split("x")[:-1], found[2]) for found in tensors if found]
    if not shapes:
        return p
    sizes, element = c.choice(shapes)
    size, other = c.choice(sizes or [""]), c.choice("0 1 7 ? ?".split())
    new, how = c.choice(ELEMENTS), c.randrange(4)
    front = c.choices("12", k=c.randint(1, 6))

    def shaped(text: str) -> str:
        found = _SHAPED.fullmatch(text)
        assert found is not None, text
        dims, name, rest = found[1].split("x")[:-1], found[2], found[3]
        match how:
            case 0 | 1:
                name = new if name == element else name
            case 2:
                dims = [other if x == size else x for x in dims]
            case _ if dims and not rest:
                dims = [*front, *dims]
        return "".join(f"{x}x" for x in dims) + name + rest

    def within(text: str) -> str:
        return _TENSOR.sub(lambda found: f"tensor<{shaped(found[1])}>", text)

    def typed(text: str) -> str:
        return text if text == "token" else within(text) if "tensor" in text else shaped(text)

    return replace(
        p,
        parameters=tuple(map(typed, p.parameters)),
        results=tuple(map(typed, p.results)),
        regions=tuple(map(within, p.regions)),
    )


def changed(p: Program, c: Random) -> Program:
    """The program with one thing changed."""
    match c.randrange(12):
        case 0 if p.operands:
            at = c.randrange(len(p.operands))
            return replace(p, operands=p.operands[:at] + p.operands[at + 1 :])
        case 1 if p.operands:
            return replace(p, operands=(*p.operands, c.choice(p.operands)))
        case 2:
            return replace(p, operands=tuple(c.sample(p.operands, len(p.operands))))
        case 3 | 4:
            return replace(p, parameters=_other(p.parameters, c, lambda t: other_type(t, c)))
        case 5:
            return replace(p, results=_other(p.results, c, lambda t: other_type(t, c)))
        case 6:
            return replace(p, attributes=_other(p.attributes, c, lambda t: _number(t, c)))
        case 7:
            return replace(p, attributes=_other(p.attributes, c, lambda t: _more_or_fewer(t, c)))
        case 8 if p.attributes:
            at = c.randrange(len(p.attributes))
            return replace(p, attributes=p.attributes[:at] + p.attributes[at + 1 :])
        case 9:
            return replace(p, regions=_other(p.regions, c, lambda _: c.choice(_REGIONS)))
        case 10 if p.results:
            results = p.results[:-1] if c.random() < 0.5 else (*p.results, p.results[0])
            return replace(p, results=results)
        case _:
            other = c.choice(RIGHT)
            return replace(p, op=other.op, attributes=other.attributes, regions=other.regions)


def combined(c: Random) -> Program:
    """An op, operands, types and attributes from anywhere."""
    p = c.choice(RIGHT)
    parameters = tuple(c.choice(TYPES) for _ in range(c.randrange(5)))
    if c.random() < 0.5:
        parameters = (c.choice(TYPES),) * c.randrange(5)
    return replace(
        p,
        parameters=parameters,
        operands=tuple(range(len(parameters))),
        results=tuple(c.choice((*TYPES, *parameters)) for _ in p.results),
    )


def program_of(seed: int) -> Program:
    """A right program with other types, one to three changes, or both; or a free combination."""
    c = Random(seed)
    if c.random() < 0.2:
        return combined(c)
    program, changes = c.choice(RIGHT), c.choice((1, 1, 1, 2, 3))
    if c.random() < 0.5:
        program, changes = everywhere(program, c), c.choice((0, 0, 0, 1, 2))
    for _ in range(changes):
        program = changed(program, c)
    return program
