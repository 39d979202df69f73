"""Instances of instructions at concrete sizes, by which symbolic maps are checked.

An instance has the same op on arrays of given sizes. Ops that take sizes or positions as operands
become ops with constants. The rules for known sizes give its accesses; they share nothing with the
symbolic rules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import Final, NamedTuple, TypeAlias

from hloscope.affine import Const, Expr, Runtime, Var, evaluate
from hloscope.errors import HloscopeError
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.analysis import input_to_output, output_to_input
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.dependence import Reader
from hloscope.indexing.rules.registry import leaves
from hloscope.indexing.symbolic_values import Frame, Leaf, Shape, Symbols
from hloscope.indexing.transform import with_values
from hloscope.indexing.variables import substituted, substituted_constraints
from hloscope.ir import Dims, Instruction, Op, TensorType, TupleType, Type
from hloscope.ops import (
    DynamicBroadcastInDim,
    DynamicPad,
    DynamicSlice,
    Pad,
    Parameter,
    RealDynamicSlice,
    Reduce,
    ReduceWindow,
    Scatter,
    SelectAndScatter,
    Slice,
)

_TRIES: Final = 400
_SPREAD: Final = 4
"""Maximum difference between a random size and the smallest possible size."""
_MOST_ELEMENTS: Final = 4096
_MOST_INDICES: Final = 60
_TRIED_VALUES: Final = 6
_SMALL: Final = 8
"""Maximum random value of a runtime variable that decides which elements are read."""
Values: TypeAlias = Mapping[Var, int]
Pair: TypeAlias = tuple[Dims, Dims]


class Instance(NamedTuple):
    """An instruction at concrete sizes.

    Attributes:
        sizes: The sizes by name.
        ins: The instruction with these sizes.
        numbers: For each operand of `ins`, its number in the symbolic instruction.
        values: For each operand of `ins`, its value if it is one integer that the sizes determine,
            else `None`.
    """

    sizes: Mapping[str, int]
    ins: Instruction
    numbers: tuple[int, ...]
    values: tuple[int | None, ...] = ()


class ReferenceAccesses(NamedTuple):
    """Functions that return the reference accesses of an instance.

    Attributes:
        reads: Function of an instance and an output: the accesses of each operand, `None` for an
            operand that is not checked.
        inverse: Function of an instance, an output, an operand and its array: the accesses from the
            operand to the output.
    """

    reads: Callable[[Instance, int], Sequence[Accesses | None]]
    inverse: Callable[[Instance, int, int, int], Accesses]


def by_rules(reader: Reader) -> ReferenceAccesses:
    """Return the reference accesses by the rules of the ops for known sizes.

    `reader` returns the dependences of called bodies.
    """
    return ReferenceAccesses(
        lambda instance, output: output_to_input(instance.ins, output, reader=reader),
        lambda instance, output, place, leaf: of_leaf(
            input_to_output(instance.ins, place, reader=reader)[output], leaf
        ),
    )


class Difference(NamedTuple):
    """A pair of indices that is only in the symbolic map, or only in the instance's.

    Attributes:
        sizes: The sizes of the instance.
        operand: Number of the operand.
        pair: An index of the output and one of the operand.
        only_in: 0 if only the symbolic map has it, 1 if only the instance has it.
    """

    sizes: Mapping[str, int]
    operand: int
    pair: Pair
    only_in: int


def instances(frame: Frame, ins: Instruction, count: int, seed: int) -> Iterator[Instance]:
    """Yield the instruction at up to `count` different sizes, drawn with `seed`.

    There are fewer if valid sizes are hard to find.
    """
    rng, seen = random.Random(seed), set()
    tried: set[tuple[int, ...]] = set()
    found = 0
    for _ in range(_TRIES):
        values = _drawn(frame.symbols, rng)
        if values is None or (drawn := tuple(values.values())) in tried:
            continue
        tried.add(drawn)
        instance = instance_at(frame, ins, values)
        # Different values of symbols may give the same sizes of this instruction.
        if instance is None or (key := tuple(instance.sizes.items())) in seen:
            continue
        seen.add(key)
        found += 1
        yield instance
        if found == count:
            return


def _drawn(symbols: Symbols, rng: random.Random) -> Values | None:
    """Return random values of the symbols; `None` if they violate a recorded fact."""
    values: dict[Var, int] = {}
    for i, variable in enumerate(symbols.variables):
        least = max(variable.interval.lo, 0)
        values[Runtime(i)] = rng.randint(
            least, max(least, min(variable.interval.hi, least + _SPREAD))
        )
    for e, interval in symbols.facts.items():
        try:
            if evaluate(symbols.simplified(e), values) not in interval:
                return None
        except ZeroDivisionError:
            return None
    return values


def instance_at(frame: Frame, ins: Instruction, values: Values) -> Instance | None:
    """Return the instruction at these values of the symbols; `None` if it is not valid there."""
    try:
        shapes = [_types(frame, operand, values) for operand in ins.operands]
        result = _types(frame, ins, values)
        operands = [
            Instruction(operand.name, _joined(types), Parameter(k))
            for k, (operand, types) in enumerate(zip(ins.operands, shapes, strict=True))
        ]
        # Verification rejects sizes at which the program would not be valid.
        op, numbers = _static(frame, ins, values)
        if not ins.calls or isinstance(op, Scatter | SelectAndScatter):
            op.verify(tuple([operands[k].type for k in numbers]), (_joined(result),))
        elif isinstance(op, Reduce | ReduceWindow):
            alike = [_shape(types[0]) for types in shapes[: len(shapes) // 2]]
            if len({*alike}) > 1 or len({_shape(type) for type in result}) > 1:
                raise ValueError("inputs of different sizes")
    except (HloscopeError, LookupError, ArithmeticError, ValueError, TypeError):
        return None
    if sum(prod(_shape(type)) for types in (*shapes, result) for type in types) > _MOST_ELEMENTS:
        return None
    used = tuple([operands[k] for k in numbers])
    made = Instruction(ins.name, _joined(result), op, used, ins.calls, ins.extras)
    symbols = frame.symbols
    named = {v.name: values[Runtime(i)] for i, v in enumerate(symbols.variables)}
    inside, known = _symbols_of(frame, ins), frame.operands(ins)
    integers = tuple([_integer(frame, known[k], values) for k in numbers])
    return Instance({k: n for k, n in named.items() if k in inside}, made, numbers, integers)


def _integer(frame: Frame, leaf: Leaf, values: Values) -> int | None:
    """Return the value of an integer scalar at these values of the symbols; `None` if not known.

    `leaf` has the element of the scalar as an expression in the symbols.
    """
    element = leaf.contents[0] if leaf.shape == () and leaf.contents else None
    return None if element is None else evaluate(frame.symbols.simplified(element), values)


def _symbols_of(frame: Frame, ins: Instruction) -> set[str]:
    """Return the names of the symbols in sizes and elements of the value and the operands."""
    symbols, names = frame.symbols, set()
    for value in (ins, *ins.operands):
        for leaf in frame.of(value):
            for e in (*(leaf.shape or ()), *(leaf.contents or ())):
                if e is not None:
                    names |= symbols.names(e)
    return names


def _types(frame: Frame, value: Instruction, values: Values) -> list[Type]:
    found: list[Type] = []
    for type, leaf in zip(leaves(value.type), frame.of(value), strict=True):
        if isinstance(type, TensorType) and leaf.shape is not None:
            sizes = _evaluated(frame, leaf.shape, values)
            if min(sizes, default=0) < 0:
                raise ValueError("a negative size")
            type = TensorType(type.element, sizes)
        found.append(type)
    return found


def _evaluated(frame: Frame, shape: Shape, values: Values) -> Dims:
    return tuple([evaluate(frame.symbols.simplified(e), values) for e in shape])


def _joined(types: Sequence[Type]) -> Type:
    return types[0] if len(types) == 1 else TupleType(tuple(types))


def _static(frame: Frame, ins: Instruction, values: Values) -> tuple[Op, tuple[int, ...]]:
    """Return the op with its integer operands as attributes, and the numbers of other operands.

    `values` has the values of the symbols, from which the attributes are computed.

    Raises:
        LookupError: An integer operand is not known in terms of sizes.
        ValueError: The op is not defined for these sizes.
    """
    every = tuple(range(len(ins.operands)))
    known = frame.operands(ins)

    def numbers(leaf: Leaf) -> Dims:
        contents = leaf.contents
        if contents is None or None in contents:
            raise LookupError("an operand of unknown value")
        return _evaluated(frame, tuple([e for e in contents if isinstance(e, Expr)]), values)

    match ins.op:
        case DynamicPad():
            low, high, between = [numbers(leaf) for leaf in known[2:5]]
            return Pad(edge_padding_low=low, edge_padding_high=high, interior_padding=between), (
                0,
                1,
            )
        case RealDynamicSlice():
            starts, limits, strides = [numbers(leaf) for leaf in known[1:4]]
            return Slice(starts, limits, strides), (0,)
        case DynamicSlice(lengths):
            shape = _evaluated(frame, known[0].shape or (), values)
            asked = [numbers(leaf)[0] for leaf in known[1:]]
            room = [size - n for size, n in zip(shape, lengths, strict=True)]
            # The start is clamped as the op does it at run time.
            begin = tuple([max(0, min(a, r)) for a, r in zip(asked, room, strict=True)])
            end = tuple([b + n for b, n in zip(begin, lengths, strict=True)])
            return Slice(begin, end, (1,) * len(begin)), (0,)
        case DynamicBroadcastInDim() if _breaks_hints(frame, ins, values):
            raise ValueError("what it does is not defined for these sizes")
        case op:
            return op, every


def _breaks_hints(frame: Frame, ins: Instruction, values: Values) -> bool:
    """Do the sizes contradict the op's hints about (non-)expanding dimensions?

    `values` has the values of the symbols, which determine the sizes.
    """
    assert isinstance(ins.op, DynamicBroadcastInDim)
    source, target = frame.operands(ins)[0].shape or (), frame.of(ins)[0].shape or ()
    sizes = _evaluated(frame, source, values)
    asked = _evaluated(frame, tuple([target[k] for k in ins.op.broadcast_dimensions]), values)
    stretched = ins.op.known_expanding_dimensions or ()
    kept = ins.op.known_nonexpanding_dimensions or ()
    return any(sizes[k] != 1 for k in stretched) or any(sizes[k] != asked[k] for k in kept)


def bound_to(m: IndexingMap, sizes: Mapping[str, int]) -> IndexingMap:
    """Return a symbolic map at concrete sizes, by name; a size that is not named is 0.

    >>> m = IndexingMap.parse("(d0){n} -> (d0), domain: d0 in [0, 99], n in [0, 99], "
    ...                       "d0 - n in [-99, -1]")
    >>> print(bound_to(m, {"n": 4}))
    (d0) -> (d0), domain: d0 in [0, 3]
    """
    values = [sizes.get(variable.name, 0) for variable in m.runtime]
    return with_values(m, values).simplify()


def difference(
    instance: Instance, output: int, reads: Sequence[Accesses], reference: ReferenceAccesses
) -> Difference | None:
    """Return a pair of indices that only one of two accesses relates, symbolic or reference.

    Both are accesses from an output to operands; the pair is an output index and an operand index.
    The result is `None` if they agree. A symbolic superset may have more pairs.

    Args:
        instance: The instruction at concrete sizes.
        output: Number of the output.
        reads: Symbolic accesses of each operand.
        reference: Functions that return the reference accesses of an instance.

    Raises:
        LookupError: The reference accesses depend on run-time values.
    """
    found = reference.reads(instance, output)
    shape = _shape(leaves(instance.ins.type)[output])
    for number, theirs in zip(instance.numbers, found, strict=True):
        if theirs is None:
            continue
        for leaf in sorted({a.leaf for a in (*reads[number], *theirs)}):
            pair = _differing(
                instance.sizes, of_leaf(reads[number], leaf), of_leaf(theirs, leaf), shape
            )
            if pair is not None:
                return Difference(instance.sizes, number, *pair)
    return None


def of_leaf(accesses: Accesses, leaf: int) -> Accesses:
    """Return the accesses whose leaf is `leaf`, and all accesses without a map."""
    return tuple([a for a in accesses if a.map is None or a.leaf == leaf])


def inverse_difference(
    instance: Instance,
    operand_leaf: tuple[int, int],
    output: int,
    reached: Accesses,
    reference: ReferenceAccesses,
) -> Difference | None:
    """Return a pair of indices that only one of two accesses relates, symbolic or reference.

    Both are accesses from one array of an operand to an output. The result is `None` if they agree,
    or if the instance does not have the operand. A symbolic superset may have more pairs.

    Args:
        instance: The instruction at concrete sizes.
        operand_leaf: Number of the operand, and of the array in it.
        output: Number of the output.
        reached: The symbolic accesses.
        reference: Functions that return the reference accesses of an instance.
    """
    operand, leaf = operand_leaf
    if operand not in instance.numbers:
        return None
    place = instance.numbers.index(operand)
    theirs = reference.inverse(instance, output, place, leaf)
    shape = _shape(leaves(instance.ins.operands[place].type)[leaf])
    pair = _differing(instance.sizes, reached, theirs, shape)
    return None if pair is None else Difference(instance.sizes, operand, *pair)


def _differing(
    sizes: Mapping[str, int], symbolic: Accesses, reference: Accesses, shape: Dims
) -> tuple[Pair, int] | None:
    """Return a pair of indices that only one side has, and the side: 0 `symbolic`, 1 `reference`.

    The result is `None` if there is none. With a superset, pairs that only `symbolic` has do not
    count.

    Args:
        sizes: The sizes by name.
        symbolic: Symbolic accesses.
        reference: Accesses at these sizes.
        shape: Sizes of the array that the accesses start from.

    Raises:
        LookupError: The accesses depend on run-time values.
    """
    expected = [a.map for a in reference if a.map is not None]
    by_values = len(expected) < len(reference) or any(m.runtime for m in expected)
    if by_values and not all(a.precision is Precision.OVER for a in symbolic):
        raise LookupError("what is read of it is decided by values")
    if any(a.map is None for a in symbolic):
        return None
    mine = [bound_to(a.map, sizes) for a in symbolic if a.map is not None]
    if by_values:
        rng = random.Random(0)
        expected = [_at_values(m, rng) for m in expected for _ in range(_TRIED_VALUES)]
    if set(mine) == {m.simplify().remove_unused_symbols() for m in expected}:
        return None
    # With a superset on either side only pairs that are missing in `symbolic` are errors.
    superset = any(a.precision is not Precision.EXACT for a in (*symbolic, *reference))
    for index in islice(product(*map(range, shape)), _MOST_INDICES):
        a, b = _points(mine, index), _points(expected, index)
        a = a & b if superset else a
        if a != b:
            return (index, min(a - b or b - a)), 0 if a - b else 1
    return None


def _at_values(m: IndexingMap, rng: random.Random) -> IndexingMap:
    """Return the map with runtime variables replaced by random small values."""
    drawn = [
        rng.randint(*sorted((max(v.interval.lo, -2), min(v.interval.hi, _SMALL))))
        for v in m.runtime
    ]
    new = {Runtime(k): Const(n) for k, n in enumerate(drawn)}
    constraints = substituted_constraints(m.constraints, new)  # type: ignore[arg-type]
    results = substituted(m.results, new)  # type: ignore[arg-type]
    return m.with_(runtime=(), results=results, constraints=constraints).simplify()


def _shape(type: Type) -> Dims:
    return tuple([n for n in type.sizes if n is not None]) if isinstance(type, TensorType) else ()


def _points(maps: Sequence[IndexingMap], index: Dims) -> set[Dims]:
    """Return the results of all maps at one index."""
    return {point for m in maps for point in m.points(index)}
