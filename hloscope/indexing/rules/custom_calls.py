"""Rules for custom calls whose meaning is known from the name of their target.

Most are an op of the language under a library's name, and use the rule of that op. Additional
operands of a matrix product or a convolution (bias, side input) and additional outputs (workspace,
error codes) get their own accesses. All other calls may read anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from hloscope.affine import Dim
from hloscope.errors import ParseError, UnsupportedError, VerifyError
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.convolution import ConvolutionMaps
from hloscope.indexing.rules.dependence import Bodies
from hloscope.indexing.rules.elementwise import broadcast_read, broadcast_write
from hloscope.indexing.rules.linalg import in_place
from hloscope.indexing.rules.registry import (
    NEVER,
    Direction,
    MapBuilder,
    all_output_sizes,
    dims,
    everything,
    exact,
    identity,
    input_to_output,
    leaves,
    lookup,
    output_to_input,
    over,
    sizes,
    unknown,
)
from hloscope.ir import Dims, Instruction, Op, TensorType, TupleType, Type, backend_config
from hloscope.ops import (
    NO_WINDOW,
    Cholesky,
    Convolution,
    CustomCall,
    Domain,
    DotDimensions,
    DotGeneral,
    Sort,
    TopK,
    TriangularSolve,
    may_be_one_size,
)
from hloscope.support.lazy import pattern

Config = Mapping[str, Any]


def _config(ins: Instruction) -> Config:
    assert isinstance(ins.op, CustomCall)
    return backend_config(ins.op.settings, ins.extras)


def _letter(config: Config, name: str) -> str:
    """Return the letter whose character code is the value of the setting `name`."""
    return chr(int(config[name]))


def _flag(config: Config, name: str) -> bool:
    return str(config.get(name, "false")).lower() == "true"


# Targets that are an op of the language under another name.


def _same(ins: Instruction) -> Op:
    return Domain()


def _top_k(ins: Instruction) -> Op:
    return TopK(all_output_sizes(ins)[0][-1])


def _cholesky(ins: Instruction) -> Op:
    config = _config(ins)
    is_lower = _letter(config, "uplo") == "L" if "uplo" in config else _flag(config, "lower")
    return Cholesky(is_lower)


def _is_lapack_cholesky(op: CustomCall) -> bool:
    """Is the call LAPACK's Cholesky, which leaves the other triangle unchanged?"""
    return op.call_target_name.endswith("potrf_ffi")


def _solve(ins: Instruction) -> Op:
    config = _config(ins)
    if "left_side" in config:
        return TriangularSolve(
            config["left_side"],
            config["lower"],
            config["unit_diagonal"],
            config["transpose_a"],
        )
    return TriangularSolve(
        _letter(config, "side") == "L",
        _letter(config, "uplo") == "L",
        _letter(config, "diag") == "U",
        {"N": "NO_TRANSPOSE", "T": "TRANSPOSE"}.get(_letter(config, "trans_x"), "ADJOINT"),
    )


def _gemm(ins: Instruction) -> Op:
    config = _config(ins)
    config = config.get("gemm_backend_config", config)
    numbers = config["dot_dimension_numbers"]
    names = ("lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting")
    return DotGeneral(
        DotDimensions(*(tuple(map(int, numbers.get(f"{n}_dimensions", ()))) for n in names))
    )


_OPS: Final[tuple[tuple[str, Callable[[Instruction], Op]], ...]] = (
    (r"Sharding|MoveTo(Host|Device)|annotate_device_placement|LayoutConstraint", _same),
    (r"TopK|__gpu\$TopK|mhlo\.topk", _top_k),
    (r"(lapack_[sdcz]|cusolver_)potrf_ffi|Cholesky", _cholesky),
    (r"lapack_[sdcz]trsm_ffi|__cublas\$triangularSolve", _solve),
    (r"__cublas\$(lt\$)?(gemm|matmul)", _gemm),
)
"""Patterns of target names, each with a function that returns the equivalent op of a call."""


def op_of_call(ins: Instruction) -> Op | None:
    """Return the equivalent op of a custom call, or `None`.

    The result is `None` if the target is unknown, the settings are unreadable, or the types do not
    match the op.
    """
    try:
        return _op_of(ins)
    except (ParseError, KeyError, ValueError):
        return None


def _op_of(ins: Instruction) -> Op | None:
    """Return the equivalent op of a custom call, or `None`.

    Raises:
        KeyError, ParseError or ValueError: The settings are unreadable.
    """
    assert isinstance(ins.op, CustomCall)
    for target, make in _OPS:
        if re.fullmatch(target, ins.op.call_target_name):
            try:
                op = make(ins)
            except IndexError:
                return None
            return op if _fits(ins, op) else None
    return None


