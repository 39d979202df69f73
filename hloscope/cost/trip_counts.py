"""Trip counts of loops: computed from the program where possible, else as annotated.

A loop's condition and the values that it depends on are arithmetic on the loop's state
(`hloscope.cost.slices`). If a counter changes by the same amount in every iteration, the first
iteration that ends the loop has a closed form, wrap-around included: the values of the counter that
end it are a cyclic interval of residues, and the first of x0 + s·t (mod 2^n) in it is found as by
Euclid's algorithm. Everything else is evaluated iteration by iteration within a budget, with bounds
for unknown values: the loop goes on as long as the condition is certainly true, and it has ended
when the condition is certainly false.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from hloscope.cost.scalars import Span, Value, any_value, is_bounded, limits_of, wrapped
from hloscope.cost.slices import Frame, Key, Machine, Node, Slices, Tape
from hloscope.errors import HloscopeError
from hloscope.ir import ElementType, Instruction, backend_config
from hloscope.ops import While

NOT_A_LOOP: Final = "it has no condition and body that can be followed"
MOST_STEPS: Final = 200_000
"""Maximum number of ops evaluated to count one loop's iterations; it takes a fifth of a second."""
MOST_STEPS_IN_ALL: Final = 2_000_000
"""Maximum number of ops evaluated for all loops of a program."""
MOST_STEPS_IN_DOUBT: Final = 20_000
"""Maximum number of ops evaluated after the first iteration in which the loop may have ended."""
MOST_TURNS_LISTED: Final = 4_096
"""Maximum number of iterations of one loop whose states are listed one by one.

With more, the values of all iterations are replaced by bounds.
"""


class TripCount(Struct, frozen=True):
    """Number of iterations of a loop each time that it is entered.

    Attributes:
        count: The count; `None` if it is unknown, differs between entries, or is infinite.
        low: Minimum count.
        high: Maximum count; `None` if there is no bound.
        annotated: `known_trip_count` of the backend config, as written; `None` without one.
        origin: `program` if `count` was computed, or was proved to differ or to be infinite;
            `annotation` if it is the annotated one; else `unknown`.
        reason: Why `count` is `None` or annotated; empty if it was computed.
    """

    count: int | None
    low: int
    high: int | None
    annotated: int | None
    origin: Literal["program", "annotation", "unknown"]
    reason: str = ""

    @property
    def differs(self) -> bool:
        """Does the annotated trip count contradict the program?"""
        if self.annotated is None:
            return False
        if self.origin == "program":
            return self.annotated != self.count
        return self.annotated < self.low or (self.high is not None and self.annotated > self.high)

    @property
    def times(self) -> int:
        """Return the count that totals use; an unknown count is 1, if the bounds allow it.

        A loop that does not end counts as annotated, as there is no other number.
        """
        if self.count is not None:
            return self.count
        if self.origin == "program" and self.high is None and self.annotated is not None:
            return max(self.annotated, 1)
        return max(self.low, 1 if self.high is None else min(1, self.high))


class LoopRun(NamedTuple):
    """One execution of a loop, from entry to end.

    Attributes:
        low: Minimum number of iterations.
        high: Maximum number of iterations; `None` if there is no bound.
        reason: Why `low` and `high` differ, or why the loop does not end; empty if the count is
            exact.
        ends: `False` if the loop was proved not to end.
        states: Values of the computed state elements, `Machine.keys`, at the beginning of each
            iteration; `None` if they were not requested, or are too many.
        last: Values of these elements after the last iteration; `None` if they were not requested
            or are unknown.
    """

    low: int
    high: int | None
    reason: str = ""
    ends: bool = True
    states: tuple[tuple[Value, ...], ...] | None = None
    last: tuple[Value, ...] | None = None

    @property
    def exact(self) -> int | None:
        """Return the number of iterations if it is known, else `None`."""
        return self.low if self.low == self.high else None


