"""Scalars of a program as arithmetic on the inputs of their computation.

A `Node` is one scalar: a constant, an input (a parameter, or an outer value that a region reads),
or an op on other nodes. Data movement is followed to its source: copies, tuples and their elements,
calls, fusions, loops that carry a value unchanged. `Slices` creates nodes on demand, so a query
takes time proportional to its dependences and not to the program. Nothing recurses: generators wait
on a stack for the nodes that they need.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.cost.scalars import Step, Value, any_value, hull, is_integer, scalar_element, step_of
from hloscope.errors import HloscopeError
from hloscope.ir import Computation, ElementType, Instruction, TensorType, TupleType, Type
from hloscope.ops import (
    AddDependency,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Bitcast,
    BitcastConvert,
    Broadcast,
    BroadcastInDim,
    Call,
    Case,
    Composite,
    Constant,
    CopyDone,
    CopyStart,
    Domain,
    Elementwise,
    Fusion,
    GetTupleElement,
    OptimizationBarrier,
    Parameter,
    Reshape,
    Return,
    Tuple,
    While,
)
from hloscope.support.walks import without_recursion

Path: TypeAlias = tuple[int, ...]
"""Shape index: the path to an element of nested tuples."""
Key: TypeAlias = tuple[int | Instruction, Path]
"""Key of an input of a computation, with a shape index in it.