def _fits(ins: Instruction, op: Op) -> bool:
    """Are the sizes of operands and results consistent with the op?"""
    inner = _as_op(ins, op)
    try:
        inferred = op.infer(tuple([operand.type for operand in inner.operands]))
    except VerifyError:
        return False
    made, declared = leaves(inferred), leaves(inner.type)
    return len(made) == len(declared) and all(map(_same_sizes, made, declared))


def _same_sizes(a: Type, b: Type) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return type(a) is type(b)
    return a.rank == b.rank and all(map(may_be_one_size, a.sizes, b.sizes))


# Convolutions of cuDNN.  The window and the labels are those of the forward convolution, whose
# arrays are numbered here 0 (input), 1 (kernel) and 2 (output).

CUDNN_ROLES: Final = {
    "__cudnn$convForward": (0, 1, 2),
    "__cudnn$convForwardGraph": (0, 1, 2),
    "__cudnn$convBiasActivationForward": (0, 1, 2),
    "__cudnn$convBackwardInput": (2, 1, 0),
    "__cudnn$convBackwardFilter": (0, 2, 1),
}
"""By target name, the roles of operand 0, operand 1 and the result.

Roles are arrays of the forward convolution: 0 (input), 1 (kernel), 2 (output).
"""


def _cudnn_map(ins: Instruction, here: int, there: int) -> IndexingMap:
    """Return the map from an element of one array of a cuDNN call to the elements of another.

    `here` is the source and `there` the target: 0 for operand 0, 1 for operand 1, 2 for the result.
    `_convolution_map` defines which elements correspond.
    """
    assert isinstance(ins.op, CustomCall)
    roles = CUDNN_ROLES[ins.op.call_target_name]
    arrays = [*(sizes(o.type) for o in ins.operands[:2]), all_output_sizes(ins)[0]]
    shapes = tuple(arrays[roles.index(role)] for role in range(3))
    return _convolution_map(
        forward_convolution(ins.op),
        shapes,
        (roles[here], roles[there]),
    )


def forward_convolution(call: CustomCall) -> Convolution:
    """Return the forward convolution on which a cuDNN call is based.

    Raises:
        ValueError: The call states no dimensions.
    """
    if call.dimensions is None:
        raise ValueError("a convolution has no dim_labels")
    window = call.window or NO_WINDOW
    return Convolution(window, call.dimensions, call.feature_group_count, call.batch_group_count)


def _convolution_map(
    op: Convolution, shapes: tuple[Dims, ...], roles: tuple[int, int]
) -> IndexingMap:
    """Return the map from an element of one array to the elements of another in a convolution.

    The output is mapped to the elements that it is computed from, the input or kernel to the output
    elements that it contributes to, or to the elements of the other one that it is multiplied by.

    Args:
        op: The forward convolution.
        shapes: Sizes of the input, the kernel and the output.
        roles: Source and target of the map: 0 (input), 1 (kernel) or 2 (output).
    """
    meeting = ConvolutionMaps(op, shapes, None)
    return {
        (2, 0): meeting.output_to_input,
        (2, 1): meeting.output_to_kernel,
        (0, 2): meeting.input_to_output,
        (1, 2): meeting.kernel_to_output,
        (0, 1): meeting.input_to_kernel,
        (1, 0): meeting.kernel_to_input,
    }[roles]()


def _output_feature(op: CustomCall) -> int:
    """Return the output feature dimension of the forward convolution.

    A bias has one element each.
    """
    return forward_convolution(op).dimensions.output_feature


# Factorisations: every element of a matrix of the same batch may be read.

_FACTORISATION: Final = pattern(
    r"(lapack_[sdcz]|lapack_ch|lapack_zh|cusolver_|cuda_)"
    r"(getrf|geqrf|orgqr|ungqr|gesdd|gesvd|gesvdj|syevd|heevd|geev|gees|sytrd|gehrd)_ffi"
    r"|cu_lu_pivots_to_permutation|hip_lu_pivots_to_permutation|Qr|Eigh|LuDecomposition"
)
_MATRIX = "any element of a matrix (or vector) of the same batch may matter"


def _batch_rank(ins: Instruction) -> int:
    """Return the number of leading dimensions with equal sizes in all operands and outputs."""
    rank = len(sizes(ins.operands[0].type))
    assert isinstance(ins.op, CustomCall)
    return max(0, rank - (1 if "pivots" in ins.op.call_target_name else 2))


