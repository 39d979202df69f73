"""Runs of a test program, with random or changed values, in which all values are recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.errors import UnsupportedError
from hloscope.fusion import counterparts, leaf_types
from hloscope.indexing import RuntimeVariable
from hloscope.interpreter import (
    TOKEN,
    Plan,
    Plans,
    Token,
    Value,
    World,
    byte_size,
    dtype_of,
    run,
    run_grid,
)
from hloscope.ir import (
    CalledValue,
    ElementType,
    Instruction,
    QuantizedType,
    TensorType,
    TokenType,
    TupleType,
    Type,
)
from hloscope.ops import AsyncStart, Call, Case, Composite, Fusion
from hloscope.proof.allowance import Deadline
from hloscope.proof.devices import Devices
from hloscope.proof.instance import Instance, NotExecutableError
from hloscope.proof.sizes import shape_of
from hloscope.simplifier import UndecidedError
from hloscope.support.arrays import Bools, Ints, np

# --------------------------------------------------------------------------------------------------
# Recorded values of a run, by instruction and by the calls in which they were computed.


_CALLING: Final = AsyncStart, Call, Case, Composite
"""Ops whose called computations have a separate record of values for each call.

Values in other computations, such as bodies of reductions, have one record for all calls.
"""
_HANDING: Final = Call, Composite, Fusion
Path: TypeAlias = int
"""Number of a chain of calls; 0 is the empty chain.

Each call is given with the number of the operand that is its first parameter.
"""
SEVERAL: Final = object()
"""Stands for a value that differed between evaluations."""
NEVER: Final = object()
"""Stands for a value in a branch that was not taken."""


class RecordedValues:
    """The recorded values of all instructions in one run on one device.

    The interpreter calls the object with each value.

    Attributes:
        path: The chain of calls in which the run currently is.
    """

    def __init__(
        self,
        names: Mapping[Instruction, Instruction],
        copies: Mapping[Instruction, Instruction],
        queried: Instruction | None = None,
    ) -> None:
        """Create a record without values.

        Args:
            names: The instruction that is analysed, by each instruction that runs as its copy.
            copies: Instructions of the test program, by instructions of the program.
            queried: The instruction whose operands are queried.  If it is a call, values inside may
                have their names from there.
        """
        self._names: Final = names
        self._copies: Final = copies
        self._asked: Final = queried
        self.path: Path = 0
        self._outer: Final[list[Path]] = []
        self._values: Final[dict[Instruction, dict[Path, Any]]] = {}
        self._paths: Final[dict[tuple[Path, Instruction, int], Path]] = {}

    def __call__(self, ins: Instruction, value: Value) -> None:
        """Record the value of an instruction; the interpreter calls this."""
        self.put(ins, value)

    def enter(self, ins: Instruction, number: int) -> None:
        """Record that the evaluation of a called computation begins.

        Args:
            ins: The instruction that calls it.
            number: Number of the computation among those that it calls.
        """
        self._outer.append(self.path)
        caller = self.path
        begun = ins.op.wrapped if isinstance(ins.op, AsyncStart) else None
        if isinstance(begun or ins.op, _CALLING):
            first = number + 1 if isinstance(ins.op, Case) else 0
            key = caller, self._names.get(ins, ins), first
            self.path = self._paths.setdefault(key, len(self._paths) + 1)
        # The interpreter records steps, not parameters: they have the values of the operands.
        if isinstance(ins.op, _HANDING):
            for parameter, operand in zip(ins.calls[0].parameters, ins.operands, strict=False):
                given = self._values.get(self._names.get(operand, operand), {})
                self.put(parameter, given.get(caller, SEVERAL))

    def leave(self) -> None:
        """Record that the evaluation of the called computation that began last has ended."""
        self.path = self._outer.pop()

    def put(self, ins: Instruction, value: Any) -> None:
        """Record a value.

        It becomes `SEVERAL` if another one was recorded in the same chain of calls.
        """
        known = self._values.setdefault(self._names.get(ins, ins), {})
        if self.path in known and not _is_same(known[self.path], value):
            value = SEVERAL
        known[self.path] = value

    def of(self, origin: Instruction) -> Any:
        """Return the recorded value of `origin`, a value that a runtime variable is read from.

        It may be `SEVERAL` or `NEVER`. If `origin` is in a called computation but does not name the
        call, the value of the first call is returned. So maps that take the values of several calls
        for one are refuted.
        """
        calls: list[tuple[Instruction, int]] = []
        while isinstance(origin, CalledValue):
            calls.append((self._analysed_for(origin.call), origin.first))
            origin = origin.value
        known = self._values.get(self._analysed_for(origin), {})
        # Follow the calls of the origin from the outermost to the innermost, as `enter` numbered
        # them.
        path: Path = 0
        if self._asked is not None and not (calls and calls[0][0] is self._asked):
            path = self._paths.get((0, self._asked, 0), 0)
        for call, first in calls:
            key = path, call, first
            if key not in self._paths:
                is_other = isinstance(call.op, Case) and self._is_entered(call)
                return NEVER if is_other else SEVERAL
            path = self._paths[key]
        if path not in known and not calls:
            return next(iter(known.values()), SEVERAL)
        return known.get(path, SEVERAL)

    def _analysed_for(self, ins: Instruction) -> Instruction:
        """Return the instruction of the analysed copy that stands for `ins`.

        `ins` is an instruction of the program, or of the copy that runs.
        """
        copy = self._copies.get(ins, ins)
        return self._names.get(copy, copy)

    def _is_entered(self, case: Instruction) -> bool:
        """Was any branch of a conditional evaluated in this run?"""
        return any(ins is case for _, ins, _ in self._paths)


def _is_same(one: Any, other: Any) -> bool:
    """Are two values the same object, or arrays of equal type and shape with equal bits?"""
    if one is other:
        return True
    if not all(isinstance(x, np.ndarray | np.generic) for x in (one, other)):
        return False
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


# --------------------------------------------------------------------------------------------------
# Runs of a test program: with random values, with changed elements, and comparison of outputs.


MAX_STEPS: Final = 20_000
"""Limit of the instructions of one run, which ends endless loops."""
MAX_BYTES: Final = 1 << 26
MAX_FLOPS: Final = 1 << 27
"""Limit of the multiplications and additions of one run's products."""


