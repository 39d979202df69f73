"""Results that may, or must, take the memory of an operand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from hloscope.cost.buffers.schedule import tree_of
from hloscope.hlo_parser import OPERAND_ALIASING, ShapeIndex, aliasing_in
from hloscope.ir import ByOp, Instruction, Op, TensorType, TupleType, Type, storage_bits
from hloscope.ops import (
    ELEMENTWISE,
    AllReduce,
    AsyncStart,
    Bitcast,
    BitcastConvert,
    Case,
    CollectiveBroadcast,
    CollectivePermute,
    Constant,
    Convolution,
    CustomCall,
    Dot,
    DotGeneral,
    DynamicUpdateSlice,
    Elementwise,
    Fusion,
    GetTupleElement,
    Map,
    Parameter,
    RaggedAllToAll,
    Reduce,
    Scatter,
    SetDimensionSize,
    Sort,
    TriangularSolve,
    Tuple,
    While,
)

# --------------------------------------------------------------------------------------------------
# Results that may take the memory of an operand that is not needed any more.
#
# At the moment of an instruction an operand that ends there and a result that starts there may
# share memory, if the instruction reads each element of the operand no later than it writes that
# element of the result. Backends add their own rules, in `BACKEND_ROWS`.
#
# Source: XLA `HloDataflowAnalysis::CanShareOperandBufferWithUser`, `AliasInfo::MayAlias`,
# `CanShareBufferHint` and `FusionCanShareBufferHint` of XLA:GPU.


_COPY: Final = ELEMENTWISE["copy"]


FusedUsers: TypeAlias = Mapping[Instruction, Sequence[Instruction]]


class ReuseCandidate(NamedTuple):
    """An operand whose live range ends at the instruction where a result's range starts.

    Attributes:
        user: The instruction that reads the operand and writes the result.
        operand: Number of the operand.
        inside: Shape index of the part of the operand.
        output: Shape index of the part of the result.
        operand_type: Type of that part of the operand.
        result_type: Type of that part of the result.
        users: The users of each value inside a fusion, by `fused_users`; empty for other ops.
    """

    user: Instruction
    operand: int
    inside: ShapeIndex
    output: ShapeIndex
    operand_type: Type
    result_type: Type
    users: FusedUsers


class MayShareRow(NamedTuple):
    """A rule that lets results of some ops take the memory of an operand.

    Attributes:
        ops: The classes of ops.
        is_allowed: Returns whether the rule lets a candidate's result take its operand's memory.
        about: The rule as text.
        same_type: Must operand and result have the same element type, sizes and layout?
    """

    ops: tuple[type[Op], ...]
    is_allowed: Callable[[ReuseCandidate], bool]
    about: str
    same_type: bool = True


def _only_user_operand(candidate: ReuseCandidate, number: int) -> bool:
    """Does the instruction use the operand of `candidate` only once, as its operand `number`?"""
    value = candidate.user.operands[candidate.operand]
    return [k for k, one in enumerate(candidate.user.operands) if one is value] == [number]


def _updated(candidate: ReuseCandidate) -> bool:
    return any(
        (one.operand, one.inside, one.output)
        == (candidate.operand, candidate.inside, candidate.output)
        for one in in_place(candidate.user)
    )


def _sorted(candidate: ReuseCandidate) -> bool:
    if len(candidate.user.operands) == 1:
        return True
    return _is_same_place(candidate) and _only_user_operand(candidate, candidate.operand)


def _is_same_place(candidate: ReuseCandidate) -> bool:
    """Is the result the one of its operand: result k of operand k, or the only one?"""
    return len(candidate.user.operands) == 1 or candidate.output == (candidate.operand,)


def _is_elementwise(ins: Instruction, operand: Instruction) -> bool:
    """Does each result element depend only on the element of `operand` at the same index?"""
    if isinstance(ins.op, DynamicUpdateSlice):
        return ins.operands[0] is operand
    return isinstance(ins.op, Elementwise | BitcastConvert | Map)


def _fused(candidate: ReuseCandidate) -> bool:
    """Are all ops of a fusion that lead from the operand to the root element-wise?

    Tuples are allowed in loop and input fusions. An output fusion may instead add the operand to a
    product.
    """
    op = candidate.user.op
    assert isinstance(op, Fusion)
    if op.kind == "kOutput" and _adds_to_product(candidate):
        return True
    passed = (Tuple,) if op.kind in ("kLoop", "kInput") else ()
    return all(
        isinstance(user.op, passed) or _is_elementwise(user, value)
        for value, user in _paths(candidate)
    )


def _paths(
    candidate: ReuseCandidate, until: tuple[type[Op], ...] = ()
) -> Iterator[tuple[Instruction, Instruction]]:
    """Yield `(value, user)` for each value in the fusion that depends on the operand.

    A user of a class in `until` is yielded, but not followed further. Nothing is yielded if the op
    of `candidate` is not a fusion.
    """
    fused = candidate.user.calls[0] if candidate.user.calls else None
    if fused is None or candidate.operand >= len(fused.parameters):
        return
    stack, seen = [fused.parameters[candidate.operand]], set[Instruction]()
    while stack:
        value = stack.pop()
        for user in candidate.users.get(value, ()):
            yield value, user
            if user not in seen and not isinstance(user.op, until):
                seen.add(user)
                stack.append(user)


def fused_users(ins: Instruction) -> FusedUsers:
    """Return the users of each value inside a fusion; empty for other ops."""
    found: dict[Instruction, list[Instruction]] = {}
    for inner in ins.calls[0] if isinstance(ins.op, Fusion) and ins.calls else ():
        for operand in dict.fromkeys(inner.operands):
            found.setdefault(operand, []).append(inner)
    return found


def _adds_to_product(candidate: ReuseCandidate) -> bool:
    """Does the fusion add the operand to a product or convolution, and use it nowhere else?"""
    root = candidate.user.calls[0].root
    if not isinstance(root.op, ELEMENTWISE["add"]):
        return False
    products = [k for k, o in enumerate(root.operands) if isinstance(o.op, _PRODUCTS)]
    paths = [*_paths(candidate)]
    if not products or len(paths) != 1:
        return False
    value, user = paths[0]
    return user is root and root.operands[1 - products[0]] is value


_PRODUCTS: Final = (Dot, DotGeneral, Convolution)


MAY_SHARE: Final = (
    MayShareRow((While, Case), lambda _: True, "the result of a loop or of branches: any operand"),
    MayShareRow((Sort,), _sorted, "result k of a sort: operand k, if it is given once"),
    MayShareRow((DynamicUpdateSlice, Scatter), _updated, "the array that is updated"),
    MayShareRow(
        (TriangularSolve,), lambda c: _only_user_operand(c, 1), "operand 1, if it is given once"
    ),
    MayShareRow(
        (Fusion,),
        _fused,
        "loop and input fusions: only element-wise ops and tuples from the parameter to the root; "
        "others: only element-wise ops; output fusions: what is added to a product",
    ),
    MayShareRow(
        (Elementwise, BitcastConvert, Map),
        lambda c: not isinstance(c.user.op, _COPY),
        "any operand of an element-wise op",
    ),
)
"""Rules that let a result take the memory of an operand, for every backend.

