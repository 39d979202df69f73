"""Why sizes are unknown: paths from dynamic values to their causes, and requests that fix sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from hloscope.errors import ParseError
from hloscope.ir import TensorType, Type, UnrankedTensorType
from hloscope.mlir import (
    Block,
    BoolAttr,
    Operation,
    StringAttr,
    SymbolAttr,
    Value,
    parse_type,
    string_of,
)
from hloscope.mlir.dialects import CLASSES, DEFINITIONS, DIALECTS
from hloscope.passes.conversion import shaped
from hloscope.passes.dynamism.dimensions import DimensionError, arguments_of, entry_of, is_assertion
from hloscope.passes.dynamism.refining import WRAPPER, split_types
from hloscope.passes.dynamism.shapes import SIZE_OPERANDS, STATIC
from hloscope.passes.dynamism.values import (
    SHAPE_OPERANDS,
    flattened,
    is_integers,
    literal_of,
    number_literal,
    shape_operands,
    unready_readers,
)
from hloscope.passes.folding import signed_integers
from hloscope.passes.framework import Run
from hloscope.passes.pipeline import Step, parse_pipeline, step_of
from hloscope.passes.rewriting import Rewriter

# --------------------------------------------------------------------------------------------------
# Explanations of unknown sizes: the path from a value back to the cause.
#
# Each dynamic value has one edge to the value that its unknown size comes from.  So paths share
# their ends, and each value of a program is examined once.


LONGEST: Final = 100
"""Maximum number of steps in a path from a dynamic value to its cause."""


class Link(NamedTuple):
    """One value on a path from a dynamic value to its cause.

    Attributes:
        value: The value.
        why: Relation to the next value: `size of`, `reads` …; empty at the end.
    """

    value: Value
    why: str


class Origin(NamedTuple):
    """The end of a path: the cause of a dynamic size.

    Attributes:
        kind: `argument`, `data` (a size computed from elements), `custom_call`, `call`, `declared`
            (sizes do not follow from operands), `unknown` (an op without a definition), `reader`
            (a user requires the dynamic type) or `loop` (the path returns to itself).
        remedy: Change of the program that would make the size known.
    """

    kind: str
    remedy: str


class Explanation(NamedTuple):
    """The cause of the dynamic size of one value.

    Attributes:
        value: The dynamic value.
        path: The path, from the value itself to the cause.
        origin: The cause.
    """

    value: Value
    path: tuple[Link, ...]
    origin: Origin


def is_dynamic(type: Type) -> bool:
    """Does the type, or an element of a tuple, have an unknown size or rank?

    >>> from hloscope.mlir import parse_type
    >>> is_dynamic(parse_type("tuple<tensor<2x?xf32>>"))
    True
    """
    return any(
        isinstance(each, UnrankedTensorType)
        or (isinstance(each, TensorType) and not each.is_static)
        for each in flattened([type])
    )


def dynamic_values(tree: Operation) -> Iterator[Value]:
    """Yield the values whose type has an unknown size or rank, in program order."""
    for op in tree.walk():
        if op.name.endswith(".func"):
            for region in op.regions:
                for block in region.blocks[:1]:
                    yield from (v for v in block.arguments if is_dynamic(v.type))
            continue
        yield from (value for value in op.results if is_dynamic(value.type))
        for block in op.blocks:
            yield from (v for v in block.arguments if is_dynamic(v.type))


def explain(tree: Operation) -> list[Explanation]:
    """Return the explanation of each dynamic value of a program, in program order.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> text = '''func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
    ...   %0 = stablehlo.abs %a : tensor<?xf32>
    ...   return %0 : tensor<?xf32>
    ... }'''
    >>> [(len(e.path), e.origin.kind) for e in explain(parse_stablehlo(text).tree)]
    [(1, 'argument'), (2, 'argument')]
    """
    explainer = _Explainer(tree)
    return [explainer.of(value) for value in dynamic_values(tree)]


class _Step(NamedTuple):
    """One step of a path: why a size is unknown, as text, and the next value or the cause."""

    why: str
    to: Value | None
    origin: Origin | None = None


def _end(kind: str, remedy: str) -> _Step:
    """Return the step of a value that is the cause itself; the arguments are those of `Origin`."""
    return _Step("", None, Origin(kind, remedy))


class _Explainer:
    def __init__(self, tree: Operation) -> None:
        self.tree: Final = tree
        self.functions: Final[dict[str, Operation]] = {}
        self.calls: Final[dict[str, Operation]] = {}
        for op in tree.walk():
            name = op.get("sym_name")
            if op.name == "func.func" and isinstance(name, StringAttr):
                self.functions.setdefault(name.text, op)
            callee = op.get("callee")
            if op.name == "func.call" and isinstance(callee, SymbolAttr):
                self.calls.setdefault(callee.root, op)
        self._steps: Final[dict[Value, _Step]] = {}
        self._readers: Final[dict[Value, list[Operation]]] = {}
        for op in tree.walk():
            for value in op.operands:
                self._readers.setdefault(value, []).append(op)

    def of(self, value: Value) -> Explanation:
        """Return the path from a dynamic value to the cause."""
        path: list[Link] = []
        seen: set[Value] = set()
        at = value
        while True:
            # Paths of different values have common ends: each step is computed once and shared.
            step = self._steps.get(at)
            if step is None:
                step = self._steps[at] = self._step(at)
            path.append(Link(at, step.why))
            seen.add(at)
            # A value that is reached again carries its size around a loop.
            if step.to is None or step.to in seen or len(path) >= LONGEST:
                origin = step.origin or Origin("loop", _OF_LOOPS)
                return Explanation(value, tuple(path), origin)
            at = step.to

    # -------------------------------------------------------------------------------- one step

    def _step(self, value: Value) -> _Step:
        """Return the step from a dynamic value to the next one, or the cause."""
        owner = value.owner
        if isinstance(owner, Block):
            return self._of_argument(value, owner)
        if owner is None:
            return _end("declared", "")
        special = _SPECIAL.get(owner.name)
        if special is not None:
            found = special(self, owner, value)
            if found is not None:
                return found
        return self._of_op(owner, value)

    def _of_argument(self, value: Value, block: Block) -> _Step:
        """Return the step from an argument of the block `block`."""
        owner = block.parent_op
        if owner is None:
            return _end("declared", "")
        if owner.name == "func.func":
            return self._of_parameter(value, owner)
        if owner.name == "stablehlo.while" and value.index < len(owner.operands):
            return _Step("carried value of", owner.operands[value.index])
        dynamic = [v for v in owner.operands if is_dynamic(v.type)]
        if dynamic:
            return _Step("argument of a region of the op that reads", dynamic[0])
        return _end("declared", _DECLARED.format(owner.name))

    def _of_parameter(self, value: Value, function: Operation) -> _Step:
        """Return the step from a function's argument to the operand of its call, or the cause."""
        text = string_of(function.get("sym_name"))
        call = self.calls.get(text)
        public = function.get("sym_visibility") != StringAttr(b"private")
        if call is not None and not public and value.index < len(call.operands):
            return _Step("given by a call", call.operands[value.index])
        kept = self._fixed_by_reader(value)
        if kept is not None:
            return kept
        remedy = f"give argument {value.index} of @{text} a type with known sizes"
        if not isinstance(value.type, UnrankedTensorType) and not is_dynamic(value.type):
            remedy = f"the size is an element of argument {value.index} of @{text}: give its value"
        return _end("argument", remedy)

    def _fixed_by_reader(self, value: Value) -> _Step | None:
        """Return the end of the path, if a user of a static value needs its old dynamic type.

        Refinement wraps an argument for users in dialects that it does not support. The result is
        `None` if there is no such user.
        """
        if is_dynamic(value.type):
            return None
        for wrapper in self._readers.get(value, ()):
            if is_wrapper(wrapper):
                readers = unready_readers(self._readers.get(wrapper.results[0], ()))
                if readers:
                    return self._reader_step(readers[0])
        return None

    def _reader_step(self, reader: Operation) -> _Step:
        return _end("reader", _OF_READERS.format(reader.name))

    def _of_op(self, op: Operation, value: Value) -> _Step:
        """Return the step from a result of `op` to the first operand with dynamic sizes.

        If the value itself is static, such as a computed size, the step leads to its first operand
        that is not constant. Without such an operand the path ends.
        """
        if is_dynamic(value.type):
            for operand in op.operands:
                if is_dynamic(operand.type):
                    return _Step("sizes of", operand)
            readers = unready_readers(self._readers.get(value, ()))
            if readers and op.name.startswith(("stablehlo.", "chlo.")):
                return self._reader_step(readers[0])
            kind = "declared" if op.name in CLASSES or op.name in DEFINITIONS else "unknown"
            return _end(kind, _DECLARED.format(op.name))
        return self._of_number(op)

    def _of_number(self, op: Operation) -> _Step:
        """Return the step from an integer that `op` computes to an operand that is not constant.

        That is the first such operand. The path ends if the integer depends on tensor elements.
        """
        unknown = [v for v in op.operands if literal_of(v) is None and signed_integers(v) is None]
        for operand in unknown:
            if isinstance(operand.type, TensorType) and operand.type.element.kind == "float":
                return _end("data", _OF_DATA)
        if len(unknown) == 0 or op.name in _SUMMARIES:
            return _end("data", _OF_DATA)
        return _Step("computed from", unknown[0])

    # --------------------------------------------------------------------------- ops of their own

    def _of_call(self, op: Operation, value: Value) -> _Step | None:
        """Return the step from the result of a call to the value that the function returns."""
        callee = op.get("callee")
        function = self.functions.get(callee.root) if isinstance(callee, SymbolAttr) else None
        if function is None or not function.regions or not function.regions[0].blocks:
            return _end("call", "define the function, with types of known sizes")
        last = function.regions[0].blocks[-1].operations[-1]
        if value.index < len(last.operands):
            returned = last.operands[value.index]
            if is_dynamic(returned.type) or not is_dynamic(value.type):
                return _Step("returned by a call", returned)
        return _end("call", "refine shapes: what it calls returns known sizes")

    def _of_branches(self, op: Operation, value: Value) -> _Step | None:
        """Return the step from a result of an `if` or `case` to a value that a branch returns.

        `None` if no branch returns a dynamic or unknown value.
        """
        for region in op.regions:
            last = region.blocks[0].operations[-1] if region.blocks else None
            if last is not None and value.index < len(last.operands):
                returned = last.operands[value.index]
                if is_dynamic(returned.type) or literal_of(returned) is None:
                    return _Step("returned by a branch", returned)
        return None

    def _of_loop(self, op: Operation, value: Value) -> _Step | None:
        if value.index < len(op.operands):
            return _Step("carried value of", op.operands[value.index])
        return None

    def _of_custom_call(self, op: Operation, value: Value) -> _Step | None:
        """Return the step from a result of a custom call to its shape operand, or the cause."""
        if op.get(SHAPE_OPERANDS) is not None:
            operands = shape_operands(op, Run(_empty_rewriter(), {}))
            held = operands[value.index : value.index + 1] if operands else []
            if held and signed_integers(held[0]) is None:
                return _Step("sizes held by", held[0])
        if is_wrapper(op):
            return _Step("argument read with its old type", op.operands[0])
        name = string_of(op.get("call_target_name"))
        remedy = f"name the operands with the result sizes of @{name} in `{SHAPE_OPERANDS}`"
        return _end("custom_call", remedy)

    def _of_size(self, op: Operation, value: Value) -> _Step | None:
        return _Step("a size of", op.operands[0])

    def _of_bound(self, op: Operation, value: Value) -> _Step | None:
        if literal_of(op.operands[1]) is None:
            return _Step("size set to", op.operands[1])
        return None

    def _of_shape_operand(self, op: Operation, value: Value) -> _Step | None:
        """Return the step from an op's result to the first operand of sizes that is not constant.

        `None` if all are constant.
        """
        for operand in op.operands[_FIRST_SHAPE[op.name] :]:
            if signed_integers(operand) is None:
                return _Step("sizes held by", operand)
        return None


