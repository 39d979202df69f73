"""Numbers of a program's values by what they compute, to compare HLO with StableHLO.

Equal numbers mean that two programs compute the same value of the same arguments. Properties of one
language only are ignored: layouts, tuples and how loops carry them, values that regions capture,
the order of commutative operands, dimensions of size 1 between a small array and its broadcast,
channels and configurations.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from hloscope.errors import HloscopeError
from hloscope.interpreter import World, kernel
from hloscope.ir import Computation, Instruction, Op, TensorType, TupleType, Type
from hloscope.ops import (
    BroadcastInDim,
    Call,
    Case,
    Composite,
    Constant,
    Fusion,
    GetTupleElement,
    Iota,
    Parameter,
    Reduce,
    Reshape,
    Result,
    Return,
    Transpose,
    Tuple,
    While,
)
from hloscope.proof.pairing import (
    COMMUTATIVE,
    Identities,
    is_empty,
    places_of,
    wide_dimensions,
    without_layouts,
)
from hloscope.support.walks import nested

Meaning: TypeAlias = "int | tuple[Meaning, ...]"
"""The value number of an array; for a tuple, a tuple with those of its elements."""
_Steps: TypeAlias = "Generator[_Steps, Any, Any]"
"""A coroutine that waits for those it yields: regions nest deeper than Python's call limit."""

_NOT_COMPARED: Final = frozenset(
    "settings compare_type channel_id channel_type by_window sparsity sparsity_config algorithm"
    " padding_type use_global_device_ids".split()
)
"""Fields of ops that are not compared: one language lacks them, or has another form."""
_ONE_VALUE: Final = ("concatenate", "transpose", "convert", "copy")
"""Ops that return their only operand unchanged if the types are equal."""
_NOT_FOLDED: Final = frozenset(["custom_call", "infeed", "rng", "rng_bit_generator"])
_MOST_FOLDED: Final = 1 << 12
"""Largest number of elements of a constant that is computed."""
_MOST_VISITS: Final = 64
"""Limit of evaluations of one computation; later calls or loops do not depend on arguments."""


def flat(meaning: Meaning) -> list[int]:
    """Return the value numbers of all arrays of a value, with tuples flattened.

    Equal value numbers mean equal values.
    """
    roots: list[Any] = [meaning]
    parts = nested(roots, lambda part: part if isinstance(part, tuple) else ())
    return [part for part in parts if not isinstance(part, tuple)]


def _leaves(type_: Type) -> list[Type]:
    """Return the types of all arrays of a type, with tuples flattened."""
    roots: list[Type] = [type_]
    parts = nested(roots, lambda part: part.elements if isinstance(part, TupleType) else ())
    return [part for part in parts if not isinstance(part, TupleType)]


def _like(type_: Type, numbers: Sequence[int]) -> Meaning:
    """Return the value numbers `numbers` of arrays, arranged in the tuples of a type.

    The function may recurse, since parsers limit the nesting of types.
    """
    rest = iter(numbers)

    def made(part: Type) -> Meaning:
        if isinstance(part, TupleType):
            return tuple([made(each) for each in part.elements])
        return next(rest)

    return made(type_)