class Base(Struct, frozen=True, eq=False):
    """A run of a test program, with which runs on changed values are compared.

    Attributes:
        style: Style of the random values, one of `STYLES`.
        free: Values from which the sources are computed, for each device.
        values: Values of the sources, device by device.
        outputs: Arrays of the outputs, device by device and leaf by leaf.
        seen: Recorded values of all instructions, for each device.
    """

    style: str
    free: list[list[Value]]
    values: tuple[Value, ...]
    outputs: list[Any]
    seen: list[RecordedValues]


class Runner:
    """Runs a test program on different values.

    Attributes:
        count: Number of runs so far.
        deadline: Time limit of the runs; it may be replaced.
    """

    def __init__(self, instance: Instance, deadline: Deadline) -> None:
        self.instance: Final = instance
        self.count = 0
        self.deadline = deadline
        self._devices = instance.devices
        # Two contexts, because steps and operations of feeding and running are counted separately.
        self._world, self._feeding = [
            World(
                max_steps=MAX_STEPS,
                max_bytes=MAX_BYTES,
                max_flops=MAX_FLOPS,
                on_step=lambda step: self.deadline.check(step),
            )
            for _ in range(2)
        ]
        self._plans = Plans(self._world)
        self._feed: Plan = Plans(self._feeding).of(instance.feeding)
        self._types = leaf_types(instance.ins.type)
        if sum(map(byte_size, instance.feeding.arguments)) > MAX_BYTES:
            raise NotExecutableError("the values that it is computed from are large")
        self._names: Final = _names(instance)

    def base(self, style: str, rng: np.random.Generator, like: Base | None = None) -> Base:
        """Run on new random values, and record the values of all instructions.

        Args:
            style: Style of the values, one of `STYLES`.
            rng: Generator of the random values.
            like: A run whose integers and booleans are used again.

        Raises:
            HloscopeError: The program cannot be run with these values.
        """
        free: list[list[Value]] = []
        for device in range(self._devices.count):
            draw = Draw(rng, style)
            own: list[Value] = [draw.value(t) for t in self.instance.feeding.arguments]
            given = like.free[device] if like is not None else None
            if device and style == "ordinary":  # all devices take the same branches
                given = free[0]
            # With the same integers and booleans the program takes the same branches and reads the
            # same indices, so only the floats differ.
            if given is not None:
                own = [_with_integers_of(a, b) for a, b in zip(own, given, strict=True)]
            free.append(own)
        values: list[Value] = []
        for own in free:
            self._feeding.steps = self._feeding.flops = 0
            values += _evaluated(self._feed, own)
        return self._watched(style, free, tuple(values))

    def given(self, values: tuple[Value, ...], like: Base) -> Base:
        """Run on the values `values` of the sources, and record the values of all instructions.

        The result stores the style and the free values of the run `like`.
        """
        return self._watched(like.style, like.free, values)

    def _watched(self, style: str, free: list[list[Value]], values: tuple[Value, ...]) -> Base:
        """Run, and record the values of all instructions.

        Args:
            style: Style of the values, which is stored in the result.
            free: Values from which the sources are computed, for each device.
            values: Values of the sources, device by device.

        Raises:
            NotExecutableError: The program is not deterministic.
        """
        asked = self.instance.ins if self.instance.computation is None else None
        seen = [RecordedValues(self._names, self.instance.copies, asked) for _ in free]
        for one, own in zip(seen, self._by_device(values), strict=True):
            for value in (self.instance.sources, self.instance.running.parameters):
                for ins, given in zip(value, own, strict=True):
                    one.put(ins, given)
        outputs = self.outputs(values, seen)
        # The first run is repeated once: if results differ, a change of outputs shows no
        # dependence.
        if self.count == 1:
            again = self.outputs(values)
            if any(moved(a, b).any() for a, b in zip(outputs, again, strict=True)):
                raise NotExecutableError("each run gives other results")
        return Base(style, free, values, outputs, seen)

    def _by_device(self, values: Sequence[Value]) -> list[Sequence[Value]]:
        """Return the values of the sources as one list for each device."""
        count = len(self.instance.sources)
        return [values[k * count : (k + 1) * count] for k in range(self._devices.count)]

    def outputs(self, values: Sequence[Value], seen: Sequence[RecordedValues] = ()) -> list[Any]:
        """Run on the values `values` of the sources, and return the arrays of the outputs.

        They are in order of devices, then tensors of the result. `seen` records the values of all
        instructions, for each device.

        Raises:
            NotExecutableError: An output does not have its declared type.
        """
        self.count += 1
        self._world.steps = self._world.flops = 0
        self.deadline.check()
        return [array for own in self._results(values, seen) for array in self._arrays(own)]

    def _results(
        self, values: Sequence[Value], seen: Sequence[RecordedValues]
    ) -> Sequence[tuple[Value, ...]]:
        """Run on the values `values` of the sources, and return the results of each device.

        `seen` records the values of all instructions, for each device; nothing is recorded if it is
        empty.
        """
        if self._devices.count > 1:
            row = [self.instance.running] * self._devices.partitions
            programs = [row] * self._devices.replicas
            with np.errstate(all="ignore"):
                given = self._by_device(values)
                return run_grid(programs, given, self._world, watches=seen, trails=seen)
        self._world.watch = self._world.trail = seen[0] if seen else None
        try:
            return [_evaluated(self._plans.of(self.instance.running), values)]
        finally:
            self._world.watch = self._world.trail = None

    def _arrays(self, results: tuple[Value, ...]) -> list[Any]:
        """Return the arrays of a device's results, leaf by leaf; a token becomes an empty array.

        Raises:
            NotExecutableError: An output does not have its declared type.
        """
        leaves = [*leaves_of(results[0] if len(results) == 1 else results)]
        if len(leaves) != len(self._types):
            raise NotExecutableError("the value that comes out is not of the declared type")
        arrays = []
        for value, type_ in zip(leaves, self._types, strict=True):
            if isinstance(value, Token) or not isinstance(type_, TensorType):
                arrays.append(np.zeros(0, np.bool_))
                continue
            arrays.append(np.asarray(value))
            if not _is_inside(arrays[-1].shape, type_):
                raise NotExecutableError("the value that comes out is not of the declared type")
        return arrays