The input is a parameter, by number, or a value from outside, by instruction.
"""

MOST_NODES: Final = 20_000
"""Maximum number of nodes for one query; beyond it values are unknown."""
MOST_NODES_IN_ALL: Final = 1_000_000
"""Maximum number of nodes for one program; beyond it values are unknown."""
MOST_CALLS: Final = 256
"""Maximum depth of calls that are followed for one value; beyond it the value is unknown."""
MOST_LOOPS: Final = 16
"""Maximum depth of nested loops that compute a value; beyond it the value is unknown."""

_EXACT_FLOATS: Final = {
    "add", "subtract", "multiply", "divide", "negate", "abs", "maximum", "minimum", "compare",
    "select", "convert", "floor", "ceil", "clamp", "sign",
}  # fmt: skip
"""Float ops that every backend rounds in the same way."""
_RESHAPES: Final = (Reshape, BroadcastInDim, Broadcast, Bitcast, BitcastConvert)


class Node:
    """A scalar: a constant, an input, an unknown value, or an op on other nodes.

    Attributes:
        name: `known`, `input`, `unknown`, `choice`, `loop`, or the name of the op.
        element: Its type; `None` if it is not a scalar that can be evaluated.
        args: Nodes of its operands.
        step: Function from the operands' values to its value; `None` without operands.
        value: Value of a constant or of an unknown scalar.
        key: Key of an input.
        level: Depth of the nested loops that compute it.
        about: Direction of a comparison; `None` for other nodes.
    """

    __slots__ = ("about", "args", "element", "key", "level", "name", "step", "value")

    def __init__(
        self,
        name: str,
        element: ElementType | None,
        args: tuple[Node, ...] = (),
        step: Step | None = None,
        *,
        value: Value = None,
        key: Key | None = None,
        level: int = 0,
        about: Any = None,
    ) -> None:
        self.name: Final = name
        self.element: Final = element
        self.args: Final = args
        self.step: Final = step
        self.value: Final = value
        self.key: Final = key
        self.level: Final[int] = max([level, *[arg.level for arg in args]])
        self.about: Final = about


class Frame:
    """One call of a computation, or a computation without a known caller.

    Each call has its own frame, since its operands determine the values inside.

    Attributes:
        computation: The computation; `None` for the unknown surroundings of a loop.
        parent: Frame of the caller; `None` if the parameters are inputs.
        given: Operands of the call, by parameter number.
        depth: Number of calls around it.
        known: Nodes found so far, by instruction and shape index.
        inside: Frames of the calls inside it.
    """

    __slots__ = ("computation", "depth", "given", "inside", "known", "own", "parent")

    def __init__(
        self,
        computation: Computation | None,
        parent: Frame | None = None,
        given: Sequence[Instruction] = (),
    ) -> None:
        self.computation: Final = computation
        self.parent: Final = parent
        self.given: Final = given
        self.depth: Final[int] = parent.depth + 1 if parent is not None else 0
        self.known: Final[dict[tuple[Instruction, Path], Node]] = {}
        self.inside: Final[dict[tuple[Instruction, int], Frame]] = {}
        self.own: frozenset[Instruction] | None = None

    def has(self, ins: Instruction) -> bool:
        """Does the computation itself contain the instruction?

        It does not contain instructions of other computations whose values it reads.
        """
        if self.computation is None:
            return True
        if self.own is None:
            self.own = frozenset((*self.computation.instructions, *self.computation.parameters))
        return ins in self.own

    def call(self, ins: Instruction, number: int, given: Sequence[Instruction]) -> Frame:
        """Return the frame of one call inside this frame; equal calls share one frame.

        Args:
            ins: The calling instruction.
            number: Index of the called computation in `ins.calls`.
            given: The operands that the call passes, by parameter number.
        """
        frame = self.inside.get((ins, number))
        if frame is None:
            frame = self.inside[ins, number] = Frame(ins.calls[number], self, given)
        return frame


class Place(NamedTuple):
    """A value, or the part of it at shape index `path`, in one call of a computation.

    `frame` is the call, `ins` the instruction that computes the value there.
    """

    frame: Frame
    ins: Instruction
    path: Path


NodeGenerator: TypeAlias = Generator[Any, Any, Any]


def returned(computation: Computation, path: Path) -> tuple[Instruction, Path]:
    """Return where a part of a computation's result comes from: instruction and shape index.

    Args:
        computation: The computation.
        path: Shape index of the part in the computation's result.
    """
    root = computation.root
    if not isinstance(root.op, Return):
        return root, path
    if len(root.operands) == 1:
        return root.operands[0], path
    if not path or path[0] >= len(root.operands):
        return root, path  # no such element: the verifier reports it
    return root.operands[path[0]], path[1:]


def carried(loop: Instruction, path: Path) -> Key:
    """Return the key of the state element of a loop that becomes a part of the loop's result.

    Args:
        loop: The `while`.
        path: Shape index of the part in the result.
    """
    return (0, path) if len(loop.operands) == 1 else (path[0], path[1:])


def arguments(ins: Instruction, number: int) -> Sequence[Instruction]:
    """Return the operands that `ins` passes as parameters to its callee number `number`."""
    if isinstance(ins.op, Case):
        return ins.operands[1 + number : 2 + number]  # StableHLO's branches have no parameters
    return ins.operands


class Model:
    """A `while` as arithmetic on its state.

    Attributes:
        loop: The `while`.
        condition: The call of the condition, in which its values are computed.
        body: The call of the body, in which its values are computed.
        goes_on: Node of the condition's result: true for a further iteration.
    """

    __slots__ = ("body", "condition", "goes_on", "loop", "machines")

    def __init__(self, loop: Instruction, condition: Frame, body: Frame, goes_on: Node) -> None:
        self.loop: Final = loop
        self.condition: Final = condition
        self.body: Final = body
        self.goes_on: Final = goes_on
        self.machines: Final[dict[tuple[Key, ...], Machine]] = {}


class Tape:
    """Nodes in the order in which they are evaluated; a node is a scalar as arithmetic on inputs.

    Attributes:
        nodes: The nodes, each after its operands.
        inputs: Keys of the input nodes, in order.
        number: Position of each node in `nodes`.
        outputs: Position in `nodes` of each node that was requested at construction, in that order.
    """

    __slots__ = ("_args", "_blank", "_keys", "inputs", "nodes", "number", "outputs")

    def __init__(self, roots: Sequence[Node]) -> None:
        order: dict[Node, int] = {}
        stack = [(root, False) for root in reversed(roots)]
        while stack:
            node, is_ready = stack.pop()
            if node in order:
                continue
            if is_ready or not node.args:
                order[node] = len(order)
            else:
                stack.append((node, True))
                stack += [(arg, False) for arg in reversed(node.args)]
        self.nodes: Final = tuple(order)
        self.number: Final = order
        self.outputs: Final = [order[root] for root in roots]
        self._blank: Final = [node.value for node in order]
        # One input may have several nodes: in a loop's condition and in its body.
        self._keys: Final = [(n, node.key) for node, n in order.items() if node.key is not None]
        self.inputs: Final = tuple(dict.fromkeys([key for _, key in self._keys]))
        self._args: Final = [
            (n, node.step, [order[arg] for arg in node.args])
            for node, n in order.items()
            if node.step is not None
        ]

    def __len__(self) -> int:
        return len(self.nodes)

    def unknown(self, parameters: Sequence[Instruction] = ()) -> dict[Key, Value]:
        """Return an unknown value for each input, with a reason.

        Args:
            parameters: Parameters of the computation, for their names in reasons.
        """
        found: dict[Key, Value] = {}
        for n, key in self._keys:
            what = key[0]
            if isinstance(what, Instruction):
                reason = f"it depends on `{what.name}`"
            elif what < len(parameters):
                reason = f"it depends on argument `{parameters[what].name}`"
            else:
                reason = f"it depends on argument {what} of its computation"
            found[key] = any_value(self.nodes[n].element, reason)
        return found

    def run(self, inputs: dict[Key, Value]) -> list[Value]:
        """Return the values of all nodes, in the order of `nodes`.

        `inputs` has the values of the input nodes, by key.
        """
        values = self._blank.copy()
        for n, key in self._keys:
            values[n] = inputs[key]
        for n, step, args in self._args:
            values[n] = step(*[values[arg] for arg in args])
        return values


class Machine(NamedTuple):
    """The part of a loop's state that decides its trip count, and further requested elements.

    Attributes:
        loop: The `while`.
        keys: The elements of the state that are computed.
        elements: Types of `keys`; `None` for elements that are not scalars.
        outer: Values from outside of the loop that its regions read.
        tape: Computes the condition, then the values of `keys` after an iteration.
        level: Depth of the loops nested in the loop.
        changing: The elements of `keys` that an iteration may change.
    """

    loop: Instruction
    keys: tuple[Key, ...]
    elements: tuple[ElementType | None, ...]
    outer: tuple[Key, ...]
    tape: Tape
    level: int
    changing: tuple[Key, ...]


Ending: TypeAlias = Callable[[Machine, Key, Sequence[Value]], Value]
"""Function from a loop's machine, a state element and the initial values to its final value."""


