"""Accesses of instructions with unknown sizes, in terms of symbols, also through whole graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from hloscope.affine import Const, Dim, Expr
from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.analysis import output_to_input
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.dependence import Bodies
from hloscope.indexing.rules.registry import first_leaf, has_unknown_sizes, leaves, unknown
from hloscope.indexing.rules.run_time_sizes import passed_on
from hloscope.indexing.symbolic_instances import (
    Difference,
    Instance,
    ReferenceAccesses,
    by_rules,
    difference,
    instances,
    inverse_difference,
    of_leaf,
)
from hloscope.indexing.symbolic_movement import NO_RULE, SizedInstruction
from hloscope.indexing.symbolic_rules import symbolic_reads
from hloscope.indexing.symbolic_shapes import CONTENTS, DIRECTIONS, SIZES, Sizes, comparison
from hloscope.indexing.symbolic_values import (
    CALLS,
    MOST_SYMBOLS,
    ArrayValues,
    Contents,
    Frame,
    Leaf,
    Shape,
    SizedBuilder,
    Symbols,
    declared,
    declared_size,
    elements,
    is_followed,
)
from hloscope.ir import Computation, Instruction, Module, TensorType, TupleType, Type, captures
from hloscope.ops import ELEMENTWISE, Parameter, control

# --------------------------------------------------------------------------------------------------
# Accesses of instructions with unknown sizes, in terms of symbols, also through whole graphs.


MOST_ACCESSES: Final = 32
"""Maximum number of accesses of a value; with more, one unknown access replaces them."""
MOST_VALUES: Final = 1 << 14
MOST_COMPARED: Final = 1 << 10
"""Maximum number of compared maps over all sizes; at least one size is compared completely."""
_REGROUPING: Final = control.Result, control.GetTupleElement, control.Return, control.Tuple
PASSING: Final = (*_REGROUPING, control.OptimizationBarrier)
"""Ops whose value consists of arrays of their operands, unchanged."""
Called: TypeAlias = Callable[[Instance, int], Sequence[Accesses]]
ArrayOfValue: TypeAlias = tuple[Frame, Instruction, int]
"""`(frame, ins, number)`: array `number` of the value of `ins`, as computed in `frame`."""


class SizeComparison(NamedTuple):
    """Result of comparing symbolic maps with reference maps at several sizes.

    Attributes:
        sizes: The sizes of each comparison, by name.
        difference: The first difference; `None` if there is none.
        given: Numbers of the operands that were not compared. They are integers that the sizes
            determine, and the called function was refined with their values.
    """

    sizes: Sequence[Mapping[str, int]]
    difference: Difference | None
    given: frozenset[int] = frozenset()


class SymbolicAnalysis:
    """Maps of a program with unknown sizes. Named sizes are runtime variables of the maps."""

    def __init__(self, module: Module, bodies: Callable[[Instruction], Bodies]) -> None:
        self._walk: Final = SizeTraversal(module)
        self._bodies: Final = bodies

    def reads(self, computation: Computation, ins: Instruction, output: int) -> list[Accesses]:
        """Return, for each operand, the accesses of the elements that an output element reads."""
        return self._reads(self._walk.frame_of(computation), ins, output)

    def _reads(self, frame: Frame, ins: Instruction, output: int) -> list[Accesses]:
        if not has_unknown_sizes(ins):
            return list(output_to_input(ins, output, reader=self._bodies))
        if isinstance(ins.op, PASSING):
            return _passed_through(frame, ins, output)
        if ins in frame.inner:
            return self._called(frame.inner[ins], ins, output)
        if any(isinstance(operand.type, TupleType) for operand in ins.operands):
            if isinstance(ins.op, ELEMENTWISE["copy"]):
                return _passed_through(frame, ins, output)
            return unknown_reads(len(ins.operands))  # the rules return accesses of arrays only
        known = frame.of(ins)
        shape = known[output].shape if output < len(known) else None
        if shape is None:
            return [unknown("the value is not an array")] * len(ins.operands)
        bodies = self._bodies(ins) if ins.calls else ()
        sized = SizedInstruction(frame, ins, shape, frame.operands(ins), bodies)
        found = [tuple([a for a in some if _may_read(a)]) for some in symbolic_reads(sized)]
        return [*found, *[unknown(NO_RULE)] * (len(ins.operands) - len(found))]

    def compared(
        self,
        computation: Computation,
        ins: Instruction,
        output: int,
        operand_leaf: tuple[int, int] | None,
        count: int,
        seed: int,
        called: Called | None = None,
    ) -> SizeComparison:
        """Compare the symbolic accesses of an output, or their inverse, at random sizes.

        The reference are the rules for known sizes, applied to the op at these sizes.

        Args:
            computation: The computation.
            ins: An instruction of it.
            output: Number of the output.
            operand_leaf: An operand and the number of one of its arrays, to compare the inverse;
                `None` to compare what the output reads.
            count: Number of sizes.
            seed: Seed of the random sizes.
            called: For calls, a function of an instance and an output: it refines the called
                function to the sizes and returns the accesses of each operand.

        Raises:
            LookupError: The accesses depend on values even at known sizes.
        """
        reference = by_rules(self._bodies)
        if isinstance(ins.op, CALLS):
            if called is None:
                raise LookupError("it is what the function it calls reads")
            reference = _by_refining(called)
        frame, sizes = self._walk.frame_of(computation), []
        reads = self._reads(frame, ins, output)
        reached: Accesses = ()
        if operand_leaf is not None:
            reached = inverted_accesses(reads[operand_leaf[0]], operand_leaf[1])
        # The cost grows with sizes times maps, so many maps are compared at fewer sizes.
        count = max(1, min(count, MOST_COMPARED // (sum(map(len, reads)) or 1)))
        given: frozenset[int] = frozenset()
        wrong: Difference | None = None
        for instance in instances(frame, ins, count, seed):
            sizes.append(instance.sizes)
            if isinstance(ins.op, CALLS):
                given = frozenset([k for k, n in enumerate(instance.values) if n is not None])
            if operand_leaf is None:
                wrong = difference(instance, output, reads, reference)
            elif operand_leaf[0] not in given:
                wrong = inverse_difference(instance, operand_leaf, output, reached, reference)
            if wrong is not None:
                return SizeComparison(sizes, wrong, given)
        return SizeComparison(sizes, None, given)

    def _called(self, inner: Frame, call: Instruction, output: int) -> list[Accesses]:
        """Return the accesses of a call's operands, as the called function reads its parameters.

        `inner` has the values of the called function in this call; `output` is the number of the
        output.
        """
        try:
            found = _BackwardTraversal(inner, self._reads).run(inner.computation.root, output)
        except UnsupportedError as error:
            return [unknown(error.message)] * len(call.operands)
        reads: list[Accesses] = [()] * len(call.operands)
        for (parameter, leaf), accesses in found.items():
            number = inner.computation.parameters.index(parameter)
            reads[number] += tuple([replace(access, leaf=leaf) for access in accesses])
        return reads

    def to_parameters(
        self, computation: Computation, ins: Instruction, output: int
    ) -> dict[tuple[Instruction, int], Accesses]:
        """Return the accesses from an output element to the parameters of its computation.

        Keys are a parameter and the number of one of its arrays.

        Raises:
            UnsupportedError: More than the maximum number of values are visited, or a value is
                defined outside the computation.
        """
        return _BackwardTraversal(self._walk.frame_of(computation), self._reads).run(ins, output)


def _by_refining(called: Called) -> ReferenceAccesses:
    """Return reference accesses of calls: those of the called function, refined to known sizes.

    `called` is a function of an instance and an output. It refines the function to the sizes and
    returns the accesses of each operand.
    """

    def reads(instance: Instance, output: int) -> list[Accesses | None]:
        found = zip(called(instance, output), instance.values, strict=True)
        return [accesses if number is None else None for accesses, number in found]

    return ReferenceAccesses(
        reads,
        lambda instance, output, place, leaf: inverted_accesses(
            called(instance, output)[place], leaf
        ),
    )


def _passed_through(frame: Frame, ins: Instruction, output: int) -> list[Accesses]:
    """Return the accesses of each operand, for an op whose value consists of unchanged operands."""
    reads: list[Accesses] = [()] * len(ins.operands)
    if (place := passed_on(ins, output)) is not None:
        k, leaf = place
        reads[k] = (replace(_identity_access(frame, ins.operands[k], leaf), leaf=leaf),)
    return reads


def unknown_reads(count: int) -> list[Accesses]:
    """Return accesses of `count` operands about which nothing is known."""
    return [unknown(NO_RULE)] * count


def inverted_accesses(accesses: Accesses, leaf: int) -> Accesses:
    """Return the inverse of the accesses to array number `leaf` of an operand."""
    found = []
    for access in [replace(a, leaf=0) for a in of_leaf(accesses, leaf)]:
        if access.map is None:
            found.append(access)
            continue
        try:
            found.append(replace(access, map=access.map.inverse()))
        except UnsupportedError as error:
            found.append(Access.unknown(error.message))
    return tuple(found)


class _BackwardTraversal:
    """Traversal from a value back to the parameters of its computation, through calls.

    It collects accesses of each visited value; `None` among them stands for the identity access of
    the value that the traversal starts from.
    """

    def __init__(
        self, start: Frame, reads: Callable[[Frame, Instruction, int], list[Accesses]]
    ) -> None:
        self._start: Final = start
        self._reads: Final = reads
        self._open: list[tuple[int, int, ArrayOfValue]] = []
        self._found: dict[ArrayOfValue, dict[Access | None, None]] = {}
        self._count = 0

    def run(self, ins: Instruction, output: int) -> dict[tuple[Instruction, int], Accesses]:
        """Return the accesses from array `output` of `ins` to parameters.

        Keys are pairs (parameter, number of its array).

        Raises:
            UnsupportedError: A value is defined outside the computation, or too many values are
                visited.
        """
        answer: dict[tuple[Instruction, int], Accesses] = {}
        self._add((self._start, ins, output), None)
        # The heap yields the latest value first, so all of a value's users are done before it is
        # visited.
        for _ in range(MOST_VALUES):
            if not self._open:
                return answer
            place = heappop(self._open)[2]
            frame, value, leaf = place
            accesses = self._found.pop(place)
            if isinstance(value.op, Parameter) and frame is self._start:
                answer[value, leaf] = tuple(
                    [a or _identity_access(frame, value, leaf) for a in accesses]
                )
            else:
                self._visit(place, list(accesses))
        raise UnsupportedError(f"more than {MOST_VALUES:,} values are between")

    def _visit(self, place: ArrayOfValue, accesses: list[Access | None]) -> None:
        """Compose the accesses of an array with what its instruction reads of the operands.

        The array is `place`. The results are added to the accesses of the operands. If the array
        equals another one unchanged, its accesses are added to that one.
        """
        frame, ins, leaf = place
        same = self._equal_array(frame, ins, leaf)
        if same is not None:
            for access in accesses:
                self._add(same, access)
            return
        if ins.calls and any(captures(callee) for callee in ins.calls):
            raise UnsupportedError(f"`{ins.name}` reads values from outside in a region")
        for operand, read in zip(ins.operands, self._reads(frame, ins, leaf), strict=True):
            for each in read:
                for access in accesses:
                    both = composed(access, each)
                    if _may_read(both):
                        self._add((frame, operand, each.leaf), both)

    def _equal_array(self, frame: Frame, ins: Instruction, leaf: int) -> ArrayOfValue | None:
        """Return the value, and its array, that array `leaf` of `ins` equals, or `None`."""
        match ins.op:
            case Parameter(number) if frame.caller is not None:
                outer, call = frame.caller
                return outer, call.operands[number], leaf
            case op if isinstance(op, _REGROUPING):
                place = passed_on(ins, leaf)
                return place and (frame, ins.operands[place[0]], place[1])
            case control.Call() | control.Composite() if ins in frame.inner:
                inner = frame.inner[ins]
                return inner, inner.computation.root, leaf
            case _:
                return None

    def _add(self, place: ArrayOfValue, access: Access | None) -> None:
        frame, value, _ = place
        if value not in frame.order:
            raise UnsupportedError(f"`{value.name}` comes from outside")
        known = self._found.get(place)
        if known is None:
            known = self._found[place] = {}
            self._count += 1
            heappush(self._open, (-frame.order[value], self._count, place))
        if len(known) >= MOST_ACCESSES:
            access = Access.unknown(f"it is read in more than {MOST_ACCESSES} ways")
            known.clear()
        known[access] = None


def _identity_access(frame: Frame, value: Instruction, leaf: int) -> Access:
    shape = frame.of(value)[leaf].shape
    if shape is None:
        return Access.unknown("the value is not an array")
    return Access(SizedBuilder(frame.symbols, shape).map([Dim(k) for k in range(len(shape))]))


def _may_read(access: Access) -> bool:
    """Is the map of the access unknown, or not known to be empty?"""
    return access.map is None or not access.map.is_known_empty


def composed(first: Access | None, second: Access) -> Access:
    """Return the composition of two accesses; a `first` of `None` is the identity."""
    if first is None:
        return replace(second, leaf=0)
    if first.map is None or second.map is None:
        return Access.unknown(first.reason if first.map is None else second.reason)
    both: IndexingMap = first.map.compose(second.map).simplify().remove_unused_symbols()
    if Precision.OVER in (first.precision, second.precision):
        return Access(both, Precision.OVER, first.reason or second.reason)
    return Access(both)


# --------------------------------------------------------------------------------------------------
# Sizes of all values of a program, by a traversal from its entry.
#
# Functions are entered at each call with the sizes of its arguments, so that a size computed by a
# helper is known for each caller. Loops and branches are not entered: code that does not always run
# proves nothing about sizes.


MOST_STEPS: Final = 1 << 18
"""Maximum number of visited instructions; those of a function count once per call."""
_ROUNDS: Final = 3
"""Maximum number of traversals of the program.

