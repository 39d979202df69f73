"""Instructions of the program graph that know the operation of the syntax tree they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, NoReturn

from hloscope.errors import UnsupportedError
from hloscope.ir import Body, Computation, Instruction, Module, Op, Type, Written
from hloscope.mlir import (
    UNKNOWN,
    ArrayAttr,
    AttributeSlot,
    Definition,
    DictAttr,
    LazyLoc,
    Location,
    Operation,
    Slot,
    Value,
    location_text,
    print_mlir,
    spell,
)
from hloscope.mlir.dialects import CALLEES, CLASSES, DEFINITIONS, DIALECTS, ENUMS, meshes_in
from hloscope.ops import Parameter, Result, UnknownOp
from hloscope.stablehlo.builder import Builder, methods_of
from hloscope.stablehlo.kinds import attribute_text, verbatim
from hloscope.stablehlo.making import structure_fields
from hloscope.support.source import Span

# --------------------------------------------------------------------------------------------------
# Instructions of the program graph that know the operation of the syntax tree they come from.


Extras = tuple[tuple[str, str], ...]


class _TreeInstruction(Instruction):
    """An instruction of a module that has a syntax tree.

    The text of its attributes is made on request.

    The text of a location may be long, so only `extras` and `extra("loc")` contain it.
    """

    __slots__ = ()

    @property
    def location(self) -> Location:
        """The location of the instruction."""
        raise NotImplementedError

    @property
    def _others(self) -> Extras:
        """Attributes without a field in the op's class, except the location, as (name, text)."""
        raise NotImplementedError

    @property
    def extras(self) -> Extras:
        """Attributes without a field in the op's class, and the location `loc`, as (name, text)."""
        return (*self._others, *location_extras(self.location))

    def extra(self, name: str) -> str | None:
        """Return the text of the attribute `name` if no field of the op's class holds it.

        Else `None`.
        """
        found = location_extras(self.location) if name == "loc" else self._others
        return dict(found).get(name)


class Node(_TreeInstruction):
    """The instruction of an operation of the tree, or of one of its several results."""

    __slots__ = ("operation",)

    def __init__(
        self,
        name: str,
        type: Type,
        op: Op,
        operands: tuple[Instruction, ...],
        calls: tuple[Computation, ...],
        operation: Operation,
    ) -> None:
        """Create the instruction of an operation, which has the attributes and the location.

        Args:
            name: Name of the instruction.
            type: Type of its value.
            op: The op of the program graph.
            operands: The operands.
            calls: Computations of the regions, and called functions.
            operation: The operation of the syntax tree.
        """
        self.name = name  # type: ignore[misc]  # the base class says Final
        self.type = type  # type: ignore[misc]
        self.op = op  # type: ignore[misc]
        self.operands = operands  # type: ignore[misc]
        self.calls = calls  # type: ignore[misc]
        self.control_predecessors = ()  # type: ignore[misc]
        self.operation: Final = operation

    @property
    def _others(self) -> Extras:
        """Attributes without a field in the op's class, except the location, as (name, text)."""
        operation = self.operation
        if isinstance(self.op, Result | UnknownOp):
            return ()
        own = {CALLEES.get(operation.name, "")}
        if operation.name in CLASSES:
            own |= {slot.name for slot in DEFINITIONS[operation.name].attributes}
        given = {**operation.properties, **operation.attributes}
        return tuple([(name, verbatim(a)) for name, a in given.items() if name not in own])

    def extra(self, name: str) -> str | None:
        """Return the text of the attribute `name` if no field of the op's class holds it.

        Else `None`.
        """
        operation = self.operation
        if name != "loc" and name not in operation.attributes and name not in operation.properties:
            return None  # `_others` writes all of them out: a sixth of `cost` of 47,493 kernels
        return super().extra(name)

    @property
    def span(self) -> Span | None:
        """Span of the operation in the source text; `None` if it was not parsed."""
        return self.operation.span

    @property
    def location(self) -> Location:
        """Location of the operation."""
        return self.operation.location


