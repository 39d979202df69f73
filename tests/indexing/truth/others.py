"""Cases of ops whose parameters are operands, of sums named by letters, and of ops that pass on."""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hloscope.ir.op import Op
from hloscope.ops.checking import Print, Probe
from hloscope.ops.contraction import Einsum, UnaryEinsum
from hloscope.ops.control import AddDependency, CopyDone, CopyStart, Domain, OptimizationBarrier
from hloscope.ops.convolution import Convolution, DynamicConv
from hloscope.ops.dynamic import (
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    GetDimensionSize,
    SetDimensionSize,
)
from hloscope.ops.gather_scatter import DynamicGather, Gather, TorchIndexSelect
from hloscope.ops.partition import ShardingConstraint
from hloscope.ops.quantize import UniformDequantize, UniformQuantize
from hloscope.ops.random import Rng
from hloscope.ops.shape import BroadcastInDim, Iota, Pad
from hloscope.ops.slicing import RealDynamicSlice, Slice
from tests.indexing.truth.generator import CASES, Gen, case
from tests.indexing.truth.marks import Case, Ints, Operand, all_of, as_marks, empty, indices, union


def _vector(g: Gen, values: int | Ints | NDArray[np.int64]) -> Operand:
    return g.array(np.shape(values), element="s32", values=values)


def _with(g: Gen, known: Case, op: Op, *extra: Operand) -> Case:
    """The case with further operands, which every result element reads."""
    read = 0
    for operand in extra:
        read |= all_of(operand.marks)
    marks = as_marks(union(known.outputs[0], read))
    return g.case(op, [*known.operands, *extra], marks, note=known.note)


@case("dynamic_reshape")
def dynamic_reshape(g: Gen) -> Case:
    known = CASES["reshape"](g)
    return _with(g, known, DynamicReshape(), _vector(g, known.outputs[0].shape))


