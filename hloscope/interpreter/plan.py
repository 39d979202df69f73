"""A computation made ready: kernels in order, values in numbered slots, freed after their last use.

Evaluation keeps its own stack of calls, so a chain of functions of any depth needs no more of
Python's; regions of ops nest as deeply as the text does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple, NoReturn

from hloscope.errors import HloscopeError
from hloscope.fusion import PRODUCTS, elements_read, leaf_types, multiplications
from hloscope.interpreter.liveness import needed
from hloscope.interpreter.ownership import is_alone
from hloscope.interpreter.registry import LIFTED, Kernel, Refusal, Writing, kernel
from hloscope.interpreter.straight import (
    BINARY,
    MANY,
    NULLARY,
    REGIONS,
    UNARY,
    WRITING,
    Entry,
    Straight,
    straight,
)
from hloscope.interpreter.values import EvaluationError, Value, byte_size, check_evaluable
from hloscope.interpreter.world import World
from hloscope.ir import (
    Computation,
    Instruction,
    Op,
    QuantizedType,
    TensorType,
    TupleType,
    captures,
    inside_out,
)
from hloscope.ops import (
    AddDependency,
    Bitcast,
    Broadcast,
    BroadcastInDim,
    Call,
    Case,
    Constant,
    Domain,
    Fusion,
    GetTupleElement,
    OptimizationBarrier,
    Parameter,
    Reduce,
    ReduceWindow,
    Reshape,
    Return,
    Slice,
    Sort,
    TopK,
    Transpose,
    Tuple,
    While,
)
from hloscope.source import Span

_CALLS: Final = (Call, Fusion)
_MOST_FRAMES: Final = 100_000
"""Most calls that may have begun and not ended."""
_MANY: Final = 1 << 12
"""Elements of an instruction that are counted; fewer take no longer than a step does."""
_STRUCTURE: Final = (Constant, Return, Tuple, GetTupleElement)
_HANDING_ON: Final[tuple[type[Op], ...]] = (
    *_STRUCTURE, AddDependency, Bitcast, Broadcast, BroadcastInDim, Case, Domain,
    OptimizationBarrier, Reshape, Slice, Transpose, While,
)  # fmt: skip
"""Ops whose own part is to hand on what there is, or a view of it."""


class Step(NamedTuple):
    """One instruction of a plan.

    Attributes:
        kernel: Its kernel; `None` for a call, which the evaluation makes itself.
        operands: Slots of the operands.
        target: Slot of the value.
        freed: Slots that are not read later.
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
    """A computation made ready for evaluation in one world."""

    def __init__(self, computation: Computation, world: World, plans: Plans) -> None:
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

    @cached_property
    def is_elementwise(self) -> bool:
        """Is each result element made of the same element of every argument only?"""
        return self._plans.is_elementwise(self.computation)

    @cached_property
    def monoid(self) -> str:
        """Name of the op if it is `op(a, b)` of its two arguments."""
        return _monoid(self.computation)

    @cached_property
    def straight(self) -> Straight | None:
        """The plan written out; made when it is first run."""
        return straight(self)

    @cached_property
    def steps(self) -> list[Step]:
        """The steps; made when it is first run, as a function may call itself."""
        body, slots, plans = self.computation.body.instructions, self._slots, self._plans
        last: dict[int, int] = {}
        rows: list[
            tuple[Instruction, tuple[int, ...], tuple[tuple[Plan, tuple[int, ...]], ...]]
        ] = []
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
            for slot in reads:
                last[slot] = len(rows)
            last.setdefault(slots[ins], len(rows))
            rows.append((ins, tuple(slots[o] for o in ins.operands), tuple(regions)))
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
        if isinstance(ins.op, _CALLS):
            return None
        size = byte_size(ins.type)
        if size > self.world.max_bytes:
            many = f"{size:,} bytes, at most {self.world.max_bytes:,} are allowed"
            error = EvaluationError(f"`{ins.name}` needs {many}", span=ins.span, rule="max_bytes")
            return _refuse_with(error)
        try:
            check_evaluable(ins.type)
            return _counted(kernel(ins, self.world), ins, self.world)
        except HloscopeError as error:  # it may never be reached
            return _refuse_with(error)
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            return _refuse(f"`{ins.op.name}` is not valid: {error}", ins)


def _counted(run: Kernel, ins: Instruction, world: World) -> Kernel:
    """The kernel; what it computes is counted first, where that is limited and may be much."""
    if world.max_flops is None:
        return run
    flops = _work(ins)
    if flops < _MANY and not isinstance(ins.op, (*PRODUCTS, ReduceWindow)):
        return run

    def count() -> None:
        world.flops += flops
        if world.max_flops is not None and world.flops > world.max_flops:
            many = f"{world.flops:,} operations on elements"
            allowed = f"at most {world.max_flops:,} are allowed"
            message = f"`{ins.name}` would make it {many}, {allowed}"
            raise EvaluationError(message, span=ins.span, rule="max_flops")

    def counted_before(made: Kernel) -> Kernel:
        def counted(*values: Any) -> Value:
            count()
            return made(*values)

        return counted

    if isinstance(run, Writing):
        return Writing(counted_before(run.plain), counted_before(run.into))
    return counted_before(run)


