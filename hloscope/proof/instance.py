"""Small test programs for queries about an instruction: copies of it that can be run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.fusion import MOVES, leaf_types
from hloscope.hlo_parser import print_type
from hloscope.indexing import UNKNOWN_COUNTS, DeviceCounts
from hloscope.ir import (
    Body,
    Computation,
    Instruction,
    Module,
    NotInferredError,
    Op,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    captured,
    compatible,
)
from hloscope.ops import (
    AsyncDone,
    AsyncStart,
    Constant,
    CustomCall,
    Elementwise,
    Iota,
    Parameter,
    Return,
    Slice,
)
from hloscope.proof.allowance import Deadline
from hloscope.proof.devices import Devices, GridError, Regrouping, counts_of, regroupings
from hloscope.proof.resizing import Step, resized_op, resized_type
from hloscope.proof.sizes import Equation, ShrinkError, Sizes, choose, equations_of, shape_of
from hloscope.support.limits import refuse_many_dimensions, refuse_unsupported_array
from hloscope.support.walks import needed_first, reached

# --------------------------------------------------------------------------------------------------
# Small test programs for queries about an instruction, with values in and values out.
#
# An *instance* has the instruction twice.  One copy is analysed, together with the integers that
# its operands are computed from, so that values known before the run stay known.  The other is the
# root of a computation whose parameters are the values that are changed.


SMALL: Final = 64
"""Largest number of elements of a value that is not shrunk."""
MOST: Final = 80
"""Largest number of elements of a value in a small test program."""
MOST_UNSHRUNK: Final = 1 << 16
"""Largest number of elements of a value that is run at its own size, if it cannot be shrunk."""
MAX_NESTING: Final = 200


class Instance(Struct, frozen=True, eq=False):
    """A test program of one instruction: a copy for the analysis, and a copy to run.

    Attributes:
        ins: The instruction to analyse.  The integers from which its operands are computed are
            those of the program.
        computation: The instruction's computation, if the maps lead to its parameters.
        sources: The values that runs change: operands and captured values, or parameters.
        feeding: Computes the sources from values that can be chosen freely, its parameters.
        running: Computes the instruction's value from the sources.
        grouping: The devices on which the test program runs; each has its own values.
        shrunk: New sizes by old sizes; empty if nothing was shrunk.
        reason: Text that says why a large program was not shrunk.
        copies: Instructions of the instance by instructions of the program.
    """

    ins: Instruction
    computation: Computation | None
    sources: tuple[Instruction, ...]
    feeding: Computation
    running: Computation
    grouping: Regrouping
    shrunk: Sizes
    reason: str = ""
    copies: Mapping[Instruction, Instruction] = field(default_factory=dict)

    @property
    def module(self) -> Module:
        """The test program as a module: its entry takes the sources and returns the value."""
        return module_of(self.running)

    @property
    def devices(self) -> Devices:
        """The devices on which the test program runs."""
        return self.grouping.devices

    @property
    def is_smaller(self) -> bool:
        """Does the test program have smaller sizes or fewer devices than the program?"""
        return bool(self.shrunk) or self.grouping.is_smaller

    @property
    def shapes(self) -> str:
        """Text of the value's type and the number of devices; empty if neither is smaller."""
        if not self.is_smaller:
            return ""
        types = [print_type(t, layout=False) for t in leaf_types(self.ins.type)]
        text = ", ".join(types[:3]) + (", …" if len(types) > 3 else "")
        if self.grouping.is_smaller:
            text += f" on {self.devices.count} of {self.grouping.before} devices"
        return text


def module_of(entry: Computation) -> Module:
    """Return a program with the computation as entry, and all its callees."""
    every: dict[str, Computation] = {}
    for ins in entry:
        for inner in within(ins):
            for callee in inner.calls:
                every.setdefault(callee.name, callee)
    every[entry.name] = entry
    return Module("instance", every, entry)


def instance_of(
    ins: Instruction,
    computation: Computation | None = None,
    deadline: Deadline | None = None,
    stated: DeviceCounts = UNKNOWN_COUNTS,
) -> Instance:
    """Return a small test program for queries about an instruction.

    Args:
        ins: The instruction.
        computation: The instruction's computation, if the maps lead to its parameters.
        deadline: Time limit.
        stated: Numbers of replicas and partitions that the program states.

    Raises:
        NotExecutableError: The instruction cannot be run.
        UnsupportedError: An array has too many dimensions.
        TimeOverError: The time limit is exceeded.
    """
    deadline = deadline or Deadline()
    involved = test_instructions(ins, computation)
    largest = max((_elements(i.type) for i in involved), default=0)
    reason = ""
    try:
        counts = counts_of(involved, stated)
        reason = f"it runs on {counts.total} devices, and not on fewer"
        # The smallest grid first; the next one if the instance does not fit it.
        for grouping in regroupings(involved, counts):
            try:
                return _instance(_Query(ins, computation, involved, largest), grouping, deadline)
            except NotExecutableError as error:
                reason = str(error)
    except GridError as error:
        reason = str(error)
    raise NotExecutableError(reason)


