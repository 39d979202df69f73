"""Forms of ops with regions: reduce, while, scan, shape.assuming, sdy.manual_computation.

Source: `AssemblyFormat.cpp`; `ScanOp` of `ChloOps.cpp`; MLIR's `shape.assuming`; Shardy's
`ManualComputationOp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import DialectType, TensorType, Type, UnrankedTensorType, compatible
from hloscope.mlir import (
    I32,
    I64,
    NO_ATTRIBUTES,
    UNKNOWN,
    Argument,
    AsmPrinter,
    Block,
    Context,
    DenseArrayAttr,
    Directive,
    Form,
    FormState,
    IntegerAttr,
    Location,
    OpAsmParser,
    Operation,
    Part,
    Region,
    State,
    StringAttr,
    UnfitError,
    Use,
    Value,
    VerbatimAttr,
    resolve,
)
from hloscope.mlir.dialects.forms.directives import dims_text, i64_array, read_dims
from hloscope.mlir.dialects.forms.upstream import read_bracketed

COMMUTATIVE: Final = frozenset(
    f"stablehlo.{name}" for name in ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
)
"""Binary ops whose name may replace the region of a `reduce`."""


def one_block(op: Operation, regions: int) -> list[Block]:
    """Return the blocks of an op, which must have `regions` regions of one block each.

    Raises:
        UnfitError: The op has other regions.
    """
    if len(op.regions) != regions or any(len(region.blocks) != 1 for region in op.regions):
        raise UnfitError(f"{op.name} needs {regions} regions of one block each")
    return [region.block for region in op.regions]


def with_terminator(region: Region, terminator: str) -> Region:
    """Return the region, with a terminator named `terminator` added if it lacks one."""
    if not region.blocks:
        return Region((Block((), (Operation(terminator),)),))
    first, *others = region.blocks
    if others or (first.operations and first.operations[-1].name == terminator):
        return region
    block = Block(first.arguments, (*first.operations, Operation(terminator)))
    for argument in block.arguments:
        argument.owner = block
    return Region((block,))


def write_assignments(
    printer: AsmPrinter, names: tuple[Value, ...], values: tuple[Value, ...]
) -> None:
    """Write names and initial values as `(%x = %a, %y = %b)`."""
    printer.write("(")
    for position, (name, value) in enumerate(zip(names, values, strict=True)):
        printer.write(", " if position else "", name, " = ", value)
    printer.write(")")


def write_results(printer: AsmPrinter, op: Operation) -> None:
    """Write the result types as ` -> (t, u)`; nothing without results."""
    if op.results:
        printer.write(" -> (")
        printer.types(op.results)
        printer.write(")")


# -------------------------------------------------------------------------------------- reduce


def read_reduce(parser: OpAsmParser, state: State) -> None:
    """Read `(%a init: %b), … across dimensions = [0] : … reducer(%x: t, %y: t) {…}` into `state`.

    In place of `reducer`, `applies op` may follow the operands.
    """
    at = parser.at
    inputs: list[Use] = []
    inits: list[Use] = []
    while True:
        if parser.try_token("("):
            inputs.append(parser.use())
            parser.tokens("init", ":")
            inits.append(parser.use())
            parser.token(")")
        if not parser.try_token(","):
            break
    applied = parser.operation_name() if parser.try_keyword("applies") else None
    if applied is not None and applied not in COMMUTATIVE:
        parser.fail(
            "expected the inner-op to be a commutative binary-op from the stablehlo dialect, "
            "with zero region, producing single result",
            at,
        )
    parser.tokens("across", "dimensions", "=")
    state.properties["dimensions"] = i64_array(read_dims(parser))
    parser.dictionary(state)
    parser.token(":")
    type = parser.function_type()
    state.types += type.results
    if applied is not None:
        state.location = parser.location()
        if not type.inputs:
            parser.fail("input types missing in reduce-op function type", at)
        resolve(parser, state, [*inputs, *inits], type.inputs, at)
        state.regions.append(_reducer(applied, type.inputs[0], state.location or UNKNOWN))
        return
    parser.keyword("reducer")
    pairs = []
    while parser.peek() == "(":
        pair = parser.arguments(types=True)
        if len(pair) != 2:
            parser.fail("expected ','")
        pairs.append(pair)
    resolve(parser, state, [*inputs, *inits], type.inputs, at)
    # In the text the two arguments of an input are a pair; in the region all accumulators come
    # first.
    arguments = [pair[side] for side in (0, 1) for pair in pairs]
    state.regions.append(parser.region(arguments))


def _reducer(name: str, operand: Type, location: Location) -> Region:
    """Return the region of `applies op` in a `reduce`: the op on two scalars, and a return.

    Args:
        name: Name of the applied op.
        operand: Type of the first operand of the `reduce`.
        location: Location of the `reduce`, which the region's parts get.
    """
    element = operand.element if isinstance(operand, TensorType | UnrankedTensorType) else operand
    scalar = TensorType(element, ())  # type: ignore[arg-type]
    arguments = tuple(Value(scalar, index=index, location=location) for index in range(2))
    value = Value(scalar)
    value.owner = inner = Operation(name, arguments, (value,), location=location)
    last = Operation("stablehlo.return", (value,), location=location)
    block = Block(arguments, (inner, last))
    for argument in arguments:
        argument.owner = block
    return Region((block,))


def _applied(op: Operation, block: Block) -> str | None:
    """Return the op's name for `applies op` in place of the region of a `reduce`.

    `None` if the region needs its full text. `op` is the `reduce`, `block` its region's block.
    """
    if len(block.operations) != 2 or not op.operands:
        return None
    inner, last = block.operations
    operand = op.operands[0].type
    if (
        inner.name not in COMMUTATIVE
        or last.name.partition(".")[2] != "return"
        or inner.operands != block.arguments
        or inner.results != last.operands
        or len(inner.operands) != 2
        or len(inner.results) != 1
        or not isinstance(operand, TensorType | UnrankedTensorType)
    ):
        return None
    # The form shows no types of the region, so they must be those that a reader would infer.
    scalar = TensorType(operand.element, ())
    same = all(value.type == scalar for value in (*inner.operands, *inner.results))
    return inner.name if same else None


def write_reduce(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_reduce` reads."""
    (block,) = one_block(op, 1)
    count, odd = divmod(len(op.operands), 2)
    dims = op.properties.get("dimensions")
    applied = _applied(op, block)
    arguments = block.arguments
    if odd or not isinstance(dims, DenseArrayAttr):
        raise UnfitError(f"{op.name} has {len(op.operands)} operands or no dimensions")
    # The region is printed with two arguments per input; with fewer it cannot be printed.
    if applied is None and len(arguments) < 2 * count:
        raise UnfitError(f"{op.name} has {len(arguments)} arguments")
    for i in range(count):
        printer.write(", (" if i else "(", op.operands[i], " init: ", op.operands[i + count], ")")
    if applied is not None:
        printer.write(f" applies {applied}")
    printer.write(f" across dimensions = {dims_text(dims.values)}")
    printer.dictionary(op, ("dimensions",))
    printer.write(" : ")
    printer.function_type(op.operands, op.results)
    if applied is not None:
        return
    printer.newline()
    printer.write(" reducer")
    for i in range(count):
        printer.write("(")
        printer.argument(arguments[i])
        printer.write(", ")
        printer.argument(arguments[i + count])
        printer.write(") ")
    printer.write(" ")
    printer.region(op.regions[0], arguments=False)


