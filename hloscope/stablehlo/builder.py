"""Construction of StableHLO from Python: a method for each op, which infers the result types.

>>> b = Builder()
>>> with b.function("main", x="2x3xf32", y="3xf32") as (x, y):
...     rows = b.broadcast_in_dim(y, broadcast_dimensions=[1], type="2x3xf32")
...     total = b.reduce([b.add(x, rows)], [b.constant(0.0, "f32")], dimensions=[1], body=b.add)
...     b.return_(total)
>>> print(b)
module {
  func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
    %0 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %x, %0 : tensor<2x3xf32>
    %2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [1] : \
(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    return %3 : tensor<2xf32>
  }
}
<BLANKLINE>
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hloscope.errors import did_you_mean
from hloscope.ir import ELEMENT_TYPES, FunctionType, NotInferredError, Signature, TensorType, Type
from hloscope.mlir import (
    ArrayAttr,
    Attribute,
    Block,
    DenseAttr,
    Operation,
    Region,
    SymbolAttr,
    TypeAttr,
    Value,
    from_array,
    print_mlir,
)
from hloscope.mlir.dialects import CALLEES, CLASSES, DEFINITIONS, DIALECTS
from hloscope.stablehlo.kinds import read_verbatim
from hloscope.stablehlo.making import (
    TypeLike,
    as_type,
    attribute_of,
    attributes_from,
    broadcast_together,
    made,
    region_of,
)
from hloscope.stablehlo.op_making import own_attributes
from hloscope.support.arrays import ml_dtypes, np

Made: TypeAlias = Value | tuple[Value, ...] | None
"""The result of a builder method: a value, a tuple of them, or `None` for ops without results."""
RegionFunction: TypeAlias = Callable[..., Any]
"""A Python function that builds a region: it takes its arguments and returns its results."""


def methods_of(dialect: str) -> dict[str, str]:
    """Return the names of the builder's methods for a dialect's ops, each with the op's full name.

    A method whose name would be a Python keyword gets an underscore.

    >>> methods_of("stablehlo")["and_"]
    'stablehlo.and'
    """
    found = {}
    for full in sorted(CLASSES):
        own, _, name = full.partition(".")
        if own == dialect:
            name = name.replace("-", "_")
            found[name + "_" * iskeyword(name)] = full
    return found


def _method(full: str, name: str) -> Callable[..., Made]:

    def method(self: Any, *operands: Any, type: Any = None, **given: Any) -> Made:
        return self._append(full, operands, type, given)  # type: ignore[no-any-return]

    method.__name__ = method.__qualname__ = name
    definition = DEFINITIONS[full]
    parts = [slot.name for slot in definition.operands]
    parts += [a.name + "=…" * a.optional for a in own_attributes(full)]
    parts += [slot.name for slot in definition.regions]
    method.__doc__ = f"`{full}`: {', '.join(parts) or 'no operands'}."
    return method


if TYPE_CHECKING:
    from hloscope.stablehlo.op_methods import ChloMethods, StablehloMethods
else:

    def _unknown(self, name):
        """Raise for an unknown method; Python calls this for missing attributes only."""
        near = did_you_mean(name, dir(type(self)))
        raise AttributeError(f"no op is called `{name}`{near}", name=name, obj=self)

    def _methods(dialect):
        """Return a class with a method for each op of a dialect."""
        methods = {name: _method(full, name) for name, full in methods_of(dialect).items()}
        return type(dialect, (), methods | {"__getattr__": _unknown})

    StablehloMethods, ChloMethods = _methods("stablehlo"), _methods("chlo")


class Chlo(ChloMethods):
    """Methods of the builder for the ops of CHLO."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def _append(self, name: str, operands: Sequence[Any], type: Any, given: dict[str, Any]) -> Made:
        return self._builder._append(name, operands, type, given)