class Slices:
    """Creates the nodes of one program's values; a node is a scalar as arithmetic on inputs.

    Attributes:
        roots: Frames of computations without a caller.
    """

    def __init__(self, ending: Ending) -> None:
        """Create an object without nodes.

        Args:
            ending: Function that computes the final value of an inner loop's state element.
        """
        self._ending: Final = ending
        self._roots: Final[dict[Computation, Frame]] = {}
        self._models: Final[dict[Instruction, Model | None]] = {}
        self._count = 0
        self._most = MOST_NODES

    def root(self, computation: Computation) -> Frame:
        """Return the frame of a computation whose parameters are inputs."""
        frame = self._roots.get(computation)
        if frame is None:
            frame = self._roots[computation] = Frame(computation)
        return frame

    def node(self, frame: Frame, ins: Instruction, path: Path = ()) -> Node:
        """Return the node, the scalar as arithmetic on inputs, of a value or of an element of it.

        Args:
            frame: The call of the computation in which the value is computed.
            ins: The instruction that computes the value.
            path: Shape index of the element in the value.
        """
        self._begin()
        found: Node = without_recursion(self._node(Place(frame, ins, path)))
        return found

    def machine(self, loop: Instruction, further: Iterable[Key] = ()) -> Machine | None:
        """Return the part of a loop that decides its trip count; `None` if it cannot be analysed.

        Args:
            loop: The `while`.
            further: Further elements of its state to compute.
        """
        self._begin()
        found: Machine | None = without_recursion(self._machine(loop, tuple(further)))
        return found

    def given(self, machine: Machine, frame: Frame) -> list[Node]:
        """Return the nodes of a loop's initial values, each a scalar as arithmetic on inputs.

        The values are those of `machine.keys`, then those of `machine.outer`.

        Args:
            machine: The part of the loop that decides its trip count.
            frame: The call of the computation that contains the loop.
        """
        self._begin()
        found: list[Node] = without_recursion(self._given(machine, frame))
        return found

    def _begin(self) -> None:
        self._most = min(self._count + MOST_NODES, MOST_NODES_IN_ALL)

    # ---------------------------------------------------------------------------------- values

    def _node(self, place: Place) -> NodeGenerator:
        """Find the node, a scalar as arithmetic on inputs, of a value or of a part of it.

        Data movement is followed to the op that computes the value. The generator yields the
        generators of other nodes that it needs, receives these nodes, and returns the node; see
        `finished`.
        """
        trail: list[Place] = []
        node: Node | None = None
        while node is None:
            frame, ins, path = place
            node = frame.known.get((ins, path))
            if node is not None:
                break
            trail.append(place)
            self._count += 1
            if self._count > self._most:
                node = _unknown(ins, path, "it depends on too much")
            elif not frame.has(ins):
                if frame.parent is None:
                    node = Node("input", _element(ins, path), key=(ins, path))
                else:
                    place = Place(frame.parent, ins, path)
            else:
                try:
                    place_or_node = _moved(place)
                except IndexError:  # a missing tuple element: the verifier reports it
                    place_or_node = _unknown(ins, path, f"`{ins.name}` has no such part")
                if place_or_node is None:
                    place_or_node = yield self._computed(place)
                if isinstance(place_or_node, Node):
                    node = place_or_node
                else:
                    place = place_or_node
        # Everything on the path has the same node, so later queries end at once.
        for frame, ins, path in trail:
            frame.known[ins, path] = node
        return node

    def _computed(self, place: Place) -> NodeGenerator:
        """Find the node, the scalar as arithmetic on inputs, of a value that an op computes.

        The generator yields the generators of the operands' nodes and receives these nodes; see
        `finished`. It returns the new node, or, for a conditional or loop that only forwards a
        value, the `Place` of that value.
        """
        frame, ins, path = place
        op = ins.op
        if isinstance(op, Case) and ins.calls:
            return (yield self._chosen(place))
        if isinstance(op, While):
            return (yield self._loop_result(place))
        element = _element(ins, path)
        if isinstance(op, Constant) and not path and element is not None:
            return _constant(ins, element)
        elements = [scalar_element(operand.type) for operand in ins.operands]
        known = [e for e in elements if e is not None]
        if (
            path
            or element is None
            or not isinstance(op, (Elementwise, BitcastConvert))
            or len(known) < len(elements)
            or not (all(map(is_integer, (*known, element))) or op.name in _EXACT_FLOATS)
        ):
            return _unknown(ins, path)
        step = step_of(op, known, element)
        args: list[Node] = []
        for operand in ins.operands:
            arg = yield self._node(Place(frame, operand, ()))
            args.append(arg)
        about = getattr(op, "comparison_direction", None)
        if all(arg.name == "known" for arg in args):
            return Node("known", element, value=step(*[arg.value for arg in args]))
        return Node(op.name, element, tuple(args), step, about=about)

    def _chosen(self, place: Place) -> NodeGenerator:
        """Find the node of an element of a conditional's result.

        If only one branch is possible, the generator returns the `Place` of the value in that
        branch. Otherwise it returns a node that chooses among the branches. It yields the
        generators of the nodes that it needs; see `finished`.
        """
        frame, ins, path = place
        index = yield self._node(Place(frame, ins.operands[0], ()))
        taken = branch_of(ins, index.value) if index.name == "known" else None
        frames = [frame.call(ins, n, arguments(ins, n)) for n in range(len(ins.calls))]
        if frames[0].depth > MOST_CALLS:
            return _unknown(ins, path, f"calls around `{ins.name}` are nested too deep")
        if taken is not None:
            return Place(frames[taken], *returned(ins.calls[taken], path))
        values: list[Node] = []
        for branch, computation in zip(frames, ins.calls, strict=True):
            values.append((yield self._node(Place(branch, *returned(computation, path)))))
        first = values[0]
        if all(_is_same(value, first) for value in values):
            return first
        element = first.element
        if element is None:
            return _unknown(ins, path)

        def choose(which: Value, *results: Value) -> Value:
            number = branch_of(ins, which)
            if number is not None:
                return results[number]
            return hull(results, element, f"`{ins.name}` chooses a branch by data")

        return Node("choice", element, (index, *values), choose)

    def _loop_result(self, place: Place) -> NodeGenerator:
        """Find the node of an element of a loop's result.

        If the loop carries the element unchanged, the generator returns the `Place` of its initial
        value. Otherwise it returns a node that runs the loop. It yields the generators of the nodes
        that it needs; see `finished`.
        """
        frame, ins, path = place
        if len(ins.operands) > 1 and not path:
            return _unknown(ins, path)
        key = carried(ins, path)
        model = yield self._model(ins)
        if model is None:
            return _unknown(ins, path)
        after = yield self._after(model, key)
        if after.key == key:  # the loop carries it unchanged
            return Place(frame, *_initial(ins, key))
        element = _element(ins, path)
        if element is None or after.name == "unknown":
            return _unknown(ins, path, f"the loop `{ins.name}` changes it")
        machine = yield self._machine(ins, (key,))
        if machine is None or machine.level >= MOST_LOOPS:
            return _unknown(ins, path, f"loops in `{ins.name}` are nested too deep")
        args = yield self._given(machine, frame)

        def leave(*given: Value) -> Value:
            return self._ending(machine, key, given)

        return Node("loop", element, tuple(args), leave, level=machine.level + 1)

    # ----------------------------------------------------------------------------------- loops

    def _model(self, loop: Instruction) -> NodeGenerator:
        # The model serves the trip count and each requested element of the loop's state.
        if loop in self._models:
            return self._models[loop]
        self._models[loop] = None  # a loop that calls itself is not followed
        if len(loop.calls) != 2 or not loop.operands:
            return None
        condition, body = map(self.root, loop.calls)
        goes_on = yield self._node(Place(condition, *returned(loop.calls[0], ())))
        model = self._models[loop] = Model(loop, condition, body, goes_on)
        return model

    def _after(self, model: Model, key: Key) -> NodeGenerator:
        """Find the node of a loop's state element after one iteration, from the state before.

        `key` is the key of the element. The generator yields the generators of the nodes that it
        needs and returns the node; see `finished`.
        """
        number, path = key
        assert isinstance(number, int)
        whole = path if len(model.loop.operands) == 1 else (number, *path)
        return self._node(Place(model.body, *returned(model.loop.calls[1], whole)))

    def _machine(self, loop: Instruction, further: tuple[Key, ...]) -> NodeGenerator:
        model = yield self._model(loop)
        if model is None:
            return None
        if (known := model.machines.get(further)) is not None:
            return known
        # The transitive dependences of the condition and of the requested elements.
        keys: dict[Key, Node] = {}
        todo = [*Tape([model.goes_on]).inputs, *further]
        outer: dict[Key, None] = {}
        while todo:
            key = todo.pop()
            if isinstance(key[0], Instruction):
                outer[key] = None
            elif key[0] >= len(loop.operands):
                return None  # a parameter without an operand: the verifier reports it
            elif key not in keys:
                keys[key] = after = yield self._after(model, key)
                todo += Tape([after]).inputs
        tape = Tape([model.goes_on, *keys.values()])
        elements = tuple([_element(*_initial(loop, key)) for key in keys])
        level = max([node.level for node in tape.nodes], default=0)
        changing = tuple([key for key, after in keys.items() if after.key != key])
        machine = Machine(loop, tuple(keys), elements, tuple(outer), tape, level, changing)
        model.machines[further] = machine
        return machine

    def _given(self, machine: Machine, frame: Frame) -> NodeGenerator:
        nodes: list[Node] = []
        for key in (*machine.keys, *machine.outer):
            nodes.append((yield self._node(Place(frame, *_initial(machine.loop, key)))))
        return nodes


