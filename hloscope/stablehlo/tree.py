"""Conversion of the program graph to the syntax tree, for printing, verification and bytecode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.ir import Computation, FunctionType, Instruction, Module, TupleType, Type
from hloscope.mlir import (
    NO_ATTRIBUTES,
    ArrayAttr,
    Attribute,
    Block,
    DenseArrayAttr,
    MlirLiteral,
    Operation,
    Region,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    Value,
    from_array,
    print_mlir,
)
from hloscope.mlir.dialects import DIALECTS
from hloscope.ops import (
    Call,
    Case,
    Composite,
    Constant,
    CustomCall,
    GetTupleElement,
    Parameter,
    Result,
    Return,
    Scan,
    Scatter,
    Tuple,
    without_layouts,
)
from hloscope.stablehlo.builder import Builder
from hloscope.stablehlo.cloning import clone
from hloscope.stablehlo.graph import Argument, Function, Node, TreeModule
from hloscope.stablehlo.kinds import I32
from hloscope.stablehlo.making import region_of
from hloscope.stablehlo.op_making import attributes_of, name_of

# --------------------------------------------------------------------------------------------------
# Conversion of the program graph to the syntax tree, for printing, verifying and serialising.
#
# Instructions that come from a tree keep its attributes, names and locations. Others are made from
# their ops by the dialects' tables.


_CALLERS: Final = Call, Composite, CustomCall
_ONE_VALUE: Final = Call, CustomCall, GetTupleElement, Tuple
"""Ops whose tuple is one result, in contrast to ops with several results."""


def to_mlir(module: Module) -> Operation:
    """Convert a module to a syntax tree.

    Computations that an op calls as its regions become regions, all others functions.

    Raises:
        UnsupportedError: StableHLO lacks an op, or an op's form.
    """
    # A computation is a region if any op other than a call uses it; then it must not become a
    # function, too.
    regions = {
        callee
        for computation in module
        for ins in computation
        if not isinstance(ins.op, _CALLERS)
        for callee in ins.calls
    }
    if isinstance(module, TreeModule):
        return _Trees(module, regions).module(module.tree, "")
    functions = [_Body(c, c.name).function() for c in module if c not in regions]
    name = {} if module.name == "module" else {"sym_name": StringAttr.of(module.name)}
    return Operation("builtin.module", properties=name, regions=(region_of((), functions),))


class _Trees:
    """Builds a new syntax tree: functions from their current bodies, other ops by copying."""

    def __init__(self, module: TreeModule, regions: set[Computation]) -> None:
        self.computations: Final = [c for c in module if c not in regions]
        self.functions: Final = {c.operation: c for c in module if isinstance(c, Function)}

    def module(self, tree: Operation, prefix: str) -> Operation:
        """Return a copy of a module `tree`, and of the modules nested in it.

        Functions have the bodies of the program graph. `prefix` is the module's name, which
        precedes `::` in the names of its functions.
        """
        blocks: list[Block] = []
        for block in tree.blocks:
            operations = [self._item(item, prefix) for item in block]
            blocks.append(Block((), tuple(operations), block.label))
        return Operation(
            tree.name,
            properties=tree.properties,
            attributes=tree.attributes,
            regions=(Region(tuple(blocks)),),
            location=tree.location,
        )

    def _item(self, item: Operation, prefix: str) -> Operation:
        found = self.functions.get(item)
        if found is not None:
            return _Body(found, found.name).function()
        if item.name == "builtin.module":
            return self.module(item, prefix)
        return clone(item, {})


class _Body:
    """Builds the operation of one function, with its regions, without recursion."""

    def __init__(self, computation: Computation, name: str) -> None:
        self.computation, self.name = computation, name
        self.values: Final[dict[Instruction, Value]] = {}
        self.originals: Final[dict[Value, Value]] = {}
        """Values of the new tree, by values of the original tree, for regions that are copied."""

    def function(self) -> Operation:
        """Return the operation of the function."""
        computation = self.computation
        original = computation.operation if isinstance(computation, Function) else None
        if original is not None and computation.root.op.name == "unknown":
            return clone(original, {})
        region = self._read(computation)
        if original is not None:
            return Operation(
                original.name,
                properties=original.properties,
                attributes=original.attributes,
                regions=(region,),
                location=original.location,
            )
        signature = FunctionType(
            tuple(map(without_layouts, computation.arguments)),
            tuple(map(without_layouts, computation.results)),
        )
        properties: dict[str, Attribute] = {
            "function_type": TypeAttr(signature),
            "sym_name": StringAttr.of(self.name),
        }
        return Operation("func.func", properties=properties, regions=(region,))

    def _read(self, computation: Computation) -> Region:
        # `_fill` stops at an instruction with regions. They are made one by one, and its operation
        # after the last of them.
        frames = [_Frame(computation, None, self._arguments(computation))]
        while True:
            frame = frames[-1]
            waiting = self._fill(frame)
            if waiting is not None:
                callee = waiting.calls[len(frame.regions)]
                frames.append(_Frame(callee, waiting, self._arguments(callee)))
                continue
            frames.pop()
            region = region_of(frame.arguments, frame.operations)
            if not frames:
                return region
            above, owner = frames[-1], frame.owner
            above.regions.append(region)
            assert owner is not None
            if len(above.regions) < len(owner.calls):
                callee = owner.calls[len(above.regions)]
                frames.append(_Frame(callee, owner, self._arguments(callee)))
            else:
                regions, above.regions = tuple(above.regions), []
                above.operations.append(self._operation(owner, above, regions))

    def _arguments(self, computation: Computation) -> tuple[Value, ...]:
        made = []
        for parameter in computation.parameters:
            if isinstance(parameter, Argument):
                value = parameter.value
                new = Value(value.type, name=value.name, location=value.location)
                self.originals[value] = new
            else:
                new = Value(without_layouts(parameter.type), name=parameter.name)
            self.values[parameter] = new
            made.append(new)
        return tuple(made)

    def _fill(self, frame: _Frame) -> Instruction | None:
        """Create the operations of a block up to one whose regions must be created first.

        Return the instruction of that operation; `None` at the end of the block. `frame` has the
        block and the instructions that are left.
        """
        for ins in frame.instructions:
            if isinstance(ins.op, Parameter) or _is_single_result(ins) or _is_implied(ins):
                continue
            if ins is frame.returned:
                continue
            if ins.calls and not isinstance(ins.op, _CALLERS):
                return ins
            frame.operations.append(self._operation(ins, frame, ()))
        root = frame.computation.root
        if not isinstance(root.op, Return):
            frame.operations.append(
                Operation(_return_name(frame.owner), tuple(self._results(root, frame)))
            )
        return None

    def _results(self, root: Instruction, frame: _Frame) -> Iterator[Value]:
        """Yield the values that a computation with root `root` and without a `return` returns.

        In a region, these are the elements of the root tuple of HLO. `frame` has the block of the
        computation.
        """
        if root is frame.returned:
            return (self._value(operand) for operand in root.operands)
        return iter([self._value(root)])

    def _value(self, ins: Instruction) -> Value:
        """Return the value of an instruction in the syntax tree.

        Raises:
            UnsupportedError: The instruction is a tuple where StableHLO has several results.
        """
        found = self.values.get(ins)
        if found is None:
            raise UnsupportedError(f"`{ins.name}` is a tuple, which StableHLO does not have here")
        return found

    def _operation(self, ins: Instruction, frame: _Frame, regions: tuple[Region, ...]) -> Operation:
        original = ins.operation if isinstance(ins, Node) else None
        if original is not None and original.regions and not regions:
            return self._copied(ins, original, frame)
        operands = tuple([self._value(operand) for operand in ins.operands])
        if isinstance(ins.op, Return):
            if original is not None:
                return _copy_with(original, operands, (), ())
            return Operation(_return_name(frame.owner), operands)
        if original is not None:
            results = tuple(
                [Value(v.type, None, k, v.name) for k, v in enumerate(original.results)]
            )
            self.originals.update(zip(original.results, results, strict=True))
            made = _copy_with(original, operands, results, regions)
        else:
            made = self._new(ins, operands, frame, regions)
        for value in made.results:
            value.owner = made
        self._define(ins, made, frame)
        return made

    def _define(self, ins: Instruction, made: Operation, frame: _Frame) -> None:
        """Set the values of an instruction and of its single results to those of its operation.

        Args:
            ins: The instruction.
            made: Its operation.
            frame: The block, which has the instructions that stand for single results.

        Raises:
            VerifyError: An instruction takes a result that the operation does not have.
        """
        parts = frame.parts.get(ins)
        if parts is None and len(made.results) == 1:
            self.values[ins] = made.results[0]
        for part in parts or ():
            index = part.op.index if isinstance(part.op, GetTupleElement) else 0
            if not 0 <= index < len(made.results):
                message = f"`{part.name}` takes part {index} of `{ins.name}`, which has none"
                raise VerifyError(message, span=part.span)
            self.values[part] = made.results[index]

    def _copied(self, ins: Instruction, original: Operation, frame: _Frame) -> Operation:
        made = clone(original, self.originals)
        self._define(ins, made, frame)
        return made

    def _new(
        self,
        ins: Instruction,
        operands: tuple[Value, ...],
        frame: _Frame,
        regions: tuple[Region, ...],
    ) -> Operation:
        op = ins.op
        if isinstance(op, Case) and any(callee.parameters for callee in ins.calls):
            raise UnsupportedError(
                f"`{ins.name}`: branches of StableHLO have no operands of their own"
            )
        if (
            isinstance(op, Scatter)
            and op.by_window
            and op.may_exceed_bounds(tuple([o.type for o in ins.operands]))
        ):
            raise UnsupportedError(
                f"`{ins.name}`: StableHLO's `scatter` drops the elements of a window that are"
                " outside, HLO's the whole window"
            )
        properties = {**_attributes(ins), **_callees(ins)}
        if isinstance(op, Scan):
            outputs = len(operands) - op.num_carries, op.num_carries
            properties["operandSegmentSizes"] = DenseArrayAttr(I32, outputs)
        parts = frame.parts.get(ins)
        types: tuple[Type, ...] = (without_layouts(ins.type),)
        if isinstance(ins.type, TupleType) and (parts or not isinstance(op, _ONE_VALUE)):
            types = tuple(map(without_layouts, ins.type.elements))
        if isinstance(op, Scan):
            inner = len(types) - op.num_carries, op.num_carries
            properties["resultSegmentSizes"] = DenseArrayAttr(I32, inner)
        results = tuple([Value(type, None, k, ins.name) for k, type in enumerate(types)])
        return Operation(name_of(op), operands, results, properties, regions=regions)


class _Frame:
    """A block that is being built from a computation."""

    __slots__ = (
        "arguments",
        "computation",
        "instructions",
        "operations",
        "owner",
        "parts",
        "regions",
        "returned",
    )

    def __init__(
        self, computation: Computation, owner: Instruction | None, arguments: tuple[Value, ...]
    ) -> None:
        self.computation, self.owner, self.arguments = computation, owner, arguments
        self.instructions = iter(computation.instructions)
        self.operations: list[Operation] = []
        self.regions: list[Region] = []
        self.parts: dict[Instruction, list[Instruction]] = {}
        root = computation.root
        is_several = owner is not None and isinstance(root.op, Tuple)
        self.returned = root if is_several else None
        """The root tuple of an HLO region whose parts are the returned values; else `None`."""
        for ins in computation.instructions:
            if _is_single_result(ins):
                self.parts.setdefault(ins.operands[0], []).append(ins)


def _copy_with(
    original: Operation,
    operands: tuple[Value, ...],
    results: tuple[Value, ...],
    regions: tuple[Region, ...],
) -> Operation:
    """Return an operation with the name, attributes and location of `original`.

    Its operands, results and regions are the given ones.
    """
    return Operation(
        original.name,
        operands,
        results,
        original.properties,
        original.attributes,
        regions,
        location=original.location,
    )


def _is_single_result(ins: Instruction) -> bool:
    """Is the instruction a single result of an op that has several results in StableHLO?"""
    if isinstance(ins.op, Result) or isinstance(ins, Node):
        return isinstance(ins.op, Result)
    if not isinstance(ins.op, GetTupleElement):
        return False
    owner = ins.operands[0]
    takes_tuples = any(isinstance(o.type, TupleType) for o in owner.operands)
    return not isinstance(owner.op, (Parameter, *_ONE_VALUE)) and not takes_tuples


def _is_implied(ins: Instruction) -> bool:
    """Is the instruction the `return` of a block whose terminator is another op?"""
    return (
        isinstance(ins.op, Return)
        and isinstance(ins, Node)
        and not ins.operation.name.endswith(".return")
    )


def _return_name(owner: Instruction | None) -> str:
    return "func.return" if owner is None else "stablehlo.return"


def _attributes(ins: Instruction) -> Mapping[str, Attribute]:
    """Return the attributes of the operation for an instruction.

    The value of an HLO constant is converted to a StableHLO literal.
    """
    op, type = ins.op, without_layouts(ins.type)
    if not isinstance(op, Constant) or isinstance(op.literal, MlirLiteral):
        return attributes_of(op)
    array = op.literal.array(type)
    if isinstance(array, tuple):
        raise UnsupportedError(f"`{ins.name}`: constants of StableHLO are tensors")
    return {"value": from_array(array, type)}


def _callees(ins: Instruction) -> Mapping[str, Attribute]:
    names = [SymbolAttr(callee.name) for callee in ins.calls]
    match ins.op:
        case Call():
            return {"callee": names[0]}
        case Composite():
            return {"decomposition": names[0]}
        case CustomCall() if names:
            return {"called_computations": ArrayAttr(tuple(names))}
        case _:
            return NO_ATTRIBUTES


# --------------------------------------------------------------------------------------------------
# Printing of StableHLO programs as MLIR text.


def print_stablehlo(
    program: Operation | Module | Builder,
    *,
    generic: bool = False,
    locations: bool = False,
    names: Literal["mlir", "source"] = "mlir",
) -> str:
    """Return a program as MLIR text, with the same characters as MLIR's own tools.

    Args:
        program: A syntax tree, a module of the program graph, or a builder.
        generic: Print all ops in the generic form.
        locations: Print the locations of ops.
        names: `mlir` numbers the values as MLIR does; `source` writes the names of the source.

    Raises:
        UnsupportedError: StableHLO does not have an op of the graph.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> text = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    >>> print(print_stablehlo(parse_stablehlo(text)), end="")
    module {
      func.func @f(%arg0: tensor<2xf32>) -> tensor<2xf32> {
        return %arg0 : tensor<2xf32>
      }
    }
    """
    if isinstance(program, Builder):
        program = program.module
    tree = program if isinstance(program, Operation) else to_mlir(program)
    return print_mlir(tree, dialects=DIALECTS, generic=generic, locations=locations, names=names)