class Builder(StablehloMethods):
    """Builds a module of StableHLO, function by function and op by op.

    Each op of StableHLO is a method; those of CHLO are methods of `chlo`. A Python keyword gets an
    underscore (`b.and_`, `b.while_`). A method takes the operands in order (lists of them are
    joined) and the attributes by their names in MLIR. Regions are Python functions, by their names
    in the specification. `attributes={…}` has attributes of other dialects, and `type=` is needed
    where the operands do not determine the result type. A method returns the result, or a tuple of
    several.

    Methods raise `VerifyError` if the op cannot have these operands, and `TypeError` for unknown
    arguments.
    """

    def __init__(self, name: str = "") -> None:
        self.name: Final = name
        self.chlo: Final = Chlo(self)
        self._functions: Final[list[Operation]] = []
        self._signatures: Final[dict[str, FunctionType]] = {}
        self._blocks: Final[list[list[Operation]]] = []

    # ------------------------------------------------------------------- modules and functions

    @property
    def module(self) -> Operation:
        """The module with the functions built so far."""
        properties = {"sym_name": attribute_of(self.name)} if self.name else {}
        region = Region((Block((), tuple(self._functions)),))
        return Operation("builtin.module", properties=properties, regions=(region,))

    def __str__(self) -> str:
        return print_mlir(self.module, dialects=DIALECTS, names="source")

    def text(self, *, generic: bool = False) -> str:
        """Return the module as text; with `generic`, all ops in the generic form."""
        return print_mlir(self.module, dialects=DIALECTS, names="source", generic=generic)

    @contextmanager
    def function(
        self, name: str = "main", /, *types: TypeLike, private: bool = False, **named: TypeLike
    ) -> Iterator[tuple[Value, ...]]:
        """Begin a function with arguments of these types; it ends with the `with` block.

        The context is a tuple of the arguments: those in `types`, then those in `named`, which keep
        their names. `private` gives the function the visibility `private`.

        Raises:
            ValueError: A function has that name already, or another function is still open.
        """
        if self._blocks:
            raise ValueError(f"`{name}` would begin inside another function")
        if name in self._signatures:
            raise ValueError(f"there is a function `{name}` already")
        arguments = [Value(as_type(t), None, k) for k, t in enumerate(types)]
        arguments += [
            Value(as_type(t), None, k, word)
            for k, (word, t) in enumerate(named.items(), len(arguments))
        ]
        operations: list[Operation] = []
        self._blocks.append(operations)
        try:
            yield tuple(arguments)
        finally:
            self._blocks.pop()
        if not operations or operations[-1].name != "func.return":
            operations.append(Operation("func.return"))
        results = tuple([value.type for value in operations[-1].operands])
        signature = FunctionType(tuple([value.type for value in arguments]), results)
        properties: dict[str, Attribute] = {
            "function_type": TypeAttr(signature),
            "sym_name": attribute_of(name),
        }
        if private:
            properties["sym_visibility"] = attribute_of("private")
        region = region_of(arguments, operations)
        self._functions.append(Operation("func.func", properties=properties, regions=(region,)))
        self._signatures[name] = signature

    def return_(self, *values: Any) -> None:
        """Return values from the open function, or from the region that a function builds."""
        inside = len(self._blocks) > 1
        name = "stablehlo.return" if inside else "func.return"
        self._block.append(Operation(name, tuple(_flat(values))))

    def call(self, function: str, *operands: Any) -> Any:
        """Call a function of this module, and return its result, or a tuple of several.

        Args:
            function: Name of the function.
            operands: The arguments; lists of values are joined.

        Raises:
            ValueError: The module has no function of that name.
        """
        signature = self._signature(function)
        properties = {"callee": SymbolAttr(function)}
        operation = made("func.call", _flat(operands), properties, types=signature.results)
        return self._add(operation)

    def broadcast_together(self, *values: Any) -> tuple[Value, ...]:
        """Return the values broadcast to their common shape, by numpy's rules.

        Sizes may be bounded.

        Raises:
            VerifyError: The shapes are incompatible.

        >>> b = Builder()
        >>> with b.function("main", x="4xf32", y="3x1xf32") as (x, y):
        ...     b.return_(b.add(*b.broadcast_together(x, y)))
        >>> "tensor<3x4xf32>" in str(b)
        True
        """
        operations, results = broadcast_together(_flat(values))
        self._block.extend(operations)
        return tuple(results)

    def _signature(self, function: str) -> FunctionType:
        if function not in self._signatures:
            near = did_you_mean(function, self._signatures)
            raise ValueError(f"there is no function `{function}`{near}")
        return self._signatures[function]

    # ------------------------------------------------------------------------------- operations

    def constant(self, value: Any, type: TypeLike | None = None) -> Value:
        """Return a constant of a number, nested lists, a numpy array or a text.

        A number is the value of all elements. A text has the form `dense<…> : type`.

        Raises:
            ValueError: `type` is missing where it is needed, or the value does not fit it.
        """
        literal = read_verbatim(value) if isinstance(value, str) else _literal(value, type)
        declared = literal.type if isinstance(literal, DenseAttr) else None
        if declared is None:
            raise ValueError("a constant is `dense<…> : type`")
        operation = made("stablehlo.constant", (), {"value": literal}, types=(declared,))
        return self._add(operation)  # type: ignore[return-value]  # it has one result

    def op(
        self,
        name: str,
        *operands: Any,
        types: Sequence[TypeLike] = (),
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
    ) -> Any:
        """Add an op of any dialect; return its results: a value, a tuple of several, or `None`.

        Args:
            name: Full name of the op, with its dialect.
            operands: The operands; lists of values are joined.
            types: Types of the results.
            attributes: Attributes by name, as Python values.
            regions: The regions of the op; they are in no other op.
        """
        given = {key: attribute_of(value) for key, value in (attributes or {}).items()}
        results = tuple(map(as_type, types))
        operation = made(
            name, _flat(operands), {}, types=results, regions=tuple(regions), attributes=given
        )
        return self._add(operation)

    @property
    def _block(self) -> list[Operation]:
        if not self._blocks:
            raise ValueError("ops stand in functions: use `with b.function(…)`")
        return self._blocks[-1]

    def _add(self, operation: Operation) -> Made:
        self._block.append(operation)
        results = operation.results
        return results[0] if len(results) == 1 else results or None

    def _append(self, name: str, operands: Sequence[Any], type: Any, given: dict[str, Any]) -> Made:
        values = _flat(operands)
        discardable = {k: attribute_of(v) for k, v in given.pop("attributes", {}).items()}
        slots = DEFINITIONS[name].regions
        functions: list[RegionFunction] = []
        for slot in slots:
            if slot.name in given:
                # Regions are given by name; a variadic one takes a list of functions. A callee
                # replaces regions: its signature determines the result types.
                found = given.pop(slot.name)
                functions += found if isinstance(found, list | tuple) else [found]
        needed = [slot for slot in slots if not slot.variadic]
        if needed and not functions:
            names = ", ".join(f"`{slot.name}=`" for slot in needed)
            raise TypeError(f"`{name}` needs a function for its region: {names}")
        callee, signature = given.pop(CALLEES.get(name, ""), None), None
        properties = attributes_from(name, given)
        if callee is not None:
            properties[CALLEES[name]] = _symbols(callee)
            if isinstance(callee, str):
                found_type = self._signature(callee)
                signature = Signature(found_type.inputs, found_type.results)
        types = _types(type)
        regions = tuple([self._made(f, _arguments(name, values)) for f in functions])
        try:
            operation = made(
                name,
                values,
                properties,
                types=types,
                regions=regions,
                attributes=discardable,
                callee=signature,
            )
        except NotInferredError:
            message = f"the type of `{name}` does not follow from its operands: give `type=`"
            raise NotInferredError(message) from None
        return self._add(operation)

    def _made(self, function: RegionFunction, types: Sequence[Type]) -> Region:
        """Return the region that a Python function builds.

        `types` are the types of its arguments. The region ends in a `return` of the values that the
        function returns.
        """
        arguments = tuple([Value(type, None, k) for k, type in enumerate(types)])
        operations: list[Operation] = []
        self._blocks.append(operations)
        try:
            returned = function(*arguments)
            if not operations or operations[-1].name != "stablehlo.return":
                self.return_(*([] if returned is None else [returned]))
        finally:
            self._blocks.pop()
        return region_of(arguments, operations)