def _initial(loop: Instruction, key: Key) -> tuple[Instruction, Path]:
    """Return where a loop's state element starts from: an instruction and a shape index.

    If `key` is that of an outer value that a region reads, return that value.
    """
    what, path = key
    return (what if isinstance(what, Instruction) else loop.operands[what]), path


def branch_of(ins: Instruction, index: Value) -> int | None:
    """Return the branch that a conditional takes for an index; `None` if unknown.

    The index is the value of operand 0.
    """
    if not isinstance(index, int):
        return 0 if len(ins.calls) == 1 else None
    if isinstance(ins.op, Case) and ins.op.predicated:
        return 0 if index else 1
    last = len(ins.calls) - 1
    return index if 0 <= index <= last else last


def _moved(place: Place) -> Place | Node | None:
    """Return where a value comes from if its op only moves data; `None` for any other op.

    The result is the place of the same value in an operand, caller or called computation. For a
    parameter of a computation without a known caller it is a node, the input.
    """
    frame, ins, path = place
    op = ins.op
    match op:
        case Parameter() if frame.parent is not None:
            return Place(frame.parent, frame.given[op.number], path)
        case Parameter():
            return Node("input", _element(ins, path), key=(op.number, path))
        case Call() | Fusion() | Composite():
            return _called(frame, ins, path)
        case AsyncDone():
            start = ins.operands[0]
            while isinstance(start.op, AsyncUpdate):
                start = start.operands[0]
            return _called(frame, start, path) if isinstance(start.op, AsyncStart) else None
        case _:
            source = _source(ins, path)
            return None if source is None else Place(frame, *source)