def is_wrapper(op: Operation) -> bool:
    """Is the op the custom call that keeps the old type of a refined argument for its users?"""
    target = op.get("call_target_name")
    return op.name == "stablehlo.custom_call" and target == StringAttr(WRAPPER.encode())


def _empty_rewriter() -> Rewriter:
    return Rewriter(Operation("builtin.module"))


_FIRST_SHAPE: Final = {**SIZE_OPERANDS, **{name: op.first for name, op in STATIC.items()}}
"""Index of the first operand with sizes, or with amounts that determine sizes, by op name."""
_SUMMARIES: Final = frozenset(
    f"stablehlo.{name}" for name in ("reduce", "gather", "scatter", "sort", "dot_general", "infeed")
)
"""Ops whose results depend on tensor elements: a size that they compute ends the path as `data`."""
_SPECIAL: Final[dict[str, Callable[[_Explainer, Operation, Value], _Step | None]]] = {
    "func.call": _Explainer._of_call,
    "stablehlo.case": _Explainer._of_branches,
    "stablehlo.if": _Explainer._of_branches,
    "stablehlo.while": _Explainer._of_loop,
    "stablehlo.custom_call": _Explainer._of_custom_call,
    **dict.fromkeys(
        ("stablehlo.get_dimension_size", "shape.dim", "shape.shape_of", "tensor.dim"),
        _Explainer._of_size,
    ),
    "stablehlo.set_dimension_size": _Explainer._of_bound,
    **dict.fromkeys(_FIRST_SHAPE, _Explainer._of_shape_operand),
}
_OF_DATA: Final = (
    "the size depends on elements of arrays: pad to a known size, as `jnp.nonzero(x, size=n)` does"
)
_OF_READERS: Final = (
    "`{}` reads the value, but sizes are not propagated into ops of its dialect: use ops of"
    " StableHLO instead"
)
_OF_LOOPS: Final = "refine the values that are carried into the loop"
_DECLARED: Final = "declare the result sizes of `{}`: they do not follow from its operands"


