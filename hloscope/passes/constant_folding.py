"""Constant folding: what depends on no argument is computed once, by the interpreter.

Instructions are looked at from the outside in; nothing here recurses, however deeply regions nest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

from hloscope.arrays import np
from hloscope.errors import HloscopeError
from hloscope.interpreter import PURE, STRUCTURE, Value, World, byte_size, evaluate
from hloscope.ir import (
    Body,
    Computation,
    ComputedLiteral,
    Instruction,
    Layout,
    Module,
    QuantizedType,
    TensorType,
    TupleType,
    captured,
)
from hloscope.ops import BroadcastInDim, Call, Constant, Fusion, Iota, Parameter, Return, bare
from hloscope.passes.limits import FOLD_ELEMENTS
from hloscope.stablehlo import Function, Node, TreeModule, to_graph, to_mlir
from hloscope.walks import nearest_first

FOLD_BYTES: Final = 1 << 24
FOLD_STEPS: Final = 1 << 17
_MOST_FLOPS: Final = 10**10
"""Most operations on elements; a second or so of products, some of other ops."""

_PASSIVE: Final = (Parameter, Return)


def fold(
    module: Module,
    *,
    max_elements: int = FOLD_ELEMENTS,
    max_bytes: int = FOLD_BYTES,
    max_steps: int = FOLD_STEPS,
) -> Module:
    """The module with constants in place of what depends on constants only.

    What nobody reads any more is left out.  Random numbers, custom calls, what processes tell each
    other, and all else that has effects stays; so does what the interpreter refuses.  In HLO,
    broadcasts and `iota` stay as they are, which are shorter than their values.

    Args:
        module: The program.
        max_elements: Most elements of a constant that is made.
        max_bytes: Most bytes of a value on the way to one.
        max_steps: Most instructions to evaluate in all, those of loops included; one constant gets
            at most half of what is left.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = '''
    ... ENTRY e {
    ...   a = f32[] constant(2)
    ...   b = f32[] multiply(a, a)
    ...   p = f32[] parameter(0)
    ...   ROOT c = f32[] add(b, p)
    ... }'''
    >>> [i.op.name for i in fold(parse_hlo(text)).entry]
    ['constant', 'parameter', 'add']
    """
    limits = World(
        functions=module.computations,
        max_steps=max_steps,
        max_flops=_MOST_FLOPS,
        max_bytes=max_bytes,
    )
    known = _Known(limits, max_elements)
    roots = _roots(module)
    for computation in _outside_in(roots):
        for ins in computation:
            known.look_at(ins)
    maker = _Maker(known.values, _live(roots, known), isinstance(module, TreeModule))
    if not known.values:
        return module
    if isinstance(module, TreeModule):
        functions = {c.name: maker.function(c) for c in roots}
        made = TreeModule(module.tree, module.name, functions, functions[module.entry.name])
        return to_graph(to_mlir(made))
    entry = maker.of(module.entry)
    kept = {c.name: maker.of(c) for c in module if c in maker.live or c in roots}
    return Module(module.name, kept, entry, extras=module.extras, preamble=module.preamble)


def _roots(module: Module) -> tuple[Computation, ...]:
    """The entry, and all others that no instruction calls: functions, of StableHLO."""
    if isinstance(module, TreeModule):
        return tuple([c for c in module if isinstance(c, Function)])
    called = {callee for computation in module for ins in computation for callee in ins.calls}
    return tuple([c for c in module if c not in called or c is module.entry])


def _outside_in(roots: Sequence[Computation]) -> Iterator[Computation]:
    """All computations, each after one that calls it."""
    return nearest_first(roots, lambda computation: computation.callees)


class _Known:
    """Values that do not depend on arguments."""

    def __init__(self, limits: World, max_elements: int) -> None:
        self.limits: Final = limits
        self.most_steps: Final = limits.max_steps or 0
        self.max_elements: Final = max_elements
        self.values: Final[dict[Instruction, Value]] = {}
        """Of what becomes a constant, or may stay as it is."""
        self.constants: Final[dict[Instruction, Value]] = {}
        """Of what is a constant already."""
        self._pure: Final[dict[Computation, bool]] = {}

    def of(self, ins: Instruction) -> Value | None:
        """The value, if it is known; constants are decoded on demand."""
        found = self.values.get(ins)
        if found is None and isinstance(ins.op, Constant):
            found = self.constants.get(ins)
            if found is None and self._is_small(ins):
                found = self._evaluated(ins, ())
                if found is not None:
                    self.constants[ins] = found
        return found

    def look_at(self, ins: Instruction) -> None:
        """Find the value of an instruction whose operands have been looked at."""
        if isinstance(ins.op, (Constant, *_PASSIVE)) or not self._is_small(ins):
            return
        if not self._is_pure(ins):
            return
        read = (*dict.fromkeys((*ins.operands, *(captured(ins) if ins.calls else ()))),)
        if not read and not isinstance(ins.op, Iota | Call | Fusion):
            return
        if not all(o in self.values or isinstance(o.op, Constant) for o in read):
            return
        given = [self.of(operand) for operand in read]
        if any(value is None for value in given):
            return
        value = self._evaluated(ins, read, given)
        if value is not None:
            self.values[ins] = value

    def _is_small(self, ins: Instruction) -> bool:
        types = ins.type.elements if isinstance(ins.type, TupleType) else (ins.type,)
        return all(
            isinstance(t, TensorType)
            and t.is_static
            and not t.encoding
            and not isinstance(t.element, QuantizedType)
            and prod(filter(None, t.shape)) <= self.max_elements  # what is written, if nothing
            and byte_size(t) <= self.limits.max_bytes
            for t in types
        )

    def _is_pure(self, ins: Instruction) -> bool:
        if type(ins.op) not in PURE and not isinstance(ins.op, STRUCTURE):
            return False
        return all(map(self.is_pure, ins.calls))

    def is_pure(self, computation: Computation) -> bool:
        """Is there nothing in the computation, and in what it calls, that has an effect?"""
        known = self._pure
        if computation not in known:
            every = list(_outside_in([computation]))
            bad = {
                c
                for c in every
                for i in c
                if not isinstance(i.op, (Constant, *_PASSIVE, *STRUCTURE))
                and type(i.op) not in PURE
            }
            if not bad:
                known.update(dict.fromkeys(every, True))
            known[computation] = not bad
        return known[computation]

    def _evaluated(
        self, ins: Instruction, read: tuple[Instruction, ...], given: Sequence[Any] = ()
    ) -> Value | None:
        """The value of one instruction, unless it is refused or takes too long."""
        limits = self.limits
        if limits.steps >= self.most_steps:
            return None
        # A loop that never ends takes half of what is left, not all.
        limits.max_steps = (limits.steps + self.most_steps + 1) // 2
        lone = Computation("folded", Body((ins,), read, ins))
        try:
            (value,) = evaluate(lone, given, limits)
        except HloscopeError:
            return None
        return value


def _live(roots: Sequence[Computation], known: _Known) -> tuple[set[Computation], set[Instruction]]:
    """The computations and instructions that are still needed when known values are constants."""
    computations = set(roots)
    needed: set[Instruction] = set()
    work: list[Instruction] = []
    opened = list(roots)

    def need(ins: Instruction) -> None:
        if ins not in needed:
            needed.add(ins)
            work.append(ins)

    while opened or work:
        if work:
            ins = work.pop()
            if ins in known.values and not _stays(ins, known.values[ins]):
                continue
            for read in (*ins.operands, *ins.control_predecessors):
                need(read)
            for callee in ins.calls:
                if callee not in computations:
                    computations.add(callee)
                    opened.append(callee)
            continue
        computation = opened.pop()
        need(computation.root)
        for ins in computation:
            if isinstance(ins.op, Parameter) or not (
                ins in known.values or isinstance(ins.op, Constant) or known._is_pure(ins)
            ):
                need(ins)
    return computations, needed


def _stays(ins: Instruction, value: Value) -> bool:
    """Is it no constant though its value is known: a tuple, or in HLO what is shorter?"""
    is_short = isinstance(ins.op, BroadcastInDim | Iota) and not isinstance(ins, Node)
    return is_short or isinstance(value, tuple)


class _Maker:
    """Makes computations anew, those of regions on demand."""

    def __init__(
        self,
        values: dict[Instruction, Value],
        live: tuple[set[Computation], set[Instruction]],
        is_mlir: bool,
    ) -> None:
        self.values: Final = values
        self.live, self.needed = live
        self.is_mlir: Final = is_mlir
        self._computations: Final[dict[Computation, Computation]] = {}
        self._new: Final[dict[Instruction, Instruction]] = {}

    def function(self, computation: Computation) -> Computation:
        """A function of a tree."""
        assert isinstance(computation, Function)
        return self._remembered(
            computation,
            Function(
                computation.name,
                lambda: self._body(computation),
                computation.operation,
                computation.extras,
            ),
        )

    def of(self, computation: Computation) -> Computation:
        """The computation anew."""
        if isinstance(computation, Function):
            return self.function(computation)
        made = Computation(
            computation.name,
            lambda: self._body(computation),
            extras=computation.extras,
            span=computation.span,
        )
        return self._remembered(computation, made)

    def _remembered(self, old: Computation, new: Computation) -> Computation:
        return self._computations.setdefault(old, new)

    def _body(self, computation: Computation) -> Body:
        made: list[Instruction] = []
        for ins in computation:
            if ins in self.needed:
                made += self._instructions(ins, computation)
        new = self._new
        parameters = tuple([new[p] for p in computation.parameters])
        return Body(tuple(made), parameters, new[computation.root])

    def _instructions(self, ins: Instruction, computation: Computation) -> list[Instruction]:
        value = self.values.get(ins)
        if value is not None and not _stays(ins, value):
            if self.is_mlir:
                return [self._keep(ins, _constant(ins, value))]
            return self._of_hlo(ins, value, computation)
        operands = tuple([self._new[o] for o in ins.operands])
        calls = tuple([self.of(callee) for callee in ins.calls])
        before = tuple([self._new[p] for p in ins.control_predecessors])
        same = ins.operands, ins.calls, ins.control_predecessors
        if (operands, calls, before) == same:
            return [self._keep(ins, ins)]
        if isinstance(ins, Node):
            again: Instruction = Node(ins.name, ins.type, ins.op, operands, calls, ins.operation)
        else:
            again = Instruction(
                ins.name, ins.type, ins.op, operands, calls, ins.extras, before, ins.span
            )
        return [self._keep(ins, again)]

    def _keep(self, old: Instruction, new: Instruction) -> Instruction:
        self._new[old] = new
        return new

    def _of_hlo(self, ins: Instruction, value: Any, computation: Computation) -> list[Instruction]:
        """A constant, or the broadcast of one whose elements are all the same."""
        assert isinstance(ins.type, TensorType)
        array, extras = _array(value), tuple([e for e in ins.extras if e[0] == "metadata"])
        if array.size > 1 and _is_splat(array):
            layout = Layout(()) if ins.type.layout else None
            scalar = TensorType(ins.type.element, (), layout)
            one = array.reshape(-1)[:1].reshape(())
            name = f"{ins.name}.element"
            while name in computation.body.by_name:
                name += "_"
            part = Instruction(name, scalar, Constant(ComputedLiteral(one)))
            whole = Instruction(ins.name, ins.type, BroadcastInDim(()), (part,), extras=extras)
            return [part, self._keep(ins, whole)]
        literal = Constant(ComputedLiteral(array))
        return [self._keep(ins, Instruction(ins.name, ins.type, literal, extras=extras))]


def _constant(ins: Instruction, value: Any) -> Instruction:
    """The constant of StableHLO."""
    type_ = bare(ins.type)
    return Instruction(ins.name, ins.type, Constant(ComputedLiteral(_array(value), type_)))


def _array(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(value)


def _is_splat(array: np.ndarray[Any, Any]) -> bool:
    """Are all elements the same, bit by bit?"""
    raw = array.reshape(-1).tobytes()
    return raw[array.itemsize :] == raw[: -array.itemsize]


__all__ = ["fold"]
