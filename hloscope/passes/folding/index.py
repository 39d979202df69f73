"""Folds of integers that stand for sizes: ops of `arith`, `tensor` and `builtin`, and size ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from hloscope.ir import Dims, ElementType, TensorType, Type
from hloscope.mlir import INDEX, Attribute, BoolAttr, DenseAttr, IntegerAttr, Operation, Value
from hloscope.passes.folding.elementwise import replace
from hloscope.passes.patterns import Limits, Patterns
from hloscope.passes.reading import defining_op, integer_of, static_result, tensor_of
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import integers_in

# --------------------------------------------------------------------------------------------------
# Folds of the ops of `arith`, `tensor` and `builtin` that compute sizes.
#
# MLIR's greedy driver folds every op before it tries the patterns of a pass, so that all its passes
# have these folds.  Constants are `arith.constant` and `stablehlo.constant`.
#
# Source: `fold` of the ops in MLIR's `ArithOps.cpp`, `TensorOps.cpp`, `BuiltinDialect.cpp`.


INDEX_FOLDS: Final = Patterns()

_CAST: Final = "builtin.unrealized_conversion_cast"
_CONSTANTS: Final = frozenset(["arith.constant", "stablehlo.constant"])
_MOST: Final = 1 << 12
"""Maximum number of elements of a constant that is folded or read; lists of sizes are short."""


def _bits(type: Type) -> int:
    """Return the width in bits of an integer, or of a tensor's integers; 0 for other types."""
    element = type.element if isinstance(type, TensorType) else type
    if element == INDEX:
        return 64
    if not isinstance(element, ElementType):
        return 0
    if element.kind == "pred":
        return 1
    return element.bits if element.kind in ("signed", "unsigned") else 0


def _wrapped(number: int, bits: int) -> int:
    """Return the signed `bits`-bit integer that equals `number` modulo `2^bits`."""
    top = 1 << (bits - 1)
    return (number + top) % (1 << bits) - top


def signed_integers(value: Value) -> Dims | None:
    """Return the integers of a constant in row-major order; `None` if `value` is not a constant.

    The bits are read as signed numbers.
    """
    owner, bits = value.owner, _bits(value.type)
    if not isinstance(owner, Operation) or owner.name not in _CONSTANTS or not bits:
        return None
    given = owner.get("value")
    match given:
        case IntegerAttr(number):
            return (_wrapped(number, bits),)
        case BoolAttr(truth):
            return (-int(truth),)
        case DenseAttr(_, TensorType() as type) if type.is_static and type.num_elements <= _MOST:
            found = integers_in(given)
            return None if found is None else tuple([_wrapped(each, bits) for each in found])
        case _:
            return None


def _integer(value: Value) -> int | None:
    """Return the integer of a constant of one element; `None` for any other value."""
    found = signed_integers(value)
    return found[0] if found is not None and len(found) == 1 else None


def _is_all(value: Value, number: int) -> bool:
    """Is the value a constant whose elements all equal `number`?"""
    found = signed_integers(value)
    return bool(found) and set(found or ()) == {number}


def _attribute(numbers: Sequence[int], type: Type) -> Attribute | None:
    """Return the attribute `value` for a constant of type `type` with the elements `numbers`.

    The result is `None` unless `type` is a static integer type.
    """
    bits = _bits(type)
    if not bits:
        return None
    if isinstance(type, TensorType):
        if not type.is_static or type.num_elements != len(numbers):
            return None
        width, mask = (bits + 7) // 8, (1 << bits) - 1
        kept = numbers[:1] if len(set(numbers)) == 1 else numbers
        data = b"".join([(number & mask).to_bytes(width, "little") for number in kept])
        return DenseAttr(data, type)
    number = _wrapped(numbers[0], bits)
    return BoolAttr(bool(number)) if bits == 1 else IntegerAttr(number, type)


def fold_integers(rewriter: Rewriter, op: Operation, numbers: Sequence[int]) -> bool:
    """Replace an op by a constant of integers, which are in row-major order.

    Return false if the op's result has no static integer type. The driver moves the constant to the
    front in its next iteration, as in MLIR.
    """
    type = op.result.type
    value = _attribute(numbers, type)
    if value is None:
        return False
    new = rewriter.create("arith.constant", (), {"value": value}, before=op, types=(type,))
    rewriter.replace(op, new.results)
    return True


# ----------------------------------------------------------------------------------------- numbers


