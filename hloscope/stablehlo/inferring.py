"""Type inference from Python, and ops that compute the run-time sizes of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from hloscope.errors import HloscopeError, VerifyError
from hloscope.ir import Callee, NotInferredError, Op, TensorType, Type
from hloscope.mlir import (
    I1,
    I64,
    INDEX,
    Attribute,
    Block,
    IntegerAttr,
    Operation,
    StringAttr,
    TypeAttr,
    Value,
)
from hloscope.mlir.dialects import CLASSES, DEFINITIONS
from hloscope.ops import (
    Broadcast,
    Concatenate,
    DotGeneral,
    DynamicGather,
    DynamicPad,
    Elementwise,
    Gather,
    ImplicitBroadcast,
    Pad,
    Reduce,
    Reverse,
    Transpose,
    numpy_broadcast,
)
from hloscope.stablehlo.cloning import clone
from hloscope.stablehlo.making import (
    TypeLike,
    as_type,
    attributes_from,
    broadcast_together,
    inferred,
    made,
    operand_types,
    signature,
)
from hloscope.stablehlo.op_making import make_op
from hloscope.support.source import Span

# --------------------------------------------------------------------------------------------------
# Result types inferred from Python, and for the ops of upstream's test pass.
#
# Source: StableHLO `tests/TestUtils.cpp` (`hlo-test-infer`, `hlo-test-broadcast`).


_TYPES: Final = "hlo_test_infer.get_return_types"
_COMPONENTS: Final = "hlo_test_infer.get_return_type_components"
_SHAPES: Final = "hlo_test_infer.reify_return_type_shapes"
_BROADCAST: Final = "hlo_test_broadcast.numpy_broadcast"
_TEST_OPS: Final = frozenset([_TYPES, _COMPONENTS, _SHAPES, _BROADCAST])


class Inferred(NamedTuple):
    """Inferred result types of one operation.

    Attributes:
        operation: The operation.
        types: The inferred types; `None` if the operands do not determine them.
        error: The error, if the op is invalid.
    """

    operation: Operation
    types: tuple[Type, ...] | None
    error: HloscopeError | None = None


def infer(
    op: Op | str, operands: Sequence[TypeLike] = (), calls: Sequence[Callee] = (), **attributes: Any
) -> tuple[Type, ...]:
    """Infer the types of an op's results.

    Args:
        op: An op, or its name: `stablehlo.transpose`, `transpose`.
        operands: Types of the operands, `tensor<2x3xf32>` or short `2x3xf32`.
        calls: Signatures of its regions or computations, in order.
        **attributes: Attributes of an op given by name, by their names in MLIR.

    Raises:
        VerifyError: The op cannot have these operands or attributes; `rule` names the constraint.
        NotInferredError: The operands do not determine the types.

    >>> from hloscope.mlir.types import type_text
    >>> [type_text(t) for t in infer("transpose", ["2x3xf32"], permutation=[1, 0])]
    ['tensor<3x2xf32>']
    """
    types = tuple(map(as_type, operands))
    if not isinstance(op, str):
        return inferred(op, types, calls)
    name = op if "." in op else f"stablehlo.{op}"
    if name not in CLASSES:
        raise TypeError(f"no op is called `{op}`")
    values = tuple(map(Value, types))
    return inferred(
        make_op(Operation(name, values, (), attributes_from(name, attributes))), types, calls
    )


def inferred_types(operation: Operation) -> Inferred:
    """Return the inferred result types of an operation of a syntax tree, or the error."""
    if operation.name not in CLASSES:
        return Inferred(operation, None)
    try:
        op = make_op(operation)
        calls = tuple(map(signature, operation.regions))
        return Inferred(operation, inferred(op, operand_types(op, operation.operands), calls))
    except NotInferredError:
        return Inferred(operation, None)
    except HloscopeError as error:
        return Inferred(operation, None, error)


def has_inference_tests(module: Operation) -> bool:
    """Does the module contain ops of StableHLO's type inference tests, such as `hlo_test_infer`?"""
    return any(operation.name in _TEST_OPS for operation in module.walk())