def _names(instance: Instance) -> dict[Instruction, Instruction]:
    """Return the instruction that is analysed, by each instruction that runs as its copy."""
    root, ins = instance.running.root, instance.ins
    if root is ins:
        return {}
    found = {root: ins}
    for here, there in zip(root.calls, ins.calls, strict=True):
        if here is not there:
            found |= counterparts(here, there)
    return found


def _is_inside(shape: tuple[int, ...], type: TensorType) -> bool:
    """May a value of the type have this shape, given its static sizes and bounds?"""
    most = shape_of(type)
    return len(shape) == len(most) and all(n <= m for n, m in zip(shape, most, strict=True))


def _evaluated(plan: Plan, values: Sequence[Value]) -> tuple[Value, ...]:
    """Return the results of a plan, evaluated without numpy's warnings."""
    with np.errstate(all="ignore"):
        return run(plan, values)


def _with_integers_of(mine: Any, given: Any) -> Any:
    """Return a value with the floats of `mine`, and the integers and booleans of `given`.

    Both values have the same type.
    """
    if isinstance(mine, tuple):
        return tuple([_with_integers_of(a, b) for a, b in zip(mine, given, strict=True)])
    return given if isinstance(mine, Token) or mine.dtype.kind in "biu" else mine


def leaves_of(value: Any) -> Iterator[Any]:
    """Yield the arrays and tokens of a value, with tuples flattened."""
    if isinstance(value, tuple):
        for part in value:
            yield from leaves_of(part)
    else:
        yield value