class _Query(NamedTuple):
    """A query about an instruction.

    `involved` are all instructions of its test program, `largest` is the number of elements of
    their largest tensor.
    """

    ins: Instruction
    computation: Computation | None
    involved: Sequence[Instruction]
    largest: int


def _instance(query: _Query, grouping: Regrouping, deadline: Deadline) -> Instance:
    """Return the test program of a query on the devices of `grouping`.

    It is shrunk if it is large or group sizes change.

    Raises:
        NotExecutableError: The program cannot be run on these devices.
    """
    ins, computation, involved, largest = query
    reason = ""
    # Group sizes enter types, so with fewer devices the instance must be resized even if it is
    # small.
    if largest > SMALL or grouping.resizes:
        try:
            sizes = _small_sizes(involved, grouping, deadline)
            return _Rebuilding(sizes, grouping, deadline).instance(ins, computation)
        except ShrinkError as error:
            reason = str(error)
        if grouping.resizes:
            raise NotExecutableError(f"it does not fit fewer devices: {reason}")
        if largest > MOST_UNSHRUNK:
            raise NotExecutableError(f"it is large and has no small instance: {reason}")
    try:
        return _Rebuilding({}, grouping, deadline).instance(ins, computation, reason)
    except ShrinkError as error:
        raise NotExecutableError(str(error)) from None


def _elements(type: Type) -> int:
    """Return the number of elements of the largest tensor of a type.

    Raises:
        NotExecutableError: A size has no bound.
    """
    found = 0
    for leaf in leaf_types(type):
        if isinstance(leaf, TensorType):
            refuse_many_dimensions(leaf.rank)
            try:
                count = leaf.num_elements
                if not count:  # large ones become small
                    refuse_unsupported_array(leaf.sizes)
                found = max(found, count)
            except (UnsupportedError, ValueError):
                raise NotExecutableError("sizes without bounds") from None
    return found


# ----------------------------------------------------------------------------------- shrinking


def _small_sizes(
    involved: Sequence[Instruction], grouping: Regrouping, deadline: Deadline
) -> dict[int, int]:
    """Return new sizes, by old sizes, for all values of a test program.

    `involved` are its instructions; `grouping` has its devices and the new group sizes.

    Raises:
        ShrinkError: No small sizes keep the program valid.
    """
    shapes: dict[tuple[int, ...], None] = {}
    equations: list[Equation] = []
    for ins in involved:
        deadline.check()
        for leaf in leaf_types(ins.type):
            # All shapes count, so that no intermediate value becomes large.
            shapes[shape_of(leaf)] = None
        try:
            equations += equations_of(ins, grouping.sizes.get(ins, (1, 1)))
        except (ValueError, IndexError, TypeError, AttributeError):
            raise ShrinkError(f"`{ins.name}` is not valid") from None
    return choose([*shapes], equations, MOST, deadline)


