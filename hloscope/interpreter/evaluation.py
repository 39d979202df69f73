"""Evaluation of modules and computations: arguments in, numpy arrays out.

Plans stay with the computation they are of, so that it is made ready once.  Kernels are made for
one world.  So plans that are kept have a world of their own, which for every evaluation is given
what that of the caller has, and afterwards hands back what was counted.  One evaluation has the
plans for itself: another one at the same time, of another thread or within it, has others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from hloscope.arrays import np
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.interpreter.plan import Plan, Plans, run
from hloscope.interpreter.values import (
    Array,
    EvaluationError,
    Place,
    Token,
    Value,
    check_evaluable,
    dtype_of,
    each_leaf,
    fits,
    limited,
    plain,
    unlike,
)
from hloscope.interpreter.world import PROCESS, UserFunction, World
from hloscope.ir import Computation, ElementType, Module, QuantizedType, TensorType, TupleType, Type
from hloscope.limits import MAX_BYTES
from hloscope.locks import shared_lock
from hloscope.walks import nested

_MOST: Final = 4
"""Plans that are kept of one computation, for several threads or limits."""
_LOCK: Final = shared_lock()
_NAMES: Final = World.__struct_fields__


Exact = tuple[Any, tuple[int, ...]]
"""Element type and shape of the arrays that are of a type."""


class Ready:
    """A computation made ready for evaluation, one at a time.

    Attributes:
        plan: Its plan.
        takes: Which arrays are arguments as they are; `None` for what has to be looked at.
        returns: Which arrays are results.
    """

    __slots__ = ("_key", "_plans", "computation", "plan", "returns", "takes")

    def __init__(self, computation: Computation, key: tuple[Any, ...]) -> None:
        for type_ in computation.arguments:
            check_evaluable(type_)
        self.computation: Final = computation
        self.takes: Final = tuple(map(_exact, computation.arguments))
        self.returns: Final = tuple(map(_exact, computation.results))
        self._key: Final = key
        self._plans: Final = Plans(World())
        self.plan: Final[Plan] = self._plans.of(computation)

    def enter(self, world: World) -> None:
        """Take over what a world has."""
        own = self._plans.world
        for name in _NAMES:
            setattr(own, name, getattr(world, name))

    def leave(self, world: World) -> None:
        """Hand back what was counted, keep nothing else of the world, and wait for the next one.

        A process of a grid knows whom it exchanges values with, and is not kept.
        """
        own = self._plans.world
        world.steps, world.flops = own.steps, own.flops
        is_process = PROCESS in own.extra
        own.watch = own.trail = own.on_step = None
        own.extra = {}
        if not is_process:
            body = self.computation.body
            with _LOCK:
                body.kept = ((self._key, self), *body.kept)[:_MOST]


def ready(computation: Computation, world: World) -> Ready:
    """The computation made ready for a world, which nobody else has now."""
    key = _key(world)
    found = None if PROCESS in world.extra else _unused(computation, key)
    found = found or Ready(computation, key)
    found.enter(world)
    return found


def _exact(type_: Type) -> Exact | None:
    if isinstance(type_, TensorType) and type_.is_static and type_.rank and not type_.bounds:
        return dtype_of(type_.element), type_.shape
    return None


def _key(world: World) -> tuple[Any, ...]:
    """What kernels may depend on; its parts are compared by identity or value.

    The computations and the functions are kept with the plan, so that identities stay theirs.
    """
    return (
        _Same(world.functions), world.attributes, _Same(world.spell), world.max_bytes,
        world.max_flops is None, world.watch is None, world.replica, world.partition,
        tuple([(name, _Same(f)) for name, f in world.custom_calls.items()]),
    )  # fmt: skip


class _Same:
    """Something that is equal to itself only."""

    __slots__ = ("what",)

    def __init__(self, what: Any) -> None:
        self.what = what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.what is self.what

    __hash__ = None  # type: ignore[assignment]


def _unused(computation: Computation, key: tuple[Any, ...]) -> Ready | None:
    """One that is kept and that nobody uses, no longer among those kept."""
    body = computation.body
    with _LOCK:
        for i, (known, found) in enumerate(body.kept):
            if known == key:
                body.kept = body.kept[:i] + body.kept[i + 1 :]
                assert isinstance(found, Ready)
                return found
    return None


Result: TypeAlias = Any
"""What a program returns: an array, a `Token`, or a tuple of several (nested) results."""

_TAKES: Final = {
    "pred": "b",
    "signed": "biu",
    "unsigned": "biu",
    "float": "biuf",
    "complex": "biufc",
}
"""Kinds of numpy types whose numbers may become elements, by the kind of these."""


def call(
    module: Module,
    arguments: Sequence[Any] = (),
    *,
    entry: str | None = None,
    max_steps: int | None = None,
    max_bytes: int = MAX_BYTES,
    custom_calls: Mapping[str, UserFunction] | None = None,
) -> Result:
    """What the program returns.

    Args:
        module: The program.
        arguments: One value for each parameter.
        entry: Name of another function or computation than the entry.
        max_steps: Most instructions to evaluate, loops counted as often as they run.
        max_bytes: Most bytes of one value.
        custom_calls: Python functions by the target of the custom calls they stand for.

    Raises:
        EvaluationError: An argument does not fit, a limit is reached, an assertion fails.
        UnknownNameError: There is no such function.
        UnsupportedError: An op that is reached has no evaluation.
    """
    world = World(custom_calls=custom_calls or {}, max_steps=max_steps, max_bytes=max_bytes)
    return given_back(evaluate(with_entry(module, entry), arguments, world), arguments)


def evaluate(
    program: Module | Computation, arguments: Sequence[Any] = (), world: World | None = None
) -> tuple[Value, ...]:
    """The values a program returns.

    Args:
        program: A module, of which the entry is evaluated, or one computation.
        arguments: One value for each parameter: anything numpy makes an array of the right type
            of, tuples of such, tokens.
        world: Limits, user functions and the like.

    Raises:
        EvaluationError: An argument does not fit, a limit is reached, an assertion fails.
        UnsupportedError: An op that is reached has no evaluation.
    """
    world = World() if world is None else world
    computation = program
    if isinstance(program, Module):
        computation = program.entry
        world.functions, world.attributes = program.computations, program.extras
        world.spell = program.spell
    assert isinstance(computation, Computation)
    prepared = ready(computation, world)
    try:
        values = _taken(prepared, arguments)
        with np.errstate(all="ignore"), limited(world.max_bytes):
            results = run(prepared.plan, values)
    finally:
        prepared.leave(world)
    exact = prepared.returns
    if all([_is_exactly(v, e) for v, e in zip(results, exact, strict=True)]):
        return results
    check_results(results, computation)
    return tuple(map(plain, results))


def _taken(prepared: Ready, arguments: Sequence[Any]) -> list[Value]:
    """The arguments as values."""
    computation, exact = prepared.computation, prepared.takes
    if len(arguments) != len(exact):
        types = ", ".join(map(str, computation.arguments))
        count = f"{len(exact)} argument{'s' * (len(exact) != 1)}"
        message = f"{computation.name} takes {count} ({types}), found {len(arguments)}"
        raise EvaluationError(message, span=computation.span)
    parameters = computation.parameters
    return [
        v if _is_exactly(v, e) else as_value(v, parameters[i].type, f"argument {i}")
        for i, (v, e) in enumerate(zip(arguments, exact, strict=True))
    ]


def _is_exactly(value: Any, exact: Exact | None) -> bool:
    """Is it a plain array of this element type and shape?"""
    return (
        type(value) is np.ndarray
        and exact is not None
        and value.shape == exact[1]
        and value.dtype == exact[0]
    )


def check_results(results: Sequence[Value], computation: Computation) -> None:
    """Check that values are of the types a computation returns.

    Ops believe declared types, which `hloscope verify` checks.

    Raises:
        EvaluationError: They are not.
    """
    for i, (value, type_) in enumerate(zip(results, computation.results, strict=True)):
        why = fits(value, type_)
        if why:
            message = f"result {i} should be {type_}: {why}"
            raise EvaluationError(f"{message}; the program is wrong", span=computation.span)


def as_value(given: Any, type_: Type, what: str) -> Value:
    """A value of the type made of what Python gives.

    Raises:
        EvaluationError: It cannot be one without changing it.
    """
    places = list(nested([Place(given, type_)], Place.parts))
    values = [_as_part(place, what + place.told(", part ", "")) for place in places]
    made: list[Value] = []
    for place, value in zip(reversed(places), reversed(values), strict=True):
        parts = place.parts()
        made.append(tuple(made.pop() for _ in parts) if parts else value)
    return made[0]


def _as_part(place: Place, what: str) -> Value:
    """A value of the place's type, but for what is in a tuple."""
    value: Value = place.value
    type_ = place.type
    if isinstance(type_, TensorType) and not isinstance(value, Token):
        value = _as_array(value, type_.element, what)
    elif isinstance(type_, TupleType) and isinstance(value, list):
        value = tuple(value)
    if why := unlike(value, type_):
        raise EvaluationError(f"{what} should be {type_}: {why}")
    return value