Copies never do: XLA removes those that are not needed before it assigns memory.
"""


# ------------------------------------------------------------------------------------- backends


def _bias(candidate: ReuseCandidate) -> bool:
    op = candidate.user.op
    assert isinstance(op, CustomCall)
    if op.call_target_name in _LT_MATMULS:
        return candidate.operand == 2 and candidate.output in ((), (0,))
    if op.call_target_name == "__cusolver$cholesky":
        return candidate.operand == 0 and candidate.output == (0,)
    return False


_LT_MATMULS: Final = ("__cublas$lt$matmul", "__cublas$lt$matmul$f8")


def _fused_on_gpu(candidate: ReuseCandidate) -> bool:
    """Do only element-wise ops and bitcasts, in one element order, lead from operand to root?

    The two arrays have equal numbers of elements of equal width; sizes and element types may
    differ. Ops after the reduction of an input fusion do not matter: its emitter reads all of its
    input before it writes.
    """
    given, made = candidate.operand_type, candidate.result_type
    if not isinstance(given, TensorType) or not isinstance(made, TensorType):
        return False
    if None in given.most or None in made.most or given.num_elements != made.num_elements:
        return False
    if storage_bits(given) != storage_bits(made):
        return False
    op = candidate.user.op
    assert isinstance(op, Fusion)
    ends = (Reduce,) if op.kind == "kInput" else ()
    return all(
        isinstance(user.op, (Tuple, Bitcast, *ends))
        or (_is_elementwise(user, value) and not isinstance(user.op, _COPY))
        for value, user in _paths(candidate, until=ends)
    )


def _fused_sort(candidate: ReuseCandidate) -> bool:
    """Is the fusion a sort that reads the operand once, at the position of the result?"""
    if not _is_sort(candidate.user) or candidate.operand >= len(candidate.user.calls[0].parameters):
        return False
    parameter = candidate.user.calls[0].parameters[candidate.operand]
    number = candidate.output[0] if candidate.output else 0
    sorted_once = [
        k for k, one in enumerate(candidate.user.calls[0].root.operands) if one is parameter
    ]
    return sorted_once == [number]


def _is_sort(ins: Instruction) -> bool:
    return isinstance(ins.op, Fusion) and bool(ins.calls) and isinstance(ins.calls[0].root.op, Sort)


BACKEND_ROWS: Final[Mapping[str, tuple[MayShareRow, ...]]] = {
    "gpu": (
        MayShareRow(
            (AllReduce, CollectiveBroadcast), _is_same_place, "result k of NCCL's call: operand k"
        ),
        MayShareRow(
            (CustomCall,),
            _bias,
            "cublasLt: the matrix that is added, operand 2; cuSolver's Cholesky: operand 0",
        ),
        MayShareRow(
            (Fusion,),
            _fused_on_gpu,
            "element-wise ops and bitcasts from the parameter to the root, or to the reduction of "
            "an input fusion; types may differ where the numbers of elements and their widths are "
            "the same",
            same_type=False,
        ),
        MayShareRow(
            (Fusion,), _fused_sort, "result k of a fused sort: operand k, if it is sorted once"
        ),
    ),
    "cpu": (),
}
"""Further rules for each backend, as `cost.target_of` names it.

