"""The program graph shared by the HLO text and the StableHLO front ends.

One kind of node: an `Instruction` is its own value.  An op with several results (StableHLO) has a
tuple type, and `ops.control.Result` nodes project the parts, as HLO's get-tuple-element does.
Function and region arguments are instructions too (`ops.control.Parameter`).

Nodes compare by identity, types and ops by value.  Everything is immutable after construction: a
pass returns a new module.  There are no parent or use pointers to keep in step; `ir.views`
computes them when an analysis asks.  Bodies and ops may be read from the text on first use, which
no reader can tell from having been there all along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from hloscope.errors import Diagnostic, Spell, plain
from hloscope.locks import shared_lock
from hloscope.visible import visible

if TYPE_CHECKING:
    from hloscope.ir.op import Op
    from hloscope.ir.types import Type
    from hloscope.source import Span

_READING: Final = shared_lock()


class Instruction:
    """One operation and its value.

    Attributes:
        name: Unique in its computation, without `%`.
        type: Type of the value; a `TupleType` for several results.
        op: What is computed; shared between equal instructions.
        operands: Values read, in order.
        calls: Called computations (`to_apply`, `body`, `calls` …) in the order of the op's
            definition; StableHLO regions.
        extras: `(name, text)` of everything kept as written: metadata, sharding, backend_config,
            frontend_attributes, unknown attributes.
        control_predecessors: Instructions that must run before this one.
        span: Where it stands in the source.
    """

    __slots__ = (
        "_extras",
        "_span",
        "calls",
        "control_predecessors",
        "name",
        "op",
        "operands",
        "type",
    )

    def __init__(
        self,
        name: str,
        type: Type,
        op: Op,
        operands: tuple[Instruction, ...] = (),
        calls: tuple[Computation, ...] = (),
        extras: tuple[tuple[str, str], ...] = (),
        control_predecessors: tuple[Instruction, ...] = (),
        span: Span | None = None,
    ) -> None:
        self.name: Final = name
        self.type: Final = type
        self.op: Final = op
        self.operands: Final = operands
        self.calls: Final = calls
        self._extras = extras
        self.control_predecessors: Final = control_predecessors
        self._span = span

    @property
    def extras(self) -> tuple[tuple[str, str], ...]:
        """Metadata, sharding, unknown attributes …: `(name, text)` as written."""
        return self._extras

    def extra(self, name: str) -> str | None:
        """The text of an attribute that is kept as written, `None` if there is none."""
        for key, text in self.extras:
            if key == name:
                return text
        return None

    @property
    def span(self) -> Span | None:
        """Where the instruction stands in the source."""
        return self._span

    @property
    def line(self) -> int | None:
        """The line of the source where it begins, counted from 1."""
        span = self.span
        return None if span is None else span.line

    @property
    def location(self) -> object:
        """Where MLIR says that it comes from, `None` in HLO, which has metadata among `extras`."""
        return None

    def __repr__(self) -> str:
        operands = ", ".join(o.name for o in self.operands)
        return visible(f"<{self.name} = {self.op.name}({operands})>")


class Body:
    """What a computation holds: its instructions in text order, definitions before uses.

    Attributes:
        callees: The computations called, each once in order, once `Computation.callees` was asked.
        instructions: The instructions.
        parameters: Those that are parameters, by number.
        root: The one whose value is returned.
        captures: Values read without being handed in, once `captures` was asked for them.
        kept: What evaluation has made ready, each with what it is for.
    """

    __slots__ = ("_by_name", "callees", "captures", "instructions", "kept", "parameters", "root")

    def __init__(
        self,
        instructions: tuple[Instruction, ...],
        parameters: tuple[Instruction, ...],
        root: Instruction,
    ) -> None:
        self.instructions: Final = instructions
        self.parameters: Final = parameters
        self.root: Final = root
        self.captures: tuple[Instruction, ...] | None = None
        self.callees: tuple[Computation, ...] | None = None
        self.kept: tuple[tuple[object, object], ...] = ()
        self._by_name: Mapping[str, Instruction] | None = None

    @property
    def by_name(self) -> Mapping[str, Instruction]:
        """The instructions by name."""
        # Made when it is first asked for, as few bodies are asked: 192,000 bodies of three
        # instructions take 290 MB without, 325 MB with it.
        if self._by_name is None:
            self._by_name = {ins.name: ins for ins in self.instructions}
        return self._by_name


class Computation:
    """Straight-line code: an HLO computation, a StableHLO function or a single-block region.

    The body may be given, or a function that reads it when it is first asked for.
    """

    __slots__ = ("_body", "_extras", "_span", "name")

    def __init__(
        self,
        name: str,
        body: Body | Callable[[], Body],
        *,
        extras: tuple[tuple[str, str], ...] = (),
        span: Span | None = None,
    ) -> None:
        self.name: Final = name
        self._extras = extras
        self._span = span
        self._body = body

    @property
    def body(self) -> Body:
        """Instructions, parameters and root."""
        body = self._body
        return body if isinstance(body, Body) else self._read()

    def _read(self) -> Body:
        with _READING:  # two threads must not make two sets of nodes
            body = self._body
            if not isinstance(body, Body):
                body = self._body = body()
            return body

    @property
    def is_read(self) -> bool:
        """Has the body been read from the text already?"""
        return isinstance(self._body, Body)

    @property
    def extras(self) -> tuple[tuple[str, str], ...]:
        """Attributes of the computation, `(name, text)` as written."""
        return self._extras

    @property
    def span(self) -> Span | None:
        """Where the computation stands in the source."""
        return self._span

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions in text order, definitions before uses."""
        body = self._body  # looked at here and below, as these are asked all the time
        return (body if isinstance(body, Body) else self._read()).instructions

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """Parameters by number."""
        body = self._body
        return (body if isinstance(body, Body) else self._read()).parameters

    @property
    def callees(self) -> tuple[Computation, ...]:
        """The computations that its instructions call, each once, in order."""
        body = self._body
        if not isinstance(body, Body):
            body = self._read()
        if body.callees is None:
            called = [callee for ins in body.instructions if ins.calls for callee in ins.calls]
            body.callees = tuple(dict.fromkeys(called)) if called else ()
        return body.callees

    @property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        body = self._body
        return (body if isinstance(body, Body) else self._read()).root

    @property
    def arguments(self) -> tuple[Type, ...]:
        """Types of the parameters."""
        return tuple(p.type for p in self.body.parameters)

    @property
    def results(self) -> tuple[Type, ...]:
        """Types of what it returns: those a StableHLO `return` reads, else that of the root."""
        root = self.body.root
        if root.op.name == "return":
            return tuple(o.type for o in root.operands)
        return (root.type,)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.body.instructions)

    def __len__(self) -> int:
        return len(self.body.instructions)

    def __getitem__(self, name: str) -> Instruction:
        return self.body.by_name[name]

    def __repr__(self) -> str:
        return visible(f"<computation {self.name}>")


