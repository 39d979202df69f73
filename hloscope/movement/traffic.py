"""Bytes that a program moves, and movement past broadcasts and reductions that reduces them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from msgspec import Struct

from hloscope.affine import Dim, Expr, ExprLike, Range, Var, substitute, variables
from hloscope.errors import HloscopeError
from hloscope.hlo_parser import print_hlo
from hloscope.indexing import IndexingMap, prove_equal
from hloscope.ir import Computation, Instruction, TensorType, array_bytes
from hloscope.movement.chains import Chain
from hloscope.movement.drafts import ProgramBuilder, moved
from hloscope.movement.flow import Flow, computes, is_array, moves, only_map
from hloscope.movement.verdicts import Judgement, Kind, judge
from hloscope.movement.walking import Leaf
from hloscope.ops import (
    Bitcast,
    BroadcastInDim,
    Constant,
    Fusion,
    GetTupleElement,
    Parameter,
    Reduce,
    Tuple,
)
from hloscope.simplifier import PROVED, Proof

# --------------------------------------------------------------------------------------------------
# Bytes that a program reads and writes only to move data.
#
# A kernel is an instruction outside of fused computations, or a fusion.  A kernel of movement only
# moves elements: every element of its result is an element of an operand.  So it writes its result,
# and reads at most as many elements of each operand as the operand or the result has.


_INSIDE: Final = (Parameter, Constant, Tuple, GetTupleElement)
"""Ops that move nothing, but that a kernel may contain which only moves elements."""
_VIEWS: Final = ("reshape", "bitcast", "transpose")
"""Ops that a compiler replaces by a bitcast if their layouts allow it.

A copy is not among them: it makes a buffer, whatever its layout.
"""


def bytes_of(ins: Instruction) -> int:
    """Return the bytes of an array in memory, without padding."""
    found = array_bytes(ins.type)
    assert found is not None
    return found.data


def memory_space(ins: Instruction) -> int:
    """Return the memory space of an array; 0 is the main memory."""
    layout = ins.type.layout if isinstance(ins.type, TensorType) else None
    return 0 if layout is None else layout.memory_space


def is_view(step: Instruction) -> bool:
    """Does a reshape, bitcast or transpose leave every element at its address?"""
    if isinstance(step.op, Bitcast):
        return True
    if not moves(step) or step.op.name not in _VIEWS:
        return False
    if memory_space(step) != memory_space(step.operands[0]):
        return False
    m = only_map(step)
    here, there = step.type, step.operands[0].type
    assert isinstance(here, TensorType)
    assert isinstance(there, TensorType)
    return m is not None and judge(m, there, here).kind.is_free


def bytes_moved_by(ins: Instruction) -> int:
    """Return the bytes that an instruction reads and writes to move elements; 0 for a view."""
    if is_view(ins):
        return 0
    written = bytes_of(ins)
    operands = dict.fromkeys(ins.operands)
    return written + sum([min(written, bytes_of(operand)) for operand in operands])


class Traffic:
    """Kernels of a module, and the bytes of the kernels that only move data."""

    def __init__(self, flow: Flow) -> None:
        self._flow: Final = flow
        # Several chains lead through a kernel, and each plan asks for its traffic again.
        self._kernels: Final[dict[Computation, Instruction | None]] = {}
        self._plain: Final[dict[int, bool]] = {}
        self._moved: Final[dict[Instruction, int]] = {}

    def kernel_of(self, value: Instruction) -> Instruction:
        """Return the kernel that computes a value: the outermost fusion around it, or itself.

        The value stands for its instruction.
        """
        home = self._flow.home(value)
        if home is None:
            return value
        if home not in self._kernels:
            self._kernels[home] = self._fusion_around(home)
        return self._kernels[home] or value

    def _fusion_around(self, home: Computation) -> Instruction | None:
        """Return the outermost fusion that contains a computation; `None` without one."""
        found: Instruction | None = None
        at: Computation | None = home
        while at is not None and self._flow.is_fused(at):
            found = self._flow.caller(at)
            at = None if found is None else self._flow.home(found)
        return found

    def only_moves(self, kernel: Instruction) -> bool:
        """Does a kernel only move elements, and at least one byte?"""
        return self.moved(kernel) > 0

    def moved(self, kernel: Instruction) -> int:
        """Return the bytes that a kernel reads and writes if it only moves data; 0 for others.

        Each operand counts at most as many bytes as the results.
        """
        known = self._moved.get(kernel)
        if known is None:
            known = 0
            if not isinstance(kernel.op, Fusion):
                known = bytes_moved_by(kernel) if moves(kernel) else 0
            elif len(kernel.calls) == 1 and self._fuses_movement(kernel.calls[0]):
                written = self.written(kernel)
                operands = dict.fromkeys(map(self._flow.source, kernel.operands))
                read = [min(written, bytes_of(o)) for o in operands if is_array(o)]
                known = written + sum(read)
            self._moved[kernel] = known
        return known

    def written(self, kernel: Instruction) -> int:
        """Return the bytes of a kernel's results."""
        return sum([bytes_of(value) for value in self.outputs(kernel) if is_array(value)])

    def all_bytes(self, kernel: Instruction) -> int:
        """Return the bytes of all operands and results of a kernel."""
        values = [*dict.fromkeys(map(self._flow.source, kernel.operands)), *self.outputs(kernel)]
        return sum([bytes_of(value) for value in values if is_array(value)])

    def outputs(self, kernel: Instruction) -> tuple[Instruction, ...]:
        """Return the values that a kernel returns."""
        if not isinstance(kernel.op, Fusion) or len(kernel.calls) != 1:
            return (kernel,)
        found = self._flow.results(kernel.calls[0])
        return tuple(dict.fromkeys(map(self._flow.source, found)))

    def _fuses_movement(self, computation: Computation) -> bool:
        """Does a fused computation only move elements?"""
        number = self._flow.structure_ids.number(computation)
        known = self._plain.get(number)
        if known is None:
            inside = [ins for ins in computation if not isinstance(ins.op, _INSIDE)]
            known = all([isinstance(i.op, Bitcast) or moves(i) for i in inside])
            known = known and any([is_array(i) for i in inside])
            self._plain[number] = known
        return known

    def movement_in(self, computation: Computation) -> Iterator[Instruction]:
        """Yield the kernels of a computation that only move data."""
        return (ins for ins in computation if self.only_moves(ins))


