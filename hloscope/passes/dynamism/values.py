"""Refinement of a value: its type is replaced by a more specific one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from hloscope.errors import HloscopeError
from hloscope.ir import (
    ELEMENT_TYPES,
    Dims,
    FunctionType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
    compatible,
)
from hloscope.mlir import (
    INDEX,
    Block,
    DenseAttr,
    Operation,
    TypeAttr,
    Value,
    expanded,
    function_type,
    string_of,
    type_text,
)
from hloscope.passes.conversion import CAST, shaped
from hloscope.passes.folding import signed_integers
from hloscope.passes.framework import Run
from hloscope.passes.reading import tensor_of
from hloscope.passes.rewriting import OpenBlock, Rewriter
from hloscope.support.walks import nested

# --------------------------------------------------------------------------------------------------
# Refinement of a value: its type becomes the most specific one of declared and inferred types.
#
# Source: StableHLO `TypeInference.cpp` (`inferMostSpecificType`), `StablehloRefineShapes.cpp`
# (`refineValues`, `refineReturnTypes`).


Sizes: TypeAlias = Sequence[int | None]
"""Sizes of a tensor; `None` for an unknown size."""

_READY_DIALECTS: Final = frozenset(["stablehlo", "chlo", "sdy"])
_READY: Final = frozenset(["func.return", "func.call"])
READY_MARK: Final = "hloscope.ready"
"""Name of an attribute of ops outside StableHLO, CHLO and Shardy.

Ops with it accept operands of refined types.
"""
_NO_SIZE: Final = -(1 << 63)
_LARGEST_SIZE: Final = (1 << 63) - 1


def most_specific(a: Type, b: Type) -> Type | None:
    """Return the type that has each size known in `a` or in `b`.

    `None` if the types contradict each other.

    >>> from hloscope.mlir import parse_type, type_text
    >>> found = most_specific(parse_type("tensor<2x?xf32>"), parse_type("tensor<?x3xf32>"))
    >>> type_text(found)
    'tensor<2x3xf32>'
    """
    if a == b:
        return a
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return _of_tuples(a, b)
    if isinstance(a, UnrankedTensorType) and isinstance(b, TensorType):
        return b
    if isinstance(a, TensorType) and isinstance(b, UnrankedTensorType):
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _of_tensors(a, b)
    return None


def _of_tuples(a: TupleType, b: TupleType) -> TupleType | None:
    if len(a.elements) != len(b.elements):
        return None
    parts = [most_specific(x, y) for x, y in zip(a.elements, b.elements, strict=True)]
    found = tuple([part for part in parts if part is not None])
    return TupleType(found) if len(found) == len(parts) else None


def _of_tensors(a: TensorType, b: TensorType) -> TensorType | None:
    """Return the tensor type that has each size known in `a` or `b`.

    `None` if sizes or bounds differ.
    """
    if a.rank != b.rank or a.element != b.element:
        return None
    sizes: list[int | None] = []
    bounds: list[int | None] = []
    blank = (None,) * a.rank
    for x, y, most_x, most_y in zip(
        a.sizes, b.sizes, a.bounds or blank, b.bounds or blank, strict=True
    ):
        known = [size for size in (x, y) if size is not None]
        # A size must not exceed the bound that the other type declares.
        limits = [most for most in (most_x, most_y) if most is not None]
        if len(set(known)) > 1 or (known and limits and known[0] > min(limits)):
            return None
        sizes.append(known[0] if known else None)
        bounds.append(None if known else min(limits, default=None))
    kept = tuple(bounds) if None in sizes else ()
    return TensorType(a.element, tuple(sizes), None, kept, a.encoding or b.encoding)


def refine_values(
    rewriter: Rewriter, op: Operation, values: Sequence[Value], types: Sequence[Type]
) -> bool:
    """Refine the type of each value with the one in `types`; return whether a type changed.

    `op` is the operation that defines the values. Operands of `func.return` keep their old type:
    they read a cast after `op`. A value stays unchanged if one of its users may not accept another
    type.
    """
    if len(values) != len(types):
        return False
    # All types are computed before the first change: a contradiction changes nothing.
    found: list[Type] = []
    for value, type in zip(values, types, strict=True):
        refined = most_specific(value.type, type)
        if refined is None or _is_too_large(refined):
            return False
        found.append(refined)
    is_changed = False
    for value, refined in zip(values, found, strict=True):
        if value.type == refined:
            continue
        if not all(map(_is_ready, rewriter.users(value))):
            return is_changed
        _set_type(rewriter, op, value, refined)
        is_changed = True
    return is_changed


def _is_too_large(type: Type) -> bool:
    """Does the type have a size that needs more than 63 bits?"""
    return isinstance(type, TensorType) and any(size > _LARGEST_SIZE for size in type.sizes if size)


def _is_ready(user: Operation) -> bool:
    is_ready = user.name in _READY or user.name.partition(".")[0] in _READY_DIALECTS
    return is_ready or READY_MARK in user.attributes


def unready_readers(users: Iterable[Operation]) -> list[Operation]:
    """Return those of `users` that may not accept an operand of another type, in order."""
    return [user for user in users if not _is_ready(user)]


def _set_type(rewriter: Rewriter, op: Operation, value: Value, refined: Type) -> None:
    """Set a value's type to `refined`; `op` defines the value.

    If `func.return` uses it, a cast to the old type is inserted after `op` for that.
    """
    old = value.type
    rewriter.set_type(value, refined)
    # The function's signature has the old type until `update_function_type` changes both.
    returns = [user for user in rewriter.users(value) if user.name == "func.return"]
    if not returns:
        return
    block = op.parent
    assert isinstance(block, OpenBlock)
    following = block.after(op)
    assert following is not None
    cast = rewriter.create(CAST, (value,), types=(old,), before=following, location=op.location)
    cast.source, cast.start, cast.end = op.source, op.start, op.end
    rewriter.replace_uses(value, cast.result, unless=lambda user: user.name != "func.return")


def refine_results(rewriter: Rewriter, op: Operation, types: Sequence[Type]) -> bool:
    """Refine each result's type with the one in `types`; return whether a type changed."""
    return refine_values(rewriter, op, op.results, types)


