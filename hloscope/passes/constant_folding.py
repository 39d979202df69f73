"""Constant folding: the interpreter computes the values of instructions that depend on no argument.

Computations are visited after their callers, with a work list: nesting is not limited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

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
from hloscope.ops import (
    BroadcastInDim,
    Call,
    Constant,
    Fusion,
    Iota,
    Parameter,
    Return,
    without_layouts,
)
from hloscope.passes.patterns import FOLD_ELEMENTS
from hloscope.stablehlo import Function, Node, TreeModule, to_graph, to_mlir
from hloscope.support.arrays import np
from hloscope.support.walks import nearest_first

FOLD_BYTES: Final = 1 << 24
FOLD_STEPS: Final = 1 << 17
_MOST_FLOPS: Final = 10**10
"""Maximum element operations of all evaluations together: about a second of matrix products."""

_PASSIVE: Final = (Parameter, Return)


def fold(
    module: Module,
    *,
    max_elements: int = FOLD_ELEMENTS,
    max_bytes: int = FOLD_BYTES,
    max_steps: int = FOLD_STEPS,
) -> Module:
    """Return the module with constants in place of instructions that depend on constants only.

    Instructions without users are left out.  Random numbers, custom calls, communication and all
    other effects stay, and so do instructions that the interpreter refuses.  In HLO, broadcasts
    and `iota` stay, since they are shorter than their values.

    Args:
        module: The program.
        max_elements: Largest number of elements of a new constant.
        max_bytes: Largest size of an intermediate value, in bytes.
        max_steps: Largest number of instructions to evaluate in all, loop iterations included.  A
            single constant gets at most half of the remaining steps.

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
    # A caller comes first: if its instruction folds as a whole, its called computations are not
    # needed.  Values of an outer computation are known before a region reads them.
    known = _Known(limits, max_elements)
    roots = _roots(module)
    for computation in _callers_first(roots):
        for ins in computation:
            known.visit(ins)
    maker = _Builder(known.values, _live(roots, known), isinstance(module, TreeModule))
    if not known.values:
        return module
    if isinstance(module, TreeModule):
        functions = {c.name: maker.of(c) for c in roots}
        made = TreeModule(module.tree, module.name, functions, functions[module.entry.name])
        return to_graph(to_mlir(made))
    entry = maker.of(module.entry)
    kept = {c.name: maker.of(c) for c in module if c in maker.live or c in roots}
    return Module(module.name, kept, entry, extras=module.extras, preamble=module.preamble)


def _roots(module: Module) -> tuple[Computation, ...]:
    """Return the entry, and all computations that no instruction calls, such as functions."""
    if isinstance(module, TreeModule):
        return tuple([c for c in module if isinstance(c, Function)])
    called = {callee for computation in module for ins in computation for callee in ins.calls}
    return tuple([c for c in module if c not in called or c is module.entry])


def _callers_first(roots: Sequence[Computation]) -> Iterator[Computation]:
    """Yield the roots and the computations that they call, each after one of its callers."""
    return nearest_first(roots, lambda computation: computation.callees)


