"""Evaluation of modules and computations: arguments in, numpy arrays out.

A computation is compiled to a plan of kernels once, and the plan is cached on its body for later
evaluations.  Kernels are made for one `World`, so a cached plan has a world of its own: each
evaluation copies the caller's limits and callbacks into it, and copies the counters back at the
end.  A plan serves one evaluation at a time; concurrent or nested evaluations use other plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.interpreter.plan import Plan, Plans, run
from hloscope.interpreter.values import (
    PROCESS,
    Array,
    EvaluationError,
    Place,
    Token,
    UserFunction,
    Value,
    World,
    check_evaluable,
    dtype_of,
    each_leaf,
    fits,
    limited,
    plain_value,
    unlike,
)
from hloscope.ir import Computation, ElementType, Module, QuantizedType, TensorType, TupleType, Type
from hloscope.support.arrays import np
from hloscope.support.limits import MAX_BYTES
from hloscope.support.system import shared_lock
from hloscope.support.walks import nested

_MOST_CACHED: Final = 4
"""Maximum number of cached plans of one computation; the least recently used one is dropped."""
_LOCK: Final = shared_lock()
_WORLD_FIELDS: Final = World.__struct_fields__


Exact = tuple[Any, tuple[int, ...]]
"""Numpy dtype and shape of the arrays of a static tensor type."""


class Ready:
    """A computation compiled for evaluation; one evaluation at a time uses it.

    Attributes:
        computation: The computation.
        plan: Plan of the computation.
        takes: Dtype and shape of each argument that needs no conversion; `None` where the argument
            has to be checked in full.
        returns: Dtype and shape of each result; `None` where the result has to be checked in full.
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
        """Copy all fields of `world` into the world of the plan."""
        own = self._plans.world
        for name in _WORLD_FIELDS:
            setattr(own, name, getattr(world, name))

    def leave(self, world: World) -> None:
        """Copy the counters back to `world`, drop its callbacks and return the plan to the cache.

        A plan that was compiled for a process of a grid is not cached, because its kernels refer to
        the grid.
        """
        own = self._plans.world
        world.steps, world.flops = own.steps, own.flops
        # Callbacks and extras may hold large objects of the caller; a cached plan must not keep
        # them alive, nor call them in a later evaluation.
        is_process = PROCESS in own.extra
        own.watch = own.trail = own.on_step = None
        own.extra = {}
        if not is_process:
            # The newest plan comes first, so the plan dropped at the limit is the least recently
            # used.
            body = self.computation.body
            with _LOCK:
                body.cached_plans = ((self._key, self), *body.cached_plans)[:_MOST_CACHED]


def ready(computation: Computation, world: World) -> Ready:
    """Return a plan of `computation` that no other evaluation uses, set up for `world`.

    It is taken from the cache of the computation, or compiled.
    """
    key = _key(world)
    # A process of a grid never takes a cached plan: kernels may have captured its grid.
    found = None if PROCESS in world.extra else _unused(computation, key)
    found = found or Ready(computation, key)
    found.enter(world)
    return found


def _exact(type_: Type) -> Exact | None:
    if isinstance(type_, TensorType) and type_.is_static and type_.rank and not type_.bounds:
        return dtype_of(type_.element), type_.shape
    return None


def _key(world: World) -> tuple[Any, ...]:
    """Return the key of a plan in the cache: everything in `world` that kernels may depend on.

    Functions and computations are compared by identity. The key refers to them, so an identity
    cannot be reused while the plan is cached.
    """
    return (
        _Same(world.functions), world.attributes, _Same(world.spell), world.max_bytes,
        world.max_flops is None, world.watch is None, world.replica, world.partition,
        tuple([(name, _Same(f)) for name, f in world.custom_calls.items()]),
    )  # fmt: skip


class _Same:
    """Wrapper that is equal only to wrappers of the same object."""

    __slots__ = ("what",)

    def __init__(self, what: Any) -> None:
        self.what = what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.what is self.what

    __hash__ = None  # type: ignore[assignment]


