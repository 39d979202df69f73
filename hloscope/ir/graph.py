"""The program graph that the HLO and the StableHLO front end produce."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from hloscope.errors import Diagnostic, Formatter, UnknownNameError, plain
from hloscope.support.lazy import lazy
from hloscope.support.source import visible
from hloscope.support.system import shared_lock
from hloscope.support.walks import needed_first

if TYPE_CHECKING:
    import networkx as nx

    from hloscope.ir.op import Op
    from hloscope.ir.types import Type
    from hloscope.support.source import Span

    Graph: TypeAlias = nx.MultiDiGraph[str]
else:
    nx = lazy("networkx")


# --------------------------------------------------------------------------------------------------
# The program graph that the HLO and the StableHLO front end produce.
#
# There is one kind of node: an `Instruction` is also its value.  A StableHLO op with several
# results has a tuple type, and `ops.control.Result` nodes take the elements, as HLO's get-tuple-
# element does. Arguments of functions and regions are instructions too (`ops.control.Parameter`).
#
# Nodes compare by identity, types and ops by value.  Everything is immutable after construction,
# and a pass returns a new module.  Nodes do not refer to their users or parents; `ir.views`
# computes these.  Bodies and ops may be read from the text on first use, which is not visible to
# callers.


_READING: Final = shared_lock()


class Instruction:
    """One operation and its value.

    Attributes:
        name: Name without `%`, unique in its computation.
        type: Type of the value; a `TupleType` for several results.
        op: The operation; equal instructions may share the object.
        operands: The values that it reads, in order.
        calls: Called computations (`to_apply`, `body`, `calls` …) or StableHLO regions, in the
            order of the op's definition.
        extras: `(name, text)` of attributes that stay as written: metadata, sharding,
            backend_config, frontend_attributes, unknown attributes.
        control_predecessors: Instructions that must run before this one.
        span: Location in the source.
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
    def operand_types(self) -> tuple[Type, ...]:
        """Types of the operands."""
        return tuple([operand.type for operand in self.operands])

    @property
    def extras(self) -> tuple[tuple[str, str], ...]:
        """Attributes that stay as written, `(name, text)`: metadata, sharding, unknown ones …."""
        return self._extras

    def extra(self, name: str) -> str | None:
        """Return the text of an attribute that stays as written; `None` if it is absent."""
        for key, text in self.extras:
            if key == name:
                return text
        return None

    @property
    def span(self) -> Span | None:
        """Location in the source; `None` if it is not from a text."""
        return self._span

    @property
    def line(self) -> int | None:
        """Line of the source where it begins, counted from 1."""
        span = self.span
        return None if span is None else span.line

    @property
    def location(self) -> object:
        """MLIR's location of the op's origin; `None` in HLO, which has metadata in `extras`."""
        return None

    def __repr__(self) -> str:
        operands = ", ".join(o.name for o in self.operands)
        return visible(f"<{self.name} = {self.op.name}({operands})>")


class Body:
    """The instructions of a computation, in text order, definitions before uses.

    Attributes:
        callees: Called computations, each once, in order; `None` until `Computation.callees` is
            used.
        instructions: The instructions.
        parameters: The parameters by number.
        root: The instruction whose value is returned.
        captures: Values read from enclosing computations; `None` until `captures` is used.
        cached_plans: Plans of the interpreter, each with its key.
    """

    __slots__ = (
        "_by_name",
        "cached_plans",
        "callees",
        "captures",
        "instructions",
        "parameters",
        "root",
    )

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
        self.cached_plans: tuple[tuple[object, object], ...] = ()
        self._by_name: Mapping[str, Instruction] | None = None

    @property
    def by_name(self) -> Mapping[str, Instruction]:
        """The instructions of the body, by their names."""
        # Made on first use, as few bodies need it: 192,000 bodies of three instructions take 290 MB
        # without the dictionary, 325 MB with it.
        if self._by_name is None:
            self._by_name = {ins.name: ins for ins in self.instructions}
        return self._by_name