class _Known:
    """The values of instructions that do not depend on arguments, computed by the interpreter."""

    def __init__(self, limits: World, max_elements: int) -> None:
        self.limits: Final = limits
        self.most_steps: Final = limits.max_steps or 0
        self.max_elements: Final = max_elements
        self.values: Final[dict[Instruction, Value]] = {}
        """Computed values by instruction.

        The instruction of a tuple, or in HLO of a broadcast, is not replaced by a constant.
        """
        self.constants: Final[dict[Instruction, Value]] = {}
        """Values of the constants of the program, by their instruction."""
        self._pure: Final[dict[Computation, bool]] = {}

    def of(self, ins: Instruction) -> Value | None:
        """Return the value of an instruction; `None` if it is unknown.

        A constant of the program is decoded at the first request.
        """
        found = self.values.get(ins)
        if found is None and isinstance(ins.op, Constant):
            found = self.constants.get(ins)
            if found is None and self._is_small(ins):
                found = self._evaluated(ins, ())
                if found is not None:
                    self.constants[ins] = found
        return found

    def visit(self, ins: Instruction) -> None:
        """Compute and store the value of an instruction without effects whose operands are known.

        The operands must have been visited before.
        """
        if isinstance(ins.op, (Constant, *_PASSIVE)) or not self._is_small(ins):
            return
        if not self._is_pure(ins):
            return
        # A region may read values of the computation around it: they are operands, too.
        read = (*dict.fromkeys((*ins.operands, *(captured(ins) if ins.calls else ()))),)
        # Of the ops without inputs, only these are not constants and have a value.
        if not read and not isinstance(ins.op, Iota | Call | Fusion):
            return
        # This test is cheap; decoding the constants below is not.
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
        """Does no instruction in the computation, or in those that it calls, have an effect?"""
        # Loops of one body and reductions of one sum ask for the same computations.
        known = self._pure
        if computation not in known:
            every = list(_callers_first([computation]))
            bad = {
                c
                for c in every
                for i in c
                if not isinstance(i.op, (Constant, *_PASSIVE, *STRUCTURE))
                and type(i.op) not in PURE
            }
            # A pure computation calls pure ones only; an impure one says nothing about its callees.
            if not bad:
                known.update(dict.fromkeys(every, True))
            known[computation] = not bad
        return known[computation]

    def _evaluated(
        self, ins: Instruction, read: tuple[Instruction, ...], given: Sequence[Any] = ()
    ) -> Value | None:
        """Return the value of an instruction; `None` if the interpreter cannot compute it.

        It may refuse the op, or exceed a limit.

        Args:
            ins: The instruction.
            read: The instructions that it reads.
            given: Values of the instructions `read`, in the same order.
        """
        limits = self.limits
        if limits.steps >= self.most_steps:
            return None
        # A loop without end uses half of the remaining steps, so that later constants get the rest.
        limits.max_steps = (limits.steps + self.most_steps + 1) // 2
        lone = Computation("folded", Body((ins,), read, ins))
        try:
            (value,) = evaluate(lone, given, limits)
        except HloscopeError:
            return None
        return value


def _live(roots: Sequence[Computation], known: _Known) -> tuple[set[Computation], set[Instruction]]:
    """Return the computations and instructions that the folded program needs.

    They are those on which results and effects depend. An instruction of known value becomes a
    constant, which needs no operands. `roots` are the computations that no instruction calls.
    """
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
            # A folded instruction becomes a constant, which reads and calls nothing.
            if ins in known.values and not _stays_instruction(ins, known.values[ins]):
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
            # Instructions with effects are needed without users.
            if isinstance(ins.op, Parameter) or not (
                ins in known.values or isinstance(ins.op, Constant) or known._is_pure(ins)
            ):
                need(ins)
    return computations, needed


def _stays_instruction(ins: Instruction, value: Value) -> bool:
    """Does an instruction stay, although its value is known? Tuples do; in HLO, broadcasts, too.

    `iota` of HLO stays as well, as it is shorter than its value.
    """
    is_short = isinstance(ins.op, BroadcastInDim | Iota) and not isinstance(ins, Node)
    return is_short or isinstance(value, tuple)