class Loops:
    """Computes trip counts and final values of one program's loops, with a common budget of ops.

    Attributes:
        slices: Creates the nodes of the program's values: scalars as arithmetic on inputs.
    """

    def __init__(self) -> None:
        self.slices: Final = Slices(self._ending)
        self._steps = MOST_STEPS_IN_ALL
        self._known: dict[tuple[Tape, tuple[Value, ...], bool], LoopRun] = {}

    def spend(self, steps: int) -> bool:
        """Take `steps` ops from the program's budget; return `False` if fewer are left."""
        if steps > self._steps:
            return False
        self._steps -= steps
        return True

    def run(self, machine: Machine, given: Sequence[Value], *, listed: bool = False) -> LoopRun:
        """Count the iterations of a loop.

        Args:
            machine: The part of the loop that decides its trip count.
            given: Initial values of its `keys`, then values of `outer`.
            listed: Also return the states at the beginning of each iteration and at the end?
        """
        key = machine.tape, tuple(given), listed
        # An inner loop is entered once for each iteration of the outer one, mostly with one state.
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._run(machine, given, listed)
        return found

    def _run(self, machine: Machine, given: Sequence[Value], listed: bool) -> LoopRun:
        closed = _Closed(machine, given)
        found = closed.run
        if found is not None and not listed:
            return found
        turned = self._evaluated(machine, given, listed, found)
        if found is not None:
            if turned.exact == found.exact:
                return turned
            return found._replace(last=closed.last(found.low) if found.ends else None)
        # The condition is a conjunction, so the loop ends no later than when one part is false.
        high = turned.high
        if closed.high is not None:
            high = closed.high if high is None else min(high, closed.high)
        return turned._replace(low=max(turned.low, closed.low), high=high)

    def _evaluated(
        self, machine: Machine, given: Sequence[Value], listed: bool, known: LoopRun | None
    ) -> LoopRun:
        """Evaluate a loop iteration by iteration.

        Nothing is evaluated if the closed form gives a count that exceeds the budget.

        Args:
            machine: The part of the loop that decides its trip count.
            given: Initial values of its `keys`, then values of `outer`.
            listed: Also return the states?
            known: The count by the closed form; `None` without one.
        """
        cost = len(machine.tape)
        if known is not None and (not known.ends or known.low * cost > MOST_STEPS):
            return LoopRun(0, None)
        left = MOST_STEPS
        turn, low, reason = 0, None, ""
        states: list[tuple[Value, ...]] | None = [] if listed else None
        for state, goes_on in _iterations(machine, given):
            if goes_on is None:  # the state repeats, so the loop never ends
                if low is None:
                    return LoopRun(turn, None, "the loop does not end", ends=False)
                return LoopRun(low, None, reason)
            if type(goes_on) is Span:
                if low is None:
                    low, reason, states = turn, goes_on.reason, None
                    left = min(left, MOST_STEPS_IN_DOUBT)
            elif not goes_on:
                if low is None:
                    every = None if states is None else tuple(states)
                    return LoopRun(turn, turn, states=every, last=state)
                return LoopRun(low, turn, reason)
            if states is not None:
                states.append(state)
                if len(states) > MOST_TURNS_LISTED:
                    states = None
            turn += 1
            left -= cost
            if left < 0 or not self.spend(cost):
                break
        why = reason or f"more than {turn:,} turns, which is as far as it was evaluated"
        return LoopRun(turn if low is None else low, None, why)

    def _ending(self, machine: Machine, key: Key, given: Sequence[Value]) -> Value:
        number = machine.keys.index(key)
        found = self.run(machine, given, listed=True)
        if found.last is not None:
            return found.last[number]
        return any_value(machine.elements[number], f"the loop `{machine.loop.name}` changes it")


def _iterations(
    machine: Machine, initial: Sequence[Value]
) -> Iterator[tuple[tuple[Value, ...], Value | None]]:
    """Yield the state at the beginning of each iteration, and the value of the condition.

    `initial` are the initial values of the machine's `keys`, then the values of `outer`. If a state
    occurs a second time, the loop never ends: `None` is yielded in place of the condition, and the
    generator stops (Brent's algorithm).
    """
    tape, width = machine.tape, len(machine.keys)
    now = dict(zip(machine.outer, initial[width:], strict=True))
    state = saved = tuple(initial[:width])
    turn, again = 0, 1
    while True:
        now.update(zip(machine.keys, state, strict=True))
        values = tape.run(now)
        yield state, values[tape.outputs[0]]
        state = tuple([values[n] for n in tape.outputs[1:]])
        turn += 1
        if state == saved:
            yield state, None
            return
        # Brent: comparing with a state saved at powers of two finds any cycle without storing all
        # states.
        if turn == again:
            saved, again = state, 2 * again


# ------------------------------------------------------------------------------------ closed form


class _Line(NamedTuple):
    """The linear function `slope * t + start` of iteration t, in the arithmetic of the type."""

    slope: int
    start: int