# --------------------------------------------------------------------------------------------------
# Movement past broadcasts and reductions, where fewer bytes are moved.
#
# A movement M commutes with an op if M keeps the op's dimensions apart from the others.  *Before a
# broadcast*: `M(broadcast(x)) = broadcast'(M'(x))`, if the dimensions of M's result that x does not
# fill are whole dimensions.  *After a reduction*: `reduce(M(x)) = M'(reduce'(x))`, if the reduced
# elements are whole dimensions of x.  Each result then reduces the same elements, once each,
# perhaps in another order, which can change the rounding of a sum.


ONE_TO_ONE: Final = (Kind.NO_OP, Kind.BITCAST, Kind.TRANSPOSE)
"""Kinds of movement that keep every element exactly once; `moved` returns their ops."""


class Exchange(Struct, frozen=True):
    """A chain's movement exchanged with a broadcast or reduction, or why that is impossible.

    The movement comes before a broadcast, or after a reduction, so that it moves fewer bytes.

    Attributes:
        op: The broadcast or reduction.
        judged: Verdict on the movement on the other side of the op; `None` if there is none.
        before: Bytes that the movement writes now.
        after: Bytes that the movement writes on the other side of the op.
        proof: Proof that the same elements are read.
        text: The exchanged program in HLO; its parameters are the source, and the initial value of
            a reduction.
        reason: Why they cannot be exchanged; empty if they can.
    """

    op: Instruction
    judged: Judgement | None = None
    before: int = 0
    after: int = 0
    proof: Proof = PROVED
    text: str = ""
    reason: str = ""

    @property
    def is_reduction(self) -> bool:
        """Is the op a reduction?"""
        return isinstance(self.op.op, Reduce)


