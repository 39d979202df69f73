"""The loop emitter: every thread computes a few consecutive elements.

Source: XLA `xla/backends/gpu/codegen/emitters/loop.cc`, `launch_dimensions.cc`.
"""

from __future__ import annotations

from hloscope.indexing import IndexingMap
from hloscope.ir import TensorType
from hloscope.memory.choice import Choice
from hloscope.memory.kernel import Kernel, Launch, Reading
from hloscope.memory.storage import element_count, is_array
from hloscope.memory.unrolling import stays_loop


def loop(choice: Choice) -> Kernel:
    """Return a kernel whose threads run over the elements of its first output."""
    first = choice.array(0)
    elements = 1 if first is None else element_count(first)
    unroll = choice.unroll(elements)
    launch = choice.launch(elements, unroll)
    readings: list[Reading] = []
    outputs: list[tuple[IndexingMap, ...] | None] = []
    for k, root in enumerate(choice.roots):
        # A root whose code stays a loop of its own shares no load with the other roots.
        own_loop = k + 1 if len(choice.roots) > 1 and stays_loop(root, choice.fused) else 0
        for leaf, type in enumerate(choice.analysis.tensors(root.type)):
            if not isinstance(type, TensorType):
                continue
            if not is_array(type):
                outputs.append(None)
                continue
            map = choice.over_elements(type, launch, unroll)
            outputs.append((map,))
            readings.append(Reading(root, leaf, map, loop=own_loop))
    return Kernel(
        "loop",
        launch,
        choice.roots,
        tuple(readings),
        inputs=_of_operands(choice, launch, unroll),
        outputs=tuple(outputs),
        unroll=unroll,
    )


def _of_operands(choice: Choice, launch: Launch, unroll: int) -> dict[tuple[int, int], IndexingMap]:
    """Return the maps from threads to operands of roots that are read through a single access."""
    found = {}
    for k, root in enumerate(choice.roots):
        type = choice.array(k)
        if type is None or choice.fused.contains(root) is False:
            continue
        map = choice.over_elements(type, launch, unroll)
        for (operand, leaf), accesses in choice.analysis.output_to_input(root).items():
            one = accesses[0].map if len(accesses) == 1 else None
            if isinstance(operand, int) and leaf == 0 and one is not None:
                found[k, operand] = map.compose(one).simplify(replace_points=False)
    return found
