"""Random graphs: the makers of single cases, applied to values that exist already.

A maker asks its generator for operands; here it often gets a value computed before instead of a new
parameter.  The marks of what it computes then tell which elements of the parameters are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hloscope.ir.graph import Body, Computation, Instruction, Module
from hloscope.ir.op import Op
from hloscope.ir.types import Layout, TensorType, TupleType
from hloscope.ops.control import GetTupleElement, Parameter, Tuple
from tests.indexing.truth.generator import CASES, Gen
from tests.indexing.truth.marks import Case, Ints, Marks, Operand

LEFT_OUT: Final = {
    "all_gather",
    "all_to_all",
    "all_to_all: several operands",
    "collective_broadcast",
    "collective_broadcast: dynamic roots",
    "copy-done",
    "dynamic_pad",  # not exact
    "get_tuple_element",
    "reduce_scatter",
    "reshape: to nothing",
    "scatter: of StableHLO",  # graphs are HLO's
    "select_and_scatter",  # not exact
    "tuple",
}
MAKERS: Final = sorted(CASES.keys() - LEFT_OUT)


@dataclass(frozen=True, eq=False)
class Graph:
    """A computation, its parameters with their marks, and the marks of every output."""

    computation: Computation
    case: Case

    @property
    def module(self) -> Module:
        """The graph as a program."""
        called = [c for i in self.computation.instructions for c in i.calls]
        every = {c.name: c for c in (*called, self.computation)}
        return Module("graph", every, self.computation)


class GraphGen(Gen):
    """A generator that hands out values of a growing graph."""

    def __init__(self, seed: int, makers: Sequence[str] = MAKERS) -> None:
        super().__init__(seed)
        self.makers = makers
        self.given: list[Operand] = []
        self.values: list[Operand] = []
        self.instructions: list[Instruction] = []
        self.enclosed = 0

    def shape(
        self, lo: int = 0, hi: int = 4, *, largest: int = 5, most: int = 90, zero: bool = True
    ) -> Ints:
        fits = [
            v.marks.shape
            for v in self.values
            if lo <= v.marks.ndim <= hi and v.marks.size <= most and (zero or v.marks.size)
        ]
        if fits and self.chance(0.8):
            return self.pick(fits[-4:])
        return super().shape(lo, hi, largest=largest, most=most, zero=zero)

    def array(
        self,
        shape: Sequence[int],
        *,
        element: str = "f32",
        layout: Layout | None = None,
        values: object = None,
        copies: int = 1,
    ) -> Operand:
        same = [v for v in self.values if v.marks.shape == tuple(shape)]
        plain = element == "f32" and layout is None and values is None and copies == 1
        if plain and same and self.chance(0.8):
            return self.pick(same[-3:])
        made = super().array(shape, element=element, layout=layout, values=values, copies=copies)
        self.given.append(made)
        if plain:
            self.values.append(made)
        return made

    def step(self) -> None:
        """Add one instruction, unless its result is too large."""
        made = CASES[self.pick(self.makers)](self)
        if max(m.size for m in made.outputs) > 150:
            return
        self._keep(self._named(made.ins), made.outputs)

    def _keep(self, ins: Instruction, outputs: tuple[Marks, ...]) -> None:
        """Remember the values of an instruction, for others to read."""
        for k, marks in enumerate(outputs):
            one = ins
            if isinstance(ins.type, TupleType):
                part = Instruction("", ins.type.elements[k], GetTupleElement(k), (ins,))
                one = self._named(part)
            assert isinstance(one.type, TensorType)
            if one.type.element.name == "f32" and one.type.layout is None:
                self.values.append(Operand(one, (marks,), (0,)))

    def _named(self, ins: Instruction) -> Instruction:
        number = len(self.instructions)
        calls = tuple(Computation(f"body{number}_{k}", c.body) for k, c in enumerate(ins.calls))
        named = Instruction(f"v{number}", ins.type, ins.op, ins.operands, calls)
        self.instructions.append(named)
        return named

    def enclose(self, op: Op, steps: int) -> None:
        """Make a graph of what is there and `steps` more values, called by one instruction."""
        inner = self.graph(steps)
        plain = {v.ins for v in self.values}
        outside = [
            replace(o, ins=Instruction(o.ins.name, o.ins.type, o.ins.op)) for o in self.given
        ]
        taken = [new for new, old in zip(outside, self.given, strict=True) if old.ins in plain]
        self.given, self.values, self.instructions = outside, taken, []
        self.enclosed += 1
        computation = Computation(f"inner{self.enclosed}", inner.computation.body)
        operands = tuple(o.ins for o in outside)
        call = self._named(Instruction("", inner.case.ins.type, op, operands, (computation,)))
        self._keep(call, inner.case.outputs)

    def graph(self, steps: int) -> Graph:
        """A random graph; its root is the last value, or a tuple of several."""
        while sum(not isinstance(v.ins.op, Parameter) for v in self.values) < steps:
            self.step()
        computed = [v for v in self.values if not isinstance(v.ins.op, Parameter)]
        outputs = computed[-1:] if self.chance(0.7) else [computed[-1], self.pick(computed)]
        root = outputs[0].ins
        if len(outputs) > 1:
            types = tuple(o.ins.type for o in outputs)
            root = self._named(
                Instruction("", TupleType(types), Tuple(), tuple(o.ins for o in outputs))
            )
        parameters = tuple(o.ins for o in self.given)
        body = Body((*parameters, *self.instructions), parameters, root)
        marks = tuple(o.marks for o in outputs)
        return Graph(Computation("graph", body), Case(root, tuple(self.given), marks))
