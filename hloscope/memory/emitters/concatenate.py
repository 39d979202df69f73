"""The concatenate emitter: threads run over the longest operand and copy one of each operand.

Source: XLA `xla/backends/gpu/codegen/emitters/concatenate.cc`.
"""

from __future__ import annotations

from math import gcd

from hloscope.affine import Interval
from hloscope.indexing import IndexingMap
from hloscope.ir import TensorType
from hloscope.memory.choice import Choice, in_memory_of
from hloscope.memory.fused import behind_tuples
from hloscope.memory.kernel import Kernel, Reading
from hloscope.memory.storage import element_count, is_array
from hloscope.ops import Concatenate


def concatenate(choice: Choice) -> Kernel | None:
    """Return a kernel that copies operand after operand; `None` if sizes are unknown."""
    root, hero = choice.roots[0], choice.heroes[0]
    assert isinstance(hero.op, Concatenate)
    dimension = hero.op.dimension
    types = [operand.type for operand in hero.operands]
    target, written_type = hero.type, choice.array(0)
    arrays = [t for t in types if isinstance(t, TensorType) and is_array(t)]
    if len(arrays) != len(types) or not isinstance(target, TensorType) or written_type is None:
        return None
    longest = max(arrays, key=lambda type: type.shape[dimension])
    loop_unroll = unroll = choice.unroll(element_count(longest))
    for type in arrays:
        # A vector must not cross the boundary between two operands.
        unroll = gcd(unroll, type.shape[dimension])
    unroll = unroll or 1
    launch = choice.launch(element_count(longest), loop_unroll)
    if unroll != loop_unroll:
        launch = choice.launch(element_count(longest), unroll)
    map = choice.over_elements(longest, launch, unroll)
    readings: list[Reading] = []
    places: list[IndexingMap] = []
    inputs: dict[tuple[int, int], IndexingMap] = {}
    start = 0
    for number, (operand, type) in enumerate(zip(hero.operands, arrays, strict=True)):
        size = type.shape[dimension]
        # Threads run over the longest operand; shorter ones leave the threads beyond their size
        # idle.
        own_map = map.add_constraint(map.results[dimension], Interval(0, size - 1))
        own_map = own_map.simplify(replace_points=False)
        inputs[0, number] = own_map
        readings.append(Reading(operand, 0, own_map))
        moved = list(own_map.results)
        moved[dimension] = moved[dimension] + start
        start += size
        place = in_memory_of(own_map.with_(results=moved), target, written_type)
        if place is None:
            return None
        places.append(place)
        if behind_tuples(root) is not hero:
            readings.append(Reading(root, 0, place, is_hero=False))
    return Kernel(
        "concatenate",
        launch,
        choice.heroes,
        tuple(readings),
        inputs,
        (tuple(places),),
        unroll=unroll,
    )