class _Closed:
    """Counters that change by a constant in every iteration, and when they end the loop.

    Attributes:
        run: The count, if every part of the condition has a closed form.
        low: Minimum number of iterations by the parts with a closed form.
        high: Maximum number of iterations; `None` if no part bounds it.
    """

    def __init__(self, machine: Machine, given: Sequence[Value]) -> None:
        self._machine: Final = machine
        width = len(machine.keys)
        self._first: Final = dict(zip(machine.keys, given[:width], strict=True))
        values: dict[Key, Value | _Line] = dict(zip(machine.outer, given[width:], strict=True))
        self._steps: Final = self._slopes(values)
        for key, first in self._first.items():
            slope = self._steps.get(key)
            if slope == 0:
                values[key] = first
            elif slope is not None and type(first) is not Span:
                values[key] = _Line(slope, first)
        self._values = _lines(machine.tape, values)
        self.run: LoopRun | None = None
        self.low = 0
        self.high: int | None = None
        self._solve()

    def _slopes(self, outer: dict[Key, Value | _Line]) -> dict[Key, int]:
        """Return the state elements of a loop that change by a constant, with this constant.

        The constant is added in every iteration; it is 0 for an element that does not change.
        `outer` has the values from outside of the loop that its regions read.
        """
        machine, tape = self._machine, self._machine.tape
        slopes: dict[Key, int] = {}
        for key, number in zip(machine.keys, tape.outputs[1:], strict=True):
            if tape.nodes[number].key == key:
                slopes[key] = 0
        # Elements that do not change are constants for the other ones.
        fixed = {**outer, **{key: self._first[key] for key in slopes}}
        for key, number, element in zip(
            machine.keys, tape.outputs[1:], machine.elements, strict=True
        ):
            if key in slopes or element is None or element.kind not in ("signed", "unsigned"):
                continue
            after = tape.nodes[number]
            # A line in the element itself: `1 * x + 0` before the iteration.
            before = {**fixed, key: _Line(1, 0)}
            line = _lines(Tape([after]), before).get(after) if after.element == element else None
            if isinstance(line, _Line) and line.slope == 1:
                slopes[key] = line.start
        return slopes

    def last(self, turns: int) -> tuple[Value, ...]:
        """Return the values of the loop's state elements after `turns` iterations."""
        machine = self._machine
        found: list[Value] = []
        for key, element in zip(machine.keys, machine.elements, strict=True):
            slope, first = self._steps.get(key), self._first[key]
            if slope == 0:
                found.append(first)
            elif slope is not None and element is not None and type(first) is not Span:
                found.append(wrapped(first + slope * turns, element))
            else:
                found.append(any_value(element, f"the loop `{machine.loop.name}` changes it"))
        return tuple(found)

    def _solve(self) -> None:
        tape = self._machine.tape
        ends: list[tuple[int | None, int | None]] = []
        open_parts = False
        # `and` of all parts; `not (a or b)` is `not a and not b`.
        stack = [(tape.nodes[tape.outputs[0]], True)]
        while stack:
            node, wanted = stack.pop()
            if node.name == "not":
                stack.append((node.args[0], not wanted))
            elif node.name == ("and" if wanted else "or"):
                stack += [(arg, wanted) for arg in node.args]
            elif (other := self._other(node)) is not None:
                stack.append((other, wanted))
            else:
                found = self._part(node, wanted)
                if found is None:
                    open_parts = True
                else:
                    ends.append(found)
        lows = [low for low, _ in ends if low is not None]
        highs = [high for _, high in ends if high is not None]
        self.high = min(highs, default=None)
        if open_parts:
            return
        if all(low == high for low, high in ends):
            if self.high is None:
                self.run = LoopRun(0, None, "the loop does not end", ends=False)
            else:
                self.run = LoopRun(self.high, self.high)
        elif lows:
            self.low = min(lows)

    def _other(self, node: Node) -> Node | None:
        """Return the operand that alone decides an `and` or `or`: the other one is neutral.

        `None` for other ops, or if no operand is known to be neutral: true for `and`, false for
        `or`.
        """
        neutral = {"and": 1, "or": 0}.get(node.name)
        if neutral is not None:
            for one, other in (node.args, node.args[::-1]):
                if self._values.get(one) == neutral:
                    return other
        return None

    def _narrow(self, node: Node) -> Node:
        """Return the counter that a node converts to a wider type; any other node unchanged.

        `node` is a scalar as arithmetic on the loop's state.
        """
        if node in self._values or node.name != "convert":
            return node
        (inner,) = node.args
        if not isinstance(self._values.get(inner), _Line):
            return node
        assert inner.element is not None
        assert node.element is not None
        if node.element.kind not in ("signed", "unsigned"):
            return node
        (low, high), (least, most) = limits_of(inner.element), limits_of(node.element)
        return inner if least <= low and high <= most else node

    def _part(self, node: Node, wanted: bool) -> tuple[int | None, int | None] | None:
        """Return the earliest and the latest iteration in which a condition may first change.

        `None` in the pair means never. The result is `None` if there is no closed form.

        Args:
            node: The condition, or a part of it: a boolean.
            wanted: The condition's value until it changes.
        """
        value = self._values.get(node)
        if isinstance(value, int):
            return (None, None) if bool(value) == wanted else (0, 0)
        if node.name != "compare":
            return None
        first, second = node.args
        if isinstance(self._values.get(second), int):
            first = self._narrow(first)
        elif isinstance(self._values.get(first), int):
            second = self._narrow(second)
        a, b = self._values.get(first), self._values.get(second)
        direction = node.about
        element = (first if isinstance(a, _Line) else second).element
        if element is None or element.kind not in ("signed", "unsigned"):
            return None
        if isinstance(b, _Line) and not isinstance(a, _Line):
            a, b, direction = b, a, _SWAPPED[direction]
        if isinstance(a, _Line) and isinstance(b, _Line) and direction in ("EQ", "NE"):
            # Modulo 2^n, two lines are equal if and only if their difference is 0; that does not
            # hold for their order.
            a, b = _Line(a.slope - b.slope, a.start - b.start), 0
        if not isinstance(a, _Line):
            return None
        if not wanted:
            direction = _OPPOSITE[direction]
        if isinstance(b, int):
            end = _first_false(a, direction, b, element)
            return end, end
        if isinstance(b, Span) and direction not in ("EQ", "NE") and is_bounded(b, element):
            # A larger limit of < leaves fewer values that end the loop, and a smaller one of >.
            # That holds also for a limit that changes between iterations.
            assert b.low is not None
            assert b.high is not None
            near, far = (b.low, b.high) if direction in ("LT", "LE") else (b.high, b.low)
            low = _first_false(a, direction, near, element)
            # A limit that may be any value of the type gives no bound.
            is_open = far in limits_of(element)
            return low, None if is_open else _first_false(a, direction, far, element)
        return None