def refine_shapes(rewriter: Rewriter, op: Operation, shapes: Sequence[Sizes]) -> bool:
    """Refine the sizes of an op's results to `shapes`; return whether a type changed.

    There is one shape for each tensor, with tuples flattened. Nothing changes if a size contradicts
    the declared one, or if a result has bounds.
    """
    flat = flattened([value.type for value in op.results])
    if len(flat) != len(shapes):
        return False
    types: list[Type] = []
    for type, sizes in zip(flat, shapes, strict=True):
        refined = _with_sizes(type, sizes)
        if refined is None:
            return False
        types.append(refined)
    parts = iter(types)
    return refine_results(rewriter, op, [_like(value.type, parts) for value in op.results])


def _with_sizes(type: Type, sizes: Sizes) -> Type | None:
    """Return the type with the sizes `sizes`; `None` if they contradict it or it has bounds."""
    given = tuple([None if size == _NO_SIZE else size for size in sizes])
    if any(size is not None and size < 0 for size in given):
        return None
    if isinstance(type, UnrankedTensorType):
        return shaped(type.element, *given)
    if not isinstance(type, TensorType) or type.has_bounds or type.encoding:
        return None
    refined = shaped(type.element, *given)
    return refined if compatible(type, refined) else None


def flattened(types: Sequence[Type]) -> list[Type]:
    """Return all types in order, with tuples replaced by their elements at any depth.

    >>> from hloscope.mlir import parse_type
    >>> len(flattened([parse_type("tuple<tuple<tensor<2xf32>>, tensor<f32>>")]))
    2
    """
    every = nested(types, lambda t: t.elements if isinstance(t, TupleType) else ())
    return [t for t in every if not isinstance(t, TupleType)]


def _like(type: Type, parts: Iterator[Type]) -> Type:
    """Return `type` with each type that is no tuple replaced by the next of `parts`.

    Tuples keep their nesting.
    """
    if not isinstance(type, TupleType):
        return next(parts)
    return TupleType(tuple([_like(element, parts) for element in type.elements]))


# --------------------------------------------------------------------------------------------------
# Integers of constants, as shape refinement reads them.
#
# Source: StableHLO `Base.cpp` (`matchInts`).


S64: Final = ELEMENT_TYPES["s64"]
_CONSTANTS: Final = frozenset(["stablehlo.constant", "arith.constant"])


