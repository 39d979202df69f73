"""Nodes of the program graph that know the part of the syntax tree they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, NoReturn

from hloscope.dialects import CALLEES, CLASSES, DEFINITIONS, DIALECTS, meshes_in
from hloscope.errors import UnsupportedError
from hloscope.ir import Body, Computation, Instruction, Module, Type, Written
from hloscope.mlir import (
    UNKNOWN,
    ArrayAttr,
    DictAttr,
    LazyLoc,
    Location,
    Operation,
    Value,
    location_text,
    print_mlir,
    spell,
)
from hloscope.ops import Op, Parameter, Result, UnknownOp
from hloscope.source import Span
from hloscope.stablehlo.kinds import attribute_text, verbatim

Extras = tuple[tuple[str, str], ...]


class _TreeInstruction(Instruction):
    """What stands for a part of the syntax tree, of which attributes and location are written out.

    The text of a location may be long: it is made for `extras`, and for `extra("loc")` only.
    """

    __slots__ = ()

    @property
    def location(self) -> Location:
        """Where it comes from."""
        raise NotImplementedError

    @property
    def _others(self) -> Extras:
        """Attributes that belong to no field: `(name, text)`."""
        raise NotImplementedError

    @property
    def extras(self) -> Extras:
        """Attributes that belong to no field, and the location as `loc`: `(name, text)`."""
        return (*self._others, *location_extras(self.location))

    def extra(self, name: str) -> str | None:
        """The text of an attribute that is kept as written, `None` if there is none."""
        found = location_extras(self.location) if name == "loc" else self._others
        return dict(found).get(name)


class Node(_TreeInstruction):
    """An instruction that stands for an operation of the tree, or for one of its results."""

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
        """Take the fields of an instruction; the operation knows the rest."""
        self.name = name  # type: ignore[misc]  # the base class says Final
        self.type = type  # type: ignore[misc]
        self.op = op  # type: ignore[misc]
        self.operands = operands  # type: ignore[misc]
        self.calls = calls  # type: ignore[misc]
        self.control_predecessors = ()  # type: ignore[misc]
        self.operation: Final = operation

    @property
    def _others(self) -> Extras:
        """Attributes that belong to no field."""
        operation = self.operation
        if isinstance(self.op, Result | UnknownOp):
            return ()
        own = {CALLEES.get(operation.name, "")}
        if operation.name in CLASSES:
            own |= {slot.name for slot in DEFINITIONS[operation.name].attributes}
        given = {**operation.properties, **operation.attributes}
        return tuple([(name, verbatim(a)) for name, a in given.items() if name not in own])

    def extra(self, name: str) -> str | None:
        """The text of an attribute that is kept as written, `None` if there is none."""
        operation = self.operation
        if name != "loc" and name not in operation.attributes and name not in operation.properties:
            return None  # `_others` writes all of them out: a sixth of `cost` of 47,493 kernels
        return super().extra(name)

    @property
    def span(self) -> Span | None:
        """Where the operation stands in the source."""
        return self.operation.span

    @property
    def location(self) -> Location:
        """Where the operation comes from."""
        return self.operation.location


class Argument(_TreeInstruction):
    """A parameter that stands for an argument of a block."""

    __slots__ = ("owner", "value")

    def __init__(self, name: str, number: int, value: Value, owner: Operation) -> None:
        """Take the name and the value; `owner` has the attributes of a function's arguments."""
        self.name = name  # type: ignore[misc]  # the base class says Final
        self.type = value.type  # type: ignore[misc]
        self.op = parameter(number)  # type: ignore[misc]
        self.operands = self.calls = self.control_predecessors = ()  # type: ignore[misc]
        self.value: Final = value
        self.owner: Final = owner

    @property
    def _others(self) -> Extras:
        """Attributes of the argument."""
        given = self.owner.get("arg_attrs")
        number = self.value.index
        if isinstance(given, ArrayAttr) and number < len(given.elements):
            entries = given.elements[number]
            if isinstance(entries, DictAttr):
                return tuple([(k, attribute_text(a)) for k, a in entries.entries])
        return ()

    @property
    def span(self) -> Span | None:
        """Where the operation with the block stands in the source."""
        return self.owner.span

    @property
    def location(self) -> Location:
        """Where the argument comes from."""
        return self.value.location


@lru_cache(maxsize=1 << 13)
def parameter(number: int) -> Parameter:
    return Parameter(number)


@lru_cache(maxsize=1 << 10)
def result(number: int) -> Result:
    return Result(number)


class RegionCode(Computation):
    """The code of a region of the tree; `operation` is the op that has the region."""

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
        """Where the operation with the region stands in the source."""
        return self.operation.span


class Function(RegionCode):
    """A function of the tree."""

    __slots__ = ()


class TreeModule(Module):
    """A module made of a syntax tree, which it remembers."""

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

    @cached_property
    def extras(self) -> Extras:
        """Attributes of the module and ops in it that are no functions, `(name, text)`."""
        tree = self.tree
        own = [(name, verbatim(a)) for name, a in tree.attributes.items()]
        others = [(o.name, _op_text(o)) for o in loose(tree)]
        return (*own, *others, *location_extras(tree.location))


class MeshText(Written):
    """The text of `sdy.mesh`, whose value is the mesh by its name."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """See `meshes_in`; `None` where it is not understood."""
        try:
            return meshes_in(self)
        except UnsupportedError:
            return None


def _op_text(operation: Operation) -> str:
    text = print_mlir(operation, dialects=DIALECTS).strip()
    return MeshText(text) if operation.name == "sdy.mesh" else text


def loose(tree: Operation) -> Iterator[Operation]:
    """What stands in a module and is no function or module."""
    known = ("func.func", "builtin.module")
    return (o for o in tree.inside if o.name not in known)


def location_extras(location: Location) -> Extras:
    if location is UNKNOWN:
        return ()
    text = location.text if isinstance(location, LazyLoc) else location_text(location)
    return (("loc", text),)
