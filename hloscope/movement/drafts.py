"""Programs for a chain: one with the same ops, and a shorter equal one; both can be run."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Const, Dim, Sum
from hloscope.errors import HloscopeError
from hloscope.hlo_parser import parse_hlo, print_hlo
from hloscope.indexing import IndexingMap, major_to_minor
from hloscope.interpreter import call, dtype_of
from hloscope.ir import Body, Computation, Dims, Instruction, Layout, Module, Op, TensorType
from hloscope.movement.chains import Chain
from hloscope.movement.flow import COPY, computes, moves, only_map
from hloscope.movement.rearranging import Rearrangement, split_transposed
from hloscope.movement.verdicts import Judgement, Kind, judge, row_major, same_layout
from hloscope.movement.walking import Arrival, composed
from hloscope.ops import (
    Bitcast,
    Broadcast,
    BroadcastInDim,
    Parameter,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from hloscope.support.arrays import Array, np
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Programs that compute the same as a chain: op by op, and shorter.


_NOT_IN_NAMES: Final = pattern(r"[^\w.-]")
MOST_WINDOW: Final = 12
"""Maximum number of consecutive ops that one op may replace."""


class Move(Struct, frozen=True):
    """An op that moves elements, with sizes and layout of its result."""

    op: Op
    sizes: Dims
    layout: Layout | None

    def type_of(self, operand: TensorType) -> TensorType:
        """Return the type of the result for an operand."""
        return TensorType(operand.element, self.sizes, self.layout)


class ProgramBuilder:
    """Builder of an HLO program: instructions are added one after the other."""

    def __init__(self) -> None:
        self._instructions: list[Instruction] = []
        self._parameters: list[Instruction] = []
        self._names: set[str] = set()

    def parameter(self, name: str, type_: TensorType) -> Instruction:
        """Add a parameter, with the next parameter number, and return it."""
        found = self.add(name, Parameter(len(self._parameters)), type_)
        self._parameters.append(found)
        return found

    def add(
        self,
        name: str,
        op: Op,
        type_: TensorType,
        *operands: Instruction,
        calls: tuple[Computation, ...] = (),
    ) -> Instruction:
        """Add an instruction and return it; its name is changed to a valid, unique HLO name."""
        name = stem = _NOT_IN_NAMES.sub("_", name)  # results of StableHLO are called `4#1`
        k = 0
        while name in self._names:
            k += 1
            name = f"{stem}.{k}"
        self._names.add(name)
        found = Instruction(name, type_, op, operands, calls)
        self._instructions.append(found)
        return found

    def move(self, value: Instruction, *path: Move) -> Instruction:
        """Add ops that move a value, one after the other; return the last result."""
        for step in path:
            assert isinstance(value.type, TensorType)
            value = self.add(step.op.name, step.op, step.type_of(value.type), value)
        return value

    def module(self, name: str, root: Instruction) -> Module:
        """Return the program of all added instructions, with `root` as its result.

        `name` is the name of the module.
        """
        body = Body(tuple(self._instructions), tuple(self._parameters), root)
        entry = Computation("main", body)
        called = {c.name: c for ins in self._instructions for c in ins.calls}
        return Module(name, {**called, "main": entry}, entry)


def chain_program(chain: Chain) -> Module:
    """Return a chain as an HLO program with the same ops in the same order.

    Its first parameters are the chain's sources. Further parameters are other operands of the ops;
    the result does not depend on them.
    """
    draft = ProgramBuilder()
    made = {leaf.value: draft.parameter(leaf.value.name, leaf.type) for leaf in chain.leaves}
    for step in chain.steps:
        assert isinstance(step.type, TensorType)
        operands = []
        for value in map(chain.flow.source, step.operands):
            assert isinstance(value.type, TensorType)
            if value not in made:
                made[value] = draft.parameter(value.name, value.type)
            operands.append(made[value])
        made[step] = draft.add(step.name, hlo_op(step), step.type, *operands)
    return draft.module("as_it_stands", made[chain.sink])


def hlo_op(step: Instruction) -> Op:
    """Return the op of an instruction in a form that HLO has."""
    if isinstance(step.op, Broadcast):
        first = len(step.op.broadcast_sizes)
        (operand,) = step.operands
        assert isinstance(operand.type, TensorType)
        return BroadcastInDim(tuple(range(first, first + operand.type.rank)))
    return step.op


def rewritten(chain: Chain) -> Module | None:
    """Return the shortest known program equal to a chain; `None` if none is shorter.

    The movement of each source comes first, then the element-wise ops. If several sources need the
    same transpose, it comes once, after the element-wise ops. In a linear chain of real movement
    the element-wise ops run on the smaller array.
    """
    kinds = {j.kind for j in chain.judgements}
    if not kinds or chain.sink in [leaf.value for leaf in chain.leaves]:
        return None
    joined = any(len(step.operands) > 1 and moves(step) for step in chain.steps)
    plain = kinds <= {Kind.NO_OP, Kind.BITCAST, Kind.TRANSPOSE}
    if not plain:
        return _shortened(chain) if chain.is_linear else None
    # A join of several sources is movement that is not one of single sources.
    if joined and len(chain.leaves) > 1:
        return None
    leaves = chain.main
    alike = {(leaf.maps, leaf.type.shape, leaf.type.layout) for leaf in leaves}
    paths = [
        moved(judged, leaf.type, chain.type)
        for leaf, judged in zip(leaves, chain.judgements, strict=True)
    ]
    if len(alike) == 1 and len(leaves) > 1 and chain.kind is Kind.TRANSPOSE:
        return _program(chain, (), after=paths[0])
    return _program(chain, paths)


def _program(
    chain: Chain, paths: list[list[Move]] | tuple[()], *, after: list[Move] | tuple[()] = ()
) -> Module:
    """Return a program that moves the sources, computes element-wise ops, and moves the result.

    Args:
        chain: The chain to replace.
        paths: The ops that move each main source; empty for none.
        after: The ops that move the result.
    """
    builder = ProgramBuilder()
    made: dict[Instruction, Instruction] = {}
    shape: TensorType = chain.type
    sources = chain.main
    for k, leaf in enumerate(sources):
        given = builder.parameter(leaf.value.name, leaf.type)
        made[leaf.value] = builder.move(given, *paths[k]) if paths else given
        # The element-wise ops then work on the sources' shape, before the movement.
        if not paths:
            shape = leaf.type
    others = {
        leaf.value: builder.parameter(leaf.value.name, leaf.type)
        for leaf in chain.leaves
        if leaf not in sources
    }
    result = _add_elementwise(builder, chain, made, others, shape)
    return builder.module("rewritten", builder.move(result, *after))


def _add_elementwise(
    draft: ProgramBuilder,
    chain: Chain,
    moved_sources: dict[Instruction, Instruction],
    singles: dict[Instruction, Instruction],
    shape: TensorType,
) -> Instruction:
    """Add the element-wise ops of a chain to a program; return the last result.

    Args:
        draft: The program.
        chain: The chain.
        moved_sources: The moved source, for each source.
        singles: The instruction in the program for each source that is a broadcast scalar.
        shape: Type whose sizes all these arrays have.
    """
    first = Arrival(chain.sink, IndexingMap.identity(chain.type.shape))
    reads = chain.read
    done: dict[Arrival, Instruction] = {}
    # Postorder with an explicit stack, as chains can be long; equal arrivals share one
    # instruction.
    stack = [first]
    while stack:
        at = stack[-1]
        if at in done:
            stack.pop()
            continue
        value = at.value
        if value in moved_sources:
            done[at] = moved_sources[value]
        elif value in singles:
            single = singles[value]
            assert isinstance(single.type, TensorType)
            type_ = replace(shape, element=single.type.element)
            done[at] = draft.add("broadcast", BroadcastInDim(()), type_, single)
        else:
            read = reads[at] if computes(value) else reads[at][:1]
            waiting = [r for r in read if r not in done]
            if waiting:
                stack += waiting
                continue
            operands = [done[r] for r in read]
            assert isinstance(value.type, TensorType)
            type_ = replace(shape, element=value.type.element)
            done[at] = (
                draft.add(value.name, value.op, type_, *operands)
                if computes(value)
                else operands[0]
            )
        stack.pop()
    return done[first]


def moved(judged: Judgement, source: TensorType, output: TensorType) -> list[Move]:
    """Return the ops of a movement that is free or one transpose; empty if nothing changes.

    Args:
        judged: The verdict on the movement.
        source: Type of the array before the movement.
        output: Type of the array after the movement.
    """
    if judged.kind is Kind.NO_OP:
        return []
    last = _reshaped(output.shape, output.layout, source)
    if judged.kind is Kind.BITCAST:
        return [last]
    assert judged.form is not None
    if source.is_tiled or output.is_tiled:
        steps = split_transposed(judged.form, source.shape, output.shape)
        path = [_arranged(step) for step in steps] or [Move(COPY(), output.shape, None)]
        path[-1] = replace(path[-1], layout=output.layout)
        return path
    # In physical order both arrays are row-major, so the transpose is one of the digits of
    # addresses; bitcasts at both ends convert from and to the layouts.
    placed = [tuple(type_.shape[k] for k in major_to_minor(type_)) for type_ in (source, output)]
    steps = split_transposed(judged.form, placed[0], placed[1])
    path = [_arranged(step) for step in steps]
    if not same_layout(source, TensorType(source.element, source.shape)):
        first = _reshaped(placed[0], row_major(len(placed[0])), source)
        path = (
            [_reshaped(path[0].sizes, path[0].layout, source), *path[1:]]
            if _is_reshape(path[0])
            else [first, *path]
        )
    if not same_layout(output, TensorType(output.element, output.shape)):
        path = path[:-1] if _is_reshape(path[-1]) else path
        path = [*path, Move(Bitcast(), output.shape, output.layout)]
    else:
        path[-1] = replace(path[-1], layout=output.layout)
    return path


def _is_reshape(move: Move) -> bool:
    """Is the op a reshape or bitcast?"""
    return isinstance(move.op, Reshape | Bitcast)


def _reshaped(sizes: Dims, layout: Layout | None, source: TensorType) -> Move:
    """Return the op that gives the same bytes other sizes.

    It is a reshape for row-major arrays, else a bitcast.
    """
    plain = same_layout(source, TensorType(source.element, source.shape)) and (
        layout is None or layout == row_major(len(sizes))
    )
    return Move(Reshape() if plain else Bitcast(), sizes, layout)


def _arranged(step: Rearrangement) -> Move:
    """Return a reshape or transpose as an op with a row-major result."""
    op = Reshape() if step.permutation is None else Transpose(step.permutation)
    return Move(op, step.sizes, row_major(len(step.sizes)))


def single_op(m: IndexingMap, source: Dims, output: Dims) -> Op | None:
    """Return the broadcast, reverse or slice that equals a map; `None` if there is none.

    Args:
        m: Map from an index of the output to an index of the source.
        source: Sizes of the source.
        output: Sizes of the output.

    >>> m = IndexingMap.parse("(d0, d1) -> (d0 * 2 + 1, d1), domain: d0 in [0, 2], d1 in [0, 7]")
    >>> single_op(m, (9, 8), (3, 8))
    Slice(start_indices=(1, 0), limit_indices=(6, 8), strides=(2, 1))
    """
    if m.constraints or m.ranges or m.runtime or tuple(v.interval.size for v in m.dims) != output:
        return None
    for recognise in (_broadcast, _reverse, _slice):
        if (op := recognise(m, source, output)) is not None:
            return op
    return None


def _broadcast(m: IndexingMap, source: Dims, output: Dims) -> Op | None:
    """Return the broadcast that equals a map; `None` if there is none."""
    dims = [e.index for e in m.results if isinstance(e, Dim)]
    fits = len(dims) == len(source) == len(set(dims)) and dims == sorted(dims)
    if fits and all(source[k] == output[d] for k, d in enumerate(dims)):
        return BroadcastInDim(tuple(dims))
    return None


def _reverse(m: IndexingMap, source: Dims, output: Dims) -> Op | None:
    """Return the reverse that equals a map; `None` if there is none."""
    if source != output:
        return None
    turned = []
    for k, e in enumerate(m.results):
        if e == source[k] - 1 - Dim(k):
            turned.append(k)
        elif e != Dim(k) and not (source[k] == 1 and e == Const(0)):
            return None
    return Reverse(tuple(turned))


def _slice(m: IndexingMap, source: Dims, output: Dims) -> Op | None:
    """Return the slice that equals a map; `None` if there is none."""
    if len(source) != len(output):
        return None
    starts, strides = [], []
    for k, e in enumerate(m.results):
        # A slice's result in each dimension is `start + stride * d`; in a dimension of size 1 it
        # is constant.
        match e:
            case Const(value) if output[k] == 1:
                start, stride = value, 1
            case Dim(index) if index == k:
                start, stride = 0, 1
            case Sum(((Dim(index), stride),), start) if index == k and stride > 0 <= start:
                pass
            case _:
                return None
        starts.append(start)
        strides.append(stride)
    limits = [b + (n - 1) * s + 1 for b, n, s in zip(starts, output, strides, strict=True)]
    if 0 in output or any(limit > n for limit, n in zip(limits, source, strict=True)):
        return None
    return Slice(tuple(starts), tuple(limits), tuple(strides))


def _shortened(chain: Chain) -> Module | None:
    """Return a linear chain as a program in which one op replaces several consecutive ones.

    `None` if no single op can replace several ops.
    """
    (leaf,) = chain.main
    types, maps, path = [leaf.type], [], []
    for step in leaf.via:
        assert isinstance(step.type, TensorType)
        moving = moves(step)
        if not moving and same_layout(step.type, types[-1]):
            continue
        m = only_map(step) if moving else IndexingMap.identity(step.type.shape)
        if m is None:
            return None
        types.append(step.type)
        maps.append(m)
        path.append(Move(hlo_op(step) if moving else COPY(), step.type.shape, step.type.layout))
    shorter = _cheapest(types, maps, path)
    # Element-wise ops run on the smaller array: before the movement if the source is smaller.
    before = leaf.type.num_elements <= chain.type.num_elements
    found = _program(chain, (), after=shorter) if before else _program(chain, [shorter])
    return found if len(shorter) < len(path) else None


def _cheapest(types: list[TensorType], maps: list[IndexingMap], path: list[Move]) -> list[Move]:
    """Return the cheapest path that replaces consecutive ops of `path` by single equal ops.

    The cheapest one writes the fewest elements, then has the fewest ops.

    Args:
        types: Type of the source, then of each op's result.
        maps: Map of each op from an index of its result to an index of its operand.
        path: The ops.
    """
    # Dynamic programming over end positions: `best[end]` is the cheapest path up to `end`. Its
    # last op replaces a run of at most `MOST_WINDOW` ops, which is composed backwards.
    best: list[tuple[int, int, list[Move]]] = [(0, 0, [])]
    for end in range(1, len(types)):
        here = IndexingMap.identity(types[end].shape)
        ways = []
        for begin in range(end - 1, max(-1, end - 1 - MOST_WINDOW), -1):
            wider = composed(here, maps[begin])
            if wider is None:
                break
            here = wider
            cost, ops = _window(types[begin], types[end], here, path[begin:end])
            before = best[begin]
            ways.append((before[0] + cost, before[1] + len(ops), before[2] + ops))
        best.append(min(ways, key=lambda way: way[:2]))
    return best[-1][2]


def _window(
    source: TensorType, output: TensorType, m: IndexingMap, path: list[Move]
) -> tuple[int, list[Move]]:
    """Return the cost of consecutive ops, in elements written, and the ops that replace them.

    Args:
        source: Type before the first of the ops.
        output: Type after the last one.
        m: Map from an index of the output to an index of the source.
        path: The ops.
    """
    judged = judge(m, source, output)
    if judged.kind.is_free:
        return 0, moved(judged, source, output)
    size = output.num_elements
    if len(path) == 1:
        return size, path
    if judged.kind is Kind.TRANSPOSE:
        return size, moved(judged, source, output)
    op = single_op(m, source.shape, output.shape)
    if op is not None:
        return size, [Move(op, output.shape, output.layout)]
    return size * len(path), path


# --------------------------------------------------------------------------------------------------
# Tests of rewritten chains: both programs run on numbered elements.


MOST_ELEMENTS: Final = 1 << 20
"""Maximum number of elements of all values of a program that is executed."""


class Rewriting(Struct, frozen=True):
    """A shorter program for a chain.

    Attributes:
        text: The program in HLO, with the chain's sources as parameters; empty if none is shorter,
            or HLO cannot express it.
        before: The chain as a program in HLO.
        checked: `run` if both programs were executed and gave equal results; `proved` if they were
            not executed.
        reason: Why there is no program, or why it was not executed.
    """

    text: str = ""
    before: str = ""
    checked: str = ""
    reason: str = ""


def rewrite(chain: Chain) -> Rewriting:
    """Return a shorter program, parsed from its text and executed together with the chain.

    Programs whose values have more than `MOST_ELEMENTS` elements are not executed.

    Raises:
        AssertionError: The results differ, which is a defect of this module.
    """
    try:
        found, old = rewritten(chain), chain_program(chain)
        before = print_hlo(old, style="short")
        if found is None:
            return Rewriting(before=before, reason="nothing shorter is known")
        text = print_hlo(found, style="short")
        new = parse_hlo(text)
        values = [ins.type for module in (old, new) for ins in module.entry]  # reads all of it
        size = sum([type_.num_elements for type_ in values if isinstance(type_, TensorType)])
    except HloscopeError as error:
        return Rewriting(reason=f"HLO cannot say it: {error.message}")
    if size > MOST_ELEMENTS:
        return Rewriting(text, before, "proved")
    arguments = [numbered(p.type) for p in old.entry.parameters]
    by_name = dict(zip([p.name for p in old.entry.parameters], arguments, strict=True))
    try:
        expected = call(old, arguments)
        result = call(new, [by_name[p.name] for p in new.entry.parameters])
    except HloscopeError as error:
        return Rewriting(text, before, "proved", f"not run: {error.message}")
    assert same_values(expected, result), f"a rewriting is wrong:\n{before}\n{text}"
    return Rewriting(text, before, "run")


def numbered(type_: Any) -> Array:
    """Return an array of the type whose elements are their own row-major positions.

    Positions beyond the range of the element type wrap around.
    """
    assert isinstance(type_, TensorType)
    numbers = np.arange(type_.num_elements, dtype=np.int64)
    if type_.element.kind == "pred":
        numbers %= 2
    elif type_.element.bits < 8:
        numbers %= 1 << (type_.element.bits - 1)
    with np.errstate(all="ignore"):
        return numbers.astype(dtype_of(type_.element)).reshape(type_.shape)


def same_values(a: Any, b: Any) -> bool:
    """Are two arrays equal bit by bit, with all NaNs equal?"""
    one, other = np.asarray(a), np.asarray(b)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.tobytes() == other.tobytes():
        return True
    with np.errstate(all="ignore"):
        nans = (one != one) & (other != other)
        return bool(np.all((one == other) | nans))