class _Rebuilding:
    """Copies instructions with other operands, other devices and, perhaps, other sizes."""

    def __init__(self, sizes: Sizes, grouping: Regrouping, deadline: Deadline) -> None:
        self._sizes = sizes
        self._deadline = deadline
        self._grouping = grouping
        self._new: dict[Instruction, Instruction] = {}
        self._computations: dict[Computation, Computation] = {}
        self._names: set[str] = set()
        self._depth = 0

    def instance(
        self, ins: Instruction, computation: Computation | None, reason: str = ""
    ) -> Instance:
        """Return the test program of an instruction.

        Args:
            ins: The instruction.
            computation: The instruction's computation, if the maps lead to its parameters.
            reason: Text that says why a large program is not shrunk.
        """
        if computation is not None:
            return self._of_computation(ins, computation, reason)
        read = tuple(dict.fromkeys((*ins.operands, *captured(ins))))
        free: list[Instruction] = []
        computed: list[Instruction] = []
        # Integer operands are computed from copies of their producers, whose other operands become
        # parameters, so that the analysis knows the same constants as in the program.
        for value in read:
            for before in integers_before(value):
                for operand in before.operands:
                    if operand not in self._new:
                        free.append(self._parameter(operand, len(free)))
                if before not in self._new:
                    computed.append(self._copied(before))
            if value not in self._new:
                free.append(self._parameter(value, len(free)))
        new = {value: self._new[value] for value in read}
        made = self._copied(ins)
        copies = {**self._new}
        both = (*ins.operands, *captured(ins))
        sources = tuple([new[value] for value in both])
        feeding = _computation("feeding", free, [*free, *computed], sources)
        # A second copy for running: each operand is a parameter of its own, so that two uses of
        # one value can be changed separately.
        self._names.clear()
        parameters = [self._parameter(v, k, old=new[v]) for k, v in enumerate(both)]
        operands = tuple(parameters[: len(ins.operands)])
        calls = made.calls
        if captured(ins):
            self._computations.clear()
            calls = tuple([self._computation(c) for c in ins.calls])
        running = Instruction(made.name, made.type, made.op, operands, calls, extras=made.extras)
        body = Body((*parameters, running), tuple(parameters), running)
        whole = Computation("entry", body)
        grouping, sizes = self._grouping, self._sizes
        return Instance(made, None, sources, feeding, whole, grouping, sizes, reason, copies)

    def _of_computation(self, ins: Instruction, computation: Computation, reason: str) -> Instance:
        """Return the test program of `ins` whose sources are the parameters of a computation.

        `reason` says why a large program is not shrunk.
        """
        parameters = [self._parameter(p, k) for k, p in enumerate(computation.parameters)]
        inside = [self._copied(i) for i in needed(ins) if i not in self._new]
        root = self._new[ins]
        body = Body((*parameters, *inside), tuple(parameters), root)
        running = Computation("entry", body)
        sources = tuple(parameters)
        feeding = _computation("feeding", parameters, parameters, sources)
        return Instance(
            root, running, sources, feeding, running, self._grouping, self._sizes, reason, self._new
        )

    def _parameter(
        self, value: Instruction, number: int, old: Instruction | None = None
    ) -> Instruction:
        """Return a new parameter with number `number` that represents a value in the copy.

        It has the type of `old`, or else the type of the value with new sizes.
        """
        type = resized_type(value.type, self._sizes) if old is None else old.type
        made = Instruction(self._name(value.name), type, Parameter(number))
        self._new[value] = made
        return made

    def _name(self, name: str) -> str:
        """Return `name`, changed so that it differs from all other names of the copy."""
        found, count = name, 1
        while found in self._names:
            count += 1
            found = f"{name}.{count}"
        self._names.add(found)
        return found

    def _copied(self, ins: Instruction, name: str = "") -> Instruction:
        """Return a copy of an instruction with new operands, sizes and computations.

        Raises:
            ShrinkError: Op, operands and type of the copy contradict each other.
            TimeOverError: The time limit is exceeded.
        """
        self._deadline.check()
        operands = tuple([self._new[o] for o in ins.operands])
        calls = tuple([self._computation(c) for c in ins.calls])
        wrong = "does not fit" if self._sizes else "is not valid"
        try:
            type, op = ins.type, ins.op
            if self._sizes:
                type = resized_type(type, self._sizes)
                op = resized_op(Step(ins, self._sizes, tuple([o.type for o in operands]), type))
            elif isinstance(op, Constant) and op.literal.is_elided:
                op = _invented_constant(ins)
            # A collective has no sizes of its own: the regrouped op replaces it.
            op = self._grouping.ops.get(ins, op)
            _check(op, operands, calls, type)
        except (HloscopeError, ValueError, IndexError, TypeError) as error:
            text = getattr(error, "message", error)
            raise ShrinkError(f"`{ins.op.name}` {wrong}: {text}") from None
        made = Instruction(
            name or self._name(ins.name), type, op, operands, calls, extras=ins.extras
        )
        self._new[ins] = made
        return made

    def _computation(self, computation: Computation) -> Computation:
        """Return the copy of a called computation; each computation is copied once.

        Raises:
            ShrinkError: Calls nest too deeply.
        """
        known = self._computations.get(computation)
        if known is None:
            self._depth += 1
            if self._depth > MAX_NESTING:
                raise ShrinkError("calls nest too deeply")
            # Names are unique within a computation only.
            names, self._names = self._names, set()
            body = computation.body
            for k, p in enumerate(body.parameters):
                self._parameter(p, k)
            made: list[Instruction] = []
            for ins in body.instructions:
                is_parameter = isinstance(ins.op, Parameter) and ins in body.parameters
                made.append(self._new[ins] if is_parameter else self._copied(ins))
            inner = Body(
                tuple(made),
                tuple([self._new[p] for p in body.parameters]),
                self._new[body.root],
            )
            known = self._computations[computation] = Computation(computation.name, inner)
            self._names = names
            self._depth -= 1
        return known


def _invented_constant(ins: Instruction) -> Op:
    """Return a constant op of the instruction's type whose elements are made up.

    It replaces a constant whose elements are missing in the text (`{...}`).
    """
    step = Step(ins, {0: 0}, (), ins.type)
    return resized_op(step)


