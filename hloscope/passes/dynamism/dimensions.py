"""Dimension variables of programs that `jax.export` wrote, and assertions about sizes."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hloscope.errors import HloscopeError, did_you_mean
from hloscope.ir import ELEMENT_TYPES, ElementType, TensorType, Type
from hloscope.mlir import ArrayAttr, DictAttr, IntegerAttr, Operation, StringAttr, Value
from hloscope.passes.conversion import shaped
from hloscope.passes.dynamism.values import integer
from hloscope.passes.framework import Option, Pass, Run
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Dimension variables of programs that `jax.export` wrote: names, and sizes that use them.
#
# Shape assertions contain the sizes of arguments as text: `args[0].shape = (b, 2*h, 3)`.
#
# Source: JAX `export/shape_poly.py`.


class DimensionError(HloscopeError):
    """A dimension variable does not exist, or argument sizes do not follow from the variables."""

    exit_code = 2


class Specification(NamedTuple):
    """Sizes of a program's arguments in terms of dimension variables.

    Attributes:
        names: The dimension variables, in the order of the program's arguments.
        sizes: The text of each size of each dynamic argument, by argument number; `?` if unknown.
    """

    names: tuple[str, ...]
    sizes: dict[int, tuple[str, ...]]


_SPECIFIED: Final = "polymorphic shapes specifications: "
_SHAPE: Final = pattern(r"\.shape = \(")
_MOST_TEXT: Final = 1000
_MOST_BITS: Final = 256
_SIZE: Final = "stablehlo.get_dimension_size"


def specification(tree: Operation) -> Specification:
    """Return the sizes of a program's arguments as expressions of its dimension variables.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> specification(parse_stablehlo("func.func @main(%a: tensor<?xf32>) { return }").tree)
    Specification(names=(), sizes={0: ('?',)})
    """
    functions, main, arguments = _functions(tree), entry_of(tree), arguments_of(tree)
    if main is None:
        return Specification((), {})
    dynamic = {
        number: ["?" if size is None else str(size) for size in argument.type.sizes]
        for number, argument in enumerate(arguments)
        if isinstance(argument.type, TensorType) and not argument.type.is_static
    }
    names = tuple(dict.fromkeys(name for f in functions for _, name in _constants(f)))
    # The assertions list dynamic arguments in order, without numbers: the ranks must match.
    written = next(_asserted_sizes(main), None)
    if written is not None and [*map(len, written)] == [*map(len, dynamic.values())]:
        for texts, declared in zip(dynamic.values(), written, strict=True):
            texts[:] = [
                new if old == "?" else old for old, new in zip(texts, declared, strict=True)
            ]
    # Fallback: the program measures a size of an argument and passes it as a variable.
    for name, number, dimension in _measured_sizes(functions, arguments):
        if number in dynamic and dynamic[number][dimension] == "?":
            dynamic[number][dimension] = name
    return Specification(names, {k: tuple(texts) for k, texts in dynamic.items()})


def _constants(function: Operation) -> Iterator[tuple[int, str]]:
    """Yield (index, name) for each argument of a function that holds a dimension variable."""
    given = function.get("arg_attrs")
    for number, each in enumerate(given.elements if isinstance(given, ArrayAttr) else ()):
        name = dict(each.entries).get("jax.global_constant") if isinstance(each, DictAttr) else None
        if isinstance(name, StringAttr) and name.text.isidentifier() and name.text[0] != "_":
            yield number, name.text


def _asserted_sizes(main: Operation) -> Iterator[list[list[str]]]:
    """Yield, for each assertion in `main`, the argument sizes that its error message states.

    An item has a list for each dynamic argument, with the texts of its sizes, such as `["b",
    "2*b"]`.
    """
    for op in main.regions[0].blocks[0]:
        message = op.get("error_message") if is_assertion(op) else None
        if not isinstance(message, StringAttr):
            continue
        _, found, text = message.text.partition(_SPECIFIED)
        if found:
            yield [*_shapes(text)]


def _shapes(text: str) -> Iterator[list[str]]:
    """Yield the texts of the sizes in each `….shape = (…)` of an error message."""
    at = 0
    while (
        found := _SHAPE.match(text, (text.find(".shape", at) + 1 or len(text) + 1) - 1)
    ) is not None:
        depth, start, sizes = 1, found.end(), []
        for at in range(start, len(text)):
            letter = text[at]
            depth += (letter == "(") - (letter == ")")
            if depth == 0 or (depth == 1 and letter == ","):
                sizes.append(text[start:at].strip())
                start = at + 1
            if depth == 0:
                break
        yield [size for size in sizes if size]


def _measured_sizes(
    functions: Sequence[Operation], arguments: Sequence[Value]
) -> Iterator[tuple[str, int, int]]:
    """Yield (name, argument, dimension) for dimension variables that are the size of an argument.

    Such a variable is passed to a function by a call in `main`.

    Args:
        functions: The functions of the module.
        arguments: The arguments of `main`; the yielded argument is an index into them.
    """
    callees = {f.get("sym_name"): dict(_constants(f)) for f in functions}
    block = arguments[0].owner if arguments else None
    for op in getattr(block, "operations", ()):
        callee = op.get("callee") if op.name == "func.call" else None
        names = callees.get(StringAttr(getattr(callee, "root", "").encode()), {})
        for number, name in names.items():
            found = _size_of(op.operands[number]) if number < len(op.operands) else None
            if found is not None and found[0] in arguments:
                yield name, arguments.index(found[0]), found[1]


def _size_of(value: Value) -> tuple[Value, int] | None:
    """Return the tensor and the dimension whose size `value` is.

    `None` if `value` is no such size.
    """
    owner = value.owner
    for _ in range(8):
        if isinstance(owner, Operation) and owner.name == "stablehlo.convert":
            owner = owner.operands[0].owner
    if not isinstance(owner, Operation) or owner.name != _SIZE:
        return None
    dimension = owner.get("dimension")
    return (owner.operands[0], dimension.value) if isinstance(dimension, IntegerAttr) else None


# --------------------------------------------------------------------------------------- computing

_BINARY: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLED: Final[dict[str, Callable[..., int]]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}


def size_of_text(text: str, sizes: Mapping[str, int]) -> int:
    """Return the value of an expression of dimension variables; `sizes` has their values.

    Raises:
        DimensionError: The text is not an expression, or a variable has no size.

    >>> size_of_text("2*b + floordiv(s, 3)^2", {"b": 5, "s": 7})
    14
    """
    if len(text) > _MOST_TEXT:
        raise DimensionError(f"the size `{text[:60]}…` is too long")
    try:
        tree = ast.parse(text.replace("^", "**"), mode="eval").body
        return _computed(tree, sizes)
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        raise DimensionError(f"size `{text}` is not an expression of dimension variables") from None
    except ZeroDivisionError:
        raise DimensionError(f"the size `{text}` divides by zero") from None


def _computed(node: ast.expr, sizes: Mapping[str, int]) -> int:
    """Return the value of a parsed expression; `sizes` has the values of the dimension variables.

    Raises:
        ValueError: The syntax is not supported, or a number is too large.
    """
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            found = value
        case ast.Name(id=name):
            if name not in sizes:
                raise DimensionError(f"no size is given for `{name}`")
            found = sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            found = -_computed(inner, sizes)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, power = _computed(left, sizes), _computed(right, sizes)
            # The bits of a power are bounded before it is computed.
            if not 0 <= power <= _MOST_BITS:
                raise ValueError("power")
            found = base**power if abs(base).bit_length() * power <= _MOST_BITS else 1 << _MOST_BITS
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            found = _BINARY[type(op)](_computed(left, sizes), _computed(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLED:
            found = _CALLED[name](*[_computed(arg, sizes) for arg in args])
        case _:
            raise ValueError("no size")
    if abs(found) >= 1 << _MOST_BITS:
        raise ValueError("too large")
    return found


def argument_types(tree: Operation, sizes: Mapping[str, int]) -> list[Type]:
    """Return the argument types of a program for given values of its dimension variables.

    `sizes` has the value of each variable by name.

    Raises:
        DimensionError: A variable does not exist or has no value, a value is negative, or a size
            does not follow from the variables.
    """
    declared = specification(tree)
    # Without declared variables, the identifiers in the sizes are taken for them.
    known = declared.names or tuple(
        dict.fromkeys(
            name
            for texts in declared.sizes.values()
            for text in texts
            for name in _variables_in(text)
        )
    )
    for name, size in sizes.items():
        if name not in known:
            raise DimensionError(_no_variable(name, known))
        if size < 0:
            raise DimensionError(f"the size of `{name}` is {size}, needs 0 or more")
    missing = [name for name in known if name not in sizes]
    if missing:
        raise DimensionError(f"no size is given for `{'`, `'.join(missing)}`")
    arguments = arguments_of(tree)
    types: list[Type] = []
    for number, argument in enumerate(arguments):
        type = argument.type
        if number in declared.sizes and isinstance(type, TensorType):
            type = _sized_by(type.element, number, declared.sizes[number], sizes)
        types.append(type)
    return types


def _no_variable(name: str, known: Sequence[str]) -> str:
    if not known:
        return "the program has no dimension variables; give types of its arguments instead"
    near = did_you_mean(name, known) or f"; there are `{'`, `'.join(known)}`"
    return f"no dimension variable is called `{name}`{near}"


def _sized_by(
    element: ElementType, number: int, texts: Sequence[str], sizes: Mapping[str, int]
) -> TensorType:
    """Return the type of an argument whose sizes are the values of expressions.

    Args:
        element: Element type.
        number: Index of the argument, for messages.
        texts: Expression of each size; `?` if it is unknown.
        sizes: Values of the dimension variables.

    Raises:
        DimensionError: A size is unknown or negative.
    """
    found: list[int | None] = []
    for dimension, text in enumerate(texts):
        if text == "?":
            raise DimensionError(
                f"size {dimension} of argument {number} does not follow from dimension variables;"
                " give types of the arguments instead"
            )
        size = size_of_text(text, sizes)
        if size < 0:
            raise DimensionError(f"size {dimension} of argument {number}, `{text}`, is {size}")
        found.append(size)
    return shaped(element, *found)


def _variables_in(text: str) -> list[str]:
    words = re.findall(r"[A-Za-z_]\w*", text)
    return [word for word in words if word not in _CALLED]


def entry_of(tree: Operation) -> Operation | None:
    """Return the entry function: `main`, or the only function.

    `None` if there is none with a body.
    """
    functions = _functions(tree)
    main = (f for f in functions if f.get("sym_name") == StringAttr(b"main"))
    found = next(main, functions[0] if len(functions) == 1 else None)
    return found if found is not None and found.regions and found.regions[0].blocks else None


def arguments_of(tree: Operation) -> Sequence[Value]:
    """Return the block arguments of a program's entry function; none if there is no entry."""
    entry = entry_of(tree)
    return () if entry is None else entry.regions[0].blocks[0].arguments