def _unused(computation: Computation, key: tuple[Any, ...]) -> Ready | None:
    """Remove a plan with the key `key` from the cache, and return it; `None` if there is none."""
    body = computation.body
    with _LOCK:
        for i, (known, found) in enumerate(body.cached_plans):
            if known == key:
                body.cached_plans = body.cached_plans[:i] + body.cached_plans[i + 1 :]
                # Removed while in use, so that no second evaluation can take it.
                assert isinstance(found, Ready)
                return found
    return None


Result: TypeAlias = Any
"""What a program returns: an array, a `Token`, or a (nested) tuple of results."""

_CONVERTIBLE: Final = {
    "pred": "b",
    "signed": "biu",
    "unsigned": "biu",
    "float": "biuf",
    "complex": "biufc",
}
"""Numpy dtype kinds that may be converted to an element type, by the element type's kind."""


def call(
    module: Module,
    arguments: Sequence[Any] = (),
    *,
    entry: str | None = None,
    max_steps: int | None = None,
    max_bytes: int = MAX_BYTES,
    custom_calls: Mapping[str, UserFunction] | None = None,
) -> Result:
    """Return the results of a program for the given arguments.

    Args:
        module: The program.
        arguments: One value for each parameter.
        entry: Name of the function or computation to run; the module's entry by default.
        max_steps: Maximum number of evaluated instructions; each loop iteration counts.
        max_bytes: Maximum size of one value in bytes.
        custom_calls: Python functions by the target of the custom calls that they implement.

    Raises:
        EvaluationError: An argument does not fit, a limit is exceeded, or an assertion fails.
        UnknownNameError: The module has no function named `entry`.
        UnsupportedError: An executed op has no evaluation.
    """
    world = World(custom_calls=custom_calls or {}, max_steps=max_steps, max_bytes=max_bytes)
    return given_back(evaluate(with_entry(module, entry), arguments, world), arguments)