class Module:
    """A program: computations by name, one of them the entry.

    Attributes:
        has_tree: It was made of a syntax tree of MLIR, which it remembers.
        spell: How the language of its text writes types and names of ops.
        notes: What the reader did with a text that is not quite of its language.
    """

    has_tree: ClassVar[bool] = False
    notes: tuple[Diagnostic, ...] = ()

    def __init__(
        self,
        name: str,
        computations: Mapping[str, Computation],
        entry: Computation,
        *,
        extras: tuple[tuple[str, str], ...] = (),
        preamble: str = "",
        spell: Spell = plain,
    ) -> None:
        self.name: Final = name
        self.computations: Final = computations
        self.entry: Final = entry
        self._extras = extras
        self.preamble: Final = preamble
        self.spell: Final = spell

    @property
    def extras(self) -> tuple[tuple[str, str], ...]:
        """Attributes of the module, `(name, text)` as written."""
        return self._extras

    def __iter__(self) -> Iterator[Computation]:
        return iter(self.computations.values())

    def possible_callers(self) -> dict[Computation, list[Computation]]:
        """By each computation that is called, those that may call it: who does is among them."""
        found: dict[Computation, list[Computation]] = {}
        for caller in self:
            for callee in caller.callees:
                found.setdefault(callee, []).append(caller)
        return found

    def __repr__(self) -> str:
        return visible(f"<module {self.name}: {len(self.computations)} computations>")