def _same_batch(here: Dims, there: Dims, batch: int) -> Accesses:
    """Return the access to all elements with the same leading `batch` coordinates.

    `here` has the sizes of the array that the access starts from, `there` those of the accessed
    one.
    """
    at = MapBuilder(here)
    index = [*dims(batch), *[at.range(size) for size in there[batch:]]]
    return over(_MATRIX, at.map(index))


# Sizes known only at run time.  Operands of SliceToDynamic: an array and its sizes; outputs of
# PadToStatic: the same.

_RESIZED: Final = "SliceToDynamic", "PadToStatic"


def _keeps_bounds(ins: Instruction) -> bool:
    """Do operand 0 and result 0 have the same sizes, with bounds for dynamic ones?"""
    return sizes(ins.operands[0].type) == all_output_sizes(ins)[0]


# The k best elements of a line, where some may be missed. Operands: N arrays, then N initial
# values.

_APPROXIMATE = "which elements of a line are looked at is not known"


def _line_of(
    ins: Instruction, output: int, operand: int, bodies: Bodies, *, back: bool = False
) -> Accesses:
    """Return the access of an `ApproxTopK` from an output element to the operand's elements.

    From an array it reads all elements with the same index, except along `reduction_dim`; from an
    initial value, all elements. XLA sorts if `is_fallback` is set: then the access is exact, or
    empty if the sort does not use the operand. Otherwise it is a superset.

    Args:
        ins: The custom call.
        output: Number of the output.
        operand: Number of the operand.
        bodies: Dependences of the comparator.
        back: Return the inverse, from an operand element to the output.
    """
    config, count = _config(ins), len(ins.operands) // 2
    here, there = all_output_sizes(ins)[output], sizes(ins.operands[operand].type)
    axis, is_sorted = int(config["reduction_dim"]), _flag(config, "is_fallback")
    if is_sorted:  # XLA sorts the line, and takes the first k
        arrays = ins.operands[:count]
        whole = TupleType(tuple([array.type for array in arrays]))
        inner = Instruction(ins.name, whole, Sort(axis), arrays, ins.calls)
        if operand >= count or not _rule_of(inner, output, bodies)[operand]:
            return NEVER
    source, target = (there, here) if back else (here, there)
    at = MapBuilder(source)
    lines = [axis] if operand < count else range(len(target))
    map = at.map([at.range(n) if d in lines else Dim(d) for d, n in enumerate(target)])
    return exact(map) if is_sorted else over(_APPROXIMATE, map)