def _source(ins: Instruction, path: Path) -> tuple[Instruction, Path] | None:
    """Return the operand that an op forwards at a shape index, and the shape index in it.

    `None` if the op does not forward an operand there. `path` is the shape index in the op's
    result.
    """
    op, operands = ins.op, ins.operands
    match op:
        case GetTupleElement():
            return operands[0], (op.index, *path)
        case Tuple():
            return operands[path[0]], path[1:]
        case OptimizationBarrier() if len(operands) > 1:
            return operands[path[0]], path[1:]
        case OptimizationBarrier() | AddDependency() | Domain():
            return operands[0], path
        case Elementwise() if op.name == "copy":
            return operands[0], path
        case CopyStart():
            return (operands[0], path[1:]) if path[0] < 2 else None
        case CopyDone():
            return operands[0], (0, *path)
        case _ if isinstance(op, _RESHAPES) and not path:
            before, after = scalar_element(operands[0].type), scalar_element(ins.type)
            return (operands[0], path) if before is not None and before == after else None
        case _:
            return None


def _called(frame: Frame, ins: Instruction, path: Path) -> Place | None:
    if len(ins.calls) != 1 or frame.depth >= MOST_CALLS:
        return None
    return Place(frame.call(ins, 0, ins.operands), *returned(ins.calls[0], path))


