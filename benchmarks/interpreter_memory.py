"""Memory of an evaluation: what is allocated at most, over the bytes of the tensors alive then.

    python benchmarks/interpreter_memory.py [NAME...] [--kind stablehlo|hlo|opt]

A tensor is alive from the step that makes it to the last one that reads it; the arguments and what
the program returns are alive all the time.  What is allocated is what numpy asks for.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tracemalloc
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from hloscope.interpreter import Plan, Plans, World, byte_size, evaluate, run
from hloscope.ops import GetTupleElement, Parameter, Tuple
from tests.interpreter.models import KINDS, RECORDED, load, recorded

LIMIT = 2.0
_NO_TENSORS = (GetTupleElement, Parameter, Tuple)
"""What they give are tensors of others."""


def live_bytes(plan: Plan) -> int:
    """Most bytes of tensors alive at one step, those of called computations included."""
    sizes: dict[int, int] = {}
    now = most = sum(byte_size(t) for t in plan.computation.arguments)
    for step in plan.steps:
        inner = [
            live_bytes(p) - sum(map(byte_size, p.computation.arguments)) for p, _ in step.regions
        ]
        if not isinstance(step.ins.op, _NO_TENSORS):
            sizes[step.target] = byte_size(step.ins.type)
            now += sizes[step.target]
        most = max(most, now + max(inner, default=0))
        now -= sum(sizes.pop(slot, 0) for slot in step.freed)
    return most


def measure(name: str, kind: str) -> tuple[int, int]:
    """Bytes of tensors at most, constants and arguments included, and of those alive."""
    module, inputs = load(name, kind), recorded(name, "inputs")
    evaluate(module, inputs)  # what is loaded on first use is no part of it
    gc.collect()
    tracemalloc.start(1)
    try:
        world = World(functions=module.computations, attributes=module.extras)
        plan = Plans(world).of(module.entry)
        with np.errstate(all="ignore"):
            run(plan, inputs)  # which makes the plans of everything that is called
            gc.collect()
            constants = _bytes_of_numpy()
            tracemalloc.clear_traces()
            result = run(plan, inputs)
        peak = tracemalloc.get_traced_memory()[1]
        del result
    finally:
        tracemalloc.stop()
    return sum(x.nbytes for x in inputs) + constants + peak, live_bytes(plan)


def _bytes_of_numpy() -> int:
    """What arrays hold now."""
    only = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    traces = tracemalloc.take_snapshot().filter_traces([only])
    return sum(row.size for row in traces.statistics("filename"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["gpt2_tiny12_train_step"])
    parser.add_argument("--kind", choices=KINDS, action="append")
    given = parser.parse_args()
    worst = 0.0
    for name in given.names:
        for kind in given.kind or RECORDED:
            peak, live = measure(name, kind)
            worst = max(worst, peak / live)
            amounts = f"{peak / 1e6:8.2f} MB at most, {live / 1e6:8.2f} MB alive"
            print(f"{name:28} {kind:10} {amounts}: {peak / live:.2f} x")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