class Computation:
    """Straight-line code: an HLO computation, a StableHLO function or a single-block region.

    It is made from a body, or from a function that reads the body when it is first needed.
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
        """The instructions, parameters and root."""
        body = self._body
        if isinstance(body, Body):
            return body
        with _READING:  # nodes compare by identity, so two threads must not make two sets of them
            body = self._body
            if not isinstance(body, Body):
                body = self._body = body()
            return body

    @property
    def is_read(self) -> bool:
        """Have the instructions of this computation been parsed from its text already?"""
        return isinstance(self._body, Body)

    @property
    def extras(self) -> tuple[tuple[str, str], ...]:
        """Attributes of the computation, `(name, text)` as written."""
        return self._extras

    @property
    def span(self) -> Span | None:
        """Location in the source; `None` if it is not from a text."""
        return self._span

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions in text order, definitions before uses."""
        return self.body.instructions

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """Parameters by number."""
        return self.body.parameters

    @property
    def callees(self) -> tuple[Computation, ...]:
        """Computations that the instructions call, each once, in the order of the first call."""
        body = self.body
        if body.callees is None:
            # Kept in the body, as every traversal of the call graph asks for it.
            called = [callee for ins in body.instructions if ins.calls for callee in ins.calls]
            body.callees = tuple(dict.fromkeys(called)) if called else ()
        return body.callees

    @property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        return self.body.root

    @property
    def arguments(self) -> tuple[Type, ...]:
        """Types of the parameters."""
        return tuple(p.type for p in self.body.parameters)

    @property
    def results(self) -> tuple[Type, ...]:
        """Types of the results: of the operands of a StableHLO `return`, else of the root."""
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
        name: Name of the module.
        computations: Computations by name.
        entry: The computation that runs when the program runs.
        preamble: Text before the first computation, as written.
        has_tree: Does the module hold the MLIR syntax tree that it was made from?
        spell: Function that writes types and op names in the language of its text.
        notes: Diagnostics about deviations from the language that the reader accepted.
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
        spell: Formatter = plain,
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
        """Return, for each computation that is called, the computations that call it.

        Whether these calls ever run is not examined.
        """
        found: dict[Computation, list[Computation]] = {}
        for caller in self:
            for callee in caller.callees:
                found.setdefault(callee, []).append(caller)
        return found

    def __repr__(self) -> str:
        return visible(f"<module {self.name}: {len(self.computations)} computations>")


def captured(ins: Instruction) -> tuple[Instruction, ...]:
    """Return the outer values that computations called by `ins` read, in text order.

    Only StableHLO regions read such values, also in nested regions.
    """
    if len(ins.calls) == 1:
        return captures(ins.calls[0])
    return tuple(dict.fromkeys(value for callee in ins.calls for value in captures(callee)))


def captures(computation: Computation) -> tuple[Instruction, ...]:
    """Return the outer values that a computation, or one that it calls, reads, in text order.

    For a recursive function these are only the values that its own instructions read.
    """
    known = computation.body.captures
    if known is not None:
        return known
    # Depth first with an explicit stack: each computation is opened once, and completed after its
    # callees.  Results are kept in the bodies, as evaluation and analyses ask for every region.
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
        # A value that a nested region reads may be defined here; then it is not an outer value.
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
"""Number of operands above which `of_last` stores the result for an instruction."""


class of_last(Generic[T]):  # noqa: N801  # a decorator
    """Decorator that memoizes the last result of a function for an instruction of many operands.

    A second call with the same instruction returns the stored result. Results for instructions with
    at most `WIDE` operands are not stored.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> module = parse_hlo("ENTRY e { p = f32[1] parameter(0) ROOT t = (f32[1]) tuple(p) }")
    >>> of_last(lambda ins: len(ins.operands))(module.entry.root)
    1
    """

    def __init__(self, function: Callable[[Instruction], T]) -> None:
        self._function = function
        self._last: tuple[Instruction, T] | None = None

    def __call__(self, ins: Instruction) -> T:
        """Return the result for an instruction."""
        if len(ins.operands) <= WIDE:
            return self._function(ins)
        # A pass asks several times in a row for one instruction, and each answer about an
        # instruction of many operands takes time linear in their number.
        last = self._last
        if last is None or last[0] is not ins:
            # One assignment of a pair, so that other threads never see a mixture.
            last = self._last = ins, self._function(ins)
        return last[1]