@case("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(g: Gen) -> Case:
    known = CASES["broadcast_in_dim: size 1 expands"](g)
    assert isinstance(known.ins.op, BroadcastInDim)
    op = DynamicBroadcastInDim(known.ins.op.broadcast_dimensions)
    return _with(g, known, op, _vector(g, known.outputs[0].shape))


@case("dynamic_iota")
def dynamic_iota(g: Gen) -> Case:
    shape = g.shape(1)
    sizes = _vector(g, shape)
    result = union(empty(shape), all_of(sizes.marks))
    return g.case(DynamicIota(0), [sizes], result)


@case("iota")
def iota(g: Gen) -> Case:
    return g.case(Iota(0), [], empty(g.shape(1)))


@case("dynamic_gather")
def dynamic_gather(g: Gen) -> Case:
    known = CASES["gather"](g)
    gather = known.ins.op
    assert isinstance(gather, Gather)
    op = DynamicGather(
        gather.offset_dims,
        gather.collapsed_slice_dims,
        gather.operand_batching_dims,
        gather.start_indices_batching_dims,
        gather.start_index_map,
        gather.index_vector_dim,
    )
    return _with(g, known, op, _vector(g, gather.slice_sizes))


@case("dynamic_pad", exact=False)
def dynamic_pad(g: Gen) -> Case:
    known = CASES["pad"](g)
    pad = known.ins.op
    assert isinstance(pad, Pad)
    amounts = (pad.edge_padding_low, pad.edge_padding_high, pad.interior_padding)
    return _with(g, known, DynamicPad(), *map(partial(_vector, g), amounts))


@case("real_dynamic_slice")
def real_dynamic_slice(g: Gen) -> Case:
    known = CASES["slice"](g)
    op = known.ins.op
    assert isinstance(op, Slice)
    parameters = (op.start_indices, op.limit_indices, op.strides)
    return _with(g, known, RealDynamicSlice(), *map(partial(_vector, g), parameters))


@case("dynamic_conv")
def dynamic_conv(g: Gen) -> Case:
    known = CASES["convolution"](g)
    op = known.ins.op
    assert isinstance(op, Convolution)
    rank = len(op.window.sizes)
    window = replace(op.window, padding=((0, 0),) * rank)
    padding = _vector(g, np.array(op.window.padding, dtype=np.int64).reshape(rank, 2))
    groups = (op.feature_group_count, op.batch_group_count)
    return _with(g, known, DynamicConv(window, op.dimensions, *groups), padding)


@case("torch_index_select")
def torch_index_select(g: Gen) -> Case:
    """`result[batch, left, indices, right] = operand[batch, left, indices[batch, …], right]`."""
    shape = g.shape(1, 3, largest=4, most=40, zero=False)
    dim = g.number(0, len(shape) - 1)
    batch = g.number(0, dim)
    rows = g.shape(0, 2, largest=3, zero=False)
    x = g.array(shape)
    chosen = g.integers((*shape[:batch], *rows), 0, shape[dim] - 1)
    out_shape = (*shape[:dim], *rows, *shape[dim + 1 :])
    result = empty(out_shape)
    for at in indices(out_shape):
        row = (*at[:batch], *at[dim : dim + len(rows)])
        assert chosen.values is not None
        source = (*at[:dim], int(chosen.values[row]), *at[dim + len(rows) :])
        result[at] = x.marks[source] | chosen.marks[row]
    return g.case(TorchIndexSelect(dim, batch), [x, chosen], result)


@case("get_dimension_size")
def get_dimension_size(g: Gen) -> Case:
    """Reads a size, no element."""
    return g.case(GetDimensionSize(0), [g.array(g.shape(1))], empty(()), element="s32")


@case("set_dimension_size")
def set_dimension_size(g: Gen) -> Case:
    x, size = g.array(g.shape(1)), _vector(g, 1)
    return g.case(SetDimensionSize(0), [x, size], union(x.marks, all_of(size.marks)))


def _letters(g: Gen, known: str) -> str:
    """Up to three different letters."""
    return "".join(known[i] for i in g.subset(len(known), g.number(0, min(3, len(known)))))


def _dimensions(g: Gen) -> str:
    """Letters of an operand; a letter that is there twice takes the diagonal."""
    letters = _letters(g, "abcd")
    return letters + g.pick(letters) if letters and g.chance(0.2) else letters


def _summed(config: str, operands: list[Operand], sizes: dict[str, int]) -> object:
    """The sum over every letter that the result does not have, one product at a time."""
    inputs, output = config.split("->")
    result = empty([sizes[c] for c in output])
    letters = sorted({c for c in inputs if c != ","})
    for values in indices([sizes[c] for c in letters]):
        at = dict(zip(letters, values, strict=True))

        def place(names: str, at: dict[str, int] = at) -> Ints:
            return tuple(at[c] for c in names)

        for names, operand in zip(inputs.split(","), operands, strict=True):
            result[place(output)] |= operand.marks[place(names)]
    return result


@case("einsum")
def einsum(g: Gen) -> Case:
    sizes = {c: g.number(1, 3) for c in "abcd"}
    left, right = _dimensions(g), _dimensions(g)
    result = _letters(g, "".join(dict.fromkeys(left + right)))
    config = f"{left},{right}->{result}"
    operands = [g.array([sizes[c] for c in side]) for side in (left, right)]
    return g.case(Einsum(config), operands, _summed(config, operands, sizes), note=config)


@case("unary_einsum")
def unary_einsum(g: Gen) -> Case:
    sizes = {c: g.number(1, 3) for c in "abcd"}
    names = _dimensions(g)
    config = f"{names}->{_letters(g, ''.join(dict.fromkeys(names)))}"
    operands = [g.array([sizes[c] for c in names])]
    return g.case(UnaryEinsum(config), operands, _summed(config, operands, sizes), note=config)


@case("optimization_barrier")
def optimization_barrier(g: Gen) -> Case:
    operands = [g.array(g.shape(0, 2)) for _ in range(g.number(1, 3))]
    marks = tuple(o.marks for o in operands)
    return g.case(OptimizationBarrier(), operands, marks if len(marks) > 1 else marks[0])


@case("add-dependency")
def add_dependency(g: Gen) -> Case:
    x, after = g.array(g.shape(0, 2)), g.array(())
    return g.case(AddDependency(), [x, after], x.marks)


@case("domain")
def domain(g: Gen) -> Case:
    x = g.array(g.shape(0, 2))
    return g.case(Domain(), [x], x.marks)


for _op in (ShardingConstraint(), Print(), Probe(), UniformQuantize(), UniformDequantize()):

    @case(_op.name)
    def _(g: Gen, op: Op = _op) -> Case:
        x = g.array(g.shape(0, 2))
        return g.case(op, [x], x.marks)


@case("copy-start")
def copy_start(g: Gen) -> Case:
    x = g.array(g.shape(0, 2))
    return g.case(CopyStart(), [x], (x.marks, x.marks, empty(())))


@case("copy-done")
def copy_done(g: Gen) -> Case:
    shape = g.shape(0, 2)
    started = g.tuple_of([shape, shape, ()])
    return g.case(CopyDone(), [started], started.leaves[0])


@case("rng")
def rng(g: Gen) -> Case:
    parameters = [g.array(()), g.array(())]
    read = all_of(parameters[0].marks) | all_of(parameters[1].marks)
    return g.case(Rng("RNG_UNIFORM"), parameters, union(empty(g.shape()), read))
