"""Rules that count the operations of each op, by unit.

Source: XLA 0.10.2 `xla/service/hlo_cost_analysis.cc`; each rule states where it differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, Final, NamedTuple

from hloscope.cost.bounds import NOTHING, Product, Work, largest, total
from hloscope.fusion import elements_of, leaf_types, multiplications, valid_pairs
from hloscope.indexing import CUDNN_ROLES, op_of_call
from hloscope.ir import Instruction, Op, TensorType, backend_config
from hloscope.ops import (
    ELEMENTWISE,
    IMPLICIT_BROADCAST,
    OPS,
    BitcastConvert,
    Case,
    Cholesky,
    Convolution,
    CustomCall,
    Domain,
    Dot,
    DotGeneral,
    DynamicConv,
    Fft,
    ImplicitBroadcast,
    Map,
    RaggedDot,
    Reduce,
    ReduceScatter,
    ReduceWindow,
    ScaledDot,
    Scan,
    Scatter,
    SelectAndScatter,
    Sort,
    TopK,
    TriangularSolve,
    UniformDequantize,
    UniformQuantize,
    UnknownOp,
    While,
    Window,
)


class LoopRuns(NamedTuple):
    """How often a loop's condition and body run.

    Attributes:
        condition: Runs of the condition.
        body: Runs of the body.
        is_known: Do the numbers follow from the program?
    """

    condition: int
    body: int
    is_known: bool


Runs = Callable[[Instruction], LoopRuns]
"""Function from a loop to how often its condition and body run."""
Count = Callable[[Instruction, Any, tuple[Work, ...], Runs], Work]
"""Function from an instruction, its op, its callees' work and the runs of loops to its work."""


class Rule(NamedTuple):
    """The rule by which the work of some ops is counted.

    Attributes:
        name: Name of the rule, used in `Work.estimates` and `Work.at_least`.
        ops: Names of the ops.
        figure: Formula of the number of operations: `n(x)` is the number of elements of x, `o` the
            result, `f` the called computation.
        unit: Unit that executes the operations.
        xla: How XLA's count differs; empty if it is equal.
        work: Function that counts the operations.
    """

    name: str
    ops: tuple[str, ...]
    figure: str
    unit: str
    xla: str
    work: Count


def _element(value: Instruction) -> str:
    first = leaf_types(value.type)[:1]
    return first[0].element.name if first and isinstance(first[0], TensorType) else ""


def _size(value: Instruction) -> int:
    return elements_of([value])


def _vector(value: Instruction, n: int, estimate: str = "", at_least: str = "") -> Work:
    """Return the work of `n` vector operations on the element type of a value.

    Args:
        value: The value.
        n: Number of operations.
        estimate: Name of the rule, if the number is an estimate.
        at_least: Name of the rule, if the number is a lower bound.
    """
    return Work(
        vector=((_element(value), n),) if n else (),
        estimates=(estimate,) if estimate else (),
        at_least=(at_least,) if at_least else (),
    )


def _unknown(ins: Instruction, op: Op, called: tuple[Work, ...], runs: Runs) -> Work:
    return Work(unknown=(op.opcode if isinstance(op, UnknownOp) else op.name,))


def _nothing(ins: Instruction, op: Op, called: tuple[Work, ...], runs: Runs) -> Work:
    return NOTHING


# Element-wise ops.  Real operations of one complex operation; a division is the product with the
# conjugate (6), the square of the modulus (3) and two divisions.

_OF_COMPLEX: Final = {"add": 2, "subtract": 2, "negate": 2, "multiply": 6, "divide": 11}


def _elementwise(ins: Instruction, op: Op, called: tuple[Work, ...], runs: Runs) -> Work:
    name = op.applies if isinstance(op, ImplicitBroadcast) else op.name
    # A comparison works on numbers, though its result is not one.
    value = ins.operands[0] if ELEMENTWISE[name].result == "pred" and ins.operands else ins
    each = _OF_COMPLEX.get(name, 1) if _is_complex(value) else 1
    return _vector(value, each * _size(ins))


def _is_complex(value: Instruction) -> bool:
    first = leaf_types(value.type)[:1]
    return bool(first) and isinstance(first[0], TensorType) and first[0].element.kind == "complex"


