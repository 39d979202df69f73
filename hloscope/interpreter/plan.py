"""Plans: a computation compiled to kernels, with values in numbered slots.

A slot is cleared after its last use.  Evaluation keeps its own stack of calls, so a chain of calls
of any length does not deepen Python's stack.  Only regions of ops recurse, as deep as the text
nests them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Any, Final, NamedTuple, NoReturn

from hloscope.errors import HloscopeError
from hloscope.interpreter.flops import with_flop_count
from hloscope.interpreter.registry import LIFTED, Kernel, Refusal, kernel
from hloscope.interpreter.reuse import (
    NO_GRANT,
    Grant,
    Reuse,
    can_overwrite,
    inner_plans,
    owned_by_loop,
    reuse,
)
from hloscope.interpreter.straight import (
    BINARY,
    MANY,
    NULLARY,
    REGIONS,
    UNARY,
    WRITING,
    Entry,
    Inlined,
    Straight,
    inlined,
    needed,
    straight,
)
from hloscope.interpreter.values import (
    EvaluationError,
    Value,
    World,
    byte_size,
    check_evaluable,
    each_leaf,
    has_own_memory,
)
from hloscope.ir import (
    Computation,
    Instruction,
    QuantizedType,
    TensorType,
    TupleType,
    callees_first,
    captures,
)
from hloscope.ops import (
    Call,
    Constant,
    Fusion,
    GetTupleElement,
    Parameter,
    Return,
    Tuple,
    While,
)
from hloscope.support.arrays import np
from hloscope.support.source import Span
from hloscope.support.walks import needed_first

_CALLS: Final = (Call, Fusion)
_MOST_FRAMES: Final = 100_000
"""Maximum number of nested calls; a deeper call raises an error."""
_STRUCTURE: Final = (Constant, Return, Tuple, GetTupleElement)


class Step(NamedTuple):
    """One instruction of a plan.

    Attributes:
        kernel: Its kernel; `None` for a call, which the evaluation itself performs.
        operands: Slots of the operands.
        target: Slot that receives the instruction's value.
        freed: Slots to clear, because no later step reads them.
        regions: Plans of the called computations, each with the slots of the outer values it reads.
        ins: The instruction.
    """

    kernel: Kernel | None
    operands: tuple[int, ...]
    target: int
    freed: tuple[int, ...]
    regions: tuple[tuple[Plan, tuple[int, ...]], ...]
    ins: Instruction


class Plan:
    """A computation compiled to kernels for one evaluation context (`World`), with numbered slots.

    Slots are numbered parameters first, then outer values, then the other instructions.

    Attributes:
        computation: The computation.
        world: The evaluation context of its kernels: limits, process numbers, callbacks.
        outer: Values of enclosing computations that it reads.
        size: Number of slots.
        results: Slots of the results, if the root is a `return` (StableHLO).
        root: Slot of the root, if the computation returns its value (HLO); else -1.
        returns_tuple: Is the value of an HLO root a tuple?
    """

    def __init__(self, computation: Computation, world: World, plans: Plans) -> None:
        """Compile a computation; `plans` has the plans of the computations that it calls."""
        self.computation: Final = computation
        self.world: Final = world
        body = computation.body
        slots: dict[Instruction, int] = {p: i for i, p in enumerate(body.parameters)}
        self.outer: Final = captures(computation)
        for value in self.outer:
            slots[value] = len(slots)
        for ins in body.instructions:
            slots.setdefault(ins, len(slots))
        self.size: Final = len(slots)
        root = body.root
        is_return = isinstance(root.op, Return)
        self.results: Final = tuple(slots[v] for v in root.operands) if is_return else ()
        self.root: Final = -1 if is_return else slots[root]
        self.returns_tuple: Final = not is_return and isinstance(root.type, TupleType)
        self._slots: Final = slots
        self._plans: Final = plans
        self._straight: Final[dict[frozenset[int], Straight | None]] = {}

    @property
    def is_elementwise(self) -> bool:
        """Does each element of the results depend only on the same element of each argument?"""
        return self._plans.is_elementwise(self.computation)

    def grants(self, step: Step) -> tuple[Grant, ...]:
        """Return what the regions of a step may overwrite if the plan owns none of its operands."""
        return self._plans.grants(step)

    @cached_property
    def monoid(self) -> str:
        """Name of the op if the computation is one op on its two parameters; else empty."""
        # Cached, as every run of a reduction reads it.
        return _monoid(self.computation)

    @cached_property
    def inlined(self) -> Inlined | None:
        """The plan with its calls inlined; `None` if it is recursive or too long."""
        # Cached, as several programs and analyses are made of it.  It reads the steps of callees,
        # so it cannot be made in the constructor: a function may call itself.
        return inlined(self)

    def straight(self, owned: frozenset[int] = frozenset()) -> Straight | None:
        """Return the straight-line program of the plan; `None` if it is recursive or too long.

        Args:
            owned: Numbers of the argument leaves (tuples flattened) that it may overwrite.
        """
        # Cached, as every run of the plan needs it.
        if owned not in self._straight:
            flat = self.inlined
            # Most programs have no kernel that can write to an operand: then the memory of values
            # is not analysed, which would take a seventh of the first run.
            found = self._plans.reuse(self) if can_overwrite(self) else None
            self._straight[owned] = None if flat is None else straight(flat, found, owned)
        return self._straight[owned]

    @cached_property
    def steps(self) -> list[Step]:
        """The steps of the plan, in order of evaluation."""
        # Cached, as every run without a straight-line form uses them.  Not made in the constructor,
        # because a function may call itself: the plan has to exist before its steps refer to it.
        body, slots, plans = self.computation.body.instructions, self._slots, self._plans
        last: dict[int, int] = {}
        rows: list[
            tuple[Instruction, tuple[int, ...], tuple[tuple[Plan, tuple[int, ...]], ...]]
        ] = []
        # A watcher wants every value; otherwise instructions without effect are skipped.
        is_needed = None if self.world.watch else needed(self.computation, self.world.custom_calls)
        for ins in body:
            if isinstance(ins.op, Parameter | Return):
                continue
            if is_needed is not None and ins not in is_needed:
                continue
            regions = []
            reads = {slots[o] for o in ins.operands}
            for callee in ins.calls:
                plan = plans.of(callee)
                regions.append((plan, tuple(slots[v] for v in plan.outer)))
                reads.update(slots[v] for v in plan.outer)
            # Later steps overwrite the entry, so it ends as the last step that reads the slot.  A
            # value that is never read is freed by the step that makes it.
            for slot in reads:
                last[slot] = len(rows)
            last.setdefault(slots[ins], len(rows))
            rows.append((ins, tuple(slots[o] for o in ins.operands), tuple(regions)))
        # Results are returned at the end.  The caller holds its arguments until the call returns,
        # so clearing parameters would free nothing.
        kept = {*self.results, self.root, *range(len(self.computation.parameters))}
        freed: list[list[int]] = [[] for _ in rows]
        for slot, row in last.items():
            if slot not in kept:
                freed[row].append(slot)
        return [
            Step(self._kernel(ins), operands, slots[ins], tuple(dead), regions, ins)
            for (ins, operands, regions), dead in zip(rows, freed, strict=True)
        ]

    def _kernel(self, ins: Instruction) -> Kernel | None:
        """Return the kernel of an instruction; `None` for a call.

        An instruction that cannot be evaluated gets a kernel that raises the error, because the
        step may never run.
        """
        if isinstance(ins.op, _CALLS):
            return None
        # The declared size can be checked before anything is allocated.
        size = byte_size(ins.type)
        if size > self.world.max_bytes:
            many = f"{size:,} bytes, at most {self.world.max_bytes:,} are allowed"
            message = f"`{ins.name}` needs {many}"
            return Refusal(EvaluationError(message, span=ins.span, rule="max_bytes"))
        try:
            check_evaluable(ins.type)
            return with_flop_count(kernel(ins, self.world), ins, self.world)
        except HloscopeError as error:  # it may never be reached
            return Refusal(error)
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            message = f"`{ins.op.name}` is not valid: {error}"
            return Refusal(EvaluationError(message, span=ins.span))


def _is_elementwise(computation: Computation, known: Mapping[Computation, bool]) -> bool:
    """Are all ops of a computation elementwise, and all computations that it calls?

    `known` says which of the called computations are elementwise.
    """
    return all(
        isinstance(ins.op, (Parameter, *_STRUCTURE))
        or type(ins.op) in LIFTED
        or (isinstance(ins.op, _CALLS) and all(known.get(c) for c in ins.calls))
        for ins in computation
    )


def _monoid(computation: Computation) -> str:
    """Return the name of the op if a computation is one op on its two parameters; else empty.

    Each parameter must be read once, in any order.
    """
    rest = [i for i in computation if not isinstance(i.op, Parameter | Return)]
    parameters = computation.body.parameters
    if len(rest) != 1 or len(parameters) != 2 or set(rest[0].operands) != set(parameters):
        return ""
    # The order of the operands is not checked: callers compare with names of commutative ops only.
    root = computation.body.root
    returned = root.operands if isinstance(root.op, Return) else (root,)
    type_ = rest[0].type
    if isinstance(type_, TensorType) and isinstance(type_.element, QuantizedType):
        return ""  # the op works on the real numbers, not on the stored integers
    return rest[0].op.name if returned == (rest[0],) else ""


class Plans:
    """Plans of computations for one evaluation context; each plan is compiled on first request."""

    def __init__(self, world: World) -> None:
        self.world: Final = world
        self._known: Final[dict[Computation, Plan]] = {}
        self._elementwise: Final[dict[Computation, bool]] = {}
        self._reuse: Final[dict[Plan, Reuse | None]] = {}

    def of(self, computation: Computation) -> Plan:
        """Return the plan of a computation; it is compiled on the first call."""
        # Cached, as a computation that is called several times, or by itself, must have one plan.
        plan = self._known.get(computation)
        if plan is None:
            plan = self._known[computation] = Plan(computation, self.world, self)
        return plan

    def is_elementwise(self, computation: Computation) -> bool:
        """Are all ops of a computation and of its callees elementwise?

        False if it is recursive.
        """
        # Cached, as callees are decided before their callers, and a callee may have many callers.
        known = self._elementwise
        for inner in callees_first(computation, known):
            known[inner] = _is_elementwise(inner, known)
        return known[computation]

    def reuse(self, plan: Plan) -> Reuse | None:
        """Return what a plan may overwrite, and where its results lie; `None` if that is unknown.

        That is so if it has no straight-line program.
        """
        # Cached, as that of a loop's body decides about the loop and about the body's own program.
        known = self._reuse
        for inside in needed_first([plan], inner_plans, known):
            known[inside] = reuse(inside, inside.inlined, known) if inside.inlined else None
        return known[plan]

    def grants(self, step: Step) -> tuple[Grant, ...]:
        """Return what the regions of a step may overwrite if the plan owns none of its operands.

        The body of a loop overwrites a copy of the initial state, and then what it returned.
        Regions of other ops may overwrite nothing.
        """
        if not isinstance(step.ins.op, While):
            return ()
        condition, body = [self.reuse(plan) for plan, _ in step.regions]
        if condition is None or body is None:
            return ()
        owned = owned_by_loop(condition, body)
        return NO_GRANT, Grant(owned, owned)


class BoundRegion:
    """A region or called computation together with the outer values it reads; kernels call it."""

    __slots__ = ("_copied", "_number", "_of", "_outer", "_owned", "_plan")

    def __init__(
        self,
        plan: Plan,
        outer: list[Value],
        of: Instruction,
        number: int,
        grant: Grant = NO_GRANT,
    ) -> None:
        """Bind a region to outer values.

        Args:
            plan: Plan of the region.
            outer: Values of enclosing computations that it reads.
            of: The instruction that has the region.
            number: Number of the region among those of the instruction.
            grant: Arrays that the region may overwrite.
        """
        self._owned, self._copied = grant
        self._plan = plan
        self._outer = outer
        self._of = of
        self._number = number

    @property
    def outer(self) -> tuple[Value, ...]:
        """Values of enclosing computations that the region reads."""
        return tuple(self._outer)

    @property
    def is_elementwise(self) -> bool:
        """May the region be called with arrays of one shape in place of scalars?"""
        return self._plan.is_elementwise

    @property
    def monoid(self) -> str:
        """Name of the op if the region is one op on its two arguments; else empty."""
        return self._plan.monoid

    def __call__(self, *arguments: Value) -> tuple[Value, ...]:
        """Evaluate the region with these arguments, and return its results."""
        return self.taking([*arguments])

    def taking(self, arguments: list[Any]) -> tuple[Value, ...]:
        """Evaluate the region, and return its results; the list of arguments is consumed."""
        plan = self._plan
        trail = plan.world.trail
        if trail is not None:
            trail.enter(self._of, self._number)
        if self._copied:
            arguments = _with_copies(arguments, self._copied)
            self._copied = frozenset()
        arguments += self._outer
        results = run_in(plan, arguments, self._owned)
        if trail is not None:
            trail.leave()
        if plan.returns_tuple:
            (whole,) = results
            assert isinstance(whole, tuple)
            return whole
        return results


class _Frame:
    """State of one call: its plan, the values of its slots, and the index of the next step."""

    __slots__ = ("at", "env", "plan")

    def __init__(self, plan: Plan, given: Sequence[Value]) -> None:
        self.plan = plan
        self.env: list[Any] = [*given]
        self.env.extend([None] * (plan.size - len(self.env)))
        self.at = 0

    def results(self) -> tuple[Value, ...]:
        plan, env = self.plan, self.env
        return (env[plan.root],) if plan.root >= 0 else tuple([env[s] for s in plan.results])


def run(plan: Plan, arguments: Sequence[Value], outer: Sequence[Value] = ()) -> tuple[Value, ...]:
    """Evaluate a plan with arguments and outer values, and return its results.

    Raises:
        EvaluationError: A limit is exceeded, or an assertion of the program fails.
        UnsupportedError: An executed op has no evaluation.
    """
    return run_in(plan, [*arguments, *outer])


def run_in(plan: Plan, env: list[Any], owned: frozenset[int] = frozenset()) -> tuple[Value, ...]:
    """Evaluate a plan whose slots are the list `env`, and return its results.

    At the start `env` has the arguments and the outer values; the list is consumed. Leaves of the
    arguments in `owned` may be overwritten: nothing else reads their memory from now on.
    """
    world, program = plan.world, plan.straight(owned)
    if program is not None and _can_skip_bookkeeping(world, program.flat.count):
        return _run_straight(program, env, world)
    frames = [_Frame(plan, env)]
    # The frame has a copy of the list; a reference left here would keep freed values alive.
    del env
    while True:
        frame = frames[-1]
        called = _advance(frame, world)
        if called is not None:
            frames.append(called)
            if len(frames) > _MOST_FRAMES:
                raise EvaluationError(f"calls nest more than {_MOST_FRAMES:,} deep")
            continue
        results = frame.results()
        frames.pop()
        if not frames:
            return results
        _return_to(frames[-1], results, world)


def _advance(frame: _Frame, world: World) -> _Frame | None:
    """Run a frame up to its next call, and return a frame for the callee.

    The result is `None` if the frame has run to its end.
    """
    env, steps = frame.env, frame.plan.steps
    limit, watch = world.max_steps, world.watch
    at, ins = frame.at, None
    count = len(steps)
    try:
        while at < count:
            kernel, operands, target, freed, regions, ins = steps[at]
            # Counted before it runs, so a step beyond the limit is never executed.
            world.steps += 1
            if limit is not None and world.steps > limit:
                raise _too_many_steps(limit, ins.span)
            # A callback at every step would cost more than most steps.
            if world.on_step is not None and world.steps & 0x3F == 0:
                world.on_step(world.steps)
            if kernel is None:
                frame.at = at
                return _callee_frame(steps[at], env, world)
            if regions:
                grants = frame.plan.grants(steps[at])
                value = kernel(_bound_regions(steps[at], env, grants), *[env[s] for s in operands])
            else:
                value = kernel(*[env[s] for s in operands])
            env[target] = value
            if watch is not None:
                watch(ins, value)
            for slot in freed:
                env[slot] = None
            at += 1
    except Exception as error:
        _raise_at(error, ins, steps[at].operands if ins else (), env)
    frame.at = at
    return None


def _can_skip_bookkeeping(world: World, steps: int) -> bool:
    """Can `steps` steps run without callbacks at each step, and within the step limit?"""
    limit = world.max_steps
    is_free = limit is None or world.steps + steps <= limit
    return is_free and world.watch is None and world.trail is None


def _run_straight(program: Straight, env: list[Any], world: World) -> tuple[Value, ...]:
    """Evaluate a straight-line program, whose slots are the list `env`, and return its results.

    Only this evaluation may refer to the list.
    """
    env += program.flat.template
    entry = None
    try:
        for mode, kernel, first, second, target, freed, entry in program.rows:
            # No local name refers to a value, so that clearing its slot frees it.
            if mode == BINARY:
                env[target] = kernel(env[first], env[second])
            elif mode == UNARY:
                env[target] = kernel(env[first])
            elif mode == MANY:
                env[target] = kernel(*first(env))
            elif mode == NULLARY:
                env[target] = kernel()
            elif mode == WRITING:
                run = kernel.into if has_own_memory(env[second]) else kernel.plain
                env[target] = run(*first(env))
            else:
                # Regions count steps themselves, so those before the region are counted first.
                _count(world, entry.count, entry.step)
                if mode == REGIONS:
                    env[target] = kernel(
                        _bound_regions(entry, env, first), *[env[s] for s in entry.operands]
                    )
                else:
                    env[target] = kernel(
                        _bound_regions(entry, env, first), _take_values(env, entry.operands, freed)
                    )
            for slot in freed:
                env[slot] = None
    except Exception as error:
        world.steps += program.flat.tail
        ins, operands = (entry.ins, entry.operands) if entry else (None, ())
        _raise_at(error, ins, operands, env)
    if world.max_steps is None and world.on_step is None:
        world.steps += program.flat.tail
    else:
        _count(world, program.flat.tail, entry.step if entry else None)
    return program.give(env)  # type: ignore[no-any-return]


def _count(world: World, steps: int, step: Step | None) -> None:
    """Add the number `steps` of evaluated steps to the world's count, and check its limit.

    `step` is the last of these steps, for the position in an error message.

    Raises:
        EvaluationError: The limit is exceeded.
    """
    before = world.steps
    world.steps = after = before + steps
    if world.max_steps is not None and after > world.max_steps:
        raise _too_many_steps(world.max_steps, step.ins.span if step else None)
    # Called if a multiple of 64 was passed, the interval of `_advance`.
    if before >> 6 != after >> 6 and world.on_step is not None:
        world.on_step(after)


def _too_many_steps(limit: int, span: Span | None) -> EvaluationError:
    """Return the error for exceeding the step limit; `span` is the position in the source."""
    return EvaluationError(f"stopped after {limit:,} steps", span=span, rule="max_steps")


def _take_values(env: list[Any], slots: Sequence[int], freed: Sequence[int]) -> list[Any]:
    """Return the values in the slots `slots` of `env`, and clear the slots `freed`."""
    values = [env[s] for s in slots]
    for slot in freed:
        env[slot] = None
    return values


def _callee_frame(step: Step, env: list[Any], world: World) -> _Frame:
    """Return a new frame for the function that a step calls.

    `env` has the values of the caller's slots.
    """
    if world.trail is not None:
        world.trail.enter(step.ins, 0)
    plan, outer = step.regions[0]
    return _Frame(plan, [env[s] for s in (*step.operands, *outer)])


def _bound_regions(
    at: Step | Entry, env: list[Any], grants: Sequence[Grant] = ()
) -> tuple[BoundRegion, ...]:
    """Return the regions of a step, each bound to the outer values it reads.

    `env` has the values of all slots. `grants` says what each region may overwrite; nothing by
    default.
    """
    given = grants or [NO_GRANT] * len(at.regions)
    return tuple(
        [
            BoundRegion(plan, [env[s] for s in outer], at.ins, number, grant)
            for number, ((plan, outer), grant) in enumerate(zip(at.regions, given, strict=True))
        ]
    )


def _with_copies(arguments: list[Any], leaves: frozenset[int]) -> list[Any]:
    """Return the arguments with some of their arrays copied.

    `leaves` are the numbers of these arrays, counted through all arguments with tuples flattened.
    """
    numbers = count()

    def copied(leaf: Any) -> Any:
        return leaf.copy() if next(numbers) in leaves and type(leaf) is np.ndarray else leaf

    return [each_leaf(value, copied) for value in arguments]


def _raise_at(
    error: Exception, ins: Instruction | None, operands: Sequence[int], env: list[Any]
) -> NoReturn:
    """Raise the error of a kernel as an error of the program at the source position of `ins`.

    `operands` are the slots of its operands in `env`.
    """
    span = ins.span if ins else None
    match error:
        case HloscopeError():
            error.span = error.span or span
            raise error
        case MemoryError():
            raise EvaluationError("out of memory", span=span) from None
        case RecursionError():
            raise EvaluationError("calls and regions nest too deeply", span=span) from None
        case ArithmeticError() | LookupError() | TypeError() | ValueError() if ins:
            # Types were checked before; numpy fails here if sizes that are known only at run time
            # do not fit.
            shapes = ", ".join(str(getattr(env[slot], "shape", "–")) for slot in operands)
            message = f"`{ins.op.name}` cannot be computed of values of shapes {shapes}: {error}"
            raise EvaluationError(message, span=span) from error
        case _:
            raise error


def _return_to(frame: _Frame, results: tuple[Value, ...], world: World) -> None:
    """Store the results of a call in the frame of its caller, which continues after the call."""
    if world.trail is not None:
        world.trail.leave()
    step = frame.plan.steps[frame.at]
    # A StableHLO call of one result has that result as its value, otherwise a tuple of results.  An
    # HLO call always has one value.
    several = step.regions[0][0].root < 0 and len(results) != 1
    value: Value = results if several else results[0]
    frame.env[step.target] = value
    if world.watch is not None:
        world.watch(step.ins, value)
    for slot in step.freed:
        frame.env[slot] = None
    frame.at += 1
