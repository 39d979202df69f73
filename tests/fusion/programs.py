"""Random small programs, and the elements they touch, told without composing any map."""

from __future__ import annotations

from functools import cache
from itertools import product
from random import Random

from hloscope.hlo_parser import parse_hlo
from hloscope.indexing.analysis import output_to_input
from hloscope.ir.graph import Computation, Instruction

Point = tuple[int, ...]
Touch = tuple[int, Point]
"""A parameter and an index of it."""

REDUCER = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"


def random_fusion(seed: int, ops: int = 8) -> Computation:
    """A fused computation of chains and diamonds over a few small tensors."""
    random = Random(seed)
    shapes: list[tuple[int, ...]] = [(2, 3), (3, 2), (6,)]
    lines = [f"v{k} = {_type(shape)} parameter({k})" for k, shape in enumerate(shapes)]
    lines.append("zero = f32[] constant(0)")
    for _ in range(ops):
        k = random.randrange(max(0, len(shapes) - 4), len(shapes))
        text, shape = _instruction(random, f"v{k}", shapes[k], shapes)
        lines.append(f"v{len(shapes)} = {_type(shape)} {text}")
        shapes.append(shape)
    lines[-1] = "ROOT " + lines[-1]
    body = "\n  ".join(lines)
    return parse_hlo(f"HloModule m\n{REDUCER}\nENTRY e {{\n  {body}\n}}").entry


def _type(shape: Point) -> str:
    return f"f32[{','.join(map(str, shape))}]"


def _instruction(random: Random, name: str, shape: Point, shapes: list[Point]) -> tuple[str, Point]:
    """An operation on `name` and the shape of its value."""
    rank = len(shape)
    axis = random.randrange(rank) if rank else 0
    match random.choice(CHOICES if rank else ("negate", "broadcast", "reshape")):
        case "add":
            twins = [k for k, other in enumerate(shapes) if other == shape]
            return f"add({name}, v{random.choice(twins)})", shape
        case "transpose":
            order = random.sample(range(rank), rank)
            places = ",".join(map(str, order))
            return f"transpose({name}), dimensions={{{places}}}", tuple(shape[k] for k in order)
        case "reshape":
            return f"reshape({name})", _other_shape(random, shape)
        case "reverse":
            return f"reverse({name}), dimensions={{{axis}}}", shape
        case "slice" if shape[axis] > 1:
            start = random.randrange(shape[axis])
            step = random.choice((1, 1, 2))
            count = -(-(shape[axis] - start) // step)
            parts = [f"[0:{n}]" for n in shape]
            parts[axis] = f"[{start}:{shape[axis]}:{step}]"
            new = (*shape[:axis], count, *shape[axis + 1 :])
            return f"slice({name}), slice={{{','.join(parts)}}}", new
        case "broadcast" if rank < 3:
            places = [k for k in range(rank + 1) if k != axis]
            new = (*shape[:axis], 2, *shape[axis:])
            return f"broadcast({name}), dimensions={{{','.join(map(str, places))}}}", new
        case "concatenate" if shape[axis] < 5:
            new = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
            return f"concatenate({name}, {name}), dimensions={{{axis}}}", new
        case "pad" if shape[axis] < 5:
            low, high, inside = random.choice(((1, 0, 0), (0, 2, 0), (1, 1, 1), (-1, 1, 0)))
            size = shape[axis] + low + high + inside * (shape[axis] - 1)
            parts = ["0_0_0"] * rank
            parts[axis] = f"{low}_{high}_{inside}"
            new = (*shape[:axis], size, *shape[axis + 1 :])
            return f"pad({name}, zero), padding={'x'.join(parts)}", new
        case "reduce":
            new = (*shape[:axis], *shape[axis + 1 :])
            return f"reduce({name}, zero), dimensions={{{axis}}}, to_apply=sum", new
        case _:
            return f"negate({name})", shape


CHOICES = (
    "add", "add", "add", "transpose", "reshape", "reverse", "slice", "broadcast", "concatenate",
    "pad", "reduce", "negate",
)  # fmt: skip


def _other_shape(random: Random, shape: Point) -> Point:
    count = 1
    for size in shape:
        count *= size
    choices = [(count,), (1, count)]
    choices += [(n, count // n) for n in range(2, count) if count % n == 0]
    return random.choice(choices)


def touched(computation: Computation, at: Point) -> set[Touch]:
    """What the root's element at an index reads, followed element by element."""

    @cache
    def of(ins: Instruction, index: Point) -> frozenset[Touch]:
        if ins.op.name == "parameter":
            return frozenset([(computation.parameters.index(ins), index)])
        found: set[Touch] = set()
        for operand, accesses in zip(ins.operands, output_to_input(ins), strict=True):
            for access in accesses:
                assert access.map is not None
                for point in access.map.points(index):
                    found |= of(operand, point)
        return frozenset(found)

    return set(of(computation.root, at))


def indices(shape: Point) -> list[Point]:
    """All indices of a tensor."""
    return list(product(*map(range, shape)))
