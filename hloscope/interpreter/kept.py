"""Plans that stay with the computation they are of, so that it is made ready once.

Kernels are made for one world.  So plans that are kept have a world of their own, which for every
evaluation is given what that of the caller has, and afterwards hands back what was counted.  One
evaluation has the plans for itself: another one at the same time, of another thread or within it,
has others.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from hloscope.interpreter.plan import Plan, Plans
from hloscope.interpreter.values import check_evaluable, dtype_of
from hloscope.interpreter.world import PROCESS, World
from hloscope.ir import Computation, TensorType, Type
from hloscope.locks import shared_lock

_MOST: Final = 4
"""Plans that are kept of one computation, for several threads or limits."""
_LOCK: Final = shared_lock()
_NAMES: Final = tuple(f.name for f in fields(World))


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
    found = None if PROCESS in world.extra else _taken(computation, key)
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


def _taken(computation: Computation, key: tuple[Any, ...]) -> Ready | None:
    """One that is kept and that nobody uses, no longer among those kept."""
    body = computation.body
    with _LOCK:
        for i, (known, found) in enumerate(body.kept):
            if known == key:
                body.kept = body.kept[:i] + body.kept[i + 1 :]
                assert isinstance(found, Ready)
                return found
    return None