def _flat(operands: Sequence[Any]) -> tuple[Value, ...]:
    """Return the operands as a flat tuple; lists are replaced by their elements, at any depth.

    Raises:
        TypeError: An operand is not a value.
    """
    found: list[Value] = []
    for operand in operands:
        if isinstance(operand, list | tuple):
            found += _flat(operand)
        elif isinstance(operand, Value):
            found.append(operand)
        else:
            kind = type(operand).__name__
            raise TypeError(f"operands are values the builder made, not {kind}: use `b.constant`")
    return tuple(found)


def _types(given: Any) -> tuple[Type, ...] | None:
    if given is None:
        return None
    several = isinstance(given, list | tuple)
    return tuple(map(as_type, given)) if several else (as_type(given),)


def _symbols(callee: Any) -> Attribute:
    if isinstance(callee, str):
        return SymbolAttr(callee)
    return ArrayAttr(tuple(map(SymbolAttr, callee)))


def _literal(value: Any, given: TypeLike | None) -> Attribute:
    """Return a number or an array as the attribute `dense<…>` of type `given`.

    Raises:
        ValueError: The type is missing or not a static tensor, or a value does not fit it.
    """
    if given is None:
        if not isinstance(value, np.ndarray | np.generic):
            raise ValueError('give the type of the constant: `b.constant(0.0, "f32")`')
        found = [e for e in ELEMENT_TYPES.values() if e.numpy == value.dtype.name]
        if not found:
            raise ValueError(f"there are no tensors of {value.dtype.name}")
        type: Type = TensorType(found[0], value.shape)
    else:
        type = as_type(given)
    if not isinstance(type, TensorType) or not type.element.numpy or not type.is_static:
        raise ValueError("a constant is a tensor of numbers and of known sizes")
    name = type.element.numpy
    try:
        array = np.asarray(value, np.dtype(getattr(ml_dtypes, name, name)))
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is no {type.element}: {error}") from None
    if array.ndim:
        return from_array(array, type)
    splat = from_array(array, TensorType(type.element, ()))
    return DenseAttr(splat.literal, type)


def _scalar(value: Value) -> Type:
    return TensorType(value.type.element, ()) if isinstance(value.type, TensorType) else value.type


def _arguments(name: str, operands: Sequence[Value]) -> list[Type]:
    """Return the types of the arguments that the regions of op `name` have for these operands."""
    scalars = [_scalar(value) for value in operands]
    half = len(operands) // 2
    match name.removeprefix("stablehlo."):
        case "reduce" | "reduce_window":
            return scalars[half:] * 2
        case "scatter":
            return scalars[: half if len(scalars) > 1 else 1] * 2
        case "select_and_scatter" | "reduce_scatter":
            return scalars[:1] * 2
        case "all_reduce" | "collective_reduce":
            return scalars[:1] * 2
        case "sort":
            return [scalar for scalar in scalars for _ in range(2)]
        case "map":
            return scalars
        case "while" | "async_start":
            return [value.type for value in operands]
        case "chlo.scan":
            return [value.type for value in operands[half:]] * 2
        case _:
            return []