def evaluate(
    program: Module | Computation, arguments: Sequence[Any] = (), world: World | None = None
) -> tuple[Value, ...]:
    """Return the values that a program returns, one for each result.

    Args:
        program: A module, whose entry is evaluated, or one computation.
        arguments: One value for each parameter: an array, anything that numpy converts to the
            right type, a token, or a tuple of such values.
        world: Limits, user functions and callbacks; defaults if omitted.

    Raises:
        EvaluationError: An argument does not fit, a limit is exceeded, or an assertion fails.
        UnsupportedError: An executed op has no evaluation.
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
    # Plain arrays of the expected dtype and shape need no further check: this is the common case.
    exact = prepared.returns
    if all([_is_exactly(v, e) for v, e in zip(results, exact, strict=True)]):
        return results
    check_results(results, computation)
    return tuple(map(plain_value, results))


def _taken(prepared: Ready, arguments: Sequence[Any]) -> list[Value]:
    """Return `arguments`, converted to values of the parameters' types of a compiled computation.

    Raises:
        EvaluationError: The number or the types of the arguments do not match the parameters.
    """
    computation, exact = prepared.computation, prepared.takes
    check_count(computation, arguments)
    parameters = computation.parameters
    return [
        v if _is_exactly(v, e) else as_value(v, parameters[i].type, f"argument {i}")
        for i, (v, e) in enumerate(zip(arguments, exact, strict=True))
    ]


def check_count(computation: Computation, arguments: Sequence[Any]) -> None:
    """Check that a computation gets as many arguments as it has parameters.

    Raises:
        EvaluationError: It gets another number.
    """
    takes = len(computation.arguments)
    if len(arguments) != takes:
        types = ", ".join(map(str, computation.arguments))
        count = f"{takes} argument{'s' * (takes != 1)}"
        message = f"{computation.name} takes {count} ({types}), found {len(arguments)}"
        raise EvaluationError(message, span=computation.span)


def _is_exactly(value: Any, exact: Exact | None) -> bool:
    """Is `value` a plain numpy array with the dtype and shape `exact`?

    False if `exact` is `None`.
    """
    return (
        type(value) is np.ndarray
        and exact is not None
        and value.shape == exact[1]
        and value.dtype == exact[0]
    )


def check_results(results: Sequence[Value], computation: Computation) -> None:
    """Check that the values `results` have the result types of `computation`.

    Kernels trust declared types, which `hloscope verify` checks; so a mismatch means that the
    program is invalid.

    Raises:
        EvaluationError: A value does not have the declared type.
    """
    for i, (value, type_) in enumerate(zip(results, computation.results, strict=True)):
        why = fits(value, type_)
        if why:
            message = f"result {i} should be {type_}: {why}"
            raise EvaluationError(f"{message}; the program is wrong", span=computation.span)


def as_value(given: Any, type_: Type, what: str) -> Value:
    """Return a Python object converted to a value of the type.

    Args:
        given: Arrays, numbers, nested lists, tokens or tuples of them.
        type_: The type to convert to.
        what: Text that names the object in error messages.

    Raises:
        EvaluationError: The conversion would change a number, or the structure differs.
    """
    places = list(nested([Place(given, type_)], Place.parts))
    values = [_as_part(place, what + place.path_text(", part ", "")) for place in places]
    # `places` lists each tuple before its parts.  In reverse, the parts of a tuple are therefore
    # complete and on top of the stack, first part uppermost, when the tuple is reached.
    made: list[Value] = []
    for place, value in zip(reversed(places), reversed(values), strict=True):
        parts = place.parts()
        made.append(tuple(made.pop() for _ in parts) if parts else value)
    return made[0]


def _as_part(place: Place, what: str) -> Value:
    """Return the value at `place`, converted to the type there.

    The elements of a tuple are not converted. `what` names the value in error messages.

    Raises:
        EvaluationError: The value does not fit the type.
    """
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
    """Return the Python object `given` as an array of element type `element`.

    Numbers are checked only if the object has no dtype of its own.

    Raises:
        EvaluationError: A number does not fit `element`; `what` names the object.
    """
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"{what} is not an array: {error}") from None
    if array.dtype.hasobject:
        raise EvaluationError(f"{what}: {str(given)[:40]} is no {element.name}")
    if hasattr(given, "dtype"):
        return array if array.ndim else array[()]
    # The object has no dtype of its own: numpy chose one, so numbers are converted and checked.
    kind = element.storage.kind if isinstance(element, QuantizedType) else element.kind
    converted = array
    if array.dtype.kind in _CONVERTIBLE.get(kind, "") or not array.size:
        with np.errstate(all="ignore"):
            converted = array.astype(dtype_of(element))
        # Rounding to a float is accepted, overflow to infinity is not.  Integers must be exact.
        if kind in ("float", "complex"):
            wrong = np.isfinite(array) & ~np.isfinite(converted)
        else:
            wrong = converted.astype(array.dtype) != array
        if wrong.any():
            worst = array[wrong].flat[0] if array.ndim else array
            raise EvaluationError(f"{what}: {worst} is no {element.name}")
    return converted if converted.ndim else converted[()]


def with_entry(module: Module, name: str | None) -> Module:
    """Return the module with the function or computation `name` as its entry.

    If that is the entry already, or `name` is `None`, it is the module itself.

    Raises:
        UnknownNameError: The module has no such function or computation.
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
    """Return results that the caller may keep and modify: writable arrays without shared memory.

    Views, read-only arrays, `arguments` of the program and repeated results are copied. A single
    result is returned itself, several as a tuple.
    """
    seen = {id(part) for part in nested(arguments, _parts)}

    def own(value: Array | Token) -> Array | Token:
        if isinstance(value, Token):
            return value
        # Views, read-only constants, arguments and arrays returned twice are copied.
        is_own = isinstance(value, np.ndarray) and value.flags.owndata and value.flags.writeable
        if is_own and id(value) not in seen:
            seen.add(id(value))
            return value
        return np.array(value)

    values = tuple([each_leaf(result, own) for result in results])
    return values[0] if len(values) == 1 else values


def _parts(given: Any) -> Sequence[Any]:
    return given if isinstance(given, list | tuple) else ()
