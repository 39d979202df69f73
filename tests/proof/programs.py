"""Random programs as HLO text: chains and diamonds of ops of every family that XLA:CPU executes.

The makers of `tests.indexing.truth` build the graphs.  What is added here is what only whole
programs have: layouts in between, indices that are computed, calls and fusions inside, and those
forms of sort, top-k and compare that XLA accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hloscope.hlo_parser.literals import HloLiteral
from hloscope.hlo_parser.printer import print_hlo
from hloscope.indexing.rules.registry import sizes
from hloscope.ir.graph import Body, Computation, Instruction, Module
from hloscope.ir.op import Op
from hloscope.ir.types import ELEMENT_TYPES, Layout, TensorType, TupleType
from hloscope.ops.control import Call, Fusion, Parameter
from hloscope.ops.elementwise import ELEMENTWISE, Compare
from hloscope.ops.gather_scatter import Scatter
from hloscope.ops.reduction import Sort, TopK
from hloscope.ops.shape import Bitcast, BroadcastInDim, Constant, Iota, Pad
from hloscope.ops.slicing import DynamicSlice, DynamicUpdateSlice
from tests.indexing.test_truth import FAMILIES
from tests.indexing.truth.graphs import Graph, GraphGen
from tests.indexing.truth.marks import Ints, Marks, Operand, as_marks, empty
from tests.indexing.truth.shape import factorised, from_memory, to_memory

assert FAMILIES  # they register their makers

MAKERS: Final = (
    "add-dependency", "all_reduce", "batch_norm", "bitcast: without layouts", "broadcast_in_dim",
    "cholesky", "clamp: scalar bounds", "concatenate", "convolution", "dot_general",
    "dynamic_slice", "dynamic_update_slice", "elementwise: abs", "elementwise: add",
    "elementwise: clamp", "elementwise: copy", "fft", "gather", "map", "pad", "reduce",
    "reduce_window", "reshape", "reverse", "scatter", "slice", "transpose", "triangular_solve",
)  # fmt: skip
"""Makers of single cases whose HLO XLA:CPU executes."""
OWN: Final[dict[str, Callable[[ProgramGen], None]]] = {}
"""Steps of more than one instruction, or whose form XLA wants more exactly."""
LESS: Final = Compare(comparison_direction="LT")
WIDE: Final = (
    "batch_norm_training",
    "batch_norm_inference",
    "batch_norm_grad",
    "cholesky",
    "triangular_solve",
)
"""Of these execution tells less than the maps: all elements of a matrix at once."""


def own(maker: Callable[[ProgramGen], None]) -> Callable[[ProgramGen], None]:
    OWN[maker.__name__] = maker
    return maker


def every(computation: Computation) -> Iterator[Instruction]:
    """All instructions, those of called computations first."""
    for ins in computation.instructions:
        for callee in ins.calls:
            yield from every(callee)
        yield ins


def is_executable(graph: Graph) -> bool:
    """Scalars cannot be padded or sliced in HLO; starts as one vector are no StableHLO.

    A scatter whose index vectors are empty adds update k to element k on XLA:CPU, not to element 0
    as the specification of StableHLO says.
    """
    return not any(
        (isinstance(ins.op, Pad) and not sizes(ins.operands[0].type))
        or (
            isinstance(ins.op, DynamicSlice | DynamicUpdateSlice)
            and (not sizes(ins.operands[0].type) or sizes(ins.operands[-1].type))
        )
        or (isinstance(ins.op, Scatter) and 0 in sizes(ins.operands[len(ins.operands) // 2].type))
        for ins in every(graph.computation)
    )


class ProgramGen(GraphGen):
    """A generator of programs; the same seed gives the same program."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, MAKERS)
        self.bodies = 0

    def shape(
        self, lo: int = 0, hi: int = 4, *, largest: int = 4, most: int = 30, zero: bool = True
    ) -> Ints:
        return super().shape(lo, hi, largest=min(largest, 4), most=min(most, 30), zero=zero)

    def step(self) -> None:
        """One more value, most often by one instruction."""
        if self.chance(0.3):
            OWN[self.pick(sorted(OWN))](self)
        else:
            super().step()

    def integers(self, shape: Sequence[int], lo: int, hi: int) -> Operand:
        """Known integers in `[lo, hi]`: a parameter, computed from one, constant or counted."""
        way = self.number(0, 3)
        if way == 0:
            return super().integers(shape, lo, hi)
        type_ = TensorType(ELEMENT_TYPES["s32"], tuple(shape))
        if way == 1 and not shape:
            value = self.number(lo, hi)
            return self._known(self._filled(value, type_), np.array(value))
        if way == 1:
            axis = self.number(0, len(shape) - 1)
            count = self.emit(Iota(axis), type_)
            moved = self.emit(ELEMENTWISE["add"](), type_, count, self._filled(lo, type_))
            most = self._filled(hi, type_)
            values = np.minimum(np.indices(type_.shape)[axis] + lo, hi)
            return self._known(self.emit(ELEMENTWISE["minimum"](), type_, moved, most), values)
        shift = self.number(-3, 3)
        given = super().integers(shape, lo - shift, hi - shift)
        assert given.values is not None
        other = self._filled(shift, type_)
        moved = self.emit(ELEMENTWISE["add"](), type_, given.ins, other)
        return self._known(moved, given.values + shift)

    def _filled(self, value: int, type_: TensorType) -> Instruction:
        """A constant, broadcast."""
        scalar = self.emit(Constant(HloLiteral(str(value))), replace(type_, sizes=()))
        return self.emit(BroadcastInDim(()), type_, scalar) if type_.sizes else scalar

    def _known(self, ins: Instruction, values: NDArray[np.int64]) -> Operand:
        """Integers that depend on no element that is followed."""
        return Operand(ins, (empty(values.shape),), (0,), values)

    def _named(self, ins: Instruction) -> Instruction:
        """As there, and no two computations of the program have one name."""
        named = super()._named(ins)
        calls = []
        for callee in named.calls:
            self.bodies += 1
            calls.append(Computation(f"body{self.bodies}", callee.body))
        unique = Instruction(named.name, named.type, named.op, named.operands, tuple(calls))
        self.instructions[-1] = unique
        return unique

    def emit(
        self, op: Op, type_: TensorType | TupleType, *operands: Instruction, calls: object = ()
    ) -> Instruction:
        """One more instruction."""
        assert isinstance(calls, tuple)
        return self._named(Instruction("", type_, op, operands, calls))

    def keep(self, ins: Instruction, *outputs: Marks) -> None:
        self._keep(ins, tuple(map(as_marks, outputs)))

    def program(self, ops: int) -> Graph:
        """A program of `ops` values, some of them perhaps inside a call or fusion."""
        if ops > 3 and self.chance(0.3):
            inside = self.number(1, ops - 2)
            self.enclose(self.pick([Call(), Fusion("kLoop")]), inside)
        return self.graph(ops)


