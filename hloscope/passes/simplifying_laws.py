"""Algebraic laws in a table, and the patterns that apply them; laws of reductions and sorts."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from hloscope.ir import Dims, ElementType, TensorType
from hloscope.mlir import (
    I64,
    Attribute,
    Block,
    DenseAttr,
    DictAttr,
    EnumAttr,
    IntegerAttr,
    Operation,
    Value,
    to_array,
)
from hloscope.passes.conversion import InsertionPoint
from hloscope.passes.folding import (
    body_of,
    fold_reduce_of_no_dimensions,
    fold_reduce_to_outer_values,
    fold_select,
)
from hloscope.passes.patterns import Known, LimitedRewrite, Limits, Patterns
from hloscope.passes.reading import defining_op, tensor_of
from hloscope.passes.regions import may_be_erased
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import CONSTANTS, i64_array
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Algebraic laws as rows, and the patterns that apply them.
#
# A law states that its left side equals its right side.  Terms are written with op names: `add(x,
# 0)`.  In terms, `x`, `y`, `z` are any values, equal for equal names; `c` is a constant and `n` is
# not; `0`, `1` and `ones` (all bits set) are splats.  A new splat requires a static type.  The side
# condition is a list of words of `CONDITIONS`, all true of the result's type.


_INTEGERS: Final = ("pred", "signed", "unsigned")

CONDITIONS: Final[Mapping[str, Callable[[TensorType], bool]]] = {
    "integer": lambda type: type.element.kind in _INTEGERS,
}
"""Predicates of the result type, by the name that `Law.when` uses."""


class Law(NamedTuple):
    """An algebraic law: the term `left` may be replaced by the term `right`.

    Attributes:
        left: Term to match.
        right: Replacement.
        when: Names of conditions in `CONDITIONS`, which must all hold.
        merges: Copy discardable attributes to the replacement.
        exception: Exception: the only elements whose value changes, in words; empty for most laws.
    """

    left: str
    right: str
    when: str = ""
    merges: bool = False
    exception: str = ""

    @property
    def name(self) -> str:
        """The name of the law in statistics and tests."""
        return f"{self.left} = {self.right}"


class Term(NamedTuple):
    """A term: an op with operands, or a variable, whose `operands` are `None`."""

    name: str
    operands: tuple[Term, ...] | None = None


def parse_term(text: str) -> Term:
    """Parse a term, such as `add(x, 0)`.

    >>> parse_term("add(x, 0)")
    Term(name='add', operands=(Term(name='x', operands=None), Term(name='0', operands=None)))
    """
    stack: list[list[Term]] = [[]]
    names: list[str] = []
    for word in _WORD.findall(text):
        match word:
            case "(":
                names.append(stack[-1].pop().name)
                stack.append([])
            case ")":
                operands = tuple(stack.pop())
                stack[-1].append(Term(names.pop(), operands))
            case ",":
                pass
            case _:
                stack[-1].append(Term(word))
    ((term,),) = stack
    return term


_WORD: Final = pattern(r"\w+|[(),]")
_SPLATS: Final = ("0", "1", "ones")
_Bound: TypeAlias = dict[str, Value]


def patterns_of(laws: Iterable[Law]) -> Patterns:
    """Return the laws as rewrites, in the same order."""
    rewrites = Patterns()
    for law in laws:
        left = parse_term(law.left)
        rewrites.add(law.name, f"stablehlo.{left.name}", _rewrite_of(law, left))
    return rewrites


def _rewrite_of(law: Law, left: Term) -> LimitedRewrite:
    """Return the rewrite function of a law, whose parsed left side is `left`."""
    right, words = parse_term(law.right), [CONDITIONS[word] for word in law.when.split()]
    makers = _makers(left)

    def rewrite(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
        operands = op.operands
        for place, names in makers:  # rejects most operations before the full match
            maker = operands[place].owner if place < len(operands) else None
            if not isinstance(maker, Operation) or maker.name not in names:
                return False
        bound = match(left, op, limits)
        if bound is None or len(op.results) != 1:
            return False
        type = tensor_of(op.results[0])
        if words and (type is None or not all(holds(type) for holds in words)):
            return False
        return _replaced(law, right, rewriter, op, bound)

    return rewrite


def _makers(left: Term) -> list[tuple[int, Container[str]]]:
    """Return the operands of `left` that only certain ops may define: position and op names.

    Such an operand is a term itself or a constant; other variables match any value.
    """
    found: list[tuple[int, Container[str]]] = []
    for place, term in enumerate(left.operands or ()):
        if term.operands is not None:
            found.append((place, (f"stablehlo.{term.name}",)))
        elif term.name in (*_SPLATS, "c"):
            found.append((place, CONSTANTS))
    return found


def _replaced(law: Law, right: Term, rewriter: Rewriter, op: Operation, bound: _Bound) -> bool:
    """Replace an operation that a law matches by the law's right side; return whether that worked.

    `right` is the parsed right side, `bound` has the value of each variable.
    """
    if right.operands is not None:  # the same op with other operands
        operands = [bound[term.name] for term in right.operands]
        if f"stablehlo.{right.name}" != op.name or operands == [*op.operands]:
            return False
        rewriter.set_operands(op, operands)
        return True
    value = bound.get(right.name)
    if value is None:
        return replace_by_splat(rewriter, op, int(right.name))
    return replace_by_value(rewriter, op, value, merges=law.merges)


def match(left: Term, op: Operation, limits: Limits) -> _Bound | None:
    """Match an operation against the term `left`; return the value of each variable.

    The result is `None` if the operation does not match.
    """
    bound: _Bound = {}
    work: list[tuple[Term, Operation]] = [(left, op)]
    for term, producer in work:
        operands = term.operands or ()
        if len(producer.operands) != len(operands):
            return None
        for inner, value in zip(operands, producer.operands, strict=True):
            if inner.operands is not None:
                maker = defining_op(value, f"stablehlo.{inner.name}")
                if maker is None:
                    return None
                work.append((inner, maker))
            elif not _fits(inner.name, value, limits, bound):
                return None
    return bound


def _fits(name: str, value: Value, limits: Limits, bound: _Bound) -> bool:
    """Bind variable `name` to a value in `bound`.

    Return false if it is bound to another value, or if the variable does not allow this value.
    """
    if bound.setdefault(name, value) is not value:
        return False
    if name in ("c", "n"):
        return limits.is_constant(value) == (name == "c")
    return name not in _SPLATS or _is_splat_of(name, limits.known(value))


def _is_splat_of(name: str, known: Known | None) -> bool:
    if known is None or not known.is_splat:
        return False
    return name in _splat_names(bytes(known.raw), known.type.element)


def _splat_names(raw: bytes, element: ElementType) -> tuple[str, ...]:
    """Return which of the names `0`, `1` and `ones` (all bits) an element has, given its bytes."""
    if element.kind not in (*_INTEGERS, "float"):
        return ()
    value = to_array(DenseAttr(raw, TensorType(element, ()))).item()
    names = tuple([name for name in ("0", "1") if value == int(name)])
    bits = 1 if element.kind == "pred" else element.bits
    is_all = int.from_bytes(raw, "little") == (1 << bits) - 1 and element.kind != "float"
    return (*names, "ones") if is_all else names


# --------------------------------------------------------------------------------------------------
# Laws of element-wise ops.


ROWS: Final = (
    #   left                     right              when
    Law("add(c, n)",             "add(n, c)",       merges=True),
    Law("add(x, 0)",             "x",               merges=True, exception="-0 + 0 is 0"),
    Law("and(c, n)",             "and(n, c)",       merges=True),
    Law("and(x, 0)",             "0"),
    Law("and(x, ones)",          "x",               merges=True),
    Law("maximum(c, n)",         "maximum(n, c)",   merges=True),
    Law("minimum(c, n)",         "minimum(n, c)",   merges=True),
    Law("multiply(c, n)",        "multiply(n, c)",  merges=True),
    Law("multiply(x, 0)",        "0",               "integer", merges=True),
    Law("multiply(x, 1)",        "x",               merges=True),
    Law("or(c, n)",              "or(n, c)",        merges=True),
    Law("or(x, ones)",           "ones",            merges=True),
    Law("or(x, 0)",              "x",               merges=True),
    Law("xor(c, n)",             "xor(n, c)",       merges=True),
    Law("xor(x, x)",             "0"),
    Law("xor(x, 0)",             "x"),
    Law("subtract(x, x)",        "0",               "integer"),
    Law("subtract(x, 0)",        "x",               merges=True, exception="-0 - -0 is 0"),
    Law("complex(real(x), imag(x))", "x"),
    Law("real(complex(x, y))",   "x"),
    Law("imag(complex(x, y))",   "y"),
    Law("select(not(x), y, z)",  "select(x, z, y)", merges=True),
    Law("select(x, y, y)",       "y"),
    Law("select(ones, x, y)",    "x"),
    Law("select(0, x, y)",       "y"),
)  # fmt: skip
"""The laws; those for one op are tried in this order."""

LAWS: Final = patterns_of(ROWS)
ELEMENTWISE: Final = Patterns()
"""Patterns of element-wise ops that are not laws: they read attributes or create several ops."""

_MIRRORED: Final = {"EQ": "EQ", "NE": "NE", "GE": "LE", "GT": "LT", "LE": "GE", "LT": "GT"}
_TRUE_OF_EQUALS: Final = ("EQ", "GE", "LE")


def _integer_comparison(op: Operation) -> str | None:
    """Return the direction of a `compare` of integers; `None` for any other op.

    The attribute `compare_type` must declare integers, too.
    """
    direction, kind = op.get("comparison_direction"), op.get("compare_type")
    if not isinstance(direction, EnumAttr) or not isinstance(kind, EnumAttr):
        return None
    type = tensor_of(op.operands[0]) if len(op.operands) == 2 else None
    if type is None or type.element.kind not in ("pred", "signed", "unsigned"):
        return None
    known = kind.value in ("SIGNED", "UNSIGNED") and direction.value in _MIRRORED
    return direction.value if known else None


@ELEMENTWISE.on("stablehlo.compare")
def compare_with_itself(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `compare(x, x)` of integers by a constant."""
    direction = _integer_comparison(op)
    if direction is None or op.operands[0] is not op.operands[1]:
        return False
    return replace_by_splat(rewriter, op, int(direction in _TRUE_OF_EQUALS))