The rules of other backends are unknown: there a lower bound may be too high by results that the
backend puts in the memory of an operand.
"""


def is_same_for_all_outputs(ins: Instruction) -> bool:
    """Can all results of equal type of an instruction take the memory of the same operands?"""
    return isinstance(ins.op, Fusion | Elementwise) and not _is_sort(ins)


def may_share(candidate: ReuseCandidate, backend: str) -> bool:
    """May a part of the result take the memory of a part of the operand?

    Args:
        candidate: The parts of operand and result.
        backend: `gpu`, `cpu`, or another backend, whose further rules are unknown.
    """
    user, operand = candidate.user, candidate.user.operands[candidate.operand]
    if isinstance(operand.op, Constant):
        return False
    is_same = is_same_storage(candidate.operand_type, candidate.result_type)
    return any(
        isinstance(user.op, row.ops)
        and (is_same or not row.same_type)
        and row.is_allowed(candidate)
        for row in (*MAY_SHARE, *BACKEND_ROWS.get(backend, ()))
    )


def is_same_storage(a: Type, b: Type) -> bool:
    """Do two arrays have the same element type, sizes and layout?

    A missing layout counts as row-major.

    >>> from hloscope.hlo_parser import parse_type
    >>> is_same_storage(parse_type("f32[2,3]"), parse_type("f32[2,3]{1,0}"))
    True
    >>> is_same_storage(parse_type("f32[2,3]{0,1}"), parse_type("f32[2,3]{1,0}"))
    False
    """
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return False
    if a is b or a == b:
        return True
    if a.element != b.element or a.sizes != b.sizes or a.each_bound != b.each_bound:
        return False
    return _layout_key(a) == _layout_key(b)


def _layout_key(type: TensorType) -> tuple[object, ...]:
    layout = type.layout
    if layout is None:
        return tuple(reversed(range(type.rank))), (), 0, 0, ()
    bits = layout.element_bits
    return layout.minor_to_major, layout.tiles, layout.memory_space, bits, layout.extras


# --------------------------------------------------------------------------------------------------
# Results that must take the memory of an operand: ops that update in place, and fusions of them.
#
# Source: XLA `AliasInfo::GetInPlaceInputOutputPairs`,
# `GetFusionInstructionInPlaceInputOutputPairs`.


class InPlace(NamedTuple):
    """A part of a result that takes the memory of a part of an operand.

    Attributes:
        operand: Number of the operand.
        inside: Shape index of the part of the operand.
        output: Shape index of the part of the result.
    """

    operand: int
    inside: ShapeIndex
    output: ShapeIndex


InPlaceRule: TypeAlias = Callable[[Instruction], Iterator[InPlace]]


class InPlaceRow(NamedTuple):
    """A rule about ops that update operands in place.

    Attributes:
        ops: The classes of ops.
        pairs: Yields parts of operands with the parts of the result that take their memory.
        about: The rule as text.
    """

    ops: tuple[type[Op], ...]
    pairs: InPlaceRule
    about: str


def _operand(number: int) -> InPlaceRule:
    def pairs(_: Instruction) -> Iterator[InPlace]:
        yield InPlace(number, (), ())

    return pairs


def _each(count: int) -> Iterator[InPlace]:
    """Yield operand k with element k of the result, for k below `count`.

    A single operand is paired with the whole result.
    """
    if count == 1:
        yield InPlace(0, (), ())
        return
    yield from (InPlace(k, (), (k,)) for k in range(count))


def _permuted(ins: Instruction, output: ShapeIndex = ()) -> Iterator[InPlace]:
    """Yield the operand parts that a collective-permute with 4 operands overwrites.

    Such an op writes into operand 1. Each part is paired with the part of the result that takes its
    memory.

    Args:
        ins: The collective-permute.
        output: Shape index of the op's result in the value of `ins`.
    """
    if len(ins.operands) != 4:
        return
    yield InPlace(1, (), output)
    into = ins.operands[1].type
    if isinstance(into, TupleType):
        yield from (InPlace(1, (k,), (*output, k)) for k in range(len(into.elements)))


def _started(ins: Instruction) -> Iterator[InPlace]:
    assert isinstance(ins.op, AsyncStart)
    match ins.op.wrapped:
        case AllReduce():
            # NVSHMEM's all-reduce needs buffers of its own.
            if "nvshmem" not in (ins.extra("backend_config") or "").lower():
                yield from _each(len(ins.operands))
        case CollectivePermute():
            yield from _permuted(ins, (1,))
        case _:
            yield from _declared(ins)


def _declared(ins: Instruction) -> Iterator[InPlace]:
    """Yield the pairs that the attribute `output_to_operand_aliasing` declares."""
    for entry in aliasing_in(getattr(ins.op, "settings", ()), OPERAND_ALIASING):
        if entry.output is not None and entry.taken < len(ins.operands):
            yield InPlace(entry.taken, entry.inside, entry.output)


def _fused_in_place(ins: Instruction) -> Iterator[InPlace]:
    """Yield the outputs of a fusion that an op inside updates in place in a parameter.

    Declared pairs are yielded as well. An output is followed to its source through tuples and
    bitcasts; so is the source's operand, also through one nested fusion.
    """
    if ins.calls:
        for output in _leaves(ins):
            source, index = _followed(ins.calls[0].root, output)
            pair = next((one for one in in_place(source) if one.output == index), None)
            if pair is None:
                continue
            origin, inside = _followed(source.operands[pair.operand], pair.inside)
            if isinstance(origin.op, Fusion):
                nested = [one for one in in_place(origin) if one.output == inside]
                for one in nested[:1]:
                    origin, inside = _followed(origin.operands[one.operand], one.inside)
            if isinstance(origin.op, Parameter):
                yield InPlace(origin.op.number, inside, output)
    yield from _declared(ins)


def _leaves(ins: Instruction) -> Iterator[ShapeIndex]:
    """Yield the shape index of each array in a result."""
    tree = tree_of(ins.type)
    for index, type in zip(tree.indices, tree.types, strict=True):
        if not isinstance(type, TupleType):
            yield index


def _followed(ins: Instruction, index: ShapeIndex) -> tuple[Instruction, ShapeIndex]:
    """Return the instruction and shape index that a part of a value comes from.

    Tuples, their elements and bitcasts are followed.
    """
    while True:
        if isinstance(ins.op, Tuple) and index and index[0] < len(ins.operands):
            ins, index = ins.operands[index[0]], index[1:]
        elif isinstance(ins.op, GetTupleElement):
            index = (ins.op.index, *index)
            ins = ins.operands[0]
        elif isinstance(ins.op, Bitcast) and not index:
            ins = ins.operands[0]
        else:
            return ins, index


IN_PLACE: Final = (
    InPlaceRow((DynamicUpdateSlice,), _operand(0), "the result is operand 0, updated"),
    InPlaceRow(
        (Scatter,), lambda ins: _each(len(ins.operands) // 2), "result k is operand k, updated"
    ),
    InPlaceRow((SetDimensionSize,), _operand(0), "the result is operand 0 of another size"),
    InPlaceRow((RaggedAllToAll,), _operand(1), "the result is operand 1, updated"),
    InPlaceRow((CollectivePermute,), _permuted, "with 4 operands the result is operand 1, updated"),
    InPlaceRow(
        (AsyncStart,),
        _started,
        "all-reduce-start: result k is operand k, not for nvshmem; collective-permute-start with 4 "
        "operands: {1} is operand 1; else what `output_to_operand_aliasing` declares",
    ),
    InPlaceRow((CustomCall,), _declared, "what `output_to_operand_aliasing` declares"),
    InPlaceRow(
        (Fusion,),
        _fused_in_place,
        "an output that an op of this table makes of a parameter; what is declared",
    ),
)
"""Ops whose result must take the memory of an operand."""

_RULES: Final = ByOp[InPlaceRule]()
for _row in IN_PLACE:
    _RULES.add(*_row.ops)(_row.pairs)


def in_place(ins: Instruction) -> list[InPlace]:
    """Return the parts of an instruction's result that must take the memory of an operand.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> module = parse_hlo("ENTRY e { p = f32[8] parameter(0) u = f32[1] parameter(1) "
    ...     "i = s32[] parameter(2) ROOT d = f32[8] dynamic-update-slice(p, u, i) }")
    >>> in_place(module.entry.root)
    [InPlace(operand=0, inside=(), output=())]
    """
    rule = _RULES.find(ins.op)
    return [] if rule is None else [*rule(ins)]
