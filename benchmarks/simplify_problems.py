"""Problems like those of the shared `hard.json`, by a seed: nobody has fitted anything to them.

    python benchmarks/simplify_problems.py [SEED] > problems.json

The families and their shares are those of `hard.json`: chains of reshapes, transposes and shifts of
small arrays, digits of numbers, random trees, windows with holes, neighbours in an address, and so
on.  `//` and `%` round down; every variable has an interval, and some problems have constraints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any, Final

SEED: Final = 20_261_126
"""Of the problems of the status."""


@dataclass(slots=True)
class Draft:
    """An expression in the making: its text, and the intervals of its variables."""

    text: str = ""
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    constraints: list[tuple[str, int, int]] = field(default_factory=list)

    def problem(self, name: str) -> dict[str, Any]:
        """The problem as the shared set writes it."""
        return {
            "id": name,
            "dims": [[v, *ends] for v, ends in self.ranges.items()],
            "syms": [],
            "constraints": [list(c) for c in self.constraints],
            "exprs": [self.text],
        }


def variable(draft: Draft, name: str, size: int) -> str:
    """A variable that takes `size` values from 0 on."""
    draft.ranges[name] = 0, size - 1
    return name


def address(indices: list[str], shape: list[int]) -> str:
    """The number of an element in row-major order."""
    parts = [
        f"({index}) * {prod(shape[i + 1 :])}" if i + 1 < len(shape) else index
        for i, index in enumerate(indices)
    ]
    return " + ".join(parts)


def chain(rng: Random, draft: Draft) -> str:
    """An index after reshapes, transposes, shifts and reversals of a small array."""
    shape = [rng.randint(2, 16) for _ in range(rng.choice((2, 2, 2, 3, 3, 4)))]
    indices = [variable(draft, f"d{i}", size) for i, size in enumerate(shape)]
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        kind = rng.choice(("reshape", "reshape", "reshape", "transpose", "shift", "reverse"))
        at = rng.randrange(len(shape))
        if kind == "reshape":
            flat, whole = address(indices, shape), prod(shape)
            shape = factors(rng, whole)
            below = [prod(shape[i + 1 :]) for i in range(len(shape))]
            indices = [f"(({flat}) // {b}) % {n}" for b, n in zip(below, shape, strict=True)]
            indices[-1] = f"({flat}) % {shape[-1]}"
            indices[0] = f"({flat}) // {below[0]}" if below[0] > 1 else flat
        elif kind == "transpose":
            order = rng.sample(range(len(shape)), len(shape))
            shape, indices = [shape[i] for i in order], [indices[i] for i in order]
        elif kind == "shift":
            by = rng.randint(1, 8)
            indices[at], shape[at] = f"({indices[at]} + {by})", shape[at] + by
        else:
            indices[at] = f"({shape[at] - 1} - ({indices[at]}))"
    return rng.choice((address(indices, shape), rng.choice(indices), last(rng, indices, shape)))


def last(rng: Random, indices: list[str], shape: list[int]) -> str:
    """A digit of the address."""
    divisor = rng.choice((2, 3, shape[-1], 2 * shape[-1]))
    return f"(({address(indices, shape)}) // {divisor}) % {rng.choice((2, 6, shape[0]))}"


def factors(rng: Random, whole: int) -> list[int]:
    """A shape of one to three dimensions with so many elements."""
    shape = []
    while whole > 1:
        sizes = [n for n in range(2, whole + 1) if whole % n == 0]
        shape.append(whole if len(shape) == 2 else rng.choice(sizes))
        whole //= shape[-1]
    return shape


def digit(rng: Random, draft: Draft) -> str:
    """Digits of a number that is written in one base or two."""
    a, b = rng.randint(2, 8), rng.randint(2, 6)
    m = a * b
    variable(draft, "x", rng.choice((m, 2 * m, 3 * m + rng.randint(0, 9), 100, 134)))
    forms = [
        lambda: f"(x % {m}) % {a} + (((x % {m}) // {a}) % {b}) * {a}",
        lambda: f"((x // {a}) // {b}) * {m} + ((x // {a}) % {b}) * {a} + x % {a}",
        lambda: f"(x // {m}) * {b} + (x % {m}) // {a}",
        lambda: f"((x + {rng.randint(1, m)}) % {m}) % {a}",
        lambda: " + ".join([f"(x + {i}) // {a}" for i in range(a)]),
        lambda: f"(x + 1) // {a} - (x // {a})",
        lambda: f"((x % {a}) * {b} + (x % {b}) * {a * a}) % {m}",
        lambda: f"((x + {m} - 1) % {m} + 1) % {m}",
        lambda: f"(x % {m} + {variable(draft, 'y', 3 * m)} % {m}) % {a}",
        lambda: wrapped(variable(draft, "y", a), a, m),
    ]
    return rng.choice(forms)()


def wrapped(y: str, a: int, m: int) -> str:
    """A number written by three digits of itself."""
    flat = f"x * {a} + {y}"
    return f"(({flat}) // {m}) * {m} + ((({flat}) % {m}) // {a}) * {a} + {y}"


def tree(rng: Random, draft: Draft) -> str:
    """A random expression of a few operations."""
    names = [variable(draft, "x", rng.choice((6, 8, 12, 16, 24, 32, 48)))]
    if rng.random() < 0.6:
        names.append(variable(draft, "y", rng.choice((3, 4, 6, 8, 16))))

    def part(depth: int) -> str:
        if not depth:
            return str(rng.randint(1, 8)) if rng.random() < 0.15 else rng.choice(names)
        left = part(depth - 1)
        kind = rng.choice(("//", "//", "%", "%", "%", "+", "*"))
        if kind == "+":
            return f"({left} + {part(rng.randrange(depth))})"
        if kind == "*":
            return f"({left} * {rng.randint(2, 8)})"
        return f"({left} {kind} {rng.choice((2, 3, 4, 5, 6, 8, 12, 16))})"

    return part(rng.choice((2, 3, 3, 4)))


def window(rng: Random, draft: Draft) -> str:
    """A place in what a window with holes reads."""
    stride, dilation, pad = rng.randint(1, 4), rng.randint(2, 3), rng.randint(0, 2)
    outer = rng.choice((8, 14, 28))
    variable(draft, "o", outer)
    variable(draft, "k", rng.randint(2, 5))
    place = f"o * {stride} + k - {pad}"
    draft.constraints.append((f"({place}) % {dilation}", 0, 0))
    if rng.random() < 0.6:
        draft.constraints.append((place, 0, (outer - 1) * 3))
    return f"({place}) // {dilation}"


def difference(rng: Random, draft: Draft) -> str:
    """How far neighbours are from each other in an address."""
    width = rng.choice((2, 4, 8))
    tile = width * rng.choice((2, 3, 4, 96))
    variable(draft, "t", rng.choice((10, 37, 64)))
    variable(draft, "v", rng.randint(1, width))
    scale = rng.choice((tile, tile + 1, 33, 1000))

    def place(flat: str) -> str:
        return f"(({flat}) // {tile}) * {scale} + ({flat}) % {tile}"

    return f"{place(f't * {width} + v + 1')} - ({place(f't * {width} + v')})"


def skewed(rng: Random, draft: Draft) -> str:
    """An address of a number that is put together from two."""
    tile = rng.choice((6, 8, 12, 24, 48))
    x, y = (
        variable(draft, "x", tile * rng.randint(2, 5)),
        variable(draft, "y", 1 << rng.randint(2, 4)),
    )
    flat = f"{x} + {y} + {rng.choice((0, 1, 3, 5, tile - 1))}"
    outer, inner = rng.choice((1, 7, 33, 64)), rng.choice((1, 2, 3, 16))
    return f"(({flat}) // {tile}) * {outer} + (({flat}) % {tile}) * {inner}"


def constrained(rng: Random, draft: Draft) -> str:
    """A number that a constraint keeps below the divisor."""
    width = rng.choice((4, 8, 16))
    x, y = variable(draft, "x", rng.randint(5, 10)), variable(draft, "y", width)
    flat, most = f"{x} * {width} + {y}", rng.randint(8, 70)
    draft.constraints.append((flat, 0, most))
    return f"({flat}) // {most + 1} + ({flat}) % {most + 1}"


def extremum(rng: Random, draft: Draft) -> str:
    """Smallest and largest of parts of a number."""
    a = rng.choice((4, 8, 16))
    variable(draft, "x", rng.choice((32, 64, 101)))
    return rng.choice(
        (
            f"min(x, {a}) // {a} + max(x, {a}) // {a}",
            f"max(x - {a}, 0) // {a} - max(x // {a} - 1, 0)",
            f"min(x // {a}, {rng.randint(2, 8)}) + max(x % {a}, 0)",
        )
    )


FAMILIES: Final[dict[Callable[[Random, Draft], str], int]] = {
    chain: 140, digit: 151, tree: 110, window: 38,
    difference: 30, skewed: 20, constrained: 15, extremum: 12,
}  # fmt: skip
"""How many there are of each family."""


def problems(seed: int = SEED) -> list[dict[str, Any]]:
    """The problems of a seed."""
    found = []
    for family, count in FAMILIES.items():
        for i in range(count):
            rng = Random(f"{seed} {family.__name__} {i}")
            draft = Draft()
            while "//" not in draft.text and "%" not in draft.text:
                draft = Draft()
                draft.text = family(rng, draft)
            found.append(draft.problem(f"{family.__name__}_{i:04}"))
    return found


if __name__ == "__main__":
    print(json.dumps({"problems": problems(int(sys.argv[1]) if sys.argv[1:] else SEED)}))