def with_leaf(value: Any, leaf: int, array: Any) -> Any:
    """Return the value with leaf number `leaf` replaced by `array`."""
    count = 0

    def again(part: Any) -> Any:
        nonlocal count
        if isinstance(part, tuple):
            return tuple([again(inner) for inner in part])
        count += 1
        return array if count == leaf + 1 else part

    return again(value)


def moved(one: Any, other: Any) -> Bools:
    """Return whether each element differs between two arrays, bit by bit; all NaNs are equal.

    Arrays of different shapes are extended to the smallest shape that contains both; an element
    that only one of them has differs.

    >>> import numpy
    >>> moved(numpy.array([1.0, 0.0, numpy.nan]), numpy.array([1.0, -0.0, numpy.nan])).tolist()
    [False, True, False]
    """
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape:
        large = tuple(map(max, one.shape, other.shape))
        resized: Bools = _outside(one.shape, large) != _outside(other.shape, large)
        return resized | _apart(one, other, large)
    if not one.size:
        return np.zeros(one.shape, np.bool_)
    rows = [np.ascontiguousarray(x).reshape(-1, 1).view(np.uint8) for x in (one, other)]
    differs: Bools = (rows[0] != rows[1]).any(axis=1).reshape(one.shape)
    if one.dtype.kind not in "biu" and differs.any():
        differs = differs & ~((one != one) & (other != other))
    return differs


def _outside(shape: tuple[int, ...], large: tuple[int, ...]) -> Bools:
    """Return flags of shape `large`: true for elements outside of `shape`."""
    found = np.ones(large, np.bool_)
    found[tuple([slice(0, n) for n in shape])] = False
    return found


def _apart(one: Any, other: Any, large: tuple[int, ...]) -> Bools:
    """Return flags of shape `large`: true for elements of both arrays that differ."""
    found = np.zeros(large, np.bool_)
    common = tuple([slice(0, n) for n in map(min, one.shape, other.shape)])
    found[common] = moved(one[common], other[common])
    return found