def run_inference_tests(module: Operation) -> Operation:
    """Return the module with its `hlo_test_infer` and `hlo_test_broadcast` ops evaluated.

    `get_return_types` and `get_return_type_components` are replaced by ops that have the types as
    attributes. `reify_return_type_shapes` is replaced by the ops that compute the sizes; ops
    without users are then removed. `numpy_broadcast` is replaced by the ops that broadcast, and a
    custom call of their results.

    Raises:
        VerifyError: The shapes of values to broadcast are incompatible.
    """
    copy = clone(module, {})
    for operation in copy.walk():
        if operation.name == "func.func":
            for block in operation.blocks:
                _Block().replace_tests(block)
    return copy


class _Block:
    """Replaces the ops of type inference tests in one block."""

    def __init__(self) -> None:
        self.new: Final[dict[Value, Value]] = {}
        self.reifier: Final = Reifier()
        self.operations: list[Operation] = []

    def replace_tests(self, block: Any) -> None:
        """Replace the test ops in a block by ops with their results."""
        for operation in block.operations:
            operation.operands = tuple([self.new.get(v, v) for v in operation.operands])
            if operation.name == _SHAPES and self._reified(operation):
                continue
            if operation.name == _BROADCAST:
                operation = self._broadcast(operation)
            self.operations.append(self._typed(operation))
        constants = [*self.reifier.constants.values()]
        block.operations = tuple(_without_unused([*constants, *self.operations]))
        for operation in block.operations:
            operation.parent = block

    def _reified(self, operation: Operation) -> bool:
        defining = operation.operands[0].owner if len(operation.operands) == 1 else None
        if not isinstance(defining, Operation) or defining.name not in CLASSES:
            return False
        sizes = self.reifier.sizes(defining)
        if sizes is None:
            return False
        self.operations += self.reifier.operations
        self.reifier.operations = []
        self.new[operation.results[0]] = sizes
        return True

    def _broadcast(self, operation: Operation) -> Operation:
        try:
            before, values = broadcast_together(operation.operands)
        except VerifyError as error:
            error.span = _span(operation)
            raise
        self.operations += before
        target = {"call_target_name": StringAttr(b"numpy_broadcasted")}
        types = [value.type for value in operation.results]
        call = made("stablehlo.custom_call", values, target, types=types)
        self.new.update(zip(operation.results, call.results, strict=True))
        return call

    def _typed(self, operation: Operation) -> Operation:
        if operation.name not in (_TYPES, _COMPONENTS) or len(operation.operands) != 1:
            return operation
        defining = operation.operands[0].owner
        types = inferred_types(defining).types if isinstance(defining, Operation) else None
        if types is None:
            return operation
        if operation.name == _COMPONENTS:
            types = tuple(map(_with_index_elements, types))
        given: dict[str, Attribute] = {f"types{k}": TypeAttr(t) for k, t in enumerate(types)}
        results = tuple([Value(v.type, None, k, v.name) for k, v in enumerate(operation.results)])
        made = Operation(
            operation.name.replace(".get_", "."),
            operation.operands,
            results,
            operation.properties,
            {**operation.attributes, **given},
            location=operation.location,
        )
        for value in results:
            value.owner = made
        self.new.update(zip(operation.results, results, strict=True))
        return made


def _span(operation: Operation) -> Span | None:
    """Return the position of the op that defines the first operand.

    If it has none, of `operation`.
    """
    arrays = all(isinstance(value.type, TensorType) for value in operation.operands)
    owner = operation.operands[0].owner if operation.operands and arrays else operation
    if isinstance(owner, Block):
        owner = owner.parent_op
    return owner.span if isinstance(owner, Operation) else operation.span


def _with_index_elements(type: Type) -> Type:
    """Return a tensor type with sizes and bounds of `type`, and elements of type `index`."""
    if isinstance(type, TensorType):
        return TensorType(INDEX, type.sizes, None, type.bounds, type.encoding)
    return type


def _is_pure(operation: Operation) -> bool:
    """May the operation be removed if its results have no users?"""
    dialect, definition = operation.name.partition(".")[0], DEFINITIONS.get(operation.name)
    if dialect == "stablehlo":
        return definition is not None and definition.pure
    return dialect in ("chlo", "shape", "tensor", "arith")


