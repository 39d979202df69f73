"""Random fusions as HLO text, with what each value reads of each parameter, by numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Sizes = tuple[int, ...]
Ints = NDArray[np.int64]
NOTHING = -1
"""Stands for an element that is not read."""


class Kind(NamedTuple):
    """An element type: its name, the bits that an element takes, what the layout says of them."""

    name: str
    bits: int
    packed: str = ""


KINDS = (
    Kind("f32", 32), Kind("f32", 32), Kind("bf16", 16), Kind("f64", 64), Kind("s8", 8),
    Kind("pred", 8), Kind("s4", 8), Kind("s4", 4, "E(4)"), Kind("c64", 64), Kind("c128", 128),
)  # fmt: skip


class Array(NamedTuple):
    """How an array lies in memory."""

    kind: Kind
    sizes: Sizes
    order: Sizes
    """Minor to major."""
    tile: Sizes = ()

    @property
    def text(self) -> str:
        """The type as HLO prints it."""
        sizes, order = (",".join(map(str, part)) for part in (self.sizes, self.order))
        tile = f"T({','.join(map(str, self.tile))})" if self.tile else ""
        more = ":" + tile + self.kind.packed if tile or self.kind.packed else ""
        return f"{self.kind.name}[{sizes}]{{{order}{more}}}"

    def addresses(self) -> Ints:
        """Of each element, in row-major order, its address in elements."""
        index = np.indices(self.sizes).reshape(len(self.sizes), prod(self.sizes))
        parts = [(index[k], self.sizes[k]) for k in reversed(self.order)]
        kept = len(parts) - len(self.tile)
        tiled = [(x // t, -(-n // t)) for (x, n), t in zip(parts[kept:], self.tile, strict=True)]
        inside = [(x % t, t) for (x, _), t in zip(parts[kept:], self.tile, strict=True)]
        address = np.zeros(prod(self.sizes), dtype=np.int64)
        for x, n in (*parts[:kept], *tiled, *inside):
            address = address * n + x
        return address


class Part(NamedTuple):
    """What a value reads of one parameter, along one path.

    Attributes:
        parameter: Its number.
        index: Row-major positions, by the value's dimensions and then those that are summed over.
        path: Names of the values on the way.
    """

    parameter: int
    index: Ints
    path: frozenset[str] = frozenset()


class Value(NamedTuple):
    """A value of the fusion.

    Attributes:
        name: In the text.
        array: Its type.
        parts: What it reads, one for each path to a parameter.
    """

    name: str
    array: Array
    parts: tuple[Part, ...]


class FusionBuilder:
    """A fusion of some steps, from one parameter on; others are added where they are needed."""

    def __init__(self, random: Random, *, most: int = 3000) -> None:
        self.random = random
        self.most = most
        self.kind = random.choice(KINDS)
        self.parameters: list[Array] = []
        self.lines: list[str] = []
        self.values: dict[str, Value] = {}

    def build(self, steps: int) -> str:
        """The text of a program whose root is the fusion."""
        value = self._parameter(self._sizes())
        for _ in range(steps):
            value = self._step(value)
        roots = [value]
        if self.random.random() < 0.2:
            roots.append(self._elementwise(value))
        self._end(roots)
        body = "\n  ".join(self.lines)
        outer = [f"q{k} = {a.text} parameter({k})" for k, a in enumerate(self.parameters)]
        type = roots[0].array.text
        if len(roots) > 1:
            type = f"({', '.join(r.array.text for r in roots)})"
        given = ", ".join(f"q{k}" for k in range(len(self.parameters)))
        call = f"ROOT fused = {type} fusion({given}), kind=kLoop, calls=f"
        inner = "\n  ".join([*outer, call])
        kind = self.kind.name
        added = f"a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)"
        return (
            f"add {{\n  {added}\n  ROOT c = {kind}[] {self._operator}(a, b)\n}}\n\n"
            f"f {{\n  {body}\n}}\n\nENTRY e {{\n  {inner}\n}}\n"
        )

    # ------------------------------------------------------------------------------- the parts

    @property
    def _operator(self) -> str:
        return "or" if self.kind.name == "pred" else "add"

    def _sizes(self) -> Sizes:
        rank = self.random.choice([1, 2, 2, 3, 3, 4])
        choices = (1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 64)
        sizes = [self.random.choice(choices) for _ in range(rank)]
        while prod(sizes) > self.most:
            sizes[sizes.index(max(sizes))] //= 2
        return tuple(sizes)

    def _order(self, rank: int) -> Sizes:
        order = [*range(rank - 1, -1, -1)]
        if self.random.random() < 0.3:
            self.random.shuffle(order)
        return tuple(order)

    def _array(self, sizes: Sizes, *, may_be_tiled: bool = False) -> Array:
        tile: Sizes = ()
        if may_be_tiled and len(sizes) > 1 and not self.kind.packed and self.random.random() < 0.1:
            tile = (self.random.choice([2, 8]), self.random.choice([4, 32]))
        return Array(self.kind, sizes, self._order(len(sizes)), tile)

    def _parameter(self, sizes: Sizes) -> Value:
        array = self._array(sizes, may_be_tiled=True)
        number = len(self.parameters)
        self.parameters.append(array)
        whole = np.arange(prod(sizes), dtype=np.int64).reshape(sizes)
        return self._add(f"p{number}", array, f"parameter({number})", [Part(number, whole)])

    def _constant(self) -> Value:
        array = Array(self.kind, (), ())
        zero = {"pred": "false", "c64": "(0, 0)", "c128": "(0, 0)"}.get(self.kind.name, "0")
        return self._add(f"z{len(self.lines)}", array, f"constant({zero})", [])

    def _add(self, name: str, array: Array, op: str, parts: Sequence[Part]) -> Value:
        self.lines.append(f"{name} = {array.text} {op}")
        passed = tuple([part._replace(path=part.path | {name}) for part in parts])
        found = self.values[name] = Value(name, array, passed)
        return found

    def _new(
        self, sizes: Sizes, op: str, parts: Sequence[Part], order: Sizes | None = None
    ) -> Value:
        array = self._array(sizes) if order is None else Array(self.kind, sizes, order)
        return self._add(f"v{len(self.lines)}", array, op, parts)

    def _end(self, roots: list[Value]) -> None:
        if len(roots) > 1:
            types = ", ".join(r.array.text for r in roots)
            names = ", ".join(r.name for r in roots)
            self.lines.append(f"ROOT t = ({types}) tuple({names})")
        else:
            at = next(k for k, s in enumerate(self.lines) if s.startswith(f"{roots[0].name} ="))
            self.lines.append("ROOT " + self.lines.pop(at))

    # ------------------------------------------------------------------------------- the steps

    def _step(self, value: Value) -> Value:
        steps = [
            self._reshape, self._transpose, self._copy, self._elementwise, self._binary,
            self._twice, self._reverse, self._slice, self._pad, self._broadcast,
            self._concatenate, self._bitcast, self._reduce,
        ]  # fmt: skip
        weights = [2, 3, 1, 1, 2, 1, 1, 2, 2, 1.5, 1.5, 1, 0.7]
        return self.random.choices(steps, weights)[0](value)

    def _elementwise(self, value: Value) -> Value:
        op = "not" if self.kind.name == "pred" else "negate"
        sizes, order = value.array.sizes, value.array.order
        return self._new(sizes, f"{op}({value.name})", value.parts, order)

    def _copy(self, value: Value) -> Value:
        return self._new(value.array.sizes, f"copy({value.name})", value.parts)

    def _binary(self, value: Value) -> Value:
        other = self._parameter(value.array.sizes)
        text = f"{self._operator}({value.name}, {other.name})"
        return self._new(value.array.sizes, text, [*value.parts, *other.parts], value.array.order)

    def _twice(self, value: Value) -> Value:
        other = self._reverse(value)
        text = f"{self._operator}({value.name}, {other.name})"
        return self._new(value.array.sizes, text, [*value.parts, *other.parts], value.array.order)

    def _reshape(self, value: Value) -> Value:
        sizes = self._cut(prod(value.array.sizes))
        rank = len(value.array.sizes)
        parts = [Part(p, x.reshape(sizes + x.shape[rank:]), path) for p, x, path in value.parts]
        return self._new(sizes, f"reshape({value.name})", parts)

    def _cut(self, count: int) -> Sizes:
        sizes = [1] * self.random.randint(1, 4)
        for prime in (2, 3, 5, 7, 11, 31):
            while count and count % prime == 0:
                count //= prime
                sizes[self.random.randrange(len(sizes))] *= prime
        sizes[0] *= count
        return tuple(sizes)

    def _bitcast(self, value: Value) -> Value:
        sizes = self._cut(prod(value.array.sizes))
        order = self._order(len(sizes))
        rank = len(value.array.sizes)
        if value.array.tile:
            return self._copy(value)
        parts = []
        for p, x, path in value.parts:
            loops = [*range(rank, x.ndim)]
            physical = x.transpose([*reversed(value.array.order), *loops])
            flat = physical.reshape(
                [sizes[k] for k in reversed(order)] + [x.shape[k] for k in loops]
            )
            back = [len(sizes) - 1 - order.index(k) for k in range(len(sizes))]
            parts.append(Part(p, flat.transpose([*back, *range(len(sizes), flat.ndim)]), path))
        return self._new(sizes, f"bitcast({value.name})", parts, order)

    def _transpose(self, value: Value) -> Value:
        rank = len(value.array.sizes)
        permutation = [*range(rank)]
        self.random.shuffle(permutation)
        parts = [
            Part(p, x.transpose([*permutation, *range(rank, x.ndim)]), path)
            for p, x, path in value.parts
        ]
        sizes = tuple(value.array.sizes[k] for k in permutation)
        dims = ",".join(map(str, permutation))
        return self._new(sizes, f"transpose({value.name}), dimensions={{{dims}}}", parts)

    def _reverse(self, value: Value) -> Value:
        dims = [k for k in range(len(value.array.sizes)) if self.random.random() < 0.5]
        parts = [Part(p, np.flip(x, dims), path) for p, x, path in value.parts]
        text = f"reverse({value.name}), dimensions={{{','.join(map(str, dims))}}}"
        return self._new(value.array.sizes, text, parts, value.array.order)

    def _slice(self, value: Value) -> Value:
        places, texts = [], []
        for n in value.array.sizes:
            if n == 0 or self.random.random() < 0.5:
                places.append(slice(0, n, 1))
            else:
                start = self.random.randrange(n)
                stop = self.random.randint(start + 1, n)
                places.append(slice(start, stop, self.random.choice([1, 1, 2, 3])))
            texts.append(f"[{places[-1].start}:{places[-1].stop}:{places[-1].step}]")
        parts = [Part(p, x[tuple(places)], path) for p, x, path in value.parts]
        sizes = tuple(len(range(n)[s]) for n, s in zip(value.array.sizes, places, strict=True))
        return self._new(sizes, f"slice({value.name}), slice={{{', '.join(texts)}}}", parts)

    def _pad(self, value: Value) -> Value:
        filler = self._parameter(()) if self.random.random() < 0.3 else self._constant()
        sizes, texts = [], []
        parts = [*value.parts]
        filled = np.zeros((), dtype=np.bool_)
        for k, n in enumerate(value.array.sizes):
            low, high, inner = (
                self.random.choice(c) for c in ((0, 0, 1, 3, -1), (0, 0, 2, -1), (0, 0, 1))
            )
            spread = n + max(n - 1, 0) * inner
            if spread + low + high <= 0 or prod(value.array.sizes) * 2 > self.most:
                low = high = inner = 0
                spread = n
            size = spread + low + high
            at = low + np.arange(n) * (inner + 1)
            inside = (at >= 0) & (at < size)
            filled = filled[..., None] | ~np.isin(np.arange(size), at)
            for number, (p, x, path) in enumerate(parts):
                new = np.full((*x.shape[:k], size, *x.shape[k + 1 :]), NOTHING, dtype=np.int64)
                new[(slice(None),) * k + (at[inside],)] = x[(slice(None),) * k + (inside,)]
                parts[number] = Part(p, new, path)
            sizes.append(size)
            texts.append(f"{low}_{high}_{inner}")
        text = f"pad({value.name}, {filler.name}), padding={'x'.join(texts)}"
        if not sizes:
            return self._copy(value)
        for p, x, path in filler.parts:
            parts.append(Part(p, np.where(filled, x, NOTHING), path))
        return self._new(tuple(sizes), text, parts)

    def _broadcast(self, value: Value) -> Value:
        sizes = value.array.sizes
        if prod(sizes) * 4 > self.most or len(sizes) > 4:
            return self._copy(value)
        at, count = self.random.randint(0, len(sizes)), self.random.randint(1, 4)
        new = (*sizes[:at], count, *sizes[at:])
        parts = [
            Part(p, np.repeat(np.expand_dims(x, at), count, at), path) for p, x, path in value.parts
        ]
        dims = ",".join(str(k) for k in range(len(new)) if k != at)
        return self._new(new, f"broadcast({value.name}), dimensions={{{dims}}}", parts)

    def _concatenate(self, value: Value) -> Value:
        sizes = value.array.sizes
        if prod(sizes) * 2 > self.most or not sizes:
            return self._copy(value)
        k = self.random.randrange(len(sizes))
        other = self._parameter((*sizes[:k], self.random.randint(1, sizes[k] + 2), *sizes[k + 1 :]))
        pair = [value, other]
        self.random.shuffle(pair)
        total = sum(v.array.sizes[k] for v in pair)
        parts, start = [], 0
        for one in pair:
            for p, x, path in one.parts:
                new = np.full((*x.shape[:k], total, *x.shape[k + 1 :]), NOTHING, dtype=np.int64)
                new[(slice(None),) * k + (slice(start, start + x.shape[k]),)] = x
                parts.append(Part(p, new, path))
            start += one.array.sizes[k]
        names = ", ".join(v.name for v in pair)
        new_sizes = (*sizes[:k], total, *sizes[k + 1 :])
        return self._new(new_sizes, f"concatenate({names}), dimensions={{{k}}}", parts)

    def _reduce(self, value: Value) -> Value:
        sizes = value.array.sizes
        if any(x.ndim > len(sizes) for _, x, _ in value.parts) or len(sizes) < 2:
            return self._copy(value)
        k = self.random.randrange(len(sizes))
        zero = self._constant()
        parts = [Part(p, np.moveaxis(x, k, -1), path) for p, x, path in value.parts]
        new = (*sizes[:k], *sizes[k + 1 :])
        text = f"reduce({value.name}, {zero.name}), dimensions={{{k}}}, to_apply=add"
        return self._new(new, text, parts)