@own
def relayout(g: ProgramGen) -> None:
    """A copy to another layout, and its memory as another shape."""
    x = g.array(g.shape(1, 3, zero=False))
    layout = Layout(g.permutation(x.marks.ndim))
    copied = g.emit(ELEMENTWISE["copy"](), replace(_type(x), layout=layout), x.ins)
    target = factorised(g, x.marks.size, g.number(1, 3))
    rows = Layout(tuple(reversed(range(len(target)))))
    result = from_memory(to_memory(x.marks, layout), target, rows)
    g.keep(g.emit(Bitcast(), TensorType(ELEMENT_TYPES["f32"], target), copied), result)


@own
def compare_and_select(g: ProgramGen) -> None:
    """`select(x < y, x, z)`."""
    shape = g.shape()
    x, y, z = (g.array(shape) for _ in range(3))
    asked = g.emit(LESS, replace(_type(x), element=ELEMENT_TYPES["pred"]), x.ins, y.ins)
    chosen = g.emit(ELEMENTWISE["select"](), _type(x), asked, x.ins, z.ins)
    g.keep(chosen, x.marks | y.marks | z.marks)


@own
def sort(g: ProgramGen) -> None:
    """One or two operands, by all of them."""
    shape = g.shape(1, 3)
    operands = [g.array(shape) for _ in range(g.number(1, 2))]
    axis = g.number(0, len(shape) - 1)
    lines = [np.bitwise_or.reduce(o.marks, axis=axis, keepdims=True) for o in operands]
    marks = np.broadcast_to(np.bitwise_or.reduce(lines), shape)
    types = [_type(o) for o in operands]
    whole = types[0] if len(types) == 1 else TupleType(tuple(types))
    ins = g.emit(Sort(axis), whole, *[o.ins for o in operands], calls=(_less(len(operands)),))
    g.keep(ins, *[marks] * len(operands))


@own
def top_k(g: ProgramGen) -> None:
    x = g.array(g.shape(1, 3, zero=False))
    k = g.number(1, x.marks.shape[-1])
    line = np.bitwise_or.reduce(x.marks, axis=-1, keepdims=True)
    marks = np.broadcast_to(line, (*x.marks.shape[:-1], k))
    values = TensorType(ELEMENT_TYPES["f32"], marks.shape)
    numbers = replace(values, element=ELEMENT_TYPES["s32"])
    g.keep(g.emit(TopK(k), TupleType((values, numbers)), x.ins), marks, marks)


def _type(x: Operand) -> TensorType:
    assert isinstance(x.ins.type, TensorType)
    return x.ins.type


def _less(count: int) -> Computation:
    """The comparator of so many operands: is the sum of the firsts less?"""
    from_, to = TensorType(ELEMENT_TYPES["f32"], ()), TensorType(ELEMENT_TYPES["pred"], ())
    params = tuple(Instruction(f"a{i}", from_, Parameter(i)) for i in range(2 * count))
    made: list[Instruction] = list(params)
    sides = [params[0], params[1]]
    for i in range(2, 2 * count):
        sides[i % 2] = Instruction(
            f"sum{i}", from_, ELEMENTWISE["add"](), (sides[i % 2], params[i])
        )
        made.append(sides[i % 2])
    made.append(Instruction("less", to, LESS, tuple(sides)))
    return Computation("less", Body(tuple(made), params, made[-1]))


def hlo(graph: Graph) -> str:
    """The program as text."""
    called = {c.name: c for ins in every(graph.computation) for c in ins.calls}
    called[graph.computation.name] = graph.computation
    return print_hlo(Module("graph", called, graph.computation))