def _functions(tree: Operation) -> list[Operation]:
    return [op for op in tree.inside if op.name == "func.func"]


# --------------------------------------------------------------------------------------------------
# `stablehlo-check-shape-assertions`: checks assertions about sizes, and erases them.
#
# Source: StableHLO `StablehloCheckShapeAssertions.cpp`.


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


def _form_error(op: Operation) -> str:
    """Return an error message about the form of an assertion; empty if it is well-formed."""
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
    """Is attribute `name` an empty `called_computations`, which any custom call may have?"""
    return name == "called_computations" and getattr(op.get(name), "elements", None) == ()


def _is_scalar(value: Value, elements: Sequence[object]) -> bool:
    type = value.type
    return isinstance(type, TensorType) and type.rank == 0 and type.element in elements


def _wrong_specifier(message: str, count: int) -> str:
    """Return an error about a number in braces that is not below `count`; else empty.

    `message` is the message template of an assertion.
    """
    for found in _INDEX.finditer(message):
        text = found[1]
        if re.fullmatch(r"[-+]?\d+", text) and not 0 <= int(text[:20]) < count:
            return (
                "expects error_message to contain format specifiers with error_message_input"
                f" index less than {count}. Found specifier {{{text}}}"
            )
    return ""


def check_assertion(run: Run, op: Operation) -> None:
    """Erase an assertion whose condition is the constant true.

    Report an error for any other one.
    """
    problem = _form_error(op)
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
    """Return the error message of an assertion that fails, with its numbers inserted."""
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
    """Check and erase all assertions of a module; errors are reported to `run`.

    If the pass option says so, all are erased unchecked.
    """
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