def _transcendental(ins: Instruction, op: Op, called: tuple[Work, ...], runs: Runs) -> Work:
    n = _size(ins)
    return Work(transcendentals=((_element(ins), n),)) if n else NOTHING


def _convert(ins: Instruction, op: Op, called: tuple[Work, ...], runs: Runs) -> Work:
    n = _size(ins)
    return Work(converts=((_element(ins), n),)) if n else NOTHING


def _random(ins: Instruction, op: Op, called: tuple[Work, ...], runs: Runs) -> Work:
    counts = _leaves([ins])
    return Work(transcendentals=counts, estimates=("random numbers",)) if counts else NOTHING


def _leaves(values: Iterable[Instruction]) -> tuple[tuple[str, int], ...]:
    """Return (element type, number of elements) over all arrays of the values."""
    arrays = [
        Instruction(value.name, leaf, value.op)
        for value in values
        for leaf in leaf_types(value.type)
        if isinstance(leaf, TensorType)
    ]
    return total([(_vector(array, _size(array)), 1) for array in arrays]).vector


# Products.


def _product(ins: Instruction, op: Op, called: tuple[Work, ...], runs: Runs) -> Work:
    count = multiplications(ins)
    if count is None:
        target = op.call_target_name if isinstance(op, CustomCall) else op.name
        return Work(unknown=(target,))
    if not count:
        return NOTHING
    lhs, rhs = map(_element, ins.operands[:2])
    precision, algorithm = _requested_precision(ins, op)
    product = Product(lhs, rhs, _element(ins), precision, algorithm)
    # A complex product is 4 multiplications and 2 additions, and its addition 2 more.
    # Each multiply-add is two operations of the unit.
    each = 8 if _is_complex(ins.operands[0]) and _is_complex(ins.operands[1]) else 2
    has_more = isinstance(op, CustomCall) and len(ins.operands) > 2
    return Work(
        matrix=((product, each * count),),
        estimates=("ragged groups",) if isinstance(op, RaggedDot) else (),
        at_least=("library epilogue",) if has_more else (),
    )


def _requested_precision(ins: Instruction, op: Op) -> tuple[tuple[str, ...], str]:
    """Return the precisions of the operands and the algorithm that a product requests."""
    if not isinstance(op, CustomCall):
        precision = getattr(op, "precision_config", None) or ()
        return tuple(map(str, precision)), getattr(op, "algorithm", None) or ""
    config: Any = backend_config(op.settings, ins.extras)
    try:
        asked = config.get("gemm_backend_config", config)["precision_config"]
        precision = tuple(map(str, asked.get("operand_precision", ())))
        algorithm = str(asked.get("algorithm", ""))
    except (AttributeError, KeyError, TypeError):
        return (), ""
    return precision, "" if algorithm == "ALG_UNSET" else algorithm


_COMPUTE_NOTHING: Final = frozenset(
    "SPMDFullToShardShape SPMDShardToFullShape SliceToDynamic PadToStatic AllocateBuffer".split()
)
"""Targets of custom calls that only move data."""


def _custom_call(ins: Instruction, op: CustomCall, called: tuple[Work, ...], runs: Runs) -> Work:
    target = op.call_target_name
    if target in CUDNN_ROLES or multiplications(ins) is not None:
        return _product(ins, op, called, runs)
    known = op_of_call(ins)
    if isinstance(known, Domain) or target in _COMPUTE_NOTHING:
        return NOTHING
    if isinstance(known, Cholesky | TriangularSolve | TopK):
        return rule_of(known).work(ins, known, called, runs)
    return Work(unknown=(target,))


# Computations that are applied to elements.


def _reduce(ins: Instruction, op: Reduce, called: tuple[Work, ...], runs: Runs) -> Work:
    return _times(called, max(elements_of(ins.operands[:1]) - _size(ins), 0))


def _times(called: tuple[Work, ...], runs: int) -> Work:
    return total([(work, runs) for work in called])


