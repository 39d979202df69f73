"""Names of values: a region sees those around it, its own come first."""

from __future__ import annotations

from typing import Final

from hloscope.errors import did_you_mean
from hloscope.ir.graph import Computation, Instruction
from hloscope.ops.control import Result
from hloscope.source import Source
from hloscope.stablehlo.lexer import fail
from hloscope.stablehlo.nodes import Node


class Scope:
    """The values of one block, and the block around it.

    Attributes:
        name: Name of the computation.
        values: Values by name, without `%`.
        instructions: In text order.
        parameters: The block's arguments.
    """

    __slots__ = ("instructions", "name", "outer", "parameters", "values")

    def __init__(self, name: str, outer: Scope | None = None) -> None:
        self.name: Final = name
        self.outer: Final = outer
        self.values: Final[dict[str, Instruction]] = {}
        self.instructions: Final[list[Instruction]] = []
        self.parameters: Final[list[Instruction]] = []

    def find(self, name: str, source: Source, at: int) -> Instruction:
        """The value of that name.

        Raises:
            ParseError: There is none.
        """
        scope: Scope | None = self
        while scope is not None:
            found = scope.values.get(name)
            if found is not None:
                return found
            scope = scope.outer
        known = [f"%{n}" for n in self.known()]
        hint = did_you_mean(f"%{name}", known)
        return fail(f"no value `%{name}` here{hint}", source, at, at + len(name) + 1)

    def known(self) -> list[str]:
        """All names that can be read here."""
        return [*self.values, *(self.outer.known() if self.outer else ())]

    def define(self, name: str, value: Instruction, source: Source, at: int) -> None:
        """Give a value its name.

        Raises:
            ParseError: The block, or one around it, has that name already.
        """
        if name in self.values:
            fail(f"`%{name}` is defined twice", source, at, at + len(name) + 1)
        self.values[name] = value

    def project(self, whole: Node, names: list[str], source: Source) -> None:
        """Define the results of an op with several.

        `%0:2` names them `0#0` and `0#1`; `%a, %b` gives each its own name.
        """
        types = getattr(whole.type, "elements", ())
        for k, (name, type) in enumerate(zip(names, types, strict=True)):
            start, end = whole._start, whole._end
            part = Node(name, type, Result(k), (whole,), (), (), "", source, start, end)
            self.instructions.append(part)
            self.define(name, part, source, start)
            if name.endswith("#0"):
                self.values.setdefault(name[:-2], part)


Computations = dict[str, Computation]
"""All computations of a module by name."""
