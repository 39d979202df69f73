"""Programs and maps of few words that mean much: sizes, windows and chains far beyond memory."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

_SIZES: Final = (
    1, 2, 3, 7, 64, 1000, 999_983, 2**20, 2**31 - 1, 2**31, 2**40, 2**60, 2**61 - 1,
)  # fmt: skip
_ADD: Final = "c { a = f32[] parameter(0) b = f32[] parameter(1) ROOT x = f32[] add(a, b) }\n"
_GE: Final = (
    "g { a = f32[] parameter(0) b = f32[] parameter(1) "
    "ROOT x = pred[] compare(a, b), direction=GE }\n"
)


_MOST_BYTES: Final = 2**63 - 1
"""Of an array that XLA takes."""


def chain_map(rng: Random) -> str:
    """A map of one long chain of sums, products, quotients and remainders."""
    names, term = ("d0", "d1", "s0"), "d0"
    for _ in range(rng.choice([10, 100, 300])):
        step = rng.choice(
            [
                f"+ {rng.choice(names)}",
                f"* {rng.choice([2, 3, -1])}",
                f"floordiv {rng.choice([2, 3, 2**40])}",
                f"mod {rng.choice([2, 100, 2**60])}",
            ]
        )
        term = f"({term} {step})"
    least, most = rng.choice([0, -5, -(2**62)]), rng.choice([0, 9, 1000, 2**40, 2**63 - 1])
    domain = ", ".join(f"{name} in [{least}, {most}]" for name in names)
    return f"(d0, d1)[s0] -> ({term}), domain: {domain}"


def factorised(rng: Random) -> str:
    """Reshapes and a transpose between shapes that split the same power of two, some in tiles."""
    exponent = rng.choice([12, 20, 40, 58, 60])
    first, second, third = (_split(exponent, rng.choice([1, 3, 20, 60]), rng) for _ in range(3))
    order = list(range(len(second)))
    rng.shuffle(order)
    turned = [second[i] for i in order]
    p, q, t, r = (
        f"f32{sizes}{_layout(len(sizes), rng)}" for sizes in (first, second, turned, third)
    )
    return (
        f"ENTRY e {{ p = {p} parameter(0) q = {q} reshape(p) "
        f"t = {t} transpose(q), dimensions={{{','.join(map(str, order))}}} "
        f"ROOT r = {r} reshape(t) }}"
    )


def _layout(rank: int, rng: Random) -> str:
    """No layout, or any order in any tiles."""
    if rng.random() < 0.5:
        return ""
    order = list(range(rank))[::-1]
    if rng.random() < 0.3:
        rng.shuffle(order)
    tiles = rng.choice(["", ":T(128)", ":T(8,128)", ":T(2,128)(2,1)", ":T(4,2)", ":T(3)"])
    return f"{{{','.join(map(str, order))}{tiles}}}"


def _split(exponent: int, count: int, rng: Random) -> list[int]:
    parts = [0] * count
    for _ in range(exponent):
        parts[rng.randrange(count)] += 1
    return [2**part for part in parts]


def windows(rng: Random) -> str:
    """A window of any size, step, padding and dilation over any number of elements."""
    size, taps = rng.choice(_SIZES), rng.choice(_SIZES)
    step, low, high = rng.choice([1, 2, 2**40]), rng.choice([0, 1, 2**40]), rng.choice([0, 2**40])
    if rng.random() < 0.3:
        spare = size + 2 * low - taps
        count = spare // step + 1 if spare >= 0 else 0
        return (
            f"{_ADD}{_GE}ENTRY e {{ p = f32[{size}] parameter(0) s = f32[{count}] parameter(1) "
            f"z = f32[] constant(0) ROOT r = f32[{size}] select-and-scatter(p, s, z), "
            f"window={{size={taps} stride={step} pad={low}_{low}}}, select=g, scatter=c }}"
        )
    base, apart = rng.choice([1, 2, 2**31]), rng.choice([1, 2, 2**31])
    spare = (size - 1) * base + low + high - (taps - 1) * apart
    count = spare // step + 1 if spare >= 0 else 0
    return (
        f"{_ADD}ENTRY e {{ p = f32[{size}] parameter(0) z = f32[] constant(0) "
        f"ROOT r = f32[{count}] reduce-window(p, z), window={{size={taps} stride={step} "
        f"pad={low}_{high} lhs_dilate={base} rhs_dilate={apart}}}, to_apply=c }}"
    )


def broadcasts(rng: Random) -> str:
    """Numbers counted, spread, turned, read in another shape, and summed."""
    few = rng.choice(_SIZES)
    many = rng.choice([size for size in _SIZES if 4 * few * size <= _MOST_BYTES])
    return (
        f"{_ADD}ENTRY e {{ i = f32[{few}] iota(), iota_dimension=0 "
        f"b = f32[{many},{few}] broadcast(i), dimensions={{1}} z = f32[] constant(0) "
        f"t = f32[{few},{many}] transpose(b), dimensions={{1,0}} "
        f"f = f32[{few * many}] reshape(t) p = f32[{few * many}] parameter(0) "
        f"a = f32[{few * many}] add(f, p) ROOT r = f32[] reduce(a, z), dimensions={{0}}, "
        f"to_apply=c }}"
    )


KINDS: Final[dict[str, Callable[[Random], str]]] = {
    "factorised": factorised,
    "windows": windows,
    "broadcasts": broadcasts,
}