def _work(ins: Instruction) -> int:
    """Operations on elements: of arithmetic, of comparison, or to read and write them."""
    if isinstance(ins.op, PRODUCTS):
        products = multiplications(ins)
        return 2 * (elements_read(ins) if products is None else products)
    if isinstance(ins.op, _HANDING_ON):
        return 0
    made = _elements(ins)
    if isinstance(ins.op, ReduceWindow):
        return made * prod(ins.op.window.sizes)
    if isinstance(ins.op, Reduce | TopK):
        return max(made, *map(_elements, ins.operands))
    if isinstance(ins.op, Sort):
        return made * made.bit_length() * sum(len(list(callee)) for callee in ins.calls)
    return made


def _elements(value: Instruction) -> int:
    """Elements of all tensors of a value, those of unknown sizes left out."""
    leaves = leaf_types(value.type)
    return sum(prod(s or 0 for s in t.sizes) for t in leaves if isinstance(t, TensorType))


def _refuse(message: str, ins: Instruction) -> Kernel:
    return _refuse_with(EvaluationError(message, span=ins.span))


def _refuse_with(error: HloscopeError) -> Kernel:
    return Refusal(error)


def _is_elementwise(computation: Computation, known: Mapping[Computation, bool]) -> bool:
    return all(
        isinstance(ins.op, (Parameter, *_STRUCTURE))
        or type(ins.op) in LIFTED
        or (isinstance(ins.op, _CALLS) and all(known.get(c) for c in ins.calls))
        for ins in computation
    )


def _monoid(computation: Computation) -> str:
    rest = [i for i in computation if not isinstance(i.op, Parameter | Return)]
    parameters = computation.body.parameters
    if len(rest) != 1 or len(parameters) != 2 or set(rest[0].operands) != set(parameters):
        return ""
    root = computation.body.root
    returned = root.operands if isinstance(root.op, Return) else (root,)
    type_ = rest[0].type
    if isinstance(type_, TensorType) and isinstance(type_.element, QuantizedType):
        return ""  # its integers are not what is computed with
    return rest[0].op.name if returned == (rest[0],) else ""


class Plans:
    """Plans of computations, each made when it is first asked for."""

    def __init__(self, world: World) -> None:
        self.world: Final = world
        self._known: Final[dict[Computation, Plan]] = {}
        self._elementwise: Final[dict[Computation, bool]] = {}

    def of(self, computation: Computation) -> Plan:
        """The plan of a computation."""
        plan = self._known.get(computation)
        if plan is None:
            plan = self._known[computation] = Plan(computation, self.world, self)
        return plan

    def is_elementwise(self, computation: Computation) -> bool:
        """Is a computation, with all that it calls, elementwise?  What calls itself is not."""
        known = self._elementwise
        for inner in inside_out(computation, known):
            known[inner] = _is_elementwise(inner, known)
        return known[computation]


class BoundRegion:
    """A plan and the outer values it reads: what kernels get to call."""

    __slots__ = ("_number", "_of", "_outer", "_plan")

    def __init__(self, plan: Plan, outer: list[Value], of: Instruction, number: int) -> None:
        self._plan = plan
        self._outer = outer
        self._of = of
        self._number = number

    @property
    def outer(self) -> tuple[Value, ...]:
        """The values of the surroundings that it reads."""
        return tuple(self._outer)

    @property
    def is_elementwise(self) -> bool:
        """May it be called with arrays in place of scalars?"""
        return self._plan.is_elementwise

    @property
    def monoid(self) -> str:
        """Name of the op if it is `op(a, b)` of its two arguments."""
        return self._plan.monoid

    def __call__(self, *arguments: Value) -> tuple[Value, ...]:
        """Evaluate it."""
        return self.taking([*arguments])

    def taking(self, arguments: list[Any]) -> tuple[Value, ...]:
        """Evaluate it; the list is used up."""
        plan = self._plan
        trail = plan.world.trail
        if trail is not None:
            trail.enter(self._of, self._number)
        arguments += self._outer
        results = run_in(plan, arguments)
        if trail is not None:
            trail.leave()
        if plan.returns_tuple:
            (whole,) = results
            assert isinstance(whole, tuple)
            return whole
        return results


class _Frame:
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
    """Evaluate a plan: the values it returns.

    Raises:
        EvaluationError: A limit is reached, or an assertion of the program fails.
        UnsupportedError: An op that is reached has no evaluation.
    """
    return run_in(plan, [*arguments, *outer])


def run_in(plan: Plan, env: list[Any]) -> tuple[Value, ...]:
    """Evaluate a plan with arguments and outer values in a list that nobody else has."""
    world, program = plan.world, plan.straight
    if program is not None and _is_unseen(world, program.count):
        return _straight(program, env, world)
    frames = [_Frame(plan, env)]
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
        _give(frames[-1], results, world)