def exchanges_of(chain: Chain) -> list[Exchange]:
    """Return a chain's movement exchanged with broadcasts in it and reductions of its result.

    An entry that is impossible has the reason.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> from hloscope.movement.savings import chains_of
    >>> from hloscope.movement.flow import Flow
    >>> module = parse_hlo('''
    ... add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ... ENTRY e {
    ...   p = f32[64,8] parameter(0)
    ...   zero = f32[] constant(0)
    ...   t = f32[8,64] transpose(p), dimensions={1,0}
    ...   ROOT s = f32[8] reduce(t, zero), dimensions={1}, to_apply=add
    ... }''')
    >>> chain, = chains_of(Flow(module))
    >>> found, = exchanges_of(chain)
    >>> str(found.judged.kind), found.before, found.after
    ('no-op', 2048, 0)
    """
    if len(chain.main) != 1 or chain.sink in [leaf.value for leaf in chain.leaves]:
        return []
    leaf = chain.main[0]
    if len(leaf.maps) != 1 or not chain.type.num_elements or any(map(computes, chain.steps)):
        return []
    return [*_before_broadcasts(chain, leaf), *_after_reductions(chain, leaf)]


def _before_broadcasts(chain: Chain, leaf: Leaf) -> Iterator[Exchange]:
    """Yield the exchange in which a chain's movement comes before the chain's first broadcast.

    Nothing is yielded if no other op follows the broadcast, or if the chain is free or one
    transpose.

    Args:
        chain: The chain.
        leaf: The chain's source.
    """
    found = [step for step in chain.steps[:-1] if isinstance(step.op, BroadcastInDim)]
    m = leaf.maps[0]
    if not found or m.constraints or chain.kind is not Kind.MOVEMENT:
        return
    op, output = found[0], chain.type
    # The dimensions that the source fills; the others repeat its elements. Each must be whole,
    # else the movement mixes both.
    filled = sorted({v.index for e in m.results for v in variables(e) if isinstance(v, Dim)})
    sizes = tuple([output.shape[d] for d in filled])
    if prod(sizes) != leaf.type.num_elements:
        split = ", ".join(f"d{d}" for d in filled)
        reason = f"dimensions {split} of {chain.sink.name} are broadcast in part only"
        yield Exchange(op, reason=reason)
        return
    new: dict[Var, ExprLike] = {Dim(d): Dim(k) for k, d in enumerate(filled)}
    inner = IndexingMap.of_sizes(sizes, (), [substitute(e, new) for e in m.results])
    between = TensorType(output.element, sizes)
    judged = judge(inner, leaf.type, between)
    if judged.kind not in ONE_TO_ONE:
        yield Exchange(op, reason=f"what would move before it is {judged.kind}")
        return
    spread = IndexingMap.of_sizes(output.shape, (), [Dim(d) for d in filled])
    proof = prove_equal([m], [spread.compose(inner).simplify()])
    draft = ProgramBuilder()
    value = draft.parameter(leaf.value.name, leaf.type)
    value = draft.move(value, *moved(judged, leaf.type, between))
    root = draft.add("broadcast", BroadcastInDim(tuple(filled)), output, value)
    after = bytes_of(chain.sink) + (0 if judged.kind.is_free else bytes_of(leaf.value))
    yield _exchange(op, judged, _written(chain), after, proof, draft, root)


def _after_reductions(chain: Chain, leaf: Leaf) -> Iterator[Exchange]:
    """Yield the exchanges in which a chain's movement comes after a reduction of its result.

    Nothing is yielded if the result has users other than reductions.

    Args:
        chain: The chain.
        leaf: The chain's source.
    """
    readers = chain.flow.users(chain.sink)
    if chain.flow.is_returned(chain.sink) or chain.kind not in ONE_TO_ONE:
        return
    if not readers or not all(_reduces(chain, reader) for reader in readers):
        return
    for reader in readers:
        yield _after(chain, leaf, reader)


def _reduces(chain: Chain, reader: Instruction) -> bool:
    """Is the user a reduction of the chain's result alone?"""
    return (
        isinstance(reader.op, Reduce)
        and len(reader.operands) == 2
        and chain.flow.source(reader.operands[0]) is chain.sink
        and isinstance(reader.type, TensorType)
    )


