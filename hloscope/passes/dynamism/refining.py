"""`stablehlo-refine-shapes`: propagates sizes from the arguments through a program.

A function is refined once, for its first call.  A called function is refined when the pattern
reaches the call.  Functions wait on an explicit stack, so that call depth is not limited.

Source: StableHLO `StablehloRefineShapes.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hloscope.ir import TensorType, Type
from hloscope.mlir import ArrayAttr, Block, DenseAttr, Operation, StringAttr, Value
from hloscope.passes.dynamism.arguments import WRAPPER, refine_arguments
from hloscope.passes.dynamism.constants import is_integers, literal_of, number_literal
from hloscope.passes.dynamism.keys import Key, callee_name, functions_with_effects, key_of
from hloscope.passes.dynamism.shape_operands import shapes_of
from hloscope.passes.dynamism.shapes import INFERRED, SHAPES, refine_inferred
from hloscope.passes.dynamism.targets import (
    body_of,
    has_one_block,
    name_of,
    set_signature,
    signature_of,
    target_of,
)
from hloscope.passes.dynamism.values import refine_results, refine_shapes
from hloscope.passes.folding import INDEX_FOLDS, SHAPE_FOLDS
from hloscope.passes.framework import Pass, Run
from hloscope.passes.greedy import GreedyDriver, PostponedError
from hloscope.passes.patterns import Chooser, Pattern
from hloscope.passes.rewriting import Rewriter

ITERATIONS: Final = 2


class _Frame(NamedTuple):
    """A function that is being refined, with the driver of its patterns."""

    function: Operation
    driver: GreedyDriver


class Refinement:
    """One refinement: the key of each refined function, and the stack of unfinished ones."""

    def __init__(self, run: Run, more: Iterable[Pattern] = ()) -> None:
        self.run: Final = run
        functions = [*run.functions()]
        self.functions: Final = {name_of(f): f for f in reversed(functions)}
        self.with_effects: Final = functions_with_effects(functions)
        self._known: Final[dict[Operation, Key]] = {}
        self._stack: list[_Frame] = []
        self._inferred: Final[dict[Operation, list[Type]]] = {}
        """By op with regions, the types for which it was inferred last."""
        self._waiting: Final[set[Operation]] = set()
        """Functions on the stack."""
        self._chooser: Final = Chooser(
            [
                *SHAPES,
                *more,
                Pattern("refine_custom_call", ("stablehlo.custom_call",), self._custom_call),
                Pattern("refine_call", ("func.call",), self._call),
                *INDEX_FOLDS,
                *SHAPE_FOLDS(None, optimize_float=False),
                Pattern("refine_inferred", INFERRED, self._infer, benefit=0),
            ]
        )

    def refine(self, entry: Operation) -> bool:
        """Refine the entry function and all functions that it calls."""
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
        """Give a function the arguments of a key and push it; false if that fails."""
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
        driver = GreedyDriver(
            run.rewriter, function, self._chooser, top_down=True, max_iterations=ITERATIONS
        )
        self._stack.append(_Frame(function, driver))
        self._waiting.add(function)
        return True

    def _replace_sizes(self, key: Key) -> bool:
        """Replace arguments that are constant sizes by constants, and remove them."""
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
        """Has the function been refined for this key?  `None`, with an error, if for another."""
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
        """Refine to the sizes in shape operands; a wrapper of the final type is replaced."""
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
        """Refine to the inferred types; an op with regions only if its types have changed.

        A change in a region pushes all ops around it, so that this would repeat without an end.
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
        """Refine the called function first; then apply its result types to the call."""
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
        """Apply a refined function to one of its calls: result types, constants, removed sizes."""
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
    """Remove unused arguments of a function, with their types and attributes."""
    kept = [k for k in range(len(body.arguments)) if k not in which]
    body.arguments = tuple([body.arguments[k] for k in kept])
    for k, argument in enumerate(body.arguments):
        argument.index = k
    inputs = signature_of(function).inputs
    set_signature(rewriter, function, inputs=[inputs[k] for k in kept if k < len(inputs)])
    _drop_attributes(rewriter, function, which)


def _drop_attributes(rewriter: Rewriter, op: Operation, which: Sequence[int]) -> None:
    """Remove the attributes of some arguments of a function or call."""
    given = op.properties.get("arg_attrs")
    if isinstance(given, ArrayAttr):
        kept = tuple([each for k, each in enumerate(given.elements) if k not in which])
        rewriter.set_properties(op, {**op.properties, "arg_attrs": ArrayAttr(kept)})


def refine(run: Run, more: Iterable[Pattern] = ()) -> None:
    """Refine a module, with additional patterns in `more`."""
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