def reduce_from_text(op: Operation) -> None:
    """Change a `reduce` op to the op that a parser reads from its printed form.

    The form `applies op` shows no names, locations and attributes in the region, so these are
    removed. Ops in the other form stay unchanged.
    """
    (block,) = one_block(op, 1)
    if _applied(op, block) is None:
        return
    inner, last = block.operations
    for value in (*block.arguments, *inner.results):
        value.name = ""
    for argument in block.arguments:
        argument.location = op.location
    inner.location = last.location = op.location
    inner.properties = inner.attributes = last.properties = last.attributes = NO_ATTRIBUTES
    last.name = "stablehlo.return"
    for implied in (inner, last):
        implied.source, implied.start, implied.end = None, 0, 0


# --------------------------------------------------------------------------------------- while


def read_while(parser: OpAsmParser, state: State) -> None:
    """Read `(%x = %a, …) : t, … attributes {…} cond {…} do {…}` into `state`."""
    at = parser.at
    arguments: list[Use] = []
    uses: list[Use] = []
    parser.token("(")
    while not parser.try_token(")"):
        arguments.append(parser.use())
        parser.token("=")
        uses.append(parser.use())
        if parser.try_token(")"):
            break
        parser.token(",")
    if uses:
        parser.token(":")
        state.types += parser.type_list()
    resolve(parser, state, uses, state.types, at)
    given = [
        Argument(use.name, type, use.at) for use, type in zip(arguments, state.types, strict=True)
    ]
    parser.attributes_with_keyword(state)
    parser.keyword("cond")
    state.regions.append(parser.region(given))
    parser.keyword("do")
    state.regions.append(parser.region(given))


