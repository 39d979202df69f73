"""`stablehlo-check-shape-assertions`: checks assertions about sizes, and erases them.

Source: StableHLO `StablehloCheckShapeAssertions.cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hloscope.ir import ELEMENT_TYPES, TensorType
from hloscope.lazy import pattern
from hloscope.mlir import DictAttr, Operation, StringAttr, Value
from hloscope.passes.dynamism.constants import integer
from hloscope.passes.dynamism.messages import formatted
from hloscope.passes.framework import Option, Pass, Run

TARGET: Final = "shape_assertion"
_ALLOWED: Final = frozenset(
    ["api_version", "backend_config", "call_target_name", "error_message", "has_side_effect"]
)
_MOST_INPUTS: Final = 32
_INPUTS: Final = (ELEMENT_TYPES["s32"], ELEMENT_TYPES["s64"])
_INDEX: Final = pattern(r"\{([^,:}]*)")


def is_assertion(op: Operation) -> bool:
    """Is the op a custom call that asserts a condition on sizes?"""
    if op.name != "stablehlo.custom_call":
        return False
    target = op.get("call_target_name")
    return isinstance(target, StringAttr) and target.value == TARGET.encode()


def _problem(op: Operation) -> str:
    """Return the violated constraint of an assertion's form; empty if it is well-formed."""
    if not 1 <= len(op.operands) <= _MOST_INPUTS + 1:
        return f"expects 1 <= size(operands) <= {_MOST_INPUTS + 1}"
    if op.results:
        return "expects size(results) = 0"
    for name in sorted({*op.properties, *op.attributes}):
        if name not in _ALLOWED and not _is_default(op, name):
            return f'"{name}" is not a supported attribute'
    config = op.get("backend_config")
    if config not in (None, StringAttr(b""), DictAttr(())):
        return "expects an empty backend_config"
    if not _is_scalar(op.operands[0], (ELEMENT_TYPES["pred"],)):
        return "expects assert_what (operand #0) to be a constant of type tensor<i1>"
    for number, value in enumerate(op.operands[1:], 1):
        if not _is_scalar(value, _INPUTS):
            return (
                f"expects error_message_input (operand #{number}) to be a constant of type"
                " tensor<i32> or tensor<i64>"
            )
    message = op.get("error_message")
    if not isinstance(message, StringAttr):
        return "expects an error_message attribute"
    return _wrong_specifier(message.text, len(op.operands) - 1)


def _is_default(op: Operation, name: str) -> bool:
    """Is it the empty `called_computations`, which every custom call may have?"""
    return name == "called_computations" and getattr(op.get(name), "elements", None) == ()


def _is_scalar(value: Value, elements: Sequence[object]) -> bool:
    type = value.type
    return isinstance(type, TensorType) and type.rank == 0 and type.element in elements


def _wrong_specifier(message: str, count: int) -> str:
    for found in _INDEX.finditer(message):
        text = found[1]
        if re.fullmatch(r"[-+]?\d+", text) and not 0 <= int(text[:20]) < count:
            return (
                "expects error_message to contain format specifiers with error_message_input"
                f" index less than {count}. Found specifier {{{text}}}"
            )
    return ""


def check_assertion(run: Run, op: Operation) -> None:
    """Erase an assertion that holds; report an error for any other."""
    problem = _problem(op)
    if not problem:
        condition = integer(op.operands[0])
        if condition is None:
            problem = "expects static assert_what (operand #0)"
        elif condition:
            run.rewriter.erase(op)
            return
        else:
            problem = _failure_message(op)
    run.plain_error(op, problem)


def _failure_message(op: Operation) -> str:
    """Return the message of an assertion that does not hold."""
    inputs: list[int] = []
    for number, value in enumerate(op.operands[1:], 1):
        found = integer(value)
        if found is None:
            return f"expects static error_message_input (operand #{number})"
        inputs.append(found)
    message = op.get("error_message")
    assert isinstance(message, StringAttr)
    return formatted(message.text, inputs) if inputs else message.text


def check_assertions(run: Run) -> None:
    """Check all assertions, or erase them unchecked if the option is off."""
    for function in run.functions():
        for op in run.rewriter.walk(function):
            if is_assertion(op):
                if run.options["enable-shape-assertions"]:
                    check_assertion(run, op)
                elif not run.rewriter.is_used(op):
                    run.rewriter.erase(op)


CHECK_SHAPE_ASSERTIONS: Final = Pass(
    "stablehlo-check-shape-assertions",
    check_assertions,
    "Checks assertions about sizes, and erases them.",
    {
        "enable-shape-assertions": Option(
            default=True, help="Check the assertions; otherwise they are erased unchecked."
        )
    },
    on_functions=True,
)