def spread(flags: Bools, shape: tuple[int, ...]) -> Bools:
    """Return the elements of `flags` as the start of an array of shape `shape`, flattened.

    The order is row-major. All other flags are false.
    """
    if flags.shape == shape:
        return flags.reshape(-1)
    found = np.zeros(shape, np.bool_)
    found[tuple([slice(0, n) for n in flags.shape])] = flags
    return found.reshape(-1)


class Observed:
    """The values of runtime variables that one run recorded, for maps of one device."""

    def __init__(self, base: Base, device: int, devices: Devices) -> None:
        self._seen = base.seen
        self._device = device
        self._devices = devices
        self.drawn = False

    def read(self, variable: RuntimeVariable, index: list[Ints], name: int) -> Ints:
        """Return the values of a runtime variable at many indices, clamped to its interval.

        `index` has an array for each argument of the variable.

        Raises:
            UndecidedError: A value was not recorded, or differed between evaluations.
        """
        rank = len(variable.index)
        at = self._devices.reached(self._device, variable.via, index[rank:])
        if variable.collective is not None:
            own = self._devices.tables(variable.collective)[1][at]
            return np.where((at >= 0) & (own >= 0), own, _outside_interval(variable))
        shape = np.broadcast_shapes(at.shape, *(i.shape for i in index))
        at = np.broadcast_to(at, shape)
        found = np.full(shape, _outside_interval(variable))
        for device in np.unique(at[at >= 0]):
            here = at == device
            own_index = [np.broadcast_to(i, shape)[here] for i in index[:rank]]
            found[here] = self._element(variable, own_index, self._seen[device])
        return found

    def _element(self, variable: RuntimeVariable, index: list[Ints], seen: RecordedValues) -> Ints:
        """Return the values of a runtime variable, which is read on the device of `seen`."""
        origin, values = variable.origin, variable.values
        value = seen.of(origin) if origin is not None else SEVERAL
        if value is NEVER:
            return np.full(np.broadcast_shapes((), *(i.shape for i in index)), int(values.lo))
        if value is SEVERAL or isinstance(value, tuple | Token):
            name_of = origin.name if origin is not None else "?"
            raise UndecidedError(f"the run-time value of `{name_of}` is not seen from outside")
        array = np.asarray(value)
        if array.dtype.kind not in "biu" or len(index) != array.ndim:
            raise UndecidedError("a run-time value that is not an integer")
        # Values beyond int64 would wrap to negative ones; they are clamped to the variable's range
        # anyway.
        if array.dtype == np.uint64:
            array = np.minimum(array, np.uint64((1 << 63) - 1))
        array = np.clip(array.astype(np.int64), values.lo, values.hi)
        if not array.size:
            return np.full(np.broadcast_shapes(*(i.shape for i in index)), int(values.lo))
        at = tuple([np.clip(i, 0, n - 1) for i, n in zip(index, array.shape, strict=True)])
        found: Ints = array[at]
        return found


def _outside_interval(variable: RuntimeVariable) -> int:
    """Return the integer below the variable's interval; a map reads nothing with it."""
    return int(variable.interval.lo) - 1


def bounded_shapes(instance: Instance) -> list[tuple[int, ...]]:
    """Return the shapes of the outputs, with bounds for dynamic sizes; `(0,)` for tokens."""
    return [
        shape_of(t) if isinstance(t, TensorType) else (0,) for t in leaf_types(instance.ins.type)
    ]


# --------------------------------------------------------------------------------------------------
# Random values for running a program: ordinary ones, and those that programs handle wrongly.
#
# A *style* selects the kind: ties, NaN and infinities, extremes, indices out of range, booleans of
# other frequencies, dynamic dimensions with fewer elements.


STYLES: Final = ("ordinary", "ties", "special", "wide", "numbered")
"""Styles of random values; those of `numbered` are distinct, as far as the type allows."""