def literal_of(value: Value) -> DenseAttr | None:
    """Return the literal of a constant op; `None` if another op defines the value."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name not in _CONSTANTS:
        return None
    literal = owner.get("value")
    return literal if isinstance(literal, DenseAttr) else None


def is_integers(type: object) -> bool:
    """Is it a static tensor of integers, booleans or `index`?"""
    return (
        isinstance(type, TensorType)
        and type.is_static
        and (type.element.kind in ("signed", "unsigned", "pred") or type.element == INDEX)
    )


def integer(value: Value) -> int | None:
    """Return the integer of a constant of rank 0; `None` for another value."""
    found, type = signed_integers(value), tensor_of(value)
    return found[0] if found and type is not None and type.rank == 0 else None


def number_literal(number: int, type: TensorType) -> DenseAttr:
    """Return a literal of type `type` whose elements are all `number`, truncated to their bits.

    >>> from hloscope.mlir import dense_text, parse_type
    >>> dense_text(number_literal(-1, parse_type("tensor<ui8>")))
    'dense<255>'
    """
    bits = 1 if type.element.kind == "pred" else type.element.bits or 64
    width = (bits + 7) // 8
    return DenseAttr((number & (1 << bits) - 1).to_bytes(width, "little"), type)


# --------------------------------------------------------------------------------------------------
# Custom calls with an attribute that names the operands with the sizes of their results.
#
# Source: StableHLO `Base.cpp` (`getShapeRefinements`).


SHAPE_OPERANDS = "indices_of_shape_operands"


def shape_operands(op: Operation, run: Run) -> list[Value] | None:
    """Return the operands of a custom call that have the sizes of its results.

    There is one operand for each tensor of the results. The result is `None` if the attribute that
    names them is missing or invalid; an invalid one is reported as an error.
    """
    given = op.get(SHAPE_OPERANDS)
    if given is None:
        return None

    def report(message: str) -> None:
        run.plain_error(op, f"{SHAPE_OPERANDS}: {message}", fails=False)

    type = given.type if isinstance(given, DenseAttr) else None
    if not isinstance(given, DenseAttr) or not isinstance(type, TensorType):
        return None
    results = flattened([value.type for value in op.results])
    has_tuples = any(isinstance(value.type, TupleType) for value in op.results)
    count = type.num_elements if type.is_static else 0
    if count != len(results):
        also = ", with tuples flattened" if has_tuples else ""
        report(
            f"number of elements ({count}) must be equal to the number of operation results"
            f" ({len(results)}){also}"
        )
        return None
    if type.rank != 1:
        report("must have rank = 1")
        return None
    if type.element != S64:
        report("must have i64 element type")
        return None
    found: list[Value] = []
    for number, index in enumerate(_numbers(given)):
        if not 0 <= index < len(op.operands):
            report(
                f"index #{number} ({index}) must be within bounds for operation operands"
                f" (from 0 to {len(op.operands)})"
            )
            return None
        found.append(op.operands[index])
    return found


def _numbers(given: DenseAttr) -> Dims:
    try:
        return tuple(expanded(given))
    except (ValueError, HloscopeError):
        return ()


def shapes_of(op: Operation, run: Run) -> list[Dims] | None:
    """Return the sizes of the tensors in a custom call's results, from its shape operands.

    The result is `None` unless the operands are constants that fit the results.
    """
    operands = shape_operands(op, run)
    if operands is None:
        return None
    results = flattened([value.type for value in op.results])
    found: list[Dims] = []
    for number, (operand, type) in enumerate(zip(operands, results, strict=True)):
        sizes = signed_integers(operand)
        if sizes is None:
            return None
        if not _fit(sizes, type):
            message = (
                f"{SHAPE_OPERANDS}: refinement #{number} ([{', '.join(map(str, sizes))}]) must be"
                f" compatible with operation result #{number} ('{type_text(type)}')"
            )
            run.plain_error(op, message, fails=False)
            return None
        found.append(sizes)
    return found


def _fit(sizes: Sequence[int], type: Type) -> bool:
    if any(size < 0 for size in sizes):
        return False
    if isinstance(type, UnrankedTensorType):
        return True
    return isinstance(type, TensorType) and compatible(type, TensorType(type.element, tuple(sizes)))


# --------------------------------------------------------------------------------------------------
# The function that shape passes start with, and changes of its signature.
#
# Source: StableHLO `StablehloRefineShapes.cpp` (`getStablehloRefineShapeTarget`).


def name_of(function: Operation) -> str:
    """Return the name of a function.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> tree = parse_stablehlo("func.func @f() { return }").tree
    >>> name_of(tree.regions[0].block.operations[0])
    'f'
    """
    return string_of(function.get("sym_name"))


def target_of(run: Run) -> Operation | None:
    """Return the entry function: the only function, or `main`.

    If there is none, or if it has several blocks, the result is `None` and the run fails.
    """
    functions = [*run.functions()]
    if not functions:
        run.failed = True
        return None
    named = (function for function in functions if name_of(function) == "main")
    found = functions[0] if len(functions) == 1 else next(named, None)
    if found is None:
        run.error(run.rewriter.module, _TOO_MANY)
        return None
    return found if has_one_block(run, found) else None


_TOO_MANY: Final = (
    "must have no more than one function or a `main` function to clearly identify which"
    " function will be refined"
)


def has_one_block(run: Run, function: Operation, *, fails: bool = True) -> bool:
    """Return whether the function has exactly one block; if not, report an error to `run`.

    With `fails`, the error makes the pass fail.
    """
    blocks = function.blocks
    if len(function.regions) == 1 and len(blocks) == 1 and blocks[0].operations:
        return True
    run.error(function, "must have exactly one block", fails=fails)
    return False


def body_of(function: Operation) -> Block:
    """Return the only block of a function."""
    return function.regions[0].block


def set_signature(
    rewriter: Rewriter,
    function: Operation,
    *,
    inputs: Sequence[Type] | None = None,
    results: Sequence[Type] | None = None,
) -> None:
    """Set a function's argument types `inputs`, its result types `results`, or both."""
    old = signature_of(function)
    new = FunctionType(
        old.inputs if inputs is None else tuple(inputs),
        old.results if results is None else tuple(results),
    )
    if new != old:
        properties = {**function.properties, "function_type": TypeAttr(new)}
        rewriter.set_properties(function, properties)


def signature_of(function: Operation) -> FunctionType:
    """Return the `function_type` of a function."""
    return function_type(function) or FunctionType((), ())