def _without_unused(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations without those that have no effect and no used result."""
    used: set[Value] = set()
    kept: list[Operation] = []
    # Backwards, so that all users of an op have been decided before the op itself.
    for operation in reversed(operations):
        if _is_pure(operation) and not any(value in used for value in operation.results):
            continue
        for inner in operation.walk():
            used.update(inner.operands)
        kept.append(operation)
    return kept[::-1]


# --------------------------------------------------------------------------------------------------
# Run-time sizes of an op's result, computed by ops of `shape`, `tensor` and `arith`.
#
# Source: `reifyReturnTypeShapes` of StableHLO's and CHLO's ops.


_SHAPE_OPERAND: Final = {
    "stablehlo.dynamic_iota": 0,
    "stablehlo.dynamic_reshape": 1,
    "stablehlo.dynamic_broadcast_in_dim": 1,
}
"""Index of the operand whose elements are the sizes of the result, by op name."""

_OPERAND_OF_SAME_SIZES: Final = {
    "stablehlo.select": 1,
    "stablehlo.clamp": 1,
    "stablehlo.compare": 0,
    "stablehlo.reverse": 0,
    "stablehlo.cholesky": 0,
    "chlo.constant_like": 0,
}
"""Index of an operand whose sizes are those of the result, by op name.

Elementwise ops, which are not listed, have such an operand, too.
"""


_SLT: Final = 2
"""Number of the predicate `slt` of `arith.cmpi`.

Source: MLIR `ArithBase.td`, `Arith_CmpIPredicateAttr`.
"""


class Reifier:
    """Creates ops that compute the sizes of an op's result at run time.

    Attributes:
        operations: The ops in order, without constants.
        constants: Constants by their value, the latest first.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.constants: dict[int, Operation] = {}

    def sizes(self, operation: Operation) -> Value | None:
        """Return a vector of the sizes of the result of `operation`, computed by new ops.

        `None` if no rule is known.
        """
        name, operands = operation.name, operation.operands
        if name in _SHAPE_OPERAND:
            return self._as_index(operands[_SHAPE_OPERAND[name]])
        if name == "stablehlo.real_dynamic_slice":
            return self._vector(self._slice_sizes(operands))
        op = make_op(operation)
        if isinstance(op, ImplicitBroadcast):
            return self._broadcast(operands)
        if name in _OPERAND_OF_SAME_SIZES or isinstance(op, Elementwise | Reverse):
            return self._shape_of(operands[_OPERAND_OF_SAME_SIZES.get(name, 0)])
        rule = _RULES.get(type(op))
        if rule is None or not all(isinstance(value.type, TensorType) for value in operands):
            return None
        return self._vector(rule(self, op, operands))

    # ------------------------------------------------------------------------------ pieces

    def _make(self, name: str, type: Type, *operands: Value, **attributes: Attribute) -> Value:
        operation = made(name, operands, attributes, types=(type,))
        self.operations.append(operation)
        return operation.result

    def constant(self, number: int) -> Value:
        """Return the value of an `arith.constant` of type `index` with this number.

        An equal one is used again.
        """
        known = self.constants.get(number)
        if known is None:
            value = {"value": IntegerAttr(number, INDEX)}
            known = made("arith.constant", (), value, types=(INDEX,))
            self.constants = {number: known, **self.constants}
        return known.result

    def _number(self, value: Value) -> int | None:
        owner = value.owner
        if isinstance(owner, Operation) and owner.name == "arith.constant":
            attribute = owner.get("value")
            return attribute.value if isinstance(attribute, IntegerAttr) else None
        return None

    def dimension(self, value: Value, d: int) -> Value:
        """Return the size of dimension `d` of a tensor.

        It is a constant if the size is static, else a `tensor.dim`.
        """
        assert isinstance(value.type, TensorType)
        size = value.type.sizes[d]
        if size is not None:
            return self.constant(size)
        return self._make("tensor.dim", INDEX, value, self.constant(d))

    def add(self, left: Value, right: Value) -> Value:
        """Return the sum of two sizes; it is computed at once if one is 0 or both are constants."""
        a, b = self._number(left), self._number(right)
        if a is not None and b is not None:
            return self.constant(a + b)
        if b == 0:
            return left
        return right if a == 0 else self._make("arith.addi", INDEX, left, right)

    def subtract(self, left: Value, right: Value) -> Value:
        """Return the difference of two sizes.

        It is computed at once if the right one is 0 or both are constants.
        """
        a, b = self._number(left), self._number(right)
        if a is not None and b is not None:
            return self.constant(a - b)
        return left if b == 0 else self._make("arith.subi", INDEX, left, right)

    def multiply(self, left: Value, right: Value) -> Value:
        """Return the product of two sizes.

        It is computed at once if one is 0 or 1, or both are constants.
        """
        a, b = self._number(left), self._number(right)
        if a is not None and b is not None:
            return self.constant(a * b)
        if 0 in (a, b):
            return self.constant(0)
        if b == 1:
            return left
        return right if a == 1 else self._make("arith.muli", INDEX, left, right)

    def gaps(self, size: Value) -> Value:
        """Return `max(size - 1, 0)`, the number of gaps between consecutive elements."""
        known = self._number(size)
        if known is not None:
            return self.constant(max(known - 1, 0))
        none, one = self.constant(0), self.constant(1)
        is_empty = self._make("arith.cmpi", I1, size, one, predicate=IntegerAttr(_SLT, I64))
        return self._make("arith.select", INDEX, is_empty, none, self.subtract(size, one))

    def element(self, vector: Value, d: int) -> Value:
        """Return element `d` of a vector as an `index`."""
        element = vector.type.element if isinstance(vector.type, TensorType) else INDEX
        found = self._make("tensor.extract", element, vector, self.constant(d))
        return found if element == INDEX else self._make("arith.index_cast", INDEX, found)

    def _vector(self, sizes: Sequence[Value]) -> Value:
        type = TensorType(INDEX, (len(sizes),))
        return self._make("tensor.from_elements", type, *sizes)

    def _as_index(self, sizes: Value) -> Value:
        type = sizes.type
        if not isinstance(type, TensorType) or type.element == INDEX:
            return sizes
        return self._make("arith.index_cast", TensorType(INDEX, type.sizes), sizes)

    def _shape_of(self, value: Value) -> Value:
        rank = value.type.rank if isinstance(value.type, TensorType) else None
        bounds = (None,) if rank is None else ()
        return self._make("shape.shape_of", TensorType(INDEX, (rank,), None, bounds), value)

    def _broadcast(self, operands: Sequence[Value]) -> Value | None:
        types = [value.type for value in operands]
        if not all(isinstance(type, TensorType) for type in types):
            return None
        shapes = [self._shape_of(value) for value in operands]
        rank = len(numpy_broadcast(types) or ())
        return self._make("shape.broadcast", TensorType(INDEX, (rank,)), *shapes)

    def _slice_sizes(self, operands: Sequence[Value]) -> list[Value]:
        """Return `(limit - start + stride - 1) / stride` for each dimension of a dynamic slice.

        `operands` are those of a `real_dynamic_slice`: the tensor, starts, limits and strides.
        """
        whole, starts, limits, strides = operands
        rank = whole.type.rank if isinstance(whole.type, TensorType) else 0
        sizes = []
        for d in range(rank):
            start, limit, stride = (self.element(v, d) for v in (starts, limits, strides))
            span, one = self.add(stride, self.subtract(limit, start)), self.constant(1)
            sizes.append(self._make("arith.divsi", INDEX, self.subtract(span, one), stride))
        return sizes


# --- rules of single ops --------------------------------------------------------------------------


def _sizes(value: Value) -> tuple[int | None, ...]:
    return value.type.sizes if isinstance(value.type, TensorType) else ()


def _rank(value: Value) -> int:
    return len(_sizes(value))


def _transpose(at: Reifier, op: Transpose, operands: Sequence[Value]) -> list[Value]:
    sizes = [at.dimension(operands[0], d) for d in range(_rank(operands[0]))]
    return [sizes[d] for d in op.permutation]


def _reduce(at: Reifier, op: Reduce, operands: Sequence[Value]) -> list[Value]:
    kept = [d for d in range(_rank(operands[0])) if d not in op.dimensions]
    return [at.dimension(operands[0], d) for d in kept]


def _concatenate(at: Reifier, op: Concatenate, operands: Sequence[Value]) -> list[Value]:
    sizes = [at.dimension(operands[0], d) for d in range(_rank(operands[0]))]
    lengths = [at.dimension(other, op.dimension) for other in operands[1:]]
    for length in lengths:
        sizes[op.dimension] = at.add(sizes[op.dimension], length)
    return sizes


def _pad(at: Reifier, op: Pad, operands: Sequence[Value]) -> list[Value]:
    """Return the sizes of the result of a `pad`, as values that `at` computes."""
    sizes = []
    amounts = zip(op.edge_padding_low, op.edge_padding_high, op.interior_padding, strict=True)
    for d, (low, high, interior) in enumerate(amounts):
        size = at.dimension(operands[0], d)
        if interior:
            # Upstream computes static interior padding without a test for empty dimensions; `gaps`
            # below has the test.
            gaps = at.subtract(size, at.constant(1))
            size = at.add(size, at.multiply(gaps, at.constant(interior)))
        sizes.append(at.add(at.add(size, at.constant(low)), at.constant(high)))
    return sizes


def _dynamic_pad(at: Reifier, op: DynamicPad, operands: Sequence[Value]) -> list[Value]:
    """Return the sizes of the result of a `dynamic_pad`, as values that `at` computes."""
    whole, _, lows, highs, interiors = operands
    sizes = []
    for d in range(_rank(whole)):
        size = at.dimension(whole, d)
        low, high, interior = (at.element(v, d) for v in (lows, highs, interiors))
        inside = at.multiply(interior, at.gaps(size))
        sizes.append(at.add(at.add(at.add(inside, size), low), high))
    return sizes


def _broadcast(at: Reifier, op: Broadcast, operands: Sequence[Value]) -> list[Value]:
    new = [at.constant(size) for size in op.broadcast_sizes]
    return [*new, *[at.dimension(operands[0], d) for d in range(_rank(operands[0]))]]


def _dot_general(at: Reifier, op: DotGeneral, operands: Sequence[Value]) -> list[Value]:
    """Return the sizes of the result of a `dot_general`, as values that `at` computes."""
    lhs, rhs = operands[:2]
    dims = op.dimensions
    left, right = dims.lhs_batch + dims.lhs_contracting, dims.rhs_batch + dims.rhs_contracting
    return [
        *[at.dimension(lhs, d) for d in dims.lhs_batch],
        *[at.dimension(lhs, d) for d in range(_rank(lhs)) if d not in left],
        *[at.dimension(rhs, d) for d in range(_rank(rhs)) if d not in right],
    ]


def _gather(at: Reifier, op: Gather | DynamicGather, operands: Sequence[Value]) -> list[Value]:
    """Return the sizes of the result of a gather, as values that `at` computes."""
    indices = operands[1]
    rows = [d for d in range(_rank(indices)) if d != op.index_vector_dim]
    at_run_time = [d for d in rows if _sizes(indices)[d] is None]
    made = {d: at.dimension(indices, d) for d in at_run_time}
    dropped = op.collapsed_slice_dims + op.operand_batching_dims
    window = [d for d in range(_rank(operands[0])) if d not in dropped]
    if isinstance(op, Gather):
        sizes = [at.constant(op.slice_sizes[d]) for d in window]
    else:
        sizes = [at.element(operands[2], d) for d in window]
    batches = iter([made.get(d) or at.dimension(indices, d) for d in rows])
    offsets = iter(sizes)
    rank = len(rows) + len(window)
    return [next(offsets) if d in op.offset_dims else next(batches) for d in range(rank)]


_RULES: Final[dict[type, Callable[..., list[Value]]]] = {
    Transpose: _transpose,
    Reduce: _reduce,
    Concatenate: _concatenate,
    Pad: _pad,
    DynamicPad: _dynamic_pad,
    Broadcast: _broadcast,
    DotGeneral: _dot_general,
    Gather: _gather,
    DynamicGather: _gather,
}
