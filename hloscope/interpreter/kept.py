"""Plans that stay with the computation they are of, so that it is made ready once.

Kernels are made for one world.  So plans that are kept have a world of their own, which for every
evaluation is given what that of the caller has, and afterwards hands back what was counted.  One
evaluation has the plans for itself: another one at the same time, of another thread or within it,
has others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

from hloscope.interpreter.plan import Plan, Plans
from hloscope.interpreter.world import PROCESS, World
from hloscope.ir import Computation
from hloscope.locks import shared_lock

_MOST: Final = 4
"""Plans that are kept of one computation, for several threads or limits."""
_LOCK: Final = shared_lock()
_NAMES: Final = tuple(f.name for f in fields(World))


@contextmanager
def kept_plan(computation: Computation, world: World) -> Iterator[Plan]:
    """The plan of a computation in a world, for one evaluation; it is kept for the next one.

    A process of a grid has plans of its own, which know whom it exchanges values with.
    """
    if PROCESS in world.extra:
        yield Plans(world).of(computation)
        return
    key = _key(world)
    plans = _taken(computation, key) or Plans(World())
    own = plans.world
    for name in _NAMES:
        setattr(own, name, getattr(world, name))
    try:
        yield plans.of(computation)
    finally:
        world.steps, world.flops = own.steps, own.flops
        is_process = PROCESS in own.extra
        own.watch = own.trail = own.on_step = None
        own.extra = {}
        if not is_process:
            _give_back(computation, key, plans)


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


def _taken(computation: Computation, key: tuple[Any, ...]) -> Plans | None:
    """Plans that are kept and that nobody uses, no longer among those kept."""
    body = computation.body
    with _LOCK:
        for i, (known, plans) in enumerate(body.kept):
            if known == key:
                body.kept = body.kept[:i] + body.kept[i + 1 :]
                assert isinstance(plans, Plans)
                return plans
    return None


def _give_back(computation: Computation, key: tuple[Any, ...], plans: Plans) -> None:
    body = computation.body
    with _LOCK:
        body.kept = ((key, plans), *body.kept)[:_MOST]
