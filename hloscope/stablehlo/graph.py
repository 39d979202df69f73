"""Conversion of StableHLO text to the syntax tree and the program graph.

Functions are computations whose root is a `Return`. So are regions, which may read values from
outside. The body of a function is made on first use. A region of several blocks (`cf`) is one
unknown op, which may read any value that its ops read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from hloscope.errors import Diagnostic, NoFunctionError, VerifyError, did_you_mean
from hloscope.ir import Body, Computation, Instruction, Op, TupleType
from hloscope.mlir import (
    UNKNOWN,
    ArrayAttr,
    Block,
    Operation,
    Region,
    SymbolAttr,
    Value,
    function_type,
    parse_mlir,
    resolve_location,
    string_of,
)
from hloscope.mlir.dialects import CALLEES, CLASSES, DIALECTS
from hloscope.ops import Result, Return, UnknownOp
from hloscope.stablehlo.kinds import attribute_text
from hloscope.stablehlo.nodes import (
    Argument,
    Function,
    Node,
    RegionCode,
    TreeModule,
    location_extras,
    non_functions,
)
from hloscope.stablehlo.op_making import OpMaker

SEVERAL_BLOCKS: Final = "it has several blocks"
"""Reason, in a message, why the contents of a region are unknown."""


def parse_stablehlo(text: str, *, name: str = "<string>") -> TreeModule:
    """Read a module of StableHLO.

    Functions are computations whose root is a `Return`. So are regions, which may read values from
    outside. The entry is the function `main`, else the first public one. Bodies are made from the
    syntax tree on first use. The attribute `tree` of the result is the syntax tree.

    Args:
        text: MLIR text: a module, or the ops of one.
        name: Name of the text in error messages.

    Raises:
        ParseError: The text is not in the grammar, or refers to an undefined name.
        VerifyError: The module has no function.

    >>> module = parse_stablehlo('''
    ... func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
    ...   %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    ...   return %0 : tensor<3x2xf32>
    ... }''')
    >>> module.entry["0"].op
    Transpose(permutation=(1, 0))
    """
    notes: list[Diagnostic] = []
    module = to_graph(parse_mlir(text, name, dialects=DIALECTS, notes=notes))
    module.notes = tuple(notes)
    return module


def to_graph(tree: Operation) -> TreeModule:
    """Return the program graph of a module, given its syntax tree.

    Bodies of functions are made on first use. The entry is the function `main`, else the first
    public one. A module of ops without a function is its own entry.

    Raises:
        VerifyError: There is no function, or two have one name. Bodies raise it if an
            attribute is missing, or a value or function is undefined.
    """
    return _Modules(tree).module()


class _Computations(Mapping[str, Computation]):
    """The computations of a module by name: functions, and regions, built on first use."""

    def __init__(self) -> None:
        self.functions: Final[dict[str, Computation]] = {}
        self.regions: Final[dict[str, dict[str, Computation]]] = {}
        self._all: dict[str, Computation] | None = None

    def every(self) -> dict[str, Computation]:
        """Return all computations by name, each function before its regions."""
        if self._all is None:
            found: dict[str, Computation] = {}
            for name, function in self.functions.items():
                function.body  # noqa: B018  (makes it, and its regions)
                found[name] = function
                found |= self.regions[name]
            self._all = found
        return self._all

    def __getitem__(self, name: str) -> Computation:
        found = self.functions.get(name)
        return self.every()[name] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self.every())

    def __len__(self) -> int:
        return len(self.every())


class _Modules:
    """Converts a StableHLO module to the program graph: computations made of instructions.

    Functions of nested modules are included.
    """

    def __init__(self, tree: Operation) -> None:
        self.tree: Final = tree
        self.computations: Final = _Computations()
        self.maker: Final = OpMaker()
        self.public: Final[list[str]] = []

    def module(self) -> TreeModule:
        tree, functions = self.tree, self.computations.functions
        if tree.name == "builtin.module":
            self._collect(tree)
        else:
            self._function(tree, "")
        name = string_of(tree.get("sym_name")) or "module"
        if not functions and next(non_functions(tree), None) is not None:
            self._function(tree, "")
        if not functions:
            raise NoFunctionError("the module has no function", span=tree.span)
        entry = "main" if "main" in functions else [*self.public, *functions][0]
        return TreeModule(tree, name, self.computations, functions[entry])

    def _collect(self, tree: Operation) -> None:
        """Add all functions of a module, given its syntax tree.

        A function in a nested module is named `module::function`.
        """
        work = [(tree, "")]
        while work:
            module, prefix = work.pop(0)
            for operation in module.inside:
                if operation.name == "func.func":
                    self._function(operation, prefix)
                elif operation.name == "builtin.module":
                    name = string_of(operation.get("sym_name"))
                    work.append((operation, f"{prefix}{name}::"))

    def _function(self, operation: Operation, prefix: str) -> None:
        functions = self.computations.functions
        plain = string_of(operation.get("sym_name"))
        name = prefix + (plain or operation.name)
        if name in functions:
            raise VerifyError(f"redefinition of symbol named '{plain}'", span=operation.span)
        visibility = string_of(operation.get("sym_visibility")) or "public"
        given = {**operation.properties, **operation.attributes}
        others = [(k, attribute_text(a)) for k, a in given.items() if k not in _SIGNATURE]
        extras = (("sym_visibility", visibility), *others, *location_extras(operation.location))
        regions = self.computations.regions[name] = {}

        def body() -> Body:
            return _Function(self, name, prefix, operation, regions).body()

        functions[name] = Function(name, body, operation, extras)
        if visibility == "public":
            self.public.append(name)

    def called(self, symbol: SymbolAttr, prefix: str) -> Computation | None:
        """Return the function that a symbol refers to; `None` if there is none.

        It is searched in the caller's module, whose name is `prefix`, then in the modules around
        it.
        """
        name, functions = "::".join((symbol.root, *symbol.nested)), self.computations.functions
        while True:
            found = functions.get(prefix + name)
            if found is not None:
                return found
            if not prefix:
                return None
            prefix = prefix.removesuffix("::").rpartition("::")[0]
            prefix = f"{prefix}::" if prefix else ""


_new: Final = object.__new__
_SIGNATURE: Final = frozenset(["sym_name", "sym_visibility", "function_type", "arg_attrs"])


class _Frame:
    """A block whose ops are being converted, and the op whose region contains it."""

    __slots__ = ("by_name", "calls", "name", "operations", "owner", "parameters")

    def __init__(self, name: str, block: Block | None, owner: Operation) -> None:
        self.name = name
        self.owner = owner
        self.operations = iter(block.operations if block else ())
        self.by_name: dict[str, Instruction] = {}
        self.parameters: list[Instruction] = []
        self.calls: list[Computation] = []


class _Function:
    """Builds the body of one function, without recursion: regions may be nested deeply."""

    def __init__(
        self,
        modules: _Modules,
        name: str,
        prefix: str,
        operation: Operation,
        regions: dict[str, Computation],
    ) -> None:
        self.modules, self.name, self.prefix = modules, name, prefix
        self.operation, self.regions = operation, regions
        self.values: Final[dict[Value, Instruction]] = {}
        # Combiner regions by op and types: each reduction of a program asks for one of a few.
        self.applied: Final[dict[object, Computation]] = {}
        self.known: Final[dict[object, tuple[Op, tuple[Computation, ...]]]] = {}
        """Op and called computations of ops with one result, by the key that equal ops share."""
        self.numbers: Final = count()

    def body(self) -> Body:
        """Return the instructions of the function."""
        operation = self.operation
        # Control flow between several blocks is not modelled: such a function is one unknown op of
        # all its parameters, which is a safe answer.
        blocks = operation.regions[0].blocks if operation.regions else ()
        if len(blocks) == 1 and not _jumps(blocks[0]):
            return self._single_block_body(blocks[0])
        frame = _Frame(self.name, None, operation)
        signature = function_type(operation)
        inputs, results = (signature.inputs, signature.results) if signature else ((), ())
        arguments = blocks[0].arguments if blocks else tuple(map(Value, inputs))
        self._parameters(frame, arguments)
        settings = (("reason", SEVERAL_BLOCKS),) if blocks else ()
        whole = results[0] if len(results) == 1 else TupleType(results)
        operands = tuple(frame.parameters)
        op = UnknownOp("func.func", settings)
        root = Node(self._free(frame, "body"), whole, op, operands, (), operation)
        self._add(frame, root)
        return Body(tuple(frame.by_name.values()), operands, root)

    def _single_block_body(self, block: Block) -> Body:
        outer = _Frame(self.name, block, self.operation)
        self._parameters(outer, block.arguments)
        # The top of the stack is the block being read. `_read` stops at an op with regions; they
        # are read one by one, and the op is made after its last region, since it holds their
        # computations.
        frames = [outer]
        while True:
            frame = frames[-1]
            waiting = self._read(frame)
            if waiting is not None:
                frames.append(self._entered(frame, waiting))
                continue
            body = self._finished(frame)
            frames.pop()
            if not frames:
                return body
            made = self.regions[frame.name] = RegionCode(frame.name, body, frame.owner)
            owner, frame = frame.owner, frames[-1]
            frame.calls.append(made)
            if len(frame.calls) < len(owner.regions):
                frames.append(self._entered(frame, owner))
            else:
                calls, frame.calls = tuple(frame.calls), []
                self._make(frame, owner, calls)

    def _entered(self, frame: _Frame, owner: Operation) -> _Frame:
        """Return the frame of the next region of `owner`, an op in the block of `frame`."""
        number = len(frame.calls)
        region = owner.regions[number]
        block = region.blocks[0] if region.blocks else None
        name = _free(f"{frame.name}.{_label(owner)}.{_word(owner, number)}", self.regions)
        inner = _Frame(name, block, owner)
        if block is not None:
            self._parameters(inner, block.arguments)
        return inner

    def _read(self, frame: _Frame) -> Operation | None:
        """Convert the ops of a block up to one whose regions must be converted first.

        Return that op, or `None` at the end of the block. `frame` has the block, and the position
        in it. An op equal to an earlier one is converted inline, without calls of methods.
        """
        known, values, by_name = self.known.get, self.values, frame.by_name
        value_of = values.__getitem__
        for operation in frame.operations:
            found = known(operation.shared_key)
            if found is None:
                if self._needs_regions_first(frame, operation):
                    return operation
                # An op equal to an earlier one but for operands and result (`shared_key`) shares
                # its op and calls.
                continue
            (value,) = operation.results
            name = value.name
            if not name or name in by_name:
                self._needs_regions_first(frame, operation)
                continue
            reads = operation.operands
            try:
                if len(reads) == 1:
                    operands: tuple[Instruction, ...] = (values[reads[0]],)
                elif len(reads) == 2:
                    operands = values[reads[0]], values[reads[1]]
                else:
                    operands = tuple(map(value_of, reads))
            except KeyError:
                operands = self._operands(operation)
            made: Any = _new(Node)  # its `__init__` takes longer than setting what is final
            made.name = name
            made.type = value.type
            made.op, made.calls = found
            made.operands = operands
            made.control_predecessors = ()
            made.operation = operation
            values[value] = by_name[name] = made
        return None

    def _needs_regions_first(self, frame: _Frame, operation: Operation) -> bool:
        """Convert an op of the block of `frame`, unless its regions must be converted first.

        In that case do nothing and return true.
        """
        regions = operation.regions
        calls: tuple[Computation, ...] = ()
        if regions:
            if operation.name not in CLASSES or not all(map(_has_single_block, regions)):
                self._add_opaque(frame, operation)
                return False
            applied = self._combiner(operation)
            if applied is None:
                return True
            calls = (applied,)
        made = self._make(frame, operation, calls)
        if made is not None and operation.shared_key is not None:
            self.known[operation.shared_key] = made.op, made.calls
        return False

    # ----------------------------------------------------------------------------- instructions

    def _parameters(self, frame: _Frame, arguments: tuple[Value, ...]) -> None:
        for number, value in enumerate(arguments):
            name = self._free(frame, value.name or f"arg{number}")
            made = Argument(name, number, value, frame.owner)
            self.values[value] = made
            frame.parameters.append(made)
            self._add(frame, made)

    def _add(self, frame: _Frame, made: Instruction) -> None:
        frame.by_name[made.name] = made

    def _free(self, frame: _Frame, name: str) -> str:
        while name in frame.by_name:
            name = f"{name}.{next(self.numbers)}"
        return name

    def _return(self, frame: _Frame) -> str:
        return "return" if "return" not in frame.by_name else self._free(frame, "return@")

    def _operands(self, operation: Operation) -> tuple[Instruction, ...]:
        values = self.values
        try:
            return tuple([values[value] for value in operation.operands])
        except KeyError:
            number = next(k for k, value in enumerate(operation.operands) if value not in values)
            message = f"operand #{number} does not dominate this use"
            raise VerifyError(message, span=operation.span) from None

    def _make(
        self, frame: _Frame, operation: Operation, calls: tuple[Computation, ...]
    ) -> Instruction | None:
        """Add the instructions of an op; return the one that has the op's single result.

        An op with several results becomes a tuple instruction and one `get-tuple-element` for each
        result. A return has no result.

        Args:
            frame: The block of the op.
            operation: The op.
            calls: The computations of its regions.
        """
        operands = self._operands(operation)
        op = self.modules.maker(operation)
        if operation.name in CALLEES:
            calls = (*calls, *self._callees(operation))
        results = operation.results
        if len(results) == 1:
            value = results[0]
            name = value.name or f"{op.name}.{next(self.numbers)}"
            if name in frame.by_name:
                name = self._free(frame, name)
            made = Node(name, value.type, op, operands, calls, operation)
            self.values[value] = frame.by_name[name] = made
            return made
        if isinstance(op, Return):
            types = tuple([o.type for o in operands])
            whole = types[0] if len(types) == 1 else TupleType(types)
            self._add(frame, Node(self._return(frame), whole, op, operands, calls, operation))
            return None
        self._several(frame, operation, op, operands, calls)
        return None

    def _several(
        self,
        frame: _Frame,
        operation: Operation,
        op: Op,
        operands: tuple[Instruction, ...],
        calls: tuple[Computation, ...],
    ) -> None:
        """Add an op with several results: a tuple instruction, and one for each result.

        Args:
            frame: The block of the op.
            operation: The op in the syntax tree.
            op: The op of the graph.
            operands: The operands.
            calls: The computations of its regions and its callees.
        """
        results = operation.results
        group = ",".join(dict.fromkeys(value.name for value in results if value.name))
        name = self._free(frame, group or f"{op.name}.{next(self.numbers)}")
        types = tuple([value.type for value in results])
        whole = Node(name, TupleType(types), op, operands, calls, operation)
        self._add(frame, whole)
        # A name such as `%0:2` is shared by several results, which the text numbers from 0.
        firsts: dict[str, int] = {}
        shared = len({value.name for value in results}) < len(results)
        for k, value in enumerate(results):
            own = value.name or name
            place = k - firsts.setdefault(own, k)
            many = shared and sum(other.name == value.name for other in results) > 1
            label = f"{own}#{place}" if many or not value.name else own
            part = Node(self._free(frame, label), value.type, Result(k), (whole,), (), operation)
            self.values[value] = part
            self._add(frame, part)

    def _add_opaque(self, frame: _Frame, operation: Operation) -> None:
        """Add an op whose regions cannot be converted to the block of `frame`.

        The values that they read become its operands.
        """
        operands = dict.fromkeys(self._operands(operation))
        for value in _read_inside(operation):
            if value in self.values:
                operands[self.values[value]] = None
        given = {**operation.properties, **operation.attributes}
        op = UnknownOp(operation.name, tuple([(k, attribute_text(a)) for k, a in given.items()]))
        self._several(frame, operation, op, tuple(operands), ())

    def _finished(self, frame: _Frame) -> Body:
        root = next(reversed(frame.by_name.values()), None)
        if root is None or not isinstance(root.op, Return):
            root = Node(self._return(frame), TupleType(()), Return(), (), (), frame.owner)
            self._add(frame, root)
        instructions = tuple(frame.by_name.values())
        return Body(instructions, tuple(frame.parameters), root)

    # ----------------------------------------------------------------------------- computations

    def _callees(self, operation: Operation) -> Iterator[Computation]:
        attribute = operation.get(CALLEES[operation.name])
        elements = attribute.elements if isinstance(attribute, ArrayAttr) else (attribute,)
        for symbol in elements:
            if not isinstance(symbol, SymbolAttr):
                continue
            found = self.modules.called(symbol, self.prefix)
            if found is not None:
                yield found
            elif operation.name != "stablehlo.custom_call":  # which may name what is elsewhere
                hint = did_you_mean(symbol.root, self.modules.computations.functions)
                raise VerifyError(f"no function `@{symbol.root}`{hint}", span=operation.span)

    def _combiner(self, operation: Operation) -> Computation | None:
        """Return the computation of an op's combiner that is one op: `applies stablehlo.add`.

        There is one computation for each op and type. The result is `None` if the region is not one
        op of one result on its own two arguments, or if the op has several regions.
        """
        (region, *others) = operation.regions
        operations = region.blocks[0].operations if region.blocks else ()
        if others or len(operations) != 2 or not operations[1].name.endswith(".return"):
            return None
        inner, root = operations
        arguments = region.blocks[0].arguments
        # Only a region without any detail of its own can be shared: no argument names, attributes,
        # locations or nested regions.
        if (
            len(arguments) != len(_SIDES)
            or len(inner.results) != 1
            or any(value.name for value in arguments)
            or inner.operands != arguments
            or root.operands != inner.results
            or inner.properties
            or inner.attributes
            or inner.regions
            or any(resolve_location(value.location) != UNKNOWN for value in arguments)
        ):
            return None
        key = inner.name, tuple([value.type for value in (*arguments, *inner.results)])
        known = self.applied.get(key)
        if known is not None:
            return known
        name = _free(f"{self.name}.{inner.name.rpartition('.')[2]}", self.regions)
        parameters = tuple(
            [
                Argument(word, k, value, operation)
                for k, (word, value) in enumerate(zip(_SIDES, arguments, strict=True))
            ]
        )
        type = inner.results[0].type
        value = Node("result", type, self.modules.maker(inner), parameters, (), inner)
        returned = Node("return", type, Return(), (value,), (), root)
        body = Body((*parameters, value, returned), parameters, returned)
        made = self.applied[key] = self.regions[name] = Computation(name, body)
        return made


_SIDES: Final = "lhs", "rhs"


def _has_single_block(region: Region) -> bool:
    return not region.blocks or (len(region.blocks) == 1 and not _jumps(region.blocks[0]))


def _jumps(block: Block) -> bool:
    return bool(block.operations and block.operations[-1].successors)


def _read_inside(operation: Operation) -> Iterator[Value]:
    """Yield the operands of all operations in the regions of `operation`."""
    work = [*operation.regions]
    while work:
        for block in work.pop().blocks:
            for inner in block:
                yield from inner.operands
                work += inner.regions


def _label(owner: Operation) -> str:
    """Return a readable name of an op, for its regions: that of its first result.

    Without a named result, it is the op's name and position.
    """
    name = owner.results[0].name if owner.results else ""
    if name:
        return name
    at = f"@{owner.span.start}" if owner.span is not None else ""
    return owner.name.rpartition(".")[2] + at


def _word(owner: Operation, number: int) -> str:
    return ("cond", "do")[number] if owner.name == "stablehlo.while" else str(number)


def _free(name: str, taken: Mapping[str, object]) -> str:
    number, found = 0, name
    while found in taken:
        number += 1
        found = f"{name}.{number}"
    return found


__all__ = ["Argument", "Function", "Node", "TreeModule", "to_graph"]