def write_while(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_while` reads, which shows the operands' types only."""
    condition, body = one_block(op, 2)
    shown = op.operand_types
    for values in (condition.arguments, body.arguments, op.results):
        # The form shows one list of types for operands, arguments and results.
        types = [value.type for value in values]
        if len(types) != len(shown) or not all(map(compatible, types, shown)):
            raise UnfitError(f"{op.name} has other types than its operands")
    write_assignments(printer, body.arguments, op.operands)
    if op.operands:
        printer.write(" : ")
        printer.types(op.operands)
    printer.dictionary(op, keyword=True)
    printer.newline()
    printer.write("cond ")
    printer.region(op.regions[0], arguments=False)
    printer.write(" do ")
    printer.region(op.regions[1], arguments=False)


def while_from_text(op: Operation) -> None:
    """Change a `while` op to the op that a parser reads from its printed form.

    The form has no locations of block arguments, so these become unknown. It has one list of names,
    so the condition's arguments get the names of the body's.
    """
    condition, body = one_block(op, 2)
    for of_condition, of_body in zip(condition.arguments, body.arguments, strict=True):
        of_condition.name = of_body.name
        of_condition.location = of_body.location = UNKNOWN


# ---------------------------------------------------------------------------------------- scan


def read_scan(parser: OpAsmParser, state: State) -> None:
    """Read `(%a) inits (%b) dimension=0 attributes {…} {…} : (t, u) -> (t, u)` into `state`."""
    at = parser.at
    parser.token("(")
    inputs = parser.uses()
    parser.tokens(")", "inits", "(")
    inits = parser.uses()
    parser.tokens(")", "dimension", "=")
    state.properties["dimension"] = IntegerAttr(parser.integer(), I64)
    parser.attributes_with_keyword(state)
    state.regions.append(parser.region())
    parser.token(":")
    type = parser.function_type()
    state.types += type.results
    resolve(parser, state, [*inputs, *inits], type.inputs, at)
    carries = len(inits)
    state.properties["operandSegmentSizes"] = DenseArrayAttr(I32, (len(inputs), carries))
    outputs = (len(type.results) - carries, carries)
    state.properties["resultSegmentSizes"] = DenseArrayAttr(I32, outputs)


_SEGMENTS: Final = ("operandSegmentSizes", "resultSegmentSizes")


def write_scan(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_scan` reads."""
    one_block(op, 1)
    sizes, dim = op.properties.get("operandSegmentSizes"), op.properties.get("dimension")
    if not (
        isinstance(sizes, DenseArrayAttr)
        and len(sizes.values) == 2
        and sum(sizes.values) == len(op.operands)
        and isinstance(dim, IntegerAttr)
    ):
        raise UnfitError(f"{op.name} does not say its inputs or its dimension")
    inputs, inits = sizes.values
    outputs = op.properties.get("resultSegmentSizes")
    read = (len(op.results) - inits, inits)  # the segments that `read_scan` would infer
    if not isinstance(outputs, DenseArrayAttr) or tuple(outputs.values) != read:
        raise UnfitError(f"{op.name} does not have a carry for each initial value")
    printer.write("(")
    printer.values(op.operands[:inputs])
    printer.write(") inits (")
    printer.values(op.operands[inputs:])
    printer.write(f") dimension={dim.value} ")
    printer.dictionary(op, ("dimension", *_SEGMENTS), keyword=True)
    printer.write(" ")
    printer.region(op.regions[0])
    printer.write(" : ")
    printer.function_type(op.operands, op.results)


# -------------------------------------------------------------------- shape.assuming, sharding


def read_assuming(parser: OpAsmParser, state: State) -> None:
    """Read `%w -> (t, u) {…}` into `state`."""
    at = parser.at
    use = parser.use()
    if parser.try_token("->"):
        parser.token("(")
        state.types += parser.items(parser.type, ")")
    resolve(parser, state, [use], [WITNESS], at)
    state.regions.append(with_terminator(parser.region(), "shape.assuming_yield"))
    parser.dictionary(state)


def write_assuming(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_assuming` reads."""
    one_block(op, 1)
    if len(op.operands) != 1:
        raise UnfitError(f"{op.name} has {len(op.operands)} operands")
    printer.write(" ", op.operands[0])
    write_results(printer, op)
    printer.write(" ")
    printer.region(op.regions[0], terminator=bool(op.results))
    printer.dictionary(op)


def read_manual_computation(parser: OpAsmParser, state: State) -> None:
    """Read a `manual_computation` into `state`.

    Its text is `(%a) in_shardings=[…] out_shardings=[…] manual_axes={…} (%x: t) {…} : (t) -> u`.
    """
    _read_sharded(parser, state, ())


def read_named_computation(parser: OpAsmParser, state: State) -> None:
    """Read a `named_computation` into `state`.

    Its text is `<"name">(%a) in_shardings=[…] out_shardings=[…] (%x: t) {…} : (t) -> u`.
    """
    parser.token("<")
    state.properties["name"] = StringAttr(parser.string())
    parser.token(">")
    _read_sharded(parser, state, tuple(_SHARDINGS))


def _read_sharded(parser: OpAsmParser, state: State, optional: tuple[str, ...]) -> None:
    """Read operands, shardings, region and type of an op into `state`.

    Shardings whose names are in `optional` may be missing.
    """
    at = parser.at
    parser.token("(")
    uses = parser.uses()
    parser.token(")")
    for name, (prefix, suffix) in _SHARDINGS.items():
        if name not in optional:
            parser.keyword(name)
        elif not parser.try_keyword(name):
            continue
        parser.token("=")
        text = read_bracketed(parser, "{" if name == "manual_axes" else "[")
        state.properties[name] = VerbatimAttr(f"{prefix}{text}{suffix}")
    state.regions.append(parser.region(parser.arguments(types=True)))
    parser.dictionary(state)
    parser.token(":")
    type = parser.function_type()
    state.types += type.results
    resolve(parser, state, uses, type.inputs, at)


_SHARDINGS: Final = {
    "in_shardings": ("#sdy.sharding_per_value<", ">"),
    "out_shardings": ("#sdy.sharding_per_value<", ">"),
    "manual_axes": ("#sdy<manual_axes", ">"),
}
WITNESS: Final = DialectType("!shape.witness")


def _bare(op: Operation, name: str) -> str:
    prefix, suffix = _SHARDINGS[name]
    found = op.properties.get(name)
    if not isinstance(found, VerbatimAttr) or not found.text.startswith(prefix):
        raise UnfitError(f"{op.name} has no {name}")
    return f" {name}={found.text.removeprefix(prefix).removesuffix(suffix)}"


def write_manual_computation(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_manual_computation` reads."""
    (block,) = one_block(op, 1)
    _write_sharded(printer, op, block, [_bare(op, name) for name in _SHARDINGS])


def write_named_computation(printer: AsmPrinter, op: Operation) -> None:
    """Write `op` in the form that `read_named_computation` reads."""
    (block,) = one_block(op, 1)
    name = op.properties.get("name")
    texts = [_bare(op, name) for name in _SHARDINGS if name in op.properties]
    if not isinstance(name, StringAttr):
        raise UnfitError(f"{op.name} has no name")
    printer.write("<")
    printer.string(name.value)
    printer.write(">")
    _write_sharded(printer, op, block, texts)


def _write_sharded(printer: AsmPrinter, op: Operation, block: Block, texts: list[str]) -> None:
    """Write `op` in the form that `_read_sharded` reads.

    `block` is the block of its region, `texts` are those of the shardings.
    """
    printer.write("(")
    printer.values(op.operands)
    printer.write(f"){''.join(texts)} (")
    for position, argument in enumerate(block.arguments):
        printer.write(", " if position else "")
        printer.argument(argument)
    printer.write(") ")
    printer.region(op.regions[0], arguments=False)
    printer.dictionary(op, ("name", *_SHARDINGS))
    printer.write(" : ")
    printer.function_type(op.operands, op.results)


# --------------------------------------------------------------------------- regions in a row


def inner_regions(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<regions>`: the op's regions, as ` ({…}, {…})`.

    Without regions nothing is written.
    """

    def read(reading: FormState) -> None:
        parser = reading.parser
        if parser.try_token("("):
            reading.state.regions += parser.items(parser.region)
            parser.token(")")

    def write(printer: AsmPrinter, op: Operation) -> None:
        for position, region in enumerate(op.regions):
            printer.write(", " if position else " (")
            printer.region(region)
        printer.write(")" if op.regions else "")

    return Part(read, write)


DIRECTIVES: Final[dict[str, Directive]] = {"regions": inner_regions}
"""Directives for regions, by name."""

FORMS: Final = {
    "reduce": Form(read_reduce, write_reduce, reread=reduce_from_text),
    "while": Form(read_while, write_while, reread=while_from_text),
    "scan": Form(read_scan, write_scan),
    "assuming": Form(read_assuming, write_assuming),
    "manual_computation": Form(read_manual_computation, write_manual_computation),
    "named_computation": Form(read_named_computation, write_named_computation),
}
"""Pretty forms of ops with regions, by the name that the tables use."""
