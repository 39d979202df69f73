"""Element-wise ops: each output element reads the operand elements at its own index."""

from __future__ import annotations

from collections.abc import Iterator

from hloscope.affine import ZERO, Dim, Expr
from hloscope.indexing.access import Access, Accesses
from hloscope.indexing.rules.dependence import Bodies, Dependence, Use, use_of, weakened_by_use
from hloscope.indexing.rules.registry import (
    NEVER,
    Instances,
    MapBuilder,
    dims,
    everything,
    exact,
    identity,
    input_to_output,
    output_to_input,
    reads_bodies,
    sizes,
)
from hloscope.ir import Dims, Instruction
from hloscope.ops import ELEMENTWISE, Elementwise, ImplicitBroadcast, Map

_SHAPE_ONLY = ELEMENTWISE["chlo.constant_like"]


@output_to_input(Elementwise)
def _(ins: Instruction, op: Elementwise, output: int) -> tuple[Accesses, ...]:
    return _reads(sizes(ins.type), tuple([sizes(operand.type) for operand in ins.operands]))


def _reads(target: Dims, sources: tuple[Dims, ...]) -> tuple[Accesses, ...]:
    """Return, for each operand, the access from an output element to the operand element it reads.

    It is the element at the same index; of a scalar (predicate, bound of `clamp`), the only one.
    """
    return tuple(
        identity(target) if len(source) == len(target) else everything(target, source)
        for source in sources
    )


@input_to_output(Elementwise)
def _(ins: Instruction, op: Elementwise, operand: int) -> tuple[Accesses, ...]:
    return _writes(sizes(ins.operands[operand].type), sizes(ins.type))


def _writes(source: Dims, target: Dims) -> tuple[Accesses, ...]:
    return (identity(source) if len(source) == len(target) else everything(source, target),)


@output_to_input(_SHAPE_ONLY)
def _(ins: Instruction, op: Elementwise, output: int) -> tuple[Accesses, ...]:
    return (NEVER,) * len(ins.operands)


@input_to_output(_SHAPE_ONLY)
def _(ins: Instruction, op: Elementwise, operand: int) -> tuple[Accesses, ...]:
    return (NEVER,)


# Map: a computation applied to the elements at one index.


def _mapped(ins: Instruction, bodies: Bodies) -> list[Use]:
    body = bodies[0] if bodies else Dependence.of_everything(1, len(ins.operands))
    return [use_of(k in body.reads[0], k in body.sure[0]) for k in range(len(ins.operands))]


@output_to_input(Map, bodies=True)
def _(ins: Instruction, op: Map, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    found = _reads(sizes(ins.type), tuple([sizes(operand.type) for operand in ins.operands]))
    return tuple(map(weakened_by_use, _mapped(ins, bodies), found))


@input_to_output(Map, bodies=True)
def _(ins: Instruction, op: Map, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    (found,) = _writes(sizes(ins.operands[operand].type), sizes(ins.type))
    return (weakened_by_use(_mapped(ins, bodies)[operand], found),)


@reads_bodies(Map)
def _(ins: Instruction, op: Map, output: int, bodies: Bodies) -> Iterator[Instances]:
    yield Instances(0, 0, everything(sizes(ins.type), ()))


@output_to_input(ImplicitBroadcast)
def _(ins: Instruction, op: ImplicitBroadcast, output: int) -> tuple[Accesses, ...]:
    target = sizes(ins.type)
    answer = []
    for operand in ins.operands:
        source = sizes(operand.type)
        answer.append(broadcast_read(source, target, op.result_dims(len(source), len(target))))
    return tuple(answer)


@input_to_output(ImplicitBroadcast)
def _(ins: Instruction, op: ImplicitBroadcast, operand: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[operand].type), sizes(ins.type)
    return (broadcast_write(source, target, op.result_dims(len(source), len(target))),)


def broadcast_read(source: Dims, target: Dims, result_dims: Dims) -> Accesses:
    """Return the access from an output element to the operand of a broadcast.

    Operand dimension `k` is read at the index of output dimension `result_dims[k]`, or at 0 if it
    expands. `source` has the sizes of the operand, `target` those of the output.

    >>> print(broadcast_read((6, 1), (5, 6, 7), (1, 2))[0].map)
    (d0, d1, d2) -> (d1, 0), domain: d0 in [0, 4], d1 in [0, 5], d2 in [0, 6]
    """
    if reason := _broadcast_error(source, target, result_dims):
        return (Access.unknown(reason),)
    own = dims(len(target))
    read = zip(source, result_dims, strict=True)
    index = [ZERO if size == 1 != target[place] else own[place] for size, place in read]
    return exact(MapBuilder(target).map(index))


def broadcast_write(source: Dims, target: Dims, result_dims: Dims) -> Accesses:
    """Return the inverse of `broadcast_read`: the access from an operand element to the output.

    New and expanding dimensions are range variables. The arguments are those of `broadcast_read`:
    `source` has the sizes of the operand, `target` those of the output, and `result_dims` the
    output dimension of each operand dimension.

    >>> print(broadcast_write((6, 1), (5, 6, 7), (1, 2))[0].map)
    (d0, d1)[s0, s1] -> (s0, d0, s1), domain: d0 in [0, 5], d1 in [0, 0], s0 in [0, 4], s1 in [0, 6]
    """
    if reason := _broadcast_error(source, target, result_dims):
        return (Access.unknown(reason),)
    at = MapBuilder(source)
    follows = {
        place: k for k, place in enumerate(result_dims) if not source[k] == 1 != target[place]
    }
    results: list[Expr] = [
        Dim(follows[place]) if place in follows else at.range(size)
        for place, size in enumerate(target)
    ]
    return exact(at.map(results))


def _broadcast_error(source: Dims, target: Dims, result_dims: Dims) -> str:
    """Return why `source` cannot be broadcast to dimensions `result_dims` of `target`; else "".

    `source` and `target` are sizes. CHLO's types allow such ops.
    """
    if len(result_dims) != len(source):
        return f"{len(result_dims)} dimensions are named for {len(source)}"
    strangers = [place for place in result_dims if not 0 <= place < len(target)]
    return f"it has no dimension {strangers[0]} to broadcast to" if strangers else ""
