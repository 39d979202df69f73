"""Random chains of data movement as HLO text."""

from __future__ import annotations

from math import prod
from random import Random

Shape = tuple[int, ...]
Order = tuple[int, ...]
"""Minor to major."""


class ChainBuilder:
    """Lines of HLO that move one array on and on; a part of them may be a fusion."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.steps: list[list[str]] = []
        self.shape: Shape = self._shape()
        self.order: Order = self._order(len(self.shape))
        self.element = "s32"
        self.undo: list[tuple[str, Shape]] = []
        self.constants = 0

    def text(self, steps: int) -> str:
        """A program with `steps` ops after its parameter."""
        first = f"x0 = {self.type()} parameter(0)"
        for k in range(steps):
            self.steps.append([])
            self._step(f"x{k}", f"x{k + 1}")
        lines = [line for step in self.steps for line in step]
        fused = ""
        if steps > 2 and self.random.random() < 0.4:
            begin = self.random.randrange(steps)
            end = self.random.randrange(begin + 1, steps + 1)
            fused, lines = self._fused(first, begin, end)
        *rest, last = [first, *lines]
        body = "\n  ".join([*rest, f"ROOT {last}"])
        return f"HloModule chain\n\n{fused}ENTRY e {{\n  {body}\n}}\n"

    def _fused(self, first: str, begin: int, end: int) -> tuple[str, list[str]]:
        """A computation of some of the steps, and the lines with a fusion in their stead."""
        before, inside, after = (
            [line for step in part for line in step]
            for part in (self.steps[:begin], self.steps[begin:end], self.steps[end:])
        )
        needed = before[-1] if before else first
        name, _, rest = needed.partition(" = ")
        given = f"{name} = {rest.split(' ')[0]} parameter(0)"
        out, _, rest = inside[-1].partition(" = ")
        call = f"{out} = {rest.split(' ')[0]} fusion({name}), kind=kLoop, calls=f"
        body = "\n  ".join([given, *inside[:-1], f"ROOT {inside[-1]}"])
        return f"f {{\n  {body}\n}}\n\n", [*before, call, *after]

    def type(self, shape: Shape | None = None, order: Order | None = None) -> str:
        """The text of the type of the array as it is now."""
        shape = self.shape if shape is None else shape
        order = self.order if order is None else order
        return f"{self.element}[{','.join(map(str, shape))}]{{{','.join(map(str, order))}}}"

    def _shape(self) -> Shape:
        sizes = [self.random.choice((1, 2, 2, 3, 4, 6)) for _ in range(self.random.randint(0, 4))]
        return tuple(sizes)

    def _order(self, rank: int) -> Order:
        order = [*range(rank - 1, -1, -1)]
        if self.random.random() < 0.3:
            self.random.shuffle(order)
        return tuple(order)

    def _step(self, value: str, name: str) -> None:
        steps = [
            self._reshape, self._reshape, self._transpose, self._transpose, self._copy,
            self._elementwise, self._bitcast, self._broadcast, self._slice, self._pad,
            self._reverse, self._halves,
        ]  # fmt: skip
        weights = [3, 3, 3, 3, 2, 2, 2, 0.5, 0.5, 0.4, 0.5, 0.7]
        if self.undo and self.random.random() < 0.4:
            kind, shape = self.undo.pop()
            self._undone(value, name, kind, shape)
            return
        self.random.choices(steps, weights)[0](value, name)

    def _undone(self, value: str, name: str, kind: str, shape: Shape) -> None:
        """The op that takes back an earlier one."""
        if kind == "reshape" and prod(shape) == prod(self.shape):
            self._emit(name, f"reshape({value})", shape)
        elif kind == "pad" and len(shape) == len(self.shape):
            fits = all(a <= b for a, b in zip(shape, self.shape, strict=True))
            sides = ",".join(f"[0:{a}]" for a in (shape if fits else self.shape))
            self._emit(name, f"slice({value}), slice={{{sides}}}", shape if fits else self.shape)
        else:
            self._reverse(value, name)

    def _emit(self, name: str, op: str, shape: Shape, order: Order | None = None) -> None:
        self.shape, self.order = shape, self._order(len(shape)) if order is None else order
        self.steps[-1].append(f"{name} = {self.type()} {op}")

    def _reshape(self, value: str, name: str) -> None:
        self.undo.append(("reshape", self.shape))
        self._emit(name, f"reshape({value})", self._cut(prod(self.shape)))

    def _cut(self, size: int) -> Shape:
        """Random sizes of as many elements."""
        sizes = [1] * self.random.randint(0 if size == 1 else 1, 4)
        for prime in (2, 3, 5, 7):
            while sizes and size % prime == 0 and size:
                size //= prime
                sizes[self.random.randrange(len(sizes))] *= prime
        if sizes:
            sizes[0] *= size
        return tuple(sizes)

    def _transpose(self, value: str, name: str) -> None:
        permutation = [*range(len(self.shape))]
        self.random.shuffle(permutation)
        shape = tuple(self.shape[k] for k in permutation)
        dims = ",".join(map(str, permutation))
        self._emit(name, f"transpose({value}), dimensions={{{dims}}}", shape)

    def _copy(self, value: str, name: str) -> None:
        self._emit(name, f"copy({value})", self.shape)

    def _bitcast(self, value: str, name: str) -> None:
        self._emit(name, f"bitcast({value})", self._cut(prod(self.shape)))

    def _elementwise(self, value: str, name: str) -> None:
        if self.random.random() < 0.5:
            self._emit(name, f"negate({value})", self.shape)
        else:
            self.element = "s64" if self.element == "s32" else "s32"
            self._emit(name, f"convert({value})", self.shape)

    def _broadcast(self, value: str, name: str) -> None:
        if prod(self.shape) > 200 or len(self.shape) > 4:
            return self._copy(value, name)
        at = self.random.randint(0, len(self.shape))
        shape = (*self.shape[:at], self.random.randint(1, 3), *self.shape[at:])
        dims = ",".join(str(k) for k in range(len(shape)) if k != at)
        return self._emit(name, f"broadcast({value}), dimensions={{{dims}}}", shape)

    def _slice(self, value: str, name: str) -> None:
        sides = []
        for size in self.shape:
            begin = self.random.choice((0, 0, self.random.randint(0, size - 1)))
            end = self.random.choice((size, self.random.randint(begin + 1, size)))
            sides.append((begin, end, self.random.choice((1, 1, 2))))
        shape = tuple(-(-(e - b) // s) for b, e, s in sides)
        said = ",".join(f"[{b}:{e}:{s}]" for b, e, s in sides)
        self._emit(name, f"slice({value}), slice={{{said}}}", shape)

    def _pad(self, value: str, name: str) -> None:
        if not self.shape or prod(self.shape) > 300:
            return self._copy(value, name)
        self.constants += 1
        zero = f"zero{self.constants}"
        sides = [(0, self.random.randint(0, 2), self.random.choice((0, 0, 1))) for _ in self.shape]
        shape = tuple(n + h + (n - 1) * i for n, (_, h, i) in zip(self.shape, sides, strict=True))
        self.undo.append(("pad", self.shape))
        said = "x".join("_".join(map(str, side)) for side in sides)
        self.steps[-1].append(f"{zero} = {self.element}[] constant(0)")
        return self._emit(name, f"pad({value}, {zero}), padding={said}", shape)

    def _reverse(self, value: str, name: str) -> None:
        dims = [k for k in range(len(self.shape)) if self.random.random() < 0.5]
        said = ",".join(map(str, dims))
        self._emit(name, f"reverse({value}), dimensions={{{said}}}", self.shape)

    def _halves(self, value: str, name: str) -> None:
        """Cut along a dimension, and the parts joined again, as they were or the other way."""
        wide = [k for k, size in enumerate(self.shape) if size > 1]
        if not wide:
            return self._copy(value, name)
        along, before = self.random.choice(wide), self.shape
        cut = self.random.randint(1, before[along] - 1)
        order = self.order
        for part, (begin, end) in enumerate(((0, cut), (cut, before[along]))):
            shape = (*before[:along], end - begin, *before[along + 1 :])
            sides = ",".join(
                f"[{begin}:{end}]" if k == along else f"[0:{n}]" for k, n in enumerate(before)
            )
            self._emit(f"{name}_{part}", f"slice({value}), slice={{{sides}}}", shape, order)
        parts = [f"{name}_0", f"{name}_1"]
        if self.random.random() < 0.3:
            parts.reverse()
        said = ", ".join(parts)
        return self._emit(name, f"concatenate({said}), dimensions={{{along}}}", before)


def random_chain(seed: int) -> str:
    """A random program that only moves elements, and computes what shows where they went."""
    random = Random(seed)
    return ChainBuilder(random).text(random.randint(1, 8))