def _hits(window: Window, base: Instruction, out: Instruction) -> tuple[int, bool]:
    """Count the pairs of output position and window tap that read an element of the base.

    Taps on padding, and on holes between dilated elements, do not count. The second result states
    whether every output position certainly has a tap that counts.

    Args:
        window: The window.
        base: The value that the window slides over.
        out: The value with one element for each window position.
    """
    bases, outs = leaf_types(base.type)[0], leaf_types(out.type)[0]
    if not isinstance(bases, TensorType) or not isinstance(outs, TensorType):
        return 0, False
    if None in (*bases.sizes, *outs.sizes):  # with unknown sizes, all taps count
        return elements_of([out]) * prod(window.sizes), False
    sizes = list(zip(window.sizes, bases.sizes, outs.sizes, strict=True))
    met = [valid_pairs(window, d, w, n or 0, o or 0) for d, (w, n, o) in enumerate(sizes)]
    return prod(met), all(
        _hits_everywhere(window, d, n or 0, o or 0) for d, (_, n, o) in enumerate(sizes)
    )


def _hits_everywhere(window: Window, d: int, size: int, positions: int) -> bool:
    """Does every output position along a dimension certainly have a tap on an element?

    The test is sufficient: the first window ends after the beginning, the last one begins before
    the end, and the taps cannot step over the base.

    Args:
        window: The window.
        d: The dimension.
        size: Size of the base array along it.
        positions: Number of output positions along it.
    """
    low, step = window.padding[d][0], window.window_dilations[d]
    last = (positions - 1) * window.strides[d] - low
    return (
        window.base_dilations[d] == 1
        and step <= size
        and (window.sizes[d] - 1) * step >= low
        and last < size
    )


