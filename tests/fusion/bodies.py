"""Random bodies of scalars in both languages, and what their results depend on.

A body uses its parameters, or values around it, directly, in branches and through calls; what a
result depends on is told by the expression it was made from, by no rule of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

Used = frozenset[object]


@dataclass(frozen=True)
class Expr:
    """An expression of scalars.

    Attributes:
        op: `value`, `add`, `first` (a call that ignores its second operand), `if`: one of the last
            two by how the first two compare.
        parts: What it is made of.
        number: Which value it is: parameters count from 0, values around the body from -1 down.
    """

    op: str
    parts: tuple[Expr, ...] = ()
    number: int = 0

    def used(self, values: Callable[[int], Used]) -> Used:
        """What it depends on, given what the values do."""
        if self.op == "value":
            return values(self.number)
        parts = self.parts[:1] if self.op == "first" else self.parts
        return frozenset[object]().union(*[part.used(values) for part in parts])

    @property
    def source(self) -> int | None:
        """The number of the value that it is, as it is."""
        if self.op == "first":
            return self.parts[0].source
        return self.number if self.op == "value" else None


def expression(rng: np.random.Generator, values: Sequence[int], depth: int = 2) -> Expr:
    """A random expression of these values."""
    op = str(rng.choice(["value", "value", "add", "if", "first"])) if depth else "value"
    if op == "value":
        return Expr("value", number=int(rng.choice(values)))
    count = {"add": 2, "first": 2, "if": 4}[op]
    return Expr(op, tuple([expression(rng, values, depth - 1) for _ in range(count)]))


@dataclass
class Hlo:
    """Text of HLO; a branch is a computation that takes all values as a tuple."""

    computations: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def emit(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def value(self, e: Expr, names: Sequence[str]) -> str:
        """The name of the value of an expression."""
        if e.op == "value":
            return names[e.number]
        if e.op == "if":
            left, right = (self.value(part, names) for part in e.parts[:2])
            test = self.emit(f"pred[] compare({left}, {right}), direction=GT")
            type_ = f"({', '.join(['s32[]'] * len(names))})"
            all_ = self.emit(f"{type_} tuple({', '.join(names)})")
            branches = [self.computation([part], len(names), handed=type_) for part in e.parts[2:]]
            calls = "true_computation={}, false_computation={}".format(*branches)
            return self.emit(f"s32[] conditional({test}, {all_}, {all_}), {calls}")
        left, right = (self.value(part, names) for part in e.parts)
        if e.op == "add":
            return self.emit(f"s32[] add({left}, {right})")
        return self.emit(f"s32[] call({left}, {right}), to_apply=first")

    def computation(
        self,
        results: Sequence[Expr],
        parameters: int,
        *,
        handed: str = "",
        test: bool = False,
        packed: bool = False,
    ) -> str:
        """A computation; its name.

        Args:
            results: What it returns, a tuple if several; with `test`, if the first is greater.
            parameters: How many scalars it takes.
            handed: The type of the tuple that holds these, if one does.
            test: It is a predicate.
            packed: It returns a tuple of one, too.
        """
        outer, self.lines = self.lines, []
        if handed:
            self.lines.append(f"t = {handed} parameter(0)")
            reads = [f"s32[] get-tuple-element(t), index={k}" for k in range(parameters)]
        else:
            reads = [f"s32[] parameter({k})" for k in range(parameters)]
        names = [self.emit(read) for read in reads]
        found = [self.value(e, names) for e in results]
        if test:
            root = f"pred[] compare({', '.join(found)}), direction=GT"
        elif len(found) > 1 or packed:
            root = f"({', '.join(['s32[]'] * len(found))}) tuple({', '.join(found)})"
        else:
            root = f"s32[] copy({found[0]})"
        name = self.name("c")
        body = " ".join([*self.lines, f"ROOT root = {root}"])
        self.computations.append(f"{name} {{ {body} }}")
        self.lines = outer
        return name

    def module(self, parameters: Sequence[str], result: str) -> str:
        """The program whose entry takes these types."""
        first = "first { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] copy(a) }"
        given = [f"p{k} = {type_} parameter({k})" for k, type_ in enumerate(parameters)]
        entry = " ".join([*given, *self.lines, f"ROOT result = {result}"])
        return "\n".join(["HloModule m", first, *self.computations, f"ENTRY e {{ {entry} }}"])


@dataclass
class Mlir:
    """Text of StableHLO; branches are regions that read what is around them."""

    count: int = 0

    def value(self, e: Expr, names: Callable[[int], str], lines: list[str]) -> str:
        """The name of the value of an expression."""
        if e.op == "value":
            return names(e.number)
        self.count += 1
        name, scalar = f"%v{self.count}", "tensor<i32>"
        if e.op == "if":
            left, right = (self.value(part, names, lines) for part in e.parts[:2])
            types = f"({scalar}, {scalar}) -> tensor<i1>"
            lines.append(f"{name}p = stablehlo.compare GT, {left}, {right} : {types}")
            branches = ", ".join(self.region([part], names, "") for part in e.parts[2:])
            lines.append(
                f'{name} = "stablehlo.if"({name}p) ({branches}) : (tensor<i1>) -> {scalar}'
            )
            return name
        left, right = (self.value(part, names, lines) for part in e.parts)
        if e.op == "add":
            lines.append(f"{name} = stablehlo.add {left}, {right} : {scalar}")
        else:
            types = f"({scalar}, {scalar}) -> {scalar}"
            lines.append(f"{name} = func.call @first({left}, {right}) : {types}")
        return name

    def region(
        self, results: Sequence[Expr], names: Callable[[int], str], head: str, test: bool = False
    ) -> str:
        """A region that returns these values; with `test`, if the first is greater."""
        lines: list[str] = []
        found = [self.value(e, names, lines) for e in results]
        types = ", ".join(["tensor<i32>"] * len(found))
        if test:
            self.count += 1
            both = f"{', '.join(found)} : ({types})"
            lines.append(f"%v{self.count} = stablehlo.compare GT, {both} -> tensor<i1>")
            found, types = [f"%v{self.count}"], "tensor<i1>"
        lines.append(f'"stablehlo.return"({", ".join(found)}) : ({types}) -> ()')
        return "{" + "\n".join([head, *lines]) + "}"

    def body(self, results: Sequence[Expr], parameters: int, test: bool = False) -> str:
        """A region with parameters; values around it are `%c0`, `%c1` …"""
        self.count += 1
        mark = f"%a{self.count}_"

        def name(number: int) -> str:
            return f"{mark}{number}" if number >= 0 else f"%c{-1 - number}"

        given = ", ".join(f"{mark}{k}: tensor<i32>" for k in range(parameters))
        return self.region(results, name, f"^bb0({given}):", test)


FIRST = """func.func private @first(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  return %a : tensor<i32>
}"""
