"""Writes random StableHLO backwards: what is wanted first, then what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Final, NamedTuple, TypeAlias

FLOATS: Final = ("f32", "f16", "bf16", "f64")
SIGNED: Final = ("i8", "i32", "i64")
UNSIGNED: Final = ("ui8", "ui32")
INTEGERS: Final = (*SIGNED, *UNSIGNED)
COMPLEX: Final = ("complex<f32>",)
ELEMENTS: Final = (*FLOATS, *INTEGERS, *COMPLEX, "i1")
SHAPES: Final = (
    (), (1,), (0,), (2,), (3,), (1, 1), (2, 1), (1, 3), (2, 3), (0, 2), (2, 0), (2, 2),
    (1, 2, 1), (2, 1, 3), (2, 2, 2), (1, 0, 2), (4,), (6,),
)  # fmt: skip


class Array(NamedTuple):
    """A type: elements and sizes."""

    element: str
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"tensor<{''.join(f'{n}x' for n in self.sizes)}{self.element}>"

    def of(self, element: str) -> Array:
        """The same sizes of other elements."""
        return Array(element, self.sizes)

    @property
    def count(self) -> int:
        """How many elements there are."""
        total = 1
        for size in self.sizes:
            total *= size
        return total


Named: TypeAlias = tuple[str, Array]
Way: TypeAlias = "Callable[[Writer, Array], str | None]"
INDEX: Final = Array("i32", ())
TRUTH: Final = Array("i1", ())


class Writer:
    """Writes one program of ops that come about in some ways; `fuel` is how many may still be."""

    def __init__(self, seed: int, ways: Sequence[Way], fuel: int) -> None:
        self.ways: Final = ways
        self.random: Final = Random(seed)
        self.fuel = fuel
        self.depth = 0
        self.lines: list[str] = []
        self.scope: list[Named] = []
        self.functions: list[str] = []
        self._count = 0

    # --------------------------------------------------------------------------------- choosing

    def chance(self, share: float) -> bool:
        """Is it so, this time?"""
        return self.random.random() < share

    def type(self, elements: Sequence[str] = ELEMENTS) -> Array:
        """Any type."""
        return Array(self.random.choice(elements), self.random.choice(SHAPES))

    def name(self) -> str:
        """A name nobody has."""
        self._count += 1
        return f"%v{self._count}"

    # ---------------------------------------------------------------------------------- writing

    def emit(self, text: str, type: Array) -> str:
        """A line that gives a value of a type, and its name."""
        name = self.name()
        self.lines.append(f"{name} = {text}")
        self.scope.append((name, type))
        return name

    def emit_all(self, text: str, types: Sequence[Array]) -> list[str]:
        """A line of several results, and their names."""
        name = self.name()
        self.lines.append(f"{name}:{len(types)} = {text}" if types else text)
        names = [f"{name}#{k}" for k in range(len(types))]
        self.scope += zip(names, types, strict=True)
        return names

    def generic(self, op: str, given: Sequence[Named], type: Array, attributes: str = "") -> str:
        """An op of one result in generic form."""
        names, types = ", ".join(n for n, _ in given), ", ".join(str(t) for _, t in given)
        attributes = f" <{{{attributes}}}>" if attributes else ""
        return self.emit(f'"stablehlo.{op}"({names}){attributes} : ({types}) -> {type}', type)

    def constant(self, type: Array) -> str:
        """A constant, often of one value."""
        if type.count and self.chance(0.75):
            text = self.number(type.element)
        else:
            text = self._nested(type.element, type.sizes)
        return self.emit(f"stablehlo.constant dense<{text}> : {type}", type)

    def _nested(self, element: str, sizes: tuple[int, ...]) -> str:
        if 0 in sizes:
            return ""
        if not sizes:
            return self.number(element)
        return f"[{', '.join(self._nested(element, sizes[1:]) for _ in range(sizes[0]))}]"

    def number(self, element: str) -> str:
        """A number where laws break."""
        pick = self.random.choice
        if element == "i1":
            return pick(["true", "false"])
        if element.startswith("complex"):
            return f"({self.number('f32')}, {self.number('f32')})"
        if element in FLOATS:
            return pick(["0.0", "-0.0", "1.0", "-1.0", "2.5", "0.0", *_ODD[element]])
        bits = int(element.lstrip("ui"))
        if element in UNSIGNED:
            return str(pick([0, 0, 1, 1, 2, 2**bits - 1, 2 ** (bits - 1)]))
        return str(pick([0, 0, 1, 1, -1, 3, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]))

    def of(self, type: Array) -> str:
        """A value of a type: one in sight, a constant, or one that is made now."""
        seen = [name for name, known in self.scope if known == type]
        if seen and self.chance(0.35):
            return self.random.choice(seen)
        if self.fuel <= 0 or self.chance(0.15):
            return self.random.choice(seen) if seen and self.chance(0.5) else self.constant(type)
        self.fuel -= 1
        for _ in range(6):
            made = self.random.choice(self.ways)(self, type)
            if made is not None:
                return made
        return self.constant(type)

    def given(self, type: Array) -> Named:
        """A value of a type, with it."""
        return self.of(type), type

    @contextmanager
    def inside(self, *, isolated: bool = False) -> Iterator[list[str]]:
        """Lines of a region or of a function, which sees nothing of what is around it."""
        lines, scope = self.lines, self.scope
        self.lines, self.scope = [], [] if isolated else [*scope]
        self.depth += 1
        try:
            yield self.lines
        finally:
            self.lines, self.scope = lines, scope
            self.depth -= 1

    def region(
        self,
        arguments: Sequence[Array],
        body: Callable[[list[Named]], Sequence[str]],
        results: Sequence[Array],
    ) -> str:
        """The text of a region: what the body returns, of its arguments."""
        own = [(self.name(), type) for type in arguments]
        with self.inside() as lines:
            self.scope += own
            returned = body(own)
            head = f"^bb0({', '.join(f'{n}: {t}' for n, t in own)}):" if own else ""
            lines.append(returns("stablehlo.return", returned, results))
        return "\n".join(["{", head, *lines, "}"])

    def function(self, arguments: Sequence[Array], results: Sequence[Array]) -> str:
        """A private function, and its name."""
        own = [(self.name(), type) for type in arguments]
        name = f"f{len(self.functions)}"
        at = len(self.functions)
        self.functions.append("")
        with self.inside(isolated=True) as lines:
            self.scope += own
            lines.append(returns("return", [self.of(type) for type in results], results))
        head = ", ".join(f"{n}: {t}" for n, t in own)
        types = ", ".join(map(str, results))
        self.functions[at] = "\n".join(
            [f"func.func private @{name}({head}) -> ({types}) {{", *lines, "}"]
        )
        return name


def returns(op: str, names: Sequence[str], types: Sequence[Array]) -> str:
    return f"{op} {', '.join(names)} : {', '.join(map(str, types))}" if names else op


_ODD: Final = {
    "f32": ("0x7FC00000", "0x7F800000", "0xFF800000"),
    "f64": ("0x7FF8000000000000", "0x7FF0000000000000", "0xFFF0000000000000"),
    "f16": ("0x7E00", "0x7C00", "0xFC00"),
    "bf16": ("0x7FC0", "0x7F80", "0xFF80"),
}