class Meanings:
    """Numbers of the values of several programs; equal numbers mean equal values.

    Args:
        unknown: Types of constants whose elements one of the programs leaves out (`{...}`): all
            constants of these types count as equal.

    Attributes:
        of: The value number of each instruction; for a tuple, those of its elements.
    """

    def __init__(self, unknown: frozenset[object] = frozenset()) -> None:
        self.of: Final[dict[Instruction, Meaning]] = {}
        self._unknown: Final = unknown
        self._numbers: Final[dict[object, int]] = {}
        self._spread: Final[dict[int, tuple[int, tuple[int, ...]]]] = {}
        self._reshaped: Final[dict[int, int]] = {}
        self._types: Final[dict[int, TensorType]] = {}
        """Types of values that are broadcast."""
        self._identities: Final = Identities()
        self._values: Final = self._identities.values
        # Functions and regions are called repeatedly with equal arguments; without these, nested
        # calls multiply.
        self._callees: Final[dict[Computation, list[int]]] = {}
        self._regions: Final[dict[object, Meaning]] = {}
        self._visits: Final[dict[Computation, int]] = {}
        self.settle: Any = lambda ins, meaning: meaning
        """Called with each instruction and its number; returns the number to use."""

    def number(self, key: object) -> int:
        """Return the value number for a key: a new one at first, the same for each equal key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def program(self, entry: Computation) -> list[int]:
        """Return the value numbers of a program's results, with tuples flattened."""
        return flat(_done(self._computation(entry, self._symbols(entry, ("argument", 0)), 0)))

    # ------------------------------------------------------------------------- computations

    def _symbols(self, computation: Computation, what: tuple[object, ...]) -> list[Meaning]:
        """Return value numbers of parameters, which depend on position and type only.

        `what` is the start of their keys: parameters under different `what` have different numbers.
        """
        found: list[Meaning] = []
        place = 0
        for parameter in computation.body.parameters:
            numbers = []
            for leaf in _leaves(parameter.type):
                numbers.append(self.number((*what, place, without_layouts(leaf))))
                place += 1
            found.append(_like(parameter.type, numbers))
        return found

    def _computation(
        self, computation: Computation, parameters: Sequence[Meaning], depth: int
    ) -> _Steps:
        """Assign value numbers to all values of a computation, given those of its parameters.

        Return that of its root. `depth` is the number of regions around the computation.
        """
        key = (computation, tuple(parameters), depth)
        known = self._regions.get(key)
        # Captured values may differ between calls, so such computations are numbered again.
        if known is not None and not computation.body.captures:
            return known
        self._visits[computation] = self._visits.get(computation, 0) + 1
        of = self.of
        for parameter, meaning in zip(computation.body.parameters, parameters, strict=True):
            of[parameter] = meaning
        for ins in computation:
            if not isinstance(ins.op, Parameter):
                of[ins] = self.settle(ins, (yield self._value(ins, depth)))
        found = self._regions[key] = of[computation.root]
        return found

    def _callee(self, computation: Computation) -> _Steps:
        """Return the value numbers of a function's results for symbolic parameters.

        The parameters are numbered by position and type only.
        """
        known = self._callees.get(computation)
        if known is None:
            symbols = self._symbols(computation, ("argument", 0))
            known = flat((yield self._computation(computation, symbols, 0)))
            self._callees[computation] = known
        return known

    # ------------------------------------------------------------------------------- values

    def _value(self, ins: Instruction, depth: int) -> _Steps:
        """Return the value number of an instruction, given those of its operands in `self.of`.

        `depth` is the number of regions around the instruction.
        """
        op = ins.op
        # All values without elements are equal, whatever computes them.
        if is_empty(ins.type):
            return self.number(("empty", without_layouts(ins.type)))
        read = [self.of[operand] for operand in ins.operands]
        match op:
            case Tuple() | Return():
                return tuple(read)
            case GetTupleElement(index) | Result(index):
                (whole,) = read
                assert isinstance(whole, tuple)
                return whole[index]
            case Constant():
                return self._constant(ins)
            case BroadcastInDim() | Reshape():
                return self._moved(ins, flat(read[0])[0])
            case Iota() if isinstance(ins.type, TensorType) and ins.type.is_static:
                size = ins.type.sizes[op.iota_dimension]
                base = self.number(("iota", size, ins.type.element))
                self._types[base] = TensorType(ins.type.element, (size,))
                dims = () if size == 1 else (op.iota_dimension,)
                return self._spread_as(base, dims, ins.type)
            case Reduce() if any(is_empty(operand.type) for operand in ins.operands):
                return self._reduced_nothing(ins, [n for part in read for n in flat(part)])
            case While():
                return (yield self._loop(ins, read, depth))
            case Case():
                return (yield self._branches(ins, read, depth))
            case Call() | Composite() | Fusion() if len(ins.calls) == 1:
                return (yield self._call(ins, read, depth))
            case Transpose(permutation) if permutation:
                return self._moved(ins, flat(read[0])[0])
        return (yield self._other(ins, read, depth))

    def _call(self, ins: Instruction, read: list[Meaning], depth: int) -> _Steps:
        """Return the value numbers of a call's results, by evaluating the called function.

        After `_MOST_VISITS` evaluations of the function, each result is a new number for its key:
        the operands and the result's number in the function.

        Args:
            ins: The call.
            read: Value numbers of the operands.
            depth: Number of regions around the call.
        """
        (callee,) = ins.calls
        if self._visits.get(callee, 0) <= _MOST_VISITS:
            return _like(ins.type, flat((yield self._computation(callee, read, depth))))
        returned = yield self._callee(callee)
        operands = [number for part in read for number in flat(part)]
        return _like(ins.type, [self.number(("call", number, *operands)) for number in returned])

    def _other(self, ins: Instruction, read: list[Meaning], depth: int) -> _Steps:
        """Return the value number of an op that has no special rule.

        It is that of an operand, if the op returns it unchanged; that of a constant, if the op can
        be computed; else one for the op and its operands.

        Args:
            ins: The instruction.
            read: Value numbers of the operands.
            depth: Number of regions around the instruction.
        """
        op = ins.op
        operands = [number for part in read for number in flat(part)]
        if op.name == "optimization_barrier":
            return _like(ins.type, [self.number(("barrier", number)) for number in operands])
        if len(operands) == 1 and op.name in _ONE_VALUE and self._is_same(ins):
            return operands[0]
        known = self._identities.unchanged(ins, operands)
        if known is None:
            known = self._folded(ins, operands)
        if known is not None:
            return known
        if op.name in ("select", "clamp"):
            operands = self._as_wide(ins, operands)
        elif op.name == "concatenate":  # with nothing
            operands = [
                number
                for number, value in zip(operands, ins.operands, strict=True)
                if not is_empty(value.type)
            ]
        elif op.name == "chlo.square":
            return self.number(("multiply", (), without_layouts(ins.type), *operands * 2))
        if op.name in COMMUTATIVE:
            operands.sort()
        called = []
        for callee in ins.calls:
            symbols = self._symbols(callee, ("argument", depth + 1))
            called.append(tuple(flat((yield self._computation(callee, symbols, depth + 1)))))
        key = (op.name, _fields_key(op), without_layouts(ins.type), *operands, *called)
        leaves = _leaves(ins.type)
        if not isinstance(ins.type, TupleType):
            number = self.number(key)
            if op.name == "concatenate":
                self._identities.joined(number, ins, [flat(part)[0] for part in read])
            return number
        return _like(ins.type, [self.number(("part", key, k)) for k in range(len(leaves))])

    def _reduced_nothing(self, ins: Instruction, operands: list[int]) -> Meaning:
        """Return the value numbers of a reduction of nothing: those of its initial values.

        The reduced operands have no elements. `operands` has the value numbers of all operands.
        """
        initial = operands[len(operands) // 2 :]
        leaves = _leaves(ins.type)
        return _like(ins.type, [self._filled(n, t) for n, t in zip(initial, leaves, strict=True)])

    def _filled(self, number: int, type_: Type) -> int:
        """Return the value number of an array of type `type_` that repeats a scalar.

        `number` is the value number of the scalar.
        """
        if not isinstance(type_, TensorType) or not type_.rank or not type_.is_static:
            return number
        base, _ = self._spread.get(number, (number, ()))
        found = self._spread_as(base, (), type_)
        if number in self._values:
            self._values[found] = self._values[number]
        return found

    def _folded(self, ins: Instruction, operands: list[int]) -> int | None:
        """Return the value number of an op on constants, by computing its value.

        `None` if that is not possible. XLA folds such ops when it translates programs. `operands`
        has the value numbers of the operands.
        """
        type_ = ins.type
        known = [self._values.get(number) for number in operands]
        few = isinstance(type_, TensorType) and type_.is_static
        if ins.calls or not few or not known or any(value is None for value in known):
            return None
        assert isinstance(type_, TensorType)
        # Small results only: the purpose is to equal XLA's folding of constants, not to run the
        # program.
        if type_.num_elements > _MOST_FOLDED or ins.op.name in _NOT_FOLDED:
            return None
        try:
            arrays = [
                self._array(number, value.type)
                for number, value in zip(operands, ins.operands, strict=True)
            ]
            found: Any = kernel(ins, World())(*arrays)
        except HloscopeError:
            return None
        return None if isinstance(found, tuple) else self._of_array(np.asarray(found), type_)

    def _array(self, number: int, type_: Type) -> Any:
        """Return the elements of the constant with value number `number`, as an array of a type."""
        value = self._values[number]
        assert isinstance(type_, TensorType)
        return np.broadcast_to(value, type_.shape) if not value.shape else value

    def _is_same(self, ins: Instruction) -> bool:
        """Does an op with one operand return that operand unchanged?"""
        permutation = getattr(ins.op, "permutation", ())
        in_order = list(permutation) == list(range(len(permutation)))
        return in_order and without_layouts(ins.type) == without_layouts(ins.operands[0].type)

    def _as_wide(self, ins: Instruction, operands: list[int]) -> list[int]:
        """Return the value numbers of the operands, with scalars broadcast to the result's shape.

        StableHLO allows scalars where HLO needs arrays.
        """
        wide = ins.type
        if not isinstance(wide, TensorType) or not wide.rank or not wide.is_static:
            return operands
        found = []
        for value, number in zip(ins.operands, operands, strict=True):
            type_ = value.type
            if isinstance(type_, TensorType) and not type_.rank:
                found.append(self._filled(number, TensorType(type_.element, wide.sizes)))
            else:
                found.append(number)
        return found

    def _constant(self, ins: Instruction) -> Meaning:
        """Return the value number of a constant.

        If all elements are equal, it is the number of a broadcast scalar.
        """
        type_ = ins.type
        if without_layouts(type_) in self._unknown:
            return self.number(("a constant", without_layouts(type_)))
        try:
            value: Any = kernel(ins, World())()
        except HloscopeError:
            value = ()
        if isinstance(value, tuple) or not isinstance(type_, TensorType):
            leaves = _leaves(type_)
            return _like(type_, [self.number(("constant", ins.op, k)) for k in range(len(leaves))])
        return self._of_array(np.asarray(value), type_)

    def _of_array(self, array: Any, type_: TensorType) -> int:
        """Return the value number of a constant with the elements of `array`."""
        data = array.tobytes()
        first = array.reshape(-1)[:1]
        if array.size and data == first.tobytes() * array.size:
            element = self.number(("element", type_.element, first.tobytes()))
            number = self._spread_as(element, (), type_)
            self._values[number] = first.reshape(())
            return number
        number = self.number(("constant", type_.element, array.shape, data))
        if array.size <= _MOST_FOLDED:
            self._values[number] = array
        return number

    def _moved(self, ins: Instruction, operand: int) -> int:
        """Return the value number of a broadcast, reshape or transpose.

        `operand` is the value number of its operand. Consecutive such ops that only permute
        dimensions, or add dimensions of size 1 or broadcast ones, have the number of a single
        broadcast.
        """
        before, after = ins.operands[0].type, ins.type
        assert isinstance(after, TensorType)
        if not isinstance(before, TensorType) or not before.is_static or not after.is_static:
            return self.number((ins.op.name, _fields_key(ins.op), without_layouts(after), operand))
        value = self._values.get(operand)
        if value is not None and value.shape and after.num_elements <= _MOST_FOLDED:
            folded = self._folded(ins, [operand])
            if folded is not None:
                return folded
        if operand not in self._spread:
            self._types.setdefault(operand, before)
        base, dims = self._spread.get(operand, (operand, wide_dimensions(before)))
        # Dimensions of size 1 carry no elements, so only the positions of the others identify the
        # value.
        places = places_of(ins.op, before, after)
        if places is None:
            number = self._regrouped(operand, before, after)
        else:
            number = self._spread_as(base, tuple([places[d] for d in dims]), after)
        if value is not None and not value.shape:
            self._values[number] = value  # every element is this one
        return number

    def _regrouped(self, operand: int, before: TensorType, after: TensorType) -> int:
        """Return the value number of a reshape that merges or splits dimensions.

        Consecutive reshapes have the number of one reshape of the first value.

        Args:
            operand: Value number of the operand.
            before: Type of the operand.
            after: Type of the result.
        """
        base, dims = self._spread.get(operand, (operand, wide_dimensions(before)))
        if not dims:
            return self._spread_as(base, (), after)
        of_base = self._types[base]
        keeps_order = [of_base.sizes[d] for d in wide_dimensions(of_base)] == [
            before.sizes[d] for d in dims
        ]
        # A reshape of a reshape depends on the first value only, if no dimension was broadcast or
        # moved in between.
        whole = keeps_order and dims == wide_dimensions(before)
        source = self._reshaped.get(base, base) if whole else operand
        sizes = tuple([after.sizes[d] for d in wide_dimensions(after)])
        kept = self._types.get(source, before)
        if sizes == tuple([kept.sizes[d] for d in wide_dimensions(kept)]) and source in self._types:
            return self._spread_as(source, wide_dimensions(after), after)
        self._types.setdefault(source, before)
        number = self.number(("reshape", sizes, source))
        self._reshaped[number] = source
        self._types[number] = TensorType(after.element, sizes)
        return self._spread_as(number, wide_dimensions(after), after)

    def _spread_as(self, base: int, dims: tuple[int, ...], type_: TensorType) -> int:
        """Return the value number of a broadcast to a type.

        `base` is the value number of the broadcast value; `dims` has the result dimension of each
        of its dimensions of a size other than 1.
        """
        own = self._types.get(base)
        if own is not None and own.sizes == type_.sizes and dims == wide_dimensions(type_):
            return base
        number = self.number(("spread", base, dims, without_layouts(type_)))
        self._spread[number] = base, dims
        return number

    # ------------------------------------------------------------------------------ control

    def _branches(self, ins: Instruction, read: list[Meaning], depth: int) -> _Steps:
        """Return the value numbers of a conditional, from those of its branches.

        A constant condition selects one branch. `read` has the value numbers of the operands,
        `depth` is the number of regions around the op.
        """
        found: list[list[int]] = []
        for place, branch in enumerate(ins.calls):
            given = read[place + 1 : place + 2] if branch.body.parameters else []
            parameters = given[: len(branch.body.parameters)]
            found.append(flat((yield self._computation(branch, parameters, depth + 1))))
        index = flat(read[0])[0]
        known = self._values.get(index)
        if known is not None:
            last = len(found) - 1
            taken = int(not known) if ins.op.predicated else int(known)  # type: ignore[attr-defined]
            return _like(ins.type, found[taken if 0 <= taken <= last else last])
        count = min(map(len, found))
        numbers = [
            self.number(("case", index, *[branch[k] for branch in found])) for k in range(count)
        ]
        return _like(ins.type, numbers)

    def _loop(self, ins: Instruction, read: list[Meaning], depth: int) -> _Steps:
        """Return the value numbers of a loop's results.

        A value that the body returns unchanged has the number of its initial value. `read` has the
        value numbers of the operands, `depth` is the number of regions around the loop.
        """
        first = [number for part in read for number in flat(part)]
        condition, body = ins.calls
        passed = _unchanged(body, len(first))
        visits = self._visits.get(body, 0)
        if visits > _MOST_VISITS:
            passed = [False] * len(first)
        types = [leaf for parameter in body.body.parameters for leaf in _leaves(parameter.type)]
        carried: list[int] = []
        variant: list[int] = []
        for place, number in enumerate(first):
            if passed[place]:
                carried.append(number)
                continue
            # Changed parts get symbols by nesting depth and rank, so that two loops with equal
            # bodies have equal numbers however they are written.
            carried.append(
                self.number(("carried", depth + 1, len(variant), without_layouts(types[place])))
            )
            variant.append(place)
        until = flat((yield self._region(condition, carried, depth + 1)))
        after = flat((yield self._region(body, carried, depth + 1)))
        key = (
            "loop",
            *until,
            None,
            *[after[p] for p in variant],
            None,
            *[first[p] for p in variant],
        )
        loop = self.number(key)
        found = list(first)
        for rank, place in enumerate(variant):
            found[place] = self.number(("carried by", loop, rank))
        return _like(ins.type, found)

    def _region(self, region: Computation, numbers: list[int], depth: int) -> _Steps:
        """Return the value numbers of a region whose parameters are the values that a loop carries.

        The parameters may be one tuple or separate values; `numbers` are their value numbers.
        `depth` is the number of regions around the region.
        """
        rest, parameters = list(numbers), []
        for parameter in region.body.parameters:
            count = len(_leaves(parameter.type))
            parameters.append(_like(parameter.type, rest[:count]))
            rest = rest[count:]
        return self._computation(region, parameters, depth)


def _done(steps: _Steps) -> Any:
    """Run a coroutine and all that it waits for, on an explicit stack; return its result."""
    stack: list[_Steps] = [steps]
    result: Any = None
    while stack:
        try:
            stack.append(stack[-1].send(result))
            result = None
        except StopIteration as end:
            stack.pop()
            result = end.value
    return result


def compared_fields(op: Op) -> dict[str, object]:
    """Return the fields of an op that exist in HLO and in StableHLO, by name."""
    found: dict[str, object] = {}
    for name in op.__struct_fields__:
        if name in _NOT_COMPARED:
            continue
        value = getattr(op, name, None)
        if name == "precision_config" and value is not None:
            value = value if any(one != "DEFAULT" for one in map(str, value)) else None
        found[name] = value
    return found


def _fields_key(op: Op) -> tuple[object, ...]:
    """Return the fields of an op that exist in HLO and in StableHLO, as a hashable key."""
    return tuple(compared_fields(op).values())


def _unchanged(body: Computation, count: int) -> list[bool]:
    """Return, for each of `count` values that a loop carries, whether it never changes.

    That is the case if the body returns the value unchanged.
    """
    root = body.root
    places: dict[Instruction, int] = {}
    at = 0
    for parameter in body.body.parameters:
        places[parameter] = at
        at += len(_leaves(parameter.type))

    # A carried value is a parameter, or an element of a tuple parameter.
    def place_of(value: Instruction) -> int | None:
        """Return which of the carried values this is; `None` for other values."""
        if value in places and not isinstance(value.type, TupleType):
            return places[value]
        if isinstance(value.op, GetTupleElement) and not isinstance(value.type, TupleType):
            (whole,) = value.operands
            if whole in places and isinstance(whole.type, TupleType):
                before = whole.type.elements[: value.op.index]
                return places[whole] + sum(len(_leaves(each)) for each in before)
        return None

    found: list[bool] = []
    values = root.operands if isinstance(root.op, Tuple | Return) else (root,)
    for value in values:
        leaves = len(_leaves(value.type))
        found += [leaves == 1 and place_of(value) == len(found)] + [False] * (leaves - 1)
    return found if len(found) == count else [False] * count