# --------------------------------------------------------------------------------------------------
# Requests for refinement: argument types, and the passes to run.


_POLYMORPHIC: Final = "jax.uses_shape_polymorphism"
_BEFORE: Final = "inline,cse,stablehlo-ext-chlo-recompose-ops,symbol-dce"
"""Text of the passes that XLA runs on a program of symbolic sizes before refinement."""


def with_arguments(
    tree: Operation, given: str | Sequence[Any] | None
) -> tuple[Operation, list[Type]]:
    """Return the program for requested arguments, and the types of all its arguments.

    `given` has a type, its text, an object with a shape, or a number for each argument. The uses of
    an argument given as a number are replaced by a constant.

    Raises:
        ParseError: A text is not a type.
        DimensionError: The number of types differs from that of the arguments.
    """
    arguments = arguments_of(tree)
    if given is None:
        return tree, [argument.type for argument in arguments]
    wanted = split_types(given) if isinstance(given, str) else given
    if len(wanted) != len(arguments):
        raise DimensionError(
            f"{len(wanted)} argument{'s' * (len(wanted) != 1)} given, the program has"
            f" {len(arguments)}"
        )
    values: dict[int, int] = {}
    types: list[Type] = []
    for number, (each, argument) in enumerate(zip(wanted, arguments, strict=True)):
        value = _number(each)
        if value is None:
            types.append(_type(each, argument.type))
            continue
        type = argument.type
        # A number would be read as a scalar; for an array it would have no single meaning.
        if not isinstance(type, TensorType) or type.rank or not is_integers(type):
            raise DimensionError(f"argument {number} is not a number: give its type, not `{value}`")
        values[number] = value
        types.append(argument.type)
    return _with_values(tree, values) if values else tree, types