def _constant(ins: Instruction, element: ElementType) -> Node:
    op, type_ = ins.op, ins.type
    assert isinstance(op, Constant)
    assert isinstance(type_, TensorType)
    try:
        if is_integer(element):
            integers = op.literal.integers(type_)
            if integers:
                return Node("known", element, value=integers[0])
        else:
            return Node("known", element, value=op.literal.array(type_).reshape(-1)[0])  # type: ignore[union-attr]
    except HloscopeError:
        pass
    return _unknown(ins, (), f"the value of the constant `{ins.name}` is not in the program")


def missing_operand(ins: Instruction) -> Node:
    """Return an unknown node for a parameter for which the call `ins` has no operand."""
    why = f"the operands of `{ins.name}` do not fit"
    return Node("unknown", None, value=any_value(None, why))


def _unknown(ins: Instruction, path: Path, reason: str = "") -> Node:
    element = _element(ins, path)
    why = reason or f"`{ins.name}` ({ins.op.name}) is computed from data"
    return Node("unknown", element, value=any_value(element, why))


def _element(ins: Instruction, path: Path) -> ElementType | None:
    """Return the element type of the scalar at a shape index of a value.

    `None` if it is not a scalar that can be evaluated.
    """
    type_: Type = ins.type
    for number in path:
        if not isinstance(type_, TupleType) or number >= len(type_.elements):
            return None
        type_ = type_.elements[number]
    return scalar_element(type_)


def _is_same(a: Node, b: Node) -> bool:
    if a is b:
        return True
    if a.name == b.name == "known":
        return bool(a.value == b.value)
    return a.key is not None and a.key == b.key
