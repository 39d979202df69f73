"""Refinement: argument types are set, and sizes are propagated from them through a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct

from hloscope.errors import Diagnostic, ParseError
from hloscope.ir import DialectType, TensorType, TokenType, Type, UnrankedTensorType
from hloscope.mlir import (
    ArrayAttr,
    Block,
    DenseAttr,
    Operation,
    StringAttr,
    SymbolAttr,
    Value,
    parse_type,
    type_text,
)
from hloscope.mlir.dialects import DEFINITIONS, DIALECTS
from hloscope.passes.conversion import i64_tensor
from hloscope.passes.dynamism.shapes import INFERRED, SHAPES, refine_inferred
from hloscope.passes.dynamism.values import (
    S64,
    SHAPE_OPERANDS,
    body_of,
    has_one_block,
    integer,
    is_integers,
    literal_of,
    name_of,
    number_literal,
    refine_results,
    refine_shapes,
    set_signature,
    shapes_of,
    signature_of,
    target_of,
)
from hloscope.passes.folding import INDEX_FOLDS, SHAPE_FOLDS
from hloscope.passes.framework import GreedyDriver, Option, Pass, PostponedError, Run
from hloscope.passes.patterns import Chooser, Limits, Pattern, limited
from hloscope.passes.pipeline import cut
from hloscope.passes.regions import is_effect_free, is_terminator
from hloscope.passes.rewriting import Rewriter
from hloscope.support.walks import reached

# --------------------------------------------------------------------------------------------------
# `stablehlo-refine-shapes`: propagates sizes from the arguments through a program.
#
# A function is refined once, for its first call.  A called function is refined when the pattern
# reaches the call.  Functions wait on an explicit stack, so that call depth is not limited.
#
# Source: StableHLO `StablehloRefineShapes.cpp`.


ITERATIONS: Final = 2


class _Frame(NamedTuple):
    """A function whose refinement is not finished, with the greedy driver of its patterns."""

    function: Operation
    driver: GreedyDriver


class Refinement:
    """Refinement of a module: types of arguments are propagated through functions and calls.

    It stores the key of each refined function, and a stack of functions that are not finished.
    """

    def __init__(self, run: Run, more: Iterable[Pattern] = ()) -> None:
        self.run: Final = run
        functions = [*run.functions()]
        self.functions: Final = {name_of(f): f for f in reversed(functions)}
        self.with_effects: Final = functions_with_effects(functions)
        self._known: Final[dict[Operation, Key]] = {}
        self._stack: list[_Frame] = []
        self._inferred: Final[dict[Operation, list[Type]]] = {}
        """Types that were last inferred for an op with regions, by the op."""
        self._waiting: Final[set[Operation]] = set()
        """Functions on the stack, whose refinement is not finished."""
        self._chooser: Final = Chooser(
            [
                *SHAPES,
                *more,
                Pattern("refine_custom_call", ("stablehlo.custom_call",), self._custom_call),
                Pattern("refine_call", ("func.call",), self._call),
                *INDEX_FOLDS,
                *limited(SHAPE_FOLDS, Limits(optimize_float=False)),
                Pattern("refine_inferred", INFERRED, self._infer, benefit=0),
            ]
        )

    def refine(self, entry: Operation) -> bool:
        """Refine the entry function and all it calls; false if the entry cannot be refined."""
        types = tuple([argument.type for argument in body_of(entry).arguments])
        if not self._begin(Key(entry, 0, (), types), fails=True):
            return False
        while self._stack:
            frame = self._stack[-1]
            try:
                converged = frame.driver.run()
            # A callee was pushed: it runs first, then this driver resumes at the call.
            except PostponedError:
                continue
            self._stack.pop()
            self._waiting.remove(frame.function)
            if not converged:
                message = f"Failed to converge StablehloRefineShapes in {ITERATIONS} iterations"
                self.run.plain_error(frame.function, message, fails=False)
        self.run.fired += self._chooser.fired
        return True

    # ------------------------------------------------------------------------------- functions

    def _begin(self, key: Key, *, fails: bool = False) -> bool:
        """Set the argument types of a key's function and push it on the stack.

        Return false, after an error, if that is not possible. With `fails`, the error makes the
        pass fail.
        """
        # The key is recorded first, so that a failed function is not begun again.
        run, function = self.run, key.function
        self._known[function] = key
        if not has_one_block(run, function, fails=fails):
            return False
        if not self._replace_sizes(key):
            return False
        types = (*key.token_types, *key.types)
        if not refine_arguments(run, function, types, fails=fails):
            return False
        driver = GreedyDriver(run.rewriter, function, self._chooser, max_iterations=ITERATIONS)
        self._stack.append(_Frame(function, driver))
        self._waiting.add(function)
        return True

    def _replace_sizes(self, key: Key) -> bool:
        """Replace the integer arguments whose values the key has by constants, and remove them.

        Return false after an error.
        """
        if not key.sizes:
            return True
        function, rewriter = key.function, self.run.rewriter
        body = body_of(function)
        first, end = key.tokens, key.tokens + len(key.sizes)
        front = next(iter(body))
        for argument, size in zip(body.arguments[first:end], key.sizes, strict=False):
            if not isinstance(argument.type, TensorType) or not is_integers(argument.type):
                message = "expected global constant argument to be shaped"
                self.run.error(function, message, fails=False)
                return False
            literal = number_literal(size, argument.type)
            constant = rewriter.constant(literal, argument.type, before=front)
            assert isinstance(constant.owner, Operation)
            constant.owner.location = argument.location
            rewriter.replace_uses(argument, constant)
        remove_arguments(rewriter, function, body, range(first, end))
        return True

    def _is_refined(self, key: Key) -> bool | None:
        """Is the function of `key` already refined for exactly this key?

        `None`, after an error, if it was refined for another key or is not finished (recursion).
        """
        known = self._known.get(key.function)
        if known is None:
            return False
        is_other = bool(key.sizes) and key.sizes != known.sizes
        types = (key.token_types, key.types), (known.token_types, known.types)
        if is_other or types[0][0] + types[0][1] != types[1][0] + types[1][1]:
            message = f"refined with incompatible refinement keys:\n  curr={key}\n  prev={known}"
            self.run.error(key.function, message, fails=False)
            return None
        if key.function in self._waiting:
            name = name_of(key.function)
            message = f"Function {name} is being refined recursively\n"
            self.run.error(key.function, message, fails=False)
            return None
        return True

    # -------------------------------------------------------------------------------- patterns

    def _custom_call(self, rewriter: Rewriter, op: Operation) -> bool:
        """Refine a custom call's results to the constant sizes in its shape operands.

        A wrapper call whose operand has the final type is replaced by the operand.
        """
        shapes = shapes_of(op, self.run)
        if shapes is None or not refine_shapes(rewriter, op, shapes):
            return False
        target = op.get("call_target_name")
        if isinstance(target, StringAttr) and target.text == WRAPPER:
            operand = op.operands[0]
            if operand.type == op.results[0].type:
                rewriter.replace_uses(op.results[0], operand)
        return True

    def _infer(self, rewriter: Rewriter, op: Operation) -> bool:
        """Refine an op's results to the types that inference gives; return whether one changed.

        An op with regions is inferred again only if a type of its operands, results or region
        results has changed: a change in a region makes the driver visit all ops around it, so that
        this would never end.
        """
        if not op.regions:
            return refine_inferred(rewriter, op)
        held = [value.type for value in (*op.operands, *op.results)]
        for region in op.regions:
            last = region.blocks[0].operations[-1:] if region.blocks else ()
            held += [value.type for each in last for value in each.operands]
        if self._inferred.get(op) == held:
            return False
        self._inferred[op] = held
        return refine_inferred(rewriter, op)

    def _call(self, rewriter: Rewriter, op: Operation) -> bool:
        """Refine the called function, then set the call's result types to the function's.

        Raises:
            PostponedError: The function is not refined yet; it was pushed on the stack.
        """
        function = self.functions.get(callee_name(op))
        if function is None:
            return False
        key = key_of(op, function)
        is_refined = self._is_refined(key)
        if is_refined is None:
            return False
        if not is_refined:
            if self._begin(key):
                raise PostponedError
            return False
        if len(function.regions[0].blocks) != 1:
            return False
        return self._apply_refined(rewriter, op, key)

    def _apply_refined(self, rewriter: Rewriter, op: Operation, key: Key) -> bool:
        """Change the call `op` to match its refined function, that of `key`.

        Its result types are refined, and arguments that became constants in the function are
        removed.
        """
        function = key.function
        is_changed = refine_results(rewriter, op, signature_of(function).results)
        returned = _returned(body_of(function))
        literals = [_integers(value) for value in returned]
        is_pure = name_of(function) not in self.with_effects
        fit = len(literals) == len(op.results) and all(
            literal is not None and literal.type == result.type
            for literal, result in zip(literals, op.results, strict=True)
        )
        # A pure function of constant results needs no call.
        if fit and is_pure:
            rewriter.replace(op, [_constant(rewriter, op, literal) for literal in literals])
            return True
        # The function lost its size arguments in `_replace_sizes`; each call must follow once.
        if key.sizes:
            end = key.tokens + len(key.sizes)
            rewriter.set_operands(op, (*op.operands[: key.tokens], *op.operands[end:]))
            _drop_attributes(rewriter, op, range(key.tokens, end))
            is_changed = True
        for literal, result in zip(literals, op.results, strict=False):
            if literal is not None and literal.type == result.type and rewriter.uses(result):
                rewriter.replace_uses(result, _constant(rewriter, op, literal))
                is_changed = True
        return is_changed


def _constant(rewriter: Rewriter, op: Operation, literal: DenseAttr | None) -> Value:
    assert literal is not None
    assert isinstance(literal.type, TensorType)
    return rewriter.constant(literal, literal.type, before=op)


def _returned(body: Block) -> Sequence[Value]:
    last = body.operations[-1] if body.operations else None
    return last.operands if last is not None and last.name == "func.return" else ()


def _integers(value: Value) -> DenseAttr | None:
    literal = literal_of(value)
    return literal if literal is not None and is_integers(literal.type) else None


def remove_arguments(
    rewriter: Rewriter, function: Operation, body: Block, which: Sequence[int]
) -> None:
    """Remove the arguments of a function whose indices are `which`; they must be unused.

    Their types and attributes are removed, too. `body` is the function's entry block.
    """
    kept = [k for k in range(len(body.arguments)) if k not in which]
    rewriter.keep_arguments(body, [body.arguments[k] for k in kept])
    inputs = signature_of(function).inputs
    set_signature(rewriter, function, inputs=[inputs[k] for k in kept if k < len(inputs)])
    _drop_attributes(rewriter, function, which)


def _drop_attributes(rewriter: Rewriter, op: Operation, which: Sequence[int]) -> None:
    """Remove the attributes of the arguments whose indices are `which` from a function or call."""
    given = op.properties.get("arg_attrs")
    if isinstance(given, ArrayAttr):
        kept = tuple([each for k, each in enumerate(given.elements) if k not in which])
        rewriter.set_properties(op, {**op.properties, "arg_attrs": ArrayAttr(kept)})


def refine(run: Run, more: Iterable[Pattern] = ()) -> None:
    """Refine the entry function of a module and all it calls.

    `more` are patterns in addition to those of refinement.
    """
    entry = target_of(run)
    if entry is None:
        return
    if not Refinement(run, more).refine(entry):
        run.plain_error(entry, "Failed to refine entry function")


REFINE_SHAPES: Final = Pass(
    "stablehlo-refine-shapes",
    refine,
    "Propagates the sizes of arguments through the program.",
)


# --------------------------------------------------------------------------------------------------
# `stablehlo-refine-arguments`: gives the arguments of a program more specific types.
#
# Users of an argument still read a value of the old type, the result of a custom call on the
# argument.  Shape refinement removes that call.
#
# Source: StableHLO `StablehloRefineArguments.cpp`.


UNKNOWN_SIZE: Final = -(1 << 63)
"""Number that stands for a dynamic size in a list of sizes, as in MLIR."""
WRAPPER: Final = "stablehlo.shape_refinement_operand_wrapper"

_DIALECTS: Final = frozenset(name.partition(".")[0] for name in DEFINITIONS)


def sizes_attribute(sizes: Sequence[int | None]) -> DenseAttr:
    """Return the sizes as a literal of `i64`, in which `UNKNOWN_SIZE` stands for `None`."""
    return i64_tensor([UNKNOWN_SIZE if size is None else size for size in sizes], [len(sizes)])


def why_not(old: Type, new: Type) -> str:
    """Return why `new` is not a refinement of `old`; an empty text if it is one.

    >>> why_not(parse_type("tensor<2xf32>"), parse_type("tensor<2x3xf32>"))
    'rank must match operand rank'
    """
    if old == new:
        return ""
    tensors = TensorType | UnrankedTensorType
    if not isinstance(old, tensors) or not isinstance(new, tensors):
        return "must be a tensor"
    if old.element != new.element:
        return "element types must match"
    if isinstance(new, UnrankedTensorType):
        return "must be ranked"
    if isinstance(old, UnrankedTensorType):
        return ""
    if old.rank != new.rank:
        return "rank must match operand rank"
    if any(a is not None and a != b for a, b in zip(old.sizes, new.sizes, strict=True)):
        return "dimension sizes must match for static dimensions"
    return ""


def refine_arguments(
    run: Run, function: Operation, types: Sequence[Type], *, fails: bool = True
) -> bool:
    """Set the types of a function's arguments; false, with an error, if they are no refinements.

    With `fails`, the error makes the pass fail.
    """
    arguments = body_of(function).arguments
    if len(arguments) != len(types):
        counts = f"{len(types)} vs {len(arguments)}"
        message = f"number of refinements must match number of op operands {counts}"
        run.error(function, message, fails=fails)
        return False
    for number, (argument, type) in enumerate(zip(arguments, types, strict=True)):
        why = why_not(argument.type, type)
        if why:
            change = f"{type_text(argument.type)} -> {type_text(type)}"
            message = f"invalid refinement for argument {number}, refinement {why} in {change}"
            run.error(function, message, fails=fails)
            return False
    # All types are checked before the first change, so that a failure changes nothing.
    front = next(iter(body_of(function)))
    for argument, type in zip(arguments, types, strict=True):
        if argument.type != type:
            _wrap(run.rewriter, argument, type, front)
    set_signature(run.rewriter, function, inputs=types)
    return True


def _wrap(rewriter: Rewriter, argument: Value, type: Type, front: Operation) -> None:
    """Set an argument's type to `type`, and keep the old type for users that need it.

    These users read a custom call of the old type, which is inserted before `front`.
    """
    assert isinstance(type, TensorType)
    sizes = sizes_attribute(type.sizes)
    shape = rewriter.constant(sizes, TensorType(S64, (type.rank,)), before=front)
    properties = {"call_target_name": StringAttr(WRAPPER.encode())}
    which = {SHAPE_OPERANDS: sizes_attribute([1])}
    call = rewriter.create(
        "stablehlo.custom_call",
        (argument, shape),
        properties,
        attributes=which,
        types=(argument.type,),
        before=front,
    )
    assert isinstance(shape.owner, Operation)
    shape.owner.location = call.location = argument.location
    rewriter.replace_uses(argument, call.result, unless=lambda user: user is call)
    rewriter.set_type(argument, type)


def read_types(run: Run, texts: Sequence[str | Type]) -> list[Type] | None:
    """Return types in the order of `texts`; a text is parsed, a type is returned unchanged.

    If a text is not a type, or is a type of an unregistered dialect, the result is `None`: errors
    are added to `run.diagnostics`, and `run.failed` is set.
    """
    types: list[Type] = []
    for text in texts:
        if not isinstance(text, str):
            types.append(text)
            continue
        try:
            type = parse_type(text, dialects=DIALECTS)
        except ParseError as error:
            run.diagnostics.append(Diagnostic(error.message, error.span))
            type = None
        if isinstance(type, DialectType) and _is_unknown(type.text):
            run.diagnostics.append(Diagnostic(f"`{type.text}` {_UNREGISTERED}"))
            type = None
        if type is None:
            found = Diagnostic(f"'builtin.module' op Invalid type string: {text}")
            run.diagnostics.append(found)
            run.failed = True
            return None
        types.append(type)
    return types


_UNREGISTERED: Final = (
    "type created with unregistered dialect. If this is intended, please call"
    " allowUnregisteredDialects() on the MLIRContext, or use -allow-unregistered-dialect with"
    " the MLIR opt tool used"
)


def _is_unknown(text: str) -> bool:
    return text.startswith("!") and text[1:].partition(".")[0].strip('"') not in _DIALECTS


def split_types(text: str) -> tuple[str, ...]:
    """Split a text of types at the commas between them, not at those inside a type.

    >>> split_types("tensor<2xf32>, tensor<?xf32, #stablehlo.bounds<4>>")
    ('tensor<2xf32>', 'tensor<?xf32, #stablehlo.bounds<4>>')
    """
    if not text.strip():
        return ()
    return tuple([piece.strip() for piece in cut(text, partial(str.__eq__, ","))])


def _run(run: Run) -> None:
    types = read_types(run, run.options["types"])
    if types is None:
        return
    function = target_of(run)
    if function is not None:
        refine_arguments(run, function, types)


REFINE_ARGUMENTS: Final = Pass(
    "stablehlo-refine-arguments",
    _run,
    "Gives the arguments of the program more specific types.",
    {
        "types": Option(
            default=(),
            help="The new types of all arguments, separated by commas.",
            read=split_types,
        )
    },
)


# --------------------------------------------------------------------------------------------------
# Refinement keys: argument types and constant sizes for which a function is refined.
#
# Source: StableHLO `StablehloRefineShapes.cpp` (`RefinementKey`, `RefineShapeState`).


class Key(Struct, frozen=True):
    """A function with the arguments for which it is refined.

    Attributes:
        function: The function.
        tokens: Number of tokens, which come first.
        sizes: Values of the constant integer arguments, which come after the tokens.
        types: Types of all other arguments.
        token_types: Types of the tokens.
    """

    function: Operation
    tokens: int
    sizes: tuple[int, ...]
    types: tuple[Type, ...]
    token_types: tuple[Type, ...] = ()

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        types = ", ".join(map(type_text, self.types))
        return (
            f"RefinementKey({name_of(self.function)}, toks={self.tokens},"
            f" dim_args=[{sizes}], fn_args=[{types}])"
        )


def key_of(call: Operation, function: Operation) -> Key:
    """Return the key with which a call requests the refinement of `function`.

    The arguments of the call are tokens first, then constants, then all others.
    """
    values = call.operands
    tokens = next(
        (k for k, v in enumerate(values) if not isinstance(v.type, TokenType)), len(values)
    )
    sizes: list[int] = []
    for value in values[tokens:]:
        is_scalar = isinstance(value.type, TensorType) and value.type.rank == 0
        size = integer(value) if is_scalar and is_integers(value.type) else None
        if size is None:
            break
        sizes.append(size)
    rest = values[tokens + len(sizes) :]
    return Key(
        function,
        tokens,
        tuple(sizes),
        tuple([value.type for value in rest]),
        tuple([value.type for value in values[:tokens]]),
    )


def callee_name(call: Operation) -> str:
    """Return the name of the called function; empty if the callee is a nested symbol or missing."""
    callee = call.get("callee")
    return callee.root if isinstance(callee, SymbolAttr) and not callee.nested else ""


def functions_with_effects(functions: Iterable[Operation]) -> frozenset[str]:
    """Return the names of the functions that have effects in their own ops or through calls.

    Declarations, and functions that call an undefined one, count as having effects.
    """
    callers: dict[str, set[str]] = {}
    work: list[str] = []
    known: set[str] = set()
    for function in functions:
        name = name_of(function)
        known.add(name)
        quiet, callees = _own_effects(function)
        if not quiet:
            work.append(name)
        for callee in callees:
            callers.setdefault(callee, set()).add(name)
    work += [name for name in callers if name not in known]
    # Effects propagate from callees to callers, so that one traversal finds all of them.
    return frozenset(reached(work, lambda name: callers.get(name, ())))


_CALL: Final = "func.call"


def _own_effects(function: Operation) -> tuple[bool, set[str]]:
    """Return whether a function has no effect of its own, and the names of the functions it calls.

    Calls do not count as effects; a function without a body has effects.
    """
    callees: set[str] = set()
    quiet = any(region.blocks for region in function.regions)
    work = [function]
    for each in work:
        for op in each.inside:
            if op.name == _CALL:
                callees.add(callee_name(op))
            elif not (is_effect_free(op) or is_terminator(op)):
                quiet = False
            if op.regions:
                work.append(op)
    return quiet, callees
