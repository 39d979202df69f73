"""Random small operands and the assembly of a case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, TypeVar

import numpy as np

from hloscope.ir.graph import Body, Computation, Instruction
from hloscope.ir.op import Op
from hloscope.ir.types import ELEMENT_TYPES, Layout, TensorType, TupleType, Type
from hloscope.ops.control import Parameter, Tuple
from hloscope.ops.elementwise import ELEMENTWISE
from tests.indexing.truth.marks import Case, Ints, Marks, Numbering, Operand, as_marks

T = TypeVar("T")
Maker = Callable[["Gen"], Case]
CASES: Final[dict[str, Maker]] = {}
"""Makers of random cases by name: an op's name, or `op: what is special`."""
NOT_EXACT: Final[set[str]] = set()
"""Names of the makers whose rule may claim less than `exact`."""


def case(name: str, *, exact: bool = True) -> Callable[[Maker], Maker]:
    """Register a maker; `exact`: the rule has to claim that its answer is exact."""

    def register(maker: Maker) -> Maker:
        assert name not in CASES, name
        CASES[name] = maker
        if not exact:
            NOT_EXACT.add(name)
        return maker

    return register


class Gen:
    """A source of random choices, operands and cases; the same seed gives the same case."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.numbering = Numbering()
        self.parameters = 0

    def number(self, lo: int, hi: int) -> int:
        """An integer in `[lo, hi]`."""
        return int(self.rng.integers(lo, hi + 1))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.number(0, len(items) - 1)]

    def subset(self, count: int, size: int) -> Ints:
        """`size` different numbers below `count`, in random order."""
        return tuple(int(x) for x in self.rng.permutation(count)[:size])

    def some(self, count: int, *, least: int = 0) -> Ints:
        """A random number of different numbers below `count`, in random order."""
        return self.subset(count, self.number(least, count))

    def permutation(self, count: int) -> Ints:
        return self.subset(count, count)

    def shape(
        self, lo: int = 0, hi: int = 4, *, largest: int = 5, most: int = 90, zero: bool = True
    ) -> Ints:
        """A shape of rank `lo` to `hi`, at most `most` elements; now and then with a size 0."""
        rank = self.number(lo, hi)
        while True:
            sizes = tuple(self.number(1, largest) for _ in range(rank))
            if prod(sizes) <= most:
                break
        if zero and rank and self.chance(0.03):
            at = self.number(0, rank - 1)
            sizes = (*sizes[:at], 0, *sizes[at + 1 :])
        return sizes

    def array(
        self,
        shape: Sequence[int],
        *,
        element: str = "f32",
        layout: Layout | None = None,
        values: object = None,
        copies: int = 1,
    ) -> Operand:
        """A parameter of this shape; `copies`: one numbering for each replica."""
        type_ = TensorType(ELEMENT_TYPES[element], tuple(shape), layout)
        marks, first = self.numbering.number(shape)
        for _ in range(copies - 1):
            self.numbering.number(shape)
        known = None if values is None else np.asarray(values, dtype=np.int64)
        return Operand(self._parameter(type_), (marks,), (first,), known)

    def integers(self, shape: Sequence[int], lo: int, hi: int) -> Operand:
        """A parameter of known integers in `[lo, hi]`."""
        return self.array(
            shape, element="s32", values=self.rng.integers(lo, hi + 1, size=tuple(shape))
        )

    def tuple_of(self, shapes: Sequence[Sequence[int]]) -> Operand:
        """A parameter that is a tuple of arrays."""
        parts = [self.numbering.number(s) for s in shapes]
        types = tuple(TensorType(ELEMENT_TYPES["f32"], tuple(s)) for s in shapes)
        leaves, first = tuple(m for m, _ in parts), tuple(f for _, f in parts)
        return Operand(self._parameter(TupleType(types)), leaves, first)

    def _parameter(self, type_: Type) -> Instruction:
        number = self.parameters
        self.parameters += 1
        return Instruction(f"p{number}", type_, Parameter(number))

    def case(
        self,
        op: Op,
        operands: Sequence[Operand],
        outputs: object,
        *,
        element: str = "f32",
        layout: Layout | None = None,
        calls: tuple[Computation, ...] = (),
        group: int = 1,
        member: int = 0,
        note: str = "",
    ) -> Case:
        """The case of an op: `outputs` are the marks of its result, a tuple of them if several."""
        several = isinstance(outputs, tuple)
        marks: tuple[Marks, ...] = tuple(
            as_marks(o) for o in (outputs if isinstance(outputs, tuple) else (outputs,))
        )
        types = tuple(TensorType(ELEMENT_TYPES[element], m.shape, layout) for m in marks)
        ins = Instruction(
            "result",
            TupleType(types) if several else types[0],
            op,
            tuple(o.ins for o in operands),
            calls,
        )
        return Case(ins, tuple(operands), marks, group, member, note)


SCALAR: Final = TensorType(ELEMENT_TYPES["f32"], ())


def body(parameters: int, results: Sequence[Sequence[int]], type_: Type = SCALAR) -> Computation:
    """A computation whose result `o` adds the parameters `results[o]`; a tuple if several."""
    params = tuple(Instruction(f"a{i}", type_, Parameter(i)) for i in range(parameters))
    made: list[Instruction] = list(params)
    roots = []
    for numbers in results:
        value = params[numbers[0]]
        for n in numbers[1:]:
            value = Instruction(f"v{len(made)}", type_, ELEMENTWISE["add"](), (value, params[n]))
            made.append(value)
        roots.append(value)
    root = roots[0]
    if len(roots) > 1:
        whole = TupleType(tuple(r.type for r in roots))
        root = Instruction("root", whole, Tuple(), tuple(roots))
        made.append(root)
    return Computation("body", Body(tuple(made), params, root))