def _number(each: Any) -> int | None:
    if isinstance(each, str) and each.strip().lstrip("-").isdecimal():
        return int(each.strip()[:20])
    return each if isinstance(each, int) and not isinstance(each, bool) else None


def _type(each: Any, declared: Type) -> Type:
    """Return the type that the request `each` for one argument means.

    It is a type, its text, or an object with a shape. `None`, `_` and an empty text mean the
    declared type.

    Raises:
        ParseError: The request is not a type.
    """
    if each is None or (isinstance(each, str) and each.strip() in ("_", "")):
        return declared
    if isinstance(each, str):
        text = each.strip()
        return parse_type(text, dialects=DIALECTS)
    shape = getattr(each, "shape", None)
    if isinstance(each, TensorType | UnrankedTensorType) or shape is None:
        if isinstance(each, Type):
            return each
        raise ParseError(f"{each!r} is not an argument type")
    element = getattr(declared, "element", None)
    if element is None:
        return declared
    return shaped(element, *map(int, shape))


def _with_values(tree: Operation, values: dict[int, int]) -> Operation:
    """Return the program with the uses of some arguments replaced by constants.

    `values` has the integer of each such argument, by the argument's index.
    """
    rewriter = Rewriter(tree)
    function = entry_of(rewriter.module)
    assert function is not None
    block = function.regions[0].block
    front = next(iter(block))
    for number, value in values.items():
        argument = block.arguments[number]
        assert isinstance(argument.type, TensorType)
        literal = number_literal(value, argument.type)
        constant = rewriter.constant(literal, argument.type, before=front)
        rewriter.replace_uses(argument, constant)
    return rewriter.finish()