_SWAPPED: Final = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}
"""For each direction of a comparison, the direction with the two operands exchanged."""
_OPPOSITE: Final = {"LT": "GE", "LE": "GT", "GT": "LE", "GE": "LT", "EQ": "NE", "NE": "EQ"}


def _lines(tape: Tape, given: dict[Key, Value | _Line]) -> dict[Node, Value | _Line]:
    """Return the nodes whose value is known, a span, or linear in the iteration number.

    Args:
        tape: The nodes, each a scalar as arithmetic on inputs.
        given: Such a value for each input.
    """
    found: dict[Node, Value | _Line] = {}
    for node in tape.nodes:
        if node.key is not None:
            if node.key in given:
                found[node] = given[node.key]
        elif node.step is None:
            found[node] = node.value
        elif all(arg in found for arg in node.args):
            args = [found[arg] for arg in node.args]
            if not any(isinstance(arg, _Line) for arg in args):
                found[node] = node.step(*args)
            elif (line := _line(node, args)) is not None:
                found[node] = line
    return found


def _line(node: Node, args: Sequence[Value | _Line]) -> _Line | None:
    """Return an op's result as a linear function of the iteration; `None` if it is not linear.

    Args:
        node: The op: a scalar as arithmetic on other nodes.
        args: Values of its operands: numbers, spans, or linear functions of the iteration.
    """
    element = node.element
    if element is None or element.kind not in ("signed", "unsigned"):
        return None
    if any(type(arg) is Span for arg in args):
        return None
    lines = [arg if isinstance(arg, _Line) else _Line(0, arg) for arg in args]
    match node.name, lines:
        case "add", [a, b]:
            return _Line(a.slope + b.slope, a.start + b.start)
        case "subtract", [a, b]:
            return _Line(a.slope - b.slope, a.start - b.start)
        case "negate", [a]:
            return _Line(-a.slope, -a.start)
        case "multiply", [a, b] if a.slope == 0 or b.slope == 0:
            return _Line(a.slope * b.start + b.slope * a.start, a.start * b.start)
        case "convert", [a] if node.args[0].element is not None and (
            node.args[0].element.kind in ("signed", "unsigned")
            and node.args[0].element.bits >= element.bits
        ):
            return a  # the low bits of a sum are the sum of the low bits
    return None