def _advance(frame: _Frame, world: World) -> _Frame | None:
    """Evaluate up to the next call, whose frame is returned, or to the end."""
    env, steps = frame.env, frame.plan.steps
    limit, watch = world.max_steps, world.watch
    at, ins = frame.at, None
    count = len(steps)
    try:
        while at < count:
            kernel, operands, target, freed, regions, ins = steps[at]
            world.steps += 1
            if limit is not None and world.steps > limit:
                raise _too_many_steps(limit, ins.span)
            if world.on_step is not None and world.steps & 0x3F == 0:
                world.on_step(world.steps)
            if kernel is None:
                frame.at = at
                return _called(steps[at], env, world)
            if regions:
                value = kernel(_bound(steps[at], env), *[env[s] for s in operands])
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


def _is_unseen(world: World, steps: int) -> bool:
    """Does nobody see how so many steps are done?"""
    limit = world.max_steps
    is_free = limit is None or world.steps + steps <= limit
    return is_free and world.watch is None and world.trail is None


def _straight(program: Straight, env: list[Any], world: World) -> tuple[Value, ...]:
    """Evaluate a straight-line program in a list of slots that nobody else has."""
    env += program.template
    entry = None
    try:
        for way, kernel, first, second, target, freed, entry in program.rows:
            # No name may hold a value here: what only its slot holds may be written to.
            if way == BINARY:
                env[target] = kernel(env[first], env[second])
            elif way == UNARY:
                env[target] = kernel(env[first])
            elif way == MANY:
                env[target] = kernel(*first(env))
            elif way == NULLARY:
                env[target] = kernel()
            elif way == WRITING:
                run = kernel.into if is_alone(env, second) else kernel.plain
                env[target] = run(*first(env))
            else:
                _count(world, entry.count, entry.step)
                if way == REGIONS:
                    env[target] = kernel(_bound(entry, env), *[env[s] for s in entry.operands])
                else:
                    env[target] = kernel(_bound(entry, env), _moved(env, entry.operands, freed))
            for slot in freed:
                env[slot] = None
    except Exception as error:
        world.steps += program.tail
        ins, operands = (entry.ins, entry.operands) if entry else (None, ())
        _raise_at(error, ins, operands, env)
    if world.max_steps is None and world.on_step is None:
        world.steps += program.tail
    else:
        _count(world, program.tail, entry.step if entry else None)
    return program.give(env)  # type: ignore[no-any-return]


def _count(world: World, steps: int, step: Step | None) -> None:
    """Count steps that are done at once, the last of them this one."""
    before = world.steps
    world.steps = after = before + steps
    if world.max_steps is not None and after > world.max_steps:
        raise _too_many_steps(world.max_steps, step.ins.span if step else None)
    if before >> 6 != after >> 6 and world.on_step is not None:
        world.on_step(after)


def _too_many_steps(limit: int, span: Span | None) -> EvaluationError:
    return EvaluationError(f"stopped after {limit:,} steps", span=span, rule="max_steps")


def _moved(env: list[Any], slots: Sequence[int], freed: Sequence[int]) -> list[Any]:
    """Values that leave their slots, as far as these are free now."""
    values = [env[s] for s in slots]
    for slot in freed:
        env[slot] = None
    return values


def _called(step: Step, env: list[Any], world: World) -> _Frame:
    """The frame of the function that a step calls."""
    if world.trail is not None:
        world.trail.enter(step.ins, 0)
    plan, outer = step.regions[0]
    return _Frame(plan, [env[s] for s in (*step.operands, *outer)])


def _bound(at: Step | Entry, env: list[Any]) -> tuple[BoundRegion, ...]:
    """The regions of a step with the outer values that they read."""
    return tuple(
        [
            BoundRegion(plan, [env[s] for s in outer], at.ins, number)
            for number, (plan, outer) in enumerate(at.regions)
        ]
    )


def _raise_at(
    error: Exception, ins: Instruction | None, operands: Sequence[int], env: list[Any]
) -> NoReturn:
    """Raise what a kernel raised, as the user is to see it and with the place."""
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
            # it cannot take these values, say for sizes known only now
            shapes = ", ".join(str(getattr(env[slot], "shape", "–")) for slot in operands)
            message = f"`{ins.op.name}` cannot be computed of values of shapes {shapes}: {error}"
            raise EvaluationError(message, span=span) from error
        case _:
            raise error


def _give(frame: _Frame, results: tuple[Value, ...], world: World) -> None:
    """Hand the results of a call to the frame that made it."""
    if world.trail is not None:
        world.trail.leave()
    step = frame.plan.steps[frame.at]
    several = step.regions[0][0].root < 0 and len(results) != 1
    value: Value = results if several else results[0]
    frame.env[step.target] = value
    if world.watch is not None:
        world.watch(step.ins, value)
    for slot in step.freed:
        frame.env[slot] = None
    frame.at += 1