class _Builder:
    """Builds the folded computations; a called computation is built on first use."""

    def __init__(
        self,
        values: dict[Instruction, Value],
        live: tuple[set[Computation], set[Instruction]],
        is_mlir: bool,
    ) -> None:
        """Prepare to build.

        Args:
            values: Known values of instructions, which become constants.
            live: Computations and instructions of the old module that are needed.
            is_mlir: Is the module one of StableHLO?
        """
        self.values: Final = values
        self.live, self.needed = live
        self.is_mlir: Final = is_mlir
        self._computations: Final[dict[Computation, Computation]] = {}
        self._new: Final[dict[Instruction, Instruction]] = {}

    def of(self, computation: Computation) -> Computation:
        """Return the folded form of `computation`, the same object at each call."""
        if isinstance(computation, Function):
            made: Computation = Function(
                computation.name,
                lambda: self._body(computation),
                computation.operation,
                computation.extras,
            )
        else:
            made = Computation(
                computation.name,
                lambda: self._body(computation),
                extras=computation.extras,
                span=computation.span,
            )
        return self._computations.setdefault(computation, made)

    def _body(self, computation: Computation) -> Body:
        made: list[Instruction] = []
        for ins in computation:
            if ins in self.needed:
                made += self._instructions(ins, computation)
        new = self._new
        parameters = tuple([new[p] for p in computation.parameters])
        return Body(tuple(made), parameters, new[computation.root])

    def _instructions(self, ins: Instruction, computation: Computation) -> list[Instruction]:
        """Return the instructions that replace `ins`: a constant, `ins` itself, or a copy.

        A copy has new operands or called computations. `computation` is the old computation of
        `ins`.
        """
        value = self.values.get(ins)
        if value is not None and not _stays_instruction(ins, value):
            if self.is_mlir:
                return [self._replace_by(ins, _constant(ins, value))]
            return self._hlo_constant(ins, value, computation)
        operands = tuple([self._new[o] for o in ins.operands])
        calls = tuple([self.of(callee) for callee in ins.calls])
        before = tuple([self._new[p] for p in ins.control_predecessors])
        same = ins.operands, ins.calls, ins.control_predecessors
        # An unchanged instruction is shared with the old module.
        if (operands, calls, before) == same:
            return [self._replace_by(ins, ins)]
        if isinstance(ins, Node):
            again: Instruction = Node(ins.name, ins.type, ins.op, operands, calls, ins.operation)
        else:
            again = Instruction(
                ins.name, ins.type, ins.op, operands, calls, ins.extras, before, ins.span
            )
        return [self._replace_by(ins, again)]

    def _replace_by(self, old: Instruction, new: Instruction) -> Instruction:
        self._new[old] = new
        return new

    def _hlo_constant(
        self, ins: Instruction, value: Any, computation: Computation
    ) -> list[Instruction]:
        """Return the instructions that replace `ins` in HLO: a constant of value `value`.

        They are one constant, or a scalar constant and its broadcast if all elements are equal.
        `computation` is the old computation of `ins`.
        """
        assert isinstance(ins.type, TensorType)
        array, extras = np.asarray(value), tuple([e for e in ins.extras if e[0] == "metadata"])
        if array.size > 1 and _is_splat(array):
            layout = Layout(()) if ins.type.layout else None
            scalar = TensorType(ins.type.element, (), layout)
            one = array.reshape(-1)[:1].reshape(())
            name = f"{ins.name}.element"
            while name in computation.body.by_name:
                name += "_"
            part = Instruction(name, scalar, Constant(ComputedLiteral(one)))
            whole = Instruction(ins.name, ins.type, BroadcastInDim(()), (part,), extras=extras)
            return [part, self._replace_by(ins, whole)]
        literal = Constant(ComputedLiteral(array))
        return [self._replace_by(ins, Instruction(ins.name, ins.type, literal, extras=extras))]


def _constant(ins: Instruction, value: Any) -> Instruction:
    """Return a StableHLO constant of that value in place of the instruction `ins`."""
    type_ = without_layouts(ins.type)
    return Instruction(ins.name, ins.type, Constant(ComputedLiteral(np.asarray(value), type_)))


def _is_splat(array: np.ndarray[Any, Any]) -> bool:
    """Are all elements equal, bit by bit?"""
    raw = array.reshape(-1).tobytes()
    return raw[array.itemsize :] == raw[: -array.itemsize]


__all__ = ["fold"]