class Argument(_TreeInstruction):
    """A parameter that is an argument of a block."""

    __slots__ = ("owner", "value")

    def __init__(self, name: str, number: int, value: Value, owner: Operation) -> None:
        """Create the parameter of a block argument.

        Args:
            name: Name of the parameter.
            number: Number of the argument in its block, from 0.
            value: The argument in the syntax tree, which has the type.
            owner: The op with the block; a function has the attributes of its arguments.
        """
        self.name = name  # type: ignore[misc]  # the base class says Final
        self.type = value.type  # type: ignore[misc]
        self.op = Parameter(number)  # type: ignore[misc]
        self.operands = self.calls = self.control_predecessors = ()  # type: ignore[misc]
        self.value: Final = value
        self.owner: Final = owner

    @property
    def _others(self) -> Extras:
        """Attributes of the argument, without its location, as (name, text)."""
        given = self.owner.get("arg_attrs")
        number = self.value.index
        if isinstance(given, ArrayAttr) and number < len(given.elements):
            entries = given.elements[number]
            if isinstance(entries, DictAttr):
                return tuple([(k, attribute_text(a)) for k, a in entries.entries])
        return ()

    @property
    def span(self) -> Span | None:
        """Span of the operation with the block in the source text."""
        return self.owner.span

    @property
    def location(self) -> Location:
        """Location of the argument, not of the op with its block."""
        return self.value.location


class RegionCode(Computation):
    """The computation of a region; `operation` is the op with the region."""

    __slots__ = ("operation",)

    def __init__(
        self,
        name: str,
        body: Body | Callable[[], Body],
        operation: Operation,
        extras: Extras = (),
    ) -> None:
        super().__init__(name, body, extras=extras)
        self.operation: Final = operation

    @property
    def span(self) -> Span | None:
        """Span of the operation with the region in the source text."""
        return self.operation.span


class Function(RegionCode):
    """The computation of a function in the syntax tree."""

    __slots__ = ()


class TreeModule(Module):
    """A program graph that was built from a syntax tree, which is its `tree`."""

    has_tree: ClassVar[bool] = True

    def __init__(
        self,
        tree: Operation,
        name: str,
        computations: Mapping[str, Computation],
        entry: Computation,
    ) -> None:
        super().__init__(name, computations, entry, spell=spell)
        self.tree: Final = tree

    def __reduce__(self) -> NoReturn:
        raise TypeError("a StableHLO module does not cross processes: send its text instead")

    @property
    def extras(self) -> Extras:
        """Attributes of the module, and texts of its ops except functions, as (name, text)."""
        tree = self.tree
        own = [(name, verbatim(a)) for name, a in tree.attributes.items()]
        others = [(o.name, _op_text(o)) for o in non_functions(tree)]
        return (*own, *others, *location_extras(tree.location))


class MeshText(Written):
    """The text of a module's `sdy.mesh` ops; `value` has the meshes by name."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The meshes by name, as `meshes_in` returns them; `None` if the text is not understood."""
        try:
            return meshes_in(self)
        except UnsupportedError:
            return None


def _op_text(operation: Operation) -> str:
    text = print_mlir(operation, dialects=DIALECTS).strip()
    return MeshText(text) if operation.name == "sdy.mesh" else text


def non_functions(tree: Operation) -> Iterator[Operation]:
    """Yield the ops of a module that are neither functions nor modules."""
    known = ("func.func", "builtin.module")
    return (o for o in tree.inside if o.name not in known)


def location_extras(location: Location) -> Extras:
    if location is UNKNOWN:
        return ()
    text = location.text if isinstance(location, LazyLoc) else location_text(location)
    return (("loc", text),)


# --------------------------------------------------------------------------------------------------
# Types of the builder's methods, for type checkers and editors.
#
# `python -m hloscope.stablehlo.nodes > hloscope/stablehlo/op_methods.pyi` writes them from the
# dialects' tables; a test fails if the file is outdated.