def _as_array(given: Any, element: ElementType, what: str) -> Array:
    """What Python gives as an array: numbers of Python's own become elements, if they can."""
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"{what} is not an array: {error}") from None
    if array.dtype.hasobject:
        raise EvaluationError(f"{what}: {str(given)[:40]} is no {element.name}")
    if hasattr(given, "dtype"):
        return array if array.ndim else array[()]
    kind = element.storage.kind if isinstance(element, QuantizedType) else element.kind
    converted = array
    if array.dtype.kind in _TAKES.get(kind, "") or not array.size:
        with np.errstate(all="ignore"):
            converted = array.astype(dtype_of(element))
        if kind in ("float", "complex"):
            wrong = np.isfinite(array) & ~np.isfinite(converted)
        else:
            wrong = converted.astype(array.dtype) != array
        if wrong.any():
            worst = array[wrong].flat[0] if array.ndim else array
            raise EvaluationError(f"{what}: {worst} is no {element.name}")
    return converted if converted.ndim else converted[()]


def with_entry(module: Module, name: str | None) -> Module:
    """The module with another entry, or itself.

    Raises:
        UnknownNameError: There is no such function or computation.
    """
    if name is None or name == module.entry.name:
        return module
    bare = name.lstrip("@%")
    found: Computation | None = module.computations.get(bare)
    if found is None:
        near = did_you_mean(bare, module.computations)
        raise UnknownNameError(f"no function `{name}` in {module.name}{near}")
    extras, spell = module.extras, module.spell
    return Module(module.name, module.computations, found, extras=extras, spell=spell)


def given_back(results: tuple[Value, ...], arguments: Sequence[Any]) -> Result:
    """Results as the caller may keep and change them: own arrays, no two of them shared."""
    seen = {id(part) for part in nested(arguments, _parts)}

    def own(value: Array | Token) -> Array | Token:
        if isinstance(value, Token):
            return value
        is_own = isinstance(value, np.ndarray) and value.flags.owndata and value.flags.writeable
        if is_own and id(value) not in seen:
            seen.add(id(value))
            return value
        return np.array(value)

    values = tuple([each_leaf(result, own) for result in results])
    return values[0] if len(values) == 1 else values


def _parts(given: Any) -> Sequence[Any]:
    return given if isinstance(given, list | tuple) else ()