def _rule_of(ins: Instruction, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    """Return the accesses of each operand of `ins` by output number `output`, by its op's rule."""
    entry = lookup(Direction.OUTPUT_TO_INPUT, type(ins.op))
    assert entry is not None
    assert entry.rule is not None
    return entry.rule(ins, ins.op, output, *[bodies] * entry.has_bodies)


_UNKNOWN = "custom-call `{}`: may read anything"


def _known(
    op: CustomCall, answers: int, find: Callable[[], tuple[Accesses, ...] | None]
) -> tuple[Accesses, ...]:
    """Return the `answers` entries that `find` returns; all unknown if it knows none.

    `find` returns `None`, or raises an error if the settings of the call have an unknown form.
    """
    try:
        known = find()
    except (ParseError, KeyError, ValueError):
        known = None
    return (unknown(_UNKNOWN.format(op.call_target_name)),) * answers if known is None else known


@output_to_input(
    CustomCall,
    shared=False,
    precision=Precision.UNKNOWN,
    reason=_UNKNOWN.format("…"),
    bodies=True,
)
def _(ins: Instruction, op: CustomCall, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    return _known(op, len(ins.operands), partial(_reads, ins, op, output, bodies))


def _reads(
    ins: Instruction, op: CustomCall, output: int, bodies: Bodies
) -> tuple[Accesses, ...] | None:
    shapes = [sizes(operand.type) for operand in ins.operands]
    here = all_output_sizes(ins)[output]
    if _FACTORISATION.fullmatch(op.call_target_name):
        batch = _batch_rank(ins)
        return tuple(_same_batch(here, shape, batch) for shape in shapes)
    if op.call_target_name in CUDNN_ROLES:
        if output > 0:
            return (NEVER,) * len(shapes)
        feature = _output_feature(op)
        extra = [_epilogue(here, shape, feature, back=False) for shape in shapes[2:]]
        return (exact(_cudnn_map(ins, 2, 0)), exact(_cudnn_map(ins, 2, 1)), *extra)
    if op.call_target_name in _RESIZED:
        if not _keeps_bounds(ins):
            return None
        counts = [everything(here, shape) for shape in shapes[1:]]
        return (identity(here) if output == 0 else NEVER, *counts)
    if op.call_target_name == "ApproxTopK":
        return tuple([_line_of(ins, output, k, bodies) for k in range(len(shapes))])
    equal = _op_of(ins)
    if equal is None:
        return None
    if isinstance(equal, Cholesky) and output == 0 and _is_lapack_cholesky(op):
        return (in_place(here, equal),)
    if output > 0 and not isinstance(equal, TopK | Domain):
        if isinstance(equal, Cholesky):  # the error code
            return (_same_batch(here, shapes[0], len(shapes[0]) - 2),)
        return (NEVER,) * len(shapes)  # workspace
    found = _rule_of(_as_op(ins, equal), output, bodies)
    extra = [_epilogue(here, shape, len(here) - 1, back=False) for shape in shapes[len(found) :]]
    return (*found, *extra)


@input_to_output(
    CustomCall,
    shared=False,
    precision=Precision.UNKNOWN,
    reason=_UNKNOWN.format("…"),
    bodies=True,
)
def _(ins: Instruction, op: CustomCall, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    return _known(op, len(leaves(ins.type)), partial(_writes, ins, op, operand, bodies))


def _writes(
    ins: Instruction, op: CustomCall, operand: int, bodies: Bodies
) -> tuple[Accesses, ...] | None:
    here, outputs = sizes(ins.operands[operand].type), all_output_sizes(ins)
    rest = (NEVER,) * (len(outputs) - 1)
    if _FACTORISATION.fullmatch(op.call_target_name):
        return tuple(_same_batch(here, shape, _batch_rank(ins)) for shape in outputs)
    if op.call_target_name in CUDNN_ROLES:
        if operand > 1:
            return (_epilogue(here, outputs[0], _output_feature(op), back=True), *rest)
        return (exact(_cudnn_map(ins, operand, 2)), *rest)
    if op.call_target_name in _RESIZED:
        # Sizes that differ from the bounds would change positions of elements.
        if not _keeps_bounds(ins):
            return None
        return (identity(here) if operand == 0 else everything(here, outputs[0]), *rest)
    if op.call_target_name == "ApproxTopK":
        return tuple([_line_of(ins, k, operand, bodies, back=True) for k in range(len(outputs))])
    equal = _op_of(ins)
    if equal is None:
        return None
    # The rule is about the two factors only: a further operand is a bias, or a matrix to add.
    if isinstance(equal, DotGeneral) and operand > 1:
        return (_epilogue(here, outputs[0], len(outputs[0]) - 1, back=True), *rest)
    inner, entry = _as_op(ins, equal), lookup(Direction.INPUT_TO_OUTPUT, type(equal))
    assert entry is not None
    assert entry.rule is not None
    found = entry.rule(inner, equal, operand)
    # The factorisation also returns a code per matrix that tells if it failed.
    if isinstance(equal, Cholesky):
        if _is_lapack_cholesky(op):
            found = (in_place(here, equal),)
        codes = [_same_batch(here, shape, len(here) - 2) for shape in outputs[1:]]
        return (*found, *codes)
    return (*found, *rest[len(found) - 1 :])


def _as_op(ins: Instruction, op: Op) -> Instruction:
    """Return the custom call as an instruction of the equivalent op.

    Workspace outputs and additional operands are left out.
    """
    if isinstance(op, TopK | Domain):
        return Instruction(ins.name, ins.type, op, ins.operands)
    count = 1 if isinstance(op, Cholesky) else 2
    return Instruction(ins.name, leaves(ins.type)[0], op, ins.operands[:count])


def _epilogue(here: Dims, there: Dims, feature: int, *, back: bool) -> Accesses:
    """Return the access of an additional operand: of the result's shape, a scalar, or a bias.

    Args:
        here: Sizes of the result, or with `back` of the operand.
        there: Sizes of the other one.
        feature: Dimension of the result that a bias follows.
        back: Return the access from the operand to the result.

    Raises:
        UnsupportedError: The operand has other sizes.
    """
    source, target = (here, there) if back else (there, here)
    if source == target:
        return identity(source)
    if len(source) > 1 or (len(source) == 1 and source[0] != target[feature]):
        raise UnsupportedError(f"an operand of sizes {source} beside a result of sizes {target}")
    places = (feature,)[: len(source)]
    return (broadcast_write if back else broadcast_read)(source, target, places)