def _divided(x: int, y: int) -> int:
    """Return `x / y` rounded towards zero."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


_SIGNED: Final[dict[str, Callable[[int, int], int]]] = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "maxsi": max,
    "minsi": min,
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
    "divsi": _divided,
    "remsi": lambda x, y: x - y * _divided(x, y),
    "floordivsi": lambda x, y: x // y,
    "ceildivsi": lambda x, y: -(-x // y),
}
_UNSIGNED: Final[dict[str, Callable[[int, int], int]]] = {
    "maxui": max,
    "minui": min,
    "divui": lambda x, y: x // y,
    "remui": lambda x, y: x % y,
    "ceildivui": lambda x, y: -(-x // y),
}
_DIVISIONS: Final = frozenset("divsi remsi floordivsi ceildivsi divui remui ceildivui".split())
_COMMUTES: Final = frozenset("addi muli maxsi minsi maxui minui andi ori xori".split())
_NEUTRAL: Final = {
    **dict.fromkeys(("addi", "subi", "ori", "xori"), 0),
    **dict.fromkeys(("muli", "divsi", "divui", "floordivsi", "ceildivsi", "ceildivui"), 1),
    "andi": -1,
}
"""Right operand with which an `arith` op returns its left operand, by the op's name."""
_SAME_ZERO: Final = ("subi", "xori")
_SAME_SELF: Final = ("andi", "ori", "maxsi", "minsi", "maxui", "minui")


def _computed(name: str, x: int, y: int, bits: int) -> int | None:
    """Return the result of an `arith` op on two integers of width `bits`.

    `None` if it is undefined.
    """
    if name in _UNSIGNED:
        x, y = x % (1 << bits), y % (1 << bits)
    if name in _DIVISIONS:
        # The only overflow of a signed division: its quotient does not fit the type.
        overflows = name in _SIGNED and y == -1 and x == -(1 << (bits - 1))
        if y == 0 or overflows:
            return None
    return (_SIGNED.get(name) or _UNSIGNED[name])(x, y)


@INDEX_FOLDS.on(*[f"arith.{name}" for name in (*_SIGNED, *_UNSIGNED)])
def fold_arithmetic(rewriter: Rewriter, op: Operation) -> bool:
    """Fold `arith` ops of constants, and `x + 0`, `x * 1`, `x * 0`, `x - x`.

    A constant left operand of a commutative op is moved to the right.
    """
    name, (left, right) = op.name.partition(".")[2], op.operands
    bits, xs, ys = _bits(op.result.type), signed_integers(left), signed_integers(right)
    if xs is not None and ys is not None and len(xs) == len(ys) and bits:
        found = [_computed(name, x, y, bits) for x, y in zip(xs, ys, strict=True)]
        numbers = [number for number in found if number is not None]
        return len(numbers) == len(found) and fold_integers(rewriter, op, numbers)
    if xs is not None and ys is None and name in _COMMUTES:
        rewriter.set_operands(op, (right, left))
        return True
    if (name in _NEUTRAL and _is_all(right, _NEUTRAL[name])) or (
        left is right and name in _SAME_SELF
    ):
        rewriter.replace(op, [left])
        return True
    if (left is right and name in _SAME_ZERO) or (name in ("muli", "andi") and _is_all(right, 0)):
        type = op.result.type
        if isinstance(type, TensorType) and not type.is_static:
            return False
        count = prod(type.shape) if isinstance(type, TensorType) else 1
        return 0 < count <= _MOST and fold_integers(rewriter, op, (0,) * count)
    return False


_PREDICATES: Final[tuple[Callable[[int, int], bool], ...]] = (
    lambda x, y: x == y,
    lambda x, y: x != y,
    lambda x, y: x < y,
    lambda x, y: x <= y,
    lambda x, y: x > y,
    lambda x, y: x >= y,
)
"""Predicates of `arith.cmpi` by number; 6 to 9 are unsigned versions of 2 to 5."""


@INDEX_FOLDS.on("arith.cmpi")
def fold_compare(rewriter: Rewriter, op: Operation) -> bool:
    """Fold `arith.cmpi` of constants."""
    given, (left, right) = op.get("predicate"), op.operands
    xs, ys, bits = signed_integers(left), signed_integers(right), _bits(left.type)
    number = given.value if isinstance(given, IntegerAttr) else -1
    if xs is None or ys is None or len(xs) != len(ys) or not 0 <= number <= 9:
        return False
    if number >= 6:
        xs, ys = (tuple([each % (1 << bits) for each in both]) for both in (xs, ys))
        # Unsigned predicates follow the signed ones, in the same order from `<` on.
        number -= 4
    compare = _PREDICATES[number]
    found = [-int(compare(x, y)) for x, y in zip(xs, ys, strict=True)]
    return fold_integers(rewriter, op, found)


@INDEX_FOLDS.on("arith.select")
def fold_select(rewriter: Rewriter, op: Operation) -> bool:
    """Fold `arith.select` of a constant scalar condition, or of two equal values."""
    condition, yes, no = op.operands
    chosen = _integer(condition)
    if yes is not no and (chosen is None or isinstance(condition.type, TensorType)):
        return False
    rewriter.replace(op, [yes if yes is no or chosen else no])
    return True


_UNSIGNED_CASTS: Final = ("arith.extui", "arith.index_castui")