class Draw:
    """Draws random values of types in one style, one of `STYLES`.

    Dynamic dimensions of equal bounds get equal sizes within one draw, so that operands match.
    """

    def __init__(self, rng: np.random.Generator, style: str) -> None:
        self.rng: Final = rng
        self.style: Final = style
        self._sizes: dict[int, int] = {}
        self._number = int(rng.integers(1000, 100_000))

    def value(self, type: Type) -> Any:
        """Return a random value of the type.

        Raises:
            UnsupportedError: The type has no values.
        """
        match type:
            case TensorType():
                return self.elements(type.element, self._shape(type))
            case TupleType():
                return tuple([self.value(t) for t in type.elements])
            case TokenType():
                return TOKEN
            case _:
                raise UnsupportedError(f"no values of {type}")

    def _shape(self, type: TensorType) -> tuple[int, ...]:
        """Return the shape of a value; dynamic dimensions get random sizes up to their bounds."""
        if type.is_static:
            return type.shape
        if not type.bounds:
            raise UnsupportedError("sizes without bounds")
        found = []
        for size, bound in zip(type.sizes, type.bounds, strict=True):
            if size is not None:
                found.append(size)
            elif bound is None:
                raise UnsupportedError("sizes without bounds")
            else:
                fewer = bound if self.style == "ordinary" else int(self.rng.integers(0, bound + 1))
                found.append(self._sizes.setdefault(bound, fewer))
        return tuple(found)

    def elements(self, element: ElementType, shape: tuple[int, ...]) -> Any:
        """Return a numpy array of shape `shape` with random elements of an HLO element type.

        `self.style` selects the distribution. A quantized type has elements of its storage type.
        """
        rng = self.rng
        if isinstance(element, QuantizedType):
            element = element.storage
        dtype = dtype_of(element)
        # Values beyond the element type's range become infinite or wrap, which is intended.
        with np.errstate(all="ignore"):
            match element.kind:
                case "pred":
                    odds = (0.5, 0.8, 0.5, 0.2, 0.5)[STYLES.index(self.style)]
                    found = rng.random(shape) < odds
                case "complex":
                    double = np.dtype(np.float64)
                    found = self._floats(shape, double) + 1j * self._floats(shape, double)
                case "float":
                    found = self._floats(shape, dtype)
                case _:
                    found = self._integers(element, shape)
            return np.asarray(found).astype(dtype)

    def _floats(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return random floats of style `self.style`; `dtype` limits only distinct numbers."""
        rng = self.rng
        match self.style:
            case "ties":
                return rng.choice([0.0, 1.0, -1.0, 0.5, 2.0], shape)
            case "special":
                found = rng.normal(size=shape)
                odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-40, 3e38]
                return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), found)
            case "wide":
                return rng.normal(size=shape) * 10.0 ** rng.uniform(-4, 4, shape)
            case "numbered":
                count = int(np.prod(shape))
                first, self._number = self._number, self._number + count
                # Narrow floats represent only small integers exactly.
                most = {1: 8, 2: 128}.get(dtype.itemsize, 1 << 20)
                numbers = (first + rng.permutation(count)) % most
                return (numbers + 1.0).reshape(shape)
            case _:
                return rng.normal(size=shape)

    def _integers(self, element: ElementType, shape: tuple[int, ...]) -> Any:
        """Return random integers in the style of this object, in the range of the element type."""
        rng = self.rng
        is_signed = element.kind == "signed"
        bits = element.bits - is_signed
        # Indices are integers: small ranges give indices that collide, wide ones those out of
        # range.
        most, least = (1 << bits) - 1, -(1 << bits) if is_signed else 0
        match self.style:
            case "ties":
                found = rng.integers(0, 2, shape)
            case "special":
                odd = [least, most, 0, 1, 2, 3, most // 2, max(least, -1), min(most, 1000)]
                return rng.choice(np.array(odd, np.object_), shape)
            case "wide":
                return rng.integers(max(least, -9), min(most, 12), shape, endpoint=True)
            case _:
                found = rng.integers(0, 6, shape)
        return np.minimum(found, min(most, 1 << 40))
