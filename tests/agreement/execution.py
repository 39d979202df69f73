"""What generated programs depend on, seen by running: an element is changed, results are looked at.

Arguments are drawn in several ways, so that branches flip, indices leave their tensors, and values
are equal, extreme or no numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hloscope.interpreter.parallel import evaluate_grid
from hloscope.interpreter.plan import Plan, Plans, run
from hloscope.interpreter.values import TOKEN, World
from hloscope.ir.graph import Instruction, Module
from hloscope.ir.types import TensorType, TupleType, Type

Bools = NDArray[np.bool_]
Array = NDArray[Any]
Leaves = list[Array]
"""The tensors of all arguments of a process, or of its results, in order."""

MAX_STEPS: Final = 20_000
KINDS: Final = ("plain", "ties", "wild", "plain")
"""How arguments are drawn, one draw after another."""


def leaf_types(type_: Type) -> Iterator[TensorType]:
    """The tensors of a type, in order."""
    if isinstance(type_, TupleType):
        for part in type_.elements:
            yield from leaf_types(part)
    elif isinstance(type_, TensorType):
        yield type_


# ----------------------------------------------------------------------------------------- running


class Runner:
    """Runs the entry of a module; watches the values of its instructions where asked to."""

    def __init__(self, module: Module, replicas: int = 1) -> None:
        self.module: Final = module
        self.replicas: Final = replicas
        self.types: Final = tuple(p.type for p in module.entry.parameters)
        self.inputs: Final = [t for type_ in self.types for t in leaf_types(type_)]
        self._world = World(functions=module.computations, attributes=module.extras)
        self._world.max_steps = MAX_STEPS
        self._plan: Plan = Plans(self._world).of(module.entry)

    def run(
        self, arguments: Sequence[Leaves], watch: Callable[[Instruction, Any], None] | None = None
    ) -> list[Leaves]:
        """The results of each process, given the arguments of each."""
        given = [self._packed(leaves) for leaves in arguments]
        with np.errstate(all="ignore"):
            if self.replicas > 1:
                world = World(max_steps=MAX_STEPS, watch=watch)
                found = evaluate_grid(self.module, given, self.replicas, 1, world)
            else:
                world = self._world
                world.steps, world.watch = 0, watch
                found = [run(self._plan, given[0])]
        return [list(_flat(results)) for results in found]

    def _packed(self, leaves: Leaves) -> list[Any]:
        rest = iter(leaves)
        return [_value(type_, rest) for type_ in self.types]


def _value(type_: Type, leaves: Iterator[Array]) -> Any:
    if isinstance(type_, TupleType):
        return tuple([_value(part, leaves) for part in type_.elements])
    array = next(leaves)
    return array if array.ndim else array[()]


def _flat(value: Any) -> Iterator[Array]:
    if isinstance(value, tuple):
        for part in value:
            yield from _flat(part)
    elif value is not TOKEN:
        yield np.asarray(value)


# ----------------------------------------------------------------------------------------- drawing


def drawn(rng: np.random.Generator, type_: TensorType, kind: str) -> Array:
    """Random elements of a tensor."""
    shape = type_.shape
    if type_.element.kind == "pred":
        return np.asarray(rng.random(shape) < 0.5)
    if type_.element.kind == "float":
        if kind == "plain":
            return np.asarray(rng.uniform(0.5, 1.5, shape)).astype(np.float32)
        few = [1.0, 2.0, 0.0, -1.0]
        if kind == "wild":
            few += [np.nan, np.inf, -np.inf, 1e30]
        return np.asarray(rng.choice(few, shape)).astype(np.float32)
    if kind == "wild":
        some = [-1, 5, 100, -(2**31), 2**31 - 1, 0, 1]
        return np.asarray(rng.choice(some, shape)).astype(np.int32)
    return np.asarray(rng.integers(0, 2 if kind == "ties" else 3, shape)).astype(np.int32)


def changed(rng: np.random.Generator, old: Any, kind: str) -> Any:
    """Another value in the place of an element."""
    if old.dtype.kind == "b":
        return ~old
    if old.dtype.kind == "f":
        if kind == "nan":
            return np.float32(np.nan)
        if not abs(old) < 1e6:  # no number, or one that a little more does not change
            return np.float32(1.25)
        return np.float32(rng.choice([old + 1.0, old - 1.5, -old - 0.25, old * 3 + 0.125]))
    step = rng.choice([1, -1, 2]) if kind != "wild" else rng.choice([1, -3])
    return np.int32((int(old) + int(step) + 2**31) % 2**32 - 2**31)


# ------------------------------------------------------------------------------------- observation

Moved = dict[tuple[int, int], Bools]
"""What moved, for each leaf of the results and of the parameters: `[output element, process, input
element]` for the results of the first process."""


@dataclass(slots=True)
class Observation:
    """One draw: the values instructions had, and what moved when an element was changed.

    Attributes:
        arguments: Of each process.
        values: Of each instruction, all values it had, in the first process.
        moved: Which elements moved with which.
    """

    arguments: list[Leaves]
    values: dict[Instruction, list[Any]]
    moved: Moved


def observe(
    runner: Runner, outputs: Sequence[TensorType], rng: np.random.Generator, kind: str
) -> Observation:
    """Draw arguments; change each of their elements."""
    arguments = [[drawn(rng, t, kind) for t in runner.inputs] for _ in range(runner.replicas)]
    values: dict[Instruction, list[Any]] = {}

    def watch(ins: Instruction, value: Any) -> None:
        values.setdefault(ins, []).append(value)

    before = runner.run(arguments, watch)[0]
    for parameter, value in zip(
        runner.module.entry.parameters, runner._packed(arguments[0]), strict=True
    ):
        values[parameter] = [value]
    return Observation(arguments, values, _moved(runner, outputs, rng, kind, arguments, before))


def observe_floats(
    runner: Runner,
    outputs: Sequence[TensorType],
    rng: np.random.Generator,
    arguments: Sequence[Leaves],
) -> Moved:
    """What moves when floats are drawn anew, and all else is as it was.

    A float becomes another number, or none: NaN shows what is multiplied with a padding of zeros.
    """
    floats = [t.element.kind == "float" for t in runner.inputs]
    given = [
        [
            drawn(rng, t, "plain") if is_float else leaf
            for leaf, t, is_float in zip(leaves, runner.inputs, floats, strict=True)
        ]
        for leaves in arguments
    ]
    results = runner.run(given)[0]
    plain, nan = (_moved(runner, outputs, rng, k, given, results, floats) for k in ("plain", "nan"))
    return {pair: moved | nan[pair] for pair, moved in plain.items()}


def _moved(
    runner: Runner,
    outputs: Sequence[TensorType],
    rng: np.random.Generator,
    kind: str,
    arguments: list[Leaves],
    results: Leaves,
    which: Sequence[bool] | None = None,
) -> Moved:
    """What moves with each element of the leaves that are asked about, all by default."""
    before = [_padded(a, t) for a, t in zip(results, outputs, strict=True)]
    moved = {
        (o, i): np.zeros((t.num_elements, runner.replicas, leaf.size), dtype=bool)
        for o, t in enumerate(outputs)
        for i, leaf in enumerate(arguments[0])
    }
    for process, leaves in enumerate(arguments):
        for i, leaf in enumerate(leaves):
            if which is not None and not which[i]:
                continue
            for at in range(leaf.size):
                other = leaf.copy()
                other.reshape(-1)[at] = changed(rng, leaf.reshape(-1)[at], kind)
                new = [*leaves[:i], other, *leaves[i + 1 :]]
                given = [*arguments[:process], new, *arguments[process + 1 :]]
                after = runner.run(given)[0]
                for o, (a, b) in enumerate(zip(before, after, strict=True)):
                    moved[o, i][:, process, at] |= _differs(a, _padded(b, outputs[o]))
    return moved


def _padded(array: Array, type_: TensorType) -> tuple[Array, Bools]:
    """The elements as far as the bounds go, and which of them exist."""
    shape = type_.shape
    if array.shape == shape:
        return array.reshape(-1), np.ones(array.size, dtype=bool)
    full, exists = np.zeros(shape, array.dtype), np.zeros(shape, dtype=bool)
    part = tuple(map(slice, array.shape))
    full[part], exists[part] = array, True
    return full.reshape(-1), exists.reshape(-1)


def _differs(one: tuple[Array, Bools], other: tuple[Array, Bools]) -> Bools:
    (a, has), (b, has_too) = one, other
    same = a == b
    if a.dtype.kind == "f":
        same |= (a != a) & (b != b)
    found: Bools = ~(same & (has == has_too))
    return found