def captured(ins: Instruction) -> tuple[Instruction, ...]:
    """Values that the computations called by `ins` read without being handed them, in text order.

    Only StableHLO regions do: also those of instructions inside what is called.
    """
    if len(ins.calls) == 1:
        return captures(ins.calls[0])
    return tuple(dict.fromkeys(value for callee in ins.calls for value in captures(callee)))


def captures(computation: Computation) -> tuple[Instruction, ...]:
    """Values that a computation, or one it calls, reads from outside of it, in text order.

    Each computation is looked at once, callees first, however deep calls are nested.  What a
    function that calls itself reads from outside is what its own instructions read.
    """
    known = computation.body.captures
    if known is not None:
        return known
    opened: set[Computation] = set()
    stack = [computation]
    while stack:
        top = stack[-1]
        if top.body.captures is not None:
            stack.pop()
            continue
        if top not in opened:
            opened.add(top)
            below = top.callees
            stack += [c for c in below if c not in opened and c.body.captures is None]
            continue
        own = {*top.instructions, *top.parameters}
        read: dict[Instruction, None] = {}
        for ins in top:
            read.update(dict.fromkeys(ins.operands))
            for callee in ins.calls:
                read.update(dict.fromkeys(callee.body.captures or ()))
        top.body.captures = tuple([value for value in read if value not in own])
        stack.pop()
    return captures(computation)


T = TypeVar("T")
WIDE: Final = 256
"""Of instructions with more operands what was found last is remembered."""


class of_last(Generic[T]):  # noqa: N801  # a decorator
    """A function of an instruction that remembers its last answer about a wide one.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> module = parse_hlo("ENTRY e { p = f32[1] parameter(0) ROOT t = (f32[1]) tuple(p) }")
    >>> of_last(lambda ins: len(ins.operands))(module.entry.root)
    1
    """

    def __init__(self, function: Callable[[Instruction], T]) -> None:
        self._function = function
        self._last: tuple[Instruction, T] | None = None

    def __call__(self, ins: Instruction) -> T:
        """The answer about an instruction."""
        if len(ins.operands) <= WIDE:
            return self._function(ins)
        last = self._last
        if last is None or last[0] is not ins:
            last = self._last = ins, self._function(ins)  # one assignment, for threads
        return last[1]


class Hashed:
    """What is the same of many operands, hashed once."""

    __slots__ = ("_hash", "values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self._hash = hash(values)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Hashed) and self.values == other.values)

    def __hash__(self) -> int:
        return self._hash


def value_types(ins: Instruction) -> tuple[Any, ...] | Hashed:
    """The types of the value and of the operands, as part of a key."""
    if len(ins.operands) <= WIDE:
        return tuple([ins.type, *[operand.type for operand in ins.operands]])
    return _types(ins)


def operand_type_ids(ins: Instruction) -> tuple[int, ...] | Hashed:
    """The identities of the types of the operands, as part of a key."""
    if len(ins.operands) <= WIDE:
        return tuple([id(operand.type) for operand in ins.operands])
    return _type_ids(ins)


@of_last
def _types(ins: Instruction) -> Hashed:
    return Hashed(tuple([ins.type, *[operand.type for operand in ins.operands]]))


@of_last
def _type_ids(ins: Instruction) -> Hashed:
    return Hashed(tuple([id(operand.type) for operand in ins.operands]))