@ELEMENTWISE.on("stablehlo.compare")
def compare_constant_right(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Move the constant of an integer `compare` to the right, and mirror the direction."""
    direction = _integer_comparison(op)
    if direction is None:
        return False
    left, right = op.operands
    if not limits.is_constant(left) or limits.is_constant(right):
        return False
    mirrored = EnumAttr("stablehlo", "comparison_direction", _MIRRORED[direction])
    rewriter.set_properties(op, {**op.properties, "comparison_direction": mirrored})
    rewriter.set_operands(op, (right, left))
    return True


@ELEMENTWISE.on("stablehlo.compare")
def compare_of_booleans(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `x != false` and `x == true` by `x`."""
    direction = op.get("comparison_direction")
    if not isinstance(direction, EnumAttr) or len(op.operands) != 2:
        return False
    value, other = op.operands
    known = limits.known(other)
    if known is None or not known.is_splat or known.type.element.kind != "pred":
        return False
    if (direction.value, bool(known.element)) not in (("NE", False), ("EQ", True)):
        return False
    return replace_by_value(rewriter, op, value)


@ELEMENTWISE.on("stablehlo.select")
def select_by_broadcast_of_not(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `select(broadcast(not(p)), t, f)` by `select(broadcast(p), f, t)`."""
    if len(op.operands) != 3:
        return False
    predicate, on_true, on_false = op.operands
    broadcast = defining_op(predicate, "stablehlo.broadcast_in_dim")
    if broadcast is None or len(broadcast.operands) != 1 or rewriter.uses(predicate) != 1:
        return False
    inverse = defining_op(broadcast.operands[0], "stablehlo.not")
    if inverse is None or len(inverse.operands) != 1:
        return False
    at = InsertionPoint(rewriter, op)
    given = at.make(broadcast.name, predicate.type, *inverse.operands, **broadcast.properties)
    return rewriter.replace_by(op, op.name, (given, on_false, on_true), op.properties)


ELEMENTWISE.add("select_of_constants", "stablehlo.select", fold_select)


# --------------------------------------------------------------------------------------------------
# Simplification of reductions and sorts: unused operands and results are removed.


REDUCTION: Final = Patterns()
REDUCTION.add("reduce_of_no_dimensions", "stablehlo.reduce", fold_reduce_of_no_dimensions)
REDUCTION.add("reduce_to_outer_values", "stablehlo.reduce", fold_reduce_to_outer_values)


@REDUCTION.on("stablehlo.reduce")
def reduce_of_nothing(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a `reduce` of operands without elements by broadcasts of its initial values."""
    half = len(op.results)
    type = tensor_of(op.operands[0]) if half and op.operands else None
    if type is None or 0 not in type.sizes or len(op.operands) != 2 * half:
        return False
    types = [tensor_of(result) for result in op.results]
    if not all(found is not None and found.is_static for found in types):
        return False
    at = InsertionPoint(rewriter, op)
    values = [
        at.make("stablehlo.broadcast_in_dim", result.type, init, broadcast_dimensions=i64_array(()))
        for init, result in zip(op.operands[half:], op.results, strict=True)
    ]
    rewriter.replace(op, values)
    return True


@REDUCTION.on("stablehlo.reduce")
def reduce_without_unused(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Remove unused results of a `reduce`, with their operands.

    An operand is used through its initial value and through the body's two arguments for it. If a
    used result depends on the operand of an unused one, nothing is removed; upstream removes that
    operand, which may change the result.
    """
    half, found = len(op.results), body_of(op)
    used = [k for k, result in enumerate(op.results) if rewriter.uses(result)]
    if found is None or not used or len(used) == half or len(op.operands) != 2 * half:
        return False
    block, end = found
    if len(end.operands) != half or len(block.arguments) != 2 * half:
        return False
    needed = _needed(rewriter, block, [end.operands[k] for k in used])
    rest = [inner for inner in block.operations[:-1] if inner not in needed]
    # Operands that the used results depend on; a pair of arguments belongs to one operand.
    pairs = [
        k for k in range(half) if {block.arguments[k], block.arguments[k + half]} & needed.keys()
    ]
    if pairs != used or not all(map(may_be_erased, rest)):
        return False
    # The terminator's unused operands are removed first, then the body's unused ops, last first.
    rewriter.set_operands(end, [end.operands[k] for k in used])
    for inner in reversed(rest):
        rewriter.erase(inner)
    kept = [*used, *(k + half for k in used)]
    rewriter.keep_arguments(block, [block.arguments[k] for k in kept])
    rewriter.set_operands(op, [op.operands[k] for k in kept])
    rewriter.keep_results(op, [op.results[k] for k in used])
    return True


def _needed(rewriter: Rewriter, block: Block, values: list[Value]) -> dict[Value | Operation, None]:
    """Return the arguments and operations of a block on which `values` depend, in order."""
    needed: dict[Value | Operation, None] = {}
    work = [*values]
    while work:
        value = work.pop()
        owner = value.owner
        if owner is block:
            needed[value] = None
        elif isinstance(owner, Operation) and owner.parent is block and owner not in needed:
            needed[owner] = None
            for inner in rewriter.walk(owner):
                work += inner.operands
    return needed


# --------------------------------------------------------------------------------------------- sort


@REDUCTION.on("stablehlo.sort")
def sort_without_unused(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Remove operands of a `sort` whose result is unused and that the comparator does not read."""
    found, count = body_of(op), len(op.results)
    if found is None or len(op.operands) != count:
        return False
    arguments = found[0].arguments
    if len(arguments) != 2 * count:
        return False
    kept = [
        k
        for k in range(count)
        if any(map(rewriter.uses, (op.results[k], arguments[2 * k], arguments[2 * k + 1])))
    ]
    if not kept or len(kept) == count:
        return False
    pairs = [arguments[2 * k + side] for k in kept for side in (0, 1)]
    rewriter.keep_arguments(found[0], pairs)
    rewriter.set_operands(op, [op.operands[k] for k in kept])
    rewriter.keep_results(op, [op.results[k] for k in kept])
    return True


@REDUCTION.on("stablehlo.sort")
def sort_of_last_dimension(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace the dimension -1 of a `sort` by the number of the last dimension."""
    type = tensor_of(op.results[0]) if op.results else None
    number = op.get("dimension")
    given = number.value if isinstance(number, IntegerAttr) else -1
    if type is None or given != -1 or not type.rank:
        return False
    last = {"dimension": IntegerAttr(type.rank - 1, I64)}
    rewriter.set_properties(op, {**op.properties, **last})
    return True


# --------------------------------------------------------------------------------------------------
# Last steps of simplifications: replace an operation by a value or by a new operation.


def replace_by_value(
    rewriter: Rewriter, op: Operation, value: Value, *, merges: bool = False
) -> bool:
    """Replace the only result of an operation by `value`; return false if the types differ.

    With `merges`, discardable attributes are copied to the op that defines the value.
    """
    if len(op.results) != 1 or op.results[0].type != value.type:
        return False
    if value is op.results[0]:
        return False
    if merges:
        merge(rewriter, op, value)
    rewriter.replace(op, [value])
    return True


def replace_by_splat(rewriter: Rewriter, op: Operation, value: int) -> bool:
    """Replace an op by a splat of `value`: 0, or 1 for booleans and integers."""
    type = op.result.type
    if not isinstance(type, TensorType) or not type.is_static or not type.element.numpy:
        return False
    if value and type.element.kind not in ("pred", "signed", "unsigned"):
        return False
    width = -(-type.element.bits // 8) if type.num_elements else 0
    raw = value.to_bytes(width, "little") if width else b""
    rewriter.replace(op, [rewriter.constant(DenseAttr(raw, type), type, before=op)])
    return True


def is_identity(dimensions: Dims) -> bool:
    """Are the dimensions 0, 1, 2 and so on, in this order?"""
    return dimensions == tuple(range(len(dimensions)))


def same_static_count(one: TensorType | None, other: TensorType | None) -> bool:
    """Are both types static, with the same number of elements?"""
    if one is None or other is None or not one.is_static or not other.is_static:
        return False
    return one.num_elements == other.num_elements


# --------------------------------------------------------------------------------------------------
# Transfer of discardable attributes from a replaced op to its replacement.


_BY_ENTRY: Final = "mhlo.frontend_attributes"
"""Name of a dictionary attribute that is merged entry by entry."""
_OWN: Final = "xla_metadata_payload"
"""Entry of that dictionary of which the remaining op's value is used, if it has one."""


def merged(
    survivor: Mapping[str, Attribute], replaced: Mapping[str, Attribute]
) -> dict[str, Attribute]:
    """Return the union of the attributes of two ops, that of `survivor` and that of `replaced`.

    For a common name, the replaced op's attribute is taken.

    >>> from hloscope.mlir import UnitAttr
    >>> merged({"b": UnitAttr()}, {"a": UnitAttr()})
    {'a': UnitAttr(), 'b': UnitAttr()}
    """
    both = {**survivor, **replaced}
    old, new = survivor.get(_BY_ENTRY), replaced.get(_BY_ENTRY)
    if isinstance(old, DictAttr) and isinstance(new, DictAttr):
        entries = {**dict(old.entries), **dict(new.entries)}
        entries |= {name: value for name, value in old.entries if name == _OWN}
        both[_BY_ENTRY] = DictAttr(tuple(sorted(entries.items())))
    return dict(sorted(both.items()))


def merge(rewriter: Rewriter, replaced: Operation, value: Value) -> None:
    """Merge the attributes of a replaced op into those of the op that defines `value`, if any."""
    owner = value.owner
    if isinstance(owner, Operation) and replaced.attributes:
        both = merged(owner.attributes, replaced.attributes)
        if both != owner.attributes:
            rewriter.set_attributes(owner, both)