An assertion at the end of the program gives sizes at its beginning in the next traversal.
"""
_ASSERTION: Final = "shape_assertion"
_NAMED: Final = "jax.global_constant"
"""The attribute by which `jax.export` names sizes."""


class _Call(Frame):
    """The frame of one call of a function, with the number of instructions processed so far."""

    def __init__(self, symbols: Symbols, path: int, callee: Computation) -> None:
        super().__init__(symbols, path, callee, certain=True)
        self.rest: Final[Iterator[Instruction]] = iter(callee.instructions)
        self.waits_for: Instruction | None = None


class SizeTraversal:
    """The sizes of all values of a program, found by a traversal from its entry.

    Attributes:
        entry: The function that the traversal begins with.
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
            if self.symbols.number_of_facts == before:
                break
            before = self.symbols.number_of_facts

    def frame_of(self, computation: Computation) -> Frame:
        """Return the frame with the values of a computation.

        The arguments are those of its call; arbitrary ones if there is not exactly one call.
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
        """Process instructions of a frame up to the next call of a function; return the function.

        A function in `open_calls`, which is being traversed, is not called again. The result is
        `None` at the end of the frame's function.
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
        """Return the frame of the called function, with the values of its arguments."""
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
                self.symbols.name_size(first[0], name)
        return inner

    def _returned(self, frame: Frame, call: Instruction, callee: _Call) -> ArrayValues:
        """Return the arrays of the value of `call`: those of the root of the called function.

        `callee` is the frame of that function.
        """
        known = callee.of(callee.computation.root)
        types = leaves(call.type)
        if len(known) != len(types):
            return declared(frame, call)
        return tuple(
            [_with_declared_sizes(frame, call, k, t, known[k]) for k, t in enumerate(types)]
        )

    def _value(self, frame: Frame, ins: Instruction) -> ArrayValues:
        """Return the arrays of a value, computed from those of its operands."""
        if ins in frame.values and isinstance(ins.op, control.Parameter):
            return frame.values[ins]
        try:
            passed = _passed_arrays(frame, ins)
            if passed is not None:
                return passed
            sizes = _by_rule(frame, ins)
        except (HloscopeError, LookupError, ValueError, AssertionError, ZeroDivisionError):
            return declared(frame, ins)
        return sizes if len(self.symbols.variables) < MOST_SYMBOLS else declared(frame, ins)

    def _learn(self, frame: Frame, ins: Instruction) -> None:
        """Record the facts that an instruction states, if it is an assertion about sizes."""
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
        """Record that each element of `left` compares with that of `right` as `direction` says."""
        interval = DIRECTIONS.get(direction)
        for a, b in zip(left, right, strict=False):
            if interval is not None and a is not None and b is not None:
                self.symbols.learn(a, b, interval)


def _with_declared_sizes(
    frame: Frame, value: Instruction, number: int, type: Type, leaf: Leaf
) -> Leaf:
    """Return `leaf` with the sizes that the declared type states; others remain unchanged.

    It is array number `number` of `value`, and `type` is its declared type.
    """
    if not isinstance(type, TensorType) or leaf.shape is None or len(leaf.shape) != type.rank:
        return declared(frame, value)[number]
    pairs = zip(type.sizes, leaf.shape, strict=True)
    shape = [s if n is None else frame.same([Const(n), s]) for n, s in pairs]
    return Leaf(tuple([s for s in shape if s is not None]), leaf.contents)


def _passed_arrays(frame: Frame, ins: Instruction) -> ArrayValues | None:
    """Return the arrays of an op whose arrays are arrays of its operands; `None` for other ops."""
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


def _by_rule(frame: Frame, ins: Instruction) -> ArrayValues:
    """Return the arrays of a value by the rules of its op; static sizes come from its type."""
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