def _check(
    op: Op, operands: Sequence[Instruction], calls: Sequence[Computation], type: Type
) -> None:
    """Check that the declared type `type` agrees with the type inferred from the other arguments.

    Raises:
        ValueError: The types contradict each other.
    """
    if isinstance(op, CustomCall | AsyncStart | AsyncDone | Parameter | Return):
        return
    try:
        inferred = op.infer(tuple([o.type for o in operands]), tuple(calls))
    except NotInferredError:
        return
    if not _fits(inferred, type):
        found, said = (print_type(t, layout=False) for t in (inferred, type))
        raise ValueError(f"{found} is not {said}")


def _fits(inferred: Type, declared: Type) -> bool:
    """Are the sizes of the inferred and the declared type compatible?

    Element types are ignored: for some ops they are a free choice.
    """
    match inferred, declared:
        case TensorType(), TensorType():
            return compatible(replace(inferred, element=declared.element), declared)
        case TupleType(), TupleType():
            pairs = zip(inferred.elements, declared.elements, strict=False)
            return len(inferred.elements) == len(declared.elements) and all(
                _fits(a, b) for a, b in pairs
            )
        case _:
            return compatible(inferred, declared)


def _computation(
    name: str,
    parameters: Sequence[Instruction],
    instructions: Sequence[Instruction],
    results: Sequence[Instruction],
) -> Computation:
    """Return a computation with a `return` of the values `results` at its end."""
    types = tuple([r.type for r in results])
    root = Instruction("return", TupleType(types), Return(), tuple(results))
    return Computation(name, Body((*instructions, root), tuple(parameters), root))


# --------------------------------------------------------------------------------------------------
# Instructions that a query depends on: operands and their producers, callees included.


MOST_INSTRUCTIONS: Final = 5_000
MAX_DEPTH: Final = 64
"""Largest number of instructions on a path from an integer operand back to its producers."""


class NotExecutableError(Exception):
    """The instruction of a query cannot be run; the message is the reason, such as its size."""


def within(ins: Instruction) -> tuple[Instruction, ...]:
    """Return an instruction, and all instructions of computations it calls, callers first."""
    called = reached(ins.calls, lambda c: [callee for inner in c for callee in inner.calls])
    return tuple(dict.fromkeys([ins, *chain.from_iterable(called)]))


def test_instructions(ins: Instruction, computation: Computation | None) -> list[Instruction]:
    """Return all instructions of an instruction's test program, called computations included.

    Producers of operands are left out if a parameter represents the operand.

    Raises:
        NotExecutableError: There are more than `MOST_INSTRUCTIONS`.
    """
    if computation is not None:
        outer = list(needed(ins))
    else:
        outer = [*ins.operands, *captured(ins), ins]
        before = dict.fromkeys(i for o in outer[:-1] for i in integers_before(o))
        free = dict.fromkeys(o for i in before for o in i.operands if o not in before)
        outer += before
        outer += [Instruction(o.name, o.type, Parameter(0)) for o in free]
    found: dict[Instruction, None] = {}
    seen: set[Computation] = set()
    work = [*outer]
    for one in work:
        found[one] = None
        # An operand's value is given to the test program, so what it calls does not run.
        if one in (*ins.operands, *captured(ins)) and computation is None:
            continue
        for callee in one.calls:
            if callee not in seen:
                seen.add(callee)
                work += callee.instructions
        if len(work) > MOST_INSTRUCTIONS:
            raise NotExecutableError(f"more than {MOST_INSTRUCTIONS} instructions")
    return [*found]


def needed(root: Instruction) -> Iterator[Instruction]:
    """Yield an instruction and all its producers, producers first."""
    return needed_first([root], lambda ins: (*_captured(ins)[::-1], *ins.operands[::-1]))


def _captured(ins: Instruction) -> tuple[Instruction, ...]:
    """Return the values that the regions of an instruction capture."""
    return captured(ins) if ins.calls else ()


def integers_before(operand: Instruction) -> list[Instruction]:
    """Return the producers of an integer operand by simple arithmetic, producers first.

    The analysis may know the value of such an operand before the program runs.
    """
    order: dict[Instruction, None] = {}

    def visit(ins: Instruction, depth: int) -> None:
        if ins in order or not _is_integer(ins.type) or depth > MAX_DEPTH:
            return
        is_simple = type(ins.op) in MOVES or isinstance(ins.op, Elementwise | Slice)
        if is_simple and len(order) < MAX_DEPTH:
            for o in ins.operands:
                visit(o, depth + 1)
        if is_simple or isinstance(ins.op, Constant | Iota):
            order[ins] = None

    visit(operand, 0)
    return [*order]


def _is_integer(type: Type) -> bool:
    """Is the element type boolean or an integer, and not quantized?"""
    return (
        isinstance(type, TensorType)
        and type.element.kind in ("pred", "signed", "unsigned")
        and not isinstance(type.element, QuantizedType)
    )