_INT, _INTS, _FLAG = "int", "Sequence[int]", "bool"
_TABLE, _WORDS = "Sequence[Sequence[int]]", "Sequence[str] | str"
PYTHON_TYPES: Final[dict[str, str]] = {
    **dict.fromkeys(("i64", "i64>=0", "i64>0", "i32", "i32>=0", "i32>0", "api_version"), _INT),
    "f32": "float",
    **dict.fromkeys(("bool", "unit"), _FLAG),
    **dict.fromkeys(("string", "callee"), "str"),
    "callees": "Sequence[str]",
    "dims": _INTS,
    "bools": "Sequence[bool]",
    "pairs": _TABLE,
    **dict.fromkeys(("table", "groups"), f"{_TABLE} | str"),
    "precision": _WORDS,
    "channel": "int | tuple[int, int]",
}
"""Python type of an attribute, by its constraint; other attributes have type `Any`."""

_HEAD: Final = '''\
"""Made by `python -m hloscope.stablehlo.nodes`; not edited by hand."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from hloscope.mlir.ir import Attribute, Value
from hloscope.stablehlo.making import TypeLike

_Values = Value | Sequence[Value]
_Types = TypeLike | Sequence[TypeLike]
_Region = Callable[..., Any]'''


def stub() -> str:
    """Return the text of `op_methods.pyi`."""
    lines = [_HEAD]
    for name, values in sorted({(enum.type, enum.values) for enum in ENUMS.values()}):
        lines.append(f"_{name} = Literal{list(values)}".replace("'", '"'))
    for dialect, name in (("stablehlo", "StablehloMethods"), ("chlo", "ChloMethods")):
        lines += [f"\nclass {name}:"]
        for method, full in methods_of(dialect).items():
            if method not in vars(Builder):
                lines += _method(method, DEFINITIONS[full])
    return "\n".join(lines) + "\n"


def _method(name: str, definition: Definition) -> Iterator[str]:
    yield f"    def {name}("
    yield "        self,"
    operands = list(_operands(definition.operands))
    yield from [f"        {text}," for text in operands]
    if operands and not operands[-1].startswith("*"):
        yield "        /,"
    if not operands or not operands[-1].startswith("*"):
        yield "        *,"
    for slot in definition.regions:
        yield f"        {slot.name}: {'Sequence[_Region] = ...' if slot.variadic else '_Region'},"
    for attribute in definition.attributes:
        yield from [f"        {text}," for text in _parameters(definition, attribute)]
    yield "        type: _Types | None = ...,"
    yield "        attributes: Mapping[str, Any] = ...,"
    yield f"    ) -> {_returned(definition.results)}: ..."


def _operands(slots: tuple[Slot, ...]) -> Iterator[str]:
    """Yield the operands as Python parameters; only `*operands` if one of them is variadic."""
    if any(slot.count for slot in slots):  # a list may stand for the operands of several slots
        yield "*operands: _Values"
    else:
        yield from (f"{slot.name}: Value" for slot in slots)


def _parameters(definition: Definition, slot: AttributeSlot) -> Iterator[str]:
    dialect = definition.name.partition(".")[0]
    enum = ENUMS.get((dialect, slot.constraint))
    fields = structure_fields(slot)
    if enum is not None:
        python = f"_{enum.type}"
    else:
        python = "Mapping[str, Any]" if fields else PYTHON_TYPES.get(slot.constraint, "Any")
    text = f"{slot.name}: {python}" + " | Attribute" * (python != "Any")
    yield text + (" | None = ..." if slot.optional or slot.default or fields else "")
    for field, empty in fields.items():
        yield f"{field}: {_INT if empty == 0 else _INTS} = ..."


def _returned(slots: tuple[Slot, ...]) -> str:
    if any(slot.count for slot in slots):
        return "Any"
    return {0: "None", 1: "Value"}.get(len(slots), f"tuple[{', '.join(['Value'] * len(slots))}]")


if __name__ == "__main__":
    print(stub(), end="")