# --------------------------------------------------------------------------------------------------
# Message templates with numbers, in the format of LLVM's `formatv`.
#
# Source: LLVM's `FormatVariadic.cpp`, `FormatProviders.h`.


_MOST_WIDTH: Final = 1 << 16
_SPECIFIER: Final = pattern(r"\s*(\d*)\s*(?:,\s*(.??[-=+])??(\d+)\s*)?(?::(.*))?", re.DOTALL)
_UNTERMINATED: Final = "Unterminated brace sequence. Escape with {{ for a literal brace."


class _Piece(NamedTuple):
    """One piece of a message template: literal text, or a specifier, the text between braces."""

    text: str
    is_specifier: bool


def _pieces(text: str) -> Iterator[_Piece]:
    """Yield the pieces of a message template.

    `{{` is a literal brace, not the start of a specifier.
    """
    while text:
        if not text.startswith("{"):
            plain, brace, rest = text.partition("{")
            yield _Piece(plain, is_specifier=False)
            text = brace + rest
            continue
        count = len(text) - len(text.lstrip("{"))
        if count > 1:
            yield _Piece("{" * (count // 2), is_specifier=False)
            text = text[count // 2 * 2 :]
            continue
        close, again = text.find("}"), text.find("{", 1)
        if close < 0:
            yield _Piece(_UNTERMINATED, is_specifier=False)
            return
        if 0 < again < close:  # an opening brace without a closing one is literal text
            yield _Piece(text[:again], is_specifier=False)
            text = text[again:]
            continue
        yield _Piece(text[1:close], is_specifier=True)
        text = text[close + 1 :]


def formatted(template: str, numbers: Sequence[int]) -> str:
    """Return a message template with `{0}`, `{1,8}`, `{0:x}` replaced by numbers.

    The number before `,` or `:` is an index into `numbers`; a missing number is -1.

    >>> formatted("{0} and {1,4} of {} {{", [7, -2])
    '7 and   -2 of 7 {'
    """
    automatic = 0
    parts: list[str] = []
    for text, is_specifier in _pieces(template):
        if not is_specifier:
            parts.append(text)
            continue
        found = _SPECIFIER.fullmatch(text)
        if found is None:
            continue
        index, where, width, style = found.groups()
        if index:
            number = int(index[:9])
        else:
            number, automatic = automatic, automatic + 1
        value = numbers[number] if number < len(numbers) else -1
        parts.append(_padded(_number(value, (style or "").strip()), where or "", width))
    return "".join(parts)


def _padded(text: str, where: str, width: str | None) -> str:
    """Return a text filled to `width` characters, as LLVM's `formatv` does.

    `where` is the alignment `-` (left), `=` (centre) or `+`, after a fill character if there is
    one.
    """
    size = min(int(width[:9]), _MOST_WIDTH) if width else 0
    fill, alignment = (where[0], where[1]) if len(where) == 2 else (" ", where)
    missing = max(size - len(text), 0)
    if alignment == "-":
        return text + fill * missing
    if alignment == "=":
        return fill * (missing // 2) + text + fill * (missing - missing // 2)
    return fill * missing + text


_STYLE: Final = pattern(r"(?:([xX])([-+]?)|([NnDd]?))(\d*)")


def _number(value: int, style: str) -> str:
    """Return an integer as text in the style after the colon of `{0:x}`, as LLVM formats it."""
    found = _STYLE.fullmatch(style)
    if found is None:
        return str(value)
    kind, prefix, decimal, digits = found.groups()
    least = min(int(digits[:9] or 0), _MOST_WIDTH)
    if kind is None:
        sign, magnitude = "-" * (value < 0), abs(value)
        text = f"{magnitude:,}" if decimal in ("N", "n") and decimal else str(magnitude)
        return sign + text.rjust(least, "0") if decimal not in ("N", "n") else sign + text
    text = f"{value & (1 << 64) - 1:x}"
    text = text.upper() if kind == "X" else text
    if prefix == "-":
        return text.rjust(least, "0")
    return "0x" + text.rjust(least, "0")