class Hashed:
    """A tuple that computes its hash once; for dictionary keys of many elements."""

    __slots__ = ("_hash", "values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self._hash = hash(values)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Hashed) and self.values == other.values)

    def __hash__(self) -> int:
        return self._hash


def value_types(ins: Instruction) -> tuple[Any, ...] | Hashed:
    """Return the types of the instruction's value and of its operands, as part of a cache key."""
    if len(ins.operands) <= WIDE:
        return tuple([ins.type, *[operand.type for operand in ins.operands]])
    return _types(ins)


@of_last
def _types(ins: Instruction) -> Hashed:
    return Hashed(tuple([ins.type, *[operand.type for operand in ins.operands]]))


# --------------------------------------------------------------------------------------------------
# Views of the graph: users of values, orders of traversal, networkx graphs.
#
# Views are computed on demand, in time linear in the part of the graph they cover, and not updated.
# Control predecessors count for the order of instructions, not as uses.


Uses: TypeAlias = dict[Instruction, tuple[Instruction, ...]]
"""Users of each instruction, in text order; a user that reads a value twice is listed once."""


def callees_first(start: Computation, done: Container[Computation]) -> Iterator[Computation]:
    """Yield a computation and all that it calls, directly or not, callees first.

    Computations in `done` are skipped, with all that only they call.
    """
    if not start.callees:
        return iter(() if start in done else (start,))
    return needed_first([start], lambda computation: computation.callees[::-1], done)


def users(computation: Computation) -> Uses:
    """Return the users of every instruction of `computation`.

    >>> from hloscope.ir.graph import Body
    >>> from hloscope.ir.op import Op
    >>> from hloscope.ir.types import TokenType
    >>> a = Instruction("a", TokenType(), Op())
    >>> b = Instruction("b", TokenType(), Op(), (a, a))
    >>> users(Computation("c", Body((a, b), (), b)))[a]
    (<b = (a, a)>,)
    """
    found: dict[Instruction, list[Instruction]] = {ins: [] for ins in computation}
    for ins in computation:
        for operand in dict.fromkeys(ins.operands):
            if operand in found:  # a region may read values from outside
                found[operand].append(ins)
    return {ins: tuple(by) for ins, by in found.items()}


def neighbourhood(
    ins: Instruction, distance: int, computation: Computation
) -> tuple[Instruction, ...]:
    """Return the instructions at most `distance` operand edges away from `ins`, in text order.

    Edges count in both directions.

    Raises:
        UnknownNameError: `ins` is not in `computation`.
    """
    if ins not in set(computation):
        raise UnknownNameError(f"`{ins.name}` is not in computation `{computation.name}`")
    uses = users(computation)
    found = {ins}
    edge = [ins]
    for _ in range(distance):
        near = (n for at in edge for n in (*at.operands, *uses[at]) if n in uses)
        edge = [n for n in dict.fromkeys(near) if n not in found]
        found.update(edge)
    return tuple(i for i in computation if i in found)


def to_networkx(
    what: Computation | Iterable[Instruction], names: Mapping[Instruction, str] | None = None
) -> Graph:
    """Return instructions as a networkx graph with an edge from each operand to its user.

    Nodes are instruction names, or their replacements in `names`, with the data `op`, `type` and
    `instruction`.  Edges have the data `operand` (operand number) or `control=True`.  Edges to
    instructions outside of `what` are left out.

    >>> from hloscope.ir.op import Op
    >>> from hloscope.ir.types import TokenType
    >>> a = Instruction("a", TokenType(), Op())
    >>> list(to_networkx([a, Instruction("b", TokenType(), Op(), (a,))]).edges(data=True))
    [('a', 'b', {'operand': 0})]
    """
    graph: Graph = nx.MultiDiGraph()
    instructions = tuple(what)
    name = names or {ins: ins.name for ins in instructions}
    inside = set(instructions)
    for ins in instructions:
        data: dict[str, Any] = {"op": ins.op.name, "type": ins.type, "instruction": ins}
        graph.add_node(name[ins], **data)
    for ins in instructions:
        for number, operand in enumerate(ins.operands):
            if operand in inside:
                graph.add_edge(name[operand], name[ins], operand=number)
        for before in ins.control_predecessors:
            if before in inside:
                graph.add_edge(name[before], name[ins], control=True)
    return graph


def _predecessors(ins: Instruction) -> tuple[Instruction, ...]:
    """Return the operands of an instruction and then its control predecessors."""
    return ins.operands + ins.control_predecessors