def _after(chain: Chain, leaf: Leaf, reader: Instruction) -> Exchange:
    """Exchange a chain's movement with a reduction of its result: reduce first, then move.

    The returned object has the new program and the bytes, or the reason why it is impossible.

    Args:
        chain: The chain.
        leaf: The chain's source.
        reader: The reduction.
    """
    assert isinstance(reader.op, Reduce)
    assert isinstance(reader.type, TensorType)
    m, output = leaf.maps[0], chain.type
    reduced = {Dim(d) for d in reader.op.dimensions}
    kept = [Dim(d) for d in range(output.rank) if Dim(d) not in reduced]
    gone: list[int] = []
    results: list[Expr] = []
    number: dict[Var, ExprLike] = {d: Dim(k) for k, d in enumerate(kept)}
    for j, result in enumerate(m.results):
        used = set(variables(result))
        # A source dimension that depends on reduced and on kept dimensions would be reduced in
        # part.
        if used & reduced and used - reduced:
            reason = f"dimension {j} of {leaf.value.name} is reduced in part only"
            return Exchange(reader, reason=reason)
        if used & reduced:
            gone.append(j)
        else:
            results.append(substitute(result, number))
    if prod([leaf.type.shape[j] for j in gone]) != prod([output.shape[d.index] for d in reduced]):
        return Exchange(reader, reason=f"the reduced dimensions are not whole in {leaf.value.name}")
    rest = tuple([size for j, size in enumerate(leaf.type.shape) if j not in gone])
    between = TensorType(reader.type.element, rest)
    judged = judge(IndexingMap.of_sizes(reader.type.shape, (), results), between, reader.type)
    if judged.kind not in ONE_TO_ONE:
        return Exchange(reader, reason=f"what would move after it is {judged.kind}")
    # The proof compares what each result reads: the old reduction over the chain's result, and the
    # new one over whole source dimensions.
    runs = {Dim(d): Range(k) for k, d in enumerate(reader.op.dimensions)}
    sizes = [output.shape[d] for d in reader.op.dimensions]
    old = [substitute(result, number | runs) for result in m.results]
    left = iter(results)
    new = [Range(gone.index(j)) if j in gone else next(left) for j in range(leaf.type.rank)]
    whole = [leaf.type.shape[j] for j in gone]
    before, after = [
        IndexingMap.of_sizes(reader.type.shape, ranges, read)
        for ranges, read in ((sizes, old), (whole, new))
    ]
    proof = prove_equal([before], [after])
    draft, start = ProgramBuilder(), chain.flow.source(reader.operands[1])
    assert isinstance(start.type, TensorType)
    inputs = draft.parameter(leaf.value.name, leaf.type), draft.parameter(start.name, start.type)
    value = draft.add(reader.name, Reduce(tuple(gone)), between, *inputs, calls=reader.calls)
    root = draft.move(value, *moved(judged, between, reader.type))
    size = 0 if judged.kind.is_free else bytes_of(reader)
    return _exchange(reader, judged, _written(chain), size, proof, draft, root)


def _written(chain: Chain) -> int:
    """Return the bytes that a chain's moving kernels write."""
    traffic = Traffic(chain.flow)
    kernels = dict.fromkeys(map(traffic.kernel_of, chain.steps))
    return sum([traffic.written(kernel) for kernel in kernels if traffic.only_moves(kernel)])


def _exchange(
    op: Instruction,
    judged: Judgement,
    before: int,
    after: int,
    proof: Proof,
    draft: ProgramBuilder,
    root: Instruction,
) -> Exchange:
    """Return an exchange with its program, or the reason why there is none.

    Args:
        op: The broadcast or reduction.
        judged: Verdict on the movement on the other side.
        before: Bytes that the movement writes now.
        after: Bytes that it writes on the other side.
        proof: Proof that the same elements are read.
        draft: The exchanged program.
        root: Its result.
    """
    if not proof.is_proved:
        return Exchange(op, reason=f"not proved: {proof.reason}", proof=proof)
    try:
        text = print_hlo(draft.module("passed", root), style="short")
    except HloscopeError as error:
        return Exchange(op, judged, before, after, proof, reason=error.message)
    return Exchange(op, judged, before, after, proof, text)
