"""Bodies that compute with scalars: those of reduce, scatter, sort, map and windows."""

from __future__ import annotations

from collections.abc import Sequence

from tests.generator.builder import Builder
from tests.generator.program import Region, Value
from tests.generator.value_types import Tensor


def scalar_body(
    g: Builder, types: Sequence[Tensor], count: int, *, is_isolated: bool = False
) -> Region:
    """A body of these parameters that returns `count` scalars, of the types of the first ones.

    Most often each result combines the parameters of its own operand; others read what they like,
    values around the body too, where the language lets them and the op is not in an isolated one.
    """
    is_open = not g.is_hlo_too and not is_isolated
    with g.region(types, is_open=is_open, is_scalar=True) as frame:
        for _ in range(g.pick([0, 0, 1, 2])):
            g.step()
        results = [_combined(g, frame.params, types, k, count) for k in range(count)]
    return g.closed(frame, results)


def _combined(
    g: Builder, params: Sequence[Value], types: Sequence[Tensor], k: int, count: int
) -> Value:
    element = types[k].element
    name = {"f32": "add", "s32": "add", "pred": "xor"}[element]
    if element == "f32" and g.chance(0.3):
        name = "multiply"
    masks = False
    if g.options.masks and g.chance(0.25):
        name, masks = {"f32": "maximum", "s32": "minimum", "pred": "or"}[element], True
    mine = [p for i, p in enumerate(params) if i % count == k and p.type == types[k]]
    value = mine[0]
    for other in mine[1:]:
        value = g.binary(name, value, other, masks=masks)
    if g.chance(0.3):
        value = g.binary(name, value, g.of(types[k]), masks=masks)
    if g.options.masks and g.chance(0.15):
        value = g.pick(mine)  # the first, or the last
    return value


def comparator(g: Builder, types: Sequence[Tensor]) -> Region:
    """A comparator of pairs of these types; some compare more than the first pair."""
    pairs = [type_ for type_ in types for _ in range(2)]
    with g.region(pairs, is_open=not g.is_hlo_too, is_scalar=True) as frame:
        direction = g.pick(["LT", "GT"])
        less = g.compare(direction, *frame.params[:2])
        if len(types) > 1 and g.chance(0.5):
            equal = g.compare("EQ", *frame.params[:2])
            second = g.compare(direction, *frame.params[2:4])
            less = g.select(equal, second, less)
    return g.closed(frame, [less])