def with_entry(tree: Operation, name: str) -> Operation | None:
    """Return the program with function `name` as its entry; `None` if no function has the name.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> one, other = "func.func @main() { return }", "func.func private @f() { return }"
    >>> found = with_entry(parse_stablehlo(f"{one} {other}").tree, "f")
    >>> [function.get("sym_name").text for function in found.inside]
    ['main']
    """
    if not any(_has_name(op, name) for op in tree.inside):
        return None
    rewriter = Rewriter(tree)
    for function in [op for op in rewriter.module.inside if op.name == "func.func"]:
        if _has_name(function, name):
            own = {k: v for k, v in function.properties.items() if k != "sym_visibility"}
            rewriter.set_properties(function, {**own, "sym_name": StringAttr(b"main")})
        elif _has_name(function, "main"):
            rewriter.erase(function)
    return rewriter.finish()


def _has_name(operation: Operation, name: str) -> bool:
    """Is the operation the function named `name`?"""
    return operation.name == "func.func" and operation.get("sym_name") == StringAttr(name.encode())


def refining_steps(
    tree: Operation, types: Sequence[Type], *, assertions: bool | None = True
) -> list[Step]:
    """Return the passes that make a program static, given the types of its arguments.

    Args:
        tree: The program.
        types: Types of its arguments.
        assertions: True checks assertions about sizes, false erases them, `None` leaves them in
            place.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> tree = parse_stablehlo("func.func @f() { return }").tree
    >>> [step.name for step in refining_steps(tree, [])]
    ['stablehlo-ext-refine-shapes', 'stablehlo-ext-canonicalize-dynamism']
    """
    steps: list[Step] = []
    # Without a change of types there is nothing to wrap, and arguments keep their uses.
    if [argument.type for argument in arguments_of(tree)] != [*types]:
        steps.append(Step(step_of("stablehlo-refine-arguments").job, {"types": tuple(types)}))
    if tree.get(_POLYMORPHIC) == BoolAttr(True):
        steps += parse_pipeline(_BEFORE)
    steps += parse_pipeline("stablehlo-ext-refine-shapes,stablehlo-ext-canonicalize-dynamism")
    # Assertions come last: their operands are constants only after canonicalization.
    if assertions is not None and any(is_assertion(op) for op in tree.walk()):
        on = str(assertions).lower()
        steps.append(step_of("stablehlo-check-shape-assertions", f"enable-shape-assertions={on}"))
    return steps