def _reduce_window(
    ins: Instruction, op: ReduceWindow, called: tuple[Work, ...], runs: Runs
) -> Work:
    length = broadcast_back(ins, op)
    if length is not None:
        n = elements_of(ins.operands[:1])
        return _times(called, n - n // length)
    met, is_plain = _hits(op.window, ins.operands[0], ins)
    work = _times(called, max(met - _size(ins), 0))
    return work if is_plain else work + Work(at_least=("empty windows",))


def broadcast_back(ins: Instruction, op: ReduceWindow) -> int | None:
    """Return the size L of a dimension that a reduce-window reduces fully at each position.

    It is the only windowed dimension, padded by L - 1 on both sides, with a window of 2 L - 1.
    `None` if the op does not have this form.
    """
    window = op.window
    first = leaf_types(ins.operands[0].type)[0]
    wide = [d for d, size in enumerate(window.sizes) if size != 1]
    if len(wide) != 1 or not isinstance(first, TensorType):
        return None
    (d,) = wide
    length = first.sizes[d]
    dilations = (*window.strides, *window.base_dilations, *window.window_dilations)
    if not length or set(dilations) != {1} or window.sizes[d] != 2 * length - 1:
        return None
    padding = [(length - 1, length - 1) if k == d else (0, 0) for k in range(first.rank)]
    return length if [*window.padding] == padding else None


def _select_and_scatter(
    ins: Instruction, op: SelectAndScatter, called: tuple[Work, ...], runs: Runs
) -> Work:
    select, scatter = called
    source = ins.operands[1]
    met, is_plain = _hits(op.window, ins.operands[0], source)
    work = total([(select, max(met - _size(source), 0)), (scatter, _size(source))])
    return work if is_plain else work + Work(at_least=("empty windows",))


def _map(ins: Instruction, op: Map, called: tuple[Work, ...], runs: Runs) -> Work:
    return _times(called, _size(ins))


def _scan(ins: Instruction, op: Scan, called: tuple[Work, ...], runs: Runs) -> Work:
    first = leaf_types(ins.operands[0].type)[0] if ins.operands else None
    steps = op.scan_dim_size
    if steps is None and isinstance(first, TensorType) and op.scan_dimension < first.rank:
        steps = first.sizes[op.scan_dimension]
    return Work(unknown=(op.name,)) if steps is None else _times(called, steps)


def _scatter(ins: Instruction, op: Scatter, called: tuple[Work, ...], runs: Runs) -> Work:
    first = len(ins.operands) // 2 + 1  # N targets, indices, N updates
    return _times(called, elements_of(ins.operands[first : first + 1]))


# Estimates.


def _sort(ins: Instruction, op: Sort, called: tuple[Work, ...], runs: Runs) -> Work:
    n = elements_of(ins.operands[:1])
    return _vector(ins.operands[0], n * (n - 1).bit_length() if n else 0, "sort")


def _top_k(ins: Instruction, op: TopK, called: tuple[Work, ...], runs: Runs) -> Work:
    return _vector(ins.operands[0], _size(ins.operands[0]), at_least="top-k")


def _fft(ins: Instruction, op: Fft, called: tuple[Work, ...], runs: Runs) -> Work:
    factors = [max(length, 1).bit_length() - 1 for length in op.fft_length]
    return _vector(ins.operands[0], 8 * _size(ins.operands[0]) * prod(factors), "fft")


def _cholesky(ins: Instruction, op: Cholesky, called: tuple[Work, ...], runs: Runs) -> Work:
    (a,) = ins.operands[:1]
    return _vector(a, _size(a) * _last(a) // 3, "cholesky")


def _triangular_solve(
    ins: Instruction, op: TriangularSolve, called: tuple[Work, ...], runs: Runs
) -> Work:
    a, b = ins.operands[:2]
    return _vector(b, 2 * _size(b) * _last(a), "triangular-solve")


def _last(value: Instruction) -> int:
    first = leaf_types(value.type)[0]
    return (first.sizes[-1] or 0) if isinstance(first, TensorType) and first.rank else 0


def _all_reduce(ins: Instruction, op: Op, called: tuple[Work, ...], runs: Runs) -> Work:
    return Work(vector=_leaves([ins]), estimates=("all-reduce",))


def _reduce_scatter(
    ins: Instruction, op: ReduceScatter, called: tuple[Work, ...], runs: Runs
) -> Work:
    left = sum([n for _, n in _leaves(ins.operands)]) - sum([n for _, n in _leaves([ins])])
    return _vector(ins, max(left, 0), "reduce-scatter")


_BATCH_NORM: Final = {"batch_norm_inference": 4, "batch_norm_training": 8, "batch_norm_grad": 13}


def _batch_norm(ins: Instruction, op: Op, called: tuple[Work, ...], runs: Runs) -> Work:
    n = _BATCH_NORM[op.name] * _size(ins.operands[0])
    return _vector(ins.operands[0], n, "batch-norm")


# Calls.


def _called(ins: Instruction, op: Op, called: tuple[Work, ...], runs: Runs) -> Work:
    return total([(work, 1) for work in called])


def _while(ins: Instruction, op: While, called: tuple[Work, ...], runs: Runs) -> Work:
    condition, body, is_known = runs(ins)
    work = total(zip(called, (condition, body), strict=True))
    return work if is_known else work + Work(estimates=("turns of loops",))


def _case(ins: Instruction, op: Case, called: tuple[Work, ...], runs: Runs) -> Work:
    work = largest(called)
    same = all(branch == work for branch in called)
    return work if same else work + Work(estimates=("largest branch",))


def _async_start(ins: Instruction, op: Any, called: tuple[Work, ...], runs: Runs) -> Work:
    inner = op.wrapped
    if inner is None:
        return _called(ins, op, called, runs)
    leaves = ins.type
    if inner.name != "all_reduce" and hasattr(leaves, "elements") and len(leaves.elements) > 1:
        leaves = leaves.elements[1]  # (operands, result, …)
    wrapped = Instruction(ins.name, leaves, inner, ins.operands, ins.calls, ins.extras)
    return rule_of(inner).work(wrapped, inner, called, runs)


_TRANSCENDENTAL: Final = tuple("""
    cbrt exponential exponential_minus_one log log_plus_one logistic rsqrt sqrt sine cosine tan tanh
    power atan2 erf chlo.acos chlo.acosh chlo.asin chlo.asinh chlo.atan chlo.atanh chlo.bessel_i1e
    chlo.cosh chlo.digamma chlo.erf_inv chlo.erfc chlo.lgamma chlo.polygamma chlo.sinh chlo.zeta
    chlo._asin_acos_kernel
""".split())  # fmt: skip
_CONVERTS: Final = (
    "convert", "stochastic_convert", "real", "imag", "complex", BitcastConvert.name,
    UniformQuantize.name, UniformDequantize.name,
)  # fmt: skip
_APART: Final = {*_TRANSCENDENTAL, *_CONVERTS, "copy", "chlo.constant_like"}


def _with_broadcasts(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of ops, followed by the names of their broadcasting forms in CHLO."""
    wide = [IMPLICIT_BROADCAST[name].name for name in names if name in IMPLICIT_BROADCAST]
    return (*names, *wide)


_PRODUCTS: Final = (Dot, DotGeneral, ScaledDot, RaggedDot, Convolution, DynamicConv)
RULES: Final = (
    Rule("element-wise", _with_broadcasts([n for n in ELEMENTWISE if n not in _APART]),
         "n(o); complex: add, subtract, negate 2, multiply 6, divide 11 each", "vector",
         "complex: 1 an element", _elementwise),
    Rule("transcendentals", _with_broadcasts(_TRANSCENDENTAL), "n(o)", "transcendentals", "",
         _transcendental),
    Rule("converts apart", _with_broadcasts(_CONVERTS), "n(o)", "converts",
         "in flops", _convert),
    Rule("products", tuple([op.name for op in _PRODUCTS]),
         "2 n(o) × contracted elements; a convolution counts the (position, tap) pairs that meet an"
         " element; complex: 8; sizes or padding not known: unknown", "matrix",
         "complex: 2; ragged-dot: another result", _product),
    Rule("custom calls", ("custom_call",),
         "cuBLAS, oneDNN, cuDNN: the product, at least; Cholesky, triangular solve, top-k as the"
         " op; shardings 0; else unknown", "as the op", "−1", _custom_call),
    Rule("reduce", ("reduce",), "f × (n(operand 0) − n(o))", "as f", "", _reduce),
    Rule("reduce-window", ("reduce_window",),
         "f × (pairs of position and tap that meet an element − n(o)); a window over all of a"
         " dimension L: f × (n(operand 0) − n(operand 0) / L)", "as f",
         "all taps count; the whole dimension: n(o) / L + L − 1", _reduce_window),
    Rule("select-and-scatter", ("select_and_scatter",),
         "select × (pairs that meet an element − n(source)) + scatter × n(source)", "as f",
         "all taps count", _select_and_scatter),
    Rule("map", ("map",), "f × n(o)", "as f", "", _map),
    Rule("scan", ("scan",), "f × steps", "as f", "f × n", _scan),
    Rule("scatter", ("scatter",), "f × n(first update)", "as f", "", _scatter),
    Rule("sort", ("sort",), "estimate: n ⌈log2 n⌉, n = n(operand 0)", "vector", "", _sort),
    Rule("top-k", ("top_k",), "at least n(operand)", "vector", "0", _top_k),
    Rule("fft", ("fft",), "estimate: 8 n(operand) ∏ ⌊log2 length⌋", "vector", "", _fft),
    Rule("cholesky", ("cholesky",), "estimate: n(a) × last size of a / 3", "vector", "",
         _cholesky),
    Rule("triangular-solve", ("triangular_solve",), "estimate: 2 n(b) × last size of a", "vector",
         "", _triangular_solve),
    Rule("all-reduce", ("all_reduce", "collective_reduce", "cross-replica-sum"),
         "estimate: n of all results", "vector", "", _all_reduce),
    Rule("reduce-scatter", ("reduce_scatter",), "estimate: n(operands) − n(o)", "vector", "0",
         _reduce_scatter),
    Rule("random numbers", ("rng", "rng_bit_generator"), "estimate: n of all results",
         "transcendentals", "", _random),
    Rule("batch-norm", tuple(_BATCH_NORM),
         "estimate: inference 4, training 8, gradient 13 an element", "vector", "0", _batch_norm),
    Rule("calls", ("call", "fusion", "composite", "sdy.manual_computation"),
         "f, each instruction once", "as f", "", _called),
    Rule("async-start", ("async_start",), "as the op that it starts", "as the op", "",
         _async_start),
    Rule("while", ("while",), "trip count × body + (trip count + 1) × condition", "as f",
         "body and condition once", _while),
    Rule("conditional", ("case",), "the largest branch, for each figure", "as f", "", _case),
    Rule("unknown", ("unknown", "einsum", "unary_einsum", "interpreter.run_parallel"),
         "unknown", "", "0 or an error", _unknown),
)  # fmt: skip
"""The rules. Every op without a rule only moves data and computes nothing."""
_BY_NAME: Final = {name: rule for rule in RULES for name in rule.ops}
_MOVES: Final = Rule(
    "moves",
    tuple(sorted([name for name in OPS if name not in _BY_NAME])),
    "0",
    "",
    "",
    _nothing,
)


def rule_of(op: Op) -> Rule:
    """Return the rule by which the work of an op is counted."""
    return _BY_NAME.get(op.name, _MOVES)
