"""Graph nodes that know where they stand in the text; spans are made when somebody asks."""

from __future__ import annotations

from hloscope.ir.graph import Computation, Instruction
from hloscope.ir.op import Op
from hloscope.ir.types import Type
from hloscope.source import Source, Span

Pairs = tuple[tuple[str, str], ...]


class Node(Instruction):
    """An instruction read from MLIR text."""

    __slots__ = ("_end", "_location", "_source", "_start")

    def __init__(
        self,
        name: str,
        type: Type,
        op: Op,
        operands: tuple[Instruction, ...],
        calls: tuple[Computation, ...],
        extras: Pairs,
        location: str,
        source: Source,
        start: int,
        end: int,
    ) -> None:
        """Take the fields of an instruction; it stands at `[start, end)` in `source`."""
        self.name = name  # type: ignore[misc]  # the base class says Final
        self.type = type  # type: ignore[misc]
        self.op = op  # type: ignore[misc]
        self.operands = operands  # type: ignore[misc]
        self.calls = calls  # type: ignore[misc]
        self.control_predecessors = ()  # type: ignore[misc]
        self._extras = extras
        self._location = location
        self._source = source
        self._start = start
        self._end = end

    @property
    def extras(self) -> Pairs:
        """Attributes that belong to no field, and the location as `loc`: `(name, text)`."""
        return (*self._extras, ("loc", self._location)) if self._location else self._extras

    @property
    def span(self) -> Span:
        """Where the instruction stands in the source."""
        return Span(self._source, self._start, self._end)
