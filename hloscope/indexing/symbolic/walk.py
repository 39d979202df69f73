"""Sizes of all values of a program, by a traversal from its entry.

Functions are entered at each call with the sizes of its arguments, so that a size computed by a
helper is known for each caller. Loops and branches are not entered: code that does not always run
proves nothing about sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from hloscope.affine import Const, Expr
from hloscope.errors import HloscopeError
from hloscope.indexing.rules.build import first_leaf, leaves
from hloscope.indexing.symbolic.contents import CONTENTS, DIRECTIONS, comparison
from hloscope.indexing.symbolic.frames import (
    CALLS,
    Contents,
    Frame,
    Known,
    Leaf,
    declared,
    declared_size,
    elements,
    is_followed,
)
from hloscope.indexing.symbolic.shapes import SIZES, Sizes
from hloscope.indexing.symbolic.symbols import MOST_SYMBOLS, Shape, Symbols
from hloscope.ir import Computation, Instruction, Module, TensorType, Type
from hloscope.ops import ELEMENTWISE, control

MOST_STEPS: Final = 1 << 18
"""Largest number of visited instructions; those of a function count once per call."""
_ROUNDS: Final = 3
"""Number of rounds; assertions at the end of a program help at its beginning in the next round."""
_ASSERTION: Final = "shape_assertion"
_NAMED: Final = "jax.global_constant"
"""The attribute by which `jax.export` names sizes."""


class _Call(Frame):
    """A function called from one place, with the position of the traversal in it."""

    def __init__(self, symbols: Symbols, path: int, callee: Computation) -> None:
        super().__init__(symbols, path, callee, certain=True)
        self.rest: Final[Iterator[Instruction]] = iter(callee.instructions)
        self.waits_for: Instruction | None = None


class SizeWalk:
    """The sizes of the values of a program.

    Attributes:
        entry: The function it begins with.
        symbols: The named sizes.
    """

    def __init__(self, module: Module) -> None:
        self.entry: Final = module.entry
        called = [callee for c in module for ins in c for callee in ins.calls]
        self._callers: Final = Counter([*called, self.entry])
        self.symbols = Symbols()
        self._steps = 0
        self._frames: dict[Computation, Frame | None] = {}
        self._alone: dict[Computation, Frame] = {}
        before = -1
        for _ in range(_ROUNDS):
            self._frames = {}
            self._walk()
            if self.symbols.learnt == before:
                break
            before = self.symbols.learnt

    def frame_of(self, computation: Computation) -> Frame:
        """Return the values of a computation.

        One that is called several times has arbitrary arguments.
        """
        found = self._alone.get(computation)
        if self._callers[computation] == 1:
            found = found or self._frames.get(computation)
        if found is None:
            path = self.symbols.path(-1, computation.root)
            found = self._alone[computation] = Frame(self.symbols, path, computation, certain=False)
            for ins in computation.instructions:
                found.enter(ins, self._value(found, ins))
        return found

    def _walk(self) -> None:
        stack = [_Call(self.symbols, self.symbols.path(-1, None), self.entry)]
        self._frames[self.entry] = stack[0]
        while stack:
            frame = stack[-1]
            callee = self._next(frame, [each.computation for each in stack])
            if callee is not None:
                stack.append(self._called(frame, callee))
            elif frame.waits_for is None:
                stack.pop()
                if stack and (ins := stack[-1].waits_for) is not None:
                    stack[-1].enter(ins, self._returned(stack[-1], ins, frame))
                    stack[-1].waits_for = None

    def _next(self, frame: _Call, open_calls: list[Computation]) -> Computation | None:
        """Process instructions up to the next call of a function that is not open.

        Return that function.
        """
        for ins in frame.rest:
            self._steps += 1
            is_call = isinstance(ins.op, CALLS) and len(ins.calls) == 1
            if is_call and ins.calls[0] not in open_calls and self._steps < MOST_STEPS:
                frame.waits_for = ins
                return ins.calls[0]
            frame.enter(ins, self._value(frame, ins))
            self._learn(frame, ins)
        return None

    def _called(self, frame: _Call, callee: Computation) -> _Call:
        """Return the frame of the called function, with its arguments."""
        call = frame.waits_for
        assert call is not None
        inner = _Call(self.symbols, self.symbols.path(frame.path, call), callee)
        inner.caller = frame, call
        frame.inner[call] = inner
        self._frames[callee] = None if callee in self._frames else inner
        for parameter, argument in zip(callee.parameters, call.operands, strict=False):
            known = inner.values[parameter] = frame.of(argument)
            name = (parameter.extra(_NAMED) or "").strip('"')
            first = known[0].contents if known else None
            if name and first and len(first) == 1 and first[0] is not None:
                self.symbols.call(first[0], name)
        return inner

    def _returned(self, frame: Frame, call: Instruction, callee: _Call) -> Known:
        known = callee.of(callee.computation.root)
        types = leaves(call.type)
        if len(known) != len(types):
            return declared(frame, call)
        return tuple(
            [_with_declared_sizes(frame, call, k, t, known[k]) for k, t in enumerate(types)]
        )

    def _value(self, frame: Frame, ins: Instruction) -> Known:
        """Return the arrays of a value, given those of its operands."""
        if ins in frame.values and isinstance(ins.op, control.Parameter):
            return frame.values[ins]
        try:
            passed = _passed_on(frame, ins)
            if passed is not None:
                return passed
            sizes = _by_rule(frame, ins)
        except (HloscopeError, LookupError, ValueError, AssertionError, ZeroDivisionError):
            return declared(frame, ins)
        return sizes if len(self.symbols.variables) < MOST_SYMBOLS else declared(frame, ins)

    def _learn(self, frame: Frame, ins: Instruction) -> None:
        """Record the facts that an assertion states."""
        if getattr(ins.op, "call_target_name", "") != _ASSERTION or not ins.operands:
            return
        conditions = [ins.operands[0]]
        while conditions:
            # An assertion of a conjunction asserts each of its comparisons.
            condition = conditions.pop()
            if isinstance(condition.op, ELEMENTWISE["and"]):
                conditions += condition.operands
            elif isinstance(condition.op, ELEMENTWISE["compare"]):
                known = [leaf.contents for leaf in frame.operands(condition)]
                if len(known) == 2 and None not in known:
                    self._compared(comparison(condition), *known)  # type: ignore[arg-type]

    def _compared(self, direction: str, left: Contents, right: Contents) -> None:
        interval = DIRECTIONS.get(direction)
        for a, b in zip(left, right, strict=False):
            if interval is not None and a is not None and b is not None:
                self.symbols.learn(a, b, interval)


def _with_declared_sizes(
    frame: Frame, value: Instruction, number: int, type: Type, leaf: Leaf
) -> Leaf:
    """Return a leaf whose sizes also agree with the declared type."""
    if not isinstance(type, TensorType) or leaf.shape is None or len(leaf.shape) != type.rank:
        return declared(frame, value)[number]
    pairs = zip(type.sizes, leaf.shape, strict=True)
    shape = [s if n is None else frame.same([Const(n), s]) for n, s in pairs]
    return Leaf(tuple([s for s in shape if s is not None]), leaf.contents)


def _passed_on(frame: Frame, ins: Instruction) -> Known | None:
    """Return the value of an op that passes operands on unchanged; `None` for other ops."""
    match ins.op:
        case control.Result(index) | control.GetTupleElement(index):
            whole = ins.operands[0]
            first = first_leaf(whole.type, index)
            return frame.of(whole)[first : first + len(leaves(ins.type))]
        case control.Return() | control.Tuple():
            if len(ins.operands) == 1:
                return frame.of(ins.operands[0])
            return tuple([leaf for operand in ins.operands for leaf in frame.of(operand)])
        case _:
            return None


def _by_rule(frame: Frame, ins: Instruction) -> Known:
    """Return the arrays by the rules of the op; declared sizes come first."""
    types = leaves(ins.type)
    rule, first = SIZES.find(ins.op), types[0] if types else None
    if not isinstance(first, TensorType):
        return declared(frame, ins)
    sizes = rule(frame, ins, ins.op) if rule is not None else None
    if sizes is not None and len(sizes) != first.rank:
        sizes = None
    found = []
    for number, type in enumerate(types):
        if not isinstance(type, TensorType):
            found.append(Leaf(None))
            continue
        shape = _shape(frame, ins, number, type, sizes)
        found.append(Leaf(shape, _elements(frame, ins, type) if not number else None))
    return tuple(found)


def _shape(
    frame: Frame,
    ins: Instruction,
    number: int,
    type: TensorType,
    sizes: Sizes,
) -> Shape:
    shape: list[Expr] = []
    for k, size in enumerate(type.sizes):
        found = sizes[k] if sizes is not None and type.rank == len(sizes) else None
        if size is not None:
            found = frame.same([Const(size), found])
        shape.append(declared_size(frame, ins, number, type, k) if found is None else found)
    return tuple(shape)


def _elements(frame: Frame, ins: Instruction, type: TensorType) -> Contents | None:
    if not is_followed(type):
        return None
    rule = CONTENTS.find(ins.op)
    found = rule(frame, ins, ins.op) if rule is not None else None
    if found is None or len(found) != type.num_elements:
        return elements(frame, ins, type)
    if None in found:
        fresh = elements(frame, ins, type)
        assert fresh is not None
        return tuple([new if e is None else e for e, new in zip(found, fresh, strict=True)])
    return tuple(found)