def _first_false(line: _Line, direction: str, limit: int, element: ElementType) -> int | None:
    """Return the first iteration in which a comparison is false; `None` if it is never false.

    Args:
        line: Left side of the comparison, linear in the iteration.
        direction: HLO's name of the comparison, such as `LT`.
        limit: Right side of the comparison.
        element: Element type of the left side.
    """
    low, high = limits_of(element)
    size = high - low + 1
    if not low <= limit <= high:  # of a wider type: all values lie on one side of it
        is_true = direction == "NE" or (direction in ("LT", "LE")) == (limit > high)
        return None if is_true and direction != "EQ" else 0
    # The values that make it false are a cyclic interval of `width` residues from `first` on.
    match direction:
        case "LT":
            first, width = limit, high - limit + 1
        case "LE":
            first, width = limit + 1, high - limit
        case "GT":
            first, width = low, limit - low + 1
        case "GE":
            first, width = low, limit - low
        case "NE":
            first, width = limit, 1
        case _:
            first, width = limit + 1, size - 1
    if width <= 0:
        return None
    least = (first - line.start) % size
    # Shifted by the start, the interval wraps around 0, so the start itself lies in it.
    if least == 0 or least + width > size:
        return 0
    return first_iteration(line.slope % size, size, least, least + width - 1)


def first_iteration(slope: int, size: int, low: int, high: int) -> int | None:
    """Return the least t >= 0 with `slope * t mod size` in `low..high`; `None` if there is none.

    It must hold that `0 <= slope < size` and `0 <= low <= high < size`. The time is logarithmic:
    for the least t, `slope * t - size * y` lies in the range for the least y for which `-size * y
    mod slope` lies in the range's residues, a problem of half the size.

    >>> first_iteration(100, 256, 120, 127)
    14
    >>> first_iteration(2, 256, 1, 1) is None
    True
    """
    if low == 0:
        return 0
    if slope == 0:
        return None
    # Mirrored, a slope above half the modulus becomes one below it, so that each step halves the
    # problem.
    if 2 * slope > size:
        slope, low, high = size - slope, size - high, size - low
    t = -(-low // slope)
    if slope * t <= high:
        return t
    y = first_iteration(-size % slope, slope, low % slope, high % slope)
    return None if y is None else -(-(low + size * y) // slope)


# ------------------------------------------------------------------------------------- annotation


def known_trip_count(ins: Instruction) -> int | None:
    """Return the `known_trip_count` of a loop's backend config; `None` without one."""
    try:
        return int(backend_config(ins.extras)["known_trip_count"]["n"])
    except (HloscopeError, KeyError, TypeError, ValueError):
        return None


def with_annotation(computed: LoopRun, annotated: int | None) -> TripCount:
    """Return the trip count by the program, or the annotated one if the program determines none.

    `computed` is the count by the program. An annotation outside the proved bounds is ignored.
    """
    low, high = computed.low, computed.high
    if not computed.ends:
        return TripCount(None, 1, None, annotated, "program", computed.reason)
    if low == high:
        return TripCount(low, low, high, annotated, "program")
    reason = computed.reason or "it depends on data"
    # An annotation that contradicts a proved bound is wrong and must not be used.
    fits = annotated is not None and low <= annotated and (high is None or annotated <= high)
    if annotated is None or not fits:
        return TripCount(None, low, high, annotated, "unknown", reason)
    return TripCount(annotated, annotated, annotated, annotated, "annotation", reason)


def joined(counts: Sequence[TripCount]) -> TripCount:
    """Return a trip count that holds for each of `counts`, the counts of different entries."""
    first = counts[0]
    if all(count == first for count in counts):
        return first
    low = min(count.low for count in counts)
    highs = [count.high for count in counts if count.high is not None]
    high = max(highs) if len(highs) == len(counts) else None
    unsure = next((count for count in counts if count.origin != "program"), None)
    if unsure is not None:
        return TripCount(None, low, high, first.annotated, "unknown", unsure.reason)
    return TripCount(
        None, low, high, first.annotated, "program", "it differs each time that it is entered"
    )


def loop_trip_count(ins: Instruction) -> TripCount:
    """Return the trip count of a loop, from the loop itself and its operands.

    Parameters of its computation are unknown; `loops_of` also follows the callers.
    """
    loops = Loops()
    machine = loops.slices.machine(ins) if isinstance(ins.op, While) else None
    if machine is None:
        return with_annotation(LoopRun(0, None, NOT_A_LOOP), known_trip_count(ins))
    frame = Frame(None)
    tape = Tape(loops.slices.given(machine, frame))
    values = tape.run(tape.unknown())
    run = loops.run(machine, [values[n] for n in tape.outputs])
    return with_annotation(run, known_trip_count(ins))


def trip_count(ins: Instruction) -> int:
    """Return the trip count that totals use: 1 if neither program nor annotation determines it."""
    return loop_trip_count(ins).times