@INDEX_FOLDS.on("arith.index_cast", "arith.extsi", "arith.trunci", *_UNSIGNED_CASTS)
def fold_conversion(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a conversion of a constant integer by a constant."""
    found, bits = signed_integers(op.operands[0]), _bits(op.operands[0].type)
    if found is None:
        return False
    if op.name in _UNSIGNED_CASTS:
        found = tuple([each % (1 << bits) for each in found])
    return fold_integers(rewriter, op, found)


# ----------------------------------------------------------------------------------------- tensors


@INDEX_FOLDS.on("tensor.dim", "shape.dim")
def fold_dim(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `tensor.dim` or `shape.dim` by the size if it is static.

    The dynamic size of a `tensor.cast` is read from the operand of the cast instead.
    """
    source, number = op.operands[0], _integer(op.operands[1])
    type = source.type
    if number is None or not isinstance(type, TensorType) or not 0 <= number < type.rank:
        return False
    size = type.sizes[number]
    if size is not None:
        return op.result.type == INDEX and fold_integers(rewriter, op, (size,))
    cast = defining_op(source, "tensor.cast")
    if cast is None or not isinstance(cast.operands[0].type, TensorType):
        return False
    rewriter.set_operands(op, (cast.operands[0], op.operands[1]))
    return True


@INDEX_FOLDS.on("tensor.rank")
def fold_rank(rewriter: Rewriter, op: Operation) -> bool:
    """Replace the rank of a ranked tensor by a constant."""
    type = op.operands[0].type
    return isinstance(type, TensorType) and fold_integers(rewriter, op, (type.rank,))


@INDEX_FOLDS.on("tensor.from_elements")
def fold_elements(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `tensor.from_elements` of constants by a constant."""
    if not op.operands or len(op.operands) > _MOST:
        return False
    found = [_integer(value) for value in op.operands]
    numbers = [number for number in found if number is not None]
    return len(numbers) == len(found) and fold_integers(rewriter, op, numbers)


@INDEX_FOLDS.on("tensor.splat")
def fold_splat(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `tensor.splat` of a constant by a constant."""
    number, type = _integer(op.operands[0]), op.result.type
    if number is None or not isinstance(type, TensorType) or not type.is_static:
        return False
    count = type.num_elements
    return 0 < count <= _MOST and fold_integers(rewriter, op, (number,) * count)


@INDEX_FOLDS.on("tensor.extract")
def fold_extract(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `tensor.extract` from a constant, or from `tensor.from_elements`, by the element."""
    source, found = op.operands[0], [_integer(value) for value in op.operands[1:]]
    type, at = source.type, [index for index in found if index is not None]
    if not isinstance(type, TensorType) or not type.is_static or len(at) != type.rank:
        return False
    if len(found) != len(at) or any(
        not 0 <= index < size for index, size in zip(at, type.shape, strict=True)
    ):
        return False
    # Position in row-major order.
    place = 0
    for index, size in zip(at, type.shape, strict=True):
        place = place * size + index
    side_by_side, numbers = defining_op(source, "tensor.from_elements"), signed_integers(source)
    if side_by_side is not None and place < len(side_by_side.operands):
        rewriter.replace(op, [side_by_side.operands[place]])
        return True
    return (
        numbers is not None
        and place < len(numbers)
        and fold_integers(rewriter, op, (numbers[place],))
    )


# ------------------------------------------------------------------------------------------- casts


@INDEX_FOLDS.on(_CAST, "tensor.cast", "memref.cast")
def fold_cast_to_own_type(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a cast to the operand's own type by the operand."""
    if [v.type for v in op.operands] != [v.type for v in op.results] or not op.operands:
        return False
    rewriter.replace(op, op.operands)
    return True


@INDEX_FOLDS.on(_CAST)
def fold_cast_there_and_back(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a cast of a cast back to the first type by the first value."""
    inner = defining_op(op.operands[0], _CAST) if op.operands else None
    if inner is None or tuple(inner.results) != tuple(op.operands):
        return False
    if [v.type for v in inner.operands] != [v.type for v in op.results]:
        return False
    rewriter.replace(op, inner.operands)
    return True


# --------------------------------------------------------------------------------------------------
# Folds of ops that read or set sizes.


SIZES: Final = Patterns()
"""Folds of `get_dimension_size` and `set_dimension_size`."""


@SIZES.on("stablehlo.get_dimension_size")
def fold_get_dimension_size(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `get_dimension_size` of a static size by a constant."""
    type, size = static_result(op), size_of_dimension(op)
    if type is None or size is None or type.rank or type.element.name != "s32":
        return False
    literal = DenseAttr(size.to_bytes(8, "little")[:4], type)
    return size < 1 << 31 and replace(rewriter, op, literal)


@SIZES.on("stablehlo.set_dimension_size")
def fold_set_dimension_size(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `set_dimension_size` by its operand, if the dimension has that static size."""
    if len(op.operands) != 2 or len(op.results) != 1:
        return False
    operand, given = op.operands
    known, size = limits.known(given), size_of_dimension(op)
    if operand.type != op.result.type or known is None or size is None:
        return False
    if not known.is_splat or int(known.element) != size:
        return False
    rewriter.replace(op, [operand])
    return True


def size_of_dimension(op: Operation) -> int | None:
    """Return the static size of the dimension that the attribute `dimension` names.

    `None` if it is dynamic.
    """
    dimension = integer_of(op, "dimension")
    type = tensor_of(op.operands[0]) if op.operands else None
    if type is None or dimension is None or not 0 <= dimension < type.rank:
        return None
    return type.sizes[dimension]
